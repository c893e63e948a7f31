"""Gradients of recordings that are known: asked for before in the same way, they are answered by a check."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tape import sized_checks
from ..tape.ask import end_recording
from ..tape.check import checks
from ..tape.node import Node
from ..tape.record import Recording, state
from ..tensor import Tensor
from .anomaly import is_watching
from .gradient import separate

__all__ = ["again", "known", "note_asked", "purpose_of"]


def purpose_of(
    ys: Sequence[Tensor], targets: Sequence[Tensor], seeds: Sequence[Tensor | None], retain: bool
) -> tuple[tuple, tuple[Node, ...]] | None:
    """Under which `checks` find gradients of tensors, and the nodes that they are given; None: under nothing.

    seeds    the cotangent that is given for each result (None: one is meant)
    """
    roots = [y.node for y in ys]
    roots += [x.node for x in targets]
    starts = [s.node for s in seeds if s is not None]
    if starts:
        if any([node.value is None for node in starts]):
            return None
        roots += starts
    what = tuple([s is None for s in seeds]) if len(ys) > 1 else bool(starts)
    return ("gradients of tensors", roots[0].kind, len(targets), what, retain), tuple(roots)


def again(
    ys: Sequence[Tensor], targets: Sequence[Tensor], seeds: Sequence[Tensor | None], live: Sequence[Node], retain: bool,
    allow_unused: bool,
) -> list[np.ndarray | None] | None:  # fmt: skip
    """The gradients of a recording that is known, by its check; None: there is none, or it has to be refused.

    With `allow_unused` those of what is not reached are None.
    """
    now = state.now
    repeat = None if now.tracing else purpose_of(ys, targets, seeds, retain)
    if repeat is None:
        return None
    found = known(*repeat, live, is_released=not retain, is_whole=not allow_unused)
    if found is not None:
        note_asked(now)
    return found


def known(
    purpose: tuple, roots: Sequence[Node], live: Sequence[Node], *, is_released: bool = False, is_whole: bool = False
) -> list[np.ndarray | None] | None:
    """The gradients of a recording that was asked for before in this way, by its check; None: there is none.

    is_whole   where one of them is not reached, there is none: nothing is computed, nothing given up
    """
    now = state.now
    hit = None if is_watching() else checks.find(purpose, roots, live, now.began)
    if hit is None and not (is_watching() or now.tracing):
        hit = sized_checks.find(purpose, roots, live)
    if hit is None:
        return None
    check, gathered = hit
    if is_whole and None in check.plan.grads:
        return None
    return separate(check.plan, check.run(gathered, is_released))


def note_asked(now: Recording) -> None:
    """Note, as `solve` does, that something was computed: a rule that goes back is found out by it."""
    now.asked += 1
    now.looked += 1
    end_recording(now)
