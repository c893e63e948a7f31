"""Cases of what moves elements about: roll, tile, repeat, diff, unstack, meshgrid, sort."""

import numpy as np

import autodiff as ad

from .cases import case, cases, distinct

ALL = ("f64", "f32", "i64", "i32", "bool")


def _each(name, calls, dtypes=ALL, shapes=("[5]", "[3,4]", "[0,3]"), draws=None, **options):
    """A case for each way to call a function that NumPy has under the same name."""
    return [
        c
        for label, arguments in calls.items()
        for c in cases(
            f"{name}-{label}",
            lambda x, arguments=arguments: getattr(ad, name)(x, *arguments),
            lambda x, arguments=arguments: getattr(np, name)(x, *arguments),
            draws,
            dtypes=dtypes,
            shapes=shapes,
            **options,
        )
    ]


CASES = [
    *_each("roll", {"1": (1,), "-7": (-7,), "axis": (2, 0), "last": (-1, -1), "none": (0,)}),
    *_each("roll", {"axes": ((1, -2), (0, 1)), "all": (1, (0, 1)), "several": ((1, -3),), "twice": ((1, 1), 0),
                    "one for all": ((1,), (0, 1))}, shapes=("[3,4]",)),
    *_each("roll", {"0d": (3,)}, shapes=("[]",)),
    *_each("tile", {"2": (2,), "23": ((2, 3),), "0": (0,), "2111": ((2, 1, 1, 1),)}),
    *_each("tile", {"0d": ((2, 2),)}, shapes=("[]",)),
    *_each("repeat", {"counts": ([2, 0, 3], 0), "one": ([2],), "many": ([1, 0, 2, 1], 1)}, shapes=("[3,4]",)),
    *_each("repeat", {"flat": (3,), "0": (2, 0), "-1": (2, -1), "never": (0, 0)}),
    *_each("diff", {"1": (), "2": (2,), "axis": (1, 0), "more": (6,)}),
    *_each("diff", {"beside": (1, 0, np.ones((2, 4)), np.zeros((1, 4))), "never": (0, 0, 5),
                    "after": (2, -1, np.ones((3, 0)), np.ones((3, 1)))}, shapes=("[3,4]",), dtypes=("f64", "i64")),
    *[case(f"diff-between-{axis}", lambda a, x, b, axis=axis: ad.diff(x, 1, axis, a, append=b),
           lambda a, x, b, axis=axis: np.diff(x, 1, axis, a, append=b), [f"f64{s}", f"f64{t}", f"f64{u}"])
      for axis, s, t, u in ((0, "[2,3]", "[4,3]", "[]"), (-1, "[]", "[2,3]", "[2,0]"))],
    *_each("sort", {"last": (), "0": (0,), "flat": (None,)}, draws=distinct),
    *[c for axis in (-1, 0, None)
      for c in cases(f"argsort-{axis}", lambda x, axis=axis: ad.argsort(x, axis),
                     lambda x, axis=axis: np.argsort(x, axis, kind="stable"), dtypes=ALL,
                     shapes=("[5]", "[3,4]", "[0,3]"), smooth=False)],
    *cases("sort-falling", lambda x: ad.sort(x, descending=True), lambda x: np.sort(x)[..., ::-1], distinct,
           shapes=("[5]", "[3,4]")),
    case("unstack", lambda x: ad.unstack(x, axis=1)[2] * ad.unstack(x)[0][:2], lambda x: x[:, 2] * x[0][:2],
         ["f64[2,3]"]),
    *[case(f"meshgrid-{indexing}",
           lambda x, y, z, indexing=indexing: ad.stack(ad.meshgrid(x, y, z, indexing=indexing)),
           lambda x, y, z, indexing=indexing: np.stack(np.meshgrid(x, y, z, indexing=indexing)),
           ["f64[2]", "f64[3]", "f64[]"]) for indexing in ("xy", "ij")],
]  # fmt: skip
