"""Parts of a recording that look alike, one behind the other, as LLVM IR text: recognised, run and settled at once.

A *part* is a graph of nodes that a check (`check_ir`) accepts; what it reads outside, its `olds`, are nodes that the
part behind it, an earlier one, gives: its roots; or ends, which are the same for all.

    walk_chain(roots, olds)                         the parts from these roots on, as long as they are as expected:
                                                    (values, stored, olds, past, roots), all in a row; or None for
                                                    less than two.  olds: of the part before, or None
    run_chain(values, first)                        the results of each part, the earliest first run
    pull_chain(values, first, results, bars)        cotangents carried from the latest part to the earliest
    settle_chain(stored, results, past, freed, is_released)    values are kept, the history is given up

METH_FASTCALL functions, whose `self` holds the address of a block: `WALK`, `CARRY` and `FINISH` of `commit_ir` name its
words.

    link       per node that is read: which root of the next part it is, or -1
    picked     per argument of the code: a source.  Sources: values of the part, results, bars, constants of the code
    waits      (source, position among the results of the next part, or -1) of what was pending; `first` has what
               those of the last part are, and all that have no position
    carried    per bar: 0 as it was, 1 a result of the code, 2 a source, 3 none;  and its number
"""

from __future__ import annotations

__all__ = ["CARRY", "CHAINS", "WALK"]

WALK = ("walked", "width", "sized", "link_table")
CARRY = (
    "code_run", "picked", "picked_table", "constants", "constant_table", "n_values", "waits", "wait_table", "n_results",
    "bars", "carried_table",
)  # fmt: skip

