"""Loops and branches as LLVM IR text: steps of a body again and again, on pointers that move.

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

The slots of bodies lie on the stack, so that a loop may run in several threads and within itself.  Long loops let
signals be handled and other threads run every now and then (`account`): what a signal's handler raises ends them
with the status INTERRUPTED.
"""

from __future__ import annotations

from string import Template

from ..kernel.nest import Status

__all__ = ["COPY", "LOOP_IR"]

#: What a module declares once, and the pool declares too.
COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\ndeclare void @PyMem_RawFree(ptr)\n"

#: Scalar operations (some 0.1 ns each) after which a loop that holds the interpreter's lock looks up, and one that
#: does not.  Taking the lock can cost 5 ms, the switch interval, when another thread computes in Python.
LOOKS_UP, TAKES_LOCK = 1 << 25, 1 << 29

#: Records that memory is taken for at first.
FIRST_RECORDS = 16

_ACCOUNT = Template("""
declare i32 @PyGILState_Check()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

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
define internal i32 @look_up(i64 %spent) noinline {
  %held = call i32 @PyGILState_Check()
  %is.held = icmp ne i32 %held, 0
  %is.long = icmp ugt i64 %spent, $TAKES_LOCK
  %now = or i1 %is.held, %is.long
  br i1 %now, label %take, label %on
take:
  store atomic i64 0, ptr @spent monotonic, align 8
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
  %answer = select i1 %is.fine, i32 0, i32 $INTERRUPTED
  ret i32 %answer
on:
  ret i32 0
}
""")

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

_BRANCH = """
define i32 @run_branch(ptr %pointers, ptr %numbers) {
  %answer.at = call ptr @byte_of(ptr %pointers, ptr %numbers, i64 0)
  %answer = load i8, ptr %answer.at
  %is.yes = icmp ne i8 %answer, 0
  %yes = getelementptr i64, ptr %numbers, i64 2
  %no = getelementptr %Body, ptr %yes, i64 1
  %body = select i1 %is.yes, ptr %yes, ptr %no
  %n.pointers = call i64 @pointers_of(ptr %body)
  %slots = alloca ptr, i64 %n.pointers
  call void @place(ptr %body, ptr %slots, ptr %pointers)
  %status = call i32 @run_body(ptr %body, ptr %slots)
  ret i32 %status
}
"""

