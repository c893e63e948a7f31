"""Asks of recordings that are known, answered by machine code (native Python): walk, look up, run, commit.

    key_of(...)     the key of a recording, its nodes in canonical order, the calls whose keys belong to it
    ask(...)        the same key, looked up; where there is an `Answer`, the plan is run and its results are kept
    answer_value    the same for one pending value, as the recorder calls it

An answer is a block of words that says where a plan's inputs come from and where its results go, by places in canonical
order.  While the plan runs, which may run any Python, all nodes that are written to afterwards are held.

Values first, then inputs; marks of a history that is given up before what it read is let go.  The `.grad` of leaves
are compared and exchanged under the lock of commits, all or none.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import (
    Struct,
    array,
    borrowed,
    extern,
    i32,
    i64,
    local,
    native,
    obj,
    ptr,
    static,
    u8,
    u32,
    u64,
    unlikely,
    void,
)
from .recording_walk import (
    KEPT,
    PAST,
    PENDING,
    READ,
    Digest,
    Handle,
    Kind,
    Leaf,
    Node,
    Object,
    Rich,
    begin,
    entry_of,
    gather,
    is_filled,
    known_identity,
    mix,
    number,
    place_given,
    root,
    tape,
    walk,
)

__all__ = [
    "ANSWER_WORDS", "BACKWARD", "NODES", "RECORDING_SLOTS", "SOME", "TENSORS", "VALUE", "answer_value", "ask",
    "key_of", "names", "place_slots", "remember",
]  # fmt: skip

#: What is asked: values; gradients into `.grad`; gradients of tensors, all versions of a leaf being one; of nodes;
#: gradients of tensors of which some may not be reached.
VALUE, BACKWARD, TENSORS, NODES, SOME = 1, 2, 3, 4, 5
#: So many nodes are held on the stack.
FEW = 64
#: The words of an answer (`Answer`).
ANSWER_WORDS = (
    "valid", "executable", "arguments", "argument_table", "stored", "stored_table", "groups", "group_table", "past",
    "past_table", "is_whole", "own",
)  # fmt: skip


class Answer(Struct):
    """The places that a plan's inputs come from, and that its results go to.

    valid, executable    where the plan has them
    argument_table   per input: (place, 0), (-1, object) or (-2, which of the numbers that are computed for it)
    stored_table     per node: place, position among the results, whether it drops its inputs
    group_table      per group: place of its leaf, position or -1, kind and class of the gradient
    is_whole    1 if all targets are reached;   own: the object that has this block
    past, past_table    how many nodes are given up, and their places; -1: all of the history
    """

    valid: ptr[ptr]
    executable: ptr[ptr]
    arguments: i64
    argument_table: ptr[i64]
    stored: i64
    stored_table: ptr[i64]
    groups: i64
    group_table: ptr[i64]
    past: i64
    past_table: ptr[i64]
    is_whole: i64
    own: ptr


#: Slots of a recording, by their places in `Names.slots`.
RECORDING_SLOTS = ("asked", "began", "limit", "look_at", "looked", "small", "start")
ASKED, BEGAN, LIMIT, LOOK_AT, LOOKED, SMALL, START = range(7)


class Plans(Struct):
    """The slots of a table, of plans or of emissions."""

    head: Object
    clock: ptr
    entries: ptr


class Counts(Struct):
    head: Object
    asks: ptr
    hits: ptr
    misses: ptr
    rules: ptr
    runs: ptr


HITS, RUNS = [Counts.fields()[name].offset // 8 for name in ("hits", "runs")]
CLOCK = 2


class Names(Struct):
    """Objects of Python's that are used here."""

    plans: ptr[Plans]
    emissions: ptr[Plans]
    counts: ptr[Counts]
    answer_type: ptr
    reads_type: ptr
    call_name: ptr
    acquire_name: ptr
    release_name: ptr
    lock: ptr
    counter: ptr
    out_of_range: ptr
    first_limit: ptr
    empty: ptr
    told: ptr
    aliases: ptr
    argument_op: ptr
    steps_type: ptr
    false: ptr
    pending_limit: i64
    slots: array[i64, 7]


names = static(Names)

