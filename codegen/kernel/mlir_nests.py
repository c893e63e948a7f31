"""The writer of one function of MLIR: names, constants, calls, copies, views of memory.

Loops and branches as MLIR: scf.for, scf.if and scf.while that call the functions of their bodies.

States and elements are copied to where a body reads and writes them; native code moves pointers instead.  A loop
that goes back over the states of an scf.while counts first: then memory for the states can be taken.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..ir import Aval
from ..program import Branch, Buffer, BufferProgram, Loop, Place, Run, While

__all__ = ["Memory", "MlirWriter", "NestWriter", "memref_of"]

#: The type of an array's element in memory.
_ELEMENTS = {
    "bool": "i8", "int32": "i32", "int64": "i64", "float32": "f32", "float64": "f64",
    "complex64": "complex<f32>", "complex128": "complex<f64>",
}  # fmt: skip

#: A memref: its name and its type.
Memory = tuple[str, str]


def memref_of(aval: Aval) -> str:
    """The type of a packed array."""
    return f"memref<{''.join(f'{n}x' for n in aval.shape)}{_ELEMENTS[np.dtype(aval.dtype).name]}>"


class MlirWriter:
    """A function that grows line by line.

    buffers, names    of the program, and what each is called
    constants         stand at the function's top, each once
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self.names: list[str] = []
        self.constants: dict[tuple[int, str], str] = {}
        self.lines: list[str] = []
        self.count = 0
        for number, buffer in enumerate(buffers):
            earlier = sum(b.role == "temporary" for b in buffers[:number])
            letter = {"input": "x", "output": "y", "temporary": "t"}[buffer.role]
            self.names.append(f"%{letter}{earlier if buffer.role == 'temporary' else buffer.place}")

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def constant(self, value: int, type: str) -> str:
        suffix = "" if type == "index" else f"_{type}"
        return self.constants.setdefault((value, type), f"%c{value}{suffix}")

    def given(self, operation: str) -> str:
        """The name of what an operation gives."""
        name = self.fresh()
        self.lines.append(f"{name} = {operation}")
        return name

    def index(self, name: str, *operands: str) -> str:
        return self.given(f"arith.{name} {', '.join(operands)} : index")

    def call(self, name: str, operands: Sequence[str], types: Sequence[str], result: str = "") -> None:
        start, returned = (f"{result} = ", "i32") if result else ("", "()")
        self.lines.append(f"{start}func.call @{name}({', '.join(operands)}) : ({', '.join(types)}) -> {returned}")

    def is_zero(self, status: str) -> str:
        return self.given(f"arith.cmpi eq, {status}, {self.constant(0, 'i32')} : i32")

    def first_failure(self, before: str, new: str) -> str:
        """The status of the steps so far, from that of those before and that of the last; "" is 0."""
        if not before or not new:
            return before or new
        return self.given(f"arith.select {self.is_zero(before)}, {new}, {before} : i32")

    @contextmanager
    def region(self, head: str, end: str = "}") -> Iterator[None]:
        """A context whose lines stand between these two."""
        self.lines.append(head)
        start = len(self.lines)
        yield
        self.lines[start:] = [*["  " + line for line in self.lines[start:]], end]

    # ---- memory

    def type_of(self, buffer: int) -> str:
        return memref_of(self.buffers[buffer].aval)

    def memory(self, buffer: int) -> Memory:
        return self.names[buffer], self.type_of(buffer)

    def alloc(self, aval: Aval) -> Memory:
        type = memref_of(aval)
        return self.given(f"memref.alloc() {{alignment = 64 : i64}} : {type}"), type

    def dealloc(self, memory: Memory) -> None:
        self.lines.append(f"memref.dealloc {memory[0]} : {memory[1]}")

    def copy(self, source: Memory, target: Memory) -> None:
        # The generic form: xDSL has no other.
        self.lines.append(f'"memref.copy"({source[0]}, {target[0]}) : ({source[1]}, {target[1]}) -> ()')

    def at(self, buffers: Sequence[int], place: Place, aval: Aval, t: str = "") -> Memory:
        """A value at a place among these buffers; with `t`, that element of an array that begins there."""
        return self.element(self.memory(buffers[place[0]]), place[1], aval, t)

    def element(self, memory: Memory, start: int, aval: Aval, t: str = "") -> Memory:
        """An element of any memory."""
        offset = self.constant(start, "index")
        if t:
            offset = self.index("addi", self.index("muli", t, self.constant(aval.size, "index")), offset)
        strides = ", ".join([str(math.prod(aval.shape[i + 1 :])) for i in range(aval.ndim)])
        type = memref_of(aval)[:-1] + f", strided<[{strides}], offset: ?>>"
        name = self.given(
            f"memref.reinterpret_cast {memory[0]} to offset: [{offset}], "
            f"sizes: [{', '.join(map(str, aval.shape))}], strides: [{strides}] : {memory[1]} to {type}"
        )
        return name, type


