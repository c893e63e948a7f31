"""Further parameters that NumPy's functions have and the declared ones of this library lack (`forms.further`).

Reductions take a mask, `where`, of the elements to include, and a number, `initial`, to start from.  Elements that the
mask leaves out get a gradient of exactly zero, as in `ad.where`; `initial` counts as one more element, with a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.lazily import imported

from ..custom.function import Function
from ..dispatch.declaration import brackets
from ..errors import DTypeError, ShapeError, located
from ..tape import as_new_result
from ..tensor import Tensor
from .arithmetic import add, divide, multiply, subtract
from .conditions import clip, isnan, neutral_element
from .conditions import where as choose
from .contraction import matmul
from .conversion import as_tensor, astype, cast_to, dtype_of
from .creation import empty_like, full, full_like, linspace, ones_like, zeros_like
from .declare import as_sequence, axes_in_order, axes_of, axis_of, elements_of
from .diagonals import trace
from .einsum import einsum, spelled
from .extremes import max_, min_
from .forms import cast_by, further, in_dtype
from .joining import concatenate, joined, stack
from .primitive import BOOL, Ints, broadcasts_to, spread_to
from .rearranging import meshgrid, open_grid
from .reductions import all_, any_, prod, sum_
from .shaping import keepdims_shape, moveaxis, ravel, reshape, reshaped, rows_along, transpose
from .statistics import floating, freedom_lost, mean, root_of_squares, squared_size, std, var

# ---------------------------------------------------------------- layouts


def _order(name: str, order: str, others: str) -> bool:
    """True for "F" (column-major).  "A" and "K" mean "C", since the last axis of a tensor is contiguous."""
    if not isinstance(order, str):
        raise TypeError(located(f"{name}: order must be str, not {type(order).__name__}", brackets()))
    if order not in ("C", "F", *others):
        known = ", ".join(("C", "F", *others))
        raise ValueError(located(f"{name}: order is one of {known}, not {order!r}"))
    return order == "F"


@further(reshape)
def _reshape(x, shape, order="C", *, copy=None):
    if not _order("reshape", order, "A"):
        return reshape(x, shape)
    return transpose(reshape(transpose(x), as_sequence(shape)[::-1]))


@further(ravel)
def _ravel(x, order="C"):
    return ravel(transpose(x) if _order("ravel", order, "AK") else x)


# ---------------------------------------------------------------- dtypes


@further(astype)
def _astype(x, dtype, order="K", casting="unsafe", subok=True, copy=True, *, device=None):
    (y,) = cast_by(casting, "astype", (x,), dtype)
    return y


def _of_joining(function: Function) -> None:
    @further(function)
    def join(arrays, axis=0, *, dtype=None, casting="same_kind"):
        return function(cast_by(casting, function.__name__, arrays, dtype), axis)


_of_joining(concatenate)
_of_joining(stack)


@further(trace)
def _trace(x, offset=0, axis1=0, axis2=1, dtype=None):
    return trace(x if dtype is None else astype(x, dtype), offset, axis1, axis2)


@further(clip)
def _clip(x, min=None, max=None, *, dtype=None, casting="same_kind"):
    x, *bounds = cast_by(casting, "clip", [one for one in (x, min, max) if one is not None], dtype)
    return clip(x, None if min is None else bounds[0], None if max is None else bounds[-1])


@further(einsum)
def _einsum(*operands, dtype=None, casting="safe"):
    if len(operands) > 1 and not isinstance(operands[0], str):
        operands = spelled(*operands)
    return in_dtype(dtype, casting, lambda *xs: einsum(*operands[:1] or [""], *xs), operands[1:], {}, "einsum")


# ---------------------------------------------------------------- shapes


def _of_number(function: Function, number: int) -> None:
    @further(function)
    def like(x, *, dtype=None, shape=None):
        return _full_like(x, number, dtype=dtype, shape=shape)


for _function, _filling in ((zeros_like, 0), (ones_like, 1), (empty_like, 0)):
    _of_number(_function, _filling)


@further(full_like)
def _full_like(x, fill_value, *, dtype=None, shape=None):
    x = as_tensor(x)
    return full(x.shape if shape is None else shape, fill_value, x.dtype if dtype is None else dtype)


@further(linspace)
def _linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    line = along_axis("linspace", linspace(start, stop, num, endpoint=endpoint, dtype=dtype), axis)
    if not retstep:
        return line
    parts = num - 1 if endpoint else num
    return line, divide(subtract(stop, start), float(parts) if parts > 0 else np.nan)


def along_axis(name: str, line: Tensor, axis: Any) -> Tensor:
    """line, whose numbers run along the first axis, with this axis moved to `axis`."""
    return moveaxis(line, 0, axis_of(name, axis, line.aval))


@further(meshgrid)
def _meshgrid(*arrays, copy=True, sparse=False, indexing="xy"):
    return open_grid(arrays, indexing)[0] if sparse else meshgrid(*arrays, indexing=indexing)


@further(choose)
def _where(condition, x1=None, x2=None):
    if (x1 is None) != (x2 is None):
        raise ValueError(located("where: takes both of x and y, or neither"))
    return imported("autodiff.ops.searching").nonzero(condition) if x1 is None else choose(condition, x1, x2)


# ---------------------------------------------------------------- products along axes


@further(matmul)
def _matmul(x1, x2, *, axes=None, dtype=None, casting="same_kind"):
    return along_axes(matmul, (2, 2), (x1, x2), axes, dtype, casting)


def along_axes(
    function: Callable, cores: tuple[int, int], xs: tuple[Any, Any], axes: Any, dtype: Any = None,
    casting: str = "same_kind",
) -> Tensor:
    """function(x1, x2) on the axes that `axes` names instead of the last ones.

    cores   the number of last axes of x1 and of x2 on which `function` works
    axes    [of x1, of x2, of the result]: each an int or a tuple of ints; () for no axes.  None: the last axes"""
    if axes is None:
        return in_dtype(dtype, casting, function, xs, {})
    name = function.__name__
    given = [as_tensor(x, name) for x in xs]
    counts = [min(core, x.ndim) for core, x in zip(cores, given, strict=True)]
    rest = sum(counts) - 2  # the number of axes in the result: one axis of each operand is summed
    named = [tuple(as_sequence(one)) for one in elements_of(axes, name, "axes")]
    named += [()] * (3 - len(named)) if not rest else []
    if [*map(len, named)] != [*counts, rest]:
        told = ", ".join(map(str, [*counts, rest]))
        raise ShapeError(located(f"{name}: axes names {told} axes of x1, x2 and the result, not {axes}"))
    moved = [moveaxis(x, one, tuple(range(-len(one), 0))) for x, one in zip(given, named, strict=False)]
    y = in_dtype(dtype, casting, function, moved, {})
    return moveaxis(y, tuple(range(-rest, 0)), named[2]) if rest else y


# ---------------------------------------------------------------- reductions with where= and initial=


def _mask(name: str, x: Tensor, where: Any) -> Tensor | None:
    """The mask of a reduction of x, checked to broadcast to x's shape; None if all elements are included."""
    if where is True:
        return None
    mask = as_tensor(where, name, "where")
    if mask.dtype != BOOL:
        raise DTypeError(located(f"{name}: where is a mask of bool, not {mask.aval}"))
    if not broadcasts_to(mask.shape, x.shape):
        raise ShapeError(located(f"{name}: the mask {mask.aval} does not broadcast to {x.aval}"))
    return mask


