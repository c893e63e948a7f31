"""Fourier transforms as LLVM IR text.

    i32 @fourier(pointers, extents)      pointers (x, y), extents (address of a plan, begin, end)

transforms the rows in [begin, end); elements of a row are `inner` apart.  The words of a plan:

    n          of how many complex numbers the transform is: of real ones, half as many as there are
    inner      how far apart the elements of a row are
    inverse    1: exp(2πi jk / n), nothing divided
    kind       0 complex to complex, 1 real to the half of their spectrum, 2 the half of a spectrum to real
    passes     address of (that of code, m, s, that of factors) for each pass, then a 0 (`fourier_pass_ir`)
    halves     address of -i exp(-2πi k / 2n) for k = 0 .. n / 2
    columns    0; or the parts of a row n = rows · columns that is taken apart, as a matrix: of the columns all are
    rows           transformed (`passes.rows`), multiplied by the numbers at `turns` (real parts, imaginary parts),
    passes.rows    then of the rows (`passes.columns`)
    passes.columns
    turns

A block is some rows side by side, in two buffers that passes are done between: one element of all rows is a vector of
real parts and one of imaginary ones.  Where rows are too few for a block, it has the last one several times: what is
written for it is the same each time.  The transform of 2n real numbers is that of n complex ones, their even and
odd elements, and `half` (`fourier_half_ir`) takes the spectra of these two apart, or puts them together.

Rows that hold nan or infinities give REFUSED: where they end up depends on the order of sums: the
references decide.
"""

from __future__ import annotations

from ..kernel.nest import Status
from .fourier_half_ir import half_ir
from .fourier_move_ir import moves_ir
from .fourier_pass_ir import LANES
from .template import Template

__all__ = ["WORDS", "fourier_ir"]

#: The words of a plan, in their order.
WORDS = (
    "n", "inner", "inverse", "kind", "passes", "halves", "columns", "rows", "passes.rows", "passes.columns", "turns",
)  # fmt: skip

