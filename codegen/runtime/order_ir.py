"""The order of elements as LLVM IR text.

    i32 @order(pointers, extents)      pointers (x, out), extents (n, inner, flip, begin, end)

writes for each row in [begin, end) the numbers of its n elements in rising order, equal ones as they stand.
Elements of a row are `inner` apart, in x and in out; `flip` -1 gives the falling order.

    key     an unsigned number in the same order: of a float its bits, the sign turned round; nan is above all,
            -0.0 is 0.0.  Falling: its complement
    pair    key and number of an element, in one word of twice the bits

Of short rows each element counts those that come before it, several at a time; longer ones go through a network of
comparisons (`order_network_ir`).  Pairs of long rows are sorted by one byte of the key after the other, the lowest
first; a byte that is the same in all is passed over.  Where there is no memory for pairs, by insertion.
"""

from __future__ import annotations

from . import order_network_ir
from .compare_ir import LANES
from .order_key_ir import TYPES, key_ir
from .template import Template

__all__ = ["SHORT", "order_ir"]

#: Rows of so many elements take as long by comparing all with all.
SHORT = 32
#: Bytes of the keys that are compared at a time.
_VECTOR_BYTES = 64

_ORDER = Template("""
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal $word @key(ptr %row, i64 %number, i64 %inner, $word %flip) alwaysinline {
  %offset = mul i64 %number, %inner
  %at = getelementptr $type, ptr %row, i64 %offset
  %given = load $type, ptr %at
$key
  %key = xor $word %rising, %flip
  ret $word %key
}

define i32 @order(ptr %pointers, ptr %extents) {
entry:
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
  %r = phi i64 [ %begin, %rows ], [ %r.next, %sorted ]
  %more = icmp ult i64 %r, %end
  br i1 %more, label %one, label %done
one:
  %outer = udiv i64 %r, %inner
  %within = urem i64 %r, %inner
  %elements = mul i64 %n, %inner
  %first = mul i64 %outer, %elements
  %base = add i64 %first, %within
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

; The numbers of a row go to the places of their elements: each counts those below it, and those alike before it.
; $LANES elements are compared with all others at a time.
define internal void @rank(
  ptr %row, ptr noalias %out, ptr noalias %keys, i64 %n, i64 %inner, $word %flip
) noinline {
entry:
  %places = alloca <$LANES x $word>, align 64
  br label %read
read:
  %k = phi i64 [ 0, %entry ], [ %k.next, %read ]
  %one = call $word @key(ptr %row, i64 %k, i64 %inner, $word %flip)
  %one.at = getelementptr $word, ptr %keys, i64 %k
  store $word %one, ptr %one.at
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %n
  br i1 %k.more, label %read, label %block
block:
  %i = phi i64 [ 0, %read ], [ %i.next, %placed ]
  %i.next = add i64 %i, $LANES
  %is.whole = icmp ule i64 %i.next, %n
  %i.end = select i1 %is.whole, i64 %i.next, i64 %n
  %mine.at = getelementptr $word, ptr %keys, i64 %i
  %mine = load <$LANES x $word>, ptr %mine.at, align $ALIGN
  br label %before
before:
  %b = phi i64 [ 0, %block ], [ %b.next, %before.one ]
  %b.count = phi <$LANES x $word> [ zeroinitializer, %block ], [ %b.counted, %before.one ]
  %b.more = icmp ult i64 %b, %i
  br i1 %b.more, label %before.one, label %among
before.one:
  %b.at = getelementptr $word, ptr %keys, i64 %b
  %b.key = load $word, ptr %b.at
  %b.first = insertelement <$LANES x $word> poison, $word %b.key, i64 0
  %b.all = shufflevector <$LANES x $word> %b.first, <$LANES x $word> poison, <$LANES x i32> zeroinitializer
  %b.less = icmp ule <$LANES x $word> %b.all, %mine
  %b.one = sext <$LANES x i1> %b.less to <$LANES x $word>
  %b.counted = sub <$LANES x $word> %b.count, %b.one
  %b.next = add i64 %b, 1
  br label %before
among:
  %a = phi i64 [ %i, %before ], [ %a.next, %among ]
  %a.count = phi <$LANES x $word> [ %b.count, %before ], [ %a.counted, %among ]
  %a.at = getelementptr $word, ptr %keys, i64 %a
  %a.key = load $word, ptr %a.at
  %a.first = insertelement <$LANES x $word> poison, $word %a.key, i64 0
  %a.all = shufflevector <$LANES x $word> %a.first, <$LANES x $word> poison, <$LANES x i32> zeroinitializer
  %a.far = sub i64 %a, %i
  %a.wide = zext i64 %a.far to i256
  %a.lane = trunc i256 %a.wide to $word
  %a.lane.first = insertelement <$LANES x $word> poison, $word %a.lane, i64 0
  %a.lanes = shufflevector <$LANES x $word> %a.lane.first, <$LANES x $word> poison, <$LANES x i32> zeroinitializer
  %a.is.later = icmp ugt <$LANES x $word> <$STEPS>, %a.lanes
  %a.less = icmp ult <$LANES x $word> %a.all, %mine
  %a.alike = icmp eq <$LANES x $word> %a.all, %mine
  %a.ties = and <$LANES x i1> %a.alike, %a.is.later
  %a.below = or <$LANES x i1> %a.less, %a.ties
  %a.one = sext <$LANES x i1> %a.below to <$LANES x $word>
  %a.counted = sub <$LANES x $word> %a.count, %a.one
  %a.next = add i64 %a, 1
  %a.more = icmp ult i64 %a.next, %i.end
  br i1 %a.more, label %among, label %after
after:
  %c = phi i64 [ %i.end, %among ], [ %c.next, %after.one ]
  %c.count = phi <$LANES x $word> [ %a.counted, %among ], [ %c.counted, %after.one ]
  %c.more = icmp ult i64 %c, %n
  br i1 %c.more, label %after.one, label %counted
after.one:
  %c.at = getelementptr $word, ptr %keys, i64 %c
  %c.key = load $word, ptr %c.at
  %c.first = insertelement <$LANES x $word> poison, $word %c.key, i64 0
  %c.all = shufflevector <$LANES x $word> %c.first, <$LANES x $word> poison, <$LANES x i32> zeroinitializer
  %c.less = icmp ult <$LANES x $word> %c.all, %mine
  %c.one = sext <$LANES x i1> %c.less to <$LANES x $word>
  %c.counted = sub <$LANES x $word> %c.count, %c.one
  %c.next = add i64 %c, 1
  br label %after
counted:
  store <$LANES x $word> %c.count, ptr %places, align 64
  br label %put
put:
  %p = phi i64 [ %i, %counted ], [ %p.next, %put ]
  %p.lane = sub i64 %p, %i
  %p.at = getelementptr $word, ptr %places, i64 %p.lane
  %p.place = load $word, ptr %p.at
  %p.wide = zext $word %p.place to i256
  %p.number = trunc i256 %p.wide to i64
  %p.offset = mul i64 %p.number, %inner
  %p.to = getelementptr i64, ptr %out, i64 %p.offset
  store i64 %p, ptr %p.to
  %p.next = add i64 %p, 1
  %p.more = icmp ult i64 %p.next, %i.end
  br i1 %p.more, label %put, label %placed
placed:
  %again = icmp ult i64 %i.next, %n
  br i1 %again, label %block, label %done
done:
  ret void
}

; Each number goes to where those before it have no larger key.
define internal void @insert(ptr %row, ptr %out, i64 %n, i64 %inner, $word %flip) noinline {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %place ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %key = call $word @key(ptr %row, i64 %i, i64 %inner, $word %flip)
  br label %look
look:
  %j = phi i64 [ %i, %one ], [ %j.less, %shift ]
  %to.offset = mul i64 %j, %inner
  %to = getelementptr i64, ptr %out, i64 %to.offset
  %is.first = icmp eq i64 %j, 0
  br i1 %is.first, label %place, label %compare
compare:
  %j.less = sub i64 %j, 1
  %before.offset = mul i64 %j.less, %inner
  %before.at = getelementptr i64, ptr %out, i64 %before.offset
  %before = load i64, ptr %before.at
  %other = call $word @key(ptr %row, i64 %before, i64 %inner, $word %flip)
  %is.larger = icmp ugt $word %other, %key
  br i1 %is.larger, label %shift, label %place
shift:
  store i64 %before, ptr %to
  br label %look
place:
  store i64 %i, ptr %to
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
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
    lanes = _VECTOR_BYTES * 8 // bits
    counting = [_COUNTING.substitute(b=b, shift=8 * b, word=word) for b in range(bits // 8)]
    network = order_network_ir.network_ir(element, word, key_ir(element, word, LANES))
    return network + _ORDER.substitute(
        type=element, word=word, pair=f"i{2 * bits}", key=key_ir(element, word, 1), counting="".join(counting),
        LANES=lanes, ALIGN=bits // 8, STEPS=", ".join(f"{word} {j}" for j in range(lanes)),
        MOST=order_network_ir.MOST,
        BITS=bits, BYTES=bits // 8, PAIR=bits // 4, TABLES=bits // 8 * 256 * 8, SHORT=SHORT,
    )  # fmt: skip
