"""NumPy's call forms: every parameter of NumPy's functions is taken, by name and by place, or refused for a reason."""

import inspect
from functools import reduce

import numpy as np
import pytest

import autodiff as ad
from autodiff.dispatch import GenericFunction
from autodiff.ops.forms import WITHOUT_EFFECT

#: Older ones lack some of the functions and parameters that are tried here, and do not tell what a ufunc takes.
pytestmark = pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="the forms are NumPy 2.4's")

#: The modules of NumPy's whose names are ours too.
SPACES = {"np": (np, ad), "np.linalg": (np.linalg, ad.linalg), "np.fft": (np.fft, ad.fft)}
NAMES = [
    f"{space}.{name}"
    for space, (theirs, ours) in SPACES.items()
    for name in sorted(dir(theirs))
    if not name.startswith("_") and name in {*ours.__all__} and callable(getattr(theirs, name))
    and not isinstance(getattr(theirs, name), type)
]  # fmt: skip

#: What every universal function takes, also where NumPy does not tell.
OF_UFUNCS = ("out", "where", "casting", "order", "dtype", "subok", "signature")


def both(name):
    """NumPy's function of a name, and ours."""
    space, _, last = name.rpartition(".")
    return tuple(getattr(module, last) for module in SPACES[space])


def parameters(theirs):
    """NumPy's parameters: name -> whether it is given by position, and its default."""
    try:
        found = inspect.signature(theirs).parameters.values()
    except ValueError:
        known = [f"x{i + 1}" for i in range(theirs.nin)] if theirs.nin > 1 else ["x"]
        return dict.fromkeys(known, (True, inspect.Parameter.empty)) | dict.fromkeys(OF_UFUNCS, (False, np._NoValue))
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        p.name: (p.kind is not p.KEYWORD_ONLY, p.default, p.kind is p.POSITIONAL_ONLY)[:2]
        for p in found if p.kind not in skipped
    }  # fmt: skip


def taken(ours):
    """The names that a function of ours takes, NumPy's among them."""
    return {*ours.form.names} if isinstance(ours, GenericFunction) else {*inspect.signature(ours).parameters}


#: Parameters that only stand in a place, under names that say less than ours.
OF_PLACES = {"np.arange": {"start_or_stop"}, "np.linalg.cross": {"x1", "x2"}}


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_taken_or_refused_with_a_reason(name):
    theirs, ours = both(name)
    known = taken(ours) | OF_PLACES.get(name, set())
    for one in parameters(theirs):
        assert one in known or len(WITHOUT_EFFECT[one][1]) > 20, one


@pytest.mark.parametrize("name", NAMES)
def test_what_is_given_by_position_stands_where_numpy_has_it(name):
    theirs, ours = both(name)
    if not isinstance(ours, GenericFunction) or ours.declaration.variadic is not None:
        return
    places = [one for one, (by_position, _) in parameters(theirs).items() if by_position]
    names = ours.form.names
    for place, mine in zip(places, ours.declaration.fixed, strict=False):
        assert names.get(place, mine) == mine, place


# ---------------------------------------------------------------- arguments by name, and NumPy's defaults

