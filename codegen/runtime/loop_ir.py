"""Loops as LLVM IR text: the steps of a body again and again, on pointers that move.

`run_loop` is a step like any kernel, `i32 f(ptr pointers, ptr numbers)`.  Its numbers:

    length, steps of the body, their number, slots of the body, pointers of its largest step,
    moves, their number, states, their number

    move     a slot that holds pointers[buffer] + offset, and goes on by `stride` bytes after each run
    state    two slots: a run reads one and writes the other.  The first run reads pointers[first]; run t
             writes pointers[next] + offset + ((t + 1) & mask) * stride, the last one pointers[last] + offset.
             mask is 1 for two places used in turn, -1 where all values are kept; then the first is copied there

The body's slots lie on the stack, so that a loop may run in several threads and within itself.
"""

from __future__ import annotations

__all__ = ["COPY", "LOOP_IR"]

#: What a module declares once.
COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"

LOOP_IR = """
%Move = type { i64, i64, i64, i64 }                                ; slot, buffer, offset, stride
%State = type { i64, i64, i64, i64, i64, i64, i64, i64, i64, i64 } ; slots: read, written; first; bytes;
                                                                   ; last, offset; next, offset, stride, mask

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

define i32 @run_loop(ptr %pointers, ptr %numbers) {
entry:
  %length = call i64 @number_of(ptr %numbers, i64 0)
  %steps = call ptr @address_of(ptr %numbers, i64 1)
  %n.steps = call i64 @number_of(ptr %numbers, i64 2)
  %n.slots = call i64 @number_of(ptr %numbers, i64 3)
  %n.scratch = call i64 @number_of(ptr %numbers, i64 4)
  %moves = call ptr @address_of(ptr %numbers, i64 5)
  %n.moves = call i64 @number_of(ptr %numbers, i64 6)
  %states = call ptr @address_of(ptr %numbers, i64 7)
  %n.states = call i64 @number_of(ptr %numbers, i64 8)
  %is.empty = icmp eq i64 %length, 0
  %final = sub i64 %length, 1
  %n.pointers = add i64 %n.slots, %n.scratch
  %slots = alloca ptr, i64 %n.pointers
  %scratch = getelementptr ptr, ptr %slots, i64 %n.slots
  br label %place

place:                                          ; every move to its first place
  %p = phi i64 [ 0, %entry ], [ %p.next, %place.one ]
  %placed = icmp eq i64 %p, %n.moves
  br i1 %placed, label %begin, label %place.one
place.one:
  %place.move = getelementptr %Move, ptr %moves, i64 %p
  %place.slot = call i64 @number_of(ptr %place.move, i64 0)
  %place.byte = call ptr @byte_of(ptr %pointers, ptr %place.move, i64 1)
  %place.at = getelementptr ptr, ptr %slots, i64 %place.slot
  store ptr %place.byte, ptr %place.at
  %p.next = add i64 %p, 1
  br label %place

begin:                                          ; every state to its first value
  %b = phi i64 [ 0, %place ], [ %b.next, %begin.next ]
  %begun = icmp eq i64 %b, %n.states
  br i1 %begun, label %ready, label %begin.one
begin.one:
  %begin.state = getelementptr %State, ptr %states, i64 %b
  %begin.slot = call i64 @number_of(ptr %begin.state, i64 0)
  %first = call i64 @number_of(ptr %begin.state, i64 2)
  %first.value = call ptr @address_of(ptr %pointers, i64 %first)
  %begin.at = getelementptr ptr, ptr %slots, i64 %begin.slot
  store ptr %first.value, ptr %begin.at
  %bytes = call i64 @number_of(ptr %begin.state, i64 3)
  br i1 %is.empty, label %begin.last, label %begin.mask
begin.last:
  %only = call ptr @byte_of(ptr %pointers, ptr %begin.state, i64 4)
  call void @llvm.memcpy.p0.p0.i64(ptr %only, ptr %first.value, i64 %bytes, i1 false)
  br label %begin.next
begin.mask:
  %begin.mask.value = call i64 @number_of(ptr %begin.state, i64 9)
  %is.kept = icmp slt i64 %begin.mask.value, 0
  br i1 %is.kept, label %begin.keep, label %begin.next
begin.keep:
  %kept = call ptr @byte_of(ptr %pointers, ptr %begin.state, i64 6)
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
  %last.value = call ptr @byte_of(ptr %pointers, ptr %aim.state, i64 4)
  br label %aimed
aim.next:
  %next.start = call ptr @byte_of(ptr %pointers, ptr %aim.state, i64 6)
  %next.stride = call i64 @number_of(ptr %aim.state, i64 8)
  %next.mask = call i64 @number_of(ptr %aim.state, i64 9)
  %turn = and i64 %t.next, %next.mask
  %next.offset = mul i64 %turn, %next.stride
  %next.value = getelementptr i8, ptr %next.start, i64 %next.offset
  br label %aimed
aimed:
  %aimed.value = phi ptr [ %last.value, %aim.last ], [ %next.value, %aim.next ]
  %aim.slot = call i64 @number_of(ptr %aim.state, i64 1)
  %aim.at = getelementptr ptr, ptr %slots, i64 %aim.slot
  store ptr %aimed.value, ptr %aim.at
  %a.next = add i64 %a, 1
  br label %aim

body:
  %status = call i64 @run_steps(ptr %steps, i64 %n.steps, ptr %slots, ptr %scratch)
  %is.ok = icmp eq i64 %status, 0
  br i1 %is.ok, label %move, label %failed

move:                                           ; every pointer to its next element
  %m = phi i64 [ 0, %body ], [ %m.next, %move.one ]
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
  %read.slot = call i64 @number_of(ptr %pass.state, i64 0)
  %written.slot = call i64 @number_of(ptr %pass.state, i64 1)
  %written.at = getelementptr ptr, ptr %slots, i64 %written.slot
  %written = load ptr, ptr %written.at
  %read.at = getelementptr ptr, ptr %slots, i64 %read.slot
  store ptr %written, ptr %read.at
  %s.next = add i64 %s, 1
  br label %pass
moved:
  br i1 %is.final, label %done, label %run

failed:
  %code = trunc i64 %status to i32
  ret i32 %code
done:
  ret i32 0
}
"""
