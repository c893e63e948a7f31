"""Cases of running extremes, and of reductions that leave nan out."""

import numpy as np

import autodiff as ad

from .cases import cases, distinct

NUMERIC = ("f64", "f32", "i64", "i32")


def _holed(rng, shape):
    """Numbers of which no two are close, and some nan; never a whole row of them."""
    x = np.array(distinct(rng, shape))
    x.reshape(-1)[1::5] = np.nan
    return x


def _running(name, numpy):
    def ours(x, *axis):
        return getattr(ad, name)(x, *axis)

    return [
        *cases(name, lambda x: ours(x, 1), lambda x: numpy.accumulate(x, 1), distinct, dtypes=NUMERIC,
               shapes=("[2,3,4]", "[2,0]", "[3,9]")),
        *cases(f"{name}-flat", lambda x: ours(x), lambda x: numpy.accumulate(x.reshape(-1)), distinct,
               dtypes=("f64", "i32"), shapes=("[]", "[6]", "[2,3]", "[1]", "[33]")),
        *cases(f"{name}-last", lambda x: ours(x, -1), lambda x: numpy.accumulate(x, -1), distinct,
               dtypes=("f64", "f32"), shapes=("[2,3,4]", "[1]")),
    ]  # fmt: skip


def _without_nan(name):
    numpys = getattr(np, name)
    return [
        c
        for label, axis in {"all": None, "0": 0, "-1": -1, "02": (0, 2)}.items()
        for keep in (False, True)
        for dtypes, draws in ((("f64", "f32"), _holed), (("i64",), None))
        for c in cases(
            f"{name}-{label}{'-kept' if keep else ''}",
            lambda x, axis=axis, keep=keep: getattr(ad, name)(x, axis, keepdims=keep),
            lambda x, axis=axis, keep=keep: np.asarray(numpys(x, axis=axis, keepdims=keep)),
            draws, dtypes=dtypes, shapes=("[2,3,4]",), ulps=16,
        )
    ]  # fmt: skip


CASES = [
    *_running("cummax", np.maximum),
    *_running("cummin", np.minimum),
    *[c for name in ("nansum", "nanmean", "nanmax", "nanmin") for c in _without_nan(name)],
]
