"""Calls of jit functions that go by machine code alone: what they give, what they leave to Python, what they hold."""

import copy
import functools
import gc
import inspect
import pickle
import sys
import threading
import weakref
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest
from natively import is_entered, is_native, left_to, without_python

import autodiff as ad

Pair = namedtuple("Pair", "left right")
KEY, HOW = "a key that is made here", object()


def entered(f, *calls):
    """f under jit that knows these calls, and has no other way than machine code for them."""
    g = ad.jit(f)
    for args in calls:
        expected = g(*args)
        again = g(*args)
        assert repr(again) == repr(expected)
    without_python(g)
    return g


def same(a, b):
    (xs, s), (ys, t) = ad.tree.flatten(a), ad.tree.flatten(b)
    assert s == t
    for x, y in zip(xs, ys, strict=True):
        assert type(x) is type(y)
        assert x is y or np.asarray(x).tobytes() == np.asarray(y).tobytes()


X, Y = np.arange(3.0), np.array([2.0, -1.0, 0.5])


@pytest.mark.parametrize(
    ("f", "args", "expected"),
    [
        (lambda x, y: x * y, (X, Y), X * Y),
        (lambda x: x.sum(), (X,), np.float64(3.0)),
        (lambda: ad.zeros(2) + 1.0, (), np.ones(2)),
        (lambda x, s: x * s, (X, 3.0), X * 3.0),
        (lambda x, s: x * s, (X, np.float64(3.0)), X * 3.0),
        (lambda x, s: x * s, (X, np.array(3.0)), X * 3.0),
        (lambda x, s: (x * s, s), (X, 3), (X * 3.0, np.int64(3))),
        (lambda x: x > 1.0, (np.float32(2),), np.bool_(True)),
        (lambda p: [p[0] + p[1][0], {KEY: p[0]}], ((X, [Y]),), [X + Y, {KEY: X}]),
        (lambda p: {"b": p["a"] * p["c"], "n": None}, ({"a": X, "c": Y},), {"b": X * Y, "n": None}),
        (lambda p, _: (p.left - p.right, "it"), (Pair(X, Y), HOW), (X - Y, "it")),
        (lambda x, e: ((), [], {}, x + 1.0), (X, ()), ((), [], {}, X + 1.0)),
        (lambda x: (x, (x, [x])), (X,), (X, (X, [X]))),
        (lambda x: x[1:] * 2, (X,), X[1:] * 2),
        (lambda x, s: (x * s).sum(), (X, 1j), np.complex128(3j)),
    ],
)
def test_a_known_call_gives_what_python_gives(f, args, expected):
    g = entered(f, args)
    for _ in range(3):
        same(g(*args), expected)


@pytest.mark.smoke
def test_value_and_gradient_come_as_a_number_and_an_array():
    f = entered(ad.value_and_grad(lambda x, y: (x * y).sum()), (X, Y))
    value, gradient = f(X, Y)
    assert type(value) is np.float64 and value == (X * Y).sum()
    assert type(gradient) is np.ndarray and gradient.tolist() == Y.tolist()


def test_several_known_calls_stay_known():
    f = entered(lambda x, y: x + y, (X, Y), (X, 2.0), (X[:2], Y[:2]), (np.float32(1), np.float32(2)))
    assert f(X, Y).tolist() == (X + Y).tolist()
    assert f(X, 5.0).tolist() == (X + 5.0).tolist()
    assert f(X[:2].copy(), Y[:2].copy()).tolist() == (X + Y)[:2].tolist()
    assert f(np.float32(1), np.float32(4)) == 5


@pytest.mark.parametrize(
    "args",
    [
        ({"a": X, "b": [Y]}, 2.0), ({"b": [Y], "a": X}, 1.0), ({"a": X, "b": [Y, Y]}, 1.0), ({"a": X, "b": (Y,)}, 1.0),
        ({"a": X}, 1.0), ({"a": X, "b": [Y]},), ({"a": X[::-1], "b": [Y]}, 1.0), ({"a": X, "b": [Y]}, 1),
        ({"a": X, "b": [Y]}, 1.0, 2.0), ({"a": X.astype("f4"), "b": [Y]}, 1.0), (dict, 1.0), ([X], 1.0), (None, 1.0),
    ],
)  # fmt: skip
def test_any_other_call_is_left_to_python(args):
    asked = []
    f = ad.jit(lambda p, s: [p["a"] * s, *p["b"]])
    for _ in range(2):
        f({"a": X, "b": [Y]}, np.float64(1.0))
    left_to(f, lambda args, kwargs: asked.append(args) or "asked")
    if is_native():
        same(f({"a": X, "b": [Y]}, np.float64(2.0)), [X * 2.0, Y])
    assert not asked
    assert f(*args) == "asked" and asked == [args]


