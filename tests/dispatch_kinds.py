"""Plain Python classes, and generic functions of them, for the tests of dispatch."""

from __future__ import annotations

import types

from autodiff.dispatch import (
    GenericFunction,
)


class Animal: ...


class Dog(Animal): ...


class Puppy(Dog): ...


class Cat(Animal): ...


class Robot: ...


def declare(function) -> GenericFunction:
    return GenericFunction.declare(function)


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