_LOOP = """
define i32 @run_loop(ptr %pointers, ptr %numbers) {
entry:
  %length = call i64 @number_of(ptr %numbers, i64 0)
  %inside = getelementptr i64, ptr %numbers, i64 1
  %states = call ptr @address_of(ptr %numbers, i64 7)
  %n.states = call i64 @number_of(ptr %numbers, i64 8)
  %work = call i64 @number_of(ptr %numbers, i64 9)
  %moves = call ptr @address_of(ptr %inside, i64 4)
  %n.moves = call i64 @number_of(ptr %inside, i64 5)
  %is.empty = icmp eq i64 %length, 0
  %final = sub i64 %length, 1
  %n.pointers = call i64 @pointers_of(ptr %inside)
  %slots = alloca ptr, i64 %n.pointers
  call void @place(ptr %inside, ptr %slots, ptr %pointers)
  br label %begin

begin:                                          ; every state to its first value
  %b = phi i64 [ 0, %entry ], [ %b.next, %begin.next ]
  %begun = icmp eq i64 %b, %n.states
  br i1 %begun, label %ready, label %begin.one
begin.one:
  %begin.state = getelementptr %State, ptr %states, i64 %b
  %first.value = call ptr @byte_of(ptr %pointers, ptr %begin.state, i64 2)
  call void @set_slot(ptr %slots, ptr %begin.state, i64 0, ptr %first.value)
  %bytes = call i64 @number_of(ptr %begin.state, i64 4)
  br i1 %is.empty, label %begin.last, label %begin.mask
begin.last:
  %only = call ptr @byte_of(ptr %pointers, ptr %begin.state, i64 5)
  call void @llvm.memcpy.p0.p0.i64(ptr %only, ptr %first.value, i64 %bytes, i1 false)
  br label %begin.next
begin.mask:
  %begin.mask.value = call i64 @number_of(ptr %begin.state, i64 10)
  %is.kept = icmp slt i64 %begin.mask.value, 0
  br i1 %is.kept, label %begin.keep, label %begin.next
begin.keep:
  %kept = call ptr @byte_of(ptr %pointers, ptr %begin.state, i64 7)
  call void @llvm.memcpy.p0.p0.i64(ptr %kept, ptr %first.value, i64 %bytes, i1 false)
  br label %begin.next
begin.next:
  %b.next = add i64 %b, 1
  br label %begin
ready:
  br i1 %is.empty, label %done, label %run

run:
  %t = phi i64 [ 0, %ready ], [ %t.next, %moved ]
  %t.next = add i64 %t, 1
  %is.final = icmp eq i64 %t, %final
  br label %aim
aim:                                            ; where this run puts each state
  %a = phi i64 [ 0, %run ], [ %a.next, %aimed ]
  %all.aimed = icmp eq i64 %a, %n.states
  br i1 %all.aimed, label %body, label %aim.one
aim.one:
  %aim.state = getelementptr %State, ptr %states, i64 %a
  br i1 %is.final, label %aim.last, label %aim.next
aim.last:
  %last.value = call ptr @byte_of(ptr %pointers, ptr %aim.state, i64 5)
  br label %aimed
aim.next:
  %next.start = call ptr @byte_of(ptr %pointers, ptr %aim.state, i64 7)
  %next.stride = call i64 @number_of(ptr %aim.state, i64 9)
  %next.mask = call i64 @number_of(ptr %aim.state, i64 10)
  %turn = and i64 %t.next, %next.mask
  %next.offset = mul i64 %turn, %next.stride
  %next.value = getelementptr i8, ptr %next.start, i64 %next.offset
  br label %aimed
aimed:
  %aimed.value = phi ptr [ %last.value, %aim.last ], [ %next.value, %aim.next ]
  call void @set_slot(ptr %slots, ptr %aim.state, i64 1, ptr %aimed.value)
  %a.next = add i64 %a, 1
  br label %aim

body:
  %status = call i32 @run_body(ptr %inside, ptr %slots)
  %is.ok = icmp eq i32 %status, 0
  br i1 %is.ok, label %note, label %failed
note:
  %signal = call i32 @account(i64 %work)
  %is.quiet = icmp eq i32 %signal, 0
  br i1 %is.quiet, label %move, label %failed

move:                                           ; every pointer to its next element
  %m = phi i64 [ 0, %note ], [ %m.next, %move.one ]
  %all.moved = icmp eq i64 %m, %n.moves
  br i1 %all.moved, label %pass, label %move.one
move.one:
  %move.record = getelementptr %Move, ptr %moves, i64 %m
  %move.slot = call i64 @number_of(ptr %move.record, i64 0)
  %move.stride = call i64 @number_of(ptr %move.record, i64 3)
  %move.at = getelementptr ptr, ptr %slots, i64 %move.slot
  %here = load ptr, ptr %move.at
  %there = getelementptr i8, ptr %here, i64 %move.stride
  store ptr %there, ptr %move.at
  %m.next = add i64 %m, 1
  br label %move
pass:                                           ; what was written is read next
  %s = phi i64 [ 0, %move ], [ %s.next, %pass.one ]
  %all.passed = icmp eq i64 %s, %n.states
  br i1 %all.passed, label %moved, label %pass.one
pass.one:
  %pass.state = getelementptr %State, ptr %states, i64 %s
  %written.slot = call i64 @number_of(ptr %pass.state, i64 1)
  %written = call ptr @address_of(ptr %slots, i64 %written.slot)
  call void @set_slot(ptr %slots, ptr %pass.state, i64 0, ptr %written)
  %s.next = add i64 %s, 1
  br label %pass
moved:
  br i1 %is.final, label %done, label %run

failed:
  %code = phi i32 [ %status, %body ], [ %signal, %note ]
  ret i32 %code
done:
  ret i32 0
}
"""

