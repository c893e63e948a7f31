"""Where nodes and handles (`record_ir`) come from, and where they go, as LLVM IR text.

A recording makes and drops the same small objects again and again; Python's general way of freeing one, which
asks its class what there is to clear, takes as long as recording the operation.  So the class of nodes and those
of handles have a `tp_dealloc` of their own, and what is freed is kept for the next of its kind: as CPython does with
tuples and floats.

    new_node_object, new_rich_object, new_handle(class)    of refcount 1, followed by the collector, fields are null
    node_dealloc, rich_dealloc, handle_dealloc    also called for an object of a class below, which is freed as usual

Chains of nodes are as long as programs run, so nodes are freed one after the other: what is let go of amid a few others
is put on a list, and taken from it when these are gone.
"""

from __future__ import annotations

__all__ = ["DEEPEST", "KEPT", "LIFE", "RICH"]

#: The number of each that is kept, some 100 bytes an object: 200 steps of a small policy have 6,400 nodes.  Those above
#: it count as new for the collector of cycles, which then goes through all of them again and again: 5 us a step there.
KEPT = 16384
#: The number of nodes that are freed one amid the other, before others wait: each takes room on the stack.
DEEPEST = 16

#: What a rich node has beside what all nodes have.
RICH = ("leaf_at", "retained_at", "call_at", "hooks_at", "rich_line_at", "rich_body_at", "flow_at", "slot_at")

_NEW_OBJECT = """define internal ptr @new_$NAME_object()$HOW {
  %class = call ptr @own.object(i64 $$NAME_type)
  %object = call ptr @used_or_new(ptr @free.$LIST, ptr @room.for.$LIST, ptr %class)
  ret ptr %object
}

"""


def _new_object(name: str, kept: str, how: str = "") -> str:
    """The function that makes a node of this sort: one that is kept, or a new one."""
    return _NEW_OBJECT.replace("$NAME", name).replace("$LIST", kept).replace("$HOW", how)


