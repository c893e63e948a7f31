"""The lines of LLVM text of one function: instructions with their source lines, blocks, and checks.

A use of a local is refused unless the local is set on every way to the use.  A block is begun after all blocks that
lead to it, except the head of a loop, to which the body jumps back: the body sets no fewer locals than the head.
"""

from __future__ import annotations

import ast
from collections import ChainMap, Counter
from collections.abc import Mapping
from typing import Any

from .numbers import i64
from .routines import Routine
from .structs import ptr
from .translation import ModuleText, NotNative, in_memory, spelled


class TextWriter:
    """The text of a function while it is written.

    variables   the address and type of each local and parameter
    lengths     the lengths of arrays, by the local that points to one and is assigned only once
    values      values of parameters that are never assigned, and of locals that are an array: they need no place
    scope       names that are known while compiling; those of unrolled loops come first
    given       the number of assignments to each local in the source
    loops       the blocks that `continue` and `break` jump to, by loop; None for an unrolled loop
    are_set     locals and parameters that have a value at the present instruction
    set_at      by block, the locals that have a value on every way to it so far
    owned       by name, the places of `own` locals and parameters, which hold a reference or null
    owners      by value, the name of the `own` local it was read from;   moves: by local, the last move out of it
    arrays      the cells that hold the address and count of `own` places on the stack
    new         by value, the call that gave a new reference not yet stored;   called: the value of the latest call
    """

    def __init__(self, module: ModuleText, routine: Routine) -> None:
        self.module, self.routine, self.tree = module, routine, routine.tree
        self.variables: dict[str, tuple[str, Any]] = {}
        self.lengths: dict[str, int] = {}
        self.values: dict[str, str] = {}
        self.turn: dict[str, Any] = {}
        self.scope: Mapping[str, Any] = ChainMap(self.turn, routine.scope)  # type: ignore[arg-type]  # read only
        names = [n for n in ast.walk(self.tree) if isinstance(n, ast.Name)]
        self.given = Counter([n.id for n in names if isinstance(n.ctx, ast.Store)])
        self.loops: list[tuple[str, str] | None] = []
        self.lines: list[str] = []
        self.heads: list[str] = []
        self.line = self.tree.lineno
        self.is_closed = False
        self.are_set = {name for name, _ in routine.params}
        self.set_at: dict[str, set[str]] = {}
        self.owned: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        self.moves: dict[str, ast.AST] = {}
        self.arrays: list[tuple[str, str]] = []
        self.new: dict[str, ast.AST] = {}
        self.called = ""
        self._begun: set[str] = set()
        self._count = 0
        self._subprogram = module.subprogram(routine, self.line)
        self._places: dict[int, str] = {}

    # ------------------------------------------------------------ text

    def emit(self, text: str) -> None:
        """Append an instruction, with the present source line."""
        if self.line not in self._places:
            self._places[self.line] = self.module.metadata(f"!DILocation(line: {self.line}, scope: {self._subprogram})")
        self.lines.append(f"  {text}, !dbg {self._places[self.line]}")

    def let(self, text: str) -> str:
        """Append an instruction, and return the name of its result."""
        name = self.fresh("%v")
        self.emit(f"{name} = {text}")
        return name

    def fresh(self, what: str) -> str:
        self._count += 1
        return f"{what}.{self._count}"

    def cell(self, kind: Any) -> str:
        """Room for a value on the stack."""
        name = self.fresh("%cell")
        self.heads.append(f"  {name} = alloca {spelled(kind)}")
        return name

    def labels(self, *words: str) -> list[str]:
        return [self.fresh(word) for word in words]

    def begin(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.is_closed = False
        self._begun.add(label)
        # In an unreachable block every name counts as set.
        self.are_set = set(self.set_at.get(label, self.variables))

    def jump(self, label: str) -> None:
        """End the block with a jump, if it has not ended."""
        if not self.is_closed:
            self._lead_to(label)
            self.emit(f"br label %{label}")
        self.is_closed = True

    def branch(self, truth: str, yes: str, no: str) -> None:
        self._lead_to(yes)
        self._lead_to(no)
        self.emit(f"br i1 {truth}, label %{yes}, label %{no}")
        self.is_closed = True

    def _lead_to(self, label: str) -> None:
        """Note which locals have a value on the way from here to a block.  Raises NotNative."""
        if label in self._begun and (gone := self.set_at[label] - self.are_set):
            name = min(gone)
            raise self.refuse(self.moves[name], f"{name} has no value in the next turn of the loop: it is moved here")
        self.set_at[label] = self.set_at.get(label, self.are_set) & self.are_set

    def refuse(self, node: Any, why: str) -> NotNative:
        line = getattr(node, "lineno", self.line)
        text = ast.unparse(node).partition("\n")[0]
        return NotNative(f"{self.routine.file}:{line}: in {self.routine.name}: {why}\n    {text}")

    def check(self, good: str, node: ast.AST, why: str) -> None:
        """Append a check that ends the process with a message unless a condition is true."""
        fine, stop = self.labels("fine", "stop")
        self.branch(good, fine, stop)
        self.begin(stop)
        said = f"{self.routine.file}:{getattr(node, 'lineno', self.line)}: {why}: {ast.unparse(node)}"
        fatal = self.module.declared("Py_FatalError", "void", "ptr")
        self.emit(f"call void {fatal}(ptr {self.module.string(said)})")
        self.emit("unreachable")
        self.begin(fine)

    # ------------------------------------------------------------ locals

    def slot(self, name: str, kind: Any) -> tuple[str, Any]:
        """The place and type of a local, which is made at its first use."""
        if name not in self.variables:
            self.heads.append(f"  %{name}.at = alloca {spelled(kind)}")
            self.variables[name] = (f"%{name}.at", kind)
        return self.variables[name]

    def loaded(self, at: str, kind: Any) -> str:
        """Load a value from memory, and return its name."""
        align = f", align {kind.item.bits // 8}" if hasattr(kind, "lanes") else ""
        text = self.let(f"load {in_memory(kind)}, ptr {at}{align}")
        return self.let(f"trunc i8 {text} to i1") if kind is bool else text

    def own(self, name: str) -> None:
        """Have the reference of a local released on every way out of the function; the local starts as null."""
        self.owned[name] = self.variables[name][0]
        self.heads.append(f"  store ptr null, ptr {self.owned[name]}")

    def own_all(self, name: str, number: str, e: ast.AST) -> None:
        """Have the references in `number` places on the stack released on every way out; the places start as null."""
        if self.loops:
            raise self.refuse(e, "`own` places: not in loops")
        at, count = self.cell(ptr), self.cell(i64)
        self.heads += [f"  store ptr null, ptr {at}", f"  store i64 0, ptr {count}"]
        self.arrays.append((at, count))
        fill = self.module.declared("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1")
        self.emit(f"call void {fill}(ptr {name}, i8 0, i64 {self.let(f'mul i64 8, {number}')}, i1 false)")
        self.emit(f"store ptr {name}, ptr {at}")
        self.emit(f"store i64 {number}, ptr {count}")

    def give_back(self, text: str) -> None:
        """Append the release of a reference, unless it is null or a small number."""
        self.emit(f"call void {self.module.giving_back('give_back')}(ptr {text})")

    def move(self, name: str, e: ast.AST) -> None:
        """Take the reference out of a local whose value has been read; the local then has no value."""
        self.moves[name] = e
        self.emit(f"store ptr null, ptr {self.owned[name]}")
        self.are_set.discard(name)

    def kept(self, text: str, kind: Any, at: str) -> None:
        """Append a store of a value to memory."""
        if kind is bool:
            text = self.let(f"zext i1 {text} to i8")
        align = f", align {kind.item.bits // 8}" if hasattr(kind, "lanes") else ""
        self.emit(f"store {in_memory(kind)} {text}, ptr {at}{align}")
