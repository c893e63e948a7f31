"""Applying the `jvp` of a custom function: tangents of its arguments in, tangents of its outputs out."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..custom.call import CustomCall
from ..custom.outputs import refuse_forgotten
from ..custom.reads import refuse_closed
from ..errors import GradientError, with_article
from ..ops import as_tensor
from ..tape.node import Node
from ..tape.record import state
from ..tensor import AbstractTensor, Tensor
from .rule_values import GradientShapeError, call_user, context_of, needs_of, tensors_of, without_known_history

__all__ = ["push_rule"]


def push_rule(node: Node, rule: Any, tangents: dict[Node, Tensor]) -> dict[int, Tensor]:
    """The tangents of a call's tracked outputs, by slot; one that is zero is left out.

    The rule gets one tangent per declared parameter, in the parameter's own container; None is zero.
    It returns the tangents of the outputs in their container.
    Raises GradientError for anything else.
    """
    call: CustomCall = node.call
    where = f"{call.function.__name__} (jvp at {rule.place}, called at {call.line})"

    def tangent_at(place: int) -> Tensor | None:
        return tangents.get(node.inputs[place])

    for place, name in call.closed():
        if tangent_at(place) is not None:
            refuse_closed(name, "jvp", call.function.__name__, call.method.place, call.line)
    given = [_or_none(p.unpack(tangent_at, lambda _: None)) for p in call.arguments.values()]
    needs = needs_of(call, lambda place: tangent_at(place) is not None)
    looked = state.now.looked - state.now.bounded
    tensor_at = tensors_of(node)
    ctx = context_of(call, tensor_at, needs, node=node)
    returned = call_user(rule.implementation, rule, call, tensor_at, (ctx, *given), where)
    found = {slot: _checked(t, call, slot, where) for slot, t in _by_slot(call, returned, where).items()}
    if state.now.looked - state.now.bounded == looked:
        return found
    sources = [*node.inputs, *[t.node for t in tangents.values()]]
    which = f"a tangent that the jvp of {call.function.__name__} ({rule.place}) made of asked values"
    return without_known_history(found, rule, node, sources, which)


def _or_none(tangent: Any) -> Any:
    """A container without any tangent is zero as a whole."""
    return None if all(x is None for x in tree.leaves(tangent)) else tangent


def _by_slot(call: CustomCall, returned: Any, where: str) -> dict[int, Any]:
    result = call.result
    if returned is None:
        mend = "return the tangents of the outputs; `return None` says that they are zero"
        refuse_forgotten(call.rule("jvp"), where, mend)
        return {}
    if result.structure is None:
        parts = [returned]
    else:
        try:
            parts = tree.flatten_up_to(result.structure, returned, "outputs")
        except (TypeError, ValueError) as error:
            raise GradientError(f"{where} must return the tangents in the outputs' container: {error}") from None
    pairs = zip(result.places, parts, strict=True)
    return {-1 - place: t for place, t in pairs if place is not None and place < 0 and t is not None}


def _checked(t: Any, call: CustomCall, slot: int, where: str) -> Tensor:
    aval = call.avals[slot]
    if not isinstance(t, (AbstractTensor, np.ndarray, np.generic, int, float, complex)):
        raise GradientError(
            f"{where} returned {with_article(type(t).__name__)} as the tangent of output {slot}: {aval}\n"
            "  return a tensor with the output's shape, or None for zero; for several outputs one for each, in order"
        )
    if isinstance(t, (int, float)) and not isinstance(t, np.generic) and not aval.shape:
        t = np.asarray(t, aval.dtype)
    t = as_tensor(t)
    if t.aval != aval:
        raise GradientShapeError(
            f"{where} returned {t.aval} as the tangent of output {slot}: {aval}\n"
            "  a tangent has the shape and dtype of its output"
        )
    return t
