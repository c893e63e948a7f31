"""Sites at which Python's calls enter the recorder, in native Python: one for each operator, function and method.

    record_or_call    record from a site's table, or call the site's Python function
    compare, power    `tp_richcompare`, `nb_power`
    called            `tp_call` of functions; a function with a site of its own is recorded there
    method            a method of handles that has a site
    SITES             the entry points: `binary_0`, `unary_0`, `method_0` and so on, and those alone of their sort

`operands` says which arguments of a site are operands.  n > 0: the first n; 0: all, and their names are static; -1: the
items of the first argument, a list or tuple; -2: none.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from typing import Any

from ..native import FAILS, Struct, array, extern, held, i32, i64, local, native, own, ptr, row, static, u64, void
from . import recording_objects as py
from .record_table import COUNTS, FIRST, MOST_OPERANDS, MOST_STATICS, SITE_WORDS
from .recorder_put import StaticArgument
from .recorder_tables import CANNOT_NOW, UNKNOWN, TableCell, is_miss, record_op
from .recording_structs import RawFunction, tape

COMPARE, POWER, SUBSCRIPT, ASSIGN, CALLED, *_ = list(FIRST.values())[2:]

dict_next = extern("PyDict_Next", void, ptr, ptr[i64], ptr[ptr], ptr[ptr])
call_with = extern("PyObject_VectorcallDict", own, ptr, ptr[ptr], u64, ptr, fails=FAILS)


class RecordingSite(Struct):
    """A place where operations are recorded.

    table      the address of its table's cell;   operands: which of its arguments are operands (see the module)
    slow, unknown    Python functions: `slow` is called for CANNOT_NOW, `unknown` for UNKNOWN (`recorder_tables`)

    At a site of an in-place operator `slow` does the whole update.  `unknown` gives the handle the result of the binary
    operator, whose site has the same number among the binary sites.
    """

    table: ptr[TableCell]
    slow: ptr
    unknown: ptr
    operands: i64


assert RecordingSite.size() == 8 * SITE_WORDS
sites = static(array[RecordingSite, sum(COUNTS.values())])


@native
def recorder_sites() -> ptr[RecordingSite]:
    return sites


# ------------------------------------------------------------------ operators


@native
def call_site(site: ptr[RecordingSite], missed: ptr, arguments: ptr[ptr], count: i64, names: ptr) -> own:
    """The result of the Python function that a site has for a miss: CANNOT_NOW or UNKNOWN."""
    function = site.unknown if missed is ptr(UNKNOWN) else site.slow
    return py.call(function, arguments, u64(count), names)


@native(inline=True)
def result_or_call(found: own, site: ptr[RecordingSite], arguments: ptr[ptr], count: i64, names: ptr) -> own:
    """A result of `record_op`; after a miss the result of the site's Python function for these arguments."""
    if not is_miss(found) or found is None:
        return found
    return call_site(site, found, arguments, count, names)


@native
def record_or_call(site: ptr[RecordingSite], first: ptr, second: ptr) -> own:
    """The result of a site for one or two operands: recorded, or computed by a Python function of the site."""
    arguments = row(first, second)
    count = 1 + i64(second is not None)
    return result_or_call(record_op(site.table, arguments, count, None, 0), site, arguments, count, None)


@native
def compare(first: ptr, second: ptr, which: i32) -> own:
    """A comparison.  The six sites are in the order of CPython's numbers of comparisons."""
    return record_or_call(sites + (which + COMPARE), first, second)


@native
def power(first: ptr, second: ptr, modulus: ptr) -> own:
    """A power.  An exponent that is a number is static."""
    if modulus is not tape.none:
        return held(tape.not_implemented)
    site = sites + POWER
    if py.class_of(second) is not tape.float_type and py.class_of(second) is not tape.int_type:
        return record_or_call(site, first, second)
    statics = local(StaticArgument, 1)
    statics.name = 0
    statics.value = u64(second)
    arguments = row(first, second)
    return result_or_call(record_op(site.table, arguments, 1, statics, 1), site, arguments, 2, None)


# ------------------------------------------------------------------ calls and methods


@native
def record_items(site: ptr[RecordingSite], first: ptr, statics: ptr[StaticArgument], n_statics: i64) -> own:
    """The result for the items of a list or tuple, as `record_op`.  The items are held, because a list may change."""
    items = local(own, MOST_OPERANDS)
    is_list = py.class_of(first) is tape.list_type
    if not is_list and py.class_of(first) is not tape.tuple_type:
        return ptr(CANNOT_NOW)
    count = py.list_size(first) if is_list else py.tuple_size(first)
    if count == 0 or count > MOST_OPERANDS:
        return ptr(CANNOT_NOW)
    for k in range(count):
        items[k] = held(py.list_item(first, k) if is_list else py.tuple_item(first, k))
    return record_op(site.table, ptr[ptr](items), count, statics, n_statics)


