"""Functions of samples, coefficients and signals: integrals, differences, polynomials, convolutions, phases.

All are compositions of other operations, so the compiler fuses them and their derivatives follow.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from ..errors import DispatchError, ShapeError, located
from ..tape import record
from ..tensor import Tensor
from .arithmetic import add, conj, floor_divide, multiply, real_aval
from .conditions import where
from .conversion import WEAK, as_tensor, cast_to
from .creation import zeros_like
from .declare import axes_in_order, axis_of, check_parts, in_common_dtype, integer, number
from .diagonals import slant
from .joining import concatenate, joined, stack
from .padding import pad
from .primitive import spread_to, zeros_of
from .rearranging import diff
from .reductions import cumsum, summed
from .shaping import flip, reshaped, zeros_after
from .slicing import part
from .template import public


def windows(x: Tensor, n: int) -> Tensor:
    """All windows of n elements of a row as columns, y[i, k] = x[i + k]; no array holds them.   T[m]  →  T[n,m-n+1]

    `take` by an array of indices would give the same result, but check each index.
    """
    (m,) = x.shape
    return record(slant, (spread_to(x, (n, m)),), (m - n + 1,))


@public(1, takes="fc")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral of samples, by the trapezoidal rule.

    y: T[..., n, ...]  x: f[n], or of y's shape; None: samples are `dx` apart  →  T[..., ...]

    Raises ShapeError when y has no such axis.

    >>> ad.trapezoid([1.0, 2.0, 4.0])
    f64[] 4.5
    """
    along = axis_of("trapezoid", axis, y.aval)
    n = y.shape[along]
    first = min(1, n)  # of one sample, or none, the sums below are empty
    pairs = part(y, along, first, n) + part(y, along, 0, n - first)
    if x is None:
        return multiply(summed(pairs, (along,)) * 0.5, dx)
    x = as_tensor(x, "trapezoid", "x")
    widths = diff(x) if x.ndim == 1 else diff(x, axis=along)
    if x.ndim == 1:
        widths = reshaped(widths, (n - first, *(1,) * (y.ndim - 1 - along)))
    return summed(pairs * widths, (along,)) * 0.5


@public(1, takes="T")
def ediff1d(x, to_end=None, to_begin=None):
    """The differences of consecutive elements of x flattened, between `to_begin` and `to_end`.   T[...]  →  T[k]

    >>> ad.ediff1d([1, 4, 9], to_end=0)
    i64[3] [3 5 0]
    """
    middle = diff(reshaped(x, (x.size,)))
    ends = [None if e is None else cast_to(as_tensor(e, "ediff1d"), middle.dtype) for e in (to_begin, to_end)]
    rows = [None if e is None else reshaped(e, (e.size,)) for e in ends]
    present = [r for r in (rows[0], middle, rows[1]) if r is not None]
    return concatenate(present) if len(present) > 1 else middle


@public(takes="fc")
def gradient(f, *varargs, axis=None, edge_order=1) -> Any:
    """The derivative of samples by differences of second order; at the ends of the order `edge_order`.

    f: T[..., n, ...]  →  T[..., n, ...]     a tuple of these, one for each axis, for several axes

    varargs      the distance of samples, or their positions f[n]; one for all axes or one for each.  None given: 1
    axis         one axis or several; None: all axes

    For the derivative of a function see `ad.grad`.  Raises ShapeError when an axis has too few samples or the positions
    do not fit, DispatchError for another edge_order or number of spacings.

    >>> ad.gradient([1.0, 2.0, 4.0, 7.0])
    f64[4] [1.  1.5 2.5 3. ]
    """
    if edge_order not in (1, 2):
        raise DispatchError(located(f"gradient: edge_order is 1 or 2, not {edge_order!r}"))
    axes = [*range(f.ndim)] if axis is None else axes_in_order("gradient", axis, f.aval)
    spacings = list(varargs) or [1.0]
    spacings = spacings * len(axes) if len(spacings) == 1 else spacings
    if len(spacings) != len(axes):
        raise DispatchError(located(f"gradient: {len(spacings)} spacings for {len(axes)} axes"))
    found = tuple([_slopes(f, a, h, edge_order) for a, h in zip(axes, spacings, strict=True)])
    return found[0] if len(found) == 1 else found


