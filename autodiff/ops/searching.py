"""Search: positions in sorted arrays, histograms and interpolation; nonzero elements; membership and closeness.

    search    y[..., j] = the number of elements of sorted a[..., :] before v[..., j]     by bisection, in native code

The number of nonzero elements decides the shape of a result, so `nonzero` and its relatives evaluate x.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Move

from ..errors import ConcretizationError, DispatchError, ShapeError, located
from ..tape import leaf, record
from ..tensor import Tensor
from .arithmetic import abs_, add, multiply
from .conditions import clip, isfinite, isnan, minimum, where
from .conversion import as_tensor, cast_to, known_value
from .creation import linspace, ones
from .declare import composed, elements_of, in_common_dtype, number
from .extremes import max_, min_
from .gathering import take
from .joining import concatenate, stack
from .primitive import BOOL, I64, expect, primitive, spread_to, zeros_of
from .rearranging import diff
from .reductions import all_, any_, sum_
from .rows import argsort, segment_sum, sort
from .shaping import expand_dims, flip, reshaped
from .template import public


def _aval(a: Aval, v: Aval, *, right: bool) -> Aval:
    expect("searchsorted", (a, v), "fib")
    return v.with_dtype(I64)


def _reference(a: np.ndarray, v: np.ndarray, *, right: bool) -> np.ndarray:
    found = np.empty(v.shape, np.int64)
    for row in np.ndindex(v.shape[:-1]):
        found[row] = np.searchsorted(a[row], v[row], "right" if right else "left")
    return found


def _element(k, index, a, v, *, right):
    """The number of elements before v, by bisection: add each power of two if all elements it passes are before v."""
    n, value = a.shape[-1], v(*index)
    found = k.index(0)
    for step in [1 << j for j in reversed(range(n.bit_length()))]:
        ahead = k.add(found, k.index(step))
        is_within = k.le(ahead, k.index(n))
        at = k.select(is_within, k.add(ahead, k.index(-1)), k.index(n - 1))
        other = a(*index[:-1], at)
        is_before = k.logical_not(_precedes(k, value, other)) if right else _precedes(k, other, value)
        found = k.select(k.logical_and(is_within, is_before), ahead, found)
    return k.from_index(found, "i64")


def _precedes(k, x, y):
    """True if x is before y in order; nan counts as largest."""
    return k.logical_or(k.lt(x, y), k.logical_and(k.isnan(y), k.logical_not(k.isnan(x))))


_search = primitive(
    "searchsorted",
    _reference,
    infer=_aval,
    lower=Move(_element, free=False),
    discrete=True,
)


def _places(a: Tensor, v: Tensor, *, right: bool) -> Tensor:
    """For each element of v the number of elements of the row a before it."""
    if not a.size or not v.size:
        return cast_to(spread_to(as_tensor(0), v.shape), I64)
    return reshaped(record(_search, (a, reshaped(v, (v.size,))), (right,)), v.shape)


def _row(name: str, what: str, x: Tensor) -> None:
    if x.ndim != 1:
        raise ShapeError(located(f"{name}: {what} is one row, not {x.aval}"))


@public(2, takes="fib", operands=2)
def searchsorted(a, v, side="left", sorter=None):
    """Indices at which to insert elements in a sorted row: before equal ones, or with side="right" behind them.

    a: T[n]  v: T[...]  →  i64[...]     sorter: i64[n], indices that sort a, as from `argsort`

    Nan counts as largest.  Raises ShapeError unless a has one dimension, DispatchError for another side.

    >>> ad.searchsorted([1.0, 2.0, 2.0, 5.0], [2.0, 3.0])
    i64[2] [1 3]
    """
    if side not in ("left", "right"):
        raise DispatchError(located(f"searchsorted: side is 'left' or 'right', not {side!r}"))
    _row("searchsorted", "a", a)
    return _places(a if sorter is None else take(a, sorter), v, right=side == "right")


@public(takes="fib", operands=2)
def digitize(x, bins, right=False):
    """The index of the bin that holds each element; the edges of the bins rise or fall.

    x: T[...]  bins: T[n]  →  i64[...]     i where bins[i-1] <= x < bins[i], with `right` bins[i-1] < x <= bins[i]

    An element below all rising edges has index 0, above all n.  Raises ShapeError unless bins has one dimension.

    >>> ad.digitize([0.5, 1.0, 5.0], [1.0, 2.0])
    i64[3] [0 1 2]
    """
    _row("digitize", "bins", bins)
    rising = _places(bins, x, right=not right)
    if bins.size < 2:
        return rising
    falling = bins.size - _places(flip(bins), x, right=not right)
    return where(bins[-1] >= bins[0], rising, falling)


@public(takes="f")
def histogram(x, bins=10, range=None, density=None, weights=None) -> tuple[Tensor, Tensor]:
    """Counts of elements in bins, and the edges: between the smallest and the largest element, or in `range`.

    x: f[...]  bins: int, or the edges f[n+1]  →  (counts: i64[n], or the sums of weights; edges: f[n+1])

    An edge belongs to the bin above it, the last edge to the last bin; elements outside are not counted.  `density`:
    counts are divided by their sum and by the widths.  Gradients go to the weights, and with `density` to the edges.

    Raises ShapeError unless edges have one dimension and weights the shape of x, and for less than one bin;
    DispatchError for a range, or edges whose values are known, that do not rise.

    >>> ad.histogram([1.0, 2.0, 2.5, 4.0], bins=[1.0, 2.0, 4.0])
    (i64[2] [1 3], f64[3] [1. 2. 4.])
    """
    counted = cast_to(ones(x.shape), I64) if weights is None else as_tensor(weights, "histogram", "weights")
    if counted.shape != x.shape:
        raise ShapeError(located(f"histogram: weights are {counted.aval}, x is {x.aval}"))
    x, counted = reshaped(x, (x.size,)), reshaped(counted, (x.size,))
    x, edges = in_common_dtype("histogram", (("x", x), ("bins", _edges(x, bins, range))), "f")
    n = edges.shape[0] - 1
    place = _places(edges, x, right=True) - cast_to(x == edges[-1], I64)
    # Elements below all edges are in bin 0, elements above all and nan in the last: both bins are cut off.
    counts = segment_sum(counted, clip(place, 0, n + 1), n + 2)[1 : n + 1]
    if not density:
        return counts, edges
    counts = cast_to(counts, edges.dtype)
    return counts / diff(edges) / sum_(counts), edges


def _edges(x: Tensor, bins, limits) -> Tensor:
    if not isinstance(bins, int | np.integer):
        (edges,) = in_common_dtype("histogram", (("bins", bins),), "f")
        _row("histogram", "bins", edges)
        _rises("edges", edges.node.value)
        return edges
    if bins < 1:
        raise ShapeError(located(f"histogram: {bins} bins"))
    if limits is None:
        low, high = (min_(x), max_(x)) if x.size else (as_tensor(0.0), as_tensor(1.0))
    else:
        ends = [number(end, "histogram", "an end of range") for end in elements_of(limits, "histogram", "two ends")]
        if len(ends) != 2:
            raise ShapeError(located(f"histogram: range has two ends, not {len(ends)}"))
        _rises("the ends of range", ends)
        low, high = map(as_tensor, ends)
    low, high = cast_to(low, x.dtype), cast_to(high, x.dtype)
    is_point = low == high
    low, high = where(is_point, low - 0.5, low), where(is_point, high + 0.5, high)
    numbers = cast_to(linspace(0, bins, bins + 1), x.dtype)
    inner = low + numbers * ((high - low) / float(bins))
    return where(numbers == float(bins), high, inner)


def _rises(what: str, known: Any) -> None:
    """Raise DispatchError for numbers that fall; pending values (None) are not evaluated."""
    if known is not None and not (np.diff(np.asarray(known)) >= 0).all():
        raise DispatchError(located(f"histogram: {what} rise, not {np.asarray(known)}"))


@public(3, takes="f", operands=3)
def interp(x, xp, fp, left=None, right=None, period=None):
    """Linear interpolation between points; beyond the ends as at the ends, or `left` and `right`.

    x: f[...]  xp: f[n], rising  fp: f[n]  →  f[...]     gradients go to all three; `period`: x and xp are taken mod it

    Nan in x gives nan.  Raises ShapeError unless xp and fp have one dimension and the same extent, which is not 0.

    >>> ad.interp([0.5, 3.0], [0.0, 1.0], [10.0, 20.0])
    f64[2] [15. 20.]
    """
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ShapeError(located(f"interp: points are two rows of one length, not {xp.aval}, {fp.aval}"))
    if period is not None:
        x, xp, fp = _wrapped(x, xp, fp, period)
        left = right = None
    found = spread_to(fp[0], x.shape) if xp.size == 1 else _between(x, xp, fp)
    found = where(x < xp[0], fp[0] if left is None else left, found)
    found = where(xp[-1] < x, fp[-1] if right is None else right, found)
    return where(x == xp[-1], fp[-1], found)


def _between(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
    """The value on the line through the points next to x, from the first point; if nan, from the second, as NumPy."""
    behind = clip(_places(xp, x, right=True), 1, xp.size - 1)
    low, high = take(xp, behind - 1), take(xp, behind)
    first, second = take(fp, behind - 1), take(fp, behind)
    slope = (second - first) / where(low == high, 1.0, high - low)
    found, other = first + slope * (x - low), second + slope * (x - high)
    other = where((x == low) | (isnan(other) & (first == second)), first, other)
    return where(isnan(x), np.nan, where(isnan(found), other, found))


def _wrapped(x: Tensor, xp: Tensor, fp: Tensor, period) -> tuple[Tensor, Tensor, Tensor]:
    """The points of one period, sorted, with the last and first point repeated one period before and after."""
    period = abs(period if isinstance(period, Tensor) else number(period, "interp", "period"))
    if period == 0:
        raise DispatchError(located("interp: the period is not 0"))
    x, xp = x % period, xp % period
    order = argsort(xp)
    xp, fp = take(xp, order), take(fp, order)
    xp = concatenate((xp[-1:] - period, xp, xp[:1] + period))
    return x, xp, concatenate((fp[-1:], fp, fp[:1]))


@public(2, takes="fibc", operands=2)
def isin(element, test_elements, *, invert=False):
    """True for elements that are among the test elements; with `invert`, that are not.   T[...], T[...]  →  bool[...]

    Nan is in no set.  Real numbers are found by sorting: n log m comparisons.

    >>> ad.isin([1, 2, 5], [5, 1])
    bool[3] [ True False  True]
    """
    x, tested = element, reshaped(test_elements, (test_elements.size,))
    if not tested.size or not x.size:
        found = zeros_of(x.aval.with_dtype(BOOL))
    elif x.dtype.kind in "fi":
        ordered = sort(tested)
        found = take(ordered, minimum(searchsorted(ordered, x), tested.size - 1)) == x
    else:
        found = any_(expand_dims(x, -1) == tested, -1)
    return ~found if invert else found


def _not_zero(name: str, x: Any) -> Sequence[Tensor]:
    """The indices of the nonzero elements of x, one array for each axis."""
    x = as_tensor(x, name, "x")
    value = known_value(x)
    if value is None:
        raise ConcretizationError(located(
            f"{name}: how many elements of a {x.aval} are not zero has no value yet inside a traced function",
            "use ad.where(mask, x, other), which keeps the shape, or ad.count_nonzero(x) for their number",
        ))
    return [leaf(np.ascontiguousarray(places)) for places in np.nonzero(value)]


@public(takes="T")
def nonzero(x) -> tuple[Tensor, ...]:
    """The indices of all elements that are not zero: one array for each axis.   T[...]  →  (i64[k], ...)

    Evaluates x, so it raises ConcretizationError inside `jit` and `vmap`.  Raises ShapeError for a 0-d array.

    >>> ad.nonzero([[0.0, 2.0], [3.0, 0.0]])
    (i64[2] [0 1], i64[2] [1 0])
    """
    if not x.ndim:
        raise ShapeError(located(f"nonzero: a {x.aval} has no axes", "ad.atleast_1d(x) gives it one"))
    return tuple(_not_zero("nonzero", x))


@public(takes="T")
def flatnonzero(x):
    """The indices of all elements that are not zero, in x flattened.   T[...]  →  i64[k]     evaluates, as `nonzero`

    >>> ad.flatnonzero([[0.0, 2.0], [3.0, 0.0]])
    i64[2] [1 2]
    """
    return _not_zero("flatnonzero", reshaped(x, (x.size,)))[0]


@public(takes="T")
def argwhere(x):
    """The indices of all elements that are not zero, one in each row.

    T[...]  →  i64[k, rank]     evaluates, as `nonzero`

    >>> ad.argwhere([[0.0, 2.0], [3.0, 0.0]])
    i64[2,2]
    [[0 1]
     [1 0]]
    """
    places = _not_zero("argwhere", x if x.ndim else reshaped(x, (1,)))
    found = stack(places, 1)
    return found if x.ndim else found[:, :0]


@public(2, takes="T", operands=2)
def array_equal(a, b, equal_nan=False):
    """True if shapes and all elements are equal; with `equal_nan` nan equals nan.   T[...], T[...]  →  bool[]

    >>> ad.array_equal([1, 2], [1.0, 2.0])
    bool[] True
    """
    if a.shape != b.shape:
        return spread_to(as_tensor(False), ())
    found = a == b
    return all_(found | (isnan(a) & isnan(b)) if equal_nan else found)


@public(2, takes="fc", operands=2)
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True at elements with |a - b| <= atol + rtol |b|; equal infinities are close, and with equal_nan two nans.

    T[...], T[...]  →  bool[...]

    Raises ShapeError when a and b do not broadcast.

    >>> ad.isclose([1.0, ad.inf, ad.nan], [1.0 + 1e-9, ad.inf, ad.nan])
    bool[3] [ True  True False]
    """
    is_near = abs_(a - b) <= add(atol, multiply(rtol, abs_(b)))
    found = where(isfinite(b), is_near, a == b)
    return found | (isnan(a) & isnan(b)) if equal_nan else found


allclose = composed(
    "allclose", lambda a, b, rtol=1e-05, atol=1e-08, equal_nan=False: all_(isclose(a, b, rtol, atol, equal_nan)),
    """True if `isclose` is true for all elements.   T[...], T[...]  →  bool[]

    Raises ShapeError when a and b do not broadcast.""",
    ">>> ad.allclose([1.0, 2.0], [1.0, 2.0 + 1e-9])\nbool[] True", tensors=2,
)
