"""The scalar builder, with which an operation's lowering is written.

    Map(lambda k, x: k.div(x, k.add(k.constant(1.0, like=x), k.exp(k.neg(x)))))

Operands are `Value`s of type f32, f64, i32, i64 or i1 (bool), or an `Index` (positions in arrays).
A method picks the float, integer or bool form by the type of its operands, which must agree;
nothing is promoted.  Integers wrap, and nothing traps: results are those of NumPy.
Known values (constants, index arithmetic) are folded; a value computed before is reused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from .arithmetic import Arithmetic, of_one, of_two
from .instructions import OF_ONE
from .logic import Element, as_value
from .nest import Value


class Scalar(Arithmetic):
    """The whole builder: typed arithmetic on elements and functions of floats, appended to the loop being built."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[[Element], Value]:
            """One of the functions of `OF_ONE`."""

    sqrt = of_one("sqrt", "The square root.")
    atan2 = of_two("atan2", "The angle of the point (x, y).")

    def isinf(self, x: Element) -> Value:
        """True if the value is infinite."""
        return self.eq(self.abs(x), self.constant(math.inf, like=x)) if self.is_float(x) else as_value(
            self.constant(False, "bool"))

    def isfinite(self, x: Element) -> Value:
        """True if the value is neither infinite nor nan."""
        return self.lt(self.abs(x), self.constant(math.inf, like=x)) if self.is_float(x) else as_value(
            self.constant(True, "bool"))


for _name, (*_, _told) in OF_ONE.items():
    setattr(Scalar, _name, of_one(_name, _told))