inc = extern("Py_IncRef", void, ptr, runs_python=False)
dec = extern("Py_DecRef", void, ptr)
tuple_size = extern("PyTuple_Size", i64, ptr, runs_python=False)
tuple_item = extern("PyTuple_GetItem", ptr, ptr, i64, runs_python=False)
list_size = extern("PyList_Size", i64, ptr, runs_python=False)
list_item = extern("PyList_GetItem", ptr, ptr, i64, runs_python=False)
new_list = extern("PyList_New", ptr, i64)
set_list = extern("PyList_SetItem", i32, ptr, i64, ptr)
referent = extern("PyWeakref_GetObject", ptr, ptr, runs_python=False)
dict_item = extern("PyDict_GetItem", ptr, ptr, ptr, runs_python=False)
new_bytes = extern("PyBytes_FromStringAndSize", ptr, ptr, i64, runs_python=False)
bytes_at = extern("PyBytes_AsString", ptr[u64], ptr, runs_python=False)
is_subtype = extern("PyType_IsSubtype", i32, ptr, ptr, runs_python=False)
int_of = extern("PyLong_FromLongLong", ptr, i64, runs_python=False)
int_value = extern("PyLong_AsLongLong", i64, ptr, runs_python=False)
next_of = extern("PyIter_Next", ptr, ptr, runs_python=False)
call_method = extern("PyObject_VectorcallMethod", ptr, ptr, ptr[ptr], u64, ptr)
call = extern("PyObject_Vectorcall", ptr, ptr, ptr[ptr], u64, ptr)
matches = extern("PyErr_ExceptionMatches", i32, ptr, runs_python=False)
clear_error = extern("PyErr_Clear", void)
no_memory = extern("PyErr_NoMemory", ptr, runs_python=False)
allocated = extern("PyMem_RawMalloc", ptr, u64, runs_python=False)
free = extern("PyMem_RawFree", void, ptr, runs_python=False)
new_leaf = extern("new_leaf", ptr, ptr, ptr, ptr)


@native
def failed() -> obj:
    """The result of a function that has failed, its exception being set."""
    return None


@native
def object_of(given: ptr) -> obj:
    """An object, the count of which comes along."""
    found: obj = borrowed(given)
    dec(given)
    return found


# ------------------------------------------------------------------ the walk for an ask


@native(inline=True)
def ask_nodes(nodes: ptr, flags: u32) -> void:
    """Nodes of a tuple, None among them being none, are roots."""
    for i in range(tuple_size(nodes)):
        n = tuple_item(nodes, i)
        if n is not tape.none:
            root(ptr[Node](n), flags)


@native(inline=True)
def old_of(leaf: ptr[Leaf]) -> ptr[Node]:
    """The node of the gradient that a leaf has; null for none."""
    if leaf.grad is None or ptr(leaf.grad) is tape.none:
        return None
    return leaf.grad.node


@native(inline=True)
def place_of(n: ptr) -> u64:
    """One more than the place of a node; 0 for one that has none, and for None."""
    if n is tape.none:
        return 0
    e = entry_of(ptr[Node](n))
    return u64(i64(e.place) + 1) if e is not None else u64(0)


@native(inline=False)
def mix_asked(d: ptr[Digest], purpose: u64, results: ptr, seeds: ptr, targets: ptr) -> void:
    """Add to the hash which nodes are asked for, by their places."""
    if purpose != VALUE:
        for i in range(tuple_size(results)):
            mix(d, place_of(tuple_item(results, i)), place_of(tuple_item(seeds, i)))
    if purpose == BACKWARD:
        for i in range(walk.n_leaves):
            e = walk.met[walk.leaves[i]]
            old = old_of(ptr[Rich](e.node).leaf)
            if old is not None and walk.met[old.mark].place < 0:
                place_given(d, old.mark)
            mix(d, u64(e.place), place_of(ptr(old)) if old is not None else u64(0))
    else:
        for i in range(tuple_size(targets)):
            n = ptr[Node](tuple_item(targets, i))
            version = i64(-1)
            if purpose != NODES and n.type is not tape.plain_type and ptr(ptr[Rich](n).leaf) is not tape.none:
                version = known_identity(ptr[Rich](n).leaf)
            mix(d, place_of(ptr(n)), u64(version + 1))
    hashed = purpose if purpose != SOME else u64(TENSORS)
    mix(d, d.count, hashed | u64(tuple_size(targets)) << 8)


