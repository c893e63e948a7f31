"""Rules as programs, and the passes that record them, in native Python: see `autodiff.transforms.rule_programs`.

    new_pass(order, targets, asked)    make the state of a pass: wires, room for results, flags; and look places up
    rule_of(...)                       find the program of a node's rule
    run_forward_pass(order, ...)       go through nodes by rising number, up to the first node that needs Python

The backward pass is in `recording_reverse`.

A pass goes through a list of nodes in which inputs come before their readers.  Its wires are numbers of 32 bits: for
each node, and for the end, the index where its inputs begin; then the places of all inputs, -1 for one not in the list.

The result of a forward pass for a node is its tangent (`autodiff.transforms.forward`), or the node for many examples at
once (`autodiff.transforms.batch.walk`).  The state of a pass lives in Python objects.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, extern, held, i32, i64, local, native, own, ptr, u8, u64, void
from . import recording_objects as py
from .recorder_nodes import new_steps
from .recording_program import StepsBlock
from .recording_structs import RawNode, RawRich, count_of, flow_of, input_at, is_filled, tape

#: Bits of the word of a rule (`rule_programs`): the bit for a masked cotangent; the first of the bits that say which
#: inputs have tangents; the number of these bits.
MASKED_BIT, FIRST_INPUT, MOST_INPUTS = 3, 8, 48
#: The number of items of the list that `new_pass` returns before the places of nodes.
FIXED = 3
#: Flags of a node: gradients reach a target through it; it is a target (see `recording_reverse`); its rule looks at how
#: its cotangent, or tangents, were recorded: Python visits the node.
OPEN, TARGET, LOOKS = 1, 8, 64

bytes_of_array = extern("PyByteArray_AsString", ptr[u8], ptr)
new_bytearray = extern("PyByteArray_FromStringAndSize", own, ptr, i64, fails=FAILS)


@native
def place_in(order: ptr, count: i64, q: ptr[RawNode]) -> i32:
    """The place of a node in a list whose nodes have their places as marks; -1 for a node outside the list."""
    at = i64(q.mark)
    if q.mark < u64(count) and py.list_item(order, at) is q:
        return i32(at)
    return -1


@native
def wires_of_all(order: ptr) -> own:
    """The wires of a list of nodes, as bytes, a new reference; null with an exception.  Each mark becomes the place."""
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
def mark_open(order: ptr, wires: ptr[i32], flags: ptr[u8]) -> void:
    """Set the flag `OPEN` of targets, and of all nodes whose gradients flow to a target."""
    ends = local(i64, 3)
    for i in range(py.list_size(order)):
        inputs = i64(wires[i + 1] - wires[i])
        flow_of(ptr[RawNode](py.list_item(order, i)), inputs, ends)
        found = flags[i] & TARGET != 0
        for k in range(ends[0], ends[1] if ends[1] < inputs else inputs):
            at = i64(wires[i64(wires[i]) + k])
            if at >= 0 and at < i:
                found = found or flags[at] & OPEN != 0
        if found:
            flags[i] |= OPEN


@native
def new_pass(order: ptr, targets: ptr, asked: ptr) -> own:
    """The state of a pass, a list: [wires, [None] per node, a byte of flags per node, places of nodes...].

    targets   a tuple of nodes, whose places come first; empty for a forward pass
    asked     a tuple of further nodes whose places are wanted;  a place is -1 for a node that is not in `order`
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
    flags = bytes_of_array(parts[2]) if parts[2] is not None else ptr[u8](0)
    if flags is not None:
        py.set_bytes(flags, 0, u64(count))
    for i in range(n_places):
        n = py.tuple_item(targets, i) if i < n_targets else py.tuple_item(asked, i - n_targets)
        place = i64(place_in(order, count, ptr[RawNode](n)))
        if i < n_targets and place >= 0 and flags is not None:
            flags[place] = TARGET
        parts[FIXED + i] = py.int_of(place)
    if n_targets > 0 and flags is not None and parts[0] is not None:
        mark_open(order, ptr[i32](py.bytes_at(parts[0])), flags)
    # Lists are made from here on, which may run any Python and change the marks of nodes.
    parts[1] = py.new_list(count)
    for i in range(count if parts[1] is not None else i64(0)):
        py.set_list(parts[1], i, held(tape.none))
    made: own = py.list_of(parts, n_places + FIXED)
    py.free_room(parts, n_places + FIXED, nearby)
    return made


