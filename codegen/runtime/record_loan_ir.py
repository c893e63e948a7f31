"""Memory of arrays that nodes hold (`record_ir`), as LLVM IR text: `hold(array, kind, recording)`, `give_back(loans)`.

What Python does in `autodiff.tape.loans`, where it is said what loans are for.  A *loan* is a weak reference to a view
of an array; its callback is the *lender*, an object with the array, whether that could be written to before, and all
its loans by address.  Lenders are found by the addresses of their arrays.

When loans are given back while views live, these get memory of their own: whoever has one sees the same values.
"""

from __future__ import annotations

__all__ = ["LOAN"]

LOAN = """
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare i32 @PyDict_DelItem(ptr, ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyInterpreterState_Get()
declare ptr @PyInterpreterState_ThreadHead(ptr)
declare ptr @PyThreadState_Next(ptr)

; NPY_ARRAY_WRITEABLE is 0x400.
define internal i1 @is_writeable(ptr %array) alwaysinline {
  %at = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %at
  %bit = and i32 %flags, 1024
  %is = icmp ne i32 %bit, 0
  ret i1 %is
}
define internal void @set_writeable(ptr %array, i1 %is) alwaysinline {
  %at = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %at
  %without = and i32 %flags, -1025
  %with = or i32 %flags, 1024
  %now = select i1 %is, i32 %with, i32 %without
  store i32 %now, ptr %at
  ret void
}

; The lender of the array with this address, borrowed; null where it is not lent.
define internal ptr @lender_of(ptr %key) alwaysinline {
  %lent = call ptr @own.object(i64 $lent)
  %found = call ptr @PyDict_GetItem(ptr %lent, ptr %key)
  ret ptr %found
}

define internal ptr @new_lender(ptr %array) {
entry:
  %class = call ptr @own.object(i64 $lender_type)
  %lender = call ptr @PyType_GenericAlloc(ptr %class, i64 0)
  %no.lender = icmp eq ptr %lender, null
  br i1 %no.lender, label %no, label %fill
fill:
  %loans = call ptr @PyDict_New()
  %no.loans = icmp eq ptr %loans, null
  br i1 %no.loans, label %drop, label %done
done:
  call void @Py_IncRef(ptr %array)
  call void @set_field(ptr %lender, i64 $lender_array_at, ptr %array)
  call void @set_field(ptr %lender, i64 $lender_loans_at, ptr %loans)
  %is.writeable = call i1 @is_writeable(ptr %array)
  %true = call ptr @own.object(i64 $true)
  %false = call ptr @own.object(i64 $false)
  %was = select i1 %is.writeable, ptr %true, ptr %false
  call void @Py_IncRef(ptr %was)
  call void @set_field(ptr %lender, i64 $lender_was_writeable_at, ptr %was)
  ret ptr %lender
drop:
  call void @Py_DecRef(ptr %lender)
  br label %no
no:
  ret ptr null
}

; A loan is over: with the last one the array is as it was.
define internal void @end_loan(ptr %lender, ptr %loan) {
entry:
  %number = call ptr @PyLong_FromVoidPtr(ptr %loan)
  %array = call ptr @field(ptr %lender, i64 $lender_array_at)
  %key = call ptr @PyLong_FromVoidPtr(ptr %array)
  %no.number = icmp eq ptr %number, null
  %no.key = icmp eq ptr %key, null
  %is.short = or i1 %no.number, %no.key
  br i1 %is.short, label %end, label %forget
forget:
  call void @Py_IncRef(ptr %lender)
  call void @Py_IncRef(ptr %loan)
  %loans = call ptr @field(ptr %lender, i64 $lender_loans_at)
  %gone = call i32 @PyDict_DelItem(ptr %loans, ptr %number)
  %left = call i64 @PyDict_Size(ptr %loans)
  %is.last = icmp eq i64 %left, 0
  br i1 %is.last, label %last, label %drop
last:
  %present = call ptr @lender_of(ptr %key)
  %is.this = icmp eq ptr %present, %lender
  br i1 %is.this, label %unlock, label %drop
unlock:
  %was = call ptr @field(ptr %lender, i64 $lender_was_writeable_at)
  %true = call ptr @own.object(i64 $true)
  %was.writeable = icmp eq ptr %was, %true
  br i1 %was.writeable, label %restore, label %strike
restore:
  call void @set_writeable(ptr %array, i1 true)
  br label %strike
strike:
  %lent = call ptr @own.object(i64 $lent)
  %struck = call i32 @PyDict_DelItem(ptr %lent, ptr %key)
  br label %drop
drop:
  call void @Py_DecRef(ptr %loan)
  call void @Py_DecRef(ptr %lender)
  br label %end
end:
  call void @Py_DecRef(ptr %number)
  call void @Py_DecRef(ptr %key)
  call void @PyErr_Clear()
  ret void
}

; A view of an array, which is locked while the view is there, or null.  The loan is noted in a list.
define internal ptr @lent_view(ptr %array, ptr %noted) {
entry:
  %argument = alloca ptr
  %view = call ptr @new_view(ptr %array, ptr null, ptr null)
  %no.view = icmp eq ptr %view, null
  br i1 %no.view, label %no, label %address
address:
  call void @set_writeable(ptr %view, i1 false)
  %key = call ptr @PyLong_FromVoidPtr(ptr %array)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %drop.view, label %lender
lender:
  %known = call ptr @lender_of(ptr %key)
  %is.new = icmp eq ptr %known, null
  br i1 %is.new, label %new, label %hold
new:
  %made = call ptr @new_lender(ptr %array)
  %no.lender = icmp eq ptr %made, null
  br i1 %no.lender, label %drop.key, label %refer
hold:
  call void @Py_IncRef(ptr %known)
  br label %refer
refer:
  %this = phi ptr [ %made, %new ], [ %known, %hold ]
  %loan = call ptr @PyWeakref_NewRef(ptr %view, ptr %this)
  %no.loan = icmp eq ptr %loan, null
  br i1 %no.loan, label %drop.lender, label %numbered
numbered:
  %number = call ptr @PyLong_FromVoidPtr(ptr %loan)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %drop.loan, label %present
present:
  ; Memory was asked for: the garbage collector may have run what lends the same array, or what held the other loans.
  %found = call ptr @lender_of(ptr %key)
  %is.this = icmp eq ptr %found, %this
  br i1 %is.this, label %note, label %absent
absent:
  %is.free = icmp eq ptr %found, null
  br i1 %is.free, label %lock, label %again
again:
  call void @Py_DecRef(ptr %number)
  call void @Py_DecRef(ptr %loan)
  call void @Py_DecRef(ptr %this)
  br label %lender
lock:
  %lent = call ptr @own.object(i64 $lent)
  %put = call i32 @PyDict_SetItem(ptr %lent, ptr %key, ptr %this)
  %not.put = icmp ne i32 %put, 0
  br i1 %not.put, label %drop.number, label %locked
locked:
  call void @set_writeable(ptr %array, i1 false)
  br label %note
note:
  %loans = call ptr @field(ptr %this, i64 $lender_loans_at)
  %kept = call i32 @PyDict_SetItem(ptr %loans, ptr %number, ptr %loan)
  %listed = call i32 @PyList_Append(ptr %noted, ptr %loan)
  %status = or i32 %kept, %listed
  %is.bad = icmp ne i32 %status, 0
  br i1 %is.bad, label %undo, label %count
count:
  %size = call i64 @PyList_Size(ptr %noted)
  %low = and i64 %size, 255
  %is.time = icmp eq i64 %low, 0
  br i1 %is.time, label %prune, label %done
prune:
  %without = call ptr @ask_python(i64 $prune, ptr %noted)
  call void @Py_DecRef(ptr %without)
  %not.pruned = icmp eq ptr %without, null
  br i1 %not.pruned, label %drop.number, label %done
done:
  call void @Py_DecRef(ptr %number)
  call void @Py_DecRef(ptr %loan)
  call void @Py_DecRef(ptr %this)
  call void @Py_DecRef(ptr %key)
  ret ptr %view

undo:
  call void @end_loan(ptr %this, ptr %loan)
  %no.memory = call ptr @PyErr_NoMemory()         ; it was cleared
  br label %drop.number
drop.number:
  call void @Py_DecRef(ptr %number)
  br label %drop.loan
drop.loan:
  call void @Py_DecRef(ptr %loan)
  br label %drop.lender
drop.lender:
  call void @Py_DecRef(ptr %this)
  br label %drop.key
drop.key:
  call void @Py_DecRef(ptr %key)
  br label %drop.view
drop.view:
  call void @Py_DecRef(ptr %view)
  br label %no
no:
  ret ptr null
}

; Let a view have memory of its own.  -1 with an exception.
define internal i32 @keep_view(ptr %view, i64 %own.references) {
entry:
  %fresh = call ptr @own_copy(ptr %view)
  %no.fresh = icmp eq ptr %fresh, null
  br i1 %no.fresh, label %no, label %alone
alone:
  ; Where others have it, one of them may be a kernel of another thread that reads the memory as it was.
  %count.at = getelementptr i8, ptr %view, i64 $REFERENCES
  %count = load i64, ptr %count.at
  %is.alone = icmp sle i64 %count, %own.references
  br i1 %is.alone, label %one, label %threads
threads:
  %interpreter = call ptr @PyInterpreterState_Get()
  %thread = call ptr @PyInterpreterState_ThreadHead(ptr %interpreter)
  %another = call ptr @PyThreadState_Next(ptr %thread)
  %is.only = icmp eq ptr %another, null
  br i1 %is.only, label %one, label %both
both:
  %pair = call ptr @PyTuple_New(i64 2)
  %no.pair = icmp eq ptr %pair, null
  br i1 %no.pair, label %drop, label %put
put:
  %present.at = getelementptr i8, ptr %view, i64 $BASE
  %present = load ptr, ptr %present.at
  call void @Py_IncRef(ptr %present)
  call void @Py_IncRef(ptr %fresh)
  call void @put_item(ptr %pair, i64 0, ptr %fresh)
  call void @put_item(ptr %pair, i64 1, ptr %present)
  br label %exchange
one:
  call void @Py_IncRef(ptr %fresh)
  br label %exchange
exchange:
  %holder = phi ptr [ %fresh, %one ], [ %pair, %put ]
  %from = getelementptr i8, ptr %fresh, i64 $DATA
  %data = load ptr, ptr %from
  %to = getelementptr i8, ptr %view, i64 $DATA
  store ptr %data, ptr %to
  %base.at = getelementptr i8, ptr %view, i64 $BASE
  %old = load ptr, ptr %base.at
  store ptr %holder, ptr %base.at
  call void @Py_DecRef(ptr %old)
  call void @Py_DecRef(ptr %fresh)
  ret i32 0
drop:
  call void @Py_DecRef(ptr %fresh)
  br label %no
no:
  ret i32 -1
}

; End all loans of a list: what lives on gets copies.  -1 with an exception.
define internal i32 @gave_back(ptr %loans) {
entry:
  br label %next
next:
  %n = call i64 @PyList_Size(ptr %loans)
  %is.done = icmp sle i64 %n, 0
  br i1 %is.done, label %done, label %one
one:
  %last = sub i64 %n, 1
  %loan = call ptr @PyList_GetItem(ptr %loans, i64 %last)
  call void @Py_IncRef(ptr %loan)
  %cut = call i32 @PyList_SetSlice(ptr %loans, i64 %last, i64 %n, ptr null)
  %not.cut = icmp ne i32 %cut, 0
  br i1 %not.cut, label %failed, label %look
look:
  %view = call ptr @PyWeakref_GetObject(ptr %loan)
  %none = call ptr @own.object(i64 $none)
  %is.gone = icmp eq ptr %view, %none
  %is.wrong = icmp eq ptr %view, null
  br i1 %is.wrong, label %failed, label %alive
alive:
  br i1 %is.gone, label %over, label %keep
keep:
  call void @Py_IncRef(ptr %view)
  %name = call ptr @own.object(i64 $callback_name)
  %lender = call ptr @PyObject_GetAttr(ptr %loan, ptr %name)
  %no.lender = icmp eq ptr %lender, null
  br i1 %no.lender, label %failed.view, label %copy
copy:
  %status = call i32 @keep_view(ptr %view, i64 2)   ; the node's, and ours
  %class = call ptr @class_of(ptr %lender)
  %lender.type = call ptr @own.object(i64 $lender_type)
  %is.lender = icmp eq ptr %class, %lender.type
  %is.kept = icmp eq i32 %status, 0
  %may.end = and i1 %is.lender, %is.kept
  br i1 %may.end, label %end, label %ended
end:
  call void @end_loan(ptr %lender, ptr %loan)
  br label %ended
ended:
  call void @Py_DecRef(ptr %lender)
  call void @Py_DecRef(ptr %view)
  br i1 %is.kept, label %over, label %failed
over:
  call void @Py_DecRef(ptr %loan)
  br label %next
done:
  ret i32 0
failed.view:
  call void @Py_DecRef(ptr %view)
  br label %failed
failed:
  call void @Py_DecRef(ptr %loan)
  ret i32 -1
}

; hold(array, kind, recording), give_back(loans), keep(view): METH_FASTCALL functions; the call of a lender.
define ptr @hold(ptr %self, ptr %arguments, i64 %count) {
  %array = load ptr, ptr %arguments
  %second = getelementptr ptr, ptr %arguments, i64 1
  %kind = load ptr, ptr %second
  %third = getelementptr ptr, ptr %arguments, i64 2
  %recording = load ptr, ptr %third
  %node = call ptr @array_node(ptr %array, ptr %kind, ptr %recording)
  ret ptr %node
}

define internal ptr @none_if(i32 %status) alwaysinline {
entry:
  %is.good = icmp eq i32 %status, 0
  br i1 %is.good, label %yes, label %no
yes:
  %none = call ptr @own.object(i64 $none)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
no:
  ret ptr null
}

define ptr @give_back(ptr %self, ptr %arguments, i64 %count) {
  %loans = load ptr, ptr %arguments
  call void @Py_IncRef(ptr %loans)
  %status = call i32 @gave_back(ptr %loans)
  call void @Py_DecRef(ptr %loans)
  %answer = call ptr @none_if(i32 %status)
  ret ptr %answer
}

define ptr @keep(ptr %self, ptr %arguments, i64 %count) {
  %view = load ptr, ptr %arguments
  %status = call i32 @keep_view(ptr %view, i64 0)
  %answer = call ptr @none_if(i32 %status)
  ret ptr %answer
}

define ptr @loan_ended(ptr %self, ptr %arguments, ptr %keywords) {
entry:
  %n = call i64 @argument_count(ptr %arguments)
  %is.one = icmp eq i64 %n, 1
  br i1 %is.one, label %end, label %wrong
end:
  %loan = call ptr @argument(ptr %arguments, i64 0)
  call void @end_loan(ptr %self, ptr %loan)
  %none = call ptr @none_if(i32 0)
  ret ptr %none
wrong:
  %is.error = call i32 @PyErr_BadArgument()
  ret ptr null
}
"""
