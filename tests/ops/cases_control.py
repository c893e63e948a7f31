"""Cases of control flow: loops, branches, and what is computed again."""

import numpy as np

import autodiff as ad

from .cases import between, cases


def _recurrence(w, x):
    last, given = ad.scan(lambda h, x: (ad.tanh(h * w + x), h * 0.5), ad.zeros_like(w), x)
    return last + ad.sum(given, axis=0)


def _recurrence_by_numpy(w, x):
    h, total = np.zeros_like(w), np.zeros_like(w)
    for element in x:
        total = total + h * w.dtype.type(0.5)
        h = np.tanh(h * w + element)
    return h + total


def _cubed_until_small(x):
    return ad.while_loop(lambda v: ad.max(ad.abs(v)) > 0.1, lambda v: v * v * v * 0.5, x)


def _cubed_by_numpy(x):
    while np.max(np.abs(x)) > 0.1:
        x = x * x * x * x.dtype.type(0.5)
    return x


def _either(x):
    return ad.cond(ad.sum(x) > 0, lambda x: x * x, lambda x: ad.exp(x), x)


def _either_by_numpy(x):
    return x * x if np.sum(x) > 0 else np.exp(x)


CASES = [
    *cases("scan", _recurrence, _recurrence_by_numpy, between(-1, 1), ulps=32,
           shapes=(("[3]", "[4,3]"), ("[]", "[2]"), ("[0]", "[2,0]"), ("[2,2]", "[1,2,2]"))),
    *cases("fori_loop", lambda x: ad.fori_loop(0, 3, lambda i, v: v * x + 1.0, x),
           lambda x: ((x * x + 1) * x + 1) * x + 1, between(-1, 1), ulps=32),
    *cases("while_loop", _cubed_until_small, _cubed_by_numpy, between(0.5, 1), shapes=("[]", "[5]", "[3,4]"), ulps=64),
    *cases("cond", _either, _either_by_numpy, between(0.1, 1)),
    *cases("cond-else", _either, _either_by_numpy, between(-1, -0.1), shapes=("[]", "[5]", "[3,4]"), ulps=16),
    *cases("checkpoint", lambda x: ad.checkpoint(lambda y: ad.sin(y) * ad.exp(y))(x), lambda x: np.sin(x) * np.exp(x),
           between(-1, 1), ulps=16),
]  # fmt: skip
