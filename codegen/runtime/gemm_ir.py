"""Matrix products as LLVM IR text: steps that call BLAS, and plain loops for small ones.

Each function is a step like any kernel, `i32 f(ptr pointers, ptr extents)`, with pointers (a, b, c)
and extents

    m n k  a_row a_col  b_row b_col  batch  a_stride b_stride c_stride

where op(a)[i, l] lies at i * a_row + l * a_col and op(b)[l, j] at l * b_row + j * b_col; c is packed.
One of each pair of steps is 1.  All products of the batch are done in one call.

    blas_*    by dgemm or sgemm.  k = 0 writes zeros, which BLAS would leave to beta
    rows_*    c[i] += a[i, l] * b[l]    for b_col = 1: the inner loop runs along a row of b and c
    dots_*    c[i, j] = a[i] . b[j]     for b_row = 1: the inner loop runs along the sum
"""

from __future__ import annotations

from string import Template

__all__ = ["EXTENTS", "blas_ir", "loops_ir"]

#: The extents, in order.
EXTENTS = ("m", "n", "k", "a_row", "a_col", "b_row", "b_col", "batch", "a_stride", "b_stride", "c_stride")

_LLVM = {"f32": ("float", 4), "f64": ("double", 8)}


def _loads() -> str:
    """Loads of every extent and pointer, by name."""
    lines = []
    for number, name in enumerate(EXTENTS):
        lines += [
            f"  %{name}.at = getelementptr i64, ptr %extents, i64 {number}",
            f"  %{name} = load i64, ptr %{name}.at",
        ]
    for number, name in enumerate("abc"):
        lines += [
            f"  %{name}.first.at = getelementptr ptr, ptr %pointers, i64 {number}",
            f"  %{name}.first = load ptr, ptr %{name}.first.at",
        ]
    return "\n".join(lines)


# The frame shared by all: for each product of the batch, the pointers %a %b %c, then BODY, which ends at `next`.
_STEP = Template("""
define i32 @${name}_$dtype(ptr %pointers, ptr %extents) {
entry:
$loads
  br label %product
product:
  %p = phi i64 [ 0, %entry ], [ %p.next, %next ]
  %more = icmp ult i64 %p, %batch
  br i1 %more, label %place, label %done
place:
  %a.offset = mul i64 %p, %a_stride
  %a = getelementptr $type, ptr %a.first, i64 %a.offset
  %b.offset = mul i64 %p, %b_stride
  %b = getelementptr $type, ptr %b.first, i64 %b.offset
  %c.offset = mul i64 %p, %c_stride
  %c = getelementptr $type, ptr %c.first, i64 %c.offset
$body
next:
  %p.next = add i64 %p, 1
  br label %product
done:
  ret i32 0
}
""")

