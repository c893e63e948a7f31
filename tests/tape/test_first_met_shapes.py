"""Operations at shapes that come once: more of them than are learnt at once."""

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(3)


def test_parts_of_new_shapes_are_those_of_numpy(way, patience):
    ends = [None, *range(-9, 10)]
    for _ in range(300):
        shape = tuple(int(n) for n in RNG.integers(0, 7, RNG.integers(1, 4)))
        picked = [[ends[i] for i in RNG.integers(0, len(ends), 2)] for _ in range(RNG.integers(1, len(shape) + 1))]
        key = tuple([slice(*pair, [None, 1, 2, -1, -3][RNG.integers(5)]) for pair in picked])
        array = RNG.normal(size=shape)
        x = ad.tensor(array, requires_grad=True)
        y = x[key[0] if len(key) == 1 else key]
        (y * y).sum().backward()
        np.testing.assert_array_equal(y.detach().numpy(), array[key])
        expected = np.zeros(shape)
        expected[key] = 2 * array[key]
        np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_a_custom_forward_keeps_its_rule_at_new_shapes(way, patience):
    @ad.function
    def sliced(x, w): ...

    @sliced.forward(ad.Tensor, ad.Tensor)
    def _(ctx, x, w):
        return ad.tanh(x[1:] @ w)

    @sliced.backward(ad.Tensor, ad.Tensor)
    def _(ctx, y_bar):
        return {"x": None, "w": ad.full(w.shape, 7.0)}

    for n in range(3, 100):
        x, w = ad.tensor(RNG.normal(size=(n, 5))), ad.tensor(RNG.normal(size=(5, 4)), requires_grad=True)
        sliced(x, w).sum().backward()
        np.testing.assert_array_equal(w.grad.numpy(), np.full((5, 4), 7.0))


def test_a_layer_that_grows_is_that_of_numpy(way, patience):
    x, y = RNG.normal(size=(200, 7)), RNG.normal(size=200)
    w, v = ad.tensor(RNG.normal(size=(7, 5)), requires_grad=True), ad.tensor(RNG.normal(size=5), requires_grad=True)
    rows, targets = ad.tensor(x), ad.tensor(y)
    for n in range(1, 200):
        error = ad.tanh(rows[:n] @ w) @ v - targets[:n]
        loss = (error * error).mean()
        loss.backward()
        h = np.tanh(x[:n] @ w.detach().numpy())
        apart = h @ v.detach().numpy() - y[:n]
        np.testing.assert_allclose(loss.item(), (apart * apart).mean(), rtol=1e-10)
        h_bar = 2 / n * apart[:, None] * v.detach().numpy() * (1 - h * h)
        np.testing.assert_allclose(v.grad.numpy(), 2 / n * h.T @ apart, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(w.grad.numpy(), x[:n].T @ h_bar, rtol=1e-8, atol=1e-12)
        w.grad = v.grad = None


def test_operands_that_do_not_fit_are_refused_at_the_users_line(way, patience):
    w = ad.tensor(np.ones((5, 4)))
    for n in range(70, 170):
        x = ad.tensor(np.ones((n, 4)))
        with pytest.raises(ad.ShapeError, match=rf"f64\[{n},4\] @ f64\[5,4\]\n(.*\n)*  called at .*test_first_met"):
            x @ w
        with pytest.raises(ad.ShapeError, match=rf"add: shapes do not broadcast: f64\[{n},4\], f64\[5,4\]"):
            x + w
        assert (x[:, 1:] + x[:, :3]).shape == (n, 3)
        assert (x @ ad.tensor(np.ones((4, n)))).dtype == np.float64
        assert (x + ad.tensor(np.ones(4, np.float32))).dtype == np.float64
