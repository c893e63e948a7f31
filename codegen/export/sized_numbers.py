"""Numbers that follow from sizes, as LLVM IR text: a function computes them before it runs anything.

    numbers = SizedNumbers({"n": "%n"})
    numbers.operand(-(-(17 * n) // 64))     "%x4", after the lines that compute it
    numbers.holds(conditions)               "%x9", an i1
    numbers.fits()                          an i1: no number was too large for 64 bits

The lines have no branches.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ..symbols import Conditions, Symbol, formula

__all__ = ["SizedNumbers"]

_COMPARED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "!=": "ne"}


class SizedNumbers:
    """See the file's head.

    names   operands of symbols, by their names      lines   the text so far
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        self.lines: list[str] = []
        self._known: dict[str, str] = {}
        self._too_large: list[str] = []

    def operand(self, x: int) -> str:
        """A number as an operand."""
        return self._of(formula(x)) if type(x) is Symbol else str(int(x))

    def holds(self, conditions: Conditions) -> str:
        """An i1: all conditions hold."""
        found = "true"
        for text, comparison, outcome in conditions:
            one = self.let(f"icmp {_COMPARED[comparison]} i64 {self._of(text)}, 0")
            found = self.both(found, one if outcome else self.let(f"xor i1 {one}, true"))
        return found

    def both(self, a: str, b: str) -> str:
        """An i1: both are true."""
        return b if a == "true" else self.let(f"and i1 {a}, {b}")

    def fits(self) -> str:
        """An i1: no number was too large, and nothing was divided by one that is not positive."""
        found = "false"
        for flag in self._too_large:
            found = flag if found == "false" else self.let(f"or i1 {found}, {flag}")
        return "true" if found == "false" else self.let(f"xor i1 {found}, true")

    def let(self, text: str) -> str:
        """The name of a value; equal ones are computed once."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"%x{len(self._known)}"
            self.lines.append(f"{name} = {text}")
        return name

    def _of(self, text: str) -> str:
        return self._expression(ast.parse(text, mode="eval").body)

    def _expression(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(value)):
                return str(value)
            case ast.Name(id=name):
                return self.names[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._checked("ssub", "0", self._expression(inner))
            case ast.Call(args=parts):
                first, *others = [self._expression(part) for part in parts]
                for x in others:
                    first = self.let(f"select i1 {self.let(f'icmp sgt i64 {first}, {x}')}, i64 {first}, i64 {x}")
                return first
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self._expression(left), self._expression(right)
                if isinstance(op, ast.FloorDiv):
                    return self._quotient(a, b)
                return self._checked("sadd" if isinstance(op, ast.Add) else "smul", a, b)
        raise AssertionError(f"no formula of sizes: {ast.unparse(node)}")

    def _checked(self, operation: str, a: str, b: str) -> str:
        both = self.let(f"call {{ i64, i1 }} @llvm.{operation}.with.overflow.i64(i64 {a}, i64 {b})")
        flag = self.let(f"extractvalue {{ i64, i1 }} {both}, 1")
        if flag not in self._too_large:
            self._too_large.append(flag)
        return self.let(f"extractvalue {{ i64, i1 }} {both}, 0")

    def _quotient(self, a: str, b: str) -> str:
        """a // b, rounded down, of a positive b."""
        flag = self.let(f"icmp slt i64 {b}, 1")
        if flag not in self._too_large:
            self._too_large.append(flag)
        divisor = self.let(f"select i1 {flag}, i64 1, i64 {b}")
        quotient, rest = self.let(f"sdiv i64 {a}, {divisor}"), self.let(f"srem i64 {a}, {divisor}")
        less = self.let(f"sext i1 {self.let(f'icmp slt i64 {rest}, 0')} to i64")
        return self.let(f"add i64 {quotient}, {less}")
