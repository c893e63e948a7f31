"""What the key of `x[key]` and `x[key] = v` says (`record_subscript_ir`), as LLVM IR text.

What decides what is recorded is static, a pair of words for each entry of the key (`autodiff.ops.patterns`):

    slice    how many elements, step        int    -1, 0        None    -2, 0        ...    -3, 0
    array of integers    -4, 0

Index arrays are operands behind x and v, and behind those where slices and ints start, but for what takes all of an
axis.

    read_key     what a key says            put_key    what is recorded for it
"""

from __future__ import annotations

__all__ = ["KEY"]

KEY = """
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

; What a key says of an operand with this shape; `count` operands are there already, with keys and nodes.
; The numbers of entries, index arrays and starts go to `counts`.  0 for CIRCUMSTANCE, 2 for UNKNOWN, else 1.
define internal i32 @read_key(ptr %shape.tuple, ptr %key, ptr %recording, i64 %count, ptr %keys, ptr %nodes, ptr %xs,
                              ptr %pairs, ptr %starts, ptr %counts) {
entry:
  %overflow = alloca i32
  %start.cell = alloca i64
  %stop.cell = alloca i64
  %step.cell = alloca i64
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
  %n.indices = phi i64 [ 0, %counted ], [ %n.indices.next, %entry.read ]
  %has.ints = phi i1 [ false, %counted ], [ %has.ints.next, %entry.read ]
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
  %has.axis = icmp sge i64 %extent, 0
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
  %is.good = and i1 %is.plain, %has.axis
  br i1 %is.good, label %unpack, label %circumstance
unpack:
  %status = call i32 @PySlice_Unpack(ptr %one, ptr %start.cell, ptr %stop.cell, ptr %step.cell)
  %is.bad = icmp slt i32 %status, 0
  br i1 %is.bad, label %wrong, label %adjust
adjust:
  %step = load i64, ptr %step.cell
  %n.slice = call i64 @PySlice_AdjustIndices(i64 %extent, ptr %start.cell, ptr %stop.cell, i64 %step)
  %start = load i64, ptr %start.cell
  %is.empty = icmp eq i64 %n.slice, 0
  %first = select i1 %is.empty, i64 0, i64 %start
  store i64 %first, ptr %start.at
  %is.all = icmp eq i64 %n.slice, %extent
  %in.order = icmp eq i64 %step, 1
  %is.whole = and i1 %is.all, %in.order
  %slice.starts = select i1 %is.whole, i64 0, i64 1
  br label %entry.read
no.slice:
  %int.type = call ptr @own.object(i64 $int_type)
  %is.int = icmp eq ptr %one.class, %int.type
  br i1 %is.int, label %int, label %no.int
int:
  %place.of.int = call i64 @PyLong_AsLongLongAndOverflow(ptr %one, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  br i1 %fits, label %placed, label %circumstance
no.int:
  %int64.type = call ptr @own.object(i64 $int64_type)
  %is.int64 = icmp eq ptr %one.class, %int64.type
  br i1 %is.int64, label %int64, label %no.int64
int64:
  %scalar.at = getelementptr i8, ptr %one, i64 $SCALAR
  %place.of.int64 = load i64, ptr %scalar.at
  br label %placed
placed:
  %place = phi i64 [ %place.of.int, %int ], [ %place.of.int64, %int64 ]
  %is.negative = icmp slt i64 %place, 0
  %from.end = add i64 %place, %extent
  %from.start = select i1 %is.negative, i64 %from.end, i64 %place
  %is.inside = icmp ult i64 %from.start, %extent
  %is.fine = and i1 %is.inside, %has.axis
  br i1 %is.fine, label %int.start, label %circumstance
int.start:
  store i64 %from.start, ptr %start.at
  %is.only = icmp eq i64 %extent, 1
  %int.starts = select i1 %is.only, i64 0, i64 1
  br label %entry.read
no.int64:
  %none = call ptr @own.object(i64 $none)
  %is.new = icmp eq ptr %one, %none
  br i1 %is.new, label %entry.read, label %no.new
no.new:
  %ellipsis = call ptr @own.object(i64 $ellipsis)
  %is.ellipsis = icmp eq ptr %one, %ellipsis
  br i1 %is.ellipsis, label %rest.first, label %index
index:
  %operand = add i64 %count, %n.indices
  %has.room = icmp ult i64 %operand, $MOST_OPERANDS
  %may.be = and i1 %has.room, %has.axis
  br i1 %may.be, label %index.key, label %circumstance
index.key:
  %node.at = getelementptr ptr, ptr %nodes, i64 %operand
  %index.found = call ptr @key_of(ptr %one, ptr %recording, ptr %node.at)
  %index.bits = ptrtoint ptr %index.found to i64
  switch i64 %index.bits, label %index.known [ i64 0, label %circumstance  i64 1, label %circumstance
                                               i64 2, label %unknown ]
index.known:
  %index.node = load ptr, ptr %node.at
  %no.node = icmp eq ptr %index.node, null
  %array.type = call ptr @own.object(i64 $array_type)
  %no.array = icmp ne ptr %one.class, %array.type
  %is.number = and i1 %no.node, %no.array
  br i1 %is.number, label %circumstance, label %index.handle
index.handle:
  %index.masked = call i1 @is_masked(ptr %one, ptr %index.node)
  br i1 %index.masked, label %circumstance, label %index.put
index.put:
  %key.at = getelementptr ptr, ptr %keys, i64 %operand
  store ptr %index.found, ptr %key.at
  %x.at = getelementptr ptr, ptr %xs, i64 %operand
  store ptr %one, ptr %x.at
  br label %entry.read
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
  %word1 = phi i64 [ %n.slice, %adjust ], [ -1, %int.start ], [ -2, %no.int64 ], [ -3, %skip ], [ -4, %index.put ]
  %word2 = phi i64 [ %step, %adjust ], [ 0, %int.start ], [ 0, %no.int64 ], [ 0, %skip ], [ 0, %index.put ]
  %axes = phi i64 [ 1, %adjust ], [ 1, %int.start ], [ 0, %no.int64 ], [ %skipped, %skip ], [ 1, %index.put ]
  %new.starts = phi i64 [ %slice.starts, %adjust ], [ %int.starts, %int.start ], [ 0, %no.int64 ], [ 0, %skip ],
                        [ 0, %index.put ]
  %new.indices = phi i64 [ 0, %adjust ], [ 0, %int.start ], [ 0, %no.int64 ], [ 0, %skip ], [ 1, %index.put ]
  %new.int = phi i1 [ false, %adjust ], [ true, %int.start ], [ false, %no.int64 ], [ false, %skip ],
                    [ false, %index.put ]
  %pair.at = getelementptr [2 x i64], ptr %pairs, i64 %e
  %pair.second = getelementptr i64, ptr %pair.at, i64 1
  store i64 %word1, ptr %pair.at
  store i64 %word2, ptr %pair.second
  %e.next = add i64 %e, 1
  %axis.next = add i64 %axis, %axes
  %n.starts.next = add i64 %n.starts, %new.starts
  %n.indices.next = add i64 %n.indices, %new.indices
  %has.ints.next = or i1 %has.ints, %new.int
  br label %entry.next

all.read:
  ; Beside index arrays ints are such, too: Python knows how.
  %has.indices = icmp ne i64 %n.indices, 0
  %are.mixed = and i1 %has.ints, %has.indices
  br i1 %are.mixed, label %circumstance, label %done
done:
  %indices.at = getelementptr i64, ptr %counts, i64 1
  %starts.at = getelementptr i64, ptr %counts, i64 2
  store i64 %n, ptr %counts
  store i64 %n.indices, ptr %indices.at
  store i64 %n.starts, ptr %starts.at
  ret i32 1
wrong:
  call void @PyErr_Clear()                        ; Python says what is wrong
  br label %circumstance
circumstance:
  ret i32 0
unknown:
  ret i32 2
}

; What is recorded for these operands and a key: as `recorded`.
define internal ptr @put_key(ptr %site, ptr %recording, ptr %mode, i64 %count, ptr %keys, ptr %nodes, ptr %xs,
                             ptr %pairs, ptr %starts, ptr %counts) {
entry:
  %owner.cell = alloca ptr
  %n = load i64, ptr %counts
  %indices.at = getelementptr i64, ptr %counts, i64 1
  %starts.at = getelementptr i64, ptr %counts, i64 2
  %n.indices = load i64, ptr %indices.at
  %n.starts = load i64, ptr %starts.at
  %n.keys = add i64 %count, %n.indices
  %cell = load ptr, ptr %site
  %program = call ptr @program_for(ptr %cell, ptr %keys, i64 %n.keys, ptr %mode, ptr %pairs, i64 %n, i1 true,
                                   ptr %owner.cell)
  %bits = ptrtoint ptr %program to i64
  switch i64 %bits, label %operands [ i64 1, label %circumstance  i64 2, label %unknown ]
operands:
  %n.operands.at = getelementptr i64, ptr %program, i64 4
  %n.operands = load i64, ptr %n.operands.at
  %with.starts = add i64 %n.keys, %n.starts
  %as.many = icmp eq i64 %n.operands, %with.starts
  br i1 %as.many, label %hold, label %circumstance
hold:
  %owner = load ptr, ptr %owner.cell
  %held = call i32 @hold_operands(ptr %program, ptr %owner, ptr %recording, ptr %keys, ptr %xs, ptr %nodes, i64 %n.keys)
  switch i32 %held, label %start.next [ i32 0, label %circumstance  i32 -1, label %failed ]
start.next:
  %k = phi i64 [ %n.keys, %hold ], [ %k.next, %start.put ]
  %all = icmp eq i64 %k, %n.operands
  br i1 %all, label %put, label %start.one
start.one:
  %which = sub i64 %k, %n.keys
  %which.at = getelementptr i64, ptr %starts, i64 %which
  %start = load i64, ptr %which.at
  %made = call ptr @PyLong_FromLongLong(i64 %start)
  %no.number = icmp eq ptr %made, null
  br i1 %no.number, label %drop, label %start.leaf
start.leaf:
  %start.kind = call ptr @own.object(i64 $start_kind)
  %leaf = call ptr @new_node(ptr %start.kind, ptr %made)
  call void @Py_DecRef(ptr %made)
  %no.leaf = icmp eq ptr %leaf, null
  br i1 %no.leaf, label %drop, label %start.put
start.put:
  %node.at = getelementptr ptr, ptr %nodes, i64 %k
  store ptr %leaf, ptr %node.at
  %none = call ptr @own.object(i64 $none)
  %x.at = getelementptr ptr, ptr %xs, i64 %k
  store ptr %none, ptr %x.at                      ; no handle
  %k.next = add i64 %k, 1
  br label %start.next
put:
  %y = call ptr @put(ptr %program, ptr %owner, ptr %recording, ptr %xs, ptr %nodes, i64 %n.operands)
  ret ptr %y
drop:
  call void @release_all(ptr %nodes, i64 %k)
  call void @Py_DecRef(ptr %owner)
  br label %failed
failed:
  ret ptr null
circumstance:
  ret ptr inttoptr (i64 1 to ptr)
unknown:
  ret ptr inttoptr (i64 2 to ptr)
}
"""
