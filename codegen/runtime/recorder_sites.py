"""Sites at which the recorder is entered, in native Python: one for each operator, call and method.

    at_site        records from a site's table, or calls what Python has for it
    compare, power    `tp_richcompare`, `nb_power`
    called         `tp_call` of functions: those that have a site of their own go there
    method         a method of handles, which has one
    SITES          the entry points: `binary_0`, `unary_0`, `method_0` and so on, and those that are alone of their sort

How many arguments of a site are operands: so many in front; 0: all, whose names are static; -1: the items of the
first, a list or tuple; -2: none.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from typing import Any

from ..native import FAILS, Struct, array, extern, held, i32, i64, local, native, own, ptr, row, static, u64, void
from . import recording_objects as py
from .record_table import COUNTS, FIRST, MOST_OPERANDS, MOST_STATICS, SITE_WORDS
from .recorder_put import StaticArgument
from .recorder_tables import CIRCUMSTANCE, UNKNOWN, TableCell, is_miss, recorded
from .recording_structs import RawFunction, tape

COMPARE, POWER, SUBSCRIPT, ASSIGN, CALLED, *_ = list(FIRST.values())[2:]

dict_next = extern("PyDict_Next", void, ptr, ptr[i64], ptr[ptr], ptr[ptr])
call_with = extern("PyObject_VectorcallDict", own, ptr, ptr[ptr], u64, ptr, fails=FAILS)


class RecordingSite(Struct):
    """A place where operations are recorded.

    table      the address of its table's cell;   slow: who is called in circumstances;   unknown: for an unknown key
    operands   which of its arguments are operands

    Of what is in place `slow` updates instead, and `unknown` gives a handle the result of the operator, whose site has
    the same number among those of binary ones.
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
    """The result of Python's function of a site, in circumstances or for an unknown key."""
    function = site.unknown if missed is ptr(UNKNOWN) else site.slow
    return py.call(function, arguments, u64(count), names)


@native(inline=True)
def answer_of(found: own, site: ptr[RecordingSite], arguments: ptr[ptr], count: i64, names: ptr) -> own:
    """The result of a site; of a miss that of the function which the site has for it, with these arguments."""
    if not is_miss(found) or found is None:
        return found
    return call_site(site, found, arguments, count, names)


@native
def at_site(site: ptr[RecordingSite], first: ptr, second: ptr) -> own:
    """The result of a site for one or two operands: recorded, or given by its Python functions."""
    arguments = row(first, second)
    count = 1 + i64(second is not None)
    return answer_of(recorded(site.table, arguments, count, None, 0), site, arguments, count, None)


@native
def compare(first: ptr, second: ptr, which: i32) -> own:
    """A comparison.  The sites of the six are in the order of their numbers."""
    return at_site(sites + (which + COMPARE), first, second)


@native
def power(first: ptr, second: ptr, modulus: ptr) -> own:
    """A power.  An exponent that is a number is static."""
    if modulus is not tape.none:
        return held(tape.not_implemented)
    site = sites + POWER
    if py.class_of(second) is not tape.float_type and py.class_of(second) is not tape.int_type:
        return at_site(site, first, second)
    statics = local(StaticArgument, 1)
    statics.name = 0
    statics.value = u64(second)
    arguments = row(first, second)
    return answer_of(recorded(site.table, arguments, 1, statics, 1), site, arguments, 2, None)


# ------------------------------------------------------------------ calls and methods


@native
def recorded_items(site: ptr[RecordingSite], first: ptr, statics: ptr[StaticArgument], n_statics: i64) -> own:
    """The result for the items of a list or tuple, as `recorded`.  They are held: a list may be changed."""
    items = local(own, MOST_OPERANDS)
    is_list = py.class_of(first) is tape.list_type
    if not is_list and py.class_of(first) is not tape.tuple_type:
        return ptr(CIRCUMSTANCE)
    count = py.list_size(first) if is_list else py.tuple_size(first)
    if count == 0 or count > MOST_OPERANDS:
        return ptr(CIRCUMSTANCE)
    for k in range(count):
        items[k] = held(py.list_item(first, k) if is_list else py.tuple_item(first, k))
    return recorded(site.table, ptr[ptr](items), count, statics, n_statics)


