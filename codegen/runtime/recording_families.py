"""A recording as Python is told of it, in native Python: its key, with and without its numbers, and its nodes.

    described(...)         all that there is to say of an ask

The key without numbers is for plans of any size: see `autodiff.tape.sizes`.

The walk of an ask is hashed once more, with what is left of each kind and Out without numbers in the place of itself:
its family.  The numbers are gathered in canonical order.  `autodiff.tape.families` says the same in plain Python.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import bit_cast, extern, f64, held, i64, local, native, own, ptr, row, u8, u32, u64, void
from . import recording_objects as py
from .recording_entries import KEPT, OWN, PAST, PENDING, Met, hold, walk
from .recording_hash import Digest, mix, start, state, wires_of
from .recording_keys import key_object, mix_asked, walked
from .recording_structs import RawKind, RawOut, RawRich, count_of, input_at, is_filled, nothing, tape

hash_of = extern("PyObject_Hash", i64, ptr)  # of strings alone
occurred = extern("PyErr_Occurred", ptr)

#: A constant that is larger is no count.
MOST_COUNT = 2.0**53


@native(inline=True)
def is_given(e: ptr[Met]) -> bool:
    """True for a node that the key names by its Out: what it was computed by does not matter."""
    if e.flags & OWN == 0:
        return True
    r = ptr[RawRich](e.node)
    is_rich = e.node.type is not tape.plain_type
    return e.flags & PENDING == 0 and is_rich and (r.leaf is not tape.none or e.node.kind.op is tape.leaf_op)


@native
def mix_value(d: ptr[Digest], value: ptr) -> bool:
    """Add a parameter without its whole numbers.  False where it is of a type that has no hash."""
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
    """True for a constant that may be a count: `autodiff.tape.families` says the same."""
    size = value if value > 0 else -value
    return size >= 1 and size <= MOST_COUNT and f64(i64(value)) == value


@native
def mix_constant(d: ptr[Digest], params: ptr) -> bool:
    """Add the value and dtype of a constant: a float that is a whole number may be the count of a mean."""
    value = py.tuple_item(params, 0)
    cls = ptr[py.RawObject](value).type
    if cls is tape.float_type:
        number = py.float_value(value)
        mix(d, u64(0) if is_count(number) else bit_cast(u64, number), u64(is_count(number)))
    elif cls is tape.int_type:
        mix(d, u64(py.int_value(value)), 0xB3)
        if occurred() is not None:
            py.clear_error()  # it is too large
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
def mix_out(d: ptr[Digest], out: ptr[RawOut], said: u64) -> bool:
    """Add an Out without its extents, and what is said of the node above the bits of an address.

    False where an extent is no number: a symbol.
    """
    mix(d, u64(out.cls) | said, flags_of(out))
    return mix_value(d, out.shape)


@native(inline=True)
def mix_kind(d: ptr[Digest], kind: ptr[RawKind]) -> bool:
    """Add a kind without its numbers, beside its operation.  False where a parameter has no hash."""
    mix(d, flags_of(kind.out) | u64(kind.released is tape.true) << 2, u64(py.tuple_size(kind.params)))
    if py.tuple_size(kind.params) == 0:
        return True
    return mix_constant(d, kind.params) if kind.op is tape.constant_op else mix_value(d, kind.params)


@native
def mix_own_family(d: ptr[Digest], e: ptr[Met]) -> bool:
    """Add a node that is computed or gone through.  False where no plan is for any size."""
    n = e.node
    wires = wires_of(n, -1)
    if is_given(e):
        if not mix_out(d, n.kind.out, state(e)):
            return False
    else:
        mix(d, u64(n.kind.op) | state(e) | 1 << 58, wires)
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
    """Add all nodes of a walk that has given them places.  False where no plan is for any size."""
    for i in range(d.count):
        e = walk.met[walk.order[i]]
        if e.flags & OWN != 0:
            if not mix_own_family(d, e):
                return False
        else:
            past = e.flags & PAST
            if not mix_out(d, e.node.kind.out, u64(past) << 48 | 1 << 59):
                return False
            if past != 0:
                mix(d, u64(e.identity) << 1 | u64(is_filled(ptr[RawRich](e.node).hooks)), 0x71)
    return True


# ------------------------------------------------------------------ numbers


@native
def take_numbers(value: ptr, to: ptr[own], count: i64) -> i64:
    """Hold the numbers of a parameter from place `count` on; only count them where `to` is null."""
    if ptr[py.RawObject](value).type is tape.tuple_type:
        for i in range(py.tuple_size(value)):
            count = take_numbers(py.tuple_item(value, i), to, count)
    elif ptr[py.RawObject](value).type is tape.int_type:
        if to is not None:
            to[count] = held(value)
        count += 1
    return count


@native
def take_numbers_of(e: ptr[Met], to: ptr[own], count: i64) -> i64:
    """Hold, or count, the numbers of a node.  Null is held where there is no memory."""
    kind = e.node.kind
    if is_given(e):
        return take_numbers(kind.out.shape, to, count)
    if kind.op is not tape.constant_op:
        return take_numbers(kind.params, to, count)
    value = py.tuple_item(kind.params, 0)
    if ptr[py.RawObject](value).type is not tape.float_type or not is_count(py.float_value(value)):
        return count
    if to is not None:
        to[count] = py.int_of(i64(py.float_value(value)))
    return count + 1


# ------------------------------------------------------------------ a recording as Python is told of it


@native
def mixed_families(f: ptr[Digest], d: ptr[Digest]) -> bool:
    """The hash without numbers of what was walked over.  False where no plan is for any size."""
    start(f, 0x452821E638D01377, 0xBE5466CF34E90C6C)
    f.count = d.count
    return walk.n_calls == 0 and mix_families(f)


@native
def hold_things(to: ptr[own], count: u64) -> i64:
    """Hold what an exact key says of each node: the kind of an operation, the Out of what is given, None of others.

    Gives the number of inputs of operations."""
    n_wires = i64(0)
    for i in range(count):
        e = walk.met[walk.order[i]]
        thing = tape.none
        if e.flags & (PENDING | PAST) == 0:
            thing = e.node.kind.out
        elif e.node.type is tape.plain_type:
            thing = e.node.kind
            n_wires += count_of(e.node)
        to[i] = held(thing)
    return n_wires


@native
def write_wires(words: ptr[u32], states: ptr[u8], count: u64) -> void:
    """Write where the places of each node's inputs begin, and then these; and the states of nodes."""
    at = u32(count + 1)
    for i in range(count):
        e = walk.met[walk.order[i]]
        states[i] = u8(e.flags & PENDING != 0) | u8(e.flags & KEPT != 0) << 1
        words[i] = at
        if e.flags & (PENDING | PAST) != 0 and e.node.type is tape.plain_type:
            for k in range(count_of(e.node)):
                words[at] = u32(walk.met[input_at(e.node, k).mark].place)
                at += 1
    words[count] = at


