"""Whole loops from inside: the bits of steps in blocks, the blocks themselves, and arrays that are not made."""

import numpy as np
import pytest
from covering import covering
from mlir_tools import run_in_steps

import autodiff as ad
from codegen import compiler
from codegen.program import Loop, bodies
from codegen.runtime.loops import blocks_of

RNG = np.random.default_rng(8)
STEPS = 7


def accumulated(a):
    """Several states, one that stays, elements in and out."""
    xs = like(a)[(..., *[None] * a.ndim)] * a

    def step(c, x):
        s, n, still = c
        return (s * 0.5 + ad.sin(x) * still, n + 1, still), (s, n)

    return ad.scan(step, (a, 0, a + 1.0), xs)


NUMBERS = RNG.normal(size=STEPS)


def like(a):
    return NUMBERS.astype(a.dtype)


def gradient_of_steps(a):
    def loss(a):
        last, ys = ad.scan(lambda c, x: (ad.tanh(c * x + a), c * c), a, like(a))
        return ad.sum(last) + ad.sum(ad.sin(ys))

    return ad.value_and_grad(loss)(a)


def chosen(a):
    def step(c, x):
        return ad.cond(ad.sum(c) * x > 0, lambda c: ad.cos(c) * x, lambda c: ad.cumsum(c * 0.5, axis=0), c), None

    return ad.scan(step, a, like(a))[0]


def until(a):
    def step(v):
        return v[0] * 0.9 + ad.sin(v[1]), v[1] * 1.01, v[2] + 1

    return ad.while_loop(lambda v: (ad.sum(v[0]) > 0.1) & (v[2] < 40), step, (a * a + 1.0, a, 0))


def never(a):
    return ad.while_loop(lambda v: ad.sum(v) > 1e9, lambda v: v + 1.0, a)


def in_one_another(a):
    def inner(c, x):
        return ad.tanh(c * x), ad.sum(c)

    def outer(c, x):
        c, ys = ad.scan(inner, c, like(c) * x)
        c = ad.while_loop(lambda v: ad.sum(v * v) < 1.0, lambda v: v * 1.5 + 0.1, c)
        return c, ys

    return ad.scan(outer, a, like(a))


def backwards(a):
    return ad.scan(lambda c, x: (c * x + ad.sin(c), c), a, like(a), reverse=True)


def branch(a):
    return ad.cond(ad.sum(a) > 0, lambda a: (ad.sort(a), a), lambda a: (a * 2.0, ad.cumsum(a, axis=0)), a)


def swapped(a):
    return ad.scan(lambda c, x: ((c[1], c[0] + c[1] * x), c[0]), (a, a * 2.0), like(a))


PROGRAMS = {
    f.__name__: f
    for f in (accumulated, gradient_of_steps, chosen, until, never, in_one_another, backwards, branch, swapped)
}
SHAPES = [(1,), (4,), (8,), (9,), (5, 3), (200,)]


def assert_bits_of_steps(f, a):
    """Assert that machine code gives the bits of the program whose loops and branches Python drives."""
    ad.clear_cache()
    with compiler.recorded() as graphs:
        ad.jit(f)(a)
    graph = graphs[0]
    program = compiler.make_program(graph)
    assert any([bodies(step.work) for step in program.steps])
    inputs = [a if i.aval.shape == a.shape else np.resize(NUMBERS, i.aval.shape) for i in graph.inputs]
    inputs = [np.asarray(x, i.aval.dtype) for x, i in zip(inputs, graph.inputs, strict=True)]
    for x, y in zip(compiler.compile_graph(graph).call(*inputs), run_in_steps(program, inputs), strict=True):
        np.testing.assert_array_equal(x, y)


@covering(times=4, name=PROGRAMS, shape=SHAPES, dtype=["f8", "f4"])
def test_a_whole_loop_gives_the_bits_of_its_steps(name, shape, dtype):
    assert_bits_of_steps(PROGRAMS[name], RNG.normal(size=shape).astype(dtype))


def test_no_array_is_made_of_the_numbers_of_steps():
    ad.clear_cache()
    f = ad.jit(lambda x: ad.fori_loop(5, 5 + 10**6, lambda i, x: x * 0.5 + ad.cos(2.0 * i), x))
    with compiler.recorded() as graphs:
        f(1.0)
    program = compiler.make_program(graphs[-1])
    assert sum(b.aval.nbytes for b in program.buffers) < 1000


def plain(a):
    return ad.fori_loop(0, STEPS, lambda i, x: x * 0.99 + a * 0.01, a * 0.5)


def kept(a):
    return ad.value_and_grad(lambda a: ad.sum(ad.fori_loop(0, STEPS, lambda i, x: ad.sin(x) * a + x, a) ** 2))(a)


def stacked(a):
    xs = like(a)[:, None] + a
    return ad.scan(lambda c, x: ((ad.cos(c[1] * x), c[0] + x), c[0] * 2), (a, a), xs, reverse=True)


def kept_and_empty(a):
    return ad.scan(lambda c, x: (c * x, c), a, ad.zeros((0, *a.shape), dtype=a.dtype))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("size", [4096, 5000, 10007])
@pytest.mark.parametrize("f", [plain, kept, stacked, kept_and_empty], ids=lambda f: f.__name__)
def test_elements_taken_through_all_steps_in_blocks_give_the_same_bits(f, size, dtype):
    assert_bits_of_steps(f, RNG.normal(size=size).astype(dtype))


def blocks_in(f, a):
    ad.clear_cache()
    with compiler.recorded() as graphs:
        ad.jit(f)(a)
    program = compiler.make_program(graphs[-1])
    return [blocks_of(s.work) for s in program.steps if isinstance(s.work, Loop)]


def test_only_large_elementwise_loops_go_in_blocks():
    large, small = RNG.normal(size=10_000), RNG.normal(size=500)
    ((block, total),) = blocks_in(plain, large)
    assert block % 64 == 0 and 2 * block <= total == 10_000
    assert all(blocks_in(kept, large)) and all(blocks_in(stacked, large))
    assert blocks_in(plain, small) == [None]

    def shifted(a):
        return ad.fori_loop(0, STEPS, lambda i, x: ad.roll(x, 1) * 0.5 + a, a)

    def summed(a):
        return ad.fori_loop(0, STEPS, lambda i, x: x / ad.sum(x * x), a)

    assert blocks_in(shifted, large) == blocks_in(summed, large) == [None]
    x = large
    for _ in range(STEPS):
        x = np.roll(x, 1) * 0.5 + large
    np.testing.assert_allclose(ad.jit(shifted)(large), x, rtol=1e-14)
