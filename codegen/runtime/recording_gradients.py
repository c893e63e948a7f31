"""Gradients of a recording in one call, in native Python: its history, what it leads to, and the pass through it.

    pulled(...)        the cotangents of targets; None where Python has to look
    pushed(...)        the tangents of results; None where Python has to look

Nothing is left behind where Python has to look: it begins anew (`recording_reverse`, `recording_rules`).
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, i64, likely, local, native, obj, ptr, u64
from . import recording_objects as py
from .recording_reverse import TARGET, ZERO, BackwardPass, count_rules, give, go_on, open_all, take_up
from .recording_rules import FIXED, TRACKS, begun, is_simple, push_on
from .recording_structs import RawNode, RawRich, is_filled, tape
from .recording_walk import history_list

__all__ = ["OUTSIDE", "RECORDED", "VERSIONS", "pulled", "pushed"]

#: The bits of an ask: gradients track, or where something leads to another than the targets, they do; all versions of a
#: leaf that is a target are meant.
RECORDED, OUTSIDE, VERSIONS = 1, 2, 4
#: The most leaves of a history of which machine code finds out that they are different ones.
MOST_LEAVES = 256


@native
def leaves_of(order: ptr) -> ptr:
    """A list of the leaves of a history, a new reference; null with an exception, None where Python has to look.

    It has to where a gradient is retained, or two are versions of one leaf.
    """
    leaves = py.new_list(0)
    is_clear = True
    for i in range(py.list_size(order) if leaves is not None else i64(0)):
        n = ptr[RawRich](py.list_item(order, i))
        if likely(n.type is tape.plain_type):
            continue
        if n.retained is not tape.none or py.list_size(leaves) > MOST_LEAVES:
            is_clear = False
        if ptr(n.leaf) is tape.none:
            continue
        for k in range(py.list_size(leaves)):
            is_clear = is_clear and ptr[RawRich](py.list_item(leaves, k)).leaf is not n.leaf
        if py.append(leaves, ptr(n)) != 0:
            py.dec(leaves)
            return None
    if leaves is None or is_clear:
        return leaves
    py.dec(leaves)
    py.inc(tape.none)
    return tape.none


@native
def leads_outside(p: ptr[BackwardPass], targets: ptr, are_versions: bool) -> i64:
    """1 if a history leads to another than its targets, else 0; -1 where Python has to look.

    It has to at a hook, a call, a node that was released, and another version of a leaf that is a target.
    """
    outside = i64(0)
    for i in range(py.list_size(p.order)):
        n = ptr[RawNode](py.list_item(p.order, i))
        if n.kind.released is tape.true:
            return -1
        reads = False
        for k in range(i64(p.wires[i]), i64(p.wires[i + 1])):
            reads = reads or p.wires[k] >= 0
        is_target = p.said[i] & TARGET != 0
        if not is_simple(n):
            r = ptr[RawRich](n)
            if ptr(r.leaf) is tape.none or is_filled(r.hooks) or (is_target and is_filled(r.leaf.hooks)):
                return -1
            for k in range(py.tuple_size(targets) if are_versions else i64(0)):
                t = ptr[RawRich](py.tuple_item(targets, k))
                if t is not r and t.type is not tape.plain_type and t.leaf is r.leaf:
                    return -1
            reads = False
        if reads == is_target:
            outside = 1
    return outside


@native
def found_in(p: ptr[BackwardPass], made: ptr, first: i64, count: i64, tracks: bool, leaves: ptr) -> ptr:
    """A tuple: true if gradients track, leaves if they were asked for, and the cotangents of targets, by their places.

    A new reference; null with an exception.  The cotangent is None for a target that is not reached, False for zeros.
    """
    before = 1 + (py.list_size(leaves) if leaves is not tape.none else i64(0))
    found = py.new_tuple(before + count)
    if found is None:
        return None
    said = tape.true if tracks else tape.false
    py.inc(said)
    py.set_tuple(found, 0, said)
    for i in range(1, before):
        leaf = py.list_item(leaves, i - 1)
        py.inc(leaf)
        py.set_tuple(found, i, leaf)
    for i in range(count):
        at = py.int_value(py.list_item(made, FIXED + first + i))
        bar = tape.none
        if at >= 0:
            bar = py.list_item(p.bars, at)
            if bar is tape.none and p.said[at] & ZERO != 0:
                bar = tape.false
        py.inc(bar)
        py.set_tuple(found, before + i, bar)
    return found


@native
def begun_at(order: ptr, first: ptr, behind: ptr, leaves: ptr) -> ptr:
    """`begun` with the places of nodes, and of those behind them: those of a tuple, or leaves where that is a list."""
    n_first = py.tuple_size(first)
    count = py.tuple_size(behind) if leaves is tape.none else py.list_size(leaves)
    ends = py.new_tuple(n_first + count)
    for i in range(n_first + count if ends is not None else i64(0)):
        end = tape.none
        if i < n_first:
            end = py.tuple_item(first, i)
        elif leaves is tape.none:
            end = py.tuple_item(behind, i - n_first)
        else:
            end = py.list_item(leaves, i - n_first)
        py.inc(end)
        py.set_tuple(ends, i, end)
    made = begun(order, ends) if ends is not None else ptr(None)
    py.dec(ends)
    return made


@native
def pulled_in(
    order: ptr, results: ptr, bars: ptr, targets: ptr, leaves: ptr, asked: u64, word: u64, sums: ptr, used: ptr,
    stamp: u64,
) -> ptr:
    """`pulled` of a history; a new reference, null with an exception."""
    n_results = py.tuple_size(results)
    count = py.tuple_size(targets) if leaves is tape.none else py.list_size(leaves)
    made = begun_at(order, results, targets, leaves)
    if made is None:
        return None
    p = local(BackwardPass, 1)[0]
    wires = py.list_item(made, 0)
    take_up(p, order, py.list_item(made, 1), py.list_item(made, 2), wires, tape.none, tape.none, tape.none)
    for i in range(n_results, n_results + count):
        at = py.int_value(py.list_item(made, FIXED + i))
        if at >= 0:
            p.said[at] |= TARGET
    outside = leads_outside(p, targets, asked & VERSIONS != 0)
    if outside < 0:
        py.dec(made)
        py.inc(tape.none)
        return tape.none
    tracks = asked & RECORDED != 0 or (asked & OUTSIDE != 0 and outside != 0)
    p.memo = py.tuple_item(sums, i64(tracks))
    open_all(p)
    is_right = True
    for i in range(n_results):
        at = py.int_value(py.list_item(made, FIXED + i))
        is_right = is_right and give(p, at, py.tuple_item(bars, i), False)
    at = i64(-2)
    if is_right:
        at = go_on(p, py.list_size(order) - 1, word | (u64(TRACKS) if tracks else u64(0)), used, stamp)
    py.dec(p.kind)
    found = ptr(None)
    if at == -1 and count_rules(p):
        found = found_in(p, made, n_results, count, tracks, leaves)
    elif at >= 0 or (at == -2 and p.is_stuck):
        found = tape.none
        py.inc(found)
    py.dec(made)
    return found


@native
def pulled(
    results: borrowed, bars: borrowed, targets: borrowed, asked: u64, word: u64, sums: borrowed, used: borrowed,
    stamp: u64,
) -> obj:
    """A tuple: true if gradients track, the leaves if no targets are given, and the cotangents of targets.

    None where Python has to look.  The cotangent is None for a target that is not reached, False for zeros.

    bars       of each result
    targets    a tuple; None: the leaves of the history
    asked      see `RECORDED`;  word: of rules, without the bit that they track
    sums       kinds of sums that do not track, and of those that do
    used       a list of the programs that were used: it grows;  stamp: a number of this pass
    """
    order = history_list(ptr(results), 0)
    if order is None or order is tape.none:
        return py.object_of(order)
    leaves = tape.none
    py.inc(leaves)
    if ptr(targets) is tape.none:
        py.dec(leaves)
        leaves = leaves_of(order)
    found = ptr(None)
    if leaves is tape.none and ptr(targets) is tape.none:
        found = tape.none
        py.inc(found)
    elif leaves is not None:
        found = pulled_in(
            order, ptr(results), ptr(bars), ptr(targets), leaves, asked, word, ptr(sums), ptr(used), stamp
        )
    py.dec(leaves)
    py.dec(order)
    return py.object_of(found)


@native
def pushed_in(order: ptr, results: ptr, sources: ptr, dots: ptr, asked: u64, word: u64, used: ptr, stamp: u64) -> ptr:
    """`pushed` of a history; a new reference, null with an exception."""
    n_sources = py.tuple_size(sources)
    count = py.tuple_size(results)
    made = begun_at(order, sources, results, tape.none)
    if made is None:
        return None
    p = local(BackwardPass, 1)[0]
    wires = py.list_item(made, 0)
    take_up(p, order, py.list_item(made, 1), py.list_item(made, 2), wires, tape.none, tape.none, tape.none)
    for i in range(n_sources):
        at = py.int_value(py.list_item(made, FIXED + i))
        if at >= 0:
            p.said[at] |= TARGET
            dot = py.tuple_item(dots, i)
            py.inc(dot)
            py.set_list(p.bars, at, dot)
    outside = leads_outside(p, sources, False)
    tracks = asked & RECORDED != 0 or (asked & OUTSIDE != 0 and outside != 0)
    at = i64(0)
    if outside >= 0:
        word |= u64(TRACKS) if tracks else u64(0)
        at = push_on(order, p.bars, py.list_item(made, 2), py.list_item(made, 0), 0, word, used, stamp)
    found = ptr(None)
    if outside >= 0 and at == py.list_size(order):
        found = found_in(p, made, n_sources, count, tracks, tape.none)
    elif at >= 0:
        found = tape.none
        py.inc(found)
    py.dec(made)
    return found


@native
def pushed(
    results: borrowed, sources: borrowed, dots: borrowed, asked: u64, word: u64, used: borrowed, stamp: u64
) -> obj:
    """A tuple: true if tangents track, and the tangents of results, None for one that depends on nothing.

    None where Python has to look.

    dots    the tangents of sources;  asked: see `RECORDED`, the sources being targets
    word    of rules, without the bit that they track;  used, stamp: see `pulled`
    """
    order = history_list(ptr(results), 0)
    if order is None or order is tape.none:
        return py.object_of(order)
    found = pushed_in(order, ptr(results), ptr(sources), ptr(dots), asked, word, ptr(used), stamp)
    py.dec(order)
    return py.object_of(found)
