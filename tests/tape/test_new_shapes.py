"""Operations on operands of shapes that were never met are recorded as their bodies record them."""

import gc
import itertools
import sys

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops import contraction, declare, indexing, learner, slicing
from autodiff.tape import state
from codegen.runtime import cache
from tests.ops.cases import eager

RNG = np.random.default_rng(5)


@pytest.fixture
def unlearnt(monkeypatch, native, patience):
    """No shape is learnt at once, and tables are empty."""
    monkeypatch.setattr(cache, "AT_ONCE", 0)
    functions = ad.add, ad.multiply, ad.divide, ad.matmul, ad.reshape, ad.mean, ad.where, ad.concat, ad.power, ad.stack
    for function in functions:
        function.learned.forget()


def facts(f, *arrays):
    """All that can be told of a result, or the error."""
    xs = [ad.tensor(a, requires_grad=a.dtype.kind == "f") if isinstance(a, np.ndarray) else a for a in arrays]
    try:
        y = f(*xs)
    except Exception as error:
        return type(error), str(error).split("called at")[0]
    if y.requires_grad:
        (y * y).sum().backward()
    grads = [x.grad.numpy() for x in xs if isinstance(x, ad.AbstractTensor) and x.grad is not None]
    return type(y), y.requires_grad, [y.detach().numpy(), *grads]


def agrees(f, *arrays):
    ours = facts(f, *arrays)  # first: what the body recorded is remembered
    with eager():
        right = facts(f, *arrays)
    assert ours[:2] == right[:2]
    for a, b in zip(*[found[2] if len(found) > 2 else () for found in (ours, right)], strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        # A sum of products that nearly cancel is as exact as its terms.
        size = np.abs(b).max(initial=0.0, where=np.isfinite(b)) if b.dtype.kind in "fc" else 0.0
        rtol = 1e-6 if a.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-16 + rtol * 1e-3 * size, equal_nan=True)


#: A number of columns for each test: sites remember what they met.
columns = itertools.count(21)


def rows(n, k=5):
    return RNG.normal(size=(n, k))


