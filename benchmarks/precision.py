"""References for the measurement of errors: a row's program in wider numbers, by hand or by HIPS autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["by_autograd", "solved", "wider"]

#: The most elements for which x87 numbers are used: larger references would take longer than the whole measurement.
LONG = 1_000_000


def wider(array: np.ndarray) -> np.ndarray:
    """The array in wider numbers: f64 for f32; NumPy's widest floats for f64, unless the array is too large."""
    if array.dtype == np.float32:
        return array.astype(np.float64)
    return array.astype(np.longdouble) if array.size <= LONG else array


def by_autograd(program: Callable[..., Any], argnums: Sequence[int], arrays: Sequence[Any]) -> Callable[[], Any]:
    """Value and gradients of `program(lib, *arrays)` in wider numbers, for rows without a hand-written reference."""
    import peers

    return peers.autograd(program, argnums, list(map(wider, arrays)))


def solved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The solutions x of a @ x = b, f[..., n, n], f[..., n, k] -> f[..., n, k], in numbers of any width.

    Gaussian elimination with partial pivoting; NumPy's `solve` has no numbers wider than f64.
    """
    n, shape = a.shape[-1], b.shape
    rows = np.concatenate([a, b], -1).reshape(-1, n, n + shape[-1])
    each = np.arange(len(rows))
    for c in range(n):
        pivot = c + np.argmax(abs(rows[:, c:, c]), 1)
        chosen = rows[each, pivot]
        rows[each, pivot] = rows[:, c]
        rows[:, c] = chosen / chosen[:, c, None]
        factors = rows[:, :, c].copy()
        factors[:, c] = 0
        rows -= factors[:, :, None] * rows[:, c, None]
    return rows[:, :, n:].reshape(shape)
