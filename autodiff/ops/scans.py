"""Running sums along an axis."""

from __future__ import annotations

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Scan

from ..errors import ShapeError, caller
from ..tape import record
from ..tensor import Tensor
from .arguments import axis_of, records
from .batching import along
from .conversion import as_tensor, cast_to, dtype_of
from .primitive import expect, linear
from .reductions import widened
from .shaping import flipped, reshaped
from .template import remembered

__all__ = ["cumsum"]


def _cumsum_aval(x: Aval, *, axis: int) -> Aval:
    expect("cumsum", (x,), "fic")
    if not 0 <= axis < x.ndim:
        raise ShapeError(f"cumsum: {axis} is not an axis of {x}\n  called at {caller()}")
    return x


def _backwards(y_bar: Tensor, axis: int) -> Tensor:
    """The running sum from the end: what each element is counted in."""
    return flipped(record(_cumsum, (flipped(y_bar, (axis,)),), (axis,)), (axis,))


_cumsum = linear(
    "cumsum",
    lambda x, *, axis: np.cumsum(x, axis, dtype=x.dtype),
    infer=_cumsum_aval,
    transpose=lambda y_bar, y, x, *, axis: (_backwards(y_bar, axis),),
    lower=Scan("add"),
    params=("axis",),
    heavy=True,
    batch=along("axis"),
)


@records(_cumsum)
@remembered(1)
def cumsum(x, axis=None, *, dtype=None):
    """The sums of all elements up to each along an axis (None: of x flattened).

    x: T[..., n, ...]  →  T[..., n, ...]     bool and int32 are summed as int64

    `dtype` is converted to first.  Raises ShapeError when x has no such axis.
    """
    x = as_tensor(x, "cumsum", "x")
    x = widened(x) if dtype is None else cast_to(x, dtype_of(dtype, "cumsum"))
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    elif not x.ndim:
        x = reshaped(x, (1,))  # as NumPy has it
    return record(_cumsum, (x,), (axis_of("cumsum", axis, x.aval),))