@pytest.mark.parametrize("given", [np.float64(2.0), 2.0, 2, True, 2j])
def test_a_number_is_not_taken_for_an_array_of_no_dimensions(given):
    asked = []
    f = ad.jit(lambda x, s: x * s)
    for _ in range(2):
        f(X, np.array(2.0))
    left_to(f, lambda args, kwargs: asked.append(args) or "asked")
    if is_native():
        same(f(X, np.array(3.0)), X * 3.0)
        assert not asked
    assert f(X, given) == "asked"


def test_an_array_is_not_taken_for_a_number():
    asked = []
    f = ad.jit(lambda x, s: x * s)
    for _ in range(2):
        f(X, 2.0)
    left_to(f, lambda args, kwargs: asked.append(args) or "asked")
    if is_native():
        same(f(X, 3.0), X * 3.0)
    assert f(X, np.array(2.0)) == "asked"


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "?", "c16", "c8"])
def test_a_number_that_somebody_holds_does_not_change(dtype):
    x = np.arange(1.0, 4.0).astype(dtype)
    f = entered(lambda x: (x[0], x * x, x[2]), (x,))
    held = [f((x * k).astype(dtype)) for k in range(20)]
    last = None
    for k in range(20, 40):  # each lives until the next one is there
        first, row, third = f((x * k).astype(dtype))
        assert last is None or last == (x[0] * (k - 1)).astype(dtype)
        last = first
        assert type(first) is type(third) is x.dtype.type and third == (x[2] * k).astype(dtype)
    for k, (first, row, third) in enumerate(held):
        y = (x * k).astype(dtype)
        same((first, row, third), (y[0], y * y, y[2]))


def test_numbers_of_threads_that_run_at_once_are_their_own():
    f = entered(lambda x: (x * x).sum(), (X,))
    wrong = []

    def calls(k):
        x = X * k
        for _ in range(2000):
            value = f(x)
            if value != 5.0 * k * k:
                wrong.append(value)

    threads = [threading.Thread(target=calls, args=(k,)) for k in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: (x + 1, x + 2, x + 3), (X + 1, X + 2, X + 3)),
        (lambda x: (x.sum(), (x + 1, x + 2)), (np.float64(3), (X + 1, X + 2))),
        (lambda x: ((x + 1, x + 2), (x + 3,), [x + 4]), ((X + 1, X + 2), (X + 3,), [X + 4])),
        (lambda x: (s := x.sum(), (s, x + 1)), (np.float64(3), (np.float64(3), X + 1))),
        (lambda x: ((s := x.sum(), x + 1), (s, x + 2)), ((np.float64(3), X + 1), (np.float64(3), X + 2))),
        (lambda x: ((x + 1, s := x.sum()), (x + 2, s), s), ((X + 1, np.float64(3)), (X + 2, np.float64(3)), 3.0)),
        (lambda x: ((x + 1, "it"), (x + 2, x + 3)), ((X + 1, "it"), (X + 2, X + 3))),
        (lambda x: {"a": (x + 1, x + 2), "b": ((),)}, {"a": (X + 1, X + 2), "b": ((),)}),
    ],
)
def test_tuples_of_results_that_follow_one_another_are_as_any(f, expected):
    g = entered(f, (X,))
    for _ in range(3):
        found = g(X)
        (xs, s), (ys, t) = ad.tree.flatten(found), ad.tree.flatten(expected)
        assert s == t
        for x, y in zip(xs, ys, strict=True):
            assert x == y if type(y) is str else np.asarray(x).tolist() == np.asarray(y).tolist()
    counts = [sys.getrefcount(x) for x in ad.tree.leaves(g(X)) if type(x) is np.ndarray]
    # The list's, the loop's, and before Python 3.14 that of the question.
    assert counts and set(counts) == {sys.getrefcount(x) for x in [object()]}


@pytest.mark.parametrize(
    ("f", "places"),
    [
        (lambda x: ad.any(x > 0), [()]),
        (lambda x: (ad.any(x > 0), ad.all(x > 0)), [(0,), (1,)]),
        (lambda x: (x + 1, ad.any(x > 0), x.sum(), {"a": [ad.all(x > 0), 3]}), [(1,), (3, "a", 0)]),
        (lambda x: (s := ad.any(x > 0), s, [s]), [(0,), (1,), (2, 0)]),
        (lambda x: ((x + 1, s := ad.all(x > 0)), (x + 2, s)), [(0, 1), (1, 1)]),
    ],
)
def test_truths_are_numpys_own_as_if_and_is_take_them(f, places):
    xs = [np.array(row) for row in ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0])]
    g = entered(f, (xs[0],))
    for x in xs * 3:
        found, wanted = g(x), f(ad.tensor(x))
        for place in places:
            truth = functools.reduce(lambda part, key: part[key], place, found)
            expected = functools.reduce(lambda part, key: part[key], place, wanted)
            assert type(truth) is np.bool_ and truth is np.bool_(bool(expected))
            assert bool(truth) is bool(expected)