def included(name: str, x: Any, where: Any, neutral: Any) -> Any:
    """x with the neutral element in place of the elements where the mask is False."""
    if where is True:
        return x
    x = as_tensor(x, name, "x")
    return choose(_mask(name, x, where), x, neutral)


def _start(name: str, initial: Any, dtype: np.dtype) -> Tensor:
    """`initial` of a reduction as a 0-d tensor.  Raises ShapeError for an array."""
    start = as_tensor(initial, name, "initial")
    if start.shape:
        raise ShapeError(located(f"{name}: initial is one number, not {start.aval}"))
    return cast_to(start, dtype)


def weights_along(name: str, w: Tensor, x: Tensor, axis: Any) -> Tensor:
    """Weights, given for all of x or for the axes in `axis` (in their order), in a shape that broadcasts to x's."""
    if w.shape == x.shape:
        return w
    axes = axes_in_order(name, tuple(range(x.ndim)) if axis is None else axis, x.aval)
    if w.shape != tuple([x.shape[a] for a in axes]):
        raise ShapeError(located(f"{name}: weights {w.aval} are not for {x.aval} along axis {axis}"))
    w = transpose(w, sorted(range(w.ndim), key=axes.__getitem__))
    return reshaped(w, tuple([n if a in axes else 1 for a, n in enumerate(x.shape)]))


# ---------------------------------------------------------------- sums, products, any, all


def of_masked(function: Function, neutral: Any, join: Any = None, reduce: Any = None) -> None:
    """Let a reduction take `where`; and `initial` if `join` is given, which combines the result with it."""
    name, reduce = function.__name__, reduce or function

    def from_start(x, axis=None, *, dtype=None, keepdims=False, initial=None, where=True):
        y = reduce(included(name, x, where, neutral), axis, dtype=dtype, keepdims=keepdims)
        return y if initial is None else join(y, _start(name, initial, y.dtype))

    def masked(x, axis=None, *, keepdims=False, where=True):
        return reduce(included(name, x, where, neutral), axis, keepdims=keepdims)

    further(function)(from_start if join else masked)


