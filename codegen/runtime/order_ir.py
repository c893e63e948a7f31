"""The order of elements as LLVM IR text.

    i32 @order(pointers, extents)      pointers (x, out), extents (n, inner, flip, begin, end)

writes for each row in [begin, end) the numbers of its n elements in rising order, equal ones as they stand.
Elements of a row are `inner` apart, in x and in out; `flip` -1 gives the falling order.

    key     an unsigned number in the same order: of a float its bits, the sign turned round; nan is above all,
            -0.0 is 0.0.  Falling: its complement
    pair    key and number of an element, in one word of twice the bits

Several short rows go through a network of comparisons side by side (`order_beside_ir`).  Of one alone each element
counts those that come before it (`order_alone_ir`); longer ones go through a network each (`order_network_ir`).  Pairs
of long rows are sorted by one byte of the key after the other, the lowest first; a byte that is the same in all is
passed over.  Where there is no memory for pairs, by insertion.
"""

from __future__ import annotations

from . import order_alone_ir, order_beside_ir, order_network_ir
from .compare_ir import LANES
from .order_key_ir import TYPES, key_ir
from .template import Template

__all__ = ["SHORT", "order_ir"]

#: Rows of so many elements take as long by comparing all with all.
SHORT = 32

#: From two elements to so many, by the bits of a key, and of so many rows or more, rows are ordered side by side.
_BESIDE, _FEW = {32: 96, 64: 64}, 3

