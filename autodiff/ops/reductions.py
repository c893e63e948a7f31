"""Reductions: sum, max, min, any, all, argmax, argmin.

A reduction's parameter `axis` is a sorted tuple of non-negative ints, and those axes are dropped;
`keepdims` is a reshape afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import Aval, dtype_name
from codegen.lowering import Reduce

from ..errors import ShapeError, caller
from ..tape import DETACH, another, constant, record
from ..tensor import Tensor
from .arguments import axes_of, integer, kept, records, reduced_shape
from .arithmetic import add, divide, multiply, subtract
from .batching import along
from .complexes import imaginary_part, real_part
from .conversion import as_tensor, cast_to, dtype_of
from .logic import bitwise_and, isfinite, truth
from .primitive import Operation, expect, linear, primitive, zero_of
from .selection import where
from .shaping import reshaped, spread
from .template import remembered
from .winners import winners

__all__ = ["all_", "any_", "argmax", "argmin", "max_", "min_", "sum_"]

_I64 = np.dtype(np.int64)
_BOOL = np.dtype(np.bool_)


def reduced_aval(
    name: str, accepts: str, *, result: np.dtype | None = None, empty: bool = True
) -> Callable[..., Aval]:
    """The shape rule of a reduction.  `empty`: whether it has a value over no elements at all."""

    def infer(x: Aval, *, axis: tuple[int, ...]) -> Aval:
        expect(name, (x,), accepts)
        if any(not 0 <= a < x.ndim for a in axis) or list(axis) != sorted(set(axis)):
            raise ShapeError(f"{name}: {axis} are not axes of {x}\n  called at {caller()}")
        shape = reduced_shape(x.shape, axis)
        if not empty and 0 in [x.shape[a] for a in axis]:
            raise ShapeError(
                f"{name}: nothing to choose from: {x} along axis {', '.join(map(str, axis))}\n  called at {caller()}"
            )
        return Aval(shape, result or x.dtype)

    return infer


def widened(x: Tensor) -> Tensor:
    """bool and int32 as int64, as NumPy sums them."""
    return cast_to(x, _I64) if x.dtype.kind in "ib" else x


def unreduced(y: Tensor, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The result y of reducing x, with the axes back as extents of 1 if they are to be kept."""
    return reshaped(y, kept(x.shape, axes)) if keepdims else y


# ---------------------------------------------------------------- sum

_sum = linear(
    "sum",
    lambda x, *, axis: np.add.reduce(x, axis, x.dtype),  # np.sum, which takes as long again to come to it
    infer=reduced_aval("sum", "fic"),
    transpose=lambda y_bar, y, x, *, axis: (spread(y_bar, axis, x.shape),),
    lower=Reduce("add"),
    params=("axis",),
    heavy=True,
    batch=along("axis"),
)


