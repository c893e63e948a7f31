"""The numbers of native Python: Python's own numbers with a width, so that a native function also runs as plain Python.

    u8 u16 u32 u64 u128   i8 i16 i32 i64   f32 f64   vector[f64, 4]

An operation on two integers has the one type of the two that holds all values of both; if there is none (i64 and u64),
the compiler and plain Python refuse the operation.  In plain Python an overflow below 64 bits is a bug and raises
OverflowError; from 64 bits on the result wraps, which hashes rely on.  Machine code wraps at any width.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable
from typing import Any


class Integer(int):
    """A whole number of `bits` bits.  The constructor wraps, as a conversion in machine code does."""

    bits = 64
    signed = True

    def __new__(cls, value: Any = 0) -> Integer:
        number = int(value)
        if isinstance(value, float) and cls.wrapped(number) != number:
            raise OverflowError(f"{value} does not fit into {cls.__name__}")  # undefined in machine code
        return int.__new__(cls, cls.wrapped(number))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    @classmethod
    def wrapped(cls, value: int) -> int:
        """The value modulo 2**bits, in the range of this type."""
        low = value & (1 << cls.bits) - 1
        return low - (1 << cls.bits) if cls.signed and low >> cls.bits - 1 else low

    @classmethod
    def exactly(cls, value: int) -> Integer:
        """The number as this type.  Raises OverflowError if it does not fit and the type has fewer than 64 bits."""
        if cls.bits < 64 and cls.wrapped(value) != value:
            raise OverflowError(f"{value} does not fit into {cls.__name__}")
        return cls(value)


class Float(float):
    """A floating-point number of `bits` bits.  Division by zero and overflow give IEEE results, as in machine code."""

    bits = 64
    signed = True

    def __new__(cls, value: Any = 0.0) -> Float:
        return float.__new__(cls, ctypes.c_float(value).value if cls.bits == 32 else value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({float(self)})"

    exactly = classmethod(lambda cls, value: cls(value))


class Vector:
    """`lanes` numbers side by side; the constructor copies a single number to all lanes."""

    item: Any
    lanes: int
    values: list[Any]

    def __init__(self, given: Any) -> None:
        if isinstance(given, Vector):
            given = [self.item(value) for value in given.values]
        self.values = given if isinstance(given, list) else [self.item(given)] * self.lanes

    def __getitem__(self, lane: int) -> Any:
        return self.values[lane]


def is_integer(kind: Any) -> bool:
    """True for the integer types and for bool."""
    return kind is bool or (isinstance(kind, type) and issubclass(kind, Integer))


def join(a: Any, b: Any) -> Any:
    """The type of an operation on numbers of two types; None if neither type holds all values of both.

    `int` and `float` are the types of literals, which take the type of the other operand.
    """
    if a is b:
        return a
    for one, other in ((a, b), (b, a)):
        if one is int and (is_integer(other) or other is float or issubclass(other, Float)):
            return other
        if one is float and issubclass(other, Float):
            return other
        if one is bool and is_integer(other):
            return other
        is_wider = one is not bool and other is not bool and getattr(one, "bits", 0) > getattr(other, "bits", 0)
        if is_wider and issubclass(one, Integer) and issubclass(other, Integer) and (one.signed or not other.signed):
            return one
        if is_wider and issubclass(one, Float) and issubclass(other, Float):
            return one
    return None


def _quotient(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _give_operators(base: type, literals: tuple[type, ...], operators: dict[str, Callable[[Any, Any], Any]]) -> None:
    """Set the operators of a family of numbers: between two numbers, and between a number and a literal."""

    def forward(name: str, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        is_shift = name in ("lshift", "rshift")
        plain: Any = int if base is Integer else float

        def apply(a: Any, b: Any) -> Any:
            if not any(isinstance(b, of) for of in (base, *literals)):
                return NotImplemented
            kind = type(a) if is_shift else join(type(a), type(b))
            if kind is None:
                raise TypeError(f"{a!r} {name} {b!r}: no type holds both")
            if is_shift and not 0 <= b < kind.bits:
                raise OverflowError(f"a {kind.__name__} shifted by {int(b)}")
            return kind.exactly(compute(plain(a), plain(b)))

        return apply

    def backward(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda a, b: apply(type(a)(b), a) if type(b) in literals else NotImplemented

    for name, compute in operators.items():
        apply = forward(name, compute)
        setattr(base, f"__{name}__", apply)
        setattr(base, f"__r{name}__", backward(apply))
    base.__neg__ = lambda a: type(a).exactly(-base.__mro__[1](a))  # type: ignore[operator]  # of int or float


_SHARED = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_BITS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
_WHOLE = {"floordiv": operator.floordiv, "mod": operator.mod, "lshift": operator.lshift, "rshift": operator.rshift}
_give_operators(Integer, (int, bool), _SHARED | _BITS | _WHOLE)
_give_operators(Float, (float, int), _SHARED | {"truediv": _quotient})
Integer.__invert__ = lambda a: type(a)(~int(a))  # type: ignore[method-assign]  # as above


def _lanewise(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Vector, b: Any) -> Any:
        if type(b) is not type(a):
            raise TypeError(f"{type(a).__name__} and {type(b).__name__}: convert one")
        found = [compute(x, y) for x, y in zip(a.values, b.values, strict=True)]
        return (vector[bool, a.lanes] if type(found[0]) is bool else type(a))(found)

    return apply


_LANEWISE = (*_SHARED, "truediv", "and_", "or_", "xor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge")
for _name in _LANEWISE:
    setattr(Vector, f"__{_name.strip('_')}__", _lanewise(getattr(operator, _name)))

Vector.__neg__ = lambda a: type(a)([-x for x in a.values])  # type: ignore[operator]  # given here


def _sized(base: Any, letter: str, *widths: int) -> list[Any]:
    """The types of a family, one for each number of bits."""
    return [type(f"{letter}{bits}", (base,), {"bits": bits, "signed": letter != "u"}) for bits in widths]


u8, u16, u32, u64, u128 = _sized(Integer, "u", 8, 16, 32, 64, 128)
i8, i16, i32, i64 = _sized(Integer, "i", 8, 16, 32, 64)
f32, f64 = _sized(Float, "f", 32, 64)


class _VectorOf(dict[tuple[Any, int], Any]):
    """`vector[f64, 4]`: the class of vectors of four f64, the same object each time."""

    def __missing__(self, parts: tuple[Any, int]) -> Any:
        item, lanes = parts
        body = {"item": item, "lanes": lanes, "bits": getattr(item, "bits", 1) * lanes, "signed": True}
        self[parts] = type(f"vector[{item.__name__}, {lanes}]", (Vector,), body)
        return self[parts]


vector = _VectorOf()
