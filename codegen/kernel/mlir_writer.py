"""The writer of one function of MLIR: names, constants, calls, copies, views of memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..ir import Aval
from ..program import Buffer, Place

__all__ = ["Memory", "MlirWriter", "memref_of"]

#: How an array's element stands in memory.
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
