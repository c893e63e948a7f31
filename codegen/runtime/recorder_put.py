"""Record a program of the recorder, in native Python: make its nodes with their inputs, and a handle on the last.

    hold_operands    take references to the operands' nodes, after a check of index arrays
    record_program   record a program for operands whose nodes are held
    put_program      the same, called from Python: for a body that knows its program
    note_small       remember the handle of a small pending result, which is computed along with the next ask
    rebind           give a handle another node, in place
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, Struct, array, extern, f64, held, i32, i64, local, moved, native, own, ptr, u64
from . import recording_objects as py
from .record_table import (
    FIRST_STATIC,
    MODE,
    MOST_BOUNDS,
    MOST_KNOWN,
    MOST_NODES,
    MOST_OPERANDS,
    MOST_STATICS,
    PROGRAM_WORDS,
)
from .recorder_arrays import own_copy, set_writeable, size_of
from .recorder_life import new_handle
from .recorder_nodes import NodeWords, bad_argument, inputs_of, is_masked, new_node, new_steps, node_of, number_of
from .recording_structs import RawHandle, RawKind, RawNode, RawRecording, int_or, tape, word_of

new_reference = extern("PyWeakref_NewRef", own, ptr, ptr, fails=FAILS)


@native
def call_ignoring_result(function: ptr, first: ptr, second: ptr) -> i32:
    """Call a Python function, and ignore its result.  -1 with an exception."""
    answer: own = py.call_two(function, first, second)
    return i32(-1) if answer is None else i32(0)


@native
def note_small(now: ptr[RawRecording], y: ptr[RawHandle]) -> i32:
    """Remember the handle of a small pending result, weakly.  -1 with an exception."""
    has_list = now.small is not None and py.class_of(now.small) is tape.list_type
    if has_list and py.list_size(now.small) < int_or(now.limit, 0):
        reference: own = new_reference(y, None)
        if reference is None:
            return -1
        return py.append(now.small, reference)  # new_reference may have run Python, so the list is read again
    return call_ignoring_result(tape.note_small, now, y)


@native
def rebind(now: ptr[RawRecording], x: ptr, n: own[RawNode]) -> i32:
    """Give a handle another node, and remember the handle.  -1 with an exception: the handle keeps its old node."""
    handle = ptr[RawHandle](x)
    old: own[RawNode] = moved(handle.node)
    handle.node = held(n)
    status = i32(0)
    if n.kind.out.small is tape.true:
        status = note_small(now, handle)
    elif n.type is not tape.plain_type:
        status = call_ignoring_result(tape.note_updated, now, x)
    if status != 0 and handle.node is n:
        handle.node = moved(old)
    return status


class StaticArgument(Struct):
    """A static argument: its name and value, or two words."""

    name: u64
    value: u64


class Bound(Struct):
    """The number of an operand that is an index array, and the extent of the axis that it indexes."""

    operand: i64
    extent: i64


class ProgramWords(Struct):
    """The words of `record_table.RecordedProgram`."""

    count: i64
    number_kind: ptr[RawKind]
    number_type: ptr
    operands: i64
    n_bounds: i64
    owner: ptr
    results: ptr
    mode: ptr
    n_keyed: i64
    n_statics: i64
    are_words: i64
    keys: array[ptr, MOST_OPERANDS]
    statics: array[StaticArgument, MOST_STATICS]
    bounds: array[Bound, MOST_BOUNDS]
    first_step: NodeWords


_PLACES = [word_of(ProgramWords, name) for name in ("mode", "statics", "first_step")]
assert _PLACES == [MODE, FIRST_STATIC, PROGRAM_WORDS]

# ------------------------------------------------------------------ leaves for operands

int_as_float = extern("PyLong_AsDouble", f64, ptr)
int_of_numpys = extern("PyNumber_Index", own, ptr, fails=FAILS)
complex_of = extern("PyComplex_FromDoubles", own, f64, f64, fails=FAILS)
float_of = extern("PyFloat_FromDouble", own, f64, fails=FAILS)
error_set = extern("PyErr_Occurred", ptr)


@native
def number_node(x: ptr, kind: ptr[RawKind], stored: ptr) -> own[RawNode]:
    """Make the leaf of a number, which is stored as a float, or as the class `stored`; null with an exception."""
    cls = py.class_of(x)
    if cls is stored:
        return new_node(kind, x)
    if stored is tape.int_type:
        return node_holding(kind, int_of_numpys(x))
    number = int_as_float(x) if cls is tape.int_type else py.float_value(x)
    if error_set() is not None:
        return None
    return node_holding(kind, complex_of(number, 0.0) if stored is tape.complex_type else float_of(number))


@native
def node_holding(kind: ptr[RawKind], value: own) -> own[RawNode]:
    """Make the leaf of a value, whose reference it takes over; null with an exception, or if the value is null."""
    return None if value is None else new_node(kind, value)


@native
def array_node(a: ptr[py.RawArray], kind: ptr[RawKind]) -> own[RawNode]:
    """Make the leaf of an array, with a copy; null with an exception."""
    value: own = own_copy(a)
    if value is not None:
        set_writeable(ptr[py.RawArray](value), False)
    return node_holding(kind, moved(value))


# ------------------------------------------------------------------ programs

Nodes = ptr[own[RawNode]]


@native
def hold_operands(program: ptr[ProgramWords], keys: ptr[ptr], xs: ptr[ptr], nodes: Nodes, count: i64) -> i64:
    """Take references to the nodes of a program's keyed operands, and make the leaves of arrays, so that the nodes stay
    alive whatever happens to the handles.  The caller holds the program.

    Returns 1; 0 if an index array does not fit the program, or -1 with an exception: then no node is held.
    """
    arrays = i64(0)
    for i in range(count):
        # Hold all existing nodes before the first allocation, which may run Python that gives a handle another node.
        py.inc(nodes[i])  # null, for a number or an array, is ignored
        arrays += i64(nodes[i] is None)
    found = i64(1)
    if arrays > 0:
        found = hold_arrays(keys, xs, nodes, count)
    for i in range(program.n_bounds):
        if found > 0 and not is_within(nodes[program.bounds[i].operand], program.bounds[i].extent):
            found = 0
    if found <= 0:
        py.let_go(ptr[own](nodes), count)
    return found


@native
def hold_arrays(keys: ptr[ptr], xs: ptr[ptr], nodes: Nodes, count: i64) -> i64:
    """Make the leaves of operands that are arrays.  Returns 1, or -1 with an exception."""
    for i in range(count):
        if nodes[i] is None and py.class_of(xs[i]) is tape.array_type:
            nodes[i] = array_node(ptr[py.RawArray](xs[i]), ptr[RawKind](keys[i]))
            if nodes[i] is None:
                return -1
    return 1


@native
def is_within(index: ptr[RawNode], extent: i64) -> bool:
    """True unless an index array is known to hold an index outside of an axis of this extent; also if it is pending."""
    if index is None:
        return False
    if index.value is tape.none:
        return True
    if py.class_of(index.value) is not tape.array_type:
        return False
    a = ptr[py.RawArray](index.value)
    count = size_of(a)
    if u64(count) > MOST_KNOWN:
        return True  # too many to check here: the kernel checks all indices
    is_long = a.descr is tape.int64_descr
    for i in range(count):
        value = ptr[i64](a.data)[i] if is_long else i64(ptr[i32](a.data)[i])
        if value < -extent or value >= extent:
            return False
    return True


@native
def is_inside_masked(xs: ptr[ptr], count: i64) -> bool:
    """True if a result in a custom forward is masked: an operand is, and all that track are (`record.is_masked`)."""
    is_any = False
    for i in range(count):
        n = node_of(xs[i])
        if is_masked(xs[i], n):
            is_any = True
        elif n is not None and n.kind.out.requires_grad is not tape.false:
            return False
    return is_any


@native(inline=True)
def handle_on(n: ptr[RawNode], now: ptr[RawRecording], xs: ptr[ptr], count: i64) -> own[RawHandle]:
    """Make the handle on the result of a program; null with an exception."""
    out = n.kind.out
    y: own[RawHandle] = new_handle(out.cls)
    if y is None:
        return None
    y.node = held(n)
    y.masked = held(tape.true if now.forward_depth is not tape.zero and is_inside_masked(xs, count) else tape.false)
    if out.small is tape.true and note_small(now, y) < 0:
        return None
    if number_of(n) > int_or(now.look_at, 0) and not look_at_size(n, now):
        return None
    return y


@native(inline=False)
def look_at_size(n: ptr[RawNode], now: ptr[RawRecording]) -> bool:
    """Let Python look at the size of the recording.  False with an exception."""
    inputs: own = inputs_of(n)
    return inputs is not None and call_ignoring_result(tape.look_at, now, inputs) == 0


@native(inline=False)
def results_on(results: ptr, now: ptr[RawRecording], xs: ptr[ptr], nodes: Nodes, count: i64) -> own:
    """Make the handles on several results, and put them together (`RecordedProgram`); null with an exception."""
    n = py.tuple_size(results) - 1
    handles: own = py.new_tuple(n)
    if handles is None:
        return None
    for k in range(n):
        y: own[RawHandle] = handle_on(nodes[py.int_value(py.tuple_item(results, k + 1))], now, xs, count)
        if y is None:
            return None
        py.set_tuple(handles, k, moved(y))
    return py.call_one(py.tuple_item(results, 0), handles)


@native
def record_program(
    program: ptr[ProgramWords], now: ptr[RawRecording], xs: ptr[ptr], nodes: Nodes, operands: i64
) -> own:
    """Record a program, which the caller holds: a new handle, or several put together; null with an exception.

    `nodes` has references to the operands' nodes, null for a number; this function releases these references.
    """
    y: own = ptr(0)
    made = operands
    is_good = True
    for i in range(operands):
        if nodes[i] is None:
            nodes[i] = number_node(xs[i], program.number_kind, program.number_type)
            is_good = nodes[i] is not None
            if not is_good:
                break
    if is_good:
        made = new_steps(program.first_step, program.count, nodes, operands)
        is_good = made == operands + program.count
    if is_good:
        if program.results is None:
            y = handle_on(nodes[made - 1], now, xs, operands)
        else:
            y = results_on(program.results, now, xs, nodes, operands)
    py.let_go(ptr[own](nodes), made)
    return y


@native(inline=True)
def add_starts(starts: ptr[i64], n_starts: i64, xs: ptr[ptr], nodes: Nodes, there: i64) -> bool:
    """Make the nodes of a key's starts, operands behind the first `there`.  False with an exception: none is held."""
    for k in range(n_starts):
        ptr[ptr](nodes)[there + k] = None
        nodes[there + k] = node_holding(tape.start_kind, py.int_of(starts[k]))
        if nodes[there + k] is None:
            py.let_go(ptr[own](nodes), there + k)
            return False
        xs[there + k] = tape.none  # this operand has no handle
    return True


@native
def record_kind(kind: ptr[RawKind], now: ptr[RawRecording], xs: ptr[ptr], nodes: Nodes, count: i64) -> own:
    """Record one node of a kind, as `record_program` records a program."""
    program = local(ProgramWords, 1)
    program.count = 1
    program.results = None
    step = program.first_step
    step.kind = kind
    step.value = tape.none
    step.count = count
    for i in range(count):
        step.inputs[i] = i
    return record_program(program, now, xs, nodes, count)


@native
def put_program(self: ptr, arguments: ptr[ptr], count: i64) -> own:
    """The C function behind put(recording, *operands).  `self` holds the address of the program."""
    nodes = local(ptr[RawNode], MOST_NODES)
    program = ptr[ProgramWords](ptr[py.RawAddress](self).payload)
    if count - 1 != program.operands:
        bad_argument()
        return None
    xs = arguments + 1
    for i in range(count - 1):
        nodes[i] = node_of(xs[i])
        py.inc(nodes[i])
    _owner: own = held(program.owner)
    return record_program(program, ptr[RawRecording](arguments[0]), xs, Nodes(nodes), count - 1)
