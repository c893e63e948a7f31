"""Boundaries: one node per call of a forward/backward pair, which carries the rule.

Forward runs once per recorded call, and what it computes is recorded like anything else.  The
boundary is the identity in value and the user's rule in derivative:

    one output        boundary(body output, *call's inputs, *extras)
    several outputs   call(*call's inputs, *extras, *body outputs)
                      pick(call, body output)  for each of them

Extras are saved intermediates, and outputs that carry no gradient.  Cotangents flow to the call's inputs
only; the body is never differentiated past.  (A method with a `jvp` and no backward is the exception:
its boundary is transparent to reverse mode, cotangents flow to the body.)  Inside forward, handles of
inputs are masked (they report requires_grad False), but body nodes keep their history, so a saved
intermediate can be differentiated through: second order is right.

A `Call` is data.  It holds no node and no tensor: where a tensor comes from is a number, the place among
the boundary's inputs, or -1 - k for tracked output k, read back behind its boundary.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval

from ..errors import GradientError, UserLine
from ..tape.node import Kind, Node, Out, Primitive, RichNode, leaf_kind, out_of, rich_node
from ..tape.record import DETACH, record, state
from ..tensor import Tensor, handle
from .context import ForwardContext, attributes, said
from .looks import looked_at
from .outputs import Outputs
from .packed import Packed
from .reads import function_key, static_key

__all__ = ["Call", "MappedCall", "bounded", "call_of", "detached", "key_of", "output_of"]

_BOUNDARY = Primitive("boundary", infer=lambda x: x, reference=lambda x: x)
_CALL = Primitive("call", infer=lambda: None, reference=None)
_CALL_KIND = Kind(_CALL, (), out_of(Aval((), np.float64), True))  # a value nobody asks for
_TOKEN_KIND = leaf_kind(out_of(Aval((), np.int64)))
_KINDS: dict[Out, Kind] = {}

_next_token = itertools.count(1).__next__
_calls: weakref.WeakValueDictionary[int, Call] = weakref.WeakValueDictionary()


def _boundary_kind(aval: Aval) -> Kind:
    out = out_of(aval, True)
    found = _KINDS.get(out)
    return found or _KINDS.setdefault(out, Kind(_BOUNDARY, (), out))


class Call:
    """The call of a custom function that a boundary stands for.

    function   the generic function;  method  its forward method;  types  of the call's arguments
    arguments  one Packed per declared parameter, by name
    saved      (name or None, Packed) in the order of save_for_backward
    attributes Packed by name: what forward set on its context
    result     Packed: the outputs in their container
    avals      of the tracked outputs
    opaque     forward asked for values: what it made may have a history that nobody knows
    transparent  reverse mode differentiates the body: there is a jvp, but no backward
    token      place of the number by which a host rule finds this call when it runs; None: no host rule
    line       the user's line
    numbers    Python's numbers, and arrays, that its rule may read, as `key` found them last
    structure  everything else of its key
    """

    __slots__ = (
        "__weakref__", "arguments", "attributes", "avals", "first", "function", "is_pure", "line", "materialize",
        "method", "numbers", "opaque", "result", "saved", "structure", "token", "transparent", "types",
    )

    function: Any
    method: Any
    types: tuple[type, ...]
    arguments: dict[str, Packed]
    saved: tuple[tuple[str | None, Packed], ...]
    attributes: dict[str, Packed]
    result: Packed
    avals: tuple[Aval, ...]
    materialize: bool
    opaque: bool
    transparent: bool
    token: int | None
    line: UserLine | None
    first: int
    is_pure: bool
    numbers: list[Any]
    structure: Any

    def rule(self, kind: str = "backward") -> Any:
        """The rule that serves this call now; None when there is none."""
        return self.function.rule_for(kind, self.method, self.types)

    def packed(self) -> list[Packed]:
        """Everything that a rule may read."""
        saved = [p for _, p in self.saved]
        return [*self.arguments.values(), *saved, *self.attributes.values(), self.result]

    def key(self) -> Any:
        """What the rule key says about this call.  `is_pure` tells whether it says everything, apart from `numbers`.

        Of numbers it says the kind, and the value of those that the rule was seen to look at.
        """
        rule = self.rule()
        shape = (tuple([n for n, _ in self.saved]), tuple(self.attributes), self.materialize)
        numbers: list[Any] = []
        self.numbers = numbers
        if rule is not None and rule.host and self.token is not None:
            # A host rule reads everything else when it runs.
            self.is_pure = True
            return (rule, shape, tuple([(p.structure, p.places) for p in self.packed()]))
        parts = [p.key(numbers) for p in self.packed()]
        key, pure = (None, True) if rule is None else function_key(rule.implementation, (), numbers)
        structure = self.structure = (key, shape, tuple([k for k, _ in parts]))
        self.is_pure = pure and not (rule is not None and rule.host) and all([ok for _, ok in parts])
        if not numbers:
            return structure
        looked = looked_at(rule, structure)
        self.is_pure &= all([type(numbers[i]) is not np.ndarray for i in looked])
        return key_of(structure, numbers, looked)

    def whole_key(self) -> Any:
        """What distinguishes this call for those who record its rule with the numbers that there are."""
        key = self.key()
        self.is_pure &= all([type(x) is not np.ndarray for x in self.numbers])
        return (key, tuple([static_key(x)[0] for x in self.numbers]))


def key_of(structure: Any, numbers: Sequence[Any], looked: tuple[int, ...]) -> Any:
    """The key of a call of this structure, some of whose numbers count by value."""
    return (structure, looked, tuple([static_key(numbers[i])[0] for i in looked]))


class MappedCall(Call):
    """The calls of a custom function for many examples (`vmap`): the rule of one is applied to each.

    inner    the call of one example;  size: how many there are
    mapped   which inputs of the boundary differ between examples: these have them along axis 0
    """

    __slots__ = ("inner", "mapped", "size")

    def __init__(self, inner: Call, size: int, mapped: tuple[bool, ...]) -> None:
        for name in Call.__slots__:
            if name != "__weakref__":
                setattr(self, name, getattr(inner, name))
        self.inner = inner
        self.size = size
        self.mapped = mapped
        self.avals = tuple([a.with_shape((size, *a.shape)) for a in inner.avals])

    def key(self) -> Any:
        """What the rule key says about this call."""
        key = self.inner.whole_key()
        self.is_pure = self.inner.is_pure
        self.numbers = []  # the rule of one example gets them as they are
        return (key, self.size, self.mapped)

    def boundary(self, inputs: Sequence[Node], flow: Any) -> list[Tensor]:
        """The outputs for all examples, behind one boundary, given its inputs for all examples."""
        node = _again(self, inputs, flow)
        if self.first:
            return [_handle(node, False)]
        bodies = node.inputs[len(node.inputs) - len(self.avals) :]
        return [_handle(_pick(node, slot, body), False) for slot, body in enumerate(bodies)]

    def example(self, inputs: Sequence[Node], flow: Any) -> RichNode:
        """The boundary of one example, given its inputs."""
        return _again(self.inner, inputs, flow)


def _again(call: Call, inputs: Sequence[Node], flow: Any) -> RichNode:
    """The node that stands for a call: the boundary of one output, the call of several."""
    node = rich_node(_boundary_kind(call.avals[0]) if call.first else _CALL_KIND, tuple(inputs), call=call)
    node.body = 0 if call.first else None
    node.flow = flow
    node.line = call.line
    return node


def call_of(token: int) -> Call:
    """The call that a token stands for, as long as its boundary is alive."""
    return _calls[token]


def bounded(
    call: Call,
    ctx: ForwardContext,
    inputs: Sequence[Node],
    place: dict[Node, int],
    outputs: Outputs,
    masked: bool,
    has_token: bool,
) -> list[Any]:
    """Make the boundary of a call that tracks: one node with one tracked output, a call and its picks with several.

    place   numbers of `inputs`.  Completes `call`; returns the leaves of the result.
    """
    told = said(ctx)
    tracked = outputs.tracked
    if not tracked:
        if not outputs.has_untracked:
            raise GradientError(
                f"{call.function.__name__}: an argument requires a gradient, but no output can carry one\n"
                f"  called at {call.line}\n"
                "  return a float tensor, or declare the outputs with ctx.mark_non_differentiable"
            )
        return [detached(x, masked) for x in outputs.leaves]
    single = len(tracked) == 1
    n_inputs = len(inputs)
    call.first = int(single)
    body = tuple([t.node for t in tracked])
    number = {node: -1 - k for k, node in reversed(list(enumerate(body)))}
    extra: list[Node] = []

    def place_of(t: Tensor) -> int:
        node = t.node
        found = place.get(node)
        if found is not None:
            return found + call.first
        if node in number:
            return number[node]
        place[node] = n_inputs + len(extra)
        extra.append(node)
        return place[node] + call.first

    if call.first:
        call.arguments = {n: p.shifted(call.first) for n, p in call.arguments.items()}
    call.saved = tuple([(n, Packed(v, place_of, outputs.tensor_of)) for n, v in told.saved or ()])
    call.attributes = {n: Packed(v, place_of, outputs.tensor_of) for n, v in attributes(ctx).items()}
    untracked = [x if slot is not None else detached(x, masked) for x, slot in zip(*outputs.slotted, strict=True)]
    call.result = Packed.of(outputs.structure, untracked, place_of)
    call.result.places = tuple(
        [p if slot is None else -1 - slot for p, slot in zip(call.result.places, outputs.slots, strict=True)]
    )
    call.avals = tuple([t.aval for t in tracked])
    call.token = None
    if has_token:
        call.token = n_inputs + len(extra) + call.first
        extra.append(_token(call))
    if single:
        node = rich_node(_boundary_kind(tracked[0].aval), (body[0], *inputs, *extra), call=call)
        node.body, node.flow = 0, slice(0, 1) if call.transparent else slice(1, 1 + n_inputs)
        picks = [node]
    else:
        node = rich_node(_CALL_KIND, (*inputs, *extra, *body), call=call)
        node.flow = slice(len(node.inputs) - len(body), None) if call.transparent else slice(0, n_inputs)
        picks = [_pick(node, k, b) for k, b in enumerate(body)]
    node.line = call.line
    pairs = zip(untracked, outputs.slots, strict=True)
    return [x if slot is None else _handle(picks[slot], masked) for x, slot in pairs]


def _token(call: Call) -> Node:
    """A number that finds the call again, as an input of the graph: not part of any key."""
    number = _next_token()
    _calls[number] = call
    return rich_node(_TOKEN_KIND, (), np.asarray(number), call=call)


def _pick(call: Node, slot: int, body: Node) -> RichNode:
    node = rich_node(_boundary_kind(body.kind.out.aval), (call, body))
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
