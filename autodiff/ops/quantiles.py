"""Quantiles: what lies at a share of the way through the elements in order.

All are read from `sort`: positions are numbers, also of each row its own where nans are left out, and what lies between
two elements is theirs in shares.  So gradients go to those elements, and to q.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.symbols import as_float

from ..errors import DispatchError, ShapeError, located
from ..tensor import Tensor
from .arguments import axes_of, common, kept
from .arithmetic import add, divide, multiply, subtract
from .conditions import clip, equal, isnan, less, where
from .conversion import cast_to
from .elementwise import ceil, floor, rint
from .primitive import F64, I64, spread_to
from .reductions import any_, summed
from .rows import argsort, sort, take_along_axis
from .scans import cumsum
from .shaping import moveaxis, reshaped, rows_along
from .template import public

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]


def _found(
    name: str, x: Any, q: Any, axis: Any, method: str, keepdims: bool, weights: Any = None
) -> Tensor:
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
    last: Tensor | float
    if skips:
        nans = summed(cast_to(is_nan, F64), (rows.ndim - 1,))
        last = clip(subtract(as_float(n - 1), reshaped(nans, (*nans.shape, 1))), 0.0, None)
    else:
        last = as_float(n - 1)
    if method == "inverted_cdf":
        place = clip(subtract(multiply(shares, add(last, 1.0)), 1.0), 0.0, last)
    else:
        place = clip(multiply(shares, last), 0.0, last)
    low, high, weight = _PLACES[method](place)
    weight = cast_to(weight, rows.dtype)
    ordered = sort(rows, axis=-1)
    first, second = (take_along_axis(ordered, _numbers(i, n), axis=-1) for i in (low, high))
    # Two infinities of one sign have no difference; nor does what is not looked at.
    between = where(equal(first, second), first, add(first, multiply(weight, subtract(second, first))))
    return _or_nan(where(equal(weight, 0.0), first, between), shares, is_nan, skips)


def _or_nan(found: Tensor, shares: Tensor, is_nan: Tensor, skips: bool) -> Tensor:
    """The results found; nan for a share that is, and of rows with nan unless they are skipped."""
    is_outside = spread_to(isnan(shares), found.shape)
    if not skips:
        is_outside = is_outside | spread_to(any_(is_nan, axis=-1, keepdims=True), found.shape)
    return where(is_outside, np.nan, found)


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
        w = where(is_nan, 0.0, w)
    sums = cumsum(take_along_axis(w, order, axis=-1), axis=-1)
    parts = divide(sums, sums[..., -1:])
    parts = where(equal(parts, 0.0), -1.0, parts)  # of those without weight in front none is chosen
    is_before = less(reshaped(parts, (*rows.shape[:-1], 1, rows.shape[-1])), reshaped(shares, (shares.shape[0], 1)))
    place = clip(summed(cast_to(is_before, I64), (rows.ndim,)), 0, rows.shape[-1] - 1)
    found = take_along_axis(take_along_axis(rows, order, axis=-1), place, axis=-1)
    return _or_nan(found, shares, is_nan, skips)


def _numbers(place: Tensor, n: int) -> Tensor:
    """Places as integers; those that are nan may be any."""
    return clip(cast_to(where(isnan(place), 0.0, place), I64), 0, n - 1)


#: By method: the elements before and behind a place, and the share of the second.
_PLACES = {
    "linear": lambda place: (floor(place), ceil(place), subtract(place, floor(place))),
    "lower": lambda place: (floor(place), floor(place), multiply(place, 0.0)),
    "inverted_cdf": lambda place: (ceil(place), ceil(place), multiply(place, 0.0)),
    "higher": lambda place: (ceil(place), ceil(place), multiply(place, 0.0)),
    "nearest": lambda place: (rint(place), rint(place), multiply(place, 0.0)),
    "midpoint": lambda place: (floor(place), ceil(place), where(equal(place, floor(place)), 0.0, 0.5)),
}


@public()
def quantile(x, q, axis=None, *, method="linear", keepdims=False, weights=None):
    """The q-th quantile along an axis, q from 0 to 1.

    x: f[..., n, ...]  q: f[k...]  →  f[k..., ...]     axis: one, several, or None for all; integers give float64

    method   of what lies between two elements: "linear", "lower", "higher", "nearest", "midpoint"; "inverted_cdf":
             the element with which so many are reached
    weights  how much each element counts, along the axis or all: for "inverted_cdf"

    A row with nan gives nan; an array q outside of 0 to 1 is taken as its end.  Gradients go to the elements, and to q.
    Raises ShapeError when x has no such axis, DispatchError for another method, no elements, and numbers q outside.

    >>> ad.quantile([4.0, 1.0, 2.0], [0.5, 0.75])
    f64[2] [2. 3.]
    """
    return _found("quantile", x, q, axis, method, keepdims, weights)


@public()
def percentile(x, q, axis=None, *, method="linear", keepdims=False, weights=None):
    """The q-th percentile along an axis, q from 0 to 100: see `quantile`.

    x: f[..., n, ...]  q: f[k...]  →  f[k..., ...]

    Raises ShapeError when x has no such axis, DispatchError for a q that is not from 0 to 100.

    method, keepdims, weights   as of `quantile`

    >>> ad.percentile([1.0, 2.0, 4.0], [50, 75])
    f64[2] [2. 3.]
    """
    return _found("percentile", x, q, axis, method, keepdims, weights)


@public()
def median(x, axis=None, *, keepdims=False):
    """The median: the middle element, or the mean of the two in the middle; nan if there is one.

    f[..., n, ...]  →  f[..., ...]

    Raises ShapeError when x has no such axis.

    >>> ad.median([[3.0, 1.0], [2.0, 5.0]], axis=0)
    f64[2] [2.5 3. ]
    """
    return _found("median", x, 0.5, axis, "linear", keepdims)


@public()
def nanquantile(x, q, axis=None, *, method="linear", keepdims=False, weights=None):
    """The `quantile` without nan elements; nan where all are.   x: f[..., n, ...]  q: f[k...]  →  f[k..., ...]

    Raises ShapeError when x has no such axis, DispatchError for a q that is not from 0 to 1.

    method, keepdims, weights   as of `quantile`

    >>> ad.nanquantile([1.0, ad.nan, 3.0], [0.0, 0.25])
    f64[2] [1.  1.5]
    """
    return _found("nanquantile", x, q, axis, method, keepdims, weights)


@public()
def nanpercentile(x, q, axis=None, *, method="linear", keepdims=False, weights=None):
    """The `percentile` without nan elements; nan where all are.   x: f[..., n, ...]  q: f[k...]  →  f[k..., ...]

    Raises ShapeError when x has no such axis, DispatchError for a q that is not from 0 to 100.

    method, keepdims, weights   as of `quantile`

    >>> ad.nanpercentile([1.0, ad.nan, 3.0], 50)
    f64[] 2.0
    """
    return _found("nanpercentile", x, q, axis, method, keepdims, weights)


@public()
def nanmedian(x, axis=None, *, keepdims=False):
    """The `median` without nan elements; nan where all are.   f[..., n, ...]  →  f[..., ...]

    Raises ShapeError when x has no such axis.

    >>> ad.nanmedian([1.0, ad.nan, 3.0])
    f64[] 2.0
    """
    return _found("nanmedian", x, 0.5, axis, "linear", keepdims)
