"""The parts of an exact key of a recording, in native Python: see `walk.structure` in `autodiff.tape`.

    exact_of(...)     [nodes in canonical order, parts, states] of an ask

A part is the Out of a node that is given; of an operation its kind, whether it is pending, and its wires.  Nodes with
room for more have None: Python says what they are.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, borrowed, i32, i64, local, native, obj, ptr, u8, u32, u64, void
from .recording_entries import KEPT, PAST, PENDING, walk
from .recording_hash import Digest
from .recording_keys import walked
from .recording_objects import (
    FEW,
    allocated,
    dec,
    failed,
    free,
    inc,
    int_of,
    leave,
    list_of,
    list_of_three,
    new_bytes,
    no_memory,
    object_of,
    room,
    tuple_of,
)
from .recording_structs import count_of, input_at, tape

__all__ = ["exact_of"]


class ExactParts(Struct):
    """The parts of all nodes, before there are objects of them.  Their memory is one block.

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
def note_parts(p: ptr[ExactParts]) -> void:
    """Note what is said of each node that was walked over, and hold it."""
    n_wires = u32(0)
    for i in range(p.count):
        e = walk.met[walk.order[i]]
        n = e.node
        p.nodes[i] = ptr(n)
        p.starts[i] = n_wires
        p.states[i] = u8(e.flags & PENDING != 0) | u8(e.flags & KEPT != 0) << 1
        if e.flags & (PENDING | PAST) == 0:
            p.things[i] = ptr(n.kind.out)
            p.states[i] |= 4
        elif n.type is tape.plain_type:
            p.things[i] = ptr(n.kind)
            for k in range(count_of(n)):
                p.wires[n_wires] = walk.met[input_at(n, k).mark].place
                n_wires += 1
        else:
            p.things[i] = None
        inc(ptr(n))
        inc(p.things[i])
    p.starts[p.count] = n_wires


@native
def part_of(p: ptr[ExactParts], i: i64) -> ptr:
    """The part of a node, a new reference, the count of its thing coming along; null with an exception."""
    thing = p.things[i]
    if thing is None:
        inc(tape.none)
        return tape.none
    if p.states[i] & 4 != 0:
        return thing
    start = i64(p.starts[i])
    wires = i64(p.starts[i + 1]) - start
    nearby = local(ptr, FEW)
    held = room(nearby, FEW, wires + 2)
    if held is None:
        dec(thing)
        return None
    held[0] = thing
    held[1] = tape.true if p.states[i] & 1 != 0 else tape.false
    inc(held[1])
    for k in range(wires):
        held[k + 2] = int_of(i64(p.wires[start + k]))
    made = tuple_of(held, wires + 2)
    leave(held, nearby)
    return made


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
    n_wires = u64(0)
    for i in range(d.count):
        n_wires += u64(count_of(walk.met[walk.order[i]].node))
    memory = allocated(16 * d.count + 4 * (d.count + 1) + 4 * n_wires + d.count)
    if memory is None:
        no_memory()
        return failed()
    p = local(ExactParts, 1)[0]
    p.count = i64(d.count)
    p.nodes = ptr[ptr](memory)
    p.things = p.nodes + d.count
    p.starts = ptr[u32](p.things + d.count)
    p.wires = ptr[i32](p.starts + (d.count + 1))
    p.states = ptr[u8](p.wires + n_wires)
    note_parts(p)
    # Objects are made from here on, which may run any Python: nothing of the walk is read any more.
    for i in range(p.count):
        p.things[i] = part_of(p, i)
    nodes = list_of(p.nodes, p.count)
    parts = list_of(p.things, p.count)
    made = list_of_three(nodes, parts, new_bytes(ptr(p.states), p.count))
    free(memory)
    return object_of(made)
