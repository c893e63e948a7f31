"""What handles are asked (`record_ir`), answered where the value is there or the ask is known, as LLVM IR text.

    read_numpy, read_array    the value as an array that cannot be written to      METH_NOARGS; of any arguments
    read_item, read_float     the number of a 0-d value                            METH_NOARGS; nb_float
    read_bool                 whether it is not zero                               nb_bool
    read_detach               a handle without history, computed if x is           METH_NOARGS

`record_grad_ir` has `.grad`.  Whatever is otherwise (a pending value, an error, a trace) is left to what Python has
for it.
"""

from __future__ import annotations

__all__ = ["READ"]

def _asked(name: str, here: str) -> str:
    """What has no arguments: answered by `here`, or by Python where that gives 1."""
    return f"""
define ptr @read_{name}(ptr %x, ptr %unused) {{
entry:
  %found = call ptr @{here}(ptr %x)
  %is.python = icmp eq ptr %found, inttoptr (i64 1 to ptr)
  br i1 %is.python, label %python, label %done
done:
  ret ptr %found
python:
  %answer = call ptr @ask_python(i64 $python_{name}, ptr %x)
  ret ptr %answer
}}
"""


READ = """
declare ptr @new_view(ptr, ptr, ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i32 @PyObject_IsTrue(ptr)

; What Python has for this, called with a handle.
define internal ptr @ask_python(i64 %number, ptr %x) noinline {
  %argument = alloca ptr
  store ptr %x, ptr %argument
  %function = call ptr @own.object(i64 %number)
  %answer = call ptr @PyObject_Vectorcall(ptr %function, ptr %argument, i64 1, ptr null)
  ret ptr %answer
}

; The kind of a node; null where there is none.
define internal ptr @kind_of(ptr %node) alwaysinline {
entry:
  %kind = call ptr @field(ptr %node, i64 $kind_at)
  %is.unset = icmp eq ptr %kind, null
  br i1 %is.unset, label %no, label %look
look:
  %class = call ptr @class_of(ptr %kind)
  %kind.type = call ptr @own.object(i64 $kind_type)
  %is.kind = icmp eq ptr %class, %kind.type
  %found = select i1 %is.kind, ptr %kind, ptr null
  ret ptr %found
no:
  ret ptr null
}

; Count one more in a field that is an int.  -1 with an exception.
define internal i32 @count_up(ptr %object, i64 %number) {
entry:
  %count = call i64 @number_in(ptr %object, i64 %number, i64 0)
  %next = add i64 %count, 1
  %made = call ptr @PyLong_FromLongLong(i64 %next)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %no, label %set
set:
  %old = call ptr @field(ptr %object, i64 %number)
  call void @set_field(ptr %object, i64 %number, ptr %made)
  call void @Py_DecRef(ptr %old)
  ret i32 0
no:
  ret i32 -1
}

; The array of a computed value, counted as an ask: null with an exception, 1 where Python is to be asked.
define internal ptr @value_here(ptr %x, i1 %refuses.gradients) {
entry:
  %recording = call ptr @recording_here()
  %elsewhere = icmp eq ptr %recording, null
  br i1 %elsewhere, label %python, label %is.handle
is.handle:
  ; Once more when it was pending: it may be on another node by then.
  %was.pending = phi i1 [ false, %entry ], [ true, %was.asked ], [ true, %was.given ]
  %was.lent = phi i1 [ false, %entry ], [ false, %was.asked ], [ true, %was.given ]
  %node = call ptr @node_of(ptr %x)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %python, label %is.kind
is.kind:
  %kind = call ptr @kind_of(ptr %node)
  %no.kind = icmp eq ptr %kind, null
  br i1 %no.kind, label %python, label %tracks
tracks:
  %out = call ptr @field(ptr %kind, i64 $out_at)
  %tracked = call ptr @field(ptr %out, i64 $requires_grad_at)
  %false = call ptr @own.object(i64 $false)
  %is.free = icmp eq ptr %tracked, %false
  br i1 %is.free, label %computed, label %may.be.lost
may.be.lost:
  ; Of what is being differentiated Python warns; a custom forward is told what it looks at.
  %depth = call i64 @number_in(ptr %recording, i64 $transforming_at, i64 1)
  %body = call i64 @number_in(ptr %recording, i64 $body_at, i64 1)
  %inside = or i64 %depth, %body
  %is.open = icmp eq i64 %inside, 0
  %is.refused = xor i1 %refuses.gradients, true
  %is.fine = and i1 %is.open, %is.refused
  br i1 %is.fine, label %computed, label %python
computed:
  %value = call ptr @field(ptr %node, i64 $value_at)
  %class = call ptr @class_of(ptr %value)
  %array.type = call ptr @own.object(i64 $array_type)
  %is.array = icmp eq ptr %class, %array.type
  br i1 %is.array, label %lent, label %is.pending
is.pending:
  %none = call ptr @own.object(i64 $none)
  %no.value = icmp eq ptr %value, %none
  %is.first = xor i1 %was.pending, true
  %is.to.be.asked = and i1 %no.value, %is.first
  br i1 %is.to.be.asked, label %ask, label %python
ask:
  %answered = call i32 @answered(ptr %node)
  switch i32 %answered, label %error [ i32 0, label %python  i32 1, label %was.asked ]
was.asked:
  br label %is.handle
lent:
  ; What was lent is given back at an ask.
  %loans = call ptr @field(ptr %recording, i64 $lent_at)
  %loans.class = call ptr @class_of(ptr %loans)
  %list.type = call ptr @own.object(i64 $list_type)
  %is.list = icmp eq ptr %loans.class, %list.type
  br i1 %is.list, label %loans.size, label %python
loans.size:
  %n.loans = call i64 @PyList_Size(ptr %loans)
  %no.loans = icmp eq i64 %n.loans, 0
  br i1 %no.loans, label %asked, label %given
given:
  br i1 %was.lent, label %python, label %give
give:
  call void @Py_IncRef(ptr %loans)
  %gave = call i32 @gave_back(ptr %loans)
  call void @Py_DecRef(ptr %loans)
  %not.given = icmp ne i32 %gave, 0
  br i1 %not.given, label %error, label %was.given
was.given:
  br label %is.handle
asked:
  %asked.status = call i32 @count_up(ptr %recording, i64 $asked_at)
  %asked.bad = icmp ne i32 %asked.status, 0
  br i1 %asked.bad, label %error, label %flows
flows:
  %flow = call ptr @field(ptr %out, i64 $flows_at)
  %true = call ptr @own.object(i64 $true)
  %is.flowing = icmp eq ptr %flow, %true
  br i1 %is.flowing, label %looked, label %done
looked:
  %looked.status = call i32 @count_up(ptr %recording, i64 $looked_at)
  %looked.bad = icmp ne i32 %looked.status, 0
  br i1 %looked.bad, label %error, label %done
done:
  ret ptr %value
python:
  ret ptr inttoptr (i64 1 to ptr)
error:
  ret ptr null
}

; A view of a value that cannot be written to, or as `value_here`.
define internal ptr @view_here(ptr %x) {
entry:
  %value = call ptr @value_here(ptr %x, i1 true)
  %bits = ptrtoint ptr %value to i64
  %is.none = icmp ule i64 %bits, 1
  br i1 %is.none, label %as.it.is, label %view
view:
  %made = call ptr @new_view(ptr %value, ptr null, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %error, label %lock
lock:
  %flags.at = getelementptr i8, ptr %made, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %locked = and i32 %flags, -1025                 ; NPY_ARRAY_WRITEABLE is 0x400
  store i32 %locked, ptr %flags.at
  ret ptr %made
as.it.is:
  ret ptr %value
error:
  ret ptr null
}

; METH_FASTCALL | METH_KEYWORDS: NumPy's protocol, which as a rule says nothing about dtype and copies.
define ptr @read_array(ptr %x, ptr %arguments, i64 %count, ptr %names) {
entry:
  %stack = alloca [8 x ptr]
  %is.short = icmp eq i64 %count, 0
  %no.names = icmp eq ptr %names, null
  %is.plain = and i1 %is.short, %no.names
  br i1 %is.plain, label %look, label %python
look:
  %view = call ptr @view_here(ptr %x)
  %is.python = icmp eq ptr %view, inttoptr (i64 1 to ptr)
  br i1 %is.python, label %python, label %done
done:
  ret ptr %view
python:
  br i1 %no.names, label %counted, label %count.names
count.names:
  %n.names = call i64 @argument_count(ptr %names)
  br label %counted
counted:
  %named = phi i64 [ 0, %python ], [ %n.names, %count.names ]
  %all = add i64 %count, %named
  %is.much = icmp ugt i64 %all, 7
  br i1 %is.much, label %wrong, label %lay
lay:
  store ptr %x, ptr %stack
  br label %next
next:
  %i = phi i64 [ 0, %lay ], [ %i.next, %one ]
  %laid = icmp eq i64 %i, %all
  br i1 %laid, label %call, label %one
one:
  %from = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %from
  %i.next = add i64 %i, 1
  %to = getelementptr ptr, ptr %stack, i64 %i.next
  store ptr %argument, ptr %to
  br label %next
call:
  %given = add i64 %count, 1
  %function = call ptr @own.object(i64 $python_array)
  %answer = call ptr @PyObject_Vectorcall(ptr %function, ptr %stack, i64 %given, ptr %names)
  ret ptr %answer
wrong:
  %is.error = call i32 @PyErr_BadArgument()
  ret ptr null
}

; The number of a computed 0-d value: null with an exception, 1 where Python is to be asked.
define internal ptr @number_here(ptr %x) {
entry:
  %argument = alloca ptr
  %value = call ptr @value_here(ptr %x, i1 false)
  %bits = ptrtoint ptr %value to i64
  %is.none = icmp ule i64 %bits, 1
  br i1 %is.none, label %as.it.is, label %rank
rank:
  %nd.at = getelementptr i8, ptr %value, i64 $ND
  %nd = load i32, ptr %nd.at
  %is.scalar = icmp eq i32 %nd, 0
  br i1 %is.scalar, label %item, label %python
item:
  store ptr %value, ptr %argument
  %name = call ptr @own.object(i64 $item_name)
  %found = call ptr @PyObject_VectorcallMethod(ptr %name, ptr %argument, i64 1, ptr null)
  ret ptr %found
as.it.is:
  ret ptr %value
python:
  ret ptr inttoptr (i64 1 to ptr)
}

; The truth of a computed 0-d value: nb_bool.
define i32 @read_bool(ptr %x) {
entry:
  %number = call ptr @number_here(ptr %x)
  %bits = ptrtoint ptr %number to i64
  switch i64 %bits, label %found [ i64 0, label %error  i64 1, label %python ]
python:
  %answer = call ptr @ask_python(i64 $python_bool, ptr %x)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %error, label %found
found:
  %object = phi ptr [ %number, %entry ], [ %answer, %python ]
  %truth = call i32 @PyObject_IsTrue(ptr %object)
  call void @Py_DecRef(ptr %object)
  ret i32 %truth
error:
  ret i32 -1
}

define ptr @read_float(ptr %x) {
entry:
  %number = call ptr @number_here(ptr %x)
  %bits = ptrtoint ptr %number to i64
  switch i64 %bits, label %found [ i64 0, label %error  i64 1, label %python ]
found:
  %class = call ptr @class_of(ptr %number)
  %float.type = call ptr @own.object(i64 $float_type)
  %is.float = icmp eq ptr %class, %float.type
  br i1 %is.float, label %done, label %other
other:
  call void @Py_DecRef(ptr %number)
  br label %python
done:
  ret ptr %number
python:
  %answer = call ptr @ask_python(i64 $python_float, ptr %x)
  ret ptr %answer
error:
  ret ptr null
}

; A value without history is shared by another handle; to leave one behind is recorded, and so is one that a function
; which is differentiated captured.
define ptr @read_detach(ptr %x, ptr %unused) {
entry:
  %mode.cell = alloca ptr
  %node = call ptr @node_of(ptr %x)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %recorded, label %is.kind
is.kind:
  %kind = call ptr @kind_of(ptr %node)
  %no.kind = icmp eq ptr %kind, null
  br i1 %no.kind, label %recorded, label %now
now:
  %recording = call ptr @recording_now(ptr %mode.cell)
  %is.elsewhere = icmp eq ptr %recording, null
  br i1 %is.elsewhere, label %recorded, label %careless
careless:
  %is.captured = call i1 @is_captured(ptr %node, ptr %recording)
  %config = call ptr @own.object(i64 $config)
  %careful = call ptr @field(ptr %config, i64 $careful_at)
  %out = call ptr @field(ptr %kind, i64 $out_at)
  %tracked = call ptr @field(ptr %out, i64 $requires_grad_at)
  %false = call ptr @own.object(i64 $false)
  %is.careless = icmp eq ptr %careful, %false
  %is.untracked = icmp eq ptr %tracked, %false
  %is.free = select i1 %is.captured, i1 false, i1 %is.untracked
  %is.shared = and i1 %is.careless, %is.free
  br i1 %is.shared, label %share, label %recorded
share:
  call void @Py_IncRef(ptr %node)
  %class = call ptr @field(ptr %out, i64 $cls_at)
  %y = call ptr @new_handle(ptr %class)
  %no.y = icmp eq ptr %y, null
  br i1 %no.y, label %drop, label %fill
fill:
  call void @set_field(ptr %y, i64 $node_at, ptr %node)
  %masked = call ptr @field(ptr %x, i64 $masked_at)
  call void @Py_IncRef(ptr %masked)
  call void @set_field(ptr %y, i64 $masked_at, ptr %masked)
  ret ptr %y
drop:
  call void @Py_DecRef(ptr %node)
  ret ptr null
recorded:
  %operand = alloca ptr
  store ptr %x, ptr %operand
  %site = getelementptr [4 x ptr], ptr @sites, i64 $DETACH
  %table.cell = load ptr, ptr %site
  %known = call ptr @recorded(ptr %table.cell, ptr %operand, i64 1, ptr null, i64 0)
  %bits = ptrtoint ptr %known to i64
  switch i64 %bits, label %settle [ i64 0, label %done  i64 1, label %slow  i64 2, label %slow ]
settle:
  ; Not of what Python recorded: a trace must see where a value comes from.
  call void @settle_alias(ptr %known, ptr %x)
  br label %done
slow:
  %answer = call ptr @or_python(ptr %known, ptr %site, ptr %operand, i64 1, ptr null)
  ret ptr %answer
done:
  ret ptr %known
}

; A pending node of one input has that one's value if it is an array: nothing is left to be computed.
define internal void @settle_alias(ptr %y, ptr %x) {
entry:
  %node = call ptr @node_of(ptr %y)
  %input = call ptr @node_of(ptr %x)
  %no.node = icmp eq ptr %node, null
  %no.input = icmp eq ptr %input, null
  %is.other = or i1 %no.node, %no.input
  br i1 %is.other, label %end, label %class
class:
  %node.class = call ptr @class_of(ptr %node)
  %node.type = call ptr @own.object(i64 $node_type)
  %is.plain = icmp eq ptr %node.class, %node.type
  %old = call ptr @field(ptr %node, i64 $value_at)
  %none = call ptr @own.object(i64 $none)
  %is.pending = icmp eq ptr %old, %none
  %value = call ptr @field(ptr %input, i64 $value_at)
  %value.class = call ptr @class_of(ptr %value)
  %array.type = call ptr @own.object(i64 $array_type)
  %is.array = icmp eq ptr %value.class, %array.type
  %is.new = and i1 %is.plain, %is.pending
  %is.known = and i1 %is.new, %is.array
  br i1 %is.known, label %empty, label %end
empty:
  %nothing = call ptr @PyTuple_New(i64 0)
  %failed = icmp eq ptr %nothing, null
  br i1 %failed, label %forget, label %set
forget:
  call void @PyErr_Clear()                        ; it stays pending
  br label %end
set:
  call void @Py_IncRef(ptr %value)
  call void @set_field(ptr %node, i64 $value_at, ptr %value)
  call void @Py_DecRef(ptr %old)
  call void @drop_inputs(ptr %node, ptr %nothing)
  call void @Py_DecRef(ptr %nothing)
  br label %end
end:
  ret void
}
"""

READ += _asked("numpy", "view_here") + _asked("item", "number_here")
