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

A loop is an scf.for that calls the function of its body.  States and elements are copied to where the body
reads and writes them; native code moves pointers instead.

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
from collections.abc import Iterable, Sequence

import numpy as np

from ..ir import Aval
from ..program import Gemm, HostCall, Kernel, Loop, Place, Program, Step, every_step
from .mlir_text import declare, print_function
from .nest import Block, Extent, Function, MemRef, Operation

__all__ = ["print_function", "print_module"]

C_INTERFACE = "llvm.emit_c_interface"

#: How an array's element stands in memory.
_ELEMENTS = {
    "bool": "i8", "int32": "i32", "int64": "i64", "float32": "f32", "float64": "f64",
    "complex64": "complex<f32>", "complex128": "complex<f64>",
}  # fmt: skip

# fmt: off
_C_FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf",
    "exp", "exp2", "expm1", "floor", "fma", "fmod", "log", "log10", "log1p", "log2", "pow", "round", "roundeven", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
)
# fmt: on

#: Names of the C library that lowered text calls; a function of ours must not take one.
_C_LIBRARY = frozenset(
    {*_C_FUNCTIONS, *(name + "f" for name in _C_FUNCTIONS), "malloc", "free", "aligned_alloc", "memcpy", "memset"}
)


def print_module(program_or_functions: Program | Iterable[Function]) -> str:
    """One `module`.

    Of a program: what it calls (declared), its kernels (one for each distinct text), its entry.
    Of functions: each public, with a C interface.
    """
    if isinstance(program_or_functions, Program):
        return _wrap(_Entry(program_or_functions).parts())
    functions = tuple(program_or_functions)
    defined = [print_function(f, attributes=C_INTERFACE) for f in functions]
    return _wrap([*_declarations(functions).values(), *defined])


def _wrap(parts: Iterable[str]) -> str:
    body = "\n".join("  " + line for part in parts for line in part.splitlines())
    return f"module {{\n{body}\n}}\n"


def _declarations(functions: Iterable[Function]) -> dict[str, str]:
    """Private declarations of all that the functions call, by name."""
    found: dict[str, str] = {}
    for function in functions:
        called = {o.attributes["callee"]: o for o in _operations(function.body) if o.name == "func.call"}
        for name, types in function.calls.items():
            results = [v.type for v in called[name].results] if name in called else []
            text = declare(name, types, results)
            assert found.setdefault(name, text) == text, f"one name, two signatures: {found[name]} and {text}"
    return dict(sorted(found.items()))


def _operations(block: Block) -> Iterable[Operation]:
    for operation in block.operations:
        yield operation
        for region in operation.regions:
            yield from _operations(region)


