"""One long row in order by several threads, as LLVM IR text.

    pointers (x, workspace, out)      extents (n, flip, pieces, buckets), then of what threads share (begin, end)

    i32 @sample    some keys of the row sorted: those between which buckets lie
    i32 @cut       each piece of the row: its keys, then those of each bucket side by side, in out
    i32 @gather    each bucket: its keys of all pieces, in the workspace
    i32 @finish    each bucket sorted, in out
    i32 @mend      zeros and nan as they stand

one after the other.  A piece stays in the second cache while it is cut into 4, 16 or 64; so does a bucket while it is
sorted.  What is there in the end does not depend on how the row is cut.

    workspace    the first keys of buckets, for each piece where its buckets end and whether it has special elements,
                 all in words of 64 bits; then as many keys as the row has
"""

from __future__ import annotations

from ..lowering import BUCKETS, PIECES, TABLE_BYTES
from .sort_key_ir import Key
from .template import Template

__all__ = ["long_ir"]

#: Keys of the sample for each bucket.
_SAMPLED = 16

#: The words before the keys.
_FIRST_ENDS, _FIRST_FLAGS = BUCKETS, BUCKETS + PIECES * BUCKETS

_LONG = Template("""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i32 @sample(ptr %pointers, ptr %extents) {
entry:
$arguments
  %more = mul i64 %buckets, $SAMPLED
  %apart = udiv i64 %n, %more
  %half = lshr i64 %apart, 1
  br label %read
read:
  %i = phi i64 [ 0, %entry ], [ %i.next, %read ]
  %i.begin = mul i64 %i, %apart
  %place = add i64 %i.begin, %half
  %both = call { $K, i1 } @key.at(ptr %x, i64 %place, $bits %flip)
  %key = extractvalue { $K, i1 } %both, 0
  %at = getelementptr $K, ptr %keys, i64 %i
  store $K %key, ptr %at
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %more
  br i1 %i.more, label %read, label %sort
sort:
  %other = getelementptr $K, ptr %keys, i64 %more
  call void @sort(ptr %keys, ptr %other, ptr %keys, i64 %more, $bits 0, i1 false)
  br label %put
put:
  %j = phi i64 [ 0, %sort ], [ %j.next, %put ]
  %j.place = mul i64 %j, $SAMPLED
  ; what was sorted as keys of a rising order are elements now, whose keys are asked for once more
  %j.both = call { $K, i1 } @key.at(ptr %keys, i64 %j.place, $bits 0)
  %first = extractvalue { $K, i1 } %j.both, 0
  %j.at = getelementptr i64, ptr %table, i64 %j
  store $K %first, ptr %j.at
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, %buckets
  br i1 %j.more, label %put, label %done
done:
  ret i32 0
}

define i32 @cut(ptr %pointers, ptr %extents) {
entry:
$arguments
$shared
  br label %next
next:
  %p = phi i64 [ %begin, %entry ], [ %p.next, %one ]
  %more = icmp ult i64 %p, %end
  br i1 %more, label %one, label %done
one:
  %start.far = mul i64 %p, %piece
  %start = call i64 @llvm.umin.i64(i64 %start.far, i64 %n)
  %left = sub i64 %n, %start
  %size = call i64 @llvm.umin.i64(i64 %left, i64 %piece)
  %x.at = getelementptr $type, ptr %x, i64 %start
  %out.at = getelementptr $K, ptr %out, i64 %start
  %keys.at = getelementptr $K, ptr %keys, i64 %start
  %is.special = call i1 @read(ptr %x.at, ptr %out.at, i64 %size, $bits %flip)
  %flag = zext i1 %is.special to i64
  %flag.at = getelementptr i64, ptr %flags, i64 %p
  store i64 %flag, ptr %flag.at
  %ends.begin = mul i64 %p, $BUCKETS
  %ends.at = getelementptr i64, ptr %ends, i64 %ends.begin
  call void @cut.apart(ptr %out.at, ptr %keys.at, i64 %size, i64 0, ptr %table, i64 %buckets, ptr %ends.at)
  %p.next = add i64 %p, 1
  br label %next
done:
  ret i32 0
}

; The keys at `from` by so many buckets, from the first key of each on; where each ends, counted from `before`.
define internal void @cut.apart(
  ptr %from, ptr %other, i64 %n, i64 %before, ptr %firsts, i64 %buckets, ptr %ends
) noinline {
entry:
  %is.one = icmp eq i64 %buckets, 1
  br i1 %is.one, label %one, label %several
one:
  %end = add i64 %before, %n
  store i64 %end, ptr %ends
  ret void
several:
  %half = lshr i64 %buckets, 1
  %firsts.high = getelementptr i64, ptr %firsts, i64 %half
  %pivot = load $K, ptr %firsts.high
  %count = call i64 @part(ptr %from, ptr %other, i64 %n, $K %pivot)
  call void @cut.apart(ptr %other, ptr %from, i64 %count, i64 %before, ptr %firsts, i64 %half, ptr %ends)
  %from.high = getelementptr $K, ptr %from, i64 %count
  %other.high = getelementptr $K, ptr %other, i64 %count
  %rest = sub i64 %n, %count
  %before.high = add i64 %before, %count
  %ends.high = getelementptr i64, ptr %ends, i64 %half
  call void @cut.apart(
    ptr %other.high, ptr %from.high, i64 %rest, i64 %before.high, ptr %firsts.high, i64 %half, ptr %ends.high
  )
  ret void
}

; Where bucket b of piece p begins.
define internal i64 @begin.of(ptr %ends, i64 %p, i64 %b) alwaysinline {
  %is.first = icmp eq i64 %b, 0
  %row = mul i64 %p, $BUCKETS
  %place = add i64 %row, %b
  %last = sub i64 %place, 1
  %asked = select i1 %is.first, i64 %place, i64 %last
  %at = getelementptr i64, ptr %ends, i64 %asked
  %end = load i64, ptr %at
  %begin = select i1 %is.first, i64 0, i64 %end
  ret i64 %begin
}

; Where bucket b of the row begins.
define internal i64 @first.of(ptr %ends, i64 %pieces, i64 %b) noinline {
entry:
  br label %loop
loop:
  %p = phi i64 [ 0, %entry ], [ %p.next, %loop ]
  %total = phi i64 [ 0, %entry ], [ %total.next, %loop ]
  %begin = call i64 @begin.of(ptr %ends, i64 %p, i64 %b)
  %total.next = add i64 %total, %begin
  %p.next = add i64 %p, 1
  %more = icmp ult i64 %p.next, %pieces
  br i1 %more, label %loop, label %done
done:
  ret i64 %total.next
}

define i32 @gather(ptr %pointers, ptr %extents) {
entry:
$arguments
$shared
  br label %next
next:
  %b = phi i64 [ %begin, %entry ], [ %b.next, %one.done ]
  %more = icmp ult i64 %b, %end
  br i1 %more, label %one, label %done
one:
  %b.next = add i64 %b, 1
  %first = call i64 @first.of(ptr %ends, i64 %pieces, i64 %b)
  br label %copy
copy:
  %p = phi i64 [ 0, %one ], [ %p.next, %copy ]
  %to = phi i64 [ %first, %one ], [ %to.next, %copy ]
  %from = call i64 @begin.of(ptr %ends, i64 %p, i64 %b)
  %from.end = call i64 @begin.of(ptr %ends, i64 %p, i64 %b.next)
  %count = sub i64 %from.end, %from
  %start = mul i64 %p, %piece
  %place = add i64 %start, %from
  %at = getelementptr $K, ptr %out, i64 %place
  %to.at = getelementptr $K, ptr %keys, i64 %to
  %bytes = mul i64 %count, $bytes
  call void @llvm.memcpy.p0.p0.i64(ptr %to.at, ptr %at, i64 %bytes, i1 false)
  %to.next = add i64 %to, %count
  %p.next = add i64 %p, 1
  %p.more = icmp ult i64 %p.next, %pieces
  br i1 %p.more, label %copy, label %one.done
one.done:
  br label %next
done:
  ret i32 0
}

define i32 @finish(ptr %pointers, ptr %extents) {
entry:
$arguments
$shared
  br label %next
next:
  %b = phi i64 [ %begin, %entry ], [ %b.next, %one ]
  %more = icmp ult i64 %b, %end
  br i1 %more, label %one, label %done
one:
  %b.next = add i64 %b, 1
  %first = call i64 @first.of(ptr %ends, i64 %pieces, i64 %b)
  %last = call i64 @first.of(ptr %ends, i64 %pieces, i64 %b.next)
  %count = sub i64 %last, %first
  %from = getelementptr $K, ptr %keys, i64 %first
  %to = getelementptr $K, ptr %out, i64 %first
  call void @sort(ptr %from, ptr %to, ptr %to, i64 %count, $bits %flip, i1 false)
  br label %next
done:
  ret i32 0
}

define i32 @mend(ptr %pointers, ptr %extents) {
entry:
$arguments
  br label %look
look:
  %p = phi i64 [ 0, %entry ], [ %p.next, %look ]
  %found = phi i64 [ 0, %entry ], [ %found.next, %look ]
  %at = getelementptr i64, ptr %flags, i64 %p
  %flag = load i64, ptr %at
  %found.next = or i64 %found, %flag
  %p.next = add i64 %p, 1
  %more = icmp ult i64 %p.next, %pieces
  br i1 %more, label %look, label %looked
looked:
  %is.special = icmp ne i64 %found.next, 0
  br i1 %is.special, label %again, label %done
again:
  call void @again(ptr %x, ptr %out, i64 %n, i64 1, $bits %flip)
  br label %done
done:
  ret i32 0
}
""")

