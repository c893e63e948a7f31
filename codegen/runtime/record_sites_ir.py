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
  %answer = call ptr @recorded(ptr %cell, ptr %x1, ptr %x2, ptr null, i64 0)
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
  %statics = alloca [$MOST_STATICS x [2 x ptr]]
  %position = alloca i64
  %has.no.keywords = icmp eq ptr %keywords, null
  br i1 %has.no.keywords, label %counted, label %keywords.size
keywords.size:
  %size.of.keywords = call i64 @PyDict_Size(ptr %keywords)
  br label %counted
counted:
  %n.keywords = phi i64 [ 0, %entry ], [ %size.of.keywords, %keywords.size ]
  %is.positional = icmp eq i64 %n.keywords, 0
  br label %site
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
  %wanted.at = getelementptr i64, ptr %own.site, i64 3
  %wanted = load i64, ptr %wanted.at
  %takes.all = icmp eq i64 %wanted, 0
  %beyond = sub i64 %n, %wanted
  %n.statics = add i64 %beyond, %n.keywords
  %has.statics = icmp ne i64 %n.statics, 0
  %is.short = icmp slt i64 %beyond, 0
  %is.much = icmp ugt i64 %n.statics, $MOST_STATICS
  %is.odd = or i1 %is.short, %is.much
  br i1 %takes.all, label %all.operands, label %some.operands
all.operands:
  br i1 %is.positional, label %plain, label %any
some.operands:
  br i1 %is.odd, label %any, label %maybe.static
maybe.static:
  br i1 %has.statics, label %static, label %plain
static:
  br label %by.position
by.position:
  %b = phi i64 [ 0, %static ], [ %b.next, %by.position.one ]
  %are.positions.done = icmp eq i64 %b, %beyond
  br i1 %are.positions.done, label %by.name, label %by.position.one
by.position.one:
  %b.place = add i64 %wanted, %b
  %b.value = call ptr @PyTuple_GetItem(ptr %arguments, i64 %b.place)
  %b.at = getelementptr [2 x ptr], ptr %statics, i64 %b
  store ptr null, ptr %b.at
  %b.value.at = getelementptr ptr, ptr %b.at, i64 1
  store ptr %b.value, ptr %b.value.at
  %b.next = add i64 %b, 1
  br label %by.position
by.name:
  store i64 0, ptr %position
  br label %name
name:
  %k = phi i64 [ %beyond, %by.name ], [ %k.next, %name.one ]
  %are.names.done = icmp eq i64 %k, %n.statics
  br i1 %are.names.done, label %look.up, label %name.one
name.one:
  %k.at = getelementptr [2 x ptr], ptr %statics, i64 %k
  %k.value.at = getelementptr ptr, ptr %k.at, i64 1
  %has.more = call i32 @PyDict_Next(ptr %keywords, ptr %position, ptr %k.at, ptr %k.value.at)
  %k.next = add i64 %k, 1
  br label %name
look.up:
  %cell = load ptr, ptr %own.site
  %s1 = call ptr @PyTuple_GetItem(ptr %arguments, i64 0)
  %is.one = icmp eq i64 %wanted, 1
  br i1 %is.one, label %record, label %second
second:
  %s2.found = call ptr @PyTuple_GetItem(ptr %arguments, i64 1)
  br label %record
record:
  %s2 = phi ptr [ null, %look.up ], [ %s2.found, %second ]
  %answer = call ptr @recorded(ptr %cell, ptr %s1, ptr %s2, ptr %statics, i64 %n.statics)
  %bits = ptrtoint ptr %answer to i64
  switch i64 %bits, label %recorded.it [ i64 1, label %any  i64 2, label %learn ]
recorded.it:
  ret ptr %answer
learn:
  %unknown.at = getelementptr ptr, ptr %own.site, i64 2
  %unknown = load ptr, ptr %unknown.at
  %learnt = call ptr @PyObject_Call(ptr %unknown, ptr %arguments, ptr %keywords)
  ret ptr %learnt
plain:
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

; A comparison: `tp_richcompare`.  The sites of the six are in the order of their numbers.
define ptr @compare(ptr %x1, ptr %x2, i32 %which) {
  %number = zext i32 %which to i64
  %site.number = add i64 %number, $COMPARISONS
  %site = getelementptr [4 x ptr], ptr @sites, i64 %site.number
  %y = call ptr @at_site(ptr %site, ptr %x1, ptr %x2)
  ret ptr %y
}

; A power: `nb_power`.  An exponent that is a number is static.
define ptr @power(ptr %x1, ptr %x2, ptr %modulus) {
entry:
  %statics = alloca [2 x ptr]
  %arguments = alloca [2 x ptr]
  %none = call ptr @own.object(i64 $none)
  %is.plain = icmp eq ptr %modulus, %none
  br i1 %is.plain, label %exponent, label %refuse
refuse:
  %not.implemented = call ptr @own.object(i64 $not_implemented)
  call void @Py_IncRef(ptr %not.implemented)
  ret ptr %not.implemented
exponent:
  %site = getelementptr [4 x ptr], ptr @sites, i64 $POWER
  %class = call ptr @class_of(ptr %x2)
  %float.type = call ptr @own.object(i64 $float_type)
  %int.type = call ptr @own.object(i64 $int_type)
  %is.float = icmp eq ptr %class, %float.type
  %is.int = icmp eq ptr %class, %int.type
  %is.number = or i1 %is.float, %is.int
  br i1 %is.number, label %static, label %operand
operand:
  %y = call ptr @at_site(ptr %site, ptr %x1, ptr %x2)
  ret ptr %y
static:
  %value.at = getelementptr ptr, ptr %statics, i64 1
  store ptr null, ptr %statics
  store ptr %x2, ptr %value.at
  %cell = load ptr, ptr %site
  %answer = call ptr @recorded(ptr %cell, ptr %x1, ptr null, ptr %statics, i64 1)
  %bits = ptrtoint ptr %answer to i64
  %is.hit = icmp ugt i64 %bits, 2
  %is.error = icmp eq i64 %bits, 0
  %is.done = or i1 %is.hit, %is.error
  br i1 %is.done, label %done, label %slow
slow:
  %function.at = getelementptr ptr, ptr %site, i64 %bits
  %function = load ptr, ptr %function.at
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %x1, ptr %arguments
  store ptr %x2, ptr %second
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 2, ptr null)
  ret ptr %result
done:
  ret ptr %answer
}
"""

BINARY_SITE = """
define ptr @binary_$NUMBER(ptr %x1, ptr %x2) {
  %y = call ptr @at_site(ptr getelementptr ([4 x ptr], ptr @sites, i64 $SITE), ptr %x1, ptr %x2)
  ret ptr %y
}
"""
UNARY_SITE = """
define ptr @unary_$NUMBER(ptr %x) {
  %y = call ptr @at_site(ptr getelementptr ([4 x ptr], ptr @sites, i64 $SITE), ptr %x, ptr null)
  ret ptr %y
}
"""
CALL_SITE = """
define ptr @call_$NUMBER(ptr %self, ptr %arguments, ptr %keywords) {
  %y = call ptr @called(ptr getelementptr ([4 x ptr], ptr @sites, i64 $SITE), ptr %self, ptr %arguments, ptr %keywords)
  ret ptr %y
}
"""
