"""What a loop does apart: products of elements before it, sums of products after it, what no step changes once."""

import numpy as np
import pytest

import autodiff as ad
from codegen import compiler
from codegen.program import Gemm, Kernel, Loop, every_step

RNG = np.random.default_rng(5)
STEPS, BATCH, N, M = 6, 8, 24, 20
W, U = RNG.normal(size=(N, N)) * 0.2, RNG.normal(size=(M, N)) * 0.2
B = RNG.normal(size=N)
XS = RNG.normal(size=(STEPS, BATCH, M))
H = RNG.normal(size=(BATCH, N))


def cell(p, h, x):
    return ad.tanh(h @ p["w"] + (x @ p["u"] + p["b"])), h[0]


def gru(p, h, x):
    gate = 1 / (1 + ad.exp(-(h @ p["w"] + x @ p["u"])))
    return (1 - gate) * h + gate * ad.tanh((gate * h) @ p["w"] - x @ p["u"] + p["b"]), gate


def vectors(p, h, x):
    new = ad.tanh(p["w"] @ h[0] + x[0] @ p["u"])
    return ad.stack([new] * BATCH), new * p["b"]


def turned(p, h, x):
    return ad.sin(h @ p["w"].T + ad.cos(x @ p["u"])), (x @ p["u"]).sum()


def scaled(p, h, x):
    return h * ad.exp(-p["b"] * p["b"]) + (x @ p["u"]) @ p["w"], None


def two_products(p, h, x):
    return ad.tanh((h @ p["w"]) @ p["w"] - x @ p["u"]), ad.sum(h, axis=1)


def squared(p, h, x):
    """The factor that the elements meet is a state."""
    return h + 0.1 * (x.T @ x)[:BATCH, :1], x @ (p["u"] + h[:1])


STEPS_OF = {f.__name__: f for f in (cell, gru, vectors, turned, scaled, two_products, squared)}
PARAMETERS = {"w": W, "u": U, "b": B}
each_step = pytest.mark.parametrize("name", STEPS_OF)


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


def program_of(f, *args):
    ad.clear_cache()
    with compiler.recorded() as graphs:
        ad.jit(f)(*args)
    return compiler.make_program(graphs[-1])


def leaves_close(found, wanted, rtol=1e-11):
    for a, b in zip(ad.tree.leaves(found), ad.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, np.abs(b).max(initial=0.0)))


@each_step
@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
def test_a_loop_in_parts_has_the_value_and_gradient_of_its_steps_one_by_one(name, reverse):
    step = STEPS_OF[name]
    gradient = (ad.jit(ad.value_and_grad(f(step, reverse), (0, 1, 2))) for f in (by_scan, by_hand))
    leaves_close(*[g(PARAMETERS, H, XS) for g in gradient])


@each_step
def test_tangents_of_a_loop_in_parts_are_those_of_its_steps_one_by_one(name):
    step, given = STEPS_OF[name], (PARAMETERS, H, XS)
    along = ad.tree.map(lambda a: RNG.normal(size=a.shape), given)
    leaves_close(*[ad.jvp(f(step), given, along) for f in (by_scan, by_hand)])


@each_step
def test_second_derivatives_of_a_loop_in_parts_are_those_of_its_steps_one_by_one(name):
    step, given = STEPS_OF[name], (PARAMETERS, H, XS[:3])
    along = ad.tree.map(lambda a: RNG.normal(size=a.shape), given)
    hvp = (ad.jvp(ad.grad(f(step), (0, 1, 2)), given, along)[1] for f in (by_scan, by_hand))
    leaves_close(*hvp, rtol=1e-9)
    slopes = (ad.grad(lambda p, f=f: ad.sum(ad.grad(f(step))(p, *given[1:])["w"] ** 2)) for f in (by_scan, by_hand))
    leaves_close(*[slope(PARAMETERS) for slope in slopes], rtol=1e-9)


@each_step
def test_many_loops_in_parts_are_the_loops_of_each(name):
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


# ---------------------------------------------------------------- where the work is


