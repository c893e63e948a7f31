"""Objects of recordings as machine code sees them: nodes, kinds, leaves, handles, tables and counts, as structs.

    RawNode, RawKind, ...     the slots of `autodiff.tape.node.Node`, `Kind`, ... as words in memory
    tape                      objects of Python's that are compared and used: `remember`
    count_of, input_at, ...   what nodes and leaves have

Slots stand in the order of their names, a leading underscore first.  Those that are not read, and stand behind the
others, are left out.  `recording_asks.has_known_slots` compares fields and slots.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, borrowed, i64, likely, native, ptr, static, u32, u64, unlikely, void
from . import recording_objects as py

__all__ = [
    "ASKED", "BACKWARD", "BEGAN", "CLOCK", "HITS", "LIMIT", "LOOKED", "LOOK_AT", "NODES", "RULES", "RUNS", "SMALL",
    "SOME", "START", "TENSORS", "VALUE", "RawCounts", "RawFunction", "RawHandle", "RawKind", "RawLeaf", "RawMode",
    "RawNode", "RawOut", "RawRecording", "RawRich", "RawTable", "Tape", "body_of", "count_of", "drop_inputs", "flow_of",
    "input_at", "int_or", "is_filled", "is_plain_or_no_leaf", "old_of", "remember", "tape", "word_of",
]  # fmt: skip


class RawOut(Struct):
    head: py.RawObject
    as_leaf: ptr[RawKind]
    aval: ptr
    cls: ptr
    flows: ptr
    requires_grad: ptr
    shape: ptr
    small: ptr
    weak: ptr


class RawKind(Struct):
    head: py.RawObject
    freed: ptr[RawKind]
    heavy: ptr
    op: ptr
    out: ptr[RawOut]
    params: ptr
    released: ptr
    rules: ptr
    runs: ptr
    told: ptr
    tracks: ptr


class RawNode(Struct):
    """A node: `first` and `second` are its inputs where `inputs` is null; `number` is odd, or an object."""

    references: u32
    rest: u32
    type: ptr
    first: ptr[RawNode]
    inputs: ptr
    kind: ptr[RawKind]
    mark: u64
    number: u64
    second: ptr[RawNode]
    value: ptr


class RawRich(RawNode):
    """A node with room for more."""

    body: ptr
    call: ptr
    flow: ptr
    hooks: ptr
    leaf: ptr[RawLeaf]
    line: ptr
    retained: ptr
    slot: ptr


class RawLeaf(Struct):
    head: py.RawObject
    after: ptr
    grad: ptr[RawHandle]
    hooks: ptr
    owner: ptr


class RawHandle(Struct):
    head: py.RawObject
    masked: ptr
    node: ptr[RawNode]


class RawRecording(Struct):
    """All slots of a recording, in the order of their names."""

    head: py.RawObject
    asked: ptr
    began: ptr
    body: ptr
    bounded: ptr
    captures: ptr
    differentiated: ptr
    fixed: ptr
    inside: ptr
    lends: ptr
    lent: ptr
    limit: ptr
    lines: ptr
    literal: ptr
    look_at: ptr
    looked: ptr
    most_updated: ptr
    outside: ptr
    seen: ptr
    since: ptr
    small: ptr
    start: ptr
    tracing: ptr
    transforming: ptr
    unseen: ptr


class RawMode(Struct):
    head: py.RawObject
    anomalies: ptr
    careful: ptr
    closely: ptr
    eager: ptr
    keeps_lines: ptr
    lightly: ptr
    off: ptr
    on: ptr
    others: ptr
    tracks: ptr
    watching: ptr


class RawFunction(Struct):
    """A function that has room for a site of the recorder's."""

    head: py.RawObject
    site: ptr


class RawTable(Struct):
    """The slots of a table, of plans say."""

    head: py.RawObject
    clock: ptr
    entries: ptr


class RawCounts(Struct):
    head: py.RawObject
    asks: ptr
    hits: ptr
    misses: ptr
    rules: ptr
    runs: ptr


def word_of(struct: type[Struct], name: str) -> int:
    """The number of the word that a field is."""
    return struct.fields()[name].offset // 8


HITS, RULES, RUNS = [word_of(RawCounts, name) for name in ("hits", "rules", "runs")]
ASKED, BEGAN, LIMIT, LOOK_AT, LOOKED, SMALL, START = [
    word_of(RawRecording, name) for name in ("asked", "began", "limit", "look_at", "looked", "small", "start")
]
CLOCK = word_of(RawTable, "clock")


#: The purposes of asks: values; gradients into `.grad`; those of tensors, all versions of a leaf being one; of nodes;
#: gradients of tensors of which some may not be reached.
VALUE, BACKWARD, TENSORS, NODES, SOME = 1, 2, 3, 4, 5


