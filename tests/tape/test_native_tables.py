"""The tables of what the recorder has learnt of keys, arrays, static values and bodies: from when on, until when."""

import ast
import gc
import sys
import tracemalloc

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops import indexing, learner, recorder, template
from autodiff.ops.einsum import _of_items
from autodiff.tape.leaves import copied_natively
from codegen.runtime import record_table

RNG = np.random.default_rng(11)


def cube():
    return ad.tensor(RNG.normal(size=(3, 4, 2)), requires_grad=True)


def test_natively_from_the_fourth_time_on(native, monkeypatch):
    x, rows, v = cube(), np.array([0, 2]), np.ones((2, 4, 2))

    def run():
        y = x * 1.0
        y[rows] = v
        y[1] = 2.0
        return y[rows], x[:, rows], ad.take(x, rows, axis=1)

    for _ in range(4):
        run()
    monkeypatch.setattr(indexing, "_selection", None)
    monkeypatch.setattr(indexing, "_updated", None)
    monkeypatch.setattr(ad.take, "_call", None)
    assert [y.shape for y in run()] == [(2, 4, 2), (3, 2, 2), (3, 2, 2)]


def test_a_method_registered_later_is_taken(way):
    x, rows = cube(), np.array([0, 1])
    for _ in range(4):
        x[rows], x[1:]

    @indexing.getitem.method(ad.Tensor, np.ndarray)
    def own(x, key):
        return -x

    try:
        for _ in range(3):
            np.testing.assert_array_equal(x[rows].detach().numpy(), -x.detach().numpy())
    finally:
        own.delete()
    assert x[rows].shape == (2, 4, 2)

    @indexing.getitem.method(ad.Tensor, slice)
    def other(x, key):
        return x * 2.0

    try:
        for _ in range(3):
            assert x[1:].shape == (3, 4, 2) and x[rows].shape == (2, 4, 2)
    finally:
        other.delete()
    assert x[1:].shape == (2, 4, 2)


def test_nothing_is_left_behind(way):
    x, rows, v = cube(), np.array([0, 2]), np.ones((2, 4, 2))

    def run():
        y = x * 1.0
        y[rows] = v
        y[1] = 2.0
        return y[:, rows]

    for _ in range(5):
        run()
    held = x.node, rows, v, x.node.kind, indexing.getitem, None
    gc.collect()
    counts = [sys.getrefcount(h) for h in held[:-1]]
    for _ in range(500):
        run()
    gc.collect()
    assert [sys.getrefcount(h) for h in held[:-1]] == counts


def test_natively_from_the_second_time_on(native):
    # Extents that no other test has met: what is known once is known to the process.
    array = np.random.default_rng(0).normal(size=(3, 1013))
    assert copied_natively(array) is None
    ad.tensor(array)
    assert copied_natively(array * 2.0).shape == (3, 1013)
    assert copied_natively(array.astype(np.float32)) is None
    assert copied_natively(array[:, :1009]) is None


def matrix():
    return ad.tensor(np.arange(1.0, 13.0).reshape(3, 4), requires_grad=True)


@pytest.mark.parametrize(
    "value",
    [0.1, -0.0, 300, 2**62, (1, 300), (0.5, 2), "text", None, True, (1, (2, 300)), ((0, 0.5), (300,)), [1, 300],
     [(0, 300), [], (1,)], ([0], [300]), (((1,), 300),)]
)  # fmt: skip
def test_a_static_value_is_recognised_when_it_is_made_anew(value, native):
    """Numbers, tuples and lists by value, all else by identity."""
    runs = []

    @template.public(1)
    def scaled(x, by):
        runs.append(by)
        return x * float(len(runs))

    x = matrix()
    made_anew = {float: lambda: value + 0.0, int: lambda: int(str(value))}
    made_anew[tuple] = made_anew[list] = lambda: ast.literal_eval(repr(value))
    make = made_anew.get(type(value), lambda: value)
    recorder.uninstall()
    recorder.install()
    found = [float(scaled(x, make())[0, 1].detach()) for _ in range(6)]
    assert found[3:] == [found[3]] * 3 and len(runs) <= 4


@pytest.mark.parametrize("value", [2**70, (1, 2**70), [[[[1.0]]]], ("".join(["te", "xt"]),)])
def test_what_would_not_be_found_again_is_not_learnt(value, native):
    """Ints of more than 64 bits, items of items of items of items, strings that are made anew."""
    runs = []

    @template.public(1)
    def scaled(x, by):
        runs.append(by)
        return x * 2.0

    recorder.uninstall()
    recorder.install()
    x = matrix()
    for _ in range(6):
        made_anew = ast.literal_eval(repr(value))
        assert float(scaled(x, made_anew)[0, 1].detach()) == 4.0
    assert len(runs) == 6 and len(scaled.learned) == 0


def test_long_lists_that_come_once_are_not_kept(native):
    @template.public(1)
    def scaled(x, by):
        return x * 2.0

    recorder.uninstall()
    recorder.install()
    x = matrix()
    tracemalloc.start()
    for i in range(40):
        scaled(x, [i, *range(10_000)])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000



def test_a_list_that_changes_is_another_static_value(native):
    x, axes, shape = matrix(), [0, 1], [(3, 4), (4, 3)]

    @template.public(1)
    def reshaped(x, shapes):
        return ad.reshape(x, shapes[-1])

    for _ in range(6):
        assert ad.transpose(x, axes).shape == (3, 4)
        assert reshaped(x, shape).shape == shape[-1]
        axes.reverse()
        assert ad.transpose(x, axes).shape == (4, 3)
        axes.reverse()
        shape.append(shape.pop(0))
    nested = []
    nested.append(nested)
    for _ in range(6):
        ad.transpose(x, [1, 0])
        with pytest.raises(TypeError):
            ad.transpose(x, nested)


