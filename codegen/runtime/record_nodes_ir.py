"""The contents of nodes (`record_ir`), as LLVM IR text: their numbers, which are raw words, and their inputs.

    number       2 n + 1, once machine code records; an object in nodes that Python made before, and of some hooks
    inputs       a tuple, or null: then `first` and `second` are the inputs (null: none, or one)
    mark         a raw word, for walks

So a node is one object: a tuple and an int beside it took as long to make and to free as all else.  Python sees both as
attributes; where it asks for inputs, these move to a tuple, which it may hold while another thread drops them.
"""

from __future__ import annotations

__all__ = ["NODES"]

#: The fields of a node that hold objects, and what visits one of them and goes on to the next.
_FIELDS = ("kind", "value", "inputs", "first", "second")
_VISIT = """visit.$THIS:
  %$THIS = call ptr @field(ptr %node, i64 $$THIS_at)
  %$THIS.answer = call i32 @visited(ptr %$THIS, ptr %visit, ptr %data)
  %$THIS.is.fine = icmp eq i32 %$THIS.answer, 0
  br i1 %$THIS.is.fine, label %visit.$NEXT, label %stop.$THIS
stop.$THIS:
  ret i32 %$THIS.answer
"""


def _visits() -> str:
    """The blocks of `node_traverse`, one a field: it ends where a visit gives more than 0."""
    pairs = zip(_FIELDS, (*_FIELDS[1:], "end"), strict=True)
    blocks = [_VISIT.replace("$THIS", this).replace("$NEXT", behind) for this, behind in pairs]
    return "".join([*blocks, "visit.end:\n  ret i32 0"])