_WHILE = Template("""
declare ptr @PyMem_RawRealloc(ptr, i64)

define i32 @run_while(ptr %pointers, ptr %numbers) {
entry:
  %step = getelementptr %Body, ptr %numbers, i64 1
  %states = call ptr @address_of(ptr %numbers, i64 12)
  %n.states = call i64 @number_of(ptr %numbers, i64 13)
  %bytes = call i64 @number_of(ptr %numbers, i64 14)
  %space.number = call i64 @number_of(ptr %numbers, i64 15)
  %records.at = call i64 @number_of(ptr %numbers, i64 16)
  %answer.at = call i64 @number_of(ptr %numbers, i64 17)
  %back = call ptr @address_of(ptr %numbers, i64 18)
  %n.given = call i64 @number_of(ptr %numbers, i64 19)
  %work = call i64 @number_of(ptr %numbers, i64 20)
  %space = call ptr @address_of(ptr %pointers, i64 %space.number)
  %answer = getelementptr i8, ptr %space, i64 %answer.at
  %keeps = icmp ne ptr %back, null
  %n.asked = call i64 @pointers_of(ptr %numbers)
  %asked = alloca ptr, i64 %n.asked
  call void @place(ptr %numbers, ptr %asked, ptr %pointers)
  %n.slots = call i64 @pointers_of(ptr %step)
  %slots = alloca ptr, i64 %n.slots
  call void @place(ptr %step, ptr %slots, ptr %pointers)
  br i1 %keeps, label %take, label %turns
take:
  %first.bytes = mul i64 %bytes, $FIRST_RECORDS
  %taken = call ptr @PyMem_RawRealloc(ptr null, i64 %first.bytes)
  %none = icmp eq ptr %taken, null
  br i1 %none, label %no.memory, label %begin
turns:
  %in.turn = getelementptr i8, ptr %space, i64 %records.at
  br label %begin

begin:                                          ; the first record
  %first.record = phi ptr [ %taken, %take ], [ %in.turn, %turns ]
  br label %begin.next
begin.next:
  %b = phi i64 [ 0, %begin ], [ %b.next, %begin.one ]
  %begun = icmp eq i64 %b, %n.states
  br i1 %begun, label %ask, label %begin.one
begin.one:
  %begin.state = getelementptr %Kept, ptr %states, i64 %b
  %first.value = call ptr @byte_of(ptr %pointers, ptr %begin.state, i64 2)
  %first.size = call i64 @number_of(ptr %begin.state, i64 4)
  %first.offset = call i64 @number_of(ptr %begin.state, i64 5)
  %first.place = getelementptr i8, ptr %first.record, i64 %first.offset
  call void @llvm.memcpy.p0.p0.i64(ptr %first.place, ptr %first.value, i64 %first.size, i1 false)
  %b.next = add i64 %b, 1
  br label %begin.next

ask:                                            ; the condition, for the first record
  %q = phi i64 [ 0, %begin.next ], [ %q.next, %ask.one ]
  %all.asked = icmp eq i64 %q, %n.states
  br i1 %all.asked, label %ask.run, label %ask.one
ask.one:
  %ask.state = getelementptr %Kept, ptr %states, i64 %q
  %ask.offset = call i64 @number_of(ptr %ask.state, i64 5)
  %ask.value = getelementptr i8, ptr %first.record, i64 %ask.offset
  call void @set_slot(ptr %asked, ptr %ask.state, i64 0, ptr %ask.value)
  %q.next = add i64 %q, 1
  br label %ask
ask.run:
  %ask.status = call i32 @run_body(ptr %numbers, ptr %asked)
  %ask.ok = icmp eq i32 %ask.status, 0
  br i1 %ask.ok, label %turn, label %failed

turn:                                           ; t runs are done: their result is in `record`, and the answer
  %t = phi i64 [ 0, %ask.run ], [ %t.next, %note ]
  %records = phi ptr [ %first.record, %ask.run ], [ %records.now, %note ]
  %room = phi i64 [ $FIRST_RECORDS, %ask.run ], [ %room.now, %note ]
  %t.even = and i64 %t, 1
  %place = select i1 %keeps, i64 %t, i64 %t.even
  %offset = mul i64 %place, %bytes
  %record = getelementptr i8, ptr %records, i64 %offset
  %said = load i8, ptr %answer
  %goes.on = icmp ne i8 %said, 0
  br i1 %goes.on, label %go, label %finish

go:
  %t.next = add i64 %t, 1
  %is.full = icmp uge i64 %t.next, %room
  %grows = and i1 %is.full, %keeps
  br i1 %grows, label %grow, label %aim
grow:
  %room.more = shl i64 %room, 1
  %more.bytes = mul i64 %room.more, %bytes
  %grown = call ptr @PyMem_RawRealloc(ptr %records, i64 %more.bytes)
  %not.grown = icmp eq ptr %grown, null
  br i1 %not.grown, label %failed, label %aim
aim:
  %records.now = phi ptr [ %records, %go ], [ %grown, %grow ]
  %room.now = phi i64 [ %room, %go ], [ %room.more, %grow ]
  %from = getelementptr i8, ptr %records.now, i64 %offset
  %next.even = xor i64 %t.even, 1
  %next.place = select i1 %keeps, i64 %t.next, i64 %next.even
  %next.offset = mul i64 %next.place, %bytes
  %to = getelementptr i8, ptr %records.now, i64 %next.offset
  br label %aim.next
aim.next:
  %a = phi i64 [ 0, %aim ], [ %a.next, %aim.one ]
  %all.aimed = icmp eq i64 %a, %n.states
  br i1 %all.aimed, label %run, label %aim.one
aim.one:
  %aim.state = getelementptr %Kept, ptr %states, i64 %a
  %aim.offset = call i64 @number_of(ptr %aim.state, i64 5)
  %read = getelementptr i8, ptr %from, i64 %aim.offset
  call void @set_slot(ptr %slots, ptr %aim.state, i64 0, ptr %read)
  %written = getelementptr i8, ptr %to, i64 %aim.offset
  call void @set_slot(ptr %slots, ptr %aim.state, i64 1, ptr %written)
  %a.next = add i64 %a, 1
  br label %aim.next
run:
  %status = call i32 @run_body(ptr %step, ptr %slots)
  %is.ok = icmp eq i32 %status, 0
  br i1 %is.ok, label %note, label %failed
note:
  %signal = call i32 @account(i64 %work)
  %is.quiet = icmp eq i32 %signal, 0
  br i1 %is.quiet, label %turn, label %failed

finish:
  br i1 %keeps, label %go.back, label %last.next
last.next:
  %l = phi i64 [ 0, %finish ], [ %l.next, %last.done ]
  %all.last = icmp eq i64 %l, %n.states
  br i1 %all.last, label %done, label %last.one
last.one:
  %last.state = getelementptr %Kept, ptr %states, i64 %l
  %last.buffer = call i64 @number_of(ptr %last.state, i64 6)
  %is.unwanted = icmp slt i64 %last.buffer, 0
  br i1 %is.unwanted, label %last.done, label %last.copy
last.copy:
  %last.place = call ptr @byte_of(ptr %pointers, ptr %last.state, i64 6)
  %last.offset = call i64 @number_of(ptr %last.state, i64 5)
  %last.size = call i64 @number_of(ptr %last.state, i64 4)
  %last.value = getelementptr i8, ptr %record, i64 %last.offset
  call void @llvm.memcpy.p0.p0.i64(ptr %last.place, ptr %last.value, i64 %last.size, i1 false)
  br label %last.done
last.done:
  %l.next = add i64 %l, 1
  br label %last.next

go.back:                                        ; a loop of t runs, from the record before this one to the first
  %back.numbers = alloca i64, i64 10
  call void @llvm.memcpy.p0.p0.i64(ptr %back.numbers, ptr %back, i64 80, i1 false)
  store i64 %t, ptr %back.numbers
  %n.all = add i64 %n.given, 1
  %all = alloca ptr, i64 %n.all
  %given.bytes = shl i64 %n.given, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %all, ptr %pointers, i64 %given.bytes, i1 false)
  %minus = sub i64 0, %bytes
  %before = getelementptr i8, ptr %record, i64 %minus
  %extra = getelementptr ptr, ptr %all, i64 %n.given
  store ptr %before, ptr %extra
  %back.status = call i32 @run_loop(ptr %all, ptr %back.numbers)
  call void @PyMem_RawFree(ptr %records)
  ret i32 %back.status

failed:
  %left = phi ptr [ %first.record, %ask.run ], [ %records, %grow ], [ %records.now, %run ], [ %records.now, %note ]
  %code = phi i32 [ %ask.status, %ask.run ], [ $NO_MEMORY, %grow ], [ %status, %run ], [ %signal, %note ]
  br i1 %keeps, label %failed.free, label %failed.end
failed.free:
  call void @PyMem_RawFree(ptr %left)
  br label %failed.end
failed.end:
  ret i32 %code
no.memory:
  ret i32 $NO_MEMORY
done:
  ret i32 0
}
""")

LOOP_IR = (
    _ACCOUNT.substitute(LOOKS_UP=LOOKS_UP, TAKES_LOCK=TAKES_LOCK, INTERRUPTED=Status.INTERRUPTED.value)
    + _BODY
    + _BRANCH
    + _LOOP
    + _WHILE.substitute(FIRST_RECORDS=FIRST_RECORDS, NO_MEMORY=Status.NO_MEMORY.value)
)
