"""The traces of one function that `jit` was given: an entry for each call signature, and its native call.

A trace runs the function on arguments that have no values (`_traced`); a call with tensors that track, or in another
trace, records the traced nodes once more on the tape.
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
from .transforms.arguments import applied, argument_names, constant_of, plain_results

if TYPE_CHECKING:
    from codegen.runtime import entered
    from codegen.runtime.entered import EnteredCall

    from . import argument_leaves, entering
    from . import entry as entries
    from .argument_leaves import Statics
    from .custom import host
    from .entry import SignatureEntry, Signed
else:  # imported when the first function is called
    entered = later("codegen.runtime.entered")
    entries = later("autodiff.entry")
    host = later("autodiff.custom.host")
    argument_leaves = later("autodiff.argument_leaves")
    entering = later("autodiff.entering")

#: Entries kept per function.
ENTRIES = 256
#: After this many sizes that were called only once, further sizes are expected to come only once.
SIZES = 3
#: The number of native calls that machine code tries in turn: a try that fails costs .04 µs; a call that none of them
#: fits takes 12 µs, with tensors 27.
MOST_TRIED = 16
#: After this many calls of an entry that no native call fitted, its own one is put first.  If more than MOST_TRIED
#: entries are called in turn, each of them is put first once in this many calls, which costs next to nothing.
RETRY_AFTER = 8

#: All functions, held weakly.  A WeakSet would run Python code whenever a function is freed.
_functions: set[ref[Traces]] = set()


def _all_functions() -> list[Traces]:
    return [function for known in list(_functions) if (function := known()) is not None]


def _forget_entries() -> None:
    """Drop the entries of all functions, whose code was compiled in another mode."""
    for function in _all_functions():
        function.forget()


config.forgetting.append(_forget_entries)


@in_child
def _renew_locks() -> None:
    """Give all functions new locks in a forked child, which has no thread that would release the present ones."""
    for function in _all_functions():
        function.lock = threading.RLock()


class Traces:
    """The entries of one function, by call signature."""

    def __init__(self, f: Callable, statics: Statics, enters: Callable[[], bool]) -> None:
        self.f, self.statics = f, statics
        self.enters = enters  # has machine code run the known calls, and returns True if it does
        self.function: Callable[[], Any] = lambda: None  # a weak reference to the function that `jit` returned for f
        self.entries = LRU(ENTRIES)  # by signature; None for a signature that ran without a trace
        self.latest: list[tuple] = []  # the signatures that were traced last
        self.always_traces = False  # True once f was left while it ran without a trace: all its sizes are then traced
        self.tried: dict[Any, SignatureEntry] = {}  # the entries whose native calls are tried, the latest last
        self.native_calls: tuple[EnteredCall, ...] = ()  # those of `tried`: see `autodiff.entering`
        self.gone: list[KeyedRef] = []  # references to freed static arguments: the next call drops their entries
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
            self.always_traces = True
        entry, values = self._found(signed)
        now, tensors = state.now, [v for v in values if isinstance(v, Tensor)]
        if entry.narrow and not (now.tracing and tensors):
            numbers = {a: entries.present(v) for a, v in zip(entry.arguments, values, strict=True) if a.kind.out.weak}
            if not all([entries.is_narrow(made_of, numbers) for made_of in entry.narrow.values()]):
                entries.run_as_written(self.f, signed)  # raises where the number and the array are combined
        if now.tracing or (entry.tracks and (tensors or now.transforming)):
            return entries.replayed(entry, values)
        if not tensors and entry.tensors:
            now.asked, now.float_asks = now.asked + 1, now.float_asks + 1  # the arrays depend on values of tensors
        found = self._run(entry, values)
        leaves = []
        for position, given in zip(entry.outputs, entry.results, strict=True):
            if position is None:
                leaves.append(given)
            else:
                value = found[position]
                leaves.append(tensor_of(value) if tensors else value if value.shape else value[()])
        if not tensors and entry.lost_gradient and MODE.get().tracks:
            leaves = note_lost(leaves, f"jit of {getattr(self.f, '__name__', 'f')}", f"a tensor {entry.lost_gradient}")
        return tree.unflatten(entry.structure, leaves)

    def _run(self, entry: SignatureEntry, values: list[Any]) -> tuple:
        """The executable's results for these values, and the present contents of hidden inputs."""
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
        """The signature of a call, and the leaves of its arguments."""
        args, kwargs = self.statics.marked(args, kwargs)
        given, structure = tree.flatten((args, kwargs))
        leaves = argument_leaves.leaves_of(self.f, [as_numpy(x) for x in given], structure)
        return entries.Signed((structure, tuple([x.key for x in leaves]), MODE.get().tracks), structure, leaves)

    def _comes_once(self, signed: Signed) -> bool:
        """True if a size is expected not to come again: it is new, and none of the latest ones was called twice."""
        now = state.now
        is_recorded = now.start and not (now.forward_depth or MODE.get().careful)  # in no trace, rule or custom forward
        if len(self.latest) < SIZES or self.always_traces or not (is_recorded and config.patience):
            return False
        if signed.key in self.entries or signed.key in self.tried:
            return False
        latest = [self.entries.get(key) for key in self.latest]
        if any([e is None or e.native_call is not entries.MISS for e in latest]):
            return False
        form = _without_extents(signed.key)
        return all([_without_extents(key) == form for key in self.latest])

    def _found(self, signed: Signed) -> tuple[SignatureEntry, list[Any]]:
        """The entry of a call, found or made, and the values of its run-time leaves."""
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
        """Note another call of an entry: from now on, machine code runs such calls from plain code.

        The entry's native call is tried before all others if it is new, or if several calls of the entry found none.
        """
        if MODE.get().careful:
            return  # a call from plain code, for which the native call is made, may follow
        with self.lock:
            if entry.native_call is entries.MISS:
                entry.native_call = entering.entered_call(entry, signed) if self.enters() else None
            elif entry.native_call is not None and signed.key not in self.tried:
                entry.missed = (entry.missed + 1) % RETRY_AFTER
            else:
                return
            if entry.native_call is None or entry.missed:
                return
            self.tried[signed.key] = entry
            while len(self.tried) > MOST_TRIED:
                del self.tried[next(iter(self.tried))]
            self._enter()

    def forget(self) -> None:
        """Drop all entries."""
        with self.lock:
            self.entries.clear()
            self.tried.clear()
            self._enter()

    def _drop(self, key: Any) -> None:
        """Drop the entry of a signature, and its native call."""
        self.entries.pop(key)
        if self.tried.pop(key, None) is not None:
            self._enter()

    def _enter(self) -> None:
        """Give the native calls of the entries in `tried` to machine code, which tries them."""
        self.native_calls = tuple([e.native_call for e in reversed(self.tried.values())])
        function = self.function()
        if function is not None and self.native_calls:
            function.site = entered.site(self.native_calls)
        elif function is not None and hasattr(function, "site"):
            del function.site

    def _trace(self, signed: Signed, compiles: bool = True) -> SignatureEntry:
        """Trace the function; if a host forward has to run on values before that, run the function on values first."""
        try:
            return self._traced(signed, compiles)
        except host.Unlearnt:
            if state.now.tracing:
                raise  # the outermost trace has values
        entries.run_as_written(self.f, signed)
        return self._traced(signed, compiles)

    def frozen(self, avals: Sequence[Aval]) -> SignatureEntry:
        """The entry of a trace for arrays of these avals, whose extents may be symbols; it is not compiled."""
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
    """Call the function itself: in eager mode, where a debugger finds values in it, or in a search for anomalies."""
    leaves, structure = tree.flatten((args, kwargs))
    is_plain = not any(isinstance(x, AbstractTensor) for x in leaves)
    args, kwargs = tree.unflatten(structure, [constant_of(x, shares=False) for x in leaves])
    result = applied(f, args, kwargs)
    if not is_plain or state.now.transforming:
        return result
    leaves, structure = tree.flatten(result)
    return tree.unflatten(structure, plain_results(leaves))
