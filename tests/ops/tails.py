"""Every elementwise function with its error budgets: what the sweep of `test_tails` compares with many digits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath

import autodiff as ad
from autodiff.ops import special as sp  # with what has no public name
from autodiff.ops.elementwise import (
    arc_slope,
    arccosh_slope,
    arcsinh_slope,
    arctanh_slope,
    turn,
)

__all__ = ["TABLE", "Row", "exact"]


class Row(NamedTuple):
    """One function.

    name     of the test
    f        the function of tensors, of one or two arguments
    exact    the same by mpmath
    points   arguments; of two arguments pairs
    ulps     error budgets of the value, the first and the second derivatives, in units in the last place
    bits     what mpmath works with: more than the exponents of the function and of its derivatives lie apart
    """

    name: str
    f: Callable[..., Any]
    exact: Callable[..., Any]
    points: Sequence[Any]
    ulps: tuple[float, float, float]
    bits: int = 4000

    @property
    def arity(self) -> int:
        """The number of its arguments."""
        return 2 if isinstance(self.points[0], tuple) else 1


# ---------------------------------------------------------------- points

#: Where exp(x) goes from the smallest numbers to the largest, of floats and of doubles.
GROWTH = [-740.0, -600.0, -100.0, -80.0, -40.0, -20.0, -8.5, -3.0, -1.0, -0.1, -1e-5, -1e-30, 1e-20, 1e-3, 0.4, 1.5,
          5.0,
          10.0, 16.0, 20.0, 40.0, 80.0, 88.0, 300.0, 709.5]
#: The same, not where x sigmoid(x) and its like have a derivative of 0.
BENT = [{-1.0: -0.7, -0.1: -0.3, 1.5: 0.9}.get(x, x) for x in GROWTH]
#: Far below, where exp(x) has few digits left, and what multiplies it shows how they were rounded.
FAR = [*BENT, -743.0, -734.5964216818527]
#: Numbers of every size.
POSITIVE = [1e-300, 1e-150, 1e-38, 1e-30, 1e-15, 1e-5, 0.1, 0.7, 1.3, 5.0, 300.0, 1e8, 1e15, 1e30, 1e150, 1e300]
SIZES = [*POSITIVE, *[-x for x in POSITIVE]]
#: Around 0, not so large that powers and angles leave the range.
MIDDLE = [-30.0, -7.0, -2.5, -1.1, -0.4, -1e-3, -1e-8, -1e-30, 1e-25, 1e-7, 1e-2, 0.3, 0.9, 1.7, 3.0, 11.0, 25.0]
UNIT = [-0.999999, -0.9, -0.3, -1e-4, -1e-20, 1e-30, 1e-9, 0.02, 0.25, 0.6, 0.99, 0.9999999]
INSIDE = [1e-300, 1e-30, 1e-10, 1e-3, 0.1, 0.3, 0.45, 0.51, 0.8, 0.99, 0.9999999]
BELL = [-37.9, -26.3, -12.9, -10.0, -6.1, -3.2, -1.3, -0.6, -0.2, -1e-5, -1e-30, 1e-20, 1e-3, 0.35, 1.2, 2.0, 4.1, 7.2,
        9.1, 12.3, 20.1, 25.7, 36.9]
PAIRS = [(1.5, 2.5), (-3.0, 0.7), (1e-20, 3.0), (2.0, 1e-20), (1e15, 1e-3), (1e-15, -1e15), (0.3, 1e30), (1e20, 1e10),
         (1e200, 1e180), (1e-200, 1e-180), (-1e-250, 1e-90)]
SUMS = [(1.0, 2.0), (0.3, 0.3), (-5.0, 40.0), (20.0, -20.0), (0.0, -90.0), (-700.0, -20.0), (1e-8, -1e-8), (30.0, 31.0),
        (-300.0, 300.0), (1e10, 1e10)]
RATIOS = [(0.3, 0.7), (2.0, 1.9), (0.3, 1e-20), (1e-20, 0.3), (1e-30, 1e30), (1e30, 1e-8), (1e-300, 1e-200), (5.0,
          1e300),
          (1e-40, 2.0), (1e-310, 3.0)]


def _logistic(x):
    return 1 / (1 + mpmath.exp(-x))


def _softplus(x):
    return mpmath.log1p(mpmath.exp(x))


def _gelu_by_tanh(x):
    return x * _logistic(2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(0.044715) * x**3))


def _cbrt(x):
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


def _elu(x, alpha=1):
    return x if x > 0 else alpha * mpmath.expm1(x)


def _sinc(x):
    return mpmath.sin(mpmath.pi * x) / (mpmath.pi * x)


_ALPHA, _SCALE = mpmath.mpf("1.6732632423543772848170429916717"), mpmath.mpf("1.0507009873554804934193349852946")


def _called(operation, **parameters):
    """The function that an operation is of arrays."""
    return lambda *xs: operation(*map(ad.asarray, xs), **parameters)


TABLE = [
    # exponentials and logarithms
    Row("exp", ad.exp, mpmath.exp, GROWTH, (2, 2, 2), 2000),
    Row("exp2", ad.exp2, lambda x: 2**x, [*GROWTH, -1000.0, 127.9, 128.2, 128.5, 1000.0, 1023.9, 1024.3], (2, 3, 4),
        2000),
    Row("expm1", ad.expm1, mpmath.expm1, GROWTH, (2, 2, 2), 2000),
    Row("log", ad.log, mpmath.log, POSITIVE, (2, 2, 2)),
    Row("log1p", ad.log1p, mpmath.log1p, [*POSITIVE, -0.5, -0.999, -1e-9], (2, 2, 3)),
    Row("log2", ad.log2, lambda x: mpmath.log(x, 2), POSITIVE, (2, 2, 3)),
    Row("log10", ad.log10, mpmath.log10, POSITIVE, (2, 2, 3)),
    Row("sqrt", ad.sqrt, mpmath.sqrt, POSITIVE, (1, 2, 4)),
    Row("cbrt", ad.cbrt, _cbrt, SIZES, (2, 5, 10)),
    # circular and hyperbolic
    Row("sin", ad.sin, mpmath.sin, MIDDLE, (2, 2, 2)),
    Row("cos", ad.cos, mpmath.cos, MIDDLE, (2, 2, 2)),
    Row("tan", ad.tan, mpmath.tan, MIDDLE, (2, 4, 6)),
    Row("arcsin", ad.arcsin, mpmath.asin, UNIT, (2, 2, 6)),
    Row("arccos", ad.arccos, mpmath.acos, UNIT, (2, 2, 6)),
    Row("arctan", ad.arctan, mpmath.atan, SIZES, (2, 3, 5)),
    Row("sinh", ad.sinh, mpmath.sinh, GROWTH, (3, 3, 3), 2000),
    Row("cosh", ad.cosh, mpmath.cosh, GROWTH, (3, 3, 3), 2000),
    Row("tanh", ad.tanh, mpmath.tanh, [*GROWTH, 354.0, 360.0, 372.0], (3, 4, 6), 2200),
    Row("arcsinh", ad.arcsinh, mpmath.asinh, SIZES, (3, 2, 4)),
    Row("arccosh", ad.arccosh, mpmath.acosh, [1.02, 1.1, 2.0, 30.0, 1e8, 1e30, 1e200], (3, 3, 5)),
    Row("arctanh", ad.arctanh, mpmath.atanh, UNIT, (3, 2, 4)),
    Row("sinc", ad.sinc, _sinc, [-2.6, -0.4, 1e-30, 1e-6, 0.01, 0.03, 0.3, 1.4, 5.2], (16, 200, 1000)),
    Row("arc_slope", _called(arc_slope), lambda x: 1 / mpmath.sqrt(1 - x * x), UNIT, (2, 6, 8)),
    Row("arctanh_slope", _called(arctanh_slope), lambda x: 1 / (1 - x * x), UNIT, (2, 4, 8)),
    Row("arcsinh_slope", _called(arcsinh_slope), lambda x: 1 / mpmath.sqrt(1 + x * x), MIDDLE, (2, 4, 8)),
    Row("arccosh_slope", _called(arccosh_slope), lambda x: 1 / mpmath.sqrt(x * x - 1), [1.1, 2.0, 30.0, 1e8],
        (3, 5, 8)),
    # of learning
    Row("sigmoid", ad.sigmoid, _logistic, GROWTH, (3, 4, 6), 2200),
    Row("softplus", ad.softplus, _softplus, GROWTH, (3, 3, 4), 2200),
    Row("log_sigmoid", ad.log_sigmoid, lambda x: -_softplus(-x), GROWTH, (3, 3, 4), 2200),
    Row("silu", ad.silu, lambda x: x * _logistic(x), FAR, (3, 6, 12), 2200),
    Row("mish", ad.mish, lambda x: x * mpmath.tanh(_softplus(x)), FAR, (4, 8, 16), 2200),
    Row("tanh_softplus", _called(ad.ops.elementwise_late.tanh_softplus), lambda x: mpmath.tanh(_softplus(x)), FAR,
        (3, 6, 12), 2200),
    Row("elu", ad.elu, _elu, GROWTH, (2, 2, 2), 2000),
    Row("selu", ad.selu, lambda x: _SCALE * _elu(x, _ALPHA), GROWTH, (4, 4, 4), 2000),
    Row("gelu", ad.gelu, lambda x: x * mpmath.ncdf(x), BELL, (6, 10, 16), 2400),
    Row("gelu-tanh", lambda x: ad.gelu(x, approximate=True), _gelu_by_tanh, BELL, (64, 128, 1000), 2400),
    Row("relu", ad.relu, lambda x: max(x, 0), SIZES, (0, 0, 0)),
    Row("relu6", ad.relu6, lambda x: min(max(x, 0), 6), SIZES, (0, 0, 0)),
    Row("leaky_relu", ad.leaky_relu, lambda x: x if x > 0 else x * mpmath.mpf(0.01), SIZES, (1, 1, 0)),
    # Of statistics.  The square in exp(-x²) beside erf is rounded, and a large difference of arguments of logaddexp;
    # log_ndtr'' is a difference of large numbers.
    Row("erf", ad.erf, mpmath.erf, BELL, (3, 400, 600), 2400),
    Row("erfc", sp.erfc, mpmath.erfc, BELL, (5, 4, 8), 2400),
    Row("ndtr", sp.ndtr, mpmath.ncdf, BELL, (5, 4, 8), 2400),
    Row("log_ndtr", sp.log_ndtr, lambda x: mpmath.log(mpmath.ncdf(x)), BELL, (16, 8, 4000), 2400),
    Row("erfinv", sp.erfinv, mpmath.erfinv, UNIT[1:-2], (8, 16, 32), 600),
    Row("logit", sp.logit, lambda x: mpmath.log(x / (1 - x)), INSIDE, (3, 4, 8)),
    Row("logit_slope", _called(sp.logit_slope), lambda x: 1 / (x * (1 - x)), INSIDE, (3, 5, 9)),
    Row("entr", sp.entr, lambda x: -x * mpmath.log(x), [*POSITIVE, 1e-310, 1e-40], (3, 4, 4)),
    Row("xlogy", sp.xlogy, lambda x, y: x * mpmath.log(y), RATIOS, (3, 3, 3)),
    Row("xlog1py", sp.xlog1py, lambda x, y: x * mpmath.log1p(y), RATIOS, (3, 3, 4)),
    Row("rel_entr", sp.rel_entr, lambda x, y: x * mpmath.log(x / y), RATIOS, (4, 4, 4)),
    Row("kl_div", sp.kl_div, lambda x, y: x * mpmath.log(x / y) - x + y, RATIOS, (8, 4, 4)),
    Row("logaddexp", ad.logaddexp, lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)), SUMS, (3, 400, 500), 2200),
    Row("logaddexp2", ad.logaddexp2, lambda x, y: mpmath.log(2**x + 2**y, 2), SUMS, (3, 400, 500), 2200),
    # Gamma and Bessel functions.  The second derivatives of scaled Bessel functions are differences: 4x ulps.
    Row("gamma", sp.gamma, mpmath.gamma, [1e-30, 1e-5, 0.3, 1.2, 2.7, 5.0, 20.0, 34.0, 100.0, 170.0, -0.3, -2.4, -7.4],
        (8, 32, 64), 600),
    Row("factorial", sp.factorial, lambda x: mpmath.gamma(x + 1), [1e-5, 0.3, 1.7, 5.0, 16.7, 31.4, -0.3, -2.4],
        (8, 32, 64), 600),
    Row("gammaln", sp.gammaln, lambda x: mpmath.log(abs(mpmath.gamma(x))),
        [1e-30, 1e-5, 0.3, 1.2, 2.7, 5.0, 20.0, 1e4, -0.3, -2.4], (8, 16, 16), 600),
    Row("digamma", sp.digamma, mpmath.digamma, [1e-15, 1e-5, 0.3, 1.2, 2.7, 5.0, 20.0, 1e4, -0.3, -2.4], (8, 16, 32),
        600),
    Row("i0", sp.i0, lambda x: mpmath.besseli(0, x), [-20.0, -3.0, 1e-20, 1e-3, 0.4, 0.6, 7.0, 9.0, 60.0], (16, 32,
        64), 600),
    Row("i1", sp.i1, lambda x: mpmath.besseli(1, x), [-20.0, -3.0, 1e-20, 1e-3, 0.4, 0.6, 7.0, 9.0, 60.0], (16, 32,
        64), 600),
    Row("i0e", sp.i0e, lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x), [-20.0, -3.0, 1e-3, 0.4, 0.6, 7.0, 9.0,
        60.0, 1e4],
        (16, 16, 40000), 600),
    Row("i1e", sp.i1e, lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x), [-20.0, -3.0, 1e-3, 0.4, 0.6, 7.0, 9.0,
        60.0, 1e4],
        (16, 32, 40000), 600),
    # arithmetic
    Row("reciprocal", ad.reciprocal, lambda x: 1 / x, SIZES, (1, 2, 3)),
    Row("square", ad.square, lambda x: x * x, SIZES, (1, 1, 1)),
    Row("cube", lambda x: ad.power(x, 3), lambda x: x**3, SIZES, (2, 2, 2)),
    Row("inverse_square", lambda x: ad.power(x, -2), lambda x: x**-2, SIZES, (3, 4, 5)),
    Row("root", lambda x: ad.power(x, 0.5), mpmath.sqrt, POSITIVE, (1, 2, 4)),
    Row("inverse_root", lambda x: ad.power(x, -0.5), lambda x: 1 / mpmath.sqrt(x), POSITIVE, (2, 3, 4)),
    Row("abs", ad.abs, abs, SIZES, (0, 0, 0)),
    Row("negative", ad.negative, lambda x: -x, SIZES, (0, 0, 0)),
    Row("divide", ad.divide, lambda x, y: x / y, PAIRS, (1, 3, 5)),
    Row("multiply", ad.multiply, lambda x, y: x * y, PAIRS, (1, 1, 1)),
    Row("add", ad.add, lambda x, y: x + y, PAIRS, (1, 0, 0)),
    Row("subtract", ad.subtract, lambda x, y: x - y, PAIRS, (1, 0, 0)),
    Row("hypot", ad.hypot, mpmath.hypot, PAIRS[:2], (3, 4, 16)),
    Row("arctan2", ad.arctan2, mpmath.atan2, PAIRS, (3, 3, 16)),
    Row("entropy_by_x", _called(sp.entropy_by_x, more=0.0), lambda x, y: mpmath.log(x / y), RATIOS, (4, 2, 3)),
    Row("entropy_by_y", _called(sp.entropy_by_y, more=0.0), lambda x, y: 1 - x / y, RATIOS[:6], (2, 3, 4)),
    Row("turn", _called(turn), lambda x, y: x / (x * x + y * y), PAIRS[:6], (4, 16, 32)),
    Row("power", ad.power, lambda x, y: x**y, [(1.5, 2.5), (0.3, -7.3), (1e-20, 1.7), (1e20, 0.4), (1e-30, -0.6),
        (7.0, 20.5)],
        (4, 100, 100)),
]


def _stencil(row: Row, point: tuple[float, ...]) -> dict[tuple[int, ...], Any]:
    """The derivatives of a function by its arguments up to the second, by differences of numbers of many digits."""
    with mpmath.workprec(row.bits):
        x = [mpmath.mpf(v) for v in point]
        steps = [mpmath.ldexp(abs(v) if v else 1, -row.bits // 5) for v in x]

        def at(*moves: int) -> Any:
            return row.exact(*[v + n * h for v, n, h in zip(x, moves, steps, strict=True)])

        noise = mpmath.ldexp(1, 40 - row.bits)

        def difference(*terms: Any) -> Any:
            """Their sum, and 0 where that is no more than what they are rounded by."""
            total = mpmath.fsum(terms)
            return total if abs(total) > noise * max(map(abs, terms)) else mpmath.mpf(0)

        if row.arity == 1:
            (h,) = steps
            low, middle, high = at(-1), at(0), at(1)
            return {
                (): middle, (0,): difference(high, -low) / (2 * h),
                (0, 0): difference(high, -2 * middle, low) / (h * h),
            }  # fmt: skip
        h, k = steps
        here, left, right, down, up = at(0, 0), at(-1, 0), at(1, 0), at(0, -1), at(0, 1)
        return {
            (): here, (0,): difference(right, -left) / (2 * h), (1,): difference(up, -down) / (2 * k),
            (0, 0): difference(right, -2 * here, left) / (h * h), (1, 1): difference(up, -2 * here, down) / (k * k),
            (0, 1): difference(at(1, 1), -at(1, -1), -at(-1, 1), at(-1, -1)) / (4 * h * k),
        }  # fmt: skip


@functools.cache
def exact(name: str, points: tuple[Any, ...]) -> dict[tuple[int, ...], list[Any]]:
    """The value and the derivatives of a row of the table at these points, by the arguments they are taken by."""
    row = next(r for r in TABLE if r.name == name)
    each = [_stencil(row, p if isinstance(p, tuple) else (p,)) for p in points]
    return {key: [found[key] for found in each] for key in each[0]}
