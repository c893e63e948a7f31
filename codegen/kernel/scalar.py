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
from collections.abc import Callable

from .arithmetic import Arithmetic
from .logic import SCALAR_TYPES, Element, as_value
from .nest import Value

__all__ = ["SCALAR_TYPES", "Element", "Scalar"]


def _function(name: str, said: str) -> Callable[[Arithmetic, Element], Value]:
    """The builder's method for a function of one float."""

    def method(self: Arithmetic, x: Element) -> Value:
        return self._float1(f"math.{name}", x)

    method.__name__, method.__doc__ = name, said
    return method


class Scalar(Arithmetic):
    """Typed arithmetic on elements, appended to the loop being built: with the functions of floats, all of it."""

    sqrt = _function("sqrt", "The square root.")
    cbrt = _function("cbrt", "The cube root, also of negative numbers.")
    exp = _function("exp", "e to the x.")
    exp2 = _function("exp2", "2 to the x, whole for whole numbers from 0 on.")
    expm1 = _function("expm1", "exp(x) - 1 without cancellation.")
    log = _function("log", "The natural logarithm.")
    log1p = _function("log1p", "log(1 + x) without cancellation.")
    log2 = _function("log2", "The logarithm to base 2, whole for powers of 2.")
    log10 = _function("log10", "The logarithm to base 10, whole for powers of 10.")
    sin = _function("sin", "The sine.")
    cos = _function("cos", "The cosine.")
    tan = _function("tan", "The tangent.")
    tanh = _function("tanh", "The hyperbolic tangent.")
    sinh = _function("sinh", "The hyperbolic sine.")
    cosh = _function("cosh", "The hyperbolic cosine.")
    asin = _function("asin", "The inverse sine.")
    acos = _function("acos", "The inverse cosine.")
    atan = _function("atan", "The inverse tangent.")
    asinh = _function("asinh", "The inverse hyperbolic sine.")
    acosh = _function("acosh", "The inverse hyperbolic cosine.")
    atanh = _function("atanh", "The inverse hyperbolic tangent.")
    erf = _function("erf", "The error function.")

    def atan2(self, y: Element, x: Element) -> Value:
        """The angle of the point (x, y)."""
        return self._float2("math.atan2", y, x)

    def isinf(self, x: Element) -> Value:
        """True if the value is infinite."""
        return self.eq(self.abs(x), self.constant(math.inf, like=x)) if self.is_float(x) else as_value(
            self.constant(False, "bool"))

    def isfinite(self, x: Element) -> Value:
        """True if the value is neither infinite nor nan."""
        return self.lt(self.abs(x), self.constant(math.inf, like=x)) if self.is_float(x) else as_value(
            self.constant(True, "bool"))
