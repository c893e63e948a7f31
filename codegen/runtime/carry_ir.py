"""A chain of parts (`chain_ir`) run forward, gone back through and settled, as LLVM IR text.

    run_chain(values, first)                        the results of each part, the earliest first run
    pull_chain(values, first, results, bars)        cotangents carried from the latest part to the earliest
    settle_chain(stored, results, past, freed, is_released)    values are kept, the history is given up

METH_FASTCALL functions, whose `self` holds the address of a block: `CARRY` and `FINISH` of `commit_ir` name its words.

    picked     per argument of the code: a source.  Sources: values of the part, results, bars, constants of the code
    waits      (source, position among the results of the next part, or -1) of what was pending; `first` has what
               those of the last part are, and all that have no position
    carried    per bar: 0 as it was, 1 a result of the code, 2 a source, 3 none;  and its number
"""

from __future__ import annotations

__all__ = ["CARRIES", "CARRY"]

CARRY = (
    "code_run", "picked", "picked_table", "constants", "constant_table", "n_values", "waits", "wait_table", "n_results",
    "bars", "carried_table",
)  # fmt: skip

CARRIES = """
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

; What runs the code, a new reference: looked up once for all parts.  Null with an exception.
define internal ptr @code_of(ptr %carry) {
  %run = call ptr @object_at(ptr %carry, i64 $code_run)
  %name = call ptr @own.object(i64 $call_name)
  %code = call ptr @PyObject_GetAttr(ptr %run, ptr %name)
  ret ptr %code
}

; Call the code with what it picks: what the sources hold is held by others.  Null with an exception.
define internal ptr @call_code(ptr %code, ptr %carry, ptr %sources) {
entry:
  %n = call i64 @operand_at(ptr %carry, i64 $picked)
  %table = call ptr @object_at(ptr %carry, i64 $picked_table)
  %arguments = alloca ptr, i64 %n
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
  %to = getelementptr ptr, ptr %arguments, i64 %i
  store ptr %value, ptr %to
  br label %next
call:
  %results = call ptr @PyObject_Vectorcall(ptr %code, ptr %arguments, i64 %n, ptr null)
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
  br i1 %no.results, label %error, label %begin
begin:
  %code = call ptr @code_of(ptr %carry)
  %no.code = icmp eq ptr %code, null
  br i1 %no.code, label %drop, label %next
next:
  %left = phi i64 [ %parts, %begin ], [ %part, %keep ]
  %before = phi ptr [ null, %begin ], [ %found, %keep ]
  %all = icmp eq i64 %left, 0
  br i1 %all, label %done, label %one
one:
  %part = sub i64 %left, 1
  call void @lay_values(ptr %carry, ptr %sources, ptr %values, i64 %part, ptr %first, ptr %before)
  %found = call ptr @call_code(ptr %code, ptr %carry, ptr %sources)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %let.go, label %keep
keep:
  call void @put_item(ptr %results, i64 %part, ptr %found)
  br label %next
let.go:
  call void @Py_DecRef(ptr %code)
  br label %drop
drop:
  call void @Py_DecRef(ptr %results)
  br label %error
done:
  call void @Py_DecRef(ptr %code)
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
  %parts = call i64 @argument_count(ptr %results)
  %result.bytes = shl i64 %n.results, 3
  %bar.bytes = shl i64 %n.bars, 3
  %code = call ptr @code_of(ptr %carry)
  %no.code = icmp eq ptr %code, null
  br i1 %no.code, label %error, label %begin
begin:
  call void @copy_references(ptr %bars, ptr %bar.items, i64 %n.bars)
  br label %next
next:
  %part = phi i64 [ 0, %begin ], [ %behind, %moved ]
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
  %found = call ptr @call_code(ptr %code, ptr %carry, ptr %sources)
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
  call void @Py_DecRef(ptr %code)
  ret ptr %tuple
drop:
  call void @release_all(ptr %bars, i64 %n.bars)
  call void @Py_DecRef(ptr %code)
  br label %error
error:
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
