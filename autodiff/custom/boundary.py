"""Boundaries: one node per call of a forward/backward pair, which carries the rule.

Forward runs once per recorded call, and what it computes is recorded like anything else.  The
boundary is the identity in value and the user's rule in derivative:

    one output        boundary(body output, *call's inputs, *saved intermediates)
    several outputs   call(*call's inputs, *saved intermediates, *body outputs)
                      pick(call, body output)  for each of them

Cotangents flow to the call's inputs only; the body is never differentiated past.  Inside forward,
handles of inputs are masked (they report requires_grad False), but body nodes keep their history,
so a saved intermediate can be differentiated through: second order is right.

A `Call` is data.  It holds no node and no tensor: where a saved tensor comes from is a number, the
place among the boundary's inputs, or -1 - k for output k, read back behind its boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval

from .. import tree
from ..errors import GradientError, UserLine, user_line
from ..tape.node import Kind, Node, Out, Primitive, RichNode, out_of, rich_node
from ..tape.record import DETACH, grad_mode, leaf, record, state
from ..tensor import Tensor, handle
from .context import OWN, ForwardContext
from .reads import function_key, static_key

__all__ = ["Call", "Packed", "call_forward", "output_of"]

_BOUNDARY = Primitive("boundary", infer=lambda x: x, reference=lambda x: x)
_CALL = Primitive("call", infer=lambda: None, reference=None)
_CALL_KIND = Kind(_CALL, (), out_of(Aval((), np.float64), True))  # a value nobody asks for
_KINDS: dict[Out, Kind] = {}


def _boundary_kind(aval: Aval) -> Kind:
    out = out_of(aval, True)
    found = _KINDS.get(out)
    return found or _KINDS.setdefault(out, Kind(_BOUNDARY, (), out))


class Packed:
    """A value with tensors in it, taken apart: its structure, places of tensors, everything else by value.

    places   for each leaf: the place of a tensor (int), or None
    statics  the leaves that are no tensors, in order
    """

    __slots__ = ("places", "statics", "structure")

    structure: Any
    places: tuple[Any, ...]
    statics: tuple[Any, ...]

    def __init__(self, value: Any, place_of: Callable[[Tensor], int]) -> None:
        if isinstance(value, Tensor):
            self.structure, self.places, self.statics = None, (place_of(value),), ()
            return
        leaves, self.structure = tree.flatten(value)
        self.places = tuple([place_of(x) if isinstance(x, Tensor) else None for x in leaves])
        self.statics = tuple([x for x in leaves if not isinstance(x, Tensor)])

    def unpack(self, tensor_at: Callable[[int], Any]) -> Any:
        """The value again, with `tensor_at(place)` in the place of each tensor."""
        if self.structure is None:
            return tensor_at(self.places[0])
        statics = iter(self.statics)
        return tree.unflatten(self.structure, [next(statics) if p is None else tensor_at(p) for p in self.places])

    def key(self) -> tuple[Any, bool]:
        """(what a rule key says about this value, whether that says everything)."""
        parts = [static_key(x) for x in self.statics]
        return (self.structure, self.places, tuple([k for k, _ in parts])), all(pure for _, pure in parts)


class Call:
    """The call of a custom function that a boundary stands for.

    function   the generic function;  method  its forward method;  types  of the call's arguments
    arguments  one Packed per declared parameter, by name
    saved      (name or None, Packed) in the order of save_for_backward
    attributes Packed by name: what forward set on its context
    result     Packed: the outputs in their container (places are output numbers)
    avals      of the tracked outputs
    opaque     forward asked for values: a saved array may have a history that nobody knows
    line       the user's line
    """

    __slots__ = (
        "_key", "arguments", "attributes", "avals", "first", "function", "is_pure", "line", "materialize", "method",
        "opaque", "result", "saved", "types",
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
    line: UserLine | None
    first: int
    is_pure: bool

    def key(self) -> Any:
        """What the rule key says about this call.  `is_pure` tells whether it says everything."""
        rule = self.function.rule_for("backward", self.method, self.types)
        rule_key, pure = (None, True) if rule is None else function_key(rule.implementation)
        parts = [p.key() for p in self.arguments.values()]
        parts += [p.key() for _, p in self.saved]
        parts += [p.key() for p in self.attributes.values()]
        parts.append(self.result.key())
        self.is_pure = pure and not (rule is not None and rule.host) and all(ok for _, ok in parts)
        return (
            rule_key,
            tuple([k for k, _ in parts]),
            tuple([n for n, _ in self.saved]),
            tuple(self.attributes),
            self.materialize,
        )


def call_forward(function: Any, method: Any, run: Callable, arguments: dict[str, Any], types: tuple) -> Any:
    """Run a forward method and put a boundary around what it recorded.

    arguments   every declared parameter by name, defaults filled in; a variadic one as a tuple
    run         run(ctx, arguments) calls the method

    Returns forward's outputs in their container, tracking if any argument tracks.
    Raises GradientError when arguments track and nothing that is returned can.
    """
    now = state.now
    inputs: list[Node] = []
    place: dict[Node, int] = {}
    masked = False

    def place_of(t: Tensor) -> int:
        nonlocal masked
        masked |= t.masked
        number = place.get(t.node)
        if number is None:
            number = place[t.node] = len(inputs)
            inputs.append(t.node)
        return number

    packed = {name: Packed(value, place_of) for name, value in arguments.items()}
    tracks = grad_mode.get() and any([n.kind.out.requires_grad for n in inputs])
    needs = [tracks and any(p is not None and inputs[p].kind.out.requires_grad for p in a.places)
             for a in packed.values()]
    inner = {name: a.unpack(lambda p: handle(inputs[p], masked=True)) for name, a in packed.items()}
    ctx = ForwardContext(function.__name__, list(arguments), needs, list(inner.values()))
    asked = now.asked
    now.body += 1
    try:
        result = run(ctx, inner)
    except Exception as error:
        error.add_note(f"in the forward method of {function.__name__} ({method.place})")
        raise
    finally:
        now.body -= 1
    outputs = _outputs(result)
    if not tracks:
        return _rebuilt(outputs, [handle(t.node, masked) if isinstance(t, Tensor) else t for t in outputs[0]])
    call = Call()
    call.function, call.method, call.types = function, method, types
    call.arguments, call.materialize = packed, ctx._materialize
    call.opaque = now.asked != asked
    call.is_pure = True
    call.line = user_line()
    return _bounded(call, ctx, inputs, place, outputs, masked)


def _outputs(result: Any) -> tuple[list, Any]:
    """Leaves and structure of what forward returned; arrays and NumPy scalars become tensors."""
    if isinstance(result, Tensor):
        return [result], None
    leaves, structure = tree.flatten(result)
    return [_as_output(x) for x in leaves], structure


def _as_output(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return leaf(np.array(x, order="C"))
    return x


def _rebuilt(outputs: tuple[list, Any], leaves: list) -> Any:
    return leaves[0] if outputs[1] is None else tree.unflatten(outputs[1], leaves)


def _bounded(
    call: Call,
    ctx: ForwardContext,
    inputs: list[Node],
    place: dict[Node, int],
    outputs: tuple[list, Any],
    masked: bool,
) -> Any:
    """Make the boundary: one node with one tracked output, a call and its picks with several."""
    constant = {id(t) for t in ctx._constant_outputs}
    unknown = constant - {id(t) for t in outputs[0]}
    if unknown:
        name = call.function.__name__
        raise GradientError(f"{name}: mark_non_differentiable of something that forward does not return")
    tracked = [
        t for t in outputs[0] if isinstance(t, Tensor) and t.dtype.kind in "fc" and id(t) not in constant
    ]
    if not tracked:
        if constant:
            return _rebuilt(outputs, [_detached(t, masked) for t in outputs[0]])
        raise GradientError(
            f"{call.function.__name__}: an argument requires a gradient, but no output can carry one\n"
            f"  called at {call.line}\n"
            "  return a float tensor, or declare the outputs with ctx.mark_non_differentiable"
        )
    single = len(tracked) == 1
    n_inputs = len(inputs)
    call.first = int(single)
    bodies = {t.node: -1 - k for k, t in reversed(list(enumerate(tracked)))}
    extra: list[Node] = []

    def place_of(t: Tensor) -> int:
        node = t.node
        number = place.get(node)
        if number is not None:
            return number + call.first
        if node in bodies:
            return bodies[node]
        place[node] = n_inputs + len(extra)
        extra.append(node)
        return place[node] + call.first

    call.arguments = {n: _shifted(p, call.first) for n, p in call.arguments.items()}
    call.saved = tuple([(n, Packed(v, place_of)) for n, v in ctx._saved or ()])
    call.attributes = {n: Packed(v, place_of) for n, v in ctx.__dict__.items() if n not in OWN}
    slots = iter(range(len(tracked)))
    numbered = {i: next(slots) for i, t in enumerate(outputs[0]) if any(t is x for x in tracked)}
    call.avals = tuple([t.aval for t in tracked])
    if single:
        node = rich_node(_boundary_kind(tracked[0].aval), (tracked[0].node, *inputs, *extra), call=call)
        node.body, node.flow = 0, slice(1, 1 + n_inputs)
        picks = [node]
    else:
        body = tuple([t.node for t in tracked])
        node = rich_node(_CALL_KIND, (*inputs, *extra, *body), call=call)
        node.flow = slice(0, n_inputs)
        picks = [_pick(node, k, t.node) for k, t in enumerate(tracked)]
    node.line = call.line
    leaves = [
        _handle(picks[numbered[i]], masked) if i in numbered else _detached(t, masked)
        for i, t in enumerate(outputs[0])
    ]
    call.result = _result(outputs[1], outputs[0], numbered)
    return _rebuilt(outputs, leaves)


def _shifted(packed: Packed, by: int) -> Packed:
    if by:
        packed.places = tuple([None if p is None else p + by for p in packed.places])
    return packed


def _result(structure: Any, leaves: Sequence[Any], numbered: dict[int, int]) -> Packed:
    packed = Packed.__new__(Packed)
    packed.structure = structure
    packed.places = tuple([numbered.get(i) for i in range(len(leaves))])
    packed.statics = tuple([None for i in range(len(leaves)) if i not in numbered])
    return packed


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


def _detached(t: Any, masked: bool) -> Any:
    if not isinstance(t, Tensor):
        return t
    return handle(record(DETACH, (t,)).node, masked) if t.node.kind.out.requires_grad else handle(t.node, masked)


def output_of(node: Node, slot: int) -> Tensor:
    """Output `slot` of a call, read back behind its boundary."""
    call = node.call
    if call.first:
        return handle(node)
    body = node.inputs[len(node.inputs) - len(call.avals) + slot]
    return handle(_pick(node, slot, body))
