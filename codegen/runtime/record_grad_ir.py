"""The `.grad` of handles (`record_ir`), as LLVM IR text.

    get_grad, set_grad    of a leaf, or of what retains its gradient; setting None

Whatever else is set, and where it is not allowed, is left to what Python has for it.
"""

from __future__ import annotations

__all__ = ["GRAD"]

GRAD = """
; The leaf of a rich node, or what retains its gradient; None of a node without; null where that is not known.
define internal ptr @leaf_of(ptr %x) {
entry:
  %node = call ptr @node_of(ptr %x)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %no, label %class
class:
  %none = call ptr @own.object(i64 $none)
  %node.class = call ptr @class_of(ptr %node)
  %rich.type = call ptr @own.object(i64 $rich_type)
  %is.rich = icmp eq ptr %node.class, %rich.type
  br i1 %is.rich, label %own.leaf, label %nothing
own.leaf:
  %leaf = call ptr @field(ptr %node, i64 $leaf_at)
  %is.none = icmp eq ptr %leaf, %none
  br i1 %is.none, label %retained, label %check
retained:
  %kept = call ptr @field(ptr %node, i64 $retained_at)
  %is.neither = icmp eq ptr %kept, %none
  br i1 %is.neither, label %nothing, label %check
check:
  %found = phi ptr [ %leaf, %own.leaf ], [ %kept, %retained ]
  %is.unset = icmp eq ptr %found, null
  br i1 %is.unset, label %no, label %check.class
check.class:
  %leaf.class = call ptr @class_of(ptr %found)
  %leaf.type = call ptr @own.object(i64 $leaf_type)
  %is.leaf = icmp eq ptr %leaf.class, %leaf.type
  br i1 %is.leaf, label %yes, label %no
yes:
  ret ptr %found
nothing:
  ret ptr %none
no:
  ret ptr null
}

define ptr @get_grad(ptr %x, ptr %unused) {
entry:
  %leaf = call ptr @leaf_of(ptr %x)
  %none = call ptr @own.object(i64 $none)
  %is.unknown = icmp eq ptr %leaf, null
  br i1 %is.unknown, label %python, label %look
look:
  %has.none = icmp eq ptr %leaf, %none
  br i1 %has.none, label %python, label %read
read:
  %grad = call ptr @field(ptr %leaf, i64 $grad_at)
  %is.unset = icmp eq ptr %grad, null
  br i1 %is.unset, label %python, label %found
found:
  call void @Py_IncRef(ptr %grad)
  ret ptr %grad
python:
  ; Of a computed tensor too, which is warned of.
  %asked = call ptr @ask_python(i64 $python_get_grad, ptr %x)
  ret ptr %asked
}

define i32 @set_grad(ptr %x, ptr %value, ptr %unused) {
entry:
  %arguments = alloca [2 x ptr]
  %none = call ptr @own.object(i64 $none)
  %clears = icmp eq ptr %value, %none
  br i1 %clears, label %where, label %python
where:
  %recording = call ptr @recording_here()
  %elsewhere = icmp eq ptr %recording, null
  br i1 %elsewhere, label %python, label %is.traced
is.traced:
  %tracing = call ptr @field(ptr %recording, i64 $tracing_at)
  %zero = call ptr @own.object(i64 $zero)
  %is.plain = icmp eq ptr %tracing, %zero
  br i1 %is.plain, label %leaf, label %python
leaf:
  %found = call ptr @leaf_of(ptr %x)
  %is.unknown = icmp eq ptr %found, null
  %is.none = icmp eq ptr %found, %none
  %is.other = or i1 %is.unknown, %is.none
  br i1 %is.other, label %python, label %clear
clear:
  %old = call ptr @field(ptr %found, i64 $grad_at)
  call void @Py_IncRef(ptr %none)
  call void @set_field(ptr %found, i64 $grad_at, ptr %none)
  call void @Py_DecRef(ptr %old)
  ret i32 0
python:
  ; Without a value it is deleted.
  %is.deleted = icmp eq ptr %value, null
  %count = select i1 %is.deleted, i64 1, i64 2
  store ptr %x, ptr %arguments
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %value, ptr %second
  %function = call ptr @own.object(i64 $python_set_grad)
  %answer = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 %count, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %error, label %set
set:
  call void @Py_DecRef(ptr %answer)
  ret i32 0
error:
  ret i32 -1
}
"""
