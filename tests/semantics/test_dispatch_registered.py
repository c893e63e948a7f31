"""A class that is registered with an abstract base class after a call is dispatched by it from the next call on."""

import abc
import dataclasses

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, 2.0])


@dataclasses.dataclass(frozen=True)
class Static:
    """A static argument."""

    n: int = 2


@dataclasses.dataclass
class Tree:
    """A nesting of arrays."""

    value: np.ndarray


def world():
    """An abstract class, a function that dispatches on it, and classes that nobody has registered with it."""

    class Shape(abc.ABC):  # noqa: B024  abstract by its name alone
        """Without abstract methods: classes are registered with it."""

    @ad.function
    def f(x, c): ...

    f.method(ad.Tensor, object)(lambda x, c: x * 1.0)
    f.method(ad.Tensor, Shape)(lambda x, c: x * 100.0)
    objects = (type("Static", (Static,), {})(), type("Tree", (Tree,), {})(np.ones(2)))
    return Shape, f, objects


def ruled(f, c):
    """A function whose derivative is chosen by dispatch."""

    @ad.function
    def p(x): ...

    @p.forward(ad.Tensor)
    def _(ctx, x):
        return x * 1.0

    @p.backward(ad.Tensor)
    def _(ctx, g):
        return f(g, c)

    return p


def recorded(f):
    def gradient(x):
        t = ad.tensor(x, requires_grad=True)
        ad.sum(f(t)).backward()
        return t.grad.numpy()

    return gradient


def on_tensors(f):
    return lambda x: f(ad.tensor(x)).numpy()


def gradient(f):
    return ad.grad(lambda x: ad.sum(f(x)))


VALUES = {
    "plain": on_tensors,
    "jit": ad.jit,
    "jit of tensors": lambda f: on_tensors(ad.jit(f)),
    "jit(jit)": lambda f: ad.jit(ad.jit(f)),
    "vmap": lambda f: lambda x: ad.vmap(f)(x[None])[0],
    "scan": lambda f: lambda x: ad.scan(lambda c, _: (f(c), None), x, length=1)[0].numpy(),
}
GRADIENTS = {
    "recorded": recorded,
    "grad": gradient,
    "jit(grad)": lambda f: ad.jit(gradient(f)),
    "grad(jit)": lambda f: gradient(ad.jit(f)),
    "grad(checkpoint)": lambda f: gradient(ad.checkpoint(f)),
    "vmap(grad)": lambda f: lambda x: ad.vmap(gradient(f))(x[None])[0],
}


@pytest.mark.parametrize("which", [0, 1], ids=["static", "tree"])
@pytest.mark.parametrize("route", VALUES | GRADIENTS)
def test_a_class_that_is_registered_later_is_seen_by_the_next_call(route, which):
    shape, f, objects = world()
    c = objects[which]
    programs = [lambda x: f(x, c)] if route in VALUES else [lambda x: f(x, c), ruled(f, c)]
    runs = [(VALUES | GRADIENTS)[route](program) for program in programs]
    before = [[run(X) for _ in range(4)][-1] for run in runs]  # repeated: compiled, and entered natively
    shape.register(type(c))
    for run, value in zip(runs, before, strict=True):
        for _ in range(3):
            np.testing.assert_array_equal(run(X), 100.0 * value)


@pytest.mark.parametrize("which", [0, 1], ids=["static", "tree"])
def test_the_class_of_an_argument_is_seen_too(which):
    shape, f, objects = world()
    c, compiled = objects[which], ad.jit(f)
    for _ in range(4):
        np.testing.assert_array_equal(compiled(X, c), X)
    shape.register(type(c))
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X, c), 100.0 * X)


def test_other_registrations_trace_nothing_again():
    _, f, (c, _) = world()
    traced = []

    @ad.jit
    def program(x):
        traced.append(x)
        return f(x, c)

    for _ in range(4):
        program(X)
    world()[0].register(Static)
    with ad.max_compiles(0):
        program(X)
    assert len(traced) == 1
