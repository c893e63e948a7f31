"""What a long loop does every now and then, as LLVM IR text: signals are handled, other threads run.

`account(work)` is called after each run of a body; what a signal's handler raises it gives as INTERRUPTED.
Handlers find the control register as their thread has it (`flush_ir`: `leaving_ir`, which is in the same module).
A module of this alone declares `LETS_OTHERS` too.
"""

from __future__ import annotations

from ..kernel.nest import Status
from .template import Template

__all__ = ["signals_ir"]

#: Scalar operations (some 0.1 ns each) after which a loop that holds the interpreter's lock looks up, and one that
#: does not.  Taking the lock can cost 5 ms, the switch interval, when another thread computes in Python.
LOOKS_UP, TAKES_LOCK = 1 << 25, 1 << 29

#: How long a loop that holds the lock keeps it, twice the switch interval.  Who waits for it asks for it when so long
#: nothing has happened, and gets it then; one that is given back and taken again every 3 ms, before that, nobody gets
#: but by chance: Ctrl-C from another thread was heeded after 3 to 60 s.
KEEPS_NS = 10_000_000

#: The number of the clock that only goes forward, by `sys.platform`; elsewhere the lock is given back at every look.
_CLOCKS = {"linux": 1, "darwin": 6}

_IS_TIME = Template("""
declare i32 @clock_gettime(i32, ptr)

; Whether the lock was kept for long; then it is given back now.
define internal i1 @is_time() {
  %time = alloca [2 x i64]
  %failed = call i32 @clock_gettime(i32 $CLOCK, ptr %time)
  %s = load i64, ptr %time
  %ns.at = getelementptr i64, ptr %time, i64 1
  %ns = load i64, ptr %ns.at
  %whole = mul i64 %s, 1000000000
  %now = add i64 %whole, %ns
  %before = load atomic i64, ptr @let.at monotonic, align 8
  %kept = sub i64 %now, %before
  %is = icmp ugt i64 %kept, $KEEPS_NS
  br i1 %is, label %long, label %done
long:
  store atomic i64 %now, ptr @let.at monotonic, align 8
  br label %done
done:
  ret i1 %is
}
""")
_ALWAYS = """
define internal i1 @is_time() {
  ret i1 true
}
"""

_SIGNALS = Template("""
declare i32 @PyGILState_Check()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()

; Work of loops since the last look.  Of all threads together: what gets lost where two add at once is no matter.
@spent = internal global i64 0
; When the lock was given back last.
@let.at = internal global i64 0

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
  %may.let = and i1 %is.fine, %is.held
  br i1 %may.let, label %time, label %give
time:
  %lets = call i1 @is_time()
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
""")


def signals_ir(system: str) -> str:
    """`account` and `loop_account`, for a system as `sys.platform` names it."""
    clock = _CLOCKS.get(system)
    is_time = _ALWAYS if clock is None else _IS_TIME.substitute(CLOCK=clock, KEEPS_NS=KEEPS_NS)
    words = dict(LOOKS_UP=LOOKS_UP, TAKES_LOCK=TAKES_LOCK, INTERRUPTED=Status.INTERRUPTED.value)
    return is_time + _SIGNALS.substitute(words)
