"""A known ask as one native call (`record_ir`), as LLVM IR text: find, run, settle.

    answered(recording, node)    internal: 1 when the value of a pending node was computed, 0 where Python is to be
                                 asked, -1 with an exception
    answer(node)                 the same as a METH_FASTCALL function: True or False

By the kind of the node, and grad mode, there is a list of what was computed for such asks before.  Each is an *answer
block*, whose words `ANSWER` names: the check of the recording (`check_ir`), the plan to run, and what keeps its
results (`commit_ir`).  What is small, pending and alive is computed with it, as Python does (`autodiff.tape.ask`).
"""

from __future__ import annotations

__all__ = ["ANSWER", "ANSWERS", "MOST_LIVE"]

#: The words of an answer block.
ANSWER = ("checked", "answer_plan", "finished")
#: So many live results beside what is asked for are looked after here.
MOST_LIVE = 16

ANSWERS = """
declare ptr @PyDict_GetItem(ptr, ptr)
declare ptr @PyWeakref_GetObject(ptr)
declare ptr @PyList_New(i64)
declare i32 @PyErr_ExceptionMatches(ptr)

; Exchange what a field has; the new reference is taken.
define internal void @replace_field(ptr %object, i64 %number, ptr %value) alwaysinline {
  %old = call ptr @field(ptr %object, i64 %number)
  call void @set_field(ptr %object, i64 %number, ptr %value)
  call void @Py_DecRef(ptr %old)
  ret void
}

define internal void @release_all(ptr %objects, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %one
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @Py_DecRef(ptr %object)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}

; The pending nodes of small results that somebody holds, each once, but for the one that is asked for: how many, or -1.
define internal i64 @gather_live(ptr %recording, ptr %root, ptr %lives) {
entry:
  %small = call ptr @field(ptr %recording, i64 $small_at)
  %class = call ptr @class_of(ptr %small)
  %list.type = call ptr @own.object(i64 $list_type)
  %is.list = icmp eq ptr %class, %list.type
  br i1 %is.list, label %size, label %python
size:
  %n = call i64 @PyList_Size(ptr %small)
  %none = call ptr @own.object(i64 $none)
  br label %next
next:
  %i = phi i64 [ 0, %size ], [ %i.next, %other ], [ %i.next, %keep ]
  %count = phi i64 [ 0, %size ], [ %count, %other ], [ %count.next, %keep ]
  %all = icmp sge i64 %i, %n
  br i1 %all, label %done, label %one
one:
  %reference = call ptr @PyList_GetItem(ptr %small, i64 %i)
  %x = call ptr @PyWeakref_GetObject(ptr %reference)
  %i.next = add i64 %i, 1
  %is.wrong = icmp eq ptr %x, null
  br i1 %is.wrong, label %forget, label %alive
alive:
  %is.gone = icmp eq ptr %x, %none
  br i1 %is.gone, label %other, label %look
look:
  %node = call ptr @node_of(ptr %x)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %python, label %pending
pending:
  %is.pending = call i1 @is_pending_as(ptr %node, i64 1)
  %is.asked = icmp eq ptr %node, %root
  %not.asked = xor i1 %is.asked, true
  %is.wanted = and i1 %is.pending, %not.asked
  br i1 %is.wanted, label %known, label %other
known:
  %k = phi i64 [ 0, %pending ], [ %k.next, %known.one ]
  %is.new = icmp eq i64 %k, %count
  br i1 %is.new, label %room, label %known.one
known.one:
  %k.at = getelementptr ptr, ptr %lives, i64 %k
  %k.node = load ptr, ptr %k.at
  %k.next = add i64 %k, 1
  %is.same = icmp eq ptr %k.node, %node
  br i1 %is.same, label %other, label %known
room:
  %is.full = icmp eq i64 %count, $MOST_LIVE
  br i1 %is.full, label %python, label %keep
keep:
  %to = getelementptr ptr, ptr %lives, i64 %count
  store ptr %node, ptr %to
  %count.next = add i64 %count, 1
  br label %next
other:
  br label %next
done:
  ret i64 %count
forget:
  call void @PyErr_Clear()
  br label %python
python:
  ret i64 -1
}

; Another recording begins, and the list of candidates anew.  -1 with an exception.
define internal i32 @begin_another(ptr %recording) {
entry:
  %asked = call i32 @count_up(ptr %recording, i64 $asked_at)
  %asked.bad = icmp ne i32 %asked, 0
  br i1 %asked.bad, label %error, label %list
list:
  %list.new = call ptr @PyList_New(i64 0)
  %no.list = icmp eq ptr %list.new, null
  br i1 %no.list, label %error, label %number
number:
  call void @replace_field(ptr %recording, i64 $small_at, ptr %list.new)
  %limit = call ptr @own.object(i64 $first_limit)
  call void @Py_IncRef(ptr %limit)
  call void @replace_field(ptr %recording, i64 $limit_at, ptr %limit)
  %counter = call ptr @own.object(i64 $counter)
  %start = call ptr @PyIter_Next(ptr %counter)
  %no.start = icmp eq ptr %start, null
  br i1 %no.start, label %error, label %look
look:
  call void @replace_field(ptr %recording, i64 $start_at, ptr %start)
  %first = call i64 @PyLong_AsLongLong(ptr %start)
  %most = call i64 @own(i64 $pending_limit)
  %last = add i64 %first, %most
  %look.at = call ptr @PyLong_FromLongLong(i64 %last)
  %no.look = icmp eq ptr %look.at, null
  br i1 %no.look, label %error, label %done
done:
  call void @replace_field(ptr %recording, i64 $look_at_at, ptr %look.at)
  ret i32 0
error:
  ret i32 -1
}

; By one answer: 1 done, 0 where the recording is another, 2 where Python is to be asked, -1 with an exception.
define internal i32 @answered_by(ptr %known, ptr %recording, ptr %root, ptr %lives, i64 %n.live) noinline {
entry:
  %root.cell = alloca ptr
  store ptr %root, ptr %root.cell
  %plan = call ptr @object_at(ptr %known, i64 $answer_plan)
  %valid = call ptr @field(ptr %plan, i64 $valid_at)
  %true = call ptr @own.object(i64 $true)
  %is.valid = icmp eq ptr %valid, %true
  br i1 %is.valid, label %look, label %no
look:
  %checked = call ptr @object_at(ptr %known, i64 $checked)
  %n.registers = call i64 @operand_at(ptr %checked, i64 $registers)
  %n.leaf.registers = call i64 @operand_at(ptr %checked, i64 $leaf_registers)
  %n.arguments = call i64 @operand_at(ptr %checked, i64 $arguments)
  %n.stored = call i64 @operand_at(ptr %checked, i64 $stored)
  %n.values = add i64 %n.arguments, 1
  %registers = alloca ptr, i64 %n.registers
  %owners = alloca ptr, i64 %n.leaf.registers
  %values = alloca ptr, i64 %n.values
  %nodes = alloca ptr, i64 %n.stored
  %is = call i1 @matches(ptr %checked, ptr %root.cell, ptr %lives, i64 %n.live, ptr %registers, ptr %owners)
  br i1 %is, label %run, label %no
run:
  ; From here on what is read and written is held: others may run meanwhile.
  %executable = call ptr @field(ptr %plan, i64 $executable_at)
  call void @Py_IncRef(ptr %executable)
  store ptr %executable, ptr %values
  %first = getelementptr ptr, ptr %values, i64 1
  %argument.table = call ptr @object_at(ptr %checked, i64 $argument_table)
  call void @fill_arguments(ptr %first, i64 %n.arguments, ptr %argument.table, ptr %registers)
  %stored.table = call ptr @object_at(ptr %checked, i64 $stored_table)
  call void @fill(ptr %nodes, i64 %n.stored, ptr %stored.table, ptr %registers)
  %call.name = call ptr @own.object(i64 $call_name)
  %results = call ptr @PyObject_VectorcallMethod(ptr %call.name, ptr %values, i64 %n.values, ptr null)
  call void @release_all(ptr %values, i64 %n.values)
  %failed = icmp eq ptr %results, null
  br i1 %failed, label %failure, label %settle
settle:
  %finished = call ptr @object_at(ptr %known, i64 $finished)
  %n.settled = call i64 @operand_at(ptr %finished, i64 $settled)
  %settled = call ptr @object_at(ptr %finished, i64 $settled_table)
  call void @settle_all(ptr %nodes, i64 %n.settled, ptr %settled, ptr %results)
  %counts = call ptr @own.object(i64 $counts)
  %hits = call i32 @count_up(ptr %counts, i64 $hits_at)
  %runs = call i32 @count_up(ptr %counts, i64 $runs_at)
  %begun = call i32 @begin_another(ptr %recording)
  %any = or i32 %hits, %runs
  %all = or i32 %any, %begun
  %is.good = icmp eq i32 %all, 0
  br label %drop
drop:
  %status = phi i1 [ %is.good, %settle ]
  call void @Py_DecRef(ptr %results)
  call void @release_all(ptr %nodes, i64 %n.stored)
  br i1 %status, label %yes, label %error
failure:
  call void @release_all(ptr %nodes, i64 %n.stored)
  %out.of.range = call ptr @own.object(i64 $out_of_range)
  %is.index = call i32 @PyErr_ExceptionMatches(ptr %out.of.range)
  %is.other = icmp eq i32 %is.index, 0
  br i1 %is.other, label %error, label %again
again:
  call void @PyErr_Clear()                        ; Python meets it, and says at which line
  ret i32 2
yes:
  ret i32 1
no:
  ret i32 0
error:
  ret i32 -1
}

define internal i32 @answered(ptr %root) {
entry:
  %mode.cell = alloca ptr
  %lives = alloca [$MOST_LIVE x ptr]
  %recording = call ptr @recording_now(ptr %mode.cell)
  %is.not.now = icmp eq ptr %recording, null
  br i1 %is.not.now, label %python, label %untraced
untraced:
  %tracing = call ptr @field(ptr %recording, i64 $tracing_at)
  %zero = call ptr @own.object(i64 $zero)
  %is.untraced = icmp eq ptr %tracing, %zero
  br i1 %is.untraced, label %known, label %python
known:
  %mode = load ptr, ptr %mode.cell
  %true = call ptr @own.object(i64 $true)
  %tracks = icmp eq ptr %mode, %true
  %with = call ptr @own.object(i64 $answers_tracked)
  %without = call ptr @own.object(i64 $answers_untracked)
  %answers = select i1 %tracks, ptr %with, ptr %without
  %kind = call ptr @kind_of(ptr %root)
  %no.kind = icmp eq ptr %kind, null
  br i1 %no.kind, label %python, label %find
find:
  %list = call ptr @PyDict_GetItem(ptr %answers, ptr %kind)
  %is.unknown = icmp eq ptr %list, null
  br i1 %is.unknown, label %python, label %live
live:
  %n.live = call i64 @gather_live(ptr %recording, ptr %root, ptr %lives)
  %are.many = icmp slt i64 %n.live, 0
  br i1 %are.many, label %python, label %hold
hold:
  call void @Py_IncRef(ptr %list)
  call void @Py_IncRef(ptr %recording)
  call void @Py_IncRef(ptr %root)
  %n = call i64 @argument_count(ptr %list)
  br label %next
next:
  %i = phi i64 [ 0, %hold ], [ %i.next, %one ]
  %all = icmp sge i64 %i, %n
  br i1 %all, label %drop, label %one
one:
  %self = call ptr @argument(ptr %list, i64 %i)
  %block.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %block = load ptr, ptr %block.at, align 1
  %status = call i32 @answered_by(ptr %block, ptr %recording, ptr %root, ptr %lives, i64 %n.live)
  %i.next = add i64 %i, 1
  %is.other = icmp eq i32 %status, 0
  br i1 %is.other, label %next, label %drop
drop:
  %last = phi i32 [ 0, %next ], [ %status, %one ]
  %is.for.python = icmp eq i32 %last, 2
  %result = select i1 %is.for.python, i32 0, i32 %last
  call void @Py_DecRef(ptr %root)
  call void @Py_DecRef(ptr %recording)
  call void @Py_DecRef(ptr %list)
  ret i32 %result
python:
  ret i32 0
}

define ptr @answer(ptr %self, ptr %arguments, i64 %count) {
entry:
  %node = load ptr, ptr %arguments
  %status = call i32 @answered(ptr %node)
  %is.error = icmp slt i32 %status, 0
  br i1 %is.error, label %error, label %say
say:
  %is.done = icmp eq i32 %status, 1
  %true = call ptr @own.object(i64 $true)
  %false = call ptr @own.object(i64 $false)
  %word = select i1 %is.done, ptr %true, ptr %false
  call void @Py_IncRef(ptr %word)
  ret ptr %word
error:
  ret ptr null
}
"""
