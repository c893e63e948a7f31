"""Each allocation of Python's fails in turn while a program runs: `test_failing_memory` starts this, for one program.

Prints the number of allocations that failed, and of nodes and handles that a second round has left.
"""

import _testcapi
import gc
import os
import sys
from types import CodeType, FunctionType

import numpy as np

import autodiff as ad
from autodiff.tape.node import Node, RichNode

#: References to code that are never given back.
kept = []

#: Runs without a failure after which all allocations are taken to have failed.
ENOUGH = 20

points = np.linspace(0.1, 1.0, 30)
x = ad.tensor(points, requires_grad=True)
w = ad.tensor(np.ones((30, 4)) / 7, requires_grad=True)
data = np.random.default_rng(0).normal(size=(6, 30))


def gradients(loss):
    loss.backward()
    return [np.array(leaf.grad) for leaf in (x, w) if leaf.grad is not None]


def chain():
    y = ad.sin(x) * 2 + x[3]
    y = ad.exp(-y * y)
    return gradients((y[1:] * y[:-1]).sum() + ad.tanh(x @ w).sum())


def in_place():
    y = x * 2.0
    y[1:] *= x[1:]
    y += 1.0
    return gradients(y.sum())


def arrays():
    return gradients((x * data[0] + data[1]).sum())


def value():
    return [(ad.sin(x) * x).sum().item()]


def second_order():
    return [ad.grad(lambda v: ad.grad(lambda u: (ad.sin(u) * u).sum())(v).sum())(points)]


def examples():
    return [ad.vmap(ad.grad(lambda v: (ad.sin(v) * v).sum()))(points.reshape(5, 6))]


def compiled():
    return [jitted(points)]


def value_of_many():
    y = x[0] * 1.0
    for k in range(1, 30):
        y = y + ad.sin(x[k]) * x[k - 1]
    return [y.item()]


jitted = ad.jit(ad.grad(lambda v: (ad.sin(v) * v).sum()))


def forget():
    x.grad = None
    w.grad = None


def round_of_failures(program):
    """The number of allocations that failed, one in each run of the program."""
    expected = program()
    forget()
    failed = at = since = 0
    while since < ENOUGH:
        at += 1
        gc.disable()  # it would ask for memory at other times
        try:
            _testcapi.set_nomemory(at, at + 1)
            program()
            since += 1
        except MemoryError:
            failed, since = failed + 1, 0
        finally:
            _testcapi.remove_mem_hooks()
            gc.enable()
        forget()
        for found, value in zip(program(), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-12)
        forget()
    gc.collect()
    return failed


def alive():
    """The number of nodes and handles that are alive."""
    gc.collect()
    return sum([isinstance(thing, (Node, RichNode, ad.Tensor)) for thing in gc.get_objects()])


def codes_of(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def main(name):
    program = globals()[name]
    for _ in range(12):  # compiled, and known to machine code
        program()
        forget()
    #: CPython 3.12 and 3.13 give the code of a function that cannot be allocated back twice, which frees it: these
    #: references of ours keep it alive.
    functions = [thing for thing in gc.get_objects() if isinstance(thing, FunctionType)]
    kept.extend([code for function in functions for code in codes_of(function.__code__)] * 100)
    failed = round_of_failures(program)
    before = alive()
    round_of_failures(program)
    print(failed, alive() - before)


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)  # the interpreter would free code whose count is too low
