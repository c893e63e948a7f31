"""Loads of every second element, as of the parts of complex numbers: out of two whole vectors.

    a[2i + 1]        two vectors from 2i + 1 on, of the second only what there must be

Of elements three or four apart those that are needed are loaded one by one: three vectors and what puts them together
take longer (us, with the gradient: energy of 300 bodies in 3 dimensions 541, so 315; a mixture in 4 229, 158).
"""

from __future__ import annotations

from ..kernel.nest import ScalarType
from .operations import Writer
from .types import ALIGNMENT, LLVM_TYPES, first_lanes

__all__ = ["load_every_second"]


def load_every_second(w: Writer, element: ScalarType, address: str) -> str:
    """Every second element from an address on."""
    type, lanes, alignment = w.spelled(element), w.lanes, ALIGNMENT[element]
    low = w.value(f"load {type}, ptr {address}, align {alignment}")
    # Of the second vector nothing behind the last element: there may be none.
    bits, mask = f"<{lanes} x i1>", first_lanes(lanes - 1, lanes)
    callee = w.declare(f"llvm.masked.load.{w.suffix(element)}.p0", type, ("ptr", "i32", bits, type))
    behind = w.value(f"getelementptr {LLVM_TYPES[element]}, ptr {address}, i64 {lanes}")
    high = w.value(f"call {type} {callee}(ptr {behind}, i32 {alignment}, {bits} {mask}, {type} zeroinitializer)")
    listed = ", ".join(f"i32 {place}" for place in range(0, 2 * lanes, 2))
    return w.value(f"shufflevector {type} {low}, {type} {high}, <{lanes} x i32> <{listed}>")