of_masked(sum_, 0, add)
of_masked(prod, 1, multiply)
of_masked(any_, False)
of_masked(all_, True)

# ---------------------------------------------------------------- extremes


def of_masked_extreme(function: Function, sign: int) -> None:
    """Let an extreme (sign 1: the largest, -1: the smallest) take `where`, and `initial` as one more element."""
    name = function.__name__

    @further(function)
    def extreme(x, axis=None, *, keepdims=False, initial=None, where=True):
        x = as_tensor(x, name, "x")
        axes, mask = axes_of(name, axis, x.aval), _mask(name, x, where)
        if initial is None and mask is not None:
            raise ValueError(located(
                f"{name}: of no element at all there is none: where= needs initial=",
                f"initial={neutral_element(x.dtype, sign)} makes no difference",
            ))
        if mask is not None:
            skips = name.startswith("nan") and x.dtype.kind in "fc"
            x = choose(mask, x, cast_to(as_tensor(math.nan if skips else neutral_element(x.dtype, sign)), x.dtype))
        if initial is None:
            return function(x, axes, keepdims=keepdims)
        rows = rows_along(x, axes)
        first = spread_to(reshaped(_start(name, initial, x.dtype), (1,) * rows.ndim), (*rows.shape[:-1], 1))
        y = function(joined((rows, first), rows.ndim - 1), -1)
        return reshaped(y, keepdims_shape(x.shape, axes)) if keepdims else y


of_masked_extreme(max_, 1)
of_masked_extreme(min_, -1)

# ---------------------------------------------------------------- means and spreads


def as_floats(name: str, x: Any, dtype: Any) -> Tensor:
    x = as_tensor(x, name, "x")
    if dtype is None:
        return floating(x, name)
    wanted = dtype_of(dtype, name)
    if name.startswith("nan") and x.dtype.kind in "fc" and wanted.kind in "ib":
        raise DTypeError(located(f"{name}: {wanted} has no nan, which {x.aval} may have"))
    return floating(cast_to(x, wanted), name)


@further(mean)
def _mean(x, axis=None, *, dtype=None, keepdims=False, where=True):
    x = as_tensor(x, "mean", "x")
    mask = _mask("mean", x, where)
    if mask is None:
        return mean(x, axis, dtype=dtype, keepdims=keepdims)
    x = as_floats("mean", x, dtype)
    y = mean_of(x, mask, axes_of("mean", axis, x.aval), keepdims)
    return cast_to(y, dtype_of(dtype, "mean", y.dtype))


def mean_of(x: Tensor, mask: Tensor, axes: Ints, keepdims: bool) -> Tensor:
    """The mean of the elements that a mask includes."""
    return sum_(choose(mask, x, 0), axes, keepdims=keepdims) / _counted(x, mask, axes, keepdims)


def _counted(x: Tensor, mask: Tensor, axes: Ints, keepdims: bool) -> Tensor:
    """The number of elements of x that a mask includes, in the dtype of x."""
    return sum_(cast_to(spread_to(mask, x.shape), x.dtype), axes, keepdims=keepdims)


def masked_spread(name: str, finish: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The body of a function with `where` and `mean`: the variance of the included elements, passed to `finish`.

    name   the function's name; if it begins with "nan", elements that are nan are left out
    """
    is_nan = name.startswith("nan")

    def spread(x, axis=None, *, dtype=None, ddof=0, correction=None, keepdims=False, where=True, mean=None):
        lost = freedom_lost(name, ddof, correction)
        x = as_floats(name, x, dtype)
        axes, mask = axes_of(name, axis, x.aval), _mask(name, x, where)
        mask = spread_to(as_tensor(True) if mask is None else mask, x.shape)
        if is_nan:
            mask = mask & ~isnan(x)
        center = mean_of(x, mask, axes, keepdims=True) if mean is None else as_tensor(mean, name, "mean")
        each = squared_size(choose(mask, x - cast_to(center, x.dtype), 0))
        squares = sum_(each, axes, keepdims=keepdims)
        freedom = _counted(each, mask, axes, keepdims) - float(lost)
        return finish(squares / choose(freedom > 0.0, freedom, math.nan if is_nan else 0.0))

    return spread


further(var)(masked_spread("var", as_new_result))
further(std)(masked_spread("std", root_of_squares))

