"""The backward pass over plain operations whose rules are programs, in native Python: `autodiff.transforms.reverse`.

    opened(order, flags)       note through which nodes of a history gradients reach the targets
    go_back(order, ...)        go through nodes by falling number, as far as Python is not needed

The state of a pass is Python's, by place in the history: its nodes, a list of their cotangents, bytes of flags.  So
Python goes on at any node, and machine code behind it.  A node keeps its place in `mark`; the list names the node, so
a mark that something else has left is none, and all are marked anew.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, extern, i64, likely, local, native, obj, ptr, u8, u64
from .recording_objects import (
    FEW,
    append,
    bytes_at,
    call,
    dec,
    dict_item,
    failed,
    inc,
    int_of,
    leave,
    let_go,
    list_item,
    list_size,
    object_of,
    room,
    set_list,
    tuple_of,
)
from .recording_program import StepsBlock, new_step, put_down
from .recording_run import count_up
from .recording_structs import RULES, RawNode, RawObject, RawRich, count_of, flow_of, input_at, is_filled, tape

__all__ = ["CALL", "MASKED", "OPEN", "TARGET", "ZERO", "go_back", "opened"]

#: Of a node: gradients reach a target through it; its cotangent is masked; it gets nothing but the zeros of step
#: functions; it is a target; it is a call, of which outputs have cotangents.
OPEN, MASKED, ZERO, TARGET, CALL = 1, 2, 4, 8, 16


bytes_of_array = extern("PyByteArray_AsString", ptr[u8], ptr, runs_python=False)


@native
def mark_all(order: ptr) -> i64:
    """Have each node of a list say its place: how many there are."""
    count = list_size(order)
    for i in range(count):
        ptr[RawNode](list_item(order, i)).mark = u64(i)
    return count


@native(inline=True)
def place_in(order: ptr, q: ptr[RawNode]) -> i64:
    """The place of a node that tracks in its history; -1 for one that is not there."""
    if q.kind.tracks is not tape.true:
        return -1
    at = i64(q.mark)
    count = list_size(order)
    if likely(at < count and list_item(order, at) is ptr(q)):
        return at
    mark_all(order)
    at = i64(q.mark)
    return at if at < count and list_item(order, at) is ptr(q) else i64(-1)


@native
def opened(order: borrowed, flags: borrowed) -> i64:
    """Note which nodes are open: targets, and all that lead to one."""
    nodes = ptr(order)
    said = bytes_of_array(ptr(flags))
    count = mark_all(nodes)
    ends = local(i64, 3)
    for i in range(count):
        n = ptr[RawNode](list_item(nodes, i))
        flow_of(n, count_of(n), ends)
        found = said[i] & (TARGET | OPEN) != 0
        for k in range(ends[0], ends[1] if ends[1] < count_of(n) else count_of(n)):
            at = i64(input_at(n, k).mark)
            if at < i and list_item(nodes, at) is ptr(input_at(n, k)):
                found = found or said[at] & OPEN != 0
        if found:
            said[i] |= OPEN
    return count


@native
def held_tuple(objects: ptr[ptr], count: i64) -> ptr:
    """A tuple that holds objects, a new reference; null with an exception."""
    for i in range(count):
        inc(objects[i])
    return tuple_of(objects, count)


@native
def pull_of(n: ptr[RawNode], bar: ptr[RawNode], tracks: ptr) -> ptr:
    """The program of a node's rule (`recording_asks.NativeSteps`); null for none, and with an exception."""
    rules = n.kind.rules
    if rules is None or rules is tape.none:
        return None
    parts = local(ptr, 3)
    parts[0] = ptr(bar.kind.out)
    parts[1] = tape.false
    parts[2] = tracks
    key = held_tuple(parts, 3)
    if key is None:
        return None
    found = dict_item(rules, key)
    dec(key)
    if found is None or ptr[RawObject](found).type is not tape.steps_type:
        return None
    return found


@native
def sum_of(old: ptr[RawNode], new: ptr[RawNode], memo: ptr, added: ptr) -> ptr:
    """A node for the sum of two cotangents, a new reference; null with an exception."""
    both = local(ptr, 2)
    both[0] = ptr(old.kind.out)
    both[1] = ptr(new.kind.out)
    both[0] = held_tuple(both, 2)
    both[1] = tape.empty
    outs = both[0]
    key = held_tuple(both, 2) if outs is not None else ptr(None)
    dec(outs)
    if key is None:
        return None
    kind = dict_item(memo, key)
    dec(key)
    both[0] = ptr(old)
    both[1] = ptr(new)
    if kind is None:
        return call(added, both, 2, None)
    step = local(i64, 5)
    step[0] = i64(u64(kind))
    step[1] = i64(u64(tape.none))
    step[2] = 2
    step[3] = 0
    step[4] = 1
    return new_step(step, both)


