"""Inputs that a forward changes in place: declared, returned, and then the caller's handle carries the result.

Forward gets handles of its own on the call's inputs, so a change in it rebinds those and is seen by
comparing nodes.  Values never change: whatever was recorded with the old value keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import GradientError, caller
from ..mode import MODE
from ..tape.node import Node
from ..tape.record import IDENTITY, identity_of
from ..tensor import Tensor
from .outputs import Outputs

__all__ = ["dirty_places", "rebind_callers"]


def dirty_places(function: str, inner: Sequence[Tensor], given: Sequence[Tensor], nodes: Sequence[Node],
                 declared: Sequence[Any], outputs: Outputs) -> dict[int, Tensor]:
    """The arguments that were changed: number of the handle -> forward's own handle of it.

    inner, given   handles in forward, and those of the caller, in order;  nodes: what they named before
    declared       what was given to mark_dirty

    Raises GradientError for a change that is not declared, a declared input that is not returned or is
    a leaf that requires grad, and for what is no input.
    """
    found: dict[int, Tensor] = {}
    for x in declared:
        number = next((k for k, t in enumerate(inner) if t is x), None)
        if number is None:
            raise GradientError(
                f"{function}: mark_dirty of something that is no input of this call\n  called at {caller()}"
            )
        found[number] = inner[number]
    for k, (t, node) in enumerate(zip(inner, nodes, strict=True)):
        if k not in found and _names_another(t.node, node):
            raise GradientError(
                f"{function}: forward changes its input {k} ({t.aval}) in place without saying so\n"
                f"  called at {caller()}\n"
                "  declare it: ctx.mark_dirty(input), and return it; or compute a new tensor"
            )
    for k, t in found.items():
        if not outputs.returns(t):
            raise GradientError(
                f"{function}: the input {t.aval} is marked dirty, but forward does not return it\n"
                f"  called at {caller()}\n"
                "  return it: the result takes its place in the caller's handle"
            )
        if given[k].node.leaf is not None and MODE.get().tracks:
            raise GradientError(
                f"{function}: forward changes a leaf that requires grad in place\n"
                f"  called at {caller()}\n"
                "  call it under ad.no_grad(), or on x.detach() or x * 1"
            )
    handles = [id(given[k]) for k in found]
    if len(set(handles)) != len(handles):
        raise GradientError(
            f"{function}: one tensor is passed twice and both are changed in place\n"
            f"  called at {caller()}\n"
            "  pass a copy"
        )
    return found


def _names_another(now: Node, before: Node) -> bool:
    """True if a handle was rebound to another value (a hook only puts an identity in between)."""
    while now is not before and now.kind.op is IDENTITY and now.hooks:
        (now,) = now.inputs
    return now is not before


def rebind_callers(found: dict[int, Tensor], given: Sequence[Tensor], outputs: Outputs, leaves: list[Any]) -> list[Any]:
    """Let the caller's handles carry the results; returns `leaves` with those handles in their places."""
    for k, t in found.items():
        mine = given[k]
        places = [i for i, x in enumerate(outputs.leaves) if x is t]
        new = leaves[places[0]].node
        identity = mine.node.leaf  # under no_grad a leaf stays the same leaf
        mine.node = new if identity is None else identity_of(new, leaf=identity)
        leaves[places[0]] = mine
    return leaves
