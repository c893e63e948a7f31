"""Programs of the recorder put down, in native Python: nodes, their inputs, the handle.

    hold_operands    holds their nodes, after a look at index arrays
    put_down         for operands whose nodes are held
    put_program      the same, called from Python: for a body that knows its program
    note             remembers the handle of a small pending result, which is computed along with what is asked for
    rebind           gives a handle another node, in place
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, Struct, array, extern, f64, held, i32, i64, local, moved, native, own, ptr, row, u64
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
from .recorder_arrays import OWN_MEMORY, own_copy, set_writeable, size_of
from .recorder_life import new_handle
from .recorder_nodes import NodeWords, bad_argument, inputs_of, is_masked, new_node, new_steps, node_of, number_of
from .recording_structs import RawHandle, RawKind, RawNode, RawRecording, int_or, tape, word_of

new_reference = extern("PyWeakref_NewRef", own, ptr, ptr, fails=FAILS)


@native
def done_with_two(function: ptr, first: ptr, second: ptr) -> i32:
    """Call a function of Python's for what it does.  -1 with an exception."""
    answer: own = py.call_two(function, first, second)
    return i32(-1) if answer is None else i32(0)


@native
def note(now: ptr[RawRecording], y: ptr[RawHandle]) -> i32:
    """Remember the handle of a small pending result, weakly.  -1 with an exception."""
    has_list = now.small is not None and py.class_of(now.small) is tape.list_type
    if has_list and py.list_size(now.small) < int_or(now.limit, 0):
        reference: own = new_reference(y, None)
        if reference is None:
            return -1
        return py.append(now.small, reference)  # it may be another list by now
    return done_with_two(tape.note_small, now, y)


@native
def rebind(now: ptr[RawRecording], x: ptr, n: own[RawNode]) -> i32:
    """Give a handle another node, and remember it.  -1 with an exception: then it keeps the node that it had."""
    handle = ptr[RawHandle](x)
    old: own[RawNode] = moved(handle.node)
    handle.node = held(n)
    status = i32(0)
    if n.kind.out.small is tape.true:
        status = note(now, handle)
    elif n.type is not tape.plain_type:
        status = done_with_two(tape.note_updated, now, x)
    if status != 0 and handle.node is n:
        handle.node = moved(old)
    return status


class StaticArgument(Struct):
    """A static argument: its name and value, or two words."""

    name: u64
    value: u64


class Bound(Struct):
    """The operand that is an index array, and the extent that it is for."""

    operand: i64
    extent: i64


class ProgramWords(Struct):
    """The words of `record_table.RecordedProgram`."""

    count: i64
    number_kind: ptr[RawKind]
    operands: i64
    n_bounds: i64
    owner: ptr
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

# ------------------------------------------------------------------ leaves of operands

int_as_float = extern("PyLong_AsDouble", f64, ptr)
float_of = extern("PyFloat_FromDouble", own, f64, fails=FAILS)
error_set = extern("PyErr_Occurred", ptr)


@native
def number_node(x: ptr, kind: ptr[RawKind]) -> own[RawNode]:
    """The leaf of a number, as a float; null with an exception."""
    cls = py.class_of(x)
    if cls is tape.float_type:
        return new_node(kind, x)
    number = int_as_float(x) if cls is tape.int_type else py.float_value(x)
    if error_set() is not None:
        return None
    return node_holding(kind, float_of(number))


@native
def node_holding(kind: ptr[RawKind], value: own) -> own[RawNode]:
    """The leaf of a value, whose reference it takes over; null with an exception, which is set where that is null."""
    return None if value is None else new_node(kind, value)


@native
def array_node(a: ptr[py.RawArray], kind: ptr[RawKind], now: ptr[RawRecording]) -> own[RawNode]:
    """The leaf of an array of this kind, a copy unless it is lent (`autodiff.tape.loans`); null with an exception."""
    may_lend = now.lends is tape.true and size_of(a) > py.int_value(tape.few)
    if may_lend and a.flags & OWN_MEMORY == OWN_MEMORY:
        return ptr[RawNode](py.call(tape.held, row(a, kind, now), 3, None))
    value: own = own_copy(a)
    if value is not None:
        set_writeable(ptr[py.RawArray](value), False)
    return node_holding(kind, moved(value))


# ------------------------------------------------------------------ programs

Nodes = ptr[own[RawNode]]


