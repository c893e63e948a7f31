"""Statements of native Python, and the frame of a function."""

from __future__ import annotations

import ast
import copy
from typing import Any

from .calls import CallWriter
from .numbers import i64
from .routines import void
from .structs import Field, is_owned
from .translation import Computed, spelled


class RoutineWriter(CallWriter):
    """Writes the text of a whole function."""

    def text(self) -> str:
        """LLVM's definition of the function.  Raises NotNative."""
        routine, result = self.routine, self.routine.result
        if result is not void:
            self.heads.append(f"  %.result = alloca {spelled(result)}")
        for name, kind in routine.params:
            if not self.given[name] and not is_owned(kind):
                self.variables[name], self.values[name] = ("", kind), f"%{name}"
                continue
            self.heads += [f"  %{name}.at = alloca {spelled(kind)}", f"  store {spelled(kind)} %{name}, ptr %{name}.at"]
            self.variables[name] = (f"%{name}.at", kind)
            if is_owned(kind):
                self.owned[name] = f"%{name}.at"
        self.block(self.tree.body)
        if not self.is_closed and result is not void:
            raise self.refuse(self.tree.body[-1], "the end of the function without a result")
        self.jump("leave")
        self.line = self.tree.end_lineno or self.line
        self.begin("leave")
        for place in reversed(self.owned.values()):
            self.give_back(self.let(f"load ptr, ptr {place}"))
        for place, number in self.arrays:
            at, count = self.let(f"load ptr, ptr {place}"), self.let(f"load i64, ptr {number}")
            self.emit(f"call void {self.module.giving_back('give_back_all')}(ptr {at}, i64 {count})")
        text = "" if result is void else self.let(f"load {spelled(result)}, ptr %.result")
        self.emit("ret void" if result is void else f"ret {spelled(result)} {text}")
        attributes = {True: " alwaysinline", False: " noinline", None: ""}[routine.inline]
        linkage = "" if routine in self.module.exported else "internal "
        params = ", ".join(f"{spelled(kind)} %{name}" for name, kind in routine.params)
        head = f"define {linkage}{spelled(result)} {self.module.use(routine)}({params}){attributes}"
        return "\n".join([f"{head} !dbg {self._subprogram} {{", ".entry:", *self.heads, *self.lines, "}"])

    # ------------------------------------------------------------ statements

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self.is_closed:
                return
            self.line = statement.lineno
            method = getattr(self, f"on_{type(statement).__name__}", None)
            if method is None:
                raise self.refuse(statement, f"{type(statement).__name__} is not in the language")
            method(statement)
            for call in self.new.values():
                raise self.refuse(call, "the reference is lost: give it to an `own`")

    def on_Pass(self, s: ast.Pass) -> None:
        pass

    def on_Expr(self, s: ast.Expr) -> None:
        if not (isinstance(s.value, ast.Constant) and isinstance(s.value.value, str)):
            value = self.expr(s.value)
            if value.kind is not void and value.text == self.called and value.text not in self.new:
                raise self.refuse(s, "nobody looks at the result")

    def on_Assign(self, s: ast.Assign) -> None:
        if len(s.targets) > 1:
            raise self.refuse(s, "one target at a time")
        target = s.targets[0]
        want = self.variables[target.id][1] if isinstance(target, ast.Name) and target.id in self.variables else None
        self.store(target, self.taken(s.value, want) if is_owned(want) else self.expr(s.value, want), s)

    def on_AnnAssign(self, s: ast.AnnAssign) -> None:
        kind = self.evaluated(s.annotation)
        if not is_owned(kind) or not isinstance(s.target, ast.Name) or s.value is None or s.target.id in self.variables:
            raise self.refuse(s, "only a new local that is `own` says its type, and has a value")
        value = self.fit(self.taken(s.value, kind), kind, s)
        self.slot(s.target.id, kind)
        self.own(s.target.id)
        self.store(s.target, value, s)

    def on_AugAssign(self, s: ast.AugAssign) -> None:
        if any(isinstance(node, ast.Call) for node in ast.walk(s.target)):
            raise self.refuse(s, "the target would be called twice")
        read: Any = copy.copy(s.target)
        read.ctx = ast.Load()
        sum_ = ast.copy_location(ast.BinOp(read, s.op, s.value), s)
        self.store(s.target, self.expr(sum_), s)

    def store(self, target: ast.expr, value: Computed, s: ast.stmt) -> None:
        """Assign a value to a local or a place in memory."""
        if isinstance(target, ast.Name):
            at, kind = self._local(target, value, s)
            field = Field("", kind, 0)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            at, field = self.place(target)
            kind = field.kind
            if is_owned(kind):
                value = self.claimed(value, s)
        else:
            raise self.refuse(s, f"{type(target).__name__} is no target")
        value = self.fit(value, kind, s)
        old = self.let(f"load ptr, ptr {at}") if is_owned(kind) else ""
        if not isinstance(target, ast.Name):
            self.kept(value.text, kind, at)
        elif target.id not in self.values:
            self.emit(f"store {spelled(kind)} {value.text}, ptr {at}")
        if isinstance(target, ast.Name):
            self.are_set.add(target.id)
        if old:
            self.give_back(old)

    def _local(self, target: ast.Name, value: Computed, s: ast.stmt) -> tuple[str, Any]:
        """The place and type of a local; its first value sets the type."""
        kind = value.kind
        if target.id not in self.variables:
            if kind in (int, float):
                raise self.refuse(s, "which number? say i64(...)")
            if kind is void:
                raise self.refuse(s, "no value")
        if value.length and self.given[target.id] == 1:
            self.lengths[target.id] = value.length
            if value.text.startswith(("%local", "@")):
                self.values[target.id] = value.text
        return self.slot(target.id, kind)

    # ------------------------------------------------------------ control flow

    def on_If(self, s: ast.If) -> None:
        if (known := self._known_truth(s.test)) is not None:
            self.block(s.body if known else s.orelse)
            return
        yes, no, end = self.labels("then", "else", "end")
        self.branch(self.truth(s.test), yes, no)
        self.begin(yes)
        self.block(s.body)
        yes_ends = self.is_closed
        self.jump(end)
        self.begin(no)
        self.block(s.orelse)
        no_ends = self.is_closed
        self.jump(end)
        self.begin(end)
        if yes_ends and no_ends:
            self.emit("unreachable")
            self.is_closed = True

    def _known_truth(self, test: ast.expr) -> bool | None:
        """The truth of a condition on constants of the module or variables of unrolled loops; None for others."""
        parts = [n for n in ast.walk(test) if not isinstance(n, (ast.Load, ast.operator, ast.cmpop, ast.unaryop))]
        names = [n.id for n in parts if isinstance(n, ast.Name)]
        others = (ast.Name, ast.Constant, ast.Compare, ast.UnaryOp, ast.BinOp)
        is_known = names and all(isinstance(n, others) for n in parts) and not self.variables.keys() & names
        if not is_known or not all(isinstance(self.known(name, test), (bool, int)) for name in names):
            return None
        return bool(self.evaluated(test))

    def on_While(self, s: ast.While) -> None:
        if s.orelse:
            raise self.refuse(s, "a loop without else")
        head, body, end = self.labels("while", "do", "done")
        is_endless = isinstance(s.test, ast.Constant) and s.test.value is True
        self.jump(head)
        self.begin(head)
        if not is_endless:
            self.branch(self.truth(s.test), body, end)
            self.begin(body)
        self.loops.append((head, end))
        self.block(s.body)
        self.loops.pop()
        self.jump(head)
        self.begin(end)
        if is_endless and end not in self.set_at:
            self.emit("unreachable")
            self.is_closed = True

    def on_For(self, s: ast.For) -> None:
        if isinstance(s.iter, ast.Name) and s.iter.id not in self.variables:
            self._unrolled(s)
            return
        is_range = isinstance(s.iter, ast.Call) and isinstance(s.iter.func, ast.Name) and s.iter.func.id == "range"
        if not is_range or not isinstance(s.target, ast.Name) or s.orelse:
            raise self.refuse(s, "a loop is over a range, without else")
        given = s.iter.args  # type: ignore[attr-defined]  # a call: `is_range`
        step = int(self.evaluated(given[2])) if len(given) > 2 else 1
        if not step:
            raise self.refuse(s, "a step of zero")
        start = "0" if len(given) == 1 else self.convert(self.expr(given[0], None), i64, s).text
        stop = self.convert(self.expr(given[min(1, len(given) - 1)], None), i64, s).text
        counter = self.cell(i64)
        self.emit(f"store i64 {start}, ptr {counter}")
        at, kind = self.slot(s.target.id, i64)
        if kind is not i64:
            raise self.refuse(s, f"{s.target.id} is no i64")
        head, body, following, end = self.labels("for", "do", "next", "done")
        self.jump(head)
        self.begin(head)
        number = self.let(f"load i64, ptr {counter}")
        self.branch(self.let(f"icmp {'slt' if step > 0 else 'sgt'} i64 {number}, {stop}"), body, end)
        self.begin(body)
        self.emit(f"store i64 {number}, ptr {at}")
        self.are_set.add(s.target.id)
        self.loops.append((following, end))
        self.block(s.body)
        self.loops.pop()
        self.jump(following)
        self.begin(following)
        self.emit(f"store i64 {self.let(f'add i64 {number}, {step}')}, ptr {counter}")
        self.jump(head)
        self.begin(end)

    def _unrolled(self, s: ast.For) -> None:
        """A loop over a value that is known while compiling: the body is written once for each item."""
        parts = s.target.elts if isinstance(s.target, ast.Tuple) else [s.target]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        if s.orelse or len(names) < len(parts) or any(name in self.variables for name in names):
            raise self.refuse(s, "a loop over constants, without else and with names of its own")
        self.loops.append(None)
        for turn in tuple(self.evaluated(s.iter)):
            self.turn.update(zip(names, turn if isinstance(s.target, ast.Tuple) else [turn], strict=True))
            self.block(s.body)
        self.loops.pop()
        for name in names:
            self.turn.pop(name, None)

    def on_Break(self, s: ast.Break) -> None:
        self._leave(s, 1)

    def on_Continue(self, s: ast.Continue) -> None:
        self._leave(s, 0)

    def _leave(self, s: ast.stmt, way: int) -> None:
        if self.loops[-1] is None:
            raise self.refuse(s, "no way out of a loop over constants")
        self.jump(self.loops[-1][way])

    def on_Assert(self, s: ast.Assert) -> None:
        if self.module.checks:
            self.check(self.truth(s.test), s, "assertion failed")

    def on_Return(self, s: ast.Return) -> None:
        result, e = self.routine.result, s.value
        if e is None or result is void:
            if e is not None or result is not void:
                raise self.refuse(s, f"{self.routine.name} gives {result.__name__}")
        else:
            value = self.taken(e, result) if is_owned(result) else self.expr(e, result)
            ends = (e.body, e.orelse) if isinstance(e, ast.IfExp) else (e,)
            if not is_owned(result) and self.owned.keys() & {getattr(end, "id", "") for end in ends}:
                raise self.refuse(s, "the reference is given back here: the result is no `own`")
            value = self.fit(value, result, s)
            self.emit(f"store {spelled(result)} {value.text}, ptr %.result")
        self.jump("leave")

