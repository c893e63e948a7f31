"""Expressions of native Python: numbers, names, places in memory, comparisons, choices.

`want` is the type that the context expects; a literal takes that type.
"""

from __future__ import annotations

import ast
import builtins
from typing import Any

from .numbers import Float, Integer, Vector, i64, is_integer, join, vector
from .routines import External, Routine, of_static
from .structs import (
    Array,
    Field,
    FunctionPointer,
    Reference,
    borrowed_type,
    is_owned,
    is_pointer,
    is_struct,
    ptr,
    size_of,
)  # fmt: skip
from .translation import Computed, constant, in_memory, spelled
from .writer import TextWriter

_OPERATORS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "shr", ast.FloorDiv: "udiv", ast.Mod: "urem", ast.Div: "fdiv",
}  # fmt: skip
_OF_FLOATS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "fdiv": "fdiv"}
_COMPARISONS: dict[type, str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Is: "eq",
    ast.IsNot: "ne",
}  # fmt: skip
_LITERALS = (int, float)


def type_name(kind: Any) -> str:
    return f"a literal {kind.__name__}" if kind in _LITERALS else str(kind.__name__)


def item_of(kind: Any) -> Any:
    """The type of one lane of a vector type; any other type itself."""
    return kind.item if isinstance(kind, type) and issubclass(kind, Vector) else kind


