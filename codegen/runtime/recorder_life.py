"""Allocation and release of nodes and handles, in native Python.

Python's general way of freeing an object takes as long as recording an operation.  So the classes of nodes and handles
have a `tp_dealloc` of their own, and freed objects are kept on free lists, as CPython does with tuples.

    new_plain(), new_rich(), new_handle(cls)    a new object: refcount 1, tracked by the cycle collector, fields null
    node_dealloc, rich_dealloc, handle_dealloc    release one; an object of a subclass is freed in the usual way
    node_traverse, node_clear    visit and clear the references of a node, for the cycle collector

Chains of nodes are long.  Beyond a certain depth of nested releases a node therefore waits on a list for its release.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, Struct, extern, fn, i32, i64, native, own, ptr, static, u64, void
from . import recording_objects as py
from .recording_structs import RawHandle, RawNode, RawRich, drop_inputs, tape, word_of
from .slots import DEALLOC

#: The most objects on each free list, some 100 bytes each: 200 steps of a small policy have 6,400 nodes.  Objects above
#: it count as new for the cycle collector, which then goes through all of them again and again: 5 us per step there.
MOST_FREE = 16384
#: The depth of nested releases of nodes beyond which others wait: each level takes room on the stack.
DEEPEST = 16

new_object = extern("PyType_GenericAlloc", own, ptr, i64)
track = extern("PyObject_GC_Track", void, ptr)
untrack = extern("PyObject_GC_UnTrack", void, ptr)
delete = extern("PyObject_GC_Del", void, ptr)
clear_references = extern("PyObject_ClearWeakRefs", void, ptr)


class FreedObject(Struct):
    """A freed object on a list.  The word of its refcount holds the link to the next one."""

    next_object: ptr[FreedObject]
    type: ptr


class FreeList(Struct):
    """A free list of at most as many objects as were allocated here, so that those made by Python do not pile up.

    room    the number of objects that still fit;   grown: the number allocated here so far, `MOST_FREE` at most
    """

    first: ptr[FreedObject]
    room: i64
    grown: i64


class WaitingNodes(Struct):
    """Nodes without references that wait for their release.

    thread    the thread that releases nodes; for any other thread, as after a fork, the depth of nested releases is 0
    """

    first: ptr[FreedObject]
    thread: ptr
    depth: i64


class Life(Struct):
    """The usual `tp_dealloc` of handles, and the offsets at which handles and rich nodes have their weak references."""

    usual_dealloc: ptr
    handle_references: i64
    rich_references: i64


plain_free_list, rich_free_list, handle_free_list = static(FreeList), static(FreeList), static(FreeList)
waiting, life = static(WaitingNodes), static(Life)


@native
def set_life(usual_dealloc: u64, handle_references: i64, rich_references: i64) -> void:
    life.usual_dealloc = ptr(usual_dealloc)
    life.handle_references = handle_references
    life.rich_references = rich_references


# ------------------------------------------------------------------ allocation


@native(inline=True, fails=FAILS)
def reused_or_new(free_list: ptr[FreeList], cls: ptr) -> own:
    """An object of a class, from the free list or newly allocated; null with an exception."""
    found = free_list.first
    if found is None:
        if free_list.grown < MOST_FREE:
            free_list.grown += 1
            free_list.room += 1
        return new_object(cls, 0)
    free_list.first = found.next_object
    free_list.room += 1
    ptr[u64](found)[0] = 1
    found.type = cls
    py.inc(cls)
    track(found)
    return own(found)


@native(inline=True)
def new_plain() -> own[RawNode]:
    return ptr[RawNode](reused_or_new(plain_free_list, tape.plain_type))


@native
def new_rich() -> own[RawRich]:
    return ptr[RawRich](reused_or_new(rich_free_list, tape.rich_type))


@native(inline=True)
def new_handle(cls: ptr) -> own[RawHandle]:
    """A handle.  The first handle of a class that is made here gives the class the `tp_dealloc` of this file."""
    dealloc = ptr[ptr](cls + DEALLOC)
    if dealloc[0] is not handle_dealloc:
        if dealloc[0] is not life.usual_dealloc:
            return ptr[RawHandle](new_object(cls, 0))
        dealloc[0] = ptr(handle_dealloc)
    return ptr[RawHandle](reused_or_new(handle_free_list, cls))


# ------------------------------------------------------------------ release


@native(inline=True)
def free_or_keep(thing: ptr, is_exact: bool, free_list: ptr[FreeList]) -> void:
    """Put an object onto a free list, or free it."""
    cls = py.class_of(thing)
    if is_exact and free_list.room != 0:
        free_list.room -= 1
        ptr[FreedObject](thing).next_object = free_list.first
        free_list.first = ptr[FreedObject](thing)
    else:
        delete(thing)
    py.dec(cls)


@native(inline=True)
def clear_number(n: ptr[RawNode]) -> void:
    """Clear the number of a node, and release it if it is an object."""
    word = n.number
    n.number = 0
    if word & 1 == 0:
        _number: own = own(ptr(word))


VALUE = word_of(RawNode, "value")
#: The words that only rich nodes have: the first of them, and the end.
FIRST_RICH, LAST_RICH = RawNode.size() // 8, RawRich.size() // 8
TYPE, MARK, NUMBER = word_of(RawNode, "type"), word_of(RawNode, "mark"), word_of(RawNode, "number")


@native(inline=True)
def clear_node(n: ptr[RawNode]) -> void:
    n.kind = None
    drop_inputs(n)
    n.value = None
    clear_number(n)
    n.mark = 0


@native(inline=False)
def free_rich(n: ptr[RawNode]) -> void:
    """Free a rich node, or one of a subclass."""
    is_exact = n.type is tape.rich_type
    if is_exact:
        for word in range(FIRST_RICH, LAST_RICH):
            ptr[own](n)[word] = None
    clear_node(n)
    free_or_keep(n, is_exact, rich_free_list)


@native
def free_in_turn(thing: ptr) -> void:
    """Free a node and all nodes that only it holds: nested up to `DEEPEST`, beyond that one by one from a list."""
    thread = py.thread_state()
    depth = waiting.depth if waiting.thread is thread else i64(0)
    if depth >= DEEPEST:
        ptr[FreedObject](thing).next_object = waiting.first
        waiting.first = ptr[FreedObject](thing)
        return
    waiting.thread = thread
    waiting.depth = depth + 1
    n = ptr[RawNode](thing)
    while True:
        if n.type is tape.plain_type:
            clear_node(n)
            free_or_keep(n, True, plain_free_list)
        else:
            free_rich(n)
        following = waiting.first
        if following is None:
            break
        waiting.first = following.next_object
        following.next_object = None
        n = ptr[RawNode](following)
    waiting.depth = depth


@native
def node_dealloc(thing: ptr) -> void:
    untrack(thing)
    free_in_turn(thing)


@native(inline=True)
def clear_weak_references(thing: ptr, at: i64) -> void:
    """Clear the weak references to an object."""
    if ptr[ptr](thing + at)[0] is not None:
        clear_references(thing)


@native
def rich_dealloc(thing: ptr) -> void:
    untrack(thing)
    clear_weak_references(thing, life.rich_references)
    free_in_turn(thing)


@native
def handle_dealloc(thing: ptr) -> void:
    untrack(thing)
    clear_weak_references(thing, life.handle_references)
    ptr[RawHandle](thing).node = None
    ptr[RawHandle](thing).masked = None
    dealloc = ptr[ptr](py.class_of(thing) + DEALLOC)
    free_or_keep(thing, dealloc[0] is handle_dealloc, handle_free_list)


# ------------------------------------------------------------------ the cycle collector


@native
def node_traverse(thing: ptr, visit: fn[i32, ptr, ptr], data: ptr) -> i32:
    """Let the cycle collector visit the objects that a node refers to."""
    words = ptr[ptr](thing)
    for word in range(TYPE, VALUE + 1):
        if word != MARK and word != NUMBER and words[word] is not None:
            answer = visit(words[word], data)
            if answer != 0:
                return answer
    return 0


@native
def node_clear(thing: ptr) -> i32:
    """Drop the inputs of a node, which breaks a cycle that it is in."""
    drop_inputs(ptr[RawNode](thing))
    return 0
