"""The inverse of the error function, which turns uniform numbers into normal ones.

erfinv(x) = x p(w) with w = -log(1 - x²): p is smooth, and hardly bent in √w where w is large (M. Giles, Approximating
the erfinv function, GPU Computing Gems, 2011).  The pieces of p were fitted anew, by interpolation of 60-digit values
at Chebyshev's points; their own relative errors are below 1e-7 (f32) and 4e-16 (f64).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from codegen.garbage import ignoring
from codegen.lowering import Map
from codegen.records import NamedTuple

from .declare import unary
from .elementwise import exp

__all__ = ["erfinv"]


class _Piece(NamedTuple):
    """A polynomial in t - centre, lowest power first."""

    centre: float
    coefficients: tuple[float, ...]


_F32_NEAR = _Piece(2.5, (
    1.50140936, 0.246640279, -0.00417739288, -0.00125272639, 0.000218349386, -4.97241969e-06, -3.46398527e-06,
    4.68131348e-07, 2.33359672e-08, -8.93192597e-09,
))
_F32_FAR = _Piece(3.1180338859558105, (
    2.95132858, 1.00361804, 0.00716025969, -0.00537893377, 0.00387470083, -0.00270852748, 0.00131747686,
    -8.67278189e-05, -0.000176285934,
))
_F64_NEAR = _Piece(3.125, (
    1.6536545626831027, 0.2401581824255883, -0.00603367087142785, -0.000740702534154477, 0.00018673420802464837,
    -1.3882523394405316e-05, -1.3654691850603575e-06, 4.234788173782339e-07, -2.9070382262927266e-08,
    -4.11266082002324e-09, 1.0512181539804126e-09, -5.414287198084716e-11, -1.2976885526532075e-11,
    2.6304834740560442e-12, -8.118399443074353e-14, -4.001237735091896e-14, 6.596407712420834e-15,
    -4.0282154327661744e-17, -1.3016928016796445e-16, 1.557432024623325e-17, 1.150022252066253e-18,
    -3.4996044354754177e-19, -1.113483769832702e-21, 3.240704459379902e-21,
))
_F64_MIDDLE = _Piece(3.25, (
    3.0838856104922208, 1.0052589676941592, 0.0053709145535581985, -0.0037512085075638536, 0.0024914420976198813,
    -0.0016882755561681802, 0.0009532893521118177, -0.00035503751863069763, 2.4031363245440546e-05,
    6.828484052292924e-05, -4.731952918337189e-05, 1.2475343474376931e-05, 2.9273722115986924e-06,
    -4.013946398190292e-06, 1.4958263152984917e-06, 1.832399988132858e-08, -2.6860975725571463e-07,
    9.071950571029922e-08, -3.831039946072411e-10,
))
_F64_FAR = _Piece(5.02, (
    4.870112353510003, 1.010294660471844, -0.0001514403006394504, -0.00020902850543582524, 7.40539814804208e-05,
    -1.9146892393653503e-05, 4.389553948442912e-06, -9.57279243703386e-07, 2.1736815548187995e-07,
    -6.222692387566604e-08, 2.594835476001536e-08, -1.320561562230626e-08, 6.807369275246077e-09,
    -3.4074861449876914e-09, 1.3516716898332772e-09, -2.558081073867706e-10, -6.99473028504942e-12,
))

#: By dtype: (the piece in w, up to which w), then the pieces in √w, each up to which √w.
_PIECES: dict[str, tuple[tuple[_Piece, float], ...]] = {
    "f32": ((_F32_NEAR, 5.0), (_F32_FAR, math.inf)),
    "f64": ((_F64_NEAR, 6.25), (_F64_MIDDLE, 4.0), (_F64_FAR, math.inf)),
}


def _reference(x: np.ndarray) -> np.ndarray:
    with ignoring(all="ignore"):
        one = x.dtype.type(1)
        w = -np.log((one - x) * (one + x))
        root = np.sqrt(w)
        (near, limit), *far = _PIECES["f32" if x.dtype == np.float32 else "f64"]
        p = _polynomial(far[-1][0], root)
        for piece, end in reversed(far[:-1]):
            p = np.where(root < end, _polynomial(piece, root), p)
        p = np.where(w < limit, _polynomial(near, w), p)
        return np.where(abs(x) == 1, np.copysign(x.dtype.type(np.inf), x), x * p)


def _polynomial(piece: _Piece, t: np.ndarray) -> np.ndarray:
    t = t - t.dtype.type(piece.centre)
    total = t.dtype.type(piece.coefficients[-1])
    for c in reversed(piece.coefficients[:-1]):
        total = total * t + t.dtype.type(c)
    return total


def _scalar(k: Any, x: Any) -> Any:
    def number(value: float) -> Any:
        return k.constant(value, like=x)

    def polynomial(piece: _Piece, t: Any) -> Any:
        t = k.sub(t, number(piece.centre))
        total = number(piece.coefficients[-1])
        for c in reversed(piece.coefficients[:-1]):
            total = k.fma(total, t, number(c))
        return total

    one = number(1.0)
    w = k.neg(k.log(k.mul(k.sub(one, x), k.add(one, x))))
    root = k.sqrt(w)
    (near, limit), *far = _PIECES[k.dtype(x)]
    p = polynomial(far[-1][0], root)
    for piece, end in reversed(far[:-1]):
        p = k.select(k.lt(root, number(end)), polynomial(piece, root), p)
    p = k.select(k.lt(w, number(limit)), polynomial(near, w), p)
    return k.select(k.eq(k.abs(x), one), k.copysign(number(math.inf), x), k.mul(x, p))


erfinv = unary("erfinv", _reference, partials=lambda y, x: (0.886226925452758 * exp(y * y),), lower=Map(_scalar),
    doc="""The inverse of erf: erf(erfinv(x)) = x.   f[...]  →  f[...]     ±inf at ±1, nan outside [-1, 1]

    Source: Giles, "Approximating the erfinv function", GPU Computing Gems 2 (2011); fitted anew.

    >>> import autodiff as ad
    >>> ad.erfinv([0.0, 1.0, 2.0])
    f64[3] [ 0. inf nan]
    """)
