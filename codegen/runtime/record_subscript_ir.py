"""`x[key]` for ints, slices, None and `...` (`record_ir`), as LLVM IR text: an `mp_subscript`.

What decides what is recorded is static, a pair of words for each entry of the key (`record_table.subscript_word`):

    slice    how many elements, step        int    -1, 0        None    -2, 0        ...    -3, 0

Where slices and ints start are run-time operands behind x, but for those that take all of an axis.
"""

from __future__ import annotations

__all__ = ["SUBSCRIPT"]

SUBSCRIPT = """
declare i32 @PySlice_Unpack(ptr, ptr, ptr, ptr)
declare i64 @PySlice_AdjustIndices(i64, ptr, ptr, i64)

; Whether a part of a slice is None or an int: nothing runs that looks at it.
define internal i1 @is_plain_bound(ptr %slice, i64 %offset) alwaysinline {
  %at = getelementptr i8, ptr %slice, i64 %offset
  %bound = load ptr, ptr %at
  %class = call ptr @class_of(ptr %bound)
  %int.type = call ptr @own.object(i64 $int_type)
  %none = call ptr @own.object(i64 $none)
  %is.int = icmp eq ptr %class, %int.type
  %is.none = icmp eq ptr %bound, %none
  %is.plain = or i1 %is.int, %is.none
  ret i1 %is.plain
}

; The extent of an axis by a shape, a tuple of ints; -1 where there is none.
define internal i64 @extent_of(ptr %shape, i64 %axis) alwaysinline {
entry:
  %item = call ptr @item_of(ptr %shape, i64 %axis)
  %is.none = icmp eq ptr %item, null
  br i1 %is.none, label %no, label %yes
yes:
  %extent = call i64 @PyLong_AsLongLong(ptr %item)
  ret i64 %extent
no:
  ret i64 -1
}

define ptr @subscript(ptr %x, ptr %key) {
entry:
  %arguments = alloca [2 x ptr]
  %mode.cell = alloca ptr
  %owner.cell = alloca ptr
  %keys = alloca ptr
  %overflow = alloca i32
  %start.cell = alloca i64
  %stop.cell = alloca i64
  %step.cell = alloca i64
  %pairs = alloca [$MOST_STATICS x [2 x i64]]
  %starts = alloca [$MOST_STATICS x i64]
  %xs = alloca [$MOST_OPERANDS x ptr]
  %nodes = alloca [$MOST_NODES x ptr]
  %site = getelementptr [4 x ptr], ptr @sites, i64 $SUBSCRIPT
  %recording = call ptr @recording_now(ptr %mode.cell)
  %is.not.now = icmp eq ptr %recording, null
  br i1 %is.not.now, label %circumstance, label %operand
operand:
  %out = call ptr @key_of(ptr %x, ptr %recording, ptr %nodes)
  %out.bits = ptrtoint ptr %out to i64
  %no.key = icmp ule i64 %out.bits, 1
  br i1 %no.key, label %circumstance, label %is.handle
is.handle:
  %node = load ptr, ptr %nodes
  %masked = call i1 @is_masked(ptr %x, ptr %node)
  br i1 %masked, label %circumstance, label %shape
shape:
  store ptr %out, ptr %keys
  %shape.tuple = call ptr @field(ptr %out, i64 $shape_at)
  %rank = call i64 @count_of(ptr %shape.tuple)
  %key.class = call ptr @class_of(ptr %key)
  %tuple.type = call ptr @own.object(i64 $tuple_type)
  %is.tuple = icmp eq ptr %key.class, %tuple.type
  br i1 %is.tuple, label %several, label %single
several:
  %n.entries = call i64 @argument_count(ptr %key)
  br label %counted
single:
  br label %counted
counted:
  %n = phi i64 [ %n.entries, %several ], [ 1, %single ]
  %is.many = icmp ugt i64 %n, $MOST_STATICS
  br i1 %is.many, label %circumstance, label %entry.next

entry.next:
  %e = phi i64 [ 0, %counted ], [ %e.next, %entry.read ]
  %axis = phi i64 [ 0, %counted ], [ %axis.next, %entry.read ]
  %n.starts = phi i64 [ 0, %counted ], [ %n.starts.next, %entry.read ]
  %e.done = icmp eq i64 %e, %n
  br i1 %e.done, label %all.read, label %entry.one
entry.one:
  br i1 %is.tuple, label %entry.of.tuple, label %entry.itself
entry.of.tuple:
  %item = call ptr @argument(ptr %key, i64 %e)
  br label %entry.class
entry.itself:
  br label %entry.class
entry.class:
  %one = phi ptr [ %item, %entry.of.tuple ], [ %key, %entry.itself ]
  %one.class = call ptr @class_of(ptr %one)
  %extent = call i64 @extent_of(ptr %shape.tuple, i64 %axis)
  %start.at = getelementptr i64, ptr %starts, i64 %n.starts
  %slice.type = call ptr @own.object(i64 $slice_type)
  %is.slice = icmp eq ptr %one.class, %slice.type
  br i1 %is.slice, label %slice, label %no.slice
slice:
  %plain.start = call i1 @is_plain_bound(ptr %one, i64 $SLICE)
  %plain.stop = call i1 @is_plain_bound(ptr %one, i64 $SLICE_STOP)
  %plain.step = call i1 @is_plain_bound(ptr %one, i64 $SLICE_STEP)
  %plain.bounds = and i1 %plain.start, %plain.stop
  %is.plain = and i1 %plain.bounds, %plain.step
  %has.axis = icmp sge i64 %extent, 0
  %is.good = and i1 %is.plain, %has.axis
  br i1 %is.good, label %unpack, label %circumstance
unpack:
  %status = call i32 @PySlice_Unpack(ptr %one, ptr %start.cell, ptr %stop.cell, ptr %step.cell)
  %is.bad = icmp slt i32 %status, 0
  br i1 %is.bad, label %wrong, label %adjust
adjust:
  %step = load i64, ptr %step.cell
  %count = call i64 @PySlice_AdjustIndices(i64 %extent, ptr %start.cell, ptr %stop.cell, i64 %step)
  %start = load i64, ptr %start.cell
  %is.empty = icmp eq i64 %count, 0
  %first = select i1 %is.empty, i64 0, i64 %start
  store i64 %first, ptr %start.at
  %is.all = icmp eq i64 %count, %extent
  %in.order = icmp eq i64 %step, 1
  %is.whole = and i1 %is.all, %in.order
  %slice.starts = select i1 %is.whole, i64 0, i64 1
  br label %entry.read
no.slice:
  %int.type = call ptr @own.object(i64 $int_type)
  %is.int = icmp eq ptr %one.class, %int.type
  br i1 %is.int, label %int, label %no.int
int:
  %place = call i64 @PyLong_AsLongLongAndOverflow(ptr %one, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  %is.negative = icmp slt i64 %place, 0
  %from.end = add i64 %place, %extent
  %from.start = select i1 %is.negative, i64 %from.end, i64 %place
  %is.inside = icmp ult i64 %from.start, %extent
  %int.has.axis = icmp sge i64 %extent, 0
  %is.known = and i1 %fits, %is.inside
  %is.fine = and i1 %is.known, %int.has.axis
  br i1 %is.fine, label %int.start, label %circumstance
int.start:
  store i64 %from.start, ptr %start.at
  %is.only = icmp eq i64 %extent, 1
  %int.starts = select i1 %is.only, i64 0, i64 1
  br label %entry.read
no.int:
  %none = call ptr @own.object(i64 $none)
  %is.new = icmp eq ptr %one, %none
  br i1 %is.new, label %entry.read, label %no.new
no.new:
  %ellipsis = call ptr @own.object(i64 $ellipsis)
  %is.ellipsis = icmp eq ptr %one, %ellipsis
  br i1 %is.ellipsis, label %rest.first, label %circumstance
rest.first:
  ; It stands for the axes that the entries behind it leave.
  %rest.from = add i64 %e, 1
  br label %rest
rest:
  %r = phi i64 [ %rest.from, %rest.first ], [ %r.next, %rest.counted ]
  %taken = phi i64 [ 0, %rest.first ], [ %taken.next, %rest.counted ]
  %r.done = icmp uge i64 %r, %n
  br i1 %r.done, label %skip, label %rest.one
rest.one:
  %r.item = call ptr @argument(ptr %key, i64 %r)
  %r.again = icmp eq ptr %r.item, %ellipsis
  br i1 %r.again, label %circumstance, label %rest.counted
rest.counted:
  %r.is.new = icmp eq ptr %r.item, %none
  %r.takes = select i1 %r.is.new, i64 0, i64 1
  %taken.next = add i64 %taken, %r.takes
  %r.next = add i64 %r, 1
  br label %rest
skip:
  %behind = sub i64 %rank, %taken
  %skipped = sub i64 %behind, %axis
  %is.too.many = icmp slt i64 %skipped, 0
  br i1 %is.too.many, label %circumstance, label %entry.read

entry.read:
  %word1 = phi i64 [ %count, %adjust ], [ -1, %int.start ], [ -2, %no.int ], [ -3, %skip ]
  %word2 = phi i64 [ %step, %adjust ], [ 0, %int.start ], [ 0, %no.int ], [ 0, %skip ]
  %axes = phi i64 [ 1, %adjust ], [ 1, %int.start ], [ 0, %no.int ], [ %skipped, %skip ]
  %new.starts = phi i64 [ %slice.starts, %adjust ], [ %int.starts, %int.start ], [ 0, %no.int ], [ 0, %skip ]
  %pair.at = getelementptr [2 x i64], ptr %pairs, i64 %e
  %pair.second = getelementptr i64, ptr %pair.at, i64 1
  store i64 %word1, ptr %pair.at
  store i64 %word2, ptr %pair.second
  %e.next = add i64 %e, 1
  %axis.next = add i64 %axis, %axes
  %n.starts.next = add i64 %n.starts, %new.starts
  br label %entry.next

all.read:
  %mode = load ptr, ptr %mode.cell
  %cell = load ptr, ptr %site
  %program = call ptr @program_for(ptr %cell, ptr %keys, i64 1, ptr %mode, ptr %pairs, i64 %n, i1 true, ptr %owner.cell)
  %bits = ptrtoint ptr %program to i64
  switch i64 %bits, label %operands [ i64 1, label %circumstance  i64 2, label %unknown ]
operands:
  %n.operands.at = getelementptr i64, ptr %program, i64 4
  %n.operands = load i64, ptr %n.operands.at
  %with.x = add i64 %n.starts, 1
  %as.many = icmp eq i64 %n.operands, %with.x
  br i1 %as.many, label %hold, label %circumstance
hold:
  %owner = load ptr, ptr %owner.cell
  call void @Py_IncRef(ptr %owner)
  call void @Py_IncRef(ptr %node)
  store ptr %x, ptr %xs
  br label %number
number:
  %k = phi i64 [ 1, %hold ], [ %k.next, %number.one ]
  %numbered = icmp eq i64 %k, %n.operands
  br i1 %numbered, label %put, label %number.make
number.make:
  %which = sub i64 %k, 1
  %which.at = getelementptr i64, ptr %starts, i64 %which
  %number.value = load i64, ptr %which.at
  %made = call ptr @PyLong_FromLongLong(i64 %number.value)
  %no.number = icmp eq ptr %made, null
  br i1 %no.number, label %failed, label %number.one
number.one:
  %number.at = getelementptr ptr, ptr %xs, i64 %k
  store ptr %made, ptr %number.at
  %number.node.at = getelementptr ptr, ptr %nodes, i64 %k
  store ptr null, ptr %number.node.at
  %k.next = add i64 %k, 1
  br label %number
failed:
  call void @Py_DecRef(ptr %node)
  call void @Py_DecRef(ptr %owner)
  br label %drop
put:
  %y = call ptr @put(ptr %program, ptr %owner, ptr %recording, ptr %xs, ptr %nodes, i64 %n.operands)
  br label %drop
drop:
  %answer = phi ptr [ null, %failed ], [ %y, %put ]
  %made.count = phi i64 [ %k, %failed ], [ %n.operands, %put ]
  br label %drop.next
drop.next:
  %d = phi i64 [ 1, %drop ], [ %d.next, %drop.one ]
  %dropped = icmp eq i64 %d, %made.count
  br i1 %dropped, label %done, label %drop.one
drop.one:
  %d.at = getelementptr ptr, ptr %xs, i64 %d
  %d.number = load ptr, ptr %d.at
  call void @Py_DecRef(ptr %d.number)
  %d.next = add i64 %d, 1
  br label %drop.next
done:
  ret ptr %answer

wrong:
  call void @PyErr_Clear()                        ; Python says what is wrong
  br label %circumstance
circumstance:
  br label %slow
unknown:
  br label %slow
slow:
  %who = phi i64 [ 1, %circumstance ], [ 2, %unknown ]
  %function.at = getelementptr ptr, ptr %site, i64 %who
  %function = load ptr, ptr %function.at
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %x, ptr %arguments
  store ptr %key, ptr %second
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 2, ptr null)
  ret ptr %result
}
"""