def products_of(program):
    """Rows of the products outside of loops and inside."""
    outside = [s.work.m for s in program.steps if isinstance(s.work, Gemm)]
    inside = [
        inner.work.m for s in program.steps if isinstance(s.work, Loop)
        for inner, _, _ in every_step(s.work.body) if isinstance(inner.work, Gemm)
    ]  # fmt: skip
    return sorted(outside), sorted(inside)


def test_the_elements_meet_their_weights_in_one_product_before_the_loop():
    outside, inside = products_of(program_of(by_scan(cell), PARAMETERS, H, XS))
    assert (outside, inside) == ([STEPS * BATCH], [BATCH])


def test_the_gradient_by_weights_is_one_product_each_after_the_loop():
    program = program_of(ad.grad(by_scan(cell)), PARAMETERS, H, XS)
    outside, inside = products_of(program)
    assert outside == [M, N, STEPS * BATCH]  # by u, by w, and that of the elements
    assert inside == [BATCH, BATCH]  # a step, and the cotangent of its state
    *_, back = [s.work for s in program.steps if isinstance(s.work, Loop)]
    assert [a.shape for a in back.states] == [(BATCH, N)]  # no sums of weights go round


def test_a_vector_of_weights_is_summed_from_what_is_stacked():
    program = program_of(ad.grad(by_scan(two_products)), PARAMETERS, H, XS)
    *_, back = [s.work for s in program.steps if isinstance(s.work, Loop)]
    assert [a.shape for a in back.states] == [(BATCH, N)]
    assert len(back.stacks) == 3  # the cotangents of three products: what they were computed from is there


def test_what_no_step_changes_is_computed_once():
    program = program_of(by_scan(scaled), PARAMETERS, H, XS)
    (loop,) = [s.work for s in program.steps if isinstance(s.work, Loop)]
    names = [s.work.function.name for s in loop.body.steps if isinstance(s.work, Kernel)]
    assert names and not any("exp" in name for name in names)


def test_what_is_checkpointed_stays_in_the_loop():
    def checkpointed(p, h, x):
        return ad.checkpoint(lambda p, h, x: cell(p, h, x)[0])(p, h, x), None

    program = program_of(ad.grad(by_scan(checkpointed)), PARAMETERS, H, XS)
    forwards, back = [s.work for s in program.steps if isinstance(s.work, Loop)]
    assert not forwards.stacks and len(back.scanned) == 2  # states and elements; no product is stored
    assert not back.stacks
    leaves_close(*[ad.grad(f(checkpointed))(PARAMETERS, H, XS) for f in (by_scan, by_hand)])


def test_a_product_that_would_store_many_times_the_elements_stays_in_the_loop():
    wide = RNG.normal(size=(1, 400))
    xs = RNG.normal(size=(5, 16, 1))
    program = program_of(lambda xs, wide: ad.scan(lambda c, x: (c + (x @ wide).sum(), None), 0.0, xs)[0], xs, wide)
    largest = max(b.aval.nbytes for b in program.buffers)
    assert largest < 5 * 16 * 400 * 8


def test_products_with_many_rows_are_summed_in_the_loop():
    xs = RNG.normal(size=(4, 3000, 3))
    w = RNG.normal(size=(3, 3))

    def loss(w, h):
        return ad.sum(ad.scan(lambda h, x: (ad.tanh(h @ w + x), None), h, xs)[0])

    program = program_of(ad.grad(loss), w, xs[0])
    *_, back = [s.work for s in program.steps if isinstance(s.work, Loop)]
    assert (3, 3) in [a.shape for a in back.states] and not back.stacks


def test_a_sum_of_products_that_the_user_writes_is_one_product():
    def covariance(xs):
        total, _ = ad.scan(lambda s, x: (s + x.T @ x, None), ad.zeros((M, M)), xs)
        return total

    np.testing.assert_allclose(ad.jit(covariance)(XS), np.einsum("tki,tkj->ij", XS, XS), rtol=1e-12)
    program = program_of(covariance, XS)
    assert not any(isinstance(s.work, Loop) for s in program.steps)


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