@public(1)
def _slopes(f: Tensor, axis: int, spacing, edge_order: int) -> Tensor:
    """The slopes along one axis: weighted sums of neighbours, with weights from the distances of the samples."""
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ShapeError(located(
            f"gradient: {f.aval} has {n} samples along axis {axis}, edge_order={edge_order} takes {edge_order + 1}"
        ))
    (h,) = in_common_dtype("gradient", (("varargs", spacing),), "f")
    if type(spacing) in WEAK:
        h = cast_to(h, real_aval(f.aval).dtype)
    if h.ndim > 1 or (h.ndim and h.shape != (n,)):
        raise ShapeError(located(f"gradient: {h.aval} are no places of {n} samples along axis {axis} of {f.aval}"))
    steps = diff(h) if h.ndim else spread_to(h, (n - 1,))
    steps = reshaped(steps, (n - 1, *(1,) * (f.ndim - 1 - axis)))
    slopes = (part(f, axis, 1, n) - part(f, axis, 0, n - 1)) / steps
    first, last = part(slopes, axis, 0, 1), part(slopes, axis, n - 2, n - 1)
    if n == 2:
        return joined((first, last), axis)
    before, behind = part(steps, 0, 0, n - 2), part(steps, 0, 1, n - 1)
    both = before + behind
    if not h.ndim:  # evenly spaced: the sample between has weight 0, even if it is nan
        middle = (part(f, axis, 2, n) - part(f, axis, 0, n - 2)) / both
    else:
        middle = part(slopes, axis, 0, n - 2) * (behind / both) + part(slopes, axis, 1, n - 1) * (before / both)
    if edge_order == 2:
        # A parabola's slope is linear, so the slope between two samples is the mean of the slopes at both.
        first = first * 2.0 - part(middle, axis, 0, 1)
        last = last * 2.0 - part(middle, axis, n - 3, n - 2)
    return joined((first, middle, last), axis)


@public(1, takes="f")
def unwrap(p, discont=None, axis=-1, *, period=2 * math.pi):
    """Phases without jumps: each is moved by a multiple of `period` to within half a period of the one before.

    p: f[..., n, ...]  →  f[..., n, ...]     jumps smaller than `discont` stay

    Raises ShapeError when p has no such axis.

    >>> ad.unwrap([0.0, 3.0, -3.0])
    f64[3] [0.         3.         3.28318531]
    """
    along = axis_of("unwrap", axis, p.aval)
    n = p.shape[along]
    if n < 2:
        return p
    period = period if isinstance(period, (int, float)) else as_tensor(period, "unwrap", "period")
    step, half = diff(p, axis=along), period / 2
    moved = step - floor_divide(add(step, half), period) * period
    moved = where((moved == -half) & (step > 0.0), half, moved)
    change = moved - step
    limit = half if discont is None else max(number(discont, "unwrap", "discont"), half)
    change = where(abs(step) < limit, 0.0, change)
    change = joined((zeros_like(part(p, along, 0, 1)), cumsum(change, axis=along)), along)
    return p + change


@public(2, takes="fic", operands=2)
def polyval(p, x):
    """The polynomial with these coefficients, highest power first, at x.   p: T[n]  x: T[...]  →  T[...]

    By Horner's rule: n - 1 steps in the graph.  Raises ShapeError unless p has one dimension.

    >>> ad.polyval([1.0, 0.0, 2.0], 3.0)
    f64[] 11.0
    """
    if p.ndim != 1:
        raise ShapeError(located(f"polyval: the coefficients are one row, not {p.aval}"))
    top = p[0] if p.size else zeros_after(p, ())
    total = zeros_like(x) + top if p.size > 1 else x**0 * top  # a constant keeps the history of x
    for j in range(1, p.shape[0]):
        total = total * x + p[j]
    return total


