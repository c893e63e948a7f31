"""Episodes, as rows play them: ten of them at each call, and gradients that are taken away from parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["taken", "ten"]


def ten(play: Callable[[int, np.random.Generator], Sequence[Any]], longest: int) -> Callable[[], list[Any]]:
    """Ten more episodes of 5 to `longest` steps at each call: `play(length, chances) -> gradients`, added up."""
    rng = np.random.default_rng(1)

    def run():
        totals: list[Any] = []
        for _ in range(10):
            found = play(rng.integers(5, longest + 1), rng)
            totals = [t + g for t, g in zip(totals, found, strict=True)] if totals else list(found)
        return totals

    return run


def taken(parameters: Sequence[Any]) -> list[Any]:
    """The gradients of parameters, which have none then."""
    found = [p.grad.numpy() for p in parameters]
    for p in parameters:
        p.grad = None
    return found
