"""Gradients of histories in which nodes of a few kinds come many times."""

import numpy as np

import autodiff as ad

X = np.array([0.5, 1.0])


def many(x, w):
    """Kinds of nodes that come several times, some with one operand twice, some under a strong zero."""
    for _ in range(3):
        y = x * x + ad.exp(w * x) / (1.0 + x)
        y = ad.where(y > 0.5, ad.sqrt(ad.abs(y)), y / (y - y)) + ad.maximum(x, w)
        x = ad.tanh(y @ ad.matrix_transpose(y)).sum(axis=1)[:, None] * x[0:1] + ad.concatenate([x[1:], w[:1]])
    return (x**2).sum() + ad.logsumexp(x, axis=0).sum()


def gradients():
    ad.clear_cache()
    x = ad.tensor(np.linspace(-0.9, 2.0, 6).reshape(3, 2), requires_grad=True)
    w = ad.tensor(np.linspace(0.5, 1.5, 6).reshape(3, 2), requires_grad=True)
    many(x, w).backward()
    return x.grad.numpy().tobytes(), w.grad.numpy().tobytes()


def test_gradients_have_the_same_bits_each_time():
    first = gradients()
    assert first == gradients() == gradients()


def test_operands_that_are_one_and_the_same_are_another_case():
    x, w = ad.tensor(X, requires_grad=True), ad.tensor(X + 1, requires_grad=True)
    y = x * w + x * x
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 3 * X + 1)


def test_a_new_method_for_what_a_rule_calls_takes_effect():
    x = ad.tensor(X, requires_grad=True)
    y = ad.sin(ad.sin(x)).sum()
    y.backward(retain_graph=True)
    before = x.grad.numpy()
    method = ad.cos.method(ad.Tensor[ad.float64, 1])(lambda x: x * 0.0 + 3.0)
    try:
        for _ in range(3):
            x.grad = None
            y.backward(retain_graph=True)
            assert x.grad.numpy().tolist() == [9.0, 9.0]
    finally:
        method.delete()
    x.grad = None
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), before)


def test_second_derivatives_and_traces_have_the_right_values():
    x = ad.tensor(X, requires_grad=True)
    for _ in range(2):
        g = ad.grad(ad.sin(ad.sin(x)).sum(), [x], create_graph=True)[0]
        h = ad.grad(g.sum(), [x])[0]
        s, c = np.sin(X), np.cos(X)
        np.testing.assert_allclose(h.numpy(), -np.sin(s) * c * c - np.cos(s) * s, rtol=1e-12)
    traced = ad.jit(lambda x: ad.grad(lambda x: ad.sin(ad.sin(x)).sum())(x))
    np.testing.assert_allclose(traced(x.detach()).numpy(), g.detach().numpy(), rtol=1e-12)


def test_gradients_in_eager_mode_are_equal(monkeypatch):
    expected = [np.frombuffer(g) for g in gradients()]
    monkeypatch.setattr(ad.config, "eager", True)
    for _ in range(2):
        for a, b in zip(gradients(), expected, strict=True):
            np.testing.assert_allclose(np.frombuffer(a), b, rtol=1e-10, atol=1e-10)  # the largest are near 200
