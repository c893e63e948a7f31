"""Sessions: two of them in one process do not touch each other; one may be reset at any time, and hold little."""

import gc
import random
import threading
import weakref

import numpy as np
import pytest

import autodiff as ad
from autodiff import session
from autodiff.session import Session, plans, programs, tiers
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


def told():
    """Words of a session about itself."""
    info = ad.cache_info()
    return info.hits, info.misses, info.compiles, info.entries, len(plans), len(tiers), str(ad.explain())


def test_what_a_session_knows_another_does_not():
    first, second = Session(), Session()
    with first:
        play(times=4)
        before = told()
        assert before[0] and before[1] and before[2] and before[4]
    with second:
        assert told() == (0, 0, 0, 0, 0, 0, "nothing was recorded or compiled anew")
        for n in (7, 9, 40):
            play(n)
        assert ad.cache_info().misses >= 3 and "f64[40]" in str(ad.explain())
        second.reset()
        play()
    with first:
        assert told() == before
        play()
        assert told()[1:] == before[1:]  # a hit, and nothing new


def test_values_are_those_of_any_session():
    wanted = play()
    for _ in range(2):
        with Session():
            for _ in range(4):
                value, gradient = play()
                assert value == wanted[0]
                np.testing.assert_array_equal(gradient, wanted[1])


def test_a_program_that_one_session_evaluates_is_compiled_in_another(patience):
    one, other = Session(), Session()

    def f():
        return float(ad.sum(ad.exp(ad.ones(3) * 0.5) + 1.0))

    with one:
        f()
        assert len(tiers) == 1 and ad.cache_info().compiles == 0
    ad.config.patience = 0
    with other:
        f()
        assert len(tiers) == 0 and ad.cache_info().compiles == 1
    with one:
        assert len(tiers) == 1 and ad.cache_info().compiles == 0


def test_the_price_of_compiling_is_learnt_by_each_session():
    from autodiff.tape.tier import prices

    with Session():
        with Session():
            fresh = prices.seconds_per_operation
            prices.seconds_per_operation = 7.0
        assert prices.seconds_per_operation == fresh


def test_the_session_before_is_current_again_also_after_an_error():
    usual = session.current()
    with Session() as outer:
        with pytest.raises(ZeroDivisionError), Session() as inner:
            assert session.current() is inner
            raise ZeroDivisionError
        assert session.current() is outer
        with outer:
            play()
        assert session.current() is outer and ad.cache_info().misses
    assert session.current() is usual


def test_sessions_that_threads_open_and_close_crosswise_end_with_the_usual_one():
    usual, opened, closed = session.current(), threading.Event(), threading.Event()
    failures = []

    def other():
        try:
            with Session():
                opened.set()
                closed.wait(60)
                play()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=other)
    with Session():
        thread.start()
        opened.wait(60)
        play()
    assert session.current() is not usual
    closed.set()
    thread.join()
    assert session.current() is usual and not failures


def test_what_was_recorded_in_one_session_may_be_asked_for_in_another():
    x = ad.tensor([0.5, 0.7], requires_grad=True)
    with Session():
        y = ad.sum(ad.sin(x) * x)
        with Session():
            z = y * 2.0
        z.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * (np.cos([0.5, 0.7]) * [0.5, 0.7] + np.sin([0.5, 0.7])))


def test_what_only_a_session_held_goes_with_it():
    mine = Session()
    with mine:
        play(times=4)
        plan = weakref.ref(getattr(plans.values()[0], "plan", plans.values()[0]))
    gc.collect()
    assert plan() is not None
    del mine
    gc.collect()
    assert plan() is None


def test_a_session_is_reset_while_another_is_current():
    mine = Session()
    with mine:
        play(times=4)
        misses = ad.cache_info().misses
    mine.reset()
    with mine:
        assert len(plans) == ad.cache_info().entries == 0
        assert ad.cache_info().misses == misses  # counts go on
        play()
        assert ad.cache_info().misses > misses


def test_a_mode_that_forgets_programs_forgets_those_of_all_sessions():
    mine = Session()
    with mine:
        play()
        assert plans
    ad.config.fast_math = True
    try:
        with mine:
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
                session.current().reset()
        y = ad.sum(ad.scan(lambda c, a: (c * 0.5 + a, None), state, ad.stack([x, x * 2.0]))[0])
        session.current().reset()
        y.backward()
        assert float(y.detach()) == wanted[0]
        np.testing.assert_array_equal(x.grad.numpy(), wanted[1])
        assert len(plans) > 0


def test_a_reset_within_rules_hooks_and_traces_is_no_loss():
    @ad.function
    def doubled(x): ...

    @doubled.forward(ad.Tensor)
    def _(ctx, x):
        session.current().reset()
        return x * 2.0

    @doubled.backward(ad.Tensor)
    def _(ctx, g):
        session.current().reset()
        return g * 2.0

    def f(x):
        y = doubled(ad.sin(x))
        y.register_hook(lambda g: session.current().reset())
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
    session.current().reset()
    assert len(ad.multiply.learned) == 0
    np.testing.assert_array_equal((ad.ones(3) * ad.ones(3)).numpy(), np.ones(3))


@pytest.mark.parametrize("disturb", ["reset", "exchange"])
def test_another_thread_may_reset_or_exchange_sessions_meanwhile(disturb):
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
        if disturb == "reset":
            session.current().reset()
        else:
            with Session():
                done.wait(0.002)
    thread.join()
    assert not failures, failures[0]


# ---------------------------------------------------------------- little memory

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
def test_programs_are_right_where_each_table_has_few_entries(entries, first, request):
    if first:
        request.getfixturevalue("patience")
    runs = [program(seed) for seed in range(12)]
    with Session(entries=entries):
        routes = [lambda f, x: ad.grad(f)(x), lambda f, x: ad.jit(ad.grad(f))(x), by_backward, by_second_order]
        for i in range(3):
            for k, run in enumerate(runs):
                x = np.random.default_rng(k).uniform(0.3, 1.4, 3 + (i * k) % 5)
                got = routes[(i + k) % 4](lambda x, run=run: run(SMOOTH, ad.sum, x), x)
                np.testing.assert_allclose(got, slope(run, x), rtol=1e-9, atol=1e-9)
        tables = (plans, programs, compiler.store.executables)
        assert all(len(table) <= entries for table in tables) and any(table.evictions for table in tables)


def by_backward(f, x):
    t = ad.tensor(x, requires_grad=True)
    f(t).backward()
    return t.grad.numpy()


def by_second_order(f, x):
    """The gradient, as the derivative of x·∇f with ∇f held, of which the hvp is made and dropped."""
    ad.hvp(f, (x,), (np.ones_like(x),))
    return by_backward(lambda t: f(t * 1.0), x)