@native(inline=True)
def is_operation(n: ptr[RawNode]) -> bool:
    """True for a node that is no leaf, no custom call and no output of one."""
    r = ptr[RawRich](n)
    return n.type is tape.plain_type or (
        r.leaf is tape.none and r.call is tape.none and r.slot is tape.none and r.body is tape.none
        and r.flow is tape.none
    )  # fmt: skip


@native(inline=True)
def is_simple(n: ptr[RawNode]) -> bool:
    """True for an operation without hooks: a pass can treat such a node as a plain one."""
    return n.type is tape.plain_type or (is_operation(n) and not is_filled(ptr[RawRich](n).hooks))


@native
def rule_of(n: ptr[RawNode], word: u64, outs: ptr[ptr], n_outs: i64, given: i64) -> ptr[StepsBlock]:
    """The program of a node's rule for this number of given nodes; null for none.

    word, outs    the rest of the rule's key beside the kind: bits, and the Outs of the cotangent or the tangents
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
    """Append a program to the list `used`, once in a pass, which keeps the program alive.  False with an exception."""
    if p.stamp == stamp:
        return True
    p.stamp = stamp
    return py.append(used, p.own) == 0


#: Flag of a node in a forward pass: Python has to handle the readers of this node.
LOOK = 1


@native
def record_rule(p: ptr[StepsBlock], n: ptr[RawNode], nodes: ptr[own], beside: i64) -> bool:
    """Record the nodes of a rule behind its given nodes: the first `beside` of `nodes`, the node `n`, and its inputs.

    False with an exception.
    """
    nodes[beside] = held(n)
    # `new_steps` makes objects, which may run any Python; another thread may then let the node drop its inputs.
    for k in range(p.reads):
        place = p.read_table[k]
        if place > beside:
            nodes[place] = held(input_at(n, place - beside - 1))
    return new_steps(p.step_table, p.steps, ptr[own[RawNode]](nodes), p.given) == p.given + p.steps


@native
def push_through(results: ptr, i: i64, n: ptr[RawNode], inputs: ptr[i32], p: ptr[StepsBlock]) -> bool:
    """Record the nodes of a rule, and store its result for a node in `results`.  False with an exception.

    The given nodes of the rule are the results for the node's inputs, the node, and these inputs.
    """
    count = (p.given - 1) // 2
    nearby = local(ptr, py.FEW)
    nodes = py.room(nearby, py.FEW, p.given + p.steps)
    if nodes is None:
        return False
    for k in range(count):
        if inputs[k] >= 0:
            nodes[k] = held(py.list_item(results, i64(inputs[k])))
    is_right = record_rule(p, n, nodes, count)
    if is_right and p.result_table[0] >= 0:
        py.set_list(results, i, held(nodes[p.result_table[0]]))
    py.free_room(nodes, p.given + p.steps, nearby)
    return is_right


@native
def run_forward_pass(order: ptr, state: ptr, first: i64, word: u64, used: ptr, stamp: u64) -> own:
    """Go through nodes from place `first` upwards.  Returns the first place that needs Python; their number at the end.

    state    the state of the pass (`new_pass`), in which the results of nodes are stored
    word     the word of rules before the bits of inputs that have tangents are added
    used     a list to which each rule program that the pass uses is appended;  stamp: a number of this pass
    """
    words = ptr[i32](py.bytes_at(py.list_item(state, 0)))
    results = py.list_item(state, 1)
    flags = bytes_of_array(py.list_item(state, 2))
    count = py.list_size(order)
    outs = local(ptr, MOST_INPUTS)
    is_right = True
    i = first
    while i < count:
        if py.list_item(results, i) is not tape.none:
            i += 1
            continue
        inputs = words + i64(words[i])
        n_inputs = i64(words[i + 1] - words[i])
        n = ptr[RawNode](py.list_item(order, i))
        if not is_simple(n) or flags[i] & LOOKS != 0:
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
            result = py.list_item(results, at)
            if result is tape.none:
                continue
            is_looked_at = is_looked_at or flags[at] & LOOK != 0
            if not is_looked_at:
                which |= u64(1) << u64(k)
                outs[n_outs] = ptr(ptr[RawNode](result).kind.out)
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
        is_right = push_through(results, i, n, inputs, rule)
        if not is_right:
            break
        i += 1
    return py.int_of(i) if is_right else None
