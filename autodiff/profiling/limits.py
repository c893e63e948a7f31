"""The limits of this machine, measured: bytes and operations a second, with the threads that loops use."""

from __future__ import annotations

from collections.abc import Callable
from timeit import repeat
from typing import NamedTuple

import numpy as np

from codegen.runtime.threads import threads

from ..jit import jit

__all__ = ["Limits", "measured_limits"]

#: Elements of arrays that no cache holds (128 MB together), of arrays that the second one does, and of a matrix's side.
_FAR, _NEAR, _SIDE = 1 << 22, 1 << 13, 512


class Limits(NamedTuple):
    """The most that this machine does in a second, in 10^9.

    memory    bytes from and to memory            cache    from and to the caches nearest
    f64, f32  operations of products of matrices  threads  that shared them
    """

    memory: float
    cache: float
    f64: float
    f32: float
    threads: int


def measured_limits() -> Limits:
    """The limits, measured once for each number of threads: .3 s."""
    count = threads()
    if count not in _known:
        _known[count] = _measured(count)
    return _known[count]


_known: dict[int, Limits] = {}


def _measured(count: int) -> Limits:
    @jit
    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    @jit
    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a @ b

    def rate(function: Callable, x: np.ndarray, work: float, rounds: int, times: int = 1) -> float:
        best = min(repeat(lambda: function(x, x), number=times, repeat=rounds)) / times
        return work / best / 1e9

    def of_sum(n: int, rounds: int, times: int = 1) -> float:
        x, y = np.ones(n), np.ones(n)
        return rate(lambda a, _: add(a, y), x, 24.0 * n, rounds, times)

    def of_product(dtype: type) -> float:
        return rate(product, np.ones((_SIDE, _SIDE), dtype), 2.0 * _SIDE**3, 5)

    return Limits(of_sum(_FAR, 5), of_sum(_NEAR, 20, 50), of_product(np.float64), of_product(np.float32), count)
