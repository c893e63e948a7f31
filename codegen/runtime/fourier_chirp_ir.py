"""Fourier transforms of any number of elements as LLVM IR text: those of rows whose extent no passes do.

    i32 @fourier(pointers, extents)      as in `fourier_ir`; the plan is that of rows of n elements, and after it

    count      how many elements a transform has, of real numbers as many
    chirp      address of w(k) = exp(-πi k² / count) for k < count, of the inverse exp(πi k² / count); 0 if n is count
    kernel     address of the transform of 1 / w (k) for -count < k < count, around a row of n, divided by n

With j k = (j² + k² - (j - k)²) / 2 a transform is a convolution,

    y[j] = w(j) · sum over k of (w(k) x[k]) / w(j - k)

which transforms of n >= 2 count - 1 elements do: a row times w, zeros after it, is transformed, multiplied by the
kernel, transformed back and multiplied by w.  Real numbers are complex ones here: an even number of them that passes
do, `fourier_ir` does in half the time; an odd one is transformed as it is.

Source: Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", IEEE Transactions on
Audio and Electroacoustics 18 (1970).
"""

from __future__ import annotations

from ..kernel.nest import Status
from .fourier_apart_ir import WORDS, apart_ir, words_read
from .fourier_pass_ir import LANES
from .template import Template
from .transposed_ir import listed

__all__ = ["CHIRP_WORDS", "chirp_ir"]

#: The words of such a plan, in their order.
CHIRP_WORDS = (*WORDS, "count", "chirp", "kernel")

_TIMES = Template("""
; to[k] = from[k] w[k] for k < count, complex numbers.
define internal void @times(ptr %to, ptr %from, ptr noalias %w, i64 %count) noinline {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %some ]
  %k.next = add i64 %k, $LANES
  %fits = icmp ule i64 %k.next, %count
  br i1 %fits, label %some, label %one.next
some:
$some
  br label %next
one.next:
  %i = phi i64 [ %k, %next ], [ %i.next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
$one
  %i.next = add i64 %i, 1
  br label %one.next
done:
  ret void
}
""")
_PRODUCT = Template("""
  %$n.two = shl i64 %$n, 1
  %$n.from.at = getelementptr $type, ptr %from, i64 %$n.two
  %$n.w.at = getelementptr $type, ptr %w, i64 %$n.two
  %$n.to.at = getelementptr $type, ptr %to, i64 %$n.two
  %$n.x = load $W, ptr %$n.from.at, align $SIZE
  %$n.w = load $W, ptr %$n.w.at, align $SIZE
  %$n.re = shufflevector $W %$n.w, $W poison, <$BOTH x i32> <$RE>
  %$n.im = shufflevector $W %$n.w, $W poison, <$BOTH x i32> <$IM>
  %$n.turned = shufflevector $W %$n.x, $W poison, <$BOTH x i32> <$OTHER>
  %$n.signed = fmul $W %$n.turned, <$SIGNS>
  %$n.across = fmul contract $W %$n.signed, %$n.im
  %$n.along = fmul contract $W %$n.x, %$n.re
  %$n.product = fadd contract $W %$n.along, %$n.across
  store $W %$n.product, ptr %$n.to.at, align $SIZE""")

