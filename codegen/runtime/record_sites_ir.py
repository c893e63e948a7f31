"""Where the recorder (`record_ir`) is entered, as LLVM IR text: operators and calls.

    at_site    records from the site's table, or calls what Python has for it
    called     `tp_call` of functions: those that have a site of their own go there
"""

from __future__ import annotations

__all__ = ["BINARY_SITE", "CALL_SITE", "SITES", "UNARY_SITE"]

SITES = """
; What is recorded at a site for one or two operands, or what its Python functions give.
define internal ptr @at_site(ptr %site, ptr %x1, ptr %x2) {
entry:
  %arguments = alloca [2 x ptr]
  %cell = load ptr, ptr %site
  %answer = call ptr @recorded(ptr %cell, ptr %x1, ptr %x2)
  %bits = ptrtoint ptr %answer to i64
  %is.miss = icmp ule i64 %bits, 2
  br i1 %is.miss, label %miss, label %done
miss:
  %is.error = icmp eq i64 %bits, 0
  br i1 %is.error, label %done, label %slow
slow:
  %function.at = getelementptr ptr, ptr %site, i64 %bits
  %function = load ptr, ptr %function.at
  store ptr %x1, ptr %arguments
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %x2, ptr %second
  %is.unary = icmp eq ptr %x2, null
  %count = select i1 %is.unary, i64 1, i64 2
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 %count, ptr null)
  ret ptr %result
done:
  ret ptr %answer
}

; A call `self(*arguments, **keywords)` of a function that may have a site of its own.
define internal ptr @called(ptr %class.site, ptr %self, ptr %arguments, ptr %keywords) {
entry:
  %stack = alloca [$MOST_ARGUMENTS x ptr]
  %has.no.keywords = icmp eq ptr %keywords, null
  br i1 %has.no.keywords, label %counted, label %keywords.size
keywords.size:
  %size.of.keywords = call i64 @PyDict_Size(ptr %keywords)
  br label %counted
counted:
  %n.keywords = phi i64 [ 0, %entry ], [ %size.of.keywords, %keywords.size ]
  %is.positional = icmp eq i64 %n.keywords, 0
  br i1 %is.positional, label %site, label %any
site:
  %holder = call ptr @field(ptr %self, i64 $site_at)
  %is.unset = icmp eq ptr %holder, null
  br i1 %is.unset, label %any, label %look
look:
  %class = call ptr @class_of(ptr %holder)
  %self.type = call ptr @own.object(i64 $self_type)
  %is.ours = icmp eq ptr %class, %self.type
  br i1 %is.ours, label %operands, label %any
operands:
  %own.at = getelementptr i8, ptr %holder, i64 $PAYLOAD
  %own.site = load ptr, ptr %own.at, align 1
  %n = call i64 @PyTuple_Size(ptr %arguments)
  switch i64 %n, label %any [ i64 1, label %unary  i64 2, label %binary ]
unary:
  %x = call ptr @PyTuple_GetItem(ptr %arguments, i64 0)
  %y = call ptr @at_site(ptr %own.site, ptr %x, ptr null)
  ret ptr %y
binary:
  %x1 = call ptr @PyTuple_GetItem(ptr %arguments, i64 0)
  %x2 = call ptr @PyTuple_GetItem(ptr %arguments, i64 1)
  %y2 = call ptr @at_site(ptr %own.site, ptr %x1, ptr %x2)
  ret ptr %y2
any:
  %given = call i64 @PyTuple_Size(ptr %arguments)
  %function.at = getelementptr ptr, ptr %class.site, i64 1
  %function = load ptr, ptr %function.at
  %is.few = icmp ult i64 %given, $MOST_ARGUMENTS
  %is.plain = and i1 %is.few, %is.positional
  br i1 %is.plain, label %on.stack, label %with.tuple
on.stack:
  store ptr %self, ptr %stack
  br label %lay
lay:
  %l = phi i64 [ 0, %on.stack ], [ %l.next, %lay.one ]
  %laid = icmp eq i64 %l, %given
  br i1 %laid, label %call.laid, label %lay.one
lay.one:
  %laid.item = call ptr @PyTuple_GetItem(ptr %arguments, i64 %l)
  %l.next = add i64 %l, 1
  %laid.at = getelementptr ptr, ptr %stack, i64 %l.next
  store ptr %laid.item, ptr %laid.at
  br label %lay
call.laid:
  %laid.count = add i64 %given, 1
  %laid.result = call ptr @PyObject_Vectorcall(ptr %function, ptr %stack, i64 %laid.count, ptr null)
  ret ptr %laid.result
with.tuple:
  %size = add i64 %given, 1
  %all = call ptr @PyTuple_New(i64 %size)
  %no.all = icmp eq ptr %all, null
  br i1 %no.all, label %failed, label %with.self
with.self:
  call void @Py_IncRef(ptr %self)
  %set.self = call i32 @PyTuple_SetItem(ptr %all, i64 0, ptr %self)
  br label %argument
argument:
  %a = phi i64 [ 0, %with.self ], [ %a.next, %copy ]
  %copied = icmp eq i64 %a, %given
  br i1 %copied, label %call, label %copy
copy:
  %item = call ptr @PyTuple_GetItem(ptr %arguments, i64 %a)
  call void @Py_IncRef(ptr %item)
  %a.next = add i64 %a, 1
  %set.item = call i32 @PyTuple_SetItem(ptr %all, i64 %a.next, ptr %item)
  br label %argument
call:
  %result = call ptr @PyObject_Call(ptr %function, ptr %all, ptr %keywords)
  call void @Py_DecRef(ptr %all)
  ret ptr %result
failed:
  ret ptr null
}
"""

BINARY_SITE = """
define ptr @binary_$NUMBER(ptr %x1, ptr %x2) {
  %y = call ptr @at_site(ptr getelementptr ([3 x ptr], ptr @sites, i64 $SITE), ptr %x1, ptr %x2)
  ret ptr %y
}
"""
UNARY_SITE = """
define ptr @unary_$NUMBER(ptr %x) {
  %y = call ptr @at_site(ptr getelementptr ([3 x ptr], ptr @sites, i64 $SITE), ptr %x, ptr null)
  ret ptr %y
}
"""
CALL_SITE = """
define ptr @call_$NUMBER(ptr %self, ptr %arguments, ptr %keywords) {
  %y = call ptr @called(ptr getelementptr ([3 x ptr], ptr @sites, i64 $SITE), ptr %self, ptr %arguments, ptr %keywords)
  ret ptr %y
}
"""
