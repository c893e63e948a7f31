"""Where machine code records (`record_ir`), as LLVM IR text.

    recording_here          of this thread, if that is known
    recording_now           if moreover nothing asks for Python, with the grad mode
    recording_operations    also in a trace that only wants the nodes of operations
"""

from __future__ import annotations

__all__ = ["HERE"]

HERE = """
; Where this thread records; null where that is not known.
define internal ptr @recording_here() alwaysinline {
  %state = call ptr @PyThreadState_Get()
  %thread = call i64 @PyThreadState_GetID(ptr %state)
  %known = call i64 @own(i64 $thread)
  %is.same = icmp eq i64 %thread, %known
  %recording = call ptr @own.object(i64 $recording)
  %here = select i1 %is.same, ptr %recording, ptr null
  ret ptr %here
}

; Where this thread records, if it is now that machine code may: null in circumstances.  The grad mode goes to `cell`.
define internal ptr @recording_now(ptr %cell) alwaysinline {
  %recording = call ptr @recording_unless(i64 $careful_at, ptr %cell)
  ret ptr %recording
}

; The same for what only makes nodes, and changes no handle, nor asks for a value.
define internal ptr @recording_operations(ptr %cell) alwaysinline {
  %recording = call ptr @recording_unless(i64 $watching_at, ptr %cell)
  ret ptr %recording
}

define internal ptr @recording_unless(i64 %setting, ptr %cell) alwaysinline {
entry:
  %config = call ptr @own.object(i64 $config)
  %careful = call ptr @field(ptr %config, i64 %setting)
  %false = call ptr @own.object(i64 $false)
  %is.careless = icmp eq ptr %careful, %false
  br i1 %is.careless, label %which.thread, label %no
which.thread:
  %recording = call ptr @recording_here()
  %is.elsewhere = icmp eq ptr %recording, null
  br i1 %is.elsewhere, label %no, label %here
here:
  %literal = call ptr @field(ptr %recording, i64 $literal_at)
  %is.program = icmp eq ptr %literal, %false
  br i1 %is.program, label %mode, label %no
mode:
  %mode.var = call ptr @own.object(i64 $mode)
  %status = call i32 @PyContextVar_Get(ptr %mode.var, ptr null, ptr %cell)
  %is.bad = icmp slt i32 %status, 0
  br i1 %is.bad, label %forget, label %got
forget:
  call void @PyErr_Clear()                        ; Python meets it again
  br label %no
got:
  %found = load ptr, ptr %cell
  %is.none = icmp eq ptr %found, null
  br i1 %is.none, label %no, label %yes
yes:
  call void @Py_DecRef(ptr %found)                ; True or False: it stays
  ret ptr %recording
no:
  ret ptr null
}
"""
