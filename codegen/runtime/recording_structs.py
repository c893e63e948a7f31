"""Structs that mirror the Python objects of a recording in memory: nodes, kinds, leaves, handles, tables and counts.

    RawNode, RawKind, ...     the slots of `autodiff.tape.node.Node`, `Kind`, ... as words in memory
    tape                      the Python objects that machine code compares with and uses, set by `remember`
    count_of, input_at, ...   the inputs and gradients of nodes and leaves

The fields are the slots in the order of their names, a leading underscore first.  Trailing slots that machine code does
not read are left out.  `recording_asks.has_known_layout` raises if the offset of a field is not that of its slot.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, held, i64, moved, native, own, ptr, static, u32, u64, void
from . import recording_objects as py


def words(name: str, names: str, **kinds: str) -> type[Struct]:
    """Make a struct of words with these names; `kinds` gives the types of those that are not plain pointers."""
    fields = {word: kinds.get(word, "py.RawObject" if word == "head" else "ptr") for word in names.split()}
    return type(name, (Struct,), {"__annotations__": fields, "__module__": __name__})


RawOut = words("RawOut", "head as_leaf aval cls flows gradient requires_grad shape small weak", as_leaf="ptr[RawKind]",
               gradient="ptr[RawKind]")
RawKind = words("RawKind", "head computation heavy op out params released released_kind rules runs tracks",
                out="ptr[RawOut]", released_kind="ptr[RawKind]")
RawHandle = words("RawHandle", "head masked node", masked="own", node="own[RawNode]")
RawLeaf = words("RawLeaf", "head after grad hooks owner", grad="own[RawHandle]")
RawRecording = words(
    "RawRecording", "head asked asked_in_forward began captures covered_asks differentiated fixed float_asks "
    "forward_depth inside limit lines literal look_at most_updated narrowed outside since small start tracing "
    "transforming unseen",
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
    """A node.  If `inputs` is null, `first` and `second` are its inputs.  `number` is 2 n + 1, or an object if even."""

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
    """The fields of `autodiff.tape.node.RichNode`."""

    body: own
    call: own
    flow: own
    hooks: own
    leaf: own[RawLeaf]
    line: own
    retained: own
    slot: own


def word_of(struct: type[Struct], name: str) -> int:
    """The index of a field, in words of 8 bytes."""
    return struct.fields()[name].offset // 8


HITS, RULES, RUNS = [word_of(RawCounts, name) for name in ("hits", "rules", "runs")]
ASKED, FLOAT_ASKS = [word_of(RawRecording, name) for name in ("asked", "float_asks")]

#: The purposes of asks: values; gradients into `.grad`; gradients of tensors, where all versions of a leaf count as
#: one; gradients of nodes; gradients of tensors some of which may not be reached.
VALUE, BACKWARD, TENSORS, NODES, SOME = 1, 2, 3, 4, 5

#: The Python objects that machine code uses: those of `RecordLayout`, and Python's and NumPy's own (`recording_asks`).
Tape = words(
    "Tape",
    "none true false empty zero ellipsis not_implemented plain_type rich_type handle_type kind_type leaf_type "
    "answer_type rules_type address_type int_type tuple_type bool_type float_type str_type list_type slice_type "
    "array_type complex_type float64_type float32_type int64_type int64_descr leaf_op constant_op argument_op aliases "
    "lock counter run_errors first_limit pending_limit call_name acquire_name release_name run_as_name item_name "
    "mode note_small note_updated look_at force allocator answers python_numpy python_array python_item "
    "python_float python_bool accumulated add_loops plans counts start_kind",
    plans="ptr[RawTable]", counts="ptr[RawCounts]", start_kind="ptr[RawKind]",
)  # fmt: skip

tape = static(Tape)


@native
def remember(objects: ptr) -> void:
    """Store the objects of a tuple in `tape`.  The caller keeps them alive as long as the process."""
    words = ptr[ptr](tape)
    for i in range(py.tuple_size(objects)):
        words[i] = py.tuple_item(objects, i)


@native
def new_none() -> own:
    """A new reference to None, for a builtin to return."""
    return held(tape.none)


@native(inline=True)
def int_or(value: ptr, otherwise: i64) -> i64:
    """The value of an int; `otherwise` for an object of another type, and for null."""
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
    """Drop a node's inputs."""
    _first: own = moved(n.first)  # clear all three fields before the first release, which may run any Python
    _second: own = moved(n.second)
    _inputs: own = moved(n.inputs)


@native(inline=True)
def is_filled(dictionary: ptr) -> bool:
    """True for a dictionary with entries; False for an empty one, for None and for null."""
    return dictionary is not tape.none and dictionary is not None and py.dict_size(dictionary) > 0


@native(inline=True)
def body_of(r: ptr[RawRich], count: i64) -> i64:
    """The number of the input that holds a boundary's value; -1 for a node that is no boundary."""
    if r.body is tape.none or count == 0:
        return -1
    return py.int_value(r.body)


@native(inline=True)
def old_of(leaf: ptr[RawLeaf]) -> ptr[RawNode]:
    """The node of a leaf's `.grad`; null if the leaf has none."""
    if leaf.grad is None or leaf.grad is tape.none:
        return None
    return leaf.grad.node


@native(inline=True)
def is_plain_or_no_leaf(n: ptr[RawNode]) -> bool:
    return n.type is tape.plain_type or ptr(ptr[RawRich](n).leaf) is tape.none


@native(inline=True)
def flow_of(n: ptr[RawNode], count: i64, ends: ptr[i64]) -> void:
    """Set the range of inputs that gradients of a node flow to, `ends[0]` up to `ends[1]`; `ends` has three words."""
    ends[0] = 0
    ends[1] = count
    if n.type is not tape.plain_type:
        r = ptr[RawRich](n)
        if r.leaf is not tape.none:
            ends[1] = 0
        elif r.flow is not tape.none:
            py.slice_ends(r.flow, ends, ends + 1, ends + 2)
