"""What an exact key says of a recording, in native Python: see `walk.structure` in `autodiff.tape`.

    exact_of(...)     [nodes in canonical order, parts, states] of an ask

A part is the Out of a node that is given; of an operation its kind, whether it is pending, and its wires.  Nodes with
room for more have None: Python says what they are.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, borrowed, i32, i64, local, native, obj, ptr, u8, u32, u64, void
from .recording_answer import (
    allocated,
    dec,
    failed,
    free,
    inc,
    int_of,
    let_go,
    names,
    new_bytes,
    new_list,
    no_memory,
    object_of,
    set_list,
    walked,
)
from .recording_behind import new_tuple, set_tuple
from .recording_walk import KEPT, PAST, PENDING, Digest, count_of, input_at, tape, walk

__all__ = ["exact_of"]


class Parts(Struct):
    """What is said of the nodes, before there are objects of it.  Its memory is one block.

    things    the kind of an operation, the Out of what is given, null for what Python says
    starts, wires    the places of its inputs lie from the former on
    states    1 for a pending node, 2 for one that is stored, 4 for one that is given
    """

    nodes: ptr[ptr]
    things: ptr[ptr]
    starts: ptr[u32]
    wires: ptr[i32]
    states: ptr[u8]
    count: i64


@native
def note_parts(p: ptr[Parts]) -> void:
    """Note what is said of each node that was walked over, and hold it."""
    room = u32(0)
    for i in range(p.count):
        e = walk.met[walk.order[i]]
        n = e.node
        p.nodes[i] = ptr(n)
        p.starts[i] = room
        p.states[i] = u8(e.flags & PENDING != 0) | u8(e.flags & KEPT != 0) << 1
        if e.flags & (PENDING | PAST) == 0:
            p.things[i] = ptr(n.kind.out)
            p.states[i] |= 4
        elif n.type is tape.plain_type:
            p.things[i] = ptr(n.kind)
            for k in range(count_of(n)):
                p.wires[room] = walk.met[input_at(n, k).mark].place
                room += 1
        else:
            p.things[i] = None
        inc(ptr(n))
        if p.things[i] is not None:
            inc(p.things[i])
    p.starts[p.count] = room


@native
def part_of(p: ptr[Parts], i: i64) -> ptr:
    """The part of a node, a new reference; null with an exception."""
    thing = p.things[i]
    if thing is None:
        inc(tape.none)
        return tape.none
    if p.states[i] & 4 != 0:
        inc(thing)
        return thing
    start = i64(p.starts[i])
    wires = i64(p.starts[i + 1]) - start
    made = new_tuple(wires + 2)
    if made is None:
        return None
    inc(thing)
    set_tuple(made, 0, thing)
    pending = tape.true if p.states[i] & 1 != 0 else names.false
    inc(pending)
    set_tuple(made, 1, pending)
    for k in range(wires):
        place = int_of(i64(p.wires[start + k]))
        if place is None:
            dec(made)
            return None
        set_tuple(made, k + 2, place)
    return made


@native
def objects_of_parts(p: ptr[Parts]) -> ptr:
    """[nodes, parts, states], a new reference; null with an exception."""
    nodes = new_list(p.count)
    parts = new_list(p.count)
    states = new_bytes(ptr(p.states), p.count)
    whole = new_list(3)
    is_made = nodes is not None and parts is not None and states is not None and whole is not None
    for i in range(p.count if is_made else i64(0)):
        part = part_of(p, i)
        if part is None:
            is_made = False
            break
        set_list(parts, i, part)
        inc(p.nodes[i])
        set_list(nodes, i, p.nodes[i])
    if not is_made:
        dec(nodes)
        dec(parts)
        dec(states)
        dec(whole)
        return None
    set_list(whole, 0, nodes)
    set_list(whole, 1, parts)
    set_list(whole, 2, states)
    return whole


@native
def exact_of(
    purpose: u64, results: borrowed, seeds: borrowed, also: borrowed, targets: borrowed, tracks: bool, held: u32
) -> obj:
    """[nodes in canonical order, parts, states] of an ask; None where hooks or other things need Python.

    held    how often the caller holds each node of the history
    """
    d = local(Digest, 1)[0]
    walk.held = held
    if not walked(d, purpose, None, tape.none, ptr(results), ptr(seeds), ptr(also), ptr(targets), tracks):
        return borrowed(tape.none)
    room = u64(0)
    for i in range(d.count):
        room += u64(count_of(walk.met[walk.order[i]].node))
    memory = allocated(16 * d.count + 4 * (d.count + 1) + 4 * room + d.count)
    if memory is None:
        no_memory()
        return failed()
    p = local(Parts, 1)[0]
    p.count = i64(d.count)
    p.nodes = ptr[ptr](memory)
    p.things = p.nodes + d.count
    p.starts = ptr[u32](p.things + d.count)
    p.wires = ptr[i32](p.starts + (d.count + 1))
    p.states = ptr[u8](p.wires + room)
    note_parts(p)
    # Objects are made from here on, which may run any Python: nothing of the walk is read any more.
    made = objects_of_parts(p)
    let_go(p.nodes, p.count)
    for i in range(p.count):
        dec(p.things[i])
    free(memory)
    if made is None:
        return failed()
    return object_of(made)