def test_truths_leave_nothing_behind():
    """The object that a kernel wrote to, in place of which NumPy's own is given, is let go."""
    f = entered(lambda x: (s := ad.any(x > 0), [s, ad.all(x > 0)], {"a": x.sum() > 0}), (X,))
    counts = []
    for _ in range(4):
        counts.append(sys.getallocatedblocks())
        for _ in range(5000):
            f(X)
    assert counts[-1] - counts[1] < 500


def test_keywords_are_arguments_by_name_in_their_order():
    f = ad.jit(lambda x, s=2.0, p=None: x * s if p is None else x * s + p["b"])
    for _ in range(2):
        assert f(X).tolist() == f(X, s=2.0).tolist() == f(x=X).tolist() == (X * 2.0).tolist()
        assert f(X, s=3.0, p={"b": Y}).tolist() == (X * 3.0 + Y).tolist()
    assert f(X, **{}).tolist() == (X * 2.0).tolist()
    if is_native():
        left_to(f, lambda args, kwargs: sorted(kwargs))
    for _ in range(3):
        assert f(X).tolist() == f(x=X).tolist() == (X * 2.0).tolist()
        assert f(X, s=5.0).tolist() == (X * 5.0).tolist()
        assert f(X, s=1.0, p={"b": Y}).tolist() == (X + Y).tolist()
        if is_native():
            assert f(X, p={"b": Y}, s=1.0) == f(X, s=1, p={"b": Y}) == ["p", "s"]
            assert f(X, t=1.0) == ["t"] and f(s=2.0) == ["s"]


