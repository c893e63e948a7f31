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
from typing import TYPE_CHECKING

from .arithmetic import Arithmetic
from .instructions import OF_ONE
from .logic import Element, as_value
from .nest import Value


class Scalar(Arithmetic):
    """Typed arithmetic on elements, appended to the loop being built: with the functions of floats, all of it."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[[Element], Value]:
            """One of the functions of `OF_ONE`."""

    def sqrt(self, x: Element) -> Value:
        """The square root."""
        return self._float1("math.sqrt", x)

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


def _method(name: str, told: str) -> Callable[[Scalar, Element], Value]:
    def method(self: Scalar, x: Element) -> Value:
        return self._float1(f"math.{name}", x)

    method.__name__, method.__doc__ = name, told
    return method


for _name, (*_, _told) in OF_ONE.items():
    setattr(Scalar, _name, _method(_name, _told))
