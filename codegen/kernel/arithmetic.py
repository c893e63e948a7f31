"""Arithmetic of elements: the part of the scalar builder for floats, integers, bools and positions."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from ..symbols import is_sure, larger, smaller
from .index import Index
from .logic import SCALAR_TYPES, Element, Logic, as_index, as_value, method
from .nest import F32, F64, I1, I32, I64, INDEX, Operation, ScalarType, Value

# Attributes are compared by identity when operations are shared, so there is one dict per meaning.
_CONTRACT = {"fastmath": frozenset({"contract"})}
#: For the accumulation of sums only, whose order the library may choose.
_REASSOCIATE = {"fastmath": frozenset({"contract", "reassoc"})}
#: The flags under `modes.fast_math`.  Not arcp: LLVM then replaces 1 / sqrt(x) by an estimate that is nan at 0 and
#: at infinity.  Never nnan, ninf.
_LOOSE = {"fastmath": frozenset({"contract", "nsz", "reassoc"})}
#: For the extremes of many elements only, where either of two zeros is right.
_EITHER_ZERO = {"fastmath": frozenset({"nsz"})}


def _rounding(name: str, doc: str) -> Callable[[Arithmetic, Element], Any]:
    """The builder's method for a rounding instruction."""
    return method(name, doc, lambda self, x: self._float1(f"math.{name}", x) if self.is_float(x) else x)


def of_one(name: str, doc: str) -> Callable[[Arithmetic, Element], Value]:
    """The builder's method for a function of one float."""
    return method(name, doc, lambda self, x: self._float1(f"math.{name}", x))


def of_two(name: str, doc: str, instruction: str = "") -> Callable[[Arithmetic, Element, Element], Value]:
    """The builder's method for a function of two floats."""
    return method(name, doc, lambda self, x, y: self._float2(f"math.{instruction or name}", x, y))