@native
def spread(site: ptr[RecordingSite], arguments: ptr[ptr], given: i64, names: ptr[ptr], named: i64) -> own:
    """The result of a site for these arguments, the last of which have names: as `recorded`."""
    statics = local(StaticArgument, MOST_STATICS)
    all_ = given + named
    wanted = site.operands
    count = all_ if wanted == 0 else wanted
    first = given if wanted == 0 else i64(0)  # the first one that is static; of operands names are, without a value
    if wanted > 0 or wanted == -1:
        first = wanted if wanted > 0 else i64(1)
    if first > given or count > MOST_OPERANDS or all_ - first > MOST_STATICS or (wanted == 0 and all_ == 0):
        return ptr(CIRCUMSTANCE)
    for k in range(first, all_):
        statics[k - first].name = u64(names[k - given]) if k >= given else 0
        statics[k - first].value = u64(tape.none) if wanted == 0 else u64(arguments[k])
    if wanted == -1:
        return recorded_items(site, arguments[0], statics, all_ - first)
    return recorded(site.table, arguments, count if count > 0 else i64(0), statics, all_ - first)


@native
def called(function: ptr, arguments: ptr, keywords: ptr) -> own:
    """A call `function(*arguments, **keywords)` of a function that may have a site of its own."""
    given = ptr[py.RawTuple](arguments).size
    named = i64(0) if keywords is None else py.dict_size(keywords)
    nearby = local(ptr, py.FEW)
    memory = py.room(nearby, py.FEW, given + 2 * named + 1)
    if memory is None:
        return None
    stack = ptr[ptr](memory)  # they are the caller's
    names = stack + (given + named + 1)
    position = local(i64, 1)
    stack[0] = function
    for k in range(given):
        stack[k + 1] = py.tuple_item(arguments, k)
    position[0] = 0
    for k in range(named):
        dict_next(keywords, position, names + k, stack + (given + k + 1))
    found: own = ptr(CIRCUMSTANCE)
    holder = ptr[RawFunction](function).site
    if holder is not None and py.class_of(holder) is tape.address_type:
        mine = ptr[RecordingSite](ptr[py.RawAddress](holder).payload)
        found = spread(mine, stack + 1, given, names, named)
        if found is ptr(UNKNOWN):
            found = call_with(mine.unknown, stack + 1, u64(given), keywords)
    if found is ptr(CIRCUMSTANCE):
        found = call_with(sites[CALLED].slow, stack, u64(given + 1), keywords)
    py.leave(memory, 0, nearby)
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
    return answer_of(spread(site, stack, given + 1, names, named), site, stack, given + 1, keywords)


# ------------------------------------------------------------------ entry points


def _binary(number: int) -> Any:
    @native
    def binary(first: ptr, second: ptr) -> own:
        return at_site(sites + number, first, second)

    return binary


def _unary(number: int) -> Any:
    @native
    def unary(x: ptr) -> own:
        return at_site(sites + number, x, None)

    return unary


def _method(number: int) -> Any:
    @native
    def method_of(x: ptr, arguments: ptr[ptr], given: i64, keywords: ptr) -> own:
        return method(sites + number, x, arguments, given, keywords)

    return method_of


def named_sites(sort: str, make: Any) -> list[Any]:
    """The entry points of a sort, by their names."""
    made = [make(FIRST[sort] + k) for k in range(COUNTS[sort])]
    for k, routine in enumerate(made):
        routine.name = f"{sort}_{k}"
    return made


SITES = [
    *named_sites("binary", _binary), *named_sites("unary", _unary), *named_sites("method", _method), compare, power,
    called, recorder_sites,
]  # fmt: skip
