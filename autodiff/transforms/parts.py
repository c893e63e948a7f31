"""Gradients of a long recording that falls into segments (`tape.parts`)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from codegen.garbage import ignoring

from ..custom.keys import users_methods
from ..dispatch import observed
from ..tape.ask import end_recording
from ..tape.node import Leaf, Node, data_node, leaf_kind, out_of
from ..tape.parts import gradients_in_parts, keep
from ..tape.record import state
from ..tape.segment import GIVEN, Ruled, Segment, Unfit
from ..tape.walk import by_number
from .anomaly import is_watching
from .backward_pass import recording_rules
from .reverse import Cotangent, pull_back_masked

__all__ = ["in_parts"]


def in_parts(
    root: Node, beside: Sequence[Node], is_released: bool, targets: AbstractSet[Node] = frozenset(),
    only: AbstractSet[Leaf | None] | None = None,
) -> dict[Any, np.ndarray] | None:  # fmt: skip
    """The gradients of one number, if its recording falls into segments; None: it does not, or is not to.

    beside       nodes of results that are wanted in the same run
    is_released  the history is given up
    targets      where gradients end, beside leaves
    only         the leaves that have to be all that it depends on

    Gives the gradient of each leaf and target that is reached, in memory of its own.  The recording is over then.
    """
    now, out = state.now, root.kind.out
    is_number = out.requires_grad and out.aval.size == 1 and out.aval.dtype.kind == "f"
    if now.tracing or not is_number or is_watching():
        return None
    found = gradients_in_parts([root, *beside], now.began, targets, _rules)
    if found is None:
        return None
    parts, bars = found
    gradients = _sums(bars, targets)
    if only is not None and gradients.keys() != only:
        return None
    keep(parts, is_released)
    now.asked += 1  # as `solve` does: a rule that goes back is found out by it
    now.looked += 1
    end_recording(now)
    return gradients


def _sums(bars: dict[Node, np.ndarray], targets: AbstractSet[Node]) -> dict[Any, np.ndarray]:
    """The sum of the cotangents of each leaf, of which the oldest version comes first, and of each target."""
    sums: dict[Any, np.ndarray] = {}
    taken: set[int] = set()
    with ignoring(all="ignore"):
        for node in sorted(bars, key=by_number):
            owner, bar = node if node in targets else node.leaf, bars[node]
            if owner in sums:
                sums[owner] = np.asarray(np.add(sums[owner], bar))
            else:
                sums[owner] = bar.copy() if id(bar) in taken else bar
                taken.add(id(bar))
    return sums


def _rules(segment: Segment, pattern: tuple[int, ...]) -> Ruled:
    """Run the rules of a segment.  Raises Unfit where one is the user's, which may read anything."""
    given: list[Node | None] = []
    seeds = []
    targets = list(segment.tracked.values())
    with observed() as choices, recording_rules(False):
        for node, flag in zip([*segment.roots, *targets], pattern, strict=True):
            bar = data_node(leaf_kind(out_of(node.kind.out.aval)), GIVEN) if flag else None
            given.append(bar)
            if bar is not None:
                seeds.append((node, Cotangent(bar, flag == 2)))
        order = [n for n in segment.nodes if n.kind.out.requires_grad]
        found = pull_back_masked(order, seeds, targets)
    if users_methods(choices):
        raise Unfit
    return Ruled(given, {node: (c.node, 1 + c.masked) for node, c in found.items()}, choices)