X = np.array([[2.0, 0.5, 0.25], [0.5, 3.0, 0.75], [0.25, 0.75, 4.0]])  # symmetric, and all elements are above 0
V = np.array([0.3, 0.7, 0.9])
#: Arguments by the names of NumPy's parameters, and of single functions.
GIVEN = {
    "a": X, "x": X, "x1": X, "x2": X + 1, "m": X, "v": X, "A": X, "array": X, "arr": X, "ary": X, "val": X, "z": X,
    "f": X, "p": V, "y": X, "element": X, "b": X + 0.5, "prototype": X, "n": 3, "N": 3, "shape": (3, 3), "reps": 2,
    "fill_value": 2.0, "axis": 0, "axis1": 0, "axis2": 1, "source": 0, "destination": 1, "repeats": 2, "shift": 1,
    "indices": np.array([[0, 2, 1]]), "values": X, "start": 1.0, "stop": 2.0, "dimensions": (2, 3), "q": 0.3,
    "arrays": [X, X], "tup": [X, X], "test_elements": V, "bins": V, "xp": V, "fp": V, "condition": X > 1, "a1": X,
    "a2": X, "condlist": [X > 1], "choicelist": [X], "pad_width": 1, "dtype": np.float64, "indices_or_sections": 3,
}  # fmt: skip
OF_ONE = {
    "np.arccos": {"x": X / 5}, "np.arcsin": {"x": X / 5}, "np.arctanh": {"x": X / 5}, "np.arccosh": {"x": X + 1},
    "np.bincount": {"x": np.array([0, 2])}, "np.broadcast_to": {"shape": (2, 3, 3)},
    "np.clip": {"a_min": 1.0, "a_max": 2.0},
    "np.convolve": {"a": V, "v": V}, "np.correlate": {"a": V, "v": V}, "np.cov": {}, "np.dsplit": {"ary": X[None]},
    "np.searchsorted": {"a": V, "v": X}, "np.squeeze": {"a": X[None]}, "np.vander": {"x": V}, "np.diag": {"v": V},
    "np.matvec": {"x2": V}, "np.vecmat": {"x1": V, "x2": X}, "np.cumulative_sum": {"x": V},
    "np.cumulative_prod": {"x": V},
    "np.linalg.outer": {"x1": V, "x2": V}, "np.einsum": None, "np.meshgrid": None, "np.broadcast_arrays": None,
    "np.interp": {"x": X / 5}, "np.ldexp": {"x2": np.array([1, 2, 3])}, "np.reshape": {"shape": (9,)},
    "np.atleast_1d": None, "np.atleast_2d": None, "np.atleast_3d": None, "np.logspace": {}, "np.polyval": {"x": X},
    "np.linalg.solve": {"b": X}, "np.linalg.lstsq": {"a": X[:, :2], "b": X}, "np.linalg.multi_dot": {"arrays": [X, X]},
    "np.result_type": None, "np.can_cast": None, "np.isdtype": None,  # of dtypes: tests/test_array_namespace.py
    "np.take_along_axis": {"axis": 0}, "np.unwrap": {"p": X}, "np.arange": {"start_or_stop": 4},
} | {
    f"np.{name}": {"x1": np.array([6, 3]), "x2": np.array([2, 1])}
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "bitwise_left_shift",
                 "bitwise_right_shift", "gcd", "lcm")
} | {f"np.{name}": {"x": np.array([6, 3])}
    for name in ("invert", "bitwise_not", "bitwise_invert", "bitwise_count")}  # fmt: skip
OF_ONE |= {f"np.{short}": OF_ONE[f"np.{long}"] for short, long in (
    ("acos", "arccos"), ("asin", "arcsin"), ("atanh", "arctanh"), ("acosh", "arccosh"))}  # fmt: skip
#: They look at values: NumPy is given those.
ASKING = ("array_equal", "allclose")


def arguments(name):
    """Arguments by name for the parameters that a call has to give."""
    theirs, _ = both(name)
    given = OF_ONE.get(name, {})
    if given is None:
        return None
    needed = [one for one, (_, default) in parameters(theirs).items() if default is inspect.Parameter.empty]
    return {one: GIVEN[one] for one in needed if one not in given} | given


def same(found, wanted):
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
        return
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if found.dtype.itemsize < 8 else 1e-11, atol=1e-11)


def called(theirs, ours, given):
    """Ours with these arguments: by NumPy's names where NumPy takes names, else in their places."""
    only = {p.name for p in inspect.signature(theirs).parameters.values() if p.kind is p.POSITIONAL_ONLY}
    places, names = [x for n, x in given.items() if n in only], {n: x for n, x in given.items() if n not in only}
    return theirs(*places, **names), ours(*places, **names)


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")
@pytest.mark.parametrize("name", [name for name in NAMES if OF_ONE.get(name, {}) is not None])
def test_arguments_are_taken_by_numpys_names_and_numpys_defaults_change_nothing(name):
    theirs, ours = both(name)
    given = arguments(name)
    wanted, found = called(theirs, ours, given)
    if "empty" not in name:
        same(found, wanted)
    for one, (_, default) in parameters(theirs).items():
        if default not in (inspect.Parameter.empty, np._NoValue) and one not in given:
            same(ours(*[given[n] for n in given if n not in taken(ours)],
                      **{n: x for n, x in given.items() if n in taken(ours)}, **{one: default}), found)  # fmt: skip


