"""Gradients of a recording in one call, in native Python: its history, what it leads to, and the pass through it.

    pulled(...)        the cotangents of targets; None where Python has to look
    pushed(...)        the tangents of results; None where Python has to look

Nothing is left behind where Python has to look: it begins anew (`recording_reverse`, `recording_rules`).
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, extern, i32, i64, likely, local, native, obj, ptr, u64
from . import recording_objects as py
from .recording_reverse import TARGET, ZERO, BackwardPass, count_rules, give, go_on, open_all, take_up
from .recording_rules import FIXED, TRACKS, begin_pass, is_simple, push_on
from .recording_structs import RawNode, RawRich, is_filled, tape
from .recording_walk import history_list

__all__ = ["OUTSIDE", "RECORDED", "VERSIONS", "pulled", "pushed"]

#: The bits of an ask: gradients track, or where something leads to another than the targets, they do; all versions of a
#: leaf that is a target are meant.
RECORDED, OUTSIDE, VERSIONS = 1, 2, 4
#: The most leaves of a history of which machine code finds out that they are different ones.
MOST_LEAVES = 256


append = extern("PyList_Append", i32, borrowed, ptr, fails=True)
as_tuple = extern("PyList_AsTuple", obj, borrowed, fails=True)
joined = extern("PySequence_Concat", obj, borrowed, borrowed, fails=True)


@native
def leaves_of(order: borrowed) -> obj:
    """The leaves of a history, a tuple; None where a gradient is retained, or two are versions of one leaf."""
    leaves = py.object_of(py.new_list(0))
    for i in range(py.list_size(ptr(order))):
        n = ptr[RawRich](py.list_item(ptr(order), i))
        if likely(n.type is tape.plain_type):
            continue
        if n.retained is not tape.none or py.list_size(ptr(leaves)) > MOST_LEAVES:
            return borrowed(tape.none)
        if ptr(n.leaf) is not tape.none:
            for k in range(py.list_size(ptr(leaves))):
                if ptr[RawRich](py.list_item(ptr(leaves), k)).leaf is n.leaf:
                    return borrowed(tape.none)
            append(leaves, ptr(n))
    return as_tuple(leaves)


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


@native(inline=True)
def place_at(made: borrowed, i: i64) -> i64:
    """The place of a node that was asked for when a pass began."""
    return py.int_value(py.list_item(ptr(made), FIXED + i))


@native
def begun_with(p: ptr[BackwardPass], order: borrowed, made: borrowed, first: i64, targets: borrowed, asked: u64) -> i64:
    """Take up a pass, whose targets stand from `first` on: 1 if it tracks, 0 if not, -1 where Python has to look."""
    wires = py.list_item(ptr(made), 0)
    bars = py.list_item(ptr(made), 1)
    take_up(p, ptr(order), bars, py.list_item(ptr(made), 2), wires, tape.none, tape.none, tape.none)
    for i in range(py.tuple_size(ptr(targets))):
        at = place_at(made, first + i)
        if at >= 0:
            p.said[at] |= TARGET
    outside = leads_outside(p, ptr(targets), asked & VERSIONS != 0)
    if outside < 0:
        return -1
    return i64(asked & RECORDED != 0 or (asked & OUTSIDE != 0 and outside != 0))


@native
def found_in(p: ptr[BackwardPass], made: borrowed, first: i64, count: i64, tracks: bool, leaves: borrowed) -> obj:
    """A tuple: true if gradients track, leaves if they were asked for, and the cotangents of nodes, by their places.

    The cotangent is None for a node that is not reached, False for zeros.
    """
    before = 1 + py.tuple_size(ptr(leaves))
    found = py.object_of(py.new_tuple(before + count))
    for i in range(before + count):
        thing = tape.true if tracks else tape.false
        if i >= before:
            at = place_at(made, first + i - before)
            thing = py.list_item(p.bars, at) if at >= 0 else tape.none
            if at >= 0 and thing is tape.none and p.said[at] & ZERO != 0:
                thing = tape.false
        elif i > 0:
            thing = py.tuple_item(ptr(leaves), i - 1)
        py.inc(thing)
        py.set_tuple(ptr(found), i, thing)
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
    order = py.object_of(history_list(ptr(results), 0))
    leaves: obj = borrowed(tape.empty)
    ends: obj = targets
    if ptr(targets) is tape.none and ptr(order) is not tape.none:
        leaves = leaves_of(order)
        ends = leaves
    if ptr(order) is tape.none or ptr(ends) is tape.none:
        return borrowed(tape.none)
    n_results = py.tuple_size(ptr(results))
    asked_for = joined(results, ends)
    made = begin_pass(order, asked_for)
    p = local(BackwardPass, 1)[0]
    tracks = begun_with(p, order, made, n_results, ends, asked)
    if tracks < 0:
        return borrowed(tape.none)
    p.memo = py.tuple_item(ptr(sums), tracks)
    open_all(p)
    is_right = True
    for i in range(n_results):
        is_right = is_right and give(p, place_at(made, i), py.tuple_item(ptr(bars), i), False)
    at = i64(-2)
    if is_right:
        at = go_on(p, py.list_size(ptr(order)) - 1, word | u64(tracks) * TRACKS, ptr(used), stamp)
    py.dec(p.kind)
    if at >= 0 or (at == -2 and p.is_stuck):
        return borrowed(tape.none)
    if at == -2 or not count_rules(p):
        return py.failed()
    return found_in(p, made, n_results, py.tuple_size(ptr(ends)), tracks != 0, leaves)


@native
def pushed(
    results: borrowed, sources: borrowed, dots: borrowed, asked: u64, word: u64, used: borrowed, stamp: u64
) -> obj:
    """A tuple: true if tangents track, and the tangents of results, None for one that depends on nothing.

    None where Python has to look.

    dots    the tangents of sources;  asked: see `RECORDED`, the sources being targets
    word    of rules, without the bit that they track;  used, stamp: see `pulled`
    """
    order = py.object_of(history_list(ptr(results), 0))
    if ptr(order) is tape.none:
        return borrowed(tape.none)
    asked_for = joined(sources, results)
    made = begin_pass(order, asked_for)
    p = local(BackwardPass, 1)[0]
    tracks = begun_with(p, order, made, 0, sources, asked & ~u64(VERSIONS))
    if tracks < 0:
        return borrowed(tape.none)
    n_sources = py.tuple_size(ptr(sources))
    for i in range(n_sources):
        at = place_at(made, i)
        if at >= 0:
            dot = py.tuple_item(ptr(dots), i)
            py.inc(dot)
            py.set_list(p.bars, at, dot)
    flags = py.list_item(ptr(made), 2)
    wires = py.list_item(ptr(made), 0)
    at = push_on(ptr(order), p.bars, flags, wires, 0, word | u64(tracks) * TRACKS, ptr(used), stamp)
    if at < 0:
        return py.failed()
    if at < py.list_size(ptr(order)):
        return borrowed(tape.none)
    return found_in(p, made, n_sources, py.tuple_size(ptr(results)), tracks != 0, borrowed(tape.empty))
