"""Reductions and running sums of all elements that are not nan, and quantiles, of all elements or of those.

Reductions are compositions, so they fuse.  Quantiles are read from `sort`: positions are numbers, also of each row its
own where nans are left out, and between two elements a quantile is theirs in shares.  So gradients go to those
elements, and to q.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.symbols import as_float

from ..custom.function import Function
from ..errors import DispatchError, ShapeError, located
from ..tape import another
from ..tensor import Tensor
from .arguments import axes_of, axis_of, common, kept
from .arithmetic import add, divide, multiply, subtract
from .conditions import clip, equal, isnan, less
from .conditions import where as choose
from .conversion import as_tensor, cast_to, dtype_of
from .elementwise import ceil, floor, rint
from .extremes import argmax, argmin, max_, min_
from .numpy_parameters import as_floats, included, of_masked, of_masked_extreme, spread_of
from .primitive import F64, I64, spread_to, zero_of
from .reductions import all_, any_, sum_, summed
from .rows import argsort, sort, take_along_axis
from .scans import cumprod, cumsum, prod
from .shaping import moveaxis, reshaped, rows_along
from .statistics import root_of_squares
from .template import public

__all__ = [
    "median", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin",
    "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "percentile", "quantile",
]  # fmt: skip


# ---------------------------------------------------------------- without nan


def _filled(name: str, x: Any, axis: Any, value: float) -> Tensor:
    """x with a value for nan.  Raises ShapeError, naming the function, when x has no such axis."""
    x = as_tensor(x, name, "x")
    axes_of(name, axis, x.aval)
    return choose(isnan(x), value, x) if x.dtype.kind in "fc" else x


def _nan_total(reduce: Function, word: str, neutral: float, join: Function, example: str) -> Function:
    """A reduction of the elements that are not nan, which may begin with a number."""
    of, name = reduce.__name__, f"nan{reduce.__name__}"
    doc = f"""The {word} of the elements that are not nan, as `{of}` otherwise.   T[..., n, ...]  →  T[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    initial   a number to begin with
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    {example}
    """

    def body(x, axis=None, *, dtype=None, keepdims=False):
        return reduce(_filled(name, x, axis, neutral), axis, dtype=dtype, keepdims=keepdims)

    def without_dtype(x, axis=None, *, keepdims=False):
        return body(x, axis, keepdims=keepdims)

    # Methods of nanprod take no dtype.
    made: Function = public(1, name=name, doc=doc)(body if reduce is sum_ else without_dtype)
    of_masked(made, int(neutral), join, body)
    return made


nansum = _nan_total(sum_, "sum", 0.0, add, """>>> ad.nansum([1.0, ad.nan])
    f64[] 1.0
    >>> ad.nansum([ad.nan])
    f64[] 0.0""")
nanprod = _nan_total(prod, "product", 1.0, multiply, """>>> ad.nanprod([2.0, ad.nan, 3.0])
    f64[] 6.0
    >>> ad.grad(ad.nanprod)(ad.tensor([2.0, ad.nan, 3.0]))
    f64[3] [3. 0. 2.]""")


def _nan_running(reduce: Function, word: str, neutral: float, example: str) -> Function:
    name = f"nan{reduce.__name__}"
    doc = f"""{word} up to each element, nan taken for {neutral:g}.   T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError when x has no such axis.

    dtype   as of `{reduce.__name__}`

    {example}
    """

    def body(x, axis=None, *, dtype=None):
        return reduce(_filled(name, x, axis, neutral), axis, dtype=dtype)

    made: Function = public(name=name, doc=doc)(body)
    return made


nancumsum = _nan_running(cumsum, "Sums", 0.0, """>>> ad.nancumsum([2.0, ad.nan, 3.0])
    f64[3] [2. 2. 5.]""")
nancumprod = _nan_running(cumprod, "Products", 1.0, """>>> ad.nancumprod([2.0, ad.nan, 3.0])
    f64[3] [2. 2. 6.]""")


@public(1)
def nanmean(x, axis=None, *, dtype=None, keepdims=False, where=True):
    """The mean of the elements that are not nan, as `mean` otherwise; nan where all are nan.

    x: f[..., n, ...]  →  f[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    dtype, keepdims, where   as of `mean`; elements that `where` leaves out have a gradient of 0

    >>> ad.grad(ad.nanmean)(ad.tensor([1.0, ad.nan, 3.0]))
    f64[3] [0.5 0.  0.5]
    """
    x = included("nanmean", as_floats("nanmean", x, dtype), where, math.nan)
    axes = axes_of("nanmean", axis, x.aval)
    is_nan = isnan(x)
    counted = cast_to(choose(is_nan, 0.0, 1.0), x.dtype)
    y = divide(sum_(choose(is_nan, 0.0, x), axes, keepdims=keepdims), sum_(counted, axes, keepdims=keepdims))
    return y if dtype is None else cast_to(y, dtype_of(dtype, "nanmean"))


def _nan_extreme(name: str, word: str, extreme: Function, start: float, sign: int, example: str) -> Function:
    doc = f"""The {word} element that is not nan, as `{extreme.__name__}` otherwise; nan where all are nan.

    x: T[..., n, ...]  →  T[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis, or nothing along it.

    initial   a number that is one more element; needed for `where`
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    {example}
    """

    def body(x, axis=None, *, keepdims=False):
        x = as_tensor(x, name, "x")
        if x.dtype.kind != "f":
            return extreme(x, axis, keepdims=keepdims)
        axes = axes_of(name, axis, x.aval)
        is_nan = isnan(x)
        y = extreme(choose(is_nan, start, x), axes, keepdims=keepdims)
        return choose(all_(is_nan, axes, keepdims=keepdims), add(zero_of(x.dtype), np.nan), y)

    made: Function = public(1, name=name, doc=doc)(body)
    of_masked_extreme(made, sign)
    return made


nanmax = _nan_extreme("nanmax", "largest", max_, -np.inf, 1, """>>> ad.nanmax([1.0, ad.nan, 3.0])
    f64[] 3.0
    >>> ad.nanmax([ad.nan])
    f64[] nan""")
nanmin = _nan_extreme(
    "nanmin", "smallest", min_, np.inf, -1, """>>> ad.nanmin([[1.0, ad.nan], [ad.nan, ad.nan]], axis=1)
    f64[2] [ 1. nan]""",
)


def _nan_spread(name: str, told: str, finish: Callable[[Tensor], Tensor], example: str) -> Function:
    doc = f"""{told}

    x: f[..., n, ...]  →  f[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    dtype, ddof, correction, keepdims, where, mean   as of `var`

    {example}
    """

    def body(x, axis=None, *, dtype=None, ddof=0, correction=None, keepdims=False, where=True, mean=None):
        return finish(spread_of(name, x, axis, dtype, ddof, correction, keepdims, where, mean))

    made: Function = public(name=name, doc=doc)(body)
    return made


nanvar = _nan_spread(
    "nanvar", "The variance of the elements that are not nan, as `var` otherwise; nan where all are nan.", another,
    """>>> ad.nanvar([1.0, ad.nan, 3.0], ddof=1)
    f64[] 2.0""",
)
nanstd = _nan_spread(
    "nanstd", "The standard deviation without nan elements: the square root of `nanvar`.", root_of_squares,
    """>>> ad.nanstd([1.0, ad.nan, 3.0])
    f64[] 1.0""",
)


def _nan_place(name: str, word: str, place: Function, fill: float, example: str) -> Function:
    doc = f"""Index of the first {word} element along an axis (None: in x flattened), nan taken for {fill}.

    x: T[..., n, ...]  →  i64[..., ...]     0 where all are nan, which NumPy refuses: a value would have to be known

    Raises ShapeError when x has no such axis, or nothing along it.

    {example}
    """

    def body(x, axis=None, *, keepdims=False):
        x = as_tensor(x, name, "x")
        axis = None if axis is None else axis_of(name, axis, x.aval)
        return place(choose(isnan(x), fill, x) if x.dtype.kind == "f" else x, axis, keepdims=keepdims)

    made: Function = public(name=name, doc=doc)(body)
    return made


nanargmax = _nan_place("nanargmax", "largest", argmax, -np.inf, """>>> ad.nanargmax([1.0, ad.nan, 2.0])
    i64[] 2""")
nanargmin = _nan_place("nanargmin", "smallest", argmin, np.inf, """>>> ad.nanargmin([ad.nan, 1.0, 2.0])
    i64[] 1""")


# ---------------------------------------------------------------- quantiles


def _found(name: str, x: Any, q: Any, axis: Any, method: str, keepdims: bool, weights: Any = None) -> Tensor:
    """The quantiles that a name says: in percent or in shares, of all elements or of those that are not nan."""
    skips, per = name.startswith("nan"), 100.0 if name.endswith("percentile") else 1.0
    if method not in _PLACES:
        raise DispatchError(located(f"{name}: method is {', '.join(map(repr, _PLACES))}, not {method!r}"))
    if _is_outside(q, per):
        raise DispatchError(located(f"{name}: q is from 0 to {per:g}, not {q!r}"))
    (given,) = common(name, (("q", q),), "f")
    x, q = common(name, (("x", x), ("q", q)), "f")
    axes = axes_of(name, axis, x.aval)
    if not x.size:
        raise DispatchError(located(f"{name}: {x.aval} has no elements to choose from"))
    rows = rows_along(x, axes)
    # The place is a share of thousands of elements: of a float the digits behind the point would be few.
    shares = reshaped(cast_to(given, F64), (q.size,))
    shares = divide(shares, per) if per != 1.0 else shares
    if weights is None:
        y = _at_shares(rows, shares, method, skips=skips)
    else:
        if method != "inverted_cdf":
            raise ValueError(located(f"{name}: weights are for the method 'inverted_cdf'"))
        y = _at_weights(rows, shares, _rows_of_weights(name, weights, x, axes), skips=skips)
    shape = kept(x.shape, axes) if keepdims else rows.shape[:-1]
    return reshaped(moveaxis(y, -1, 0), (*q.shape, *shape))


def _is_outside(q: Any, most: float) -> bool:
    """True if any is no share, of numbers or a list of them: the contents of an array are not looked at."""
    each = q if isinstance(q, list | tuple) else [q]
    if not all([isinstance(one, int | float | np.generic) for one in each]):
        return False
    return any([bool(one < 0 or one > most) for one in each])


def _at_shares(rows: Tensor, shares: Tensor, method: str, *, skips: bool) -> Tensor:
    """For each row and each share what lies there: f[..., n], f[k] -> f[..., k]."""
    n, is_nan = rows.shape[-1], isnan(rows)
    shape = (*rows.shape[:-1], shares.shape[0])
    shares = spread_to(shares, shape)
    last: Tensor | float = as_float(n - 1)
    if skips:
        nans = summed(cast_to(is_nan, F64), (rows.ndim - 1,))
        last = clip(subtract(last, reshaped(nans, (*nans.shape, 1))), 0.0, None)
    if method == "inverted_cdf":
        place = clip(subtract(multiply(shares, add(last, 1.0)), 1.0), 0.0, last)
    else:
        place = clip(multiply(shares, last), 0.0, last)
    low, high, weight = _PLACES[method](place)
    weight = cast_to(weight, rows.dtype)
    ordered = sort(rows, axis=-1)
    first, second = (take_along_axis(ordered, _numbers(i, n), axis=-1) for i in (low, high))
    # Two infinities of one sign have no difference; nor does what is not looked at.
    between = choose(equal(first, second), first, add(first, multiply(weight, subtract(second, first))))
    return _or_nan(choose(equal(weight, 0.0), first, between), shares, is_nan, skips)


def _or_nan(found: Tensor, shares: Tensor, is_nan: Tensor, skips: bool) -> Tensor:
    """The results found; nan for a share that is, and of rows with nan unless they are skipped."""
    is_outside = spread_to(isnan(shares), found.shape)
    if not skips:
        is_outside = is_outside | spread_to(any_(is_nan, axis=-1, keepdims=True), found.shape)
    return choose(is_outside, np.nan, found)


def _rows_of_weights(name: str, weights: Any, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The weights of each row: given for each element, or for those along the axis."""
    (w,) = common(name, (("weights", weights),), "f")
    if w.shape != x.shape:
        along = tuple([x.shape[a] for a in axes])
        if w.shape != along:
            told = f"{w.aval} are not for {x.aval} along axes {axes}"
            raise ShapeError(located(f"{name}: weights {told}"))
        w = spread_to(reshaped(w, tuple([n if a in axes else 1 for a, n in enumerate(x.shape)])), x.shape)
    return cast_to(rows_along(w, axes), F64)


def _at_weights(rows: Tensor, shares: Tensor, w: Tensor, *, skips: bool) -> Tensor:
    """For each row and each share the first element in order with which the weights come up to it."""
    is_nan, order = isnan(rows), argsort(rows, axis=-1)
    if skips:
        w = choose(is_nan, 0.0, w)
    sums = cumsum(take_along_axis(w, order, axis=-1), axis=-1)
    parts = divide(sums, sums[..., -1:])
    parts = choose(equal(parts, 0.0), -1.0, parts)  # of those without weight in front none is chosen
    is_before = less(reshaped(parts, (*rows.shape[:-1], 1, rows.shape[-1])), reshaped(shares, (shares.shape[0], 1)))
    place = clip(summed(cast_to(is_before, I64), (rows.ndim,)), 0, rows.shape[-1] - 1)
    found = take_along_axis(take_along_axis(rows, order, axis=-1), place, axis=-1)
    return _or_nan(found, shares, is_nan, skips)


def _numbers(place: Tensor, n: int) -> Tensor:
    """Places as integers; those that are nan may be any."""
    return clip(cast_to(choose(isnan(place), 0.0, place), I64), 0, n - 1)


#: By method: the elements before and behind a place, and the share of the second.
_PLACES = {
    "linear": lambda place: (floor(place), ceil(place), subtract(place, floor(place))),
    "lower": lambda place: (floor(place), floor(place), multiply(place, 0.0)),
    "inverted_cdf": lambda place: (ceil(place), ceil(place), multiply(place, 0.0)),
    "higher": lambda place: (ceil(place), ceil(place), multiply(place, 0.0)),
    "nearest": lambda place: (rint(place), rint(place), multiply(place, 0.0)),
    "midpoint": lambda place: (floor(place), ceil(place), choose(equal(place, floor(place)), 0.0, 0.5)),
}


def _of_shares(name: str, told: str, shapes: str, doc: str, example: str) -> Function:
    """A function of shares of the way through the elements in order, by its name: see `_found`."""

    def body(x, q, axis=None, *, method="linear", keepdims=False, weights=None):
        return _found(name, x, q, axis, method, keepdims, weights)

    made: Function = public(name=name, doc=f"{told}{shapes}\n\n    {doc}\n\n    {example}\n    ")(body)
    return made


_SHAPES = "\n\n    x: f[..., n, ...]  q: f[k...]  →  f[k..., ...]"
_AS_QUANTILE = """Raises ShapeError when x has no such axis, DispatchError for a q that is not from 0 to {}.

    method, keepdims, weights   as of `quantile`"""

quantile = _of_shares(
    "quantile", "The q-th quantile along an axis, q from 0 to 1.",
    f"{_SHAPES}     axis: one, several, or None for all; integers give float64",
    """method   of a place between two elements: "linear", "lower", "higher", "nearest", "midpoint"; "inverted_cdf":
             the element with which so many are reached
    weights  how much each element counts, along the axis or all: for "inverted_cdf"

    A row with nan gives nan; an array q outside of 0 to 1 is taken as its end.  Gradients go to the elements, and to q.
    Raises ShapeError when x has no such axis, DispatchError for another method, no elements, and numbers q outside.""",
    """>>> ad.quantile([4.0, 1.0, 2.0], [0.5, 0.75])
    f64[2] [2. 3.]""",
)
percentile = _of_shares(
    "percentile", "The q-th percentile along an axis, q from 0 to 100: see `quantile`.", _SHAPES,
    _AS_QUANTILE.format(100), """>>> ad.percentile([1.0, 2.0, 4.0], [50, 75])
    f64[2] [2. 3.]""",
)
nanquantile = _of_shares(
    "nanquantile", "The `quantile` without nan elements; nan where all are.", _SHAPES, _AS_QUANTILE.format(1),
    """>>> ad.nanquantile([1.0, ad.nan, 3.0], [0.0, 0.25])
    f64[2] [1.  1.5]""",
)
nanpercentile = _of_shares(
    "nanpercentile", "The `percentile` without nan elements; nan where all are.", _SHAPES, _AS_QUANTILE.format(100),
    """>>> ad.nanpercentile([1.0, ad.nan, 3.0], 50)
    f64[] 2.0""",
)


def _middle(name: str, told: str, example: str) -> Function:
    def body(x, axis=None, *, keepdims=False):
        return _found(name, x, 0.5, axis, "linear", keepdims)

    raises = "Raises ShapeError when x has no such axis."
    doc = f"{told}\n\n    f[..., n, ...]  →  f[..., ...]\n\n    {raises}\n\n    {example}\n    "
    made: Function = public(name=name, doc=doc)(body)
    return made


median = _middle(
    "median", "The median: the middle element, or the mean of the two in the middle; nan if there is one.",
    """>>> ad.median([[3.0, 1.0], [2.0, 5.0]], axis=0)
    f64[2] [2.5 3. ]""",
)
nanmedian = _middle(
    "nanmedian", "The `median` without nan elements; nan where all are.", """>>> ad.nanmedian([1.0, ad.nan, 3.0])
    f64[] 2.0""",
)