X = np.random.default_rng(0).normal(size=(4, 3))


@pytest.mark.parametrize("way", ["native"], indirect=True)
def test_a_function_without_operands_is_known_by_its_static_arguments(way):
    runs = []

    @template.public(0)
    def filled(shape, value, *, dtype=ad.float64):
        runs.append(value)
        return ad.zeros(shape, dtype=dtype) + ad.tensor(float(value))

    recorder.uninstall()
    recorder.install()
    for _ in range(6):
        assert filled((2, 3), 7).tolist() == [[7.0] * 3] * 2
    assert len(runs) <= 4
    for _ in range(6):
        assert filled((2,), 7, dtype=ad.float32).dtype == np.float64
        assert filled((2,), 8).tolist() == [8.0, 8.0]
        assert filled((2, 3), 7).tolist() == [[7.0] * 3] * 2
        assert filled((), 0.0).item() == 0.0 and filled((), -0.0).item() == 0.0
    assert len(runs) <= 20


def test_labels_of_einsum_are_known_by_value(native):
    a, b = ad.tensor(X), ad.tensor(X.T)
    for text in ("ij,jk->ik", "ij,jk->ki"):
        for _ in range(4):
            found = ad.einsum("".join(list(text)), a, b).numpy()
            np.testing.assert_allclose(found, np.einsum(text, X, X.T))
    assert len(_of_items.learned) == 2


@pytest.mark.parametrize("name", ["einsum", "median", "quantile", "quantiles", "convolve", "correlate", "interp",
                                  "gradient", "unstack", "randint", "choice", "bernoulli"])  # fmt: skip
def test_what_depends_on_shapes_alone_is_put_down_without_its_body(name, native):
    x, row = ad.tensor(RNG.normal(size=(4, 6)), requires_grad=True), ad.tensor(RNG.normal(size=6))
    key = ad.random.key(0)
    run = {
        "einsum": lambda: ad.einsum("ij,kj,k->i", x, x, x[:, 0]),
        "median": lambda: ad.median(x, axis=1),
        "quantile": lambda: ad.quantile(x, 0.3),
        "quantiles": lambda: ad.quantile(x, row[:2]),
        "convolve": lambda: ad.convolve(row, row[:3]),
        "correlate": lambda: ad.correlate(row, row),
        "interp": lambda: ad.interp(x, row, row),
        "gradient": lambda: ad.gradient(row, 0.5),
        "unstack": lambda: ad.unstack(x),
        "randint": lambda: ad.random.randint(key, (3,), 0, 9),
        "choice": lambda: ad.random.choice(key, 6, (3,)),
        "bernoulli": lambda: ad.random.bernoulli(key, 0.5, (3,)),
    }[name]
    for _ in range(6):
        run()
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        run()
    finally:
        sys.setprofile(None)
    assert len(calls) < 45, calls


def test_a_body_takes_a_later_method(way):
    """What a table has is dropped, where a method is registered that its body would choose."""
    x = ad.tensor(X)
    for _ in range(4):
        before = ad.softmax(x, axis=1).numpy()
    doubled = ad.exp.method(ad.Tensor[ad.float64, 2])(lambda x: ad.power(4.0, x))
    try:
        expected = 4.0 ** (X - X.max(axis=1, keepdims=True))
        np.testing.assert_allclose(ad.softmax(x, axis=1).numpy(), expected / expected.sum(axis=1, keepdims=True))
    finally:
        doubled.delete()
    np.testing.assert_array_equal(ad.softmax(x, axis=1).numpy(), before)


def test_a_function_that_is_declared_later_is_known_too(native):
    runs = []

    @template.public(1)
    def doubled(x):
        runs.append(x)
        return x * 2.0

    x = matrix()
    for _ in range(6):
        np.testing.assert_array_equal(doubled(x).detach().numpy(), 2.0 * x.detach().numpy())
    assert len(runs) <= 3


def spread(n):
    """Values that tell each operand, its side, and grad mode."""
    x = ad.tensor(np.arange(float(n)), requires_grad=True)
    with ad.no_grad():
        still = x - 0.5
    y = x * 3.0 - (x * x - 1.0)
    return y, y.detach(), still


def test_many_shapes_by_turns_are_all_known(native, patience, monkeypatch):
    for _ in range(4):
        for n in range(200):
            spread(n)
    monkeypatch.setattr(learner.Learner, "learn", None)
    for n in range(200):
        y, value, still = spread(n)
        assert y.requires_grad and not still.requires_grad
        np.testing.assert_array_equal(value.numpy(), np.arange(n) * 3.0 - (np.arange(n) ** 2 - 1.0))
        np.testing.assert_array_equal(still.numpy(), np.arange(n) - 0.5)


def test_a_table_of_too_many_programs_begins_anew(native, monkeypatch):
    monkeypatch.setattr(record_table, "MOST", 40)
    ad.subtract.learned.forget()
    sizes = []
    for n in [*range(300), *range(300)]:
        _, value, still = spread(n)
        np.testing.assert_array_equal(value.numpy(), np.arange(n) * 3.0 - (np.arange(n) ** 2 - 1.0))
        np.testing.assert_array_equal(still.numpy(), np.arange(n) - 0.5)
        sizes.append(len(ad.subtract.learned))
    assert 40 <= max(sizes) <= 64
