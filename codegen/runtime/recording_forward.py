"""Passes forward over plain operations whose rules are programs, in native Python.

    begin_forth(order, ...)    begin a pass, and go through nodes by rising number, as far as Python is not needed
    go_forth(order, ...)       go on

What a pass finds for a node is its tangent (`autodiff.transforms.forward`), or the same of many examples
(`autodiff.transforms.batch.walk`).  The state is Python's, as that of a backward pass (`recording_reverse`).
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, i32, i64, local, native, obj, ptr, u64, unlikely
from .recording_objects import (
    FEW,
    bytes_at,
    dec,
    failed,
    inc,
    int_of,
    int_value,
    leave,
    let_go,
    list_item,
    list_size,
    object_of,
    room,
    set_list,
    tuple_item,
    tuple_size,
)
from .recording_program import StepsBlock, put_down
from .recording_rules import FIRST_INPUT, FIXED, MOST_INPUTS, begun, bytes_of_array, is_simple, note_used, rule_of
from .recording_structs import RawNode, count_of, input_at, tape

__all__ = ["LOOK", "begin_forth", "go_forth"]

#: Of a node: Python goes through what reads it.
LOOK = 1


@native
def push_through(found: ptr, i: i64, n: ptr[RawNode], inputs: ptr[i32], p: ptr[StepsBlock]) -> bool:
    """Put down what a rule records, and note what it finds for a node.  False with an exception.

    The rule is given what was found for inputs, the node, and its inputs.
    """
    count = (p.given - 1) // 2
    total = p.given + p.steps
    nearby = local(ptr, FEW)
    nodes = room(nearby, FEW, total)
    if nodes is None:
        return False
    # Objects are made below, which may run any Python, and another thread may have a node give up its inputs.
    for k in range(p.reads):
        place = p.read_table[k]
        if place < count:
            nodes[place] = list_item(found, i64(inputs[place]))
        elif place == count:
            nodes[place] = ptr(n)
        else:
            nodes[place] = ptr(input_at(n, place - count - 1))
            inc(nodes[place])
    made = put_down(p, nodes)
    is_right = made == total
    if is_right and p.result_table[0] >= 0:
        dot = nodes[p.result_table[0]]
        inc(dot)
        set_list(found, i, dot)
    for k in range(p.reads):
        if p.read_table[k] > count:
            dec(nodes[p.read_table[k]])
    let_go(nodes + p.given, made - p.given)
    leave(nodes, nearby)
    return is_right


@native
def go_on(order: ptr, dots: ptr, flags: ptr, wires: ptr, first: i64, word: u64, used: ptr, stamp: u64) -> i64:
    """Go through nodes: the first place, from one upwards, at which Python has to go on; their number at the end.

    -1 with an exception.
    """
    said = bytes_of_array(flags)
    words = ptr[i32](bytes_at(wires))
    count = list_size(order)
    outs = local(ptr, MOST_INPUTS)
    is_right = True
    i = first
    while i < count:
        if list_item(dots, i) is not tape.none:
            i += 1
            continue
        inputs = words + i64(words[i])
        n_inputs = i64(words[i + 1] - words[i])
        n = ptr[RawNode](list_item(order, i))
        if unlikely(not is_simple(n)):
            if n_inputs > 0:
                break
            i += 1
            continue
        which = u64(0)
        n_outs = i64(0)
        is_looked_at = n_inputs > MOST_INPUTS
        for k in range(n_inputs if not is_looked_at else i64(0)):
            at = i64(inputs[k])
            if at < 0:
                continue
            dot = list_item(dots, at)
            if dot is tape.none:
                continue
            is_looked_at = is_looked_at or said[at] & LOOK != 0
            if not is_looked_at:
                which |= u64(1) << u64(k)
                outs[n_outs] = ptr(ptr[RawNode](dot).kind.out)
                n_outs += 1
        if is_looked_at:
            break
        if which == 0:
            i += 1
            continue
        given = 2 * n_inputs + 1
        rule = rule_of(n, word | which << FIRST_INPUT, outs, n_outs, given)
        if rule is None or n_inputs != count_of(n):
            break
        if not note_used(rule, used, stamp):
            is_right = False
            break
        is_right = push_through(dots, i, n, inputs, rule)
        if not is_right:
            break
        i += 1
    return i if is_right else i64(-1)


@native
def go_forth(
    order: borrowed, found: borrowed, flags: borrowed, wires: borrowed, first: i64, word: u64, used: borrowed,
    stamp: u64,
) -> obj:
    """The first place, from one upwards, at which Python has to go on; the number of nodes at the end.

    found    by place, what there is for nodes, None for nothing: it fills
    word     of rules of which no input has anything
    used     a list of the programs that were used: it grows;  stamp: a number of this pass
    """
    at = go_on(ptr(order), ptr(found), ptr(flags), ptr(wires), first, word, ptr(used), stamp)
    if at < 0:
        return failed()
    return object_of(int_of(at))


@native
def begin_forth(
    order: borrowed, asked: borrowed, given: borrowed, word: u64, used: borrowed, stamp: u64
) -> obj:
    """Begin a pass, and go forward as far as Python is not needed: what `begun` makes, with the place in it.

    asked    nodes of which something is there: what, is `given`; then those that are asked for
    """
    made = begun(ptr(order), ptr(asked))
    if made is None:
        return failed()
    found = list_item(made, 1)
    for i in range(tuple_size(ptr(given))):
        at = int_value(list_item(made, FIXED + i))
        if at >= 0:
            dot = tuple_item(ptr(given), i)
            inc(dot)
            set_list(found, at, dot)
    at = go_on(ptr(order), found, list_item(made, 2), list_item(made, 0), 0, word, ptr(used), stamp)
    if at < 0:
        dec(made)
        return failed()
    set_list(made, 3, int_of(at))
    return object_of(made)
