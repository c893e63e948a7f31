"""Small pending results (`record_ir`), as LLVM IR text: they are computed along with what is asked for.

    note    the weak reference by which one is found at the next ask
"""

from __future__ import annotations

__all__ = ["LOOKED_BACK", "NOTE"]

#: Handles noted last that are looked at when another is: as many as a line of a program holds at once.
LOOKED_BACK = 4

NOTE = """
; Of the last handles that were noted those that are gone are left out: what a program makes of small results is mostly
; gone when it makes the next, and each that stays in the list counts as new for the collector of cycles.
define internal void @leave_out_gone(ptr %small) {
entry:
  %size = call i64 @PyList_Size(ptr %small)
  %few = sub i64 %size, $LOOKED_BACK
  %least = call i64 @llvm.smax.i64(i64 %few, i64 0)
  br label %next
next:
  %end = phi i64 [ %size, %entry ], [ %k, %one ], [ %k, %leave ]
  %all = icmp sle i64 %end, %least
  br i1 %all, label %done, label %one
one:
  %k = sub i64 %end, 1
  %reference = call ptr @PyList_GetItem(ptr %small, i64 %k)
  %object = call ptr @PyWeakref_GetObject(ptr %reference)
  %none = call ptr @own.object(i64 $none)
  %is.gone = icmp eq ptr %object, %none
  br i1 %is.gone, label %leave, label %next
leave:
  %status = call i32 @PyList_SetSlice(ptr %small, i64 %k, i64 %end, ptr null)
  br label %next
done:
  ret void
}

; Remember the handle of a small pending result, weakly.  0, or -1 with an exception.
define internal i32 @note(ptr %recording, ptr %y) {
entry:
  %arguments = alloca [2 x ptr]
  %small = call ptr @field(ptr %recording, i64 $small_at)
  %is.unset = icmp eq ptr %small, null
  br i1 %is.unset, label %slow, label %look
look:
  %class = call ptr @class_of(ptr %small)
  %list.type = call ptr @own.object(i64 $list_type)
  %is.list = icmp eq ptr %class, %list.type
  br i1 %is.list, label %room, label %slow
room:
  call void @leave_out_gone(ptr %small)
  %size = call i64 @PyList_Size(ptr %small)
  %limit = call i64 @number_in(ptr %recording, i64 $limit_at, i64 0)
  %has.room = icmp slt i64 %size, %limit
  br i1 %has.room, label %refer, label %slow
refer:
  %reference = call ptr @PyWeakref_NewRef(ptr %y, ptr null)
  %no.reference = icmp eq ptr %reference, null
  br i1 %no.reference, label %no, label %append
append:
  %list = call ptr @field(ptr %recording, i64 $small_at)   ; it may be another by now
  %status = call i32 @PyList_Append(ptr %list, ptr %reference)
  call void @Py_DecRef(ptr %reference)
  ret i32 %status
slow:
  %function = call ptr @own.object(i64 $note_small)
  store ptr %recording, ptr %arguments
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %y, ptr %second
  %answer = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 2, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %no, label %noted
noted:
  call void @Py_DecRef(ptr %answer)
  ret i32 0
no:
  ret i32 -1
}
"""
