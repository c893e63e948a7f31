"""Parts of a recording that look alike, one behind the other, as LLVM IR text: recognised at once.

A *part* is a graph of nodes that a check (`check_ir`) accepts; what it reads outside, its `olds`, are nodes that the
part behind it, an earlier one, gives: its roots; or ends, which are the same for all.  `carry_ir` runs them.

    walk_chain(roots, olds)     the parts from these roots on, as long as they are as expected: (values, stored, olds,
                                past, roots), all in a row; or None for less than two.  olds: of the part before, if any
    walk_chain(roots, olds, True)   the same of parts that do not read each other: `roots` are those of each

A METH_FASTCALL function, whose `self` holds the address of a block: `WALK` names its words.

    link       per node that is read: which root of the next part it is, or -1
"""

from __future__ import annotations

__all__ = ["CHAINS", "WALK"]

WALK = ("walked", "width", "sized", "link_table")

CHAINS = """
declare ptr @PyMem_Realloc(ptr, i64)
declare void @PyMem_Free(ptr)
declare i32 @PyGC_Disable()
declare i32 @PyGC_Enable()

; Whether the part that these roots end is as expected, and reads what the part before it gives.
; The roots are those of the next part then.  `is.any`: the ends may be any.
define internal i1 @walk_one(ptr %walk, ptr %roots, ptr %ends, i1 %is.any, ptr %registers, ptr %owners) {
entry:
  %checked = call ptr @object_at(ptr %walk, i64 $walked)
  %width = call i64 @operand_at(ptr %walk, i64 $width)
  %size = call i64 @operand_at(ptr %walk, i64 $sized)
  %links = call ptr @object_at(ptr %walk, i64 $link_table)
  %is = call i1 @matches(ptr %checked, ptr %roots, ptr null, i64 0, ptr %registers, ptr %owners)
  %olds = call ptr @object_at(ptr %checked, i64 $old_table)
  br i1 %is, label %read, label %no
read:
  %k = phi i64 [ 0, %entry ], [ %k.next, %end ], [ %k.next, %compare.end ], [ %k.next, %linked ]
  %all.read = icmp eq i64 %k, %size
  br i1 %all.read, label %distinct, label %read.one
read.one:
  %node = call ptr @register(ptr %registers, ptr %olds, i64 %k)
  %link = call i64 @operand_at(ptr %links, i64 %k)
  %k.next = add i64 %k, 1
  %is.end = icmp slt i64 %link, 0
  br i1 %is.end, label %end, label %root
end:
  br i1 %is.any, label %read, label %compare.end
compare.end:
  %end.at = getelementptr ptr, ptr %ends, i64 %k
  %known = load ptr, ptr %end.at
  %is.known = icmp eq ptr %known, %node
  br i1 %is.known, label %read, label %no
root:
  %class = call ptr @class_of(ptr %node)
  %plain = call ptr @own.object(i64 $node_type)
  %is.plain = icmp eq ptr %class, %plain
  br i1 %is.plain, label %linked, label %no
linked:
  %root.at = getelementptr ptr, ptr %roots, i64 %link
  store ptr %node, ptr %root.at
  br label %read
distinct:
  %a = phi i64 [ 0, %read ], [ %a.next, %other ]
  %all.distinct = icmp eq i64 %a, %width
  br i1 %all.distinct, label %yes, label %first
first:
  %a.at = getelementptr ptr, ptr %roots, i64 %a
  %a.node = load ptr, ptr %a.at
  %a.next = add i64 %a, 1
  br label %other
other:
  %b = phi i64 [ 0, %first ], [ %b.next, %compare ]
  %all.others = icmp eq i64 %b, %a
  br i1 %all.others, label %distinct, label %compare
compare:
  %b.at = getelementptr ptr, ptr %roots, i64 %b
  %b.node = load ptr, ptr %b.at
  %b.next = add i64 %b, 1
  %is.same = icmp eq ptr %a.node, %b.node
  br i1 %is.same, label %no, label %other
yes:
  ret i1 true
no:
  ret i1 false
}

; A tuple of so many items for each part.
define internal ptr @tuple_for(i64 %count, i64 %each) alwaysinline {
  %size = mul i64 %count, %each
  %tuple = call ptr @PyTuple_New(i64 %size)
  ret ptr %tuple
}
; Where the items of a part begin in such a tuple.
define internal ptr @items_for(ptr %tuple, i64 %part, i64 %each) alwaysinline {
  %first = mul i64 %part, %each
  %items = getelementptr i8, ptr %tuple, i64 $ITEMS
  %at = getelementptr ptr, ptr %items, i64 %first
  ret ptr %at
}
define internal void @copy_references(ptr %to, ptr %from, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %one
one:
  %from.at = getelementptr ptr, ptr %from, i64 %i
  %object = load ptr, ptr %from.at
  call void @Py_IncRef(ptr %object)
  %to.at = getelementptr ptr, ptr %to, i64 %i
  store ptr %object, ptr %to.at
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}

; Frames of registers, one for each part, with room for so many: moved if need be; null if there is no memory.
define internal ptr @frames_for(ptr %frames, i64 %room, i64 %bytes) alwaysinline {
  %size = mul i64 %room, %bytes
  %found = call ptr @PyMem_Realloc(ptr %frames, i64 %size)
  ret ptr %found
}

; The roots of the next part, as the registers of this one have them.
define internal void @roots_behind(ptr %walk, ptr %roots, ptr %registers) {
entry:
  %checked = call ptr @object_at(ptr %walk, i64 $walked)
  %size = call i64 @operand_at(ptr %walk, i64 $sized)
  %links = call ptr @object_at(ptr %walk, i64 $link_table)
  %olds = call ptr @object_at(ptr %checked, i64 $old_table)
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %one ], [ %k.next, %put ]
  %all = icmp eq i64 %k, %size
  br i1 %all, label %done, label %one
one:
  %link = call i64 @operand_at(ptr %links, i64 %k)
  %k.next = add i64 %k, 1
  %is.end = icmp slt i64 %link, 0
  br i1 %is.end, label %next, label %put
put:
  %node = call ptr @register(ptr %registers, ptr %olds, i64 %k)
  %at = getelementptr ptr, ptr %roots, i64 %link
  store ptr %node, ptr %at
  br label %next
done:
  ret void
}

; The roots of a part, if they are among those that are given.
define internal void @roots_given(ptr %roots, ptr %items, i64 %part, i64 %n.given, i64 %width) {
entry:
  %is.given = icmp ult i64 %part, %n.given
  br i1 %is.given, label %copy, label %done
copy:
  %first = mul i64 %part, %width
  %at = getelementptr ptr, ptr %items, i64 %first
  %bytes = shl i64 %width, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %roots, ptr %at, i64 %bytes, i1 false)
  br label %done
done:
  ret void
}

define ptr @walk_chain(ptr %self, ptr %arguments, i64 %count) {
entry:
  ; Nothing of Python's runs until all is gathered: what the registers hold is borrowed.
  %collected = call i32 @PyGC_Disable()
  %are.given = icmp ugt i64 %count, 2
  %result = call ptr @walked_chain(ptr %self, ptr %arguments, i1 %are.given)
  %was.on = icmp ne i32 %collected, 0
  br i1 %was.on, label %on, label %done
on:
  %on.again = call i32 @PyGC_Enable()
  br label %done
done:
  ret ptr %result
}

define internal ptr @walked_chain(ptr %self, ptr %arguments, i1 %are.given) {
entry:
  %walk.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %walk = load ptr, ptr %walk.at, align 1
  %checked = call ptr @object_at(ptr %walk, i64 $walked)
  %width = call i64 @operand_at(ptr %walk, i64 $width)
  %n.registers = call i64 @operand_at(ptr %checked, i64 $registers)
  %n.leaf.registers = call i64 @operand_at(ptr %checked, i64 $leaf_registers)
  %frame.bytes = shl i64 %n.registers, 3
  %owners = alloca ptr, i64 %n.leaf.registers
  %roots = alloca ptr, i64 %width
  %tuples = alloca [6 x ptr]
  call void @llvm.memset.p0.i64(ptr %tuples, i8 0, i64 48, i1 false)
  %given = call ptr @object_at(ptr %arguments, i64 0)
  %given.items = getelementptr i8, ptr %given, i64 $ITEMS
  %given.size = call i64 @count_of(ptr %given)
  %n.all = udiv i64 %given.size, %width
  %n.given = select i1 %are.given, i64 %n.all, i64 0
  %ends.tuple = call ptr @object_at(ptr %arguments, i64 1)
  %is.free = call i1 @is_none(ptr %ends.tuple)
  %size = call i64 @operand_at(ptr %walk, i64 $sized)
  %ends = alloca ptr, i64 %size
  %bytes = shl i64 %width, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %roots, ptr %given.items, i64 %bytes, i1 false)
  %few = call ptr @frames_for(ptr null, i64 16, i64 %frame.bytes)
  %no.frames = icmp eq ptr %few, null
  br i1 %no.frames, label %no.memory, label %begin
begin:
  br i1 %is.free, label %first, label %known
known:
  %ends.items = getelementptr i8, ptr %ends.tuple, i64 $ITEMS
  %end.bytes = shl i64 %size, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %ends, ptr %ends.items, i64 %end.bytes, i1 false)
  br label %look
first:
  %is.one = call i1 @walk_one(ptr %walk, ptr %roots, ptr null, i1 true, ptr %few, ptr %owners)
  br i1 %is.one, label %its.ends, label %forget
its.ends:
  %first.olds = call ptr @object_at(ptr %checked, i64 $old_table)
  br label %its.next
its.next:
  %e = phi i64 [ 0, %its.ends ], [ %e.next, %its.one ]
  %all.ends = icmp eq i64 %e, %size
  br i1 %all.ends, label %look, label %its.one
its.one:
  %e.node = call ptr @register(ptr %few, ptr %first.olds, i64 %e)
  %e.at = getelementptr ptr, ptr %ends, i64 %e
  store ptr %e.node, ptr %e.at
  %e.next = add i64 %e, 1
  br label %its.next
look:
  %n = phi i64 [ 0, %known ], [ 1, %its.next ], [ %n.next, %look.on ]
  %room = phi i64 [ 16, %known ], [ 16, %its.next ], [ %room.now, %look.on ]
  %frames.before = phi ptr [ %few, %known ], [ %few, %its.next ], [ %frames, %look.on ]
  %are.all = icmp eq i64 %n, %n.given
  %is.over = and i1 %are.all, %are.given
  br i1 %is.over, label %looked, label %look.at
look.at:
  call void @roots_given(ptr %roots, ptr %given.items, i64 %n, i64 %n.given, i64 %width)
  %is.full = icmp eq i64 %n, %room
  br i1 %is.full, label %grow, label %there
grow:
  %more = shl i64 %room, 1
  %larger = call ptr @frames_for(ptr %frames.before, i64 %more, i64 %frame.bytes)
  %no.larger = icmp eq ptr %larger, null
  br i1 %no.larger, label %no.room, label %there
there:
  %frames = phi ptr [ %frames.before, %look.at ], [ %larger, %grow ]
  %room.now = phi i64 [ %room, %look.at ], [ %more, %grow ]
  %offset = mul i64 %n, %frame.bytes
  %frame = getelementptr i8, ptr %frames, i64 %offset
  %is = call i1 @walk_one(ptr %walk, ptr %roots, ptr %ends, i1 false, ptr %frame, ptr %owners)
  br i1 %is, label %look.on, label %looked
look.on:
  %n.next = add i64 %n, 1
  br label %look
looked:
  %frames.made = phi ptr [ %frames.before, %look ], [ %frames, %there ]
  %is.short = icmp ult i64 %n, 2
  br i1 %is.short, label %forget, label %make
make:
  %n.arguments = call i64 @operand_at(ptr %checked, i64 $arguments)
  %n.stored = call i64 @operand_at(ptr %checked, i64 $stored)
  %n.olds = call i64 @operand_at(ptr %checked, i64 $olds)
  %n.past = call i64 @operand_at(ptr %checked, i64 $past)
  %n.roots = add i64 %n, 1
  %values = call ptr @tuple_for(i64 %n, i64 %n.arguments)
  store ptr %values, ptr %tuples
  %stored = call ptr @tuple_for(i64 %n, i64 %n.stored)
  %stored.at = getelementptr ptr, ptr %tuples, i64 1
  store ptr %stored, ptr %stored.at
  %olds = call ptr @tuple_for(i64 %n, i64 %n.olds)
  %olds.at = getelementptr ptr, ptr %tuples, i64 2
  store ptr %olds, ptr %olds.at
  %past = call ptr @tuple_for(i64 %n, i64 %n.past)
  %past.at = getelementptr ptr, ptr %tuples, i64 3
  store ptr %past, ptr %past.at
  %all.roots = call ptr @tuple_for(i64 %n.roots, i64 %width)
  %all.roots.at = getelementptr ptr, ptr %tuples, i64 4
  store ptr %all.roots, ptr %all.roots.at
  %result = call ptr @PyTuple_New(i64 5)
  %result.at = getelementptr ptr, ptr %tuples, i64 5
  store ptr %result, ptr %result.at
  %error = call ptr @PyErr_Occurred()
  %is.good = icmp eq ptr %error, null
  br i1 %is.good, label %again, label %drop
again:
  call void @llvm.memcpy.p0.p0.i64(ptr %roots, ptr %given.items, i64 %bytes, i1 false)
  br label %next
next:
  %i = phi i64 [ 0, %again ], [ %i.next, %fill ]
  %root.items = call ptr @items_for(ptr %all.roots, i64 %i, i64 %width)
  call void @copy_references(ptr %root.items, ptr %roots, i64 %width)
  %all = icmp eq i64 %i, %n
  br i1 %all, label %done, label %fill
fill:
  %i.offset = mul i64 %i, %frame.bytes
  %registers = getelementptr i8, ptr %frames.made, i64 %i.offset
  %value.items = call ptr @items_for(ptr %values, i64 %i, i64 %n.arguments)
  %value.table = call ptr @object_at(ptr %checked, i64 $argument_table)
  call void @fill_arguments(ptr %value.items, i64 %n.arguments, ptr %value.table, ptr %registers)
  %stored.items = call ptr @items_for(ptr %stored, i64 %i, i64 %n.stored)
  %stored.table = call ptr @object_at(ptr %checked, i64 $stored_table)
  call void @fill(ptr %stored.items, i64 %n.stored, ptr %stored.table, ptr %registers)
  %old.items = call ptr @items_for(ptr %olds, i64 %i, i64 %n.olds)
  %old.table = call ptr @object_at(ptr %checked, i64 $old_table)
  call void @fill(ptr %old.items, i64 %n.olds, ptr %old.table, ptr %registers)
  %past.items = call ptr @items_for(ptr %past, i64 %i, i64 %n.past)
  %past.table = call ptr @object_at(ptr %checked, i64 $past_table)
  call void @fill(ptr %past.items, i64 %n.past, ptr %past.table, ptr %registers)
  call void @roots_behind(ptr %walk, ptr %roots, ptr %registers)
  %i.next = add i64 %i, 1
  call void @roots_given(ptr %roots, ptr %given.items, i64 %i.next, i64 %n.given, i64 %width)
  br label %next
done:
  call void @PyMem_Free(ptr %frames.made)
  %result.items = getelementptr i8, ptr %result, i64 $ITEMS
  call void @llvm.memcpy.p0.p0.i64(ptr %result.items, ptr %tuples, i64 40, i1 false)
  ret ptr %result
drop:
  call void @PyMem_Free(ptr %frames.made)
  call void @release_all(ptr %tuples, i64 6)      ; null, of one that was not made, is fine
  ret ptr null
forget:
  %unwanted = phi ptr [ %few, %first ], [ %frames.made, %looked ]
  call void @PyMem_Free(ptr %unwanted)
  %none = call ptr @own.object(i64 $none)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
no.room:
  call void @PyMem_Free(ptr %frames.before)
  br label %no.memory
no.memory:
  %raised = call ptr @PyErr_NoMemory()
  ret ptr null
}
"""
