"""The end of a backward pass: the `.grad` of leaves is written, and the history is given up.

Each `.grad` is written at once, so that threads do not go through one another's pending sums.  Of a history it is known
which part gradients need, and if it was given up before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from codegen.garbage import ignoring, set_in_context

from ..errors import GradientError, located
from ..mode import MODE
from ..ops import add
from ..tape import machine
from ..tape.leaves import leaf
from ..tape.node import Leaf, Node, released
from ..tape.plan import commit_lock, data
from ..tape.walk import gradient_inputs, uncommon

__all__ = ["check_not_released", "commit_lock", "passed", "release", "unchanged", "write"]


def unchanged(leaves: Iterable[Leaf], olds: Iterable[Node | None]) -> bool:
    """True if each `.grad` that was read (None: it was not) is still there."""
    for identity, old in zip(leaves, olds, strict=True):
        if old is not None and (identity.grad is None or identity.grad.node is not old):
            return False
    return True


def write(
    leaves: Iterable[Leaf], values: Sequence[np.ndarray | None], fused: Sequence[Node | None]
) -> None:
    """Set each `.grad`; a value that is not the sum with the old gradient yet is added to it.

    At once, so that threads do not go through one another's pending sums; only to a gradient that is itself
    pending (create_graph left it) the sum is recorded.
    """
    mode = MODE.get()
    try:
        set_in_context(MODE, mode.off)
        for identity, value, old in zip(leaves, values, fused, strict=True):
            if value is None:
                continue
            present = identity.grad
            if old is not None or present is None:
                identity.grad = leaf(value)
            elif present.node.value is None:
                identity.grad = add(present, leaf(value))
            else:
                with ignoring(all="ignore"):
                    identity.grad = leaf(np.asarray(np.add(data(present.node), value)))
    finally:
        set_in_context(MODE, mode)


def passed(past: list[Node], targets: Iterable[Node]) -> list[int]:
    """The places in a history of rules that gradients of `targets` go through: not those that the targets are made of.

    Places, not nodes: what holds a node beside its history counts as somebody who may need its value.
    """
    reached, ends = set(targets), {n for n in uncommon(past) if not gradient_inputs(n)}
    if reached.issuperset(ends):  # nothing leads elsewhere
        return [k for k, node in enumerate(past) if node not in ends]
    places = []
    for k, node in enumerate(past):
        if not reached.isdisjoint(node.inputs if type(node) is Node else gradient_inputs(node)):
            reached.add(node)
            places.append(k)
    return places


def check_not_released(rare: Sequence[Node], than: float = 0) -> None:
    """Raise GradientError when a backward went through any of these before and let go of it.

    rare    the `uncommon` nodes of a history;  than: a number: only of newer ones
    """
    if any([n.kind.released and n.number > than for n in rare]):
        raise GradientError(located(
            "second backward through the same graph",
            "pass retain_graph=True to the first one, or compute the result again",
        ))


def release(past: list[Node]) -> None:
    """Mark a history as given up; what it kept for gradients is freed."""
    native = machine.asks
    if native is not None:
        while (kind := native.release(past)) is not None:
            released(kind)
        return
    for node in past:
        if node.leaf is None:
            kind = node.kind
            node.kind = kind.freed or released(kind)
            if node.value is not None:
                node.inputs = ()
