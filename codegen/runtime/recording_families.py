"""Describe a recording to Python, in native Python: its key, with numbers and without, and its nodes.

    describe_ask(...)      the key, nodes, states, wires and numbers of an ask

The key without numbers is for plans of any size: see `autodiff.tape.sizes`.

The walk of an ask is hashed a second time, with each kind and Out replaced by its family: all of it but its numbers.
The numbers are gathered in canonical order.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import bit_cast, extern, f64, held, i64, local, native, own, ptr, row, u8, u32, u64, void
from . import recording_objects as py
from .recording_entries import IN_HISTORY, KEPT, ORDERED, PENDING, WalkEntry, hold, walk
from .recording_hash import Digest, is_keyed_by_out, mix, start, state_bits, wires_of
from .recording_keys import key_object, mix_asked, walk_and_hash
from .recording_structs import RawKind, RawOut, RawRich, count_of, input_at, is_filled, new_none, tape

hash_of = extern("PyObject_Hash", i64, ptr)  # called for strings only: it runs no Python
occurred = extern("PyErr_Occurred", ptr)

#: The largest whole number that a constant may have and still be taken for a count.
MOST_COUNT = 2.0**53


@native
def mix_value(d: ptr[Digest], value: ptr) -> bool:
    """Add a parameter without its whole numbers to the hash.  False if the type of a parameter is not handled here."""
    cls = ptr[py.RawObject](value).type
    if cls is tape.tuple_type:
        mix(d, u64(py.tuple_size(value)), 0x79)
        is_hashed = True
        for i in range(py.tuple_size(value)):
            is_hashed = is_hashed and mix_value(d, py.tuple_item(value, i))
        return is_hashed
    if cls is tape.int_type:
        mix(d, 0x83, 0x8B)
    elif value is tape.none or cls is tape.bool_type:
        mix(d, u64(value), 0x89)
    elif cls is tape.float_type:
        mix(d, bit_cast(u64, py.float_value(value) + 0.0), 0x97)
    elif cls is tape.str_type:
        mix(d, u64(hash_of(value)), 0xA1)
    else:
        return False
    return True


@native(inline=True)
def is_count(value: f64) -> bool:
    """True for a constant that may be a count.  `autodiff.tape.sizes` has the same test."""
    size = value if value > 0 else -value
    return size >= 1 and size <= MOST_COUNT and f64(i64(value)) == value


@native
def mix_constant(d: ptr[Digest], params: ptr) -> bool:
    """Add the value and dtype of a constant.  A whole float, which may be the count of a mean, is left out."""
    value = py.tuple_item(params, 0)
    cls = ptr[py.RawObject](value).type
    if cls is tape.float_type:
        number = py.float_value(value)
        mix(d, u64(0) if is_count(number) else bit_cast(u64, number), u64(is_count(number)))
    elif cls is tape.int_type:
        mix(d, u64(py.int_value(value)), 0xB3)
        if occurred() is not None:
            py.clear_error()  # the int does not fit into 64 bits
            return False
    elif cls is tape.bool_type:
        mix(d, u64(value), 0x89)
    else:
        return False
    return mix_value(d, py.tuple_item(params, 1))


@native(inline=True)
def flags_of(out: ptr[RawOut]) -> u64:
    return u64(out.requires_grad is tape.true) | u64(out.weak is tape.true) << 1


@native(inline=True)
def mix_out(d: ptr[Digest], out: ptr[RawOut], bits: u64) -> bool:
    """Add an Out without its extents, and the state of a node, which lies above the bits of an address.

    False if an extent is a symbol, not a number.
    """
    mix(d, u64(out.cls) | bits, flags_of(out))
    return mix_value(d, out.shape)


@native(inline=True)
def mix_kind(d: ptr[Digest], kind: ptr[RawKind]) -> bool:
    """Add a kind without its numbers; the caller adds its operation.  False if a parameter has no hash."""
    mix(d, flags_of(kind.out) | u64(kind.released is tape.true) << 2, u64(py.tuple_size(kind.params)))
    if py.tuple_size(kind.params) == 0:
        return True
    return mix_constant(d, kind.params) if kind.op is tape.constant_op else mix_value(d, kind.params)


@native
def mix_ordered_family(d: ptr[Digest], e: ptr[WalkEntry]) -> bool:
    """Add a node that is computed, or that gradients flow through.  False if no plan for any size can exist."""
    n = e.node
    wires = wires_of(n, -1)
    if is_keyed_by_out(e):
        if not mix_out(d, n.kind.out, state_bits(e)):
            return False
    else:
        mix(d, u64(n.kind.op) | state_bits(e) | 1 << 58, wires)
        if not mix_kind(d, n.kind):
            return False
    if n.type is not tape.plain_type:
        r = ptr[RawRich](n)
        if r.call is not tape.none or r.body is not tape.none or r.flow is not tape.none or r.slot is not tape.none:
            return False
        mix(d, u64(u32(e.identity)), u64(is_filled(r.hooks)) | wires << 1)
    return True


@native
def mix_families(d: ptr[Digest]) -> bool:
    """Add all nodes of a walk that has given them places.  False if no plan for any size can exist."""
    for i in range(d.count):
        e = walk.met[walk.order[i]]
        if e.flags & ORDERED != 0:
            if not mix_ordered_family(d, e):
                return False
        else:
            in_history = e.flags & IN_HISTORY
            if not mix_out(d, e.node.kind.out, u64(in_history) << 48 | 1 << 59):
                return False
            if in_history != 0:
                mix(d, u64(e.identity) << 1 | u64(is_filled(ptr[RawRich](e.node).hooks)), 0x71)
    return True


# ------------------------------------------------------------------ numbers


@native
def take_numbers(value: ptr, to: ptr[own], count: i64) -> i64:
    """Store a parameter's numbers in `to` from index `count` on (null: only count them), and return the new count."""
    if ptr[py.RawObject](value).type is tape.tuple_type:
        for i in range(py.tuple_size(value)):
            count = take_numbers(py.tuple_item(value, i), to, count)
    elif ptr[py.RawObject](value).type is tape.int_type:
        if to is not None:
            to[count] = held(value)
        count += 1
    return count


