"""Cases of random numbers, from keys that are drawn, and of the inverse of the error function."""

import math

import numpy as np

import autodiff as ad

from .cases import between, case, cases, integers
from .threefry import erfinv, uniforms, words

KEY = "i32[2]"
ANY = integers(-(2**31), 2**31)
SHAPES = ((), (0,), (5,), (3, 4))
FLOATS = (np.float32, np.float64)
#: Another dtype draws other numbers: what is smooth in a parameter is differentiated in f64 alone.
r = ad.random


def _signed(u):
    return u * u.dtype.type(2) + np.nextafter(u.dtype.type(-1), u.dtype.type(0))


def _laplace(u):
    s = _signed(u).astype(np.float64)
    return -np.sign(s) * np.log1p(-np.abs(s))


def _pairs(key, counters):
    return np.array([words(key, c) for c in counters], np.int64).astype(np.uint32).view(np.int32)


def _wide(key, n):
    return np.array([(a << 32 | b) for a, b in (words(key, (0, i)) for i in range(n))], np.uint64).view(np.int64)


def _exact(u):
    return u.astype(np.float64) + float(np.finfo(u.dtype).tiny)


#: Of uniform numbers, in f64 where a logarithm follows.
DRAWN = {
    "uniform": lambda u: u,
    "normal": lambda u: math.sqrt(2) * erfinv(_signed(u).astype(np.float64)),
    "exponential": lambda u: -np.log1p(-u.astype(np.float64)),
    "gumbel": lambda u: -np.log(-np.log(_exact(u))),
    "laplace": _laplace,
    "logistic": lambda u: np.log(_exact(u)) - np.log1p(-u.astype(np.float64)),
}


def _draws(name, shape, dtype):
    return case(
        f"random-{name}-{shape}-{dtype.__name__}",
        lambda key: getattr(r, name)(key, shape, dtype),
        lambda key: DRAWN[name](uniforms(key, shape, dtype)).astype(dtype),
        [KEY], ANY, smooth=False, ulps=64,
    )  # fmt: skip