def summed(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The sum over these axes, which are dropped; no node when there are none."""
    return record(_sum, (x,), (axes,)) if axes else another(x)


@records(_sum)
@remembered(1)
def sum_(x, axis=None, *, dtype=None, keepdims=False):
    """The sum over an axis, several, or (None) all of them.

    x: T[..., n, ...]  →  T[..., ...]     bool and int32 are summed as int64

    The sum of nothing is 0.  x is converted to `dtype` first.  Raises ShapeError when x has no such axis.

    initial   a number to begin with
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.sum([[1, 2], [3, 4]], axis=0)
    i64[2] [4 6]
    >>> ad.sum([True, True])
    i64[] 2
    >>> ad.sum(ad.ones((2, 3)), keepdims=True).shape
    (1, 1)
    """
    x = as_tensor(x, "sum", "x")
    axes = axes_of("sum", axis, x.aval)
    x = widened(x) if dtype is None else cast_to(x, dtype_of(dtype, "sum"))
    return unreduced(summed(x, axes), x, axes, keepdims)


# ---------------------------------------------------------------- max, min


def _extreme(name: str, reference: Callable[..., Any]) -> Operation:
    def vjp(y_bar, y, x, *, axis):
        def x_bar():
            wins = record(_winners[name], (x,), (axis,))
            share = divide(y_bar, summed(cast_to(wins, y.dtype), axis))
            return where(wins, spread(share, axis, x.shape), zero_of(y.dtype))

        return (x_bar,)

    def jvp(dxs, y, x, *, axis):
        if dxs[0] is None:
            return None
        wins = record(_winners[name], (x,), (axis,))
        moved = summed(where(wins, dxs[0], zero_of(y.dtype)), axis)
        return divide(moved, summed(cast_to(wins, y.dtype), axis))

    return primitive(
        name,
        lambda x, *, axis: reference(x, axis),
        infer=reduced_aval(name, "fi", empty=False),
        vjp=vjp,
        jvp=jvp,
        lower=Reduce(name),
        params=("axis",),
        heavy=True,
        masks=True,
        batch=along("axis"),
    )


_max = _extreme("max", np.max)
_min = _extreme("min", np.min)
_winners = {"max": winners("max", np.max), "min": winners("min", np.min)}


def _extreme_of_complex(operation: Operation, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The extreme complex numbers: parts of those that attain it; these move it, evenly."""
    still = record(DETACH, (x,))
    wins = record(_winners[operation.name], (still,), (axes,))
    beyond = -math.inf if operation is _max else math.inf
    best, second = (record(operation, (where(wins, p(still), beyond),), (axes,)) for p in (real_part, imaginary_part))
    value = add(cast_to(best, x.dtype), multiply(cast_to(second, x.dtype), constant(1j, dtype_name(x.dtype))))
    moved = where(bitwise_and(wins, isfinite(still)), subtract(x, still), zero_of(x.dtype))  # by nothing
    return add(value, divide(summed(moved, axes), summed(cast_to(wins, x.dtype), axes)))


def _extremum(operation: Operation, of_bool: Operation, x: Any, axis: Any, keepdims: bool) -> Tensor:
    """The extreme elements; those of bool are what `any` and `all` say."""
    x = as_tensor(x, operation.name, "x")
    axes = axes_of(operation.name, axis, x.aval)
    if x.dtype.kind == "c" and axes:
        return unreduced(_extreme_of_complex(operation, x, axes), x, axes, keepdims)
    if x.dtype == _BOOL:
        operation.infer(x.aval.with_dtype(_I64), axis=axes)  # an empty axis has no extreme
        operation = of_bool
    return unreduced(record(operation, (x,), (axes,)) if axes else another(x), x, axes, keepdims)


@records(_max)
@remembered(1)
def max_(x, axis=None, *, keepdims=False):
    """The largest element over an axis, several, or (None) all of them; nan if there is one.

    x: T[..., n, ...]  →  T[..., ...]     complex numbers are ordered by real parts, equal ones by imaginary parts

    Equal largest or smallest elements share the gradient evenly; the others get exactly 0.
    Raises ShapeError when x has no such axis, or nothing along it.

    initial   a number that is one more element; needed for `where`
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.grad(ad.max)(ad.tensor([1.0, 3.0, 3.0]))
    f64[3] [0.  0.5 0.5]
    """
    return _extremum(_max, _any, x, axis, keepdims)


@records(_min)
@remembered(1)
def min_(x, axis=None, *, keepdims=False):
    """The smallest element over an axis, several, or (None) all of them; nan if there is one.

    x: T[..., n, ...]  →  T[..., ...]     complex numbers are ordered by real parts, equal ones by imaginary parts

    Equal largest or smallest elements share the gradient evenly; the others get exactly 0.
    Raises ShapeError when x has no such axis, or nothing along it.

    initial   a number that is one more element; needed for `where`
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.min([[4, 2], [1, 3]], axis=1, keepdims=True)
    i64[2,1]
    [[2]
     [1]]
    """
    return _extremum(_min, _all, x, axis, keepdims)


# ---------------------------------------------------------------- any, all


def _truth_reduction(name: str, reference: Callable[..., Any]) -> Operation:
    return primitive(
        name,
        lambda x, *, axis: reference(x, axis),
        infer=reduced_aval(name, "b"),
        lower=Reduce(name),
        params=("axis",),
        heavy=True,
        discrete=True,
        batch=along("axis"),
    )


_any = _truth_reduction("any", np.any)
_all = _truth_reduction("all", np.all)


def _quantified(operation: Operation, x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = as_tensor(x, operation.name, "x")
    axes = axes_of(operation.name, axis, x.aval)
    x = truth(x, operation.name, "x")
    return unreduced(record(operation, (x,), (axes,)) if axes else another(x), x, axes, keepdims)


@records(_any)
@remembered(1)
def any_(x, axis=None, *, keepdims=False):
    """True if any element over an axis, several, or (None) all of them is True.

    x: T[..., n, ...]  →  bool[..., ...]     numbers count as True unless they are zero

    Of nothing it is False.  Raises ShapeError when x has no such axis.

    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.any([[0, 0], [0, 3]], axis=0)
    bool[2] [False  True]
    """
    return _quantified(_any, x, axis, keepdims)


@records(_all)
@remembered(1)
def all_(x, axis=None, *, keepdims=False):
    """True if all elements over an axis, several, or (None) all of them are True.

    x: T[..., n, ...]  →  bool[..., ...]     numbers count as True unless they are zero

    Of nothing it is True.  Raises ShapeError when x has no such axis.

    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.all([[1, 0], [2, 3]], axis=1)
    bool[2] [False  True]
    """
    return _quantified(_all, x, axis, keepdims)


# ---------------------------------------------------------------- argmax, argmin


def _place_reduction(name: str, reference: Callable[..., Any]) -> Operation:
    def over_axes(x: np.ndarray, *, axis: tuple[int, ...]) -> np.ndarray:
        rest = [i for i in range(x.ndim) if i not in axis]
        rows = x.transpose(*rest, *axis).reshape(*[x.shape[i] for i in rest], _extent(x.shape, axis))
        return reference(rows, -1)

    return primitive(
        name,
        over_axes,
        infer=reduced_aval(name, "fib", result=_I64, empty=False),
        lower=Reduce(name),
        params=("axis",),
        heavy=True,
        discrete=True,
        batch=along("axis"),
    )


def _extent(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """The number of elements that are reduced to one."""
    return math.prod([shape[a] for a in axes])


_argmax = _place_reduction("argmax", np.argmax)
_argmin = _place_reduction("argmin", np.argmin)


def _place(operation: Operation, x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = as_tensor(x, operation.name, "x")
    axes = axes_of(operation.name, axis if axis is None else integer(axis, operation.name, "an axis"), x.aval)
    if x.dtype.kind == "c":
        wins = record(_winners["max" if operation is _argmax else "min"], (x,), (axes,))
        return unreduced(record(_argmax, (wins,), (axes,)), x, axes, keepdims)
    return unreduced(record(operation, (x,), (axes,)), x, axes, keepdims)


@records(_argmax)
@remembered(1)
def argmax(x, axis=None, *, keepdims=False):
    """Index of the first largest element along an axis (None: in x flattened).

    x: T[..., n, ...]  →  i64[..., ...]     the first nan, where there is one

    Raises ShapeError when x has no such axis, or nothing along it.

    >>> import autodiff as ad
    >>> ad.argmax([[1.0, 5.0, 5.0], [3.0, 2.0, 1.0]], axis=1)
    i64[2] [1 0]
    """
    return _place(_argmax, x, axis, keepdims)


@records(_argmin)
@remembered(1)
def argmin(x, axis=None, *, keepdims=False):
    """Index of the first smallest element along an axis (None: in x flattened).

    x: T[..., n, ...]  →  i64[..., ...]     the first nan, where there is one

    Raises ShapeError when x has no such axis, or nothing along it.

    >>> import autodiff as ad
    >>> ad.argmin([[1.0, 5.0, 5.0], [3.0, 2.0, 1.0]], axis=1)
    i64[2] [0 2]
    """
    return _place(_argmin, x, axis, keepdims)
