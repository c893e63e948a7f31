"""Cases of NumPy's rarer names: what floats are made of, choices and members, grids, slopes of samples."""

import numpy as np

import autodiff as ad

from .cases import away, between, case, cases, distinct, integers

PAIR = (("[5]", "[5]"), ("[3,1]", "[4]"), ("[0]", "[0]"))


def _apart(rng, shape):
    """Numbers in rising order along the only axis."""
    return np.cumsum(rng.uniform(0.5, 1.0, shape))


def _holed(rng, shape):
    """Numbers of which no two are close, some of them nan."""
    return np.where(rng.permutation(int(np.prod(shape))).reshape(shape) % 3 == 1, np.nan, distinct(rng, shape))


def _middling(rng, shape):
    """Numbers of both signs, away from whole ones."""
    return rng.integers(-3, 4, shape) + rng.uniform(0.2, 0.8, shape)


CASES = [
    *cases("copysign", ad.copysign, np.copysign, shapes=PAIR),
    *cases("signbit", ad.signbit, np.signbit, shapes=("[5]", "[3,4]"), smooth=False),
    *cases("nextafter", ad.nextafter, np.nextafter, shapes=PAIR, wrt=(0,)),
    *cases("fmod", ad.fmod, np.fmod, (_middling, between(0.9, 0.95)), shapes=PAIR),
    *cases("fmod-whole", ad.fmod, np.fmod, (None, integers(1, 5)), dtypes=("i64", "i32"), shapes=PAIR),
    *cases("divmod", lambda a, b: ad.divmod(a, b)[1], lambda a, b: np.divmod(a, b)[1],
           (_middling, between(0.9, 0.95)), shapes=PAIR),
    *[c for name in ("fmax", "fmin") for c in cases(
        name, getattr(ad, name), getattr(np, name), dtypes=("f64", "f32", "i64", "bool"), shapes=PAIR)],
    *[c for name in ("fmax", "fmin") for c in cases(
        f"{name}-nan", getattr(ad, name), getattr(np, name), (_holed, _holed), shapes=(("[6]", "[6]"),), smooth=False)],
    *cases("fix", ad.fix, np.trunc, shapes=("[5]",), smooth=False),
    *[c for name in ("fabs", "angle", "isposinf", "isneginf", "isreal", "iscomplex") for c in cases(
        name, getattr(ad, name), getattr(np, name), shapes=("[5]",), smooth=name == "fabs")],
    *[c for k in (0, 1) for c in cases(f"modf-{k}", lambda x, k=k: ad.modf(x)[k], lambda x, k=k: np.modf(x)[k],
                                       _middling, shapes=("[5]",), smooth=k == 0)],
    *[c for k in (0, 1) for c in cases(f"frexp-{k}", lambda x, k=k: ad.frexp(x)[k], lambda x, k=k: np.frexp(x)[k],
                                       away(0.6, 0.9), shapes=("[5]", "[3,4]"), smooth=k == 0)],
    *[c for dtype in ("f64", "f32") for c in [case(
        "ldexp", ad.ldexp, np.ldexp, [f"{dtype}[3,4]", "i32[4]"], (None, integers(-9, 9)))]],
    *cases("float_power", ad.float_power, np.float_power, between(0.5, 2.0), shapes=(("[5]", "[5]"),), ulps=1e9),
    *cases("select", lambda x, y: ad.select([x < 0, y > 1], [x * y, y], x), lambda x, y: np.select(
        [x < 0, y > 1], [x * y, y], x), shapes=(("[5]", "[5]"), ("[3,4]", "[4]"))),
    *[c for dtype in ("f64", "i64", "bool") for c in cases(
        f"isin-{dtype}", ad.isin, np.isin, integers(0, 4), dtypes=(dtype,),
        shapes=(("[6]", "[2]"), ("[3,4]", "[1]"), ("[4]", "[0]"), ("[0]", "[3]")), smooth=False)],
    *cases("isin-invert", lambda x, y: ad.isin(x, y, invert=True), lambda x, y: np.isin(x, y, invert=True),
           integers(0, 4), shapes=(("[6]", "[2]"),), smooth=False),
    *[c for name in ("nanargmax", "nanargmin") for c in cases(
        name, getattr(ad, name), getattr(np, name), _holed, shapes=("[6]",), smooth=False)],
    *cases("nanargmax-rows", lambda x: ad.nanargmax(x, axis=1), lambda x: np.nanargmax(x, axis=1), distinct,
           shapes=("[3,4]",), smooth=False),
    *cases("array_equal", lambda x: ad.array_equal(x, x * 1, equal_nan=True),
           lambda x: np.bool_(np.array_equal(x, x, equal_nan=True)), _holed, shapes=("[5]",), smooth=False),
    *cases("flatnonzero", ad.flatnonzero, np.flatnonzero, integers(-1, 2), shapes=("[3,4]", "[5]"), smooth=False,
           traced=False),
    *cases("argwhere", ad.argwhere, np.argwhere, integers(-1, 2), shapes=("[3,4]", "[5]", "[]"), smooth=False,
           traced=False),
    *cases("nonzero", lambda x: ad.nonzero(x)[1], lambda x: np.nonzero(x)[1], integers(-1, 2), shapes=("[3,4]",),
           smooth=False, traced=False),
    *cases("diagflat", lambda x: ad.diagflat(x, 1), lambda x: np.diagflat(x, 1), shapes=("[3]", "[2,2]")),
    *cases("broadcast_arrays", lambda x, y: ad.broadcast_arrays(x, y)[0], lambda x, y: np.broadcast_arrays(x, y)[0],
           shapes=(("[3,1]", "[4]"),), wrt=(0,)),
    *cases("logspace", lambda a, b: ad.logspace(a, b, 4), lambda a, b: np.logspace(a, b, 4).astype(a.dtype),
           between(0.3, 0.9), shapes=(("[]", "[]"), ("[3]", "[]")), ulps=64),
    *cases("geomspace", lambda a, b: ad.geomspace(a, b, 4), lambda a, b: np.geomspace(a, b, 4).astype(a.dtype),
           between(0.5, 2.0), shapes=(("[]", "[]"), ("[3]", "[]")), ulps=64),
    *[c for name in ("cumulative_sum", "cumulative_prod") for c in cases(
        name, lambda x, name=name: getattr(ad, name)(x, axis=1, include_initial=True),
        lambda x, name=name: np.insert(getattr(np, name.replace("ulative_", ""))(x, axis=1), 0, name[-3:] != "sum", 1),
        shapes=("[3,4]",), ulps=64)],
    *cases("append", lambda x, y: ad.append(x, y, axis=1), lambda x, y: np.append(x, y, axis=1),
           shapes=(("[2,3]", "[2,1]"),)),
    *cases("append-flat", ad.append, np.append, shapes=(("[2,3]", "[]"),)),
    *cases("dsplit", lambda x: ad.dsplit(x, 2)[1], lambda x: np.dsplit(x, 2)[1], shapes=("[1,2,4]",)),
    *cases("matvec", ad.matvec, lambda a, b: np.einsum("...ij,...j->...i", a, b), shapes=(("[2,3,4]", "[2,4]"),),
           ulps=64),
    *cases("vecmat", ad.vecmat, lambda a, b: np.einsum("...i,...ij->...j", a, b), shapes=(("[2,3]", "[2,3,4]"),),
           ulps=64),
    *[c for order in (1, 2) for c in cases(
        f"gradient-{order}", lambda x, h, order=order: ad.gradient(x, h, axis=1, edge_order=order),
        lambda x, h, order=order: np.gradient(x, h, axis=1, edge_order=order).astype(x.dtype), (None, _apart),
        shapes=(("[3,4]", "[4]"), ("[2,3]", "[3]")), ulps=1e4)],
    *[c for order in (1, 2) for c in cases(
        f"gradient-even-{order}", lambda x, order=order: ad.gradient(x, 0.5, 2.0, edge_order=order)[0],
        lambda x, order=order: np.gradient(x, 0.5, 2.0, edge_order=order)[0].astype(x.dtype), shapes=("[3,4]",),
        ulps=1e4)],
    case("identity", lambda x: x * ad.identity(3), lambda x: x * np.identity(3), ["f64[3,3]"]),
    case("tri", lambda x: x * ad.tri(3, 4, 1), lambda x: x * np.tri(3, 4, 1), ["f64[3,4]"]),
    case("indices", lambda x: x * ad.indices((3, 4)), lambda x: x * np.indices((3, 4)), ["f64[3,4]"]),
    *cases("gradient-two", ad.gradient, lambda x: np.gradient(x).astype(x.dtype), shapes=("[2]", "[5]"), ulps=64),
]  # fmt: skip
