"""Recording: one node per primitive.  Nothing is computed here.

`record` is the hot path of the engine: it looks the kind up in one dictionary, makes the node last
(so that an exception leaves nothing behind) and returns a handle of the kind's class.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from codegen.ir import Aval

from ..frames import user_line
from ..mode import MODE, Mode
from ..tensor import Tensor, handle
from .lines import Lines
from .node import (
    CONSTANT,
    Kind,
    Leaf,
    Node,
    Out,
    Primitive,
    RichNode,
    data_node,
    kind_of,
    new_number,
    one_kind,
    out_of,
    rich_node,
    store_bounded,
)
from .walk import reached, value_inputs

#: After this many operations without an ask, a pending graph of as many nodes is evaluated, to be one executable.
PENDING_LIMIT = 4000
#: The number of candidates for small live results at which the dead ones are removed.
SMALL_LIMIT = 256

_new = object.__new__
_ref = weakref.ref


class NeedsTrace(BaseException):
    """Raised where a `jit` function that runs without a trace needs a trace."""


class Recording:
    """The recording of one thread.

    start     the node number at the last ask: older pending values are evaluated when an operation uses them.  0 in
              traces and while rules record, where nothing is evaluated.   began: the node number at the last gradient
    small, updated  weak references to handles of small pending results, and of leaves with a pending update, by id
    asked     the count of values that were asked for (by which a rule that asks for a value is detected)
    float_asks  the count of real or complex values among them: Python code may compute with these outside of the tape
    asked_in_forward  while a custom forward runs: (`asked`, node) for each tracking value that the forward asked for
    covered_asks  the part of `float_asks` by custom forwards, whose rules are the derivatives of their results
    look_at   the node number at which the size of the pending graph is checked again
    forward_depth  nesting depth of custom forwards that are being recorded: handles of their inputs are masked
    literal   True in the library's own rules: numbers are constants of the graph, not arguments
    tracing   nesting depth of jit traces: an ask does not end the recording
    transforming  nesting depth of functions that are being differentiated: functions that they call get tensors only
    differentiated, since  the nodes of their arguments, and the largest number of these (0: none); a handle with an
              older node was not made by the function
    captures  while tracing: computed nodes that the function used -> the tensor or array of which they are the contents
    fixed     while tracing: the captured nodes whose values decided what was recorded (by the count of True in a mask)
    narrowed  while tracing: arguments for Python ints that are combined with int32 arrays, so they have to fit int32
    outside, inside  while tracing: the first node number of the outermost trace, and of the innermost trace
    lines     the places where nodes are recorded (`tape.lines.Lines`), for traces above all; None: they are not kept
    unseen    while a `jit` function runs without a trace (`run_unseen`): the first node whose value it may not see
    """

    __slots__ = (
        "asked", "asked_in_forward", "began", "captures", "covered_asks", "differentiated", "fixed", "float_asks",
        "forward_depth", "inside", "limit", "lines", "literal", "look_at", "most_updated", "narrowed", "outside",
        "since", "small", "start", "tracing", "transforming", "unseen", "updated",
    )

    def __init__(self) -> None:
        self.start = self.began = new_number()
        self.small: list[weakref.ref] = []
        self.limit = SMALL_LIMIT
        self.asked = 0
        self.float_asks = 0
        self.covered_asks = 0
        self.asked_in_forward: list[tuple[int, Node]] = []
        self.look_at = new_number() + PENDING_LIMIT
        self.forward_depth = 0
        self.lines: Any = None
        self.literal = False
        self.tracing = 0
        self.transforming = 0
        self.differentiated: tuple[Node, ...] = ()
        self.since: float = 0
        self.captures: dict[Node, Any] | None = None
        self.fixed: dict[Node, Any] = {}
        self.narrowed: set[Node] = set()
        self.outside: float = 0
        self.inside: float = 0
        self.unseen: float = 0
        self.updated: dict[int, weakref.ref] = {}
        self.most_updated = 256

    def note_hidden_input(self, t: Tensor) -> None:
        """In a trace: note the value of t as a hidden input, whose contents count; a pending one is evaluated."""
        if self.captures is None:
            return
        node = t.node
        if node.value is None and node.number < self.outside:
            force(node)
        if node.value is not None:
            self.captures.setdefault(node, t)

    def is_traced(self) -> bool:
        """True in a trace.  A function that runs without its trace is left here, as it may depend on the answer."""
        if self.unseen:
            self.require_trace()
        return self.tracing > 0

    def require_trace(self) -> NoReturn:
        """Raise NeedsTrace, and note it in `unseen`, as the function may catch the exception."""
        self.unseen = math.inf
        raise NeedsTrace

    def note_small(self, t: Tensor) -> None:
        """Remember the handle of a small pending result, weakly: the next ask computes the result too."""
        self.small.append(_ref(t))
        if len(self.small) > self.limit:
            self.prune_small()

    def prune_small(self) -> None:
        """Remove the handles that are gone, and those that have a value."""
        self.small = [r for r in self.small if (h := r()) is not None and h.node.value is None]
        self.limit = 2 * len(self.small) + SMALL_LIMIT

    def note_updated(self, t: Tensor) -> None:
        """Remember a leaf with a pending update: all of these leaves are evaluated when one of them is."""
        self.updated[id(t)] = _ref(t)  # once, however often it is updated
        if len(self.updated) > self.most_updated:
            self.updated = {id(h): r for r in self.updated.values() if (h := r()) is not None and h.node.value is None}
            self.most_updated = 2 * len(self.updated) + 256

    def waiting(self) -> list[Node]:
        """The updates of leaves that earlier recordings left pending."""
        pending = [t for r in self.updated.values() if (t := r()) is not None and t.node.value is None]
        self.updated = {id(t): _ref(t) for t in pending if t.node.number >= self.start}
        return [t.node for t in pending if t.node.number < self.start]


class State(threading.local):
    """One Recording per thread."""

    def __init__(self) -> None:
        self.now = Recording()

    def __reduce__(self) -> str:
        return "state"  # each process has one


state = State()


class _Asking:
    """Holds the function that computes values; `ask` sets it, as this module cannot import `ask`."""

    evaluate: Callable[..., None]


asking = _Asking()

#: Functions to call when this thread begins to use another Recording.
ON_SWITCH: list[Callable[[], None]] = []


def use(recording: Recording) -> None:
    """Make this the recording of this thread from now on."""
    state.now = recording
    for notify in ON_SWITCH:
        notify()


def record(op: Primitive, tensors: tuple[Tensor, ...], params: tuple = ()) -> Tensor:
    """Record `op(*tensors)` and return a handle on the new node.

    `params` holds the operation's static parameters in the order of `op.params`.
    Raises what the operation's shape rule raises; then nothing is recorded.
    """
    now = state.now
    nodes = tuple([t.node for t in tensors])
    outs = tuple([n.kind.out for n in nodes])
    mode = MODE.get()
    kind = op.memo[mode.tracks].get((outs, params))
    if kind is None:
        aval = op.infer(*[o.aval for o in outs], **dict(zip(op.params, params, strict=True)))
        kind = kind_of(op, params, outs, mode.tracks, aval)
    start = now.start
    for n in nodes:
        if n.value is None and n.number < start:
            force(n)
    node = _new(Node)
    node.kind = kind
    node.inputs = nodes
    node.value = None
    node.number = number = new_number()
    out = kind.out
    t = _new(out.cls)
    t.node = node
    t.masked = now.forward_depth != 0 and is_masked(tensors)
    if out.small:  # as `note_small` does
        now.small.append(_ref(t))
        if len(now.small) > now.limit:
            now.prune_small()
    if number > now.look_at:
        look_at_size(now, nodes)
    if mode.rich or now.captures is not None or now.lines is not None:
        t.node = _looked_closer(mode, now, tensors, node)
    return t


def result_handle(node: Node, masked: bool = False) -> Tensor:
    """A new handle on a node; a small pending value is computed at the next ask, as that of a recorded result."""
    out = node.kind.out
    t: Tensor = _new(out.cls)
    t.node = node
    t.masked = masked
    if out.small and node.value is None:
        state.now.note_small(t)
    return t


def is_masked(tensors: Sequence[Tensor]) -> bool:
    """True if gradients of a result in a custom forward flow only to inputs of the call.

    A tracking result that is not masked depends on a value that the forward closes over.
    """
    found = False
    for t in tensors:
        if t.masked:
            found = True
        elif t.node.kind.out.requires_grad:
            return False
    return found


def _looked_closer(mode: Mode, now: Recording, tensors: tuple[Tensor, ...], node: Node) -> Node:
    """The node after the extra work of recording for eager mode, anomaly detection, traces, and lines that are kept."""
    if mode.anomalies:
        rich = rich_node(node.kind, node.inputs)
        rich.line = user_line()
        node = rich
    if now.lines is None or (now.lines.is_lasting and not mode.keeps_lines):  # the setting may have changed
        now.lines = Lines(is_lasting=True) if mode.keeps_lines else None
    if now.lines is not None:
        now.lines.note(node)
    for t in tensors:
        now.note_hidden_input(t)
    if mode.eager and not now.tracing:
        force(node)
    return node


def force(node: Node) -> None:
    """Evaluate a pending value of an earlier recording, without ending the present one.

    A constant stays pending, so that it stays a constant of the graph: each replay of a trace gives the same graph.
    """
    if node.kind.op is not CONSTANT:
        # The parameters of a model are updated together, and used together: one run evaluates all of them.
        beside = state.now.waiting() if node.leaf is not None else ()
        asking.evaluate((node,), ends_recording=False, live=beside)


def look_at_size(now: Recording, nodes: tuple[Node, ...]) -> None:
    """Evaluate each operand that depends on `PENDING_LIMIT` pending nodes or more (many small graphs stay pending).

    Nothing is evaluated in a trace, nor while rules record: the values would enter the plan as constants.
    """
    now.look_at = new_number() + PENDING_LIMIT
    for n in nodes if now.start else ():
        if n.value is None and len(reached([n], _pending_inputs, PENDING_LIMIT - 1)) >= PENDING_LIMIT:
            force(n)


def _pending_inputs(node: Node) -> list[Node]:
    return [i for i in value_inputs(node) if i.value is None]


# ---------------------------------------------------------------- identities


def _of_each(op: Primitive, size: int, xs: tuple[Tensor, ...], mapped: tuple[bool, ...]) -> Tensor:
    return record(op, xs)


def _alias(name: str) -> Primitive:
    """An operation that gives the value of its operand a new node, through which gradients flow."""
    return Primitive(
        name,
        infer=lambda x: x,
        reference=lambda x: x,
        pull=lambda y_bar, y, xs, params, masked: (y_bar,),
        push=lambda dxs, y, xs, params: dxs[0],
        batch=_of_each,
    )


#: The kind of a node that a transformation differentiates with respect to, and of a leaf after its update.
IDENTITY = _alias("identity")
#: A new result with the operand's value, for an operation that has nothing to do.
SAME = _alias("same")
#: The same value, through which no gradient flows.
DETACH = Primitive("detach", infer=lambda x: x, reference=lambda x: x, discrete=True, batch=_of_each)

#: An argument of a function that is being traced: it has no value, and asking for its value raises an error.
ARGUMENT = Primitive("argument", infer=lambda: None, reference=None, discrete=True)


def argument(aval: Aval, *, weak: bool = False, requires_grad: bool = False, number: bool = False) -> Tensor:
    """A handle on an argument of a trace, whose value is known only when the traced function is called."""
    out = out_of(aval, requires_grad, weak, number)
    kind = Kind(ARGUMENT, (), out)
    return handle(rich_node(kind, ()) if requires_grad else data_node(kind, None))  # a tracking node may get hooks


#: Operations that compute nothing: the compiler's graph does not have them.
ALIASES = frozenset((IDENTITY, SAME, DETACH))


def as_new_result(t: Tensor) -> Tensor:
    """A new result with the value of a tensor.

    An in-place update of the result leaves the tensor as it is.  Hooks on the result, and gradients with respect to it,
    see only the gradient that flows through the result.
    """
    now = state.now
    if t.node.kind.out.requires_grad or now.tracing or now.since:  # a new node shows that the function made it
        return record(SAME, (t,))
    return handle(t.node, t.masked)


def distinct_result(y: Tensor, x: Tensor) -> Tensor:
    """The result y of an operation on x; a new result if y is x itself, since the operation had nothing to do."""
    return as_new_result(x) if y is x else y


_IDENTITY_KINDS: dict[tuple[Out, bool], Kind] = {}


def identity_of(node: Node, *, requires_grad: bool = True, leaf: Leaf | None = None) -> RichNode:
    """A new node with the value of another node, for gradients to be taken with respect to it."""
    key = node.kind.out, requires_grad
    kind = _IDENTITY_KINDS.get(key)
    if kind is None:
        # An operand that tracks and an operand that does not give the same kind, so it has to be one object.
        out = out_of(node.kind.out.aval, requires_grad)
        kind = store_bounded(_IDENTITY_KINDS, key, one_kind((IDENTITY, out), IDENTITY, (), out))
    return rich_node(kind, (node,), leaf=leaf)


def hooked(node: Node) -> Node:
    """The node that `register_hook` or `retain_grad` put before this node; the node itself if there is none."""
    before = node.inputs[:1] if node.kind.op is IDENTITY and not isinstance(node, RichNode) else ()
    return next((n for n in before if isinstance(n, RichNode)), node)


def is_tracking(*tensors: Tensor) -> bool:
    """True if an operation on these tensors, recorded now, would give a result that requires grad."""
    return MODE.get().tracks and any(t.node.kind.out.requires_grad for t in tensors)
