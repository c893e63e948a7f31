"""Comparisons, logic, bits and choices of elements: the part of the scalar builder that arithmetic is built on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..symbols import SymbolicFloat
from .body import FunctionBuilder
from .index import Atom, Index, constant_index
from .nest import F32, F64, I1, I32, I64, INDEX, ScalarType, Status, Value

Element = Value[ScalarType] | Index

#: The type of an element in arithmetic, by the dtype's short name.
SCALAR_TYPES: dict[str, ScalarType] = {"bool": I1, "i32": I32, "i64": I64, "f32": F32, "f64": F64}
_NAMES = {type: name for name, type in SCALAR_TYPES.items()}

# Attributes are compared by identity when operations are shared, so there is one dict per meaning.
_RELATIONS = ("lt", "le", "gt", "ge", "eq", "ne")
_OF_FLOATS, _OF_INTEGERS, _OF_BOOLS = (
    {relation: {"predicate": predicate} for relation, predicate in zip(_RELATIONS, predicates.split(), strict=True)}
    for predicates in ("olt ole ogt oge oeq une", "slt sle sgt sge eq ne", "ult ule ugt uge eq ne")
)


_M = TypeVar("_M", bound=Callable[..., Any])


def method(name: str, doc: str, run: _M) -> _M:
    """A method that has this name and documentation."""
    run.__name__, run.__doc__ = name, doc
    return run


def _comparison(relation: str, doc: str) -> Callable[[Logic, Element, Element], Value]:
    """The builder's method for a comparison."""
    return method(relation, doc, lambda self, x, y: self._compare(relation, x, y))


def _of_bits(name: str, doc: str) -> Callable[[Logic, Element, Element], Value]:
    """The builder's method for an operation on bits."""
    return method(f"bit_{name}", doc, lambda self, x, y: self._int2(f"arith.{name}i", x, y))