@public(1, takes="T")
def vander(x, N=None, increasing=False):
    """The Vandermonde matrix: rows are the powers of an element from x^(N-1) down to 1; `increasing`: from 1 up.

    T[n]  →  T[n,N]     N None: n

    Raises ShapeError unless x has one dimension, and for a negative N.

    >>> ad.vander([1, 2, 3], 3)
    i64[3,3]
    [[1 1 1]
     [4 2 1]
     [9 3 1]]
    """
    if x.ndim != 1:
        raise ShapeError(located(f"vander: takes one row, not {x.aval}"))
    count = x.shape[0] if N is None else integer(N, "vander", "N")
    if count < 0:
        raise ShapeError(located(f"vander: N is 0 or more, not {count}"))
    if not count:
        return zeros_of(x.aval.with_shape((x.shape[0], 0)))
    check_parts("vander", count)
    powers = [zeros_like(x) + 1]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return stack(powers if increasing else powers[::-1], axis=1)


#: Up to this length of v a convolution is a sum of separate products, not a sum over windows.  100,000 floats (one
#: thread, Zen 3), by windows and by products: 16 terms .24 ms, .10 ms; 32 terms .48, .18; 64 terms .78, .72, their
#: gradient 1.5, 1.8, and compiling .1 s, 1.6 s.
_WRITTEN = 32


def _signals(name: str, a, v, mode: str) -> tuple[Tensor, Tensor]:
    a, v = in_common_dtype(name, (("a", a), ("v", v)), "fic")
    if a.ndim != 1 or v.ndim != 1 or not a.size or not v.size:
        raise ShapeError(located(f"{name}: takes two rows, not empty, got {a.aval} and {v.aval}"))
    if mode not in ("full", "same", "valid"):
        raise DispatchError(located(f"{name}: mode is 'full', 'same' or 'valid', not {mode!r}"))
    return a, v


def _slid(a: Tensor, v: Tensor, mode: str) -> Tensor:
    """y[k] = Σ a[k + i] v[i] at every position of v over a, which `mode` pads: a[m], v[n] with m >= n."""
    n = v.shape[0]
    before, behind = {"full": (n - 1, n - 1), "valid": (0, 0), "same": (n // 2, (n - 1) // 2)}[mode]
    if before or behind:
        a = pad(a, (before, behind))
    count = a.shape[0] - n + 1
    if n <= _WRITTEN:
        terms = [part(a, 0, i, i + count) * part(v, 0, i, i + 1) for i in range(n)]
        return functools.reduce(add, terms)
    return summed(windows(a, n) * reshaped(v, (n, 1)), (0,))


@public(2)
def convolve(a, v, mode="full"):
    """The convolution of two rows: y[k] = Σ a[i] v[k - i].

    a: T[m]  v: T[n]  →  T[m+n-1]     mode "same": the middle max(m, n) of these; "valid": those with a full overlap

    Takes m n products; `ad.fft` is faster for long rows.  Raises ShapeError unless a and v are rows, not empty.

    >>> ad.convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    f64[5] [0.  1.  2.5 4.  1.5]
    """
    a, v = _signals("convolve", a, v, mode)
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    return _slid(a, flip(v), mode)


@public(2)
def correlate(a, v, mode="valid"):
    """The correlation of two rows: y[k] = Σ a[k + i] conj(v[i]).

    a: T[m]  v: T[n]  →  T[...]     mode as for `convolve`

    Raises ShapeError unless a and v are rows, not empty.

    >>> ad.correlate([1.0, 2.0, 3.0], [0.0, 1.0])
    f64[2] [2. 3.]
    """
    a, v = _signals("correlate", a, v, mode)
    v = conj(v)
    if a.shape[0] >= v.shape[0]:
        return _slid(a, v, mode)
    return flip(_slid(v, a, mode))
