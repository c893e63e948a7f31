"""The native recording is the one that Python makes: see `ops.recorder`."""

import asyncio
import copy
import pickle
import weakref

import numpy as np
import pytest
from spied import calls_of_python

import autodiff as ad


def leaf(n=5, dtype=ad.float64, requires_grad=True):
    return ad.tensor(np.arange(1, n + 1), dtype=dtype, requires_grad=requires_grad)


def test_operands_are_the_nodes_of_the_handles(way):
    a, b = leaf(), leaf()
    for _ in range(3):
        assert (a * b).node.inputs == (a.node, b.node)
        assert ad.exp(a).node.inputs == (a.node,)
        number = (a * 2).node.inputs[1]
        assert (number.value, type(number.value), number.inputs) == (2.0, float, ())


def test_numbers_count_creation(way):
    a = leaf()
    for _ in range(3):
        y = a * 2.0
        z = y + a
        assert a.node.number < y.node.inputs[1].number < y.node.number < z.node.number


@pytest.mark.smoke
def test_gradients_are_those_of_python(way):
    a, b = leaf(), leaf()
    for _ in range(4):
        a.grad = b.grad = None
        y = ad.sum(ad.exp(a * 0.1) * b - a / b + 2)
        y.backward()
    x, z = a.detach().numpy(), b.detach().numpy()
    np.testing.assert_allclose(a.grad.numpy(), 0.1 * np.exp(0.1 * x) * z - 1 / z)
    np.testing.assert_allclose(b.grad.numpy(), np.exp(0.1 * x) + x / z**2)


def test_grad_mode_is_that_of_the_context(way):
    a = leaf()

    async def task(tracks):
        with ad.enable_grad() if tracks else ad.no_grad():
            for _ in range(5):
                assert (a * a).requires_grad is tracks
                await asyncio.sleep(0)

    async def both():
        await asyncio.gather(task(True), task(False))

    asyncio.run(both())
    assert (a * a).requires_grad


def test_a_method_takes_effect_at_the_next_call(way):
    a, b = leaf(), leaf()
    multiply = ad.multiply
    for _ in range(3):
        before = a * b
    kind = type(a)
    method = multiply.method(kind, kind)(lambda x1, x2: "mine")
    try:
        assert a * b == "mine" and multiply(a, b) == "mine"
        assert isinstance(a * 2.0, ad.Tensor)
    finally:
        method.delete()
    assert (a * b).node.kind is before.node.kind


def test_a_backward_takes_effect_at_the_next_call(way):
    a = leaf()
    for _ in range(3):
        ad.sum(ad.exp(a)).backward()
    rule = ad.exp.backward(type(a))(lambda ctx, g: g * 7)
    try:
        a.grad = None
        ad.sum(ad.exp(a)).backward()
        assert a.grad.tolist() == [7.0] * 5
    finally:
        rule.delete()


def test_a_method_inside_a_template_takes_effect_at_the_next_call(way):
    a = leaf()
    for _ in range(4):
        before = ad.softmax(a).tolist()
    kind = type(a)
    method = ad.exp.method(kind)(lambda x: x * 0 + 1)
    try:
        assert ad.softmax(a).tolist() == [0.2] * 5
    finally:
        method.delete()
    assert ad.softmax(a).tolist() == before


@pytest.mark.smoke
def test_errors_name_the_users_line(way):
    a = leaf()
    for _ in range(3):
        with pytest.raises(ad.ShapeError, match=r"test_native_recording\.py"):
            a * leaf(4)
    with pytest.raises(OverflowError):
        a * 10**400
    with pytest.raises(TypeError):
        a * object()
    with pytest.raises(TypeError):
        ad.exp()
    with pytest.raises(TypeError):
        ad.exp(a, a)
    assert (a * a).shape == (5,)


def test_other_operands_have_their_say(way):
    class Right:
        def __rmul__(self, other):
            return "right"

    class Mine(ad.AbstractTensor):
        def __mul__(self, other):
            return "mine"

        def __rmul__(self, other):
            return "mine, reflected"

    a = leaf()
    for _ in range(3):
        assert a * Right() == "right"
        assert Mine() * a == "mine" and Mine() * 2.0 == "mine" and 2.0 * Mine() == "mine, reflected"
        assert (a * True).tolist() == a.tolist()
        assert isinstance(ad.Diagonal(a) @ a, ad.Tensor)
    assert ad.AbstractTensor.__mul__(a, a).tolist() == [1.0, 4.0, 9.0, 16.0, 25.0]
    assert ad.AbstractTensor.__rmul__(a, 2.0).tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert ad.AbstractTensor.__neg__(a).tolist() == [-1.0, -2.0, -3.0, -4.0, -5.0]
    assert ad.exp.__call__(a).tolist() == ad.exp(a).tolist()


