"""Functions that are asked for less often: roots and powers, nearness, crossed and turned arrays.

Operations on elements are written once, as programs; the rest is made of other operations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from codegen.lowering import Map

from ..custom import function
from ..errors import ShapeError, caller
from ..tape import another
from ..tensor import Tensor
from .arguments import axis_of, integer, listed
from .arithmetic import abs_, add, divide, multiply, negative, subtract
from .arrays import on_arrays
from .complexes import imaginary_part, real_part
from .conversion import as_tensor
from .declare import Elementwise, binary, unary
from .elementwise import cos, sin
from .forms import further
from .joining import stack
from .logic import equal, isfinite, isinf, isnan, less, less_equal, logical_and, logical_or
from .power import power
from .promotion import common
from .reductions import all_
from .selection import where
from .shaping import flipped, moveaxis, reshaped, swapaxes

__all__ = [
    "allclose", "cbrt", "cross", "deg2rad", "degrees", "exp2", "fliplr", "flipud", "heaviside", "isclose", "kron",
    "logaddexp2", "nan_to_num", "rad2deg", "radians", "rot90", "sinc",
]  # fmt: skip


# ---------------------------------------------------------------- elements


def _logaddexp2(k: Any, x: Any, y: Any) -> Any:
    is_less = k.lt(x, y)
    large, small = k.select(is_less, y, x), k.select(is_less, x, y)
    more = k.mul(k.log1p(k.exp2(k.sub(small, large))), k.constant(1 / math.log(2), like=x))
    more = k.select(k.eq(x, y), k.constant(1.0, like=x), more)
    return k.select(k.isnan(x), x, k.add(large, more))


def _share2(k: Any, x: Any) -> Any:
    one = k.constant(1.0, like=x)
    small = k.exp2(k.neg(k.abs(x)))
    return k.div(k.select(k.lt(x, k.constant(0.0, like=x)), small, one), k.add(one, small))


share2: Elementwise = unary("share2", on_arrays(_share2),
    partials=lambda y, x: (lambda: multiply(multiply(y, share2(negative(x))), math.log(2)),), lower=Map(_share2),
    doc="1 / (1 + 2**-x), the share of 2**x in 2**x + 1.   f[...]  →  f[...]",
)


def _share(x: Tensor, y: Tensor) -> Tensor:
    both = logical_and(equal(x, y), isinf(x))
    return share2(where(both, 0.0, subtract(x, y)))


def _sinc(k: Any, x: Any) -> Any:
    one, zero = k.constant(1.0, like=x), k.constant(0.0, like=x)
    angle = k.mul(k.constant(math.pi, like=x), k.select(k.eq(x, zero), one, x))
    return k.select(k.eq(x, zero), one, k.div(k.sin(angle), angle))


def _sinc_slope(x: Tensor) -> Tensor:
    """(cos πx - sinc x) / x; by its series near 0, where that is a difference of equals."""
    is_near = less(abs_(x), 0.02)
    far = where(is_near, 1.0, x)
    angle = multiply(far, math.pi)
    square = multiply(multiply(x, x), math.pi**2)
    terms = [(-1) ** j * 2 * j / math.factorial(2 * j + 1) for j in range(1, 6)]
    total: Any = terms[-1]
    for c in reversed(terms[:-1]):
        total = add(multiply(total, square), c)
    near = multiply(multiply(total, x), math.pi**2)
    return where(is_near, near, divide(subtract(cos(angle), divide(sin(angle), angle)), far))


exp2: Elementwise = unary(
    "exp2",
    # Of x - 1: the slope is the smaller one, so it is a number where 2 to the x is none.
    partials=lambda y, x: (multiply(exp2(subtract(x, 1.0)), 2 * math.log(2)),),
    doc="""2 to the x.   f[...]  →  f[...]     integers and bool give float64

    >>> import autodiff as ad
    >>> ad.exp2([3, -1])
    f64[2] [8.  0.5]
    """,
)
cbrt = unary("cbrt", partials=lambda y, x: (divide(power(y, -2.0), 3.0),),
    doc="""The cube root, also of negative numbers.   f[...]  →  f[...]     its derivative at 0 is inf

    >>> import autodiff as ad
    >>> ad.cbrt([-8.0, 27.0])
    f64[2] [-2.  3.]
    """)
sinc = unary("sinc", partials=lambda y, x: (lambda: _sinc_slope(x),), lower=Map(_sinc),
    doc="""sin(πx) / (πx), and 1 at 0.   f[...]  →  f[...]     integers and bool give float64

    >>> import autodiff as ad
    >>> ad.sinc([0.0, 0.5])
    f64[2] [1.         0.63661977]
    """)
logaddexp2 = binary("logaddexp2", partials=lambda z, x, y: (lambda: _share(x, y), lambda: _share(y, x)),
    lower=Map(_logaddexp2), traits=("commutative",),
    doc="""log2(2**x1 + 2**x2) without overflow.   f[...], f[...]  →  f[...]     equal ones share the gradient evenly

    >>> import autodiff as ad
    >>> ad.logaddexp2(1000.0, 1000.0)
    f64[] 1001.0
    """)


def _heaviside(k: Any, x: Any, y: Any) -> Any:
    zero, one = k.constant(0.0, like=x), k.constant(1.0, like=x)
    step = k.select(k.lt(x, zero), zero, k.select(k.gt(x, zero), one, y))
    return k.select(k.isnan(x), x, step)


heaviside = binary("heaviside", partials=lambda z, x, y: (None, lambda: equal(x, 0.0)), lower=Map(_heaviside),
    doc="""0 for negative x1, 1 for positive, x2 where it is 0.   f[...], f[...]  →  f[...]     the gradient is x2's

    >>> import autodiff as ad
    >>> ad.heaviside([-1.0, 0.0, 2.0], 0.5)
    f64[3] [0.  0.5 1. ]
    """)


@function
def deg2rad(x):
    """Degrees as radians.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.deg2rad([180.0, -90.0])
    f64[2] [ 3.14159265 -1.57079633]
    """
    return multiply(x, math.pi / 180)


@function
def rad2deg(x):
    """Radians as degrees.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.rad2deg(ad.pi)
    f64[] 180.0
    """
    return multiply(x, 180 / math.pi)


degrees, radians = rad2deg, deg2rad


@function
def nan_to_num(x, *, nan=0.0, posinf=None, neginf=None):
    """x with `nan`, `posinf` and `neginf` for nan and infinities; None: the largest numbers.   T[...]  →  T[...]

    Of complex numbers both parts are.  What is replaced gets a gradient of exactly 0.

    >>> import autodiff as ad
    >>> ad.nan_to_num([ad.nan, ad.inf, 1.0], posinf=9.0)
    f64[3] [0. 9. 1.]
    """
    x = as_tensor(x, "nan_to_num", "x")
    if x.dtype.kind == "c":
        parts = [_finite(f(x), nan, posinf, neginf) for f in (real_part, imaginary_part)]
        return add(parts[0], multiply(parts[1], 1j))
    return _finite(x, nan, posinf, neginf) if x.dtype.kind == "f" else x


def _finite(x: Tensor, nan: Any, posinf: Any, neginf: Any) -> Tensor:
    most = float(np.finfo(x.dtype).max)
    x = where(equal(x, math.inf), most if posinf is None else posinf, x)
    return where(equal(x, -math.inf), -most if neginf is None else neginf, where(isnan(x), nan, x))


@function
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True where |a - b| <= atol + rtol |b|; infinities are close to themselves, with equal_nan nan too.

    T[...], T[...]  →  bool[...]

    Raises ShapeError when a and b do not broadcast.

    >>> import autodiff as ad
    >>> ad.isclose([1.0, ad.inf, ad.nan], [1.0 + 1e-9, ad.inf, ad.nan])
    bool[3] [ True  True False]
    """
    a, b = common("isclose", (("a", a), ("b", b)), "fc")
    is_near = less_equal(abs_(subtract(a, b)), add(atol, multiply(rtol, abs_(b))))
    found = where(isfinite(b), is_near, equal(a, b))
    return logical_or(found, logical_and(isnan(a), isnan(b))) if equal_nan else found


