"""Nothing of ours runs in Python when an object goes: an interrupt (Ctrl-C) in a weak reference's callback is lost."""

import sys

import numpy as np
import pytest

import autodiff as ad
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


keep = []


@pytest.mark.parametrize("make", [interned, static_argument, lost_gradient, recorded_array, gradient])
def test_an_object_that_goes_runs_no_python(make):
    thing = [make()]
    ran = []
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        thing.clear()
    finally:
        sys.setprofile(None)
        keep.clear()
    assert ran == []
