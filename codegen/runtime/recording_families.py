"""The key of a recording without its numbers, in native Python: see `autodiff.tape.sizes`.

The walk of an ask is hashed once more, with what is left of each kind and Out without numbers in the place of itself:
its family.  The numbers are gathered in canonical order.  `autodiff.tape.families` says the same in plain Python.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import bit_cast, borrowed, extern, f64, i64, likely, local, native, obj, ptr, u32, u64
from . import recording_objects as py
from .recording_entries import OWN, PAST, PENDING, WIDE, Met, walk
from .recording_hash import Digest, copy, mix, state, wires_of
from .recording_keys import key_object, list_of_found, mix_asked, walked
from .recording_structs import RawKind, RawOut, RawRich, is_filled, is_plain_or_no_leaf, tape

__all__ = ["family_of"]

hash_of = extern("PyObject_Hash", i64, ptr, runs_python=False)  # of strings alone
occurred = extern("PyErr_Occurred", ptr, runs_python=False)

#: A constant that is larger is no count.
MOST_COUNT = 2.0**53


@native(inline=True)
def is_given(e: ptr[Met]) -> bool:
    """True for a node that the key names by its Out: what it was computed by does not matter."""
    if likely(e.flags & (OWN | WIDE) == OWN):
        return False
    if e.flags & WIDE == 0:
        return True
    r = ptr[RawRich](e.node)
    is_rich = e.node.type is not tape.plain_type
    return e.flags & PENDING == 0 and is_rich and (ptr(r.leaf) is not tape.none or e.node.kind.op is tape.leaf_op)


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


@native(inline=False)
def mix_wide_family(d: ptr[Digest], e: ptr[Met]) -> bool:
    """Add a node that has more than two inputs, or room for more.  False where no plan is for any size."""
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
    h = local(Digest, 1)[0]
    copy(h, d)
    for i in range(h.count):
        e = h.met[h.order[i]]
        if likely(e.flags & (OWN | WIDE) == OWN):
            wires = u64(h.met[e.first].place) | u64(h.met[e.second].place) << 32
            mix(h, u64(e.node.kind.op) | state(e), wires)
            if not mix_kind(h, e.node.kind):
                return False
        elif e.flags & WIDE == 0:
            past = e.flags & PAST
            if not mix_out(h, e.node.kind.out, u64(past) << 48 | 1 << 59):
                return False
            if past != 0:
                mix(h, u64(e.identity) << 1 | u64(is_filled(ptr[RawRich](e.node).hooks)), 0x71)
        elif not mix_wide_family(h, e):
            return False
    copy(d, h)
    return True


# ------------------------------------------------------------------ numbers


@native
def take_numbers(value: ptr, to: ptr[ptr], count: i64) -> i64:
    """Hold the numbers of a parameter from place `count` on; only count them where `to` is null."""
    if ptr[py.RawObject](value).type is tape.tuple_type:
        for i in range(py.tuple_size(value)):
            count = take_numbers(py.tuple_item(value, i), to, count)
    elif ptr[py.RawObject](value).type is tape.int_type:
        if to is not None:
            py.inc(value)
            to[count] = value
        count += 1
    return count


@native
def take_numbers_of(e: ptr[Met], to: ptr[ptr], count: i64) -> i64:
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


@native
def without_freed() -> u64:
    """The entries of a history whose kinds have none yet for when it is given up, into `queue`: how many."""
    n = u64(0)
    for i in range(walk.count):
        e = walk.met[i]
        if e.flags & PAST == 0 or e.node.kind.released is tape.true or not is_plain_or_no_leaf(e.node):
            continue
        if e.node.kind.freed is None or ptr(e.node.kind.freed) is tape.none:
            walk.queue[n] = u32(i)
            n += 1
    return n


@native
def described(d: ptr[Digest], f: ptr[Digest]) -> obj:
    """[hash without numbers, numbers, [key, nodes in canonical order, nodes without a kind when given up, states]]."""
    count = i64(0)
    for i in range(d.count):
        count = take_numbers_of(walk.met[walk.order[i]], None, count)
    nearby = local(ptr, py.FEW)
    held = py.room(nearby, py.FEW, count)
    if held is None:
        return py.failed()
    count = 0
    for i in range(d.count):
        count = take_numbers_of(walk.met[walk.order[i]], held, count)
    key = key_object(d)
    family = key_object(f)
    # Other Python may run amid this: nothing of the walk is read afterwards.
    found = list_of_found(walk.queue, without_freed(), key, d.count)
    whole = py.list_of_three(family, py.tuple_of(held, count), found)
    py.leave(held, nearby)
    return py.object_of(whole)


@native
def family_of(
    purpose: u64, small: borrowed, results: borrowed, seeds: borrowed, also: borrowed, targets: borrowed, tracks: bool,
    held: u32,
) -> obj:
    """[hash without numbers, the numbers, what `key_of` gives] of an ask; None where no plan is for any size.

    small    as `ask` has it;  the rest as `key_of`
    """
    d = local(Digest, 1)[0]
    walk.held = held
    if not walked(d, purpose, None, ptr(small), ptr(results), ptr(seeds), ptr(also), ptr(targets), tracks):
        return borrowed(tape.none)
    if walk.n_calls > 0:
        return borrowed(tape.none)
    f = local(Digest, 1)[0]
    copy(f, d)
    f.low = 0x452821E638D01377
    f.high = 0xBE5466CF34E90C6C
    if not mix_families(f):
        return borrowed(tape.none)
    mix_asked(f, purpose, ptr(results), ptr(seeds), ptr(targets))
    return described(d, f)