@native
def hold_operands(
    program: ptr[ProgramWords], now: ptr[RawRecording], keys: ptr[ptr], xs: ptr[ptr], nodes: Nodes, count: i64
) -> i64:
    """Hold the nodes of the keyed operands of a program that is held, those of arrays being made: from here on they are
    ours, whatever happens to handles.

    Gives 1; 0 where an index array is not as the program wants it, and -1 with an exception: then none is held.
    """
    arrays = i64(0)
    for i in range(count):
        # All that are there, before memory is asked for: what runs then may leave a handle with another node.
        py.inc(nodes[i])  # null, for a number or an array, is fine
        arrays += i64(nodes[i] is None)
    found = i64(1)
    if arrays > 0:
        found = hold_arrays(now, keys, xs, nodes, count)
    for i in range(program.n_bounds):
        if found > 0 and not is_within(nodes[program.bounds[i].operand], program.bounds[i].extent):
            found = 0
    if found <= 0:
        py.let_go(ptr[own](nodes), count)
    return found


@native
def hold_arrays(now: ptr[RawRecording], keys: ptr[ptr], xs: ptr[ptr], nodes: Nodes, count: i64) -> i64:
    """Make the leaves of operands that are arrays.  1, or -1 with an exception."""
    for i in range(count):
        if nodes[i] is None and py.class_of(xs[i]) is tape.array_type:
            nodes[i] = array_node(ptr[py.RawArray](xs[i]), ptr[RawKind](keys[i]), now)
            if nodes[i] is None:
                return -1
    return 1


@native
def is_within(index: ptr[RawNode], extent: i64) -> bool:
    """True if an index array, which may be pending, is not known to leave an axis of this extent."""
    if index is None:
        return False
    if index.value is tape.none:
        return True
    if py.class_of(index.value) is not tape.array_type:
        return False
    a = ptr[py.RawArray](index.value)
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
def named(n: ptr[RawNode], now: ptr[RawRecording], xs: ptr[ptr], count: i64) -> own[RawHandle]:
    """The handle on the result of a program; null with an exception."""
    out = n.kind.out
    y: own[RawHandle] = new_handle(out.cls)
    if y is None:
        return None
    y.node = held(n)
    y.masked = held(tape.true if now.body is not tape.zero and is_inside_masked(xs, count) else tape.false)
    if out.small is tape.true and note(now, y) < 0:
        return None
    if number_of(n) > int_or(now.look_at, 0) and not looked_at(n, now):
        return None
    return y


@native(inline=False)
def looked_at(n: ptr[RawNode], now: ptr[RawRecording]) -> bool:
    """Let Python look at the size of the recording.  False with an exception."""
    inputs: own = inputs_of(n)
    return inputs is not None and done_with_two(tape.look_at, now, inputs) == 0


@native
def put_down(
    program: ptr[ProgramWords], now: ptr[RawRecording], xs: ptr[ptr], nodes: Nodes, operands: i64
) -> own[RawHandle]:
    """Put a program down, which is held: a new handle, null with an exception.

    `nodes` has references to the operands' nodes, null for a number; they are given away here.
    """
    y: own[RawHandle] = ptr[RawHandle](0)
    made = operands
    is_good = True
    for i in range(operands):
        if nodes[i] is None:
            nodes[i] = number_node(xs[i], program.number_kind)
            is_good = nodes[i] is not None
            if not is_good:
                break
    if is_good:
        made = new_steps(program.first_step, program.count, nodes, operands)
        is_good = made == operands + program.count
    if is_good:
        y = named(nodes[made - 1], now, xs, operands)
    py.let_go(ptr[own](nodes), made)
    return y


@native(inline=True)
def add_starts(starts: ptr[i64], n_starts: i64, xs: ptr[ptr], nodes: Nodes, there: i64) -> bool:
    """Make the nodes of places, operands behind those that are held.  False with an exception: then none is held."""
    for k in range(n_starts):
        ptr[ptr](nodes)[there + k] = None
        nodes[there + k] = node_holding(tape.start_kind, py.int_of(starts[k]))
        if nodes[there + k] is None:
            py.let_go(ptr[own](nodes), there + k)
            return False
        xs[there + k] = tape.none  # no handle
    return True


@native
def put_kind(kind: ptr[RawKind], now: ptr[RawRecording], xs: ptr[ptr], nodes: Nodes, operands: i64) -> own[RawHandle]:
    """Put a node of a kind down, as `put_down` does a program."""
    program = local(ProgramWords, 1)
    program.count = 1
    step = program.first_step
    step.kind = kind
    step.value = tape.none
    step.count = operands
    for i in range(operands):
        step.inputs[i] = i
    return put_down(program, now, xs, nodes, operands)


@native
def put_program(self: ptr, arguments: ptr[ptr], count: i64) -> own:
    """put(recording, *operands), as CPython calls it: `self` holds the address of the program."""
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
    return put_down(program, ptr[RawRecording](arguments[0]), xs, Nodes(nodes), count - 1)
