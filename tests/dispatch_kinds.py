"""Plain Python classes, and generic functions of them, for the tests of dispatch."""

from __future__ import annotations

import types

import numpy as np

import autodiff as ad
from autodiff.dispatch import (
    GenericFunction,
)


class Animal: ...


class Dog(Animal): ...


class Puppy(Dog): ...


class Cat(Animal): ...


class Robot: ...


def declare(function) -> GenericFunction:
    return GenericFunction(function)


def two(returns=None):
    """A function of two parameters without methods."""

    @declare
    def f(a, b): ...

    return f


def returning(value):
    return lambda a, b: value


@declare
def linear(x, weight, bias=None):
    """x times weight."""


@linear.method(int, int, types.NoneType)
def without(x, weight, bias):
    return x * weight


@linear.method(int, int, int)
def with_bias(x, weight, bias=None):
    return x * weight + bias


class RobotDog(Dog, Robot):
    """Both: whether signatures meet is asked of all classes that there are, so there is one of these."""


X = np.array([1.0, -2.0, 3.0])


def gradient(f):
    x = ad.tensor(X, requires_grad=True)
    f(x).sum().backward()
    return x.grad.numpy()


def pair(backward=lambda ctx, g: g * 2.0):
    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: x * 1.0)
    f.backward(ad.Tensor)(backward)
    return f
