"""Boundaries: one node per call of a forward/backward pair, which carries the rule.

Forward runs once per recorded call, and what it computes is recorded like anything else.  The
boundary is the identity in value and the user's rule in derivative:

    one output        boundary(body output, *call's inputs, *extras)
    several outputs   call(*call's inputs, *extras, *body outputs)
                      pick(call, body output)  for each of them

Extras are saved intermediates, and outputs that carry no gradient.  Cotangents flow to the call's inputs
only; the body is never differentiated past.  What a forward closes over and tracks is one of them, behind the
arguments, to which no rule gives a gradient (`closures`).  (A method with a `jvp` and no backward is the exception:
its boundary is transparent to reverse mode, cotangents flow to the body.)  Inside forward, handles of
inputs are masked (they report requires_grad False), but body nodes keep their history, so a saved
intermediate can be differentiated through: second order is right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar
from weakref import ref

import numpy as np

from codegen.ir import Aval

from ..frames import UserLine
from ..tape.node import Kind, Node, Out, Primitive, RichNode, kept, leaf_kind, one_kind, out_of, rich_node
from ..tape.record import DETACH, record, state
from ..tensor import Tensor, handle
from .call import Call, Site, shape_of
from .closures import Path, held_by, names_of
from .context import ForwardContext, attributes, said
from .outputs import Outputs, no_gradient
from .packed import Packed

__all__ = ["MappedCall", "boundary_kind", "bounded", "call_of", "detached", "output_of", "outputs_of"]

_BOUNDARY = Primitive("boundary", infer=lambda x: x, reference=lambda x: x)
_CALL = Primitive("call", infer=lambda: None, reference=None)
_CALL_KIND = Kind(_CALL, (), out_of(Aval((), np.float64), True))  # a value nobody asks for
_TOKEN_KIND = leaf_kind(out_of(Aval((), np.int64)))
_KINDS: dict[Out, Kind] = {}

_next_token = itertools.count(1).__next__
_calls: dict[int, ref[Call]] = {}


def boundary_kind(aval: Aval) -> Kind:
    """The kind of a boundary of one output, and of what picks one of several."""
    out = out_of(aval, True)
    return _KINDS.get(out) or kept(_KINDS, out, one_kind((_BOUNDARY, out), _BOUNDARY, (), out))


class MappedCall(Call):
    """The calls of a custom function for many examples (`vmap`): the rule of one is applied to each.

    inner    the call of one example;  size: how many there are
    mapped   which inputs of the boundary differ between examples: these have them along axis 0
    pull_each, push_each   apply the rules of one to each: `transforms.batch.calls` says how
    """

    __slots__ = ("inner", "mapped", "size")

    pull_each: ClassVar[Callable[..., list[Tensor | None]]]
    push_each: ClassVar[Callable[..., dict[Any, Tensor]]]

    def __init__(self, inner: Call, size: int, mapped: tuple[bool, ...]) -> None:
        for name in Call.__slots__:
            if name != "__weakref__":
                setattr(self, name, getattr(inner, name))
        self.inner = inner
        self.size = size
        self.mapped = mapped
        self.avals = tuple([a.with_shape((size, *a.shape)) for a in inner.avals])

    def key(self, met: dict[int, tuple] | None = None) -> Any:
        """The part of the rule key that this call makes."""
        key = self.inner.whole_key()
        self.is_pure = self.inner.is_pure
        self.numbers = []  # the rule of one example gets them as they are
        return (key, self.size, self.mapped)

    def boundary(self, inputs: Sequence[Node], flow: Any) -> list[Tensor]:
        """The outputs for all examples, behind one boundary, given its inputs for all examples."""
        node = self.node(inputs, flow)
        if self.first:
            return [_handle(node, False)]
        bodies = node.inputs[len(node.inputs) - len(self.avals) :]
        return [_handle(_pick(node, slot, body), False) for slot, body in enumerate(bodies)]

    def node(self, inputs: Sequence[Node], flow: Any) -> RichNode:
        """The node that stands for the calls, given its inputs for all examples."""
        return _boundary_node(self, inputs, flow)

    def example(self, inputs: Sequence[Node], flow: Any) -> RichNode:
        """The boundary of one example, given its inputs."""
        return _boundary_node(self.inner, inputs, flow)


def _boundary_node(call: Call, inputs: Sequence[Node], flow: Any) -> RichNode:
    """The node that stands for a call: the boundary of one output, the call of several."""
    node = rich_node(boundary_kind(call.avals[0]) if call.first else _CALL_KIND, tuple(inputs), call=call)
    node.body = 0 if call.first else None
    node.flow = flow
    node.line = call.line
    return node


def call_of(token: int) -> Call:
    """The call that a token stands for, as long as its boundary is alive."""
    return _calls[token]()  # type: ignore[return-value]  # alive, as its boundary is


def bounded(
    site: Site,
    ctx: ForwardContext,
    arguments: dict[str, Packed],
    inputs: Sequence[Node],
    place: dict[Node, int],
    outputs: Outputs,
    masked: bool,
    has_token: bool,
    opaque: bool,
    line: UserLine | None,
    closed: Sequence[Node],
) -> list[Any]:
    """Make the boundary of a call that tracks: one node with one tracked output, a call and its picks with several.

    arguments, inputs   of the call, and the nodes of the tensors in them;  place: numbers of `inputs`
    opaque              forward asked for values
    closed              what it closes over and tracks

    Returns the leaves of the result.
    """
    told = said(ctx)
    tracked = outputs.tracked
    if not tracked:
        return _untracked(site, outputs, masked, line)
    closed_at, first = len(inputs), int(len(tracked) == 1)
    for node in closed:
        place.setdefault(node, closed_at + closed.index(node))
    inputs = (*inputs, *closed)
    n_inputs = len(inputs)
    body = tuple([t.node for t in tracked])
    number = {node: -1 - k for k, node in reversed(list(enumerate(body)))}
    extra: list[Node] = []

    def place_of(t: Tensor) -> int:
        node = t.node
        found = place.get(node)
        if found is not None:
            return found + first
        if node in number:
            return number[node]
        place[node] = n_inputs + len(extra)
        extra.append(node)
        return place[node] + first

    if first:
        arguments = {n: p.shifted(first) for n, p in arguments.items()}
    saved = [(n, Packed(v, place_of, outputs.tensor_of)) for n, v in told.saved or ()]
    set_on_it = {n: Packed(v, place_of, outputs.tensor_of) for n, v in attributes(ctx).items()}
    untracked = [x if slot is not None else detached(x, masked) for x, slot in zip(*outputs.slotted, strict=True)]
    result = Packed.of(outputs.structure, untracked, place_of)
    behind = zip(result.places, outputs.slots, strict=True)
    result.places = tuple([p if slot is None else -1 - slot for p, slot in behind])
    named = (names_of(closed, site.method.implementation), closed_at + first) if closed else ((), 0)
    shape, statics = shape_of(arguments, saved, set_on_it, result, told.materialize, first, *named)
    call = Call(site, shape, statics, tuple([t.aval for t in tracked]), opaque, None, line)
    if state.now.tracing:
        call.reads = _traced_reads(call, place_of)
    call.token = n_inputs + len(extra) + first if has_token else None
    if has_token:
        extra.append(_token(call))
    found = outputs_of(call, inputs, extra, body, masked)
    pairs = zip(untracked, outputs.slots, strict=True)
    return [x if slot is None else found[slot] for x, slot in pairs]


def _traced_reads(call: Call, place_of: Callable[[Tensor], int]) -> dict[Path, int]:
    """The values of this trace, and of those around it, that the rules of a call close over: where they are now."""
    outside = state.now.outside
    rules = [rule for rule in (call.rule(), call.rule("jvp")) if rule is not None]
    held = [((rule.kind, *path), t) for rule in rules for path, t in held_by(rule.implementation)]
    return {path: place_of(t) for path, t in held if t.node.value is None and t.node.number >= outside}


def _untracked(site: Site, outputs: Outputs, masked: bool, line: UserLine | None) -> list[Any]:
    """The leaves of a result that carries no gradient.  Raises GradientError unless that was declared."""
    if not outputs.has_untracked:
        raise no_gradient(site.function.__name__, line, any([isinstance(x, (float, complex)) for x in outputs.leaves]))
    return [detached(x, masked) for x in outputs.leaves]


def outputs_of(
    call: Call, inputs: Sequence[Node], extra: Sequence[Node], body: Sequence[Node], masked: bool
) -> list[Tensor]:
    """The tracked outputs of a call behind its boundary, one for each node of `body`; `extra` is what else it reads."""
    n_inputs, is_transparent = len(inputs), call.site.transparent
    if call.first:
        flow = slice(0, 1) if is_transparent else slice(1, 1 + n_inputs)
        return [_handle(_boundary_node(call, (body[0], *inputs, *extra), flow), masked)]
    n = n_inputs + len(extra)
    flow = slice(n, None) if is_transparent else slice(0, n_inputs)
    node = _boundary_node(call, (*inputs, *extra, *body), flow)
    return [_handle(_pick(node, k, b), masked) for k, b in enumerate(body)]


def _token(call: Call) -> Node:
    """A number that finds the call again, as an input of the graph: not part of any key."""
    number = _next_token()
    _calls[number] = ref(call, partial(_calls.pop, number))
    return rich_node(_TOKEN_KIND, (), np.asarray(number), call=call)


def _pick(call: Node, slot: int, body: Node) -> RichNode:
    node = rich_node(boundary_kind(body.kind.out.aval), (call, body))
    node.body, node.flow, node.slot = 1, slice(0, 1), slot
    return node


def _handle(node: Node, masked: bool) -> Tensor:
    """A handle that is computed along with a neighbour when it is small and live."""
    t = handle(node, masked)
    if node.kind.out.small:
        state.now.note_small(t)
    return t


def detached(t: Any, masked: bool) -> Any:
    """A tensor without its history; anything else as it is."""
    if not isinstance(t, Tensor):
        return t
    return handle(record(DETACH, (t,)).node, masked) if t.node.kind.out.requires_grad else handle(t.node, masked)


def output_of(node: Node, slot: int) -> Tensor:
    """Tracked output `slot` of a call, read back behind its boundary."""
    call = node.call
    if call.first:
        return handle(node)
    body = node.inputs[len(node.inputs) - len(call.avals) + slot]
    return handle(_pick(node, slot, body))
