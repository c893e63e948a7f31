"""Small pending results, in native Python: they are computed along with what is asked for.

    note(recording, handle)    the weak reference by which one is found at the next ask
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import extern, i32, i64, local, native, ptr
from .object_heads import class_of
from .recording_objects import append, call, dec, list_item, list_size, referent
from .recording_structs import RawHandle, RawRecording, int_or, tape

__all__ = ["LOOKED_BACK", "call_with_two", "new_reference", "note", "set_slice"]

#: Handles noted last that are looked at when another is: as many as a line of a program holds at once.
LOOKED_BACK = 4

new_reference = extern("PyWeakref_NewRef", ptr, ptr, ptr)
set_slice = extern("PyList_SetSlice", i32, ptr, i64, i64, ptr)


@native
def call_with_two(function: ptr, first: ptr, second: ptr) -> i32:
    """Call a function of Python's for what it does.  -1 with an exception."""
    arguments = local(ptr, 2)
    arguments[0] = first
    arguments[1] = second
    answer = call(function, arguments, 2, None)
    if answer is None:
        return -1
    dec(answer)
    return 0


@native
def leave_out_gone(small: ptr) -> i32:
    """Leave the last handles that were noted out of the list if they are gone.  -1 with an exception.

    What a program makes of small results is mostly gone when it makes the next, and each that stays in the list counts
    as new for the collector of cycles.
    """
    end = list_size(small)
    least = end - LOOKED_BACK
    while end > 0 and end > least:
        end -= 1
        if referent(list_item(small, end)) is tape.none and set_slice(small, end, end + 1, None) < 0:
            return -1
    return 0


@native
def note(now: ptr[RawRecording], y: ptr[RawHandle]) -> i32:
    """Remember the handle of a small pending result, weakly.  -1 with an exception."""
    if now.small is not None and class_of(now.small) is tape.list_type:
        if leave_out_gone(now.small) < 0:
            return -1
        if list_size(now.small) < int_or(now.limit, 0):
            reference = new_reference(ptr(y), None)
            if reference is None:
                return -1
            status = append(now.small, reference)  # it may be another list by now
            dec(reference)
            return status
    return call_with_two(tape.note_small, ptr(now), ptr(y))
