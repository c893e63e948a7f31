"""Constants of an exported module: the words that functions of the runtime read, as LLVM IR text.

    data = Data("loss")
    data.words([3, data.function("f")])     "@loss.d0", a constant of two words, the second an address

A `Label` stands for an address that the linker or loader fills in.  In a program for any sizes the called function
writes the words that depend on the sizes to its stack (`within`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..records import NamedTuple
from ..symbols import Conditions, Symbol, SymbolicFloat, formula


class Label(str):
    """The name of a constant or function, as an operand of LLVM IR."""

    __slots__ = ()


class _Local(Label):
    """The name of an array of words on the stack of a function."""

    __slots__ = ()


class StepWords(NamedTuple):
    """A step: the address of a function, the slots of its pointers, and its extents."""

    address: Label
    slots: tuple[Any, ...]
    extents: tuple[Any, ...]


class Data:
    """The constants of one module."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: list[str] = []
        self._declared: dict[str, None] = {}
        self._known: dict[str, Label] = {}
        #: The numbers of the function for any sizes that is being written; None outside `within`.
        self.numbers: SizedNumbers | None = None
        self._locals = 0

    @contextmanager
    def within(self, numbers: SizedNumbers) -> Iterator[None]:
        """A context in which words that depend on sizes are written by the function that computes these numbers."""
        self.numbers, self._locals = numbers, 0
        try:
            yield
        finally:
            self.numbers = None

    def function(self, name: str) -> Label:
        """The label of a function of another module, which is declared in this one."""
        self._declared[f"declare i32 @{name}(ptr, ptr)"] = None
        return Label(f"@{name}")

    def words(self, values: Sequence[Any]) -> Label:
        """The label of an array of words: integers, labels, or symbols of sizes.  Equal constants are stored once."""
        if self.numbers is not None and not _ON_STACK.isdisjoint(map(type, values)):
            return self._written(values, self.numbers)
        kind = f"[{max(len(values), 1)} x i64]"
        return self._constant(f"{kind} [{', '.join(map(_word, values or [0]))}], align 8")

    def bytes(self, array: np.ndarray) -> Label:
        """The label of a constant with the elements of an array."""
        data = array.tobytes() or b"\0"
        text = "".join([f"\\{byte:02X}" for byte in data])
        return self._constant(f'[{len(data)} x i8] c"{text}", align 64')

    def steps(self, steps: Sequence[StepWords]) -> Label:
        """The label of a table of steps as `run_steps` reads it, none of them shared among threads."""
        words: list[Any] = []
        for step in steps:
            words += (step.address, len(step.slots), self.words(step.slots), self.words(step.extents), 0, 0, 0, 0, 0)
        return self.words(words)

    def number(self, value: Any, dtype: np.dtype) -> Label:
        """The label of one number that depends on sizes, stored as an array element of this dtype."""
        assert self.numbers is not None
        count = self.numbers.operand(value.count if type(value) is SymbolicFloat else value)
        if dtype.kind == "f":
            wide = self.numbers.let(f"sitofp i64 {count} to double")
            kind, found = "double", wide
            if dtype.itemsize == 4:
                kind, found = "float", self.numbers.let(f"fptrunc double {wide} to float")
        else:
            kind = f"i{8 * dtype.itemsize}"
            found = count if dtype.itemsize == 8 else self.numbers.let(f"trunc i64 {count} to {kind}")
        name = self._on_stack(kind, self.numbers)
        self.numbers.lines.append(f"store {kind} {found}, ptr {name}")
        return name

    def text(self) -> str:
        """The LLVM IR text of all declarations and constants."""
        return "\n".join([*self._declared, *self._lines, ""])

    def _written(self, values: Sequence[Any], numbers: SizedNumbers) -> Label:
        name = self._on_stack(f"[{len(values)} x i64]", numbers)
        for k, value in enumerate(values):
            is_label = isinstance(value, Label)
            word = numbers.let(f"ptrtoint ptr {value} to i64") if is_label else numbers.operand(value)
            numbers.lines += [f"{name}.{k} = getelementptr i64, ptr {name}, i64 {k}",
                              f"store i64 {word}, ptr {name}.{k}"]  # fmt: skip
        return name

    def _on_stack(self, kind: str, numbers: SizedNumbers) -> Label:
        name = _Local(f"%d{self._locals}")
        self._locals += 1
        numbers.lines.append(f"{name} = alloca {kind}, align 8")
        return name

    def _constant(self, value: str) -> Label:
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = Label(f"@{self._name}.d{len(self._known)}")
            self._lines.append(f"{found} = internal constant {value}")
        return found


#: The classes of words whose values are known only when the function is called.
_ON_STACK = frozenset((Symbol, _Local))


def _word(value: Any) -> str:
    return f"i64 ptrtoint (ptr {value} to i64)" if isinstance(value, Label) else f"i64 {int(value)}"


# ---------------------------------------------------------------- numbers that depend on sizes


_COMPARED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "!=": "ne"}


class SizedNumbers:
    """The LLVM IR lines by which a function computes numbers from sizes, without branches, before it runs any step.

    names   the operand of each symbol, by name      lines   the text so far

    numbers = SizedNumbers({"n": "%n"})
    numbers.operand(-(-(17 * n) // 64))     "%x4", after appending the lines that compute this value
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        self.lines: list[str] = []
        self._known: dict[str, str] = {}
        self._too_large: list[str] = []

    def operand(self, x: int) -> str:
        """The operand of a number: a literal, or the name of a value if the number is a symbol."""
        return self._of(formula(x)) if type(x) is Symbol else str(int(x))

    def holds(self, conditions: Conditions) -> str:
        """The operand of an i1 that is true if all conditions hold."""
        found = "true"
        for text, comparison, outcome in conditions:
            one = self.let(f"icmp {_COMPARED[comparison]} i64 {self._of(text)}, 0")
            found = self.both(found, one if outcome else self.let(f"xor i1 {one}, true"))
        return found

    def both(self, a: str, b: str) -> str:
        """The operand of an i1 that is true if both are."""
        return b if a == "true" else self.let(f"and i1 {a}, {b}")

    def fits(self) -> str:
        """The operand of an i1 that is true if no number overflowed and every divisor was positive."""
        found = "false"
        for flag in self._too_large:
            found = flag if found == "false" else self.let(f"or i1 {found}, {flag}")
        return "true" if found == "false" else self.let(f"xor i1 {found}, true")

    def let(self, text: str) -> str:
        """The name of the value that this instruction computes; equal instructions are emitted once."""
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
        """a // b, rounded down, for a positive b; the flag of `fits` is cleared for any other b."""
        flag = self.let(f"icmp slt i64 {b}, 1")
        if flag not in self._too_large:
            self._too_large.append(flag)
        divisor = self.let(f"select i1 {flag}, i64 1, i64 {b}")
        quotient, rest = self.let(f"sdiv i64 {a}, {divisor}"), self.let(f"srem i64 {a}, {divisor}")
        less = self.let(f"sext i1 {self.let(f'icmp slt i64 {rest}, 0')} to i64")
        return self.let(f"add i64 {quotient}, {less}")
