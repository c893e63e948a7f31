"""`x[key]` and `x[key] = v`, in native Python: an `mp_subscript` and an `mp_ass_subscript`.

The static part of a key decides which nodes are recorded: a pair of words for each entry.  `key_words` returns it:

    slice    number of elements, step       int    -1, 0        None    -2, 0        ...    -3, 0
    array of integers    -4, 0

The operands are x, v, then index arrays, then the starts of slices and ints.  An entry that takes all of an axis has
none.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, Struct, array, extern, held, i32, i64, local, moved, native, own, ptr, row, u64, void
from . import recording_objects as py
from .record_table import MOST_NODES, MOST_OPERANDS, MOST_STATICS
from .recorder_nodes import is_captured, is_masked, recording_now, recording_operations
from .recorder_put import Nodes, ProgramWords, StaticArgument, add_starts, hold_operands, rebind, record_program
from .recorder_sites import ASSIGN, SUBSCRIPT, RecordingSite, call_site, result_or_call, sites
from .recorder_tables import CANNOT_NOW, UNKNOWN, int_within, is_miss, key_of, program_for, record_by_rule
from .recording_structs import RawHandle, RawNode, RawOut, RawRecording, new_none, tape

#: The first words of the pairs of entries that are no slices.
INT, NEW, REST, INDEX = u64(-1), u64(-2), u64(-3), u64(-4)

given_ends = extern("PySlice_Unpack", i32, ptr, ptr[i64], ptr[i64], ptr[i64], fails=FAILS)
adjusted = extern("PySlice_AdjustIndices", i64, i64, ptr[i64], ptr[i64], i64)


class RawSlice(Struct):
    head: py.RawObject
    start: ptr
    stop: ptr
    step: ptr


class RawInt64(Struct):
    """A `numpy.int64`."""

    head: py.RawObject
    value: i64


class KeyReading(Struct):
    """A key while it is read.

    count     the number of operands before index arrays;   keys, nodes, xs: table keys, nodes, objects of all operands
    pairs     the static pairs of entries;   starts: of slices and ints;   extents: of the axes of index arrays
    """

    now: ptr[RawRecording]
    mode: array[ptr, 1]
    count: i64
    keys: array[ptr, MOST_OPERANDS]
    xs: array[ptr, MOST_NODES]
    nodes: array[ptr[RawNode], MOST_NODES]
    pairs: array[StaticArgument, MOST_STATICS]
    starts: array[i64, MOST_STATICS]
    extents: array[i64, MOST_OPERANDS]
    n_pairs: i64
    n_starts: i64
    n_indices: i64
    has_ints: bool


# ------------------------------------------------------------------ reading a key


@native(inline=True)
def is_plain_bound(bound: ptr) -> bool:
    """True for None and an int, which can be read without running Python."""
    return bound is tape.none or py.class_of(bound) is tape.int_type


@native(inline=True)
def add_start(r: ptr[KeyReading], start: i64) -> void:
    r.starts[r.n_starts] = start
    r.n_starts += 1


@native
def read_slice(r: ptr[KeyReading], pair: ptr[StaticArgument], one: ptr[RawSlice], extent: i64) -> bool:
    if not (is_plain_bound(one.start) and is_plain_bound(one.stop) and is_plain_bound(one.step)):
        return False
    start = local(i64, 1)
    stop = local(i64, 1)
    step = local(i64, 1)
    if given_ends(one, start, stop, step) < 0:
        py.clear_error()  # Python meets the error again, and explains it
        return False
    count = adjusted(extent, start, stop, step[0])
    pair.name = u64(count)
    pair.value = u64(step[0])
    if count != extent or step[0] != 1:
        add_start(r, start[0] if count != 0 else 0)
    return True


@native
def read_place(r: ptr[KeyReading], pair: ptr[StaticArgument], place: i64, extent: i64) -> bool:
    from_start = place + extent if place < 0 else place
    if from_start < 0 or from_start >= extent:
        return False
    pair.name = INT
    r.has_ints = True
    if extent != 1:
        add_start(r, from_start)
    return True


@native
def read_operand(r: ptr[KeyReading], operand: i64, x: ptr) -> u64:
    """Read an operand with a key.  Returns 0, CANNOT_NOW or UNKNOWN."""
    r.keys[operand] = key_of(x, r.now, r.nodes + operand)
    r.xs[operand] = x
    if is_miss(r.keys[operand]):
        return UNKNOWN if r.keys[operand] is ptr(UNKNOWN) else CANNOT_NOW
    return CANNOT_NOW if is_masked(x, r.nodes[operand]) else 0


@native
def read_index(r: ptr[KeyReading], pair: ptr[StaticArgument], one: ptr, extent: i64) -> u64:
    """Read an index array.  Returns 0, CANNOT_NOW or UNKNOWN."""
    operand = r.count + r.n_indices
    if operand >= MOST_OPERANDS:
        return CANNOT_NOW
    status = read_operand(r, operand, one)
    if status != 0:
        return status
    if r.nodes[operand] is None and py.class_of(one) is not tape.array_type:
        return CANNOT_NOW
    r.extents[r.n_indices] = extent
    r.n_indices += 1
    pair.name = INDEX
    return 0


@native
def read_axis(r: ptr[KeyReading], pair: ptr[StaticArgument], one: ptr, extent: i64) -> u64:
    """Read an entry that takes an axis.  Returns 0, CANNOT_NOW or UNKNOWN."""
    place = local(i64, 1)
    cls = py.class_of(one)
    if cls is tape.slice_type:
        return 0 if read_slice(r, pair, ptr[RawSlice](one), extent) else CANNOT_NOW
    if cls is not tape.int_type and cls is not tape.int64_type:
        return read_index(r, pair, one, extent)
    if cls is tape.int64_type:
        place[0] = ptr[RawInt64](one).value
    elif not int_within(one, place):
        return CANNOT_NOW
    return 0 if read_place(r, pair, place[0], extent) else CANNOT_NOW


@native
def axes_behind(key: ptr, first: i64) -> i64:
    """The number of axes that the entries behind an ellipsis take; -1 if there is a second ellipsis."""
    found = i64(0)
    if py.class_of(key) is tape.tuple_type:
        for i in range(first, py.tuple_size(key)):
            one = py.tuple_item(key, i)
            if one is tape.ellipsis:
                return -1
            found += i64(one is not tape.none)
    return found


@native
def read_key(r: ptr[KeyReading], shape: ptr, key: ptr) -> u64:
    """Read a key of an operand with this shape.  Returns 0, CANNOT_NOW or UNKNOWN."""
    is_tuple = py.class_of(key) is tape.tuple_type
    rank = py.tuple_size(shape)
    r.n_starts = 0
    r.n_indices = 0
    r.has_ints = False
    r.n_pairs = py.tuple_size(key) if is_tuple else i64(1)
    if r.n_pairs > MOST_STATICS:
        return CANNOT_NOW
    axis = i64(0)
    for i in range(r.n_pairs):
        one = py.tuple_item(key, i) if is_tuple else key
        pair = r.pairs[i]
        pair.value = 0
        if one is tape.none:
            pair.name = NEW
        elif one is tape.ellipsis:
            taken = axes_behind(key, i + 1)
            if taken < 0 or rank - taken < axis:
                return CANNOT_NOW
            axis = rank - taken
            pair.name = REST
        else:
            if axis >= rank:
                return CANNOT_NOW
            status = read_axis(r, pair, one, py.int_value(py.tuple_item(shape, axis)))
            if status != 0:
                return status
            axis += 1
    # Beside index arrays an int also acts as an index array, which Python handles.
    return CANNOT_NOW if r.has_ints and r.n_indices > 0 else 0


# ------------------------------------------------------------------ recording


@native(inline=True)
def is_slice(r: ptr[KeyReading]) -> bool:
    """True for a read (not an assignment) whose key has only slices, at least one of which leaves out a part."""
    for i in range(r.n_pairs):
        if i64(r.pairs[i].name) < 0:
            return False
    return r.count == 1 and r.n_starts > 0


@native
def record_subscript(site: ptr[RecordingSite], r: ptr[KeyReading], key: ptr) -> own:
    """The result for operands and a key, as `record_op`."""
    status = read_key(r, ptr[RawOut](r.keys[0]).shape, key)
    if status != 0:
        return own(status)
    keyed = r.count + r.n_indices
    program = program_for(site.table, r.keys, keyed, r.mode[0], r.pairs, r.n_pairs, True)
    if program is ptr[ProgramWords](UNKNOWN) and site.table.rule is not None and is_slice(r):
        given = row(r.keys[0], key)
        return record_by_rule(site.table.rule, given, 2, r.now, r.keys, r.xs, r.nodes, 1, r.starts, r.n_starts)
    if is_miss(program):
        return own(program)
    if program.operands != keyed + r.n_starts:
        return ptr(CANNOT_NOW)
    _owner: own = held(program.owner)
    found = hold_operands(program, r.keys, r.xs, Nodes(r.nodes), keyed)
    if found <= 0:
        return ptr(CANNOT_NOW) if found == 0 else None
    if not add_starts(r.starts, r.n_starts, r.xs, Nodes(r.nodes), keyed):
        return None
    return record_program(program, r.now, r.xs, Nodes(r.nodes), program.operands)


@native(inline=True)
def begin_reading(r: ptr[KeyReading], x: ptr) -> bool:
    """Read the first operand.  False if machine code does not record for it."""
    if r.now is None:
        return False
    r.count = 1
    return read_operand(r, 0, x) == 0


@native
def key_words(x: ptr, key: ptr) -> own:
    """The static part of a key, as words; None for a key that machine code does not record.

    The words: the numbers of starts and of index arrays, the extents of the axes of index arrays, a pair per entry.
    """
    r = local(KeyReading, 1)[0]
    r.now = recording_operations(r.mode)
    if not begin_reading(r, x) or read_key(r, ptr[RawOut](r.keys[0]).shape, key) != 0:
        return new_none()
    made: own = py.new_bytes(None, 8 * (2 + r.n_indices + 2 * r.n_pairs))
    if made is None:
        return None
    words = py.bytes_at(made)
    words[0] = u64(r.n_starts)
    words[1] = u64(r.n_indices)
    for i in range(r.n_indices):
        words[2 + i] = u64(r.extents[i])
    pairs = words + (2 + r.n_indices)
    for i in range(r.n_pairs):
        pairs[2 * i] = r.pairs[i].name
        pairs[2 * i + 1] = r.pairs[i].value
    return made


@native
def subscript(x: ptr, key: ptr) -> own:
    r = local(KeyReading, 1)[0]
    site = sites + SUBSCRIPT
    r.now = recording_operations(r.mode)
    found: own = record_subscript(site, r, key) if begin_reading(r, x) else ptr(CANNOT_NOW)
    return result_or_call(moved(found), site, row(x, key), 2, None)


@native
def record_assignment(site: ptr[RecordingSite], r: ptr[KeyReading], x: ptr, key: ptr, value: ptr) -> own:
    """The result of `x[key] = value`, as `record_op`.  Python handles a leaf that requires gradients."""
    r.now = recording_now(r.mode)
    if not begin_reading(r, x):
        return ptr(CANNOT_NOW)
    if r.nodes[0].type is not tape.plain_type or is_captured(r.nodes[0], r.now):
        return ptr(CANNOT_NOW)
    r.count = 2
    status = read_operand(r, 1, value)
    return record_subscript(site, r, key) if status == 0 else own(status)


@native
def assign(x: ptr, key: ptr, value: ptr) -> i32:
    """`x[key] = value`: the handle gets the recorded node.  Python handles deletion.  -1 with an exception."""
    r = local(KeyReading, 1)[0]
    site = sites + ASSIGN
    found: own = record_assignment(site, r, x, key, value) if value is not None else ptr(CANNOT_NOW)
    if is_miss(found):
        if found is not None:
            found = call_site(site, found, row(x, key, value), 2 + i64(value is not None), None)
        return -1 if found is None else 0
    # The new handle, which `record_program` has noted, dies here; `rebind` notes x, which the next ask finds instead.
    n: own[RawNode] = held(ptr[RawHandle](found).node)
    found = None
    return rebind(r.now, x, n)
