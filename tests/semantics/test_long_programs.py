"""Long programs: nothing recurses over the nodes of one, in no transformation and no pass.

Everything runs in a thread of its own whose recursion limit is 200.  For six hundred operations that is as telling as
for twenty thousand, of which there is one of each kind.
"""

import sys
import threading
from contextlib import suppress

import numpy as np
import pytest
from covering import covering

import autodiff as ad
from codegen import compiler
from codegen.emit.llvm import emit_function
from codegen.emit.nests import leaves
from codegen.program import Kernel

X, D = np.array([0.3, 0.7]), np.array([1.0, 2.0])


def elementwise(n, x):
    for _ in range(n // 3):
        x = x - 0.01 * ad.sin(x)
    return ad.sum(x * x)


def elements(n, x):
    a = x[0]
    for k in range(n // 6):
        a = a * x[k % 2] + ad.sum(x[:1]) * 0.01
    return a


def stacked(n, x):
    for _ in range(n // 7):
        q, p = x[0], x[1]
        p = p - 0.01 * ad.sin(q)
        x = ad.stack([q + 0.01 * p, p])
    return ad.sum(x * x)


def moved(n, x):
    for k in range(n // 4):
        x = ad.flip(ad.roll(x, k), axis=0) * 1.01 + ad.tanh(x[::-1])
    return ad.sum(x)


def chosen(n, x):
    for _ in range(n // 4):
        x = ad.where(x > 0.5, ad.maximum(x, 0.1) * x, -x)
    return ad.sum(x)


def multiplied(n, x):
    w = np.array([[0.6, 0.8], [-0.8, 0.6]])
    for _ in range(n // 2):
        x = ad.tanh(w @ x)
    return ad.sum(x)


def written(n, x):
    x = x * 1.0
    for k in range(n // 4):
        x[k % 2] = ad.sin(x[k % 2]) + 0.1
    return ad.sum(x)


PROGRAMS = (elementwise, elements, stacked, moved, chosen, multiplied, written)

TRANSFORMED = {
    "value": lambda f: f,
    "grad": ad.grad,
    "jvp": lambda f: lambda x: ad.jvp(f, (x,), (D,))[1],
    "hvp": lambda f: lambda x: ad.hvp(f, (x,), (D,)),
    "vmap of grad": lambda f: lambda x: ad.vmap(ad.grad(f))(ad.stack([x, 2.0 * x])),
    "grad of vmap": lambda f: ad.grad(lambda x: ad.sum(ad.vmap(f)(ad.stack([x, 2.0 * x])))),
    "grad of checkpoint": lambda f: ad.grad(ad.checkpoint(f)),
    "grad of scan": lambda f: ad.grad(lambda x: ad.scan(lambda c, e: (c * e + f(x), c), 1.0, D)[0]),
}

each_transformation = pytest.mark.parametrize("name", TRANSFORMED)


def shallow(run):
    """run() where few calls fit into each other."""
    found, raised, before = [], [], sys.getrecursionlimit()

    def limited():
        sys.setrecursionlimit(200)
        try:
            found.append(run())
        except BaseException as error:
            raised.append(error)
        finally:
            sys.setrecursionlimit(before)

    thread = threading.Thread(target=limited)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]


class Planned(BaseException):
    """The graphs of a function are known: nothing needs machine code."""


def text_of(f, x, monkeypatch):
    """The length of the code of `jit(f)`, of which none is compiled."""
    length = 0

    def made(graph):
        nonlocal length
        program = compiler.make_program(graph)
        works = [inner.work for step in program.steps for inner in (leaves(step.work) or [step])]
        length += sum([len(emit_function(work.function).text) for work in works if isinstance(work, Kernel)])
        raise Planned

    monkeypatch.setattr(compiler, "_new_executable", made)
    with suppress(Planned):
        ad.jit(f)(x)
    return length


@covering(times=2, program=PROGRAMS, name=TRANSFORMED)
def test_nothing_recurses_over_the_nodes_of_a_program(program, name, monkeypatch):
    f = TRANSFORMED[name](lambda x: program(600, x))
    assert shallow(lambda: text_of(f, X, monkeypatch)) > 10_000


@pytest.mark.parametrize("program", [elementwise, elements], ids=lambda f: f.__name__)
def test_twenty_thousand_operations_in_a_row_are_differentiated_and_planned(program, monkeypatch):
    monkeypatch.setattr(ad.config, "patience", 8)  # a program that is new is evaluated, as it is by default

    def f(x):
        return program(20_000, x)

    def recorded():
        t = ad.tensor(X, requires_grad=True)
        f(t).backward()
        return t.grad.numpy()

    gradient = shallow(recorded)
    np.testing.assert_allclose(shallow(lambda: ad.jvp(f, (X,), (D,))[1]), gradient @ D, rtol=1e-9)
    assert shallow(lambda: text_of(f, X, monkeypatch)) > 100_000


@pytest.mark.slow
@each_transformation
@pytest.mark.parametrize("program", [elementwise, elements], ids=lambda f: f.__name__)
def test_twenty_thousand_operations_in_a_row_are_compiled(program, name):
    f = TRANSFORMED[name](lambda x: program(20_000, x))
    np.testing.assert_allclose(shallow(lambda: ad.jit(f)(X)), shallow(lambda: f(X)), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("program", [elementwise, elements], ids=lambda f: f.__name__)
def test_twenty_thousand_operations_in_a_row_are_shown(program):
    shown = shallow(lambda: ad.inspect(lambda x: program(20_000, x), X))
    for stage in ("tape", "graph", "fused", "mlir", "llvm", "stats"):
        assert len(shallow(lambda stage=stage: str(getattr(shown, stage)))) > 100
