"""Turn pending nodes into a program, in native Python: see `autodiff.tape.program`.

    program_of_pending(outputs, arguments)      the program of pending nodes: [kinds, inputs, wires]
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, held, i32, i64, local, native, own, ptr, row, u64, void
from . import recording_objects as py
from .recorder_nodes import NodeWords
from .recording_entries import READ, WalkEntry, begin, put_in_order, walk
from .recording_structs import RawNode, RawRich, body_of, count_of, input_at, new_none, tape
from .recording_walk import gather, roots


class StepsBlock(Struct):
    """Nodes that were recorded once, and can be recorded again on other inputs.  Numbers count given nodes, then steps.

    given                 the number of given nodes, which the steps read
    step_table            per step: kind, value, number of inputs, and the numbers of these inputs
    result_table          the numbers of the wanted nodes
    masks, has_zeros      flags of a VJP rule: see `recording_reverse`
    word, out_table       beside the kind, the key by which a rule is found: see `recording_rules.rule_of`
    read_table            the numbers of those given nodes that are read
    stamp                 the number of the pass that used this block last
    own                   the object that owns these words
    """

    given: i64
    steps: i64
    step_table: ptr[NodeWords]
    results: i64
    result_table: ptr[i64]
    masks: i64
    has_zeros: i64
    word: u64
    outs: i64
    out_table: ptr[ptr]
    reads: i64
    read_table: ptr[i64]
    stamp: u64
    own: ptr


class Draft(Struct):
    """A program before Python objects are made of it.  Its memory is one block.

    kinds     the kind of each equation;  wires: per equation the number of its inputs, and their places
    inputs    the nodes that are inputs of the program
    """

    kinds: ptr[own]
    inputs: ptr[own]
    wires: ptr[i32]
    n_equations: i64
    n_inputs: i64
    n_wires: i64


# The place of an entry is k for equation k, -2 - k for input k, and -1 for a node that has no place yet.


@native(inline=True)
def place_or_new_input(d: ptr[Draft], e: ptr[WalkEntry]) -> i32:
    """The place of a node.  A node without a place becomes the next input."""
    if e.place == -1:
        e.place = i32(-2 - d.n_inputs)
        d.inputs[d.n_inputs] = held(e.node)
        d.n_inputs += 1
    return e.place


@native(inline=True)
def add_word(d: ptr[Draft], word: i32) -> void:
    """Append a word to the wires."""
    d.wires[d.n_wires] = word
    d.n_wires += 1


@native(inline=True)
def forwarded_input(e: ptr[WalkEntry]) -> i64:
    """The number of the input whose value a node passes on unchanged (boundary, alias); -1 for any other node."""
    n = e.node
    if n.type is not tape.plain_type:
        body = body_of(ptr[RawRich](n), count_of(n))
        if body >= 0:
            return body
    op = n.kind.op
    for i in range(py.tuple_size(tape.aliases)):
        if op is py.tuple_item(tape.aliases, i):
            return 0
    return -1


@native
def write_equations(d: ptr[Draft], n_ordered: u64) -> bool:
    """Write the equations of the nodes in the queue.  False if one of them is an argument, which has no value."""
    for i in range(n_ordered):
        e = walk.met[walk.queue[i]]
        n = e.node
        if e.place != -1:
            continue  # one of `arguments`
        if n.kind.op is tape.argument_op:
            return False
        forwarded = forwarded_input(e)
        if forwarded >= 0:
            e.place = place_or_new_input(d, walk.met[input_at(n, forwarded).mark])
            continue
        d.kinds[d.n_equations] = held(n.kind)
        add_word(d, i32(count_of(n)))
        for k in range(count_of(n)):
            add_word(d, place_or_new_input(d, walk.met[input_at(n, k).mark]))
        e.place = i32(d.n_equations)
        d.n_equations += 1
    return True


@native
def program_of_pending(outputs: ptr, arguments: ptr) -> own:
    """[kinds, inputs, wires] of pending nodes; None if Python has to take over: an argument's value is asked for.

    arguments    the nodes that come first among the inputs, in this order, used or not
    """
    begin()
    n_results = py.tuple_size(outputs)
    n_arguments = py.tuple_size(arguments)
    roots(arguments, READ)
    roots(outputs, 0)
    gather()
    if walk.is_full:
        return new_none()
    n_ordered = put_in_order()
    room = i64(0)
    for i in range(n_ordered):
        e = walk.met[walk.queue[i]]
        room += count_of(e.node)
    n_objects = i64(n_ordered) + i64(walk.count) + n_arguments
    memory = py.room(None, 0, n_objects + (i64(n_ordered) + room + 2 + n_results) // 2)
    if memory is None:
        return None
    d = local(Draft, 1)[0]
    d.kinds = memory
    d.inputs = memory + n_ordered
    d.wires = ptr[i32](memory + n_objects)
    d.n_equations = 0
    d.n_inputs = n_arguments
    d.n_wires = 0
    for i in range(n_arguments):
        e = walk.met[ptr[RawNode](py.tuple_item(arguments, i)).mark]
        d.inputs[i] = held(e.node)
        e.place = i32(-2 - i)
    made: own = held(tape.none)
    if write_equations(d, n_ordered):
        add_word(d, i32(n_results))
        for i in range(n_results):
            add_word(d, place_or_new_input(d, walk.met[ptr[RawNode](py.tuple_item(outputs, i)).mark]))
        places = d.wires
        for _ in range(d.n_equations + 1):
            for k in range(1, i64(places[0]) + 1):
                if places[k] < 0:
                    places[k] = i32(d.n_equations) - 2 - places[k]  # the inputs stand behind the last equation
            places = places + (places[0] + 1)
        # From here on objects are made, so other Python may run and begin another walk: nothing of this one is read.
        kinds: own = py.list_of(d.kinds, d.n_equations)
        parts = row(kinds, py.list_of(d.inputs, d.n_inputs), py.new_bytes(d.wires, 4 * d.n_wires))
        made = py.list_of(parts, 3)
    py.free_room(memory, n_objects, None)
    return made
