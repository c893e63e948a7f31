"""Operations on handles that are recorded from tables, in native Python.

The nodes to record for given operands are data, a *program* (`record_table`).  A *table* finds the program by the keys
of the operands (`key_of`) and by the static arguments of the call: an int counts by its value, a float by its bits, a
tuple or a list by its items, any other object by its address.

`record_op` returns a handle; or CANNOT_NOW (machine code cannot record now: a trace, another thread, an older operand)
or UNKNOWN (no entry).  For these two the *site* names Python functions to call.  A table may have a *rule* for tensors
of new kinds: a Python function that returns the kind of the one node to record.

Any allocation may run arbitrary Python, so an object that is read again after one is held.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, bit_cast, extern, held, i32, i64, local, native, own, ptr, u64
from . import recording_objects as py
from .record_table import MOST_NODES, MOST_OPERANDS, NESTED, SPREAD
from .recorder_arrays import UNKNOWN, kind_of_array
from .recorder_nodes import LATEST, kind_of, node_of, number_of, recording_operations
from .recorder_put import Nodes, ProgramWords, StaticArgument, add_starts, hold_operands, record_kind, record_program
from .recording_structs import RawKind, RawNode, RawRecording, int_or, tape

long_value = extern("PyLong_AsLongLongAndOverflow", i64, ptr, ptr[i32])


@native(inline=True)
def int_within(x: ptr, found: ptr[i64]) -> bool:
    """Write the value of an int to `found`.  False if it takes more than 64 bits."""
    overflow = local(i32, 1)
    found[0] = long_value(x, overflow)
    return overflow[0] == 0


@native(inline=True)
def count_of_items(x: ptr, depth: i64) -> i64:
    """The number of items of a tuple or list; -1 for another object, and at depth 0."""
    if depth == 0 or x is None:
        return -1
    if py.class_of(x) is tape.tuple_type:
        return py.tuple_size(x)
    return py.list_size(x) if py.class_of(x) is tape.list_type else i64(-1)


@native(inline=True)
def item_of(x: ptr, i: i64) -> ptr:
    return py.list_item(x, i) if py.class_of(x) is tape.list_type else py.tuple_item(x, i)


@native
def static_bits(x: ptr, depth: i64) -> u64:
    """The word that stands for a static argument, which may be null.   depth: of items that count by value"""
    number = local(i64, 1)
    if x is not None and py.class_of(x) is tape.int_type and int_within(x, number):
        return u64(number[0])
    if x is not None and py.class_of(x) is tape.float_type:
        return bit_cast(u64, py.float_value(x))
    count = count_of_items(x, depth)
    bits = u64(x) if count < 0 else u64(count)
    for i in range(count):
        bits = bits * 31 + static_bits(item_of(x, i), depth - 1)
    return bits


@native
def is_same_static(x: ptr, y: ptr, depth: i64) -> bool:
    """True for the same object, for ints or floats of the same value, and for tuples or lists whose items are the same.

    Two int objects beyond 64 bits differ.   depth: as of `static_bits`
    """
    if x is y or x is None or y is None or py.class_of(x) is not py.class_of(y):
        return x is y
    count = count_of_items(x, depth)
    if count < 0:
        has_value = py.class_of(x) is tape.int_type or py.class_of(x) is tape.float_type
        return has_value and static_bits(x, 0) == static_bits(y, 0)
    if count_of_items(y, depth) != count:
        return False
    same = i64(0)
    while same < count and is_same_static(item_of(x, same), item_of(y, same), depth - 1):
        same += 1
    return same == count


#: Stand for a key: the operand cannot be recorded now; it is pending from an earlier recording.  UNKNOWN is the third.
NOT_NOW, OLD = 0, 1


@native(inline=True)
def is_number(cls: ptr) -> bool:
    is_python = cls is tape.float_type or cls is tape.int_type or cls is tape.complex_type
    return is_python or cls is tape.float64_type or cls is tape.float32_type or cls is tape.int64_type


@native
def key_of(x: ptr, now: ptr[RawRecording], found: ptr[ptr[RawNode]]) -> ptr:
    """The key of an operand in a table: the Out of a handle, the class of a number, the kind of an array's leaf; or
    NOT_NOW, OLD, UNKNOWN.  The node of a handle goes to `found`, null for a number or an array."""
    cls = py.class_of(x)
    if is_number(cls):
        found[0] = None
        number = local(i64, 1)
        return cls if cls is not tape.int_type or int_within(x, number) else ptr(UNKNOWN)
    n = node_of(x)
    found[0] = n
    if n is None:
        return kind_of_array(ptr[py.RawArray](x))
    kind = kind_of(n)
    if kind is None:
        return None
    if n.value is tape.none and number_of(n) < int_or(now.start, LATEST):
        return ptr(OLD)
    return kind.out


@native(inline=False)
def evaluate_old(now: ptr[RawRecording], xs: ptr[ptr], count: i64) -> bool:
    """Evaluate the operands that are pending from an earlier recording.  False with an exception."""
    found = local(ptr[RawNode], 1)
    for i in range(count):
        if key_of(xs[i], now, found) is ptr(OLD):
            n: own[RawNode] = held(found[0])
            answer: own = py.call_one(tape.force, n)
            if answer is None:
                return False
    return True


#: Stands for a program or a handle, as UNKNOWN does.
CANNOT_NOW = 1


class TableWords(Struct):
    """The words of a `record_table.RecordTable`: the number of its places, a power of two, then the places."""

    places: i64


@native(inline=True)
def programs_of(table: ptr[TableWords]) -> ptr[ptr[ProgramWords]]:
    """The places of a table, each a program or null."""
    return ptr[ptr[ProgramWords]](table + 1)


@native(inline=True)
def is_miss(found: ptr) -> bool:
    """True for CANNOT_NOW, for UNKNOWN, and for null, which means an exception."""
    return u64(found) <= UNKNOWN


@native(inline=True)
def is_for(
    program: ptr[ProgramWords], keys: ptr[ptr], count: i64, mode: ptr, statics: ptr[StaticArgument], n_statics: i64,
    are_words: bool,
) -> bool:
    """True if a program is for exactly these operands, grad mode and statics."""
    if program.mode is not mode or program.n_keyed != count or program.n_statics != n_statics:
        return False
    for k in range(count):
        if program.keys[k] is not keys[k]:
            return False
    for k in range(n_statics):
        exact = program.statics[k]
        given = statics[k]
        if given.name != exact.name:
            return False
        if given.value != exact.value and (are_words or not is_same_static(ptr(given.value), ptr(exact.value), NESTED)):
            return False
    return True


@native
def place_of(
    table: ptr[TableWords], keys: ptr[ptr], count: i64, mode: ptr, statics: ptr[StaticArgument], n_statics: i64,
    are_words: bool,
) -> i64:
    """The place of the program for these keys of operands and statics, or the empty place where it would go."""
    bits = u64(mode)
    for k in range(count):
        bits = (bits + u64(keys[k])) * SPREAD
    for k in range(n_statics):
        value = statics[k].value
        bits = (bits + statics[k].name) * SPREAD + (value if are_words else static_bits(ptr(value), NESTED))
    last = table.places - 1
    place = i64(bits * SPREAD >> 32) & last
    programs = programs_of(table)
    while programs[place] is not None and not is_for(programs[place], keys, count, mode, statics, n_statics, are_words):
        place = place + 1 & last
    return place


@native
def place_for(words: ptr, program: ptr) -> own:
    """`place_of` for Python, which passes the addresses of a table and a program."""
    table = ptr[TableWords](u64(py.int_value(words)))
    p = ptr[ProgramWords](u64(py.int_value(program)))
    return py.int_of(place_of(table, p.keys, p.n_keyed, p.mode, p.statics, p.n_statics, p.are_words != 0))


class TableCell(Struct):
    """The table of a function, and its rule; each may be null."""

    table: ptr[TableWords]
    rule: ptr


@native(inline=True)
def program_for(
    cell: ptr[TableCell], keys: ptr[ptr], count: i64, mode: ptr, statics: ptr[StaticArgument], n_statics: i64,
    are_words: bool,
) -> ptr[ProgramWords]:  # fmt: skip
    """The program in a table for these keys of operands and statics, or CANNOT_NOW, or UNKNOWN."""
    table = cell.table
    if table is None:
        return ptr[ProgramWords](UNKNOWN)
    program = programs_of(table)[place_of(table, keys, count, mode, statics, n_statics, are_words)]
    if program is None:
        return ptr[ProgramWords](UNKNOWN)
    return ptr[ProgramWords](CANNOT_NOW) if program.count == 0 else program  # no steps: Python always records this


@native(inline=False)
def record_by_rule(
    rule: ptr, given: ptr[ptr], n_given: i64, now: ptr[RawRecording], keys: ptr[ptr], xs: ptr[ptr],
    nodes: ptr[ptr[RawNode]], count: i64, starts: ptr[i64], n_starts: i64,
) -> own:  # fmt: skip
    """Record one node for tensors, of the kind that a rule returns.  The result is as that of `record_op`.

    given     the arguments of the rule;  starts: of a slice, further operands behind the tensors
    """
    mode = local(ptr, 2)
    found = local(ptr[RawNode], 1)
    for i in range(count):
        if nodes[i] is None:
            return ptr(UNKNOWN)
    for i in range(count):
        py.inc(nodes[i])
    recording: own[RawRecording] = held(now)
    _ = recording_operations(mode)
    kind: own[RawKind] = py.call(rule, given, u64(n_given), None)
    # Any Python may have run, so everything is checked again.
    is_good = kind is not None and py.class_of(kind) is tape.kind_type
    is_good = is_good and recording_operations(mode + 1) is now and mode[0] is mode[1]
    for i in range(count):
        is_good = is_good and key_of(xs[i], now, found) is keys[i] and found[0] is nodes[i]
    if not is_good:
        py.let_go(ptr[own](nodes), count)
        return None if kind is None else ptr(UNKNOWN)
    if not add_starts(starts, n_starts, xs, Nodes(nodes), count):
        return None
    return record_kind(kind, recording, xs, Nodes(nodes), count + n_starts)


@native
def record_op(cell: ptr[TableCell], xs: ptr[ptr], count: i64, statics: ptr[StaticArgument], n_statics: i64) -> own:
    """Record an operation: a new handle, CANNOT_NOW or UNKNOWN; null with an exception."""
    mode = local(ptr, 1)
    keys = local(ptr, MOST_OPERANDS)
    nodes = local(ptr[RawNode], MOST_NODES)
    now = recording_operations(mode)
    if now is None:
        return ptr(CANNOT_NOW)
    was_evaluated = False
    i = i64(0)
    while i < count:
        keys[i] = key_of(xs[i], now, nodes + i)
        if is_miss(keys[i]):
            if keys[i] is ptr(UNKNOWN):
                return ptr(UNKNOWN)
            if keys[i] is ptr(NOT_NOW) or was_evaluated:
                return ptr(CANNOT_NOW)
            # Evaluate old operands once, then start over: the evaluation may run Python, which may change anything.
            recording: own[RawRecording] = held(now)
            if not evaluate_old(recording, xs, count):
                return None
            if recording_operations(mode) is not now:
                return ptr(CANNOT_NOW)
            was_evaluated = True
            i = 0
        else:
            i += 1
    program = program_for(cell, keys, count, mode[0], statics, n_statics, False)
    if program is ptr[ProgramWords](UNKNOWN) and n_statics == 0 and cell.rule is not None:
        return record_by_rule(cell.rule, keys, count, now, keys, xs, nodes, count, None, 0)
    if is_miss(program):
        return own(program)
    _owner: own = held(program.owner)
    found = hold_operands(program, keys, xs, Nodes(nodes), count)
    if found <= 0:
        return ptr(CANNOT_NOW) if found == 0 else None
    return record_program(program, now, xs, Nodes(nodes), count)
