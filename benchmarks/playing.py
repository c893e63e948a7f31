"""Helpers for rows that play episodes: ten episodes at each call, and gradients removed from parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["pop_gradients", "ten_episodes"]


def ten_episodes(play: Callable[[int, np.random.Generator], Sequence[Any]], longest: int) -> Callable[[], list[Any]]:
    """A function that plays ten more episodes of 5 to `longest` steps per call, and adds up the gradients of `play`."""
    rng = np.random.default_rng(1)

    def run():
        totals: list[Any] = []
        for _ in range(10):
            found = play(rng.integers(5, longest + 1), rng)
            totals = [t + g for t, g in zip(totals, found, strict=True)] if totals else list(found)
        return totals

    return run


def pop_gradients(parameters: Sequence[Any]) -> list[Any]:
    """The gradients of the parameters as arrays; sets their `.grad` to None."""
    found = [p.grad.numpy() for p in parameters]
    for p in parameters:
        p.grad = None
    return found