CASES = [
    *cases("erfinv", ad.erfinv, erfinv, between(-0.9, 0.9)),
    *cases("erfinv-tail", ad.erfinv, erfinv, between(0.99, 0.999), ulps=8, smooth=False),
    *[_draws(name, shape, dtype) for name in DRAWN for shape in SHAPES for dtype in FLOATS],
    case("random-key", lambda x: r.key(x),
         lambda x: np.array([x >> 32, x & 0xFFFFFFFF]).astype(np.uint32).view(np.int32), ["i64[]"],
         integers(-(2**62), 2**62), smooth=False),
    case("random-key-small", lambda x: r.key(x), lambda x: np.array([-1 if x < 0 else 0, x], np.int32), ["i32[]"],
         smooth=False),
    case("random-split", lambda k: r.split(k), lambda k: _pairs(k, [(0, 0), (0, 1)]), [KEY], ANY, smooth=False),
    case("random-split-shape", lambda k: r.split(k, (2, 3)),
         lambda k: _pairs(k, [(0, i) for i in range(6)]).reshape(2, 3, 2), [KEY], ANY, smooth=False),
    case("random-fold-in", lambda k, n: r.fold_in(k, n), lambda k, n: _pairs(k, [(0, int(n))])[0], [KEY, "i64[]"],
         [ANY, integers(0, 99)], smooth=False),
    case("random-bits", lambda k: r.bits(k, (2, 2)),
         lambda k: np.bitwise_xor.reduce(_pairs(k, [(0, i) for i in range(4)]), axis=1).reshape(2, 2), [KEY], ANY,
         smooth=False),
    case("random-bits-wide", lambda k: r.bits(k, (4,), np.int64), lambda k: _wide(k, 4), [KEY], ANY, smooth=False),
    *[
        case(f"random-uniform-bounds-{dtype}", lambda k, a, b: r.uniform(k, (3, 4), a.dtype, a, b),
             lambda k, a, b: uniforms(k, (3, 4), a.dtype) * (b - a) + a, [KEY, f"{dtype}[4]", f"{dtype}[3,1]"],
             [ANY, between(-1, 0), between(1, 2)], smooth=dtype == "f64")
        for dtype in ("f32", "f64")
    ],
    case("random-randint", lambda k, a: r.randint(k, (5,), a, a + 7),
         lambda k, a: (_wide(k, 5) >> 1) % 7 + a, [KEY, "i64[]"], [ANY, integers(-9, 9)], smooth=False),
    case("random-randint-i32", lambda k: r.randint(k, (2, 3), -4, 4, np.int32),
         lambda k: ((_wide(k, 6) >> 1) % 8 - 4).astype(np.int32).reshape(2, 3), [KEY], ANY, smooth=False),
    case("random-bernoulli", lambda k, p: r.bernoulli(k, p), lambda k, p: uniforms(k, p.shape, p.dtype) < p,
         [KEY, "f32[6]"], [ANY, between(0, 1)], smooth=False),
    case("random-bernoulli-shape", lambda k: r.bernoulli(k, 0.25, (7,)),
         lambda k: uniforms(k, (7,), np.float64) < 0.25, [KEY], ANY, smooth=False),
    case("random-categorical", lambda k, x: r.categorical(k, x, 0, (2, 3)),
         lambda k, x: (DRAWN["gumbel"](uniforms(k, (2, 4, 3), x.dtype)) + x).argmax(1), [KEY, "f64[4,3]"],
         [ANY, between(-1, 1)], smooth=False),
    case("random-permutation", lambda k: r.permutation(k, 6), lambda k: np.argsort(_wide(k, 6)), [KEY], ANY,
         smooth=False),
    case("random-permutation-axis", lambda k, x: r.permutation(k, x, axis=1),
         lambda k, x: x[:, np.argsort(_wide(k, 5))],
         [KEY, "f64[2,5]"], [ANY, None], wrt=(1,)),
    case("random-choice", lambda k, x: r.choice(k, x, (2, 2)), lambda k, x: x[(_wide(k, 4) >> 1) % 5].reshape(2, 2),
         [KEY, "f64[5]"], [ANY, None], wrt=(1,)),
    case("random-choice-once", lambda k: r.choice(k, 5, (3,), replace=False), lambda k: np.argsort(_wide(k, 5))[:3],
         [KEY], ANY, smooth=False),
    case("random-choice-weights", lambda k, p: r.choice(k, 4, (6,), p=p),
         lambda k, p: np.searchsorted(np.cumsum(p), uniforms(k, (6,), p.dtype) * p.sum(), side="right"),
         [KEY, "f64[4]"], [ANY, between(0.1, 1)], smooth=False),
    case("random-choice-weights-once", lambda k, p: r.choice(k, 4, (4,), replace=False, p=p),
         lambda k, p: np.argsort(-np.log(p) - DRAWN["gumbel"](uniforms(k, (4,), p.dtype))), [KEY, "f64[4]"],
         [ANY, between(0.1, 1)], smooth=False),
    *[
        case(f"random-truncated-normal-{dtype}", lambda k, a, b: r.truncated_normal(k, a, b, (4,), a.dtype),
             lambda k, a, b: _truncated(k, a, b), [KEY, f"{dtype}[]", f"{dtype}[4]"],
             [ANY, between(-1, 0), between(0.5, 2)], smooth=dtype == "f64", ulps=64)
        for dtype in ("f32", "f64")
    ],
]  # fmt: skip


def _truncated(key, a, b):
    u, erf = uniforms(key, (4,), a.dtype).astype(np.float64), np.vectorize(math.erf)
    low, high = erf(a / math.sqrt(2)), erf(b / math.sqrt(2))
    return np.clip(math.sqrt(2) * erfinv(low + u * (high - low)), a, b).astype(a.dtype)
