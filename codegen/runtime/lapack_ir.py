"""Decompositions by LAPACK as LLVM IR text.

    i32 @eigh(pointers, extents)   i32 @qr(...)   i32 @svd(...)

decompose the matrices of a batch; pointers (a, y), extents (batch, m, n, the address of a word,
and of LAPACKE's routines).
y has the parts of a decomposition one below the other:

    eigh   the row of eigenvalues, the vectors as columns        dsyevd
    qr     q, then r                                             dgeqrf, dorgqr
    svd    u, the row of singular values, v                      dgesdd

f32 is computed in f64, as NumPy does.  A matrix with nan or infinities, and one for which LAPACK finds nothing, gives
REFUSED: the references decide; so does a word that is not 0 (`modes.deterministic`), before anything is computed.
LAPACK does not flush subnormal numbers when we do (`flush_ir`): it has threads of its own, which would not.
"""

from __future__ import annotations

from ..kernel.nest import Status
from .flush_ir import leaving_ir
from .template import Template

__all__ = ["ROUTINES", "lapack_ir"]

#: What each function calls, in the order of the extents.
ROUTINES = {"eigh": ("dsyevd",), "qr": ("dgeqrf", "dorgqr"), "svd": ("dgesdd",)}

#: LAPACK_ROW_MAJOR of lapacke.h, and the letters V, L, S.
_NUMBERS = {"ROWS": 101, "VECTORS": ord("V"), "LOWER": ord("L"), "SOME": ord("S")}

_FUNCTION = Template("""
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; all finite: x * 0 is nan for what is not
define internal i1 @is_sound(ptr %a, i64 %count) {
entry:
  br label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %sum = phi double [ 0.0, %entry ], [ %added, %one ]
  %at = getelementptr double, ptr %a, i64 %i
  %x = load double, ptr %at
  %zero = fmul double %x, 0.0
  %added = fadd double %sum, %zero
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %one, label %done
done:
  %is = fcmp oeq double %added, 0.0
  ret i1 %is
}

define internal void @convert(ptr %from, ptr %to, i64 %count, i1 %widens) {
entry:
  br label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %stored ]
  %narrow.from = getelementptr float, ptr %from, i64 %i
  %wide.from = getelementptr double, ptr %from, i64 %i
  %narrow.to = getelementptr float, ptr %to, i64 %i
  %wide.to = getelementptr double, ptr %to, i64 %i
  br i1 %widens, label %widen, label %narrow
widen:
  %given = load float, ptr %narrow.from
  %widened = fpext float %given to double
  store double %widened, ptr %wide.to
  br label %stored
narrow:
  %found = load double, ptr %wide.from
  %narrowed = fptrunc double %found to float
  store float %narrowed, ptr %narrow.to
  br label %stored
stored:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %one, label %done
done:
  ret void
}

define i32 @$name(ptr %pointers, ptr %extents) {
entry:
  %y.at = getelementptr ptr, ptr %pointers, i64 1
  %a = load ptr, ptr %pointers
  %y = load ptr, ptr %y.at
  %m.at = getelementptr i64, ptr %extents, i64 1
  %n.at = getelementptr i64, ptr %extents, i64 2
  %word.at = getelementptr i64, ptr %extents, i64 3
  %routine.at = getelementptr i64, ptr %extents, i64 4
  %batch = load i64, ptr %extents
  %m = load i64, ptr %m.at
  %n = load i64, ptr %n.at
  %routine = load ptr, ptr %routine.at
  %word = load ptr, ptr %word.at
  %set = load i64, ptr %word
  %is.set = icmp ne i64 %set, 0
  %mn = mul i64 %m, %n
  %nn = mul i64 %n, %n
  %is.wide = icmp ult i64 %m, %n
  %k = select i1 %is.wide, i64 %m, i64 %n
  %mk = mul i64 %m, %k
  %nk = mul i64 %n, %k
  %a.bytes = mul i64 %mn, 8
  $sizes
  %both = add i64 %mn, %y.size
  %converted = select i1 $converts, i64 %both, i64 0
  %wanted = add i64 %converted, %scratch.size
  %room.size = add i64 %wanted, 1
  %room.bytes = mul i64 %room.size, 8
  %room = call ptr @PyMem_RawMalloc(i64 %room.bytes)
  %scratch = getelementptr double, ptr %room, i64 %converted
  %second = getelementptr double, ptr %room, i64 %mn
  %no.room = icmp eq ptr %room, null
  br i1 %no.room, label %no.memory, label %begin
begin:
  br i1 %is.set, label %refused, label %one
one:
  %b = phi i64 [ 0, %begin ], [ %b.next, %found ]
  %a.off = mul i64 %b, %mn
  %y.off = mul i64 %b, %y.size
  %a.b = getelementptr $type, ptr %a, i64 %a.off
  %y.b = getelementptr $type, ptr %y, i64 %y.off
  %in = select i1 $converts, ptr %room, ptr %a.b
  %out = select i1 $converts, ptr %second, ptr %y.b
  br i1 $converts, label %widen, label %look
widen:
  call void @convert(ptr %a.b, ptr %in, i64 %mn, i1 true)
  br label %look
look:
  %is.sound = call i1 @is_sound(ptr %in, i64 %mn)
  br i1 %is.sound, label %run, label %refused
run:
  %inside = call i64 @leave_flushing()
$run
decomposed:
  call void @return_flushing(i64 %inside)
  br i1 $converts, label %narrow, label %found
narrow:
  call void @convert(ptr %out, ptr %y.b, i64 %y.size, i1 false)
  br label %found
found:
  %b.next = add i64 %b, 1
  %more = icmp ult i64 %b.next, %batch
  br i1 %more, label %one, label %done
done:
  call void @PyMem_RawFree(ptr %room)
  ret i32 0
refused:
  call void @PyMem_RawFree(ptr %room)
  ret i32 $REFUSED
no.memory:
  ret i32 $NO_MEMORY
}
""")

