"""How the result of a call is put together from new objects, as LLVM IR text: `put_together`, and `scalar`.

    program    depth of its stack, then instructions of two words, a code (`PUT_TOGETHER`) and an operand
"""

from __future__ import annotations

from .template import Template

__all__ = ["PUT_TOGETHER", "result_ir"]

#: (code, operand): end; a result that is not used again, or is; an object; so many as a tuple, a list; a dict of keys;
#: a tuple of results that follow one another and are not used again: the first, and how many << 32; instead of a result
#: NumPy's own false or true: the address of its number and of these two.
PUT_TOGETHER = ("end", "last", "result", "object", "tuple", "list", "dict", "row", "truth")

#: Puts a sequence together from the top of the stack; `store` takes %$kind.part into %$kind.made at %$kind.i.
_SEQUENCE = Template("""
$kind:
  %$kind.made = call ptr @$new(i64 %operand)
  %no.$kind = icmp eq ptr %$kind.made, null
  br i1 %no.$kind, label %failed, label %$kind.parts
$kind.parts:
  %$kind.base = sub i64 %top, %operand
  %$kind.from = getelementptr ptr, ptr %stack, i64 %$kind.base
  br label %$kind.item
$kind.item:
  %$kind.i = phi i64 [ 0, %$kind.parts ], [ %$kind.next, %$kind.one ]
  %$kind.full = icmp eq i64 %$kind.i, %operand
  br i1 %$kind.full, label %push, label %$kind.one
$kind.one:
  %$kind.part.at = getelementptr ptr, ptr %$kind.from, i64 %$kind.i
  %$kind.part = load ptr, ptr %$kind.part.at
$store
  %$kind.next = add i64 %$kind.i, 1
  br label %$kind.item
""")
_INTO_TUPLE = """
  %tuple.items = getelementptr i8, ptr %tuple.made, i64 $ITEMS
  %tuple.to = getelementptr ptr, ptr %tuple.items, i64 %tuple.i
  store ptr %tuple.part, ptr %tuple.to"""
_INTO_LIST = """
  %list.set = call i32 @PyList_SetItem(ptr %list.made, i64 %list.i, ptr %list.part)"""

