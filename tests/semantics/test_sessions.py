"""The session may be reset at any time, and hold little."""

import gc
import random
import threading
import weakref

import numpy as np
import pytest

import autodiff as ad
from autodiff import session
from autodiff.session import plans, programs, tiers
from autodiff.tape.cut import segments
from autodiff.tape.families import SIZED
from codegen import compiler


@pytest.fixture
def patience():
    """Programs are evaluated first, as users have it."""
    before, ad.config.patience = ad.config.patience, 8
    yield
    ad.config.patience = before


def play(n=7, times=1):
    """A program of a loop, of a rule of the user's and of sizes; its gradient."""
    for _ in range(times):
        x = ad.tensor(np.linspace(0.2, 1.1, n), requires_grad=True)
        state = x
        for _ in range(5):
            state = cubed(ad.sin(state)) * 1.1
        y = ad.sum(ad.scan(lambda c, a: (c * 0.5 + a, None), state, ad.stack([x, x * 2.0]))[0])
        y.backward()
    return float(y.detach()), x.grad.numpy()


@ad.function
def cubed(y): ...


@cubed.forward(ad.Tensor)
def _(ctx, y):
    ctx.save_for_backward(y=y)
    return y * y * y


@cubed.backward(ad.Tensor)
def _(ctx, grad_output):
    y = ctx.saved_variables.y
    return grad_output * 3.0 * y * y


def test_a_reset_forgets_programs_and_goes_on_counting():
    play(times=4)
    assert plans
    before = ad.cache_info()
    plan = weakref.ref(getattr(plans.values()[0], "plan", plans.values()[0]))
    session.reset()
    gc.collect()
    assert plan() is None and not plans and not tiers and ad.cache_info().entries == 0
    assert ad.cache_info().misses == before.misses
    play()
    assert ad.cache_info().misses > before.misses and plans


def test_a_program_that_was_evaluated_is_compiled_after_a_reset(patience):
    def f():
        return float(ad.sum(ad.exp(ad.ones(3) * 0.5) + 1.0))

    session.reset()
    before = ad.cache_info().compiles
    f()
    assert len(tiers) == 1 and ad.cache_info().compiles == before
    ad.config.patience = 0
    session.reset()
    f()
    assert len(tiers) == 0 and ad.cache_info().compiles == before + 1


def test_a_mode_forgets_programs():
    play()
    assert plans
    ad.config.fast_math = True
    try:
        assert not plans
        play()
    finally:
        ad.config.fast_math = False


@pytest.mark.parametrize("times", [1, 4])
def test_a_reset_in_the_midst_of_a_recording_is_no_loss(times):
    wanted = play()
    for _ in range(times):
        x = ad.tensor(np.linspace(0.2, 1.1, 7), requires_grad=True)
        state = x
        for k in range(5):
            state = cubed(ad.sin(state)) * 1.1
            if k % 2:
                session.reset()
        y = ad.sum(ad.scan(lambda c, a: (c * 0.5 + a, None), state, ad.stack([x, x * 2.0]))[0])
        session.reset()
        y.backward()
        assert float(y.detach()) == wanted[0]
        np.testing.assert_array_equal(x.grad.numpy(), wanted[1])
        assert len(plans) > 0


def test_a_reset_within_rules_hooks_and_traces_is_no_loss():
    @ad.function
    def doubled(x): ...

    @doubled.forward(ad.Tensor)
    def _(ctx, x):
        session.reset()
        return x * 2.0

    @doubled.backward(ad.Tensor)
    def _(ctx, g):
        session.reset()
        return g * 2.0

    def f(x):
        y = doubled(ad.sin(x))
        y.register_hook(lambda g: session.reset())
        return ad.sum(y)

    x = np.array([0.3, 0.6])
    for run in (ad.grad(f), ad.jit(ad.grad(lambda x: ad.sum(doubled(ad.sin(x)))))):
        for _ in range(4):
            np.testing.assert_allclose(run(x), 2.0 * np.cos(x))


def test_a_reset_forgets_what_operations_record_for_known_operands():
    for _ in range(3):
        ad.ones(3) * ad.ones(3)
    if ad.multiply.learned is None or not len(ad.multiply.learned):
        pytest.skip("nothing is recorded natively here")
    session.reset()
    assert len(ad.multiply.learned) == 0
    np.testing.assert_array_equal((ad.ones(3) * ad.ones(3)).numpy(), np.ones(3))


def test_another_thread_may_reset_the_session_meanwhile():
    wanted, failures, done = play(), [], threading.Event()

    def work():
        try:
            for i in range(40):
                value, gradient = play(7 if i % 3 else 7 + i)
                if i % 3:
                    assert value == wanted[0]
                    np.testing.assert_array_equal(gradient, wanted[1])
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.002):
        session.reset()
    thread.join()
    assert not failures, failures[0]


# ---------------------------------------------------------------- little memory

TABLES = (plans, programs, tiers, segments, SIZED, compiler.store.executables)

SMOOTH = (ad.sin, ad.tanh, lambda x: x * x, lambda x: ad.exp(x * 0.1), lambda x: x - ad.mean(x), lambda x: x[::-1])
NUMPYS = (np.sin, np.tanh, lambda x: x * x, lambda x: np.exp(x * 0.1), lambda x: x - np.mean(x), lambda x: x[::-1])


def program(seed):
    """A random program, for the library and for NumPy."""
    choice = random.Random(seed)
    steps = [choice.randrange(len(SMOOTH)) for _ in range(choice.randint(2, 12))]

    def run(functions, total, x):
        y = x
        for k in steps:
            y = functions[k](y) + 0.3 * x
        return total(y * y)

    return run


def slope(run, x):
    """Its gradient, by complex steps."""
    return [np.imag(run(NUMPYS, np.sum, x + 1e-30j * e)) / 1e-30 for e in np.eye(len(x))]


@pytest.mark.parametrize("entries", [1, 7])
@pytest.mark.parametrize("first", [0, 8])
def test_programs_are_right_where_each_table_has_few_entries(entries, first, request, monkeypatch):
    if first:
        request.getfixturevalue("patience")
    runs = [program(seed) for seed in range(12)]
    session.reset()
    for table in TABLES:
        monkeypatch.setattr(table, "maxsize", entries)
    routes = [lambda f, x: ad.grad(f)(x), lambda f, x: ad.jit(ad.grad(f))(x), by_backward, by_second_order]
    evictions = sum([table.evictions for table in TABLES])
    for i in range(3):
        for k, run in enumerate(runs):
            x = np.random.default_rng(k).uniform(0.3, 1.4, 3 + (i * k) % 5)
            got = routes[(i + k) % 4](lambda x, run=run: run(SMOOTH, ad.sum, x), x)
            np.testing.assert_allclose(got, slope(run, x), rtol=1e-9, atol=1e-9)
    assert all(len(table) <= entries for table in TABLES) and sum([table.evictions for table in TABLES]) > evictions


def by_backward(f, x):
    t = ad.tensor(x, requires_grad=True)
    f(t).backward()
    return t.grad.numpy()


def by_second_order(f, x):
    """The gradient, as the derivative of x·∇f with ∇f held, of which the hvp is made and dropped."""
    ad.hvp(f, (x,), (np.ones_like(x),))
    return by_backward(lambda t: f(t * 1.0), x)