#: A matrix element by element, row after row: `each` is what is done with element %e.
_ELEMENTS = Template("""\
element:
  %e = phi i64 [ 0, %$before ], [ %e.next, %element ]
  %row = udiv i64 %e, $columns
  %column = urem i64 %e, $columns
$each
  %e.next = add i64 %e, 1
  %e.more = icmp ult i64 %e.next, $count
  br i1 %e.more, label %element, label %$after""")
#: r: what is above the diagonal, and zeros.
_TRIANGLE = _ELEMENTS.substitute(before="triangle", columns="%n", count="%nn", after="vectors", each="""\
  %from = getelementptr double, ptr %out, i64 %e
  %to = getelementptr double, ptr %r, i64 %e
  %x = load double, ptr %from
  %is.below = icmp ugt i64 %row, %column
  %kept = select i1 %is.below, double 0.0, double %x
  store double %kept, ptr %to""")
#: v: the transpose of what LAPACK gives.
_TRANSPOSE = _ELEMENTS.substitute(before="turn", columns="%k", count="%nk", after="decomposed", each="""\
  %line = mul i64 %column, %n
  %there = add i64 %line, %row
  %from = getelementptr double, ptr %vt, i64 %there
  %to = getelementptr double, ptr %v, i64 %e
  %x = load double, ptr %from
  store double %x, ptr %to""")

_EIGH_SIZES = """%y.size = add i64 %nn, %n
  %scratch.size = add i64 0, 0"""
_EIGH = Template("""
  %v = getelementptr double, ptr %out, i64 %n
  call void @llvm.memcpy.p0.p0.i64(ptr %v, ptr %in, i64 %a.bytes, i1 false)
  %info = call i64 %routine(i32 $ROWS, i32 $VECTORS, i32 $LOWER, i64 %n, ptr %v, i64 %n, ptr %out)
  %is.found = icmp eq i64 %info, 0
  br i1 %is.found, label %decomposed, label %refused
""")

_QR_SIZES = """%y.size = add i64 %mn, %nn
  %scratch.size = add i64 %n, 0
  %last.at = getelementptr i64, ptr %extents, i64 5
  %last = load ptr, ptr %last.at"""
_QR = Template("""
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %in, i64 %a.bytes, i1 false)
  %info = call i64 %routine(i32 $ROWS, i64 %m, i64 %n, ptr %out, i64 %n, ptr %scratch)
  %is.reduced = icmp eq i64 %info, 0
  br i1 %is.reduced, label %triangle, label %refused
triangle:
  %r = getelementptr double, ptr %out, i64 %mn
  br label %element
$triangle
vectors:
  %q.info = call i64 %last(i32 $ROWS, i64 %m, i64 %n, i64 %n, ptr %out, i64 %n, ptr %scratch)
  %is.found = icmp eq i64 %q.info, 0
  br i1 %is.found, label %decomposed, label %refused
""")

_SVD_SIZES = """%uv = add i64 %mk, %nk
  %y.size = add i64 %uv, %k
  %scratch.size = add i64 %mn, %nk"""
_SVD = Template("""
  %vt = getelementptr double, ptr %scratch, i64 %mn
  %s = getelementptr double, ptr %out, i64 %mk
  call void @llvm.memcpy.p0.p0.i64(ptr %scratch, ptr %in, i64 %a.bytes, i1 false)
  %info = call i64 %routine(i32 $ROWS, i32 $SOME, i64 %m, i64 %n, ptr %scratch, i64 %n, ptr %s,
                            ptr %out, i64 %k, ptr %vt, i64 %n)
  %is.found = icmp eq i64 %info, 0
  br i1 %is.found, label %turn, label %refused
turn:
  %v = getelementptr double, ptr %s, i64 %k
  br label %element
$transpose
""")

_PROGRAMS = {"eigh": (_EIGH_SIZES, _EIGH), "qr": (_QR_SIZES, _QR), "svd": (_SVD_SIZES, _SVD)}


def lapack_ir(name: str, dtype: str, processor: str) -> str:
    """The module of one decomposition, of f32 or f64, for a processor as `modes.processor` names it."""
    sizes, run = _PROGRAMS[name]
    return leaving_ir(processor) + _FUNCTION.substitute(
        name=name,
        type="float" if dtype == "f32" else "double",
        converts="true" if dtype == "f32" else "false",
        sizes=sizes,
        run=run.substitute(_NUMBERS, triangle=_TRIANGLE, transpose=_TRANSPOSE),
        REFUSED=int(Status.REFUSED),
        NO_MEMORY=int(Status.NO_MEMORY),
    )