class _Entry:
    """The functions of a program; its entry grows line by line.

    outer    of the program that this one is the body of a loop of: they are functions of one module
    """

    def __init__(self, program: Program, outer: _Entry | None = None) -> None:
        self.buffers = program.buffers
        self.steps = program.steps
        works = [] if outer else [step.work for step, _, _ in every_step(program)]
        called = _declarations(work.function for work in works if isinstance(work, Kernel))
        self.declared: dict[str, str] = outer.declared if outer else called
        self.symbols: set[str] = outer.symbols if outer else {"gemm_f32", "gemm_f64", *_C_LIBRARY, *self.declared}
        self.name: str = self._symbol(f"{outer.name}_body" if outer else program.name)
        self.kernels: dict[str, str] = outer.kernels if outer else {}  # text under no name -> name
        self.functions: list[str] = outer.functions if outer else []
        self.hosts: dict[tuple, str] = outer.hosts if outer else {}  # operation, parameters, types -> name
        self.constants: dict[tuple[int, str], str] = {}
        self.lines: list[str] = []
        self.count = 0
        self.names: list[str] = []
        for number, buffer in enumerate(program.buffers):
            earlier = sum(b.role == "temporary" for b in program.buffers[:number])
            letter = {"input": "x", "output": "y", "temporary": "t"}[buffer.role]
            self.names.append(f"%{letter}{earlier if buffer.role == 'temporary' else buffer.place}")
        inputs = [f"%x{i}: {_memref(aval)}" for i, aval in enumerate(program.inputs)]
        outputs = [f"%y{i}: {_memref(aval)}" for i, aval in enumerate(program.outputs)]
        self.takes = [_memref(aval) for aval in (*program.inputs, *program.outputs)]
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
                    self.lines.append(f"{self.names[b]} = memref.alloc() {{alignment = 64 : i64}} : {self._type(b)}")
            status = self._first_failure(status, self._step(step))
            for b in temporaries:
                if last[b] == number:
                    self.lines.append(f"memref.dealloc {self.names[b]} : {self._type(b)}")
        status = status or self._constant(0, "i32")
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

    def _fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def _constant(self, value: int, type: str) -> str:
        suffix = "" if type == "index" else f"_{type}"
        return self.constants.setdefault((value, type), f"%c{value}{suffix}")

    def _type(self, buffer: int) -> str:
        return _memref(self.buffers[buffer].aval)

    def _view(self, buffer: int, type: str, shape: Sequence[int], dynamic: Sequence[bool]) -> str:
        """A buffer as packed memory of another shape; the buffer itself when the types are equal."""
        if type == self._type(buffer):
            return self.names[buffer]

        def number(n: int, is_dynamic: bool) -> str:
            return self._constant(n, "index") if is_dynamic else str(n)

        sizes = [number(n, d) for n, d in zip(shape, dynamic, strict=True)]
        # A stride is a run-time number as soon as an extent inside of it is one.
        inner = [slice(axis + 1, None) for axis in range(len(shape))]
        strides = [number(math.prod(shape[i]), any(dynamic[i])) for i in inner]
        name = self._fresh()
        self.lines.append(
            f"{name} = memref.reinterpret_cast {self.names[buffer]} to offset: [0], "
            f"sizes: [{', '.join(sizes)}], strides: [{', '.join(strides)}] : {self._type(buffer)} to {type}"
        )
        return name

    def _call(self, name: str, operands: Sequence[str], types: Sequence[str], result: str = "") -> None:
        start, returned = (f"{result} = ", "i32") if result else ("", "()")
        self.lines.append(f"{start}func.call @{name}({', '.join(operands)}) : ({', '.join(types)}) -> {returned}")

    def _first_failure(self, before: str, new: str) -> str:
        """The status of the steps so far, from that of those before and that of the last; "" is 0."""
        if not before or not new:
            return before or new
        passed, status = self._fresh(), self._fresh()
        self.lines += [
            f"{passed} = arith.cmpi eq, {before}, {self._constant(0, 'i32')} : i32",
            f"{status} = arith.select {passed}, {new}, {before} : i32",
        ]
        return status

    # ---- steps ----

    def _step(self, step: Step) -> str:
        """Append the call of a step; the name of its status, "" if it has none."""
        if isinstance(step.work, Kernel):
            return self._kernel(step.work, step.buffers)
        if isinstance(step.work, Gemm):
            return self._gemm(step.work, step.buffers)
        if isinstance(step.work, Loop):
            return self._loop(step.work, step.buffers)
        return self._host_call(step.work, step.buffers)

    def _kernel(self, kernel: Kernel, buffers: Sequence[int]) -> str:
        function, operands = kernel.function, []
        memrefs = [a.type for a in function.arguments if isinstance(a.type, MemRef)]
        for buffer, type in zip(buffers, memrefs, strict=True):
            dynamic = [isinstance(n, Extent) for n in type.shape]
            shape = [kernel.extents[n.position] if isinstance(n, Extent) else n for n in type.shape]
            operands.append(self._view(buffer, str(type), shape, dynamic))
        operands += [self._constant(n, "index") for n in kernel.extents]
        text = print_function(function, name="_")
        if text not in self.kernels:
            self.kernels[text] = self._symbol(function.name)
            self.functions.append(print_function(function, name=self.kernels[text], visibility="private"))
        status = self._fresh()
        self._call(self.kernels[text], operands, [str(a.type) for a in function.arguments], status)
        return status

    def _gemm(self, gemm: Gemm, buffers: Sequence[int]) -> str:
        name, flat = f"gemm_{gemm.dtype}", f"memref<?x{gemm.dtype}>"
        numbers = (gemm.m, gemm.n, gemm.k, gemm.transpose_a, gemm.transpose_b, gemm.batch, *gemm.strides)
        types = [flat] * 3 + ["i64"] * len(numbers)
        self.declared.setdefault(name, declare(name, types, attributes=C_INTERFACE))
        views = [self._view(b, flat, [self.buffers[b].aval.size], [True]) for b in buffers]
        self._call(name, [*views, *(self._constant(int(n), "i64") for n in numbers)], types)
        return ""

    def _loop(self, loop: Loop, buffers: Sequence[int]) -> str:
        body = _Entry(loop.body, self)
        self.functions.append(body._entry())
        inputs, carried, split = loop.body.inputs, loop.carried, loop.carried + len(loop.starts)
        own = [self._alloc(aval) for aval in (*inputs[:split], *loop.body.outputs)]
        states, elements, after = own[:carried], own[carried:split], own[split:]
        for state, aval, buffer in zip(states, inputs, buffers, strict=False):
            self._copy(self.names[buffer], self._type(buffer), state, _memref(aval))
        status, before, t = self._fresh(), self._fresh(), self._fresh()
        first, last, one = (self._constant(n, "index") for n in (0, loop.length, 1))
        zero = self._constant(0, "i32")
        self.lines.append(
            f"{status} = scf.for {t} = {first} to {last} step {one} iter_args({before} = {zero}) -> (i32) {{"
        )
        inside = len(self.lines)
        at = t
        if loop.is_reversed:
            at = self._index("subi", self._constant(loop.length - 1, "index"), t)
        for state, aval, place in zip(states, inputs, loop.befores, strict=False):
            if place is not None:
                self._copy(state, _memref(aval), *self._element(buffers, place, at, aval))
        for place, element, aval in zip(enumerate(loop.starts, carried), elements, loop.elements, strict=True):
            self._copy(*self._element(buffers, place, at, aval), element, _memref(aval))
        new = self._fresh()
        hidden = [self.names[b] for b in buffers[split : len(inputs)]]
        self._call(body.name, [*states, *elements, *hidden, *after], body.takes, new)
        for value, aval, place in zip(after[carried:], loop.stacked, loop.stacks, strict=True):
            self._copy(value, _memref(aval), *self._element(buffers, place, at, aval))
        for state, value, aval in zip(states, after, inputs, strict=False):
            self._copy(value, _memref(aval), state, _memref(aval))
        self.lines.append(f"scf.yield {self._first_failure(before, new)} : i32")
        self.lines[inside:] = [*["  " + line for line in self.lines[inside:]], "}"]
        for state, aval, place in zip(states, inputs, loop.lasts, strict=False):
            if place is not None:
                self._copy(state, _memref(aval), *self._element(buffers, place, "", aval))
        for name, aval in zip(own, (*inputs[:split], *loop.body.outputs), strict=True):
            self.lines.append(f"memref.dealloc {name} : {_memref(aval)}")
        return status

    def _alloc(self, aval: Aval) -> str:
        name = self._fresh()
        self.lines.append(f"{name} = memref.alloc() {{alignment = 64 : i64}} : {_memref(aval)}")
        return name

    def _copy(self, source: str, source_type: str, target: str, target_type: str) -> None:
        # The generic form: xDSL has no other.
        self.lines.append(f'"memref.copy"({source}, {target}) : ({source_type}, {target_type}) -> ()')

    def _index(self, name: str, *operands: str) -> str:
        result = self._fresh()
        self.lines.append(f"{result} = arith.{name} {', '.join(operands)} : index")
        return result

    def _element(self, buffers: Sequence[int], place: Place, at: str, aval: Aval) -> tuple[str, str]:
        """Element `at` of an array that begins at a place (the array itself if ""): its name and type."""
        buffer = buffers[place[0]]
        offset = self._constant(place[1], "index")
        if at:
            offset = self._index("addi", self._index("muli", at, self._constant(aval.size, "index")), offset)
        strides = ", ".join([str(math.prod(aval.shape[i + 1 :])) for i in range(aval.ndim)])
        type = _memref(aval)[:-1] + f", strided<[{strides}], offset: ?>>"
        name = self._fresh()
        self.lines.append(
            f"{name} = memref.reinterpret_cast {self.names[buffer]} to offset: [{offset}], "
            f"sizes: [{', '.join(map(str, aval.shape))}], strides: [{strides}] : {self._type(buffer)} to {type}"
        )
        return name, type

    def _host_call(self, call: HostCall, buffers: Sequence[int]) -> str:
        types = [self._type(b) for b in buffers]
        key = (call.node.op.name, call.node.params, *types)
        if key not in self.hosts:
            self.hosts[key] = name = self._symbol(call.node.op.name)
            self.declared[name] = declare(name, types, attributes=C_INTERFACE)
        self._call(self.hosts[key], [self.names[b] for b in buffers], types)
        return ""


def _memref(aval: Aval) -> str:
    return f"memref<{''.join(f'{n}x' for n in aval.shape)}{_ELEMENTS[np.dtype(aval.dtype).name]}>"
