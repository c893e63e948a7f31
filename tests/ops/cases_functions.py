"""Cases of special functions, quantiles, searches, sequences and what else is imported late."""

import mpmath
import numpy as np

import autodiff as ad
from autodiff.ops import special as sp  # with what has no public name

from .cases import away, between, case, cases, distinct


def _by_mpmath(f):
    """A function of one number of mpmath's, on arrays."""
    return lambda x: np.vectorize(lambda v: float(f(mpmath.mpf(float(v)))), otypes=[x.dtype])(x) if x.size else x


def _cells(f):
    """A function of two numbers of mpmath's, on arrays."""
    return lambda x, y: np.vectorize(lambda v, w: float(f(mpmath.mpf(float(v)), mpmath.mpf(float(w)))),
                                     otypes=[x.dtype])(x, y)


def _log_normal(x):
    return mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


def _scaled_bessel(order):
    return lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(order, x)


def _xlogx_over(x, y):
    return x * mpmath.log(x / y)


def _edges(rng, shape):
    """Numbers in rising order, none close to another."""
    return np.cumsum(rng.uniform(0.5, 1.0, shape))


def _phases(rng, shape):
    """Far from where a jump is as long as half a period."""
    return np.cumsum(rng.choice([-4.5, -1.0, 1.0, 4.5], shape), axis=-1) + rng.uniform(-0.1, 0.1, shape)


SPECIAL = [
    ("gammaln", mpmath.loggamma, between(0.3, 9)), ("gamma", mpmath.gamma, between(0.3, 6)),
    ("digamma", mpmath.digamma, between(2, 9)), ("factorial", mpmath.factorial, between(0.3, 4)),
    ("erfc", mpmath.erfc, between(-3, 3)), ("log_ndtr", _log_normal, between(-5, 1)),
    ("mills", lambda x: mpmath.npdf(x) / mpmath.ncdf(x), between(-5, 1)), ("ndtr", mpmath.ncdf, between(-3, 3)),
    ("i0", lambda x: mpmath.besseli(0, x), away(0.3, 9)), ("i1", lambda x: mpmath.besseli(1, x), away(0.3, 9)),
    ("i0e", _scaled_bessel(0), away(0.3, 9)), ("i1e", _scaled_bessel(1), away(0.3, 9)),
    ("entr", lambda x: -x * mpmath.log(x), between(0.5, 3)),
    ("expit", lambda x: 1 / (1 + mpmath.exp(-x)), between(-3, 3)),
    ("logit", lambda x: mpmath.log(x / (1 - x)), between(0.1, 0.4)),
    ("logit_slope", lambda x: 1 / (x * (1 - x)), between(0.1, 0.4)),
]  # fmt: skip
PAIRS = [
    ("beta", mpmath.beta), ("betaln", lambda a, b: mpmath.log(mpmath.beta(a, b))),
    ("xlogy", lambda x, y: x * mpmath.log(y)), ("xlog1py", lambda x, y: x * mpmath.log(1 + y)),
    ("rel_entr", _xlogx_over), ("kl_div", lambda x, y: _xlogx_over(x, y) - x + y),
]  # fmt: skip
ROWS = ("[7]", "[3,4]")

