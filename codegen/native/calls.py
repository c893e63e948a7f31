"""Calls of native Python: functions, function pointers, conversions, and the words of `routines`."""

from __future__ import annotations

import ast
import os
from typing import Any

from .expressions import ExpressionWriter, item_of, type_name
from .numbers import Float, Integer, Vector, i64, is_integer, vector
from .routines import FAILS, INTRINSICS, Routine, void
from .structs import Field, FunctionPointer, Reference, borrowed_type, is_owned, is_pointer, own, ptr, size_of
from .translation import Computed, spelled

_ORDERINGS = ("monotonic", "acquire", "release", "acq_rel", "seq_cst")
_CHANGES = {"atomic_add": "add", "atomic_max": "max"}


class CallWriter(ExpressionWriter):
    """Writes the text of expressions, calls included."""

    def on_Call(self, e: ast.Call, want: Any) -> Computed:
        if e.keywords:
            raise self.refuse(e, "arguments by keyword are not in the language")
        if not isinstance(e.func, ast.Subscript) and self.is_in_memory(e.func):
            pointer = self.expr(e.func)
            if not isinstance(pointer.kind, FunctionPointer):
                raise self.refuse(e, f"{ast.unparse(e.func)} is no function")
            return self.call(e, pointer.kind, pointer.text)
        function = self.known(e.func.id, e) if isinstance(e.func, ast.Name) else self.evaluated(e.func)
        if isinstance(function, Routine):
            return self.call(e, function, self.module.use(function))
        is_type = isinstance(function, type) and not issubclass(function, BaseException)
        if is_type or isinstance(function, (Reference, FunctionPointer)):
            if len(e.args) != 1:
                raise self.refuse(e, "a conversion has one argument")
            return self.convert(self.expr(e.args[0]), function, e)
        try:
            name = INTRINSICS[function]
        except (KeyError, TypeError):
            raise self.refuse(e, "not a native function") from None
        return getattr(self, f"word_{name}", self.word_atomic)(e)

    # ------------------------------------------------------------ functions

    def call(self, e: ast.Call, function: Routine | FunctionPointer, target: str) -> Computed:
        """Write a call of a function, whose name or address in LLVM's text is `target`."""
        kinds: list[Any] = [k for _, k in function.params] if isinstance(function, Routine) else list(function.params)
        if len(e.args) != len(kinds):
            raise self.refuse(e, f"{len(kinds)} arguments are asked, {len(e.args)} are given")
        arguments = [
            self.fit(self.owned_value(part, kind) if is_owned(kind) else self.expr(part, kind), kind, part)
            for part, kind in zip(e.args, kinds, strict=True)
        ]
        self.line = e.lineno
        text = ", ".join(f"{spelled(kind)} {a.text}" for a, kind in zip(arguments, kinds, strict=True))
        spelling = f"call {spelled(function.result)} {target}({text})"
        if function.result is void:
            self.emit(spelling)
            return Computed("", void)
        if isinstance(function, Routine) and function.fails and self.module.faults:
            given = [a.text for a, kind in zip(arguments, kinds, strict=True) if is_owned(kind)]
            found = self._or_fault(function, spelling, given)
        else:
            found = self.let(spelling)
        self.called = found
        if is_owned(function.result):
            self.new_references[found] = e
        return Computed(found, borrowed_type(function.result))

    def _or_fault(self, function: Any, spelling: str, given: list[str]) -> str:
        """A call in a build with faults, which fails unmade if its turn has come.   given: references to release"""
        kind, cell = spelled(function.result), self.cell(function.result)
        fault, go, out = self.labels("fault", "go", "called")
        left = self.let(f"sub i64 {self.let('load i64, ptr @faults.left')}, 1")
        self.emit(f"store i64 {left}, ptr @faults.left")
        self.branch(self.let(f"icmp eq i64 {left}, 0"), fault, go)
        self.begin(fault)
        said = self.module.string(f"{function.name}, {os.path.basename(self.routine.file)}:{self.line}")
        self.emit(f"store ptr {said}, ptr getelementptr (i64, ptr @faults.left, i64 1)")
        if function.fails == FAILS:
            error = self.let(f"load ptr, ptr {self.module.variable('PyExc_MemoryError')}")
            set_error = self.module.declared("PyErr_SetString", "void", "ptr", "ptr")
            self.emit(f"call void {set_error}(ptr {error}, ptr {said})")
        for text in given:
            self.release(text)
        self.emit(f"store {kind} {'null' if kind == 'ptr' else '-1'}, ptr {cell}")
        self.jump(out)
        self.begin(go)
        self.emit(f"store {kind} {self.let(spelling)}, ptr {cell}")
        self.jump(out)
        self.begin(out)
        return self.let(f"load {kind}, ptr {cell}")

    # ------------------------------------------------------------ conversions

    def convert(self, value: Computed, kind: Any, e: ast.AST) -> Computed:
        """An explicit conversion, which may lose part of the value."""
        a = value.kind
        if a == kind:
            return value
        if a in (int, float):
            if isinstance(kind, type) and issubclass(kind, Vector):
                return self.convert(self.literal(value, kind.item, e), kind, e)
            if isinstance(kind, type) and issubclass(kind, Integer) and a is int:
                return self.constant(kind(int(value.text)), kind, e)
            if not is_pointer(kind):
                return self.literal(value, kind, e)
            return Computed(f"inttoptr (i64 {value.text} to ptr)", kind)
        if is_pointer(a) and is_pointer(kind):
            if is_owned(kind):
                self.new_references.setdefault(value.text, e)
            return Computed(value.text, borrowed_type(kind))
        if is_pointer(a) or is_pointer(kind):
            word = "ptrtoint" if is_pointer(a) else "inttoptr"
            text = self.let(f"{word} {spelled(a)} {value.text} to {spelled(kind)}")
            if is_owned(kind):
                self.new_references[text] = e
            return Computed(text, borrowed_type(kind))
        if issubclass(kind, Vector) and getattr(a, "lanes", 0) != kind.lanes:
            return self._spread(value, kind, e)
        if kind is bool:
            return Computed(self.let(f"icmp ne {spelled(a)} {value.text}, 0"), bool)
        word = _conversion(item_of(a), item_of(kind))
        text = self.let(f"{word} {spelled(a)} {value.text} to {spelled(kind)}") if word else value.text
        return Computed(text, kind)

    def _spread(self, value: Computed, kind: Any, e: ast.AST) -> Computed:
        """A vector with the same number in all lanes."""
        value = self.fit(value, kind.item, e)
        one = self.let(f"insertelement {spelled(kind)} poison, {spelled(kind.item)} {value.text}, i64 0")
        zeros = f"<{kind.lanes} x i32> zeroinitializer"
        return Computed(self.let(f"shufflevector {spelled(kind)} {one}, {spelled(kind)} poison, {zeros}"), kind)

    # ------------------------------------------------------------ words

    def part(self, e: ast.Call) -> tuple[str, Field]:
        """The place in memory that the first two arguments name: an owner and a field name or index."""
        owner, key = e.args[:2]
        named: Any = ast.Subscript(owner, key, ast.Load())
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            named = ast.Attribute(owner, key.value, ast.Load())
        return self.place(ast.copy_location(named, e))

    def word_select(self, e: ast.Call) -> Computed:
        mask, yes, no = [self.expr(a) for a in e.args]
        lanes = [getattr(value.kind, "lanes", 0) for value in (mask, yes)]
        if yes.kind != no.kind or (mask.kind is not bool and lanes[0] != lanes[1]):
            raise self.refuse(e, f"{mask.kind.__name__}, {yes.kind.__name__}, {no.kind.__name__} do not fit")
        kind = spelled(yes.kind)
        text = self.let(f"select {spelled(mask.kind)} {mask.text}, {kind} {yes.text}, {kind} {no.text}")
        return Computed(text, yes.kind)

    def word_shuffle(self, e: ast.Call) -> Computed:
        a, b, places = self.expr(e.args[0]), self.expr(e.args[1]), tuple(self.evaluated(e.args[2]))
        lanes = getattr(a.kind, "lanes", 0)
        if not lanes or a.kind is not b.kind or not all(0 <= place < 2 * lanes for place in places):
            raise self.refuse(e, f"{type_name(a.kind)} and {type_name(b.kind)} have no lanes {places}")
        kind, listed = spelled(a.kind), ", ".join([f"i32 {place}" for place in places])
        text = self.let(f"shufflevector {kind} {a.text}, {kind} {b.text}, <{len(places)} x i32> <{listed}>")
        return Computed(text, vector[a.kind.item, len(places)])

    def word_moved(self, e: ast.Call) -> Computed:
        (part,) = e.args
        if isinstance(part, ast.Name) and part.id in self.owned:
            value = self.owned_value(part, None)
        else:
            at, field = self.place(part) if isinstance(part, (ast.Attribute, ast.Subscript)) else ("", None)
            if field is None or not is_owned(field.kind):
                raise self.refuse(e, "an `own` local or place is asked")
            value = self.read(at, field)
            self.store_to("null", ptr, at)
        self.new_references[value.text] = e
        return value

    def word_held(self, e: ast.Call) -> Computed:
        (part,) = e.args
        value = self.expr(part, ptr)
        self.emit(f"call void {self.module.declared('Py_IncRef', 'void', 'ptr')}(ptr {value.text})")
        self.new_references[value.text] = e
        return value

    def word_bit_cast(self, e: ast.Call) -> Computed:
        kind, value = self.evaluated(e.args[0]), self.expr(e.args[1])
        if getattr(kind, "bits", 0) != getattr(value.kind, "bits", -1):
            raise self.refuse(e, f"{value.kind.__name__} has another number of bits")
        if spelled(kind) == spelled(value.kind):
            return Computed(value.text, kind)
        return Computed(self.let(f"bitcast {spelled(value.kind)} {value.text} to {spelled(kind)}"), kind)

    def word_local(self, e: ast.Call) -> Computed:
        """Room on the stack.  A count that is not constant is refused in loops, where each pass would allocate more."""
        kind = self.evaluated(e.args[0])
        name = self.fresh("%local")
        is_known = not any(isinstance(n, ast.Name) and n.id in self.variables for n in ast.walk(e.args[1]))
        if not is_known and (self.loops or self.routine.inline):
            raise self.refuse(e, "a number that is not known while compiling: not in loops")
        if is_known:
            length = int(self.evaluated(e.args[1]))
            size = size_of(kind) * length
            self.entry_lines.append(f"  {name} = alloca [{size} x i8], align {64 if size >= 64 else 16}")
            number = str(length)
        else:
            length, number = 0, self.convert(self.expr(e.args[1], i64), i64, e).text
            bytes_ = self.let(f"mul i64 {number}, {size_of(kind)}")
            self.emit(f"{name} = alloca i8, i64 {bytes_}, align 64")
        if is_owned(kind):
            self.own_all(name, number, e)
        return Computed(name, ptr[kind], length=length)

    def word_row(self, e: ast.Call) -> Computed:
        """Pointers side by side on the stack; if one of them is a new reference, all places are `own`."""
        name = self.fresh("%local")
        self.entry_lines.append(f"  {name} = alloca [{8 * len(e.args)} x i8], align 16")
        values = [self.fit(self.expr(part, ptr), ptr, part) for part in e.args]
        owns = any(value.text in self.new_references for value in values)
        if owns:
            self.own_all(name, str(len(values)), e)
        for i, (part, value) in enumerate(zip(e.args, values, strict=True)):
            text = self.take_reference(value, part).text if owns else value.text
            self.store_to(text, ptr, self.element(name, ptr, str(i)))
        return Computed(name, ptr[own if owns else ptr], length=len(values))

    # ------------------------------------------------------------ atomic operations

    def word_atomic(self, e: ast.Call) -> Computed:
        """An atomic operation, such as `atomic_load(owner, key)`."""
        name = e.func.id  # type: ignore[attr-defined]  # called by its name
        ordering, count = "seq_cst", {"fence": 0, "atomic_load": 2, "compare_exchange": 4}.get(name, 3)
        if len(e.args) == count + 1:
            ordering = getattr(e.args[count], "value", "")
        if ordering not in _ORDERINGS or len(e.args) not in (count, count + 1):
            raise self.refuse(e, f"{count} arguments and one of {', '.join(_ORDERINGS)} are asked")
        if name == "fence":
            self.emit(f"fence {ordering}")
            return Computed("", void)
        at, field = self.part(e)
        if field.kind is bool or not (is_integer(field.kind) or is_pointer(field.kind)):
            raise self.refuse(e, f"no atomic operation of {field.kind.__name__}")
        values = [self.fit(self.expr(a, field.kind), field.kind, a).text for a in e.args[2:count]]
        kind, align = spelled(field.kind), f"align {size_of(field.kind)}"
        if name == "atomic_load":
            return Computed(self.let(f"load atomic {kind}, ptr {at} {ordering}, {align}"), field.kind)
        if name == "atomic_store":
            self.emit(f"store atomic {kind} {values[0]}, ptr {at} {ordering}, {align}")
            return Computed("", void)
        if name == "compare_exchange":
            failing = "acquire" if ordering == "acq_rel" else "monotonic" if ordering == "release" else ordering
            pair = self.let(f"cmpxchg ptr {at}, {kind} {values[0]}, {kind} {values[1]} {ordering} {failing}")
            return Computed(self.let(f"extractvalue {{ {kind}, i1 }} {pair}, 1"), bool)
        change = _CHANGES[name]
        if change == "max" and not field.kind.signed:
            change = "umax"
        return Computed(self.let(f"atomicrmw {change} ptr {at}, {kind} {values[0]} {ordering}"), field.kind)


def _conversion(a: Any, b: Any) -> str:
    """LLVM's instruction that converts a number of type `a` to type `b`; "" if the bits are the same."""
    from_float, to_float = issubclass(a, Float), issubclass(b, Float)
    if from_float and to_float:
        return "fpext" if b.bits > a.bits else "fptrunc"
    if from_float:
        return "fptosi" if b.signed else "fptoui"
    if to_float:
        return "sitofp" if a is not bool and a.signed else "uitofp"
    width = 1 if a is bool else a.bits
    if width == b.bits:
        return ""
    return "trunc" if b.bits < width else "sext" if a is not bool and a.signed else "zext"
