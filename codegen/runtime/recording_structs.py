"""Objects of recordings as machine code sees them: nodes, kinds, leaves, handles, tables and counts, as structs.

    RawNode, RawKind, ...     the slots of `autodiff.tape.node.Node`, `Kind`, ... as words in memory
    tape                      objects of Python's that are compared and used: `remember`
    count_of, input_at, ...   what nodes and leaves have

Slots stand in the order of their names, a leading underscore first.  Those that are not read, and stand behind the
others, are left out.  `recording_asks.is_as_known` compares fields and slots: it raises where one is new.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, held, i64, moved, native, own, ptr, static, u32, u64, void
from . import recording_objects as py


def words(name: str, names: str, **kinds: str) -> type[Struct]:
    """A struct of words with these names; `kinds`: of those that are no plain pointers."""
    fields = {word: kinds.get(word, "py.RawObject" if word == "head" else "ptr") for word in names.split()}
    return type(name, (Struct,), {"__annotations__": fields, "__module__": __name__})


RawOut = words("RawOut", "head as_leaf aval cls flows gradient requires_grad shape small weak", as_leaf="ptr[RawKind]",
               gradient="ptr[RawKind]")
RawKind = words(
    "RawKind", "head freed heavy op out params released rules runs told tracks", freed="ptr[RawKind]", out="ptr[RawOut]"
)
RawHandle = words("RawHandle", "head masked node", masked="own", node="own[RawNode]")
RawLeaf = words("RawLeaf", "head after grad hooks owner", grad="own[RawHandle]")
RawRecording = words(
    "RawRecording",
    "head asked began body bounded captures differentiated fixed inside lends lent limit lines literal look_at looked "
    "most_updated narrowed outside seen since small start tracing transforming unseen",
    began="own", limit="own", look_at="own", small="own", start="own",
)
RawMode = words(
    "RawMode", "head anomalies careful closely eager keeps_lines lightly off on others rich tracks watching"
)
RawFunction = words("RawFunction", "head site")
RawTable = words("RawTable", "head clock entries", clock="own")
RawSegment = words("RawSegment", "head block")
RawCounts = words("RawCounts", "head asks hits misses rules runs")


class RawNode(Struct):
    """A node: `first` and `second` are its inputs where `inputs` is null; `number` is odd, or an object."""

    references: u32
    rest: u32
    type: ptr
    first: own[RawNode]
    inputs: own
    kind: own[RawKind]
    mark: u64
    number: u64
    second: own[RawNode]
    value: own


class RawRich(RawNode):
    """A node with room for more."""

    body: own
    call: own
    flow: own
    hooks: own
    leaf: own[RawLeaf]
    line: own
    retained: own
    slot: own


def word_of(struct: type[Struct], name: str) -> int:
    """The number of the word that a field is."""
    return struct.fields()[name].offset // 8


HITS, RULES, RUNS = [word_of(RawCounts, name) for name in ("hits", "rules", "runs")]
ASKED, LOOKED = [word_of(RawRecording, name) for name in ("asked", "looked")]

#: The purposes of asks: values; gradients into `.grad`; those of tensors, all versions of a leaf being one; of nodes;
#: gradients of tensors of which some may not be reached.
VALUE, BACKWARD, TENSORS, NODES, SOME = 1, 2, 3, 4, 5

#: Objects of Python's that are compared and used: those of `RecordLayout`, and Python's own (`recording_asks`).
Tape = words(
    "Tape",
    "none true false empty zero ellipsis not_implemented plain_type rich_type handle_type kind_type leaf_type "
    "answer_type rules_type address_type int_type tuple_type bool_type float_type str_type list_type slice_type "
    "array_type float64_type float32_type int64_type int64_descr leaf_op constant_op argument_op aliases lock counter "
    "run_errors first_limit pending_limit call_name acquire_name release_name run_as_name item_name "
    "mode note_small note_updated look_at force held allocator few answers python_numpy python_array python_item "
    "python_float python_bool python_set_grad accumulated add_loops plans counts start_kind",
    plans="ptr[RawTable]", counts="ptr[RawCounts]", start_kind="ptr[RawKind]",
)  # fmt: skip

tape = static(Tape)


@native
def remember(objects: ptr) -> void:
    """Keep the objects of a tuple in `tape`: they live as long as the process."""
    words = ptr[ptr](tape)
    for i in range(py.tuple_size(objects)):
        words[i] = py.tuple_item(objects, i)


@native
def nothing() -> own:
    """None, a new reference: the result of a builtin."""
    return held(tape.none)


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
    if n.inputs is None:
        return i64(n.first is not None) + i64(n.second is not None)
    return py.tuple_size(n.inputs)


@native(inline=True)
def input_at(n: ptr[RawNode], i: i64) -> ptr[RawNode]:
    if n.inputs is None:
        return n.first if i == 0 else n.second
    return ptr[RawNode](py.tuple_item(n.inputs, i))


@native(inline=True)
def drop_inputs(n: ptr[RawNode]) -> void:
    """Let a node drop its inputs."""
    _first: own = moved(n.first)  # all of them are gone from it before one is let go
    _second: own = moved(n.second)
    _inputs: own = moved(n.inputs)


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
    if leaf.grad is None or leaf.grad is tape.none:
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
    if n.type is not tape.plain_type:
        r = ptr[RawRich](n)
        if r.leaf is not tape.none:
            ends[1] = 0
        elif r.flow is not tape.none:
            py.slice_ends(r.flow, ends, ends + 1, ends + 2)
