"""Nothing of ours runs in Python when an object goes: an interrupt (Ctrl-C) in a weak reference's callback is lost."""

import gc
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
from autodiff.session import plans
from autodiff.tape.known import plan_of
from autodiff.tape.node import out_of
from codegen.ir import Aval


class Thing:
    k = 2.0


def interned():
    return out_of(Aval((3, 7919), np.dtype(np.float32)))


def static_argument():
    thing = Thing()
    f = ad.jit(lambda thing, x: thing.k * x, static_argnums=0)
    for _ in range(4):
        f(thing, 1.0)
    keep.append(f)
    return thing


def lost_gradient():
    w = ad.tensor(np.ones(3), requires_grad=True)
    f = ad.jit(lambda x: w * x)
    keep.append(f)
    return f(np.ones(3))


def recorded_array():
    w = ad.tensor(np.ones(50_000), requires_grad=True)
    return w * np.ones(50_000)


def gradient():
    w = ad.tensor(np.ones(3), requires_grad=True)
    (w * w).sum().backward()
    return w


@ad.function
def custom(x): ...


@custom.forward(ad.Tensor, host=True)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return x * x


@custom.backward(ad.Tensor)
def _(ctx, y_bar):
    return y_bar * 2.0 * ctx.saved_variables.x


def call_of_a_custom_function():
    x = ad.tensor(np.ones(3), requires_grad=True)
    y = custom(x)
    y.detach().numpy()
    return y


def jitted():
    f = ad.jit(lambda x: x * 2.0)
    for _ in range(3):
        f(1.0)
    return f


def function_with_rules():
    @ad.function
    def asks(x): ...

    @asks.forward(ad.Tensor, host=True)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return x * np.asarray(2.0)

    @asks.backward(ad.Tensor)
    def _(ctx, y_bar):
        return y_bar * (2.0 if float(ad.sum(y_bar)) else 0.0)

    for _ in range(3):
        x = ad.tensor(np.ones(3), requires_grad=True)
        ad.sum(asks(x)).backward()
    return asks


def plans_of_many_sizes():
    for n in range(30, 60):
        x = ad.tensor(np.ones(n), requires_grad=True)
        ad.sum(ad.sin(x) * x).backward()
    found = [plan_of(entry) for entry in plans.values()]
    plans.clear()
    return found


def body_of_a_loop():
    f = ad.jit(lambda x: ad.fori_loop(0, 5, lambda i, c: ad.sin(c) * 0.5, x))
    for n in range(20, 24):
        f(np.ones(n))
    return f


keep = []


@pytest.mark.parametrize(
    "make",
    [interned, static_argument, lost_gradient, recorded_array, gradient,
     call_of_a_custom_function, jitted, function_with_rules, plans_of_many_sizes, body_of_a_loop],
)
def test_an_object_that_goes_runs_no_python(make):
    gc.collect()
    thing = [make()]
    ran = []
    watch = {callback.__code__ for callback in gc.callbacks}  # Hypothesis measures collections

    def look(frame, event, _):
        if event == "call" and frame.f_code not in watch:
            ran.append(frame.f_code.co_qualname)

    sys.setprofile(look)
    try:
        thing.clear()
        gc.collect()  # functions are parts of cycles
    finally:
        sys.setprofile(None)
        keep.clear()
    assert ran == []


def test_no_table_of_the_standard_library_runs_python_when_an_object_goes():
    for package in ("autodiff", "codegen"):
        for file in (Path(__file__).parents[2] / package).rglob("*.py"):
            found = re.findall(r"Weak\w+(?:Dictionary|Set)|finalize", file.read_text())
            assert not found, f"{file}: keep references whose callback is written in C, as {found} do not"
