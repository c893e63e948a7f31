"""The traces of one function that `jit` was given: an entry for each call signature, and ways into the latest ones.

A trace runs the function on arguments that have no values (`_traced`); a call with tensors that track, or in another
trace, replays its nodes onto the tape.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any
from weakref import KeyedRef, ref

import numpy as np

from codegen.forks import in_child
from codegen.ir import Aval, OutOfRange
from codegen.lazily import later
from codegen.runtime.cache import LRU
from codegen.symbols import typical

from . import tree
from .config import config
from .dispatch import include, observed
from .mode import MODE
from .ops.conversion import as_numpy
from .stand_ins import standing
from .tape.leaks import note_lost
from .tape.leaves import leaf as tensor_of
from .tape.lines import Lines
from .tape.misses import note
from .tape.modes import tracing
from .tape.node import Node, new_number
from .tape.plan import located
from .tape.record import ARGUMENT, argument, state
from .tape.walk import needed
from .tensor import AbstractTensor, Tensor
from .transforms.anomaly import runs_as_written
from .transforms.arguments import applied, argument_names, copied_constant, own, plain_results

if TYPE_CHECKING:
    from codegen.runtime import entered
    from codegen.runtime.entered import EnteredCall

    from . import argument_leaves, entering
    from . import entry as entries
    from .argument_leaves import Statics
    from .custom import host
    from .entry import SignatureEntry, Signed
else:  # for the first function that is called
    entered = later("codegen.runtime.entered")
    entries = later("autodiff.entry")
    host = later("autodiff.custom.host")
    argument_leaves = later("autodiff.argument_leaves")
    entering = later("autodiff.entering")

#: Entries kept per function.
ENTRIES = 256
#: The number of sizes that were not called again, after which others are expected not to come again.
SIZES = 3
#: Ways that are tried one after the other: each costs .04 µs that are lost when another fits; a call that none of them
#: fits takes 12, with tensors 27.
WAYS = 16
#: The number of calls of an entry, which no way fitted, that puts its own first again.  Of more than WAYS entries in
#: turn each is then put there once in so many calls, which costs next to nothing.
MISSED = 8

#: Not a WeakSet, which runs Python where one goes.
_functions: set[ref[Traces]] = set()


def _all_functions() -> list[Traces]:
    return [function for known in list(_functions) if (function := known()) is not None]


def _forget_entries() -> None:
    """All functions are traced again: what was compiled for them was compiled in another mode."""
    for function in _all_functions():
        function.forget()


config.forgetting.append(_forget_entries)


@in_child
def _renew_locks() -> None:
    """A forked child has no thread that would end a trace that was going on: it makes its own."""
    for function in _all_functions():
        function.lock = threading.RLock()


class Traces:
    """The entries of one function, by call signature."""

    def __init__(self, f: Callable, statics: Statics, enters: Callable[[], bool]) -> None:
        self.f, self.statics = f, statics
        self.enters = enters  # lets calls go by machine code, and says if they can
        self.function: Callable[[], Any] = lambda: None  # a weak reference to what `jit` gave for it
        self.entries = LRU(ENTRIES)  # None for a signature that ran as it was recorded
        self.latest: list[tuple] = []  # the signatures that were traced last
        self.is_left = False  # it was left once while it ran as it is recorded: all its sizes are traced
        self.front: dict[Any, SignatureEntry] = {}  # the entries whose ways are tried, the latest last
        self.ways: tuple[EnteredCall, ...] = ()  # of these, for machine code: see `autodiff.entering`
        self.gone: list[KeyedRef] = []  # static arguments that are gone: Python's next call drops their entries
        self.lock = threading.RLock()
        _functions.add(ref(self, _functions.discard))

    def call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Find or make the entry of this call, and run it."""
        if runs_as_written():
            return _eagerly(self.f, args, kwargs)
        signed = self._signed(args, kwargs)
        if state.now.unseen:
            return entries.run_inside(self.f, signed)
        if self._comes_once(signed):
            self.entries.put(signed.key, None)
            argument_leaves.watch(signed.key[1], signed.key, self.gone)
            result = entries.run_unseen(self.f, signed)
            if result is not entries.MISS:
                return result
            self.is_left = True
        entry, values = self._found(signed)
        now, tensors = state.now, [v for v in values if isinstance(v, Tensor)]
        if entry.narrow and not (now.tracing and tensors):
            numbers = {a: entries.present(v) for a, v in zip(entry.arguments, values, strict=True) if a.kind.out.weak}
            if not all([entries.is_narrow(made_of, numbers) for made_of in entry.narrow.values()]):
                entries.run_as_written(self.f, signed)  # raises where the number meets the array
        if now.tracing or (entry.tracks and (tensors or now.transforming)):
            return entries.replayed(entry, values)
        if not tensors and entry.tensors:
            now.asked, now.looked = now.asked + 1, now.looked + 1  # an array is made of what is in tensors
        found = self._run(entry, values)
        leaves = []
        for position, given in zip(entry.outputs, entry.results, strict=True):
            if position is None:
                leaves.append(given)
            else:
                value = found[position]
                leaves.append(tensor_of(value) if tensors else value if value.shape else value[()])
        if not tensors and entry.loses and MODE.get().tracks:
            leaves = note_lost(leaves, f"jit of {getattr(self.f, '__name__', 'f')}", f"a tensor {entry.loses}")
        return tree.unflatten(entry.structure, leaves)

    def _run(self, entry: SignatureEntry, values: list[Any]) -> tuple:
        """The executable's results on these values, and on the present contents of what is hidden."""
        if entry.executable is None:
            return ()
        arguments = entries.arguments_of(entry, values)
        try:
            return entry.executable.call(*arguments)
        except OutOfRange as error:
            raise located(error, entry.graph, arguments, getattr(self.f, "__name__", "")) from None

    def entry(self, args: tuple, kwargs: dict[str, Any]) -> tuple[SignatureEntry, list[Any]]:
        """The entry of a call signature, and the values of its run-time leaves."""
        return self._found(self._signed(args, kwargs))

    def _signed(self, args: tuple, kwargs: dict[str, Any]) -> Signed:
        """A call taken apart."""
        args, kwargs = self.statics.marked(args, kwargs)
        given, structure = tree.flatten((args, kwargs))
        leaves = argument_leaves.leaves_of(self.f, [as_numpy(x) for x in given], structure)
        return entries.Signed((structure, tuple([x.key for x in leaves]), MODE.get().tracks), structure, leaves)

    def _comes_once(self, signed: Signed) -> bool:
        """True if a size is expected not to come again: it is new, and none of the latest ones was called twice."""
        now = state.now
        is_recorded = now.start and not (now.body or MODE.get().careful)  # in no trace, rule or custom forward
        if len(self.latest) < SIZES or self.is_left or not (is_recorded and config.patience):
            return False
        if signed.key in self.entries or signed.key in self.front:
            return False
        latest = [self.entries.get(key) for key in self.latest]
        if any([e is None or e.way is not entries.MISS for e in latest]):
            return False
        form = _without_extents(signed.key)
        return all([_without_extents(key) == form for key in self.latest])

    def _found(self, signed: Signed) -> tuple[SignatureEntry, list[Any]]:
        """The entry of a call that was taken apart, and the values of its run-time leaves."""
        key = signed.key
        values = [leaf.value for leaf in signed.leaves if leaf.value is not None]
        while self.gone:
            self._drop(self.gone.pop().key)
        entry = self.entries.get(key)
        if entry is not None and not entry.fits:
            self._drop(key)
            entry = None
        if entry is None:
            with self.lock:
                entry = self.entries.get(key)
                if entry is None:
                    entry = self._trace(signed)
                    if entry.enclosing:
                        return entry, values
                    self.entries.put(key, entry)
                    why = argument_leaves.why_traced(self.f, key, self.latest[-1] if self.latest else None)
                    note(f"jit {getattr(self.f, '__name__', 'f')}", why)
                    self.latest = [*self.latest, key][-SIZES:]
                    entry.choices.on_change(lambda: self._drop(key))
                    argument_leaves.watch(key[1], key, self.gone)
        else:
            include(entry.choices)
            self._repeat(entry, signed)
        return entry, values

    def _repeat(self, entry: SignatureEntry, signed: Signed) -> None:
        """Another call of an entry: from now on it goes from plain code straight into machine code.

        Its ways are tried before all others if this one is new, or would have served several calls by now.
        """
        if MODE.get().careful:
            return  # calls from plain code may follow
        with self.lock:
            if entry.way is entries.MISS:
                entry.way = entering.entered_call(entry, signed) if self.enters() else None
            elif entry.way is not None and signed.key not in self.front:
                entry.missed = (entry.missed + 1) % MISSED
            else:
                return
            if entry.way is None or entry.missed:
                return
            self.front[signed.key] = entry
            while len(self.front) > WAYS:
                del self.front[next(iter(self.front))]
            self._enter()

    def forget(self) -> None:
        """Drop all entries."""
        with self.lock:
            self.entries.clear()
            self.front.clear()
            self._enter()

    def _drop(self, key: Any) -> None:
        """A method was registered that changes what the trace of this entry would do."""
        self.entries.pop(key)
        if self.front.pop(key, None) is not None:
            self._enter()

    def _enter(self) -> None:
        """Let machine code try the ways of the front."""
        self.ways = tuple([e.way for e in reversed(self.front.values())])
        function = self.function()
        if function is not None and self.ways:
            function.site = entered.site(self.ways)
        elif function is not None and hasattr(function, "site"):
            del function.site

    def _trace(self, signed: Signed, compiles: bool = True) -> SignatureEntry:
        """Trace the function; where a host forward has to be known by its values first, run it once on them."""
        try:
            return self._traced(signed, compiles)
        except host.Unlearnt:
            if state.now.tracing:
                raise  # the outermost trace has values
        entries.run_as_written(self.f, signed)
        return self._traced(signed, compiles)

    def frozen(self, avals: Sequence[Aval]) -> SignatureEntry:
        """The trace for arrays of these avals, in which extents may be symbols: it is not compiled."""
        arrays = [np.broadcast_to(np.zeros((), a.dtype), [*map(typical, a.shape)]) for a in avals]
        keys = [("array", a.shape, a.dtype, False) for a in avals]
        leaves = [argument_leaves.ArgumentLeaf(key, x, x) for key, x in zip(keys, arrays, strict=True)]
        return self._trace(entries.Signed((), tree.flatten((tuple(arrays), {}))[1], leaves), compiles=False)

    def _traced(self, signed: Signed, compiles: bool) -> SignatureEntry:
        """Run the function once on arguments without values."""
        now = state.now
        before, (_, structure, leaves) = new_number(), signed
        arguments: list[Node] = []
        given = []
        for leaf in leaves:
            if leaf.value is None:
                given.append(leaf.given)
                continue
            kind, shape, dtype, tracks = leaf.key
            weak = kind not in (*argument_leaves.ARRAYS, argument_leaves.SCALAR)
            t = argument(Aval(shape, dtype), weak=weak, requires_grad=tracks, number=kind == argument_leaves.SCALAR)
            arguments.append(t.node)
            given.append(standing(t, leaf.given))
        args, kwargs = tree.unflatten(structure, given)
        depth, lines, around = now.tracing, now.lines, now.narrowed
        has_own_lines = lines is None or lines.is_lasting
        own_lines, outside = Lines() if has_own_lines else lines, now.outside if depth else before
        captures: dict[Node, Any] = {}
        fixed: dict[Node, Any] = {}
        narrowed: set[Node] = set()
        try:
            with tracing(
                before, "closely", captures=captures, fixed=fixed, narrowed=narrowed, outside=outside, lines=own_lines
            ):
                if has_own_lines or lines.is_whole:
                    are_given = [leaf.value is not None for leaf in leaves]
                    own_lines.name(arguments, compress(argument_names(self.f, structure), are_given), self.f)
                with observed() as choices:
                    result = applied(self.f, args, kwargs)
                name = getattr(self.f, "__name__", "f")
                entry = entries.frozen(arguments, result, captures, name, before if depth else 0, compiles)
                entry.fixed = [(h, node.value) for node, h in fixed.items()]
                made_of = {node: needed([node]) for node in narrowed}
                entry.narrow = {
                    node: nodes for node, nodes in made_of.items()
                    if all([n in arguments for n in nodes if n.kind.op is ARGUMENT])
                }
                if depth:
                    around.update(narrowed.difference(entry.narrow))
                entry.choices = choices
                return entry
        finally:
            if has_own_lines:
                own_lines.end()


def _without_extents(key: tuple) -> tuple:
    """A signature without extents: equal for calls that differ in these alone."""
    structure, parts, *rest = key
    return structure, [p if p[0] == "static" else (p[0], len(p[1]), *p[2:]) for p in parts], *rest


def _eagerly(f: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The function itself: eager mode, so that a debugger finds values in it, or a search for anomalies."""
    leaves, structure = tree.flatten((args, kwargs))
    is_plain = not any(isinstance(x, AbstractTensor) for x in leaves)
    leaves = [own(x) if isinstance(x, AbstractTensor) else copied_constant(x) for x in leaves]
    args, kwargs = tree.unflatten(structure, leaves)
    result = applied(f, args, kwargs)
    if not is_plain or state.now.transforming:
        return result
    leaves, structure = tree.flatten(result)
    return tree.unflatten(structure, plain_results(leaves))
