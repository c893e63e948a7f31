"""The body of one function: its control flow.  Innermost loops are the work of `vector_loop` where they can be.

    nest.NestFunction  ->  lines of the internal function  i32 @name.body(ptr noalias ..., i64 ...)

Loops keep their shape: a header with the phis and the test, a body, a block behind.

    loop.1:
      %i.1 = phi i64 [ 0, %entry ], [ %next.1, %body.1 ]
      %more.1 = icmp slt i64 %i.1, %n
      br i1 %more.1, label %body.1, label %done.1
    body.1:
      ...
      %next.1 = add nuw nsw i64 %i.1, 1
      br label %loop.1
    done.1:

`scf.parallel` is the same loops, nested: its iterations are run in order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar

from ..kernel.nest import F32, Block, MemRef, NestFunction, Operation, ScalarType, Value
from .debug import PlaceOf, Places, ToldLines
from .loop_plan import plan_loop
from .math import Need, named
from .operations import SCALAR, MemoryWriter
from .phases import phases, write_in_runs
from .short_rows import pays, unrolled, write_held
from .target import Target
from .tiles import write_tiles
from .types import llvm_type
from .vector_loop import VectorLoop


class Needs:
    """Declarations, by name, and elementary functions that the bodies of a module ask for.

    place_of   where nodes were recorded, if the module has debug info;  metadata: that of its functions
    """

    def __init__(self, place_of: PlaceOf | None = None) -> None:
        self.place_of = place_of
        self.metadata: list[str] = []
        self.declarations: dict[str, str] = {}
        self.functions: Counter[Need] = Counter()  # how often each is called

    def function(self, name: str, type: ScalarType, lanes: int, *, is_called: bool) -> str:
        """An elementary function of vectors of `lanes`; its name."""
        suffix = "f32" if type is F32 else "f64"
        self.functions[name, suffix, lanes, is_called] += 1
        return named(name, suffix, lanes, is_called=is_called)


def argument_names(function: NestFunction) -> list[str]:
    """The LLVM name of each argument: its own where LLVM allows it plainly and it is not taken."""
    names: dict[str, None] = {}
    for j in range(len(function.arguments)):
        name = function.names[j] if j < len(function.names) else ""
        # No name of ours has no dot, so only the arguments can clash with each other.
        plain = name.isascii() and name.isidentifier() and f"%{name}" not in names
        names[f"%{name}" if plain else f"%arg.{j}"] = None
    return list(names)


class BodyWriter(MemoryWriter):
    """Writes one function's operations as lines."""

    def __init__(self, function: NestFunction, needs: Needs, target: Target) -> None:
        self.function = function
        self.needs = needs
        self.target = target
        self.places = None if needs.place_of is None else Places(function.name, needs.place_of)
        self.lines: list[str] = [] if self.places is None else ToldLines()
        self.scratch: list[str] = []  # allocas: all in the entry block, so that a loop does not grow the stack
        self.names: dict[Value, str] = dict(zip(function.arguments, argument_names(function), strict=True))
        indices = function.indices or [a for a in function.arguments if not isinstance(a.type, MemRef)]
        self.extents = [self.names.get(a, "") for a in indices]
        self.multiples = {self.names[a]: multiple for a, multiple in function.multiples.items()}
        self.offsets: dict[tuple, str] = {}  # (extents, indices) -> name of the linear index, where it dominates
        self.label = "entry"
        self.calls = False  # whether elementary functions are called rather than inlined
        self.goes_past_caches = False
        self.count = 0

    def write(self) -> list[str]:
        """The lines between the braces."""
        self._operations(self.function.body)
        lines = self.lines if self.places is None else self.places.lines(self.lines)
        return ["entry:", *self.scratch, *lines]

    def tell(self, operation: Operation) -> None:
        """Say that what is written now belongs to an operation's node."""
        if self.places is not None:
            self.lines.node = operation.node  # type: ignore[attr-defined]  # `places` says that lines are told

    # ---- what operations ask for (Writer) ----

    def next_number(self) -> int:
        """For a name that nothing else has."""
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
        """The mark of a store that goes past the caches to memory, and leaves them to data that will be read."""
        self.goes_past_caches = True
        self.needs.declarations["!0"] = "!0 = !{i32 1}"
        return "!nontemporal !0"

    def elementary(self, name: str, type: ScalarType) -> str:
        return self.needs.function(name, type, 1, is_called=self.calls)

    # ---- operations ----

    def _operations(self, block: Block) -> list[str]:
        """Write a block; give the names of its terminator's operands."""
        self._straight(block.operations)
        return [self.names[v] for v in block.operations[-1].operands]

    def _straight(self, operations: Sequence[Operation]) -> None:
        names = self.names
        for operation in operations:
            operands = [names[v] for v in operation.operands]
            self.tell(operation)
            emit = SCALAR.get(operation.name)
            if emit is not None:
                names[operation.results[0]] = emit(self, operation, operands)
            else:
                self._structured[operation.name](self, operation, operands)

    def _region(self, block: Block) -> list[str]:
        """Write a block that need not be reached: linear indices made in it end with it."""
        outside = self.offsets
        self.offsets = dict(outside)
        yielded = self._operations(block)
        self.offsets = outside
        return yielded

    def _terminator(self, operation: Operation, operands: list[str]) -> None:
        """scf.yield and scf.reduce: what encloses them reads the operands."""

    def _return(self, operation: Operation, operands: list[str]) -> None:
        if self.goes_past_caches:
            self.lines.append("  fence seq_cst")  # such stores wait for no others: now they are seen before the end is
        self.lines.append(f"  ret i32 {operands[0]}")

    def _call(self, operation: Operation, operands: list[str]) -> None:
        types = tuple(llvm_type(v.type) for v in operation.operands)
        assert len(operation.results) < 2, f"{operation.attributes['callee']}: a call has at most one result"
        result = llvm_type(operation.results[0].type) if operation.results else "void"
        callee = self.declare(operation.attributes["callee"], result, types)
        text = f"call {result} {callee}({', '.join(f'{t} {o}' for t, o in zip(types, operands, strict=True))})"
        if operation.results:
            self.names[operation.results[0]] = self.value(text)
        else:
            self.lines.append(f"  {text}")

    # ---- control flow ----

    def _for(self, operation: Operation, operands: list[str]) -> None:
        lower, upper, step, *initial = operands
        (block,) = operation.regions
        apart = "apart" in operation.attributes
        if not initial and step == "1" and write_held(self, block, lower, upper):
            return
        results = self._innermost(block, block.arguments[0], lower, upper, step, initial, independent=apart)
        if results is None:
            results = self._around_others(block, lower, upper, step, initial)
        self.names.update(zip(operation.results, results, strict=True))

    def _around_others(self, block: Block, lower: str, upper: str, step: str, initial: list[str]) -> list[str]:
        """The loop as it stands, or by tiles, or by runs."""
        counter = block.arguments[0]
        if not initial and self._tiles(block, counter, lower, upper, step, independent=False):
            return []
        results = write_in_runs(self, block, lower, upper, initial) if initial and step == "1" else None
        return self.loop(block, counter, lower, upper, step, initial) if results is None else results

    def _parallel(self, operation: Operation, operands: list[str]) -> None:
        (block,) = operation.regions
        rank = len(block.arguments)
        self._nested(block, operands[:rank], operands[rank : 2 * rank], operands[2 * rank :], 0)

    def _nested(self, block: Block, lowers: list[str], uppers: list[str], steps: list[str], depth: int) -> list[str]:
        if depth == len(block.arguments):
            return self._region(block)
        counter, bounds = block.arguments[depth], (lowers[depth], uppers[depth], steps[depth])
        if depth == len(block.arguments) - 1:
            if self._innermost(block, counter, *bounds, [], independent=True) == []:
                return []
            if self._tiles(block, counter, *bounds, independent=True):
                return []
        self.loop(block, counter, *bounds, [], lambda: self._nested(block, lowers, uppers, steps, depth + 1))
        return []

    def _innermost(
        self, block: Block, counter: Value, lower: str, upper: str, step: str, initial: list[str], *, independent: bool
    ) -> list[str] | None:
        """The loop in vectors; gives what it carried, or None if it cannot be."""
        carried = block.arguments[1:] if initial else []
        plan = plan_loop(block, counter, carried, independent=independent) if step == "1" else None
        if plan is None and step == "1" and (written := unrolled(block)) is not None:
            flat, before = written
            plan = plan_loop(flat, counter, carried, independent=independent)
            if plan is None or not pays(plan):
                return None
            self._straight(before)
            block = flat
        if plan is None:
            return None
        trips = max(0, int(upper) - int(lower)) if upper.isdigit() and lower.isdigit() else None
        covering = phases(plan, trips, self.target, multiple=math.gcd(self._multiple(lower), self._multiple(upper)))
        return VectorLoop(self, block, counter, plan).write(lower, upper, initial, covering)

    def _tiles(self, block: Block, counter: Value, lower: str, upper: str, step: str, *, independent: bool) -> bool:
        """The loop and the one in it by tiles, if that pays."""
        return step == "1" and write_tiles(self, block, counter, lower, upper, independent=independent)

    def _multiple(self, bound: str) -> int:
        """A number that certainly divides a bound."""
        return int(bound) if bound.isdigit() else self.multiples.get(bound, 1)

    def loop(
        self,
        block: Block,
        counter: Value,
        lower: str,
        upper: str,
        step: str,
        initial: list[str],
        write: Callable[..., list[str]] | None = None,
        *,
        types: Sequence[str] | None = None,
    ) -> list[str]:
        """A loop over one of the block's arguments; gives what it carried.

        `write(*carried)` writes its body and gives the names carried on; by default it is the block.  The carried
        values are the arguments behind the counter, or others of these types.
        """
        number, before = self.next_number(), self.label
        variable, after = f"%i.{number}", f"%next.{number}"
        self.names[counter] = variable
        phis = [f"%acc.{number}.{j}" for j in range(len(initial))]
        if types is None:
            carried = block.arguments[1:] if initial else []
            self.names.update(zip(carried, phis, strict=True))
            types = [llvm_type(value.type) for value in carried]

        self.lines.append(f"  br label %loop.{number}")
        self.start(f"loop.{number}")
        header = len(self.lines)
        self.lines += [""] * (1 + len(phis))  # the phis: what the body carries on is not known yet
        self.lines.append(f"  %more.{number} = icmp slt i64 {variable}, {upper}")
        self.lines.append(f"  br i1 %more.{number}, label %body.{number}, label %done.{number}")
        self.start(f"body.{number}")
        yielded = write(*phis) if write else self._region(block)
        # A variable below the upper bound cannot overflow by a step of one; a start that is not
        # negative stays so.
        wraps = " nsw" if step == "1" else ""
        wraps = f" nuw{wraps}" if wraps and lower.isdigit() else wraps
        self.lines.append(f"  {after} = add{wraps} i64 {variable}, {step}")
        self.lines.append(f"  br label %loop.{number}")
        self.lines[header] = f"  {variable} = phi i64 [ {lower}, %{before} ], [ {after}, %{self.label} ]"
        for j, (type, first, last) in enumerate(zip(types, initial, yielded, strict=True)):
            self.lines[header + 1 + j] = (
                f"  {phis[j]} = phi {type} [ {first}, %{before} ], [ {last}, %{self.label} ]"
            )
        self.start(f"done.{number}")
        return phis

    def _if(self, operation: Operation, operands: list[str]) -> None:
        then, otherwise = operation.regions
        self.count += 1
        number = self.count
        self.lines.append(f"  br i1 {operands[0]}, label %then.{number}, label %else.{number}")
        arms = []
        for label, block in (("then", then), ("else", otherwise)):
            self.start(f"{label}.{number}")
            arms.append((self._region(block), self.label))
            self.lines.append(f"  br label %join.{number}")
        self.start(f"join.{number}")
        for j, result in enumerate(operation.results):
            (yes, yes_label), (no, no_label) = ((names[j], label) for names, label in arms)
            self.names[result] = self.value(
                f"phi {llvm_type(result.type)} [ {yes}, %{yes_label} ], [ {no}, %{no_label} ]"
            )

    def start(self, label: str) -> None:
        """A new block of LLVM's."""
        self.label = label
        self.lines.append(f"{label}:")

    _structured: ClassVar[dict[str, Callable]] = {
        "func.call": _call,
        "func.return": _return,
        "memref.alloca": MemoryWriter.allocate,
        "memref.load": MemoryWriter.load_from,
        "memref.store": MemoryWriter.store_to,
        "scf.for": _for,
        "scf.if": _if,
        "scf.parallel": _parallel,
        "scf.reduce": _terminator,
        "scf.yield": _terminator,
    }