_ARGUMENTS = Template("""
  %table.at = getelementptr ptr, ptr %pointers, i64 1
  %result.at = getelementptr ptr, ptr %pointers, i64 2
  %x = load ptr, ptr %pointers
  %table = load ptr, ptr %table.at
  %out = load ptr, ptr %result.at
  %ends = getelementptr i64, ptr %table, i64 $FIRST_ENDS
  %flags = getelementptr i64, ptr %table, i64 $FIRST_FLAGS
  %keys = getelementptr i8, ptr %table, i64 $TABLE_BYTES
  %wide.flip.at = getelementptr i64, ptr %extents, i64 1
  %pieces.at = getelementptr i64, ptr %extents, i64 2
  %buckets.at = getelementptr i64, ptr %extents, i64 3
  %n = load i64, ptr %extents
  %wide.flip = load i64, ptr %wide.flip.at
  %pieces = load i64, ptr %pieces.at
  %buckets = load i64, ptr %buckets.at
  %flip.wide = zext i64 %wide.flip to i128
  %flip = trunc i128 %flip.wide to $bits
  %piece.more = add i64 %n, %pieces
  %piece.less = sub i64 %piece.more, 1
  %piece = udiv i64 %piece.less, %pieces""")

_SHARED = """  %begin.at = getelementptr i64, ptr %extents, i64 4
  %end.at = getelementptr i64, ptr %extents, i64 5
  %begin = load i64, ptr %begin.at
  %end = load i64, ptr %end.at"""


def long_ir(key: Key) -> str:
    """These functions for a row of elements of such keys."""
    words = {
        "bits": key.bits, "K": key.type, "type": key.element, "bytes": key.bytes, "BUCKETS": BUCKETS,
        "SAMPLED": _SAMPLED, "FIRST_ENDS": _FIRST_ENDS, "FIRST_FLAGS": _FIRST_FLAGS, "TABLE_BYTES": TABLE_BYTES,
    }  # fmt: skip
    return _LONG.substitute(words, arguments=_ARGUMENTS.substitute(words), shared=_SHARED)