_DRIVER = Template("""
; A row of a kind as complex numbers one after the other, in `to`.
define internal void @given(ptr noalias %to, ptr noalias %row, i64 %count, i64 %inner, i64 %kind) noinline {
entry:
  %is.half = icmp eq i64 %kind, 1
  %is.whole = icmp eq i64 %kind, 2
  %middle = lshr i64 %count, 1
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %put ]
  %two = shl i64 %k, 1
  %to.re = getelementptr $type, ptr %to, i64 %two
  %to.im = getelementptr $type, ptr %to.re, i64 1
  br i1 %is.half, label %real, label %complex
real:
  %real.far = mul i64 %k, %inner
  %real.at = getelementptr $type, ptr %row, i64 %real.far
  %alone = load $type, ptr %real.at
  br label %put
complex:
  ; Of the second half of a spectrum the first one has the conjugates; what is its own conjugate is real.
  %opposite = sub i64 %count, %k
  %is.after = icmp ugt i64 %k, %middle
  %is.mirrored = and i1 %is.whole, %is.after
  %place = select i1 %is.mirrored, i64 %opposite, i64 %k
  %place.far = mul i64 %place, %inner
  %place.two = shl i64 %place.far, 1
  %re.at = getelementptr $type, ptr %row, i64 %place.two
  %im.at = getelementptr $type, ptr %re.at, i64 1
  %re = load $type, ptr %re.at
  %im.own = load $type, ptr %im.at
  %im.other = fneg $type %im.own
  %im.found = select i1 %is.mirrored, $type %im.other, $type %im.own
  %is.first = icmp eq i64 %k, 0
  %is.last = icmp eq i64 %k, %opposite
  %is.fixed = or i1 %is.first, %is.last
  %is.real = and i1 %is.whole, %is.fixed
  %im = select i1 %is.real, $type 0.0, $type %im.found
  br label %put
put:
  %a = phi $type [ %alone, %real ], [ %re, %complex ]
  %b = phi $type [ 0.0, %real ], [ %im, %complex ]
  store $type %a, ptr %to.re
  store $type %b, ptr %to.im
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %count
  br i1 %more, label %next, label %done
done:
  ret void
}

; The same back: as many as a row of the kind has.
define internal void @taken(ptr noalias %row, ptr noalias %from, i64 %count, i64 %inner, i64 %kind) noinline {
entry:
  %is.half = icmp eq i64 %kind, 1
  %is.whole = icmp eq i64 %kind, 2
  %middle = lshr i64 %count, 1
  %after = add i64 %middle, 1
  %some = select i1 %is.half, i64 %after, i64 %count
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %put ]
  %two = shl i64 %k, 1
  %from.re = getelementptr $type, ptr %from, i64 %two
  %from.im = getelementptr $type, ptr %from.re, i64 1
  %re = load $type, ptr %from.re
  %far = mul i64 %k, %inner
  br i1 %is.whole, label %real, label %complex
real:
  %real.at = getelementptr $type, ptr %row, i64 %far
  store $type %re, ptr %real.at
  br label %put
complex:
  %im.found = load $type, ptr %from.im
  %opposite = sub i64 %count, %k
  %is.first = icmp eq i64 %k, 0
  %is.last = icmp eq i64 %k, %opposite
  %is.fixed = or i1 %is.first, %is.last
  %is.real = and i1 %is.half, %is.fixed
  %im = select i1 %is.real, $type 0.0, $type %im.found
  %far.two = shl i64 %far, 1
  %re.at = getelementptr $type, ptr %row, i64 %far.two
  %im.at = getelementptr $type, ptr %re.at, i64 1
  store $type %re, ptr %re.at
  store $type %im, ptr %im.at
  br label %put
put:
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %some
  br i1 %more, label %next, label %done
done:
  ret void
}

define i32 @fourier(ptr %pointers, ptr %extents) {
entry:
  %y.at = getelementptr ptr, ptr %pointers, i64 1
  %x = load ptr, ptr %pointers
  %y = load ptr, ptr %y.at
  %plan = load ptr, ptr %extents
  %begin.at = getelementptr i64, ptr %extents, i64 1
  %end.at = getelementptr i64, ptr %extents, i64 2
  %begin = load i64, ptr %begin.at
  %end = load i64, ptr %end.at
$words
  %is.half = icmp eq i64 %kind, 1
  %is.whole = icmp eq i64 %kind, 2
  %middle = lshr i64 %count, 1
  %after = add i64 %middle, 1
  %x.count = select i1 %is.whole, i64 %after, i64 %count
  %y.count = select i1 %is.half, i64 %after, i64 %count
  %x.size = select i1 %is.half, i64 1, i64 2
  %y.size = select i1 %is.whole, i64 1, i64 2
  %is.chirp = icmp ne ptr %chirp, null
  %is.one = icmp eq i64 %inner, 1
  %is.complex = icmp eq i64 %kind, 0
  %is.plain = and i1 %is.one, %is.complex
  %is.direct = and i1 %is.plain, %is.chirp
  %longer = call i64 @llvm.umax.i64(i64 %columns, i64 %rows)
  %buffer.bytes = mul i64 %longer, $ELEMENT
  %row.bytes = mul i64 %n, $COMPLEX
  %row.padded = add i64 %row.bytes, 63
  %row.room = and i64 %row.padded, -64
  %count.bytes = mul i64 %count, $COMPLEX
  %rest.bytes = sub i64 %row.bytes, %count.bytes
  %both.buffers = shl i64 %buffer.bytes, 1
  %both.rows = shl i64 %row.room, 1
  %together = add i64 %both.buffers, %both.rows
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
  %row = getelementptr i8, ptr %matrix, i64 %row.room
  %rest = getelementptr i8, ptr %row, i64 %count.bytes
  br label %next.row
next.row:
  %r = phi i64 [ %begin, %align ], [ %r.next, %row.done ]
  %r.more = icmp ult i64 %r, %end
  br i1 %r.more, label %one.row, label %done
one.row:
  %r.next = add i64 %r, 1
  %x.row = call ptr @row(ptr %x, i64 %r, i64 %inner, i64 %x.count, i64 %x.size)
  %y.row = call ptr @row(ptr %y, i64 %r, i64 %inner, i64 %y.count, i64 %y.size)
  br i1 %is.direct, label %times.given, label %gather
gather:
  call void @given(ptr %row, ptr %x.row, i64 %count, i64 %inner, i64 %kind)
  br i1 %is.chirp, label %times.given, label %alone
alone:
  %is.alone = call i1 @apart(ptr %row, ptr %row, ptr %plan, ptr %buffer, ptr %other, ptr %matrix, i64 %inverse)
  br i1 %is.alone, label %scatter, label %refused
times.given:
  %from = phi ptr [ %x.row, %one.row ], [ %row, %gather ]
  call void @times(ptr %row, ptr %from, ptr %chirp, i64 %count)
  call void @llvm.memset.p0.i64(ptr %rest, i8 0, i64 %rest.bytes, i1 false)
  %is.there = call i1 @apart(ptr %row, ptr %row, ptr %plan, ptr %buffer, ptr %other, ptr %matrix, i64 0)
  br i1 %is.there, label %there, label %refused
there:
  call void @times(ptr %row, ptr %row, ptr %kernel, i64 %n)
  %is.back = call i1 @apart(ptr %row, ptr %row, ptr %plan, ptr %buffer, ptr %other, ptr %matrix, i64 1)
  br i1 %is.back, label %back, label %refused
back:
  %to = select i1 %is.plain, ptr %y.row, ptr %row
  call void @times(ptr %to, ptr %row, ptr %chirp, i64 %count)
  br i1 %is.plain, label %row.done, label %scatter
scatter:
  call void @taken(ptr %y.row, ptr %row, i64 %count, i64 %inner, i64 %kind)
  br label %row.done
row.done:
  br label %next.row
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
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
""")


