"""`ad.jit`: a function is traced once per call signature; after that, native code is called.

    call signature  ->  Entry: an executable, how results are rebuilt, hidden inputs

A trace runs the function on arguments that have no values.  Numbers it closes over are frozen; arrays
and tensors it meets become hidden inputs, whose present contents count at every call.  A call from
plain code gives the arguments straight to the native launcher of the last entry, which checks them
itself; a miss comes back here.

A call with tensors that track, or inside another trace, replays the traced nodes onto the tape, so
gradients flow through and the whole is still one graph.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from codegen.compiler import compile_graph
from codegen.ir import Aval, Graph
from codegen.runtime.cache import LRU
from codegen.runtime.launcher import OutOfRange

from . import tree
from .calling import MISS, write_caller
from .config import config
from .custom.host import Unlearnt
from .custom.reads import static_key
from .dispatch import Choices, include, observed
from .errors import DTypeError, Error, caller
from .ops import as_tensor
from .tape.ask import evaluate, value_of
from .tape.misses import note
from .tape.node import Node, RichNode, rich_node
from .tape.plan import data, freeze, located, source
from .tape.record import argument, grad_mode, identity_of, leaf, number_like_traced, record, state
from .tape.walk import needed
from .tensor import AbstractTensor, Tensor, handle

__all__ = ["Entry", "jit"]

#: In a signature: a NumPy scalar, which is an array of no dimensions that dispatches as a number.
SCALAR = "scalar"

#: Entries kept per function.
ENTRIES = 256
#: Callers tried one after the other: each costs a tenth of a microsecond that is lost when another fits.
CALLERS = 4


class Entry:
    """What one call signature leads to.

    executable   None when nothing is computed
    arguments    nodes that stood for the arguments, in order
    hidden       what captured nodes are the present contents of: tensors and arrays
    outputs      for each result leaf: its position among the executable's results, or None
    leaves       result leaves that are no tensors
    structure    of the result
    results      nodes of the result leaves (None for those that are none)
    choices      of dispatch that the trace relied on;  caller: what plain code calls, if there is one
    """

    __slots__ = (
        "arguments", "caller", "choices", "executable", "graph", "hidden", "leaves", "outputs", "results", "structure",
    )

    graph: Graph
    executable: Any
    arguments: list[Node]
    hidden: list[Any]
    outputs: list[int | None]
    leaves: list[Any]
    structure: Any
    results: list[Node | None]
    choices: Choices
    caller: Callable | None


def jit(
    f: Callable | None = None, *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()
) -> Callable:
    """A function that is traced once per call signature and then runs as native code.

    static_argnums, static_argnames   arguments that are Python values for the trace: each value is
                                      another signature

    Arguments and results are any nesting of arrays, numbers, tensors and structured types; other
    objects are static.  From plain code NumPy arrays come back; with tensors, tensors.
    Raises ConcretizationError where the function needs the value of an argument.

    >>> import autodiff as ad, numpy as np
    >>> @ad.jit
    ... def f(x, y):
    ...     return (x * y).sum()
    >>> f(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    np.float64(11.0)
    """
    if f is None:
        return lambda g: jit(g, static_argnums=static_argnums, static_argnames=static_argnames)
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    traced = _Traced(f, frozenset(numbers), frozenset(names))
    slow = traced.call

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if not config.careful:  # nothing is being traced, and eager mode is off
                for known in traced.callers:
                    result = known(args, kwargs)
                    if result is not MISS:
                        return result
            return slow(args, kwargs)
        except OutOfRange as error:
            raise located(error, getattr(f, "__name__", "")) from None

    call.traced = traced  # type: ignore[attr-defined]
    return call


class _Leaf:
    """How one argument leaf enters a trace: the part of the signature it makes, and its value."""

    __slots__ = ("key", "value")

    def __init__(self, key: Any, value: Any) -> None:
        self.key = key
        self.value = value


_WEAK = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(complex)}


class _Traced:
    """The entries of one function, by call signature.

    callers   of the entries last made, for plain code: see `autodiff.calling`
    """

    def __init__(self, f: Callable, static_numbers: frozenset[int], static_names: frozenset[str]) -> None:
        self.f = f
        self.static_numbers = static_numbers
        self.static_names = static_names
        self.entries = LRU(ENTRIES)
        self.callers: tuple[Callable, ...] = ()
        self.traced_last: tuple | None = None
        self.lock = threading.RLock()

    def call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Find or make the entry of this call, and run it."""
        if config.eager and not state.now.tracing:
            return _eagerly(self.f, args, kwargs)
        entry, values = self.entry(args, kwargs)
        tensors = [v for v in values if isinstance(v, Tensor)]
        inside = state.now.tracing or (grad_mode.get() and any(v.node.kind.out.requires_grad for v in tensors))
        if inside:
            return _replayed(entry, values)
        found = _run(entry, values)
        leaves = []
        for position, given in zip(entry.outputs, entry.leaves, strict=True):
            if position is None:
                leaves.append(given)
            else:
                value = found[position]
                leaves.append(leaf(value) if tensors else value if value.shape else value[()])
        return tree.unflatten(entry.structure, leaves)

    def entry(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Entry, list[Any]]:
        """The entry of a call signature, and the values of its run-time leaves."""
        args, kwargs, static = self._without_static(args, kwargs)
        leaves, structure = tree.flatten((args, kwargs))
        parts = [_leaf_of(x) for x in leaves]
        key = (structure, tuple([p.key for p in parts]), static, grad_mode.get())
        entry = self.entries.get(key)
        if entry is None:
            with self.lock:
                entry = self.entries.get(key)
                if entry is None:
                    entry = self._trace(parts, leaves, structure)
                    self.entries.put(key, entry)
                    note(f"jit {getattr(self.f, '__name__', 'f')}", _why_traced(key, self.traced_last))
                    self.traced_last = key
                    entry.caller = _caller(entry, structure, parts, leaves)
                    if entry.caller is not None:
                        self.callers = (entry.caller, *self.callers[: CALLERS - 1])
                    entry.choices.on_change(lambda: self._drop(key))
        else:
            include(entry.choices)
        return entry, [p.value for p in parts if p.value is not None]

    def _drop(self, key: Any) -> None:
        """A method was registered that changes what the trace of this entry would do."""
        entry = self.entries.pop(key)
        if entry is not None:
            self.callers = tuple([c for c in self.callers if c is not entry.caller])

    def _without_static(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any], Any]:
        if not self.static_numbers and not self.static_names:
            return args, kwargs, None
        wrapped: dict[Any, Any] = {}
        count = len(args)
        for i in self.static_numbers:
            if not -count <= i < count:
                continue
            wrapped[i % count] = None
        args = tuple([_Static(a) if i in wrapped else a for i, a in enumerate(args)])
        kwargs = {k: _Static(v) if k in self.static_names else v for k, v in kwargs.items()}
        return args, kwargs, None

    def _trace(self, parts: list[_Leaf], leaves: list[Any], structure: Any) -> Entry:
        """Trace the function; where a host forward has to be known by its values first, run it once on them."""
        try:
            return self._traced(parts, leaves, structure)
        except Unlearnt:
            if state.now.tracing:
                raise  # the outermost trace has values
        args, kwargs = tree.unflatten(structure, [_as_value(p, x) for p, x in zip(parts, leaves, strict=True)])
        self.f(*args, **kwargs)
        return self._traced(parts, leaves, structure)

    def _traced(self, parts: list[_Leaf], leaves: list[Any], structure: Any) -> Entry:
        """Run the function once on arguments without values."""
        now = state.now
        arguments: list[Node] = []
        given = []
        for part, x in zip(parts, leaves, strict=True):
            if part.value is None:
                given.append(x.value if isinstance(x, _Static) else x)
                continue
            kind, shape, dtype, tracks = part.key
            weak = kind not in ("array", SCALAR)
            t = argument(Aval(shape, dtype), weak=weak, requires_grad=tracks, number=kind == SCALAR)
            arguments.append(t.node)
            given.append(t)
        args, kwargs = tree.unflatten(structure, given)
        captures, now.captures = now.captures, {}
        now.tracing += 1
        config.count_trace(1)
        start, now.start = now.start, 0
        small, now.small = now.small, []
        try:
            with observed() as choices:
                result = self.f(*args, **kwargs)
            entry = _entry(arguments, result, now.captures, getattr(self.f, "__name__", "f"))
            entry.choices = choices
            return entry
        finally:
            now.tracing -= 1
            now.start = start
            now.small = small  # what a trace has left behind has no value to compute along
            config.count_trace(-1)
            now.captures = captures


