"""Long loops in native code: Ctrl-C ends them, other handlers of signals run meanwhile, and other threads go on."""

import os
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import autodiff as ad
from codegen import compiler
from codegen.ir import parse
from codegen.runtime.launcher import PackedCall


def endless(x):
    return ad.while_loop(lambda v: v[0] >= 0.0, lambda v: (ad.cos(v[0]), v[1] + 1), (x * x, 0))[0]


def nested(x):
    """Loops that are short each, in one that does not end."""

    def inner(v):
        return ad.fori_loop(0, 100, lambda i, u: ad.cos(u) * 0.5 + 0.4, v)

    return ad.while_loop(lambda v: v >= 0.0, inner, x * x)


def long(x):
    """Known to be long, so that other threads run all the time."""
    return ad.scan(lambda c, _: (ad.cos(c) * x, None), x, length=10**9)[0]


@pytest.fixture
def interrupted():
    """`with interrupted(): ...` is ended by Ctrl-C.  The process is ended where that is not heeded.

    Pressed after 50 ms, then twice a second: Python ignores what is raised in a `__del__`, while compiling say.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    last = threading.Timer(60, os._exit, (3,))
    last.start()

    @contextmanager
    def pressed():
        heeded = threading.Event()

        def press():
            wait_s = 0.05
            while not heeded.wait(wait_s):
                signal.raise_signal(signal.SIGINT)
                wait_s = 0.5

        presser = threading.Thread(target=press)
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            try:
                yield
            finally:
                heeded.set()
        presser.join()

    yield pressed
    last.cancel()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("program", [endless, nested, long])
def test_ctrl_c_ends_a_loop_and_the_next_call_is_right(program, interrupted):
    f = ad.jit(program)
    with interrupted():
        f(0.7)
    assert ad.jit(lambda x: ad.while_loop(lambda v: v < 10.0, lambda v: v * 2.0, x))(1.0) == 16.0


def test_who_waits_for_the_lock_gets_it_however_often(interrupted):
    """The thread that presses was passed over again and again: 3 to 60 s each in a third of these calls."""
    for _ in range(12):
        with interrupted():
            ad.jit(endless)(0.7)


def test_ctrl_c_ends_a_loop_that_is_called_by_ctypes(interrupted):
    def until(limit, factor):
        return ad.while_loop(lambda v: v < limit, lambda v: v * factor, factor)

    def many(start, factor):
        return ad.scan(lambda c, _: (c * factor, None), start, length=10**9)[0]

    for program, arguments in ((until, (np.inf, 0.5)), (many, (1.0, 0.5))):
        graph = parse(str(ad.inspect(program, "f64[]", "f64[]").graph))
        call = PackedCall(compiler.compile_graph(graph).plan)
        with interrupted():
            call(*[np.asarray(a) for a in arguments])


def test_ctrl_c_during_backward_leaves_gradients_as_they_were(interrupted):
    x, steps = ad.tensor(1.0, requires_grad=True), ad.tensor(3)
    x.grad = ad.tensor(5.0)

    def loss(x, steps):
        return ad.while_loop(lambda v: v[1] < steps, lambda v: (v[0] * 0.9, v[1] + 1), (x, 0))[0]

    # The first backward of a process imports modules: after an interrupt before it began the next ask would compute y.
    loss(ad.tensor(1.0, requires_grad=True), steps).backward()
    y = loss(x, ad.tensor(10**9))
    with interrupted():
        y.backward()
    assert x.grad.item() == 5.0
    loss(x, steps).backward()
    np.testing.assert_allclose(x.grad.item(), 5.0 + 0.9**3)


def test_a_handler_that_raises_nothing_runs_and_the_loop_goes_on():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    timer = threading.Timer(0.02, signal.raise_signal, (signal.SIGINT,))
    f = ad.jit(lambda n: ad.fori_loop(0, 3_000_000, lambda i, v: v + n, 0))
    try:
        expected = f(2)
        timer.start()
        while not seen:
            assert f(2) == expected == 6_000_000
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def test_other_threads_run_while_a_loop_of_unknown_length_does(interrupted):
    f = ad.jit(endless)
    with interrupted():
        f(0.7)
    is_running, counts = threading.Event(), []

    def count():
        is_running.wait()
        while len(counts) < 20:
            counts.append(1)
            time.sleep(0.001)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        # Nothing ends the loop but the thread, and that only when it has run.
        with pytest.raises(KeyboardInterrupt):
            is_running.set()
            f(0.7)
        assert len(counts) == 20
    finally:
        is_running.set()
        thread.join()