@native
def take_numbers_of(e: ptr[WalkEntry], to: ptr[own], count: i64) -> i64:
    """Store, or count, the numbers of a node, as `take_numbers`.  Without memory for a number, null is stored."""
    kind = e.node.kind
    if is_keyed_by_out(e):
        return take_numbers(kind.out.shape, to, count)
    if kind.op is not tape.constant_op:
        return take_numbers(kind.params, to, count)
    value = py.tuple_item(kind.params, 0)
    if ptr[py.RawObject](value).type is not tape.float_type or not is_count(py.float_value(value)):
        return count
    if to is not None:
        to[count] = py.int_of(i64(py.float_value(value)))
    return count + 1


# ------------------------------------------------------------------ the description for Python


@native
def hash_without_numbers(f: ptr[Digest], d: ptr[Digest]) -> bool:
    """Hash the present walk without its numbers.  False if no plan for any size can exist."""
    start(f, 0x452821E638D01377, 0xBE5466CF34E90C6C)
    f.count = d.count
    return walk.n_calls == 0 and mix_families(f)


@native
def store_key_parts(to: ptr[own], count: u64) -> i64:
    """Store the part of an exact key for each node: the kind of an operation, the Out of a given value, else None.

    Returns the number of inputs of all operations."""
    n_wires = i64(0)
    for i in range(count):
        e = walk.met[walk.order[i]]
        key_part = tape.none
        if e.flags & (PENDING | IN_HISTORY) == 0:
            key_part = e.node.kind.out
        elif e.node.type is tape.plain_type:
            key_part = e.node.kind
            n_wires += count_of(e.node)
        to[i] = held(key_part)
    return n_wires


@native
def write_wires(words: ptr[u32], states: ptr[u8], count: u64) -> void:
    """Write the states of nodes, and as wires the index where the inputs of each node begin, then their places."""
    at = u32(count + 1)
    for i in range(count):
        e = walk.met[walk.order[i]]
        states[i] = u8(e.flags & PENDING != 0) | u8(e.flags & KEPT != 0) << 1
        words[i] = at
        if e.flags & (PENDING | IN_HISTORY) != 0 and e.node.type is tape.plain_type:
            for k in range(count_of(e.node)):
                words[at] = u32(walk.met[input_at(e.node, k).mark].place)
                at += 1
    words[count] = at


@native
def describe_ask(
    purpose: u64, now: ptr, results: ptr, seeds: ptr, also: ptr, targets: ptr, tracks: bool, held_by: u32
) -> own:  # fmt: skip
    """[key, nodes, calls, key_parts, states, wires, family, numbers] of an ask; None if no key covers the ask (hooks).

    now        as for `recording_keys.ask`;  held_by: the number of references of the caller to each node of the history
    nodes      the nodes in canonical order;  calls: the custom calls of the history
    key_parts  for each node its part of an exact key (`autodiff.tape.walk.structure`): see `store_key_parts`
    states     for each node bits: pending (1), to be stored (2)
    wires      the places of the inputs of operations, as words: see `write_wires`
    family     the hash without numbers, None if no plan for any size can exist;  numbers: these, in canonical order
    """
    d = local(Digest, 1)[0]
    f = local(Digest, 1)[0]
    walk.held = held_by
    if not walk_and_hash(d, purpose, now, results, seeds, also, targets, tracks):
        return new_none()
    has_family = hash_without_numbers(f, d)
    n_numbers = i64(0)
    if has_family:
        mix_asked(f, purpose, results, seeds, targets)
        for i in range(d.count):
            n_numbers = take_numbers_of(walk.met[walk.order[i]], None, n_numbers)
    count = i64(d.count)
    n_calls = i64(walk.n_calls)
    nearby = local(ptr, py.FEW)
    total = 2 * count + n_calls + n_numbers
    nodes = py.room(nearby, py.FEW, total)
    if nodes is None:
        return None
    key_parts = nodes + count
    calls = key_parts + count
    numbers = calls + n_calls
    hold(nodes, walk.order, d.count)
    n_wires = store_key_parts(key_parts, d.count)
    hold(calls, walk.calls, walk.n_calls)
    n_numbers = 0
    for i in range(d.count if has_family else u64(0)):
        n_numbers = take_numbers_of(walk.met[walk.order[i]], numbers, n_numbers)
    states: own = py.new_bytes(None, count)
    wires: own = py.new_bytes(None, 4 * (count + 1 + n_wires))
    if states is not None and wires is not None:
        write_wires(ptr[u32](py.bytes_at(wires)), ptr[u8](py.bytes_at(states)), d.count)
    # Lists are made from here on, which may run any Python and begin another walk: nothing of this one is read.
    family: own = key_object(f) if has_family else new_none()
    parts = row(
        key_object(d), py.list_of(nodes, count), py.list_of(calls, n_calls), py.list_of(key_parts, count), states,
        wires, family, py.tuple_of(numbers, n_numbers),
    )  # fmt: skip
    py.free_room(nodes, total, nearby)
    return py.list_of(parts, 8)
