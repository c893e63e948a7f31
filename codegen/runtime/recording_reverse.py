"""The backward pass over plain operations whose rules are programs, in native Python: `autodiff.transforms.reverse`.

    run_backward_pass(order, ...)    go through the history by falling number, up to the first node that needs Python

The state of a pass lives in Python objects, indexed by place in the history: nodes, their cotangents, bytes of flags,
wires (`recording_rules.new_pass`).  So Python can handle any one node, and machine code continues behind this node.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, held, i32, i64, local, native, own, ptr, row, u8, u64, void
from . import recording_objects as py
from .recorder_nodes import NodeWords, new_step
from .recording_program import StepsBlock
from .recording_rules import (
    LOOKS,
    MASKED_BIT,
    OPEN,
    TARGET,
    bytes_of_array,
    is_operation,
    is_simple,
    note_used,
    record_rule,
    rule_of,
)
from .recording_run import count_up
from .recording_structs import RULES, RawKind, RawNode, RawRich, count_of, is_filled, tape

#: Flags of a node, beside `OPEN` and `TARGET`: its cotangent is masked; only zeros of step functions reach the node;
#: the node is a custom call some of whose outputs have cotangents; the node's hooks have run.
MASKED, ZERO, CALL, RAN = 2, 4, 16, 32


class BackwardPass(Struct):
    """The state of a backward pass: nodes `order`, `cotangents`, `flags`, `wires`; count of `rules` applied.

    memo, added, hooked    see `run_backward_pass`
    """

    order: ptr
    cotangents: ptr
    flags: ptr[u8]
    wires: ptr[i32]
    memo: ptr
    added: ptr
    hooked: ptr
    rules: i64


@native
def sum_of(p: ptr[BackwardPass], old: ptr[RawNode], new: ptr[RawNode]) -> own:
    """A node for the sum of two cotangents, a new reference; null with an exception."""
    outs: own = py.tuple_of(row(held(old.kind.out), held(new.kind.out)), 2)
    key: own = py.tuple_of(row(held(outs), held(tape.empty)), 2)
    if key is None:
        return None
    kind: own = held(py.dict_item(p.memo, key))  # making an object may run any Python
    if kind is None:
        return py.call_two(p.added, old, new)
    step = local(NodeWords, 1)
    step.kind = ptr[RawKind](kind)
    step.value = tape.none
    step.count = 2
    step.inputs[0] = 0
    step.inputs[1] = 1
    return new_step(step, ptr[own[RawNode]](row(old, new)))


@native
def add_cotangent(p: ptr[BackwardPass], at: i64, new: ptr, masks: bool) -> bool:
    """Add to the cotangent of the node at a place (-1: none), if a target needs it.  False with an exception."""
    if at < 0 or p.flags[at] & OPEN == 0 or ptr[RawNode](py.list_item(p.order, at)).kind.tracks is not tape.true:
        return True
    old = py.list_item(p.cotangents, at)
    if old is tape.none:
        py.set_list(p.cotangents, at, held(new))
        if masks:
            p.flags[at] |= MASKED
        return True
    total: own = sum_of(p, ptr[RawNode](old), ptr[RawNode](new))
    if total is None:
        return False
    py.set_list(p.cotangents, at, total)
    if not masks:
        p.flags[at] &= ~u8(MASKED)
    return True


@native
def note_zero(p: ptr[BackwardPass], at: i64) -> void:
    """Note that the node at a place gets zeros, if gradients reach a target through this node."""
    if at >= 0 and p.flags[at] & OPEN != 0:
        p.flags[at] |= ZERO


@native
def pull_through(p: ptr[BackwardPass], i: i64, n: ptr[RawNode], bar: ptr[RawNode], rule: ptr[StepsBlock]) -> bool:
    """Record the nodes of a rule, and add its results to the cotangents of the inputs.  False with an exception."""
    inputs = p.wires + i64(p.wires[i])
    nearby = local(ptr, py.FEW)
    total = rule.given + rule.steps
    nodes = py.room(nearby, py.FEW, total)
    if nodes is None:
        return False
    nodes[0] = held(bar)
    is_right = record_rule(rule, n, nodes, 1)
    for k in range(rule.results if is_right else i64(0)):
        place = rule.result_table[k]
        if place >= 0 and not add_cotangent(p, i64(inputs[k]), nodes[place], rule.masks != 0):
            is_right = False
            break
    for k in range(rule.results if is_right and rule.has_zeros != 0 else i64(0)):
        note_zero(p, i64(inputs[k]))
    py.free_room(nodes, total, nearby)
    return is_right


@native
def run_hooks(p: ptr[BackwardPass], i: i64, n: ptr[RawNode]) -> bool:
    """Run the hooks of a node on its cotangent.  False with an exception."""
    p.flags[i] |= RAN
    bar: own = py.call_two(p.hooked, n, py.list_item(p.cotangents, i))
    if bar is None:
        return False
    py.set_list(p.cotangents, i, bar)
    return True


@native
def has_open_input(p: ptr[BackwardPass], i: i64) -> bool:
    """True if gradients reach a target through an input of a plain node."""
    for k in range(i64(p.wires[i]), i64(p.wires[i + 1])):
        at = i64(p.wires[k])
        if at >= 0 and p.flags[at] & OPEN != 0:
            return True
    return False


@native
def pull_nodes(p: ptr[BackwardPass], first: i64, word: u64, used: ptr, stamp: u64) -> i64:
    """Go through nodes from place `first` downwards.

    Returns the first place that needs Python; -1 at the end; -2 with an exception.
    """
    rules = i64(0)
    is_right = True
    outs = local(ptr, 1)
    i = first
    while i >= 0:
        n = ptr[RawNode](py.list_item(p.order, i))
        bar = ptr[RawNode](py.list_item(p.cotangents, i))
        flags = p.flags[i]
        is_plain = is_simple(n) or (flags & RAN != 0 and is_operation(n))
        if flags & (CALL | LOOKS) != 0:
            break
        if bar is tape.none:
            if flags & ZERO != 0:
                if not is_plain:
                    break
                for k in range(i64(p.wires[i]), i64(p.wires[i + 1])):
                    note_zero(p, i64(p.wires[k]))
            i -= 1
            continue
        if not is_plain and is_operation(n):
            is_right = run_hooks(p, i, n)
            if not is_right:
                break
            continue
        if not is_plain:
            r = ptr[RawRich](n)
            if r.leaf is tape.none or is_filled(r.hooks):
                break
            i -= 1  # a leaf keeps its cotangent
            continue
        is_target = flags & TARGET != 0
        if is_target and not has_open_input(p, i):
            i -= 1
            continue
        if n.kind.released is tape.true:
            break
        outs[0] = bar.kind.out
        given = 2 + i64(p.wires[i + 1] - p.wires[i])
        found = rule_of(n, word | (u64(flags & MASKED != 0) << MASKED_BIT), outs, 1, given)
        if found is None or given != 2 + count_of(n):
            break
        if not note_used(found, used, stamp):
            is_right = False
            break
        rules += 1
        is_right = pull_through(p, i, n, bar, found)
        if not is_right:
            break
        if not is_target:
            py.set_list(p.cotangents, i, held(tape.none))
        i -= 1
    p.rules += rules
    return i if is_right else i64(-2)


@native
def run_backward_pass(
    order: ptr, state: ptr, first: i64, word: u64, used: ptr, stamp: u64, memo: ptr,
    added: ptr, hooked: ptr,
) -> own:
    """Go through the history from place `first` downwards.  Returns the first place that needs Python; -1 at the end.

    state    the state of the pass (`recording_rules.new_pass`);  word: for a cotangent that is not masked (`rule_of`)
    used     a list to which each rule program that the pass uses is appended;  stamp: a number of this pass
    memo     the known kinds of sums;  added: added(old, new) records a sum whose kind is not in `memo`
    hooked   hooked(node, bar) runs the hooks of an operation and returns the cotangent that they leave
    """
    p = local(BackwardPass, 1)[0]
    p.order = order
    p.wires = ptr[i32](py.bytes_at(py.list_item(state, 0)))
    p.cotangents = py.list_item(state, 1)
    p.flags = bytes_of_array(py.list_item(state, 2))
    p.memo = memo
    p.added = added
    p.hooked = hooked
    p.rules = 0
    at = pull_nodes(p, first, word, used, stamp)
    if at == -2 or not count_up(ptr[ptr](tape.counts) + RULES, p.rules):
        return None
    return py.int_of(at)
