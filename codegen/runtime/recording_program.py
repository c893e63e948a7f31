"""From nodes to programs and back, in native Python: see `autodiff.tape.program`.

    placed(outputs, arguments)      the program of pending nodes: [equations, inputs, places of the outputs]
    put(steps, nodes)               new nodes, put down as such were before: those that are wanted of them all

An equation is a kind, and where its inputs stand: an earlier equation, or (below 0) an input of the program.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import (
    Struct,
    borrowed,
    extern,
    i32,
    i64,
    local,
    native,
    obj,
    ptr,
    u32,
    u64,
    unlikely,
    void,
)
from .recording_answer import (
    FEW,
    allocated,
    bytes_at,
    dec,
    failed,
    free,
    inc,
    int_of,
    let_go,
    names,
    new_list,
    no_memory,
    object_of,
    set_list,
    tuple_item,
    tuple_size,
)
from .recording_behind import new_tuple, set_tuple
from .recording_walk import (
    READ,
    WIDE,
    Met,
    Node,
    Rich,
    begin,
    body_of,
    count_of,
    gather,
    input_at,
    put_in_order,
    root,
    tape,
    walk,
)

__all__ = ["STEPS_WORDS", "Steps", "new_step", "placed", "put", "put_down"]

#: The words of `Steps`.
STEPS_WORDS = ("given", "steps", "step_table", "results", "result_table", "masks", "has_zeros", "stamp")


class Steps(Struct):
    """Nodes that were recorded once, to be put down again.

    given          how many nodes they are put down behind
    step_table     per node kind, value, number of inputs, which: the given nodes first, then the steps
    result_table   which of them all are wanted
    masks, has_zeros, stamp    of a rule: see `recording_reverse`
    """

    given: i64
    steps: i64
    step_table: ptr[i64]
    results: i64
    result_table: ptr[i64]
    masks: i64
    has_zeros: i64
    stamp: u64


new_step = extern("new_step", ptr, ptr[i64], ptr[ptr])


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
        d.inputs[d.n_inputs] = ptr(e.node)
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
    if unlikely(n.type is not tape.plain_type):
        body = body_of(ptr[Rich](n), count_of(n))
        if body >= 0:
            return body
    op = n.kind.op
    for i in range(tuple_size(names.aliases)):
        if op is tuple_item(names.aliases, i):
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
        if unlikely(n.kind.op is names.argument_op):
            return False
        other = other_of(e)
        if other >= 0:
            e.place = stands(d, walk.met[input_at(n, other).mark])
            continue
        d.kinds[d.n_equations] = ptr(n.kind)
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
    made = new_tuple(count)
    for i in range(count if made is not None else i64(0)):
        place = int_of(i64(wires[i]))
        if place is None:
            dec(made)
            return None
        set_tuple(made, i, place)
    return made


@native
def equation_of(kind: ptr, wires: ptr[i32], count: i64) -> ptr:
    """(kind, places), a new reference; null with an exception."""
    places = places_of(wires, count)
    made = new_tuple(2) if places is not None else ptr(None)
    if made is None:
        dec(places)
        return None
    inc(kind)
    set_tuple(made, 0, kind)
    set_tuple(made, 1, places)
    return made


@native
def objects_of(d: ptr[Draft], results: ptr[i32], n_results: i64) -> ptr:
    """[equations, inputs, places of the results], a new reference; null with an exception."""
    equations = new_list(d.n_equations)
    inputs = new_list(d.n_inputs)
    places = places_of(results, n_results)
    whole = new_list(3)
    is_made = equations is not None and inputs is not None and places is not None and whole is not None
    for i in range(d.n_equations if is_made else i64(0)):
        start = d.starts[i]
        one = equation_of(d.kinds[i], d.wires + start, i64(d.starts[i + 1] - start))
        if one is None:
            is_made = False
            break
        set_list(equations, i, one)
    if not is_made:
        dec(equations)
        dec(inputs)
        dec(places)
        dec(whole)
        return None
    for i in range(d.n_inputs):
        inc(d.inputs[i])
        set_list(inputs, i, d.inputs[i])
    set_list(whole, 0, equations)
    set_list(whole, 1, inputs)
    set_list(whole, 2, places)
    return whole


@native
def placed(outputs: borrowed, arguments: borrowed) -> obj:
    """[equations, inputs, places of the outputs]; None where Python has to look: an argument's value is asked for.

    arguments    nodes that come first among the inputs, in order, used or not
    """
    begin()
    n_results = tuple_size(ptr(outputs))
    n_arguments = tuple_size(ptr(arguments))
    for i in range(n_arguments):
        root(ptr[Node](tuple_item(ptr(arguments), i)), READ)
    for i in range(n_results):
        root(ptr[Node](tuple_item(ptr(outputs), i)), 0)
    gather()
    if walk.is_full:
        return borrowed(tape.none)
    own = put_in_order()
    room = i64(0)
    for i in range(own):
        e = walk.met[walk.queue[i]]
        room += i64(2) if e.flags & WIDE == 0 else count_of(e.node)
    n_met = i64(walk.count) + n_arguments
    size = u64(8 * i64(own) + 8 * n_met + 4 * (i64(own) + 1) + 4 * room + 4 * n_results)
    memory = allocated(size)
    if memory is None:
        no_memory()
        return failed()
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
        e = walk.met[ptr[Node](tuple_item(ptr(arguments), i)).mark]
        d.inputs[i] = ptr(e.node)
        e.place = i32(-2 - i)
    d.n_inputs = n_arguments
    if not drawn(d, own):
        free(memory)
        return borrowed(tape.none)
    for i in range(n_results):
        at = stands(d, walk.met[ptr[Node](tuple_item(ptr(outputs), i)).mark])
        results[i] = at if at >= 0 else at + 1
    for i in range(d.n_equations):
        inc(d.kinds[i])
    for i in range(d.n_inputs):
        inc(d.inputs[i])
    # From here on objects are made, so other Python may run: nothing of the walk is read any more.
    made = objects_of(d, results, n_results)
    let_go(d.kinds, d.n_equations)
    let_go(d.inputs, d.n_inputs)
    free(memory)
    if made is None:
        return failed()
    return object_of(made)


@native
def put_down(p: ptr[Steps], nodes: ptr[ptr]) -> i64:
    """Make a node of each step, behind those that are given: how many there are then; fewer with an exception."""
    made = p.given
    at = p.step_table
    for _k in range(p.steps):
        node = new_step(at, nodes)
        if node is None:
            return made
        nodes[made] = node
        made += 1
        at += 3 + at[2]
    return made


@native
def put(steps: borrowed, given: borrowed) -> obj:
    """Put steps down behind the nodes of a tuple: a tuple of those that are wanted."""
    p = ptr[Steps](bytes_at(ptr(steps))[0])
    if tuple_size(ptr(given)) != p.given:
        raise ValueError("steps are put down behind as many nodes as they were recorded behind")
    total = p.given + p.steps
    nearby = local(ptr, FEW)
    nodes = nearby
    if total > FEW:
        nodes = ptr[ptr](allocated(u64(8 * total)))
    if nodes is None:
        no_memory()
        return failed()
    for k in range(p.given):
        nodes[k] = tuple_item(ptr(given), k)  # the tuple holds it
    made = put_down(p, nodes)
    found = new_tuple(p.results) if made == total else ptr(None)
    for k in range(p.results if found is not None else i64(0)):
        node = nodes[p.result_table[k]]
        inc(node)
        set_tuple(found, k, node)
    let_go(nodes + p.given, made - p.given)
    if total > FEW:
        free(ptr(nodes))
    if found is None:
        return failed()
    return object_of(found)