@native
def give(order: ptr, bars: ptr, said: ptr[u8], q: ptr[RawNode], new: ptr, masks: bool, memo: ptr, added: ptr) -> bool:
    """Add to the cotangent of an input.  False with an exception."""
    at = place_in(order, q)
    if at < 0 or said[at] & OPEN == 0:
        return True
    old = list_item(bars, at)
    if old is tape.none:
        inc(new)
        set_list(bars, at, new)
        if masks:
            said[at] |= MASKED
        return True
    total = sum_of(ptr[RawNode](old), ptr[RawNode](new), memo, added)
    if total is None:
        return False
    set_list(bars, at, total)
    if not masks:
        said[at] &= ~u8(MASKED)
    return True


@native
def go_through(
    order: ptr, bars: ptr, said: ptr[u8], n: ptr[RawNode], bar: ptr[RawNode], p: ptr[StepsBlock], memo: ptr, added: ptr
) -> bool:
    """Put down what a rule records, and give cotangents to inputs.  False with an exception."""
    total = p.given + p.steps
    nearby = local(ptr, FEW)
    nodes = room(nearby, FEW, total)
    if nodes is None:
        return False
    nodes[0] = ptr(bar)
    nodes[1] = ptr(n)
    for k in range(p.given - 2):
        nodes[2 + k] = ptr(input_at(n, k))
    for k in range(p.given):
        inc(nodes[k])
    # Objects are made from here on, which may run any Python: all that is used is held.
    made = put_down(p, nodes)
    is_right = made == total
    for k in range(p.results if is_right else i64(0)):
        place = p.result_table[k]
        if place >= 0 and not give(
            order, bars, said, ptr[RawNode](nodes[2 + k]), nodes[place], p.masks != 0, memo, added
        ):
            is_right = False
            break
    for k in range(p.results if is_right and p.has_zeros != 0 else i64(0)):
        place = place_in(order, ptr[RawNode](nodes[2 + k]))
        if place >= 0 and said[place] & OPEN != 0:
            said[place] |= ZERO
    let_go(nodes, made)
    leave(nodes, nearby)
    return is_right


@native
def leads_on(order: ptr, said: ptr[u8], n: ptr[RawNode]) -> bool:
    """True if gradients reach a target through an input of a plain node."""
    for k in range(count_of(n)):
        at = place_in(order, input_at(n, k))
        if at >= 0 and said[at] & OPEN != 0:
            return True
    return False


@native
def go_back(
    order: borrowed, bars: borrowed, flags: borrowed, first: i64, tracks: borrowed, used: borrowed, stamp: u64,
    memo: borrowed, added: borrowed,
) -> obj:
    """The first place, from one downwards, at which Python has to go on; -1 at the end.

    tracks   whether what is recorded tracks gradients
    used     a list of the programs that were used: it grows;  stamp: a number of this pass
    memo     kinds of sums;  added: added(old, new) records one whose kind is not there
    """
    nodes = ptr(order)
    kept = ptr(bars)
    said = bytes_of_array(ptr(flags))
    rules = i64(0)
    is_right = True
    i = first
    while i >= 0:
        n = ptr[RawNode](list_item(nodes, i))
        bar = ptr[RawNode](list_item(kept, i))
        is_plain = n.type is tape.plain_type
        if said[i] & CALL != 0:
            break
        if ptr(bar) is tape.none:
            if said[i] & ZERO != 0:
                if not is_plain:
                    break
                for k in range(count_of(n)):
                    at = place_in(nodes, input_at(n, k))
                    if at >= 0 and said[at] & OPEN != 0:
                        said[at] |= ZERO
            i -= 1
            continue
        if not is_plain:
            r = ptr[RawRich](n)
            if ptr(r.leaf) is tape.none or is_filled(r.hooks):
                break
            i -= 1  # a leaf keeps its cotangent
            continue
        is_target = said[i] & TARGET != 0
        if is_target and not leads_on(nodes, said, n):
            i -= 1
            continue
        if said[i] & MASKED != 0 or n.kind.released is tape.true:
            break
        found = pull_of(n, bar, ptr(tracks))
        if found is None:
            break
        p = ptr[StepsBlock](bytes_at(found)[0])
        if p.given != 2 + count_of(n):
            break
        if p.stamp != stamp:
            p.stamp = stamp
            if append(ptr(used), found) != 0:
                is_right = False
                break
        rules += 1
        inc(found)
        is_right = go_through(nodes, kept, said, n, bar, p, ptr(memo), ptr(added))
        dec(found)
        if not is_right:
            break
        if not is_target:
            inc(tape.none)
            set_list(kept, i, tape.none)
        i -= 1
    count_up(ptr[ptr](tape.counts) + RULES, rules)
    if not is_right:
        return failed()
    return object_of(int_of(i))