CASES = [
    *[c for name, f, draw in SPECIAL
      for c in cases(name, getattr(sp, name), _by_mpmath(f), draw, shapes=("[5]",), ulps=64)],
    *[c for n in range(3) for c in cases(f"polygamma-{n}", lambda x, n=n: sp.polygamma(n, x),
      _by_mpmath(lambda v, n=n: mpmath.polygamma(n, v)), between(2, 14), shapes=("[5]",), ulps=64)],
    *cases("multigammaln", lambda x: sp.multigammaln(x, 3), _by_mpmath(lambda a: mpmath.log(
        mpmath.pi ** 1.5 * mpmath.gamma(a) * mpmath.gamma(a - 0.5) * mpmath.gamma(a - 1))), between(3, 6),
        shapes=("[5]",), ulps=64),
    *[c for name, f in PAIRS
      for c in cases(name, getattr(sp, name), _cells(f), (between(0.5, 1.5), between(2, 4)),
                     shapes=(("[5]", "[5]"), ("[3,1]", "[4]")), ulps=256)],
    *cases("exp2", ad.exp2, np.exp2, between(-3, 3), shapes=("[5]",)),
    *cases("cbrt", ad.cbrt, np.cbrt, away(0.3, 3), shapes=("[5]",)),
    *cases("sinc", ad.sinc, np.sinc, away(0.2, 0.8), shapes=("[5]",), ulps=16),
    *cases("sinc-near", ad.sinc, np.sinc, between(-0.01, 0.01), shapes=("[5]",)),
    *cases("logaddexp2", ad.logaddexp2, np.logaddexp2, between(0.5, 3), shapes=(("[5]", "[5]"),), ulps=16),
    *cases("heaviside", ad.heaviside, np.heaviside, (away(0.3, 2), None), shapes=(("[5]", "[5]"),)),
    *cases("deg2rad", ad.deg2rad, np.deg2rad, shapes=("[5]",)),
    *cases("rad2deg", ad.rad2deg, np.rad2deg, shapes=("[5]",)),
    *cases("nan_to_num", ad.nan_to_num, np.nan_to_num, shapes=("[5]",)),
    *cases("isclose", ad.isclose, np.isclose, shapes=(("[5]", "[5]"),), smooth=False),
    *cases("allclose", lambda x: ad.allclose(x, x * 1), lambda x: np.allclose(x, x), shapes=("[5]",), smooth=False),
    *cases("cross", ad.cross, np.cross, shapes=(("[4,3]", "[3]"), ("[3]", "[3]"))),
    *cases("kron", ad.kron, np.kron, shapes=(("[2,3]", "[3,2]"), ("[3]", "[2,2]"))),
    *cases("rot90", ad.rot90, np.rot90, shapes=("[2,3]", "[2,3,2]")),
    *cases("flipud", ad.flipud, np.flipud, shapes=("[2,3]",)),
    *cases("fliplr", ad.fliplr, np.fliplr, shapes=("[2,3]",)),
    *[c for name in ("median", "nanmedian") for c in cases(
        name, lambda x, name=name: getattr(ad, name)(x, axis=-1),
        lambda x, name=name: getattr(np, name)(x, axis=-1), distinct, shapes=ROWS)],
    *[c for name, q in (("quantile", 0.3), ("nanquantile", 0.3), ("percentile", 30.0), ("nanpercentile", 30.0))
      for c in cases(name, lambda x, name=name, q=q: getattr(ad, name)(x, q, axis=0),
                     lambda x, name=name, q=q: getattr(np, name)(x, q, axis=0).astype(x.dtype), distinct, shapes=ROWS,
                     ulps=64)],
    *cases("quantile-shares", ad.quantile, lambda x, q: np.quantile(x, q).astype(x.dtype),
           (distinct, between(0.26, 0.29)), shapes=(("[6]", "[2]"),), ulps=64),
    *[c for side in ("left", "right") for c in cases(
        f"searchsorted-{side}", lambda a, v, side=side: ad.searchsorted(a, v, side),
        lambda a, v, side=side: np.searchsorted(a, v, side), (_edges, between(0, 5)),
        shapes=(("[6]", "[2,3]"), ("[6]", "[]"), ("[1]", "[3]"), ("[0]", "[3]")), smooth=False)],
    *cases("digitize", lambda x, b: ad.digitize(x, b), np.digitize, (between(0, 5), _edges),
           shapes=(("[3,4]", "[6]"),), smooth=False),
    case("histogram", lambda x, w: ad.histogram(x, 4, (-2.0, 2.0), weights=w)[0],
         lambda x, w: np.histogram(x, 4, (-2.0, 2.0), weights=w)[0], ["f64[9]", "f64[9]"], wrt=(1,)),
    *cases("interp", ad.interp, lambda x, a, b: np.interp(x, a, b).astype(x.dtype), (between(1.1, 1.3), _edges, None),
           shapes=(("[4]", "[5]", "[5]"),), ulps=64),
    *cases("trapezoid", ad.trapezoid, np.trapezoid, (None, _edges), shapes=(("[3,4]", "[4]"),), ulps=64),
    *cases("ediff1d", lambda x: ad.ediff1d(x, to_end=1.0), lambda x: np.ediff1d(x, to_end=x.dtype.type(1)),
           shapes=("[5]",)),
    *cases("unwrap", ad.unwrap, np.unwrap, _phases, shapes=("[6]", "[2,5]"), ulps=64),
    *cases("polyval", ad.polyval, np.polyval, shapes=(("[4]", "[3]"),), ulps=64),
    *cases("vander", lambda x: ad.vander(x, 3), lambda x: np.vander(x, 3).astype(x.dtype), shapes=("[4]",)),
    *[c for name in ("convolve", "correlate") for mode in ("full", "same", "valid") for c in cases(
        f"{name}-{mode}", lambda a, v, name=name, mode=mode: getattr(ad, name)(a, v, mode),
        lambda a, v, name=name, mode=mode: getattr(np, name)(a, v, mode), shapes=(("[5]", "[2]"), ("[3]", "[4]")),
        ulps=64)],
    *cases("convolve-windows", lambda a, v: ad.convolve(a, v, "same"), lambda a, v: np.convolve(a, v, "same"),
           shapes=(("[36]", "[33]"),), ulps=256),
]  # fmt: skip
