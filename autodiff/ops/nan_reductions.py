"""Reductions and running sums of the elements that are not nan; quantiles, with and without nan elements.

The reductions are compositions of other operations, so they fuse.  A quantile is read from the sorted row at a
position, which differs between rows if nans are left out, and is interpolated between the two elements next to the
position.  Gradients therefore flow to these two elements, and to q.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.symbols import as_float

from ..custom.function import Function
from ..errors import DispatchError, located
from ..tape import as_new_result, number_leaf
from ..tape.leaves import as_number
from ..tensor import Tensor
from .arithmetic import add, multiply
from .conditions import clip, interpolated, isnan
from .conditions import where as choose
from .conversion import as_tensor, cast_to, dtype_of
from .declare import axes_of, axis_of, composed, documented, in_common_dtype
from .elementwise import ceil, floor, rint
from .extremes import argmax, argmin, max_, min_
from .numpy_parameters import as_floats, included, masked_spread, mean_of, of_masked, of_masked_extreme, weights_along
from .primitive import F64, I64, spread_to
from .reductions import all_, any_, cumprod, cumsum, prod, sum_, summed
from .rows import argsort, sort, take_along_axis
from .shaping import keepdims_shape, moveaxis, reshaped, rows_along
from .statistics import root_of_squares, std, var
from .template import ITEMS, public

_DOC = """{summary}; otherwise the same as `{of}`.

    x: {shapes}

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis{needs}.

    {parameters}   as for `{of}`; elements that `where` leaves out get a gradient of 0"""


def _skipping(of: Function, summary: str, fill: float, example: str) -> Function:
    """Declare a function of the elements that are not nan.

    of     the function of all elements, which has the same parameters
    fill   the number that replaces nan, neutral for the function: 0 for a sum"""
    name = f"nan{of.__name__}"
    is_place, is_running, is_extreme = of in (argmax, argmin), of in (cumsum, cumprod), of in (max_, min_)
    shapes = "T[..., n, ...]  →  T[..., n, ...]" if is_running else "T[..., n, ...]  →  T[..., ...]"
    if is_place:
        shapes = "T[..., n, ...]  →  i64[..., ...]     0 where all are nan, which NumPy refuses: it looks at values"
    parameters = [*of.declaration.keywords, *([] if is_place or is_running else ["initial", "where"])]

    def body(x, axis=None, **keywords):
        x = as_tensor(x, name, "x")
        axis = axis_of(name, axis, x.aval) if is_place and axis is not None else axis
        axes = axes_of(name, axis, x.aval)
        if x.dtype.kind not in "fc":
            return of(x, axis, **keywords)
        is_nan = isnan(x)
        is_part = x.dtype.kind == "c" and math.isinf(fill)  # complex numbers are ordered by both parts: fill both
        y = of(choose(is_nan, complex(fill, fill) if is_part else fill, x), axis, **keywords)
        return choose(all_(is_nan, axes, **keywords), np.nan, y) if is_extreme else y

    signature = of.declaration.signature
    if of is prod:  # the declared parameters of nanprod lack dtype
        signature = signature.replace(parameters=[p for p in signature.parameters.values() if p.name != "dtype"])
    body.__signature__ = signature  # type: ignore[attr-defined]  # the parameters of calls
    # The body has defaults, so dispatch need not pass them: machine code records no call that has keywords.
    body.__kwdefaults__ = {p.name: p.default for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}
    made: Function = public(1, name=name, doc=documented(example, _DOC.format(
        summary=summary, of=of.__name__, shapes=shapes, needs=", or nothing along it" if is_place or is_extreme else "",
        parameters=", ".join(parameters),
    )))(body)
    if is_extreme:
        of_masked_extreme(made, 1 if of is max_ else -1)
    elif not (is_place or is_running):
        of_masked(made, int(fill), multiply if fill else add, body)
    return made


nansum = _skipping(sum_, "The sum of the elements that are not nan", 0.0,
    ">>> ad.nansum([1.0, ad.nan])\nf64[] 1.0\n>>> ad.nansum([ad.nan])\nf64[] 0.0")
nanprod = _skipping(prod, "The product of the elements that are not nan", 1.0,
    ">>> ad.nanprod([2.0, ad.nan, 3.0])\nf64[] 6.0\n"
    ">>> ad.grad(ad.nanprod)(ad.tensor([2.0, ad.nan, 3.0]))\nf64[3] [3. 0. 2.]")
nancumsum = _skipping(cumsum, "Sums up to each element, nan taken for 0", 0.0,
    ">>> ad.nancumsum([2.0, ad.nan, 3.0])\nf64[3] [2. 2. 5.]")
nancumprod = _skipping(
    cumprod, "Products up to each element, nan taken for 1", 1.0,
    ">>> ad.nancumprod([2.0, ad.nan, 3.0])\nf64[3] [2. 2. 6.]")
nanmax = _skipping(max_, "The largest element that is not nan, and nan where all are", -np.inf,
    ">>> ad.nanmax([1.0, ad.nan, 3.0])\nf64[] 3.0\n>>> ad.nanmax([ad.nan])\nf64[] nan")
nanmin = _skipping(min_, "The smallest element that is not nan, and nan where all are", np.inf,
    ">>> ad.nanmin([[1.0, ad.nan], [ad.nan, ad.nan]], axis=1)\nf64[2] [ 1. nan]")
nanargmax = _skipping(argmax, "Index of the first largest element, nan taken for -inf", -np.inf,
    ">>> ad.nanargmax([1.0, ad.nan, 2.0])\ni64[] 2")
nanargmin = _skipping(argmin, "Index of the first smallest element, nan taken for inf", np.inf,
    ">>> ad.nanargmin([ad.nan, 1.0, 2.0])\ni64[] 1")


@public(1)
def nanmean(x, axis=None, *, dtype=None, keepdims=False, where=True):
    """The mean of the elements that are not nan, otherwise as `mean`; nan if all are nan.

    x: f[..., n, ...]  →  f[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    dtype, keepdims, where   as of `mean`; elements that `where` leaves out have a gradient of 0

    >>> ad.grad(ad.nanmean)(ad.tensor([1.0, ad.nan, 3.0]))
    f64[3] [0.5 0.  0.5]
    """
    x = included("nanmean", as_floats("nanmean", x, dtype), where, math.nan)
    axes = axes_of("nanmean", axis, x.aval)
    y = mean_of(x, ~isnan(x), axes, keepdims)
    return cast_to(y, dtype_of(dtype, "nanmean", y.dtype))


def _spread(of: Function, summary: str, finish: Callable[[Tensor], Tensor], example: str) -> Any:
    name = f"nan{of.__name__}"
    return public(1, name=name, doc=documented(example, _DOC.format(
        summary=summary, of=of.__name__, shapes="f[..., n, ...]  →  f[..., ...]", needs="",
        parameters="dtype, ddof, correction, keepdims, where, mean",
    )))(masked_spread(name, finish))


nanvar = _spread(var, "The variance of the elements that are not nan, and nan where all are", as_new_result,
    ">>> ad.nanvar([1.0, ad.nan, 3.0], ddof=1)\nf64[] 2.0")
nanstd = _spread(std, "The standard deviation of the elements that are not nan, and nan where all are", root_of_squares,
    ">>> ad.nanstd([1.0, ad.nan, 3.0])\nf64[] 1.0")


def _found(name: str, x: Any, q: Any, axis: Any, method: str, keepdims: bool, weights: Any = None) -> Tensor:
    """The quantiles for the function `name`: q is in percent or from 0 to 1; nan elements count or are left out."""
    per = 100.0 if name.endswith("percentile") else 1.0
    if not isinstance(method, str) or method not in _PLACES:
        raise DispatchError(located(f"{name}: method is {', '.join(map(repr, _PLACES))}, not {method!r}"))
    each = q if isinstance(q, list | tuple) else [q]
    are_numbers = all([isinstance(one, int | float | np.generic) for one in each])  # arrays are not evaluated
    if are_numbers and any([one < 0 or one > per for one in each]):
        raise DispatchError(located(f"{name}: q is from 0 to {per:g}, not {q!r}"))
    shares = as_number(number_leaf(q, F64)) if type(q) in (int, float) else q
    return _quantiles((x, shares, *([] if weights is None else [weights])), name, axis, method, keepdims)


@public(ITEMS)
def _quantiles(arrays: Any, name: str, axis: Any, method: str, keepdims: bool) -> Tensor:
    """`_found` on arrays: the elements, q as a tensor, and perhaps weights."""
    x, q, *weights = arrays
    skips, per = name.startswith("nan"), 100.0 if name.endswith("percentile") else 1.0
    (given,) = in_common_dtype(name, [("q", q)], "f")
    x, q = in_common_dtype(name, (("x", x), ("q", q)), "f")
    axes = axes_of(name, axis, x.aval)
    rows = rows_along(x, axes)
    if not rows.shape[-1]:
        raise DispatchError(located(f"{name}: {x.aval} has no elements to choose from"))
    # Positions are computed in float64: in float32 a position among thousands of elements has few fractional digits.
    shares = reshaped(cast_to(given, F64), (q.size,))
    shares = shares / per if per != 1.0 else shares
    if not weights:
        y = _at_shares(rows, shares, method, skips=skips)
    else:
        if method != "inverted_cdf":
            raise ValueError(located(f"{name}: weights are for the method 'inverted_cdf'"))
        (w,) = in_common_dtype(name, [("weights", weights[0])], "f")
        w = cast_to(rows_along(spread_to(weights_along(name, w, x, axis), x.shape), axes), F64)
        y = _at_weights(rows, shares, w, skips=skips)
    shape = keepdims_shape(x.shape, axes) if keepdims else rows.shape[:-1]
    return reshaped(moveaxis(y, -1, 0), (*q.shape, *shape))


def _at_shares(rows: Tensor, shares: Tensor, method: str, *, skips: bool) -> Tensor:
    """The quantile of each row at each share (q from 0 to 1): f[..., n], f[k] -> f[..., k]."""
    n, is_nan = rows.shape[-1], isnan(rows)
    shape = (*rows.shape[:-1], shares.shape[0])
    shares = spread_to(shares, shape)
    last: Tensor | float = as_float(n - 1)
    if skips:
        nans = summed(cast_to(is_nan, F64), (rows.ndim - 1,))
        last = clip(last - reshaped(nans, (*nans.shape, 1)), 0.0, None)
    place = shares * (last + 1.0) - 1.0 if method == "inverted_cdf" else shares * last
    place = clip(place, 0.0, last)
    low, high, weight = _PLACES[method](place)
    weight = cast_to(weight, rows.dtype)
    ordered = sort(rows, axis=-1)
    # A position is nan only if its share is: any index will do, since `_or_nan` replaces the result.
    places = [clip(cast_to(choose(isnan(i), 0.0, i), I64), 0, n - 1) for i in (low, high)]
    first, second = [take_along_axis(ordered, place, axis=-1) for place in places]
    return _or_nan(interpolated(first, second, weight), shares, is_nan, skips)


def _or_nan(found: Tensor, shares: Tensor, is_nan: Tensor, skips: bool) -> Tensor:
    """The results, replaced by nan for a share that is nan, and for a row with nan unless nans are skipped."""
    is_outside = spread_to(isnan(shares), found.shape)
    if not skips:
        is_outside = is_outside | spread_to(any_(is_nan, axis=-1, keepdims=True), found.shape)
    return choose(is_outside, np.nan, found)


def _at_weights(rows: Tensor, shares: Tensor, w: Tensor, *, skips: bool) -> Tensor:
    """For each row and share the first element, in sorted order, at which the sum of weights reaches the share."""
    is_nan, order = isnan(rows), argsort(rows, axis=-1)
    if skips:
        w = choose(is_nan, 0.0, w)
    sums = cumsum(take_along_axis(w, order, axis=-1), axis=-1)
    parts = sums / sums[..., -1:]
    parts = choose(parts == 0.0, -1.0, parts)  # leading elements of weight 0 are never chosen, not even by share 0
    is_before = reshaped(parts, (*rows.shape[:-1], 1, rows.shape[-1])) < reshaped(shares, (shares.shape[0], 1))
    place = clip(summed(cast_to(is_before, I64), (rows.ndim,)), 0, rows.shape[-1] - 1)
    found = take_along_axis(take_along_axis(rows, order, axis=-1), place, axis=-1)
    return _or_nan(found, shares, is_nan, skips)


#: By method: a function of a position that gives (index before, index behind, weight of the element behind).
_PLACES = {
    "linear": lambda place: (floor(place), ceil(place), place - floor(place)),
    "lower": lambda place: (floor(place), floor(place), place * 0.0),
    "inverted_cdf": lambda place: (ceil(place), ceil(place), place * 0.0),
    "higher": lambda place: (ceil(place), ceil(place), place * 0.0),
    "nearest": lambda place: (rint(place), rint(place), place * 0.0),
    "midpoint": lambda place: (floor(place), ceil(place), choose(place == floor(place), 0.0, 0.5)),
}


def _of_shares(name: str, summary: str, doc: str, example: str) -> Any:
    """Declare a quantile function; its name says how to read q and nans: see `_found`."""

    def body(x, q, axis=None, *, method="linear", keepdims=False, weights=None):
        return _found(name, x, q, axis, method, keepdims, weights)

    shapes = "x: f[..., n, ...]  q: f[k...]  →  f[k..., ...]     axis: one, several, or None for all"
    return public(1, name=name, doc=documented(example, summary, shapes, doc))(body)


_AS_QUANTILE = """Raises ShapeError when x has no such axis, DispatchError for a q that is not from 0 to {}.

    method, keepdims, weights   as for `quantile`"""

quantile = _of_shares("quantile", "The q-th quantile along an axis, q from 0 to 1; integers give float64.",
    """method   how to choose between two neighbours: "linear", "lower", "higher", "nearest", "midpoint";
             "inverted_cdf": the first element up to which a share q of all elements, or of the weights, lies
    weights  a weight for each element, along the axis or of x's shape: for "inverted_cdf" only

    A row with nan gives nan; in an array q, numbers below 0 count as 0, above 1 as 1.  Elements and q get gradients.
    Raises ShapeError when x has no such axis; DispatchError for another method, no elements, or a number q outside.""",
    ">>> ad.quantile([4.0, 1.0, 2.0], [0.5, 0.75])\nf64[2] [2. 3.]")
percentile = _of_shares("percentile", "The q-th percentile along an axis, q from 0 to 100: see `quantile`.",
    _AS_QUANTILE.format(100), ">>> ad.percentile([1.0, 2.0, 4.0], [50, 75])\nf64[2] [2. 3.]")
nanquantile = _of_shares("nanquantile", "The `quantile` without nan elements; nan where all are.",
    _AS_QUANTILE.format(1), ">>> ad.nanquantile([1.0, ad.nan, 3.0], [0.0, 0.25])\nf64[2] [1.  1.5]")
nanpercentile = _of_shares("nanpercentile", "The `percentile` without nan elements; nan where all are.",
    _AS_QUANTILE.format(100), ">>> ad.nanpercentile([1.0, ad.nan, 3.0], 50)\nf64[] 2.0")


def _middle(name: str, summary: str, example: str) -> Any:
    doc = f"{summary}\n\n    f[..., n, ...]  →  f[..., ...]     Raises ShapeError when x has no such axis."
    return composed(
        name, lambda x, axis=None, *, keepdims=False: _found(name, x, 0.5, axis, "linear", keepdims), doc, example
    )


median = _middle("median", "The median: the middle element, or the mean of the two in the middle; nan if there is one.",
    ">>> ad.median([[3.0, 1.0], [2.0, 5.0]], axis=0)\nf64[2] [2.5 3. ]")
nanmedian = _middle("nanmedian", "The `median` without nan elements; nan where all are.",
    ">>> ad.nanmedian([1.0, ad.nan, 3.0])\nf64[] 2.0")
