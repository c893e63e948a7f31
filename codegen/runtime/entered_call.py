"""The call of a Python object that runs a plan, in native Python: `enter`, a `tp_call`.

The called object has a slot with its *site*: a bytes object of addresses of entries (`plan_words.EntryWords`), which
are tried in order.  An entry describes, as data, the arguments of a call and how its result is put together.

Registers hold objects: first the arguments in order and the dict of keywords, borrowed from the caller, then the parts
that checks store, with references until the call ends.  If no entry fits, or the mode is careful, the Python function
`slow(self, args, kwargs)` is called.  The site, and so the entries and their plans, is held during the call.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, bit_cast, extern, held, i32, i64, local, moved, native, own, ptr, row, u64, void
from .call_objects import PACKED, items_of
from .launch import run_plan
from .plan_words import MISS, Check, EntryWords, entering
from .recording_objects import (
    RawAddress,
    RawArray,
    RawTuple,
    call,
    class_of,
    clear_error,
    context_value,
    dict_size,
    float_value,
    let_go,
    list_item,
    list_size,
    matches,
)

#: (code, register, object, first register for the parts, count).  The checks, in order: the register holds an instance
#: of exactly this class; this object, or an equal int, float or str; a tuple of this class with `count` items; a list
#: of it; a dict with the keys of this tuple, in order; a handle on a node whose kind has this result; a handle whose
#: node has a value, which is the part; the dict `object` is empty; the constant `object` is the part; the Python
#: function `object` returns the parts, or None if they are not as expected.
TAKE_APART = ("class", "object", "tuple", "list", "dict", "handle", "value", "empty", "constant", "parts")
CLASS, OBJECT, TUPLE, LIST, DICT, HANDLE, VALUE, EMPTY, CONSTANT, PARTS = range(len(TAKE_APART))
#: The bytes of a site before its addresses.
PAYLOAD = RawAddress.fields()["payload"].offset
#: Py_EQ.
EQUAL = 2

dict_next = extern("PyDict_Next", void, ptr, ptr, ptr, ptr)
compared = extern("PyObject_RichCompareBool", i32, ptr, ptr, i32)
new_copy = extern("new_copy", own, ptr, i32, fails=FAILS)
occurred = extern("PyErr_Occurred", ptr)


@native
def entering_words() -> ptr:
    return entering


@native(inline=False)
def same_value(x: ptr, y: ptr) -> bool:
    """True if x and y are ints, floats or strs of the same class and value (0.0 differs from -0.0)."""
    cls = class_of(x)
    if cls is not class_of(y):
        return False
    if cls is entering.int_type or cls is entering.str_type:
        return compared(x, y, EQUAL) == 1
    return cls is entering.float_type and bit_cast(u64, float_value(x)) == bit_cast(u64, float_value(y))


@native(inline=False)
def parts_by(function: ptr, x: ptr, parts: ptr[own], count: i64) -> bool:
    """Store the parts of an object, as a Python function returns them, in registers.  True if it did.

    An exception of the function is cleared, but an interrupt stays set: the slow path would not raise it again.
    """
    found: own = call(function, row(x), 1, None)
    if found is None:
        if matches(entering.error_type) != 0:
            clear_error()  # the slow path raises the error again
        return False
    if found is entering.none:
        return False
    for i in range(count):
        parts[i] = held(items_of(found)[i])
    return True


@native(inline=False)
def dict_parts(x: ptr, keys: ptr, parts: ptr[own], count: i64) -> bool:
    """Store the values of a dict in registers, if it has these keys in this order.  True if it has."""
    cursor = local(i64, 1)
    pair = local(ptr, 2)
    cursor[0] = 0
    for i in range(count):
        dict_next(x, cursor, pair, pair + 1)
        key = items_of(keys)[i]
        if pair[0] is not key and not same_value(pair[0], key):
            return False
        parts[i] = held(pair[1])
    return True


@native(inline=True)
def taken_apart(check: ptr[Check], x: ptr, parts: ptr[own]) -> bool:
    """True if an object passes a check; the parts are then stored in their registers, with references."""
    count = check.count
    if check.code == CLASS:
        return class_of(x) is check.object
    if check.code == OBJECT:
        return x is check.object or same_value(x, check.object)
    if check.code == HANDLE:
        kind = ptr[ptr](node_of(x) + entering.kind_at)[0]
        return ptr[ptr](kind + entering.out_at)[0] is check.object
    if check.code == TUPLE:
        if class_of(x) is not check.object or ptr[RawTuple](x).size != count:
            return False
        for i in range(count):
            parts[i] = held(items_of(x)[i])
        return True
    if check.code == LIST:
        if class_of(x) is not check.object or list_size(x) != count:
            return False
        for i in range(count):
            parts[i] = held(list_item(x, i))
        return True
    if check.code == DICT:
        fits = class_of(x) is entering.dict_type and dict_size(x) == count
        return fits and dict_parts(x, check.object, parts, count)
    if check.code == VALUE:
        parts[0] = held(value_of(x))
        return parts[0] is not None
    if check.code == CONSTANT:
        parts[0] = held(check.object)
        return True
    if check.code == EMPTY:
        return dict_size(check.object) == 0
    return parts_by(check.object, x, parts, count)


@native(inline=True)
def node_of(x: ptr) -> ptr:
    return ptr[ptr](x + entering.node_at)[0]


@native(inline=True)
def value_of(x: ptr) -> ptr:
    """The value of a handle's node, borrowed; null if it has none yet."""
    node = node_of(x)
    if node is None:
        return None
    value = ptr[ptr](node + entering.value_at)[0]
    return None if value is entering.none else value


