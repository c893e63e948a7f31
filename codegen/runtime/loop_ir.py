"""Loops and branches as LLVM IR text: steps of a body again and again, on pointers that move.

Those that run kernels only are a function of their own instead (`whole`); here run those with products in them, and
what threads share.

`run_loop`, `run_branch` and `run_while` are steps like any kernel, `i32 f(ptr pointers, ptr numbers)`.  What runs
inside is a *body*:

    body     steps, their number, slots, pointers of its largest step, moves, their number
    move     a slot that holds pointers[buffer] + offset, and goes on by `stride` bytes after each run

`run_loop`: length, body, states, their number, work of one run

    state    two slots: a run reads one and writes the other.  The first run reads pointers[first] + offset; run t
             writes pointers[next] + offset + ((t + 1) & mask) * stride, the last one pointers[last] + offset.
             mask is 1 for two places used in turn, -1 where all values are kept; then the first is copied there

`run_branch`: buffer and element of the bool to choose by, two bodies

`run_while`: condition, asked before the first run; step, which gives an answer too (two bodies);
states, their number, bytes of a record, number of the workspace, where in it records begin, and where the answer is;
a loop that goes back (or 0), number of pointers, work of one run

    record   all states at one time: of two in the workspace, used in turn; or, where a loop goes back over them,
             of as many as there are, in memory that grows
    state    two slots (read by both bodies, written by the step); first buffer, offset; bytes; its byte in a
             record; last buffer (-1: nobody wants it), offset

Here stands what the three share; they themselves are in `scan_ir`, `branch_ir` and `while_ir`.  The slots of bodies
lie on the stack, so that a loop may run in several threads and within itself.  Long loops let signals be handled and
other threads run every now and then (`interruptions`): what a signal's handler raises ends them with the status
INTERRUPTED.
"""

from __future__ import annotations

from ..modes import processor
from ..native import Translation
from .branch_ir import BRANCH_IR
from .flush_ir import leaving_ir
from .interruptions import account
from .scan_ir import SCAN_IR
from .steps_ir import RUN_STEPS
from .while_ir import WHILE_IR

__all__ = ["loop_ir"]

_DECLARED = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\ndeclare void @PyMem_RawFree(ptr)\n"

_BODY = """
%Move = type { i64, i64, i64, i64 }                           ; slot, buffer, offset, stride
%Body = type { ptr, i64, i64, i64, ptr, i64 }                 ; steps, count; slots, scratch; moves, count
%State = type { i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64 } ; slots: read, written; first, offset; bytes;
                                                              ; last, offset; next, offset, stride, mask
%Kept = type { i64, i64, i64, i64, i64, i64, i64, i64 }       ; slots: read, written; first, offset; bytes;
                                                              ; offset in a record; last, offset

define internal i64 @number_of(ptr %numbers, i64 %place) alwaysinline {
  %at = getelementptr i64, ptr %numbers, i64 %place
  %value = load i64, ptr %at
  ret i64 %value
}
define internal ptr @address_of(ptr %numbers, i64 %place) alwaysinline {
  %at = getelementptr ptr, ptr %numbers, i64 %place
  %value = load ptr, ptr %at
  ret ptr %value
}
; The byte of the buffer whose number stands at `place`, which is followed by an offset.
define internal ptr @byte_of(ptr %pointers, ptr %record, i64 %place) alwaysinline {
  %buffer = call i64 @number_of(ptr %record, i64 %place)
  %start = call ptr @address_of(ptr %pointers, i64 %buffer)
  %after = add i64 %place, 1
  %offset = call i64 @number_of(ptr %record, i64 %after)
  %byte = getelementptr i8, ptr %start, i64 %offset
  ret ptr %byte
}
define internal void @set_slot(ptr %slots, ptr %record, i64 %place, ptr %value) alwaysinline {
  %slot = call i64 @number_of(ptr %record, i64 %place)
  %at = getelementptr ptr, ptr %slots, i64 %slot
  store ptr %value, ptr %at
  ret void
}
; How many pointers a body needs for its slots and its largest step.
define internal i64 @pointers_of(ptr %body) alwaysinline {
  %slots = call i64 @number_of(ptr %body, i64 2)
  %scratch = call i64 @number_of(ptr %body, i64 3)
  %both = add i64 %slots, %scratch
  ret i64 %both
}
; Every slot that moves, at its first place.
define internal void @place(ptr %body, ptr %slots, ptr %pointers) {
entry:
  %moves = call ptr @address_of(ptr %body, i64 4)
  %count = call i64 @number_of(ptr %body, i64 5)
  br label %next
next:
  %m = phi i64 [ 0, %entry ], [ %m.next, %one ]
  %done = icmp eq i64 %m, %count
  br i1 %done, label %placed, label %one
one:
  %move = getelementptr %Move, ptr %moves, i64 %m
  %byte = call ptr @byte_of(ptr %pointers, ptr %move, i64 1)
  call void @set_slot(ptr %slots, ptr %move, i64 0, ptr %byte)
  %m.next = add i64 %m, 1
  br label %next
placed:
  ret void
}
define internal i32 @run_body(ptr %body, ptr %slots) alwaysinline {
  %steps = call ptr @address_of(ptr %body, i64 0)
  %count = call i64 @number_of(ptr %body, i64 1)
  %n.slots = call i64 @number_of(ptr %body, i64 2)
  %scratch = getelementptr ptr, ptr %slots, i64 %n.slots
  %status = call i64 @run_steps(ptr %steps, i64 %count, ptr %slots, ptr %scratch)
  %code = trunc i64 %status to i32
  ret i32 %code
}
"""

#: What each function needs besides.
_OF = {"run_branch": BRANCH_IR, "run_loop": SCAN_IR, "run_while": SCAN_IR + WHILE_IR}


def loop_ir(module: Translation, function: str) -> str:
    """A module that has this one of the three."""
    module.beside(RUN_STEPS + _DECLARED + leaving_ir(processor()) + _BODY + _OF[function])
    return module.text([account])