# ---------------------------------------------------------------- parameters that methods need not know


M = np.array([[True, False, True], [False, True, True], [False, False, False]])
W = np.array([1.0, 3.0, 2.0])
R = np.random.default_rng(7).normal(size=(3, 4))
T = np.array([[3.0, 1.0, np.nan], [np.nan, 2.0, 5.0], [4.0, 4.0, 0.5]])
F32 = np.float32

#: (function, arrays, further arguments): one for each way to give a parameter.
CASES = [
    *[(f, (X,), {"where": M, "axis": axis}) for f in ("sum", "prod", "any", "all") for axis in (None, 0, (0, 1))],
    *[(f, (X,), {"where": M[:2, :1].repeat(3, 0)[:3], "keepdims": True}) for f in ("sum", "mean", "var", "std")],
    *[(f, (X,), {"where": M[:1], "axis": 1}) for f in ("mean", "var", "std", "nanmean", "nanvar", "nanstd")],
    *[(f, (T,), {"where": M[:1], "axis": 1, "keepdims": True}) for f in ("nanmean", "nanvar", "nanstd", "nansum",
    "nanprod")],
    *[(f, (X,), {"initial": 2.5, "axis": axis}) for f in ("sum", "prod", "nansum", "nanprod") for axis in (None, 1)],
    *[(f, (X,), {"initial": initial, "axis": axis, "keepdims": keep}) for f in ("max", "min")
      for initial in (0.6, 2.5, np.nan) for axis, keep in ((None, False), (1, True), ((0, 1), False))],
    *[(f, (T,), {"initial": 2.5, "where": M, "axis": 1}) for f in ("nanmax", "nanmin", "nansum", "nanprod")],
    *[(f, (X,), {"initial": 2.5, "where": M, "axis": 0}) for f in ("max", "min", "amax", "amin")],
    *[(f, (X[:0],), {"initial": 1.5, "axis": 0}) for f in ("max", "min", "sum")],
    *[(f, (X, 0, F32), {}) for f in ("sum", "prod", "cumsum", "cumprod", "mean", "var", "nanprod", "nancumsum",
    "nancumprod")],
    *[(f, (X,), {"dtype": F32, "axis": 1}) for f in ("std", "nanmean", "nanstd", "nanvar", "nansum")],
    *[(f, (X,), {"mean": X.mean(0, keepdims=True), "axis": 0, "correction": 1}) for f in ("var", "std", "nanvar",
    "nanstd")],
    ("var", (X, 0, None, None, 1, True), {}), ("std", (X, 0, None, None, 1), {}), ("nanstd", (X, 0, None, None, 1), {}),
    ("max", (X, 0, None, True), {}), ("argmax", (X, 0, None), {"keepdims": True}), ("ptp", (X, 0, None, True), {}),
    ("median", (X, 0, None, False, True), {}), ("trace", (X, 1, 0, 1, F32), {}), ("round", (X, 1, None), {}),
    ("clip", (X,), {"a_min": 0.6, "a_max": 2.5}), ("clip", (X, 0.6, None), {"dtype": F32}),
    ("take", (X, [0, 9], 0, None, "clip"), {}),
    ("where", (M,), {}), ("count_nonzero", (X,), {"axis": 0}), ("nan_to_num", (T, False, 7.0), {}),
    ("reshape", (R, (2, 6)), {"order": "F"}), ("reshape", (R, -1), {"order": "F", "copy": True}),
    ("reshape", (R, (2, -1)), {"order": "A"}),
    ("ravel", (R, "F"), {}), ("ravel", (R,), {"order": "K"}), ("zeros_like", (R, F32, "C", True, (2, 2)), {}),
    ("ones_like", (R,), {"shape": 3, "device": "cpu"}), ("full_like", (R, 2.0, None), {"shape": (2, 1)}),
    ("empty_like", (R[:0],), {"shape": (0, 2), "dtype": int}),
    ("concatenate", ([X, X],), {"dtype": F32}), ("stack", ([X, X], 1), {"dtype": F32, "casting": "same_kind"}),
    ("vstack", ([X, X],), {"dtype": F32}), ("hstack", ([X, X],), {"dtype": int, "casting": "unsafe"}),
    ("linspace", (W, 9.0, 5, False, True, None, 1), {}), ("linspace", (0.0, 1.0, 1), {"retstep": True}),
    ("geomspace", (W, 9.0, 4), {"axis": -1}), ("logspace", (W, 2.0, 4, True, 3.0, F32, 1), {}),
    ("meshgrid", (W, V, W[:2]), {"sparse": True, "copy": False}), ("indices", ((2, 3),), {"sparse": True}),
    ("meshgrid", (W, V), {"sparse": True, "indexing": "ij"}), ("atleast_2d", (W, V), {}), ("atleast_1d", (1.0, X), {}),
    ("linspace", (-5, 0, 4), {"dtype": int}), ("mean", (X,), {"dtype": int}),
    ("mean", (X,), {"dtype": int, "where": M}), ("nanmean", (np.arange(4), 0, int), {}),
    ("average", (X, 0, W, True), {}), ("average", (X,), {"weights": X, "returned": True, "axis": 1, "keepdims": True}),
    ("average", (X,), {"returned": True}), ("cov", (R,), {"aweights": [1.0, 2.0, 0.5, 1.0]}),
    ("corrcoef", (R,), {"dtype": F32}),
    ("cov", (R,), {"fweights": [1, 2, 3, 1], "aweights": [1.0, 2.0, 0.5, 1.0], "ddof": 2}),
    ("cov", (R, None, False), {"fweights": [1, 2, 3], "bias": True}), ("cov", (R,), {"dtype": F32}),
    *[(f, (X, [0.0, 0.3, 0.5, 1.0], 0), {"weights": W, "method": "inverted_cdf"}) for f in ("quantile",)],
    *[(f, (T, 40.0, 1), {"weights": X, "method": "inverted_cdf"}) for f in ("percentile", "nanpercentile")],
    ("quantile", (X, [0.0, 0.3, 0.5, 1.0]), {"method": "inverted_cdf"}),
    ("sort", (R, 0, "mergesort"), {}), ("argsort", (R,), {"kind": "stable", "axis": 0}),
    ("sort", (R,), {"stable": None}),
    ("cross", (R[:, :3], X, 0, 1, 0), {}), ("cross", (R[:, :3], X), {"axisa": 1, "axisc": 0}),
    ("cross", (X, X), {"axis": 0}),
    ("matmul", (R, R), {"axes": [(1, 0), (0, 1), (1, 0)]}), ("matmul", (R, W), {"axes": [(1, 0), 0, 0]}),
    ("matmul", (X, X), {"dtype": F32}), ("matmul", (W, V), {"axes": [(0,), (0,), ()]}),
    ("vecdot", (R, R), {"axis": 0, "keepdims": True}), ("vecdot", (R, R), {"axes": [0, 0, ()]}),
    ("vecdot", (R, R), {"axes": [(1,), (1,), (0,)], "keepdims": True}), ("vecdot", (R, R), {"dtype": F32}),
    ("matvec", (X[None], X), {"axes": [(2, 1), 0, 0]}), ("vecmat", (X, X), {"axes": [0, (1, 0), 1], "dtype": F32}),
    ("einsum", (X, [0, 1], R, [1, 2], [2, 0]), {}), ("einsum", (X, [0, ...], X, [0, ...]), {"optimize": True}),
    ("einsum", (R, [7, 3], R, [7, 5]), {}), ("einsum", ("ij,ij->", X, X), {"dtype": F32, "casting": "same_kind"}),
    ("pad", (R, ((1, 2), (0, 3))), {"constant_values": ((1.0, 2.0), (3.0, 4.0))}),
    ("pad", (R, 2), {"constant_values": (5.0, 6.0)}), ("pad", (R, (3, 5), "linear_ramp"), {"end_values": (5.0, -4.0)}),
    *[("pad", (R, (2, 3), mode), {"stat_length": how}) for mode in ("mean", "maximum", "minimum", "median")
    for how in (None, 2, ((1, 2),))],
    *[("pad", (R, width, mode), {"reflect_type": "odd"}) for mode in ("reflect", "symmetric") for width in (2, (1, 3))],
    ("pad", (np.arange(4), 2, "mean"), {}), ("pad", (np.arange(4), (2, 3), "linear_ramp"), {"end_values": -2}),
    *[(f, (X,), {"dtype": F32}) for f in ("exp", "sin", "sqrt", "floor", "negative", "square", "absolute", "sign")],
    *[(f, (X, X + 1), {"dtype": F32})
    for f in ("add", "multiply", "power", "arctan2", "maximum", "hypot", "floor_divide")],
    ("add", (X, 2), {"dtype": F32, "casting": "same_kind"}), ("add", (X, X), {"dtype": int, "casting": "unsafe"}),
    ("equal", (X, X.T), {"dtype": bool}), ("isnan", (T,), {"dtype": bool}), ("absolute", (X + 1j,), {"dtype": float}),
    ("divmod", (X, X + 1), {"dtype": F32}), ("exp", (X,), {"dtype": complex}), ("add", (M, M), {"dtype": np.int32}),
    ("exp", (X,), {"out": None, "where": True, "order": "F", "subok": False}),
    ("broadcast_to", (W, (2, 3)), {"subok": True}),
    ("linalg.eigh", (np.triu(X), "U"), {}), ("linalg.eigvalsh", (np.tril(X),), {"UPLO": "L"}),
    ("linalg.cholesky", (X,), {"upper": True}),
    ("linalg.svd", (X, True, False, True), {}), ("linalg.pinv", (X,), {"hermitian": True}),
    ("linalg.pinv", (X,), {"rtol": 1e-3}),
    ("linalg.matrix_rank", (X, None, True), {}), ("linalg.norm", (X, None, 1, True), {}),
    ("linalg.trace", (X,), {"dtype": F32}),
    ("fft.fft", (R,), {"out": None, "norm": "ortho"}), ("fft.rfft", (R, 3, 0, None), {}),
    ("isin", (X, V), {"assume_unique": False, "invert": True, "kind": "sort"}),
    ("diff", (R,), {"prepend": 0.0, "n": 1}),
    ("histogram", (W, 2, None, True, V), {}), ("astype", (X, F32), {"copy": False}), ("tile", (X,), {"reps": (2, 1)}),
]  # fmt: skip