def _is_float(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(item_of(kind), Float)


class ExpressionWriter(TextWriter):
    """Writes the text of expressions other than calls."""

    def expr(self, e: ast.expr, want: Any = None) -> Computed:
        """The value of an expression, literals converted to `want` if it is given.  Raises NotNative."""
        value = self.value(e, want)
        if value.kind in _LITERALS and want is not None and not is_pointer(want):
            return self.fit(value, want, e)
        return value

    def value(self, e: ast.expr, want: Any) -> Computed:
        """The value of an expression; an expression of literals stays a literal.  Raises NotNative."""
        method = getattr(self, f"on_{type(e).__name__}", None)
        if method is None:
            raise self.refuse(e, f"{type(e).__name__} is not in the language")
        found: Computed = method(e, want)
        return found

    def owned_value(self, e: ast.expr, want: Any) -> Computed:
        """The value with its reference, which is moved out of an `own` local or is a new one."""
        return self.take_reference(self.expr(e, want), e)

    def take_reference(self, value: Computed, e: ast.AST) -> Computed:
        """Take the reference of a value; null and numbers have none.  Raises NotNative for a borrowed value."""
        if self.new_references.pop(value.text, None):
            return value
        if value.text in self.owners:
            self.move(self.owners[value.text], e)
        elif not value.text.startswith(("null", "inttoptr (")):
            raise self.refuse(e, "the reference is somebody else's: say held(...)")
        return value

    def fit(self, value: Computed, kind: Any, e: ast.AST) -> Computed:
        """Convert a value to an expected type, if the conversion keeps every value.  Raises NotNative otherwise."""
        if value.kind == kind:
            return value
        if value.kind in _LITERALS:
            return self.literal(value, kind, e)
        if is_pointer(kind) and value.text == "null":
            return Computed("null", kind)
        if is_pointer(value.kind) and is_pointer(kind):
            if self._points_alike(value.kind, kind):
                return value
        elif not is_pointer(value.kind) and not is_pointer(kind) and join(value.kind, kind) is kind:
            return self.convert(value, kind, e)
        raise self.refuse(e, f"{type_name(value.kind)} where {type_name(kind)} is asked")

    @staticmethod
    def _points_alike(a: Any, b: Any) -> bool:
        if isinstance(a, FunctionPointer) or isinstance(b, FunctionPointer):
            return False
        return a.target is None or b.target is None or a.target is b.target

    def literal(self, value: Computed, kind: Any, e: ast.AST) -> Computed:
        """A literal as a number of a type.  Raises NotNative if the type does not hold it."""
        number = int(value.text) if value.kind is int else float(value.text)
        if kind is bool or is_pointer(kind) or not issubclass(kind, (Integer, Float)):
            raise self.refuse(e, f"{type_name(value.kind)} where {type_name(kind)} is asked")
        is_whole = value.kind is int
        if issubclass(kind, Integer) and not (is_whole and kind.wrapped(int(number)) == number):
            raise self.refuse(e, f"{number} does not fit into {type_name(kind)}")
        return Computed(constant(number, kind), kind)

    def constant(self, found: Any, want: Any, e: ast.AST) -> Computed:
        """A Python value that is known while compiling, as LLVM's text."""
        if found is None:
            return Computed("null", want if is_pointer(want) else ptr)
        if isinstance(found, bool):
            return Computed(str(int(found)), bool)
        if isinstance(found, (Integer, Float)):
            return Computed(constant(found, type(found)), type(found))
        if isinstance(found, (int, float)):
            return Computed(repr(found), type(found))
        if isinstance(found, str):
            return Computed(self.module.string(found), ptr)
        if (kind := of_static(found)) is not None:
            item, length = (kind.item, kind.length) if isinstance(kind, Array) else (kind, 0)
            return Computed(self.module.static(found, kind, ast.unparse(e)), ptr[item], length=length)
        raise self.refuse(e, f"{type(found).__name__} is no value of the language")

    def on_Constant(self, e: ast.Constant, want: Any) -> Computed:
        return self.constant(e.value, want, e)

    def known(self, name: str, e: ast.AST) -> Any:
        """The value of a name that is not a local: a global or builtin.  Raises NotNative."""
        try:
            return self.scope[name]
        except KeyError:
            pass
        if not hasattr(builtins, name):
            raise self.refuse(e, f"the name {name} is not known")
        return getattr(builtins, name)

    def on_Name(self, e: ast.Name, want: Any) -> Computed:
        if e.id in self.variables:
            at, kind = self.variables[e.id]
            if e.id not in self.are_set:
                raise self.refuse(e, f"{e.id} has no value on every way to here")
            text = self.values.get(e.id) or self.let(f"load {spelled(kind)}, ptr {at}")
            if e.id in self.owned:
                self.owners[text] = e.id
            return Computed(text, borrowed_type(kind), length=self.lengths.get(e.id, 0))
        found = self.known(e.id, e)
        if isinstance(found, Routine):
            kind = FunctionPointer(found.result, tuple([k for _, k in found.params]))
            return Computed(self.module.use(found), kind)
        if isinstance(found, External):
            return Computed(self.module.variable(found.name), ptr)
        if isinstance(found, type) and issubclass(found, BaseException):
            return Computed(self.let(f"load ptr, ptr {self.module.variable(f'PyExc_{found.__name__}')}"), ptr)
        return self.constant(found, want, e)

    # ------------------------------------------------------------ arithmetic

    def both(self, left: ast.expr, right: ast.expr, e: ast.expr, want: Any) -> tuple[Computed, Computed, Any]:
        """The values of two operands, converted to one type, and that type."""
        a = self.value(left, want)
        is_number = a.kind not in _LITERALS and not is_pointer(a.kind)
        b = self.value(right, None if is_number else want)
        if is_pointer(a.kind) or is_pointer(b.kind):
            return a, b, a.kind
        kind = join(a.kind, b.kind)
        if kind is None:
            raise self.refuse(e, f"{type_name(a.kind)} and {type_name(b.kind)}: convert one")
        if kind in _LITERALS:
            return a, b, kind
        return self.fit(a, kind, e), self.fit(b, kind, e), kind

    def on_BinOp(self, e: ast.BinOp, want: Any) -> Computed:
        name = _OPERATORS.get(type(e.op), "")
        if name in ("shl", "shr"):
            a = self.expr(e.left, want)
            kind = a.kind
            b = self.expr(e.right, kind if kind is not int else None)
            if b.kind is not kind:
                b = self.convert(b, kind, e)
        else:
            a, b, kind = self.both(e.left, e.right, e, None if is_pointer(want) else want)
        if kind in _LITERALS:
            return self.constant(self.evaluated(e), want, e)
        if is_pointer(kind):
            return self._moved_pointer(e, a, b)
        instruction = self._instruction(e, name, kind, b)
        if instruction in ("sdiv", "srem"):
            return self._floored(instruction, kind, a.text, b.text)
        return Computed(self.let(f"{instruction} {spelled(kind)} {a.text}, {b.text}"), kind)

    def _instruction(self, e: ast.BinOp, name: str, kind: Any, b: Computed) -> str:
        """The instruction of an operator.  Raises NotNative."""
        if _is_float(kind):
            name = _OF_FLOATS.get(name, "")
            name += " contract" if name and self.routine.contract else ""
        elif not is_integer(item_of(kind)) or name == "fdiv":
            name = ""
        if not name:
            raise self.refuse(e, f"not an operation of {type_name(kind)}")
        if self.module.checks and name in ("udiv", "urem", "shl", "shr") and not issubclass(kind, Vector):
            rule = f"ult {spelled(kind)} {b.text}, {kind.bits}" if "sh" in name else f"ne {spelled(kind)} {b.text}, 0"
            self.check(self.let(f"icmp {rule}"), e, "shift by too much" if "sh" in name else "division by zero")
        is_signed = getattr(item_of(kind), "signed", False)
        if name == "shr":
            return "ashr" if is_signed else "lshr"
        return "s" + name[1:] if is_signed and name in ("udiv", "urem") else name

    def _floored(self, name: str, kind: Any, a: str, b: str) -> Computed:
        """A quotient or remainder of signed numbers, rounded down as in Python, not towards zero."""
        t = spelled(kind)
        rest = self.let(f"srem {t} {a}, {b}")
        is_inexact = self.let(f"icmp ne {t} {rest}, 0")
        is_opposite = self.let(f"icmp slt {t} {self.let(f'xor {t} {rest}, {b}')}, 0")
        is_below = self.let(f"and i1 {is_inexact}, {is_opposite}")
        if name == "srem":
            return Computed(self.let(f"add {t} {rest}, {self.let(f'select i1 {is_below}, {t} {b}, {t} 0')}"), kind)
        less = self.let(f"sext i1 {is_below} to {t}")
        return Computed(self.let(f"add {t} {self.let(f'sdiv {t} {a}, {b}')}, {less}"), kind)

    def _moved_pointer(self, e: ast.BinOp, a: Computed, b: Computed) -> Computed:
        if not isinstance(e.op, (ast.Add, ast.Sub)) or not isinstance(a.kind, Reference):
            raise self.refuse(e, "not an operation of pointers")
        number = self.convert(b, i64, e).text
        if isinstance(e.op, ast.Sub):
            number = self.let(f"sub i64 0, {number}")
        return Computed(self.element(a.text, a.kind.target, number), a.kind)

    def on_UnaryOp(self, e: ast.UnaryOp, want: Any) -> Computed:
        if isinstance(e.op, ast.Not):
            return Computed(self.let(f"xor i1 {self.truth(e.operand)}, 1"), bool)
        value = self.expr(e.operand, want if not isinstance(e.operand, ast.Constant) else None)
        kind = value.kind
        if kind in _LITERALS:
            return self.constant(self.evaluated(e), want, e)
        if isinstance(e.op, ast.Invert) and is_integer(kind):
            return Computed(self.let(f"xor {spelled(kind)} {value.text}, -1"), kind)
        if isinstance(e.op, ast.USub) and not is_pointer(kind):
            text = f"fneg {spelled(kind)} " if _is_float(kind) else f"sub {spelled(kind)} 0, "
            return Computed(self.let(text + value.text), kind)
        raise self.refuse(e, f"not an operation of {type_name(kind)}")

    # ------------------------------------------------------------ truth

    def on_Compare(self, e: ast.Compare, want: Any) -> Computed:
        word = _COMPARISONS.get(type(e.ops[0]))
        if len(e.ops) > 1 or word is None:
            raise self.refuse(e, "one comparison at a time, of numbers or pointers")
        a, b, kind = self.both(e.left, e.comparators[0], e, ptr)
        if is_pointer(a.kind) != is_pointer(b.kind):
            raise self.refuse(e, f"{type_name(a.kind)} and {type_name(b.kind)}: convert one")
        if kind is int:
            kind = i64
        if _is_float(kind):
            condition = f"fcmp {'une' if word == 'ne' else 'o' + word}"
        else:
            sign = "" if word in ("eq", "ne") else "s" if getattr(item_of(kind), "signed", False) else "u"
            condition = f"icmp {sign}{word}"
        found = self.let(f"{condition} {spelled(kind)} {a.text}, {b.text}")
        lanes = getattr(kind, "lanes", 0)
        return Computed(found, vector[bool, lanes] if lanes else bool)

    def truth(self, e: ast.expr) -> str:
        """The truth of an expression, as an i1."""
        value = self.expr(e, ptr)
        if value.kind is int:
            return str(int(value.text != "0"))
        if value.kind is bool:
            return value.text
        if is_pointer(value.kind) or is_integer(value.kind):
            zero = "null" if is_pointer(value.kind) else "0"
            return self.let(f"icmp ne {spelled(value.kind)} {value.text}, {zero}")
        raise self.refuse(e, f"the truth of {type_name(value.kind)}: compare it")

    def on_BoolOp(self, e: ast.BoolOp, want: Any) -> Computed:
        out, cell = self.fresh("both"), self.cell(bool)
        for number, part in enumerate(e.values):
            truth = self.truth(part)
            self.emit(f"store i1 {truth}, ptr {cell}")
            if number + 1 < len(e.values):
                more = self.fresh("more")
                self.branch(truth, *((more, out) if isinstance(e.op, ast.And) else (out, more)))
                self.begin(more)
        self.jump(out)
        self.begin(out)
        return Computed(self.let(f"load i1, ptr {cell}"), bool)

    def on_IfExp(self, e: ast.IfExp, want: Any) -> Computed:
        yes, no, out = self.labels("then", "else", "end")
        self.branch(self.truth(e.test), yes, no)
        self.begin(yes)
        part = self.owned_value if is_owned(want) else self.expr
        a = part(e.body, want)
        if a.kind in _LITERALS:
            raise self.refuse(e, "which type? say i64(...)")
        cell = self.cell(a.kind)
        self.emit(f"store {spelled(a.kind)} {a.text}, ptr {cell}")
        self.jump(out)
        self.begin(no)
        b = self.fit(part(e.orelse, want if is_owned(want) else a.kind), a.kind, e.orelse)
        self.emit(f"store {spelled(a.kind)} {b.text}, ptr {cell}")
        self.jump(out)
        self.begin(out)
        found = self.let(f"load {spelled(a.kind)}, ptr {cell}")
        if is_owned(want):
            self.new_references[found] = e
        return Computed(found, borrowed_type(a.kind))

    # ------------------------------------------------------------ places in memory

    def element(self, text: str, kind: Any, number: str) -> str:
        """The address of an element of an array."""
        whole = is_struct(kind) or isinstance(kind, (Array, type(None)))
        size = size_of(kind) if kind is not None else 1
        item = f"[{size} x i8]" if whole else in_memory(kind)
        return text if number == "0" else self.let(f"getelementptr {item}, ptr {text}, i64 {number}")

    def place(self, e: ast.Attribute | ast.Subscript, base: Computed | None = None) -> tuple[str, Field]:
        """The address of `p.field` or `p[i]`, and a `Field` with the type of the value there."""
        p = base or self.expr(e.value)
        if not isinstance(p.kind, Reference) or p.kind.target is None:
            raise self.refuse(e, f"{type_name(p.kind)} has no parts")
        target = p.kind.target
        if self.module.checks and not p.text.startswith("@"):
            self.check(self.let(f"icmp ne ptr {p.text}, null"), e, "null pointer")
        if isinstance(e, ast.Attribute):
            if not is_struct(target) or e.attr not in target.fields():
                raise self.refuse(e, f"{type_name(p.kind)} has no field {e.attr}")
            field = target.fields()[e.attr]
            return self.let(f"getelementptr i8, ptr {p.text}, i64 {field.offset}"), field
        number = self.convert(self.expr(e.slice, i64), i64, e)
        if self.module.checks and p.length:
            self.check(self.let(f"icmp ult i64 {number.text}, {p.length}"), e, "out of bounds")
        return self.element(p.text, target, number.text), Field("", target, 0)

    def read(self, at: str, field: Field) -> Computed:
        """The value at a place."""
        kind = field.kind
        if isinstance(kind, Array):
            return Computed(at, ptr[kind.item], length=kind.length)
        if is_struct(kind):
            return Computed(at, ptr[kind])
        return Computed(self.loaded(at, kind), borrowed_type(kind))

    def on_Attribute(self, e: ast.Attribute, want: Any) -> Computed:
        if not self.is_in_memory(e):
            return self.constant(self.evaluated(e), want, e)
        return self.read(*self.place(e))

    def is_in_memory(self, e: ast.expr) -> bool:
        """False for an expression like `module.NAME`, which is known while compiling; True for a place in memory."""
        while isinstance(e, ast.Attribute):
            e = e.value
        return not isinstance(e, ast.Name) or e.id in self.variables or of_static(self.known(e.id, e)) is not None

    def on_Subscript(self, e: ast.Subscript, want: Any) -> Computed:
        base = self.expr(e.value)
        lanes = getattr(base.kind, "lanes", 0)
        if lanes:
            number = self.convert(self.expr(e.slice, i64), i64, e).text
            text = self.let(f"extractelement {spelled(base.kind)} {base.text}, i64 {number}")
            return Computed(text, base.kind.item)
        return self.read(*self.place(e, base))

    def evaluated(self, e: ast.expr) -> Any:
        """The value of an expression that is known while compiling.  Raises NotNative."""
        if isinstance(e, ast.Name):
            return self.known(e.id, e)
        try:
            return eval(ast.unparse(e), {}, self.scope)
        except Exception as error:
            raise self.refuse(e, f"not known while compiling ({error})") from None

    def convert(self, value: Computed, kind: Any, e: ast.AST) -> Computed:
        raise NotImplementedError