def _as_value(part: _Leaf, x: Any) -> Any:
    """An argument for a run outside of a trace: of the same types as in one."""
    if part.value is None:
        return x.value if isinstance(x, _Static) else x
    if part.key[0] != "array":
        return number_like_traced(x, part.key[2], part.key[0] != SCALAR)
    return as_tensor(x)


def _eagerly(f: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Eager mode: the function itself, so that a debugger finds values in it."""
    leaves, structure = tree.flatten((args, kwargs))
    is_plain = not any(isinstance(x, AbstractTensor) for x in leaves)
    leaves = [as_tensor(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in leaves]
    args, kwargs = tree.unflatten(structure, leaves)
    result = f(*args, **kwargs)
    return tree.map(lambda x: value_of(x.node)[()] if isinstance(x, Tensor) else x, result) if is_plain else result


def _why_traced(key: tuple, last: tuple | None) -> str:
    """How a call signature differs from the one that was traced before it."""
    if last is None:
        return "the first call"
    structure, parts, static, mode = key
    if structure != last[0]:
        return f"the arguments are nested as {structure}, before as {last[0]}"
    names = tree.names(structure)
    for name, part, was in zip(names, parts, last[1], strict=True):
        if part != was:
            return f"argument {name} is {_signed(part)}, before it was {_signed(was)}"
    if (static, mode) != last[2:]:
        return "gradients are on" if mode else "gradients are off"
    return "it was traced before, and dropped: a method was registered that it would have used, or the table was full"


def _signed(part: tuple) -> str:
    if part[0] == "static":
        return f"the static value {part[1]!r}"
    kind, shape, dtype, tracks = part
    return f"{'' if kind == 'array' else f'a {kind} as '}{Aval(shape, dtype)}{' grad' if tracks else ''}"


class _Static:
    """An argument whose value is part of the signature."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _leaf_of(x: Any) -> _Leaf:
    """How an argument enters: arrays and tensors by aval, numbers weakly, the rest by value."""
    kind = type(x)
    if kind is np.ndarray or isinstance(x, np.generic):
        value = x if kind is np.ndarray else np.asarray(x)
        if value.dtype.kind not in "fcib":
            raise DTypeError(f"jit: an argument has dtype {value.dtype}\n  called at {caller()}")
        form = "array" if kind is np.ndarray else SCALAR
        return _Leaf((form, value.shape, value.dtype.newbyteorder("="), False), value)
    if isinstance(x, Tensor):
        out = x.node.kind.out
        return _Leaf(("array", out.shape, out.aval.dtype, x.requires_grad and grad_mode.get()), x)
    if kind in _WEAK:
        return _Leaf((kind.__name__, (), _WEAK[kind], False), x)
    if isinstance(x, AbstractTensor):
        return _leaf_of(as_tensor(x))
    value = x.value if kind is _Static else x
    key, _ = static_key(value)
    return _Leaf(("static", key if key is not None else _by_hash(value)), None)


def _by_hash(value: Any) -> Any:
    """A static value that is no plain data: compared as its class says, which by default is by identity."""
    try:
        hash(value)
    except TypeError:
        raise Error(
            f"jit: a static argument of type {type(value).__name__} cannot be hashed\n"
            f"  called at {caller()}\n"
            "  pass a tuple instead of a list, or register the class with ad.tree.register"
        ) from None
    return value


def _entry(arguments: list[Node], result: Any, captures: dict[Node, Any], name: str) -> Entry:
    """Freeze what was traced."""
    entry = Entry()
    leaves, entry.structure = tree.flatten(result)
    leaves = [as_tensor(x) if isinstance(x, (np.ndarray, np.generic, AbstractTensor)) else x for x in leaves]
    entry.results = [x.node if isinstance(x, Tensor) else None for x in leaves]
    entry.leaves = [None if isinstance(x, Tensor) else x for x in leaves]
    sources = [None if n is None else source(n) for n in entry.results]
    wanted = list(dict.fromkeys([s for s in sources if s is not None]))
    graph, inputs = freeze(wanted, arguments)
    graph.name = name if name.isidentifier() else "f"
    position = {s: i for i, s in enumerate(wanted)}
    entry.outputs = [None if s is None else position[s] for s in sources]
    entry.arguments = arguments
    entry.hidden = [captures.get(n, n) for n in inputs[len(arguments) :]]
    entry.graph = graph
    entry.executable = compile_graph(graph) if wanted else None
    return entry


def _caller(entry: Entry, structure: Any, parts: list[_Leaf], leaves: list[Any]) -> Callable | None:
    """What plain code calls for this entry, if its arguments are of classes that can be written out."""
    if entry.executable is None or any(isinstance(x, AbstractTensor) for x in leaves):
        return None
    launch = entry.executable.launcher(_miss)
    if launch is None:
        return None
    kinds = [_kind_of(part, x) for part, x in zip(parts, leaves, strict=True)]
    results = list(zip(entry.outputs, entry.leaves, strict=True))
    avals = [n.aval for n in entry.graph.outputs]
    return write_caller(launch, structure, kinds, entry.hidden, entry.structure, results, avals)


def _kind_of(part: _Leaf, x: Any) -> tuple[str, Any]:
    if part.value is None:
        return "static", x
    return ("array", len(part.key[1])) if part.key[0] == "array" else ("number", type(x))


def _miss(*_args: Any) -> None:
    """What the launcher calls when an argument does not fit: the Python path takes over."""
    return None


def _present(hidden: Any) -> Any:
    """The present contents of what a trace captured."""
    if isinstance(hidden, Tensor):
        evaluate((hidden.node,), ends_recording=False)
        return data(hidden.node)
    if isinstance(hidden, Node):
        return hidden.value
    return hidden


def _run(entry: Entry, values: Sequence[Any]) -> tuple:
    if entry.executable is None:
        return ()
    pending = [v.node for v in values if isinstance(v, Tensor)]
    evaluate(pending)
    arrays = [data(v.node) if isinstance(v, Tensor) else v for v in values]
    return entry.executable.call(*arrays, *[_present(h) for h in entry.hidden])


def _replayed(entry: Entry, values: Sequence[Any]) -> Any:
    """Put the traced nodes onto the tape again, with these values as the arguments."""
    now: dict[Node, Node] = {}
    for node, value in zip(entry.arguments, values, strict=True):
        now[node] = as_tensor(value).node
        if node.hooks:  # registered on the argument while it was traced
            seen = identity_of(now[node])
            seen.hooks, now[node] = node.hooks, seen
    results = [n for n in entry.results if n is not None]
    for node in needed(results, _histories(results)):
        if node in now:
            continue
        if node.value is not None or not node.inputs:
            now[node] = node
        elif type(node) is RichNode:
            made = rich_node(node.kind, tuple([now[i] for i in node.inputs]), call=node.call)
            made.body, made.flow, made.slot, made.line = node.body, node.flow, node.slot, node.line
            made.hooks = node.hooks
            now[node] = made
        else:
            now[node] = record(node.kind.op, tuple([handle(now[i]) for i in node.inputs]), node.kind.params).node
    leaves = [given if n is None else handle(now[n]) for n, given in zip(entry.results, entry.leaves, strict=True)]
    return tree.unflatten(entry.structure, leaves)


def _histories(results: Sequence[Node]) -> set[Node]:
    """Boundaries and what they hold for their rules."""
    found: set[Node] = {n for n in needed(results) if type(n) is RichNode}
    stack = list(found)
    while stack:
        node = stack.pop()
        for i in node.inputs:
            if i not in found and i.value is None:
                found.add(i)
                stack.append(i)
    return found
