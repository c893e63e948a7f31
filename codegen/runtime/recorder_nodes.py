"""The contents of nodes, in native Python: their numbers, which are raw words, and their inputs.

    number       2 n + 1; or an object, in nodes that Python made before machine code recorded, and of some hooks
    inputs       a tuple; or null: then `first` and `second` are the inputs (a null one is missing)
    mark         a raw word, for walks

So a node is one object: a tuple and an int beside it took as long to make and to free as everything else.  Python sees
number and inputs as attributes (`get_inputs`, ...); when it reads the inputs, they move to a tuple.

    new_node, new_leaf        make a node without inputs; a handle on such a node
    new_step, new_steps       make one node of a program; all of its nodes
    node_of, kind_of          the node of a handle, the kind of a node
    recording_here()          the recording of this thread, if machine code knows it
    recording_now(tracks)     the same, if machine code may record now; with the grad mode
    recording_operations(tracks)    the same, also in a trace that only needs the nodes of operations
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, array, extern, held, i32, i64, local, moved, native, own, ptr, static, u64, void
from . import recording_objects as py
from .record_table import MOST_NODES
from .recorder_life import clear_number, new_handle, new_plain
from .recording_structs import RawHandle, RawKind, RawMode, RawNode, RawRecording, count_of, int_or, tape

#: The size of the table of known classes of handles.
TYPES = 256
#: A number above that of any node.
LATEST = (1 << 63) - 1

bad_argument = extern("PyErr_BadArgument", void)


class Counter(Struct):
    """The head of an `itertools.count`, with the number that comes next."""

    head: py.RawObject
    number: i64


handle_classes = static(array[ptr, TYPES])


@native(inline=True)
def number_of(n: ptr[RawNode]) -> i64:
    """The number of a node; -1 if the number is no int."""
    if n.number & 1 != 0:
        return i64(n.number) >> 1
    return int_or(ptr(n.number), -1)


@native(inline=True)
def is_captured(n: ptr[RawNode], now: ptr[RawRecording]) -> bool:
    """True for a node that is older than the newest argument that a running function is differentiated with respect to:
    the function has captured it, or passed it on unchanged."""
    return number_of(n) < int_or(now.since, LATEST)


@native(inline=True)
def node_of(x: ptr) -> ptr[RawNode]:
    """The node of a handle; null for anything else."""
    cls = py.class_of(x)
    place = (u64(cls) >> 4 ^ u64(cls) >> 12) & TYPES - 1
    if handle_classes[place] is not cls:
        if py.is_subtype(cls, tape.handle_type) == 0:
            return None
        handle_classes[place] = cls  # classes of handles live as long as the process
    n = ptr[RawHandle](x).node
    if n is None or (n.type is not tape.plain_type and n.type is not tape.rich_type):
        return None
    return n


@native(inline=True)
def kind_of(n: ptr[RawNode]) -> ptr[RawKind]:
    """The kind of a node; null if the node has none."""
    if n.kind is None or py.class_of(n.kind) is not tape.kind_type:
        return None
    return n.kind


@native(inline=True)
def is_masked(x: ptr, n: ptr[RawNode]) -> bool:
    """True for a handle that is masked; `n` is the node of an operand."""
    return n is not None and ptr[RawHandle](x).masked is tape.true


# ------------------------------------------------------------------ new nodes


class NodeWords(Struct):
    """A step of a program, which records one node.  Its inputs are numbers of nodes before it, operands first."""

    kind: ptr[RawKind]
    value: ptr
    count: i64
    inputs: array[i64, MOST_NODES]


@native(inline=True)
def next_number() -> u64:
    """The next number, as a word 2 n + 1.  Python takes its numbers from the same counter."""
    counter = ptr[Counter](tape.counter)
    counter.number += 1
    return u64(counter.number << 1) - 1


@native
def new_node(kind: ptr[RawKind], value: ptr) -> own[RawNode]:
    """A node without inputs; null with an exception."""
    n: own[RawNode] = new_plain()
    if n is not None:
        n.kind = held(kind)
        n.value = held(value)
        n.number = next_number()
    return n


@native
def new_step(step: ptr[NodeWords], nodes: ptr[own[RawNode]]) -> own[RawNode]:
    """Make the node of a step; null with an exception."""
    n: own[RawNode] = new_node(step.kind, step.value)
    if n is None:
        return None
    if step.count <= 2:
        if step.count > 0:
            n.first = held(nodes[step.inputs[0]])
        if step.count > 1:
            n.second = held(nodes[step.inputs[1]])
        return n
    inputs: own = py.new_tuple(step.count)
    if inputs is None:
        return None
    for i in range(step.count):
        py.set_tuple(inputs, i, held(nodes[step.inputs[i]]))
    n.inputs = moved(inputs)
    return n


@native(inline=True)
def new_steps(step: ptr[NodeWords], count: i64, nodes: ptr[own[RawNode]], there: i64) -> i64:
    """Make the nodes of `count` steps behind `there` nodes: the new number of nodes, fewer with an exception."""
    for _k in range(count):
        ptr[ptr](nodes)[there] = None
        nodes[there] = new_step(step, nodes)
        if nodes[there] is None:
            return there
        there += 1
        step = ptr[NodeWords](step.inputs + step.count)
    return there


@native
def new_leaf(kind: ptr[RawKind], value: ptr) -> own[RawHandle]:
    """A handle on a new node with a value; null with an exception."""
    n: own[RawNode] = new_node(kind, value)
    if n is None:
        return None
    handle: own[RawHandle] = new_handle(kind.out.cls)
    if handle is None:
        return None
    handle.node = moved(n)
    handle.masked = held(tape.false)
    return handle


# ------------------------------------------------------------------ attributes for Python


@native
def inputs_of(n: ptr[RawNode]) -> own:
    """The inputs as a tuple, a new reference; `first` and `second` move into the tuple.  Null with an exception."""
    while n.inputs is None:
        count = count_of(n)
        made: own = py.new_tuple(count)
        if made is None:
            return None
        if n.inputs is not None or count_of(n) != count:
            continue  # the allocation ran other Python, which has dropped or moved the inputs
        if count > 0:
            py.set_tuple(made, 0, moved(n.first))
        if count > 1:
            py.set_tuple(made, 1, moved(n.second))
        n.inputs = moved(made)
    return held(n.inputs)


@native
def get_inputs(n: ptr[RawNode], unused: ptr) -> own:
    return inputs_of(n)


@native
def set_inputs(n: ptr[RawNode], value: ptr, unused: ptr) -> i32:
    if value is None or py.class_of(value) is not tape.tuple_type:
        bad_argument()
        return -1
    _first: own = moved(n.first)
    _second: own = moved(n.second)
    n.inputs = held(value)
    return 0


@native
def get_number(n: ptr[RawNode], unused: ptr) -> own:
    if n.number & 1 != 0:
        return py.int_of(number_of(n))
    if n.number == 0:
        bad_argument()
        return None
    return held(ptr(n.number))


@native
def set_number(n: ptr[RawNode], value: ptr, unused: ptr) -> i32:
    """Give a node a number; null deletes the number."""
    word = u64(value)
    if value is not None:
        if py.class_of(value) is tape.int_type:
            word = u64(py.int_value(value) << 1 | 1)
        else:
            py.inc(value)
    clear_number(n)
    n.number = word
    return 0


# ------------------------------------------------------------------ the recording of this thread

thread_number = extern("PyThreadState_GetID", i64, ptr)


class ThreadRecording(Struct):
    """The number of the thread that machine code records for, and the recording of this thread."""

    thread: i64
    recording: ptr[RawRecording]


here = static(ThreadRecording)


@native
def recorder_here() -> ptr[ThreadRecording]:
    return here


@native(inline=True)
def recording_here() -> ptr[RawRecording]:
    """The recording of this thread; null if machine code records for another thread."""
    return here.recording if thread_number(py.thread_state()) == here.thread else None


@native(inline=True)
def recording_in_mode(tracks: ptr[ptr], is_light: bool) -> ptr[RawRecording]:
    now = recording_here()
    if now is None or now.literal is not tape.false or now.captures is not tape.none:
        return None
    found = local(own, 1)
    if py.context_value(tape.mode, None, found) < 0:
        py.clear_error()  # Python records instead, and meets the error again
        return None
    if found[0] is None:
        return None
    mode = ptr[RawMode](found[0])
    if (mode.watching if is_light else mode.careful) is not tape.false:
        return None
    tracks[0] = mode.tracks
    return now


@native(inline=True)
def recording_now(tracks: ptr[ptr]) -> ptr[RawRecording]:
    """The recording of this thread, if machine code may record now, else null.  The grad mode goes to `tracks`."""
    return recording_in_mode(tracks, False)


@native(inline=True)
def recording_operations(tracks: ptr[ptr]) -> ptr[RawRecording]:
    """The same as `recording_now`, for code that only makes nodes: it changes no handle and asks for no value."""
    return recording_in_mode(tracks, True)
