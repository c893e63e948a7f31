"""Complex numbers in memory: pairs of real ones.  What every plan asks; all else of them is in `complex`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.op import Op
from ..lowering import Call

__all__ = ["PAIR", "REALS"]

#: What the parts of a complex dtype are.
REALS: dict[Any, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64),
}  # fmt: skip

#: Nothing of its own to do: what computes the parts stores them where this lies (`kernel.elements`).
PAIR = Op(
    "pair",
    infer=lambda re, im: re.with_shape((*re.shape, 2)),
    reference=lambda re, im: np.stack([re, im], axis=-1),
    lower=Call(),
)
