"""Fourier transforms as LLVM IR text.

    i32 @fourier(pointers, extents)      pointers (x, y), extents (address of a plan, begin, end)

transforms the rows in [begin, end); elements of a row are `inner` apart.  The words of a plan:

    n          of how many complex numbers the transform is: of an even number of real ones, half as many
    inner      how far apart the elements of a row are
    inverse    1: exp(2πi jk / n), nothing divided
    kind       0 complex to complex, 1 real to the half of their spectrum, 2 the half of a spectrum to real; 3 and 4 the
               same of an odd number of real ones
    passes     address of (that of code, m, s, that of factors) for each pass, then a 0 (`fourier_pass_ir`,
               `fourier_prime_ir`)
    halves     address of -i exp(-2πi k / 2n) for k = 0 .. n / 2
    columns    0; or the parts of a row n = rows · columns that is taken apart, as a matrix: of the columns all are
    rows           transformed (`passes.rows`), multiplied by the numbers at `turns` (real parts, imaginary parts),
    passes.rows    then of the rows (`passes.columns`)
    passes.columns
    turns

A block is some rows side by side, in two buffers that passes are done between: one element of all rows is a vector of
real parts and one of imaginary ones.  Where rows are too few for a block, it has the last one several times: what is
written for it is the same each time.  The transform of 2n real numbers is that of n complex ones, their even and
odd elements, and `half` (`fourier_half_ir`) takes the spectra of these two apart, or puts them together.  An odd number
of real ones are complex ones with imaginary parts of 0.

Rows that hold nan or infinities give REFUSED: where they end up depends on the order of sums: the
references decide.
"""

from __future__ import annotations

from ..kernel.nest import Status
from .fourier_apart_ir import WORDS, apart_ir, words_read
from .fourier_half_ir import half_ir, odd_ir
from .fourier_pass_ir import LANES
from .template import Template

__all__ = ["fourier_ir"]

_DRIVER = Template("""
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
  %is.odd.half = icmp eq i64 %kind, 3
  %is.odd.whole = icmp eq i64 %kind, 4
  %is.odd = or i1 %is.odd.half, %is.odd.whole
  %given.real = or i1 %is.half, %is.odd.half
  %taken.real = or i1 %is.whole, %is.odd.whole
  %is.one = icmp eq i64 %inner, 1
  %is.apart = icmp ne i64 %columns, 0
  %n.real = shl i64 %n, 1
  %middle = lshr i64 %after, 1
  %x.some.even = select i1 %is.whole, i64 %after, i64 %n
  %y.some.even = select i1 %is.half, i64 %after, i64 %n
  %x.some = select i1 %is.odd.whole, i64 %middle, i64 %x.some.even
  %y.some = select i1 %is.odd.half, i64 %middle, i64 %y.some.even
  %x.count = select i1 %is.half, i64 %n.real, i64 %x.some
  %y.count = select i1 %is.whole, i64 %n.real, i64 %y.some
  %x.size = select i1 %given.real, i64 1, i64 2
  %y.size = select i1 %taken.real, i64 1, i64 2
  %step = shl i64 %inner, 1
  %x.step = select i1 %is.odd.half, i64 %inner, i64 %step
  %y.step = select i1 %is.odd.whole, i64 %inner, i64 %step
  %x.im.even = select i1 %is.half, i64 %inner, i64 1
  %y.im.even = select i1 %is.whole, i64 %inner, i64 1
  %x.im = select i1 %is.odd.half, i64 0, i64 %x.im.even
  %y.im = select i1 %is.odd.whole, i64 0, i64 %y.im.even
  %x.beside = select i1 %given.real, i64 2, i64 1
  %y.beside = select i1 %taken.real, i64 2, i64 1
  %one.way = select i1 %is.one, i64 3, i64 0
  %x.else = select i1 %is.odd.half, i64 0, i64 %one.way
  %y.else = select i1 %is.odd.whole, i64 0, i64 %one.way
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
  %is.done = call i1 @apart(ptr %x.given, ptr %y.row, ptr %plan, ptr %buffer, ptr %other, ptr %matrix, i64 %inverse)
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
  %x.way = select i1 %is.contiguous, i64 %x.beside, i64 %x.else
  %y.way = select i1 %is.contiguous, i64 %y.beside, i64 %y.else
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
  call void @load(ptr %x.lanes, ptr %buffer, i64 %x.some, i64 %x.step, i64 %x.im, i64 %x.way)
  %is.sound = call i1 @is_sound(ptr %buffer, i64 %x.some)
  br i1 %is.sound, label %sound, label %refused
sound:
  br i1 %is.odd, label %odd, label %even
odd:
  call void @odd.given(ptr %buffer, i64 %n, i64 %kind)
  br label %do
even:
  br i1 %is.whole, label %join, label %do
join:
  call void @half.all(ptr %buffer, i64 %n, i64 1, ptr %halves, i1 false)
  br label %do
do:
  %result = call ptr @transform(ptr %passes, ptr %buffer, ptr %other, i64 %inverse)
  br i1 %is.odd, label %odd.found, label %even.found
odd.found:
  call void @odd.taken(ptr %result, i64 %n, i64 %kind)
  br label %storing
even.found:
  br i1 %is.half, label %part, label %storing
part:
  call void @half.all(ptr %result, i64 %n, i64 1, ptr %halves, i1 true)
  br label %storing
storing:
  call void @store(ptr %y.lanes, ptr %result, i64 %y.some, i64 %y.step, i64 %y.im, i64 %y.way)
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


def fourier_ir(dtype: str) -> str:
    """`fourier` of f32 or f64 numbers and pairs of them."""
    element, size = ("float", 4) if dtype == "f32" else ("double", 8)
    driver = _DRIVER.substitute(
        {"type": element, "LANES": LANES, "ELEMENT": 2 * LANES * size, "COMPLEX": 2 * size},
        V=f"<{LANES} x {element}>", words=words_read(WORDS),
        NO_MEMORY=int(Status.NO_MEMORY), REFUSED=int(Status.REFUSED),
    )  # fmt: skip
    halves = half_ir("all", element, LANES) + half_ir("one", element, 1) + odd_ir(element, LANES)
    return apart_ir(element) + halves + driver
