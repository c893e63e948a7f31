"""Arithmetic on real or complex numbers, so that a program for matrices is written once.

    f = field(k, F64, is_complex=False)        f.minus(c, f.times(a, b))

A real number is a value of the builder; a complex one is two, and lies in memory as they do, one after the other.
"""

from __future__ import annotations

from typing import Any

from .index import Index, constant_index
from .nest import ScalarType, Value
from .scalar import Scalar

__all__ = ["Complexes", "Reals", "field", "root_of"]

_ONE = constant_index(1)


class Reals:
    """Numbers that are values of the builder.

    width    how many elements of memory one takes
    """

    width = 1

    def __init__(self, k: Scalar, type: ScalarType) -> None:
        self.k, self.type = k, type

    def real(self, value: float) -> Value:
        """A known real number, as an element."""
        return self.k.literal(value, self.type)

    def number(self, value: float) -> Any:
        """A known number."""
        return self.real(value)

    def load(self, memory: Value, at: Index, *, stable: bool) -> Any:
        """Load the element at the place of so many numbers."""
        return self.k.load(memory, at, stable=stable)

    def store(self, x: Any, memory: Value, at: Index) -> None:
        """Write a number there."""
        self.k.store(x, memory, at)

    def plus(self, x: Any, y: Any) -> Any:
        """x + y, where the order of additions is free."""
        return self.k.accumulate(x, y)

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self.k.add(x, y)

    def minus(self, x: Any, y: Any) -> Any:
        """x - y."""
        return self.k.sub(x, y)

    def negative(self, x: Any) -> Any:
        """-x."""
        return self.k.neg(x)

    def times(self, x: Any, y: Any) -> Any:
        """x y."""
        return self.k.mul(x, y)

    def scaled(self, x: Any, factor: Value) -> Any:
        """x times a real number."""
        return self.k.mul(x, factor)

    def over(self, x: Any, y: Any) -> Any:
        """x / y."""
        return self.k.div(x, y)

    def conjugate(self, x: Any) -> Any:
        """x itself, or with the other imaginary part."""
        return x

    def real_part(self, x: Any) -> Value:
        """The real part of a number, as an element."""
        return x

    def from_real(self, x: Value) -> Any:
        """An element as a number."""
        return x

    def size(self, x: Any) -> Value:
        """The size by which pivots are compared."""
        return self.k.abs(x)

    def magnitude(self, x: Any) -> Value:
        """|x|."""
        return self.k.abs(x)

    def choose(self, condition: Value, x: Any, y: Any) -> Any:
        """x where the condition holds, else y."""
        return self.k.select(condition, x, y)

    def is_zero(self, x: Any) -> Value:
        """True if the element is 0, of either sign."""
        return self.k.eq(x, self.real(0.0))

    def parts(self, x: Any) -> list[Value]:
        """The numbers in which loops carry an element."""
        return [x]

    def joined(self, parts: list[Value]) -> Any:
        """The other way round."""
        return parts[0]


class Complexes(Reals):
    """Numbers that are pairs of values."""

    width = 2

    def number(self, value: float) -> Any:
        return self.real(value), self.real(0.0)

    def load(self, memory: Value, at: Index, *, stable: bool) -> Any:
        at = at.times(2)
        return self.k.load(memory, at, stable=stable), self.k.load(memory, at.plus(_ONE), stable=stable)

    def store(self, x: Any, memory: Value, at: Index) -> None:
        at = at.times(2)
        self.k.store(x[0], memory, at)
        self.k.store(x[1], memory, at.plus(_ONE))

    def plus(self, x: Any, y: Any) -> Any:
        return self.k.accumulate(x[0], y[0]), self.k.accumulate(x[1], y[1])

    def add(self, x: Any, y: Any) -> Any:
        return self.k.add(x[0], y[0]), self.k.add(x[1], y[1])

    def minus(self, x: Any, y: Any) -> Any:
        return self.k.sub(x[0], y[0]), self.k.sub(x[1], y[1])

    def negative(self, x: Any) -> Any:
        return self.k.neg(x[0]), self.k.neg(x[1])

    def times(self, x: Any, y: Any) -> Any:
        k = self.k
        re = k.sub(k.mul(x[0], y[0]), k.mul(x[1], y[1]))
        return re, k.add(k.mul(x[0], y[1]), k.mul(x[1], y[0]))

    def scaled(self, x: Any, factor: Value) -> Any:
        return self.k.mul(x[0], factor), self.k.mul(x[1], factor)

    def over(self, x: Any, y: Any) -> Any:
        """By the larger part first, as Smith does, so that nothing overflows on the way."""
        k = self.k
        is_turned = k.lt(k.abs(y[0]), k.abs(y[1]))
        large, small = k.select(is_turned, y[1], y[0]), k.select(is_turned, y[0], y[1])
        ratio = k.div(small, large)
        size = k.add(large, k.mul(small, ratio))
        first, second = k.select(is_turned, x[1], x[0]), k.select(is_turned, x[0], x[1])
        re = k.div(k.add(first, k.mul(second, ratio)), size)
        im = k.div(k.sub(second, k.mul(first, ratio)), size)
        return re, k.select(is_turned, k.neg(im), im)

    def conjugate(self, x: Any) -> Any:
        return x[0], self.k.neg(x[1])

    def real_part(self, x: Any) -> Value:
        return x[0]

    def from_real(self, x: Value) -> Any:
        return x, self.real(0.0)

    def size(self, x: Any) -> Value:
        """The size as in LAPACK: the sum of both parts, each without its sign."""
        return self.k.add(self.k.abs(x[0]), self.k.abs(x[1]))

    def magnitude(self, x: Any) -> Value:
        k = self.k
        a, b = k.abs(x[0]), k.abs(x[1])
        large, small = k.maximum(a, b), k.minimum(a, b)
        ratio = k.div(small, k.select(k.eq(large, self.real(0.0)), self.real(1.0), large))
        return k.mul(large, k.sqrt(k.add(self.real(1.0), k.mul(ratio, ratio))))

    def choose(self, condition: Value, x: Any, y: Any) -> Any:
        return self.k.select(condition, x[0], y[0]), self.k.select(condition, x[1], y[1])

    def is_zero(self, x: Any) -> Value:
        zero = self.real(0.0)
        return self.k.logical_and(self.k.eq(x[0], zero), self.k.eq(x[1], zero))

    def parts(self, x: Any) -> list[Value]:
        return [*x]

    def joined(self, parts: list[Value]) -> Any:
        return tuple(parts)


def root_of(f: Reals, x: Any) -> Value:
    """The root of a pivot of a positive definite matrix; 0 of what is none.  That of nan is nan."""
    pivot = f.real_part(x)
    return f.k.select(f.k.le(pivot, f.real(0.0)), f.real(0.0), f.k.sqrt(pivot))


def field(k: Scalar, type: ScalarType, *, is_complex: bool) -> Reals:
    """The numbers whose parts are of this type."""
    return Complexes(k, type) if is_complex else Reals(k, type)