_DRIVER = Template("""
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; All passes, back and forth; where the result is.
define internal ptr @transform(ptr %passes, ptr %buffer, ptr %other, i64 %inverse) {
entry:
  %re = and i64 %inverse, 1
  %im = xor i64 %re, 1
  br label %next
next:
  %at = phi ptr [ %passes, %entry ], [ %at.next, %one ]
  %from = phi ptr [ %buffer, %entry ], [ %to, %one ]
  %to = phi ptr [ %other, %entry ], [ %from, %one ]
  %pass = load ptr, ptr %at
  %is.end = icmp eq ptr %pass, null
  br i1 %is.end, label %done, label %one
one:
  %m.at = getelementptr i64, ptr %at, i64 1
  %s.at = getelementptr i64, ptr %at, i64 2
  %factors.at = getelementptr i64, ptr %at, i64 3
  %m = load i64, ptr %m.at
  %s = load i64, ptr %s.at
  %factors = load ptr, ptr %factors.at
  call void %pass(ptr %from, ptr %to, i64 %m, i64 %s, ptr %factors, i64 %re, i64 %im)
  %at.next = getelementptr i64, ptr %at, i64 4
  br label %next
done:
  ret ptr %from
}

; Whether all numbers of a block are finite: x * 0 is nan for what is not.
define internal i1 @is_sound(ptr %block, i64 %count) {
entry:
  %vectors = shl i64 %count, 1
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %sum = phi $V [ zeroinitializer, %entry ], [ %added, %next ]
  %at = getelementptr $V, ptr %block, i64 %i
  %x = load $V, ptr %at, align 32
  %zero = fmul $V %x, zeroinitializer
  %added = fadd $V %sum, %zero
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %vectors
  br i1 %more, label %next, label %done
done:
  %lanes = fcmp une $V %added, zeroinitializer
  %any = bitcast <$LANES x i1> %lanes to i$LANES
  %is = icmp eq i$LANES %any, 0
  ret i1 %is
}

; Rows begin `apart` numbers one after the other.
define internal void @beside(ptr %lanes, ptr %first, i64 %apart) {
entry:
  br label %next
next:
  %j = phi i64 [ 0, %entry ], [ %j.next, %next ]
  %at = phi ptr [ %first, %entry ], [ %at.next, %next ]
  %to = getelementptr ptr, ptr %lanes, i64 %j
  store ptr %at, ptr %to
  %at.next = getelementptr $type, ptr %at, i64 %apart
  %j.next = add i64 %j, 1
  %more = icmp ult i64 %j.next, $LANES
  br i1 %more, label %next, label %done
done:
  ret void
}

; One long row by its columns, then by its rows; false, and nothing is written, where it is not finite.
define internal i1 @apart(
  ptr %x, ptr %y, ptr %plan, ptr %buffer, ptr %other, ptr %matrix
) noinline {
entry:
  %lanes = alloca [$LANES x ptr]
$words
  %column.step = shl i64 %columns, 1
  %row.step = shl i64 %rows, 1
  %last.column = sub i64 %columns, $LANES
  %last.row = sub i64 %rows, $LANES
  %is.inverse = icmp ne i64 %inverse, 0
  %re = zext i1 %is.inverse to i64
  %im = xor i64 %re, 1
  br label %down
down:
  %j.asked = phi i64 [ 0, %entry ], [ %j.next, %column ]
  %j.over = icmp ugt i64 %j.asked, %last.column
  %j = select i1 %j.over, i64 %last.column, i64 %j.asked
  %j.at = shl i64 %j, 1
  %column.from = getelementptr $type, ptr %x, i64 %j.at
  %column.to = getelementptr $type, ptr %matrix, i64 %j.at
  %turn = getelementptr $type, ptr %turns, i64 %j
  call void @beside(ptr %lanes, ptr %column.from, i64 2)
  call void @load(ptr %lanes, ptr %buffer, i64 %rows, i64 %column.step, i64 1, i64 1)
  %is.sound = call i1 @is_sound(ptr %buffer, i64 %rows)
  br i1 %is.sound, label %column, label %unsound
column:
  %of.column = call ptr @transform(ptr %passes.rows, ptr %buffer, ptr %other, i64 %inverse)
  call void @turn(ptr %of.column, ptr %turn, i64 %rows, i64 %columns, i64 %n, i64 %re, i64 %im)
  call void @beside(ptr %lanes, ptr %column.to, i64 2)
  call void @store(ptr %lanes, ptr %of.column, i64 %rows, i64 %column.step, i64 1, i64 1)
  %j.next = add i64 %j, $LANES
  %j.more = icmp ult i64 %j.next, %columns
  br i1 %j.more, label %down, label %along
along:
  %k.asked = phi i64 [ 0, %column ], [ %k.next, %along ]
  %k.over = icmp ugt i64 %k.asked, %last.row
  %k = select i1 %k.over, i64 %last.row, i64 %k.asked
  %k.at = mul i64 %k, %column.step
  %row = getelementptr $type, ptr %matrix, i64 %k.at
  %k.to = shl i64 %k, 1
  %row.to = getelementptr $type, ptr %y, i64 %k.to
  call void @beside(ptr %lanes, ptr %row, i64 %column.step)
  call void @load(ptr %lanes, ptr %buffer, i64 %columns, i64 2, i64 1, i64 3)
  %of.row = call ptr @transform(ptr %passes.columns, ptr %buffer, ptr %other, i64 %inverse)
  call void @beside(ptr %lanes, ptr %row.to, i64 2)
  call void @store(ptr %lanes, ptr %of.row, i64 %columns, i64 %row.step, i64 1, i64 1)
  %k.next = add i64 %k, $LANES
  %k.more = icmp ult i64 %k.next, %rows
  br i1 %k.more, label %along, label %done
done:
  ret i1 true
unsound:
  ret i1 false
}

; Where row r begins, of rows of `count` elements that are `inner` apart, `size` numbers each.
define internal ptr @row(ptr %base, i64 %r, i64 %inner, i64 %count, i64 %size) alwaysinline {
  %outer = udiv i64 %r, %inner
  %within = urem i64 %r, %inner
  %elements = mul i64 %count, %inner
  %begin = mul i64 %outer, %elements
  %at = add i64 %begin, %within
  %number = mul i64 %at, %size
  %place = getelementptr $type, ptr %base, i64 %number
  ret ptr %place
}

define i32 @fourier(ptr %pointers, ptr %extents) {
entry:
  %x.lanes = alloca [$LANES x ptr]
  %y.lanes = alloca [$LANES x ptr]
  %y.at = getelementptr ptr, ptr %pointers, i64 1
  %x = load ptr, ptr %pointers
  %y = load ptr, ptr %y.at
  %plan = load ptr, ptr %extents
  %begin.at = getelementptr i64, ptr %extents, i64 1
  %end.at = getelementptr i64, ptr %extents, i64 2
  %begin = load i64, ptr %begin.at
  %end = load i64, ptr %end.at
$words
  %after = add i64 %n, 1
  %is.half = icmp eq i64 %kind, 1
  %is.whole = icmp eq i64 %kind, 2
  %is.one = icmp eq i64 %inner, 1
  %is.apart = icmp ne i64 %columns, 0
  %n.real = shl i64 %n, 1
  %x.some = select i1 %is.whole, i64 %after, i64 %n
  %y.some = select i1 %is.half, i64 %after, i64 %n
  %x.count = select i1 %is.half, i64 %n.real, i64 %x.some
  %y.count = select i1 %is.whole, i64 %n.real, i64 %y.some
  %x.size = select i1 %is.half, i64 1, i64 2
  %y.size = select i1 %is.whole, i64 1, i64 2
  %step = shl i64 %inner, 1
  %x.im = select i1 %is.half, i64 %inner, i64 1
  %y.im = select i1 %is.whole, i64 %inner, i64 1
  %x.beside = select i1 %is.half, i64 2, i64 1
  %y.beside = select i1 %is.whole, i64 2, i64 1
  %longer = call i64 @llvm.umax.i64(i64 %columns, i64 %rows)
  %in.block = select i1 %is.apart, i64 %longer, i64 %after
  %buffer.bytes = mul i64 %in.block, $ELEMENT
  %row.bytes = mul i64 %after, $COMPLEX
  %padded = add i64 %row.bytes, 63
  %rounded = and i64 %padded, -64
  %matrices = select i1 %is.whole, i64 2, i64 1
  %all.rows = mul i64 %rounded, %matrices
  %matrix.bytes = select i1 %is.apart, i64 %all.rows, i64 0
  %both = shl i64 %buffer.bytes, 1
  %together = add i64 %both, %matrix.bytes
  %bytes = add i64 %together, 64
  %room = call ptr @PyMem_RawMalloc(i64 %bytes)
  %no.room = icmp eq ptr %room, null
  br i1 %no.room, label %no.memory, label %align
align:
  %room.at = ptrtoint ptr %room to i64
  %room.up = add i64 %room.at, 63
  %room.even = and i64 %room.up, -64
  %buffer = inttoptr i64 %room.even to ptr
  %other = getelementptr i8, ptr %buffer, i64 %buffer.bytes
  %matrix = getelementptr i8, ptr %other, i64 %buffer.bytes
  %spectrum = getelementptr i8, ptr %matrix, i64 %rounded
  br i1 %is.apart, label %next.row, label %next.block

next.row:
  %r = phi i64 [ %begin, %align ], [ %r.next, %row.done ]
  %r.more = icmp ult i64 %r, %end
  br i1 %r.more, label %one.row, label %done
one.row:
  %x.row = call ptr @row(ptr %x, i64 %r, i64 1, i64 %x.count, i64 %x.size)
  %y.row = call ptr @row(ptr %y, i64 %r, i64 1, i64 %y.count, i64 %y.size)
  br i1 %is.whole, label %join.row, label %do.row
join.row:
  call void @llvm.memcpy.p0.p0.i64(ptr %spectrum, ptr %x.row, i64 %row.bytes, i1 false)
  call void @half.one(ptr %spectrum, i64 %n, i64 1, ptr %halves, i1 false)
  br label %do.row
do.row:
  %x.given = phi ptr [ %x.row, %one.row ], [ %spectrum, %join.row ]
  %is.done = call i1 @apart(ptr %x.given, ptr %y.row, ptr %plan, ptr %buffer, ptr %other, ptr %matrix)
  br i1 %is.done, label %ends.row, label %refused
ends.row:
  br i1 %is.half, label %part.row, label %row.done
part.row:
  call void @half.one(ptr %y.row, i64 %n, i64 1, ptr %halves, i1 true)
  br label %row.done
row.done:
  %r.next = add i64 %r, 1
  br label %next.row

next.block:
  %b = phi i64 [ %begin, %align ], [ %b.next, %stored ]
  %b.more = icmp ult i64 %b, %end
  br i1 %b.more, label %block, label %done
block:
  %b.next = add i64 %b, $LANES
  %within = urem i64 %b, %inner
  %last.within = add i64 %within, $LANES
  %is.beside = icmp ule i64 %last.within, %inner
  %is.whole.block = icmp ule i64 %b.next, %end
  %is.contiguous = and i1 %is.beside, %is.whole.block
  %else.way = select i1 %is.one, i64 3, i64 0
  %x.way = select i1 %is.contiguous, i64 %x.beside, i64 %else.way
  %y.way = select i1 %is.contiguous, i64 %y.beside, i64 %else.way
  %last = sub i64 %end, 1
  br label %lane
lane:
  %l = phi i64 [ 0, %block ], [ %l.next, %lane ]
  %l.row = add i64 %b, %l
  %l.in = call i64 @llvm.umin.i64(i64 %l.row, i64 %last)
  %x.lane = call ptr @row(ptr %x, i64 %l.in, i64 %inner, i64 %x.count, i64 %x.size)
  %y.lane = call ptr @row(ptr %y, i64 %l.in, i64 %inner, i64 %y.count, i64 %y.size)
  %x.lane.at = getelementptr ptr, ptr %x.lanes, i64 %l
  %y.lane.at = getelementptr ptr, ptr %y.lanes, i64 %l
  store ptr %x.lane, ptr %x.lane.at
  store ptr %y.lane, ptr %y.lane.at
  %l.next = add i64 %l, 1
  %l.more = icmp ult i64 %l.next, $LANES
  br i1 %l.more, label %lane, label %loading
loading:
  call void @load(ptr %x.lanes, ptr %buffer, i64 %x.some, i64 %step, i64 %x.im, i64 %x.way)
  %is.sound = call i1 @is_sound(ptr %buffer, i64 %x.some)
  br i1 %is.sound, label %sound, label %refused
sound:
  br i1 %is.whole, label %join, label %do
join:
  call void @half.all(ptr %buffer, i64 %n, i64 1, ptr %halves, i1 false)
  br label %do
do:
  %result = call ptr @transform(ptr %passes, ptr %buffer, ptr %other, i64 %inverse)
  br i1 %is.half, label %part, label %storing
part:
  call void @half.all(ptr %result, i64 %n, i64 1, ptr %halves, i1 true)
  br label %storing
storing:
  call void @store(ptr %y.lanes, ptr %result, i64 %y.some, i64 %step, i64 %y.im, i64 %y.way)
  br label %stored
stored:
  br label %next.block
done:
  call void @PyMem_RawFree(ptr %room)
  ret i32 0
refused:
  call void @PyMem_RawFree(ptr %room)
  ret i32 $REFUSED
no.memory:
  ret i32 $NO_MEMORY
}

declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
""")


def _words() -> str:
    lines = []
    for j, word in enumerate(WORDS):
        kind = "ptr" if word in ("passes", "halves", "passes.rows", "passes.columns", "turns") else "i64"
        lines.append(f"  %{word}.word = getelementptr i64, ptr %plan, i64 {j}")
        lines.append(f"  %{word} = load {kind}, ptr %{word}.word")
    return "\n".join(lines)


def fourier_ir(dtype: str) -> str:
    """`fourier` of f32 or f64 numbers and pairs of them."""
    element, size = ("float", 4) if dtype == "f32" else ("double", 8)
    driver = _DRIVER.substitute(
        {"type": element, "LANES": LANES, "ELEMENT": 2 * LANES * size, "COMPLEX": 2 * size},
        V=f"<{LANES} x {element}>", words=_words(), NO_MEMORY=int(Status.NO_MEMORY), REFUSED=int(Status.REFUSED),
    )  # fmt: skip
    return moves_ir(element) + half_ir("all", element, LANES) + half_ir("one", element, 1) + driver
