"""What a long loop does every now and then, as LLVM IR text: signals are handled, other threads run.

`account(work)` is called after each run of a body; what a signal's handler raises it gives as INTERRUPTED.
Handlers find the control register as their thread has it (`flush_ir`: `leaving_ir`, which is in the same module).
A module of this alone declares `LETS_OTHERS` too.
"""

from __future__ import annotations

from ..kernel.nest import Status
from .template import Template

__all__ = ["SIGNALS_IR"]

#: Scalar operations (some 0.1 ns each) after which a loop that holds the interpreter's lock looks up, and one that
#: does not.  Taking the lock can cost 5 ms, the switch interval, when another thread computes in Python.
LOOKS_UP, TAKES_LOCK = 1 << 25, 1 << 29

SIGNALS_IR = Template("""
declare i32 @PyGILState_Check()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()

; Work of loops since the last look.  Of all threads together: what gets lost where two add at once is no matter.
@spent = internal global i64 0

; Notes that so much work is done.  Not 0: the signal's handler raised.
define internal i32 @account(i64 %work) alwaysinline {
  %before = load atomic i64, ptr @spent monotonic, align 8
  %spent = add i64 %before, %work
  store atomic i64 %spent, ptr @spent monotonic, align 8
  %is.much = icmp ugt i64 %spent, $LOOKS_UP
  br i1 %is.much, label %much, label %on
much:
  %answer = call i32 @look_up(i64 %spent)
  ret i32 %answer
on:
  ret i32 0
}
; The same for code that knows its address.
define i32 @loop_account(i64 %work) {
  %answer = call i32 @account(i64 %work)
  ret i32 %answer
}
define internal i32 @look_up(i64 %spent) noinline {
  %held = call i32 @PyGILState_Check()
  %is.held = icmp ne i32 %held, 0
  %is.long = icmp ugt i64 %spent, $TAKES_LOCK
  %now = or i1 %is.held, %is.long
  br i1 %now, label %take, label %on
take:
  store atomic i64 0, ptr @spent monotonic, align 8
  %inside = call i64 @leave_flushing()
  %state = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %is.fine = icmp eq i32 %raised, 0
  %lets = and i1 %is.fine, %is.held
  br i1 %lets, label %let, label %give
let:                                            ; others take it if they wait for it
  %thread = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %thread)
  br label %give
give:
  call void @PyGILState_Release(i32 %state)
  call void @return_flushing(i64 %inside)
  %answer = select i1 %is.fine, i32 0, i32 $INTERRUPTED
  ret i32 %answer
on:
  ret i32 0
}
""").substitute(LOOKS_UP=LOOKS_UP, TAKES_LOCK=TAKES_LOCK, INTERRUPTED=Status.INTERRUPTED.value)
