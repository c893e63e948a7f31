"""Where the recorder (`record_ir`) is entered, as LLVM IR text: calls and methods (`record_operators_ir`: operators).

    spread     what a call's arguments are: operands, static ones by position and by name
    called     `tp_call` of functions: those that have a site of their own go there
    method     a method of handles, which has one

How many arguments of a site are operands: so many in front; 0: all, whose names are static; -1: the items of the
first, a list or tuple.
"""

from __future__ import annotations

__all__ = ["CALL_SITE", "METHOD_SITE", "SITES"]

SITES = """
; What is recorded at a site for these arguments, the last `named` of which have names; 0, 1, 2 as `recorded`.
define internal ptr @spread(ptr %site, ptr %arguments, i64 %n, ptr %names, i64 %named) {
entry:
  %statics = alloca [$MOST_STATICS x [2 x ptr]]
  %operands = alloca [$MOST_OPERANDS x ptr]
  %cell = load ptr, ptr %site
  %wanted.at = getelementptr i64, ptr %site, i64 3
  %wanted = load i64, ptr %wanted.at
  %all = add i64 %n, %named
  switch i64 %wanted, label %some [ i64 0, label %every  i64 -1, label %sequence ]

every:
  ; All are operands: the names of those that have one are static, without a value.
  %none = call ptr @own.object(i64 $none)
  %every.none = icmp eq i64 %all, 0
  %every.many = icmp ugt i64 %all, $MOST_OPERANDS
  %every.names = icmp ugt i64 %named, $MOST_STATICS
  %every.odd.1 = or i1 %every.none, %every.many
  %every.odd = or i1 %every.odd.1, %every.names
  br i1 %every.odd, label %circumstance, label %every.name
every.name:
  %e = phi i64 [ 0, %every ], [ %e.next, %every.one ]
  %e.done = icmp eq i64 %e, %named
  br i1 %e.done, label %every.record, label %every.one
every.one:
  %e.name.at = getelementptr ptr, ptr %names, i64 %e
  %e.name = load ptr, ptr %e.name.at
  %e.at = getelementptr [2 x ptr], ptr %statics, i64 %e
  %e.value.at = getelementptr ptr, ptr %e.at, i64 1
  store ptr %e.name, ptr %e.at
  store ptr %none, ptr %e.value.at
  %e.next = add i64 %e, 1
  br label %every.name
every.record:
  %every.answer = call ptr @recorded(ptr %cell, ptr %arguments, i64 %all, ptr %statics, i64 %named)
  ret ptr %every.answer

sequence:
  %s.none = icmp eq i64 %n, 0
  br i1 %s.none, label %circumstance, label %sequence.first
sequence.first:
  %s.first = load ptr, ptr %arguments
  %s.class = call ptr @class_of(ptr %s.first)
  %list.type = call ptr @own.object(i64 $list_type)
  %tuple.type = call ptr @own.object(i64 $tuple_type)
  %s.is.list = icmp eq ptr %s.class, %list.type
  %s.is.tuple = icmp eq ptr %s.class, %tuple.type
  br i1 %s.is.list, label %sequence.list, label %sequence.no.list
sequence.list:
  %s.length = call i64 @PyList_Size(ptr %s.first)
  br label %sequence.size
sequence.no.list:
  br i1 %s.is.tuple, label %sequence.tuple, label %circumstance
sequence.tuple:
  %s.count = call i64 @argument_count(ptr %s.first)
  br label %sequence.size
sequence.size:
  %s.size = phi i64 [ %s.length, %sequence.list ], [ %s.count, %sequence.tuple ]
  %s.empty = icmp eq i64 %s.size, 0
  %s.many = icmp ugt i64 %s.size, $MOST_OPERANDS
  %s.odd = or i1 %s.empty, %s.many
  br i1 %s.odd, label %circumstance, label %sequence.next
sequence.next:
  ; They are held, since a list may be changed meanwhile.
  %s = phi i64 [ 0, %sequence.size ], [ %s.next, %sequence.put ]
  %s.done = icmp eq i64 %s, %s.size
  br i1 %s.done, label %rest, label %sequence.one
sequence.one:
  br i1 %s.is.list, label %sequence.from.list, label %sequence.from.tuple
sequence.from.list:
  %s.list.item = call ptr @PyList_GetItem(ptr %s.first, i64 %s)
  br label %sequence.put
sequence.from.tuple:
  %s.tuple.item = call ptr @argument(ptr %s.first, i64 %s)
  br label %sequence.put
sequence.put:
  %s.item = phi ptr [ %s.list.item, %sequence.from.list ], [ %s.tuple.item, %sequence.from.tuple ]
  call void @Py_IncRef(ptr %s.item)
  %s.to = getelementptr ptr, ptr %operands, i64 %s
  store ptr %s.item, ptr %s.to
  %s.next = add i64 %s, 1
  br label %sequence.next

some:
  %is.short = icmp ult i64 %n, %wanted
  br i1 %is.short, label %circumstance, label %rest
rest:
  ; What follows the operands is static.
  %first = phi i64 [ 1, %sequence.next ], [ %wanted, %some ]
  %xs = phi ptr [ %operands, %sequence.next ], [ %arguments, %some ]
  %n.xs = phi i64 [ %s.size, %sequence.next ], [ %wanted, %some ]
  %n.held = phi i64 [ %s.size, %sequence.next ], [ 0, %some ]
  %n.statics = sub i64 %all, %first
  %is.much = icmp ugt i64 %n.statics, $MOST_STATICS
  br i1 %is.much, label %recorded, label %static
static:
  %k = phi i64 [ 0, %rest ], [ %k.next, %static.put ]
  %k.done = icmp eq i64 %k, %n.statics
  br i1 %k.done, label %record, label %static.one
static.one:
  %place = add i64 %first, %k
  %value.at = getelementptr ptr, ptr %arguments, i64 %place
  %value = load ptr, ptr %value.at
  %is.named = icmp uge i64 %place, %n
  br i1 %is.named, label %static.name, label %static.put
static.name:
  %which = sub i64 %place, %n
  %name.at = getelementptr ptr, ptr %names, i64 %which
  %its.name = load ptr, ptr %name.at
  br label %static.put
static.put:
  %name = phi ptr [ null, %static.one ], [ %its.name, %static.name ]
  %static.at = getelementptr [2 x ptr], ptr %statics, i64 %k
  %static.value.at = getelementptr ptr, ptr %static.at, i64 1
  store ptr %name, ptr %static.at
  store ptr %value, ptr %static.value.at
  %k.next = add i64 %k, 1
  br label %static
record:
  %made = call ptr @recorded(ptr %cell, ptr %xs, i64 %n.xs, ptr %statics, i64 %n.statics)
  br label %recorded
recorded:
  %answer = phi ptr [ inttoptr (i64 1 to ptr), %rest ], [ %made, %record ]
  br label %release
release:
  %r = phi i64 [ 0, %recorded ], [ %r.next, %release.one ]
  %r.done = icmp eq i64 %r, %n.held
  br i1 %r.done, label %released, label %release.one
release.one:
  %r.at = getelementptr ptr, ptr %operands, i64 %r
  %r.item = load ptr, ptr %r.at
  call void @Py_DecRef(ptr %r.item)
  %r.next = add i64 %r, 1
  br label %release
released:
  ret ptr %answer
circumstance:
  ret ptr inttoptr (i64 1 to ptr)
}

; A call `self(*arguments, **keywords)` of a function that may have a site of its own.
define internal ptr @called(ptr %class.site, ptr %self, ptr %arguments, ptr %keywords) {
entry:
  %stack = alloca [$MOST_ARGUMENTS x ptr]
  %names = alloca [$MOST_ARGUMENTS x ptr]
  %position = alloca i64
  %given = call i64 @argument_count(ptr %arguments)
  %no.keywords = icmp eq ptr %keywords, null
  br i1 %no.keywords, label %counted, label %keywords.size
keywords.size:
  %size.of.keywords = call i64 @PyDict_Size(ptr %keywords)
  br label %counted
counted:
  %named = phi i64 [ 0, %entry ], [ %size.of.keywords, %keywords.size ]
  %is.positional = icmp eq i64 %named, 0
  %all = add i64 %given, %named
  %is.few = icmp ult i64 %all, $MOST_ARGUMENTS
  br i1 %is.few, label %site, label %with.tuple
site:
  store ptr %self, ptr %stack
  %first = getelementptr ptr, ptr %stack, i64 1
  br label %lay
lay:
  %l = phi i64 [ 0, %site ], [ %l.next, %lay.one ]
  %laid = icmp eq i64 %l, %given
  br i1 %laid, label %lay.names, label %lay.one
lay.one:
  %item = call ptr @argument(ptr %arguments, i64 %l)
  %laid.at = getelementptr ptr, ptr %first, i64 %l
  store ptr %item, ptr %laid.at
  %l.next = add i64 %l, 1
  br label %lay
lay.names:
  store i64 0, ptr %position
  br label %name
name:
  %k = phi i64 [ 0, %lay.names ], [ %k.next, %name.one ]
  %are.named = icmp eq i64 %k, %named
  br i1 %are.named, label %look.site, label %name.one
name.one:
  %name.at = getelementptr ptr, ptr %names, i64 %k
  %value.place = add i64 %given, %k
  %value.at = getelementptr ptr, ptr %first, i64 %value.place
  %has.more = call i32 @PyDict_Next(ptr %keywords, ptr %position, ptr %name.at, ptr %value.at)
  %k.next = add i64 %k, 1
  br label %name
look.site:
  %holder = call ptr @field(ptr %self, i64 $site_at)
  %is.unset = icmp eq ptr %holder, null
  br i1 %is.unset, label %any, label %look
look:
  %class = call ptr @class_of(ptr %holder)
  %self.type = call ptr @own.object(i64 $self_type)
  %is.ours = icmp eq ptr %class, %self.type
  br i1 %is.ours, label %record, label %any
record:
  %own.at = getelementptr i8, ptr %holder, i64 $PAYLOAD
  %own.site = load ptr, ptr %own.at, align 1
  %answer = call ptr @spread(ptr %own.site, ptr %first, i64 %given, ptr %names, i64 %named)
  %bits = ptrtoint ptr %answer to i64
  switch i64 %bits, label %done [ i64 1, label %any  i64 2, label %learn ]
done:
  ret ptr %answer
learn:
  %unknown.at = getelementptr ptr, ptr %own.site, i64 2
  %unknown = load ptr, ptr %unknown.at
  %learnt = call ptr @PyObject_Call(ptr %unknown, ptr %arguments, ptr %keywords)
  ret ptr %learnt
any:
  %function.at = getelementptr ptr, ptr %class.site, i64 1
  %function = load ptr, ptr %function.at
  br i1 %is.positional, label %call.laid, label %with.tuple
call.laid:
  %laid.count = add i64 %given, 1
  %laid.result = call ptr @PyObject_Vectorcall(ptr %function, ptr %stack, i64 %laid.count, ptr null)
  ret ptr %laid.result
with.tuple:
  %python.at = getelementptr ptr, ptr %class.site, i64 1
  %python = load ptr, ptr %python.at
  %size = add i64 %given, 1
  %tuple = call ptr @PyTuple_New(i64 %size)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %failed, label %with.self
with.self:
  call void @Py_IncRef(ptr %self)
  call void @put_item(ptr %tuple, i64 0, ptr %self)
  br label %argument
argument:
  %a = phi i64 [ 0, %with.self ], [ %a.next, %copy ]
  %copied = icmp eq i64 %a, %given
  br i1 %copied, label %call, label %copy
copy:
  %a.item = call ptr @argument(ptr %arguments, i64 %a)
  call void @Py_IncRef(ptr %a.item)
  %a.next = add i64 %a, 1
  call void @put_item(ptr %tuple, i64 %a.next, ptr %a.item)
  br label %argument
call:
  %result = call ptr @PyObject_Call(ptr %python, ptr %tuple, ptr %keywords)
  call void @Py_DecRef(ptr %tuple)
  ret ptr %result
failed:
  ret ptr null
}

; A method of handles with a site: METH_FASTCALL | METH_KEYWORDS.
define internal ptr @method(ptr %site, ptr %self, ptr %arguments, i64 %given, ptr %keywords) {
entry:
  %no.keywords = icmp eq ptr %keywords, null
  br i1 %no.keywords, label %counted, label %count.names
count.names:
  %size.of.names = call i64 @argument_count(ptr %keywords)
  br label %counted
counted:
  %named = phi i64 [ 0, %entry ], [ %size.of.names, %count.names ]
  %names = getelementptr i8, ptr %keywords, i64 $ITEMS
  %all = add i64 %given, %named
  %with.self = add i64 %given, 1
  %room = add i64 %all, 1
  %stack = alloca ptr, i64 %room
  store ptr %self, ptr %stack
  br label %lay
lay:
  %l = phi i64 [ 0, %counted ], [ %l.next, %lay.one ]
  %laid = icmp eq i64 %l, %all
  br i1 %laid, label %record, label %lay.one
lay.one:
  %from = getelementptr ptr, ptr %arguments, i64 %l
  %argument = load ptr, ptr %from
  %l.next = add i64 %l, 1
  %to = getelementptr ptr, ptr %stack, i64 %l.next
  store ptr %argument, ptr %to
  br label %lay
record:
  %answer = call ptr @spread(ptr %site, ptr %stack, i64 %with.self, ptr %names, i64 %named)
  %result = call ptr @or_python(ptr %answer, ptr %site, ptr %stack, i64 %with.self, ptr %keywords)
  ret ptr %result
}
"""

CALL_SITE = """
define ptr @call_$NUMBER(ptr %self, ptr %arguments, ptr %keywords) {
  %y = call ptr @called(ptr getelementptr ([4 x ptr], ptr @sites, i64 $SITE), ptr %self, ptr %arguments, ptr %keywords)
  ret ptr %y
}
"""
METHOD_SITE = """
define ptr @method_$NUMBER(ptr %self, ptr %arguments, i64 %given, ptr %keywords) {
  %y = call ptr @method(ptr getelementptr ([4 x ptr], ptr @sites, i64 $SITE), ptr %self, ptr %arguments, i64 %given,
                        ptr %keywords)
  ret ptr %y
}
"""
