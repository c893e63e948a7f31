"""The backward pass of a recording, as more nodes: the rules run, and their results are summed by group.

A *group* is the set of nodes that share one gradient: the versions of one leaf, or one node.

    emit(past, seeds, groups, tracks=...)     gradients through a known history
    recorded(past, seeds, groups)             gradients with a history of their own
    pulled(seeds, targets, tracks)            gradients of nodes, through the history of some results

    by_cached_plan(ask, ...)    gradients as arrays, by the cached plan of an equal recording
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from codegen.records import NamedTuple

from ..mode import MODE
from ..ops import add
from ..ops.arithmetic import mul0
from ..ops.cancelling import looking
from ..ops.primitive import added, zeros_of
from ..tape.families import answered
from ..tape.known import Ask
from ..tape.node import Node
from ..tape.record import DETACH, record, state
from ..tape.walk import history
from ..tensor import Tensor, handle
from .anomaly import is_watching
from .arguments import tracks_outside
from .reverse import Many, ReversePass, left_by_hooks, recording_rules
from .rules import pass_or_replay


class Group(NamedTuple):
    """The nodes whose cotangents add up to one gradient; the hooks that the sum is passed to."""

    nodes: tuple[Node, ...]
    hooks: dict[Any, Callable] | None = None


def group_of(node: Node) -> Group:
    """The group of one node; for a leaf with its hooks."""
    return Group((node,), None if node.leaf is None else node.leaf.hooks or None)


def emit(
    past: list[Node], seeds: Sequence[tuple[Node, Node]], groups: Sequence[Group], *, tracks: bool,
    many: Many | None = None,
) -> list[Tensor | None]:  # fmt: skip
    """Run the rules: the gradient of each group, pending (None: not reached).

    many    each seed is many at once: no rule looks at these

    In eager mode the cotangents are tracked if a rule looks at how they were recorded (`ops.cancelling`).
    """
    looks, targets = looking(past, [bar for _, bar in seeds], tracks), tuple([n for g in groups for n in g.nodes])
    is_kept = MODE.get().eager and bool(looks)

    def run() -> list[Tensor | None]:
        return ReversePass(past, seeds, targets, tracks or is_kept, many, looks=looks).cotangents()

    if looks and not is_watching():
        found = [*pass_or_replay("cotangents", past, [n for seed in seeds for n in seed[:2]], targets, tracks, run)]
    else:
        found = run()
    if len(found) > len(groups):  # several versions of a leaf
        terms = iter(found)
        with recording_rules(tracks or is_kept):
            found = [reduce(added, [next(terms) for _ in group.nodes]) for group in groups]
    for i, group in enumerate(groups):
        if group.hooks and (total := found[i]) is not None:
            with recording_rules(tracks or is_kept):
                found[i] = left_by_hooks(group.hooks, total, many)
    return untracked(found) if is_kept and not tracks else found


def recorded(past: list[Node], seeds: Sequence[tuple[Node, Node]], groups: Sequence[Group]) -> list[Tensor | None]:
    """Gradients that track, each a function of its target, so that they can be differentiated (see `emit`).

    A constant gradient (that of 2x, say) gets a term in its target whose derivative is zero: a second derivative
    that is structurally zero is then zero, not an error.
    """
    gradients = emit(past, seeds, groups, tracks=True)
    for i, g in enumerate(gradients):
        if g is not None and not g.node.kind.out.requires_grad:
            with recording_rules(True):
                gradients[i] = add(g, mul0(zeros_of(g.aval), handle(groups[i].nodes[-1])))
    return gradients


def pulled(
    seeds: Sequence[tuple[Node, Node]], targets: Sequence[Node], tracks: bool | None
) -> tuple[bool, list[Tensor | None]]:
    """True if the gradients track, and the gradients of `targets` as pending tensors (None: not reached).

    tracks    whether they do; None: they do if the history leads to other leaves
    """
    past = history([r for r, _ in seeds])
    if tracks is None:
        tracks = tracks_outside(past, set(targets))
    return tracks, emit(past, seeds, [group_of(n) for n in targets], tracks=tracks)


def untracked(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tensors, detached if they have a history."""
    return [t if t is None or not t.node.kind.out.requires_grad else record(DETACH, (t,)) for t in tensors]


# ---------------------------------------------------------------- cached plans


def by_cached_plan(ask: Ask, retain: bool, is_released: bool = False) -> list[np.ndarray | None] | None:
    """The gradients of a recording by its cached plan; None if there is no plan, or it cannot be used here."""
    now = state.now
    if now.tracing or is_watching():
        return None
    found = answered(ask, now, retain, is_released)
    if found is None:
        return None
    results, answer = found
    gradients: list[np.ndarray | None] = answer.plan.gradients(results, answer.ranks)
    return gradients