_ROWS = Template("""
; c[0..n) += x0 * b0 + x1 * b1 + x2 * b2 + x3 * b3
define internal void @add4_$dtype(ptr noalias %c, ptr noalias %b0, i64 %b_row, i64 %n,
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
define internal void @add1_$dtype(ptr noalias %c, ptr noalias %b, i64 %n, $type %x) {
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
  %c.elements = mul i64 %m, %n
  %c.bytes = mul i64 %c.elements, $size
  call void @llvm.memset.p0.i64(ptr %c, i8 0, i64 %c.bytes, i1 false)
  %is.empty = icmp eq i64 %c.elements, 0
  br i1 %is.empty, label %next, label %row
row:
  %i = phi i64 [ 0, %place ], [ %i.next, %row.done ]
  %c.row.offset = mul i64 %i, %n
  %c.row = getelementptr $type, ptr %c, i64 %c.row.offset
  %a.row.offset = mul i64 %i, %a_row
  %a.i = getelementptr $type, ptr %a, i64 %a.row.offset
  %fours = and i64 %k, -4
  br label %four
four:
  %l = phi i64 [ 0, %row ], [ %l.next, %four.body ]
  %has.four = icmp ult i64 %l, %fours
  br i1 %has.four, label %four.body, label %one
four.body:
  %l.offset = mul i64 %l, %a_col
  %a0 = getelementptr $type, ptr %a.i, i64 %l.offset
  %x0 = load $type, ptr %a0
  %a1 = getelementptr $type, ptr %a0, i64 %a_col
  %x1 = load $type, ptr %a1
  %a2 = getelementptr $type, ptr %a1, i64 %a_col
  %x2 = load $type, ptr %a2
  %a3 = getelementptr $type, ptr %a2, i64 %a_col
  %x3 = load $type, ptr %a3
  %b.offset.l = mul i64 %l, %b_row
  %b.l = getelementptr $type, ptr %b, i64 %b.offset.l
  call void @add4_$dtype(ptr %c.row, ptr %b.l, i64 %b_row, i64 %n, $type %x0, $type %x1, $type %x2, $type %x3)
  %l.next = add i64 %l, 4
  br label %four
one:
  %r = phi i64 [ %fours, %four ], [ %r.next, %one.body ]
  %has.one = icmp ult i64 %r, %k
  br i1 %has.one, label %one.body, label %row.done
one.body:
  %r.offset = mul i64 %r, %a_col
  %a.r = getelementptr $type, ptr %a.i, i64 %r.offset
  %x = load $type, ptr %a.r
  %b.offset.r = mul i64 %r, %b_row
  %b.r = getelementptr $type, ptr %b, i64 %b.offset.r
  call void @add1_$dtype(ptr %c.row, ptr %b.r, i64 %n, $type %x)
  %r.next = add i64 %r, 1
  br label %one
row.done:
  %i.next = add i64 %i, 1
  %more.rows = icmp ult i64 %i.next, %m
  br i1 %more.rows, label %row, label %next
""")

_DOTS = Template("""
; the sum of a[l * a_col] * b[l]
define internal $type @dot_$dtype(ptr %a, i64 %a_col, ptr %b, i64 %k) {
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
  %c.elements = mul i64 %m, %n
  %is.empty = icmp eq i64 %c.elements, 0
  br i1 %is.empty, label %next, label %row
row:
  %i = phi i64 [ 0, %place ], [ %i.next, %row.done ]
  %a.row.offset = mul i64 %i, %a_row
  %a.i = getelementptr $type, ptr %a, i64 %a.row.offset
  %c.row.offset = mul i64 %i, %n
  %c.row = getelementptr $type, ptr %c, i64 %c.row.offset
  br label %column
column:
  %j = phi i64 [ 0, %row ], [ %j.next, %column ]
  %b.j.offset = mul i64 %j, %b_col
  %b.j = getelementptr $type, ptr %b, i64 %b.j.offset
  %dot = call $type @dot_$dtype(ptr %a.i, i64 %a_col, ptr %b.j, i64 %k)
  %c.at = getelementptr $type, ptr %c.row, i64 %j
  store $type %dot, ptr %c.at
  %j.next = add i64 %j, 1
  %more.columns = icmp ult i64 %j.next, %n
  br i1 %more.columns, label %column, label %row.done
row.done:
  %i.next = add i64 %i, 1
  %more.rows = icmp ult i64 %i.next, %m
  br i1 %more.rows, label %row, label %next
""")

# BLAS counts columns first, so the row-major product c = a b is asked for as c' = b' a'.  A matrix whose
# columns are one apart is, to BLAS, not transposed: its leading dimension is the distance of rows.
_BLAS_BODY = Template("""
  %c.elements = mul i64 %m, %n
  %is.empty = icmp eq i64 %c.elements, 0
  br i1 %is.empty, label %next, label %not.empty
not.empty:
  %no.sum = icmp eq i64 %k, 0
  br i1 %no.sum, label %zero, label %multiply
zero:
  %c.bytes = mul i64 %c.elements, $size
  call void @llvm.memset.p0.i64(ptr %c, i8 0, i64 %c.bytes, i1 false)
  br label %next
multiply:
  %a.transposed = icmp ne i64 %a_col, 1
  %a.ld = select i1 %a.transposed, i64 %a_col, i64 %a_row
  %b.transposed = icmp ne i64 %b_col, 1
  %b.ld = select i1 %b.transposed, i64 %b_col, i64 %b_row
$call
  br label %next
""")

