"""Putting a program of the recorder (`record_ir`) down, as LLVM IR text: nodes, their inputs, the handle.

    put_step      one node
    hold_operands holds them, after a look at index arrays
    put           for operands whose nodes are held
    put_program   the same, called from Python: for a body that knows its program
"""

from __future__ import annotations

__all__ = ["PUT"]

PUT = """
; Whether the elements of an array of integers are known to be places of an axis of this extent, or not known.
define internal i1 @are_places(ptr %array, i64 %extent) {
entry:
  %nd.at = getelementptr i8, ptr %array, i64 $ND
  %nd = load i32, ptr %nd.at
  %rank = zext i32 %nd to i64
  %dims.at = getelementptr i8, ptr %array, i64 $DIMS
  %dims = load ptr, ptr %dims.at
  %data.at = getelementptr i8, ptr %array, i64 $DATA
  %data = load ptr, ptr %data.at
  %descr.at = getelementptr i8, ptr %array, i64 $DESCR
  %descr = load ptr, ptr %descr.at
  %int64 = call ptr @own.object(i64 $int64_descr)
  %is.long = icmp eq ptr %descr, %int64
  %least = sub i64 0, %extent
  br label %size
size:
  %d = phi i64 [ 0, %entry ], [ %d.next, %size.one ]
  %count = phi i64 [ 1, %entry ], [ %count.next, %size.one ]
  %sized = icmp eq i64 %d, %rank
  br i1 %sized, label %few, label %size.one
size.one:
  %dim.at = getelementptr i64, ptr %dims, i64 %d
  %dim = load i64, ptr %dim.at
  %count.next = mul i64 %count, %dim
  %d.next = add i64 %d, 1
  br label %size
few:
  %is.much = icmp ugt i64 %count, $MOST_KNOWN     ; a kernel looks at them all
  br i1 %is.much, label %yes, label %next
next:
  %i = phi i64 [ 0, %few ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %yes, label %read
read:
  br i1 %is.long, label %long, label %short
long:
  %long.at = getelementptr i64, ptr %data, i64 %i
  %long.value = load i64, ptr %long.at
  br label %one
short:
  %short.at = getelementptr i32, ptr %data, i64 %i
  %short.value = load i32, ptr %short.at
  %widened = sext i32 %short.value to i64
  br label %one
one:
  %value = phi i64 [ %long.value, %long ], [ %widened, %short ]
  %i.next = add i64 %i, 1
  %from = icmp sge i64 %value, %least
  %to = icmp slt i64 %value, %extent
  %is.place = and i1 %from, %to
  br i1 %is.place, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Hold a program and the nodes of its keyed operands, those of arrays being made: from here on they are ours, whatever
; happens to tables and handles.  1; 0 where an index array is not as the program wants it, and -1 with an exception:
; then nothing is held.
define internal i32 @hold_operands(ptr %program, ptr %owner, ptr %recording, ptr %keys, ptr %xs, ptr %nodes, i64 %n) {
entry:
  call void @Py_IncRef(ptr %owner)
  br label %next
next:
  ; All that are there, before memory is asked for: what runs then may leave a handle with another node.
  %h = phi i64 [ 0, %entry ], [ %h.next, %one ]
  %all = icmp eq i64 %h, %n
  br i1 %all, label %leaf.next, label %one
one:
  %at = getelementptr ptr, ptr %nodes, i64 %h
  %node = load ptr, ptr %at
  call void @Py_IncRef(ptr %node)                 ; null, for a number or an array, is fine
  %h.next = add i64 %h, 1
  br label %next
leaf.next:
  %l = phi i64 [ 0, %next ], [ %l.next, %leaf.one ], [ %l.next, %other ], [ %l.next, %array ]
  %all.leaves = icmp eq i64 %l, %n
  br i1 %all.leaves, label %bounds, label %leaf.one
leaf.one:
  %leaf.at = getelementptr ptr, ptr %nodes, i64 %l
  %held = load ptr, ptr %leaf.at
  %l.next = add i64 %l, 1
  %no.node = icmp eq ptr %held, null
  br i1 %no.node, label %other, label %leaf.next
other:
  %x.at = getelementptr ptr, ptr %xs, i64 %l
  %x = load ptr, ptr %x.at
  %class = call ptr @class_of(ptr %x)
  %array.type = call ptr @own.object(i64 $array_type)
  %is.array = icmp eq ptr %class, %array.type
  br i1 %is.array, label %array, label %leaf.next
array:
  %kind.at = getelementptr ptr, ptr %keys, i64 %l
  %kind = load ptr, ptr %kind.at                  ; the program has it
  %leaf = call ptr @array_node(ptr %x, ptr %kind, ptr %recording)
  store ptr %leaf, ptr %leaf.at
  %no.leaf = icmp eq ptr %leaf, null
  br i1 %no.leaf, label %failed, label %leaf.next
failed:
  call void @release_all(ptr %nodes, i64 %n)
  call void @Py_DecRef(ptr %owner)
  ret i32 -1

bounds:
  %n.bounds.at = getelementptr i64, ptr %program, i64 $N_BOUNDS
  %n.bounds = load i64, ptr %n.bounds.at
  br label %bound
bound:
  %b = phi i64 [ 0, %bounds ], [ %b.next, %bound.good ]
  %are.good = icmp eq i64 %b, %n.bounds
  br i1 %are.good, label %done, label %bound.one
bound.one:
  %first.bound = getelementptr i64, ptr %program, i64 $FIRST_BOUND
  %bound.at = getelementptr [2 x i64], ptr %first.bound, i64 %b
  %which = load i64, ptr %bound.at
  %extent.at = getelementptr i64, ptr %bound.at, i64 1
  %extent = load i64, ptr %extent.at
  %b.next = add i64 %b, 1
  %which.at = getelementptr ptr, ptr %nodes, i64 %which
  %index = load ptr, ptr %which.at
  %no.index = icmp eq ptr %index, null
  br i1 %no.index, label %outside, label %value.of
value.of:
  %value = call ptr @field(ptr %index, i64 $value_at)
  %none = call ptr @own.object(i64 $none)
  %is.pending = icmp eq ptr %value, %none
  br i1 %is.pending, label %bound.good, label %known
known:
  %class.of.arrays = call ptr @own.object(i64 $array_type)
  %value.class = call ptr @class_of(ptr %value)
  %is.known = icmp eq ptr %value.class, %class.of.arrays
  br i1 %is.known, label %look, label %outside
look:
  %are.places = call i1 @are_places(ptr %value, i64 %extent)
  br i1 %are.places, label %bound.good, label %outside
bound.good:
  br label %bound
outside:
  call void @release_all(ptr %nodes, i64 %n)
  call void @Py_DecRef(ptr %owner)
  ret i32 0
done:
  ret i32 1
}

; The node of a step (kind, value, number of inputs, which of `nodes` they are), or null with an exception.
define internal ptr @put_step(ptr %step, ptr %nodes) alwaysinline {
entry:
  %kind = load ptr, ptr %step
  %value.at = getelementptr ptr, ptr %step, i64 1
  %value = load ptr, ptr %value.at
  %n.at = getelementptr i64, ptr %step, i64 2
  %n = load i64, ptr %n.at
  %picks = getelementptr i64, ptr %step, i64 3
  %node = call ptr @new_node(ptr %kind, ptr %value)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %no, label %wire
wire:
  %is.many = icmp ugt i64 %n, 2
  br i1 %is.many, label %many, label %few
few:
  %has.first = icmp ne i64 %n, 0
  br i1 %has.first, label %first, label %give
first:
  %first.input = call ptr @picked(ptr %picks, i64 0, ptr %nodes)
  call void @set_field(ptr %node, i64 $first_at, ptr %first.input)
  %has.second = icmp eq i64 %n, 2
  br i1 %has.second, label %second, label %give
second:
  %second.input = call ptr @picked(ptr %picks, i64 1, ptr %nodes)
  call void @set_field(ptr %node, i64 $second_at, ptr %second.input)
  br label %give
give:
  ret ptr %node
many:
  %inputs = call ptr @PyTuple_New(i64 %n)
  %no.inputs = icmp eq ptr %inputs, null
  br i1 %no.inputs, label %drop, label %next
next:
  %i = phi i64 [ 0, %many ], [ %i.next, %one ]
  %wired = icmp eq i64 %i, %n
  br i1 %wired, label %done, label %one
one:
  %picked = call ptr @picked(ptr %picks, i64 %i, ptr %nodes)
  call void @put_item(ptr %inputs, i64 %i, ptr %picked)
  %i.next = add i64 %i, 1
  br label %next
done:
  call void @set_field(ptr %node, i64 $inputs_at, ptr %inputs)
  ret ptr %node
drop:
  call void @Py_DecRef(ptr %node)
  br label %no
no:
  ret ptr null
}
; The same for native Python (`recording_program`).
define ptr @new_step(ptr %step, ptr %nodes) {
  %node = call ptr @put_step(ptr %step, ptr %nodes)
  ret ptr %node
}
; Where the step behind this one is.
define internal ptr @step_behind(ptr %step) alwaysinline {
  %n.at = getelementptr i64, ptr %step, i64 2
  %n = load i64, ptr %n.at
  %picks = getelementptr i64, ptr %step, i64 3
  %behind = getelementptr i64, ptr %picks, i64 %n
  ret ptr %behind
}

; Put a program down: a new reference to a new handle, or null with an exception.
; `nodes` has references to the operands' nodes, null for a number; they are given away here, and so is `owner`.
define internal ptr @put(ptr %program, ptr %owner, ptr %recording, ptr %xs, ptr %nodes, i64 %operand.count) {
entry:
  %look.arguments = alloca [2 x ptr]
  %number.kind.at = getelementptr ptr, ptr %program, i64 3
  %number.kind = load ptr, ptr %number.kind.at
  %keeps.at = getelementptr i64, ptr %program, i64 5
  %keeps.word = load i64, ptr %keeps.at
  %keeps = icmp ne i64 %keeps.word, 0
  br label %operand
operand:
  %o = phi i64 [ 0, %entry ], [ %o.next, %operand.good ]
  %are.ready = icmp eq i64 %o, %operand.count
  br i1 %are.ready, label %step.first, label %operand.one
operand.one:
  %o.at = getelementptr ptr, ptr %nodes, i64 %o
  %o.node = load ptr, ptr %o.at
  %o.is.number = icmp eq ptr %o.node, null
  br i1 %o.is.number, label %number, label %operand.good
number:
  %x.at = getelementptr ptr, ptr %xs, i64 %o
  %x = load ptr, ptr %x.at
  %made.leaf = call ptr @number_node(ptr %x, ptr %number.kind, i1 %keeps)
  store ptr %made.leaf, ptr %o.at
  %no.leaf = icmp eq ptr %made.leaf, null
  br i1 %no.leaf, label %release, label %operand.good
operand.good:
  %o.next = add i64 %o, 1
  br label %operand
step.first:
  %steps = load i64, ptr %program
  %steps.at = getelementptr i64, ptr %program, i64 $PROGRAM_WORDS
  br label %step
step:
  %s = phi i64 [ 0, %step.first ], [ %s.next, %stepped ]
  %count = phi i64 [ %operand.count, %step.first ], [ %count.next, %stepped ]
  %at = phi ptr [ %steps.at, %step.first ], [ %at.next, %stepped ]
  %node = call ptr @put_step(ptr %at, ptr %nodes)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %release, label %stepped
stepped:
  %node.at = getelementptr ptr, ptr %nodes, i64 %count
  store ptr %node, ptr %node.at
  %count.next = add i64 %count, 1
  %s.next = add i64 %s, 1
  %at.next = call ptr @step_behind(ptr %at)
  %more.steps = icmp ult i64 %s.next, %steps
  br i1 %more.steps, label %step, label %handle

handle:
  %class.at = getelementptr ptr, ptr %program, i64 1
  %class = load ptr, ptr %class.at
  %y = call ptr @new_handle(ptr %class)
  %no.y = icmp eq ptr %y, null
  br i1 %no.y, label %release, label %name
name:
  call void @Py_IncRef(ptr %node)
  call void @set_field(ptr %y, i64 $node_at, ptr %node)
  %body = call ptr @field(ptr %recording, i64 $body_at)
  %zero = call ptr @own.object(i64 $zero)
  %is.outside = icmp eq ptr %body, %zero
  br i1 %is.outside, label %mask, label %inside
inside:
  ; In a custom forward: masked if an operand is, and all that track are (`record.is_masked`).
  %i.x = phi i64 [ 0, %name ], [ %i.x.next, %inside.next ]
  %any.masked = phi i1 [ false, %name ], [ %now.masked, %inside.next ]
  %is.last = icmp eq i64 %i.x, %operand.count
  br i1 %is.last, label %mask, label %inside.one
inside.one:
  %i.x.at = getelementptr ptr, ptr %xs, i64 %i.x
  %i.x.object = load ptr, ptr %i.x.at
  %i.x.node = call ptr @node_of(ptr %i.x.object)
  %i.x.masked = call i1 @is_masked(ptr %i.x.object, ptr %i.x.node)
  %now.masked = or i1 %any.masked, %i.x.masked
  %i.x.is.number = icmp eq ptr %i.x.node, null
  %is.told = or i1 %i.x.masked, %i.x.is.number
  br i1 %is.told, label %inside.next, label %inside.open
inside.open:
  %i.x.kind = call ptr @field(ptr %i.x.node, i64 $kind_at)
  %i.x.out = call ptr @field(ptr %i.x.kind, i64 $out_at)
  %i.x.tracked = call ptr @field(ptr %i.x.out, i64 $requires_grad_at)
  %untracked = call ptr @own.object(i64 $false)
  %is.open = icmp ne ptr %i.x.tracked, %untracked
  br i1 %is.open, label %mask, label %inside.next
inside.next:
  %i.x.next = add i64 %i.x, 1
  br label %inside
mask:
  %is.masked = phi i1 [ false, %name ], [ %any.masked, %inside ], [ false, %inside.open ]
  %true = call ptr @own.object(i64 $true)
  %false = call ptr @own.object(i64 $false)
  %masked = select i1 %is.masked, ptr %true, ptr %false
  call void @Py_IncRef(ptr %masked)
  call void @set_field(ptr %y, i64 $masked_at, ptr %masked)
  %small.at = getelementptr i64, ptr %program, i64 2
  %small = load i64, ptr %small.at
  %is.large = icmp eq i64 %small, 0
  br i1 %is.large, label %size, label %note
note:
  %noted = call i32 @note(ptr %recording, ptr %y)
  %note.failed = icmp ne i32 %noted, 0
  br i1 %note.failed, label %drop, label %size
size:
  %made = call i64 @number_of(ptr %node)
  %limit = call i64 @number_in(ptr %recording, i64 $look_at_at, i64 0)
  %is.long = icmp sgt i64 %made, %limit
  br i1 %is.long, label %look, label %release
look:
  %look.function = call ptr @own.object(i64 $look_at)
  store ptr %recording, ptr %look.arguments
  %inputs = call ptr @inputs_of(ptr %node)
  %look.second = getelementptr ptr, ptr %look.arguments, i64 1
  store ptr %inputs, ptr %look.second
  %no.look = icmp eq ptr %inputs, null
  br i1 %no.look, label %drop, label %look.on
look.on:
  %looked = call ptr @PyObject_Vectorcall(ptr %look.function, ptr %look.arguments, i64 2, ptr null)
  call void @Py_DecRef(ptr %inputs)
  %look.failed = icmp eq ptr %looked, null
  br i1 %look.failed, label %drop, label %looked.at
looked.at:
  call void @Py_DecRef(ptr %looked)
  br label %release
drop:
  call void @Py_DecRef(ptr %y)
  br label %release

release:
  %result = phi ptr [ null, %number ], [ null, %step ], [ null, %handle ], [ null, %drop ], [ %y, %size ],
                    [ %y, %looked.at ]
  %held = phi i64 [ %operand.count, %number ], [ %count, %step ], [ %count.next, %handle ], [ %count.next, %drop ],
                  [ %count.next, %size ], [ %count.next, %looked.at ]
  call void @release_all(ptr %nodes, i64 %held)
  call void @Py_DecRef(ptr %owner)
  ret ptr %result
}

; put_program(recording, operands...): a METH_FASTCALL function whose `self` holds the address of the program.
define ptr @put_program(ptr %self, ptr %arguments, i64 %count) {
entry:
  %nodes = alloca [$MOST_NODES x ptr]
  %program.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %program = load ptr, ptr %program.at, align 1
  %operands.at = getelementptr i64, ptr %program, i64 4
  %operands = load i64, ptr %operands.at
  %n = sub i64 %count, 1
  %are.all = icmp eq i64 %n, %operands
  br i1 %are.all, label %hold, label %wrong
hold:
  %recording = load ptr, ptr %arguments
  %xs = getelementptr ptr, ptr %arguments, i64 1
  br label %next
next:
  %i = phi i64 [ 0, %hold ], [ %i.next, %one ]
  %all.held = icmp eq i64 %i, %n
  br i1 %all.held, label %put, label %one
one:
  %x.at = getelementptr ptr, ptr %xs, i64 %i
  %x = load ptr, ptr %x.at
  %node = call ptr @node_of(ptr %x)
  call void @Py_IncRef(ptr %node)
  %node.at = getelementptr ptr, ptr %nodes, i64 %i
  store ptr %node, ptr %node.at
  %i.next = add i64 %i, 1
  br label %next
put:
  call void @Py_IncRef(ptr %self)
  %y = call ptr @put(ptr %program, ptr %self, ptr %recording, ptr %xs, ptr %nodes, i64 %n)
  ret ptr %y
wrong:
  %is.error = call i32 @PyErr_BadArgument()
  ret ptr null
}
"""
