"""Calls of jit functions: machine code gives what the Python path gives, and only for its own signature."""

import copy
import dataclasses
from collections import namedtuple
from fractions import Fraction

import numpy as np
import pytest
from natively import is_native, straight_ways

import autodiff as ad

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Layer:
    w: object
    b: object


def rng():
    return np.random.default_rng(0)


W, B, X = rng().normal(size=(3, 2)), rng().normal(size=2), rng().normal(size=(5, 3))


def model(p, x, scale=1.0):
    return {"y": scale * (x @ p["w"] + p["b"]), "n": [x.shape[0], (p["b"].sum(), None)]}


def same(a, b):
    (xs, s), (ys, t) = ad.tree.flatten(a), ad.tree.flatten(b)
    assert s == t
    for x, y in zip(xs, ys, strict=True):
        assert type(x) is type(y)
        np.testing.assert_allclose(np.asarray(x, float), np.asarray(y, float), rtol=1e-12)


def traces(f):
    """f under jit, and the list of its traces."""
    runs = []

    def noted(*args, **kwargs):
        runs.append(1)
        return f(*args, **kwargs)

    return ad.jit(noted), runs


@pytest.mark.smoke
def test_nested_arguments_and_results_keep_their_nesting():
    f, runs = traces(model)
    p = {"w": W, "b": B}
    expected = {"y": X @ W + B, "n": [5, (B.sum(), None)]}
    for _ in range(3):
        same(f(p, X), expected)
    assert len(runs) == 1 and straight_ways(f) == is_native(), "a caller goes straight into the launcher"


def test_keywords_and_numbers_are_run_time_arguments():
    f, runs = traces(model)
    for scale in (0.5, 2.0, -3.0):
        got = f({"w": W, "b": B}, X, scale=scale)
        np.testing.assert_allclose(got["y"], scale * (X @ W + B))
    assert len(runs) == 1


@pytest.mark.parametrize("made", [
    lambda n: n / 2, lambda n: 1 / n, lambda n: n + 1, lambda n: 2 - n, lambda n: n * 2.0, lambda n: n % 2,
    lambda n: n // 2, lambda n: 2.0**n, lambda n: n**2, lambda n: -n, lambda n: (n + 1) * (1.5 - n) / 3,
])  # fmt: skip
@pytest.mark.parametrize("number", [3, 3.0])
def test_what_is_made_of_numbers_is_a_number_to_what_it_meets(made, number):
    def scaled(x, n):
        return x * made(n)

    for dtype in (np.float32, np.int32):
        x = np.ones(2, dtype)
        plain, traced = scaled(x, number), ad.jit(scaled)(x, number)
        assert traced.dtype == plain.dtype and np.allclose(traced, plain, rtol=1e-6)
    slope, by_number = ad.jit(ad.grad(lambda x, n: ad.sum(scaled(x, n)), argnums=(0, 1)))(np.ones(2, np.float32), 3.0)
    assert slope.dtype == np.float32 and np.allclose(slope, made(3.0), rtol=1e-6)
    assert np.isclose(by_number, ad.grad(lambda n: made(n) * 2.0)(3.0), rtol=1e-6)


def test_what_is_made_of_numbers_dispatches_as_a_number():
    @ad.function
    def scaled(x, c): ...

    @scaled.method(ad.Tensor, ad.Number)
    def _(x, c):
        return x * c

    assert ad.jit(lambda x, n: scaled(x, 2 * n + 1))(np.ones(2), 3).tolist() == [7, 7]


def test_a_number_and_an_array_without_axes_are_different_signatures():
    f, runs = traces(lambda x, s: x * s)
    x = np.ones(3, np.float32)
    assert f(x, 2.0).dtype == np.float32
    assert f(x, np.array(2.0)).dtype == np.float64
    assert f(x, np.float64(2.0)).dtype == np.float64
    assert f(x, 2).dtype == np.float32
    assert f(x, 2.0).dtype == np.float32
    assert len(runs) == 4, "a NumPy scalar dispatches as a number, a 0-d array as a tensor"


def test_a_dict_in_another_order_is_another_signature():
    f, runs = traces(lambda d: next(iter(d.values())) * 1.0)
    a, b = np.ones(2), np.full(2, 7.0)
    for _ in range(2):
        assert f({"a": a, "b": b})[0] == 1.0
        assert f({"b": b, "a": a})[0] == 7.0
    assert len(runs) == 2