_TEXT = """
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)

; A NumPy scalar to write to.  `kept` is a list of the two that this place had last: nobody can see it if one changes
; that only the list holds.  Of two, since a result mostly lives until the next one is there.
define internal ptr @scalar(ptr %alloc, ptr %type, ptr %kept) noinline {
entry:
  %last = call ptr @PyList_GetItem(ptr %kept, i64 0)
  %last.count = load i32, ptr %last               ; of references: its lower half, of whatever version of Python
  %last.is.free = icmp eq i32 %last.count, 1
  br i1 %last.is.free, label %found, label %look
look:
  %former = call ptr @PyList_GetItem(ptr %kept, i64 1)
  %former.count = load i32, ptr %former
  %former.is.free = icmp eq i32 %former.count, 1
  br i1 %former.is.free, label %found, label %new
found:
  %free = phi ptr [ %last, %entry ], [ %former, %look ]
  call void @Py_IncRef(ptr %free)
  ret ptr %free
new:
  %made = call ptr %alloc(ptr %type, i64 0)
  %none = icmp eq ptr %made, null
  br i1 %none, label %done, label %keep
keep:
  call void @Py_IncRef(ptr %last)                   ; the next two calls take these references
  call void @Py_IncRef(ptr %made)
  %second = call i32 @PyList_SetItem(ptr %kept, i64 1, ptr %last)
  %first = call i32 @PyList_SetItem(ptr %kept, i64 0, ptr %made)
  br label %done
done:
  ret ptr %made
}

; The result that a program makes of these new objects, which it takes; null with an exception.
; What it does not take it leaves in `objects`.
define internal ptr @put_together(ptr %program, ptr %objects) noinline {
entry:
  %depth = load i64, ptr %program
  %stack = alloca ptr, i64 %depth
  %first = getelementptr i64, ptr %program, i64 1
  br label %step
step:
  %at = phi ptr [ %first, %entry ], [ %at.next, %push ]
  %top = phi i64 [ 0, %entry ], [ %top.next, %push ]
  %at.next = getelementptr i64, ptr %at, i64 2
  %operand.at = getelementptr i64, ptr %at, i64 1
  %code = load i64, ptr %at
  %operand = load i64, ptr %operand.at
  %given = inttoptr i64 %operand to ptr
  switch i64 %code, label %end [ i64 1, label %last  i64 2, label %result  i64 3, label %object
                                 i64 4, label %tuple  i64 5, label %list  i64 6, label %dict  i64 7, label %row
                                 i64 8, label %truth ]
end:
  %answer = load ptr, ptr %stack
  ret ptr %answer
last:
  %last.at = getelementptr ptr, ptr %objects, i64 %operand
  %last.object = load ptr, ptr %last.at
  store ptr null, ptr %last.at
  br label %push
result:
  %result.at = getelementptr ptr, ptr %objects, i64 %operand
  %result.object = load ptr, ptr %result.at
  call void @Py_IncRef(ptr %result.object)
  br label %push
object:
  call void @Py_IncRef(ptr %given)
  br label %push

$tuples$lists
dict:
  %dict.made = call ptr @PyDict_New()
  %no.dict = icmp eq ptr %dict.made, null
  br i1 %no.dict, label %failed, label %dict.parts
dict.parts:
  %n.keys = call i64 @PyTuple_Size(ptr %given)
  %dict.base = sub i64 %top, %n.keys
  %dict.from = getelementptr ptr, ptr %stack, i64 %dict.base
  br label %dict.part
dict.part:
  %d = phi i64 [ 0, %dict.parts ], [ %d.next, %dict.next ]
  %dict.full = icmp eq i64 %d, %n.keys
  br i1 %dict.full, label %dict.done, label %dict.one
dict.one:
  %key = call ptr @item(ptr %given, i64 %d)
  %dict.item.at = getelementptr ptr, ptr %dict.from, i64 %d
  %dict.item = load ptr, ptr %dict.item.at
  %dict.set = call i32 @PyDict_SetItem(ptr %dict.made, ptr %key, ptr %dict.item)
  %dict.ok = icmp eq i32 %dict.set, 0
  br i1 %dict.ok, label %dict.next, label %dict.failed
dict.next:
  %d.next = add i64 %d, 1
  br label %dict.part
dict.failed:
  call void @Py_DecRef(ptr %dict.made)
  br label %failed
dict.done:
  call void @release(ptr %dict.from, i64 %n.keys)    ; the dict holds them
  br label %push

row:
  %row.size = lshr i64 %operand, 32
  %row.first = and i64 %operand, 4294967295
  %row.made = call ptr @PyTuple_New(i64 %row.size)
  %no.row = icmp eq ptr %row.made, null
  br i1 %no.row, label %failed, label %row.parts
row.parts:
  %row.from = getelementptr ptr, ptr %objects, i64 %row.first
  %row.items = getelementptr i8, ptr %row.made, i64 $ITEMS
  br label %row.one
row.one:
  %row.i = phi i64 [ 0, %row.parts ], [ %row.next, %row.one ]
  %row.at = getelementptr ptr, ptr %row.from, i64 %row.i
  %row.part = load ptr, ptr %row.at
  store ptr null, ptr %row.at
  %row.to = getelementptr ptr, ptr %row.items, i64 %row.i
  store ptr %row.part, ptr %row.to
  %row.next = add i64 %row.i, 1
  %row.full = icmp eq i64 %row.next, %row.size
  br i1 %row.full, label %push, label %row.one

truth:
  %truth.of = load i64, ptr %given
  %truth.at = getelementptr ptr, ptr %objects, i64 %truth.of
  %truth.made = load ptr, ptr %truth.at
  %truth.value.at = getelementptr i8, ptr %truth.made, i64 $SCALAR
  %truth.value = load i8, ptr %truth.value.at
  %truth.is = icmp ne i8 %truth.value, 0
  %truth.place = select i1 %truth.is, i64 2, i64 1
  %truth.own.at = getelementptr ptr, ptr %given, i64 %truth.place
  %truth.own = load ptr, ptr %truth.own.at
  call void @Py_IncRef(ptr %truth.own)
  br label %push

push:
  %made = phi ptr [ %last.object, %last ], [ %result.object, %result ], [ %given, %object ],
                  [ %tuple.made, %tuple.item ], [ %list.made, %list.item ], [ %dict.made, %dict.done ],
                  [ %row.made, %row.one ], [ %truth.own, %truth ]
  %place = phi i64 [ %top, %last ], [ %top, %result ], [ %top, %object ],
                   [ %tuple.base, %tuple.item ], [ %list.base, %list.item ], [ %dict.base, %dict.done ],
                   [ %top, %row.one ], [ %top, %truth ]
  %push.at = getelementptr ptr, ptr %stack, i64 %place
  store ptr %made, ptr %push.at
  %top.next = add i64 %place, 1
  br label %step
failed:
  call void @release(ptr %stack, i64 %top)
  ret ptr null
}
"""


def result_ir(offsets: dict[str, int]) -> str:
    """`put_together` and `scalar`; `offsets`: ITEMS of a tuple, SCALAR of a NumPy scalar's value."""
    into_tuple = Template(_INTO_TUPLE).substitute(offsets)
    return Template(_TEXT).substitute(
        offsets,
        tuples=_SEQUENCE.substitute(kind="tuple", new="PyTuple_New", store=into_tuple),
        lists=_SEQUENCE.substitute(kind="list", new="PyList_New", store=_INTO_LIST),
    )
