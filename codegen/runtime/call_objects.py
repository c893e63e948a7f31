"""The objects of a call, in native Python: the data of its arguments, and its result.

A packed, aligned array that fits its spec and a NumPy scalar of the spec's class are read in place.  A Python number
that the dtype can hold is written to a cell of sixteen bytes in the frame.  Any other argument is a miss.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, extern, f32, f64, held, i32, i64, local, moved, native, own, ptr, u8, u32, u64
from .plan_words import EntryWords, HostWords, Spec, entering
from .recording_objects import (
    HEAD,
    RawArray,
    RawDescr,
    call,
    class_of,
    copy_into,
    float_value,
    list_of,
    new_array,
    tuple_of,
    tuple_size,
)

F64, F32, I64, I32, BOOL, C128, C64 = range(1, 8)
#: The form in which a Python number is written for a 0-d input of each dtype; 0: no number is accepted.
NUMBER_KINDS = {"f64": F64, "f32": F32, "i64": I64, "i32": I32, "bool": BOOL, "c128": C128, "c64": C64}

#: NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED; the same with NPY_ARRAY_WRITEABLE.
PACKED, WRITES = 0x101, 0x501

real_of = extern("PyComplex_RealAsDouble", f64, ptr)
imaginary_of = extern("PyComplex_ImagAsDouble", f64, ptr)
integer_of = extern("PyLong_AsLongLongAndOverflow", i64, ptr, ptr)
is_true = extern("PyObject_IsTrue", i32, ptr)


@native(inline=True)
def data_of(argument: ptr, spec: ptr[Spec], cell: ptr) -> ptr:
    """The address of the data of an argument that fits its spec, else null.  A number is written to the cell."""
    cls = class_of(argument)
    if cls is entering.array_type:
        return data_of_array(ptr[RawArray](argument), spec)
    if cls is spec.scalar:
        return argument + HEAD
    return written(argument, spec.kind, cell)


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
def written(number: ptr, kind: u64, cell: ptr) -> ptr:
    """Write a Python number to the cell and return the cell; null if the number does not fit."""
    cls = class_of(number)
    if cls is entering.float_type:
        if kind == F64:
            ptr[f64](cell)[0] = float_value(number)
            return cell
        if kind == F32:
            ptr[f32](cell)[0] = f32(float_value(number))
            return cell
        return None
    if cls is entering.int_type:
        return written_integer(number, kind, cell)
    if cls is entering.bool_type and kind == BOOL:
        ptr[u8](cell)[0] = u8(is_true(number))
        return cell
    if cls is entering.complex_type:
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


#: (code, operand) instructions on a stack: end; push an output, for the last time ("last") or not ("result"); push an
#: object; replace the top n by a tuple, a list, a dict with these keys; the top by np.True_ or np.False_, by f(top).
PUT_TOGETHER = ("end", "last", "result", "object", "tuple", "list", "dict", "truth", "call")
END, LAST, RESULT, OBJECT, TUPLE, LIST, DICT, TRUTH, CALL = range(len(PUT_TOGETHER))

new_dict = extern("PyDict_New", own, fails=FAILS)
set_in_dict = extern("PyDict_SetItem", i32, ptr, ptr, ptr, fails=FAILS)


@native(inline=True)
def items_of(tuple_: ptr) -> ptr[ptr]:
    """The items of a tuple, in place."""
    return ptr[ptr](tuple_ + entering.items_at)


@native(inline=True)
def dict_of_parts(keys: ptr, parts: ptr[own], count: i64) -> own:
    made: own = new_dict()
    if made is None:
        return None
    for i in range(count):
        if set_in_dict(made, items_of(keys)[i], parts[i]) != 0:
            return None
        parts[i] = None  # the dict holds the part
    return made


@native(inline=False)
def put_together(entry: ptr[EntryWords], objects: ptr[own]) -> own:
    """The result of a call, put together from its new output objects; null with an exception.

    Outputs are moved out of `objects` at their last use; those that the result does not use stay there.
    """
    stack = local(own, entry.depth)
    top = i64(0)
    at = entry.result
    while at.code != END:
        code = at.code
        operand = at.operand
        known = ptr(operand)
        if code == TUPLE or code == LIST:  # noqa: SIM109  native Python has no `in`
            top -= operand
        elif code >= DICT:
            top -= tuple_size(known) if code == DICT else i64(1)
        if code == LAST:
            stack[top] = moved(objects[operand])
        elif code == RESULT:
            stack[top] = held(objects[operand])
        elif code == OBJECT:
            stack[top] = held(known)
        elif code == TUPLE:
            stack[top] = tuple_of(stack + top, operand)
        elif code == LIST:
            stack[top] = list_of(stack + top, operand)
        elif code == DICT:
            stack[top] = dict_of_parts(known, stack + top, tuple_size(known))
        elif code == TRUTH:
            stack[top] = held(ptr[ptr](operand)[i64(ptr[u8](stack[top] + HEAD)[0])])
        else:
            stack[top] = call(known, ptr[ptr](stack + top), 1, None)
        if stack[top] is None:
            return None
        top += 1
        at = at + 1
    return moved(stack[0])


@native
def host_failed(pointers: ptr[ptr], host: ptr[HostWords]) -> bool:
    """Call a Python function on arrays, and copy its result into the memory of the step.  True with an exception."""
    inputs = host.inputs
    arrays = local(own, inputs)
    for j in range(inputs):
        arrays[j] = array_at(pointers[j], host, j, PACKED)
        if arrays[j] is None:
            return True
    found: own = call(host.function, ptr[ptr](arrays), u64(inputs), None)
    if found is None:
        return True
    result: own = array_at(pointers[inputs], host, inputs, WRITES)
    return result is None or copy_into(result, found) != 0


@native
def array_at(data: ptr, host: ptr[HostWords], place: i64, flags: i64) -> own:
    """A new array over the memory of a step, which the array does not own; null with an exception."""
    spec = host.specs[place]
    return new_array(host.array_type, held(spec.descr), i32(spec.rank), spec.extents, None, data, i32(flags), None)
