"""Cases of indexing: slices, ints, new axes, index arrays, masks, and updates."""

import numpy as np

import autodiff as ad
from autodiff.ops import index_update
from codegen.ir import parse_aval

from .cases import case, cases, integers

ROWS = np.array([2, 0, -1, 2])
COLUMNS = np.array([[0], [3]])
ALL = ("f64", "f32", "i64", "i32", "bool")

KEYS = {
    "[5]": [3, -1, slice(1, 4), slice(None, None, -1), slice(None, None, 2), slice(4, 0, -2), slice(3, 3), ...,
            None, ROWS, [0, 0, 1], np.array([], int), slice(10, None), slice(-100, 2), np.array(2),
            np.array([True, False, True, True, False]), (None, slice(1, 3), None)],
    "[3,4]": [1, (1, 2), (slice(None), 1), (..., -1), (0, ...), (slice(1, None), slice(None, None, -1)),
              (None, 1, None), (slice(None, None, 2), slice(3, 0, -1)), ROWS, (ROWS, [0, 1, 2, 3]), (slice(None), ROWS),
              (ROWS[:, None], [0, 1]), (1, [0, 2]), ([0, 2], 1), ([0, 2], slice(1, 3)), (None, [0, 1], None, [0, 1]),
              np.arange(12).reshape(3, 4) % 3 == 0, (np.array([True, False, True]), slice(1, 3)),
              (slice(1), np.array([True, False, True, True])), True, (False, 1), ()],
    "[2,3,4]": [(0, slice(None), [0, 1]), (slice(None), [0, 2], [1, 1]), ([0, 1], slice(None), [3, 2]),
                ([0, 1], None, [2, 0]), (..., COLUMNS), (slice(None), None, [0, 1], slice(1, 3)),
                (slice(None), np.arange(12).reshape(3, 4) % 2 == 0), (slice(None, None, -1), ..., slice(1, 3)),
                (1, 2, 3), (np.array([[0, 1], [1, 0]]), 1), (slice(1), 1, ROWS[:3] % 2),
                # `...` for no axis sets what it stands between apart
                (slice(None), [0, 2, 1], ..., 1), (slice(1, None), -1, ..., [1, 0]), (..., slice(None), [0, 2], 1)],
    "[0,3]": [slice(None), (slice(None), 1), np.array([], int)],
    "[]": [..., None, (), np.array(True), False],
}  # fmt: skip


def _text(key):
    """A key in few letters, for a test's name."""
    if isinstance(key, tuple):
        return "(" + ",".join(map(_text, key)) + ")"
    if isinstance(key, slice):
        return ":".join("" if n is None else str(n) for n in (key.start, key.stop, key.step))
    if isinstance(key, (np.ndarray, list)):
        array = np.asarray(key)
        return f"{array.dtype.kind}{array.tolist()}".replace(" ", "")
    return "..." if key is ... else str(key)


def _has_mask(key):
    """True if the number of elements that a key takes depends on values."""
    return any(np.asarray(k).dtype == bool for k in (key if isinstance(key, tuple) else (key,)) if k is not ...)


def _updated(x, key, value):
    y = x.copy()
    y[key] = value
    return y


GETTING = [
    c
    for shape, keys in KEYS.items()
    for key in keys
    for c in cases(
        f"x[{_text(key)}]",
        lambda x, key=key: x[key],
        lambda x, key=key: np.asarray(x[key]),
        dtypes=("f64", "bool"),
        shapes=(shape,),
        traced=not _has_mask(key),
    )
]


def _added(x, key, value):
    y = x.copy()
    np.add.at(y, key, value)
    return y


def _segments(data, ids, n):
    y = np.zeros((n, *data.shape[ids.ndim :]), data.dtype)
    np.add.at(y, ids, data)
    return y


def _selected(dtype, shape, key):
    """The aval of x[key]."""
    x = parse_aval(f"{dtype}{shape}")
    return str(x.with_shape(np.zeros(x.shape)[key].shape))


SETTING = [
    case(
        f"x[{_text(key)}]=v",
        lambda x, v, key=key: index_update(x, key, v),
        lambda x, v, key=key: _updated(x, key, v),
        [f"{dtype}{shape}", _selected(dtype, shape, key)],
        traced=not _has_mask(key),
    )
    for dtype in ("f64", "f32")
    for shape, keys in KEYS.items()
    if dtype == "f64" or shape == "[5]"
    for key in keys
]

ADDING = [
    case(
        f"add_at[{_text(key)}]",
        lambda x, v, key=key: ad.add_at(x, key, v),
        lambda x, v, key=key: _added(x, key, v),
        [f"{dtype}{shape}", _selected(dtype, shape, key)],
        traced=not _has_mask(key),
    )
    for dtype in ("f64", "f32", "i64")
    for shape, keys in KEYS.items()
    if dtype == "f64" or shape == "[5]"
    for key in keys
]

