"""Cases of the elementwise operations, creation and conversion."""

import math

import numpy as np

import autodiff as ad
from autodiff.ops.arithmetic import mul0

from .cases import TWO, away, between, case, cases, distinct, integers

F = ("f64", "f32")
NUMERIC = ("f64", "f32", "i64", "i32")
INTEGERS = ("i64", "i32")
ALL = (*NUMERIC, "bool")


def _unary(name, expected, draw=None, **options):
    return cases(name, getattr(ad, name), expected, draw, pointwise=True, **options)


def _binary(name, expected, draw=None, **options):
    return cases(name, getattr(ad, name), expected, draw, shapes=TWO, pointwise=True, **options)


def _erf(x):
    return np.vectorize(math.erf, otypes=[x.dtype])(x) if x.size else x


def _as_float(f):
    """NumPy's function for bool, which it would compute in half precision."""
    return lambda *xs: f(*[x.astype(np.float64) if x.dtype.kind in "bi" else x for x in xs])


def _unbroadcast(g, like):
    """Summed over the axes along which `like` is broadcast."""
    more = g.ndim - like.ndim
    axes = (*range(more), *[more + k for k, n in enumerate(like.shape) if n == 1])
    return np.asarray(g.sum(axes)).reshape(like.shape)


def _caster(dtype):
    return lambda x: ad.astype(x, dtype)


FUNCTIONS = [
    ("exp", np.exp, between(-2, 2)),
    ("expm1", np.expm1, between(-2, 2)),
    ("log", np.log, between(0.1, 3)),
    ("log1p", np.log1p, between(-0.8, 3)),
    ("log2", np.log2, between(0.1, 3)),
    ("log10", np.log10, between(0.1, 3)),
    ("sqrt", np.sqrt, between(0.1, 3)),
    ("sin", np.sin, between(-4, 4)),
    ("cos", np.cos, between(-4, 4)),
    ("tan", np.tan, between(-1.2, 1.2)),
    ("sinh", np.sinh, between(-2, 2)),
    ("cosh", np.cosh, between(-2, 2)),
    ("tanh", np.tanh, between(-2, 2)),
    ("arcsin", np.arcsin, between(-0.8, 0.8)),
    ("arccos", np.arccos, between(-0.8, 0.8)),
    ("arctan", np.arctan, between(-3, 3)),
    ("arcsinh", np.arcsinh, between(-3, 3)),
    ("arccosh", np.arccosh, between(1.2, 4)),
    ("arctanh", np.arctanh, between(-0.8, 0.8)),
    ("erf", _erf, between(-2, 2)),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), between(-4, 4)),
    ("softplus", lambda x: np.log1p(np.exp(x)), between(-4, 4)),
    ("reciprocal", lambda x: 1 / x, away(0.3, 2)),
]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]