def chirp_ir(dtype: str) -> str:
    """`fourier` of f32 or f64 numbers and pairs of them."""
    element, size = ("float", 4) if dtype == "f32" else ("double", 8)
    words = {"type": element, "SIZE": size, "LANES": LANES}
    driver = _DRIVER.substitute(
        words, ELEMENT=2 * LANES * size, COMPLEX=2 * size, words=words_read(CHIRP_WORDS),
        NO_MEMORY=int(Status.NO_MEMORY), REFUSED=int(Status.REFUSED),
    )  # fmt: skip
    times = _TIMES.substitute(words, some=_product("k", LANES, words), one=_product("i", 1, words))
    return apart_ir(element) + times + driver


def _product(n: str, lanes: int, words: dict[str, object]) -> str:
    """Of so many complex numbers from the n-th on."""
    places, element = range(2 * lanes), words["type"]
    return _PRODUCT.substitute(
        words, n=n, W=f"<{2 * lanes} x {element}>", BOTH=2 * lanes,
        RE=listed([j & ~1 for j in places]), IM=listed([j | 1 for j in places]), OTHER=listed([j ^ 1 for j in places]),
        SIGNS=", ".join([f"{element} {1.0 if j & 1 else -1.0}" for j in places]),
    )  # fmt: skip
