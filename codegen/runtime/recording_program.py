"""From nodes to programs and back, in native Python: see `autodiff.tape.program`.

    placed(outputs, arguments)      the program of pending nodes: [equations, inputs, places of the outputs]

An equation is a kind, and where its inputs stand: an earlier equation, or (below 0) an input of the program.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, i32, i64, local, native, ptr, row, u32, u64, void
from . import recording_objects as py
from .recorder_nodes import NodeWords
from .recording_entries import READ, Met, begin, put_in_order, walk
from .recording_structs import RawNode, RawRich, body_of, count_of, input_at, nothing, tape
from .recording_walk import gather, roots


class StepsBlock(Struct):
    """Nodes that were recorded once, to be put down again.

    given          how many nodes they are put down behind
    step_table     per node kind, value, number of inputs, which: the given nodes first, then the steps
    result_table   which of them all are wanted
    masks, has_zeros      of a rule that goes back: see `recording_reverse`
    word, out_table       what decides beside the kind what a rule records: see `recording_rules`
    read_table            which of the given nodes are read
    stamp                 of the pass that has used it last
    own                   the object that has these words
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
    """A program, before there are objects of it.  Its memory is one block.

    kinds, starts    of each equation;  wires: where the inputs of all equations stand, from `starts` on
    inputs           nodes
    """

    kinds: ptr[ptr]
    inputs: ptr[ptr]
    starts: ptr[u32]
    wires: ptr[i32]
    n_equations: i64
    n_inputs: i64
    n_wires: i64


# The place of an entry says where it stands: k for equation k, and -2 - k for input k; -1 is none.


@native(inline=True)
def stands(d: ptr[Draft], e: ptr[Met]) -> i32:
    """The place of a node: one that is met first here is an input."""
    if e.place == -1:
        e.place = i32(-2 - d.n_inputs)
        d.inputs[d.n_inputs] = e.node
        d.n_inputs += 1
    return e.place


@native(inline=True)
def add_wire(d: ptr[Draft], e: ptr[Met]) -> void:
    """Note what an equation reads."""
    at = stands(d, e)
    d.wires[d.n_wires] = at if at >= 0 else at + 1
    d.n_wires += 1


@native(inline=True)
def other_of(e: ptr[Met]) -> i64:
    """The number of the input that has the same value, for a node that only passes it on; else -1."""
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
def drawn(d: ptr[Draft], own: u64) -> bool:
    """Put down the equations of what was met.  False where an argument's value is needed, which has none."""
    for i in range(own):
        e = walk.met[walk.queue[i]]
        n = e.node
        if e.place != -1:
            continue  # an argument
        if n.kind.op is tape.argument_op:
            return False
        other = other_of(e)
        if other >= 0:
            e.place = stands(d, walk.met[input_at(n, other).mark])
            continue
        d.kinds[d.n_equations] = n.kind
        d.starts[d.n_equations] = u32(d.n_wires)
        for k in range(count_of(n)):
            add_wire(d, walk.met[input_at(n, k).mark])
        e.place = i32(d.n_equations)
        d.n_equations += 1
    d.starts[d.n_equations] = u32(d.n_wires)
    return True


@native
def places_of(wires: ptr[i32], count: i64) -> ptr:
    """A tuple of places, a new reference; null with an exception."""
    nearby = local(ptr, py.FEW)
    held = py.room(nearby, py.FEW, count)
    if held is None:
        return None
    for i in range(count):
        held[i] = py.int_of(i64(wires[i]))
    made = py.tuple_of(held, count)
    py.leave(held, nearby)
    return made


@native
def equation_of(kind: ptr, wires: ptr[i32], count: i64) -> ptr:
    """(kind, places), a new reference, the kind's count coming along; null with an exception."""
    return py.tuple_of(row(kind, places_of(wires, count)), 2)


@native
def objects_of(d: ptr[Draft], results: ptr[i32], n_results: i64) -> ptr:
    """[equations, inputs, places of the results], a new reference; the counts of kinds and inputs come along.

    Null with an exception."""
    for i in range(d.n_equations):
        start = d.starts[i]
        d.kinds[i] = equation_of(d.kinds[i], d.wires + start, i64(d.starts[i + 1] - start))
    equations = py.list_of(d.kinds, d.n_equations)
    inputs = py.list_of(d.inputs, d.n_inputs)
    return py.list_of(row(equations, inputs, places_of(results, n_results)), 3)


@native
def placed(outputs: ptr, arguments: ptr) -> ptr:
    """[equations, inputs, places of the outputs]; None where Python has to look: an argument's value is asked for.

    arguments    nodes that come first among the inputs, in order, used or not
    """
    begin()
    n_results = py.tuple_size(outputs)
    n_arguments = py.tuple_size(arguments)
    roots(arguments, READ)
    roots(outputs, 0)
    gather()
    if walk.is_full:
        return nothing()
    own = put_in_order()
    room = i64(0)
    for i in range(own):
        e = walk.met[walk.queue[i]]
        room += count_of(e.node)
    n_met = i64(walk.count) + n_arguments
    size = u64(8 * i64(own) + 8 * n_met + 4 * (i64(own) + 1) + 4 * room + 4 * n_results)
    memory = py.allocated(size)
    if memory is None:
        py.no_memory()
        return None
    d = local(Draft, 1)[0]
    d.kinds = ptr[ptr](memory)
    d.inputs = d.kinds + own
    d.starts = ptr[u32](d.inputs + n_met)
    d.wires = ptr[i32](d.starts + (own + 1))
    results = d.wires + room
    d.n_equations = 0
    d.n_inputs = 0
    d.n_wires = 0
    for i in range(n_arguments):
        e = walk.met[ptr[RawNode](py.tuple_item(arguments, i)).mark]
        d.inputs[i] = e.node
        e.place = i32(-2 - i)
    d.n_inputs = n_arguments
    if not drawn(d, own):
        py.free(memory)
        return nothing()
    for i in range(n_results):
        at = stands(d, walk.met[ptr[RawNode](py.tuple_item(outputs, i)).mark])
        results[i] = at if at >= 0 else at + 1
    for i in range(d.n_equations):
        py.inc(d.kinds[i])
    for i in range(d.n_inputs):
        py.inc(d.inputs[i])
    # From here on objects are made, so other Python may run: nothing of the walk is read any more.
    made = objects_of(d, results, n_results)
    py.free(memory)
    return made