NODES = """
define internal ptr @place(ptr %object, i64 %number) alwaysinline {
  %offset = call i64 @own(i64 %number)
  %at = getelementptr i8, ptr %object, i64 %offset
  ret ptr %at
}

; The number of a node; -1 where it is none that was counted.
define internal i64 @number_of(ptr %node) alwaysinline {
entry:
  %at = call ptr @place(ptr %node, i64 $number_at)
  %word = load i64, ptr %at
  %low = and i64 %word, 1
  %is.raw = icmp ne i64 %low, 0
  br i1 %is.raw, label %raw, label %object
raw:
  %number = ashr i64 %word, 1
  ret i64 %number
object:
  %found = call i64 @number_in(ptr %node, i64 $number_at, i64 -1)
  ret i64 %found
}
define internal void @set_number(ptr %node, i64 %number) alwaysinline {
  %twice = shl i64 %number, 1
  %word = or i64 %twice, 1
  %at = call ptr @place(ptr %node, i64 $number_at)
  store i64 %word, ptr %at
  ret void
}
; The next number of the counter that Python counts with, too: its first word is the number that comes next.
define internal i64 @next_number() alwaysinline {
  %counter = call ptr @own.object(i64 $counter)
  %at = getelementptr i8, ptr %counter, i64 $COUNTED
  %number = load i64, ptr %at
  %next = add i64 %number, 1
  store i64 %next, ptr %at
  ret i64 %number
}
; Let go of a number that is an object.
define internal void @clear_number(ptr %node) alwaysinline {
entry:
  %at = call ptr @place(ptr %node, i64 $number_at)
  %word = load i64, ptr %at
  store i64 0, ptr %at
  %low = and i64 %word, 1
  %is.raw = icmp ne i64 %low, 0
  br i1 %is.raw, label %done, label %object
object:
  %old = inttoptr i64 %word to ptr
  call void @Py_DecRef(ptr %old)                  ; null is fine
  br label %done
done:
  ret void
}

; How many inputs a node has.
define internal i64 @input_count(ptr %node) alwaysinline {
entry:
  %tuple = call ptr @field(ptr %node, i64 $inputs_at)
  %is.inline = icmp eq ptr %tuple, null
  br i1 %is.inline, label %two, label %many
two:
  %first = call ptr @field(ptr %node, i64 $first_at)
  %second = call ptr @field(ptr %node, i64 $second_at)
  %has.first = icmp ne ptr %first, null
  %has.second = icmp ne ptr %second, null
  %one = zext i1 %has.first to i64
  %another = zext i1 %has.second to i64
  %few = add i64 %one, %another
  ret i64 %few
many:
  %count = call i64 @argument_count(ptr %tuple)
  ret i64 %count
}
; One of them, borrowed; null where there are not so many.
define internal ptr @input_of(ptr %node, i64 %k) alwaysinline {
entry:
  %tuple = call ptr @field(ptr %node, i64 $inputs_at)
  %is.inline = icmp eq ptr %tuple, null
  br i1 %is.inline, label %two, label %many
two:
  %first = call ptr @field(ptr %node, i64 $first_at)
  %second = call ptr @field(ptr %node, i64 $second_at)
  %is.first = icmp eq i64 %k, 0
  %is.second = icmp eq i64 %k, 1
  %or.none = select i1 %is.second, ptr %second, ptr null
  %input = select i1 %is.first, ptr %first, ptr %or.none
  ret ptr %input
many:
  %item = call ptr @item_of(ptr %tuple, i64 %k)
  ret ptr %item
}
; The inputs as a tuple, a new reference: those in the node move into it.  Null with an exception.
define internal ptr @inputs_of(ptr %node) {
entry:
  %known = call ptr @field(ptr %node, i64 $inputs_at)
  %is.inline = icmp eq ptr %known, null
  br i1 %is.inline, label %make, label %give
make:
  %n = call i64 @input_count(ptr %node)
  %tuple = call ptr @PyTuple_New(i64 %n)
  %failed = icmp eq ptr %tuple, null
  br i1 %failed, label %error, label %move
move:
  %first.at = call ptr @place(ptr %node, i64 $first_at)
  %second.at = call ptr @place(ptr %node, i64 $second_at)
  %first = load ptr, ptr %first.at
  %second = load ptr, ptr %second.at
  %now = call i64 @input_count(ptr %node)         ; memory was asked for: what ran may have dropped or moved them
  %moved = call ptr @field(ptr %node, i64 $inputs_at)
  %is.still = icmp eq ptr %moved, null
  %as.many = icmp eq i64 %now, %n
  %is.same = and i1 %is.still, %as.many
  br i1 %is.same, label %none, label %again
again:
  call void @Py_DecRef(ptr %tuple)
  br label %entry.again
entry.again:
  %other = call ptr @inputs_of(ptr %node)
  ret ptr %other
none:
  %is.none = icmp eq i64 %n, 0
  br i1 %is.none, label %keep, label %one
one:
  call void @put_item(ptr %tuple, i64 0, ptr %first)
  store ptr null, ptr %first.at
  %is.one = icmp eq i64 %n, 1
  br i1 %is.one, label %keep, label %two
two:
  call void @put_item(ptr %tuple, i64 1, ptr %second)
  store ptr null, ptr %second.at
  br label %keep
keep:
  call void @set_field(ptr %node, i64 $inputs_at, ptr %tuple)
  br label %give
give:
  %found = phi ptr [ %known, %entry ], [ %tuple, %keep ]
  call void @Py_IncRef(ptr %found)
  ret ptr %found
error:
  ret ptr null
}
; A new reference to the node that a step has for an input.
define internal ptr @picked(ptr %picks, i64 %i, ptr %nodes) alwaysinline {
  %pick.at = getelementptr i64, ptr %picks, i64 %i
  %pick = load i64, ptr %pick.at
  %picked.at = getelementptr ptr, ptr %nodes, i64 %pick
  %picked = load ptr, ptr %picked.at
  call void @Py_IncRef(ptr %picked)
  ret ptr %picked
}
; Let a node drop its inputs.
define internal void @drop_inputs(ptr %node) {
  call void @clear_field(ptr %node, i64 $first_at)
  call void @clear_field(ptr %node, i64 $second_at)
  call void @clear_field(ptr %node, i64 $inputs_at)
  ret void
}

; What Python reads and writes.
define ptr @get_inputs(ptr %node, ptr %closure) {
  %found = call ptr @inputs_of(ptr %node)
  ret ptr %found
}
define i32 @set_inputs(ptr %node, ptr %value, ptr %closure) {
entry:
  %is.deleted = icmp eq ptr %value, null
  br i1 %is.deleted, label %no, label %look
look:
  %count = call i64 @count_of(ptr %value)
  %is.other = icmp slt i64 %count, 0
  br i1 %is.other, label %no, label %set
set:
  %old.at = call ptr @place(ptr %node, i64 $inputs_at)
  %old = load ptr, ptr %old.at
  call void @Py_IncRef(ptr %value)
  store ptr %value, ptr %old.at
  call void @clear_field(ptr %node, i64 $first_at)
  call void @clear_field(ptr %node, i64 $second_at)
  call void @Py_DecRef(ptr %old)
  ret i32 0
no:
  %is.error = call i32 @PyErr_BadArgument()
  ret i32 -1
}
define ptr @get_number(ptr %node, ptr %closure) {
entry:
  %at = call ptr @place(ptr %node, i64 $number_at)
  %word = load i64, ptr %at
  %low = and i64 %word, 1
  %is.raw = icmp ne i64 %low, 0
  br i1 %is.raw, label %raw, label %object
raw:
  %number = ashr i64 %word, 1
  %made = call ptr @PyLong_FromLongLong(i64 %number)
  ret ptr %made
object:
  %found = inttoptr i64 %word to ptr
  %is.unset = icmp eq ptr %found, null
  br i1 %is.unset, label %no, label %yes
yes:
  call void @Py_IncRef(ptr %found)
  ret ptr %found
no:
  %is.error = call i32 @PyErr_BadArgument()
  ret ptr null
}
define i32 @set_number_attribute(ptr %node, ptr %value, ptr %closure) {
entry:
  %is.deleted = icmp eq ptr %value, null
  br i1 %is.deleted, label %clear, label %look
look:
  %class = call ptr @class_of(ptr %value)
  %int.type = call ptr @own.object(i64 $int_type)
  %is.int = icmp eq ptr %class, %int.type
  br i1 %is.int, label %raw, label %object
raw:
  %number = call i64 @PyLong_AsLongLong(ptr %value)
  call void @clear_number(ptr %node)
  call void @set_number(ptr %node, i64 %number)
  ret i32 0
object:
  call void @Py_IncRef(ptr %value)
  call void @clear_number(ptr %node)
  call void @set_field(ptr %node, i64 $number_at, ptr %value)
  ret i32 0
clear:
  call void @clear_number(ptr %node)
  ret i32 0
}

; What the collector of cycles asks: of which objects a node has references; and to let go of those of a cycle.
define internal i32 @visited(ptr %object, ptr %visit, ptr %data) alwaysinline {
entry:
  %is.none = icmp eq ptr %object, null
  br i1 %is.none, label %fine, label %one
one:
  %answer = call i32 %visit(ptr %object, ptr %data)
  ret i32 %answer
fine:
  ret i32 0
}
define i32 @node_traverse(ptr %node, ptr %visit, ptr %data) {
  %class = call ptr @class_of(ptr %node)
  %class.answer = call i32 @visited(ptr %class, ptr %visit, ptr %data)
  %class.is.fine = icmp eq i32 %class.answer, 0
  br i1 %class.is.fine, label %visit.kind, label %stop.class
stop.class:
  ret i32 %class.answer
$VISITS
}
define i32 @node_clear(ptr %node) {
  call void @drop_inputs(ptr %node)
  ret i32 0
}
""".replace("$VISITS", _visits())
