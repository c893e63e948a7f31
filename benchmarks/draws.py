"""Other inputs of the same kind, in the arrays that programs hold: the error at one point is half chance.

Each number moves by some thousandths of itself, so that all roundings fall anew and nothing else changes: signs, zeros,
sizes and what is well-conditioned stay.  Only what keeps copies of its inputs is built again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["MOST", "redrawn", "results"]

#: Results that errors are taken from, where they cost little: which of two peers errs more is to be told from luck.
MOST = 99
#: Numbers in all draws together; a long array is many draws by itself.
NUMBERS = 20_000_000
#: Seconds of all draws together: of a peer, of one whose program is built anew for each (JAX compiles it again), and of
#: a row's reference, which is slow and has no turns to wait for.
LONGEST_S, LONGEST_COPIES_S, LONGEST_REFERENCE_S = 2.0, 10.0, 15.0
#: Relative width of the moves.
WIDTH = 1e-3


def results(
    program: Callable[[], Any],
    found: Any,
    once: float,
    arrays: list[np.ndarray],
    leaves: Callable[[Any], list[np.ndarray]],
    longest_s: float = LONGEST_S,
) -> list[list[np.ndarray]]:
    """The results of the program by each draw, `found` by the first; then the arrays are as they were.

    once    seconds of a call

    All peers make the same ones, a slow one fewer.
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
    """The arrays of draw 1, 2, ...: the same from the same for every peer."""
    rng = np.random.default_rng(draw)
    return [(a * (1 + WIDTH * rng.standard_normal(a.shape))).astype(a.dtype) for a in arrays]


def _can_move(array: np.ndarray) -> bool:
    """True if it holds measured numbers: labels, masks, counts and what is all ones and zeros stay what they are."""
    return array.dtype.kind == "f" and array.flags.writeable and bool((array != np.rint(array)).any())
