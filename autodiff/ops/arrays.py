"""Programs for elements, written with the scalar builder's methods, on arrays: the reference of such an operation.

    reference = on_arrays(program)        program(k, *elements, **params), as a `Map` takes it

So an operation that NumPy has no function for is written once.  Only what such programs use is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.garbage import ignoring
from codegen.ir import dtype_name

__all__ = ["on_arrays"]


class _Arrays:
    """The operations of `codegen.kernel.scalar.Scalar`, for arrays of one dtype."""

    add, sub, mul, div, neg, abs = np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute
    minimum = np.minimum
    lt, le, gt, ge, eq = np.less, np.less_equal, np.greater, np.greater_equal, np.equal
    logical_and, logical_or, logical_not = np.logical_and, np.logical_or, np.logical_not
    exp, exp2, log, log1p, sqrt = np.exp, np.exp2, np.log, np.log1p, np.sqrt
    sin, cos, floor = np.sin, np.cos, np.floor
    copysign, isnan, isinf, pow = np.copysign, np.isnan, np.isinf, np.power
    select = staticmethod(np.where)

    @staticmethod
    def constant(value: float, *, like: np.ndarray) -> Any:
        """A known number of the dtype."""
        return like.dtype.type(value)

    @staticmethod
    def dtype(x: np.ndarray) -> str:
        """The short name of the dtype."""
        return dtype_name(x.dtype)

    @staticmethod
    def fma(x: Any, y: Any, z: Any) -> Any:
        """x y + z, rounded nearly once: with what the product and the sum are rounded by."""
        product = x * y
        total = product + z
        (a, b), (c, d) = _halves(x), _halves(y)
        rest = ((a * c - product) + a * d + b * c) + b * d
        moved = total - product
        rest = rest + ((product - (total - moved)) + (z - moved))
        return np.where(np.isfinite(rest), total + rest, total)


def _halves(x: Any) -> tuple[Any, Any]:
    """Two numbers of half the digits whose sum is x (Veltkamp)."""
    large = x * x.dtype.type(2.0**27 + 1 if x.dtype.itemsize == 8 else 2.0**12 + 1)
    high = large - (large - x)
    return high, x - high


_ARRAYS = _Arrays()


def on_arrays(program: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The function of arrays that an element program stands for; NumPy's warnings are off."""

    def reference(*xs: np.ndarray, **params: Any) -> np.ndarray:
        with ignoring(all="ignore"):
            found = program(_ARRAYS, *xs, **params)
        return np.asarray(found).astype(xs[0].dtype, copy=False)

    return reference
