"""Rules as programs, and the passes that put them down, in native Python: see `autodiff.transforms.rule_programs`.

    begun(order, targets, asked)    the state of a pass: how its nodes are wired, what it finds, flags; and places
    rule_of(...)                    the program of a node's rule
    go_forth(order, ...)            go forward, as far as Python is not needed, by rising number

A pass back is in `recording_reverse`.

A pass goes through a list of nodes, each input coming before its readers.  Its wires are numbers of 32 bits: for each
node, and for the end, where the places of its inputs begin; then these places, -1 for an input that is not in the list.

What a pass forward finds for a node is its tangent (`autodiff.transforms.forward`), or the same of many examples
(`autodiff.transforms.batch.walk`).  The state of a pass is Python's.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, extern, held, i32, i64, local, native, own, ptr, u8, u64, void
from . import recording_objects as py
from .recorder_nodes import new_steps
from .recording_program import StepsBlock
from .recording_structs import RawNode, RawRich, count_of, flow_of, input_at, is_filled, tape

#: Of the word of a rule (`rule_programs`): the bit that says of a cotangent that it is masked; the first of those that
#: say which inputs have tangents, and of how many inputs they say it.
MASKED_BIT, FIRST_INPUT, MOST_INPUTS = 3, 8, 48
#: The number of parts of a pass before the places of nodes.
FIXED = 3
#: Of a node: gradients reach a target through it; it is a target (see `recording_reverse`).
OPEN, TARGET = 1, 8

bytes_of_array = extern("PyByteArray_AsString", ptr[u8], ptr)
new_bytearray = extern("PyByteArray_FromStringAndSize", own, ptr, i64, fails=FAILS)


@native
def place_in(order: ptr, count: i64, q: ptr[RawNode]) -> i32:
    """The place of a node in a list, each node of which has its place as its mark; -1 for none."""
    at = i64(q.mark)
    if q.mark < u64(count) and py.list_item(order, at) is q:
        return i32(at)
    return -1


@native
def wires_of_all(order: ptr) -> own:
    """The wires of a list of nodes, as bytes, a new reference; null with an exception.  Each node says its place."""
    count = py.list_size(order)
    total = count + 1
    for i in range(count):
        n = ptr[RawNode](py.list_item(order, i))
        n.mark = u64(i)
        total += count_of(n)
    made: own = py.new_bytes(None, 4 * total)
    if made is None:
        return None
    words = ptr[i32](py.bytes_at(made))
    at = count + 1
    for i in range(count):
        n = ptr[RawNode](py.list_item(order, i))
        words[i] = i32(at)
        for k in range(count_of(n)):
            words[at] = place_in(order, count, input_at(n, k))
            at += 1
    words[count] = i32(at)
    return made


@native
def open_all(order: ptr, wires: ptr[i32], said: ptr[u8]) -> void:
    """Note which nodes are open: targets, and all that lead to one."""
    ends = local(i64, 3)
    for i in range(py.list_size(order)):
        inputs = i64(wires[i + 1] - wires[i])
        flow_of(ptr[RawNode](py.list_item(order, i)), inputs, ends)
        found = said[i] & TARGET != 0
        for k in range(ends[0], ends[1] if ends[1] < inputs else inputs):
            at = i64(wires[i64(wires[i]) + k])
            if at >= 0 and at < i:
                found = found or said[at] & OPEN != 0
        if found:
            said[i] |= OPEN


@native
def begun(order: ptr, targets: ptr, asked: ptr) -> own:
    """[wires, nothing for each node, a flag for each node, the places of nodes...]: a list.

    targets   a tuple of nodes, whose places come first; of a pass forward none
    asked     a tuple of others;  a place is -1 for a node that is not in the pass
    """
    n_targets = py.tuple_size(targets)
    n_places = n_targets + py.tuple_size(asked)
    count = py.list_size(order)
    nearby = local(ptr, py.FEW)
    parts = py.room(nearby, py.FEW, n_places + FIXED)
    if parts is None:
        return None
    parts[0] = wires_of_all(order)
    parts[2] = new_bytearray(None, count)
    said = bytes_of_array(parts[2]) if parts[2] is not None else ptr[u8](0)
    if said is not None:
        py.set_bytes(said, 0, u64(count))
    for i in range(n_places):
        n = py.tuple_item(targets, i) if i < n_targets else py.tuple_item(asked, i - n_targets)
        place = i64(place_in(order, count, ptr[RawNode](n)))
        if i < n_targets and place >= 0 and said is not None:
            said[place] = TARGET
        parts[FIXED + i] = py.int_of(place)
    if n_targets > 0 and said is not None and parts[0] is not None:
        open_all(order, ptr[i32](py.bytes_at(parts[0])), said)
    # Lists are made now: that may run any Python.
    parts[1] = py.new_list(count)
    for i in range(count if parts[1] is not None else i64(0)):
        py.set_list(parts[1], i, held(tape.none))
    made: own = py.list_of(parts, n_places + FIXED)
    py.leave(parts, n_places + FIXED, nearby)
    return made


@native(inline=True)
def is_operation(n: ptr[RawNode]) -> bool:
    """True for a node that is no leaf, and no call or output of one."""
    r = ptr[RawRich](n)
    return n.type is tape.plain_type or (
        r.leaf is tape.none and r.call is tape.none and r.slot is tape.none and r.body is tape.none
        and r.flow is tape.none
    )  # fmt: skip


@native(inline=True)
def is_simple(n: ptr[RawNode]) -> bool:
    """True for a node that rules go through as if it were plain: an operation without hooks."""
    return n.type is tape.plain_type or (is_operation(n) and not is_filled(ptr[RawRich](n).hooks))


@native
def rule_of(n: ptr[RawNode], word: u64, outs: ptr[ptr], n_outs: i64, given: i64) -> ptr[StepsBlock]:
    """The program of a node's rule, for as many given nodes; null for none.

    word, outs    what decides, beside the kind, what the rule records
    """
    rules = n.kind.rules
    if ptr[py.RawObject](rules).type is not tape.rules_type:
        return None
    table = ptr[i64](py.bytes_at(rules)[0])
    for i in range(table[0]):
        p = ptr[StepsBlock](table[i + 1])
        if p.word != word or p.outs != n_outs or p.given != given:
            continue
        is_it = True
        for k in range(n_outs):
            is_it = is_it and p.out_table[k] is outs[k]
        if is_it:
            return p
    return None


@native(inline=True)
def note_used(p: ptr[StepsBlock], used: ptr, stamp: u64) -> bool:
    """Have a pass hold a program: the list of those that it has used does.  False with an exception."""
    if p.stamp == stamp:
        return True
    p.stamp = stamp
    return py.append(used, p.own) == 0


#: Of a node: Python goes through what reads it.
LOOK = 1


@native
def put_rule(p: ptr[StepsBlock], n: ptr[RawNode], nodes: ptr[own], beside: i64) -> bool:
    """Put down what a rule records behind what it is given: so many `nodes`, a node, and its inputs.

    False with an exception.
    """
    nodes[beside] = held(n)
    # Objects are made below, which may run any Python, and another thread may have a node give up its inputs.
    for k in range(p.reads):
        place = p.read_table[k]
        if place > beside:
            nodes[place] = held(input_at(n, place - beside - 1))
    return new_steps(p.step_table, p.steps, ptr[own[RawNode]](nodes), p.given) == p.given + p.steps


@native
def push_through(found: ptr, i: i64, n: ptr[RawNode], inputs: ptr[i32], p: ptr[StepsBlock]) -> bool:
    """Put down what a rule records, and note what it finds for a node.  False with an exception.

    The rule is given what was found for inputs, the node, and its inputs.
    """
    count = (p.given - 1) // 2
    nearby = local(ptr, py.FEW)
    nodes = py.room(nearby, py.FEW, p.given + p.steps)
    if nodes is None:
        return False
    for k in range(count):
        if inputs[k] >= 0:
            nodes[k] = held(py.list_item(found, i64(inputs[k])))
    is_right = put_rule(p, n, nodes, count)
    if is_right and p.result_table[0] >= 0:
        py.set_list(found, i, held(nodes[p.result_table[0]]))
    py.leave(nodes, p.given + p.steps, nearby)
    return is_right


@native
def go_forth(order: ptr, made: ptr, first: i64, word: u64, used: ptr, stamp: u64) -> own:
    """The first place, from one upwards, at which Python has to go on; the number of nodes at the end.

    made     the state: what there is for nodes in it fills
    word     of rules of which no input has anything
    used     a list of the programs that were used: it grows;  stamp: a number of this pass
    """
    words = ptr[i32](py.bytes_at(py.list_item(made, 0)))
    dots = py.list_item(made, 1)
    said = bytes_of_array(py.list_item(made, 2))
    count = py.list_size(order)
    outs = local(ptr, MOST_INPUTS)
    is_right = True
    i = first
    while i < count:
        if py.list_item(dots, i) is not tape.none:
            i += 1
            continue
        inputs = words + i64(words[i])
        n_inputs = i64(words[i + 1] - words[i])
        n = ptr[RawNode](py.list_item(order, i))
        if not is_simple(n):
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
            dot = py.list_item(dots, at)
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
    return py.int_of(i) if is_right else None
