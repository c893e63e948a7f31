"""Types and literals of loop nests as LLVM IR writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from ..garbage import ignoring
from ..kernel.nest import F32, F64, I1, I8, I32, I64, INDEX, MemRef, Operation, ScalarType, Type

LLVM_TYPES = {INDEX: "i64", I1: "i1", I8: "i8", I32: "i32", I64: "i64", F32: "float", F64: "double"}

#: Bytes of an element in memory.  Users' arrays are aligned to no more than this.
ALIGNMENT = {INDEX: 8, I8: 1, I32: 4, I64: 8, F32: 4, F64: 8}

#: The bits of a narrow number: a vector holds twice as many of these as of 64-bit numbers.
NARROW = 32


def width(operation: Operation) -> int:
    """The bits of the widest number that an operation reads or gives."""
    types = [v.type for v in (*operation.operands, *operation.results)]
    return max([t.bits for t in types if isinstance(t, ScalarType)])


def llvm_type(type: Type) -> str:
    """`double`, `i64`, ...; a memref is a bare pointer."""
    return "ptr" if isinstance(type, MemRef) else LLVM_TYPES[type]


def literal(value: bool | int | float, type: ScalarType) -> str:
    """A constant of a type.  Integers wrap to the type's width, as NumPy's casts do."""
    if type.is_float:
        return float_literal(float(value), single=type is F32)
    if type is I1:
        return "true" if value else "false"
    bits = int(value) & ((1 << type.bits) - 1)
    return str(bits - (1 << type.bits) if bits >> (type.bits - 1) else bits)


def float_literal(value: float, *, single: bool = False) -> str:
    """The bits of a double, which is how LLVM writes floats exactly; a float is rounded first."""
    if single:
        with ignoring(over="ignore"):
            value = float(np.float32(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def vector_type(type: str, lanes: int) -> str:
    """`double` of 8 lanes is `<8 x double>`; one lane is the plain type."""
    return type if lanes == 1 else f"<{lanes} x {type}>"


def intrinsic_suffix(type: str, lanes: int) -> str:
    """The suffix for a type in the names of functions: f64, v8f64."""
    return type if lanes == 1 else f"v{lanes}{type}"


def splat(type: str, text: str, lanes: int) -> str:
    """A constant in all lanes."""
    return text if lanes == 1 else f"splat ({type} {text})"


def struct_type(type: str, count: int) -> str:
    """The type of a function's results, `count` of one type: a struct if there are several."""
    return type if count == 1 else f"{{ {', '.join([type] * count)} }}"


def definition(name: str, type: str, parameters: Sequence[str], body: str, results: Sequence[str], how: str) -> str:
    """The text of a function of values of one type, which is also that of its results.   how: its attributes"""
    head, whole = ", ".join([f"{type} {p}" for p in parameters]), struct_type(type, len(results))
    last = results[0]
    if len(results) > 1:
        last = "poison"
        for j, result in enumerate(results):
            body += f"  %struct.{j} = insertvalue {whole} {last}, {type} {result}, {j}\n"
            last = f"%struct.{j}"
    return f"define internal {whole} @{name}({head}) {how} nounwind {{\n{body}  ret {whole} {last}\n}}\n"


def first_lanes(count: int, lanes: int) -> str:
    """A constant mask that selects the first `count` lanes."""
    return f"<{', '.join('i1 true' if j < count else 'i1 false' for j in range(lanes))}>"


def steps(type: str, lanes: int, stride: int = 1) -> str:
    """<0, 1, 2, ...> times the stride."""
    return f"<{', '.join(f'{type} {j * stride}' for j in range(lanes))}>"