_ORDER = Template("""
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal $word @key(ptr %row, i64 %number, i64 %inner, $word %flip) alwaysinline {
  %offset = mul i64 %number, %inner
  %at = getelementptr $type, ptr %row, i64 %offset
  %given = load $type, ptr %at
$key
  %key = xor $word %rising, %flip
  ret $word %key
}

; Where row r is: elements of a row are `inner` apart.
define internal i64 @base(i64 %r, i64 %n, i64 %inner) alwaysinline {
  %outer = udiv i64 %r, %inner
  %within = urem i64 %r, %inner
  %elements = mul i64 %n, %inner
  %first = mul i64 %outer, %elements
  %base = add i64 %first, %within
  ret i64 %base
}

define i32 @order(ptr %pointers, ptr %extents) {
entry:
  %rows.at = alloca [$ROWS x ptr]
  %outs.at = alloca [$ROWS x ptr]
  %counts = alloca [$BYTES x [256 x i64]], align 64
  %words = alloca [$MOST x i64], align 64
  %out.at = getelementptr ptr, ptr %pointers, i64 1
  %x = load ptr, ptr %pointers
  %out = load ptr, ptr %out.at
  %inner.at = getelementptr i64, ptr %extents, i64 1
  %flip.at = getelementptr i64, ptr %extents, i64 2
  %begin.at = getelementptr i64, ptr %extents, i64 3
  %end.at = getelementptr i64, ptr %extents, i64 4
  %n = load i64, ptr %extents
  %inner = load i64, ptr %inner.at
  %wide.flip = load i64, ptr %flip.at
  %begin = load i64, ptr %begin.at
  %end = load i64, ptr %end.at
  %flip.wide = zext i64 %wide.flip to i256
  %flip = trunc i256 %flip.wide to $word
  %keys = alloca [$MOST x i64], align 64
  %bytes = mul i64 %n, $PAIR
  %n.more = sub i64 %n, 2
  %are.short = icmp ule i64 %n.more, $BESIDE_MORE
  %is.long = icmp ugt i64 %n, $SHORT
  br i1 %is.long, label %ask, label %rows
ask:
  %both = shl i64 %bytes, 1
  %asked = call ptr @PyMem_RawMalloc(i64 %both)
  br label %rows
rows:
  %pairs = phi ptr [ null, %entry ], [ %asked, %ask ]
  %others = getelementptr i8, ptr %pairs, i64 %bytes
  %no.pairs = icmp eq ptr %pairs, null
  br label %row
row:
  %r = phi i64 [ %begin, %rows ], [ %r.next, %sorted ], [ %r.after, %beside ]
  %more = icmp ult i64 %r, %end
  br i1 %more, label %some, label %done
some:
  %left = sub i64 %end, %r
  %are.enough = icmp uge i64 %left, $FEW
  %are.beside = and i1 %are.enough, %are.short
  br i1 %are.beside, label %lane, label %one
lane:
  ; of too few rows the last fills the lanes up
  %l = phi i64 [ 0, %some ], [ %l.next, %lane ]
  %l.last = sub i64 %left, 1
  %l.in = call i64 @llvm.umin.i64(i64 %l, i64 %l.last)
  %l.row = add i64 %r, %l.in
  %l.base = call i64 @base(i64 %l.row, i64 %n, i64 %inner)
  %l.x = getelementptr $type, ptr %x, i64 %l.base
  %l.out = getelementptr i64, ptr %out, i64 %l.base
  %l.x.at = getelementptr ptr, ptr %rows.at, i64 %l
  %l.out.at = getelementptr ptr, ptr %outs.at, i64 %l
  store ptr %l.x, ptr %l.x.at
  store ptr %l.out, ptr %l.out.at
  %l.next = add i64 %l, 1
  %l.more = icmp ult i64 %l.next, $ROWS
  br i1 %l.more, label %lane, label %beside
beside:
  call void @beside(ptr %rows.at, ptr %outs.at, ptr %words, ptr %keys, i64 %n, i64 %inner, $word %flip)
  %r.after = add i64 %r, $ROWS
  br label %row
one:
  %base = call i64 @base(i64 %r, i64 %n, i64 %inner)
  %x.row = getelementptr $type, ptr %x, i64 %base
  %out.row = getelementptr i64, ptr %out, i64 %base
  br i1 %is.long, label %middle, label %rank
middle:
  %is.middle = icmp ule i64 %n, $MOST
  br i1 %is.middle, label %compare, label %long
compare:
  %is.ordered = call i1 @network(
    ptr %x.row, ptr %out.row, ptr %keys, ptr %words, i64 %n, i64 %inner, $word %flip
  )
  br i1 %is.ordered, label %sorted, label %long
long:
  br i1 %no.pairs, label %insert, label %count
rank:
  call void @rank(ptr %x.row, ptr %out.row, ptr %keys, i64 %n, i64 %inner, $word %flip)
  br label %sorted
insert:
  call void @insert(ptr %x.row, ptr %out.row, i64 %n, i64 %inner, $word %flip)
  br label %sorted
count:
  call void @llvm.memset.p0.i64(ptr align 64 %counts, i8 0, i64 $TABLES, i1 false)
  call void @count(ptr %x.row, ptr %pairs, ptr %counts, i64 %n, i64 %inner, $word %flip)
  %result = call ptr @sort(ptr %pairs, ptr %others, ptr %counts, i64 %n)
  br label %put
put:
  %i = phi i64 [ 0, %count ], [ %i.next, %put ]
  %pair.at = getelementptr $pair, ptr %result, i64 %i
  %pair = load $pair, ptr %pair.at, align 8
  %high = lshr $pair %pair, $BITS
  %high.wide = zext $pair %high to i256
  %place = trunc i256 %high.wide to i64
  %offset = mul i64 %i, %inner
  %to = getelementptr i64, ptr %out.row, i64 %offset
  store i64 %place, ptr %to
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %n
  br i1 %i.more, label %put, label %sorted
sorted:
  %r.next = add i64 %r, 1
  br label %row
done:
  call void @PyMem_RawFree(ptr %pairs)
  ret i32 0
}

; The pairs of a row, and how often each byte of keys has each value.
define internal void @count(
  ptr %row, ptr noalias %pairs, ptr noalias %counts, i64 %n, i64 %inner, $word %flip
) noinline {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %key = call $word @key(ptr %row, i64 %i, i64 %inner, $word %flip)
  %low = zext $word %key to $pair
  %wide = zext i64 %i to i256
  %number = trunc i256 %wide to $pair
  %high = shl $pair %number, $BITS
  %pair = or $pair %high, %low
  %at = getelementptr $pair, ptr %pairs, i64 %i
  store $pair %pair, ptr %at, align 8
$counting
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %n
  br i1 %more, label %next, label %done
done:
  ret void
}

; The pairs in order: where they lie in the end.
define internal ptr @sort(ptr %pairs, ptr %others, ptr %counts, i64 %n) noinline {
entry:
  br label %byte
byte:
  %b = phi i64 [ 0, %entry ], [ %b.next, %passed ]
  %from = phi ptr [ %pairs, %entry ], [ %from.next, %passed ]
  %to = phi ptr [ %others, %entry ], [ %to.next, %passed ]
  %shift.bits = shl i64 %b, 3
  %shift.wide = zext i64 %shift.bits to i256
  %shift = trunc i256 %shift.wide to $pair
  %table = getelementptr [256 x i64], ptr %counts, i64 %b
  %one = load $pair, ptr %from, align 8
  %one.low = lshr $pair %one, %shift
  %one.byte = and $pair %one.low, 255
  %one.wide = zext $pair %one.byte to i256
  %one.digit = trunc i256 %one.wide to i64
  %one.at = getelementptr i64, ptr %table, i64 %one.digit
  %alike = load i64, ptr %one.at
  %is.same = icmp eq i64 %alike, %n
  br i1 %is.same, label %passed, label %sum
sum:
  %d = phi i64 [ 0, %byte ], [ %d.next, %sum ]
  %before = phi i64 [ 0, %byte ], [ %after, %sum ]
  %count.at = getelementptr i64, ptr %table, i64 %d
  %count = load i64, ptr %count.at
  store i64 %before, ptr %count.at
  %after = add i64 %before, %count
  %d.next = add i64 %d, 1
  %d.more = icmp ult i64 %d.next, 256
  br i1 %d.more, label %sum, label %move
move:
  %i = phi i64 [ 0, %sum ], [ %i.next, %move ]
  %at = getelementptr $pair, ptr %from, i64 %i
  %pair = load $pair, ptr %at, align 8
  %low = lshr $pair %pair, %shift
  %low.byte = and $pair %low, 255
  %wide = zext $pair %low.byte to i256
  %digit = trunc i256 %wide to i64
  %place.at = getelementptr i64, ptr %table, i64 %digit
  %place = load i64, ptr %place.at
  %place.next = add i64 %place, 1
  store i64 %place.next, ptr %place.at
  %into = getelementptr $pair, ptr %to, i64 %place
  store $pair %pair, ptr %into, align 8
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %n
  br i1 %i.more, label %move, label %passed
passed:
  %from.next = phi ptr [ %from, %byte ], [ %to, %move ]
  %to.next = phi ptr [ %to, %byte ], [ %from, %move ]
  %b.next = add i64 %b, 1
  %b.more = icmp ult i64 %b.next, $BYTES
  br i1 %b.more, label %byte, label %done
done:
  ret ptr %from.next
}
""")

