"""`run_while`, runs of a body while a condition holds, as LLVM IR text.  `loop_ir` says what its words mean."""

from __future__ import annotations

from ..kernel.nest import Status
from .template import Template

__all__ = ["WHILE_IR"]

#: Records that memory is taken for at first.
FIRST_RECORDS = 16

WHILE_IR = Template("""
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
""").substitute(FIRST_RECORDS=FIRST_RECORDS, NO_MEMORY=Status.NO_MEMORY.value)
