"""The modified Bessel functions I0 and I1, as they are and times exp(-|x|)."""

from __future__ import annotations

import math
from typing import Any

from codegen.lowering import Map

from ..tensor import Tensor
from .arithmetic import abs_, add, divide, multiply, negative, sign, subtract
from .arrays import on_arrays
from .comparison import less
from .declare import Elementwise, unary
from .elementwise import exp
from .selection import where
from .special_series import BESSEL0_FAR, BESSEL0_NEAR, BESSEL1_FAR, BESSEL1_NEAR, clenshaw, series

__all__ = ["i0", "i0e", "i1", "i1e"]

#: Below, I1(x) / x is the sum of (x/2)**2k / (2 k! (k+1)!), whose term of k = 7 is less than 1e-17 of it.
_NEAR = 0.5
_RATIO = tuple([0.5 / (4**n * math.factorial(n) * math.factorial(n + 1)) for n in range(7)])


def _scaled(k: Any, x: Any, near: tuple[float, ...], far: tuple[float, ...]) -> tuple[Any, Any, Any]:
    """|x|, whether it is below 8, and the series for it, in each its own variable; the far one over √|x|."""
    size, one = k.abs(x), k.constant(1.0, like=x)
    is_near = k.lt(size, k.constant(8.0, like=x))
    t = k.select(
        is_near,
        k.sub(k.mul(size, k.constant(0.25, like=x)), one),
        k.sub(k.div(k.constant(16.0, like=x), size), one),
    )
    # Powers of the near ones cancel where the scaled function has become small.
    return size, is_near, (clenshaw(k, near, t), k.div(series(k, far, t), k.sqrt(size)))


def _i0e(k: Any, x: Any) -> Any:
    _, is_near, (near, far) = _scaled(k, x, BESSEL0_NEAR, BESSEL0_FAR)
    return k.select(is_near, near, far)


def _i1e(k: Any, x: Any) -> Any:
    size, is_near, (near, far) = _scaled(k, x, BESSEL1_NEAR, BESSEL1_FAR)
    return k.copysign(k.select(is_near, k.mul(size, near), far), x)


def _grown(k: Any, x: Any, scaled: Any) -> Any:
    """Times exp(|x|), in two steps, so that only what is too large overflows."""
    half = k.exp(k.mul(k.abs(x), k.constant(0.5, like=x)))
    return k.select(k.isinf(x), k.copysign(k.constant(math.inf, like=x), scaled), k.mul(k.mul(scaled, half), half))


def _i0(k: Any, x: Any) -> Any:
    return _grown(k, x, _i0e(k, x))


def _i1(k: Any, x: Any) -> Any:
    return _grown(k, x, _i1e(k, x))


def _over(y: Tensor, x: Tensor, *, scaled: bool) -> Tensor:
    """I1(x) / x, or of the scaled one; near 0, where its derivatives would cancel, by its series."""
    is_near = less(abs_(x), _NEAR)
    near = where(is_near, x, 0.0)
    square, total = multiply(near, near), _RATIO[-1]
    for c in _RATIO[-2::-1]:
        total = add(multiply(total, square), c)
    if scaled:
        total = multiply(total, exp(negative(abs_(near))))
    return where(is_near, total, divide(y, where(is_near, 1.0, x)))


i0: Elementwise = unary("i0", on_arrays(_i0), partials=lambda y, x: (i1(x),), lower=Map(_i0),
    doc="""The modified Bessel function of the first kind, of order 0.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.i0([0.0, 1.0])
    f64[2] [1.         1.26606588]
    """)
i1: Elementwise = unary("i1", on_arrays(_i1), partials=lambda y, x: (subtract(i0(x), _over(y, x, scaled=False)),),
    lower=Map(_i1),
    doc="""The modified Bessel function of the first kind, of order 1.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.i1([0.0, 1.0])
    f64[2] [0.        0.5651591]
    """)
def _turned(k: Any, x: Any) -> Any:
    zero = k.constant(0.0, like=x)
    return k.select(k.eq(x, zero), zero, k.copysign(_i0e(k, x), x))


#: A function of its own, so that its slope at 0 is that of both sides.
i0e_turned: Elementwise = unary("i0e_turned", on_arrays(_turned),
    partials=lambda y, x: (subtract(abs_(i1e(x)), i0e(x)),), lower=Map(_turned),
    doc="sign(x) times `i0e`.   f[...]  →  f[...]",
)
i0e: Elementwise = unary("i0e", on_arrays(_i0e), partials=lambda y, x: (subtract(i1e(x), i0e_turned(x)),),
    lower=Map(_i0e),
    doc="""exp(-|x|) times `i0`: it does not overflow.   f[...]  →  f[...]     at 0, where it has a kink, derivative 0

    The second derivative there is 1.5, on which both sides agree.

    >>> import autodiff as ad
    >>> ad.special.i0e([0.0, 1000.0])
    f64[2] [1.         0.01261724]
    """)
i1e: Elementwise = unary("i1e", on_arrays(_i1e),
    partials=lambda y, x: (subtract(i0e(x), add(multiply(sign(x), y), _over(y, x, scaled=True))),), lower=Map(_i1e),
    doc="""exp(-|x|) times `i1`: it does not overflow.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.i1e([0.0, 1000.0])
    f64[2] [0.         0.01261093]
    """)
