"""Arithmetic on real or complex numbers, so that a program for matrices is written once.

    f = field(k, F64, is_complex=False)        f.minus(c, f.times(a, b))

A real number is a value of the builder; a complex one is two, and lies in memory as they do, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..lazily import later
from .index import Index, constant_index
from .nest import ScalarType, Value
from .scalar import Scalar

if TYPE_CHECKING:
    from . import complex_formulas
else:
    complex_formulas = later("codegen.kernel.complex_formulas")

__all__ = ["Complexes", "Reals", "field", "root_of"]

class Reals:
    """Numbers that are values of the builder.

    width    how many elements of memory one takes
    """

    width = 1

    def __init__(self, k: Scalar, type: ScalarType) -> None:
        self.k, self.type = k, type

    def parts(self, x: Any) -> list[Value]:
        """The elements of a number, in which loops carry it."""
        return [x]

    def joined(self, parts: list[Value]) -> Any:
        """The other way round."""
        return parts[0]

    def _each(self, act: Callable[..., Any], *numbers: Any) -> Any:
        """The results of `act` for each part."""
        return self.joined([act(*parts) for parts in zip(*map(self.parts, numbers), strict=True)])

    def real(self, value: float) -> Value:
        """A known real number, as an element."""
        return self.k.literal(value, self.type)

    def number(self, value: float) -> Any:
        """A known number."""
        return self.from_real(self.real(value))

    def load(self, memory: Value, at: Index, *, stable: bool) -> Any:
        """Load the element at the place of so many numbers."""
        first = at.times(self.width)
        places = [first.plus(constant_index(j)) for j in range(self.width)]
        return self.joined([self.k.load(memory, place, stable=stable) for place in places])

    def store(self, x: Any, memory: Value, at: Index) -> None:
        """Write a number there."""
        first = at.times(self.width)
        for j, part in enumerate(self.parts(x)):
            self.k.store(part, memory, first.plus(constant_index(j)))

    def plus(self, x: Any, y: Any) -> Any:
        """x + y, where the order of additions is free."""
        return self._each(self.k.accumulate, x, y)

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self._each(self.k.add, x, y)

    def minus(self, x: Any, y: Any) -> Any:
        """x - y."""
        return self._each(self.k.sub, x, y)

    def negative(self, x: Any) -> Any:
        """-x."""
        return self._each(self.k.neg, x)

    def scaled(self, x: Any, factor: Value) -> Any:
        """x times a real number."""
        return self._each(lambda part: self.k.mul(part, factor), x)

    def choose(self, condition: Value, x: Any, y: Any) -> Any:
        """x where the condition holds, else y."""
        return self._each(lambda a, b: self.k.select(condition, a, b), x, y)

    def times(self, x: Any, y: Any) -> Any:
        """x y."""
        return self.k.mul(x, y)

    def over(self, x: Any, y: Any) -> Any:
        """x / y."""
        return self.k.div(x, y)

    def conjugate(self, x: Any) -> Any:
        """x itself, or with the other imaginary part."""
        return x

    def real_part(self, x: Any) -> Value:
        """The real part of a number, as an element."""
        return self.parts(x)[0]

    def from_real(self, x: Value) -> Any:
        """An element as a number."""
        return x

    def size(self, x: Any) -> Value:
        """The size by which pivots are compared."""
        return self.k.abs(x)

    def magnitude(self, x: Any) -> Value:
        """|x|."""
        return self.k.abs(x)

    def is_zero(self, x: Any) -> Value:
        """True if the element is 0, of either sign."""
        return self.k.eq(x, self.real(0.0))


class Complexes(Reals):
    """Numbers that are pairs of values."""

    width = 2

    def parts(self, x: Any) -> list[Value]:
        return [*x]

    def joined(self, parts: list[Value]) -> Any:
        return tuple(parts)

    def times(self, x: Any, y: Any) -> Any:
        return complex_formulas.applied("mul", self.k, x, y)

    def over(self, x: Any, y: Any) -> Any:
        return complex_formulas.applied("div", self.k, x, y)

    def conjugate(self, x: Any) -> Any:
        return x[0], self.k.neg(x[1])

    def from_real(self, x: Value) -> Any:
        return x, self.real(0.0)

    def size(self, x: Any) -> Value:
        """The size as in LAPACK: the sum of both parts, each without its sign."""
        return self.k.add(self.k.abs(x[0]), self.k.abs(x[1]))

    def magnitude(self, x: Any) -> Value:
        return complex_formulas.applied("abs_complex", self.k, x)

    def is_zero(self, x: Any) -> Value:
        return self.k.logical_and(*[self.k.eq(part, self.real(0.0)) for part in x])


def root_of(f: Reals, x: Any) -> Value:
    """The root of a pivot of a positive definite matrix; 0 of what is none.  That of nan is nan."""
    pivot = f.real_part(x)
    return f.k.select(f.k.le(pivot, f.real(0.0)), f.real(0.0), f.k.sqrt(pivot))


def field(k: Scalar, type: ScalarType, *, is_complex: bool) -> Reals:
    """The numbers whose parts are of this type."""
    return Complexes(k, type) if is_complex else Reals(k, type)