_COUNTING = Template("""
  %key.$b = lshr $word %key, $shift
  %byte.$b = and $word %key.$b, 255
  %wide.$b = zext $word %byte.$b to i256
  %digit.$b = trunc i256 %wide.$b to i64
  %table.$b = getelementptr [256 x i64], ptr %counts, i64 $b
  %count.at.$b = getelementptr i64, ptr %table.$b, i64 %digit.$b
  %count.$b = load i64, ptr %count.at.$b
  %counted.$b = add i64 %count.$b, 1
  store i64 %counted.$b, ptr %count.at.$b""")


def order_ir(dtype: str) -> str:
    """`order` for rows of this dtype, of at most as many elements as a key has values."""
    element = TYPES[dtype]
    bits = 64 if dtype.endswith("64") else 32
    word = f"i{bits}"
    counting = [_COUNTING.substitute(b=b, shift=8 * b, word=word) for b in range(bits // 8)]
    others = (
        order_network_ir.network_ir(element, word, key_ir(element, word, LANES)),
        order_beside_ir.beside_ir(element, word), order_alone_ir.alone_ir(word),
    )  # fmt: skip
    return "".join(others) + _ORDER.substitute(
        type=element, word=word, pair=f"i{2 * bits}", key=key_ir(element, word, 1), counting="".join(counting),
        MOST=order_network_ir.MOST, ROWS=LANES, FEW=_FEW, BESIDE_MORE=_BESIDE[bits] - 2,
        BITS=bits, BYTES=bits // 8, PAIR=bits // 4, TABLES=bits // 8 * 256 * 8, SHORT=SHORT,
    )  # fmt: skip
