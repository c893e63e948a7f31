"""Writing the `.grad` of leaves: at once, so that threads do not go through one another's pending sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from codegen.garbage import ignoring, set_in_context

from ..mode import MODE
from ..ops import add
from ..tape.leaves import leaf
from ..tape.node import Leaf, Node
from ..tape.plan import commit_lock, data

__all__ = ["commit_lock", "unchanged", "write"]


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