@native(inline=False)
def walked(
    d: ptr[Digest], purpose: u64, one: ptr[Node], small: ptr, results: ptr, seeds: ptr, also: ptr, targets: ptr,
    tracks: bool,
) -> bool:
    """Walk over what is asked for.  False where no key says all: hooks, no memory.

    one       a node whose value is asked for; null: none
    small     weak references to handles: what is pending of these is asked for, too; None: nothing is
    results, seeds, also, targets    tuples of nodes; a seed may be None
    """
    d.low = 0x243F6A8885A308D3
    d.high = 0x13198A2E03707344
    d.count = 0
    begin()
    if one is not None:
        root(one, 0)
    ask_nodes(results, u32(PAST) if purpose != VALUE else u32(0))
    ask_nodes(seeds, READ)
    ask_nodes(also, 0)
    for i in range(list_size(small) if small is not tape.none else i64(0)):
        handle = referent(list_item(small, i))
        if handle is not tape.none and is_subtype(ptr[Object](handle).type, tape.handle_type) != 0:
            n = ptr[Handle](handle).node
            if n.value is tape.none:
                root(n, 0)
    gather()
    walk.n_asked = walk.n_roots
    if purpose == BACKWARD:
        for i in range(walk.n_leaves):
            leaf = ptr[Rich](walk.met[walk.leaves[i]].node).leaf
            old = old_of(leaf)
            if old is not None:
                if is_subtype(leaf.grad.head.type, tape.handle_type) == 0:
                    return False
                root(old, READ)
        gather()
    if walk.is_full or (walk.is_hooked and purpose != VALUE):
        return False
    number(d, tracks)
    mix_asked(d, purpose, results, seeds, targets)
    return True


# ------------------------------------------------------------------ the plan is run


@native(inline=True)
def exchange(place: ptr[ptr], value: ptr) -> void:
    """Put an object, whose count comes along, where another one is."""
    old = place[0]
    place[0] = value
    dec(old)


@native(inline=True)
def drop_inputs(n: ptr[Node]) -> void:
    """Let a node drop its inputs."""
    first = n.first
    second = n.second
    inputs = n.inputs
    n.first = None
    n.second = None
    n.inputs = None
    dec(ptr(first))
    dec(ptr(second))
    dec(inputs)


@native
def settle(nodes: ptr[ptr], count: i64, table: ptr[i64], results: ptr) -> void:
    """Give pending nodes their values; what another thread has given one meanwhile stays."""
    for i in range(count):
        n = ptr[Node](nodes[i])
        if n.value is tape.none:
            value = tuple_item(results, table[3 * i + 1])
            inc(value)
            n.value = value
            dec(tape.none)
            if table[3 * i + 2] != 0:
                drop_inputs(n)


@native
def give_up(nodes: ptr[ptr], count: i64) -> void:
    """Mark a history as given up; what has a value drops its inputs."""
    for i in range(count):
        n = ptr[Node](nodes[i])
        kind = n.kind
        if kind.freed is None or ptr(kind.freed) is tape.none:
            continue  # given up meanwhile
        freed = kind.freed
        freed.head.references += 1
        n.kind = freed
        if kind.head.references > 1:
            kind.head.references -= 1
        else:
            dec(ptr(kind))
    for i in range(count):
        n = ptr[Node](nodes[i])
        if n.value is not tape.none:
            drop_inputs(n)


@native
def let_go(objects: ptr[ptr], count: i64) -> void:
    for i in range(count):
        dec(objects[i])


@native
def let_nodes_go(nodes: ptr[ptr], count: i64) -> void:
    for i in range(count):
        n = ptr[Node](nodes[i])
        if n.references > 1:
            n.references -= 1
        else:
            dec(nodes[i])


@native
def called(name: ptr) -> bool:
    """Call a method of the lock of commits.  False with an exception."""
    arguments = local(ptr, 1)
    arguments[0] = names.lock
    found = call_method(name, arguments, 1, None)
    dec(found)
    return found is not None


