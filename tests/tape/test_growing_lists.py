"""Lists that grow by one at each step: what is known of them is put together at once, where shapes do not repeat."""

import operator

import numpy as np
import pytest

import autodiff as ad
from autodiff import ops
from autodiff.ops import joining
from autodiff.ops.learner import Learner
from codegen.runtime import cache
from codegen.runtime.record_table import RecordTable

RNG = np.random.default_rng(5)
ITEMS = list(RNG.normal(size=(12, 2, 3)))


@pytest.fixture
def varied(monkeypatch, patience):
    """Lists are taken for growing ones."""
    monkeypatch.setattr(joining, "_DISTINCT_LENGTHS", 0)


def known(arrays=ITEMS):
    return [ad.tensor(a) for a in arrays]


def test_the_stack_of_a_list_that_grows_is_a_known_program_at_each_length(patience):
    w, right = ad.tensor(np.ones(3), requires_grad=True), np.ones(3)
    rows = RNG.normal(size=(40, 3))
    seen, compiles = [], 0
    for n, row in enumerate(rows, 1):
        if n == 24:
            compiles = ad.cache_info().compiles
        seen.append(ad.tensor(row))
        x = ad.stack(seen)
        ad.sum(ad.tanh(x @ w)).backward()
        right = right - 0.1 * rows[:n].T @ (1 - np.tanh(rows[:n] @ right) ** 2)
        with ad.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
        np.testing.assert_allclose(w.detach().numpy(), right, rtol=1e-10)
    assert x.node.value is not None and not x.node.inputs
    assert ad.cache_info().compiles == compiles


@pytest.mark.parametrize("axis", [0, 1, -1, 2])
def test_what_is_put_together_at_once_has_the_values_of_numpy(varied, axis):
    np.testing.assert_array_equal(ad.stack(known(), axis=axis).numpy(), np.stack(ITEMS, axis))
    np.testing.assert_array_equal(ad.stack([*known()[:9], *[x * 1 for x in known()[9:]]], axis).numpy(),
                                  np.stack(ITEMS, axis))  # fmt: skip
    if axis < 2:
        np.testing.assert_array_equal(ad.concatenate(known(), axis=axis).numpy(), np.concatenate(ITEMS, axis))
        of_any = [*known()[:9], ad.tensor(ITEMS[9], requires_grad=True), *known()[10:]]
        with ad.no_grad():
            np.testing.assert_array_equal(ad.concatenate(of_any, axis).numpy(), np.concatenate(ITEMS, axis))


def test_numbers_of_one_dtype_stay_of_it_and_others_are_promoted(varied):
    assert ad.stack([ad.tensor(np.float32(k)) for k in range(9)]).dtype == np.float32
    mixed = ad.stack([*[ad.tensor(k) for k in range(9)], ad.tensor(0.5)])
    assert mixed.dtype == np.float64 and mixed.numpy()[-1] == 0.5


@pytest.mark.parametrize("join", [ad.stack, ad.concatenate])
def test_gradients_flow_to_the_items_behind_what_is_known(varied, join):
    w = ad.tensor(ITEMS[0], requires_grad=True)
    seed = RNG.normal(size=join([*ITEMS, ITEMS[0], ITEMS[0]]).shape)
    y = join([*[x.detach() for x in known()], w * 2, known()[1] * w])
    assert y.requires_grad
    ad.sum(y * seed).backward()
    bars = seed[-2:] if join is ad.stack else (seed[-4:-2], seed[-2:])
    np.testing.assert_allclose(w.grad.numpy(), 2 * bars[0] + ITEMS[1] * bars[1], rtol=1e-14)


def test_items_that_track_are_never_made_constants(varied):
    ws = [ad.tensor(a, requires_grad=True) for a in ITEMS]
    ad.sum(ad.stack(ws) ** 2).backward()
    for w in ws:
        np.testing.assert_allclose(w.grad.numpy(), 2 * w.detach().numpy(), rtol=1e-14)


def test_items_that_do_not_fit_are_named_as_ever(varied):
    with pytest.raises(ad.ShapeError, match=r"stack: shapes differ: .* at 12\n  called at .*test_growing_lists.py"):
        ad.stack([*known(), ad.tensor(np.ones((2, 4)))])
    with pytest.raises(ad.ShapeError, match=r"concatenate: shapes must agree .* at 12\n"):
        ad.concatenate([*known(), ad.tensor(np.ones((2, 4)))])
    with pytest.raises(ad.ShapeError, match="stack: no axis 5"):
        ad.stack(known(), axis=5)
    with pytest.raises(ad.ShapeError, match="0-d arrays have no axis"):
        ad.concatenate([ad.tensor(1.0)] * 9)


def test_in_a_trace_items_stay_arguments(varied):
    f = ad.jit(lambda xs: ad.sum(ad.stack(xs)))
    assert f(ITEMS) == pytest.approx(np.sum(ITEMS))
    assert f([2 * x for x in ITEMS]) == pytest.approx(2 * np.sum(ITEMS))
    gradients = ad.grad(lambda xs: ad.sum(ad.stack(xs) ** 2))(ITEMS)
    np.testing.assert_allclose(gradients[3], 2 * ITEMS[3])


# ---------------------------------------------------------------- what the native recorder learns of new sizes


def test_operands_of_new_sizes_are_learnt_when_they_are_met_again(monkeypatch, patience):
    learner = Learner(lambda: None, ops.multiply, RecordTable(max), operator.mul)
    learnt = []
    monkeypatch.setattr(learner, "learn", lambda age, keys, *rest: learnt.append(keys[0].shape))
    monkeypatch.setattr(cache, "AT_ONCE", 2)

    def meet(*sizes):
        for n in sizes:
            x = ad.tensor(np.ones(n))
            learner.unknown(x, x)

    meet(2, 3)
    assert learnt == [(2,), (3,)]  # at once
    meet(4, 5)
    assert learnt == [(2,), (3,)]  # after so many, the next is likely to be one of more
    meet(4)
    assert learnt == [(2,), (3,), (4,)]
    meet(*range(100, 200))
    learnt.clear()
    meet(201, 201)
    assert learnt == [(201,)]
