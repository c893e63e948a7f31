"""Cases of moves: shapes, orders, joining and splitting."""

import numpy as np

import autodiff as ad

from .cases import case, cases, distinct

ALL = ("f64", "f32", "i64", "i32", "bool")
SOME = ("f64", "f32", "i32")


def _move(name, ours, numpys, shape, dtypes=SOME, **options):
    return cases(name, ours, numpys, dtypes=dtypes, shapes=(shape,), **options)


def _both(name, shape, *arguments, dtypes=SOME):
    """The function of one name here and in NumPy."""
    return _move(
        "-".join([name, *map(str, arguments)]).replace(" ", ""),
        lambda x: getattr(ad, name)(x, *arguments),
        lambda x: getattr(np, name)(x, *arguments),
        shape,
        dtypes,
    )


CASES = [
    *_both("reshape", "[2,3,4]", (4, 6), dtypes=ALL),
    *_both("reshape", "[2,3,4]", (-1, 2)),
    *_both("reshape", "[]", (1, 1)),
    *_both("reshape", "[0,3]", (3, 0)),
    *_both("reshape", "[6]", 6),
    *_both("ravel", "[2,3]"),
    *_both("ravel", "[]"),
    *_both("expand_dims", "[2,3]", 1),
    *_both("expand_dims", "[2,3]", (0, -1)),
    *_both("squeeze", "[1,3,1]"),
    *_both("squeeze", "[1,3,1]", -1),
    *_both("squeeze", "[1,3,1]", (0, 2)),
    *_both("transpose", "[2,3,4]", dtypes=ALL),
    *_both("transpose", "[2,3,4]", (1, 2, 0)),
    *_both("transpose", "[]"),
    *_both("swapaxes", "[2,3,4]", 0, -1),
    *_both("moveaxis", "[2,3,4]", 0, 2),
    *_both("moveaxis", "[2,3,4]", (0, 1), (-1, 0)),
    *_move("matrix_transpose", ad.matrix_transpose, lambda x: np.swapaxes(x, -1, -2), "[2,3,4]"),
    *_both("broadcast_to", "[3,1]", (2, 3, 4), dtypes=ALL),
    *_both("broadcast_to", "[]", (2, 3)),
    *_both("broadcast_to", "[]", (0,)),
    *_both("flip", "[2,3,4]", dtypes=ALL),
    *_both("flip", "[2,3,4]", 1),
    *_both("flip", "[2,3,4]", (0, -1)),
    *_both("flip", "[0,2]"),
    *cases("concatenate", lambda a, b: ad.concatenate([a, b]), lambda a, b: np.concatenate([a, b]),
           dtypes=ALL, shapes=(("[2]", "[3]"), ("[2,3]", "[1,3]"), ("[0,3]", "[2,3]"))),
    *cases("concatenate-1", lambda a, b, c: ad.concatenate((a, b, c), axis=-1),
           lambda a, b, c: np.concatenate((a, b, c), axis=-1), dtypes=SOME, shapes=(("[2,3]", "[2,1]", "[2,2]"),)),
    case("concatenate-mixed", lambda a, b: ad.concatenate([a, b]), lambda a, b: np.concatenate([a, b]),
         ["f64[2]", "i32[3]"]),
    case("concatenate-flat", lambda a, b: ad.concatenate([a, b], axis=None),
         lambda a, b: np.concatenate([a, b], axis=None), ["f64[2,2]", "f64[]"]),
    case("concatenate-itself", lambda a: ad.concatenate([a, a]), lambda a: np.concatenate([a, a]), ["f64[3]"]),
    *cases("stack", lambda a, b: ad.stack([a, b]), lambda a, b: np.stack([a, b]), dtypes=SOME,
           shapes=(("[]", "[]"), ("[3]", "[3]"), ("[2,3]", "[2,3]"))),
    case("stack-1", lambda a, b: ad.stack([a, b], axis=-1), lambda a, b: np.stack([a, b], axis=-1),
         ["f64[2,3]", "f64[2,3]"]),
    case("split-middle", lambda x: ad.split(x, 3)[1], lambda x: np.split(x, 3)[1], ["f64[6,2]"]),
    case("split-places", lambda x: ad.split(x, [1, 4], axis=1)[1], lambda x: np.split(x, [1, 4], axis=1)[1],
         ["f64[2,6]"]),
    case("split-swapped", lambda x: ad.concatenate(ad.split(x, 2)[::-1]),
         lambda x: np.concatenate(np.split(x, 2)[::-1]), ["f64[6]"]),
    *cases("pad", lambda x: ad.pad(x, 1), lambda x: np.pad(x, 1), dtypes=ALL, shapes=("[3]", "[2,3]", "[0,2]")),
    *cases("pad-uneven", lambda x: ad.pad(x, ((0, 2), (1, 0))), lambda x: np.pad(x, ((0, 2), (1, 0))), dtypes=SOME,
           shapes=("[2,3]",)),
    case("pad-value", lambda x, v: ad.pad(x, (1, 2), constant_values=v),
         lambda x, v: np.pad(x, (1, 2), constant_values=v), ["f64[2,3]", "f64[]"]),
    *[c for mode in ("edge", "reflect", "symmetric", "wrap", "maximum", "mean", "minimum")
      for c in cases(f"pad-{mode}", lambda x, mode=mode: ad.pad(x, ((1, 2), (2, 1)), mode),
                     lambda x, mode=mode: np.pad(x, ((1, 2), (2, 1)), mode), distinct, shapes=("[3,4]",), ulps=8)],
    case("pad-far", lambda x: ad.pad(x, (7, 9), "reflect"), lambda x: np.pad(x, (7, 9), "reflect"), ["f64[3]"]),
    case("pad-nothing", lambda x: ad.pad(x, 0), lambda x: x, ["f64[3]"]),
]  # fmt: skip