@native
def commit(groups: ptr[ptr], count: i64, table: ptr[i64], results: ptr, kinds: ptr) -> i64:
    """Give each leaf its gradient: all or none.  1: done, 0: a `.grad` is another than was read, -1: an exception.

    groups    per group its leaf, the node of its old gradient (null: none), and room for the new one
    kinds     null: the table's;  else of what kind each gradient is
    """
    found = i64(1)
    for i in range(count):
        groups[3 * i + 2] = None
        position = table[4 * i + 1]
        if position >= 0 and found == 1:
            value = tuple_item(results, position)
            kind = ptr(table[4 * i + 2])
            cls = ptr(table[4 * i + 3])
            if kinds is not None:
                kind = tuple_item(kinds, i)
                cls = ptr[Kind](kind).out.cls
            groups[3 * i + 2] = new_leaf(kind, cls, value)
            if groups[3 * i + 2] is None:
                found = -1
    if found == 1 and not called(names.acquire_name):
        found = -1
    elif found == 1:
        # From here to the last exchange nothing is allocated or freed: nobody sees some of the gradients only.
        for i in range(count):
            leaf = ptr[Leaf](groups[3 * i])
            if groups[3 * i + 2] is not None and ptr(old_of(leaf)) is not groups[3 * i + 1]:
                found = 0
        if found == 1:
            for i in range(count):
                if groups[3 * i + 2] is not None:
                    leaf = ptr[Leaf](groups[3 * i])
                    old = ptr(leaf.grad)
                    leaf.grad = ptr[Handle](groups[3 * i + 2])
                    groups[3 * i + 2] = old
        if not called(names.release_name):
            found = -1
    for i in range(count):
        dec(groups[3 * i + 2])  # an old gradient, or a new one that was not committed
        groups[3 * i + 2] = None
    return found


@native
def count_up(place: ptr[ptr], more: i64) -> void:
    """Count an attribute up."""
    made = int_of(int_value(place[0]) + more)
    if made is not None:
        exchange(place, made)


@native(inline=True)
def slot(now: ptr, number: i64) -> ptr[ptr]:
    """The address of one of a recording's slots."""
    return ptr[ptr](now) + names.slots[number]


@native
def begin_another(now: ptr, purpose: u64) -> bool:
    """Another recording begins, and the list of small results anew.  False with an exception."""
    small = new_list(0)
    start = next_of(names.counter)
    if small is None or start is None:
        return False
    exchange(slot(now, SMALL), small)
    inc(names.first_limit)
    exchange(slot(now, LIMIT), names.first_limit)
    look_at = int_of(int_value(start) + names.pending_limit)
    if look_at is None:
        return False
    exchange(slot(now, LOOK_AT), look_at)
    exchange(slot(now, START), start)
    count_up(slot(now, ASKED), 1)
    if purpose != VALUE:
        count_up(slot(now, LOOKED), 1)
        inc(start)
        exchange(slot(now, BEGAN), start)
    return True


@native(inline=True)
def is_plain_or_no_leaf(n: ptr[Node]) -> bool:
    return n.type is tape.plain_type or ptr(ptr[Rich](n).leaf) is tape.none


@native
def list_of(objects: ptr[ptr], count: i64) -> ptr:
    """A list of objects; null with an exception."""
    made = new_list(count)
    for i in range(count):
        if made is not None:
            inc(objects[i])
            set_list(made, i, objects[i])
    return made


@native
def told_of(a: ptr[Answer], nodes: ptr) -> ptr:
    """Python's answer about calls: the inputs that are computed from their numbers, None if their keys are others."""
    if nodes is None:
        return None
    arguments = local(ptr, 2)
    arguments[0] = a.own
    arguments[1] = nodes
    return call(names.told, arguments, 2, None)


@native
def whole_of(key: ptr, nodes: ptr) -> ptr:
    """[key, [], nodes]; null with an exception."""
    made = new_list(3)
    empty = new_list(0)
    if made is None or empty is None:
        dec(made)
        dec(empty)
        return None
    inc(key)
    inc(nodes)
    set_list(made, 0, key)
    set_list(made, 1, empty)
    set_list(made, 2, nodes)
    return made


