"""Scalar operations (arith, math) as LLVM instructions, of single numbers or of vectors.

    template: MLIR operation, operands' names, type  ->  the right-hand side of one or more lines

A template does not know the number of lanes of its operands: the writer spells the types.  Most
operations are one instruction, one intrinsic, or a call of a function that `codegen.emit.math` writes
into the module, as `kernel.instructions` says.  No template ever sets `nnan`, `ninf` or `fast`:
with them exp(nan) becomes inf.

`MemoryWriter` writes the accesses of a body to memory: addresses, loads and stores of one element, scratch.

    memref.load %a[%i] : memref<?xf64>   ->   %t.1 = getelementptr ... i64 %i,  %t.2 = load double, ptr %t.1, align 8
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..kernel.instructions import INSTRUCTIONS
from ..kernel.nest import I1, MemRef, Operation, ScalarType, Value
from .types import ALIGNMENT, LLVM_TYPES, intrinsic_suffix, literal, splat, vector_type

#: In the order LLVM prints them.
_FLAGS = ("nsz", "arcp", "contract", "afn", "reassoc")


class Writer:
    """The place that operations are written into: the body of a function, or of a vector loop in it."""

    #: The number of lanes of each value.
    lanes = 1

    def spelled(self, type: ScalarType) -> str:
        """A type of all lanes: <8 x double>."""
        return vector_type(LLVM_TYPES[type], self.lanes)

    def suffix(self, type: ScalarType) -> str:
        """A type in the name of an intrinsic or elementary function: v8f64."""
        return intrinsic_suffix(_SUFFIXES[LLVM_TYPES[type]], self.lanes)

    def literal(self, value: bool | int | float, type: ScalarType) -> str:
        """A constant in all lanes."""
        return splat(LLVM_TYPES[type], literal(value, type), self.lanes)

    def value(self, instruction: str) -> str:
        """Append `%name = instruction`; return the name."""
        raise AssertionError("an abstract writer writes nothing")

    def declare(self, name: str, result: str, arguments: tuple[str, ...]) -> str:
        """Declare a function that is defined outside of the module (an intrinsic); return `@name`."""
        raise AssertionError("an abstract writer declares nothing")

    def call(self, name: str, result: str, *operands: tuple[str, object], flags: str = "") -> str:
        """The instruction that calls an intrinsic, which is declared; operands are pairs of a type and a value."""
        callee = self.declare(name, result, tuple([type for type, _ in operands]))
        return f"call{flags} {result} {callee}({', '.join([f'{type} {value}' for type, value in operands])})"

    def elementary(self, name: str, type: ScalarType) -> str:
        """Request an elementary function, which is written into the module; return `@name`."""
        raise AssertionError("an abstract writer knows no functions")


_SUFFIXES = {"float": "f32", "double": "f64", "i1": "i1", "i8": "i8", "i32": "i32", "i64": "i64"}

Emit = Callable[[Writer, Operation, list[str]], str]


def fastmath_flags(operation: Operation) -> str:
    """The operation's flags as LLVM spells them, with a leading blank each."""
    flags: Iterable[str] = operation.attributes.get("fastmath", ())
    if not flags:
        return ""
    unknown = set(flags) - set(_FLAGS)
    assert not unknown, f"{operation.name}: fastmath flags that are never right here: {sorted(unknown)}"
    return "".join(f" {flag}" for flag in _FLAGS if flag in flags)


def _instruction(opcode: str) -> Emit:
    def emit(w: Writer, operation: Operation, operands: list[str]) -> str:
        return w.value(f"{opcode}{fastmath_flags(operation)} {_type(w, operation)} {', '.join(operands)}")

    return emit


def _intrinsic(name: str) -> Emit:
    def emit(w: Writer, operation: Operation, operands: list[str]) -> str:
        type, scalar = _type(w, operation), _scalar_type(operation)
        flags = fastmath_flags(operation) if scalar.is_float else ""
        return w.value(w.call(f"llvm.{name}.{w.suffix(scalar)}", type, *[(type, o) for o in operands], flags=flags))

    return emit


#: The comparison by which an element replaces the extreme so far.
_BEYOND = {"arith.maximumf": "ogt", "arith.minimumf": "olt"}


def _accumulated(name: str) -> Emit:
    """The extreme of two, nan if one is nan; with the flag nsz, of two zeros the first one, which is `so_far`.

    That takes half of the instructions of LLVM's `maximum`, which orders -0.0 before 0.0, and only two of them wait for
    `so_far` (the maximum of a million floats 46 us, by LLVM's 79, NumPy's 49).  The freeze keeps LLVM from joining both
    selects, after which it does not use the processor's instruction for the maximum of two (59).
    """
    intrinsic = _intrinsic(INSTRUCTIONS[name].llvm)

    def emit(w: Writer, operation: Operation, operands: list[str]) -> str:
        if "nsz" not in operation.attributes.get("fastmath", ()):
            return intrinsic(w, operation, operands)
        so_far, x = operands
        vector, bit = _type(w, operation), w.spelled(I1)
        takes = w.value(f"fcmp {_BEYOND[name]} {vector} {x}, {so_far}")
        best = w.value(f"freeze {vector} {w.value(f'select {bit} {takes}, {vector} {x}, {vector} {so_far}')}")
        is_nan = w.value(f"fcmp uno {vector} {x}, {x}")
        return w.value(f"select {bit} {is_nan}, {vector} {x}, {vector} {best}")

    return emit


def _elementary(name: str) -> Emit:
    def emit(w: Writer, operation: Operation, operands: list[str]) -> str:
        type = _type(w, operation)
        callee = w.elementary(name, _scalar_type(operation))
        return w.value(f"call {type} {callee}({', '.join(f'{type} {o}' for o in operands)})")

    return emit


