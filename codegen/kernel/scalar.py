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

from .arithmetic import Arithmetic
from .logic import SCALAR_TYPES, Element, as_value
from .nest import Value

__all__ = ["SCALAR_TYPES", "Element", "Scalar"]


class Scalar(Arithmetic):
    """Typed arithmetic on elements, appended to the loop being built: with the functions of floats, all of it."""

    def sqrt(self, x: Element) -> Value:
        """The square root."""
        return self._float1("math.sqrt", x)

    def cbrt(self, x: Element) -> Value:
        """The cube root, also of negative numbers."""
        return self._float1("math.cbrt", x)

    def exp(self, x: Element) -> Value:
        """e to the x."""
        return self._float1("math.exp", x)

    def exp2(self, x: Element) -> Value:
        """2 to the x, whole for whole numbers from 0 on."""
        return self._float1("math.exp2", x)

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

    def isinf(self, x: Element) -> Value:
        """True if the value is infinite."""
        return self.eq(self.abs(x), self.constant(math.inf, like=x)) if self.is_float(x) else as_value(
            self.constant(False, "bool"))

    def isfinite(self, x: Element) -> Value:
        """True if the value is neither infinite nor nan."""
        return self.lt(self.abs(x), self.constant(math.inf, like=x)) if self.is_float(x) else as_value(
            self.constant(True, "bool"))
