"""The product over axes, whose derivative is right also where elements are zero."""

from __future__ import annotations

import math

import numpy as np

from codegen.ir import dtype_name
from codegen.lowering import Reduce

from ..tape import another, constant, record
from ..tensor import Tensor
from .arguments import axes_of, records
from .arithmetic import multiply
from .batching import along
from .conversion import as_tensor, cast_to, dtype_of
from .joining import joined
from .primitive import primitive, spread_to, times, zeros_of
from .reductions import reduced_aval, summed, unreduced, widened
from .shaping import reshaped, spread, transposed
from .slicing import part
from .template import remembered

__all__ = ["prod"]


def _product_of_others(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """For each element the product of all others along `axes`, exact also where some are zero.

    Dividing by the element fails at zeros.  So the product is built as a tree of halves, and the tree is
    walked back: what stands beside a node is multiplied to what stands beside its parent.  That takes
    products only, so it is right under differentiation any number of times.
    """
    if not x.size:
        return zeros_of(x.aval)
    order = axes + tuple([i for i in range(x.ndim) if i not in axes])
    moved = transposed(x, order)
    rest = moved.shape[len(axes) :]
    level = reshaped(moved, (math.prod(moved.shape[: len(axes)]), *rest))
    pairs = []
    while (extent := level.shape[0]) > 1:
        half = extent // 2
        left, right = part(level, 0, 0, half), part(level, 0, half, 2 * half)
        pairs.append((left, right))
        level = _with_odd(multiply(left, right), level, 2 * half)
    others = spread_to(constant(1.0, dtype_name(x.dtype)), (1, *rest))
    for left, right in reversed(pairs):
        half = left.shape[0]
        above = part(others, 0, 0, half)
        others = _with_odd(joined((multiply(above, right), multiply(above, left)), 0), others, half)
    back = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return transposed(reshaped(others, moved.shape), back)


def _with_odd(x: Tensor, before: Tensor, taken: int) -> Tensor:
    """x, and after it what `before` has beyond the rows that were taken in pairs (one, or none)."""
    n = before.shape[0]
    return joined((x, part(before, 0, taken, n)), 0) if n > taken else x


def _product_of_complex(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The product over axes, by a tree of halves: complex numbers are compiled by parts, whose product is none."""
    rest = tuple([i for i in range(x.ndim) if i not in axes])
    shape = tuple([x.shape[i] for i in rest])
    level = reshaped(transposed(x, axes + rest), (math.prod([x.shape[i] for i in axes]), *shape))
    if not level.shape[0]:
        return spread_to(constant(1.0, dtype_name(x.dtype)), shape)
    while (extent := level.shape[0]) > 1:
        half = extent // 2
        product = multiply(part(level, 0, 0, half), part(level, 0, half, 2 * half))
        level = _with_odd(product, level, 2 * half)
    return reshaped(level, shape)


def _pull(y_bar, y, xs, params, masked):
    (axes,), (x,) = params, xs
    return (times(spread(y_bar, axes, x.shape), _product_of_others(x, axes), masked),)


def _jvp(dxs, y, x, *, axis):
    return None if dxs[0] is None else summed(multiply(dxs[0], _product_of_others(x, axis)), axis)


_prod = primitive(
    "prod",
    lambda x, *, axis: np.prod(x, axis, dtype=x.dtype),
    infer=reduced_aval("prod", "fi"),
    pull=_pull,
    jvp=_jvp,
    lower=Reduce("mul"),
    params=("axis",),
    heavy=True,
    batch=along("axis"),
)


@records(_prod)
@remembered(1)
def prod(x, axis=None, *, dtype=None, keepdims=False):
    """The product over an axis, several, or (None) all of them.

    x: T[..., n, ...]  →  T[..., ...]     bool and int32 are multiplied as int64

    The product of nothing is 1.  Derivatives of every order are right where elements are zero.
    x is converted to `dtype` first.  Raises ShapeError when x has no such axis.

    initial   a number to begin with
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.grad(ad.prod)(ad.tensor([2.0, 0.0, 3.0]))
    f64[3] [0. 6. 0.]
    """
    x = as_tensor(x, "prod", "x")
    axes = axes_of("prod", axis, x.aval)
    x = widened(x) if dtype is None else cast_to(x, dtype_of(dtype, "prod"))
    if not axes:
        found = another(x)
    else:
        found = _product_of_complex(x, axes) if x.dtype.kind == "c" else record(_prod, (x,), (axes,))
    return unreduced(found, x, axes, keepdims)