class Logic(FunctionBuilder):
    """Typed elements: constants, comparisons, logic, bits and choices."""

    # ------------------------------------------------------------ constants and types

    def constant(self, value: Any, dtype: str | ScalarType | None = None, *, like: Element | None = None) -> Element:
        """A known number: constant(1.0, "f64"), or of the type of another element: constant(1.0, like=x)."""
        type = like.type if like is not None else SCALAR_TYPES[dtype] if isinstance(dtype, str) else dtype
        if type is INDEX:
            return constant_index(int(value))
        assert isinstance(type, ScalarType), "a constant needs a dtype or an element to be like"
        if type.is_float:
            return self.literal(value if isinstance(value, SymbolicFloat) else float(value), type)
        if type is I1:
            return self.literal(bool(value), type)
        # Integers wrap as NumPy's do.
        half = 1 << (type.bits - 1)
        return self.literal((int(value) + half) % (2 * half) - half, type)

    def index(self, value: int) -> Index:
        """A known position."""
        return constant_index(value)

    def to_index(self, x: Element, low: int | None = None, high: int | None = None) -> Index:
        """An integer element as a position; `low` and `high` are promised bounds (after a clamp)."""
        if isinstance(x, Index):
            return x
        known = self.known_value(x)
        if known is not None:
            return constant_index(int(known))
        if x.type is I1:
            x = self.emit("arith.extui", (x,), I32)
            low, high = 0, 1
        limit = 1 << 62
        value = x if x.type is INDEX else self.emit("arith.index_cast", (x,), INDEX)
        return self._opaque(value, -limit if low is None else low, limit if high is None else high)

    def dtype(self, x: Element) -> str:
        """The short name of an element's dtype: "f64"; "index" for a position."""
        return "index" if isinstance(x, Index) else _NAMES[x.type]

    def is_float(self, x: Element) -> bool:
        """True if the value is an f32 or f64."""
        return not isinstance(x, Index) and x.type.is_float

    def replaces_extreme(self, relation: str, y: Element, x: Element) -> Value:
        """True if y replaces x as the extreme: y is "gt" or "lt" x, or y is nan and x, the earlier one, is not."""
        if not self.is_float(x):
            return self._compare(relation, y, x)
        beyond = self.emit("arith.cmpf", (as_value(y), as_value(x)), I1, {"predicate": f"u{relation}"})
        return self.logical_and(beyond, self.eq(x, x))

    def isnan(self, x: Element) -> Value:
        """True if the value is nan."""
        return self.ne(x, x) if self.is_float(x) else as_value(self.constant(False, "bool"))

    # ------------------------------------------------------------ comparisons and logic

    lt = _comparison("lt", "x < y; False for nan.")
    le = _comparison("le", "x <= y; False for nan.")
    gt = _comparison("gt", "x > y; False for nan.")
    ge = _comparison("ge", "x >= y; False for nan.")
    eq = _comparison("eq", "x == y; False for nan.")
    ne = _comparison("ne", "x != y; True for nan.")

    def logical_and(self, x: Element, y: Element) -> Value:
        """True if both are true; numbers are true if nonzero."""
        return self._both("arith.andi", x, y, neutral=True)

    def logical_or(self, x: Element, y: Element) -> Value:
        """True if one or both are true; numbers are true if nonzero."""
        return self._both("arith.ori", x, y, neutral=False)

    def _both(self, name: str, x: Element, y: Element, *, neutral: bool) -> Value:
        x, y = self.truth(x), self.truth(y)
        for one, other in ((x, y), (y, x)):
            known = self.known_value(one)
            if known is not None:
                return other if bool(known) is neutral else one
        return self.emit(name, (x, y), I1)

    def logical_xor(self, x: Element, y: Element) -> Value:
        """True if exactly one of both is true; numbers are true if nonzero."""
        return self.emit("arith.xori", (self.truth(x), self.truth(y)), I1)

    def logical_not(self, x: Element) -> Value:
        """True if x is false, or zero."""
        x = self.truth(x)
        known = self.known_value(x)
        if known is not None:
            return self.literal(not known, I1)
        return self.emit("arith.xori", (x, self.literal(True, I1)), I1)

    def truth(self, x: Element) -> Value:
        """x != 0, as a bool."""
        return as_value(x) if x.type is I1 else self.ne(x, self.constant(0, like=x))

    # ------------------------------------------------------------ bits

    bit_and = _of_bits("and", "x & y of integers or bools.")
    bit_or = _of_bits("or", "x | y of integers or bools.")
    bit_xor = _of_bits("xor", "x ^ y of integers or bools.")

    def bit_not(self, x: Element) -> Value:
        """~x of integers or bools."""
        return self._int2("arith.xori", x, self.constant(-1, like=x))

    def shift_left(self, x: Element, y: Element) -> Any:
        """x << y; 0 when y is not in [0, bits)."""
        inside, safe = self._safe_shift(x, y)
        return self.select(inside, self._int2("arith.shli", x, safe), self.constant(0, like=x))

    def shift_right(self, x: Element, y: Element) -> Any:
        """x >> y with the sign kept; 0 or -1 when y is not in [0, bits)."""
        inside, safe = self._safe_shift(x, y)
        last = self.constant(x.type.bits - 1, like=x)
        return self._int2("arith.shrsi", x, self.select(inside, safe, last))

    # ------------------------------------------------------------ choices

    def select(self, condition: Element, x: Element, y: Element) -> Any:
        """x where the condition holds, else y; both are computed."""
        condition = self.truth(condition)
        known = self.known_value(condition)
        if known is not None:
            return x if known else y
        if isinstance(x, Index) or isinstance(y, Index):
            x, y = as_index(x), as_index(y)
            if x == y:
                return x
            value = self.emit("arith.select", (condition, self.value_of(x), self.value_of(y)), INDEX)
            return self._opaque(value, min(x.low, y.low), max(x.high, y.high))
        return x if x is y else self.emit("arith.select", (condition, x, y), x.type)

    def check(self, condition: Element, status: Status = Status.INDEX_OUT_OF_RANGE) -> None:
        """Make the kernel fail with `status` if the condition is ever false."""
        truth = self.truth(condition)
        if self.known_value(truth) is not True:
            self.fail_unless(truth, status)

    # ------------------------------------------------------------ shared

    def _int2(self, name: str, x: Element, y: Element) -> Value:
        x, y = self._plain(x), self._plain(y)
        assert not self.is_float(x), f"{name} takes integers"
        return self.emit(name, (x, y), x.type)

    def _plain(self, x: Element) -> Value:
        """The SSA value of an element; a position becomes a value of type index."""
        return self.value_of(x) if isinstance(x, Index) else x

    def _opaque(self, value: Value, low: int, high: int) -> Index:
        """A position known only at run time.  One atom per value, so that equal positions stay equal."""
        key = ("opaque", value)
        atom = self._known.get(key)
        if atom is None:
            atom = self._known[key] = Atom(low, high, value)
            self._keys[self.depth_of(value)].append(key)
        return Index.of(atom)

    def _compare(self, relation: str, x: Element, y: Element) -> Value:
        if isinstance(x, Index) and isinstance(y, Index):
            known = _known_relation(relation, x, y)
            if known is not None:
                return self.literal(known, I1)
        x, y = self._plain(x), self._plain(y)
        if x.type.is_float:
            return self.emit("arith.cmpf", (x, y), I1, _OF_FLOATS[relation])
        predicates = _OF_BOOLS if x.type is I1 else _OF_INTEGERS
        return self.emit("arith.cmpi", (x, y), I1, predicates[relation])

    def _safe_shift(self, x: Element, y: Element) -> tuple[Value, Value]:
        """(y is in [0, bits), y there and 0 elsewhere): a shift by a number outside is undefined."""
        bits = x.type.bits
        known = self.known_value(as_value(y))
        if known is not None:
            inside = 0 <= known < bits
            return self.literal(inside, I1), as_value(y if inside else self.constant(0, like=y))
        zero = self.constant(0, like=y)
        inside = self.logical_and(self.ge(y, zero), self.lt(y, self.constant(bits, like=y)))
        return inside, as_value(self.select(inside, y, zero))


def as_value(x: Element) -> Value:
    assert isinstance(x, Value), "an element was expected, not a position: use from_index"
    return x


def as_index(x: Element | int) -> Index:
    if isinstance(x, int):
        return constant_index(x)
    assert isinstance(x, Index), "a position was expected, not an element: use to_index"
    return x


def _known_relation(relation: str, x: Index, y: Index) -> bool | None:
    """The result of a comparison if the ranges decide it, or None."""
    difference = x.plus(y.times(-1))
    low, high = difference.low, difference.high
    if relation == "gt":
        return True if low > 0 else False if high <= 0 else None
    if relation == "ge":
        return True if low >= 0 else False if high < 0 else None
    if relation == "lt":
        return True if high < 0 else False if low >= 0 else None
    if relation == "le":
        return True if high <= 0 else False if low > 0 else None
    equal = True if low == high == 0 else False if low > 0 or high < 0 else None
    return equal if relation == "eq" or equal is None else not equal
