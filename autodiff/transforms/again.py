"""Gradients of recordings that are known: asked for before in the same way, they are answered by their plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tape.families import answered
from ..tape.known import SOME, TENSORS, Ask
from ..tape.record import state
from ..tensor import Tensor
from .anomaly import is_watching
from .gradient import in_order, separate

__all__ = ["again", "ask_for"]


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