@native(inline=False)
def run(
    a: ptr[Answer], d: ptr[Digest], purpose: u64, now: ptr, is_released: bool, computed: ptr, key: ptr, executable: ptr,
    kinds: ptr,
) -> obj:
    """Run the plan on the recording that was walked over, and keep its results.

    computed    inputs that were computed from the numbers of calls;  key: null, or what was found without the keys of
                calls, which Python is asked for then; its count comes along
    executable, kinds    null: the plan's, and the answer's;  else what is run, and of what kind each gradient is

    Gives what `ask` gives; None where Python is to be asked after all.
    """
    if purpose == TENSORS and a.is_whole == 0:
        dec(key)
        return borrowed(tape.none)  # it is refused
    own = a.own
    inc(own)  # while the plan runs, another thread may forget the answer
    n_calls = i64(walk.n_calls) if key is not None else i64(0)
    n_past = i64(0)
    if is_released:
        n_past = a.past if a.past >= 0 else i64(d.count)
    total = a.stored + 3 * a.groups + n_past + n_calls
    nearby = local(ptr, FEW)
    held = nearby
    if total > FEW:
        held = ptr[ptr](allocated(u64(8 * total)))
    if held is None:
        dec(key)
        dec(own)
        no_memory()
        return failed()
    values = local(ptr, a.arguments + 1)
    values[0] = executable if executable is not None else a.executable[0]
    inc(values[0])
    for i in range(a.arguments):
        which = a.argument_table[2 * i]
        value = ptr(a.argument_table[2 * i + 1])
        if which >= 0:
            value = walk.met[walk.order[which]].node.value
        elif which == -2:
            value = tape.none
            if computed is not None:
                value = tuple_item(computed, a.argument_table[2 * i + 1])
        inc(value)
        values[i + 1] = value
    for i in range(a.stored):
        held[i] = ptr(walk.met[walk.order[a.stored_table[3 * i]]].node)
        inc(held[i])
    groups = held + a.stored
    due = i64(0)
    for i in range(a.groups):
        leaf = ptr[Rich](walk.met[walk.order[a.group_table[4 * i]]].node).leaf
        due += i64(is_filled(leaf.after))
        inc(ptr(leaf))
        groups[3 * i] = ptr(leaf)
        old = ptr(old_of(leaf))
        inc(old)
        groups[3 * i + 1] = old
        groups[3 * i + 2] = None
    past = groups + 3 * a.groups
    k = i64(0)
    for i in range(n_past):
        e = walk.met[walk.order[a.past_table[i] if a.past >= 0 else i64(i)]]
        if e.flags & PAST != 0 and is_plain_or_no_leaf(e.node):
            past[k] = ptr(e.node)
            e.node.references += 1
            k += 1
    n_past = k
    calls = past + n_past
    for i in range(n_calls):
        calls[i] = ptr(walk.met[walk.calls[i]].node)
        inc(calls[i])
    # From here on other Python may run: nothing of the walk is read any more.
    told = ptr(tape.none)
    called_nodes = ptr(None)
    if n_calls > 0:
        called_nodes = list_of(calls, n_calls)
        told = told_of(a, called_nodes)
        if told is not None and told is not tape.none:
            for i in range(a.arguments):
                if a.argument_table[2 * i] == -2:
                    value = tuple_item(told, a.argument_table[2 * i + 1])
                    inc(value)
                    exchange(values + i + 1, value)
    results = ptr(None)
    is_told = n_calls == 0 or (told is not None and told is not tape.none)
    if is_told:
        results = call_method(names.call_name, values, u64(a.arguments + 1), None)
    let_go(values, a.arguments + 1)
    outcome = i64(-1)
    if not is_told:
        outcome = 2 if told is not None else -1  # calls of another kind
    elif results is not None:
        settle(held, a.stored, a.stored_table, results)
        outcome = commit(groups, a.groups, a.group_table, results, kinds) if a.groups > 0 else i64(1)
        if outcome == 1:
            give_up(past, n_past)
            count_up(ptr[ptr](names.counts) + HITS, 1)
            count_up(ptr[ptr](names.counts) + RUNS, 1)
            if now is not tape.none and not begin_another(now, purpose):
                outcome = -1
    elif matches(names.out_of_range) != 0:
        clear_error()  # Python meets it, and says at which line
        outcome = 0
    answer = ptr(tape.none)
    if outcome == 1 and due > 0:
        answer = new_list(due)
        if answer is None:
            outcome = -1
        k = 0
        for i in range(a.groups):
            if answer is not None and k < due and is_filled(ptr[Leaf](groups[3 * i]).after):
                inc(groups[3 * i])
                set_list(answer, k, groups[3 * i])
                k += 1
    elif outcome == 1 and purpose > BACKWARD:
        answer = new_list(2)
        if answer is None:
            outcome = -1
        else:
            inc(results)
            set_list(answer, 0, results)
            inc(own)
            set_list(answer, 1, own)
    elif outcome == 1:
        answer = tape.true
        inc(answer)
    elif outcome == 2:
        answer = whole_of(key, called_nodes)
        if answer is None:
            outcome = -1
    else:
        inc(answer)
    dec(results)
    dec(key)
    dec(called_nodes)
    if n_calls > 0:
        dec(told)
    let_go(held, a.stored + 3 * a.groups)
    let_nodes_go(past, n_past + n_calls)
    if total > FEW:
        free(ptr(held))
    dec(own)
    if outcome < 0:
        if answer is not None:
            dec(answer)
        return failed()
    return object_of(answer)


