"""Several results of one operation, in one array each dtype.

An operation has one result.  A loop or a branch has several, so it gives them packed: all elements of a
dtype, one result after the other, in one vector; slices and reshapes take them out again, and fuse with
whatever reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import DTYPES, Aval, dtype_name

from ..ops import getitem, reshape
from ..tensor import Tensor

__all__ = ["pack", "packed_aval", "record_packed"]


def packed_aval(avals: Sequence[Aval], dtype: str) -> Aval:
    """The vector of all results of one dtype."""
    kind = DTYPES[dtype]
    return Aval((sum(a.size for a in avals if a.dtype == kind),), kind)


def pack(arrays: Sequence[np.ndarray], dtype: str) -> np.ndarray:
    """All elements of the arrays of one dtype, one array after the other."""
    kind = DTYPES[dtype]
    parts = [np.ravel(a) for a in arrays if a.dtype == kind]
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, kind)


def record_packed(recorded: Callable[[str], Any], avals: Sequence[Aval]) -> list[Tensor]:
    """The results, taken out of the vectors that `recorded(dtype)` gives; made once for each dtype there is."""
    vectors: dict[np.dtype, Tensor] = {}
    taken: dict[np.dtype, int] = {}
    results = []
    for aval in avals:
        vector = vectors.get(aval.dtype)
        if vector is None:
            vector = vectors[aval.dtype] = recorded(dtype_name(aval.dtype))
        start = taken.get(aval.dtype, 0)
        stop = taken[aval.dtype] = start + math.prod(aval.shape)
        results.append(reshape(getitem(vector, slice(start, stop)), aval.shape))
    return results
