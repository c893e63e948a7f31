"""Asks for gradients that are answered without a plan of the whole being looked for.

    again(ask, ...)    gradients of a recording that is known: asked for before in the same way, by its plan
    in_parts(...)      gradients of a long recording that falls into segments
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from codegen.garbage import ignoring

from ..custom.keys import users_methods
from ..dispatch import observed
from ..tape.ask import evaluate
from ..tape.families import answered
from ..tape.known import SOME, TENSORS, Ask
from ..tape.node import Node, data_node, leaf_kind, out_of
from ..tape.parts import keep, run_in_parts
from ..tape.plan import Plan, data
from ..tape.record import state
from ..tape.segment import GIVEN, Ruled, Segment, Unfit
from ..tensor import Tensor
from .anomaly import is_watching
from .backward_pass import Group, recording_rules
from .reverse import Pull

__all__ = ["again", "ask_for", "in_order", "in_parts", "separate"]


def ask_for(
    ys: Sequence[Tensor], targets: Sequence[Tensor], seeds: Sequence[Tensor | None], allow_unused: bool
) -> Ask:
    """The ask for gradients of tensors.   seeds: the cotangent that is given for each result (None: one is meant)"""
    purpose = SOME if allow_unused else TENSORS
    starts = tuple([None if s is None else s.node for s in seeds])
    return Ask(purpose, tuple([y.node for y in ys]), starts, (), tuple([x.node for x in targets]))


def again(ask: Ask, retain: bool, is_released: bool = False) -> list[np.ndarray | None] | None:
    """The gradients of a recording that is known, by its plan; None: there is none, or it has to be refused.

    retain        whether the history will be gone through again: what it reads is then stored
    is_released   it is given up
    """
    now = state.now
    if now.tracing or is_watching():
        return None
    found = answered(ask, now, now.small, retain, is_released)
    if found is None:
        return None
    results, answer = found
    return in_order(separate(answer.plan, results), answer.ranks)


def in_order(gradients: Sequence[np.ndarray | None], ranks: Sequence[int]) -> list[np.ndarray | None]:
    """Gradients in the order of their groups.   ranks: which group each is of, as a plan has them"""
    found: list[np.ndarray | None] = [None] * len(ranks)
    for rank, gradient in zip(ranks, gradients, strict=True):
        found[rank] = gradient
    return found


def separate(plan: Plan, results: tuple, order: Sequence[Node] = ()) -> list[np.ndarray | None]:
    """The gradients of a plan that was run, each in memory of its own: nothing a user holds changes with another.

    order   the recording, for gradients that are values of its nodes
    """
    taken: set[int] = set()
    gradients: list[np.ndarray | None] = []
    for place, computed in zip(plan.grads, plan.computed, strict=True):
        if place is None:
            gradients.append(None)
        elif computed:
            gradients.append(results[place] if place not in taken else results[place].copy())
            taken.add(place)
        else:
            gradients.append(data(order[place] if type(place) is int else place).copy())
    return gradients


# ---------------------------------------------------------------- in parts (`tape.parts`)


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
    found = run_in_parts([root, *beside], [root], now.began, targets, _segment_rules)
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


def _segment_rules(segment: Segment, pattern: tuple[int, ...]) -> Ruled:
    """Run the rules of a segment.  Raises Unfit where one is the user's, which may read anything."""
    given: list[Node | None] = []
    seeds, masked = [], []
    targets = list(segment.tracked.values())
    with observed() as choices, recording_rules(False):
        for node, flag in zip([*segment.roots, *targets], pattern, strict=True):
            bar = data_node(leaf_kind(out_of(node.kind.out.aval)), GIVEN) if flag else None
            given.append(bar)
            if bar is not None:
                seeds.append((node, bar))
                masked.append(flag == 2)
        order = [n for n in segment.nodes if n.kind.out.requires_grad]
        found = {node: (bar, 1 + is_masked) for node, bar, is_masked in Pull(order, seeds, targets, masked).reached()}
    if users_methods(choices):
        raise Unfit
    return Ruled(given, found, choices)