def test_a_handle_without_a_node_is_an_error_and_no_crash(way):
    a = leaf()
    a * a
    bare = object.__new__(type(a))
    for x, y in ((bare, a), (a, bare), (bare, 2.0)):
        with pytest.raises(AttributeError):
            x * y
    bare.node, bare.masked = 3, False
    with pytest.raises(AttributeError):
        bare * a


def test_inputs_of_a_custom_forward_are_masked(way):
    seen = []

    @ad.function
    def twice(x): ...

    @twice.forward(ad.Tensor)
    def _(ctx, x):
        y = x * 2.0
        seen.append((x.requires_grad, y.requires_grad, ad.exp(y).requires_grad))
        return y

    @twice.backward(ad.Tensor)
    def _(ctx, g):
        return g * 2.0

    a = leaf()
    for _ in range(3):
        a.grad = None
        ad.sum(twice(a) * a).backward()
    assert seen == [(False, False, False)] * 3
    assert a.grad.tolist() == (4 * np.arange(1.0, 6.0)).tolist()


def test_anomalies_name_the_line_that_recorded(way):
    a = ad.tensor([0.0, 1.0], requires_grad=True)
    for _ in range(3):
        ad.sum(ad.sqrt(a))
    with ad.detect_anomaly():
        y = ad.sum(ad.sqrt(a))
        with pytest.raises(ad.GradientError, match=r"test_native_recording\.py"):
            y.backward()
    assert type(ad.sqrt(a).node).__name__ == "Node"


def test_eager_evaluates_at_once(way):
    a = leaf()
    a * 2.0
    ad.config.eager = True
    try:
        assert (a * 2.0).node.value is not None
    finally:
        ad.config.eager = False
    assert (a * 2.0).node.value is None


def test_a_traced_function_takes_what_it_captures(way):
    a = leaf(requires_grad=False)
    a * a
    f = ad.jit(lambda x: x * a + 2.0)
    assert f(np.ones(5)).tolist() == [3.0, 4.0, 5.0, 6.0, 7.0]
    a.copy_(ad.zeros((5,)))
    assert f(np.ones(5)).tolist() == [2.0] * 5


def test_small_results_are_computed_with_what_is_asked_for(way):
    a = leaf()
    for _ in range(3):
        metric, loss = ad.sum(a * a), ad.sum(ad.exp(a))
        loss.detach().numpy()
        assert metric.node.value is not None


def test_a_pending_operand_of_an_earlier_recording_is_evaluated(way):
    a = leaf(100)
    for _ in range(4):
        y = a * 2.0
        ad.sum(a).detach().numpy()
        z = y + a
        assert y.node.value is not None and z.node.value is None


def test_a_very_long_recording_is_evaluated_in_between(way):
    y = a = leaf(100, requires_grad=False)
    for _ in range(9000):
        y = y + 1.0
    assert a.node.number < y.node.number
    np.testing.assert_array_equal(y.numpy(), a.numpy() + 9000.0)


def test_handles_can_be_referred_to_copied_and_pickled(way):
    a = leaf()
    for _ in range(3):
        y = a.detach() * 2.0
    gone = weakref.ref(y)
    assert pickle.loads(pickle.dumps(y)).tolist() == y.tolist()
    assert copy.deepcopy(y).tolist() == y.tolist()
    del y
    assert gone() is None


def test_operands_of_an_earlier_recording_are_evaluated_first(way):
    """A state that is carried along without gradients, as optimisers have it."""
    w, x = leaf(100), leaf(100, requires_grad=False)
    mean = ad.tensor(np.zeros(100))
    expected = np.zeros(100)
    for k in range(8):
        w.grad = None
        ad.sum(w * x * float(k)).backward()
        with ad.no_grad():
            mean = 0.9 * mean + 0.1 * w.grad
        expected = 0.9 * expected + 0.1 * np.arange(1, 101) * k
        assert mean.node.value is None
    np.testing.assert_allclose(mean.numpy(), expected, rtol=1e-13)


def test_an_error_while_an_earlier_operand_is_evaluated_is_raised(way):
    x, index = leaf(5, requires_grad=False), ad.tensor(np.full(100, 7))
    for _ in range(4):
        y = ad.take(x, index * 1) * 2.0
        ad.sum(leaf(3)).backward()
        with pytest.raises(IndexError):
            y + 1.0
    assert float(ad.sum(x)) == 15.0


def test_what_a_hook_records_runs_no_python(native):
    x, seen = leaf(), []

    def halved(g):
        called, found = calls_of_python(lambda: g * 0.5 + ad.sum(g))
        seen.append(called)
        return found

    x.register_hook(halved)
    for _ in range(6):
        x.grad = None
        (x * x).sum().backward()
        np.testing.assert_array_equal(x.grad, x.detach().numpy() + 30.0)
    assert seen[-1] == []