def _cast(opcode: str) -> Emit:
    def emit(w: Writer, operation: Operation, operands: list[str]) -> str:
        source, target = w.spelled(operation.operands[0].type), _type(w, operation)
        return operands[0] if source == target else w.value(f"{opcode} {source} {operands[0]} to {target}")

    return emit


def _index_cast(w: Writer, operation: Operation, operands: list[str]) -> str:
    source, target = operation.operands[0].type, operation.result.type
    assert isinstance(source, ScalarType) and isinstance(target, ScalarType)
    return _cast("sext" if source.bits < target.bits else "trunc")(w, operation, operands)


def _fptosi(w: Writer, operation: Operation, operands: list[str]) -> str:
    """A float to an integer.  Out of range the instruction gives poison, by which LLVM may drop later checks.

    Frozen, the result is that of the hardware: on x86 the smallest integer, as in NumPy.
    """
    return w.value(f"freeze {_type(w, operation)} {_cast('fptosi')(w, operation, operands)}")


def _compare(opcode: str) -> Emit:
    def emit(w: Writer, operation: Operation, operands: list[str]) -> str:
        type = w.spelled(operation.operands[0].type)
        return w.value(f"{opcode} {operation.attributes['predicate']} {type} {', '.join(operands)}")

    return emit


def _select(w: Writer, operation: Operation, operands: list[str]) -> str:
    condition, then, otherwise = operands
    type = _type(w, operation)
    return w.value(f"select {w.spelled(I1)} {condition}, {type} {then}, {type} {otherwise}")


def _floordivsi(w: Writer, operation: Operation, operands: list[str]) -> str:
    """The quotient towards zero, less one if the remainder is not zero and has the other sign than the divisor."""
    type, zero, bit = _type(w, operation), w.literal(0, _scalar_type(operation)), w.spelled(I1)
    a, b = operands
    quotient = w.value(f"sdiv {type} {a}, {b}")
    product = w.value(f"mul {type} {quotient}, {b}")
    rest = w.value(f"sub {type} {a}, {product}")
    signs = w.value(f"xor {type} {rest}, {b}")
    differ = w.value(f"icmp slt {type} {signs}, {zero}")
    inexact = w.value(f"icmp ne {type} {rest}, {zero}")
    below = w.value(f"and {bit} {differ}, {inexact}")
    step = w.value(f"sext {bit} {below} to {type}")
    return w.value(f"add {type} {quotient}, {step}")


def _constant(w: Writer, operation: Operation, operands: list[str]) -> str:
    return w.literal(operation.attributes["value"], _scalar_type(operation))


def _scalar_type(operation: Operation) -> ScalarType:
    type = operation.results[0].type
    assert isinstance(type, ScalarType)
    return type


def _type(w: Writer, operation: Operation) -> str:
    return w.spelled(_scalar_type(operation))


_SORTS = {"opcode": _instruction, "intrinsic": _intrinsic, "function": _elementary, "cast": _cast}

#: The writer of every scalar operation: (writer, operation, names of operands) -> name of the result.
SCALAR: dict[str, Emit] = {
    **{i.name: _SORTS[i.sort](i.llvm) for i in INSTRUCTIONS.values() if i.sort},
    **{name: _accumulated(name) for name in _BEYOND},
    "arith.cmpf": _compare("fcmp"),
    "arith.cmpi": _compare("icmp"),
    "arith.constant": _constant,
    "arith.floordivsi": _floordivsi,
    "arith.fptosi": _fptosi,
    "arith.index_cast": _index_cast,
    "arith.select": _select,
}


# ---------------------------------------------------------------- memory of single numbers


#: Scratch of a kernel starts on a cache line, so that vectors never straddle two.
_SCRATCH_ALIGNMENT_BYTES = 64


class MemoryWriter(Writer):
    """Writes loads and stores of one element, and allocations.

    names     the name of each value
    scratch   allocas: all in the entry block, so that a loop does not grow the stack
    """

    lines: list[str]
    scratch: list[str]
    names: dict[Value, str]
    count: int

    def load(self, operation: Operation, _: list[str] | None = None) -> None:
        """Write a memref.load of one element."""
        pointer, index = [self.names[v] for v in operation.operands]
        memory = operation.operands[0].type
        assert isinstance(memory, MemRef)
        address = self.address(memory, pointer, index)
        type, alignment = LLVM_TYPES[memory.element], ALIGNMENT[memory.element]
        self.names[operation.results[0]] = self.value(f"load {type}, ptr {address}, align {alignment}")

    def store(self, operation: Operation, _: list[str] | None = None) -> None:
        """Write a memref.store of one element."""
        value, pointer, index = [self.names[v] for v in operation.operands]
        memory = operation.operands[1].type
        assert isinstance(memory, MemRef)
        address = self.address(memory, pointer, index)
        type, alignment = LLVM_TYPES[memory.element], ALIGNMENT[memory.element]
        self.lines.append(f"  store {type} {value}, ptr {address}, align {alignment}")

    def address(self, memory: MemRef, pointer: str, index: str) -> str:
        """The address of one element."""
        if index == "0":
            return pointer
        return self.value(f"getelementptr inbounds {LLVM_TYPES[memory.element]}, ptr {pointer}, i64 {index}")

    def allocate(self, operation: Operation, operands: list[str]) -> None:
        """Write a memref.alloca into the entry block."""
        memory = operation.results[0].type
        assert isinstance(memory, MemRef)
        self.count += 1
        name = f"%scratch.{self.count}"
        self.names[operation.results[0]] = name
        type = f"[{memory.size} x {LLVM_TYPES[memory.element]}]"
        self.scratch.append(f"  {name} = alloca {type}, align {_SCRATCH_ALIGNMENT_BYTES}")
