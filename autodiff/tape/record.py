"""Recording: one node per primitive.  Nothing is computed here.

`record` is the hot path of the engine: it looks the kind up (one dictionary), makes the node last
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
    kept,
    kind_of,
    new_number,
    one_kind,
    out_of,
    rich_node,
)
from .walk import reached, value_inputs

#: After so many operations without an ask a pending graph that is too large to be one executable is evaluated.
PENDING_LIMIT = 4000
#: Candidates of small live results after which those that are gone are left out.
SMALL_LIMIT = 256

_new = object.__new__
_ref = weakref.ref


class NeedsTrace(BaseException):
    """A function of `jit` that runs as it is recorded has to be traced."""


class Recording:
    """The recording of one thread.

    start     number after the last ask: older pending values are evaluated when used.  0 in traces and while rules
              record: then nothing is evaluated.   began: number after the last gradient
    small, updated  weak references to handles of small pending results, and of leaves with a pending update, by id
    asked     how many values have been asked for (a rule that asks is found out by this)
    looked    how many of them were real or complex: what is made of those has a history that nobody knows
    seen      while a custom forward is being recorded: (`asked`, node) of what was looked at and tracks
    bounded   how many of these by the forward of a custom call, whose rule is the derivative of what it made
    look_at   number of the node from which on the size of the pending graph is looked at again
    body      depth of custom forwards being recorded: handles of their inputs are masked
    lent      arrays of the user's that are locked until the next ask;  lends: they may be (see `loans`)
    literal   numbers met are constants of the graph (in the library's own rules), not arguments
    tracing   depth of jit traces: asking does not end the recording
    transforming  depth of functions being differentiated: what they call gets tensors, never arrays
    differentiated, since  the nodes of their arguments, and the largest number of these (0: none); the handle of an
              older node is not their own
    captures  while tracing: computed nodes that were met, and what they are the present contents of
    fixed     while tracing: those of them whose values decided what was recorded, as the number of places in a mask
    narrowed  while tracing: arguments that stand for ints of Python's and met arrays of int32, which they have to fit
    outside, inside  while tracing: the first numbers of nodes of the outermost trace, and of the innermost one
    lines     while tracing: where nodes are recorded (`tape.lines.Lines`); None: nobody keeps it
    unseen    while a function of `jit` runs as it is recorded (`once`): nobody sees values of nodes from this number on
    """

    __slots__ = (
        "asked", "began", "body", "bounded", "captures", "differentiated", "fixed", "inside", "lends", "lent", "limit",
        "lines", "literal", "look_at", "looked", "most_updated", "narrowed", "outside", "seen", "since", "small",
        "start", "tracing", "transforming", "unseen", "updated",
    )

    def __init__(self) -> None:
        self.start = self.began = new_number()
        self.small: list[weakref.ref] = []
        self.limit = SMALL_LIMIT
        self.asked = 0
        self.looked = 0
        self.bounded = 0
        self.seen: list[tuple[int, Node]] = []
        self.look_at = new_number() + PENDING_LIMIT
        self.body = 0
        self.lent: list[weakref.ref] = []
        self.lends = False
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

    def meet(self, t: Tensor) -> None:
        """While tracing: what t holds is a hidden input, also where it is still pending; its contents count."""
        node = t.node
        if node.value is None and node.number < self.outside:
            force(node)
        if node.value is not None and self.captures is not None:
            self.captures.setdefault(node, t)

    def is_traced(self) -> bool:
        """True in a trace.  A function that runs in the place of one is left: what is asked for differs there."""
        if self.unseen:
            self.see()
        return self.tracing > 0

    def see(self) -> NoReturn:
        """Leave the function that runs as it is recorded; it may catch this, so that it is noted as well."""
        self.unseen = math.inf
        raise NeedsTrace

    def note_small(self, t: Tensor) -> None:
        """Remember the handle of a small pending result, weakly: it is computed with what is asked for."""
        self.small.append(_ref(t))
        if len(self.small) > self.limit:
            self.prune_small()

    def prune_small(self) -> None:
        """Leave out the handles that are gone, and those that have a value."""
        self.small = [r for r in self.small if (h := r()) is not None and h.node.value is None]
        self.limit = 2 * len(self.small) + SMALL_LIMIT

    def note_updated(self, t: Tensor) -> None:
        """Remember a leaf that was updated and is pending: all of them are evaluated when one is."""
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
    """The function that computes values, which is set by `ask`."""

    evaluate: Callable[..., None]


asking = _Asking()

#: Called when this thread begins to record elsewhere.
WHEN_MOVED: list[Callable[[], None]] = []


def use(recording: Recording) -> None:
    """Record here from now on, in this thread."""
    state.now = recording
    for tell in WHEN_MOVED:
        tell()


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
    t.masked = now.body != 0 and is_masked(tensors)
    if out.small:  # as `note_small` does
        now.small.append(_ref(t))
        if len(now.small) > now.limit:
            now.prune_small()
    if number > now.look_at:
        look_at_size(now, nodes)
    if mode.rich or now.captures is not None or now.lines is not None:
        t.node = _looked_closer(mode, now, tensors, node)
    return t


def noted(node: Node, masked: bool = False) -> Tensor:
    """A handle on what somebody gets beside what is recorded: a small value is computed with what is asked for."""
    out = node.kind.out
    t: Tensor = _new(out.cls)
    t.node = node
    t.masked = masked
    if out.small and node.value is None:
        state.now.note_small(t)
    return t


def is_masked(tensors: Sequence[Tensor]) -> bool:
    """In a custom forward: True of a result whose gradients, if any, flow to inputs of the call alone.

    What is not, and tracks, was made of a value that the forward closes over.
    """
    found = False
    for t in tensors:
        if t.masked:
            found = True
        elif t.node.kind.out.requires_grad:
            return False
    return found


def _looked_closer(mode: Mode, now: Recording, tensors: tuple[Tensor, ...], node: Node) -> Node:
    """Do the part of recording that belongs to eager mode, to tracing, or to lines that are kept."""
    if mode.anomalies:
        rich = rich_node(node.kind, node.inputs)
        rich.line = user_line()
        node = rich
    if now.lines is None or (now.lines.is_lasting and not mode.keeps_lines):  # which was set, or taken back
        now.lines = Lines(is_lasting=True) if mode.keeps_lines else None
    if now.lines is not None:
        now.lines.note(node)
    if now.captures is not None:
        for t in tensors:
            now.meet(t)
    if mode.eager and not now.tracing:
        force(node)
    return node


def force(node: Node) -> None:
    """Evaluate a pending value of an earlier recording, without ending the present one.

    A constant stays one: a trace that is replayed is the same graph each time.
    """
    if node.kind.op is not CONSTANT:
        # The parameters of a model are updated together, and will be needed together.
        beside = state.now.waiting() if node.leaf is not None else ()
        asking.evaluate((node,), ends_recording=False, live=beside)


def look_at_size(now: Recording, nodes: tuple[Node, ...]) -> None:
    """Evaluate what a very long recording hangs on (many small dead graphs are left alone).

    Not in a trace, nor while rules record: what they made would enter the plan as constants.
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
    """A new node with the value of another, through which gradients flow."""
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
#: A result of its own: of an operation that has nothing to do.
SAME = _alias("same")
#: The same value, through which no gradient flows.
DETACH = Primitive("detach", infer=lambda x: x, reference=lambda x: x, discrete=True, batch=_of_each)

#: An argument of a function being traced: it has no value, and none may be asked for.
ARGUMENT = Primitive("argument", infer=lambda: None, reference=None, discrete=True)


def argument(aval: Aval, *, weak: bool = False, requires_grad: bool = False, number: bool = False) -> Tensor:
    """A handle on a value that will be known only when the traced function is called."""
    out = out_of(aval, requires_grad, weak, number)
    kind = Kind(ARGUMENT, (), out)
    return handle(rich_node(kind, ()) if requires_grad else data_node(kind, None))  # one that tracks may get hooks


#: Operations without work: the compiler never sees them.
ALIASES = frozenset((IDENTITY, SAME, DETACH))


def another(t: Tensor) -> Tensor:
    """A result of its own with a tensor's value.

    What changes it in place leaves that one as it is; its hooks, and gradients with respect to it, are of what flows
    through it.
    """
    now = state.now
    if t.node.kind.out.requires_grad or now.tracing or now.since:  # a node tells what a function made itself
        return record(SAME, (t,))
    if MODE.get().careful:
        now.meet(t)
    return handle(t.node, t.masked)


def of_its_own(y: Tensor, x: Tensor) -> Tensor:
    """The result of an operation on x: where it has nothing to do, a result of its own."""
    return another(x) if y is x else y


_IDENTITY_KINDS: dict[tuple[Out, bool], Kind] = {}


def identity_of(node: Node, *, requires_grad: bool = True, leaf: Leaf | None = None) -> RichNode:
    """A node of its own with the value of another: what gradients are taken with respect to."""
    key = node.kind.out, requires_grad
    kind = _IDENTITY_KINDS.get(key)
    if kind is None:
        # One object for both ways to it: a result that tracks, and one that does not.
        out = out_of(node.kind.out.aval, requires_grad)
        kind = kept(_IDENTITY_KINDS, key, one_kind((IDENTITY, out), IDENTITY, (), out))
    return rich_node(kind, (node,), leaf=leaf)


def is_tracking(*tensors: Tensor) -> bool:
    """True if recording an operation on these now would give a result that requires grad."""
    return MODE.get().tracks and any(t.node.kind.out.requires_grad for t in tensors)
