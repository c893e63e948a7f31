"""An interrupt (Ctrl-C, an alarm) may come at any call in the library: what runs next is right."""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import nullcontext
from threading import get_ident

import llvmlite.binding as llvm
import numpy as np
import pytest

import autodiff as ad
from autodiff.mode import MODE
from autodiff.tape.record import state
from codegen.garbage import set_in_context
from codegen.runtime import engine

pytestmark = pytest.mark.llvm  # an interrupt may come while LLVM compiles
X = np.array([0.5, 1.0])
#: At how many places each program is interrupted.
PLACES = 20


@ad.function
def cube(x): ...


@cube.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return x * x * x


@cube.backward(ad.Tensor)
def _(ctx, g):
    return 3 * g * ctx.saved_variables.x ** 2


def energy(x):
    return ad.sum(ad.sin(cube(x)) * ad.scan(lambda c, t: (c * t, c), x[0], x)[0])


def recorded():
    x = ad.tensor(X, requires_grad=True)
    energy(x).backward()
    return x.grad


PROGRAMS = {
    "jit": lambda: ad.jit(ad.grad(energy))(X),
    "recorded": recorded,
    "grad": lambda: ad.grad(energy)(X),
    "jvp": lambda: ad.jacobian(energy, mode="forward")(X),
    "vmap": lambda: ad.vmap(ad.grad(energy))(X[None])[0],
}


class Interrupt(BaseException):
    """The exception that a handler of signals raises."""


class Interrupting:
    """Raises at the call or return of this number: where the interpreter looks for signals.

    Not in Python's own context managers, which these files cannot mend.
    is_near   count only those at which a mode changes
    """

    def __init__(self, at: float, is_near: bool) -> None:
        self.at, self.is_near, self.count = at, is_near, 0

    def __call__(self, frame, event, argument) -> None:
        file = frame.f_code.co_filename
        if event not in ("call", "c_return") or "/contextlib" in file:
            return
        is_mode = getattr(argument, "__self__", None) is MODE and argument.__name__ != "get"
        changes = event == "c_return" and (is_mode or argument is get_ident)
        is_put_back = event == "call" and frame.f_code is set_in_context.__code__
        if changes or is_put_back or not self.is_near:
            self.count += 1
            if self.count == self.at:
                raise Interrupt

    def run(self, program) -> None:
        before = sys.getprofile()
        sys.setprofile(self)
        try:
            program()
        except Interrupt:
            pass
        finally:
            sys.setprofile(before)


def run_by_a_known_call():
    """The Python functions that a call of a generic function runs, once its types are known."""

    @ad.function
    def first(x): ...

    @first.method(ad.Tensor)
    def _(x):
        return x[0]

    x, called = ad.tensor(X), []
    for _ in range(3):
        first(x)
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        first(x)
    finally:
        sys.setprofile(before)
    return called


def condition():
    now = state.now
    is_open = now.tracing, now.transforming, now.forward_depth, now.literal, now.captures, now.start > 0
    return is_open, MODE.get()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("is_near", [True, False], ids=["where modes change", "anywhere"])
def test_an_interrupt_at_any_call_leaves_nothing_behind(program, is_near):
    expected, before, known = np.array(program()), condition(), run_by_a_known_call()
    ad.clear_cache()
    counting = Interrupting(-1, is_near)
    counting.run(program)
    for at in sorted(set(np.linspace(1, counting.count, PLACES, dtype=int))):
        ad.clear_cache()
        Interrupting(at, is_near).run(program)
        assert condition() == before, f"event {at} of {counting.count}"
        np.testing.assert_allclose(program(), expected)
        assert not llvm.ffi.lib._lock._lock._is_owned(), f"event {at} of {counting.count}: other threads cannot compile"
        assert run_by_a_known_call() == known, f"after event {at} of {counting.count}, for good, in all threads"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("in_finaliser", [False, True], ids=["in a call", "in a finaliser, whose errors Python drops"])
@pytest.mark.parametrize("method", ["__enter__", "__exit__"])
def test_other_threads_compile_after_an_interrupt_in_the_lock_of_llvm(method, in_finaliser):
    """Its lock is given back: an interrupt may come when it was just taken, or before it is let go."""
    begun = threading.Event()

    def interrupt(frame, event, argument) -> None:
        of_lock = frame.f_code.co_name == method and frame.f_code.co_filename == llvm.ffi.__file__
        is_right = not in_finaliser or "__del__" in [f.f_code.co_name for f, _ in traceback.walk_stack(frame)]
        if of_lock and is_right and event == ("c_return" if method == "__enter__" else "call"):
            begun.set()
            sys.setprofile(before)
            raise Interrupt

    before = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        with nullcontext() if in_finaliser else pytest.raises(Interrupt):
            engine.object_of("define i64 @f() { ret i64 7 }")
    finally:
        sys.setprofile(before)
    assert begun.is_set()
    made: list = []
    other = threading.Thread(target=lambda: made.append(engine.object_of("define i64 @g() { ret i64 8 }")), daemon=True)
    other.start()
    other.join(60)
    assert made and made[0][1] == ("g",)


class InBlocks(Interrupting):
    """The same, but for the very start of a Python `__exit__`, before which nothing can be mended."""

    def __call__(self, frame, event, argument) -> None:
        if event != "call" or frame.f_code.co_name != "__exit__":
            super().__call__(frame, event, argument)


@pytest.mark.parametrize("block", [ad.no_grad, ad.enable_grad, ad.detect_anomaly])
@pytest.mark.parametrize("outside", [nullcontext, ad.no_grad])
def test_an_interrupt_as_a_block_begins_or_ends_leaves_its_mode(block, outside):
    def program():
        with block():
            pass

    with outside():
        before, counting = condition(), InBlocks(-1, False)
        counting.run(program)
        for at in range(1, counting.count + 1):
            InBlocks(at, False).run(program)
            assert condition() == before, f"event {at} of {counting.count}"
