"""The backward pass of a recording, as more nodes: the rules run, and what they give is added up by group.

A *group* is what one gradient belongs to: the versions of one leaf, or one node.

    emit(past, seeds, groups, tracks=...)     through a history that is known, by `reverse`
    pull_back_at_once(...)                    with its history, in one call of machine code; None where Python has to
                                              look at a node: at hooks, calls, rules that are no programs
    pulled(seeds, targets, asked)             the one or the other
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codegen.garbage import set_in_context

from ..mode import MODE
from ..ops import add
from ..ops.arithmetic import mul0
from ..ops.primitive import zeros_of
from ..tape.node import Node
from ..tape.record import DETACH, record, state
from ..tape.walk import history
from ..tensor import Tensor, handle
from .arguments import tracks_outside
from .hooks import run_hooks
from .reverse import SUMS, Many, Pull, aval_of, noted
from .rule_programs import at_once

__all__ = [
    "OUTSIDE", "RECORDED", "VERSIONS", "Group", "emit", "group_of", "is_looked_at",
    "pull_back_at_once", "pulled", "recording_rules", "untracked", "with_history",
]  # fmt: skip

#: The bits of an ask: gradients track, or where something leads to another than the targets, they do; all versions of a
#: leaf that is a target are meant.  Machine code has the same (`recording_gradients`).
RECORDED, OUTSIDE, VERSIONS = 1, 2, 4


class Group:
    """The nodes whose cotangents add up to one gradient; hooks on the sum; what the sum is added to.

    `solve` sets `old` to None when it did not add it: rules or hooks ran that may have changed it.
    """

    __slots__ = ("hooks", "nodes", "old")

    def __init__(
        self, nodes: tuple[Node, ...], hooks: dict[Any, Callable] | None = None, old: Node | None = None
    ) -> None:
        self.nodes, self.hooks, self.old = nodes, hooks, old


def group_of(node: Node) -> Group:
    """The gradient of one node; on a leaf its hooks see it."""
    return Group((node,), None if node.leaf is None else node.leaf.hooks or None)


class recording_rules:
    """Record what rules compute: nothing is forced, and gradients are tracked only if wanted."""

    __slots__ = ("_mode", "_now", "_start", "_tracks")

    def __init__(self, tracks: bool) -> None:
        self._tracks = tracks

    def __enter__(self) -> None:
        self._now, self._mode = now, mode = state.now, MODE.get()
        self._start = now.start
        try:
            now.start = 0
            set_in_context(MODE, mode.on if self._tracks else mode.off)
        except BaseException:  # an interrupt may come at any call
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._now.start = self._start
        set_in_context(MODE, self._mode)


def emit(
    past: Sequence[Node], seeds: Sequence[tuple[Node, Tensor]], groups: Sequence[Group], *, tracks: bool,
    many: Many | None = None,
) -> list[Tensor | None]:  # fmt: skip
    """Run the rules; the gradient of each group as a pending tensor (None: not reached).   many: what seeds are"""
    is_kept = is_looked_at(past)
    with recording_rules(tracks or is_kept):
        bars = [(node, bar.node, False) for node, bar in seeds]
        found = Pull(past, bars, [n for g in groups for n in g.nodes], many).found()
        gradients = [_total(group, found, many) for group in groups]
    return untracked(gradients) if is_kept and not tracks else gradients


def pulled(
    seeds: Sequence[tuple[Node, Tensor]], targets: Sequence[Node], asked: int, many: Many | None = None
) -> tuple[bool, list[Tensor | None]]:
    """True if gradients track, and the pending gradients of nodes (None: not reached).

    asked    `RECORDED`, `OUTSIDE`, or 0 where they are not to track;  many: what seeds are
    """
    ends = [r for r, _ in seeds]
    found = pull_back_at_once(ends, [bar.node for _, bar in seeds], targets, asked, many)
    if found is not None:
        return found[0], found[2]
    past = history(ends)
    tracks = asked == RECORDED or (asked == OUTSIDE and tracks_outside(past, set(targets)))
    return tracks, emit(past, seeds, [group_of(n) for n in targets], tracks=tracks, many=many)


def pull_back_at_once(
    results: Sequence[Node], bars: Sequence[Node], targets: Sequence[Node] | None, asked: int,
    many: Many | None = None,
) -> tuple[bool, Sequence[Node], list[Tensor | None]] | None:  # fmt: skip
    """True if gradients track, the targets, and their cotangents (None: not reached).

    bars       of each result
    targets    nodes; None: the leaves of the history
    asked      see `RECORDED`;  many: what cotangents are many

    None where Python has to look.
    """
    ends = None if targets is None else tuple(targets)
    found = at_once("pulled", asked, (tuple(results), tuple(bars), ends), (SUMS,), is_many=many is not None)
    if found is None:
        return None
    tracks, *rest = found
    if ends is None:
        ends = tuple(rest[: len(rest) // 2])
        del rest[: len(ends)]
    there = zip(ends, rest, strict=True)
    return tracks, ends, [None if g is None else noted(g or zeros_of(aval_of(n, many)).node) for n, g in there]


def is_looked_at(past: Sequence[Node]) -> bool:
    """True if rules look at how cotangents were recorded, and these would forget it: evaluated at once, not tracked.

    See `ops.cancelling`.
    """
    return MODE.get().eager and any(["cancels" in n.kind.op.traits for n in past])


def untracked(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tensors without their histories; those that have none as they are."""
    return [t if t is None or not t.node.kind.out.requires_grad else record(DETACH, (t,)) for t in tensors]


def with_history(gradients: list[Tensor | None], targets: Sequence[Node]) -> list[Tensor | None]:
    """Gradients that track, each of which is a function of its target, so that it can be differentiated.

    One that depends on nothing (of 2x, say) is made a function of its own tensor whose derivative is zero:
    a second derivative that is structurally zero is zero, not an error.
    """
    for i, g in enumerate(gradients):
        if g is not None and not g.node.kind.out.requires_grad:
            with recording_rules(True):
                gradients[i] = add(g, mul0(zeros_of(g.aval), handle(targets[i])))
    return gradients


def _total(group: Group, found: dict[Node, Tensor], many: Many | None) -> Tensor | None:
    if not group.hooks and len(group.nodes) == 1:
        return found.get(group.nodes[0])
    terms = [found[n] for n in group.nodes if n in found]
    if not terms:
        return None
    total = terms[0]
    for term in terms[1:]:
        total = add(total, term)
    hooks = group.hooks
    if not hooks:
        return total
    return run_hooks(hooks, total) if many is None else many.each(lambda bars: [run_hooks(hooks, bars[0])], [total])[0]