def test_tensors_and_traces_and_eager_mode_are_left_to_python():
    runs = []
    f = ad.jit(lambda x: runs.append(1) or x * x)
    for _ in range(2):
        f(X)
    assert is_entered(f) == is_native()
    x = ad.tensor(X, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.numpy().tolist() == (2 * X).tolist()
    assert ad.jit(lambda x: f(x) + f(Y))(X).tolist() == (X * X + Y * Y).tolist()
    before = len(runs)
    ad.config.eager = True
    try:
        f(X)
    finally:
        ad.config.eager = False
    assert len(runs) == before + 1


def test_calls_with_tensors_do_not_keep_calls_with_arrays_from_being_known():
    f = ad.jit(lambda x: x * x)
    for x in (X, ad.tensor(X), ad.tensor(X), X):
        f(x)
    assert is_entered(f) == is_native()
    assert type(f(X)) is np.ndarray and isinstance(f(ad.tensor(X)), ad.Tensor)


def test_what_is_captured_counts_with_its_present_contents():
    a, t = np.arange(3.0), ad.tensor([1.0, 1.0, 1.0])
    f = entered(lambda x: x * a + t * 2.0, (X,))
    a[0] = 9.0
    assert f(Y).tolist() == (Y * a + 2.0).tolist()
    t += 1.0
    assert t.numpy().tolist() == [2.0, 2.0, 2.0]
    assert f(Y).tolist() == (Y * a + 4.0).tolist()


def test_a_captured_tensor_that_waits_for_its_value_is_left_to_python():
    t = ad.tensor([1.0, 1.0, 1.0])
    f = ad.jit(lambda x: x + t)
    for _ in range(2):
        f(X)
    t *= 3.0
    assert f(X).tolist() == (X + 3.0).tolist()


def test_an_index_out_of_range_is_raised_as_python_raises_it():
    f = ad.jit(lambda x, i: x[i])
    good, bad = np.array([0, 2]), np.array([0, 7])
    for _ in range(2):
        assert f(X, good).tolist() == [0.0, 2.0]
    with pytest.raises(IndexError) as known:
        f(X, bad)
    g = ad.jit(lambda x, i: x[i])
    with pytest.raises(IndexError) as first:
        g(X, bad)
    assert str(known.value).split("\n")[0] == str(first.value).split("\n")[0]
    assert f(X, good).tolist() == [0.0, 2.0]


def test_a_method_that_is_registered_later_counts():
    @ad.function
    def scaled(x):
        return x * 2.0

    f = ad.jit(lambda x: scaled(x))
    for _ in range(3):
        assert f(X).tolist() == (X * 2.0).tolist()

    @scaled.method
    def _(x: ad.Tensor):
        return x * 3.0

    for _ in range(3):
        assert f(X).tolist() == (X * 3.0).tolist()


def test_calls_keep_nothing_and_lose_nothing():
    things = {KEY: X, "b": [Y, np.float64(1e9)]}
    f = entered(lambda p, how: (how, {KEY: p[KEY] * p["b"][1]}, p["b"][0].sum(), [None, "it"]), (things, HOW))
    watched = (X, Y, KEY, HOW, things["b"][1], things["b"], f, getattr(f, "site", None), np.float64, None)

    def counts():
        gc.collect()
        return [sys.getrefcount(x) for x in watched]

    f(things, HOW)
    before, blocks = counts(), sys.getallocatedblocks()
    for _ in range(1000):
        f(things, HOW)
    assert [abs(a - b) < 20 for a, b in zip(counts(), before, strict=True)] == [True] * len(watched)
    assert abs(sys.getallocatedblocks() - blocks) < 200


def test_a_function_that_is_gone_frees_what_it_knew():
    captured = ad.tensor(X)
    f = entered(lambda x: x + captured, (X,))
    gone = weakref.ref(f)
    kept = sys.getrefcount(captured)
    del f
    gc.collect()
    assert gone() is None and sys.getrefcount(captured) < kept


def test_a_container_may_change_while_a_call_runs():
    n = 3_000_000
    f = entered(lambda xs: ad.sin(xs[0]).sum() * 0.0 + xs[0].sum(), ([np.ones(n)],))
    left_to(f, lambda args, kwargs: "it was empty before")
    for _ in range(5):
        xs = [np.ones(n)]
        other = threading.Timer(0.002, xs.clear)
        other.start()
        try:
            assert f(xs) in (n, "it was empty before")
        finally:
            other.join()


def test_an_interrupt_while_python_takes_an_argument_apart_is_raised():
    class Line:
        def __init__(self, slope):
            self.slope = slope

    def flatten(line):
        if raised:
            raise raised.pop()
        return (line.slope,), None

    raised: list[BaseException] = []
    ad.tree.register(Line, flatten, lambda _, children: Line(*children))
    g, line = ad.jit(lambda line: line.slope * 2.0), Line(X)
    for _ in range(4):
        same(g(line), X * 2.0)
    raised.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        g(line)
    raised.append(ValueError())  # the general way would meet it again
    same(g(line), X * 2.0)


def test_threads_may_call_at_once():
    f = entered(lambda x, p: (x * p["w"], x.sum()), (X, {"w": Y}))
    wrong = []

    def work(k):
        x = np.full(3, float(k))
        for _ in range(300):
            y, s = f(x, {"w": Y})
            if y.tolist() != (x * Y).tolist() or s != 3.0 * k:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@ad.jit
def doubled(x, factor=2.0):
    """Twice as much."""
    return x * factor


def test_what_jit_gives_looks_like_the_function():
    assert doubled.__name__ == "doubled" and doubled.__doc__ == "Twice as much."
    assert list(inspect.signature(doubled).parameters) == ["x", "factor"]
    assert "return x * factor" in inspect.getsource(doubled)
    assert pickle.loads(pickle.dumps(doubled)) is doubled is copy.deepcopy(doubled)
    assert "doubled" in repr(doubled) and callable(doubled)
    doubled.note = 1
    assert doubled.note == 1
    f = ad.jit(functools.partial(doubled, factor=3.0))
    assert [f(X).tolist() for _ in range(3)] == [[0.0, 3.0, 6.0]] * 3


def test_a_copy_of_what_jit_gives_is_itself_also_without_a_name():
    f = ad.jit(lambda x: x * 3.0)
    kept = copy.deepcopy({"steps": [f]})
    assert kept["steps"][0] is copy.copy(f) is f
    np.testing.assert_array_equal(f(X), X * 3.0)


def test_a_method_is_bound_when_its_calls_are_known_too():
    class Model(NamedTuple):
        k: float

        @ad.jit
        def scaled(self, x):
            return x * self.k

    one, two = Model(2.0), Model(3.0)
    for _ in range(3):
        assert one.scaled(X).tolist() == (X * 2.0).tolist()
        assert two.scaled(X).tolist() == Model.scaled(two, X).tolist() == (X * 3.0).tolist()
    assert list(inspect.signature(one.scaled).parameters) == ["x"]


def test_a_site_that_is_none_of_ours_is_not_followed():
    f = ad.jit(lambda x: x + 1.0)
    for _ in range(2):
        f(X)
    f.site = b"12345678"
    assert f(X).tolist() == (X + 1.0).tolist()
