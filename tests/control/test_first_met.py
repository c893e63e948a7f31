"""A host forward that is first met in a body, whose outputs are known when it has run once."""

import numpy as np
import pytest

import autodiff as ad

X = np.array([0.3, 0.8, -0.4])


def unknown():
    """sin by NumPy, which nobody has called yet."""

    @ad.function
    def hosted(x): ...

    @hosted.forward(ad.Tensor, host=True)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return np.sin(x)

    @hosted.backward(ad.Tensor)
    def _(ctx, y_bar):
        return y_bar * ad.cos(ctx.saved_variables.x)

    return hosted


def three_times(f):
    return lambda x: f(f(f(x)))


#: What calls f in a body, and the same without.
BODIES = {
    "scan": (lambda f: lambda x: ad.scan(lambda c, _: (f(c), None), x, None, 3)[0], three_times),
    "scan of elements": (lambda f: lambda x: ad.scan(lambda c, x: (c, f(x)), 0.0, x)[1], lambda f: f),
    "fori_loop": (lambda f: lambda x: ad.fori_loop(0, 3, lambda i, v: f(v), x), three_times),
    "while_loop": (lambda f: lambda x: ad.while_loop(lambda v: v[1] < 3, lambda v: (f(v[0]), v[1] + 1), (x, 0))[0],
                   three_times),
    "cond": (lambda f: lambda x: ad.cond(ad.sum(x) > 0, f, lambda x: x, x), lambda f: f),
    "a branch not taken": (lambda f: lambda x: ad.cond(ad.sum(x) < 0, f, ad.sin, x), lambda f: ad.sin),
    "checkpoint": (lambda f: ad.checkpoint(f), lambda f: f),
    "a loop in a loop": (
        lambda f: lambda x: ad.fori_loop(0, 1, lambda i, v: ad.fori_loop(0, 3, lambda j, v: f(v), v), x), three_times),
}  # fmt: skip

WAYS = {
    "plain": lambda f: f(X),
    "jit": lambda f: ad.jit(f)(X),
    "gradient": lambda f: ad.grad(lambda x: ad.sum(f(x)))(X),
    "gradient in jit": lambda f: ad.jit(ad.grad(lambda x: ad.sum(f(x))))(X),
    "vmap": lambda f: ad.vmap(f)(np.stack([X, 2.0 * X])),
    "no gradient": lambda f: _without(f),
}


def _without(f):
    with ad.no_grad():
        return f(ad.tensor(X)).numpy()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BODIES)
def test_it_is_run_once_on_values_and_then_recorded(name, way):
    inside, plain = BODIES[name]
    found, expected = WAYS[way](inside(unknown())), WAYS[way](plain(ad.sin))
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)


def test_without_an_element_there_is_nothing_to_run_it_on():
    with pytest.raises(ad.ConcretizationError, match="outputs are not known"):
        ad.scan(lambda c, x: (c, unknown()(x)), 0.0, np.zeros((0, 2)))


def test_in_eager_mode_a_counting_loop_makes_no_array_of_its_steps(monkeypatch):
    monkeypatch.setattr(ad.config, "eager", True)
    seen = []

    def step(i, v):
        seen.append(int(i))
        if len(seen) == 3:
            raise KeyboardInterrupt
        return v * 2.0

    with pytest.raises(KeyboardInterrupt):
        ad.fori_loop(5, 1 << 60, step, np.ones(2))  # an array of so many does not fit in memory
    assert seen == [5, 6, 7]
    np.testing.assert_array_equal(ad.fori_loop(4, 4, step, np.ones(2)).numpy(), np.ones(2))