@function
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True if `isclose` is true for all elements.   T[...], T[...]  →  bool[]

    Raises ShapeError when a and b do not broadcast.

    >>> import autodiff as ad
    >>> ad.allclose([1.0, 2.0], [1.0, 2.0 + 1e-9])
    bool[] True
    """
    return all_(isclose(a, b, rtol, atol, equal_nan))


# ---------------------------------------------------------------- vectors and matrices


@function
def cross(a, b, *, axis=-1):
    """The vector product of vectors of three numbers along an axis.   T[..., 3], T[..., 3]  →  T[..., 3]

    Raises ShapeError for vectors of another length, and when the other axes do not broadcast.

    axisa, axisb, axisc   of a, b and the result, where they are not one `axis`

    >>> import autodiff as ad
    >>> ad.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    f64[3] [0. 0. 1.]
    """
    a, b = common("cross", (("a", a), ("b", b)), "fic")
    axis = -1 if axis is None else axis
    rows = []
    for name, x in (("a", a), ("b", b)):
        along = axis_of("cross", axis, x.aval)
        if x.shape[along] != 3:
            raise ShapeError(f"cross: {name} has {x.shape[along]} numbers in a vector, not 3\n  called at {caller()}")
        x = moveaxis(x, along, -1)
        rows.append([x[..., j] for j in range(3)])
    (a0, a1, a2), (b0, b1, b2) = rows
    pairs = ((a1, b2, a2, b1), (a2, b0, a0, b2), (a0, b1, a1, b0))
    return stack([subtract(multiply(p, q), multiply(r, s)) for p, q, r, s in pairs], axis=axis)


@further(cross)
def _cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = (moveaxis(as_tensor(x, "cross"), along, -1) for x, along in ((a, axisa), (b, axisb)))
    return moveaxis(cross(a, b), -1, axisc)


@function
def kron(a, b):
    """Kronecker's product: every element of a times all of b.   T[m, n], T[p, q]  →  T[m·p, n·q]     any rank

    >>> import autodiff as ad
    >>> ad.kron([1, 10], [1, 2, 3])
    i64[6] [ 1  2  3 10 20 30]
    """
    a, b = common("kron", (("a", a), ("b", b)), "fic")
    rank = max(a.ndim, b.ndim)
    m, p = ((1,) * (rank - x.ndim) + x.shape for x in (a, b))
    a = reshaped(a, tuple([n for extent in m for n in (extent, 1)]))
    b = reshaped(b, tuple([n for extent in p for n in (1, extent)]))
    return reshaped(multiply(a, b), tuple([i * j for i, j in zip(m, p, strict=True)]))


@function
def rot90(x, k=1, axes=(0, 1)):
    """x turned by k right angles in the plane of two axes, first towards second.   T[m, n, ...]  →  T[n, m, ...]

    Raises ShapeError when x has no such two axes.

    >>> import autodiff as ad
    >>> ad.rot90([[1, 2], [3, 4]])
    i64[2,2]
    [[2 4]
     [1 3]]
    """
    x = as_tensor(x, "rot90", "x")
    plane = [axis_of("rot90", a, x.aval) for a in listed(axes, "rot90", "two axes")]
    if len({*plane}) != 2 or len(plane) != 2:
        raise ShapeError(f"rot90: turns in the plane of two axes, not {axes!r:.40}\n  called at {caller()}")
    first, second = plane
    turns = integer(k, "rot90", "k") % 4
    if turns == 2:
        return flipped(x, tuple(sorted((first, second))))
    if turns == 1:
        return swapaxes(flipped(x, (second,)), first, second)
    return flipped(swapaxes(x, first, second), (second,)) if turns else another(x)


@function
def flipud(x):
    """x with its rows in reverse order.   T[m, ...]  →  T[m, ...]

    Raises ShapeError for a 0-d x.

    >>> import autodiff as ad
    >>> ad.flipud([[1, 2], [3, 4]])
    i64[2,2]
    [[3 4]
     [1 2]]
    """
    x = as_tensor(x, "flipud", "x")
    return flipped(x, (axis_of("flipud", 0, x.aval),))


@function
def fliplr(x):
    """x with its columns in reverse order.   T[m, n, ...]  →  T[m, n, ...]

    Raises ShapeError for less than two axes.

    >>> import autodiff as ad
    >>> ad.fliplr([[1, 2], [3, 4]])
    i64[2,2]
    [[2 1]
     [4 3]]
    """
    x = as_tensor(x, "fliplr", "x")
    return flipped(x, (axis_of("fliplr", 1, x.aval),))
