"""The life of nodes and handles, from memory and back to it, in native Python.

Python's general way of freeing an object takes as long as recording an operation.  So the class of nodes and those of
handles have a `tp_dealloc` of their own, and what is freed is kept for the next of its kind, as CPython's tuples are.

    new_plain(), new_rich(), new_handle(cls)    of refcount 1, followed by the collector, fields are null
    node_dealloc, rich_dealloc, handle_dealloc    also called for an object of a class below, which is freed as usual
    node_traverse, node_clear    what the collector of cycles asks

Chains of nodes are long: a node that is let go of amid a few others waits on a list until these are gone.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, Struct, extern, fn, i32, i64, native, own, ptr, static, u64, void
from . import recording_objects as py
from .recording_structs import RawHandle, RawNode, RawRich, drop_inputs, tape, word_of
from .slots import DEALLOC

#: The number of each that is kept, some 100 bytes an object: 200 steps of a small policy have 6,400 nodes.  Those above
#: it count as new for the collector of cycles, which then goes through all of them again and again: 5 us a step there.
KEPT = 16384
#: The number of nodes that are freed one amid the other, before others wait: each takes room on the stack.
DEEPEST = 16

new_object = extern("PyType_GenericAlloc", own, ptr, i64)
track = extern("PyObject_GC_Track", void, ptr)
untrack = extern("PyObject_GC_UnTrack", void, ptr)
delete = extern("PyObject_GC_Del", void, ptr)
clear_references = extern("PyObject_ClearWeakRefs", void, ptr)


class Freed(Struct):
    """An object that nobody has, linked by the word of its refcount."""

    behind: ptr[Freed]
    type: ptr


class Kept(Struct):
    """Objects that are kept.  For each that is made here one is, so that what Python makes does not pile up.

    room    how many more may be;   grown: how far that has grown
    """

    first: ptr[Freed]
    room: i64
    grown: i64


class Dying(Struct):
    """Nodes that nobody has any more.

    thread    the one that frees nodes, one that is gone, after a fork say, none;   depth: how many, one amid the other
    """

    first: ptr[Freed]
    thread: ptr
    depth: i64


class Life(Struct):
    """The usual way to free handles, and the bytes at which handles and rich nodes have their weak references."""

    usual_dealloc: ptr
    handle_references: i64
    rich_references: i64


kept_nodes, kept_rich, kept_handles = static(Kept), static(Kept), static(Kept)
dying, life = static(Dying), static(Life)


@native
def set_life(usual_dealloc: u64, handle_references: i64, rich_references: i64) -> void:
    life.usual_dealloc = ptr(usual_dealloc)
    life.handle_references = handle_references
    life.rich_references = rich_references


# ------------------------------------------------------------------ made


@native(inline=True, fails=FAILS)
def used_or_new(kept: ptr[Kept], cls: ptr) -> own:
    """An object of a class: one that is kept, as if it were new, or a new one; null with an exception."""
    found = kept.first
    if found is None:
        if kept.grown < KEPT:
            kept.grown += 1
            kept.room += 1
        return new_object(cls, 0)
    kept.first = found.behind
    kept.room += 1
    ptr[u64](found)[0] = 1
    found.type = cls
    py.inc(cls)
    track(found)
    return own(found)


@native(inline=True)
def new_plain() -> own[RawNode]:
    return ptr[RawNode](used_or_new(kept_nodes, tape.plain_type))


@native
def new_rich() -> own[RawRich]:
    return ptr[RawRich](used_or_new(kept_rich, tape.rich_type))


@native(inline=True)
def new_handle(cls: ptr) -> own[RawHandle]:
    """A handle; its class is adopted when the first of it is made here."""
    dealloc = ptr[ptr](cls + DEALLOC)
    if dealloc[0] is not handle_dealloc:
        if dealloc[0] is not life.usual_dealloc:
            return ptr[RawHandle](new_object(cls, 0))
        dealloc[0] = ptr(handle_dealloc)
    return ptr[RawHandle](used_or_new(kept_handles, cls))


# ------------------------------------------------------------------ freed


@native(inline=True)
def put_away(thing: ptr, is_exact: bool, kept: ptr[Kept]) -> void:
    """Keep an object, or free it."""
    cls = py.class_of(thing)
    if is_exact and kept.room != 0:
        kept.room -= 1
        ptr[Freed](thing).behind = kept.first
        kept.first = ptr[Freed](thing)
    else:
        delete(thing)
    py.dec(cls)


@native(inline=True)
def clear_number(n: ptr[RawNode]) -> void:
    """Let go of a number that is an object."""
    word = n.number
    n.number = 0
    if word & 1 == 0:
        _number: own = own(ptr(word))


VALUE = word_of(RawNode, "value")
#: The fields that a rich node has beside what all nodes have: from the first to behind the last.
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
    """Free a node with more, or of a class below."""
    is_exact = n.type is tape.rich_type
    if is_exact:
        for word in range(FIRST_RICH, LAST_RICH):
            ptr[own](n)[word] = None
    clear_node(n)
    put_away(n, is_exact, kept_rich)


@native
def free_in_turn(thing: ptr) -> void:
    """Free a node and all that only it has: a few one amid the other, and what these let go of from the list."""
    thread = py.thread_state()
    depth = dying.depth if dying.thread is thread else i64(0)
    if depth >= DEEPEST:
        ptr[Freed](thing).behind = dying.first
        dying.first = ptr[Freed](thing)
        return
    dying.thread = thread
    dying.depth = depth + 1
    n = ptr[RawNode](thing)
    while True:
        if n.type is tape.plain_type:
            clear_node(n)
            put_away(n, True, kept_nodes)
        else:
            free_rich(n)
        following = dying.first
        if following is None:
            break
        dying.first = following.behind
        following.behind = None
        n = ptr[RawNode](following)
    dying.depth = depth


@native
def node_dealloc(thing: ptr) -> void:
    untrack(thing)
    free_in_turn(thing)


@native(inline=True)
def tell_references(thing: ptr, at: i64) -> void:
    """Tell who refers to an object weakly that it is gone."""
    if ptr[ptr](thing + at)[0] is not None:
        clear_references(thing)


@native
def rich_dealloc(thing: ptr) -> void:
    untrack(thing)
    tell_references(thing, life.rich_references)
    free_in_turn(thing)


@native
def handle_dealloc(thing: ptr) -> void:
    untrack(thing)
    tell_references(thing, life.handle_references)
    ptr[RawHandle](thing).node = None
    ptr[RawHandle](thing).masked = None
    dealloc = ptr[ptr](py.class_of(thing) + DEALLOC)
    put_away(thing, dealloc[0] is handle_dealloc, kept_handles)


# ------------------------------------------------------------------ the collector of cycles


@native
def node_traverse(thing: ptr, visit: fn[i32, ptr, ptr], data: ptr) -> i32:
    """Let the collector visit the objects that a node has references of."""
    words = ptr[ptr](thing)
    for word in range(TYPE, VALUE + 1):
        if word != MARK and word != NUMBER and words[word] is not None:
            answer = visit(words[word], data)
            if answer != 0:
                return answer
    return 0


@native
def node_clear(thing: ptr) -> i32:
    """Let go of the objects of a node in a cycle."""
    drop_inputs(ptr[RawNode](thing))
    return 0
