"""Operands of what is recorded, in native Python: what they are in a table, and their nodes.

    key_of          the key of an operand, and its node         evaluate_old    those of an earlier recording
    number_node     the leaf of a number                        array_node      that of an array
    are_places      True unless an index array is known to have others
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, extern, f64, i32, i64, local, native, obj, ptr, u64, unlikely
from .object_heads import RawArray, class_of
from .record_table import MOST_KNOWN
from .recorder_arrays import UNKNOWN, is_writeable, kind_of_array, lender_of, own_copy, set_writeable, size_of
from .recorder_nodes import LATEST, kind_of, new_node, node_of, number_of
from .recording_objects import call_one, dec, float_value, inc, int_value, object_of
from .recording_structs import RawHandle, RawKind, RawNode, RawRecording, int_or, tape

__all__ = [
    "NOT_NOW", "OLD", "UNKNOWN", "are_places", "array_node", "evaluate_old", "hold", "is_masked",
    "key_of", "number_node",
]  # fmt: skip

#: In place of a key: what is not recorded now; what is pending from an earlier recording.  UNKNOWN is the third.
NOT_NOW, OLD = 0, 1
#: NumPy's C_CONTIGUOUS, OWNDATA and ALIGNED.
OWN_MEMORY = 0x1 | 0x4 | 0x100

int_as_float = extern("PyLong_AsDouble", f64, ptr, runs_python=False)
float_of = extern("PyFloat_FromDouble", ptr, f64, runs_python=False)
error_set = extern("PyErr_Occurred", ptr, runs_python=False)
number_of_address = extern("PyLong_FromVoidPtr", ptr, ptr, runs_python=False)
#: `recorder_arrays.lent_view`, null with an exception.
lent_view = extern("lent_view", ptr, ptr[RawArray], ptr)


@native(inline=True)
def is_masked(x: ptr, n: ptr[RawNode]) -> bool:
    """True for a handle that is masked; `n` is the node of an operand."""
    return n is not None and ptr[RawHandle](x).masked is tape.true


@native(inline=True)
def is_number(cls: ptr) -> bool:
    is_python = cls is tape.float_type or cls is tape.int_type
    return is_python or cls is tape.float64_type or cls is tape.float32_type


@native
def key_of(x: ptr, now: ptr[RawRecording], found: ptr[ptr[RawNode]]) -> ptr:
    """The key of an operand in a table: the out of a handle, the class of a number, the kind that the leaf of an array
    gets; or NOT_NOW, OLD, UNKNOWN.  Its node, null for a number or an array, goes to `found`."""
    cls = class_of(x)
    if is_number(cls):
        found[0] = None
        return cls
    n = node_of(x)
    found[0] = n
    if unlikely(n is None):
        return ptr(kind_of_array(ptr[RawArray](x)))
    kind = kind_of(n)
    if kind is None:
        return None
    if n.value is tape.none and number_of(n) < int_or(now.start, LATEST):
        return ptr(OLD)
    return ptr(kind.out)


@native(inline=False)
def evaluate_old(now: ptr[RawRecording], xs: ptr[ptr], count: i64) -> bool:
    """Evaluate the operands that are pending from an earlier recording.  False with an exception."""
    found = local(ptr[RawNode], 1)
    for i in range(count):
        if key_of(xs[i], now, found) is ptr(OLD):
            n = ptr(found[0])
            inc(n)
            answer = call_one(tape.force, n)
            dec(n)
            if answer is None:
                return False
            dec(answer)
    return True


# ------------------------------------------------------------------ leaves


@native
def number_node(x: ptr, kind: ptr[RawKind]) -> ptr[RawNode]:
    """The leaf of a number, as a float; null with an exception."""
    cls = class_of(x)
    value = x
    if cls is tape.float_type:
        inc(x)
    else:
        number = int_as_float(x) if cls is tape.int_type else float_value(x)
        if error_set() is not None:
            return None
        value = float_of(number)
        if value is None:
            return None
    made = new_node(kind, value)
    dec(value)
    return made


@native
def leaf_value(a: ptr[RawArray], now: ptr[RawRecording]) -> ptr:
    """The value of the leaf of an array: a copy; where the recording lends, a large array that owns its memory is lent
    (`recorder_arrays`) or, if nobody can write to it, the value itself.  Null with an exception."""
    may_lend = now.lends is tape.true and size_of(a) > int_value(tape.few)
    if not may_lend or a.flags & OWN_MEMORY != OWN_MEMORY:
        made = own_copy(a)
        if made is not None:
            set_writeable(ptr[RawArray](made), False)
        return made
    if not is_writeable(a):
        # By a loan, or by the user.
        key = number_of_address(ptr(a))
        if key is None:
            return None
        lender = lender_of(key)
        dec(key)
        if lender is None:
            inc(ptr(a))
            return ptr(a)
    return lent_view(a, now.lent)


@native
def array_node(a: ptr[RawArray], kind: ptr[RawKind], now: ptr[RawRecording]) -> ptr[RawNode]:
    """The leaf of an array of this kind; null with an exception."""
    value = leaf_value(a, now)
    if value is None:
        return None
    made = new_node(kind, value)
    dec(value)
    return made


@native
def are_places(a: ptr[RawArray], extent: i64) -> bool:
    """True if the elements of an array of integers are known to be places of an axis of this extent, or not known."""
    count = size_of(a)
    if u64(count) > MOST_KNOWN:
        return True  # a kernel looks at them all
    is_long = a.descr is tape.int64_descr
    for i in range(count):
        value = ptr[i64](a.data)[i] if is_long else i64(ptr[i32](a.data)[i])
        if value < -extent or value >= extent:
            return False
    return True


@native
def hold(a: borrowed, kind: borrowed, now: borrowed) -> obj:
    """hold(array, kind, recording): the leaf of an array, called by Python."""
    return object_of(ptr(array_node(ptr[RawArray](a), ptr[RawKind](kind), ptr[RawRecording](now))))
