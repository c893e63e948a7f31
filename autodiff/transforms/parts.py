"""Gradients of a long recording that falls into segments (`tape.parts`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from codegen.garbage import ignoring

from ..custom.keys import users_methods
from ..dispatch import observed
from ..tape.ask import evaluate
from ..tape.node import Node, data_node, leaf_kind, out_of
from ..tape.parts import gradients_in_parts, keep
from ..tape.program import data
from ..tape.record import state
from ..tape.segment import GIVEN, Ruled, Segment, Unfit
from .backward_pass import Group, recording_rules
from .reverse import Cotangent, pull_back_masked

__all__ = ["in_parts"]


def in_parts(
    root: Node, groups: Sequence[Group], beside: Sequence[Node]
) -> list[np.ndarray | None] | None:  # fmt: skip
    """The gradients of one number, as `solve` has them, if its recording falls into segments; else None.

    beside    nodes of results that are wanted in the same run
    """
    now, out = state.now, root.kind.out
    targets = frozenset([n for group in groups for n in group.nodes if n.leaf is None])
    # Gradients end at targets: they may not be needed before one.
    if now.tracing or out.aval.size != 1 or out.aval.dtype.kind != "f" or any([n.inputs for n in targets]):
        return None
    found = gradients_in_parts([root, *beside], now.began, targets, _rules)
    if found is None:
        return None
    parts, bars = found
    olds = [group.old for group in groups if group.old is not None]
    evaluate(olds, ends_recording=False)
    keep(parts)
    return _sums(bars, groups)


def _sums(bars: dict[Node, np.ndarray], groups: Sequence[Group]) -> list[np.ndarray | None]:
    """The sum of the cotangents of each group, and of its old gradient; each in memory of its own."""
    taken: set[int] = set()
    found: list[np.ndarray | None] = []
    for group in groups:
        terms = [bars[n] for n in group.nodes if n in bars]
        if not terms:
            found.append(None)
            continue
        if group.old is not None:
            terms.append(data(group.old))
        with ignoring(all="ignore"):
            total = reduce(lambda a, b: np.asarray(np.add(a, b)), terms)
        found.append(total.copy() if id(total) in taken else total)
        taken.add(id(total))
    return found


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
