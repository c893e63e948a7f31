"""In-place operators in machine code: see `codegen.runtime.recorder_updates`."""

import operator

import numpy as np
import pytest
from work_done import work

import autodiff as ad

UPDATES = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow,
]  # fmt: skip


def values(*shape, seed=0):
    return np.random.default_rng(seed).uniform(1.0, 2.0, shape)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("shape", [(), (3,), (9, 11)])
def test_a_handle_gets_what_numpy_computes(way, update, shape):
    for k in range(8):
        expected = values(*shape)
        t = ad.tensor(expected)
        for other in (values(*shape, seed=k), 1.5, 2, np.float64(0.75)):
            same = t
            expected = update(np.array(expected), other)
            t = update(t, ad.tensor(other) if isinstance(other, np.ndarray) and k % 2 else other)
            assert t is same
        np.testing.assert_allclose(t.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("shape", [(), (3,), (9, 11)])
def test_a_leaf_stays_the_same_leaf(way, update, shape):
    for k in range(8):
        w = ad.tensor(values(*shape), requires_grad=True)
        identity, expected = w.node.leaf, values(*shape)
        (w * w).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), 2 * expected, rtol=1e-12)
        before = w.detach()
        with ad.no_grad():
            w = update(w, 0.25 * w.grad + 1.0)
        assert w.is_leaf and w.requires_grad and w.node.leaf is identity
        old, expected = expected, update(np.array(expected), 0.5 * expected + 1.0)
        if k % 2:
            np.testing.assert_allclose(w.detach().numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(before.numpy(), old, rtol=1e-12)
        (w * w).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), 2 * (old + expected), rtol=1e-12)


def test_gradients_of_older_values_belong_to_the_same_leaf(way):
    for _ in range(6):
        w = ad.tensor(values(4), requires_grad=True)
        older = (w * 3.0).sum()
        with ad.no_grad():
            w -= 0.5
            w *= 2.0
        (older + (w * w).sum()).backward()
        np.testing.assert_allclose(w.grad.numpy(), 3.0 + 2.0 * (values(4) - 0.5) * 2.0, rtol=1e-12)


def test_a_leaf_is_not_updated_where_gradients_are_recorded(way):
    w, x = ad.tensor(values(4), requires_grad=True), ad.tensor(values(4))
    for _ in range(6):
        with ad.no_grad():
            w -= 0.1 * x
        node = w.node
        with pytest.raises(ad.GradientError, match="no_grad"):
            w -= 0.1 * x
        assert w.node is node


def test_what_does_not_fit_is_an_error_and_changes_nothing(way):
    t = ad.tensor(values(3))
    whole = ad.tensor(np.arange(3))
    for _ in range(6):
        t += 1.0
        whole += 1
        held = t.node, whole.node
        with pytest.raises(ad.ShapeError):
            t += ad.tensor(values(2, 3))
        with pytest.raises(ad.DTypeError):
            whole += 0.5
        with pytest.raises(TypeError):
            t += object()
        assert held == (t.node, whole.node)


def test_a_smaller_operand_and_a_wider_one_keep_the_handles_aval(way):
    for _ in range(6):
        t = ad.tensor(values(2, 3).astype(np.float32))
        t += ad.tensor(values(3))
        t *= values(2, 1)
        assert t.dtype == np.float32 and t.shape == (2, 3)
        np.testing.assert_allclose(t.numpy(), (values(2, 3) + values(3)) * values(2, 1), rtol=1e-6)


def test_what_knows_better_what_a_sum_is_is_asked(way):
    class Other:
        def __radd__(self, left):
            return "mine"

    t = ad.tensor(values(3))
    for _ in range(6):
        t += 1.0
    node = t.node
    t += Other()
    assert t == "mine" and node is not None


def test_a_history_goes_through_updates(way):
    for _ in range(6):
        x = ad.tensor(values(5), requires_grad=True)
        t = ad.tensor(values(5, seed=1))
        t *= 2.0
        t *= x
        t += x * x
        t.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2.0 * values(5, seed=1) + 2.0 * values(5), rtol=1e-12)


def test_updates_that_nobody_reads_are_there_when_asked_for(way):
    rows = [ad.tensor(values(n), requires_grad=True) for n in (3, 100, 200)]
    expected = [values(n) for n in (3, 100, 200)]
    for _ in range(7):
        (rows[1] * rows[2][:100]).sum().backward()
        with ad.no_grad():
            for k, w in enumerate(rows):
                w -= 0.125
                expected[k] = expected[k] - 0.125
                w.grad = None
    for w, value in zip(rows, expected, strict=True):
        np.testing.assert_allclose(w.detach().numpy(), value, rtol=1e-12)


def test_inside_a_rule_that_says_so_an_input_is_updated(way):
    @ad.function
    def doubled(x): ...

    @doubled.forward(ad.Tensor)
    def _(ctx, x):
        x *= 2.0
        ctx.mark_dirty(x)
        return x

    @doubled.backward(ad.Tensor)
    def _(ctx, g):
        return g * 20.0

    for _ in range(6):
        x = ad.tensor(values(3), requires_grad=True)
        y = x * 1.0
        doubled(y)
        y.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.full(3, 20.0))


@pytest.mark.parametrize("size", [5, 100])
def test_parameters_that_are_looked_at_after_their_updates_are_computed_together(way, size):
    parameters = [ad.tensor(values(size, seed=k), requires_grad=True) for k in range(8)]
    for step in range(6):
        with ad.no_grad():
            for k, w in enumerate(parameters):
                w *= 1.0 + 0.5 * k
        runs = work().runs
        found = [w.detach().numpy() for w in parameters]
        assert work().runs - runs <= 2
        for k, w in enumerate(found):
            np.testing.assert_allclose(w, values(size, seed=k) * (1.0 + 0.5 * k) ** (step + 1), rtol=1e-12)