# ------------------------------------------------------------------ looking up


@native(inline=False)
def entry_of_table(table: ptr[Plans], key: ptr, type: ptr) -> ptr:
    """What a table has for a key, if it is of a type; null for nothing.  It is the latest used then."""
    entry = dict_item(table.entries, key)
    if entry is None:
        return None
    found = list_item(entry, 0)
    if ptr[Object](found).type is not type:
        return None
    if list_item(entry, 1) is not table.clock:
        clock = int_of(int_value(table.clock) + 1)
        if clock is not None:
            inc(clock)
            exchange(ptr[ptr](table) + CLOCK, clock)
            set_list(entry, 1, clock)
    return found


@native
def looked_up(key: ptr) -> ptr[Answer]:
    """The answer that is known for a key; null for none."""
    found = entry_of_table(names.plans, key, names.answer_type)
    if found is None:
        return None
    a = ptr[Answer](bytes_at(found)[0])
    return a if a.valid[0] is tape.true else ptr[Answer](0)


@native
def key_object(d: ptr[Digest]) -> ptr:
    """The hash as bytes, a new reference; null with an exception."""
    return new_bytes(ptr(d), 16)


@native
def list_of_found(entries: ptr[u32], count: u64, key: ptr, order: u64) -> ptr:
    """A list of a key, a list of `order` nodes in canonical order, one of those of entries, and bytes.

    The bytes say of each node in canonical order if it is pending (1) and is to be stored (2).

    The count of the key comes along.  Null with an exception.
    """
    total = order + count
    held = ptr[ptr](allocated(8 * total + 8))
    if held is None:
        dec(key)
        no_memory()
        return None
    for i in range(total):
        at = walk.order[i] if u64(i) < order else entries[u64(i) - order]
        held[i] = ptr(walk.met[at].node)
        inc(held[i])
    states = new_bytes(None, i64(order))
    if states is not None:
        said = ptr[u8](bytes_at(states))
        for i in range(order):
            flags = walk.met[walk.order[i]].flags
            said[i] = u8(flags & PENDING != 0) | u8(flags & KEPT != 0) << 1
    # Lists are made now: that may run any Python.
    whole = new_list(4)
    nodes = new_list(i64(order))
    calls = new_list(i64(count))
    if whole is None or nodes is None or calls is None or states is None:
        dec(whole)
        dec(nodes)
        dec(calls)
        dec(states)
        dec(key)
        let_go(held, i64(total))
        free(ptr(held))
        return None
    for i in range(order):
        set_list(nodes, i64(i), held[i])
    for i in range(count):
        set_list(calls, i64(i), held[order + u64(i)])
    set_list(whole, 0, key)
    set_list(whole, 1, nodes)
    set_list(whole, 2, calls)
    set_list(whole, 3, states)
    free(ptr(held))
    return whole


@native
def found_of(entries: ptr[u32], count: u64, key: ptr, order: u64) -> obj:
    """The same as an object."""
    made = list_of_found(entries, count, key, order)
    if made is None:
        return failed()
    return object_of(made)


@native
def key_of(
    purpose: u64, results: borrowed, seeds: borrowed, also: borrowed, targets: borrowed, tracks: bool, held: u32
) -> obj:
    """[key, nodes in canonical order, calls of the history, states] of an ask; None where no key says all.

    held    how often the caller holds each node of the history
    """
    d = local(Digest, 1)[0]
    walk.held = held
    if not walked(d, purpose, None, tape.none, ptr(results), ptr(seeds), ptr(also), ptr(targets), tracks):
        return borrowed(tape.none)
    key = key_object(d)
    if key is None:
        return failed()
    return found_of(walk.calls, walk.n_calls, key, d.count)


