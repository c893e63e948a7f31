"""The backward pass of a recording, as more nodes: the rules run, and their results are summed by group.

A *group* is the set of nodes that share one gradient: the versions of one leaf, or one node.

    emit(past, seeds, groups, tracks=...)     gradients through a known history
    recorded(past, seeds, groups)             gradients with a history of their own
    pulled(seeds, targets, tracks)            gradients of nodes, through the history of some results

    by_cached_plan(ask, ...)    gradients as arrays, by the cached plan of an equal recording
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import itemgetter
from typing import Any

import numpy as np

from codegen.records import NamedTuple

from ..mode import MODE
from ..ops import add
from ..ops.arithmetic import mul0
from ..ops.primitive import added, zeros_of
from ..tape.families import answered
from ..tape.known import Ask
from ..tape.node import Node, Primitive
from ..tape.record import DETACH, record, state
from ..tape.walk import history, reached
from ..tensor import Tensor, handle
from .anomaly import is_watching
from .arguments import tracks_outside
from .reverse import Many, ReversePass, left_by_hooks, recording_rules
from .rules import pass_or_replay

#: The operations whose rules look for their own derivative, another operation: found in second derivatives only.
_SLOPES = {"maximum": "share", "minimum": "share", "abs": "sign"}

_COTANGENT = itemgetter(1)


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
    looks, targets = looking(past, map(_COTANGENT, seeds), tracks), tuple([n for g in groups for n in g.nodes])
    is_kept = MODE.get().eager and bool(looks)
    walk = partial(ReversePass, past, seeds, targets, tracks or is_kept, looks, many)
    if looks and not is_watching():
        ends = [n for seed in seeds for n in seed]
        found = [*pass_or_replay("cotangents", past, ends, targets, tracks, lambda: walk().cotangents())]
    else:
        found = walk().cotangents()
    if len(found) > len(groups):  # several versions of a leaf
        terms = iter(found)
        with recording_rules(tracks or is_kept):
            found = [reduce(added, [next(terms) for _ in group.nodes]) for group in groups]
    for i, group in enumerate(groups):
        if group.hooks and (total := found[i]) is not None:
            with recording_rules(tracks or is_kept):
                found[i] = left_by_hooks(group.hooks, total, many)
    return untracked(found) if is_kept and not tracks else found


def looking(past: Sequence[Node], given: Iterable[Node], tracks: bool) -> set[Primitive]:
    """The operations of a history whose rules have to look at how cotangents or tangents were recorded.

    They look for kinks that cancel (`ops.cancelling`): for derivatives of sizes and extremes, as only the history of a
    gradient has them; |x| also looks for itself if its cotangent is differentiated; norms always do, since c x is more
    exact than c y times x / y.

    given   the cotangents or tangents that a pass begins with
    """
    looks = {n.kind.op for n in past if "cancels" in n.kind.op.traits}
    if not looks or any([n.call is not None for n in past]):  # a user's rule may record the derivative of |x|
        return looks
    names = {n.kind.op.name for n in (*past, *reached(given, lambda n: n.inputs))}
    return {op for op in looks if _SLOPES.get(op.name, op.name) in names or (tracks and op.name == "abs")}


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
