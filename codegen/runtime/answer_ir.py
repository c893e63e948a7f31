"""A pending value that a handle is asked for (`record_read_ir`), as LLVM IR text: `recording_answer` is asked for it.

    answered(node)    internal: 1 when the value was computed, 0 where Python is to be asked, -1 with an exception
"""

from __future__ import annotations

__all__ = ["ANSWERS"]

ANSWERS = """
declare ptr @PyDict_GetItem(ptr, ptr)
declare ptr @PyWeakref_GetObject(ptr)
declare ptr @PyErr_NoMemory()

; Exchange what a field has; the new reference is taken.
define internal void @replace_field(ptr %object, i64 %number, ptr %value) alwaysinline {
  %old = call ptr @field(ptr %object, i64 %number)
  call void @set_field(ptr %object, i64 %number, ptr %value)
  call void @Py_DecRef(ptr %old)
  ret void
}

define internal void @release_all(ptr %objects, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %one
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @Py_DecRef(ptr %object)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}

define internal i32 @answered(ptr %root) {
entry:
  %mode.cell = alloca ptr
  %answer = call ptr @own.object(i64 $answer_value)
  %is.none.known = icmp eq ptr %answer, null
  br i1 %is.none.known, label %python, label %where
where:
  %recording = call ptr @recording_now(ptr %mode.cell)
  %is.not.now = icmp eq ptr %recording, null
  br i1 %is.not.now, label %python, label %untraced
untraced:
  %tracing = call ptr @field(ptr %recording, i64 $tracing_at)
  %zero = call ptr @own.object(i64 $zero)
  %is.untraced = icmp eq ptr %tracing, %zero
  br i1 %is.untraced, label %ask, label %python
ask:
  %mode = load ptr, ptr %mode.cell
  %true = call ptr @own.object(i64 $true)
  %tracks = icmp eq ptr %mode, %true
  call void @Py_IncRef(ptr %recording)
  %found = call ptr %answer(ptr %recording, ptr %root, i1 %tracks)
  call void @Py_DecRef(ptr %recording)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %error, label %look
look:
  %is.done = icmp eq ptr %found, %true
  call void @Py_DecRef(ptr %found)
  %status = zext i1 %is.done to i32
  ret i32 %status
error:
  ret i32 -1
python:
  ret i32 0
}
"""
