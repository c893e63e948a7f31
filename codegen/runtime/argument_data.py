"""The place of an argument's number, in native Python: `data_of`.

    an array     that fits its spec, packed and aligned
    a NumPy scalar of the spec's class
    a Python number whose kind it can hold

An array's data and a NumPy scalar's value are used where they are; a Python number is written to a cell of sixteen
bytes in the frame.  Everything else is null: a miss.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import extern, f32, f64, i32, i64, native, ptr, u8, u32, u64
from .object_heads import HEAD, RawArray, RawDescr, class_of
from .plan_words import PlanWords, Spec
from .recording_objects import float_value

__all__ = ["NUMBER_KINDS", "PACKED", "data_of"]

F64, F32, I64, I32, BOOL, C128, C64 = range(1, 8)
#: How a Python number is written for a 0-d input of this dtype; 0 is no number at all.
NUMBER_KINDS = {"f64": F64, "f32": F32, "i64": I64, "i32": I32, "bool": BOOL, "c128": C128, "c64": C64}

#: NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED.
PACKED = 0x101

real_of = extern("PyComplex_RealAsDouble", f64, ptr, runs_python=False)
imaginary_of = extern("PyComplex_ImagAsDouble", f64, ptr, runs_python=False)
integer_of = extern("PyLong_AsLongLongAndOverflow", i64, ptr, ptr, runs_python=False)
is_true = extern("PyObject_IsTrue", i32, ptr, runs_python=False)


@native(inline=True)
def data_of(plan: ptr[PlanWords], argument: ptr, spec: ptr[Spec], cell: ptr) -> ptr:
    """The data of an argument that fits its spec, else null.  A number is written to the cell."""
    cls = class_of(argument)
    if cls is plan.array_type:
        return data_of_array(ptr[RawArray](argument), spec)
    if cls is spec.scalar:
        return argument + HEAD
    return written(plan, argument, spec.kind, cell)


@native(inline=True)
def data_of_array(a: ptr[RawArray], spec: ptr[Spec]) -> ptr:
    if i64(a.nd) != spec.rank or a.flags & PACKED != PACKED:
        return None
    if a.descr is not spec.descr:
        # An unpickled array has a descr object of its own.
        one = ptr[RawDescr](a.descr)
        other = ptr[RawDescr](spec.descr)
        if one.type is not other.type or one.rest != other.rest:
            return None
    extents = spec.extents
    for d in range(spec.rank):
        if a.dims[d] != extents[d]:
            return None
    return a.data


@native
def written(plan: ptr[PlanWords], number: ptr, kind: u64, cell: ptr) -> ptr:
    """The cell, where a Python number is written to it; null for what does not fit."""
    cls = class_of(number)
    if cls is plan.float_type:
        if kind == F64:
            ptr[f64](cell)[0] = float_value(number)
            return cell
        if kind == F32:
            ptr[f32](cell)[0] = f32(float_value(number))
            return cell
        return None
    if cls is plan.int_type:
        return written_integer(number, kind, cell)
    if cls is plan.bool_type and kind == BOOL:
        ptr[u8](cell)[0] = u8(is_true(number))
        return cell
    if cls is plan.complex_type:
        real = real_of(number)
        imaginary = imaginary_of(number)
        if kind == C128:
            ptr[f64](cell)[0] = real
            ptr[f64](cell)[1] = imaginary
            return cell
        if kind == C64:
            ptr[f32](cell)[0] = f32(real)
            ptr[f32](cell)[1] = f32(imaginary)
            return cell
    return None


@native
def written_integer(number: ptr, kind: u64, cell: ptr) -> ptr:
    if kind == 0:
        return None
    value = integer_of(number, cell)
    if ptr[u32](cell)[0] != 0:  # it does not fit into 64 bits
        return None
    if kind == F64:
        ptr[f64](cell)[0] = f64(value)
    elif kind == F32:
        ptr[f32](cell)[0] = f32(f64(value))  # by way of f64, as NumPy converts
    elif kind == I64:
        ptr[i64](cell)[0] = value
    elif kind == I32:
        ptr[i32](cell)[0] = i32(value)
        if i64(i32(value)) != value:
            return None
    else:
        return None
    return cell
