"""Laws of `jit` where sizes differ: a size that comes once is recorded, one that comes again has a trace of its own."""

import numpy as np
import pytest

import autodiff as ad

SIZES = [40, 41, 57, 23, 200, 18]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """As it is in programs; in tests every program is compiled at once."""
    monkeypatch.setattr(ad.config, "patience", 8)


def _rows(n, k=3):
    return np.random.default_rng(n).normal(size=(n, k))


W = np.linspace(-1.0, 1.0, 6).reshape(3, 2)


def _step(w, x):
    """A step of descent: the loss, and what the weights are then."""
    loss, g = ad.value_and_grad(lambda w: ad.mean(ad.tanh(x @ w) ** 2))(w)
    return loss, {"w": w - 0.1 * g}


@pytest.mark.parametrize(
    "f",
    [
        lambda w, x: ad.tanh(x @ w),
        lambda w, x: (x * 2.0, ad.sum(x), x.shape[0]),
        ad.grad(lambda w, x: ad.sum(ad.exp(x @ w) / x.shape[0])),
        ad.value_and_grad(lambda w, x: (ad.mean((x @ w) ** 2), x + 1.0), has_aux=True),
        ad.grad(lambda w, x: ad.sum(ad.grad(lambda v: ad.sum(ad.sin(x @ v)))(w) ** 2)),
        ad.vmap(lambda w, x: ad.sum(ad.sin(x) @ w), in_axes=(None, 0)),
        lambda w, x: ad.vjp(lambda v: x @ v, w)[1](ad.ones((x.shape[0], 2)))[0],
        _step,
    ],
)
def test_every_size_has_the_results_of_its_own_trace(f):
    jitted = ad.jit(f)
    for n in [*SIZES, *SIZES[:1:-1], *SIZES[2:]]:
        x = _rows(n)
        kept = x.copy()
        found = ad.tree.flatten(jitted(W, x))
        ad.config.eager = True
        try:
            expected = ad.tree.flatten(jitted(W, x))
        finally:
            ad.config.eager = False
        assert found[1] == expected[1]
        for a, b in zip(found[0], expected[0], strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
            assert not np.shares_memory(a, x)
        np.testing.assert_array_equal(x, kept)


def test_a_function_sees_each_size_and_is_run_no_more_once_it_is_traced():
    seen = []

    @ad.jit
    def f(x):
        seen.append(x.shape[0])
        return ad.sum(x) / float(x.shape[0])

    for _ in range(3):
        for n in SIZES:
            assert f(np.ones(n)) == pytest.approx(1.0)
    assert set(seen) == set(SIZES)
    assert all(seen.count(n) == (1 if k < 2 else 2) for k, n in enumerate(SIZES))


@pytest.mark.parametrize(
    "ask", [float, bool, lambda t: t.numpy(), lambda t: t.item(), np.asarray, lambda t: t.tolist()]
)
def test_a_function_is_refused_values_at_every_size(ask):
    @ad.jit
    def f(x):
        y = ad.sum(x)
        if x.shape[0] > 60:
            ask(y)
        return y

    for n in (10, 20, 30, 40):
        f(np.ones(n))
    for n in (70, 80):
        with pytest.raises(ad.ConcretizationError, match="inside jit and vmap there are no values yet"):
            f(np.ones(n))
    assert f(np.ones(50)) == 50.0


def test_values_of_gradients_inside_are_refused_too():
    @ad.jit
    def f(x):
        g = ad.grad(lambda x: ad.sum(x * x))(x)
        if x.shape[0] > 60:
            float(g[0])
        return g

    for n in (10, 20, 30, 40):
        f(np.ones(n))
    with pytest.raises(ad.ConcretizationError):
        f(np.ones(70))


def test_an_argument_that_is_updated_in_place_stays_the_caller_s():
    @ad.jit
    def f(x):
        x += 1.0
        x[0] = 7.0
        return x, ad.sum(x)

    for n in SIZES:
        x = np.zeros(n)
        y, total = f(x)
        assert not x.any()
        assert y[0] == 7.0
        assert total == n - 1 + 7.0


def test_numbers_and_arrays_around_a_function_count_as_in_a_trace():
    scale, w = ad.tensor([1.0, 2.0]), np.array([1.0, 1.0])
    f = ad.jit(lambda x, k: ad.sum(x * scale + w) * k)
    for n in SIZES:
        assert f(np.ones((n, 2)), 3) == 3 * n * (float(scale.numpy().sum()) + w.sum())
        scale, w[0] = ad.tensor([1.0, float(n)]), float(n)


def test_an_index_outside_is_told_as_in_a_trace():
    f = ad.jit(lambda x, i: x[i] * 2.0)
    for n in (20, 30, 40, 50):
        f(np.ones(n), np.array([1, 2]))
    with pytest.raises(IndexError, match="in <lambda>"):
        f(np.ones(60), np.array([1, 99]))


def test_explain_tells_of_every_size():
    f = ad.jit(lambda x: ad.sum(x * x))
    for n in (20, 30, 40, 50):
        f(np.ones(n))
    told = str(ad.explain())
    assert "argument x is f64[40], before it was f64[30]" in told
    assert "argument x is f64[50], before it was f64[40]" in told


def test_other_sizes_are_compiled_no_more():
    step = ad.jit(ad.value_and_grad(lambda w, x: ad.mean(ad.tanh(x @ w) ** 2)))
    for n in range(30, 40):
        step(W, _rows(n))
    before = ad.cache_info().compiles
    for n in range(40, 90):
        step(W, _rows(n))
    assert ad.cache_info().compiles <= before + 1
