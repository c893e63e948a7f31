"""What errors are measured against: the same by hand, in wider numbers."""

from __future__ import annotations

import numpy as np

__all__ = ["wider"]

#: Elements beyond which x87 numbers would take longer than all that is measured.
LONG = 1_000_000


def wider(array: np.ndarray) -> np.ndarray:
    """f64 for f32; for f64 the widest that NumPy has, where the array is not too large for that."""
    if array.dtype == np.float32:
        return array.astype(np.float64)
    return array.astype(np.longdouble) if array.size <= LONG else array
