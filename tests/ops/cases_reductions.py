"""Cases of reductions, statistics and scans."""

import numpy as np

import autodiff as ad

from .cases import away, case, cases, distinct

NUMERIC = ("f64", "f32", "i64", "i32")
ALL = (*NUMERIC, "bool")
AXES = {"all": None, "0": 0, "-1": -1, "02": (0, 2), "none": ()}
SHAPES = ("[2,3,4]",)
EMPTY = ("[0]", "[0,3]", "[2,0]")


def _named(name, numpy_name=None):
    return getattr(ad, name), getattr(np, numpy_name or name)


def _over_axes(name, draws=None, dtypes=NUMERIC, **options):
    """A reduction over some axes, with and without keepdims, as NumPy does it."""
    ours, numpys = _named(name)
    found = []
    for label, axis in AXES.items():
        for keep in (False, True):
            found += cases(
                f"{name}-{label}{'-kept' if keep else ''}",
                lambda x, axis=axis, keep=keep: ours(x, axis, keepdims=keep),
                lambda x, axis=axis, keep=keep: np.asarray(numpys(x, axis=axis, keepdims=keep)),
                draws,
                dtypes=dtypes,
                shapes=SHAPES,
                **options,
            )
    scalar = cases(f"{name}-0d", ours, lambda x: np.asarray(numpys(x)), draws, dtypes=dtypes, shapes=("[]",), **options)
    return found + scalar


def _of_nothing(name, dtypes):
    ours, numpys = _named(name)
    return [
        *cases(f"{name}-of-nothing", lambda x: ours(x), lambda x: np.asarray(numpys(x)), dtypes=dtypes, shapes=EMPTY),
        *cases(f"{name}-rows", lambda x: ours(x, -1), lambda x: np.asarray(numpys(x, -1)), dtypes=dtypes, shapes=EMPTY),
    ]


def _some_zeros(rng, shape):
    """Factors of which several are zero."""
    x = rng.uniform(0.5, 2, shape)
    x[rng.random(shape) < 0.3] = 0.0
    return x


def _logsumexp(x, axis=None):
    return np.log(np.sum(np.exp(x), axis=axis))


def _softmax(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def _pairs(name, ours, numpys, dtypes=("f64", "f32"), shapes=("[2,3,4]",), draws=None, **options):
    return cases(name, ours, numpys, draws, dtypes=dtypes, shapes=shapes, **options)


CASES = [
    *_over_axes("sum", dtypes=ALL),
    *_of_nothing("sum", ALL),
    *_pairs("sum-dtype", lambda x: ad.sum(x, 0, dtype=float), lambda x: x.sum(0, dtype=float), ("f32", "i64")),
    *_over_axes("prod", draws=away(0.5, 1.5), dtypes=("f64", "f32"), ulps=16),
    *_over_axes("prod", dtypes=("i64", "i32", "bool")),
    *_of_nothing("prod", ("f64", "i32", "bool")),
    *_pairs("prod-zeros", lambda x: ad.prod(x, 1), lambda x: x.prod(1), ("f64",), ("[4,5]",), _some_zeros),
    *_pairs("prod-zeros-all", lambda x: ad.prod(x),
           lambda x: np.asarray(x.prod()), ("f64",), ("[7]", "[2,3]"), _some_zeros),
    *_over_axes("max", draws=distinct),
    *_over_axes("min", draws=distinct),
    *_over_axes("max", dtypes=("bool",)),
    *_over_axes("min", dtypes=("bool",)),
    *_over_axes("any", dtypes=ALL, smooth=False),
    *_over_axes("all", dtypes=ALL, smooth=False),
    *_of_nothing("any", ("bool",)),
    *_of_nothing("all", ("bool",)),
    *[
        c
        for name in ("argmax", "argmin")
        for axis in (None, 0, -1)
        for keep in (False, True)
        for c in cases(
            f"{name}-{axis}{'-kept' if keep else ''}",
            lambda x, name=name, axis=axis, keep=keep: getattr(ad, name)(x, axis, keepdims=keep),
            lambda x, name=name, axis=axis, keep=keep: np.asarray(getattr(np, name)(x, axis, keepdims=keep)),
            dtypes=ALL,
            shapes=("[2,3,4]", "[5]"),
            smooth=False,
        )
    ],
    *_over_axes("mean", dtypes=ALL),
    *_over_axes("var", dtypes=ALL, ulps=16),
    *_over_axes("std", dtypes=("f64", "f32"), ulps=16),
    case("var-ddof", lambda x: ad.var(x, 1, ddof=1), lambda x: x.var(1, ddof=1), ["f64[3,4]"]),
    case("std-correction", lambda x: ad.std(x, 1, correction=1), lambda x: x.std(1, ddof=1), ["f64[3,4]"]),
    *_pairs("logsumexp", lambda x: ad.logsumexp(x, -1), lambda x: _logsumexp(x, -1), ulps=16),
    *_pairs("logsumexp-all", lambda x: ad.logsumexp(x),
           lambda x: np.asarray(_logsumexp(x)), ("f64",), ("[]", "[5]", "[2,3]"), ulps=16),
    *_pairs("logsumexp-none", lambda x: ad.logsumexp(x, 1), lambda x: _logsumexp(x, 1), ("f64",), ("[2,0]", "[0,3]"),
           smooth=False),
    *_pairs("softmax", lambda x: ad.softmax(x), _softmax, ("f64", "f32"), ("[5]", "[3,4]", "[0,3]"), ulps=16),
    *_pairs("softmax-0", lambda x: ad.softmax(x, axis=0), lambda x: _softmax(x, 0), ("f64",), ("[3,4]",), ulps=16),
    *_pairs("softmax-of-integers", lambda x: ad.softmax(x),
           lambda x: _softmax(x.astype(float)), ("i32",), ("[5]",), ulps=16),
    *_pairs("log-softmax", lambda x: ad.log_softmax(x),
           lambda x: np.log(_softmax(x)), ("f64", "f32"), ("[5]", "[3,4]"), ulps=32),
    *_pairs("cumsum", lambda x: ad.cumsum(x, 1), lambda x: np.cumsum(x, 1), ALL, ("[2,3,4]", "[2,0]"), ulps=16),
    *_pairs("cumprod", lambda x: ad.cumprod(x, 1), lambda x: np.cumprod(x, 1), ALL, ("[2,3,4]", "[2,0]"), ulps=16),
    *_pairs("cumprod-flat", lambda x: ad.cumprod(x),
           lambda x: np.cumprod(x), ("f64", "i32"), ("[]", "[6]", "[2,3]"), ulps=16),
    *_pairs("cumprod-last", lambda x: ad.cumprod(x, -1),
           lambda x: np.cumprod(x, -1), ("f64", "f32"), ("[2,3,4]", "[1]"), ulps=16),
    *_pairs("cumsum-flat", lambda x: ad.cumsum(x),
           lambda x: np.cumsum(x), ("f64", "i32"), ("[]", "[6]", "[2,3]"), ulps=16),
    *_pairs("cumsum-last", lambda x: ad.cumsum(x, -1), lambda x: np.cumsum(x, -1), ("f64",), ("[2,3,4]",), ulps=16),
]  # fmt: skip