_CBLAS_CALL = Template("""
  %a.flag = select i1 %a.transposed, i32 112, i32 111
  %b.flag = select i1 %b.transposed, i32 112, i32 111
  call void @gemm_$dtype(i32 102, i32 %b.flag, i32 %a.flag, i64 %n, i64 %m, i64 %k, $type 1.0,
                         ptr %b, i64 %b.ld, ptr %a, i64 %a.ld, $type 0.0, ptr %c, i64 %n)
""")

_CBLAS_DECLARE = Template(
    "declare void @gemm_$dtype(i32, i32, i32, i64, i64, i64, $type, ptr, i64, ptr, i64, $type, ptr, i64)\n"
)

# Fortran takes everything by pointer; its integers have 32 bits, and the caller has made sure that they suffice.
_FORTRAN_CALL = Template("""
  %words = alloca [5 x i32]
  %n.at32 = getelementptr i32, ptr %words, i64 0
  %n32 = trunc i64 %n to i32
  store i32 %n32, ptr %n.at32
  %m.at32 = getelementptr i32, ptr %words, i64 1
  %m32 = trunc i64 %m to i32
  store i32 %m32, ptr %m.at32
  %k.at32 = getelementptr i32, ptr %words, i64 2
  %k32 = trunc i64 %k to i32
  store i32 %k32, ptr %k.at32
  %a.ld.at = getelementptr i32, ptr %words, i64 3
  %a.ld32 = trunc i64 %a.ld to i32
  store i32 %a.ld32, ptr %a.ld.at
  %b.ld.at = getelementptr i32, ptr %words, i64 4
  %b.ld32 = trunc i64 %b.ld to i32
  store i32 %b.ld32, ptr %b.ld.at
  %a.flag = select i1 %a.transposed, ptr @letter.t, ptr @letter.n
  %b.flag = select i1 %b.transposed, ptr @letter.t, ptr @letter.n
  call void @gemm_$dtype(ptr %b.flag, ptr %a.flag, ptr %n.at32, ptr %m.at32, ptr %k.at32, ptr @one,
                         ptr %b, ptr %b.ld.at, ptr %a, ptr %a.ld.at, ptr @zero, ptr %c, ptr %n.at32)
""")

_FORTRAN_DECLARE = Template("""
@letter.n = internal constant i8 78
@letter.t = internal constant i8 84
@one = internal constant $type 1.0
@zero = internal constant $type 0.0
declare void @gemm_$dtype(ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)
""")

_MEMSET = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"


def loops_ir(dtype: str) -> str:
    """The module of `rows_<dtype>` and `dots_<dtype>`."""
    type_, size = _LLVM[dtype]
    words = {"dtype": dtype, "type": type_, "size": size}
    return "".join(
        (
            _MEMSET,
            _ROWS.substitute(words),
            _DOTS.substitute(words),
            _STEP.substitute(words, name="rows", loads=_loads(), body=_ROWS_BODY.substitute(words)),
            _STEP.substitute(words, name="dots", loads=_loads(), body=_DOTS_BODY.substitute(words)),
        )
    )


def blas_ir(dtype: str, *, is_fortran: bool) -> str:
    """The module of `blas_<dtype>`, which calls the imported `gemm_<dtype>`.

    That is cblas with 64-bit integers, or, if `is_fortran`, Fortran's with 32-bit ones.
    """
    type_, size = _LLVM[dtype]
    words = {"dtype": dtype, "type": type_, "size": size}
    declare, call = (_FORTRAN_DECLARE, _FORTRAN_CALL) if is_fortran else (_CBLAS_DECLARE, _CBLAS_CALL)
    body = _BLAS_BODY.substitute(words, call=call.substitute(words))
    step = _STEP.substitute(words, name="blas", loads=_loads(), body=body)
    return _MEMSET + declare.substitute(words) + step
