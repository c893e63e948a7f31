"""The key of an ask, a hash of the recording and of what is asked of it; an ask whose key is known is answered.

    walked(...)            the walk for an ask, with the hash
    ask(...)               the key is looked up; where there is an answer, its plan is run (`recording_run`)
    answer_value(...)      the same for one pending value, as the recorder calls it
    key_of(...)            the key as bytes, with the nodes in canonical order and the calls whose keys belong to it
    exact_of(...)          [nodes in canonical order, parts, states] of an ask: the parts of its exact key, of which see
                           `walk.structure` in `autodiff.tape`

A part is the Out of a node that is given; of an operation its kind, whether it is pending, and its wires.  Nodes with
room for more have None: Python says what they are.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, borrowed, i32, i64, local, native, obj, ptr, u8, u32, u64, unlikely, void
from . import recording_objects as py
from .recording_entries import KEPT, PAST, PENDING, READ, begin, entry_of, hold, walk
from .recording_hash import Digest, known_identity, mix, number, place_given, start
from .recording_run import AnswerBlock, run
from .recording_structs import (
    BACKWARD,
    CLOCK,
    NODES,
    SOME,
    TENSORS,
    VALUE,
    RawHandle,
    RawNode,
    RawRecording,
    RawRich,
    count_of,
    input_at,
    is_plain_or_no_leaf,
    old_of,
    tape,
)
from .recording_walk import gather, root, roots

__all__ = [
    "answer_value", "ask", "exact_of", "key_object", "key_of", "list_of_found", "mix_asked", "walked",
]  # fmt: skip


@native(inline=True)
def place_of(n: ptr) -> u64:
    """One more than the place of a node; 0 for one that has none, and for None."""
    if n is tape.none:
        return 0
    e = entry_of(ptr[RawNode](n))
    return u64(i64(e.place) + 1) if e is not None else u64(0)


@native(inline=False)
def mix_asked(d: ptr[Digest], purpose: u64, results: ptr, seeds: ptr, targets: ptr) -> void:
    """Add to the hash which nodes are asked for, by their places."""
    if purpose != VALUE:
        for i in range(py.tuple_size(results)):
            mix(d, place_of(py.tuple_item(results, i)), place_of(py.tuple_item(seeds, i)))
    if purpose == BACKWARD:
        for i in range(walk.n_leaves):
            e = walk.met[walk.leaves[i]]
            old = old_of(ptr[RawRich](e.node).leaf)
            if old is not None and walk.met[old.mark].place < 0:
                place_given(d, old.mark)
            mix(d, u64(e.place), place_of(ptr(old)) if old is not None else u64(0))
    else:
        for i in range(py.tuple_size(targets)):
            n = ptr[RawNode](py.tuple_item(targets, i))
            version = i64(-1)
            if purpose != NODES and not is_plain_or_no_leaf(n):
                version = known_identity(ptr[RawRich](n).leaf)
            mix(d, place_of(ptr(n)), u64(version + 1))
    hashed = purpose if purpose != SOME else u64(TENSORS)
    mix(d, d.count, hashed | u64(py.tuple_size(targets)) << 8)


@native(inline=False)
def walked(
    d: ptr[Digest], purpose: u64, one: ptr[RawNode], small: ptr, results: ptr, seeds: ptr, also: ptr, targets: ptr,
    tracks: bool,
) -> bool:
    """Walk over what is asked for.  False where no key says all: hooks, no memory.

    one       a node whose value is asked for; null: none
    small     weak references to handles: what is pending of these is asked for, too; None: nothing is
    results, seeds, also, targets    tuples of nodes; a seed may be None
    """
    start(d, 0x243F6A8885A308D3, 0x13198A2E03707344)
    begin()
    if one is not None:
        root(one, 0)
    roots(results, u32(PAST) if purpose != VALUE else u32(0))
    roots(seeds, READ)
    roots(also, 0)
    for i in range(py.list_size(small) if small is not tape.none else i64(0)):
        handle = py.referent(py.list_item(small, i))
        if handle is not tape.none and py.is_subtype(ptr[py.RawObject](handle).type, tape.handle_type) != 0:
            n = ptr[RawHandle](handle).node
            if n.value is tape.none:
                root(n, 0)
    gather()
    walk.n_asked = walk.n_roots
    if purpose == BACKWARD:
        for i in range(walk.n_leaves):
            leaf = ptr[RawRich](walk.met[walk.leaves[i]].node).leaf
            old = old_of(leaf)
            if old is not None:
                if py.is_subtype(leaf.grad.head.type, tape.handle_type) == 0:
                    return False
                root(old, READ)
        gather()
    if walk.is_full or (walk.is_hooked and purpose != VALUE):
        return False
    number(d, tracks)
    mix_asked(d, purpose, results, seeds, targets)
    return True


# ------------------------------------------------------------------ keys as objects


@native
def key_object(d: ptr[Digest]) -> ptr:
    """The hash as bytes, a new reference; null with an exception."""
    return py.new_bytes(ptr(d), 16)


@native
def list_of_found(entries: ptr[u32], count: u64, key: ptr, order: u64) -> ptr:
    """A list of a key, a list of `order` nodes in canonical order, one of those of entries, and bytes.

    The bytes say of each node in canonical order if it is pending (1) and is to be stored (2).

    The count of the key comes along.  Null with an exception.
    """
    nearby = local(ptr, py.FEW)
    held = py.room(nearby, py.FEW, i64(order + count))
    if held is None:
        py.dec(key)
        return None
    hold(held, walk.order, order)
    hold(held + order, entries, count)
    states = py.new_bytes(None, i64(order))
    if states is not None:
        said = ptr[u8](py.bytes_at(states))
        for i in range(order):
            flags = walk.met[walk.order[i]].flags
            said[i] = u8(flags & PENDING != 0) | u8(flags & KEPT != 0) << 1
    # Lists are made now: that may run any Python.
    parts = local(ptr, 4)
    parts[0] = key
    parts[1] = py.list_of(held, i64(order))
    parts[2] = py.list_of(held + order, i64(count))
    parts[3] = states
    py.leave(held, nearby)
    return py.list_of(parts, 4)


@native
def key_of(
    purpose: u64, results: borrowed, seeds: borrowed, also: borrowed, targets: borrowed, tracks: bool, held: u32
) -> obj:
    """[key, nodes in canonical order, calls of the history, states] of an ask; None where no key says all.

    held    how often the caller holds each node of the history
    """
    d = local(Digest, 1)[0]
    walk.held = held
    if not walked(d, purpose, None, tape.none, ptr(results), ptr(seeds), ptr(also), ptr(targets), tracks):
        return borrowed(tape.none)
    key = key_object(d)
    if key is None:
        return py.failed()
    return py.object_of(list_of_found(walk.calls, walk.n_calls, key, d.count))


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
        py.inc(ptr(n))
        py.inc(p.things[i])
    p.starts[p.count] = n_wires


@native
def part_of(p: ptr[ExactParts], i: i64) -> ptr:
    """The part of a node, a new reference, the count of its thing coming along; null with an exception."""
    thing = p.things[i]
    if thing is None:
        py.inc(tape.none)
        return tape.none
    if p.states[i] & 4 != 0:
        return thing
    start = i64(p.starts[i])
    wires = i64(p.starts[i + 1]) - start
    nearby = local(ptr, py.FEW)
    held = py.room(nearby, py.FEW, wires + 2)
    if held is None:
        py.dec(thing)
        return None
    held[0] = thing
    held[1] = tape.true if p.states[i] & 1 != 0 else tape.false
    py.inc(held[1])
    for k in range(wires):
        held[k + 2] = py.int_of(i64(p.wires[start + k]))
    made = py.tuple_of(held, wires + 2)
    py.leave(held, nearby)
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
    memory = py.allocated(16 * d.count + 4 * (d.count + 1) + 4 * n_wires + d.count)
    if memory is None:
        py.no_memory()
        return py.failed()
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
    nodes = py.list_of(p.nodes, p.count)
    parts = py.list_of(p.things, p.count)
    made = py.list_of_three(nodes, parts, py.new_bytes(ptr(p.states), p.count))
    py.free(memory)
    return py.object_of(made)


# ------------------------------------------------------------------ asks that are known


@native
def looked_up(key: ptr) -> ptr:
    """The valid answer that is known for a key, as `run` takes it; null for none."""
    entry = py.dict_item(tape.plans.entries, key)
    if entry is None:
        return None
    found = py.list_item(entry, 0)
    is_sized = ptr[py.RawObject](found).type is tape.tuple_type
    answer = py.tuple_item(found, 0) if is_sized else found
    if ptr[py.RawObject](answer).type is not tape.answer_type:
        return None
    if py.list_item(entry, 1) is not tape.plans.clock:  # it is the latest used now
        clock = py.int_of(py.int_value(tape.plans.clock) + 1)
        if clock is not None:
            py.inc(clock)
            py.exchange(ptr[ptr](tape.plans) + CLOCK, clock)
            py.set_list(entry, 1, clock)
    return found if ptr[AnswerBlock](py.bytes_at(answer)[0]).valid[0] is tape.true else ptr(None)


@native
def ask(
    purpose: u64, now: borrowed, small: borrowed, results: borrowed, seeds: borrowed, also: borrowed, targets: borrowed,
    tracks: bool, is_released: bool, given: borrowed,
) -> obj:
    """Answer an ask if it is known.

    now      the recording that ends with it; None: none does
    given    None; or what Python has looked up: see `run`

    Gives True; of gradients that are asked for [a plan's results, the answer]; of leaves with hooks that are due these;
    [key, [], calls] where keys of calls belong to the key; None where it is not known.
    """
    d = local(Digest, 1)[0]
    walk.held = 0
    if not walked(d, purpose, None, ptr(small), ptr(results), ptr(seeds), ptr(also), ptr(targets), tracks):
        return borrowed(tape.none)
    if ptr(given) is not tape.none:
        told = py.bytes_at(py.tuple_item(ptr(given), 1))
        a = ptr[AnswerBlock](py.bytes_at(py.tuple_item(ptr(given), 0))[0])
        if told[0] != d.low or told[1] != d.high or a.valid[0] is not tape.true:
            return borrowed(tape.none)
        return run(ptr(given), d, purpose, ptr(now), is_released, None)
    key = key_object(d)
    if key is None:
        return py.failed()
    known = looked_up(key)
    if unlikely(walk.n_calls > 0):
        if known is None:
            return py.object_of(list_of_found(walk.calls, walk.n_calls, key, 0))
        return run(known, d, purpose, ptr(now), is_released, key)
    py.dec(key)
    if known is None:
        return borrowed(tape.none)
    return run(known, d, purpose, ptr(now), is_released, None)


@native
def answer_value(now: ptr[RawRecording], node: ptr[RawNode], tracks: bool) -> obj:
    """Compute a pending value if that is known: True or None."""
    d = local(Digest, 1)[0]
    known = ptr(None)
    walk.held = 0
    if walked(d, VALUE, node, now.small, tape.empty, tape.empty, tape.empty, tape.empty, tracks):
        key = key_object(d)
        if key is not None:
            known = looked_up(key)
            py.dec(key)
        else:
            py.clear_error()
    if known is None:
        return borrowed(tape.none)
    return run(known, d, VALUE, ptr(now), False, None)