class Tape(Struct):
    """Objects of Python's that are compared and used.

    call_name, acquire_name, release_name    names of methods
    lock              of commits;   counter: the numbers of nodes
    first_limit, pending_limit    how many nodes may be pending, at first and in all
    told              `recorder.told`: what is known of calls by their keys
    new_array         `numpy.empty`
    run_as_name       of what gives a kind its `runs`
    aliases           operations that give their input
    mode              the ContextVar of the mode
    note_small, note_updated, look_at, force, held, python_...    functions of Python's: see `RecordLayout`
    few               of how many elements an array is copied
    answers           True if asks are answered natively
    """

    none: ptr
    true: ptr
    false: ptr
    empty: ptr
    plain_type: ptr
    handle_type: ptr
    int_type: ptr
    tuple_type: ptr
    bool_type: ptr
    float_type: ptr
    str_type: ptr
    answer_type: ptr
    rules_type: ptr
    leaf_op: ptr
    constant_op: ptr
    argument_op: ptr
    aliases: ptr
    plans: ptr[RawTable]
    counts: ptr[RawCounts]
    lock: ptr
    counter: ptr
    out_of_range: ptr
    first_limit: ptr
    pending_limit: ptr
    told: ptr
    call_name: ptr
    acquire_name: ptr
    release_name: ptr
    new_array: ptr
    run_as_name: ptr
    item_name: ptr
    not_implemented: ptr
    ellipsis: ptr
    zero: ptr
    rich_type: ptr
    kind_type: ptr
    leaf_type: ptr
    self_type: ptr
    list_type: ptr
    slice_type: ptr
    array_type: ptr
    float64_type: ptr
    float32_type: ptr
    int64_type: ptr
    int64_descr: ptr
    mode: ptr
    note_small: ptr
    note_updated: ptr
    look_at: ptr
    force: ptr
    held: ptr
    start_kind: ptr[RawKind]
    allocator: ptr
    few: ptr
    python_numpy: ptr
    python_array: ptr
    python_item: ptr
    python_float: ptr
    python_bool: ptr
    python_get_grad: ptr
    python_set_grad: ptr
    answers: ptr


tape = static(Tape)


@native
def remember(objects: borrowed) -> void:
    """Keep the objects of a tuple in `tape`: they live as long as the process."""
    words = ptr[ptr](tape)
    for i in range(py.tuple_size(ptr(objects))):
        words[i] = py.tuple_item(ptr(objects), i)


@native(inline=True)
def int_or(value: ptr, otherwise: i64) -> i64:
    """The value of an int; for anything else, and for null, the other number."""
    if value is None or py.class_of(value) is not tape.int_type:
        return otherwise
    return py.int_value(value)


# ------------------------------------------------------------------ nodes


@native(inline=True)
def count_of(n: ptr[RawNode]) -> i64:
    """The number of a node's inputs."""
    if likely(n.inputs is None):
        return i64(n.first is not None) + i64(n.second is not None)
    return py.tuple_size(n.inputs)


@native(inline=True)
def input_at(n: ptr[RawNode], i: i64) -> ptr[RawNode]:
    if likely(n.inputs is None):
        return n.first if i == 0 else n.second
    return ptr[RawNode](py.tuple_item(n.inputs, i))


@native(inline=True)
def drop_inputs(n: ptr[RawNode]) -> void:
    """Let a node drop its inputs."""
    first = n.first
    second = n.second
    inputs = n.inputs
    n.first = None
    n.second = None
    n.inputs = None
    py.dec(ptr(first))
    py.dec(ptr(second))
    py.dec(inputs)


@native(inline=True)
def is_filled(dictionary: ptr) -> bool:
    """True for a dictionary with entries; it may be None."""
    return dictionary is not tape.none and dictionary is not None and py.dict_size(dictionary) > 0


@native(inline=True)
def body_of(r: ptr[RawRich], count: i64) -> i64:
    """The number of the input that has a boundary's value; -1 for another node."""
    if r.body is tape.none or count == 0:
        return -1
    return py.int_value(r.body)


@native(inline=True)
def old_of(leaf: ptr[RawLeaf]) -> ptr[RawNode]:
    """The node of the gradient that a leaf has; null for none."""
    if leaf.grad is None or ptr(leaf.grad) is tape.none:
        return None
    return leaf.grad.node


@native(inline=True)
def is_plain_or_no_leaf(n: ptr[RawNode]) -> bool:
    return n.type is tape.plain_type or ptr(ptr[RawRich](n).leaf) is tape.none


@native(inline=True)
def flow_of(n: ptr[RawNode], count: i64, ends: ptr[i64]) -> void:
    """The inputs that gradients of a node flow to: from `ends[0]` up to `ends[1]`; there is room for a third number."""
    ends[0] = 0
    ends[1] = count
    if unlikely(n.type is not tape.plain_type):
        r = ptr[RawRich](n)
        if ptr(r.leaf) is not tape.none:
            ends[1] = 0
        elif r.flow is not tape.none:
            py.slice_ends(r.flow, ends, ends + 1, ends + 2)