@native
def ask(
    purpose: u64, now: borrowed, small: borrowed, results: borrowed, seeds: borrowed, also: borrowed, targets: borrowed,
    tracks: bool, is_released: bool, given: borrowed,
) -> obj:
    """Answer an ask if it is known.

    now      the recording that ends with it; None: none does
    given    None; or (answer, key, computed inputs) where Python has looked up the key together with keys of calls;
             or these, what is run, and the kinds of gradients, where it has looked up the family

    Gives True; of gradients that are asked for [a plan's results, the answer]; of leaves with hooks that are due these;
    [key, [], calls] where keys of calls belong to the key; None where it is not known.
    """
    d = local(Digest, 1)[0]
    walk.held = 0
    if not walked(d, purpose, None, ptr(small), ptr(results), ptr(seeds), ptr(also), ptr(targets), tracks):
        return borrowed(tape.none)
    if ptr(given) is not tape.none:
        told = bytes_at(tuple_item(ptr(given), 1))
        a = ptr[Answer](bytes_at(tuple_item(ptr(given), 0))[0])
        if told[0] != d.low or told[1] != d.high or a.valid[0] is not tape.true:
            return borrowed(tape.none)
        executable = ptr(None)
        kinds = ptr(None)
        if tuple_size(ptr(given)) > 3:
            executable = tuple_item(ptr(given), 3)
            kinds = tuple_item(ptr(given), 4)
        return run(a, d, purpose, ptr(now), is_released, tuple_item(ptr(given), 2), None, executable, kinds)
    key = key_object(d)
    if key is None:
        return failed()
    if unlikely(walk.n_calls > 0):
        known = looked_up(key)
        if known is None:
            return found_of(walk.calls, walk.n_calls, key, 0)
        return run(known, d, purpose, ptr(now), is_released, None, key, None, None)
    known = looked_up(key)
    dec(key)
    if known is None:
        return borrowed(tape.none)
    return run(known, d, purpose, ptr(now), is_released, None, None, None, None)


@native
def answer_value(now: ptr, node: ptr[Node], tracks: bool) -> obj:
    """Compute a pending value if that is known: True or None."""
    d = local(Digest, 1)[0]
    known = ptr[Answer](0)
    walk.held = 0
    if walked(d, VALUE, node, slot(now, SMALL)[0], names.empty, names.empty, names.empty, names.empty, tracks):
        key = key_object(d)
        if key is not None:
            known = looked_up(key)
            dec(key)
        else:
            clear_error()
    if known is None:
        return borrowed(tape.none)
    return run(known, d, VALUE, now, False, None, None, None, None)


@native
def place_slots(
    asked: i64, began: i64, limit: i64, look_at: i64, looked: i64, small: i64, start: i64
) -> void:
    """The words at which recordings have their slots."""
    names.slots[ASKED] = asked
    names.slots[BEGAN] = began
    names.slots[LIMIT] = limit
    names.slots[LOOK_AT] = look_at
    names.slots[LOOKED] = looked
    names.slots[SMALL] = small
    names.slots[START] = start


@native
def remember(
    none: borrowed, true: borrowed, plain_type: borrowed, handle_type: borrowed, int_type: borrowed, leaf_op: borrowed,
    constant_op: borrowed, plans: borrowed, emissions: borrowed, counts: borrowed, answer_type: borrowed,
    reads_type: borrowed, call_name: borrowed,
    acquire_name: borrowed, release_name: borrowed, lock: borrowed, counter: borrowed, out_of_range: borrowed,
    first_limit: borrowed, pending_limit: i64, empty: borrowed, told: borrowed, aliases: borrowed,
    argument_op: borrowed, steps_type: borrowed, false: borrowed,
) -> void:
    """The objects of Python's that are compared and used: they live as long as the process."""
    tape.none = ptr(none)
    tape.true = ptr(true)
    tape.plain_type = ptr(plain_type)
    tape.handle_type = ptr(handle_type)
    tape.int_type = ptr(int_type)
    tape.leaf_op = ptr(leaf_op)
    tape.constant_op = ptr(constant_op)
    names.plans = ptr[Plans](plans)
    names.emissions = ptr[Plans](emissions)
    names.counts = ptr[Counts](counts)
    names.answer_type = ptr(answer_type)
    names.reads_type = ptr(reads_type)
    names.call_name = ptr(call_name)
    names.acquire_name = ptr(acquire_name)
    names.release_name = ptr(release_name)
    names.lock = ptr(lock)
    names.counter = ptr(counter)
    names.out_of_range = ptr(out_of_range)
    names.first_limit = ptr(first_limit)
    names.pending_limit = pending_limit
    names.empty = ptr(empty)
    names.told = ptr(told)
    names.aliases = ptr(aliases)
    names.argument_op = ptr(argument_op)
    names.steps_type = ptr(steps_type)
    names.false = ptr(false)