@native(inline=False)
def run_packed(entry: ptr[EntryWords], inputs: ptr[ptr], count: i64) -> own:
    """Run a plan that refused its inputs on packed copies of those that are not packed; MISS if all are."""
    copies = local(own, count)
    made = i64(0)
    for i in range(count):
        given = inputs[i]
        if class_of(given) is entering.array_type and ptr[RawArray](given).flags & PACKED != PACKED:
            copies[made] = new_copy(given, 0)  # NPY_CORDER
            inputs[i] = copies[made]
            if inputs[i] is None:
                return None
            made += 1
    return run_plan(entry.plan, inputs, entry) if made != 0 else ptr(MISS)


@native(inline=True)
def passes_checks(entry: ptr[EntryWords], registers: ptr[ptr]) -> bool:
    """True if the arguments pass all checks of an entry."""
    checks = entry.checks
    for c in range(entry.check_count):
        check = checks[c]
        if not taken_apart(check, registers[check.register], ptr[own](registers + check.parts)):
            return False
    return True


@native(inline=False)
def run_python_function(entry: ptr[EntryWords], inputs: ptr[ptr], count: i64) -> own:
    """The result of the Python function that an entry has in place of a plan; MISS for None."""
    found: own = call(entry.python_function, inputs, u64(count), None)
    return moved(found) if found is not entering.none else ptr(MISS)


@native(inline=True)
def run_inputs(entry: ptr[EntryWords], registers: ptr[ptr], inputs: ptr[ptr]) -> own:
    """The result of an entry for arguments that have passed its checks; `inputs`: memory for the plan's inputs."""
    count = entry.input_count
    places = entry.inputs
    for i in range(count):
        inputs[i] = registers[places[i]]
    if entry.plan is None:
        return run_python_function(entry, inputs, count)
    result: own = run_plan(entry.plan, inputs, entry)
    return run_packed(entry, inputs, count) if result is ptr(MISS) else moved(result)


@native(inline=False)
def run_entry(entry: ptr[EntryWords], arguments: ptr[ptr], keywords: ptr) -> own:
    """The result of an entry for these arguments; MISS if they do not fit."""
    registers = local(ptr, entry.registers + entry.input_count)
    given = entry.given
    for a in range(given):
        registers[a] = arguments[a]
    if entry.has_keywords != 0:
        registers[given] = keywords
        given += 1
    n_parts = entry.registers - given
    for r in range(n_parts):
        registers[given + r] = None
    result: own = ptr(MISS)
    if passes_checks(entry, registers):
        result = run_inputs(entry, registers, registers + entry.registers)
    elif occurred() is not None:
        result = None
    let_go(ptr[own](registers + given), n_parts)
    return result


@native(inline=True)
def may_answer() -> bool:
    """True if the mode of this context is not careful, so that entries may answer a call."""
    mode = local(own, 1)
    if context_value(entering.mode, None, mode) < 0:
        clear_error()  # the slow path raises the error again
        return False
    return ptr[ptr](mode[0] + entering.careful_at)[0] is entering.false


@native
def enter(self: ptr, args: ptr, keywords: ptr) -> own:
    site = ptr[ptr](self + entering.site_at)[0]
    if may_answer() and site is not None and class_of(site) is entering.site_type:
        is_named = i64(0)
        if keywords is not None and dict_size(keywords) != 0:
            is_named = 1
        holder: own = held(site)
        entries = ptr[ptr[EntryWords]](holder + PAYLOAD)
        count = ptr[RawTuple](args).size
        for e in range(ptr[RawAddress](site).size >> 3):
            entry = entries[e]
            if entry.given == count and entry.has_keywords == is_named:
                result: own = run_entry(entry, items_of(args), keywords)
                if result is not ptr(MISS):
                    return result
    return call(entering.slow, row(self, args, entering.none if keywords is None else keywords), 3, None)
