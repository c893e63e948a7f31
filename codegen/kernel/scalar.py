"""The scalar builder: what an operation's lowering is written with.

    Map(lambda k, x: k.div(x, k.add(k.constant(1.0, like=x), k.exp(k.neg(x)))))

Operands are `Value`s of type f32, f64, i32, i64 or i1 (bool), or an `Index` (positions in arrays).
A method picks the float, integer or bool form by the type of its operands, which must agree;
nothing is promoted.  Integers wrap, and nothing traps: what NumPy gives is what comes out.
Anything that is already known (constants, index arithmetic) is folded; anything computed before is
taken again.
"""

from __future__ import annotations

import math
from typing import Any

from .body import Body
from .index import Atom, Index, constant_index
from .nest import F32, F64, I1, I32, I64, INDEX, ScalarType, Status, Value

__all__ = ["SCALAR_TYPES", "Element", "Scalar"]

Element = Value | Index

#: The type of an element in arithmetic, by the dtype's short name.
SCALAR_TYPES: dict[str, ScalarType] = {"bool": I1, "i32": I32, "i64": I64, "f32": F32, "f64": F64}
_NAMES = {type: name for name, type in SCALAR_TYPES.items()}

# Attributes are compared by identity when operations are shared, so there is one dict per meaning.
_CONTRACT = {"fastmath": frozenset({"contract"})}
#: For the accumulation of sums only: their order is ours to choose.
_REASSOCIATE = {"fastmath": frozenset({"contract", "reassoc"})}
_FLOAT_PREDICATES = {name: {"predicate": p} for name, p in zip(
    ("lt", "le", "gt", "ge", "eq", "ne"), ("olt", "ole", "ogt", "oge", "oeq", "une"), strict=True)}
_INT_PREDICATES = {name: {"predicate": p} for name, p in zip(
    ("lt", "le", "gt", "ge", "eq", "ne"), ("slt", "sle", "sgt", "sge", "eq", "ne"), strict=True)}
_BOOL_PREDICATES = {name: {"predicate": p} for name, p in zip(
    ("lt", "le", "gt", "ge", "eq", "ne"), ("ult", "ule", "ugt", "uge", "eq", "ne"), strict=True)}


