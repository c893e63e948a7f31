"""What calls into a plan (`entered_ir`) look at when they do not fit at first, as LLVM IR text.

    same_value    a static argument that is another object may be equal
    run_packed    arrays that do not lie packed are copied
"""

from __future__ import annotations

__all__ = ["AGAIN"]

AGAIN = """
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @new_copy(ptr, i32)

; Whether two are an int, a float or a str, of the same class and value (0.0 is not -0.0).
define internal i1 @same_value(ptr %x, ptr %y) noinline {
entry:
  %class = call ptr @class.of(ptr %x)
  %other = call ptr @class.of(ptr %y)
  %int.type = call ptr @address(ptr @entering, i64 $int_type)
  %str.type = call ptr @address(ptr @entering, i64 $str_type)
  %float.type = call ptr @address(ptr @entering, i64 $float_type)
  %same.class = icmp eq ptr %class, %other
  %is.int = icmp eq ptr %class, %int.type
  %is.str = icmp eq ptr %class, %str.type
  %is.float = icmp eq ptr %class, %float.type
  %is.compared = or i1 %is.int, %is.str
  br i1 %same.class, label %look, label %no
look:
  br i1 %is.compared, label %compare, label %is.number
compare:
  %equal = call i32 @PyObject_RichCompareBool(ptr %x, ptr %y, i32 2)    ; Py_EQ
  %is.equal = icmp eq i32 %equal, 1
  ret i1 %is.equal
is.number:
  br i1 %is.float, label %float, label %no
float:
  %x.double = call double @PyFloat_AsDouble(ptr %x)
  %y.double = call double @PyFloat_AsDouble(ptr %y)
  %x.bits = bitcast double %x.double to i64
  %y.bits = bitcast double %y.double to i64
  %same.bits = icmp eq i64 %x.bits, %y.bits
  ret i1 %same.bits
no:
  ret i1 false
}

; Run a plan on inputs that it did not take, with arrays that do not lie packed copied: 1 where that is not it.
define internal ptr @run_packed(ptr %plan, ptr %inputs, i64 %n, ptr %program) noinline {
entry:
  %packed = alloca ptr, i64 %n
  br label %hold
hold:
  ; Copying lets other threads run.
  %h = phi i64 [ 0, %entry ], [ %h.next, %hold.one ]
  %held = icmp eq i64 %h, %n
  br i1 %held, label %next, label %hold.one
hold.one:
  %h.at = getelementptr ptr, ptr %inputs, i64 %h
  %h.input = load ptr, ptr %h.at
  call void @Py_IncRef(ptr %h.input)
  %h.to = getelementptr ptr, ptr %packed, i64 %h
  store ptr %h.input, ptr %h.to
  %h.next = add i64 %h, 1
  br label %hold
next:
  %i = phi i64 [ 0, %hold ], [ %i.next, %fine ]
  %copies = phi i64 [ 0, %hold ], [ %copies.next, %fine ]
  %looked = icmp eq i64 %i, %n
  br i1 %looked, label %run, label %one
one:
  %at = getelementptr ptr, ptr %packed, i64 %i
  %input = load ptr, ptr %at
  %class = call ptr @class.of(ptr %input)
  %array.type = call ptr @address(ptr @entering, i64 $array_type)
  %is.array = icmp eq ptr %class, %array.type
  br i1 %is.array, label %flags, label %fine
flags:
  %flags.at = getelementptr i8, ptr %input, i64 $FLAGS
  %flags.now = load i32, ptr %flags.at
  %flags.wanted = and i32 %flags.now, 257         ; C_CONTIGUOUS, ALIGNED
  %is.packed = icmp eq i32 %flags.wanted, 257
  br i1 %is.packed, label %fine, label %copy
copy:
  %made = call ptr @new_copy(ptr %input, i32 0)   ; NPY_CORDER
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %drop, label %copied
copied:
  store ptr %made, ptr %at
  call void @Py_DecRef(ptr %input)
  br label %fine
fine:
  %more = phi i64 [ 0, %one ], [ 0, %flags ], [ 1, %copied ]
  %copies.next = add i64 %copies, %more
  %i.next = add i64 %i, 1
  br label %next
run:
  %has.copies = icmp ne i64 %copies, 0
  br i1 %has.copies, label %again, label %drop
again:
  %found = call ptr @run_plan(ptr %plan, ptr %packed, ptr %program)
  br label %drop
drop:
  %result = phi ptr [ null, %copy ], [ inttoptr (i64 1 to ptr), %run ], [ %found, %again ]
  call void @release(ptr %packed, i64 %n)
  ret ptr %result
}
"""