CASES = [
    *GETTING,
    *SETTING,
    *ADDING,
    case("add_at-number", lambda x: ad.add_at(x, [0, 0], 2.0), lambda x: _added(x, [0, 0], 2.0), ["f64[3,2]"]),
    case("add_at-mask", lambda x: ad.add_at(x, x > 0, 2.0), lambda x: _added(x, x > 0, 2.0), ["f32[3,2]"]),
    case("add_at-tensor", lambda x, i, v: ad.add_at(x, (slice(1, 3), i), v),
         lambda x, i, v: _added(x, (slice(1, 3), i), v), ["f64[4,3]", "i64[5]", "f64[2,1]"],
         [None, integers(-3, 3), None]),
    *cases("segment_sum", lambda x, i: ad.segment_sum(x, i, 3), lambda x, i: _segments(x, i, 3), [None, integers(0, 3)],
           dtypes=("",), shapes=(("f64[7]", "i64[7]"), ("f32[6,2]", "i32[6]"), ("f64[2,3,2]", "i64[2,3]"),
                                 ("i32[4]", "i64[4]"), ("f64[0,2]", "i64[0]"), ("f64[2]", "i64[]"))),
    *cases("x[1:3]", lambda x: x[1:3], lambda x: x[1:3], dtypes=ALL, shapes=("[7]",)),
    case("x[i]=number", lambda x: index_update(x, 1, 2.0), lambda x: _updated(x, 1, 2.0), ["f64[3,2]"]),
    case("x[mask]=number", lambda x: index_update(x, x > 0, 2.0), lambda x: _updated(x, x > 0, 2.0), ["f32[3,2]"]),
    case("x[row-mask]=v", lambda x, v: index_update(x, np.array([True, False, True]), v),
         lambda x, v: _updated(x, np.array([True, False, True]), v), ["f64[3,2]", "f64[2]"]),
    *cases("x[tensor]", lambda x, i: x[i], lambda x, i: x[i], [None, integers(-3, 3)],
           dtypes=("",), shapes=(("f64[3,4]", "i64[2,2]"), ("f32[3]", "i32[]"), ("i32[3]", "i64[0]"))),
    case("x[tensor,tensor]", lambda x, i, j: x[i, :, j], lambda x, i, j: x[i, :, j],
         ["f64[3,2,3]", "i64[4,1]", "i32[2]"], [None, integers(-3, 3), integers(-3, 3)]),
    *cases("take", lambda x, i: ad.take(x, i, axis=1), lambda x, i: np.take(x, i, axis=1), [None, integers(-4, 4)],
           dtypes=("",), shapes=(("f64[3,4]", "i64[5]"), ("f64[2,4,3]", "i64[2,2]"), ("bool[2,4]", "i32[]"))),
    *[c for mode in ("wrap", "clip")
      for c in cases(f"take-{mode}", lambda x, i, mode=mode: ad.take(x, i, 1, mode=mode),
                     lambda x, i, mode=mode: np.take(x, i, axis=1, mode=mode), [None, integers(-9, 10)],
                     dtypes=("",), shapes=(("f64[3,4]", "i64[5]"), ("f32[2,1,3]", "i32[2]"), ("bool[2,4]", "i64[]")))],
    case("take-flat", lambda x, i: ad.take(x, i), lambda x, i: np.take(x, i), ["f64[3,4]", "i64[5]"],
         [None, integers(-12, 12)]),
    *cases("take_along_axis", lambda x, i: ad.take_along_axis(x, i, 1), lambda x, i: np.take_along_axis(x, i, 1),
           [None, integers(-4, 4)], dtypes=("",), shapes=(("f64[3,4]", "i64[3,2]"), ("f32[1,4]", "i32[3,6]"),
                                                          ("i64[3,4]", "i64[1,2]"), ("f64[2,4,3]", "i64[2,2,3]"))),
    case("take_along_axis-flat", lambda x, i: ad.take_along_axis(x, i, None),
         lambda x, i: np.take_along_axis(x, i, None), ["f64[3,4]", "i64[5]"], [None, integers(-12, 12)]),
    *cases("one_hot", lambda i: ad.one_hot(i, 3), lambda i: np.eye(3)[i], integers(0, 3), dtypes=("i64", "i32"),
           shapes=("[]", "[4]", "[2,2]", "[0]")),
    case("one_hot-f32", lambda i: ad.one_hot(i, 3, dtype=ad.float32), lambda i: np.eye(3, dtype=np.float32)[i],
         ["i64[4]"], integers(0, 3)),
]  # fmt: skip
