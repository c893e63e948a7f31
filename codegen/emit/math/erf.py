"""The error function, and the bell that is its derivative.

    erf(c + d) = erf(c) + s d (1 - c d + ...),    s = erf'(c) = 2/sqrt(pi) exp(-c*c),    c a multiple of 1/64

erf(c) and s come from a table in memory, the rest is Taylor's series, whose coefficients are polynomials in c
(Hermite's, over factorials).  A double takes 1.4 ns, a float .7 (Zen 3); by two polynomials, one of them times
exp(-x*x), they take 3.4 and 1.

exp(-x*x) beside erf(x) costs a third of an exponential:

    exp(-x*x) = exp(-c*c) exp(-u),    u = d (|x| + c) <= 3/32, for floats 5/32
"""

from __future__ import annotations

from .code import FunctionCode, Lane
from .coefficients import EXP_MINUS_F32, EXP_MINUS_F64
from .exp import magic
from .points import erf_points, pair_at

#: The last point: there erf is 1, and exp(-x*x) of floats is nearly subnormal.
_END_F64, _END_F32 = 6.0, 9.25
_EXP_PER_SLOPE = 0.8862269254527580  # sqrt(pi) / 2
#: H(n)(c) (-1)**n / (n + 1)!, n from 6 (for floats 2) down to 2: True if it is odd, and its coefficients in c*c.
#: The sixth lacks terms in high powers of c, which are too small because s is small for large c.
_TAYLOR_F64 = (
    (False, (-1 / 42, 1 / 7, -2 / 21)), (True, (-1 / 6, 2 / 9, -2 / 45)), (False, (1 / 10, -2 / 5, 2 / 15)),
    (True, (1 / 2, -1 / 3)), (False, (-1 / 3, 2 / 3)),
)  # fmt: skip
_TAYLOR_F32 = _TAYLOR_F64[-1:]


def erf(k: FunctionCode, x: Lane) -> Lane:
    """The error function within 2 ulp."""
    _, c, d, erf_c, slope = _point(k, k.abs(x))
    square = c * c
    more: Lane | None = None
    for is_odd, coefficients in k.pick(_TAYLOR_F64, _TAYLOR_F32):
        term = k.polynomial(square, coefficients)
        term = c * term if is_odd else term
        more = term if more is None else k.mad(d, more, term)
    assert more is not None
    step = slope * d
    return k.with_sign(erf_c + k.mad(step, k.mad(d, more, -c) * d, step), k.sign_of(x))


def exp_minus_square(k: FunctionCode, x: Lane) -> Lane:
    """exp(-x*x) within 3 ulp, computed together with erf(x); without meaning where x is far."""
    a, c, d, _, slope = _point(k, k.abs(x))
    u, at_c = d * (a + c), slope * _EXP_PER_SLOPE
    return k.mad(k.polynomial(u, k.pick(EXP_MINUS_F64, EXP_MINUS_F32)) * u, at_c, at_c)


def exp_minus_square_is_far(k: FunctionCode, x: Lane) -> Lane:
    """True if exp(-x*x) must be computed in another way."""
    return k.abs(x) > k.pick(_END_F64, _END_F32)


def _point(k: FunctionCode, size: Lane) -> tuple[Lane, Lane, Lane, Lane, Lane]:
    """(a, c, d, erf(c), erf'(c)): a = c + d is `size`, at most the last point, and c is the nearest point."""
    end = k.pick(_END_F64, _END_F32)
    shifted = k.mad(k.select(size < end, size, end), 64.0, magic(k))  # also nan gets a place in the table
    c = (shifted - magic(k)) * (1 / 64)
    place = k.bits(shifted) - k.bits(k.constant(magic(k)))
    points = erf_points(k.suffix, int(64 * end) + 1)
    erf_c, slope = pair_at(k, f"erf.points.{k.suffix}", points, place)
    a = k.at_most(size, end)
    return a, c, a - c, erf_c, slope
