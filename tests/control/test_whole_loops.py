"""Loops and branches that are one function of machine code: the bits of their steps, one code for any length."""

import re

import numpy as np
import pytest
from work_done import work

import autodiff as ad

RNG = np.random.default_rng(8)
STEPS = 7


NUMBERS = RNG.normal(size=STEPS)


def like(a):
    return NUMBERS.astype(a.dtype)


def backwards(a):
    return ad.scan(lambda c, x: (c * x + ad.sin(c), c), a, like(a), reverse=True)


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


def test_an_array_of_numbers_that_is_wanted_is_made():
    numbers, last = ad.jit(lambda x: (ad.arange(4) * 2, ad.scan(lambda c, i: (c + i, i), x, ad.arange(4) * 2)))(1.0)
    np.testing.assert_array_equal(numbers, [0, 2, 4, 6])
    np.testing.assert_array_equal(last[1], numbers)
    assert last[0] == 13.0