def function(space, name):
    return reduce(getattr, name.split("."), space)


def tensors(x):
    """Arrays of floats as tensors, also in a list."""
    if isinstance(x, list):
        return [*map(tensors, x)] if any(isinstance(e, np.ndarray) for e in x) else x
    return ad.tensor(x) if isinstance(x, np.ndarray) else x


def identified(cases):
    return [f"{i}-{name}" for i, (name, *_) in enumerate(cases)]


@pytest.mark.parametrize(("name", "given", "more"), CASES, ids=identified(CASES))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_further_parameters_mean_what_numpy_says(name, given, more):
    theirs = function(np, name)
    wanted = theirs(*given, **more)
    arrays = [*map(tensors, given)]
    found = function(ad, name)(*arrays, **more)
    same(found, wanted)
    for one, other in zip(*[f if isinstance(f, (tuple, list)) else [f] for f in (found, wanted)], strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
    first = arrays[0]
    if isinstance(first, ad.Tensor) or name in ("concatenate", "stack", "vstack", "hstack"):
        by_protocol = theirs(*arrays, **more)
        same(by_protocol, wanted)
        assert isinstance(by_protocol[0] if isinstance(by_protocol, (tuple, list)) else by_protocol, ad.Tensor)
    if isinstance(first, ad.Tensor) and hasattr(first, name):
        same(getattr(first, name)(*arrays[1:], **more), wanted)


def test_methods_take_what_those_of_arrays_take():
    t = ad.tensor(R)
    same(t.astype(np.float32, "F", "same_kind", False, True), R.astype(np.float32))
    same(t.flatten("F"), R.flatten("F"))
    same(t.reshape(2, -1, order="F", copy=None), R.reshape(2, -1, order="F"))
    same(t.clip(0.0, out=None), R.clip(0.0))
    same(t.sum(0, np.float32, None, keepdims=True, where=R > 0), R.sum(0, np.float32, None, keepdims=True, where=R > 0))
    same(np.add.reduce(t, 1, None, None, True, initial=2.0), np.add.reduce(R, 1, None, None, True, initial=2.0))
