"""Where operators enter the recorder (`record_ir`), as LLVM IR text.

    or_python   what Python has for it where nothing is recorded
    at_site     records from the site's table, or calls what Python has for it
    compare     `tp_richcompare`        power    `nb_power`
"""

from __future__ import annotations

__all__ = ["BINARY_SITE", "OPERATORS", "UNARY_SITE"]

OPERATORS = """
; What was recorded; of CIRCUMSTANCE and UNKNOWN what the function gives that the site has for it, with these arguments.
define internal ptr @or_python(ptr %answer, ptr %site, ptr %arguments, i64 %count, ptr %names) alwaysinline {
entry:
  %bits = ptrtoint ptr %answer to i64
  %is.miss = icmp ule i64 %bits, 2
  br i1 %is.miss, label %miss, label %done
miss:
  %is.error = icmp eq i64 %bits, 0
  br i1 %is.error, label %done, label %slow
slow:
  %function.at = getelementptr ptr, ptr %site, i64 %bits
  %function = load ptr, ptr %function.at
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 %count, ptr %names)
  ret ptr %result
done:
  ret ptr %answer
}

; What is recorded at a site for one or two operands, or what its Python functions give.
define internal ptr @at_site(ptr %site, ptr %x1, ptr %x2) {
entry:
  %arguments = alloca [2 x ptr]
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %x1, ptr %arguments
  store ptr %x2, ptr %second
  %is.unary = icmp eq ptr %x2, null
  %count = select i1 %is.unary, i64 1, i64 2
  %cell = load ptr, ptr %site
  %answer = call ptr @recorded(ptr %cell, ptr %arguments, i64 %count, ptr null, i64 0)
  %result = call ptr @or_python(ptr %answer, ptr %site, ptr %arguments, i64 %count, ptr null)
  ret ptr %result
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
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %x1, ptr %arguments
  store ptr %x2, ptr %second
  %cell = load ptr, ptr %site
  %answer = call ptr @recorded(ptr %cell, ptr %arguments, i64 1, ptr %statics, i64 1)
  %result = call ptr @or_python(ptr %answer, ptr %site, ptr %arguments, i64 2, ptr null)
  ret ptr %result
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