CHAINS = """
; Whether the part that these roots end is as expected, and reads what the part before it gives.
; The roots are those of the next part then.  `is.any`: the ends may be any.
define internal i1 @walk_one(ptr %walk, ptr %roots, ptr %ends, i1 %is.any, ptr %registers, ptr %owners) {
entry:
  %checked = call ptr @object_at(ptr %walk, i64 $walked)
  %width = call i64 @operand_at(ptr %walk, i64 $width)
  %size = call i64 @operand_at(ptr %walk, i64 $sized)
  %links = call ptr @object_at(ptr %walk, i64 $link_table)
  %is = call i1 @matches(ptr %checked, ptr %roots, ptr null, i64 0, ptr %registers, ptr %owners)
  br i1 %is, label %numbers, label %no
numbers:
  %olds = call ptr @object_at(ptr %checked, i64 $old_table)
  %n.olds = call i64 @operand_at(ptr %checked, i64 $olds)
  br label %lowest
lowest:
  %l = phi i64 [ %size, %numbers ], [ %l.next, %lowest.one ]
  %least = phi i64 [ 9223372036854775807, %numbers ], [ %less, %lowest.one ]
  %all.low = icmp sge i64 %l, %n.olds
  br i1 %all.low, label %read, label %lowest.one
lowest.one:
  %l.node = call ptr @register(ptr %registers, ptr %olds, i64 %l)
  %l.number = call i64 @number_in(ptr %l.node, i64 $number_at, i64 0)
  %less = call i64 @llvm.smin.i64(i64 %least, i64 %l.number)
  %l.next = add i64 %l, 1
  br label %lowest
read:
  %k = phi i64 [ 0, %lowest ], [ %k.next, %end ], [ %k.next, %compare.end ], [ %k.next, %linked ]
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
  %number = call i64 @number_in(ptr %node, i64 $number_at, i64 9223372036854775807)
  %is.older = icmp slt i64 %number, %least
  %is.fine = and i1 %is.plain, %is.older
  br i1 %is.fine, label %linked, label %no
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

define ptr @walk_chain(ptr %self, ptr %arguments, i64 %count) {
entry:
  %walk.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %walk = load ptr, ptr %walk.at, align 1
  %checked = call ptr @object_at(ptr %walk, i64 $walked)
  %width = call i64 @operand_at(ptr %walk, i64 $width)
  %n.registers = call i64 @operand_at(ptr %checked, i64 $registers)
  %n.leaf.registers = call i64 @operand_at(ptr %checked, i64 $leaf_registers)
  %registers = alloca ptr, i64 %n.registers
  %owners = alloca ptr, i64 %n.leaf.registers
  %roots = alloca ptr, i64 %width
  %tuples = alloca [6 x ptr]
  call void @llvm.memset.p0.i64(ptr %tuples, i8 0, i64 48, i1 false)
  %given = call ptr @object_at(ptr %arguments, i64 0)
  %given.items = getelementptr i8, ptr %given, i64 $ITEMS
  %ends.tuple = call ptr @object_at(ptr %arguments, i64 1)
  %is.free = call i1 @is_none(ptr %ends.tuple)
  %size = call i64 @operand_at(ptr %walk, i64 $sized)
  %ends = alloca ptr, i64 %size
  %bytes = shl i64 %width, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %roots, ptr %given.items, i64 %bytes, i1 false)
  br i1 %is.free, label %first, label %known
known:
  %ends.items = getelementptr i8, ptr %ends.tuple, i64 $ITEMS
  %end.bytes = shl i64 %size, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %ends, ptr %ends.items, i64 %end.bytes, i1 false)
  br label %look
first:
  %is.one = call i1 @walk_one(ptr %walk, ptr %roots, ptr null, i1 true, ptr %registers, ptr %owners)
  br i1 %is.one, label %its.ends, label %nothing
its.ends:
  %first.olds = call ptr @object_at(ptr %checked, i64 $old_table)
  br label %its.next
its.next:
  %e = phi i64 [ 0, %its.ends ], [ %e.next, %its.one ]
  %all.ends = icmp eq i64 %e, %size
  br i1 %all.ends, label %look, label %its.one
its.one:
  %e.node = call ptr @register(ptr %registers, ptr %first.olds, i64 %e)
  %e.at = getelementptr ptr, ptr %ends, i64 %e
  store ptr %e.node, ptr %e.at
  %e.next = add i64 %e, 1
  br label %its.next
look:
  %n = phi i64 [ 0, %known ], [ 1, %its.next ], [ %n.next, %look.on ]
  %is = call i1 @walk_one(ptr %walk, ptr %roots, ptr %ends, i1 false, ptr %registers, ptr %owners)
  br i1 %is, label %look.on, label %looked
look.on:
  %n.next = add i64 %n, 1
  br label %look
looked:
  %is.short = icmp ult i64 %n, 2
  br i1 %is.short, label %nothing, label %make
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
  ; Nothing is allocated from here on; what ran meanwhile may have changed what was seen.
  call void @llvm.memcpy.p0.p0.i64(ptr %roots, ptr %given.items, i64 %bytes, i1 false)
  br label %next
next:
  %i = phi i64 [ 0, %again ], [ %i.next, %fill ]
  %root.items = call ptr @items_for(ptr %all.roots, i64 %i, i64 %width)
  call void @copy_references(ptr %root.items, ptr %roots, i64 %width)
  %all = icmp eq i64 %i, %n
  br i1 %all, label %done, label %one
one:
  %is.still = call i1 @walk_one(ptr %walk, ptr %roots, ptr %ends, i1 false, ptr %registers, ptr %owners)
  br i1 %is.still, label %fill, label %drop
fill:
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
  %i.next = add i64 %i, 1
  br label %next
done:
  %result.items = getelementptr i8, ptr %result, i64 $ITEMS
  call void @llvm.memcpy.p0.p0.i64(ptr %result.items, ptr %tuples, i64 40, i1 false)
  ret ptr %result
drop:
  %failed = phi i1 [ true, %make ], [ false, %one ]
  call void @release_all(ptr %tuples, i64 6)      ; null, of one that was not made, is fine
  br i1 %failed, label %no, label %nothing
nothing:
  %none = call ptr @own.object(i64 $none)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
no:
  ret ptr null
}

; The values of a part, borrowed, with what was pending of them.
define internal void @lay_values(ptr %carry, ptr %sources, ptr %values, i64 %part, ptr %first, ptr %next.results) {
entry:
  %n = call i64 @operand_at(ptr %carry, i64 $n_values)
  %n.waits = call i64 @operand_at(ptr %carry, i64 $waits)
  %table = call ptr @object_at(ptr %carry, i64 $wait_table)
  %from = call ptr @items_for(ptr %values, i64 %part, i64 %n)
  %bytes = shl i64 %n, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %sources, ptr %from, i64 %bytes, i1 false)
  br label %next
next:
  %w = phi i64 [ 0, %entry ], [ %w.next, %put ]
  %all = icmp eq i64 %w, %n.waits
  br i1 %all, label %done, label %one
one:
  %twice = shl i64 %w, 1
  %pair = getelementptr i64, ptr %table, i64 %twice
  %source = call i64 @operand_at(ptr %pair, i64 0)
  %position = call i64 @operand_at(ptr %pair, i64 1)
  %is.same = icmp slt i64 %position, 0
  %is.last = icmp eq ptr %next.results, null
  %is.first = or i1 %is.same, %is.last
  br i1 %is.first, label %given, label %computed
given:
  %known = call ptr @item_of(ptr %first, i64 %w)
  br label %put
computed:
  %found = call ptr @item_of(ptr %next.results, i64 %position)
  br label %put
put:
  %value = phi ptr [ %known, %given ], [ %found, %computed ]
  %to = getelementptr ptr, ptr %sources, i64 %source
  store ptr %value, ptr %to
  %w.next = add i64 %w, 1
  br label %next
done:
  ret void
}

; Call the code with what it picks: what the sources hold is held by others.  Null with an exception.
define internal ptr @call_code(ptr %carry, ptr %sources) {
entry:
  %n = call i64 @operand_at(ptr %carry, i64 $picked)
  %table = call ptr @object_at(ptr %carry, i64 $picked_table)
  %n.all = add i64 %n, 1
  %arguments = alloca ptr, i64 %n.all
  %run = call ptr @object_at(ptr %carry, i64 $code_run)
  store ptr %run, ptr %arguments
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %n
  br i1 %all, label %call, label %one
one:
  %source = call i64 @operand_at(ptr %table, i64 %i)
  %from = getelementptr ptr, ptr %sources, i64 %source
  %value = load ptr, ptr %from
  %i.next = add i64 %i, 1
  %to = getelementptr ptr, ptr %arguments, i64 %i.next
  store ptr %value, ptr %to
  br label %next
call:
  %name = call ptr @own.object(i64 $call_name)
  %results = call ptr @PyObject_VectorcallMethod(ptr %name, ptr %arguments, i64 %n.all, ptr null)
  ret ptr %results
}

; The sources of a block, with its constants in place; `at` is where these begin.
define internal void @lay_constants(ptr %carry, ptr %sources, i64 %at) {
  %n = call i64 @operand_at(ptr %carry, i64 $constants)
  %table = call ptr @object_at(ptr %carry, i64 $constant_table)
  %to = getelementptr ptr, ptr %sources, i64 %at
  %bytes = shl i64 %n, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %table, i64 %bytes, i1 false)
  ret void
}

define ptr @run_chain(ptr %self, ptr %arguments, i64 %given) {
entry:
  %carry.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %carry = load ptr, ptr %carry.at, align 1
  %values = call ptr @object_at(ptr %arguments, i64 0)
  %first = call ptr @object_at(ptr %arguments, i64 1)
  %n = call i64 @operand_at(ptr %carry, i64 $n_values)
  %n.constants = call i64 @operand_at(ptr %carry, i64 $constants)
  %room = add i64 %n, %n.constants
  %sources = alloca ptr, i64 %room
  call void @lay_constants(ptr %carry, ptr %sources, i64 %n)
  %size = call i64 @argument_count(ptr %values)
  %each = call i64 @llvm.umax.i64(i64 %n, i64 1)
  %parts = udiv i64 %size, %each
  %results = call ptr @PyTuple_New(i64 %parts)
  %no.results = icmp eq ptr %results, null
  br i1 %no.results, label %error, label %next
next:
  %left = phi i64 [ %parts, %entry ], [ %part, %keep ]
  %before = phi ptr [ null, %entry ], [ %found, %keep ]
  %all = icmp eq i64 %left, 0
  br i1 %all, label %done, label %one
one:
  %part = sub i64 %left, 1
  call void @lay_values(ptr %carry, ptr %sources, ptr %values, i64 %part, ptr %first, ptr %before)
  %found = call ptr @call_code(ptr %carry, ptr %sources)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %drop, label %keep
keep:
  call void @put_item(ptr %results, i64 %part, ptr %found)
  br label %next
drop:
  call void @Py_DecRef(ptr %results)
  br label %error
done:
  ret ptr %results
error:
  ret ptr null
}

define ptr @pull_chain(ptr %self, ptr %arguments, i64 %given) {
entry:
  %carry.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %carry = load ptr, ptr %carry.at, align 1
  %values = call ptr @object_at(ptr %arguments, i64 0)
  %first = call ptr @object_at(ptr %arguments, i64 1)
  %results = call ptr @object_at(ptr %arguments, i64 2)
  %bars.tuple = call ptr @object_at(ptr %arguments, i64 3)
  %n.values = call i64 @operand_at(ptr %carry, i64 $n_values)
  %n.results = call i64 @operand_at(ptr %carry, i64 $n_results)
  %n.bars = call i64 @operand_at(ptr %carry, i64 $bars)
  %n.constants = call i64 @operand_at(ptr %carry, i64 $constants)
  %carried = call ptr @object_at(ptr %carry, i64 $carried_table)
  %bars.first = add i64 %n.values, %n.results
  %constants.first = add i64 %bars.first, %n.bars
  %room = add i64 %constants.first, %n.constants
  %sources = alloca ptr, i64 %room
  %bars = alloca ptr, i64 %n.bars
  call void @lay_constants(ptr %carry, ptr %sources, i64 %constants.first)
  %result.sources = getelementptr ptr, ptr %sources, i64 %n.values
  %bar.sources = getelementptr ptr, ptr %sources, i64 %bars.first
  %bar.items = getelementptr i8, ptr %bars.tuple, i64 $ITEMS
  call void @copy_references(ptr %bars, ptr %bar.items, i64 %n.bars)
  %parts = call i64 @argument_count(ptr %results)
  %result.bytes = shl i64 %n.results, 3
  %bar.bytes = shl i64 %n.bars, 3
  br label %next
next:
  %part = phi i64 [ 0, %entry ], [ %behind, %moved ]
  %all = icmp eq i64 %part, %parts
  br i1 %all, label %make, label %one
one:
  %behind = add i64 %part, 1
  %next.results = call ptr @item_of(ptr %results, i64 %behind)
  call void @lay_values(ptr %carry, ptr %sources, ptr %values, i64 %part, ptr %first, ptr %next.results)
  %own.results = call ptr @item_of(ptr %results, i64 %part)
  %own.items = getelementptr i8, ptr %own.results, i64 $ITEMS
  call void @llvm.memcpy.p0.p0.i64(ptr %result.sources, ptr %own.items, i64 %result.bytes, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %bar.sources, ptr %bars, i64 %bar.bytes, i1 false)
  %found = call ptr @call_code(ptr %carry, ptr %sources)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %drop, label %carry.on
carry.on:
  %b = phi i64 [ 0, %one ], [ %b.next, %exchanged ]
  %all.carried = icmp eq i64 %b, %n.bars
  br i1 %all.carried, label %moved, label %carry.one
carry.one:
  %twice = shl i64 %b, 1
  %pair = getelementptr i64, ptr %carried, i64 %twice
  %way = call i64 @operand_at(ptr %pair, i64 0)
  %which = call i64 @operand_at(ptr %pair, i64 1)
  switch i64 %way, label %as.it.was [ i64 1, label %of.code  i64 2, label %of.source  i64 3, label %of.nothing ]
as.it.was:
  br label %exchanged
of.code:
  %result = call ptr @item_of(ptr %found, i64 %which)
  br label %exchange
of.source:
  %source.at = getelementptr ptr, ptr %sources, i64 %which
  %source = load ptr, ptr %source.at
  br label %exchange
of.nothing:
  %none = call ptr @own.object(i64 $none)
  br label %exchange
exchange:
  %bar = phi ptr [ %result, %of.code ], [ %source, %of.source ], [ %none, %of.nothing ]
  call void @Py_IncRef(ptr %bar)
  %bar.at = getelementptr ptr, ptr %bars, i64 %b
  store ptr %bar, ptr %bar.at
  br label %exchanged
exchanged:
  ; A bar that was is held until all have been exchanged: a source of the others.
  %b.next = add i64 %b, 1
  br label %carry.on
moved:
  call void @drop_carried(ptr %carried, ptr %bar.sources, i64 %n.bars)
  call void @Py_DecRef(ptr %found)
  br label %next
make:
  %tuple = call ptr @PyTuple_New(i64 %n.bars)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %drop, label %fill
fill:
  %items = getelementptr i8, ptr %tuple, i64 $ITEMS
  call void @llvm.memcpy.p0.p0.i64(ptr %items, ptr %bars, i64 %bar.bytes, i1 false)
  ret ptr %tuple
drop:
  call void @release_all(ptr %bars, i64 %n.bars)
  ret ptr null
}

; Let go of the bars that were, where others took their place.
define internal void @drop_carried(ptr %carried, ptr %bars, i64 %count) {
entry:
  br label %next
next:
  %b = phi i64 [ 0, %entry ], [ %b.next, %kept ], [ %b.next, %drop ]
  %all = icmp eq i64 %b, %count
  br i1 %all, label %done, label %one
one:
  %twice = shl i64 %b, 1
  %way = call i64 @operand_at(ptr %carried, i64 %twice)
  %b.next = add i64 %b, 1
  %is.kept = icmp eq i64 %way, 0
  br i1 %is.kept, label %kept, label %drop
kept:
  br label %next
drop:
  %at = getelementptr ptr, ptr %bars, i64 %b
  %bar = load ptr, ptr %at
  call void @Py_DecRef(ptr %bar)
  br label %next
done:
  ret void
}

define ptr @settle_chain(ptr %self, ptr %arguments, i64 %given) {
entry:
  %block.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %block = load ptr, ptr %block.at, align 1
  %n.settled = call i64 @operand_at(ptr %block, i64 $settled)
  %settled = call ptr @object_at(ptr %block, i64 $settled_table)
  %stored = call ptr @object_at(ptr %arguments, i64 0)
  %results = call ptr @object_at(ptr %arguments, i64 1)
  %past = call ptr @object_at(ptr %arguments, i64 2)
  %freed = call ptr @object_at(ptr %arguments, i64 3)
  %flag = call ptr @object_at(ptr %arguments, i64 4)
  %n.freed = call i64 @argument_count(ptr %freed)
  %parts = call i64 @argument_count(ptr %results)
  %true = call ptr @own.object(i64 $true)
  %is.released = icmp eq ptr %flag, %true
  %n.past = select i1 %is.released, i64 %n.freed, i64 0
  %empty = call ptr @PyTuple_New(i64 0)
  %no.empty = icmp eq ptr %empty, null
  br i1 %no.empty, label %error, label %next
next:
  %part = phi i64 [ 0, %entry ], [ %part.next, %one ]
  %all = icmp eq i64 %part, %parts
  br i1 %all, label %done, label %one
one:
  %nodes = call ptr @items_for(ptr %stored, i64 %part, i64 %n.settled)
  %own.results = call ptr @item_of(ptr %results, i64 %part)
  call void @settle_all(ptr %nodes, i64 %n.settled, ptr %settled, ptr %own.results, ptr %empty)
  %history = call ptr @items_for(ptr %past, i64 %part, i64 %n.freed)
  call void @release_past(ptr %history, i64 %n.past, ptr %freed, ptr %empty)
  %part.next = add i64 %part, 1
  br label %next
done:
  call void @Py_DecRef(ptr %empty)
  %none = call ptr @own.object(i64 $none)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
error:
  ret ptr null
}
"""