# ---------------------------------------------------------------- loops and branches


_ANSWER = Aval((), np.dtype(np.bool_))


class NestWriter(MlirWriter):
    """A writer of steps that have bodies.  Each method gives the name of the step's status."""

    @abstractmethod
    def function_of(self, body: BufferProgram) -> str:
        """Write the function of a body; its name."""

    def loop(self, loop: Loop, buffers: Sequence[int]) -> str:
        """An scf.for."""
        scanned = [(self.memory(buffers[number]), start) for number, start in loop.scanned]
        return self._loop(loop, buffers, self.constant(loop.length, "index"), scanned)

    def _loop(self, loop: Loop, buffers: Sequence[int], length: str, scanned: Sequence[tuple[Memory, int]]) -> str:
        """`scanned`: the memory that each run gets an element of, and where elements begin in it."""
        name = self.function_of(loop.body)
        inputs, carried, split = loop.body.inputs, loop.carried, loop.carried + len(loop.scanned)
        own = [self.alloc(aval) for aval in (*inputs[:split], *loop.body.outputs)]
        states, elements, after = own[:carried], own[carried:split], own[split:]
        hidden, copies = self._read(buffers, loop.hidden, inputs[split:])
        self._copy_from(buffers, loop.firsts, inputs, states)
        status, before, t = self.fresh(), self.fresh(), self.fresh()
        first, one, zero = self.constant(0, "index"), self.constant(1, "index"), self.constant(0, "i32")
        head = f"scf.for {t} = {first} to {length} step {one} iter_args({before} = {zero}) -> (i32) {{"
        with self.region(f"{status} = {head}"):
            at = self.index("subi", self.index("subi", length, one), t) if loop.is_reversed else t
            for state, aval, place in zip(states, inputs, loop.befores, strict=False):
                if place is not None:
                    self.copy(state, self.at(buffers, place, aval, at))
            for (memory, start), element, aval in zip(scanned, elements, loop.elements, strict=True):
                self.copy(self.element(memory, start, aval, at), element)
            new = self._run(name, [*states, *elements, *hidden, *after])
            for value, aval, place in zip(after[carried:], loop.stacked, loop.stacks, strict=True):
                self.copy(value, self.at(buffers, place, aval, at))
            for state, value in zip(states, after, strict=False):
                self.copy(value, state)
            self.lines.append(f"scf.yield {self.first_failure(before, new)} : i32")
        self._copy_to(buffers, loop.lasts, inputs, states)
        self._free([*own, *copies])
        return status

    def branch(self, branch: Branch, buffers: Sequence[int]) -> str:
        """An scf.if."""
        yes, no = self.function_of(branch.yes.body), self.function_of(branch.no.body)
        chosen = self._is_true(self.at(buffers, branch.chosen, _ANSWER))
        status = self.fresh()
        with self.region(f"{status} = scf.if {chosen} -> (i32) {{", "} else {"):
            self._one_run(yes, branch.yes, buffers)
        with self.region(self.lines.pop()):
            self._one_run(no, branch.no, buffers)
        return status

    def _one_run(self, name: str, run: Run, buffers: Sequence[int]) -> None:
        inputs, copies = self._read(buffers, run.inputs, run.body.inputs)
        outputs = [self.alloc(aval) for aval in run.body.outputs]
        status = self._run(name, [*inputs, *outputs])
        self._copy_to(buffers, run.outputs, run.body.outputs, outputs)
        self._free([*outputs, *copies])
        self.lines.append(f"scf.yield {status} : i32")

    def repeat(self, loop: While, buffers: Sequence[int]) -> str:
        """An scf.while, and what goes back over its states."""
        condition, step = self.function_of(loop.condition), self.function_of(loop.step)
        states, after = ([self.alloc(aval) for aval in loop.states] for _ in range(2))
        answer = self.alloc(_ANSWER)
        carried = len(loop.states)
        hidden, copies = self._read(buffers, loop.hidden, loop.step.inputs[carried:])
        self._copy_from(buffers, loop.firsts, loop.states, states)
        asked, none = self._run(condition, [*states, *hidden, answer]), self.constant(0, "index")
        result, before, count = self.fresh(), self.fresh(), self.fresh()
        head = f"{result}:2 = scf.while ({before} = {asked}, {count} = {none}) : (i32, index) -> (i32, index) {{"
        with self.region(head, "} do {"):
            goes_on = self.given(f"arith.andi {self._is_true(answer)}, {self.is_zero(before)} : i1")
            self.lines.append(f"scf.condition({goes_on}) {before}, {count} : i32, index")
        done, runs = self.fresh(), self.fresh()
        with self.region(self.lines.pop()):
            self.lines.append(f"^bb0({done}: i32, {runs}: index):")
            status = self._run(step, [*states, *hidden, *after, answer])
            for value, state in zip(after, states, strict=True):
                self.copy(value, state)
            more_runs = self.index("addi", runs, self.constant(1, "index"))
            self.lines.append(f"scf.yield {self.first_failure(done, status)}, {more_runs} : i32, index")
        status = f"{result}#0"
        if loop.back is None:
            self._copy_to(buffers, loop.lasts, loop.states, states)
        else:
            self._copy_from(buffers, loop.firsts, loop.states, states)
            counted = f"{result}#1"
            went = self._back(loop, loop.back, buffers, counted, step, states, hidden, [*after, answer])
            status = self.first_failure(status, went)
        self._free([*states, *after, answer, *copies])
        return status

    def _back(
        self, loop: While, back: Loop, buffers: Sequence[int], count: str,
        step: str, states: list[Memory], hidden: list[Memory], after: list[Memory],
    ) -> str:  # fmt: skip
        """The states of all runs, kept, and the loop that goes over them."""
        kept = []
        for aval in loop.states:
            type = f"memref<?x{memref_of(aval.with_shape(()))[7:]}"
            size = self.index("muli", count, self.constant(aval.size, "index"))
            kept.append((self.given(f"memref.alloc({size}) {{alignment = 64 : i64}} : {type}"), type))
        t, none, one = self.fresh(), self.constant(0, "index"), self.constant(1, "index")
        with self.region(f"scf.for {t} = {none} to {count} step {one} {{"):
            for memory, state, aval in zip(kept, states, loop.states, strict=True):
                self.copy(state, self.element(memory, 0, aval, t))
            self._run(step, [*states, *hidden, *after])
            for value, state in zip(after, states, strict=False):
                self.copy(value, state)
        status = self._loop(back, buffers, count, [(memory, 0) for memory in kept])
        self._free(kept)
        return status

    # ---- what they share

    def _run(self, name: str, operands: Sequence[Memory]) -> str:
        status = self.fresh()
        self.call(name, [n for n, _ in operands], [type for _, type in operands], status)
        return status

    def _is_true(self, memory: Memory) -> str:
        answer = self.given(f"memref.load {memory[0]}[] : {memory[1]}")
        return self.given(f"arith.cmpi ne, {answer}, {self.constant(0, 'i8')} : i8")

    def _read(
        self, buffers: Sequence[int], places: Sequence[Place], avals: Sequence[Aval]
    ) -> tuple[list[Memory], list[Memory]]:
        """Values as a body reads them, and which of them are copies: parts of larger arrays."""
        found, copies = [], []
        for (number, start), aval in zip(places, avals, strict=True):
            memory = self.memory(buffers[number])
            if start or memory[1] != memref_of(aval):
                part = self.element(memory, start, aval)
                memory = self.alloc(aval)
                self.copy(part, memory)
                copies.append(memory)
            found.append(memory)
        return found, copies

    def _copy_from(
        self, buffers: Sequence[int], places: Sequence[Place], avals: Sequence[Aval], targets: Sequence[Memory]
    ) -> None:
        for place, aval, target in zip(places, avals, targets, strict=False):
            self.copy(self.at(buffers, place, aval), target)

    def _copy_to(
        self, buffers: Sequence[int], places: Sequence[Place | None], avals: Sequence[Aval], values: Sequence[Memory]
    ) -> None:
        for place, aval, value in zip(places, avals, values, strict=False):
            if place is not None:
                self.copy(value, self.at(buffers, place, aval))

    def _free(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            self.dealloc(memory)
