"""A module of MLIR: functions, or a whole program.

    module {
      func.func private @gemm_f64(memref<?xf64>, memref<?xf64>, memref<?xf64>, i64, ...)
      func.func private @k0(%x: memref<8xf64>, ...) -> i32 { ... }
      func.func @f(%x0: memref<8xf64>, %y0: memref<f64>) -> i32 attributes {llvm.emit_c_interface} {
        %t0 = memref.alloc() {alignment = 64 : i64} : memref<8xf64>
        %0 = func.call @k0(%x0, %t0) : (memref<8xf64>, memref<8xf64>) -> i32
        ...
        memref.dealloc %t0 : memref<8xf64>
        func.return %4 : i32
      }
    }

A program's entry takes its inputs (`%x0`, ...), then its outputs (`%y0`, ...), all packed, and
gives the first status that is not 0.  Every step runs: what a failed step has not written is read
as it is, and only a status says so; the caller throws the outputs away.

Loops and branches call the functions of their bodies (`mlir_nests`).

Two kinds of functions are declared, not defined, both with a C interface (`_mlir_ciface_<name>`,
memrefs by pointer to their descriptors):

    gemm_f32, gemm_f64   (a, b, c, m, n, k, transpose_a, transpose_b, batch, stride_a, stride_b,
                         stride_c), memrefs flat, numbers i64; the meaning is `program.Gemm`'s
    <operation>          a host call: memrefs of its inputs, then of its output, with exact types;
                         one declaration for each set of parameters, told apart by a number
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..program import Branch, BufferProgram, Gemm, HostCall, Kernel, Loop, Step, While, every_step
from .instructions import INSTRUCTIONS
from .mlir_nests import NestWriter, memref_of
from .mlir_text import declare, print_function
from .nest import Extent, MemRef, NestFunction, every

__all__ = ["print_function", "print_module"]

C_INTERFACE = "llvm.emit_c_interface"

#: Names of the C library that lowered text may call; a function of ours must not take one.
_OF_MATH = {i.name.partition(".")[2] for i in INSTRUCTIONS.values() if i.name.startswith("math.")} | {
    i.llvm for i in INSTRUCTIONS.values() if i.sort == "function"
}
_C_LIBRARY = frozenset(
    {*_OF_MATH, *[f"{name}f" for name in _OF_MATH], "round", "roundf", "malloc", "free", "aligned_alloc", "memcpy",
     "memset"}
)  # fmt: skip


def print_module(
    program_or_functions: BufferProgram | Iterable[NestFunction], location: Callable[[Any], str] = lambda node: ""
) -> str:
    """One `module`; operations have the locations of their nodes.

    Of a program: what it calls (declared), its kernels (one for each distinct text), its entry.
    Of functions: each public, with a C interface.
    """
    if isinstance(program_or_functions, BufferProgram):
        return _wrap(_ProgramWriter(program_or_functions, location=location).parts())
    functions = tuple(program_or_functions)
    defined = [print_function(f, attributes=C_INTERFACE) for f in functions]
    return _wrap([*_declarations(functions).values(), *defined])


def _wrap(parts: Iterable[str]) -> str:
    body = "\n".join("  " + line for part in parts for line in part.splitlines())
    return f"module {{\n{body}\n}}\n"


def _declarations(functions: Iterable[NestFunction]) -> dict[str, str]:
    """Private declarations of all that the functions call, by name."""
    found: dict[str, str] = {}
    for function in functions:
        called = {o.attributes["callee"]: o for o in every(function.body.operations) if o.name == "func.call"}
        for name, types in function.calls.items():
            results = [v.type for v in called[name].results] if name in called else []
            text = declare(name, types, results)
            assert found.setdefault(name, text) == text, f"one name, two signatures: {found[name]} and {text}"
    return dict(sorted(found.items()))


class _ProgramWriter(NestWriter):
    """The functions of a program; its entry grows line by line.

    outer    of the program that this one is a body in: they are functions of one module
    """

    def __init__(
        self, program: BufferProgram, outer: _ProgramWriter | None = None,
        location: Callable[[Any], str] = lambda node: "",
    ) -> None:
        super().__init__(program.buffers)
        self.location: Callable[[Any], str] = outer.location if outer else location
        self.steps = program.steps
        works = [] if outer else [step.work for step, _, _ in every_step(program)]
        called = _declarations(work.function for work in works if isinstance(work, Kernel))
        self.declared: dict[str, str] = outer.declared if outer else called
        self.symbols: set[str] = outer.symbols if outer else {"gemm_f32", "gemm_f64", *_C_LIBRARY, *self.declared}
        self.name: str = self._symbol(f"{outer.name}_body" if outer else program.name)
        self.kernels: dict[str, str] = outer.kernels if outer else {}  # text under no name -> name
        self.functions: list[str] = outer.functions if outer else []
        self.hosts: dict[tuple, str] = outer.hosts if outer else {}  # operation, parameters, types -> name
        # As they lie in memory: complex numbers are pairs there.
        ends = [b.aval for b in program.buffers[: len(program.inputs) + len(program.outputs)]]
        inputs = [f"%x{i}: {memref_of(aval)}" for i, aval in enumerate(ends[: len(program.inputs)])]
        outputs = [f"%y{i}: {memref_of(aval)}" for i, aval in enumerate(ends[len(program.inputs) :])]
        self.takes = [memref_of(aval) for aval in ends]
        visibility, attributes = ("private ", "") if outer else ("", f" attributes {{{C_INTERFACE}}}")
        self.head = f"func.func {visibility}@{self.name}({', '.join(inputs + outputs)}) -> i32{attributes} {{"

    def parts(self) -> list[str]:
        """Declarations, kernels, the entry."""
        entry = self._entry()
        return [*self.declared.values(), *self.functions, entry]

    def _entry(self) -> str:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for buffer in step.buffers:
                first.setdefault(buffer, number)
                last[buffer] = number
        temporaries = [b for b in first if self.buffers[b].role == "temporary"]
        status = ""
        for number, step in enumerate(self.steps):
            for b in temporaries:
                if first[b] == number:
                    self.lines.append(f"{self.names[b]} = memref.alloc() {{alignment = 64 : i64}} : {self.type_of(b)}")
            status = self.first_failure(status, self._step(step))
            for b in temporaries:
                if last[b] == number:
                    self.dealloc(self.memory(b))
        status = status or self.constant(0, "i32")
        constants = [f"{name} = arith.constant {value} : {type}" for (value, type), name in self.constants.items()]
        body = ["  " + line for line in (*constants, *self.lines, f"func.return {status} : i32")]
        return "\n".join((self.head, *body, "}"))

    # ---- names and values ----

    def _symbol(self, wanted: str) -> str:
        """A new symbol as near to `wanted` as MLIR and the other symbols allow."""
        base = name = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        suffix = 0
        while name in self.symbols:
            suffix += 1
            name = f"{base}_{suffix}"
        self.symbols.add(name)
        return name

    def _view(self, buffer: int, type: str, shape: Sequence[int], dynamic: Sequence[bool]) -> str:
        """A buffer as packed memory of another shape; the buffer itself when the types are equal."""
        if type == self.type_of(buffer):
            return self.names[buffer]

        def number(n: int, is_dynamic: bool) -> str:
            return self.constant(n, "index") if is_dynamic else str(n)

        sizes = [number(n, d) for n, d in zip(shape, dynamic, strict=True)]
        # A stride is a run-time number as soon as an extent inside of it is one.
        inner = [slice(axis + 1, None) for axis in range(len(shape))]
        strides = [number(math.prod(shape[i]), any(dynamic[i])) for i in inner]
        name = self.fresh()
        self.lines.append(
            f"{name} = memref.reinterpret_cast {self.names[buffer]} to offset: [0], "
            f"sizes: [{', '.join(sizes)}], strides: [{', '.join(strides)}] : {self.type_of(buffer)} to {type}"
        )
        return name

    # ---- steps ----

    def _step(self, step: Step) -> str:
        """Append the call of a step; the name of its status, "" if it has none."""
        if isinstance(step.work, Kernel):
            return self._kernel(step.work, step.buffers)
        if isinstance(step.work, Gemm):
            return self._gemm(step.work, step.buffers)
        if isinstance(step.work, Loop):
            return self.loop(step.work, step.buffers)
        if isinstance(step.work, Branch):
            return self.branch(step.work, step.buffers)
        if isinstance(step.work, While):
            return self.repeat(step.work, step.buffers)
        return self._host_call(step.work, step.buffers)

    def function_of(self, body: BufferProgram) -> str:
        inner = _ProgramWriter(body, self)
        self.functions.append(inner._entry())
        return inner.name

    def _kernel(self, kernel: Kernel, buffers: Sequence[int]) -> str:
        function, operands = kernel.function, []
        memrefs = [a.type for a in function.arguments if isinstance(a.type, MemRef)]
        for buffer, type in zip(buffers, memrefs, strict=True):
            dynamic = [isinstance(n, Extent) for n in type.shape]
            shape = [kernel.extents[n.position] if isinstance(n, Extent) else n for n in type.shape]
            operands.append(self._view(buffer, str(type), shape, dynamic))
        operands += [self.constant(n, "index") for n in kernel.extents]
        text = print_function(function, name="_")
        if text not in self.kernels:
            self.kernels[text] = self._symbol(function.name)
            name = self.kernels[text]
            self.functions.append(print_function(function, name=name, visibility="private", location=self.location))
        status = self.fresh()
        self.call(self.kernels[text], operands, [str(a.type) for a in function.arguments], status)
        return status

    def _gemm(self, gemm: Gemm, buffers: Sequence[int]) -> str:
        name, flat = f"gemm_{gemm.dtype}", f"memref<?x{gemm.dtype}>"
        numbers = (gemm.m, gemm.n, gemm.k, gemm.transpose_a, gemm.transpose_b, gemm.batch, *gemm.strides)
        types = [flat] * 3 + ["i64"] * len(numbers)
        self.declared.setdefault(name, declare(name, types, attributes=C_INTERFACE))
        views = [self._view(b, flat, [self.buffers[b].aval.size], [True]) for b in buffers]
        self.call(name, [*views, *(self.constant(int(n), "i64") for n in numbers)], types)
        return ""

    def _host_call(self, call: HostCall, buffers: Sequence[int]) -> str:
        buffers = [*buffers[: len(call.node.inputs)], buffers[-1]]
        types = [self.type_of(b) for b in buffers]
        key = (call.node.op.name, call.node.params, *types)
        if key not in self.hosts:
            self.hosts[key] = name = self._symbol(call.node.op.name)
            self.declared[name] = declare(name, types, attributes=C_INTERFACE)
        self.call(self.hosts[key], [self.names[b] for b in buffers], types)
        return ""