class Scalar(Body):
    """Typed arithmetic on elements, appended to the loop being built."""

    # ------------------------------------------------------------ constants and types

    def constant(self, value: Any, dtype: str | ScalarType | None = None, *, like: Element | None = None) -> Element:
        """A known number: constant(1.0, "f64"), or of the type of another element: constant(1.0, like=x)."""
        type = like.type if like is not None else SCALAR_TYPES[dtype] if isinstance(dtype, str) else dtype
        if type is INDEX:
            return constant_index(int(value))
        assert isinstance(type, ScalarType), "a constant needs a dtype or an element to be like"
        if type.is_float:
            return self.literal(float(value), type)
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
        value = self.emit("arith.index_cast", (x,), INDEX)
        return self._opaque(value, -limit if low is None else low, limit if high is None else high)

    def from_index(self, i: Element, dtype: str) -> Value:
        """A position as an element of a dtype."""
        if not isinstance(i, Index):
            return self.cast(i, dtype)
        if i.is_constant:
            return _value(self.constant(i.constant, dtype))
        wide = self.emit("arith.index_cast", (self.value_of(i),), I64)
        return self.cast(wide, dtype)

    def dtype(self, x: Element) -> str:
        """The short name of an element's dtype: "f64"; "index" for a position."""
        return "index" if isinstance(x, Index) else _NAMES[x.type]  # type: ignore[index]

    def is_float(self, x: Element) -> bool:
        """Whether it is an f32 or f64."""
        return not isinstance(x, Index) and x.type.is_float  # type: ignore[union-attr]

    def is_bool(self, x: Element) -> bool:
        """Whether it is a bool."""
        return x.type is I1

    def cast(self, x: Element, dtype: str) -> Value:
        """As NumPy's astype: float to int truncates, and gives the least integer for what does not fit or is nan."""
        if isinstance(x, Index):
            return self.from_index(x, dtype)
        source, target = x.type, SCALAR_TYPES[dtype]
        assert isinstance(source, ScalarType)
        if source is target:
            return x
        known = self.known_value(x)
        if known is not None and not (source.is_float and not target.is_float):
            return _value(self.constant(_rounded(known, target), target))
        if target is I1:
            return self.ne(x, self.constant(0, like=x))
        if source is I1:
            return self.emit("arith.uitofp" if target.is_float else "arith.extui", (x,), target)
        if source.is_float and target.is_float:
            return self.emit("arith.extf" if source is F32 else "arith.truncf", (x,), target)
        if target.is_float:
            return self.emit("arith.sitofp", (x,), target)
        if source.is_float:
            return self._truncated(x, target)
        return self.emit("arith.extsi" if source is I32 else "arith.trunci", (x,), target)

    def _truncated(self, x: Value, target: ScalarType) -> Value:
        """Float to int; `fptosi` sees only what fits, for it is undefined elsewhere."""
        least = -(2.0 ** (target.bits - 1))
        if x.type is F64 and target is I32:
            above = self.gt(x, self.constant(least - 1, like=x))
        else:
            above = self.ge(x, self.constant(least, like=x))
        fits = self.logical_and(above, self.lt(x, self.constant(-least, like=x)))
        safe = self.select(fits, x, self.constant(0.0, like=x))
        return self.select(fits, self.emit("arith.fptosi", (_value(safe),), target), self.constant(int(least), target))

    # ------------------------------------------------------------ arithmetic

    def add(self, x: Element, y: Element) -> Any:
        """x + y; for bool: or."""
        if isinstance(x, Index):
            return x.plus(_index(y))
        if x.type is I1:
            return self.logical_or(x, y)
        if x.type.is_float:  # type: ignore[union-attr]
            # x + 0.0 is not x when x is -0.0; x + -0.0 is.
            if _is(self.known_value(_value(y)), -0.0):
                return x
            if _is(self.known_value(x), -0.0):
                return y
            return self.emit("arith.addf", (x, _value(y)), x.type, _CONTRACT)  # type: ignore[arg-type]
        if self.known_value(_value(y)) == 0:
            return x
        if self.known_value(x) == 0:
            return y
        return self.emit("arith.addi", (x, _value(y)), x.type)  # type: ignore[arg-type]

    def sub(self, x: Element, y: Element) -> Any:
        """x - y; for bool: xor."""
        if isinstance(x, Index):
            return x.plus(_index(y).times(-1))
        y = _value(y)
        if x.type is I1:
            return self.logical_xor(x, y)
        if x.type.is_float:  # type: ignore[union-attr]
            if _is(self.known_value(y), 0.0):
                return x
            return self.emit("arith.subf", (x, y), x.type, _CONTRACT)  # type: ignore[arg-type]
        return x if self.known_value(y) == 0 else self.emit("arith.subi", (x, y), x.type)  # type: ignore[arg-type]

    def mul(self, x: Element, y: Element) -> Any:
        """x * y; for bool: and."""
        if isinstance(x, Index):
            return self._index_product(x, _index(y))
        y = _value(y)
        if x.type is I1:
            return self.logical_and(x, y)
        if self.known_value(y) == 1:
            return x
        if self.known_value(x) == 1:
            return y
        if x.type.is_float:  # type: ignore[union-attr]
            return self.emit("arith.mulf", (x, y), x.type, _CONTRACT)  # type: ignore[arg-type]
        return self.emit("arith.muli", (x, y), x.type)  # type: ignore[arg-type]

    def div(self, x: Element, y: Element) -> Any:
        """x / y of floats; of integers and positions: floordiv."""
        if not self.is_float(x):
            return self.floordiv(x, y)
        if self.known_value(_value(y)) == 1:
            return x
        return self._float2("arith.divf", x, y)

    def neg(self, x: Element) -> Any:
        """-x."""
        if isinstance(x, Index):
            return x.times(-1)
        if x.type.is_float:  # type: ignore[union-attr]
            return self.emit("arith.negf", (x,), x.type, _CONTRACT)  # type: ignore[arg-type]
        return self.sub(self.constant(0, like=x), x)

    def abs(self, x: Element) -> Any:
        """|x|; the least integer stays."""
        if isinstance(x, Index):
            return self.maximum(x, self.neg(x))
        if x.type is I1:
            return x
        if x.type.is_float:  # type: ignore[union-attr]
            return self.emit("math.absf", (x,), x.type)  # type: ignore[arg-type]
        # math.absi leaves the least integer undefined.
        return self.select(self.lt(x, self.constant(0, like=x)), self.neg(x), x)

    def sign(self, x: Element) -> Any:
        """-1, 0 or 1; nan of nan."""
        zero, one = self.constant(0, like=x), self.constant(1, like=x)
        below = self.select(self.lt(x, zero), self.constant(-1, like=x), zero)
        if self.is_float(x):
            below = self.select(self.isnan(x), x, below)
        return self.select(self.gt(x, zero), one, below)

    def fma(self, x: Element, y: Element, z: Element) -> Value:
        """x * y + z rounded once."""
        return self.emit("math.fma", (_value(x), _value(y), _value(z)), x.type)  # type: ignore[arg-type]

    def floordiv(self, x: Element, y: Element) -> Any:
        """Division rounded down as NumPy's: integers by 0 give 0, the least integer by -1 itself."""
        if isinstance(x, Index):
            return self._index_quotient(x, _index(y))
        x, y = _value(x), _value(y)
        if x.type.is_float:  # type: ignore[union-attr]
            return self._float_divmod(x, y)[0]
        zero = self.constant(0, like=x)
        known = self.known_value(y)
        if known is not None and known not in (0, -1):
            return self.emit("arith.floordivsi", (x, y), x.type)  # type: ignore[arg-type]
        negates, safe = self._safe_divisor(y)
        quotient = self.emit("arith.floordivsi", (x, safe), x.type)  # type: ignore[arg-type]
        quotient = self.select(negates, self.neg(x), quotient)
        return self.select(self.eq(y, zero), zero, quotient)

    def mod(self, x: Element, y: Element) -> Any:
        """The remainder of floordiv, with the divisor's sign; integers by 0 give 0."""
        if isinstance(x, Index):
            y = _index(y)
            if y.is_constant and y.constant > 0:
                return x.mod(y.constant)
            return self.sub(x, self.mul(self.floordiv(x, y), y))
        x, y = _value(x), _value(y)
        if x.type.is_float:  # type: ignore[union-attr]
            return self._float_divmod(x, y)[1]
        # What is not divided safely has remainder 0: x by 1.
        _, safe = self._safe_divisor(y)
        remainder = self.emit("arith.remsi", (x, safe), x.type)  # type: ignore[arg-type]
        zero = self.constant(0, like=x)
        other_sign = self.logical_and(
            self.ne(remainder, zero), self.logical_xor(self.lt(remainder, zero), self.lt(safe, zero))
        )
        return self.select(other_sign, self.add(remainder, safe), remainder)

    def pow(self, x: Element, y: Element) -> Any:
        """x to the power y.  Integers wrap; a negative exponent gives what 1 // x**-y truncated to zero would."""
        if self.is_float(x):
            return self._float2("math.powf", x, y)
        x, y = _value(x), _value(y)
        zero, one = self.constant(0, like=x), self.constant(1, like=x)
        loop = self.open_loop(x.type.bits - 1, (_value(one), x, y))  # type: ignore[union-attr]
        result, base, exponent = loop.carried
        odd = self.ne(self.bit_and(exponent, one), zero)
        result = self.select(odd, self.mul(result, base), result)
        exponent = self.shift_right(exponent, one)
        power = self.close_loop(loop, (result, self.mul(base, base), exponent))[0]
        unit = self.select(self.eq(x, one), one, self.constant(0, like=x))
        sign = self.select(self.eq(self.bit_and(y, one), zero), one, self.constant(-1, like=x))
        unit = self.select(self.eq(x, self.constant(-1, like=x)), sign, unit)
        return self.select(self.lt(y, zero), unit, power)

    def maximum(self, x: Element, y: Element) -> Any:
        """The larger; nan when either is."""
        return self._extreme("arith.maximumf", "arith.maxsi", "gt", x, y)

    def minimum(self, x: Element, y: Element) -> Any:
        """The smaller; nan when either is."""
        return self._extreme("arith.minimumf", "arith.minsi", "lt", x, y)

    def accumulate(self, total: Value, x: Value) -> Value:
        """total + x where the order of additions is free: only for the accumulators of sums."""
        if x.type.is_float:  # type: ignore[union-attr]
            return self.emit("arith.addf", (total, x), x.type, _REASSOCIATE)  # type: ignore[arg-type]
        return self.add(total, x)

    def accumulate_product(self, total: Value, x: Value) -> Value:
        """total * x where the order of multiplications is free."""
        if x.type.is_float:  # type: ignore[union-attr]
            return self.emit("arith.mulf", (total, x), x.type, _REASSOCIATE)  # type: ignore[arg-type]
        return self.mul(total, x)

    # ------------------------------------------------------------ functions of floats

    def sqrt(self, x: Element) -> Value:
        """The square root."""
        return self._float1("math.sqrt", x)

    def exp(self, x: Element) -> Value:
        """e to the x."""
        return self._float1("math.exp", x)

    def expm1(self, x: Element) -> Value:
        """exp(x) - 1 without cancellation."""
        return self._float1("math.expm1", x)

    def log(self, x: Element) -> Value:
        """The natural logarithm."""
        return self._float1("math.log", x)

    def log1p(self, x: Element) -> Value:
        """log(1 + x) without cancellation."""
        return self._float1("math.log1p", x)

    def log2(self, x: Element) -> Value:
        """The logarithm to base 2, whole for powers of 2."""
        return self._float1("math.log2", x)

    def log10(self, x: Element) -> Value:
        """The logarithm to base 10, whole for powers of 10."""
        return self._float1("math.log10", x)

    def sin(self, x: Element) -> Value:
        """The sine."""
        return self._float1("math.sin", x)

    def cos(self, x: Element) -> Value:
        """The cosine."""
        return self._float1("math.cos", x)

    def tan(self, x: Element) -> Value:
        """The tangent."""
        return self._float1("math.tan", x)

    def tanh(self, x: Element) -> Value:
        """The hyperbolic tangent."""
        return self._float1("math.tanh", x)

    def sinh(self, x: Element) -> Value:
        """The hyperbolic sine."""
        return self._float1("math.sinh", x)

    def cosh(self, x: Element) -> Value:
        """The hyperbolic cosine."""
        return self._float1("math.cosh", x)

    def asin(self, x: Element) -> Value:
        """The inverse sine."""
        return self._float1("math.asin", x)

    def acos(self, x: Element) -> Value:
        """The inverse cosine."""
        return self._float1("math.acos", x)

    def atan(self, x: Element) -> Value:
        """The inverse tangent."""
        return self._float1("math.atan", x)

    def asinh(self, x: Element) -> Value:
        """The inverse hyperbolic sine."""
        return self._float1("math.asinh", x)

    def acosh(self, x: Element) -> Value:
        """The inverse hyperbolic cosine."""
        return self._float1("math.acosh", x)

    def atanh(self, x: Element) -> Value:
        """The inverse hyperbolic tangent."""
        return self._float1("math.atanh", x)

    def atan2(self, y: Element, x: Element) -> Value:
        """The angle of the point (x, y)."""
        return self._float2("math.atan2", y, x)

    def erf(self, x: Element) -> Value:
        """The error function."""
        return self._float1("math.erf", x)

    def copysign(self, x: Element, y: Element) -> Value:
        """|x| with the sign of y."""
        return self._float2("math.copysign", x, y)

    def floor(self, x: Element) -> Any:
        """Rounded down; integers stay."""
        return self._rounding("math.floor", x)

    def ceil(self, x: Element) -> Any:
        """Rounded up; integers stay."""
        return self._rounding("math.ceil", x)

    def trunc(self, x: Element) -> Any:
        """Rounded toward zero; integers stay."""
        return self._rounding("math.trunc", x)

    def roundeven(self, x: Element) -> Any:
        """Rounded to the nearest, halves to even; integers stay."""
        return self._rounding("math.roundeven", x)

    def isnan(self, x: Element) -> Value:
        """Whether it is no number."""
        return self.ne(x, x) if self.is_float(x) else _value(self.constant(False, "bool"))

    def isinf(self, x: Element) -> Value:
        """Whether it is infinite."""
        return self.eq(self.abs(x), self.constant(math.inf, like=x)) if self.is_float(x) else _value(
            self.constant(False, "bool"))

    def isfinite(self, x: Element) -> Value:
        """Whether it is neither infinite nor nan."""
        return self.lt(self.abs(x), self.constant(math.inf, like=x)) if self.is_float(x) else _value(
            self.constant(True, "bool"))

    # ------------------------------------------------------------ comparisons and logic

    def lt(self, x: Element, y: Element) -> Value:
        """x < y; False for nan."""
        return self._compare("lt", x, y)

    def le(self, x: Element, y: Element) -> Value:
        """x <= y; False for nan."""
        return self._compare("le", x, y)

    def gt(self, x: Element, y: Element) -> Value:
        """x > y; False for nan."""
        return self._compare("gt", x, y)

    def ge(self, x: Element, y: Element) -> Value:
        """x >= y; False for nan."""
        return self._compare("ge", x, y)

    def eq(self, x: Element, y: Element) -> Value:
        """x == y; False for nan."""
        return self._compare("eq", x, y)

    def ne(self, x: Element, y: Element) -> Value:
        """x != y; True for nan."""
        return self._compare("ne", x, y)

    def logical_and(self, x: Element, y: Element) -> Value:
        """Both; of numbers: both nonzero."""
        x, y = self.truth(x), self.truth(y)
        for one, other in ((x, y), (y, x)):
            known = self.known_value(one)
            if known is not None:
                return other if known else one
        return self.emit("arith.andi", (x, y), I1)

    def logical_or(self, x: Element, y: Element) -> Value:
        """Either; of numbers: either nonzero."""
        x, y = self.truth(x), self.truth(y)
        for one, other in ((x, y), (y, x)):
            known = self.known_value(one)
            if known is not None:
                return one if known else other
        return self.emit("arith.ori", (x, y), I1)

    def logical_xor(self, x: Element, y: Element) -> Value:
        """One but not the other."""
        return self.emit("arith.xori", (self.truth(x), self.truth(y)), I1)

    def logical_not(self, x: Element) -> Value:
        """Not."""
        x = self.truth(x)
        known = self.known_value(x)
        if known is not None:
            return self.literal(not known, I1)
        return self.emit("arith.xori", (x, self.literal(True, I1)), I1)

    def truth(self, x: Element) -> Value:
        """x != 0, as a bool."""
        return _value(x) if x.type is I1 else self.ne(x, self.constant(0, like=x))

    def bit_and(self, x: Element, y: Element) -> Value:
        """x & y of integers or bools."""
        return self._int2("arith.andi", x, y)

    def bit_or(self, x: Element, y: Element) -> Value:
        """x | y of integers or bools."""
        return self._int2("arith.ori", x, y)

    def bit_xor(self, x: Element, y: Element) -> Value:
        """x ^ y of integers or bools."""
        return self._int2("arith.xori", x, y)

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
        last = self.constant(x.type.bits - 1, like=x)  # type: ignore[union-attr]
        return self._int2("arith.shrsi", x, self.select(inside, safe, last))

    def select(self, condition: Element, x: Element, y: Element) -> Any:
        """x where the condition holds, else y; both are computed."""
        condition = self.truth(condition)
        known = self.known_value(condition)
        if known is not None:
            return x if known else y
        if isinstance(x, Index) or isinstance(y, Index):
            x, y = _index(x), _index(y)
            if x == y:
                return x
            value = self.emit("arith.select", (condition, self.value_of(x), self.value_of(y)), INDEX)
            return self._opaque(value, min(x.low, y.low), max(x.high, y.high))
        return x if x is y else self.emit("arith.select", (condition, x, y), x.type)  # type: ignore[arg-type]

    def check(self, condition: Element, status: Status = Status.INDEX_OUT_OF_RANGE) -> None:
        """Make the kernel fail with `status` when the condition is ever false."""
        truth = self.truth(condition)
        if self.known_value(truth) is not True:
            self.fail_unless(truth, status)

    # ------------------------------------------------------------ shared

    def _float1(self, name: str, x: Element) -> Value:
        assert self.is_float(x), f"{name} takes floats"
        return self.emit(name, (_value(x),), x.type)  # type: ignore[arg-type]

    def _float2(self, name: str, x: Element, y: Element) -> Value:
        assert self.is_float(x) and x.type is y.type, f"{name} takes two floats of one type"
        attributes = _CONTRACT if name == "arith.divf" else None
        return self.emit(name, (_value(x), _value(y)), x.type, attributes)  # type: ignore[arg-type]

    def _int2(self, name: str, x: Element, y: Element) -> Value:
        x, y = self._plain(x), self._plain(y)
        assert not self.is_float(x), f"{name} takes integers"
        return self.emit(name, (x, y), x.type)  # type: ignore[arg-type]

    def _rounding(self, name: str, x: Element) -> Any:
        return self._float1(name, x) if self.is_float(x) else x

    def _plain(self, x: Element) -> Value:
        """An element as a value, a position as an SSA value of type index."""
        return self.value_of(x) if isinstance(x, Index) else x

    def _opaque(self, value: Value, low: int, high: int) -> Index:
        """A position that only the run knows.  One atom per value, so that equal ones stay equal."""
        key = ("opaque", value)
        atom = self._known.get(key)
        if atom is None:
            atom = self._known[key] = Atom(low, high, value)  # type: ignore[assignment]
            self._keys[self.depth_of(value)].append(key)
        return Index.of(atom)  # type: ignore[arg-type]

    def _index_product(self, x: Index, y: Index) -> Index:
        if y.is_constant:
            return x.times(y.constant)
        if x.is_constant:
            return y.times(x.constant)
        corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
        return self._opaque(
            self.emit("arith.muli", (self.value_of(x), self.value_of(y)), INDEX), min(corners), max(corners)
        )

    def _index_quotient(self, x: Index, y: Index) -> Index:
        if y.is_constant and y.constant > 0:
            return x.floordiv(y.constant)
        value = self.emit("arith.floordivsi", (self.value_of(x), self.value_of(y)), INDEX)
        bound = max(abs(x.low), abs(x.high))
        return self._opaque(value, -bound, bound)

    def _extreme(self, of_floats: str, of_ints: str, keeps_first: str, x: Element, y: Element) -> Any:
        if isinstance(x, Index) or isinstance(y, Index):
            x, y = _index(x), _index(y)
            if x.low >= y.high:
                return x if keeps_first == "gt" else y
            if y.low >= x.high:
                return y if keeps_first == "gt" else x
            choose = max if keeps_first == "gt" else min
            value = self.emit(of_ints, (self.value_of(x), self.value_of(y)), INDEX)
            return self._opaque(value, choose(x.low, y.low), choose(x.high, y.high))
        if x.type is I1:
            return self.logical_or(x, y) if keeps_first == "gt" else self.logical_and(x, y)
        if x is y:
            return x
        return self.emit(of_floats if self.is_float(x) else of_ints, (x, y), x.type)  # type: ignore[arg-type]

    def _compare(self, relation: str, x: Element, y: Element) -> Value:
        if isinstance(x, Index) and isinstance(y, Index):
            known = _known_relation(relation, x, y)
            if known is not None:
                return self.literal(known, I1)
        x, y = self._plain(x), self._plain(y)
        if x.type.is_float:  # type: ignore[union-attr]
            return self.emit("arith.cmpf", (x, y), I1, _FLOAT_PREDICATES[relation])
        predicates = _BOOL_PREDICATES if x.type is I1 else _INT_PREDICATES
        return self.emit("arith.cmpi", (x, y), I1, predicates[relation])

    def _safe_divisor(self, y: Value) -> tuple[Value, Value]:
        """(y is -1, y with 0 and -1 replaced by 1): what can be divided by without a trap."""
        zero, one, minus = (self.constant(n, like=y) for n in (0, 1, -1))
        negates = self.eq(y, minus)
        return negates, _value(self.select(self.logical_or(negates, self.eq(y, zero)), one, y))

    def _safe_shift(self, x: Element, y: Element) -> tuple[Value, Value]:
        """(y is in [0, bits), y or 0): a shift by more is undefined."""
        bits = x.type.bits  # type: ignore[union-attr]
        known = self.known_value(_value(y))
        if known is not None:
            inside = 0 <= known < bits
            return self.literal(inside, I1), _value(y if inside else self.constant(0, like=y))
        zero = self.constant(0, like=y)
        inside = self.logical_and(self.ge(y, zero), self.lt(y, self.constant(bits, like=y)))
        return inside, _value(self.select(inside, y, zero))

    def _float_divmod(self, x: Value, y: Value) -> tuple[Any, Any]:
        """NumPy's divmod of floats: the quotient is a whole number, the remainder exact."""
        zero, one = self.constant(0.0, like=x), self.constant(1.0, like=x)
        remainder = self.emit("arith.remf", (x, y), x.type, _CONTRACT)  # type: ignore[arg-type]
        quotient = self.div(self.sub(x, remainder), y)
        nonzero = self.ne(remainder, zero)
        wrong_sign = self.logical_and(nonzero, self.logical_xor(self.lt(y, zero), self.lt(remainder, zero)))
        mod = self.select(
            nonzero,
            self.select(wrong_sign, self.add(remainder, y), remainder),
            self.copysign(zero, y),
        )
        quotient = self.select(wrong_sign, self.sub(quotient, one), quotient)
        whole = self.floor(quotient)
        half = self.constant(0.5, like=x)
        whole = self.select(self.gt(self.sub(quotient, whole), half), self.add(whole, one), whole)
        true_quotient = self.div(x, y)
        whole = self.select(self.ne(quotient, zero), whole, self.copysign(zero, true_quotient))
        by_zero = self.eq(y, zero)
        return self.select(by_zero, true_quotient, whole), self.select(by_zero, remainder, mod)


def _value(x: Element) -> Value:
    assert isinstance(x, Value), "an element was expected, not a position: use from_index"
    return x


def _index(x: Element | int) -> Index:
    if isinstance(x, int):
        return constant_index(x)
    assert isinstance(x, Index), "a position was expected, not an element: use to_index"
    return x


def _is(known: Any, number: float) -> bool:
    """Whether a known value is this number, sign of zero included."""
    return known is not None and known == number and math.copysign(1.0, known) == math.copysign(1.0, number)


def _rounded(known: Any, target: ScalarType) -> Any:
    """A known number as a constant of f32 must already be one."""
    if target is F32:
        import struct

        try:
            return struct.unpack("f", struct.pack("f", float(known)))[0]
        except OverflowError:
            return math.copysign(math.inf, known)
    return known


def _known_relation(relation: str, x: Index, y: Index) -> bool | None:
    """A comparison that the ranges decide, or None."""
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
