"""Run a plan on the recording that was walked over, and store its results.

    run(answer, ...)       gather inputs, call the plan, give nodes their values and leaves their gradients

An answer is a block of words that says where a plan's inputs come from and where its results go, by places in canonical
order.  A plan may run any Python, so `run` holds references to all nodes that it writes to afterwards.

A node gets its value before it drops its inputs, and a released history is marked before its nodes drop theirs.  The
`.grad` of leaves are compared and exchanged under the commit lock: all of them, or none.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, extern, held, i64, local, moved, native, own, ptr, row, u32, u64, void
from . import recording_objects as py
from .recorder_arrays import OWN_MEMORY, PACKED, WRITEABLE, size_of
from .recorder_nodes import new_leaf
from .recording_entries import IN_HISTORY, walk
from .recording_hash import Digest
from .recording_interpret import BYTES, DATA, FUNCTION, Loop, loop_of
from .recording_structs import (
    ASKED,
    BACKWARD,
    FLOAT_ASKS,
    HITS,
    RUNS,
    TENSORS,
    VALUE,
    RawLeaf,
    RawNode,
    RawRecording,
    RawRich,
    drop_inputs,
    is_filled,
    is_plain_or_no_leaf,
    new_none,
    old_of,
    tape,
    word_of,
)

release = extern("PyObject_VectorcallMethod", own, ptr, ptr[ptr], u64, ptr)  # for a held lock: cannot fail

#: The number of words per group, a leaf with its gradients, while a plan runs: see `new_gradients`.
PER_LEAF = 4
GRAD = word_of(RawLeaf, "grad")


class AnswerBlock(Struct):
    """The places that a plan's inputs come from, and that its results go to.

    valid, executable    the addresses of these two slots of the plan
    argument_table   per input: (place, 0), (-1, object) or (-2, number of a computed input)
    stored_table     per node: place, position among the results, 1 if the node drops its inputs
    group_table      per group: place of its leaf, position of its gradient among the results or -1
    is_whole    1 if all targets are reached
    releases, release_table    the number of nodes to release, and their places; -1: all nodes of the history
    """

    valid: ptr[ptr]
    executable: ptr[ptr]
    arguments: i64
    argument_table: ptr[i64]
    stored: i64
    stored_table: ptr[i64]
    groups: i64
    group_table: ptr[i64]
    releases: i64
    release_table: ptr[i64]
    is_whole: i64


# ------------------------------------------------------------------ storing results


@native
def settle(n: ptr[RawNode], results: ptr, word: ptr[i64]) -> void:
    """Give a pending node its value, unless another thread has done so meanwhile.

    word    three words: its place, the position of its value among the results, 1 if the node drops its inputs
    """
    if n.value is tape.none:
        n.value = held(py.tuple_item(results, word[1]))
        if word[2] != 0:
            drop_inputs(n)


@native
def release_history(nodes: ptr[ptr], count: i64) -> void:
    """Mark the nodes of a history as released; nodes that have a value drop their inputs."""
    for i in range(count):
        n = ptr[RawNode](nodes[i])
        kind = n.kind
        if kind.released_kind is None or kind.released_kind is tape.none:
            continue  # another thread has released it meanwhile
        n.kind = held(kind.released_kind)
    for i in range(count):
        n = ptr[RawNode](nodes[i])
        if n.value is not tape.none:
            drop_inputs(n)


@native
def add_in_place(old: ptr[RawNode], value: ptr) -> bool:
    """Add the old gradient of a leaf to the array of the new one, in place, by a NumPy loop, if nothing else holds it.

    False if no loop fits, or the old gradient is pending.
    """
    a = ptr[py.RawArray](old.value)
    b = ptr[py.RawArray](value)
    if py.class_of(old.value) is not tape.array_type or py.class_of(value) is not tape.array_type:
        return False
    own = u32(OWN_MEMORY | WRITEABLE)
    if b.head.references > 1 or b.flags & own != own or a.flags & PACKED != PACKED or size_of(a) != size_of(b):
        return False
    words = loop_of(py.bytes_at(tape.add_loops), row(a.descr, b.descr), 2)
    if words is None or ptr(words[2]) is not b.descr:
        return False
    count = local(i64, 1)
    count[0] = size_of(b)
    at = row(a.data, b.data, b.data)
    Loop(ptr(words[FUNCTION]))(at, count, ptr[i64](words + BYTES), ptr(words[DATA]))
    return True


@native
def new_gradients(groups: ptr[own], count: i64, table: ptr[i64], results: ptr) -> bool:
    """Make the new gradients of leaves, old ones added.  False with an exception.

    groups    per group: its leaf, room for the nodes of the old gradient and of the new one, and the leaf's node
    """
    for i in range(count):
        old = old_of(ptr[RawLeaf](groups[PER_LEAF * i]))
        groups[PER_LEAF * i + 1] = held(old)
        position = table[2 * i + 1]
        if position >= 0:
            value = py.tuple_item(results, position)
            if old is None or add_in_place(old, value):
                groups[PER_LEAF * i + 2] = new_leaf(ptr[RawNode](groups[PER_LEAF * i + 3]).kind.out.gradient, value)
            else:
                groups[PER_LEAF * i + 2] = py.call_two(tape.accumulated, old, value)
            if groups[PER_LEAF * i + 2] is None:
                return False
    return True


@native
def commit(groups: ptr[own], count: i64, to_release: ptr[ptr], n_releases: i64) -> i64:
    """Give leaves their new gradients: all, or none if another thread has released the history meanwhile.

    1: done, 0: a `.grad` or the history has changed meanwhile, -1: an exception.
    """
    acquired: own = py.call_method(tape.acquire_name, row(tape.lock), 1, None)
    if acquired is None:
        return -1
    found = i64(1)
    for i in range(n_releases):
        if ptr[RawNode](to_release[i]).kind.released is tape.true:
            found = 0
    # Until the last exchange nothing is allocated or freed, so no Python runs that could see only some gradients.
    for i in range(count):
        leaf = ptr[RawLeaf](groups[PER_LEAF * i])
        if groups[PER_LEAF * i + 2] is not None and old_of(leaf) is not groups[PER_LEAF * i + 1]:
            found = 0
    if found == 1:
        for i in range(count):
            if groups[PER_LEAF * i + 2] is not None:
                leaf = ptr[RawLeaf](groups[PER_LEAF * i])
                replaced = ptr[ptr](leaf)[GRAD]
                ptr[ptr](leaf)[GRAD] = groups[PER_LEAF * i + 2]
                ptr[ptr](groups)[PER_LEAF * i + 2] = replaced
    _released: own = release(tape.release_name, row(tape.lock), 1, None)
    return found


@native
def count_up(place: ptr, more: i64) -> bool:
    """Add to an attribute that is an int.  False with an exception."""
    made: own = py.int_of(py.int_value(ptr[own](place)[0]) + more)
    if made is None:
        return False
    ptr[own](place)[0] = moved(made)
    return True


@native
def begin_recording(now: ptr[RawRecording], purpose: u64) -> bool:
    """Begin another recording, with an empty list of small results.  False with an exception."""
    words = ptr[ptr](now)
    small: own = py.new_list(0)
    start: own = py.next_of(tape.counter)
    if small is None or start is None:
        return False
    look_at: own = py.int_of(py.int_value(start) + py.int_value(tape.pending_limit))
    if look_at is None or not count_up(words + ASKED, 1) or (purpose != VALUE and not count_up(words + FLOAT_ASKS, 1)):
        return False
    now.small = moved(small)
    now.limit = held(tape.first_limit)
    now.look_at = moved(look_at)
    if purpose != VALUE:
        now.began = held(start)
    now.start = moved(start)
    return True


# ------------------------------------------------------------------ running a plan


@native(inline=False)
def run(known: ptr, executable: ptr, computed: ptr, d: ptr[Digest], purpose: u64, now: ptr, is_released: bool) -> own:
    """Run the plan on the recording that was walked over, store its results, and return the result of `ask`.

    known       the answer
    executable  the executable to run; null: the plan's own
    computed    a tuple of the inputs that are computed from the numbers of calls; null without calls

    `outcome`: 1 all results are stored;  0 Python has to answer the ask (an index is out of bounds, a matrix is
    singular, a `.grad` or the history has changed);  -1 an exception.
    """
    a = ptr[AnswerBlock](py.bytes_at(known)[0])
    if purpose == TENSORS and a.is_whole == 0:
        return new_none()  # Python refuses the ask: a target is not reached
    answer: own = held(known)  # while the plan runs, another thread may drop the answer from the table
    n_releases = (a.releases if a.releases >= 0 else i64(d.count)) if is_released else i64(0)
    total = a.stored + PER_LEAF * a.groups + n_releases
    nearby = local(ptr, py.FEW)
    memory = py.room(nearby, py.FEW, total)
    if memory is None:
        return None
    values = local(own, a.arguments + 1)
    values[0] = held(a.executable[0] if executable is None else executable)
    for i in range(a.arguments):
        which = a.argument_table[2 * i]
        value = ptr(a.argument_table[2 * i + 1])
        if which >= 0:
            value = walk.met[walk.order[which]].node.value
        elif which == -2:
            value = py.tuple_item(computed, a.argument_table[2 * i + 1])
        values[i + 1] = held(value)
    for i in range(a.stored):
        memory[i] = held(walk.met[walk.order[a.stored_table[3 * i]]].node)
    groups = memory + a.stored
    due = i64(0)
    for i in range(a.groups):
        node = walk.met[walk.order[a.group_table[2 * i]]].node
        leaf = ptr[RawRich](node).leaf
        due += i64(is_filled(leaf.after))
        groups[PER_LEAF * i] = held(leaf)
        groups[PER_LEAF * i + 3] = held(node)
    to_release = ptr[ptr](groups + PER_LEAF * a.groups)
    k = i64(0)
    for i in range(n_releases):
        e = walk.met[walk.order[a.release_table[i] if a.releases >= 0 else i64(i)]]
        if e.flags & IN_HISTORY != 0 and is_plain_or_no_leaf(e.node):
            ptr[own](to_release)[k] = held(e.node)
            k += 1
    n_releases = k
    # From here on other Python may run and begin another walk: nothing of this one is read.
    results: own = py.call_method(tape.call_name, ptr[ptr](values), u64(a.arguments + 1), None)
    outcome = i64(-1)
    given: own = ptr(None)
    if results is not None:
        for i in range(a.stored):
            settle(ptr[RawNode](memory[i]), results, a.stored_table + 3 * i)
        # All allocations come before the gradients change, so that none can fail between two of them.
        given = result_of_ask(purpose, answer, results, groups, a.groups if due > 0 else i64(0))
        is_good = given is not None and new_gradients(groups, a.groups, a.group_table, results)
        if is_good and (now is tape.none or begin_recording(now, purpose)):
            outcome = commit(groups, a.groups, to_release, n_releases) if a.groups + n_releases > 0 else i64(1)
        if outcome == 1:
            release_history(to_release, n_releases)
            counts = ptr[ptr](tape.counts)
            if not count_up(counts + HITS, 1) or not count_up(counts + RUNS, 1):
                py.clear_error()  # the counts are only shown
    elif py.matches(tape.run_errors) != 0:
        py.clear_error()  # Python answers the ask, meets the error again, and names the user's line
        outcome = 0
    py.free_room(memory, a.stored + PER_LEAF * a.groups + n_releases, nearby)
    if outcome == 1:
        return given
    return new_none() if outcome == 0 else None


@native(inline=False)
def result_of_ask(purpose: u64, answer: ptr, results: ptr, groups: ptr[own], due: i64) -> own:
    """The result of an answered ask, a new reference; null with an exception.

    due    the number of groups if at least one leaf has hooks that are due, else 0
    """
    if due == 0:
        if purpose > BACKWARD:
            return py.list_of(row(held(results), held(answer)), 2)
        return held(tape.true)
    found: own = py.new_list(0)
    for i in range(due if found is not None else i64(0)):
        is_due = is_filled(ptr[RawLeaf](groups[PER_LEAF * i]).after)
        if is_due and (py.append(found, groups[PER_LEAF * i]) != 0 or py.append(found, groups[PER_LEAF * i + 3]) != 0):
            return None
    return found
