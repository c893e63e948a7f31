"""Random draws of inputs for the measurement of errors, since the error at a single point is half chance.

Each draw changes every number of the input arrays in place by about a thousandth, so that all roundings change, and
signs, zeros, sizes and conditioning do not.  Only programs that copy their inputs are built again for a draw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["MOST", "redrawn", "results"]

#: The most draws: enough to tell which of two peers has the larger errors.
MOST = 99
#: The most numbers in all draws together; a long array counts as many draws by itself.
NUMBERS = 20_000_000
#: The most seconds for all draws: of a peer, of a peer whose program is built again for each draw (JAX compiles again),
#: and of a row's reference, which is slow and is not timed afterwards.
LONGEST_S, LONGEST_COPIES_S, LONGEST_REFERENCE_S = 2.0, 10.0, 15.0
#: The standard deviation of the relative changes.
WIDTH = 1e-3


def results(
    program: Callable[[], Any],
    found: Any,
    once: float,
    arrays: list[np.ndarray],
    leaves: Callable[[Any], list[np.ndarray]],
    longest_s: float = LONGEST_S,
) -> list[list[np.ndarray]]:
    """The results of the program for each draw; `found` is that of the first.  The arrays are restored at the end.

    once    the seconds of a call

    All peers get the same draws; a slow peer gets fewer of them.
    """
    moved = [a for a in arrays if _can_move(a)]
    before = [a.copy() for a in moved]
    each = [[a.copy() for a in leaves(found)]]
    size = max(1, sum(a.size for a in (*arrays, *each[0])))
    most = min(MOST, NUMBERS // size, int(longest_s / once)) if moved else 1
    for draw in range(1, most):
        for a, b in zip(moved, redrawn(before, draw), strict=True):
            a[...] = b
        each.append([a.copy() for a in leaves(program())])
    for a, b in zip(moved, before, strict=True):
        a[...] = b
    return each


def redrawn(arrays: list[np.ndarray], draw: int) -> list[np.ndarray]:
    """The arrays of draw 1, 2, ...: equal arrays give equal draws in every peer's process."""
    rng = np.random.default_rng(draw)
    return [(a * (1 + WIDTH * rng.standard_normal(a.shape))).astype(a.dtype) for a in arrays]


def _can_move(array: np.ndarray) -> bool:
    """True if an array holds fractional floats: labels, masks, counts and arrays of whole numbers are not changed."""
    return array.dtype.kind == "f" and array.flags.writeable and bool((array != np.rint(array)).any())
