"""Applying the rule of a custom function: what it is given, and what it may give back.

A backward may return a dict by parameter name, a tuple or list with one entry per declared
parameter, or, where exactly one argument is a tensor, that one gradient.  Every gradient has its
input's shape; its float width is adapted; `None` is zero, symbolically.  Everything else is refused
with the function, the argument, both avals and the user's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from .. import tree
from ..custom.boundary import Call, Packed, output_of
from ..custom.context import BackwardContext, Fields
from ..errors import DTypeError, GradientError, ShapeError
from ..ops import as_tensor, astype, zeros_of
from ..tape.node import Node
from ..tape.record import grad_mode
from ..tensor import Tensor, handle
from .nesting import call_nested

__all__ = ["call_rule", "missing_rule"]


def missing_rule(node: Node) -> GradientError:
    """The error for an operation without a derivative."""
    op = node.kind.op
    inputs = ", ".join(str(i.kind.out.aval) for i in node.inputs)
    return GradientError(
        f"{op.name}({inputs}) has no derivative\n"
        f"  give it one: @ad.{op.name}.backward(...), or detach its inputs"
    )


def call_rule(node: Node, cotangents: dict[int, Tensor], wanted: set[Node]) -> list[Tensor | None]:
    """The cotangents of a call's inputs, in the order of the boundary's `flow`."""
    call: Call = node.call
    rule = call.function.rule_for("backward", call.method, call.types)
    if rule is None:
        raise GradientError(call.function.explain_missing_rule(call.method, call.types, call.line))
    arguments = [_output_bar(call, slot, cotangents) for slot in range(len(call.avals))]
    inputs = node.inputs[node.flow]
    needs = {
        name: any(p is not None and node.inputs[p] in wanted for p in packed.places)
        for name, packed in call.arguments.items()
    }
    ctx = _context(node, call, needs)
    where = f"{call.function.__name__} (backward at {rule.place}, called at {call.line})"
    try:
        returned = call_nested(rule.implementation, ctx, *_by_output(call, arguments))
    except Exception as error:
        error.add_note(f"in the backward rule of {where}")
        raise
    given = _by_name(call, returned, needs, where)
    bars: dict[int, Tensor] = {}
    for name, value in given.items():
        for place, g in _leaves(call, name, call.arguments[name], value, where):
            if node.inputs[place] in wanted:
                checked = _checked(g, node.inputs[place], name, where)
                bars[place] = bars[place] + checked if place in bars else checked
    first = node.flow.start
    return [bars.get(first + k) for k in range(len(inputs))]


def _output_bar(call: Call, slot: int, cotangents: dict[int, Tensor]) -> Tensor | None:
    """The cotangent of one output; zeros for an unused one, unless forward declined them."""
    found = cotangents.get(slot)
    if found is None and call.materialize:
        return zeros_of(call.avals[slot])
    return found


def _by_output(call: Call, bars: Sequence[Tensor | None]) -> tuple:
    """The arguments of backward: one per element of a tuple or list output, else one in its own container.

    Outputs that are no tracked tensors get None.
    """
    value = call.result.unpack(lambda slot: bars[slot])
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _context(node: Node, call: Call, needs: dict[str, bool]) -> BackwardContext:
    def tensor_at(place: int) -> Tensor:
        if place < 0:
            return output_of(node, -1 - place)
        source = node.inputs[place]
        if call.opaque and grad_mode.get() and not source.inputs and not _is_input(node, place):
            raise GradientError(_historyless(call))
        return handle(source)

    def value(packed: Packed) -> Any:
        return packed.unpack(tensor_at)

    names = [n for n, _ in call.saved]
    saved = Fields(names, [value(p) for _, p in call.saved], "saved_variables")
    return BackwardContext(
        call.function.__name__,
        saved,
        Fields(list(needs), list(needs.values()), "needs_input_grad"),
        Fields(list(call.arguments), [value(p) for p in call.arguments.values()], "inputs"),
        call.result.unpack(lambda slot: output_of(node, slot)),
        {name: value(p) for name, p in call.attributes.items()},
    )


def _is_input(node: Node, place: int) -> bool:
    return node.inputs[place] in node.inputs[node.flow]


def _historyless(call: Call) -> str:
    return (
        f"{call.function.__name__}: second order through an array that forward computed outside of the library\n"
        f"  called at {call.line}\n"
        "  such an array has no derivative; write that factor as another ad.function"
    )


def _by_name(call: Call, returned: Any, needs: dict[str, bool], where: str) -> dict[str, Any]:
    """What backward returned, by parameter."""
    names = list(call.arguments)
    if isinstance(returned, dict):
        return _checked_names(call, returned, needs, where)
    tensors = [n for n, p in call.arguments.items() if any(x is not None for x in p.places)]
    if isinstance(returned, (tuple, list)):
        if len(returned) > len(names) and any(g is not None for g in returned[len(names) :]):
            raise GradientError(
                f"{where} returned {len(returned)} gradients for {len(names)} parameters ({', '.join(names)})"
            )
        missing = [n for n in names[len(returned) :] if needs[n]]
        if missing:
            raise GradientError(
                f"{where} returned {len(returned)} gradients; {missing[0]!r} needs one too\n"
                f"  the parameters are ({', '.join(names)}); return None for one that is zero"
            )
        return dict(zip(names, returned, strict=False))
    if len(tensors) == 1:
        return {tensors[0]: returned}
    raise GradientError(
        f"{where} returned a {type(returned).__name__} for {len(tensors)} tensor arguments\n"
        f"  return a dict with the keys {', '.join(map(repr, tensors))}, or a tuple in the order of the parameters"
    )


def _checked_names(call: Call, returned: dict, needs: dict[str, bool], where: str) -> dict[str, Any]:
    names = list(call.arguments)
    for name in returned:
        if name not in needs:
            close = get_close_matches(str(name), names, n=1)
            raise GradientError(
                f"{where} returned a gradient for {name!r}, which is no parameter\n"
                f"  the parameters are {', '.join(names)}" + (f"; did you mean {close[0]!r}?" if close else "")
            )
    for name, need in needs.items():
        if need and name not in returned:
            raise GradientError(
                f"{where} returned no gradient for {name!r}, which needs one\n"
                f"  add {name!r} to the dict; None says that it is zero"
            )
    return returned


def _leaves(call: Call, name: str, packed: Packed, value: Any, where: str) -> list[tuple[int, Any]]:
    """(place, gradient) for the tensors of one argument; None stands for a whole subtree."""
    if value is None:
        return []
    if all(p is None for p in packed.places):
        raise GradientError(f"{where} returned a gradient for {name!r}, which is no tensor; return None")
    if packed.structure is None:
        return [(packed.places[0], value)]
    try:
        parts = tree.flatten_up_to(packed.structure, value)
    except (TypeError, ValueError) as error:
        raise GradientError(f"{where}: the gradient for {name!r} must have the argument's container: {error}") from None
    pairs = []
    for place, part in zip(packed.places, parts, strict=True):
        if part is None:
            continue
        if place is None:
            if isinstance(part, (Tensor, np.ndarray)):
                raise GradientError(f"{where} returned a gradient inside {name!r} for what is no tensor; return None")
            continue
        pairs.append((place, part))
    return pairs


def _checked(g: Any, node: Node, name: str, where: str) -> Tensor:
    """A gradient as a tensor of its input's aval."""
    aval = node.kind.out.aval
    if not isinstance(g, (Tensor, np.ndarray, np.generic, int, float, complex)) or isinstance(g, bool):
        raise GradientError(f"{where} returned a {type(g).__name__} as the gradient for {name!r}: {aval}")
    if isinstance(g, (int, float, complex)) and not isinstance(g, np.generic):
        if aval.shape:
            raise _wrong_shape(where, name, aval, f"the number {g!r}")
        g = np.asarray(g, aval.dtype if not isinstance(g, complex) else np.complex128)
    g = as_tensor(g)
    if g.dtype.kind not in "fc":
        raise _integer_gradient(where, name, aval, g)
    if g.shape != aval.shape:
        raise _wrong_shape(where, name, aval, str(g.aval))
    return g if g.dtype == aval.dtype else astype(g, aval.dtype)


class _GradientShapeError(GradientError, ShapeError):
    """A gradient of another shape than its input: both a GradientError and a ShapeError."""


class _GradientDTypeError(GradientError, DTypeError):
    """An integer gradient: both a GradientError and a DTypeError."""


def _wrong_shape(where: str, name: str, aval: Any, got: str) -> GradientError:
    return _GradientShapeError(
        f"{where} returned {got} as the gradient for {name!r}: {aval}\n"
        "  a gradient has its input's shape; ad.unbroadcast(g, like) sums over broadcast axes"
    )


def _integer_gradient(where: str, name: str, aval: Any, g: Tensor) -> GradientError:
    return _GradientDTypeError(f"{where} returned an integer gradient {g.aval} for {name!r}: {aval}")