CASES = [
    *[c for name, expected, draw in FUNCTIONS for c in _unary(name, expected, draw)],
    *[
        case(name, getattr(ad, name), _as_float(expected), [f"{dtype}[4]"], integers(1, 3), smooth=False)
        for name, expected, _ in FUNCTIONS
        if name not in ("arcsin", "arccos", "arctanh")
        for dtype in INTEGERS
    ],
    *[c for name in ("floor", "ceil", "trunc", "rint") for c in _unary(name, getattr(np, name), smooth=False)],
    *_unary("rint", _as_float(np.rint), dtypes=(*INTEGERS, "bool"), smooth=False),
    *[c for n in ("floor", "ceil", "trunc") for c in _unary(n, lambda x: x, dtypes=(*INTEGERS, "bool"), smooth=False)],
    *_unary("round", np.round, smooth=False),
    *_unary("abs", np.abs, dtypes=ALL),
    *_unary("negative", np.negative, dtypes=NUMERIC),
    *_unary("positive", lambda x: x, dtypes=NUMERIC),
    *_unary("sign", np.sign, dtypes=NUMERIC, smooth=False),
    *_unary("square", np.square, dtypes=NUMERIC),
    *_unary("relu", lambda x: np.maximum(x, 0), dtypes=NUMERIC),
    *_unary("isnan", np.isnan, dtypes=NUMERIC, smooth=False),
    *_unary("isinf", np.isinf, dtypes=NUMERIC, smooth=False),
    *_unary("isfinite", np.isfinite, dtypes=NUMERIC, smooth=False),
    *_unary("logical_not", np.logical_not, dtypes=ALL, smooth=False),
    *_unary("bitwise_invert", np.invert, dtypes=(*INTEGERS, "bool"), smooth=False),
    *_binary("add", np.add, dtypes=ALL),
    *_binary("subtract", np.subtract, dtypes=NUMERIC),
    *_binary("multiply", np.multiply, dtypes=ALL),
    *_binary("divide", np.divide, dtypes=(*F, *INTEGERS)),
    *_binary("floor_divide", np.floor_divide, dtypes=NUMERIC, smooth=False),
    *_binary("mod", np.mod, dtypes=NUMERIC, order=2),
    *_binary("hypot", np.hypot),
    *_binary("arctan2", np.arctan2),
    *_binary("logaddexp", np.logaddexp, ulps=8),
    *_binary("power", np.power, between(0.3, 2)),
    *_binary("maximum", np.maximum, dtypes=ALL),
    *_binary("minimum", np.minimum, dtypes=ALL),
    *[c for name in COMPARISONS for c in _binary(name, getattr(np, name), dtypes=ALL, smooth=False)],
    *[
        c
        for name in ("logical_and", "logical_or", "logical_xor")
        for c in _binary(name, getattr(np, name), dtypes=ALL, smooth=False)
    ],
    *[
        c
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
        for c in _binary(name, getattr(np, name), dtypes=(*INTEGERS, "bool"), smooth=False)
    ],
    *_binary("bitwise_left_shift", np.left_shift, integers(0, 5), dtypes=INTEGERS, smooth=False),
    *_binary("bitwise_right_shift", np.right_shift, integers(0, 5), dtypes=INTEGERS, smooth=False),
    *cases("integer_power", ad.power, np.power, integers(0, 4), dtypes=INTEGERS, shapes=TWO),
    *[
        c
        for n in (0, 1, 2, 3, -1, -2, 7, 0.5, -0.5)
        for c in cases(f"power_to_{n}", lambda x, n=n: x**n, lambda x, n=n: x**n, between(0.3, 2), shapes=("[4]",))
    ],
    *cases("power_to_5", lambda x: x**5, lambda x: x**5, dtypes=INTEGERS, shapes=("[4]",)),
    *cases("power_of", lambda x, c: x**c, np.power, between(0.4, 2), shapes=(("[3]", "[]"),)),
    *[
        case(
            "where",
            ad.where,
            np.where,
            [f"bool{a}", f"{dtype}{b}", f"{dtype}{c}"],
        )
        for dtype in ALL
        for a, b, c in (("[]", "[]", "[]"), ("[3,1]", "[4]", "[3,4]"), ("[2]", "[]", "[2]"), ("[0]", "[1]", "[]"))
    ],
    *cases("mul0", mul0, np.multiply, shapes=TWO),
    *[
        case("clip", ad.clip, np.clip, [f"{dtype}[3,4]", f"{dtype}[]", f"{dtype}[4]"], draws)
        for dtype, draws in (
            *((d, (distinct, between(-0.97, -0.93), between(0.92, 0.96))) for d in F),
            *((d, (integers(-5, 6), integers(-3, 0), integers(1, 4))) for d in INTEGERS),
        )
    ],
    *cases("clip_low", lambda x: ad.clip(x, 0.1), lambda x: np.clip(x, 0.1, None)),
    *cases("clip_high", lambda x: ad.clip(x, max=0.1), lambda x: np.clip(x, None, 0.1)),
    *[case(f"to_{to}", _caster(to), None, [f"{dtype}[2,3]"], smooth=False) for dtype in ALL for to in ALL],
    case("to_f64", _caster("f64"), lambda x: x.astype(np.float64), ["f32[5]"]),
    *cases("real", lambda x: ad.real(ad.exp((1 + 2j) * x)), lambda x: np.real(np.exp((1 + 2j) * x)), between(-1, 1)),
    *cases("imag", lambda x: ad.imag(ad.exp((1 + 2j) * x)), lambda x: np.imag(np.exp((1 + 2j) * x)), between(-1, 1)),
    *cases("conj", lambda x: ad.imag(ad.conj(x + 2j) * (x + 1j)), lambda x: np.imag(np.conj(x + 2j) * (x + 1j))),
    *cases("abs_complex", lambda x: ad.abs(x + 2j), lambda x: np.abs(x + 2j)),
    case("arange", lambda x: x + ad.arange(5), lambda x: x + np.arange(5), ["f64[5]"]),
    case("zeros", lambda x: x + ad.zeros(3), lambda x: x + np.zeros(3), ["f64[3]"]),
    *cases("ones", lambda x: x + ad.ones((2, 1), x.dtype), lambda x: x + np.ones((2, 1), x.dtype),
           shapes=("[]", "[3]")),
    case("full", lambda x: ad.full((2, 3), x), lambda x: np.full((2, 3), x), ["f64[]"]),
    *cases("full_like", lambda x, y: ad.full_like(x, 2.0) * y, lambda x, y: np.full_like(x, 2.0) * y,
           shapes=(("[2,3]", "[3]"),)),
    *cases("ones_like", lambda x: ad.ones_like(x) + x, lambda x: np.ones_like(x) + x),
    *cases("zeros_like", lambda x: ad.zeros_like(x) - x, lambda x: np.zeros_like(x) - x),
    *cases("empty", lambda x: ad.where(True, x, ad.empty(5, x.dtype)), lambda x: x, shapes=("[5]",)),
    *cases("empty_like", lambda x: ad.where(True, x, ad.empty_like(x)), lambda x: x, shapes=("[5]",)),
    *cases("stop_gradient", lambda x, y: ad.stop_gradient(x) * y, np.multiply, shapes=TWO, wrt=(1,)),
    *cases("unbroadcast", ad.unbroadcast, _unbroadcast, shapes=(("[]", "[]"), ("[3,4]", "[4]"), ("[2,3,4]", "[3,1]"),
           ("[5]", "[]"), ("[0,3]", "[3]")), wrt=(0,)),
    *cases("project", lambda x: ad.project(x, ad.zeros((2, 2), x.dtype)) * x, np.square, shapes=("[2,2]",)),
    *cases("dense", lambda x: ad.dense(ad.Diagonal(x)), np.diag, shapes=("[3]",)),
    case("linspace", lambda a, b: ad.linspace(a, b, 7), lambda a, b: np.linspace(a, b, 7), ["f64[]", "f64[]"]),
    case("linspace", lambda a, b: ad.linspace(a, b, 4), lambda a, b: np.linspace(a, b, 4), ["f64[3]", "f64[2,1]"]),
    case("eye", lambda x: x * ad.eye(3, 4, 1), lambda x: x * np.eye(3, 4, 1), ["f64[3,4]"]),
]
