"""Cases of stacks, splits, weighted means, covariances, counts, sums without nan, and activations."""

import math

import mpmath
import numpy as np

import autodiff as ad

from .cases import away, between, case, cases, distinct, integers

SOME = ("f64", "f32", "i64", "bool")


def _stacked(name):
    def ours(*xs):
        return getattr(ad, name)(xs)

    def numpys(*xs):
        return getattr(np, name)(xs)

    return ours, numpys


def _holed(rng, shape):
    """Numbers, of which some are nan."""
    return np.where(np.arange(math.prod(shape)).reshape(shape) % 3 == 1, np.nan, rng.uniform(0.5, 2.0, shape))


def _by_mpmath(f):
    return lambda x: np.array([float(f(mpmath.mpf(float(v)))) for v in x.ravel()]).reshape(x.shape).astype(x.dtype)


def _joined(parts):
    """Parts of different sizes as one row, each times another number."""
    return sum([k * p.sum() for k, p in enumerate(parts, 1)])


ACTIVATIONS = {
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "gelu": lambda x: x * mpmath.ncdf(x),
    "elu": lambda x: x if x > 0 else mpmath.expm1(x),
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * mpmath.expm1(x)),
    "leaky_relu": lambda x: x if x > 0 else x / 100,
    "log_sigmoid": lambda x: -mpmath.log(1 + mpmath.exp(-x)),
    "mish": lambda x: x * mpmath.tanh(mpmath.log(1 + mpmath.exp(x))),
    "relu6": lambda x: min(max(x, 0), 6),
}

CASES = [
    *[c for name in ("hstack", "vstack", "dstack", "column_stack")
      for c in cases(name, *_stacked(name), dtypes=SOME, shapes=(("[3]", "[3]"), ("[2,3]", "[2,3]")))],
    case("hstack-uneven", *_stacked("hstack"), ["f64[2]", "f64[3]"]),
    case("column_stack-mixed", *_stacked("column_stack"), ["f64[2]", "f64[2,3]"]),
    case("vstack-mixed", *_stacked("vstack"), ["f64[3]", "f64[2,3]"]),
    *[c for name in ("atleast_1d", "atleast_2d", "atleast_3d")
      for c in cases(name, getattr(ad, name), getattr(np, name), dtypes=SOME,
                     shapes=("[]", "[3]", "[2,3]", "[2,1,3]"))],
    *[case(f"array_split-{n}", lambda x, n=n: _joined(ad.array_split(x, n)),
           lambda x, n=n: np.asarray(_joined(np.array_split(x, n))), ["f64[7]"], ulps=16) for n in (1, 3, 9)],
    case("hsplit", lambda x: _joined(ad.hsplit(x, 2)), lambda x: np.asarray(_joined(np.hsplit(x, 2))), ["f64[3,4]"],
         ulps=16),
    case("vsplit", lambda x: _joined(ad.vsplit(x, [1])), lambda x: np.asarray(_joined(np.vsplit(x, [1]))), ["f64[3,4]"],
         ulps=16),
    *cases("average", lambda x, w: ad.average(x, 0, w), lambda x, w: np.average(x, 0, w), (None, between(0.5, 2)),
           shapes=(("[3,4]", "[3]"), ("[3,4]", "[3,4]")), ulps=32),
    case("average-plain", ad.average, lambda x: np.asarray(np.average(x)), ["f64[3,4]"], ulps=32),
    *cases("ptp", lambda x: ad.ptp(x, axis=1), lambda x: np.ptp(x, axis=1), distinct, dtypes=("f64", "f32", "i64"),
           shapes=("[3,4]",)),
    *cases("cov", ad.cov, lambda x: np.cov(x).astype(x.dtype), shapes=("[3,5]", "[5]"), ulps=256),
    case("cov-columns", lambda x, y: ad.cov(x, y, rowvar=False, ddof=0), lambda x, y: np.cov(x, y, False, ddof=0),
         ["f64[5,2]", "f64[5,3]"], ulps=256),
    *cases("corrcoef", ad.corrcoef, lambda x: np.corrcoef(x).astype(x.dtype), shapes=("[3,6]",), ulps=1024),
    *cases("vdot", ad.vdot, lambda a, b: np.asarray(np.vdot(a, b)), shapes=(("[2,3]", "[6]"),), ulps=64),
    *cases("vecdot", ad.vecdot, lambda a, b: (a * b).sum(-1), shapes=(("[2,3]", "[3]"),), ulps=64),
    *cases("count_nonzero", lambda x: ad.count_nonzero(x, axis=0), lambda x: np.count_nonzero(x, axis=0),
           dtypes=SOME, shapes=("[3,4]",), smooth=False),
    case("bincount", lambda x, w: ad.bincount(x, w, length=6), lambda x, w: np.bincount(x, w, 6),
         ["i64[7]", "f64[7]"], [integers(0, 5), None], ulps=16),
    *cases("nanprod", lambda x: ad.nanprod(x, axis=1), lambda x: np.nanprod(x, axis=1), shapes=("[3,4]",), ulps=16),
    case("nanprod-holed", lambda x: ad.nanprod(x, axis=1), lambda x: np.nanprod(x, axis=1), ["f64[3,4]"], _holed,
         smooth=False, ulps=16),
    *[c for name in ("nancumsum", "nancumprod") for c in cases(
        name, lambda x, name=name: getattr(ad, name)(x, 1), lambda x, name=name: getattr(np, name)(x, 1),
        shapes=("[3,4]",), ulps=64)],
    *[c for name in ("nanvar", "nanstd") for c in cases(
        name, lambda x, name=name: getattr(ad, name)(x, 1, ddof=1),
        lambda x, name=name: getattr(np, name)(x, 1, ddof=1), shapes=("[3,4]",), ulps=256)],
    *[c for name, f in ACTIVATIONS.items()
      for c in cases(name, getattr(ad, name), _by_mpmath(f), away(0.3, 4), shapes=("[5]",), ulps=64)],
    *cases("gelu-tanh", lambda x: ad.gelu(x, approximate=True), _by_mpmath(
        lambda x: x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + 0.044715 * x**3)))), away(0.3, 2),
        shapes=("[5]",), ulps=64),
]  # fmt: skip