ONE = {
    "elementwise": lambda x: ad.tanh(x) + x * x,
    "a number on the right": lambda x: x * 2.5 - 1,
    "a number on the left": lambda x: 2 - (1 / (x * x + 1.0)),
    "a power": lambda x: x**2,
    "a mean": lambda x: x.mean(),
    "means of rows": lambda x: x.mean(axis=1, keepdims=True),
    "a variance": lambda x: ad.var(x, axis=0),
    "rows that add to one": lambda x: ad.softmax(x, axis=1),
    "all in a row": lambda x: x.reshape(-1),
    "two halves": lambda x: x.reshape((2, -1)),
    "in the same rows": lambda x: x.reshape((-1, x.shape[1])),
    "a choice": lambda x: ad.where(x > 0, x, 0.0),
    "twice": lambda x: ad.concat([x, x]),
    "the largest": lambda x: ad.max(x, axis=0),
    "a diagonal": lambda x: ad.diagonal(x),
    "transposed": lambda x: x.T @ x,
    "the first half": lambda x: x[: x.shape[0] // 2],
    "every second": lambda x: x[::2, None, 1],
    "backwards": lambda x: x[::-1, 1:],
    "the last": lambda x: x[-1],
}
SIZES = (3, 4, 6, 7, 9, 10, 2, 5, 1, 8, 0, 11, 64, 65, 12, 3, 4, 12, 65)


@pytest.mark.parametrize("name", ONE)
def test_one_operand_of_any_size(unlearnt, name):
    k = next(columns)
    for n in SIZES:
        agrees(ONE[name], rows(n, k))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_keeps_its_side_where_machine_code_learns_it(unlearnt, sign):
    k = next(columns)
    for n in (3, 4, 6, 7, 9, 10, 9, 10, 9, 10, 9, 10):
        x = ad.tensor(np.full((n, k), 4.0))
        np.testing.assert_array_equal((sign / x).numpy(), np.full((n, k), sign / 4))
        np.testing.assert_array_equal((x / sign).numpy(), np.full((n, k), sign * 4.0))


TWO = {
    "sum": lambda x, y: x + y,
    "product of matrices": lambda x, y: x @ y,
    "one behind the other": lambda x, y: ad.concat([x, y]),
    "as the other": lambda x, y: x.reshape(y.shape),
}


@pytest.mark.parametrize("name", TWO)
def test_two_operands_fit_or_are_refused_as_the_body_refuses_them(unlearnt, name):
    f, k = TWO[name], next(columns)
    for n in (3, 4, 6, 7, 9):
        agrees(f, rows(n, n), rows(n, n))
        agrees(f, rows(n, k), rows(n, k))
        agrees(f, rows(n, k), rows(k, 4))
    others = [((8, 8), (8, 1)), ((8, 8), (8, 7)), ((8, 1), (1, 8)), ((5, 5), (5, 5)), ((0, 8), (8, 0)), ((8, 8), (8,)),
              ((12, 2), (2, 12)), ((11, 8), (12, 8)), ((2, 2), (2, 2)), ((1, 1), (7, 7))]  # fmt: skip
    for a, b in others:
        agrees(f, RNG.normal(size=a), RNG.normal(size=b))


def test_what_is_static_and_what_a_flag_says_is_told_apart(unlearnt):
    def flat(x, axis):
        return ad.sum(x, axis=axis), ad.clip(x, -0.0, 1.0), ad.clip(x, 0.0, 1.0)

    k = next(columns)
    for n in (3, 4, 6, 7, 9, 10, 11):
        for dtype in ("f8", "f4"):
            for tracks in (False, True):
                x = ad.tensor(-np.zeros((n, k)).astype(dtype), requires_grad=tracks)
                for axis in (0, 1, -1, None, (0, 1)):
                    y, below, above = flat(x, axis)
                    assert y.dtype == np.dtype(dtype) and y.requires_grad == tracks
                    assert y.shape == np.sum(np.zeros((n, k)), axis=axis).shape
                    assert below.shape == above.shape == x.shape
                agrees(lambda x: ad.sum(x, axis=1.0), x.detach().numpy())
                agrees(lambda x: ad.sum(x, axis=True), x.detach().numpy())
                with ad.no_grad():
                    assert not ad.tanh(x).requires_grad


def test_numbers_among_items_are_leaves_where_machine_code_learns_them(unlearnt, monkeypatch):
    monkeypatch.setattr(learner.Learner, "is_expected_again", lambda *_: False)
    for count in (2, 3):
        for k in range(12):
            y = ad.stack([*[ad.tensor(np.float32(i)) for i in range(count)], 1.5 + k])
            assert y.dtype == np.float32 and y.numpy().tolist() == [*range(count), 1.5 + k]


def test_a_number_that_is_no_float_exactly_is_left_to_the_body(unlearnt):
    for n in (3, 4, 6, 7, 9):
        agrees(lambda x: x * 3, rows(n))
    for big in (2**60 + 1, 10**400, -(10**400)):
        agrees(lambda x, big=big: x * big, rows(12))


def test_a_pending_operand_of_an_earlier_recording_is_evaluated_by_the_body(unlearnt):
    for n in (3, 4, 6, 7, 9, 10):
        x = ad.tensor(rows(n))
        old = ad.exp(x)
        (x * 2.0).numpy()  # ends the recording
        y = old + x
        assert old.node.value is not None
        np.testing.assert_allclose(y.numpy(), np.exp(x.numpy()) + x.numpy())


def test_a_method_that_is_registered_later_is_asked(unlearnt):
    class Meters(ad.AbstractTensor):
        pass

    k = next(columns)
    for n in (3, 4, 6, 7):
        ad.tensor(rows(n, k)) + 1.5
    method = ad.add.method(Meters, Meters)(lambda x1, x2: "meters")
    assert ad.add(Meters(), Meters()) == "meters"
    agrees(lambda x: x + 1.5, rows(9, k))
    method.delete()


def test_a_method_that_bodies_use_is_asked_when_it_is_there(unlearnt):
    k = next(columns)
    for n in (3, 4, 6, 7, 9):
        agrees(lambda x: ad.var(x, axis=0), rows(n, k))
    matrices = ad.Tensor[ad.float64, 2]
    method = ad.subtract.method(matrices, matrices)(lambda x1, x2: ad.add(x1, x2))
    try:
        for n in (10, 11):
            x = rows(n, k)
            expected = ((x + x.mean(axis=0)) ** 2).mean(axis=0)
            np.testing.assert_allclose(ad.var(ad.tensor(x), axis=0).numpy(), expected)
    finally:
        method.delete()


def test_the_body_of_a_custom_function_is_recorded_by_bodies(unlearnt):
    @ad.function
    def doubled(x):
        return x + x

    @doubled.forward(ad.Tensor)
    def _(ctx, x):
        return x + x

    @doubled.backward(ad.Tensor)
    def _(ctx, y_bar):
        return (3.0 * y_bar,)

    for n in (3, 4, 6, 7, 9, 10):
        x = ad.tensor(rows(n), requires_grad=True)
        (x + x).sum().backward()
        x.grad = None
        doubled(x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full((n, 5), 3.0))


def test_sizes_that_come_again_are_learnt_by_machine_code(unlearnt, monkeypatch):
    run, asked = learner.Learner.is_expected_again, []
    monkeypatch.setattr(learner.Learner, "is_expected_again", lambda self, keys: asked.append(keys) or run(self, keys))
    x = [ad.tensor(rows(n, next(columns))) for n in range(2, 22)]
    for _ in range(4):
        before = len(asked)
        for t in x:
            t + t
    assert before and len(asked) == before  # nobody asked Python


def test_after_so_many_there_is_room_for_what_comes_again_soon(monkeypatch):
    monkeypatch.setattr(cache, "AT_ONCE", 20)
    learning = cache.LearningFilter()
    assert all(learning.admits(k) for k in range(20))
    assert [learning.admits(k) for k in (31, 32, 31, 33, 32)] == [False, False, True, False, True]
    assert not any(learning.admits(k) for k in range(100, 100 + 2 * cache.MET))
    assert not learning.admits(31)


def test_of_two_that_come_by_turns_each_comes_again():
    for met in range(cache.MET + 1):
        learning = cache.LearningFilter()
        for k in range(met):
            learning.admits(k)
        learning.admits("one")
        learning.admits("other")
        assert learning.admits("one") and learning.admits("other"), met


def test_learning_looks_at_no_value_and_leaves_no_node_behind(unlearnt):
    k, now = next(columns), state.now
    asked, noted = now.asked, len(now.small)
    for n in (3, 4, 6, 7, 9):
        x = ad.tensor(rows(n, k)).sum(axis=1)
        x + x
    assert now.asked == asked and not any([r() is not None and r() is not x for r in now.small[noted:]])


# ---------------------------------------------------------------- kinds that Python gives to machine code


def grown(x, w, n):
    """Operations on tensors alone, of shapes that n says."""
    part = x[:n]
    h, y = ad.tanh(part @ w), part[:, 1 : w.shape[1] + 1]
    return h * h - y / h, part[n:0:-2], (h > y) | (h <= h), x[1:n, ::2]


def grown_from():
    """Matrices for it, whose columns no other test has."""
    m = 200 + next(columns)
    return ad.tensor(rows(300, m + 50)), ad.tensor(rows(m + 50, m), requires_grad=True)


def test_operations_of_new_shapes_are_recorded_without_bodies(unlearnt, monkeypatch):
    x, w = grown_from()
    grown(x, w, 3)
    with eager():
        right = [[y.detach().numpy() for y in grown(x, w, n)] for n in range(4, 40)]
    for module, name in ((indexing, "_selection"), (contraction, "_product"), (declare, "in_common_dtype")):
        monkeypatch.setattr(module, name, None)
    for n, expected in zip(range(4, 40), right, strict=True):
        found = grown(x, w, n)
        assert [y.requires_grad for y in found] == [True, False, False, False]
        for y, z in zip(found, expected, strict=True):
            assert y.dtype == z.dtype
            np.testing.assert_allclose(y.detach().numpy(), z, rtol=1e-10, atol=1e-12)


def test_a_method_for_parts_is_asked_at_new_shapes(unlearnt):
    x = ad.tensor(rows(30, next(columns)))
    assert x[:4].shape[0] == 4
    method = indexing.getitem.method(ad.Tensor, slice)(lambda x, key: x * 2.0)
    try:
        assert x[:5].shape[0] == 30
    finally:
        method.delete()
    assert x[:6].shape[0] == 6


@pytest.mark.parametrize("does", ["rebinds", "asks", "switches", "fails", "interrupts"])
def test_whatever_runs_while_a_kind_is_made_the_result_is_right(unlearnt, monkeypatch, does):
    """The collector of cycles may run any finaliser there."""
    run, k = slicing.kind_of, next(columns)
    x = ad.tensor(rows(40, k)) + 0.0
    x[:3], x[:4]

    def meddling(*given):
        monkeypatch.setattr(slicing, "kind_of", run)
        if does == "rebinds":
            x.__iadd__(1.0)
        elif does == "asks":
            (x * 2.0).sum().item()
        elif does == "switches":
            ad.clear_cache()
        else:
            raise {"fails": ValueError, "interrupts": KeyboardInterrupt}[does]
        return run(*given)

    for n in range(5, 30):
        before = x.numpy().copy()
        x += 0.5  # pending
        monkeypatch.setattr(slicing, "kind_of", meddling)
        if does in ("fails", "interrupts"):
            with pytest.raises((ValueError, KeyboardInterrupt)):
                x[:n]
        y = x[:n]
        monkeypatch.setattr(slicing, "kind_of", run)
        np.testing.assert_array_equal(y.numpy(), (before + 0.5 + (does == "rebinds"))[:n])


def test_nothing_is_left_behind_by_new_shapes(unlearnt):
    x, w = grown_from()
    held = x.node, w.node, slicing.START
    grown(x, w, 3)
    gc.collect()
    counts = [sys.getrefcount(h) for h in held[:2]]
    for n in range(4, 300):
        grown(x, w, n)
    kind = x[:5].node.kind
    few = sys.getrefcount(kind)
    for _ in range(9):
        x[:5], x[5:10]
    gc.collect()
    assert [sys.getrefcount(h) for h in held[:2]] == counts
    assert few <= sys.getrefcount(kind) <= few + 1  # a program that was learnt has it