class Arithmetic(Logic):
    """Typed arithmetic on elements.

    fastmath    attributes of float arithmetic; by default a product and a sum may be contracted to one fma
    """

    fastmath: dict | None = _CONTRACT

    def rounded_by_itself(self, wanted: bool) -> None:
        """Let each operation from here on round its own result (no contraction), or restore the default."""
        self.fastmath = None if wanted else _CONTRACT

    def loosened(self, wanted: bool) -> None:
        """Let operations from here on be reordered, and divisions become reciprocals, or restore the default."""
        self.fastmath = _LOOSE if wanted else _CONTRACT

    # ------------------------------------------------------------ casts

    def from_index(self, i: Element, dtype: str) -> Value:
        """A position as an element of a dtype."""
        if not isinstance(i, Index):
            return self.cast(i, dtype)
        if i.is_constant:
            return as_value(self.constant(i.constant, dtype))
        wide = self.emit("arith.index_cast", (self.value_of(i),), I64)
        return self.cast(wide, dtype)

    def cast(self, x: Element, dtype: str) -> Value:
        """Convert as NumPy's astype: float to int truncates; a number that does not fit becomes the least integer."""
        if isinstance(x, Index):
            return self.from_index(x, dtype)
        source, target = x.type, SCALAR_TYPES[dtype]
        assert isinstance(source, ScalarType)
        if source is target:
            return x
        known = self.known_value(x)
        if known is not None and not (source.is_float and not target.is_float):
            return as_value(self.constant(_rounded(known, target), target))
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
        """Float to int; `fptosi` gets only numbers that fit, because it is undefined for others."""
        least = -(2.0 ** (target.bits - 1))
        if x.type is F64 and target is I32:
            above = self.gt(x, self.constant(least - 1, like=x))
        else:
            above = self.ge(x, self.constant(least, like=x))
        fits = self.logical_and(above, self.lt(x, self.constant(-least, like=x)))
        safe = self.select(fits, x, self.constant(0.0, like=x))
        whole = self.emit("arith.fptosi", (as_value(safe),), target)
        return self.select(fits, whole, self.constant(int(least), target))

    def bits(self, x: Element) -> Value:
        """The bits of a float, as an integer of its width."""
        return self.emit("arith.bitcast", (as_value(x),), I64 if x.type is F64 else I32)

    def from_bits(self, bits: Element) -> Value:
        """The float that has these bits."""
        return self.emit("arith.bitcast", (as_value(bits),), F64 if bits.type is I64 else F32)

    # ------------------------------------------------------------ arithmetic

    def add(self, x: Element, y: Element) -> Any:
        """x + y; for bool: or."""
        if isinstance(x, Index):
            return x.plus(as_index(y))
        if x.type is I1:
            return self.logical_or(x, y)
        if x.type.is_float:
            # x + 0.0 is not x when x is -0.0; x + -0.0 is.
            if _is(self.known_value(as_value(y)), -0.0):
                return x
            if _is(self.known_value(x), -0.0):
                return y
            y = as_value(y)
            if self._may_be_exact(x, y):
                x, y = y, x
            return self.emit("arith.addf", (x, y), x.type, self.fastmath)
        if self.known_value(as_value(y)) == 0:
            return x
        if self.known_value(x) == 0:
            return y
        return self.emit("arith.addi", (x, as_value(y)), x.type)

    def _may_be_exact(self, x: Value, y: Value) -> bool:
        """True if x and y are products and only x has a uniform factor, as in 0.5 * x + y * y.

        LLVM fuses the first of two products with the addition and rounds the second one, and a product with a
        power of two is exact: so y should be the first.
        """
        one, other = _factors(x), _factors(y)
        return bool(other) and any(map(self._is_number, one)) and not any(map(self._is_number, other))

    def _is_number(self, factor: Value) -> bool:
        """True if the value is the same for all elements of the innermost loop."""
        return self.depth_of(factor) < self.depth

    def sub(self, x: Element, y: Element) -> Any:
        """x - y; for bool: xor."""
        if isinstance(x, Index):
            return x.plus(as_index(y).times(-1))
        y = as_value(y)
        if x.type is I1:
            return self.logical_xor(x, y)
        if x.type.is_float:
            if _is(self.known_value(y), 0.0):
                return x
            if self._may_be_exact(x, y):
                x = self.emit("arith.mulf", _factors(x), x.type)
            return self.emit("arith.subf", (x, y), x.type, self.fastmath)
        return x if self.known_value(y) == 0 else self.emit("arith.subi", (x, y), x.type)

    def mul(self, x: Element, y: Element) -> Any:
        """x * y; for bool: and."""
        if isinstance(x, Index):
            return self._index_product(x, as_index(y))
        y = as_value(y)
        if x.type is I1:
            return self.logical_and(x, y)
        if self.known_value(y) == 1:
            return x
        if self.known_value(x) == 1:
            return y
        if x.type.is_float:
            return self.emit("arith.mulf", (x, y), x.type, self.fastmath)
        return self.emit("arith.muli", (x, y), x.type)

    def div(self, x: Element, y: Element) -> Any:
        """x / y of floats; of integers and positions: floordiv."""
        if not self.is_float(x):
            return self.floordiv(x, y)
        y = as_value(y)
        if self.known_value(y) == 1:
            return x
        if self.fastmath is _LOOSE and self.depth_of(y) < self.depth_of(as_value(x)):
            return self.mul(x, self._float2("arith.divf", self.constant(1.0, like=y), y))  # once, outside of the loop
        return self._float2("arith.divf", x, y)

    def neg(self, x: Element) -> Any:
        """-x."""
        if isinstance(x, Index):
            return x.times(-1)
        if x.type.is_float:
            return self.emit("arith.negf", (x,), x.type, self.fastmath)
        return self.sub(self.constant(0, like=x), x)

    def abs(self, x: Element) -> Any:
        """|x|; the least integer stays."""
        if isinstance(x, Index):
            return self.maximum(x, self.neg(x))
        if x.type is I1:
            return x
        if x.type.is_float:
            return self.emit("math.absf", (x,), x.type)
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
        return self.emit("math.fma", (as_value(x), as_value(y), as_value(z)), x.type)

    def floordiv(self, x: Element, y: Element) -> Any:
        """Division rounded down as NumPy's: integers by 0 give 0, the least integer by -1 itself."""
        if isinstance(x, Index):
            return self._index_quotient(x, as_index(y))
        x, y = as_value(x), as_value(y)
        if x.type.is_float:
            return self._float_divmod(x, y)[0]
        zero = self.constant(0, like=x)
        known = self.known_value(y)
        if known is not None and known not in (0, -1):
            return self.emit("arith.floordivsi", (x, y), x.type)
        negates, safe = self._safe_divisor(y)
        quotient = self.emit("arith.floordivsi", (x, safe), x.type)
        quotient = self.select(negates, self.neg(x), quotient)
        return self.select(self.eq(y, zero), zero, quotient)

    def mod(self, x: Element, y: Element) -> Any:
        """The remainder of floordiv, with the divisor's sign; integers by 0 give 0."""
        if isinstance(x, Index):
            y = as_index(y)
            if y.is_constant and y.constant > 0:
                return x.mod(y.constant)
            return self.sub(x, self.mul(self.floordiv(x, y), y))
        x, y = as_value(x), as_value(y)
        if x.type.is_float:
            return self._float_divmod(x, y)[1]
        # A division that is not safe becomes one by 1, whose remainder is 0.
        _, safe = self._safe_divisor(y)
        remainder = self.emit("arith.remsi", (x, safe), x.type)
        zero = self.constant(0, like=x)
        other_sign = self.logical_and(
            self.ne(remainder, zero), self.logical_xor(self.lt(remainder, zero), self.lt(safe, zero))
        )
        return self.select(other_sign, self.add(remainder, safe), remainder)

    def fmod(self, x: Element, y: Element) -> Any:
        """The remainder of the division towards zero, with the sign of x; integers by 0 give 0."""
        if self.is_float(x):
            return self._float2("arith.remf", x, y)
        _, safe = self._safe_divisor(as_value(y))
        return self.emit("arith.remsi", (as_value(x), safe), x.type)

    pow = of_two("pow", "x to the power y, of floats.", "powf")

    def maximum(self, x: Element, y: Element) -> Any:
        """The larger; nan when either is."""
        return self._extreme("arith.maximumf", "arith.maxsi", "gt", x, y)

    def minimum(self, x: Element, y: Element) -> Any:
        """The smaller; nan when either is."""
        return self._extreme("arith.minimumf", "arith.minsi", "lt", x, y)

    def accumulate_extreme(self, best: Value, x: Value, *, is_greatest: bool) -> Value:
        """The larger or the smaller of both; nan if either is nan, and either one of two zeros."""
        if x.type.is_float and best is not x:
            return self.emit("arith.maximumf" if is_greatest else "arith.minimumf", (best, x), x.type, _EITHER_ZERO)
        return self.maximum(best, x) if is_greatest else self.minimum(best, x)

    def accumulate(self, total: Value, x: Value, *, product: bool = False) -> Value:
        """total + x, or total * x, in an order that LLVM may change: only for values that loops carry."""
        if x.type.is_float:
            return self.emit("arith.mulf" if product else "arith.addf", (total, x), x.type, _REASSOCIATE)
        return self.mul(total, x) if product else self.add(total, x)

    # ------------------------------------------------------------ rounding and signs

    floor = _rounding("floor", "Rounded down; integers stay.")
    ceil = _rounding("ceil", "Rounded up; integers stay.")
    trunc = _rounding("trunc", "Rounded toward zero; integers stay.")
    roundeven = _rounding("roundeven", "Rounded to the nearest, halves to even; integers stay.")
    copysign = of_two("copysign", "|x| with the sign of y.")

    # ------------------------------------------------------------ shared

    def _float1(self, name: str, x: Element) -> Value:
        assert self.is_float(x), f"{name} takes floats"
        return self.emit(name, (as_value(x),), x.type)

    def _float2(self, name: str, x: Element, y: Element) -> Value:
        assert self.is_float(x) and x.type is y.type, f"{name} takes two floats of one type"
        attributes = self.fastmath if name == "arith.divf" else None
        return self.emit(name, (as_value(x), as_value(y)), x.type, attributes)

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
            x, y = as_index(x), as_index(y)
            if is_sure(y.high, x.low):
                return x if keeps_first == "gt" else y
            if is_sure(x.high, y.low):
                return y if keeps_first == "gt" else x
            choose = larger if keeps_first == "gt" else smaller
            value = self.emit(of_ints, (self.value_of(x), self.value_of(y)), INDEX)
            return self._opaque(value, choose(x.low, y.low), choose(x.high, y.high))
        if x.type is I1:
            return self.logical_or(x, y) if keeps_first == "gt" else self.logical_and(x, y)
        if x is y:
            return x
        return self.emit(of_floats if self.is_float(x) else of_ints, (x, y), x.type)

    def _safe_divisor(self, y: Value) -> tuple[Value, Value]:
        """(y is -1, y with 0 and -1 replaced by 1): a division by the second value never traps."""
        zero, one, minus = (self.constant(n, like=y) for n in (0, 1, -1))
        negates = self.eq(y, minus)
        return negates, as_value(self.select(self.logical_or(negates, self.eq(y, zero)), one, y))

    def _float_divmod(self, x: Value, y: Value) -> tuple[Any, Any]:
        """NumPy's divmod of floats: the quotient is a whole number, the remainder exact."""
        zero, one = self.constant(0.0, like=x), self.constant(1.0, like=x)
        remainder = self.emit("arith.remf", (x, y), x.type, self.fastmath)
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


def _factors(x: Value) -> tuple[Value, ...]:
    """The factors of a product of floats; () for any other value."""
    made = x.owner
    return tuple(made.operands) if isinstance(made, Operation) and made.name == "arith.mulf" else ()


def _is(known: Any, number: float) -> bool:
    """True if a known value is this number, sign of zero included."""
    return known is not None and known == number and math.copysign(1.0, known) == math.copysign(1.0, number)


def _rounded(known: Any, target: ScalarType) -> Any:
    """A known number rounded to the target type, because a constant of f32 must be an f32."""
    if target is F32:
        try:
            return struct.unpack("f", struct.pack("f", float(known)))[0]
        except OverflowError:
            return math.copysign(math.inf, known)
    return known