@native
def described(
    purpose: u64, small: ptr, results: ptr, seeds: ptr, also: ptr, targets: ptr, tracks: bool,
    held_by: u32,
) -> own:  # fmt: skip
    """[key, nodes, calls, things, states, wires, family, numbers] of an ask; None where no key says all: hooks.

    small      as `ask` has it;  held_by: how often the caller holds each node of the history
    nodes      in canonical order;  calls: those of the history
    things     of each node what an exact key says of it (`autodiff.tape.walk.structure`): see `hold_things`
    states     of each if it is pending (1) and is to be stored (2)
    wires      where the inputs of each operation stand: words, see `write_wires`
    family     the hash without numbers, None where no plan is for any size;  numbers: these, in canonical order
    """
    d = local(Digest, 1)[0]
    f = local(Digest, 1)[0]
    walk.held = held_by
    if not walked(d, purpose, None, small, results, seeds, also, targets, tracks):
        return nothing()
    has_family = mixed_families(f, d)
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
    things = nodes + count
    calls = things + count
    numbers = calls + n_calls
    hold(nodes, walk.order, d.count)
    n_wires = hold_things(things, d.count)
    hold(calls, walk.calls, walk.n_calls)
    n_numbers = 0
    for i in range(d.count if has_family else u64(0)):
        n_numbers = take_numbers_of(walk.met[walk.order[i]], numbers, n_numbers)
    states: own = py.new_bytes(None, count)
    wires: own = py.new_bytes(None, 4 * (count + 1 + n_wires))
    if states is not None and wires is not None:
        write_wires(ptr[u32](py.bytes_at(wires)), ptr[u8](py.bytes_at(states)), d.count)
    # Lists are made now, which may run any Python: nothing of the walk is read any more.
    family: own = key_object(f) if has_family else nothing()
    parts = row(
        key_object(d), py.list_of(nodes, count), py.list_of(calls, n_calls), py.list_of(things, count), states, wires,
        family, py.tuple_of(numbers, n_numbers),
    )  # fmt: skip
    py.leave(nodes, total, nearby)
    return py.list_of(parts, 8)
