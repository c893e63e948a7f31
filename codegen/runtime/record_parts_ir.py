"""What the recorder (`record_ir`) is made of, as LLVM IR text: fields of objects, keys of operands, new nodes.

    key_of        what an operand is in a table, and its node        evaluate_old   those of an earlier recording
    new_node      a node without inputs        number_node   the leaf of an operand that is a number
"""

from __future__ import annotations

__all__ = ["PARTS"]

#: Names in capitals are offsets of CPython and sizes of tables; the others are numbers of words of the recorder.
PARTS = """
@recorder = internal global [$COUNT x i64] zeroinitializer
@handle.classes = internal global [$TYPES x ptr] zeroinitializer
@sites = internal global [$SITES x [4 x ptr]] zeroinitializer

declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyIter_Next(ptr)
declare ptr @PyFloat_FromDouble(double)
declare double @PyLong_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyThreadState_Get()
declare i64 @PyThreadState_GetID(ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyWeakref_NewRef(ptr, ptr)
declare i32 @PyList_Append(ptr, ptr)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i64 @llvm.vector.reduce.or.v2i64(<2 x i64>)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare ptr @PyObject_Call(ptr, ptr, ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare i32 @PyErr_BadArgument()

define ptr @recorder_words() { ret ptr @recorder }
define ptr @recorder_sites() { ret ptr @sites }

define internal i64 @own(i64 %number) alwaysinline {
  %at = getelementptr i64, ptr @recorder, i64 %number
  %value = load i64, ptr %at
  ret i64 %value
}
define internal ptr @own.object(i64 %number) alwaysinline {
  %at = getelementptr ptr, ptr @recorder, i64 %number
  %value = load ptr, ptr %at
  ret ptr %value
}
; The field of an object whose offset is in this word.
define internal ptr @field(ptr %object, i64 %number) alwaysinline {
  %offset = call i64 @own(i64 %number)
  %at = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %at
  ret ptr %value
}
; Give a new object's field a reference.
define internal void @set_field(ptr %object, i64 %number, ptr %value) alwaysinline {
  %offset = call i64 @own(i64 %number)
  %at = getelementptr i8, ptr %object, i64 %offset
  store ptr %value, ptr %at
  ret void
}
define internal ptr @class_of(ptr %object) alwaysinline {
  %at = getelementptr i8, ptr %object, i64 $TYPE
  %class = load ptr, ptr %at
  ret ptr %class
}

; How many items a tuple has; -1 of anything else.
define internal i64 @count_of(ptr %tuple) alwaysinline {
entry:
  %class = call ptr @class_of(ptr %tuple)
  %tuple.type = call ptr @own.object(i64 $tuple_type)
  %is.tuple = icmp eq ptr %class, %tuple.type
  br i1 %is.tuple, label %yes, label %no
yes:
  %size.at = getelementptr i8, ptr %tuple, i64 $SIZE
  %size = load i64, ptr %size.at
  ret i64 %size
no:
  ret i64 -1
}
; An item of a tuple; null where it has none.
define internal ptr @item_of(ptr %tuple, i64 %k) alwaysinline {
entry:
  %size = call i64 @count_of(ptr %tuple)
  %is.there = icmp slt i64 %k, %size
  br i1 %is.there, label %yes, label %no
yes:
  %items = getelementptr i8, ptr %tuple, i64 $ITEMS
  %at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %at
  ret ptr %item
no:
  ret ptr null
}
; The same of what is a tuple for certain, arguments of a call.
define internal i64 @argument_count(ptr %tuple) alwaysinline {
  %size.at = getelementptr i8, ptr %tuple, i64 $SIZE
  %size = load i64, ptr %size.at
  ret i64 %size
}
define internal ptr @argument(ptr %tuple, i64 %k) alwaysinline {
  %items = getelementptr i8, ptr %tuple, i64 $ITEMS
  %at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %at
  ret ptr %item
}
; Give a new tuple an item, with a reference.
define internal void @put_item(ptr %tuple, i64 %k, ptr %item) alwaysinline {
  %items = getelementptr i8, ptr %tuple, i64 $ITEMS
  %at = getelementptr ptr, ptr %items, i64 %k
  store ptr %item, ptr %at
  ret void
}

; The node of a handle; null for anything else.
define internal ptr @node_of(ptr %x) alwaysinline {
entry:
  %class = call ptr @class_of(ptr %x)
  %bits = ptrtoint ptr %class to i64
  %low = lshr i64 %bits, 4
  %high = lshr i64 %bits, 12
  %mixed = xor i64 %low, %high
  %place = and i64 %mixed, $TYPES_MASK
  %known.at = getelementptr ptr, ptr @handle.classes, i64 %place
  %known = load ptr, ptr %known.at
  %is.known = icmp eq ptr %known, %class
  br i1 %is.known, label %handle, label %ask
ask:
  %handle.type = call ptr @own.object(i64 $handle_type)
  %is.handle = call i32 @PyType_IsSubtype(ptr %class, ptr %handle.type)
  %is.other = icmp eq i32 %is.handle, 0
  br i1 %is.other, label %no, label %remember
remember:
  store ptr %class, ptr %known.at                 ; classes of handles live as long as the process
  br label %handle
handle:
  %node = call ptr @field(ptr %x, i64 $node_at)
  %is.unset = icmp eq ptr %node, null
  br i1 %is.unset, label %no, label %look
look:
  %node.class = call ptr @class_of(ptr %node)
  %node.type = call ptr @own.object(i64 $node_type)
  %rich.type = call ptr @own.object(i64 $rich_type)
  %is.plain = icmp eq ptr %node.class, %node.type
  %is.rich = icmp eq ptr %node.class, %rich.type
  %is.node = or i1 %is.plain, %is.rich
  br i1 %is.node, label %yes, label %no
yes:
  ret ptr %node
no:
  ret ptr null
}

; A field that is an int, as a number; `otherwise` when it is none.
define internal i64 @number_in(ptr %object, i64 %number, i64 %otherwise) alwaysinline {
entry:
  %value = call ptr @field(ptr %object, i64 %number)
  %is.unset = icmp eq ptr %value, null
  br i1 %is.unset, label %no, label %look
look:
  %class = call ptr @class_of(ptr %value)
  %int.type = call ptr @own.object(i64 $int_type)
  %is.int = icmp eq ptr %class, %int.type
  br i1 %is.int, label %yes, label %no
yes:
  %found = call i64 @PyLong_AsLongLong(ptr %value)
  ret i64 %found
no:
  ret i64 %otherwise
}

; Whether a node is older than an argument with respect to which a function that runs is differentiated: what the
; function captured then, or a value that it passed on as it was.
define internal i1 @is_captured(ptr %node, ptr %recording) alwaysinline {
entry:
  %made = call i64 @number_of(ptr %node)
  %since = call i64 @number_in(ptr %recording, i64 $since_at, i64 9223372036854775807)
  %is.captured = icmp slt i64 %made, %since
  ret i1 %is.captured
}

; What an operand is in a table: the out of a handle, the class of a number, the kind that the leaf of an array gets;
; null for what is not recorded now, 1 for what is pending from an earlier recording, 2 for an array of no known kind.
; Its node, null for a number or an array, goes to `cell`.
define internal ptr @key_of(ptr %x, ptr %recording, ptr %cell) {
entry:
  %class = call ptr @class_of(ptr %x)
  %float.type = call ptr @own.object(i64 $float_type)
  %int.type = call ptr @own.object(i64 $int_type)
  %is.float = icmp eq ptr %class, %float.type
  %is.int = icmp eq ptr %class, %int.type
  %float64.type = call ptr @own.object(i64 $float64_type)
  %float32.type = call ptr @own.object(i64 $float32_type)
  %is.float64 = icmp eq ptr %class, %float64.type
  %is.float32 = icmp eq ptr %class, %float32.type
  %is.python = or i1 %is.float, %is.int
  %is.numpy = or i1 %is.float64, %is.float32
  %is.number = or i1 %is.python, %is.numpy
  br i1 %is.number, label %number, label %no.number
number:
  store ptr null, ptr %cell
  ret ptr %class
no.number:
  %node = call ptr @node_of(ptr %x)
  store ptr %node, ptr %cell
  %is.no.handle = icmp eq ptr %node, null
  br i1 %is.no.handle, label %array, label %handle
array:
  %kind.of.array = call ptr @kind_of_array(ptr %x)
  ret ptr %kind.of.array
handle:
  %kind = call ptr @field(ptr %node, i64 $kind_at)
  %is.unset = icmp eq ptr %kind, null
  br i1 %is.unset, label %no, label %kind.class
kind.class:
  %a.class = call ptr @class_of(ptr %kind)
  %kind.type = call ptr @own.object(i64 $kind_type)
  %is.kind = icmp eq ptr %a.class, %kind.type
  br i1 %is.kind, label %age, label %no
age:
  ; A pending operand of an earlier recording is evaluated first.
  %value = call ptr @field(ptr %node, i64 $value_at)
  %none = call ptr @own.object(i64 $none)
  %is.pending = icmp eq ptr %value, %none
  br i1 %is.pending, label %pending, label %good
pending:
  %made = call i64 @number_of(ptr %node)
  %start = call i64 @number_in(ptr %recording, i64 $start_at, i64 9223372036854775807)
  %is.old = icmp slt i64 %made, %start
  br i1 %is.old, label %old, label %good
old:
  ret ptr inttoptr (i64 1 to ptr)
good:
  %out = call ptr @field(ptr %kind, i64 $out_at)
  ret ptr %out
no:
  ret ptr null
}

; Evaluate the operands that are pending from an earlier recording.  -1 with an exception.
define internal i32 @evaluate_old(ptr %recording, ptr %xs, i64 %n) noinline {
entry:
  %node.cell = alloca ptr
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %fine ]
  %is.done = icmp eq i64 %i, %n
  br i1 %is.done, label %done, label %one
one:
  %x.at = getelementptr ptr, ptr %xs, i64 %i
  %x = load ptr, ptr %x.at
  %i.next = add i64 %i, 1
  %key = call ptr @key_of(ptr %x, ptr %recording, ptr %node.cell)
  %is.old = icmp eq ptr %key, inttoptr (i64 1 to ptr)
  br i1 %is.old, label %evaluate, label %fine
evaluate:
  %node = load ptr, ptr %node.cell
  call void @Py_IncRef(ptr %node)
  %answer = call ptr @ask_python(i64 $force, ptr %node)
  call void @Py_DecRef(ptr %node)
  call void @Py_DecRef(ptr %answer)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %error, label %fine
fine:
  br label %next
done:
  ret i32 0
error:
  ret i32 -1
}

; A node without inputs, or null.
define internal ptr @new_node(ptr %kind, ptr %value) {
entry:
  %node = call ptr @new_node_object()
  %failed = icmp eq ptr %node, null
  br i1 %failed, label %no, label %fill
fill:
  call void @Py_IncRef(ptr %kind)
  call void @set_field(ptr %node, i64 $kind_at, ptr %kind)
  call void @Py_IncRef(ptr %value)
  call void @set_field(ptr %node, i64 $value_at, ptr %value)
  %number = call i64 @next_number()
  call void @set_number(ptr %node, i64 %number)
  ret ptr %node
no:
  ret ptr null
}

; The leaf of a number, or null.
define internal ptr @number_node(ptr %x, ptr %kind, i1 %keeps) {
entry:
  %class = call ptr @class_of(ptr %x)
  %float.type = call ptr @own.object(i64 $float_type)
  %is.float = icmp eq ptr %class, %float.type
  %stays = or i1 %is.float, %keeps
  br i1 %stays, label %as.is, label %convert
as.is:
  call void @Py_IncRef(ptr %x)
  br label %make
convert:
  %int.type = call ptr @own.object(i64 $int_type)
  %is.int = icmp eq ptr %class, %int.type
  br i1 %is.int, label %convert.int, label %convert.float
convert.int:
  %double.of.int = call double @PyLong_AsDouble(ptr %x)
  br label %convert.done
convert.float:
  %double.of.float = call double @PyFloat_AsDouble(ptr %x)
  br label %convert.done
convert.done:
  %double = phi double [ %double.of.int, %convert.int ], [ %double.of.float, %convert.float ]
  %error = call ptr @PyErr_Occurred()
  %is.good = icmp eq ptr %error, null
  br i1 %is.good, label %converted, label %no
converted:
  %float = call ptr @PyFloat_FromDouble(double %double)
  %no.float = icmp eq ptr %float, null
  br i1 %no.float, label %no, label %make
make:
  %value = phi ptr [ %x, %as.is ], [ %float, %converted ]
  %node = call ptr @new_node(ptr %kind, ptr %value)
  call void @Py_DecRef(ptr %value)
  ret ptr %node
no:
  ret ptr null
}

define internal i1 @is_masked(ptr %x, ptr %node) alwaysinline {
entry:
  %is.number = icmp eq ptr %node, null
  br i1 %is.number, label %no, label %handle
handle:
  %masked = call ptr @field(ptr %x, i64 $masked_at)
  %true = call ptr @own.object(i64 $true)
  %is.masked = icmp eq ptr %masked, %true
  ret i1 %is.masked
no:
  ret i1 false
}
"""