def test_namedtuples_lists_and_empty_containers_are_taken_apart():
    f, runs = traces(lambda p, q, e: Pair(p.left + q[0], [p.right, e]))
    for k in (1.0, 2.0):
        got = f(Pair(np.full(2, k), np.float32(3)), [np.ones(2)], {})
        assert type(got) is Pair and got.left.tolist() == [k + 1, k + 1]
        assert got.right == [np.float32(3), {}]
    assert len(runs) == 1


def test_containers_that_only_their_class_takes_apart_are_known_too():
    f, runs = traces(lambda layer, x: Layer(x @ layer.w, layer.b * 2.0))
    for k in range(4):
        got = f(Layer(W + k, B), X)
        assert type(got) is Layer
        np.testing.assert_allclose(got.w, X @ (W + k))
    assert len(runs) == 1 and (straight_ways(f) or not is_native())
    with pytest.raises(AttributeError):
        f((W, B), X)


def test_a_class_that_is_registered_again_is_taken_apart_anew():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    ad.tree.register(Pair, lambda p: ((p.a, p.b), "first"), lambda rest, children: Pair(*children))
    f, runs = traces(lambda p, x: p.a * x - p.b if hasattr(p, "a") else None)
    for _ in range(4):
        np.testing.assert_allclose(f(Pair(X, X + 1), X), X * X - X - 1, rtol=1e-12, atol=1e-14)
    ad.tree.register(Pair, lambda p: ((p.b, p.a), "second"), lambda rest, children: Pair(*children))
    for _ in range(4):
        np.testing.assert_allclose(f(Pair(X, X + 1), X), (X + 1) * X - X, rtol=1e-12, atol=1e-14)
    assert len(runs) == 2


def test_static_objects_are_compared_as_their_class_says_also_in_tuples():
    class Rate:
        def __init__(self, value):
            self.value = value

    traced = []

    def f(x, rates):
        traced.append(rates)
        return x * sum(r.value for r in (rates if isinstance(rates, tuple) else (rates,)))

    g = ad.jit(f, static_argnums=1)
    two, three, x = Rate(2.0), Rate(3.0), np.ones(2)
    for _ in range(3):
        for rates, expected in ((two, 2), (three, 3), ((two,), 2), ((three,), 3), ((two, three), 5)):
            assert g(x, rates).tolist() == [expected, expected]
    assert len(traced) == 5


def test_static_values_are_part_of_the_signature():
    f, runs = traces(lambda x, how: x.sum() if how == "sum" else x.mean())
    for _ in range(2):
        assert f(np.ones(4), "sum") == 4.0
        assert f(np.ones(4), "mean") == 1.0
    assert len(runs) == 2
    g = ad.jit(lambda x, axis: x.sum(axis=axis), static_argnums=1)
    for _ in range(2):
        assert g(np.ones((2, 3)), 0).shape == (3,)
        assert g(np.ones((2, 3)), 1).shape == (2,)


def test_captured_arrays_and_tensors_count_with_their_present_contents():
    a, t = np.arange(3.0), ad.tensor([1.0, 1.0, 1.0])
    f, runs = traces(lambda x: x * a + t)
    assert f(np.ones(3)).tolist() == [1.0, 2.0, 3.0]
    a[0] = 9.0
    assert f(np.ones(3)).tolist() == [10.0, 2.0, 3.0]
    t += 1.0
    assert f(np.ones(3)).tolist() == [11.0, 3.0, 4.0]
    assert len(runs) == 1


def test_numbers_that_are_closed_over_are_frozen():
    c = 2.0
    f = ad.jit(lambda x: x * c)
    assert f(np.ones(1))[0] == 2.0
    c = 3.0
    assert f(np.ones(1))[0] == 2.0


@pytest.mark.parametrize(
    "x",
    [
        np.ones((4, 6))[::2, ::3],
        np.asfortranarray(np.ones((2, 2))),
        np.ones((2, 2))[::-1, ::-1],
        np.broadcast_to(1.0, (2, 2)),
        np.ones((2, 2), ">f8"),
        np.frombuffer(np.ones(4).tobytes()).reshape(2, 2),
    ],
)
def test_arrays_of_any_layout_are_right(x):
    f = ad.jit(lambda x: (x * 2.0, x.sum()))
    for _ in range(2):
        y, s = f(x)
        assert (y == 2.0).all() and s == 4.0 and y.flags.c_contiguous
        f(np.ones((2, 2)))


