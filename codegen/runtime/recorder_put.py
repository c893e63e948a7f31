"""Programs of the recorder put down, in native Python: nodes, their inputs, the handle.

    hold_operands    holds their nodes, after a look at index arrays
    put_down         for operands whose nodes are held
    put_program      the same, called from Python: for a body that knows its program
    note             remembers the handle of a small pending result, which is computed along with what is asked for
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, array, extern, i32, i64, likely, local, native, ptr, u64, unlikely
from .object_heads import RawArray, RawSelf, class_of
from .record_table import (
    FIRST_BOUND,
    FIRST_STATIC,
    KEYED,
    MOST_BOUNDS,
    MOST_NODES,
    MOST_OPERANDS,
    MOST_STATICS,
    N_BOUNDS,
    N_STATICS,
    PROGRAM_WORDS,
)
from .recorder_life import new_handle
from .recorder_nodes import NodeWords, bad_argument, inputs_of, new_steps, node_of, number_of
from .recorder_operands import are_places, array_node, is_masked, number_node
from .recording_objects import append, call_two, dec, inc, let_go, list_item, list_size, referent
from .recording_structs import RawHandle, RawKind, RawNode, RawRecording, int_or, tape

__all__ = [
    "LOOKED_BACK", "ProgramWords", "done_with_two", "hold_operands", "new_reference", "note", "put_down", "put_program",
    "set_slice",
]  # fmt: skip

#: Handles noted last that are looked at when another is: as many as a line of a program holds at once.
LOOKED_BACK = 4

new_reference = extern("PyWeakref_NewRef", ptr, ptr, ptr)
set_slice = extern("PyList_SetSlice", i32, ptr, i64, i64, ptr)


@native
def done_with_two(function: ptr, first: ptr, second: ptr) -> i32:
    """Call a function of Python's for what it does.  -1 with an exception."""
    answer = call_two(function, first, second)
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
    return done_with_two(tape.note_small, ptr(now), ptr(y))


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
    cls: ptr
    is_small: i64
    number_kind: ptr[RawKind]
    operands: i64
    n_keyed: i64
    other_keys: array[ptr, MOST_OPERANDS - 1]
    n_statics: i64
    statics: array[StaticArgument, MOST_STATICS]
    n_bounds: i64
    bounds: array[Bound, MOST_BOUNDS]
    first_step: NodeWords


def _word(name: str) -> int:
    return ProgramWords.fields()[name].offset // 8


assert _word("n_keyed") == KEYED and _word("n_statics") == N_STATICS and _word("statics") == FIRST_STATIC
assert _word("n_bounds") == N_BOUNDS and _word("bounds") == FIRST_BOUND and _word("first_step") == PROGRAM_WORDS

Nodes = ptr[ptr[RawNode]]


@native
def hold_operands(
    program: ptr[ProgramWords], owner: ptr, now: ptr[RawRecording], keys: ptr[ptr], xs: ptr[ptr], nodes: Nodes,
    count: i64,
) -> i64:
    """Hold a program and the nodes of its keyed operands, those of arrays being made: from here on they are ours,
    whatever happens to tables and handles.

    Gives 1; 0 where an index array is not as the program wants it, and -1 with an exception: then nothing is held.
    """
    inc(owner)
    arrays = i64(0)
    for i in range(count):
        # All that are there, before memory is asked for: what runs then may leave a handle with another node.
        inc(ptr(nodes[i]))  # null, for a number or an array, is fine
        arrays += i64(nodes[i] is None)
    found = i64(1)
    if unlikely(arrays > 0):
        found = hold_arrays(now, keys, xs, nodes, count)
    for i in range(program.n_bounds):
        if found > 0 and not is_within(nodes[program.bounds[i].operand], program.bounds[i].extent):
            found = 0
    if found <= 0:
        let_go(ptr[ptr](nodes), count)
        dec(owner)
    return found


@native
def hold_arrays(now: ptr[RawRecording], keys: ptr[ptr], xs: ptr[ptr], nodes: Nodes, count: i64) -> i64:
    """Make the leaves of operands that are arrays.  1, or -1 with an exception."""
    for i in range(count):
        if nodes[i] is None and class_of(xs[i]) is tape.array_type:
            nodes[i] = array_node(ptr[RawArray](xs[i]), ptr[RawKind](keys[i]), now)
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
    return class_of(index.value) is tape.array_type and are_places(ptr[RawArray](index.value), extent)


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
def named(
    n: ptr[RawNode], program: ptr[ProgramWords], now: ptr[RawRecording], xs: ptr[ptr], count: i64
) -> ptr[RawHandle]:
    """The handle on the result of a program; null with an exception."""
    y = new_handle(program.cls)
    if y is None:
        return None
    inc(ptr(n))
    y.node = n
    masked = tape.false
    if unlikely(now.body is not tape.zero) and is_inside_masked(xs, count):
        masked = tape.true
    inc(masked)
    y.masked = masked
    if program.is_small != 0 and note(now, y) < 0:
        dec(ptr(y))
        return None
    if unlikely(number_of(n) > int_or(now.look_at, 0)) and not looked_at(n, now):
        dec(ptr(y))
        return None
    return y


@native(inline=False)
def looked_at(n: ptr[RawNode], now: ptr[RawRecording]) -> bool:
    """Let Python look at the size of the recording.  False with an exception."""
    inputs = inputs_of(n)
    if inputs is None:
        return False
    status = done_with_two(tape.look_at, ptr(now), inputs)
    dec(inputs)
    return status == 0


@native
def put_down(
    program: ptr[ProgramWords], owner: ptr, now: ptr[RawRecording], xs: ptr[ptr], nodes: Nodes, operands: i64
) -> ptr[RawHandle]:
    """Put a program down: a new handle, null with an exception.

    `nodes` has references to the operands' nodes, null for a number; they are given away here, and so is `owner`.
    """
    y = ptr[RawHandle](0)
    held = operands
    is_good = True
    for i in range(operands):
        if unlikely(nodes[i] is None):
            nodes[i] = number_node(xs[i], program.number_kind)
            is_good = nodes[i] is not None
            if not is_good:
                break
    if likely(is_good):
        held = new_steps(program.first_step, program.count, nodes, operands)
        is_good = held == operands + program.count
    if likely(is_good):
        y = named(nodes[held - 1], program, now, xs, operands)
    let_go(ptr[ptr](nodes), held)
    dec(owner)
    return y


@native
def put_program(own: ptr, arguments: ptr[ptr], count: i64) -> ptr:
    """put(recording, *operands), as CPython calls it: `own` holds the address of the program."""
    nodes = local(ptr[RawNode], MOST_NODES)
    program = ptr[ProgramWords](ptr[RawSelf](own).payload)
    if count - 1 != program.operands:
        bad_argument()
        return None
    xs = arguments + 1
    for i in range(count - 1):
        nodes[i] = node_of(xs[i])
        inc(ptr(nodes[i]))
    inc(own)
    return ptr(put_down(program, own, ptr[RawRecording](arguments[0]), xs, nodes, count - 1))
