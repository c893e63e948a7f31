"""`run_loop`, a known number of runs of a body, as LLVM IR text.  `loop_ir` says what its words mean."""

from __future__ import annotations

__all__ = ["SCAN_IR"]

SCAN_IR = """
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
