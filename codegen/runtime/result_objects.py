"""Results of calls, put together from new objects, in native Python: `put_together`, and `scalar`."""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, extern, i32, i64, local, native, ptr, u8, u32
from .object_heads import HEAD
from .plan_words import EntryWords, Spec, entering
from .recording_objects import dec, inc, let_go, list_item, new_list, new_tuple, set_list, tuple_size

__all__ = ["PUT_TOGETHER", "items_of", "put_together", "row_of", "scalar"]

#: (code, operand): end; a result that is not used again, or is; an object; so many as a tuple, a list; a dict of keys;
#: a tuple of results that follow one another and are not used again: the first, and how many << 32; instead of a result
#: NumPy's own false or true (`Truth`).
PUT_TOGETHER = ("end", "last", "result", "object", "tuple", "list", "dict", "row", "truth")
END, LAST, RESULT, OBJECT, TUPLE, LIST, DICT, ROW, TRUTH = range(len(PUT_TOGETHER))

new_dict = extern("PyDict_New", ptr)
set_in_dict = extern("PyDict_SetItem", i32, ptr, ptr, ptr)


class Truth(Struct):
    """NumPy's own false and true for the object of this number, which was written to, and is let go if it is_last."""

    number: i64
    is_last: i64
    false: ptr
    true: ptr


@native(inline=True)
def items_of(tuple_: ptr) -> ptr[ptr]:
    """The items of a tuple, in place."""
    return ptr[ptr](tuple_ + entering.items_at)


@native(inline=True)
def is_held_once(thing: ptr) -> bool:
    """True if an object has one reference: the lower half of that number is there in every version of Python."""
    return ptr[u32](thing)[0] == 1


@native(inline=False)
def scalar(spec: ptr[Spec]) -> ptr:
    """A NumPy scalar to write to; null with an exception.

    Nobody can see it if one changes that only the list of those that this place had last holds.  It has two, since a
    result mostly lives until the next one is there.
    """
    last = list_item(spec.kept, 0)
    free = last if is_held_once(last) else list_item(spec.kept, 1)
    if is_held_once(free):
        inc(free)
        return free
    made = spec.make(spec.scalar, 0)
    if made is not None:
        inc(last)  # the next two calls take these references
        inc(made)
        set_list(spec.kept, 1, last)
        set_list(spec.kept, 0, made)
    return made


@native(inline=True)
def row_of(objects: ptr[ptr], count: i64) -> ptr:
    """A tuple of objects, which it takes; null with an exception."""
    made = new_tuple(count)
    if made is not None:
        to = items_of(made)
        for i in range(count):
            to[i] = objects[i]
            objects[i] = None
    return made


@native(inline=True)
def list_of_parts(parts: ptr[ptr], count: i64) -> ptr:
    made = new_list(count)
    if made is not None:
        for i in range(count):
            set_list(made, i, parts[i])
    return made


@native(inline=True)
def dict_of_parts(keys: ptr, parts: ptr[ptr], count: i64) -> ptr:
    made = new_dict()
    if made is None:
        return None
    for i in range(count):
        if set_in_dict(made, items_of(keys)[i], parts[i]) != 0:
            dec(made)
            return None
    let_go(parts, count)  # the dict holds them
    return made


@native(inline=False)
def put_together(entry: ptr[EntryWords], objects: ptr[ptr]) -> ptr:
    """The result of these new objects, which it takes; null with an exception.

    Objects that it does not take are left where they are.
    """
    stack = local(ptr, entry.depth)
    top = i64(0)
    at = entry.result
    while at.code != END:
        code = at.code
        operand = at.operand
        made = ptr(operand)
        parts = i64(0)
        if code == LAST:
            made = objects[operand]
            objects[operand] = None
        elif code == RESULT:
            made = objects[operand]
            inc(made)
        elif code == OBJECT:
            inc(made)
        elif code == TUPLE:
            parts = operand
            top -= parts
            made = row_of(stack + top, parts)
        elif code == LIST:
            parts = operand
            top -= parts
            made = list_of_parts(stack + top, parts)
        elif code == DICT:
            parts = tuple_size(made)
            top -= parts
            made = dict_of_parts(made, stack + top, parts)
        elif code == ROW:
            made = row_of(objects + (operand & 0xFFFFFFFF), operand >> 32)
        else:
            truth = ptr[Truth](operand)
            held = objects[truth.number]
            made = truth.true if ptr[u8](held + HEAD)[0] != 0 else truth.false
            inc(made)
            if truth.is_last != 0:
                objects[truth.number] = None
                dec(held)
        if made is None:
            let_go(stack, top + parts)
            return None
        stack[top] = made
        top += 1
        at = at + 1
    return stack[0]
