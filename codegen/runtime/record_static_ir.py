"""Static arguments of calls (`record_ir`), as LLVM IR text: what they are in a table, and when two are the same.

    static_bits    of an int its value, of a float its bits, of a tuple those of its items; of all else its address
    same_static    the same object, or of the same class and the same value, where the value was looked at
"""

from __future__ import annotations

__all__ = ["STATIC"]

STATIC = """
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare double @PyFloat_AsDouble(ptr)

; Of what is no tuple.
define internal i64 @atom_bits(ptr %x) alwaysinline {
entry:
  %overflow = alloca i32
  %address = ptrtoint ptr %x to i64
  %is.none = icmp eq ptr %x, null
  br i1 %is.none, label %other, label %look
look:
  %class = call ptr @class_of(ptr %x)
  %int.type = call ptr @own.object(i64 $int_type)
  %is.int = icmp eq ptr %class, %int.type
  br i1 %is.int, label %int, label %no.int
int:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %x, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  %bits.of.int = select i1 %fits, i64 %number, i64 %address
  ret i64 %bits.of.int
no.int:
  %float.type = call ptr @own.object(i64 $float_type)
  %is.float = icmp eq ptr %class, %float.type
  br i1 %is.float, label %float, label %other
float:
  %double = call double @PyFloat_AsDouble(ptr %x)
  %bits.of.float = bitcast double %double to i64
  ret i64 %bits.of.float
other:
  ret i64 %address
}

define internal i64 @static_bits(ptr %x) {
entry:
  %is.none = icmp eq ptr %x, null
  br i1 %is.none, label %atom, label %look
look:
  %size = call i64 @count_of(ptr %x)
  %is.tuple = icmp sge i64 %size, 0
  br i1 %is.tuple, label %next, label %atom
atom:
  %bits = call i64 @atom_bits(ptr %x)
  ret i64 %bits
next:
  %i = phi i64 [ 0, %look ], [ %i.next, %one ]
  %so.far = phi i64 [ %size, %look ], [ %mixed, %one ]
  %is.done = icmp eq i64 %i, %size
  br i1 %is.done, label %done, label %one
one:
  %item = call ptr @argument(ptr %x, i64 %i)
  %item.bits = call i64 @atom_bits(ptr %item)
  %scaled = mul i64 %so.far, 31
  %mixed = add i64 %scaled, %item.bits
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i64 %so.far
}

; Whether two that are no tuples are the same: an int or a float by its value.
define internal i1 @same_atom(ptr %x, ptr %y) alwaysinline {
entry:
  %is.same = icmp eq ptr %x, %y
  br i1 %is.same, label %yes, label %absent
absent:
  %no.x = icmp eq ptr %x, null
  %no.y = icmp eq ptr %y, null
  %is.absent = or i1 %no.x, %no.y
  br i1 %is.absent, label %no, label %classes
classes:
  %class = call ptr @class_of(ptr %x)
  %other = call ptr @class_of(ptr %y)
  %same.class = icmp eq ptr %class, %other
  %int.type = call ptr @own.object(i64 $int_type)
  %float.type = call ptr @own.object(i64 $float_type)
  %is.int = icmp eq ptr %class, %int.type
  %is.float = icmp eq ptr %class, %float.type
  %has.value = or i1 %is.int, %is.float
  %may.be = and i1 %same.class, %has.value
  br i1 %may.be, label %values, label %no
values:
  ; Of an int beyond 64 bits this is its address, which is another.
  %x.bits = call i64 @atom_bits(ptr %x)
  %y.bits = call i64 @atom_bits(ptr %y)
  %same.bits = icmp eq i64 %x.bits, %y.bits
  ret i1 %same.bits
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @same_static(ptr %x, ptr %y) {
entry:
  %no.x = icmp eq ptr %x, null
  %no.y = icmp eq ptr %y, null
  %is.absent = or i1 %no.x, %no.y
  br i1 %is.absent, label %atoms, label %sizes
sizes:
  %size = call i64 @count_of(ptr %x)
  %other = call i64 @count_of(ptr %y)
  %is.tuple = icmp sge i64 %size, 0
  br i1 %is.tuple, label %as.long, label %atoms
as.long:
  %same.size = icmp eq i64 %size, %other
  br i1 %same.size, label %next, label %no
next:
  %i = phi i64 [ 0, %as.long ], [ %i.next, %same ]
  %is.done = icmp eq i64 %i, %size
  br i1 %is.done, label %yes, label %one
one:
  %x.item = call ptr @argument(ptr %x, i64 %i)
  %y.item = call ptr @argument(ptr %y, i64 %i)
  %is.same = call i1 @same_atom(ptr %x.item, ptr %y.item)
  br i1 %is.same, label %same, label %no
same:
  %i.next = add i64 %i, 1
  br label %next
atoms:
  %are.same = call i1 @same_atom(ptr %x, ptr %y)
  ret i1 %are.same
yes:
  ret i1 true
no:
  ret i1 false
}
"""