@pytest.mark.smoke
def test_another_shape_or_dtype_is_traced_again_and_both_stay():
    f, runs = traces(lambda x: x * x)
    for _ in range(3):
        for x in (np.ones(2), np.ones(3), np.ones(2, np.float32), np.ones((1, 2))):
            assert f(x).shape == x.shape and f(x).dtype == x.dtype
    assert len(runs) == 4


def test_a_returned_array_is_never_overwritten():
    f = ad.jit(lambda x: x + 1.0)
    first = f(np.zeros(4))
    kept = first.copy()
    for k in range(50):
        f(np.full(4, float(k)))
    np.testing.assert_array_equal(first, kept)


def test_an_output_fed_back_is_the_next_input():
    f = ad.jit(lambda p: {k: v * 0.5 for k, v in p.items()})
    p = {"w": np.ones(3), "b": np.ones(())}
    for _ in range(10):
        p = f(p)
    assert p["w"].tolist() == [0.5**10] * 3 and p["b"] == 0.5**10


def test_the_same_array_twice_is_right():
    f = ad.jit(lambda x, y: (x * y, x, y))
    x = np.arange(3.0)
    for _ in range(2):
        got = f(x, x)
        assert got[0].tolist() == [0.0, 1.0, 4.0] and got[1] is not x and got[1].tolist() == x.tolist()


def test_a_call_in_a_trace_is_part_of_it():
    calls = []

    @ad.jit
    def inner(x):
        calls.append(1)
        return x * 2.0

    inner(np.ones(2))
    a = np.ones(2)
    outer = ad.jit(lambda x: inner(x) + inner(a))
    assert outer(np.ones(2)).tolist() == [4.0, 4.0]
    a[:] = 3.0
    assert outer(np.ones(2)).tolist() == [8.0, 8.0]


@pytest.mark.smoke
def test_eager_mode_runs_the_function_itself():
    f, runs = traces(lambda x: x * 2.0)
    f(np.ones(2))
    ad.config.eager = True
    try:
        assert f(np.ones(2)).tolist() == [2.0, 2.0]
    finally:
        ad.config.eager = False
    assert len(runs) == 2


def test_arguments_are_not_changed_and_not_held():
    import weakref

    f = ad.jit(lambda p: p["w"] * 2.0)
    w = np.ones(3)
    p = {"w": w}
    f(p)
    f(p)
    assert p["w"] is w and w.flags.writeable
    gone = weakref.ref(w)
    del w, p
    assert gone() is None


def test_a_method_and_a_function_of_keywords_only_can_be_compiled():
    @dataclasses.dataclass
    class Model:
        k: float

        @ad.jit
        def scaled(self, x):
            return x * self.k

    assert Model(2.0).scaled(np.ones(2)).tolist() == [2.0, 2.0]
    assert Model(3.0).scaled(np.ones(2)).tolist() == [3.0, 3.0]
    f = ad.jit(lambda *, a, b: a - b)
    for _ in range(2):
        assert f(a=np.ones(1), b=np.zeros(1))[0] == 1.0
        assert f(b=np.ones(1), a=np.zeros(1))[0] == -1.0


def test_a_result_of_no_arrays_is_given_as_it_is():
    f = ad.jit(lambda x: ("a", None, 3))
    for _ in range(2):
        assert f(np.ones(2)) == ("a", None, 3)


