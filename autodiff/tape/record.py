"""Recording: one node per primitive.  Nothing is computed here.

`record` is the hot path of the engine: it looks the kind up (one dictionary), makes the node last
(so that an exception leaves nothing behind) and returns a handle of the kind's class.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from codegen.ir import DTYPES, Aval

from ..config import config
from ..errors import DTypeError, caller, user_line
from ..tensor import BEFORE_COPY, Tensor, handle
from .loans import Loan, can_be_lent, lend
from .node import (
    TABLE_LIMIT,
    Kind,
    Leaf,
    Node,
    Out,
    Primitive,
    RichNode,
    kind_of,
    leaf_kind,
    new_number,
    out_of,
    rich_node,
)
from .watched import KIND_OF, WATCHED, WatchedArray

__all__ = [
    "ALIASES", "ARGUMENT", "CONSTANT", "DETACH", "IDENTITY", "Recording", "argument", "constant", "data_node",
    "grad_mode", "identity_of", "is_tracking", "leaf", "leaf_node", "look_at_size", "number_leaf", "promoted",
    "record", "state", "taken", "use",
]

#: Recording beyond this many operations without an ask looks whether the pending graph grew too
#: large to be one executable, and evaluates it if so.
PENDING_LIMIT = 4000

#: Whether what is recorded tracks gradients.  An immutable value, so that tasks and threads are apart.
grad_mode: ContextVar[bool] = ContextVar("autodiff_grad_mode", default=True)

#: Whether every node keeps the user's line (anomalies are looked for, a recording is shown).
keeps_lines: ContextVar[bool] = ContextVar("autodiff_keeps_lines", default=False)

_new = object.__new__
_ref = weakref.ref


class Recording:
    """What one thread is recording.

    start     number of the first node of this recording; older pending values are evaluated when used.
              0 in traces and while rules record: then nothing is evaluated
    small     weak references to handles of small pending results
    asked     how many values have been asked for (a rule that asks is found out by this)
    looked    how many of them were real or complex: what is made of those has a history that nobody knows
    bounded   how many of these by the forward of a custom call, whose rule is the derivative of what it made
    look_at   number of the node from which on the size of the pending graph is looked at again
    body      depth of custom forwards being recorded: handles of their inputs are masked
    lent      arrays of the user's that are locked until the next ask
    literal   numbers met are constants of the graph (in the library's own rules), not arguments
    tracing   depth of jit traces: asking does not end the recording
    transforming  depth of functions being differentiated: what they call gets tensors, never arrays
    captures  while tracing: computed nodes that were met, and what they are the present contents of
    outside   while tracing: nodes with smaller numbers were there before the (outermost) trace
    inside    while tracing: nodes from this number on belong to the innermost trace
    updated   weak references to handles of leaves with a pending update
    """

    __slots__ = (
        "asked", "body", "bounded", "captures", "inside", "lent", "limit", "literal", "look_at", "looked", "outside",
        "small", "start", "tracing", "transforming", "updated",
    )

    def __init__(self) -> None:
        self.start = new_number()
        self.small: list[weakref.ref] = []
        self.limit = 256
        self.asked = 0
        self.looked = 0
        self.bounded = 0
        self.look_at = new_number() + PENDING_LIMIT
        self.body = 0
        self.lent: list[Loan] = []
        self.literal = False
        self.tracing = 0
        self.transforming = 0
        self.captures: dict[Node, Any] | None = None
        self.outside = 0
        self.inside: float = 0
        self.updated: list[weakref.ref] = []

    def meet(self, t: Tensor) -> None:
        """While tracing: what t holds is a hidden input, also where it is still pending; its contents count."""
        node = t.node
        if node.value is None and node.number < self.outside:
            _force(node)
        if node.value is not None and self.captures is not None:
            self.captures.setdefault(node, t)

    def note_small(self, t: Tensor) -> None:
        """Remember the handle of a small pending result, weakly: it is computed with what is asked for."""
        self.small.append(_ref(t))
        if len(self.small) > self.limit:
            self.small = [r for r in self.small if (h := r()) is not None and h.node.value is None]
            self.limit = 2 * len(self.small) + 256


    def note_updated(self, t: Tensor) -> None:
        """Remember a leaf that was updated and is pending: all of them are evaluated when one is."""
        self.updated.append(_ref(t))
        if len(self.updated) & 0xFF == 0:
            self.updated = [r for r in self.updated if (h := r()) is not None and h.node.value is None]

    def waiting(self) -> list[Node]:
        """The updates of leaves that earlier recordings left pending."""
        pending = [t for r in self.updated if (t := r()) is not None and t.node.value is None]
        self.updated = [_ref(t) for t in pending if t.node.number >= self.start]
        return [t.node for t in pending if t.node.number < self.start]


class State(threading.local):
    """One Recording per thread."""

    def __init__(self) -> None:
        self.now = Recording()


state = State()

#: Called when this thread begins to record elsewhere.
WHEN_MOVED: list[Callable[[], None]] = []


def use(recording: Recording) -> None:
    """Record here from now on, in this thread."""
    state.now = recording
    for tell in WHEN_MOVED:
        tell()


#: A trace is told of the handle that the program holds, not of the copy that it works on.
BEFORE_COPY.append(lambda t: state.now.meet(t))


def record(op: Primitive, tensors: tuple[Tensor, ...], params: tuple = ()) -> Tensor:
    """Record `op(*tensors)` and return a handle on the new node.

    `params` holds the operation's static parameters in the order of `op.params`.
    Raises what the operation's shape rule raises; then nothing is recorded.
    """
    now = state.now
    nodes = tuple([t.node for t in tensors])
    outs = tuple([n.kind.out for n in nodes])
    mode = grad_mode.get()
    kind = op.memo[mode].get((outs, params)) or kind_of(op, params, outs, mode)
    start = now.start
    for n in nodes:
        if n.value is None and n.number < start:
            _force(n)
    node = _new(Node)
    node.kind = kind
    node.inputs = nodes
    node.value = None
    node.number = number = new_number()
    out = kind.out
    t = _new(out.cls)
    t.node = node
    t.masked = now.body != 0 and any([i.masked for i in tensors])
    if out.small:
        now.note_small(t)
    if number > now.look_at:
        look_at_size(now, nodes)
    if config.careful:
        t.node = _looked_closer(now, tensors, node)
    return t


def _looked_closer(now: Recording, tensors: tuple[Tensor, ...], node: Node) -> Node:
    """What recording does only in eager mode, while tracing, or where lines are kept."""
    if keeps_lines.get():
        rich = rich_node(node.kind, node.inputs)
        rich.line = user_line()
        node = rich
    if now.captures is not None:
        for t in tensors:
            now.meet(t)
    if config.eager and not now.tracing:
        _force(node)
    return node


def _force(node: Node) -> None:
    """Evaluate a pending value of an earlier recording, without ending the present one.

    A constant stays one: a trace that is replayed is the same graph each time.
    """
    from .ask import evaluate

    if node.kind.op is not CONSTANT:
        # The parameters of a model are updated together, and will be needed together.
        beside = state.now.waiting() if node.leaf is not None else ()
        evaluate((node, *beside), ends_recording=False)


def look_at_size(now: Recording, nodes: tuple[Node, ...]) -> None:
    """Evaluate what a very long recording hangs on (many small dead graphs are left alone).

    Not in a trace, where nothing has a value; and not while rules record: what they made would enter
    the plan as constants.
    """
    from .ask import pending_size

    now.look_at = new_number() + PENDING_LIMIT
    for n in nodes if now.start else ():
        if n.value is None and pending_size(n, PENDING_LIMIT) >= PENDING_LIMIT:
            _force(n)


def leaf(array: np.ndarray, requires_grad: bool = False, identity: Leaf | None = None) -> Tensor:
    """A handle on given data, which nobody else may write to.  The array must be C-contiguous."""
    return handle(leaf_node(array, requires_grad, identity))


def taken(array: Any, dtype: np.dtype) -> Tensor:
    """A user's array, or NumPy scalar, as a constant tensor.

    An array that owns its memory is locked until the next ask (`loans`); any other is copied, unless nobody
    can write to it.  Met while tracing it is a hidden input: what it holds at each call counts.
    """
    if type(array) is not np.ndarray or array.dtype != dtype:
        if type(array) is WatchedArray:
            from .watched_leaves import leaf_of_array

            return leaf_of_array(array, dtype)
        return leaf(_owned(array, dtype))
    now = state.now
    if now.captures is None:
        if not can_be_lent(array):
            return leaf(_owned(array, dtype))
        node = rich_node(leaf_kind(out_of(Aval(array.shape, dtype))), ())
        lend(array, node, now.lent)
        return handle(node)
    t = leaf(_owned(array, dtype))
    now.captures[t.node] = array
    return t


def _owned(array: Any, dtype: np.dtype) -> np.ndarray:
    """A C-contiguous array of these values that nobody else can write to; not copied when it is one."""
    if type(array) is np.ndarray and array.dtype == dtype:
        flags = array.flags
        if flags.owndata and flags.c_contiguous and not flags.writeable:
            return array
    return np.array(array, dtype, order="C", subok=False)


def leaf_node(value: Any, requires_grad: bool = False, identity: Leaf | None = None) -> Node:
    """A node that holds `value`; with `requires_grad`, one that gradients accumulate in."""
    key = (value.shape, value.dtype, requires_grad)
    kind = _KINDS_OF_DATA.get(key)
    if kind is None:
        if len(_KINDS_OF_DATA) >= TABLE_LIMIT:
            _KINDS_OF_DATA.clear()
        kind = _KINDS_OF_DATA[key] = leaf_kind(out_of(Aval(value.shape, value.dtype), requires_grad))
    if requires_grad:
        return rich_node(kind, (), value, leaf=identity or Leaf())
    return data_node(kind, value)


#: Kinds of leaves by shape, dtype and requires_grad: making an Aval to ask for one costs a microsecond.
_KINDS_OF_DATA: dict[tuple, Kind] = {}


def data_node(kind: Kind, value: Any) -> Node:
    """A node that holds a value, or stands for one (None)."""
    node = _new(Node)
    node.kind = kind
    node.inputs = ()
    node.value = value
    node.number = new_number()
    return node


# ---------------------------------------------------------------- numbers

#: A 0-d number that is part of the graph: the compiler may compute with it.
CONSTANT = Primitive(
    "constant",
    infer=lambda *, value, dtype: Aval((), DTYPES[dtype]),
    reference=lambda *, value, dtype: np.asarray(value, DTYPES[dtype]),
    params=("value", "dtype"),
    discrete=True,
)
_CONSTANTS: dict[tuple[str, str], Kind] = {}


def constant(value: complex, dtype: str) -> Tensor:
    """A 0-d constant of the graph.  Another value is another graph: for numbers that rules state.

    dtype is a short name: `constant(0.5, "f64")`.
    """
    key = (repr(value), dtype)  # text: -0.0 is not 0.0, and 1 is not True
    kind = _CONSTANTS.get(key)
    if kind is None:
        kind = _CONSTANTS.setdefault(key, Kind(CONSTANT, (value, dtype), out_of(Aval((), DTYPES[dtype]))))
    return handle(data_node(kind, None))


_NUMBER_OUT: dict[np.dtype, tuple[Kind, type, str]] = {}
_INT_RANGE = {d: (np.iinfo(d).min, np.iinfo(d).max) for d in (np.dtype(np.int32), np.dtype(np.int64))}


def number_leaf(value: Any, dtype: np.dtype) -> Tensor:
    """A Python number taking part as `dtype`: a run-time argument, so its value is in no key.

    In the library's own rules (`state.now.literal`) it is a constant of the graph instead.
    Raises OverflowError for an int outside the dtype, DTypeError for a complex number where a real
    one is wanted.
    """
    entry = _NUMBER_OUT.get(dtype)
    if entry is None:
        from codegen.ir import dtype_name

        kind = leaf_kind(out_of(Aval((), dtype)))
        python = {"f": float, "i": int, "b": bool, "c": complex}[dtype.kind]
        entry = _NUMBER_OUT[dtype] = (kind, python, dtype_name(dtype))
    kind, python, name = entry
    if type(value) is not python:
        if type(value) in WATCHED:
            from .watched_leaves import leaf_of_number

            return leaf_of_number(value, dtype, python)
        if type(value) is complex:
            raise DTypeError(f"a complex number cannot take part as {name}\n  called at {caller()}")
        value = python(value)
    if type(value) is int:
        low, high = _INT_RANGE[dtype]
        if not low <= value <= high:
            raise OverflowError(f"the number {value} does not fit {name}\n  called at {caller()}")
    now = state.now
    if now.literal:
        return constant(value, name)
    t: Tensor = _new(kind.out.cls)
    t.node = data_node(kind, value)
    t.masked = False
    return t


def promoted(value: complex, dtype: np.dtype) -> np.dtype:
    """The dtype of `array + value` for a weak Python number (NEP 50)."""
    key = (type(value), dtype)
    found = _PROMOTED.get(key)
    if found is None:
        kind = KIND_OF.get(type(value), type(value))
        found = _PROMOTED[key] = np.result_type(dtype, kind(0))
    return found


_PROMOTED: dict[tuple[type, np.dtype], np.dtype] = {}


# ---------------------------------------------------------------- identities


def _same(x: Aval) -> Aval:
    return x


def _of_each(op: Primitive, size: int, xs: tuple[Tensor, ...], mapped: tuple[bool, ...]) -> Tensor:
    return record(op, xs)


#: The same value under a new node: what a transformation differentiates with respect to.
IDENTITY = Primitive(
    "identity",
    infer=_same,
    reference=lambda x: x,
    pull=lambda y_bar, y, xs, params, masked: (y_bar,),
    push=lambda dxs, y, xs, params: dxs[0],
    batch=_of_each,
)
#: The same value, through which no gradient flows.
DETACH = Primitive("detach", infer=_same, reference=lambda x: x, discrete=True, batch=_of_each)

#: An argument of a function being traced: it has no value, and none may be asked for.
ARGUMENT = Primitive("argument", infer=lambda: None, reference=None, discrete=True)


def argument(aval: Aval, *, weak: bool = False, requires_grad: bool = False, number: bool = False) -> Tensor:
    """A handle on a value that will be known only when the traced function is called."""
    out = out_of(aval, requires_grad, weak, number)
    kind = Kind(ARGUMENT, (), out)
    return handle(rich_node(kind, ()) if requires_grad else data_node(kind, None))  # one that tracks may get hooks


def number_like_traced(value: Any, dtype: np.dtype, weak: bool) -> Tensor:
    """A number that takes part like a number argument of a traced function, but has its value."""
    kind = leaf_kind(out_of(Aval((), dtype), weak=weak, number=not weak))
    return handle(data_node(kind, np.asarray(value, dtype)))


#: Operations without work: the compiler never sees them.
ALIASES = frozenset((IDENTITY, DETACH))


_IDENTITY_KINDS: dict[Out, Kind] = {}


def identity_of(node: Node, *, requires_grad: bool = True, leaf: Leaf | None = None) -> RichNode:
    """A node of its own with the value of another: what gradients are taken with respect to."""
    out = out_of(node.kind.out.aval, requires_grad)
    kind = _IDENTITY_KINDS.get(out) or _IDENTITY_KINDS.setdefault(out, Kind(IDENTITY, (), out))
    return rich_node(kind, (node,), leaf=leaf)


def is_tracking(*tensors: Tensor) -> bool:
    """Whether recording an operation on these now would give a result that requires grad."""
    return grad_mode.get() and any(t.node.kind.out.requires_grad for t in tensors)
