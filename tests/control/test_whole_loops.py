"""Loops and branches that are one function of machine code: the bits of their steps, one code for any length."""

import re

import numpy as np
import pytest
from covering import covering
from work_done import work

import autodiff as ad
from codegen import compiler
from codegen.program import Loop
from codegen.runtime import executable
from codegen.runtime.whole import blocks_of

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


def results(f, *args):
    ad.clear_cache()
    return ad.tree.leaves(ad.jit(f)(*args))


@covering(times=4, name=PROGRAMS, shape=SHAPES, dtype=["f8", "f4"])
def test_a_whole_loop_gives_the_bits_of_its_steps(name, shape, dtype, monkeypatch):
    a = RNG.normal(size=shape).astype(dtype)
    whole = results(PROGRAMS[name], a)
    asked = []
    monkeypatch.setattr(executable.whole, "whole", lambda *step: asked.append(step))  # none is
    in_steps = results(PROGRAMS[name], a)
    assert asked
    for x, y in zip(whole, in_steps, strict=True):
        np.testing.assert_array_equal(x, y)


def test_small_states_are_registers():
    text = ad.inspect(lambda r, x: ad.fori_loop(0, 100, lambda i, x: r * x * (1 - x), x), 3.5, 0.2).llvm_optimized
    body = text[text.index("@nest0.body(") :]
    loop = body[body.index("\nloop.") : body.index("\ndone.")]
    assert "fmul" in loop
    assert not re.search(r"\b(load|store|call) (?!i32 %account)", loop)


def modules_for(f, calls):
    ad.clear_cache()
    before = work().modules
    for arguments in calls:
        f(*arguments)
    return work().modules - before


def test_fifty_lengths_run_llvm_at_most_a_few_times(monkeypatch):
    monkeypatch.setenv("AUTODIFF_CACHE", "0")
    w = RNG.normal(size=(48, 48)) / 10

    def loss(w, xs):
        last, ys = ad.scan(lambda h, x: (ad.tanh(h @ w + x @ w), ad.sum(h)), ad.zeros((4, 48)), xs)
        return ad.sum(last * last) + ad.sum(ys * ys)

    gradient = ad.jit(ad.value_and_grad(loss, (0, 1)))
    assert modules_for(gradient, [(w, RNG.normal(size=(t, 4, 48))) for t in range(100, 150)]) <= 3
    assert modules_for(gradient, [(w, RNG.normal(size=(60, b, 48))[:, :4]) for b in range(4, 24)]) <= 1


def test_fifty_lengths_of_small_steps_run_llvm_at_most_a_few_times(monkeypatch):
    monkeypatch.setenv("AUTODIFF_CACHE", "0")

    def powers(n):
        return ad.jit(ad.value_and_grad(lambda a: ad.fori_loop(0, n, lambda i, x: 0.5 * (x + a / x) + i * 1e-9, a)))

    assert modules_for(lambda n: powers(n)(2.0), [(n,) for n in range(100, 150)]) <= 3


def test_fifty_batch_sizes_run_llvm_at_most_a_few_times(monkeypatch):
    monkeypatch.setenv("AUTODIFF_CACHE", "0")
    w = RNG.normal(size=(48, 48)) / 10

    def loss(w, h):
        last, ys = ad.scan(lambda h, x: (ad.tanh(h @ w + x), ad.sum(h)), h, NUMBERS)
        return ad.sum(last * last) + ad.sum(ys)

    gradient = ad.jit(ad.value_and_grad(loss))
    assert modules_for(gradient, [(w, RNG.normal(size=(b, 48))) for b in range(40, 90)]) <= 4


def test_a_thousand_steps_are_the_code_of_ten():
    def program(n):
        return lambda a: ad.scan(lambda c, x: (ad.tanh(c * x + a), c), a, np.ones(n) * a)

    texts = {n: ad.inspect(program(n), 0.3).llvm for n in (40, 1000)}
    assert texts[40] == texts[1000]


def test_a_failed_index_ends_a_whole_loop():
    table = ad.asarray(np.arange(5.0))
    f = ad.jit(lambda i, n: ad.while_loop(lambda v: v[0] < n, lambda v: (v[0] + 1, v[1] + table[v[0]]), (i, 0.0))[1])
    assert f(0, 5) == 10.0
    with pytest.raises(IndexError):
        f(0, 9)
    assert f(2, 4) == 5.0


COUNTED = {
    "the number itself": (lambda c, i: (c + i, None), lambda n: np.arange(n)),
    "from elsewhere, in steps": (lambda c, i: (c * 0.5 + i, i), lambda n: ad.arange(3, 3 + 2 * n, 2)),
    "as a float": (lambda c, t: (c + ad.sin(t), t * c), lambda n: 0.25 * ad.arange(n)),
    "two of them, and elements": (
        lambda c, x: (c + x[0] * x[2] - x[1], x[0]),
        lambda n: (ad.arange(n), 7 - ad.arange(n), ad.asarray(np.linspace(0.0, 1.0, n))),
    ),
}


@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("name", COUNTED)
def test_what_follows_from_the_number_of_a_step_is_right(name, reverse):
    step, made = COUNTED[name]

    def scanned(c):
        return ad.scan(step, c, made(6), reverse=reverse)

    def by_hand(c):
        xs, ys = made(6), [None] * 6
        for t in reversed(range(6)) if reverse else range(6):
            c, ys[t] = step(c, ad.tree.map(lambda x, t=t: ad.asarray(x)[t], xs))
        return c, (None if ys[0] is None else ad.stack(ys))

    for f in (scanned, by_hand):
        f.loss = lambda c, f=f: ad.sum(f(c)[0] ** 2) + (0.0 if f(c)[1] is None else ad.sum(f(c)[1] * 1.5))
    for x, y in zip(ad.jit(scanned)(0.4), by_hand(ad.tensor(0.4)), strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_allclose(x, y, rtol=1e-14)
    np.testing.assert_allclose(ad.jit(ad.grad(scanned.loss))(0.4), ad.grad(by_hand.loss)(0.4), rtol=1e-13)


def test_no_array_is_made_of_the_numbers_of_steps():
    ad.clear_cache()
    f = ad.jit(lambda x: ad.fori_loop(5, 5 + 10**6, lambda i, x: x * 0.5 + ad.cos(2.0 * i), x))
    with compiler.recorded() as graphs:
        f(1.0)
    program = compiler.make_program(graphs[-1])
    assert sum(b.aval.nbytes for b in program.buffers) < 1000


def test_an_array_of_numbers_that_is_wanted_is_made():
    numbers, last = ad.jit(lambda x: (ad.arange(4) * 2, ad.scan(lambda c, i: (c + i, i), x, ad.arange(4) * 2)))(1.0)
    np.testing.assert_array_equal(numbers, [0, 2, 4, 6])
    np.testing.assert_array_equal(last[1], numbers)
    assert last[0] == 13.0


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
def test_elements_taken_through_all_steps_in_blocks_give_the_same_bits(f, size, dtype, monkeypatch):
    a = RNG.normal(size=size).astype(dtype)
    found = results(f, a)
    monkeypatch.setattr(executable.whole, "whole", lambda *_: None)
    for x, y in zip(found, results(f, a), strict=True):
        np.testing.assert_array_equal(x, y)


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
