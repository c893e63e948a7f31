"""Write the body of one function: its control flow.  `vector_loop` writes the innermost loops that can run in vectors.

    nest.NestFunction  ->  lines of the internal function  i32 @name.body(ptr noalias ..., i64 ...)

A loop is a header with the phis and the test, a body, and a block behind.  A loop over vectors is tested at its end
instead, after a test before it if it may have no iteration.

    loop.1:
      %i.1 = phi i64 [ 0, %entry ], [ %next.1, %body.1 ]
      %t.2 = icmp slt i64 %i.1, %n
      br i1 %t.2, label %body.1, label %done.1
    body.1:
      ...
      %next.1 = add nuw nsw i64 %i.1, 1
      br label %loop.1
    done.1:

`scf.parallel` becomes the same loop: the iterations that a call is given run in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar

from ..kernel.nest import F32, Block, NestFunction, Operation, ScalarType, Value
from .debug import NodeLines, PlaceOf
from .loop_plan import plan_loop
from .math import Need, named
from .operations import SCALAR, MemoryWriter
from .phases import phases, write_in_runs
from .short_rows import unrolled, unrolling_pays, write_with_held_rows
from .target import Target
from .tiles import write_tiles
from .types import llvm_type
from .vector_loop import VectorLoop


class Needs:
    """Declarations, by name, and elementary functions that the bodies of a module use.

    place_of   gives the place of a node, if the module has debug info;  metadata   that of its functions
    """

    def __init__(self, place_of: PlaceOf | None = None) -> None:
        self.place_of = place_of
        self.metadata: list[str] = []
        self.declarations: dict[str, str] = {}
        self.functions: Counter[Need] = Counter()  # how often each is called

    def function(self, name: str, type: ScalarType, lanes: int, *, is_called: bool) -> str:
        """Request an elementary function of vectors of `lanes`; return its name."""
        suffix = "f32" if type is F32 else "f64"
        self.functions[name, suffix, lanes, is_called] += 1
        return named(name, suffix, lanes, is_called=is_called)


def argument_names(function: NestFunction) -> list[str]:
    """The LLVM name of each argument: its own name if LLVM allows that unquoted and it is not taken."""
    names: dict[str, None] = {}
    for j in range(len(function.arguments)):
        name = function.names[j] if j < len(function.names) else ""
        # All other names contain a dot, so only arguments can clash with each other.
        plain = name.isascii() and name.isidentifier() and f"%{name}" not in names
        names[f"%{name}" if plain else f"%arg.{j}"] = None
    return list(names)


class BodyWriter(MemoryWriter):
    """Writes one function's operations as lines."""

    def __init__(self, function: NestFunction, needs: Needs, target: Target) -> None:
        self.function = function
        self.needs = needs
        self.target = target
        self.lines: list[str] = [] if needs.place_of is None else NodeLines()
        self.scratch: list[str] = []  # allocas: all in the entry block, so that a loop does not grow the stack
        self.names: dict[Value, str] = dict(zip(function.arguments, argument_names(function), strict=True))
        self.label = "entry"
        self.calls = False  # True while elementary functions are called rather than inlined
        self.goes_past_caches = False
        self.count = 0

    def write(self) -> list[str]:
        """The lines between the braces."""
        self._operations(self.function.body)
        return ["entry:", *self.scratch, *self.lines]

    def attribute_to(self, operation: Operation) -> None:
        """Attribute the lines written from here on to an operation's node."""
        if isinstance(self.lines, NodeLines):
            self.lines.node = operation.node

    # ---- methods of `Writer`, which operations call ----

    def next_number(self) -> int:
        """A number for a unique name."""
        self.count += 1
        return self.count

    def value(self, instruction: str) -> str:
        name = f"%t.{self.next_number()}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def declare(self, name: str, result: str, arguments: tuple[str, ...]) -> str:
        text = f"declare {result} @{name}({', '.join(arguments)})"
        known = self.needs.declarations.setdefault(name, text)
        assert known == text, f"one name, two signatures: {known} and {text}"
        return f"@{name}"

    def past_caches(self) -> str:
        """The mark of a store that bypasses the caches, which then keep data that will be read."""
        self.goes_past_caches = True
        self.needs.declarations["!0"] = "!0 = !{i32 1}"
        return "!nontemporal !0"

    def elementary(self, name: str, type: ScalarType) -> str:
        return self.needs.function(name, type, 1, is_called=self.calls)

    # ---- operations ----

    def _operations(self, block: Block) -> list[str]:
        """Write a block; return the names of its terminator's operands."""
        self.write_operations(block.operations)
        return [self.names[v] for v in block.operations[-1].operands]

    def write_operations(self, operations: Sequence[Operation]) -> None:
        names = self.names
        for operation in operations:
            operands = [names[v] for v in operation.operands]
            self.attribute_to(operation)
            emit = SCALAR.get(operation.name)
            if emit is not None:
                names[operation.results[0]] = emit(self, operation, operands)
            else:
                self._structured[operation.name](self, operation, operands)

    def _terminator(self, operation: Operation, operands: list[str]) -> None:
        """scf.yield and scf.reduce write nothing: the enclosing loop reads their operands."""

    def _return(self, operation: Operation, operands: list[str]) -> None:
        if self.goes_past_caches:
            self.lines.append("  fence seq_cst")  # such stores are unordered: they become visible before the end
        self.lines.append(f"  ret i32 {operands[0]}")

    # ---- control flow ----

    def _for(self, operation: Operation, operands: list[str]) -> None:
        lower, upper, _, *initial = operands
        (block,), independent = operation.regions, "independent_except_carried" in operation.attributes
        if not initial and write_with_held_rows(self, block, lower, upper):
            return
        results = self._innermost(block, lower, upper, initial, independent=independent)
        if results is None:
            results = self._around_others(block, lower, upper, initial, independent=False)
        self.names.update(zip(operation.results, results, strict=True))

    def _parallel(self, operation: Operation, operands: list[str]) -> None:
        lower, upper, _ = operands
        (block,) = operation.regions
        if self._innermost(block, lower, upper, [], independent=True) is None:
            self._around_others(block, lower, upper, [], independent=True)

    def _around_others(
        self, block: Block, lower: str, upper: str, initial: list[str], *, independent: bool
    ) -> list[str]:
        """Write a loop around others: in tiles, in runs, or as it stands; return the carried values."""
        if not initial and write_tiles(self, block, lower, upper, independent=independent):
            return []
        results = write_in_runs(self, block, lower, upper, initial) if initial else None
        return self.loop(block, lower, upper, "1", initial) if results is None else results

    def _innermost(
        self, block: Block, lower: str, upper: str, initial: list[str], *, independent: bool
    ) -> list[str] | None:
        """Write the loop in vectors; return the carried values, or None if the loop cannot run in vectors."""
        plan = plan_loop(block, independent=independent)
        if plan is None and (written := unrolled(block)) is not None:
            flat, before = written
            plan = plan_loop(flat, independent=independent)
            if plan is None or not unrolling_pays(plan):
                return None
            self.write_operations(before)
            block = flat
        if plan is None:
            return None
        trips = max(0, int(upper) - int(lower)) if upper.isdigit() and lower.isdigit() else None
        return VectorLoop(self, block, plan).write(lower, upper, initial, phases(plan, trips, self.target))

    def loop(
        self,
        block: Block,
        lower: str,
        upper: str,
        step: str,
        initial: list[str],
        write: Callable[..., list[str] | None] | None = None,
        *,
        types: Sequence[str] | None = None,
        runs: bool | None = None,
        word: str = "loop",
        more: Callable[[list[str]], str] | None = None,
    ) -> list[str]:
        """Write a loop whose counter is the first of the block's arguments; return the carried values.

        `write(*carried)` writes the body and returns the names carried on, if any; by default the body is the block.
        The carried values are the arguments after the counter, or values of the types `types`.

        step    "" if the first name that `write` returns is the next counter
        runs    None: the loop is tested at its head.  Else it is tested at its end; True: it has an iteration for sure
        word    the name of its block
        more    more(names carried on) gives a bit; the loop ends when the bit is false
        """
        number, before = self.next_number(), self.label
        variable, after = f"%i.{number}", f"%next.{number}"
        inside, behind = f"{word}.{number}", f"done.{number}"
        self.names[block.arguments[0]] = variable
        phis = [f"%acc.{number}.{j}" for j in range(len(initial))]
        if types is None:
            carried = block.arguments[1:] if initial else []
            self.names.update(zip(carried, phis, strict=True))
            types = [llvm_type(value.type) for value in carried]
        if runs is False:
            is_any = self.value(f"icmp slt i64 {lower}, {upper}")
            self.lines.append(f"  br i1 {is_any}, label %{inside}, label %{behind}")
        else:
            self.lines.append(f"  br label %{inside}")
        self.start(inside)
        header = len(self.lines)
        if runs is None:
            goes_on = self.value(f"icmp slt i64 {variable}, {upper}")
            self.lines.append(f"  br i1 {goes_on}, label %body.{number}, label %{behind}")
            self.start(f"body.{number}")
        yielded = (write(*phis) or []) if write else self._operations(block)
        if not step:
            after, *yielded = yielded
        else:
            wraps = "nuw nsw" if runs is None and lower.isdigit() else "nsw"
            self.lines.append(f"  {after} = add {wraps} i64 {variable}, {step}")
        if runs is None:
            self.lines.append(f"  br label %{inside}")
        else:
            goes_on = self.value(f"icmp slt i64 {after}, {upper}")
            if more is not None:
                goes_on = self.value(f"and i1 {goes_on}, {more(yielded)}")
            self.lines.append(f"  br i1 {goes_on}, label %{inside}, label %{behind}")
        last = self.label
        self.lines[header:header] = [
            f"  {name} = phi {type} [ {first}, %{before} ], [ {then}, %{last} ]"
            for name, type, first, then in zip(
                (variable, *phis), ("i64", *types), (lower, *initial), (after, *yielded), strict=True
            )
        ]
        self.start(behind)
        if runs is not False:
            return phis if runs is None else yielded
        return [
            self.value(f"phi {type} [ {first}, %{before} ], [ {then}, %{last} ]")
            for type, first, then in zip(types, initial, yielded, strict=True)
        ]

    def up_to(self, first: str, count: int, upper: str) -> str:
        """The counter after `count` iterations from `first` on, but at most `upper`."""
        end = self.value(f"add nsw i64 {first}, {count}")
        return self.value(self.call("llvm.smin.i64", "i64", ("i64", end), ("i64", upper)))

    def whole(self, lower: str, upper: str, size: int) -> str:
        """The end of the last whole vector, or tile, of `size` elements."""
        if lower.isdigit() and upper.isdigit():
            return str(int(lower) + max(0, int(upper) - int(lower)) // size * size)
        count = upper if lower == "0" else self.value(f"sub i64 {upper}, {lower}")
        # An end before the start means no iteration, so the count must not be negative.
        count = self.value(self.call("llvm.smax.i64", "i64", ("i64", count), ("i64", 0)))
        whole = self.value(f"and i64 {count}, {-size}")
        return whole if lower == "0" else self.value(f"add i64 {lower}, {whole}")

    def start(self, label: str) -> None:
        """Begin a new LLVM block."""
        self.label = label
        self.lines.append(f"{label}:")

    _structured: ClassVar[dict[str, Callable]] = {
        "func.return": _return,
        "memref.alloca": MemoryWriter.allocate,
        "memref.load": MemoryWriter.load,
        "memref.store": MemoryWriter.store,
        "scf.for": _for,
        "scf.parallel": _parallel,
        "scf.reduce": _terminator,
        "scf.yield": _terminator,
    }
