"""Answer an ask from the table of plans.  The key of an ask is a hash of its recording and of the nodes asked for.

    walk_and_hash(...)     walk over the recording for an ask, and compute its hash
    ask(...)               look the key up; if an answer is known, run its plan (`recording_run`)
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import held, i64, local, moved, native, own, ptr, row, u32, u64, void
from . import recording_objects as py
from .recording_entries import IN_HISTORY, READ, begin, entry_of, nodes_of, walk
from .recording_hash import Digest, known_identity, mix, order_and_hash, start
from .recording_run import AnswerBlock, run
from .recording_structs import (
    NODES,
    SOME,
    TENSORS,
    VALUE,
    RawHandle,
    RawNode,
    RawRecording,
    RawRich,
    is_plain_or_no_leaf,
    new_none,
    tape,
)
from .recording_walk import gather, root, roots


@native(inline=True)
def place_plus_one(n: ptr) -> u64:
    """A node's place in canonical order plus one; 0 for a node without a place, and for None."""
    if n is tape.none:
        return 0
    e = entry_of(ptr[RawNode](n))
    return u64(i64(e.place) + 1) if e is not None else u64(0)


@native(inline=False)
def mix_asked(d: ptr[Digest], purpose: u64, results: ptr, seeds: ptr, targets: ptr) -> void:
    """Add the places of the results, seeds and targets of an ask, and its purpose, to the hash."""
    if purpose != VALUE:
        for i in range(py.tuple_size(results)):
            mix(d, place_plus_one(py.tuple_item(results, i)), place_plus_one(py.tuple_item(seeds, i)))
    for i in range(py.tuple_size(targets)):
        n = ptr[RawNode](py.tuple_item(targets, i))
        version = i64(-1)
        if purpose != NODES and not is_plain_or_no_leaf(n):
            version = known_identity(ptr[RawRich](n).leaf)
        mix(d, place_plus_one(n), u64(version + 1))
    hashed = purpose if purpose != SOME else u64(TENSORS)
    mix(d, d.count, hashed | u64(py.tuple_size(targets)) << 8)


@native(inline=False)
def walk_and_hash(
    d: ptr[Digest], purpose: u64, now: ptr, results: ptr, seeds: ptr, also: ptr, targets: ptr, tracks: bool
) -> bool:
    """Walk over the nodes that an ask needs, and hash them.  False if no key covers the ask: hooks, or no memory.

    now       the recording that ends with the ask, whose small results are computed too, or None
    results, seeds, also, targets    tuples of nodes; a seed may be None
    """
    start(d, 0x243F6A8885A308D3, 0x13198A2E03707344)
    begin()
    roots(results, u32(IN_HISTORY) if purpose != VALUE else u32(0))
    roots(seeds, READ)
    roots(also, 0)
    small = None if now is tape.none else ptr[RawRecording](now).small
    for i in range(py.list_size(small) if small is not None else i64(0)):
        handle = py.referent(py.list_item(small, i))
        if handle is not tape.none and py.is_subtype(ptr[py.RawObject](handle).type, tape.handle_type) != 0:
            n = ptr[RawHandle](handle).node
            if n.value is tape.none:
                root(n, 0)
    gather()
    if walk.is_full or (walk.is_hooked and purpose != VALUE):
        return False
    order_and_hash(d, tracks)
    mix_asked(d, purpose, results, seeds, targets)
    return True


# ------------------------------------------------------------------ keys as objects


@native
def key_object(d: ptr[Digest]) -> own:
    """The hash as bytes, a new reference; null with an exception."""
    return py.new_bytes(d, 16)


# ------------------------------------------------------------------ answers to known asks


@native
def look_up(key: ptr) -> ptr:
    """The answer in the table of plans for a key; null if there is none, or if its plan is no longer valid."""
    entry = py.dict_item(tape.plans.entries, key)
    if entry is None:
        return None
    answer = py.list_item(entry, 0)
    if ptr[py.RawObject](answer).type is not tape.answer_type:
        return None
    if py.list_item(entry, 1) is not tape.plans.clock:  # make the entry the latest used one
        clock: own = py.int_of(py.int_value(tape.plans.clock) + 1)
        if clock is None:
            py.clear_error()  # no memory for the new clock: the entry keeps its old rank
        else:
            py.set_list(entry, 1, held(clock))
            tape.plans.clock = moved(clock)
    return answer if ptr[AnswerBlock](py.bytes_at(answer)[0]).valid[0] is tape.true else ptr(None)


@native
def ask(
    purpose: u64, now: ptr, results: ptr, seeds: ptr, also: ptr, targets: ptr,
    tracks: bool, is_released: bool, given: ptr,
) -> own:
    """Answer an ask if a plan for it is known.

    now      the recording that ends with the ask, or None
    given    None; or the tuple that Python has looked up: answer, hash, executable, inputs computed from calls (`run`)

    Returns True when values or `.grad` were stored; [results of the plan, answer] when gradients were asked for; a list
    of leaves and nodes whose hooks are due; [hash, calls] if the key also needs the keys of custom calls; else None.
    """
    d = local(Digest, 1)[0]
    walk.held = 0
    if not walk_and_hash(d, purpose, now, results, seeds, also, targets, tracks):
        return new_none()
    if given is not tape.none:
        expected = py.bytes_at(py.tuple_item(given, 1))
        answer = py.tuple_item(given, 0)
        a = ptr[AnswerBlock](py.bytes_at(answer)[0])
        if expected[0] != d.low or expected[1] != d.high or a.valid[0] is not tape.true:
            return new_none()
        executable = py.tuple_item(given, 2)
        if executable is tape.none:
            executable = None
        return run(answer, executable, py.tuple_item(given, 3), d, purpose, now, is_released)
    key: own = key_object(d)
    if key is None:
        return None
    if walk.n_calls > 0:
        return py.list_of(row(key, nodes_of(walk.calls, walk.n_calls)), 2)
    known = look_up(key)
    if known is None:
        return new_none()
    return run(known, None, None, d, purpose, now, is_released)
