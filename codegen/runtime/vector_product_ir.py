"""Products of a vector and a matrix as LLVM IR text: steps like those of `product_ir`, with m = 1.

    rows    c += a[l] * b[l]       for b_col = 1: the inner loop runs along a row of b and c
    dots    c[j] = a . b[j]        for b_row = 1: the inner loop runs along the sum

They are bound by memory: every element of b is used once, so keeping sums in registers gains nothing.
"""

from __future__ import annotations

from string import Template

from .product_ir import DECLARED, step_ir

__all__ = ["vector_product_ir"]

_ROWS = Template("""
; c[0..n) += x0 * b0 + x1 * b1 + x2 * b2 + x3 * b3
define internal void @add4(ptr noalias %c, ptr noalias %b0, i64 %b_row, i64 %n,
                                  $type %x0, $type %x1, $type %x2, $type %x3) {
entry:
  %b1 = getelementptr $type, ptr %b0, i64 %b_row
  %b2 = getelementptr $type, ptr %b1, i64 %b_row
  %b3 = getelementptr $type, ptr %b2, i64 %b_row
  br label %loop
loop:
  %j = phi i64 [ 0, %entry ], [ %j.next, %loop ]
  %c.at = getelementptr inbounds $type, ptr %c, i64 %j
  %c0 = load $type, ptr %c.at
  %b0.at = getelementptr inbounds $type, ptr %b0, i64 %j
  %v0 = load $type, ptr %b0.at
  %t0 = fmul contract $type %x0, %v0
  %c1 = fadd contract $type %c0, %t0
  %b1.at = getelementptr inbounds $type, ptr %b1, i64 %j
  %v1 = load $type, ptr %b1.at
  %t1 = fmul contract $type %x1, %v1
  %c2 = fadd contract $type %c1, %t1
  %b2.at = getelementptr inbounds $type, ptr %b2, i64 %j
  %v2 = load $type, ptr %b2.at
  %t2 = fmul contract $type %x2, %v2
  %c3 = fadd contract $type %c2, %t2
  %b3.at = getelementptr inbounds $type, ptr %b3, i64 %j
  %v3 = load $type, ptr %b3.at
  %t3 = fmul contract $type %x3, %v3
  %c4 = fadd contract $type %c3, %t3
  store $type %c4, ptr %c.at
  %j.next = add nuw nsw i64 %j, 1
  %more = icmp ult i64 %j.next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

; c[0..n) += x * b
define internal void @add1(ptr noalias %c, ptr noalias %b, i64 %n, $type %x) {
entry:
  br label %loop
loop:
  %j = phi i64 [ 0, %entry ], [ %j.next, %loop ]
  %c.at = getelementptr inbounds $type, ptr %c, i64 %j
  %c0 = load $type, ptr %c.at
  %b.at = getelementptr inbounds $type, ptr %b, i64 %j
  %v = load $type, ptr %b.at
  %t = fmul contract $type %x, %v
  %c1 = fadd contract $type %c0, %t
  store $type %c1, ptr %c.at
  %j.next = add nuw nsw i64 %j, 1
  %more = icmp ult i64 %j.next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
""")

_ROWS_BODY = Template("""
  %c.bytes = mul i64 %columns, $size
  call void @llvm.memset.p0.i64(ptr %c, i8 0, i64 %c.bytes, i1 false)
  %fours = and i64 %k, -4
  br label %four
four:
  %l = phi i64 [ 0, %place ], [ %l.next, %four.body ]
  %has.four = icmp ult i64 %l, %fours
  br i1 %has.four, label %four.body, label %one
four.body:
  %l.offset = mul i64 %l, %a_col
  %a0 = getelementptr $type, ptr %a, i64 %l.offset
  %x0 = load $type, ptr %a0
  %a1 = getelementptr $type, ptr %a0, i64 %a_col
  %x1 = load $type, ptr %a1
  %a2 = getelementptr $type, ptr %a1, i64 %a_col
  %x2 = load $type, ptr %a2
  %a3 = getelementptr $type, ptr %a2, i64 %a_col
  %x3 = load $type, ptr %a3
  %b.offset.l = mul i64 %l, %b_row
  %b.l = getelementptr $type, ptr %b, i64 %b.offset.l
  call void @add4(ptr %c, ptr %b.l, i64 %b_row, i64 %columns, $type %x0, $type %x1, $type %x2, $type %x3)
  %l.next = add i64 %l, 4
  br label %four
one:
  %r = phi i64 [ %fours, %four ], [ %r.next, %one.body ]
  %has.one = icmp ult i64 %r, %k
  br i1 %has.one, label %one.body, label %next
one.body:
  %r.offset = mul i64 %r, %a_col
  %a.r = getelementptr $type, ptr %a, i64 %r.offset
  %x = load $type, ptr %a.r
  %b.offset.r = mul i64 %r, %b_row
  %b.r = getelementptr $type, ptr %b, i64 %b.offset.r
  call void @add1(ptr %c, ptr %b.r, i64 %columns, $type %x)
  %r.next = add i64 %r, 1
  br label %one
""")

_DOTS = Template("""
; the sum of a[l * a_col] * b[l]
define internal $type @dot(ptr %a, i64 %a_col, ptr %b, i64 %k) {
entry:
  %none = icmp eq i64 %k, 0
  br i1 %none, label %done, label %loop
loop:
  %l = phi i64 [ 0, %entry ], [ %l.next, %loop ]
  %sum = phi $type [ 0.0, %entry ], [ %sum.next, %loop ]
  %offset = mul i64 %l, %a_col
  %a.at = getelementptr inbounds $type, ptr %a, i64 %offset
  %x = load $type, ptr %a.at
  %b.at = getelementptr inbounds $type, ptr %b, i64 %l
  %y = load $type, ptr %b.at
  %t = fmul contract reassoc $type %x, %y
  %sum.next = fadd contract reassoc $type %sum, %t
  %l.next = add nuw nsw i64 %l, 1
  %more = icmp ult i64 %l.next, %k
  br i1 %more, label %loop, label %done
done:
  %total = phi $type [ 0.0, %entry ], [ %sum.next, %loop ]
  ret $type %total
}
""")

_DOTS_BODY = Template("""
  br label %column
column:
  %j = phi i64 [ 0, %place ], [ %j.next, %column ]
  %b.j.offset = mul i64 %j, %b_col
  %b.j = getelementptr $type, ptr %b, i64 %b.j.offset
  %dot = call $type @dot(ptr %a, i64 %a_col, ptr %b.j, i64 %k)
  %c.at = getelementptr $type, ptr %c, i64 %j
  store $type %dot, ptr %c.at
  %j.next = add i64 %j, 1
  %more.columns = icmp ult i64 %j.next, %columns
  br i1 %more.columns, label %column, label %next
""")


def vector_product_ir(dtype: str) -> str:
    """The module of `rows` and `dots`."""
    type_, size = {"f32": ("float", 4), "f64": ("double", 8)}[dtype]
    words = {"type": type_, "size": size}
    rows = step_ir("rows", type_, _ROWS_BODY.substitute(words))
    dots = step_ir("dots", type_, _DOTS_BODY.substitute(words))
    return "".join((_ROWS.substitute(words), _DOTS.substitute(words), rows, dots, DECLARED))
