"""Recurrent cells as loops: values, gradients, tangents, second derivatives, batches are those of the steps by hand."""

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(5)
STEPS, BATCH, N, M = 6, 8, 24, 20
W, U = RNG.normal(size=(N, N)) * 0.2, RNG.normal(size=(M, N)) * 0.2
B = RNG.normal(size=N)
XS = RNG.normal(size=(STEPS, BATCH, M))
H = RNG.normal(size=(BATCH, N))
PARAMETERS = {"w": W, "u": U, "b": B}


def by_scan(step, reverse=False):
    def loss(p, h, xs):
        last, ys = ad.scan(lambda h, x: step(p, h, x), h, xs, reverse=reverse)
        return ad.sum(last * last) + (0.0 if ys is None else ad.sum(ad.sin(ys)))

    return loss


def by_hand(step, reverse=False):
    def loss(p, h, xs):
        total = 0.0
        for t in reversed(range(len(xs))) if reverse else range(len(xs)):
            h, y = step(p, h, xs[t])
            total = total + (0.0 if y is None else ad.sum(ad.sin(y)))
        return ad.sum(h * h) + total

    return loss


def leaves_close(found, wanted, rtol=1e-11):
    for a, b in zip(ad.tree.leaves(found), ad.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, np.abs(b).max(initial=0.0)))


def cell(p, h, x):
    return ad.tanh(h @ p["w"] + (x @ p["u"] + p["b"])), h[0]


def scaled(p, h, x):
    return h * ad.exp(-p["b"] * p["b"]) + (x @ p["u"]) @ p["w"], None


def two_products(p, h, x):
    return ad.tanh((h @ p["w"]) @ p["w"] - x @ p["u"]), ad.sum(h, axis=1)


def gru(p, h, x):
    gate = 1 / (1 + ad.exp(-(h @ p["w"] + x @ p["u"])))
    return (1 - gate) * h + gate * ad.tanh((gate * h) @ p["w"] - x @ p["u"] + p["b"]), gate


def vectors(p, h, x):
    new = ad.tanh(p["w"] @ h[0] + x[0] @ p["u"])
    return ad.stack([new] * BATCH), new * p["b"]


def turned(p, h, x):
    return ad.sin(h @ p["w"].T + ad.cos(x @ p["u"])), (x @ p["u"]).sum()


def squared(p, h, x):
    """The factor that the elements meet is a state."""
    return h + 0.1 * (x.T @ x)[:BATCH, :1], x @ (p["u"] + h[:1])


STEPS_OF = {f.__name__: f for f in (cell, gru, vectors, turned, scaled, two_products, squared)}
each_step = pytest.mark.parametrize("name", STEPS_OF)


@each_step
@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
def test_a_loop_has_the_value_and_gradient_of_its_steps_one_by_one(name, reverse):
    step = STEPS_OF[name]
    gradient = (ad.jit(ad.value_and_grad(f(step, reverse), (0, 1, 2))) for f in (by_scan, by_hand))
    leaves_close(*[g(PARAMETERS, H, XS) for g in gradient])


@each_step
def test_tangents_of_a_loop_are_those_of_its_steps_one_by_one(name):
    step, given = STEPS_OF[name], (PARAMETERS, H, XS)
    along = ad.tree.map(lambda a: RNG.normal(size=a.shape), given)
    leaves_close(*[ad.jvp(f(step), given, along) for f in (by_scan, by_hand)])


@each_step
def test_second_derivatives_of_a_loop_are_those_of_its_steps_one_by_one(name):
    step, given = STEPS_OF[name], (PARAMETERS, H, XS[:3])
    along = ad.tree.map(lambda a: RNG.normal(size=a.shape), given)
    hvp = (ad.jvp(ad.grad(f(step), (0, 1, 2)), given, along)[1] for f in (by_scan, by_hand))
    leaves_close(*hvp, rtol=1e-9)
    slopes = (ad.grad(lambda p, f=f: ad.sum(ad.grad(f(step))(p, *given[1:])["w"] ** 2)) for f in (by_scan, by_hand))
    leaves_close(*[slope(PARAMETERS) for slope in slopes], rtol=1e-9)


@each_step
def test_many_loops_are_the_loops_of_each(name):
    step = STEPS_OF[name]
    many = np.stack([H, H + 1.0, -H])
    found = ad.vmap(ad.grad(by_scan(step)), in_axes=(None, 0, None))(PARAMETERS, many, XS)
    each = [ad.grad(by_hand(step))(PARAMETERS, h, XS) for h in many]
    leaves_close(found, ad.tree.map(lambda *gs: np.stack(gs), *each), rtol=1e-10)


@pytest.mark.parametrize("length", [0, 1, 2])
def test_short_loops_have_gradients_as_long_ones_do(length):
    gradient = (ad.value_and_grad(f(gru_without_results), (0, 1, 2)) for f in (by_scan, by_hand))
    leaves_close(*[g(PARAMETERS, H, XS[:length]) for g in gradient])


def gru_without_results(p, h, x):
    return gru(p, h, x)[0], None


def test_a_sum_that_a_step_reads_stays_a_state():
    def f(xs):
        return ad.scan(lambda s, x: (s + x.T @ x, s.sum()), ad.zeros((M, M)), xs)

    total, seen = ad.jit(f)(XS)
    sums = np.cumsum(np.einsum("tki,tkj->tij", XS, XS), axis=0)
    np.testing.assert_allclose(total, sums[-1], rtol=1e-12)
    np.testing.assert_allclose(seen, [0.0, *sums[:-1].sum(axis=(1, 2))], rtol=1e-12)


def test_sums_of_whole_numbers_are_exact():
    xs = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    total, _ = ad.jit(lambda xs: ad.scan(lambda s, x: (s + x.T @ x, None), np.zeros((4, 4), np.int64), xs))(xs)
    np.testing.assert_array_equal(total, np.einsum("tki,tkj->ij", xs, xs))


def test_a_rule_of_the_user_in_a_step_is_called_for_each():
    @ad.function
    def doubled(x, w): ...

    @doubled.forward(ad.Matrix, ad.Matrix)
    def _(ctx, x, w):
        ctx.save_for_backward(x=x)
        return x @ w

    @doubled.backward(ad.Matrix, ad.Matrix)
    def _(ctx, g):
        return {"x": g @ g.T @ ctx.saved_variables.x, "w": 3.0 * ctx.saved_variables.x.T @ g}

    def step(p, h, x):
        return ad.tanh(h @ p["w"] + doubled(x, p["u"])), None

    leaves_close(*[ad.grad(f(step), (0, 2))(PARAMETERS, H, XS) for f in (by_scan, by_hand)])


def test_a_checkpointed_step_has_the_gradient_of_its_steps_one_by_one():
    def checkpointed(p, h, x):
        return ad.checkpoint(lambda p, h, x: cell(p, h, x)[0])(p, h, x), None

    leaves_close(*[ad.grad(f(checkpointed))(PARAMETERS, H, XS) for f in (by_scan, by_hand)])