LIFE = (
    """
declare void @PyObject_GC_UnTrack(ptr)
declare void @PyObject_GC_Track(ptr)
declare void @PyObject_GC_Del(ptr)
declare void @PyObject_ClearWeakRefs(ptr)

; Objects that nobody has, linked by the words of their refcounts; how many more may be kept, and may ever be.
; For each object that is made here one is kept, so that what Python makes does not pile up.
@free.nodes = internal global ptr null
@free.handles = internal global ptr null
@free.rich = internal global ptr null
@room.for.nodes = internal global [2 x i64] [i64 0, i64 $KEPT]
@room.for.handles = internal global [2 x i64] [i64 0, i64 $KEPT]
@room.for.rich = internal global [2 x i64] [i64 0, i64 $KEPT]

define ptr @life() { ret ptr @node_dealloc }
define ptr @rich_life() { ret ptr @rich_dealloc }
define ptr @traverse() { ret ptr @node_traverse }
define ptr @clear() { ret ptr @node_clear }

; An object of this class from such a list, as if it were new, or a new one where the list is empty.
define internal ptr @used_or_new(ptr %list, ptr %room, ptr %class) alwaysinline {
entry:
  %object = load ptr, ptr %list
  %is.empty = icmp eq ptr %object, null
  br i1 %is.empty, label %another, label %take
another:
  %most.at = getelementptr i64, ptr %room, i64 1
  %most = load i64, ptr %most.at
  %may.grow = icmp ne i64 %most, 0
  %grown = select i1 %may.grow, i64 1, i64 0
  %most.left = sub i64 %most, %grown
  store i64 %most.left, ptr %most.at
  %had = load i64, ptr %room
  %has = add i64 %had, %grown
  store i64 %has, ptr %room
  %made = call ptr @PyType_GenericAlloc(ptr %class, i64 0)
  ret ptr %made
take:
  %count.at = getelementptr i8, ptr %object, i64 $REFERENCES
  %next = load ptr, ptr %count.at
  store ptr %next, ptr %list
  %left = load i64, ptr %room
  %more = add i64 %left, 1
  store i64 %more, ptr %room
  store i64 1, ptr %count.at
  %type.at = getelementptr i8, ptr %object, i64 $TYPE
  store ptr %class, ptr %type.at
  call void @Py_IncRef(ptr %class)
  call void @PyObject_GC_Track(ptr %object)
  ret ptr %object
}

$NEW_NODE$NEW_RICH; Classes of handles are adopted when the first handle of each is made here.
define internal ptr @new_handle(ptr %class) alwaysinline {
entry:
  %dealloc.at = getelementptr i8, ptr %class, i64 $DEALLOC
  %dealloc = load ptr, ptr %dealloc.at
  %is.ours = icmp eq ptr %dealloc, @handle_dealloc
  br i1 %is.ours, label %take, label %look
look:
  %usual = call ptr @own.object(i64 $usual_dealloc)
  %is.usual = icmp eq ptr %dealloc, %usual
  br i1 %is.usual, label %adopt, label %make
adopt:
  store ptr @handle_dealloc, ptr %dealloc.at
  br label %take
take:
  %object = call ptr @used_or_new(ptr @free.handles, ptr @room.for.handles, ptr %class)
  ret ptr %object
make:
  %made = call ptr @PyType_GenericAlloc(ptr %class, i64 0)
  ret ptr %made
}

; Let go of what a field has.
define internal void @clear_field(ptr %object, i64 %number) alwaysinline {
  %offset = call i64 @own(i64 %number)
  %at = getelementptr i8, ptr %object, i64 %offset
  %old = load ptr, ptr %at
  store ptr null, ptr %at
  call void @Py_DecRef(ptr %old)
  ret void
}

; Keep an object, or free it.
define internal void @put_away(ptr %object, i1 %is.exact, ptr %list, ptr %room) alwaysinline {
entry:
  %class = call ptr @class_of(ptr %object)
  %left = load i64, ptr %room
  %has.room = icmp ne i64 %left, 0
  %is.kept = and i1 %is.exact, %has.room
  br i1 %is.kept, label %keep, label %free
keep:
  %less = sub i64 %left, 1
  store i64 %less, ptr %room
  %first = load ptr, ptr %list
  %count.at = getelementptr i8, ptr %object, i64 $REFERENCES
  store ptr %first, ptr %count.at
  store ptr %object, ptr %list
  br label %done
free:
  call void @PyObject_GC_Del(ptr %object)
  br label %done
done:
  call void @Py_DecRef(ptr %class)
  ret void
}

define internal void @clear_node(ptr %self) alwaysinline {
  call void @clear_field(ptr %self, i64 $kind_at)
  call void @drop_inputs(ptr %self)
  call void @clear_field(ptr %self, i64 $value_at)
  call void @clear_number(ptr %self)
  %mark = call ptr @place(ptr %self, i64 $mark_at)
  store i64 0, ptr %mark
  ret void
}

; Nodes that nobody has any more, linked by the words of their refcounts; the thread that frees nodes, and how many of
; them it is at, one amid the other.  A thread that is gone, after a fork say, is at none.
@dying = internal global ptr null
@freeing = internal global ptr null
@depth = internal global i64 0

define void @node_dealloc(ptr %self) {
  call void @PyObject_GC_UnTrack(ptr %self)
  call void @free_in_turn(ptr %self)
  ret void
}

; Free a node and all that only it has: a few one amid the other, and what these let go of from the list.
define internal void @free_in_turn(ptr %self) {
entry:
  %thread = call ptr @PyThreadState_Get()
  %last = load ptr, ptr @freeing
  %is.same = icmp eq ptr %last, %thread
  %last.depth = load i64, ptr @depth
  %depth = select i1 %is.same, i64 %last.depth, i64 0
  %is.deep = icmp uge i64 %depth, $DEEPEST
  br i1 %is.deep, label %later, label %now
later:
  %link = getelementptr i8, ptr %self, i64 $REFERENCES
  %others = load ptr, ptr @dying
  store ptr %others, ptr %link
  store ptr %self, ptr @dying
  ret void
now:
  store ptr %thread, ptr @freeing
  %deeper = add i64 %depth, 1
  store i64 %deeper, ptr @depth
  br label %one
one:
  %node = phi ptr [ %self, %now ], [ %next, %another ]
  %class = call ptr @class_of(ptr %node)
  %plain = call ptr @own.object(i64 $node_type)
  %is.plain = icmp eq ptr %class, %plain
  br i1 %is.plain, label %free.plain, label %free.other
free.plain:
  call void @clear_node(ptr %node)
  call void @put_away(ptr %node, i1 true, ptr @free.nodes, ptr @room.for.nodes)
  br label %look
free.other:
  call void @free_rich(ptr %node, ptr %class)
  br label %look
look:
  %next = load ptr, ptr @dying
  %is.all = icmp eq ptr %next, null
  br i1 %is.all, label %done, label %another
another:
  %next.link = getelementptr i8, ptr %next, i64 $REFERENCES
  %rest = load ptr, ptr %next.link
  store ptr %rest, ptr @dying
  store i64 0, ptr %next.link
  br label %one
done:
  store i64 %depth, ptr @depth
  ret void
}

; A node with more, or of a class below.
define internal void @free_rich(ptr %self, ptr %class) noinline {
entry:
  %rich = call ptr @own.object(i64 $rich_type)
  %is.exact = icmp eq ptr %class, %rich
  br i1 %is.exact, label %more, label %less
more:
$CLEARED  br label %less
less:
  call void @clear_node(ptr %self)
  call void @put_away(ptr %self, i1 %is.exact, ptr @free.rich, ptr @room.for.rich)
  ret void
}

; Who refers to an object weakly is told that it is gone; the word says where it has them.
define internal void @tell_weak(ptr %self, i64 %number) alwaysinline {
entry:
  %weak = call ptr @field(ptr %self, i64 %number)
  %is.unseen = icmp eq ptr %weak, null
  br i1 %is.unseen, label %done, label %tell
tell:
  call void @PyObject_ClearWeakRefs(ptr %self)
  br label %done
done:
  ret void
}

define void @rich_dealloc(ptr %self) {
  call void @PyObject_GC_UnTrack(ptr %self)
  call void @tell_weak(ptr %self, i64 $rich_references_at)
  call void @free_in_turn(ptr %self)
  ret void
}

define void @handle_dealloc(ptr %self) {
  call void @PyObject_GC_UnTrack(ptr %self)
  call void @tell_weak(ptr %self, i64 $references_at)
  call void @clear_field(ptr %self, i64 $node_at)
  call void @clear_field(ptr %self, i64 $masked_at)
  %class = call ptr @class_of(ptr %self)
  %dealloc.at = getelementptr i8, ptr %class, i64 $DEALLOC
  %dealloc = load ptr, ptr %dealloc.at
  %is.exact = icmp eq ptr %dealloc, @handle_dealloc
  call void @put_away(ptr %self, i1 %is.exact, ptr @free.handles, ptr @room.for.handles)
  ret void
}
"""
    .replace("$CLEARED", "".join([f"  call void @clear_field(ptr %self, i64 ${name})\n" for name in RICH]))
    .replace("$NEW_NODE", _new_object("node", "nodes", " alwaysinline"))
    .replace("$NEW_RICH", _new_object("rich", "rich"))
)
