"""A history that is gone through: which of it gradients need, whether it was given up before, and giving it up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import GradientError, caller
from ..tape.node import Node, released
from ..tape.walk import gradient_inputs

__all__ = ["check_not_released", "passed", "release"]


def passed(past: Sequence[Node], targets: Iterable[Node]) -> list[int]:
    """The places in a history of rules that gradients of `targets` go through: not those that the targets are made of.

    Places, not nodes: what holds a node beside its history counts as somebody who may need its value.
    """
    reached, places = set(targets), []
    for k, node in enumerate(past):
        if any([i in reached for i in gradient_inputs(node)]):
            reached.add(node)
            places.append(k)
    return places


def check_not_released(rare: Sequence[Node], than: float = 0) -> None:
    """Raise GradientError when a backward went through any of these before and let go of it.

    rare    the `uncommon` nodes of a history;  than: a number: only of newer ones
    """
    if any([n.kind.released and n.number > than for n in rare]):
        raise GradientError(
            f"second backward through the same graph\n  called at {caller()}\n"
            "  pass retain_graph=True to the first one, or compute the result again"
        )


def release(past: Sequence[Node]) -> None:
    """Mark a history as given up; what it kept for gradients is freed."""
    for node in past:
        if node.leaf is None:
            kind = node.kind
            node.kind = kind.freed or released(kind)
            if node.value is not None:
                node.inputs = ()