@native
def record_call(site: ptr[RecordingSite], arguments: ptr[ptr], given: i64, names: ptr[ptr], named: i64) -> own:
    """The result of a site for arguments, the last `named` of which have names: as `record_op`."""
    statics = local(StaticArgument, MOST_STATICS)
    all_ = given + named
    wanted = site.operands
    count = all_ if wanted == 0 else wanted
    first = given if wanted == 0 else i64(0)  # the first static argument; named operands count, with their names alone
    if wanted > 0 or wanted == -1:
        first = wanted if wanted > 0 else i64(1)
    if first > given or count > MOST_OPERANDS or all_ - first > MOST_STATICS or (wanted == 0 and all_ == 0):
        return ptr(CANNOT_NOW)
    for k in range(first, all_):
        statics[k - first].name = u64(names[k - given]) if k >= given else 0
        statics[k - first].value = u64(tape.none) if wanted == 0 else u64(arguments[k])
    if wanted == -1:
        return record_items(site, arguments[0], statics, all_ - first)
    return record_op(site.table, arguments, count if count > 0 else i64(0), statics, all_ - first)


@native
def called(function: ptr, arguments: ptr, keywords: ptr) -> own:
    """A call `function(*arguments, **keywords)` of a function that may have a site of its own."""
    given = ptr[py.RawTuple](arguments).size
    named = i64(0) if keywords is None else py.dict_size(keywords)
    nearby = local(ptr, py.FEW)
    memory = py.room(nearby, py.FEW, given + 2 * named + 1)
    if memory is None:
        return None
    stack = ptr[ptr](memory)  # borrowed: the caller holds the arguments
    names = stack + (given + named + 1)
    position = local(i64, 1)
    stack[0] = function
    for k in range(given):
        stack[k + 1] = py.tuple_item(arguments, k)
    position[0] = 0
    for k in range(named):
        dict_next(keywords, position, names + k, stack + (given + k + 1))
    found: own = ptr(CANNOT_NOW)
    holder = ptr[RawFunction](function).site
    if holder is not None and py.class_of(holder) is tape.address_type:
        mine = ptr[RecordingSite](ptr[py.RawAddress](holder).payload)
        found = record_call(mine, stack + 1, given, names, named)
        if found is ptr(UNKNOWN):
            found = call_with(mine.unknown, stack + 1, u64(given), keywords)
    if found is ptr(CANNOT_NOW):
        found = call_with(sites[CALLED].slow, stack, u64(given + 1), keywords)
    py.free_room(memory, 0, nearby)
    return found


@native
def method(site: ptr[RecordingSite], x: ptr, arguments: ptr[ptr], given: i64, keywords: ptr) -> own:
    """A method of handles with a site: METH_FASTCALL | METH_KEYWORDS."""
    named = i64(0) if keywords is None else py.tuple_size(keywords)
    stack = local(ptr, given + named + 1)
    names = local(ptr, named + 1)
    stack[0] = x
    for k in range(given + named):
        stack[k + 1] = arguments[k]
    for k in range(named):
        names[k] = py.tuple_item(keywords, k)
    return result_or_call(record_call(site, stack, given + 1, names, named), site, stack, given + 1, keywords)


# ------------------------------------------------------------------ entry points


def _binary(number: int) -> Any:
    @native
    def binary(first: ptr, second: ptr) -> own:
        return record_or_call(sites + number, first, second)

    return binary


def _unary(number: int) -> Any:
    @native
    def unary(x: ptr) -> own:
        return record_or_call(sites + number, x, None)

    return unary


def _method(number: int) -> Any:
    @native
    def method_of(x: ptr, arguments: ptr[ptr], given: i64, keywords: ptr) -> own:
        return method(sites + number, x, arguments, given, keywords)

    return method_of


def named_sites(sort: str, make: Any) -> list[Any]:
    """The entry points of a sort of sites, named by sort and number."""
    made = [make(FIRST[sort] + k) for k in range(COUNTS[sort])]
    for k, routine in enumerate(made):
        routine.name = f"{sort}_{k}"
    return made


SITES = [
    *named_sites("binary", _binary), *named_sites("unary", _unary), *named_sites("method", _method), compare, power,
    called, recorder_sites,
]  # fmt: skip
