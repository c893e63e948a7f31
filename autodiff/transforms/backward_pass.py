"""The backward pass of a recording, as more nodes: the rules run, and what they give is added up by group.

A *group* is what one gradient belongs to: the versions of one leaf, or one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from codegen.garbage import set_in_context
from codegen.records import record

from ..config import config
from ..mode import MODE
from ..ops import add
from ..ops.arithmetic import mul0
from ..ops.primitive import zeros_of
from ..tape.node import Node
from ..tape.record import DETACH, state
from ..tape.record import record as recorded
from ..tensor import Tensor, handle
from .hooks import run_hooks
from .reverse import Many, pull_back

__all__ = [
    "Group", "emit", "emit_with_history", "group_of", "is_looked_at", "recording_rules", "untracked", "with_history",
]  # fmt: skip


@record()
class Group:
    """The nodes whose cotangents add up to one gradient; hooks on the sum; what the sum is added to.

    `solve` sets `old` to None when it did not add it: rules or hooks ran that may have changed it.
    """

    nodes: tuple[Node, ...]
    hooks: dict[Any, Callable] | None = None
    old: Node | None = None


def group_of(node: Node) -> Group:
    """The gradient of one node; on a leaf its hooks see it."""
    return Group((node,), None if node.leaf is None else node.leaf.hooks or None)


@contextmanager
def recording_rules(tracks: bool):
    """Record what rules compute: nothing is forced, and gradients are tracked only if wanted."""
    now = state.now
    start, mode = now.start, MODE.get()
    try:  # an interrupt may come at any call from here on
        now.start = 0
        set_in_context(MODE, mode.on if tracks else mode.off)
        yield
    finally:
        now.start = start
        set_in_context(MODE, mode)


def emit(
    past: Sequence[Node], seeds: Sequence[tuple[Node, Tensor]], groups: Sequence[Group], *, tracks: bool,
    many: Many | None = None,
) -> list[Tensor | None]:  # fmt: skip
    """Run the rules; the gradient of each group as a pending tensor (None: not reached).   many: what seeds are"""
    is_kept = config.eager and is_looked_at(past)
    now, mode = state.now, MODE.get()
    start, own = now.start, mode.on if tracks or is_kept else mode.off
    try:  # an interrupt may come at any call from here on
        now.start = 0
        if own is not mode:
            set_in_context(MODE, own)
        found = pull_back(past, seeds, [n for g in groups for n in g.nodes], many)
        gradients = [_total(group, found, many) for group in groups]
    finally:
        now.start = start
        if own is not mode:
            set_in_context(MODE, mode)
    return untracked(gradients) if is_kept and not tracks else gradients


def is_looked_at(past: Sequence[Node]) -> bool:
    """True if rules look at how cotangents were recorded, and these would forget it: evaluated at once, not tracked.

    See `ops.cancelling`.
    """
    return config.eager and any(["cancels" in n.kind.op.traits for n in past])


def untracked(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tensors without their histories."""
    return [t if t is None else recorded(DETACH, (t,)) for t in tensors]


def emit_with_history(
    past: Sequence[Node], seeds: Sequence[tuple[Node, Tensor]], groups: Sequence[Group]
) -> list[Tensor | None]:
    """`emit` for create_graph: every gradient that is reached can itself be differentiated.

    One that depends on nothing (of 2x, say) is made a function of its own tensor whose derivative is zero:
    a second derivative that is structurally zero is zero, not an error.
    """
    return with_history(emit(past, seeds, groups, tracks=True), [group.nodes[-1] for group in groups])


def with_history(gradients: list[Tensor | None], targets: Sequence[Node]) -> list[Tensor | None]:
    """Gradients each of which is a function of its target."""
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