def test_results_do_not_share_containers():
    f = ad.jit(lambda x: [x, {"k": x}])
    one, two = f(np.ones(2)), f(np.ones(2))
    one[1]["k"][:] = 5.0
    one.append(copy.copy(one))
    assert len(two) == 2 and two[1]["k"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("options", [{"static_argnums": 1}, {"static_argnums": -2}, {"static_argnames": "n"}])
def test_a_static_parameter_is_one_however_it_is_passed(options):
    runs = []

    @ad.jit(**options)
    def power(x, n=1, m=1):
        runs.append(1)
        return x**n * m if n > 1 else x  # n is a value here

    x = np.full(2, 3.0)
    for _ in range(2):
        assert power(x, 2).tolist() == power(x, n=2).tolist() == power(n=2, x=x).tolist() == [9.0, 9.0]
        assert power(x, 3, 2.0).tolist() == [54.0, 54.0]
        assert power(x).tolist() == [3.0, 3.0]
    assert len(runs) == 5


def test_static_keywords_of_a_function_that_takes_any_are_by_name():
    f = ad.jit(lambda *xs, **how: xs[1] * 2.0 if how["kind"] == "twice" else xs[0], static_argnames="kind")
    assert [f(1.0, 3.0, kind=k) for k in ("twice", "first", "twice")] == [6.0, 1.0, 6.0]


def test_what_derives_from_an_array_is_an_array(tmp_path):
    f, runs = traces(lambda x: x * 2.0)
    mapped = np.memmap(tmp_path / "x", np.float64, "w+", shape=(2,))
    mapped[:] = 3.0
    for x in (mapped, mapped, np.full(2, 3.0)):
        assert type(y := f(x)) is np.ndarray and y.tolist() == [6.0, 6.0]
    assert len(runs) == 1


def test_eager_mode_leaves_the_callers_arrays_as_they_are():
    def grow(x):
        x += 1.0
        x[0] = 7.0
        return x

    x = np.ones(2)
    ad.config.eager = True
    try:
        y = ad.jit(grow)(x)
    finally:
        ad.config.eager = False
    assert y.tolist() == ad.jit(grow)(x).tolist() == [7.0, 2.0]
    assert x.tolist() == [1.0, 1.0] and x.flags.writeable and not np.shares_memory(x, y)


def test_eager_mode_is_on_or_off():
    with pytest.raises(ValueError, match="'no'"):
        ad.config.eager = "no"
    assert ad.config.eager is False


OBJECT = object()


class Labelled:
    def __init__(self, x, label):
        self.x, self.label = x, label


ad.tree.register(Labelled, lambda made: ((made.x,), made.label), lambda label, parts: Labelled(*parts, label))


def test_containers_that_differ_in_the_class_or_sign_of_a_number_are_different_calls():
    keyed = ad.jit(lambda d: {key: x * (2.0 if key is True else 3.0) for key, x in d.items()})
    labelled = ad.jit(lambda made: made.x * (2.0 if made.label is False else np.copysign(3.0, made.label)))
    x = np.ones(())
    for _ in range(4):
        found = [keyed({key: x}) for key in (1, True, 1.0)]
        assert repr(found) == repr([{1: np.float64(3.0)}, {True: np.float64(2.0)}, {1.0: np.float64(3.0)}])
        assert [labelled(Labelled(x, m)) for m in (0, False, 0.0, -0.0)] == [3.0, 2.0, 3.0, -3.0]


@dataclasses.dataclass(frozen=True)
class Setting:
    value: object
    note: object = dataclasses.field(default=None, compare=False)

    def __getitem__(self, _):
        return self.value.value if isinstance(self.value, Setting) else self.value


HOLDERS = {
    "namedtuple": namedtuple("Held", "c")._make, "beside a class": lambda cs: (Labelled, *cs),
    "beside an object": lambda cs: (OBJECT, *cs), "dataclass": lambda cs: Setting(*cs),
    "dataclass in another": lambda cs: Setting(Setting(*cs)),
}  # fmt: skip


@pytest.mark.parametrize("holds", HOLDERS.values(), ids=HOLDERS)
def test_numbers_in_static_values_that_are_equal_are_told_apart(holds):
    def scaled(x, held):
        return x * (2.0 if held[-1] is False else np.copysign(3.0, held[-1]))

    f = ad.jit(scaled, static_argnums=1)
    for _ in range(2):
        assert [f(np.ones(()), holds([c])) for c in (0, False, 0.0, -0.0)] == [3.0, 2.0, 3.0, -3.0]
    of_class = ad.jit(lambda x, held: x * (5.0 if type(held[-1]) is Fraction else 7.0), static_argnums=1)
    assert [of_class(np.ones(()), holds([c])) for c in (1, Fraction(1), 1)] == [7.0, 5.0, 7.0]


def test_what_a_dataclass_does_not_compare_is_no_part_of_the_signature():
    runs = []

    def scaled(x, how):
        runs.append(how)
        return x * how.value

    f = ad.jit(scaled, static_argnums=1)
    for note in range(5):
        assert f(X[0], Setting(2.0, [note])).tolist() == (2 * X[0]).tolist()
    assert len(runs) == 1
