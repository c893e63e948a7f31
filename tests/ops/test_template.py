"""Templates: what was recorded before is recorded again, and nothing else is."""

import numpy as np
import pytest

import autodiff as ad

X = np.random.default_rng(0).normal(size=(4, 3))

PROGRAMS = {
    "log_softmax": (lambda x: ad.log_softmax(x, axis=1), lambda x: x - np.log(np.exp(x).sum(1, keepdims=True))),
    "mean": (lambda x: x.mean(axis=0, keepdims=True), lambda x: x.mean(axis=0, keepdims=True)),
    "max": (lambda x: ad.max(x, (0, 1)), np.max),
    "matmul": (lambda x: x @ x.T, lambda x: x @ x.T),
    "slice": (lambda x: x[1:3, ::2], lambda x: x[1:3, ::2]),
    "backwards": (lambda x: x[::-1, 0], lambda x: x[::-1, 0]),
    "int": (lambda x: x[-1, 1], lambda x: x[-1, 1]),
    "nothing": (lambda x: x[2:2], lambda x: x[2:2]),
    "reshape": (lambda x: x.reshape(2, -1).sum(axis=[0]), lambda x: x.reshape(2, -1).sum(axis=0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_repetition_gives_the_same_value_and_gradient(name):
    program, reference = PROGRAMS[name]
    gradients = []
    for k in range(5):
        x = ad.tensor(X * (k + 1), requires_grad=True)
        y = program(x)
        np.testing.assert_allclose(y.detach().numpy(), reference(X * (k + 1)), rtol=1e-12, atol=1e-12)
        gradients.append(ad.grad(program(x).sum() * (k + 1.0), x).numpy() / (k + 1.0))
    by_functions = ad.grad(lambda x: program(x).sum())(X)
    np.testing.assert_allclose(gradients[0], by_functions, rtol=1e-12, atol=1e-12)


def test_starts_of_slices_are_run_time_arguments():
    x = ad.tensor(X)
    for i in (0, 1, 2, 0):
        np.testing.assert_array_equal(x[i : i + 2].numpy(), X[i : i + 2])
        np.testing.assert_array_equal(x[i].numpy(), X[i])
    with pytest.raises(IndexError, match="outside of axis 0"):
        x[4]


def test_static_arguments_of_another_class_are_others():
    x = ad.tensor(X)
    for _ in range(3):
        ad.sum(x, 0)
    for axis in (0.0, "0"):
        with pytest.raises(TypeError):
            ad.sum(x, axis)
    assert ad.sum(x, (0, 1)).shape == () and ad.sum(x, (1,)).shape == (4,)


def test_grad_mode_and_requires_grad_are_part_of_the_key():
    leaf, data = ad.tensor(X, requires_grad=True), ad.tensor(X)
    for _ in range(3):
        assert ad.mean(leaf).requires_grad and not ad.mean(data).requires_grad
        with ad.no_grad():
            assert not ad.mean(leaf).requires_grad


def test_a_new_method_for_what_the_body_calls_takes_effect():
    x = ad.tensor(X)
    for _ in range(3):
        before = ad.softmax(x, axis=1).numpy()

    @ad.exp.method(ad.Tensor[ad.float64, 2])
    def doubled(x):
        return ad.power(4.0, x)

    try:
        expected = 4.0 ** (X - X.max(axis=1, keepdims=True))
        expected /= expected.sum(axis=1, keepdims=True)
        for _ in range(3):
            np.testing.assert_allclose(ad.softmax(x, axis=1).numpy(), expected)
    finally:
        doubled.delete()
    np.testing.assert_array_equal(ad.softmax(x, axis=1).numpy(), before)


def test_a_pending_value_of_an_earlier_recording_is_evaluated_first():
    x = ad.tensor(np.ones((100, 3)))
    for _ in range(3):
        pending = x * 2.0
        ad.tensor(1.0).item()
        (x * 1.0).sum().item()  # an ask: what is pending belongs to an earlier recording now
        assert pending.sum(axis=0).numpy().tolist() == [200.0] * 3
        assert pending[3:5].numpy().tolist() == [[2.0] * 3] * 2


def test_inside_a_custom_forward_results_report_no_grad():
    seen = []

    @ad.function
    def total(x): ...

    @total.forward(ad.Tensor)
    def _(ctx, x):
        y = ad.sum(x)
        seen.append(y.requires_grad)
        return y

    @total.backward(ad.Tensor)
    def _(ctx, g):
        return {"x": ad.broadcast_to(g, ctx.inputs.x.shape)}

    x = ad.tensor(X, requires_grad=True)
    for _ in range(4):
        total(x).backward()
    assert seen == [False] * 4 and (x.grad.numpy() == 4.0).all()


def test_the_same_tensor_twice_is_right():
    x = ad.tensor(X[:3])
    for _ in range(4):
        np.testing.assert_allclose((x @ x).numpy(), X[:3] @ X[:3])
        np.testing.assert_allclose((x @ ad.tensor(X[:3] * 2)).numpy(), X[:3] @ X[:3] * 2)


