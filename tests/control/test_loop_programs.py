"""Programs that loops become: what is done before, in and after them."""

import numpy as np
from fission_programs import (
    BATCH,
    PARAMETERS,
    RNG,
    STEPS,
    XS,
    H,
    M,
    N,
    by_hand,
    by_scan,
    cell,
    leaves_close,
    scaled,
    two_products,
)

import autodiff as ad
from codegen import compiler
from codegen.program import Gemm, Kernel, Loop, every_step


def program_of(f, *args):
    ad.clear_cache()
    with compiler.recorded() as graphs:
        ad.jit(f)(*args)
    return compiler.make_program(graphs[-1])


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
