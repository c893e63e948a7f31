"""Rows of middle length in order by comparisons that do not depend on what they find, as LLVM IR text.

    i1 @network(row, out, keys, words, n, inner, flip)

writes the numbers of n elements in rising order of their keys; false: some must be looked at again.

    word    the place of a key above the least of its row, and below it the number of the element, 64 bits in all.
            Where both together have more, bits at the end of the key are left out: then the order of those that
            are alike in the rest is mended at the end, by insertion, and given up after as many steps as elements
    words   m vectors of 8; in the end the first m elements stand in lane 0, the next m in lane 1, ...

First each lane is sorted, all at once, blocks of 16 vectors in registers; then pairs of lanes are merged, pairs of
pairs, and both halves.  All comparisons put the smaller word at the smaller place, so that words of ones, which fill
the last lane up, stay where they are.

us per 200,000 elements, by counting all or bytes and so, and of NumPy's argsort; one thread, Zen 4:

    rows of     100              300               1000              2000
    f32         1490, 520, 980   2160, 560, 1230   1230, 710, 3560   1250, 850, 4660
    f64         1940, 730, 1270  4800, 1170, 2440  5600, 930, 3950   -, 1070, 5010
"""

from __future__ import annotations

from ..emit.types import steps
from .compare_ir import BLOCK, LANES, V, merged_pairs, of_blocks, of_two, sorted_pairs
from .template import Template

__all__ = ["MOST", "network_ir"]

#: Of so many elements the order is found so; bytes are counted of longer rows.
MOST = 2048


#: The first half of a part compared with its second, two vectors at a time; then the next part.
_PAIRS = Template("""\
loop:
  %j = phi i64 [ 0, %part ], [ %j.next, %loop ]
  %a = add i64 %begin, %j
  %b = $other
$compare
  %j.next = add i64 %j, 1
  %more = icmp ult i64 %j.next, %half
  br i1 %more, label %loop, label %part.done
part.done:
  %parts = icmp ult i64 %end, %m
  br i1 %parts, label %part, label %$after""")

_NETWORK = Template("""
$declared

; Blocks of vectors, each by itself: each lane sorted, or of words that fall, then rise.
define internal void @sort.blocks(ptr %words, i64 %m) noinline {
$each_block
$sort_block
$next_block
}

define internal void @merge.blocks(ptr %words, i64 %m) noinline {
$each_block
$merge_block
$next_block
}

; Of each lane, the halves of all parts of `size` compared in turn from the ends, so that one falls, then rises.
define internal void @turn(ptr %words, i64 %m, i64 %size) noinline {
entry:
  %half = lshr i64 %size, 1
  br label %part
part:
  %begin = phi i64 [ 0, %entry ], [ %end, %part.done ]
  %end = add i64 %begin, %size
  %last = sub i64 %end, 1
  br label %loop
$pairs_from_the_ends
done:
  ret void
}

; Of each lane, parts of `size` that fall, then rise: each element compared with the one half a part behind it,
; then the same with the halves, down to blocks.
define internal void @settle(ptr %words, i64 %m, i64 %size) noinline {
entry:
  br label %halves
halves:
  %whole = phi i64 [ %size, %entry ], [ %half, %halves.done ]
  %half = lshr i64 %whole, 1
  %is.block = icmp ule i64 %whole, $BLOCK
  br i1 %is.block, label %blocks, label %part
part:
  %begin = phi i64 [ 0, %halves ], [ %end, %part.done ]
  %end = add i64 %begin, %whole
  br label %loop
$pairs_half_a_part_apart
halves.done:
  br label %halves
blocks:
  call void @merge.blocks(ptr %words, i64 %m)
  ret void
}

$crossings

; The keys of a row, one behind the other.
define internal void @read(ptr %row, ptr noalias %keys, i64 %n, i64 %inner, $word %flip) noinline {
entry:
  %flip.first = insertelement <$LANES x $word> poison, $word %flip, i64 0
  %flips = shufflevector <$LANES x $word> %flip.first, <$LANES x $word> poison, <$LANES x i32> zeroinitializer
  %is.packed = icmp eq i64 %inner, 1
  %multiple = and i64 %n, -$LANES
  %packed = select i1 %is.packed, i64 %multiple, i64 0
  %any = icmp ne i64 %packed, 0
  br i1 %any, label %vector, label %rest
vector:
  %v = phi i64 [ 0, %entry ], [ %v.next, %vector ]
  %v.at = getelementptr $type, ptr %row, i64 %v
  %given = load <$LANES x $type>, ptr %v.at, align $ALIGN
$vector_key
  %v.keys = xor <$LANES x $word> %rising, %flips
  %v.wide = $widen <$LANES x $word> %v.keys to $V
  %v.to = getelementptr i64, ptr %keys, i64 %v
  store $V %v.wide, ptr %v.to, align 64
  %v.next = add i64 %v, $LANES
  %v.more = icmp ult i64 %v.next, %packed
  br i1 %v.more, label %vector, label %rest
rest:
  %i = phi i64 [ %packed, %entry ], [ %packed, %vector ], [ %i.next, %one ]
  %i.more = icmp ult i64 %i, %n
  br i1 %i.more, label %one, label %done
one:
  %key = call $word @key(ptr %row, i64 %i, i64 %inner, $word %flip)
  %wide = $widen $word %key to i64
  %to = getelementptr i64, ptr %keys, i64 %i
  store i64 %wide, ptr %to
  %i.next = add i64 %i, 1
  br label %rest
done:
  ret void
}

define internal i1 @network(
  ptr %row, ptr %out, ptr %keys, ptr %words, i64 %n, i64 %inner, $word %flip
) noinline {
entry:
  %n.less = sub i64 %n, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %n.less, i1 false)
  %bits.needed = sub i64 64, %zeros
  %bits = call i64 @llvm.umax.i64(i64 %bits.needed, i64 $LEAST_BITS)
  %all = shl i64 1, %bits
  %m = lshr i64 %all, $LANE_BITS
  call void @read(ptr %row, ptr %keys, i64 %n, i64 %inner, $word %flip)
  %first = load i64, ptr %keys
  br label %fill
fill:
  %f = phi i64 [ %n, %entry ], [ %f.next, %fill.one ]
  %f.more = icmp ult i64 %f, %all
  br i1 %f.more, label %fill.one, label %bounds.start
fill.one:
  %f.at = getelementptr i64, ptr %keys, i64 %f
  store i64 %first, ptr %f.at
  %f.next = add i64 %f, 1
  br label %fill
bounds.start:
  %k.first = load $V, ptr %keys, align 64
  br label %bounds
bounds:
  %k = phi i64 [ 0, %bounds.start ], [ %k.next, %bounds ]
  %k.low = phi $V [ %k.first, %bounds.start ], [ %k.lower, %bounds ]
  %k.high = phi $V [ %k.first, %bounds.start ], [ %k.higher, %bounds ]
  %k.at = getelementptr $V, ptr %keys, i64 %k
  %k.keys = load $V, ptr %k.at, align 64
  %k.lower = call $V @llvm.umin.$WORDS($V %k.low, $V %k.keys)
  %k.higher = call $V @llvm.umax.$WORDS($V %k.high, $V %k.keys)
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %m
  br i1 %k.more, label %bounds, label %pack.start
pack.start:
  %least = call i64 @llvm.vector.reduce.umin.$WORDS($V %k.lower)
  %most = call i64 @llvm.vector.reduce.umax.$WORDS($V %k.higher)
  %span = sub i64 %most, %least
  %free = call i64 @llvm.ctlz.i64(i64 %span, i1 false)
  %is.exact = icmp uge i64 %free, %bits
  %missing = sub i64 %bits, %free
  %drop = select i1 %is.exact, i64 0, i64 %missing
  %least.first = insertelement $V poison, i64 %least, i64 0
  %leasts = shufflevector $V %least.first, $V poison, <$LANES x i32> zeroinitializer
  %drop.first = insertelement $V poison, i64 %drop, i64 0
  %drops = shufflevector $V %drop.first, $V poison, <$LANES x i32> zeroinitializer
  %bits.first = insertelement $V poison, i64 %bits, i64 0
  %shifts = shufflevector $V %bits.first, $V poison, <$LANES x i32> zeroinitializer
  br label %pack
pack:
  %p = phi i64 [ 0, %pack.start ], [ %p.next, %pack ]
  %p.numbers = phi $V [ $STEPS, %pack.start ], [ %p.further, %pack ]
  %p.at = getelementptr $V, ptr %keys, i64 %p
  %p.keys = load $V, ptr %p.at, align 64
  %p.above = sub $V %p.keys, %leasts
  %p.kept = lshr $V %p.above, %drops
  %p.high = shl $V %p.kept, %shifts
  %p.words = or $V %p.high, %p.numbers
  %p.to = getelementptr $V, ptr %words, i64 %p
  store $V %p.words, ptr %p.to, align 64
  %p.further = add $V %p.numbers, splat (i64 $LANES)
  %p.next = add i64 %p, 1
  %p.more = icmp ult i64 %p.next, %m
  br i1 %p.more, label %pack, label %ones
ones:
  %o = phi i64 [ %n, %pack ], [ %o.next, %ones.one ]
  %o.more = icmp ult i64 %o, %all
  br i1 %o.more, label %ones.one, label %sort
ones.one:
  %o.at = getelementptr i64, ptr %words, i64 %o
  store i64 -1, ptr %o.at
  %o.next = add i64 %o, 1
  br label %ones
sort:
  call void @sort.blocks(ptr %words, i64 %m)
  br label %lanes
lanes:
  %size = phi i64 [ $BLOCK, %sort ], [ %size.next, %merge ]
  %is.whole = icmp eq i64 %size, %m
  br i1 %is.whole, label %cross, label %merge
merge:
  %size.next = shl i64 %size, 1
  call void @turn(ptr %words, i64 %m, i64 %size.next)
  call void @settle(ptr %words, i64 %m, i64 %size)
  br label %lanes
cross:
$cross
  %mask = sub i64 %all, 1
  br label %lane
lane:
  %l = phi i64 [ 0, %cross ], [ %l.next, %lane.done ]
  %l.begin = mul i64 %l, %m
  br label %put
put:
  %r = phi i64 [ 0, %lane ], [ %r.next, %put.one ]
  %place = add i64 %l.begin, %r
  %is.real = icmp ult i64 %place, %n
  br i1 %is.real, label %put.one, label %check
put.one:
  %r.first = shl i64 %r, $LANE_BITS
  %r.lane = or i64 %r.first, %l
  %r.at = getelementptr i64, ptr %words, i64 %r.lane
  %r.word = load i64, ptr %r.at
  %number = and i64 %r.word, %mask
  %offset = mul i64 %place, %inner
  %to = getelementptr i64, ptr %out, i64 %offset
  store i64 %number, ptr %to
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %m
  br i1 %r.more, label %put, label %lane.done
lane.done:
  %l.next = add i64 %l, 1
  %l.more = icmp ult i64 %l.next, $LANES
  br i1 %l.more, label %lane, label %check
check:
  br i1 %is.exact, label %done, label %mend
mend:
  %is.mended = call i1 @mend(ptr %out, ptr %keys, i64 %n, i64 %inner)
  ret i1 %is.mended
done:
  ret i1 true
}

; Numbers that stand before one with a smaller key change places with it, as often as there are elements.
define internal i1 @mend(ptr %out, ptr %keys, i64 %n, i64 %inner) noinline {
entry:
  %first = load i64, ptr %out
  %first.at = getelementptr i64, ptr %keys, i64 %first
  %first.key = load i64, ptr %first.at
  br label %next
next:
  %i = phi i64 [ 1, %entry ], [ %i.next, %stays ], [ %i.next, %placed ]
  %top = phi i64 [ %first.key, %entry ], [ %key, %stays ], [ %top, %placed ]
  %left = phi i64 [ %n, %entry ], [ %left, %stays ], [ %j.left, %placed ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %i.next = add i64 %i, 1
  %offset = mul i64 %i, %inner
  %at = getelementptr i64, ptr %out, i64 %offset
  %number = load i64, ptr %at
  %key.at = getelementptr i64, ptr %keys, i64 %number
  %key = load i64, ptr %key.at
  %is.right = icmp uge i64 %key, %top
  br i1 %is.right, label %stays, label %look
stays:
  br label %next
look:
  %j = phi i64 [ %i, %one ], [ %j.less, %shift ]
  %j.left = phi i64 [ %left, %one ], [ %j.left.less, %shift ]
  %to.offset = mul i64 %j, %inner
  %to = getelementptr i64, ptr %out, i64 %to.offset
  %is.first = icmp eq i64 %j, 0
  br i1 %is.first, label %placed, label %compare
compare:
  %j.less = sub i64 %j, 1
  %before.offset = mul i64 %j.less, %inner
  %before.at = getelementptr i64, ptr %out, i64 %before.offset
  %before = load i64, ptr %before.at
  %before.key.at = getelementptr i64, ptr %keys, i64 %before
  %before.key = load i64, ptr %before.key.at
  %is.larger = icmp ugt i64 %before.key, %key
  br i1 %is.larger, label %shift, label %placed
shift:
  store i64 %before, ptr %to
  %j.left.less = sub i64 %j.left, 1
  %is.over = icmp eq i64 %j.left.less, 0
  br i1 %is.over, label %failed, label %look
placed:
  store i64 %number, ptr %to
  br label %next
failed:
  ret i1 false
done:
  ret i1 true
}
""")

_EACH_BLOCK = """entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]"""

_NEXT_BLOCK = Template("""
  %i.next = add i64 %i, $BLOCK
  %more = icmp ult i64 %i.next, %m
  br i1 %more, label %loop, label %done
done:
  ret void""")

_CROSSING = Template("""
; Lanes that differ in the bits $bits, each pair of sorted ones as one.
define internal void @cross.$bits(ptr %words, i64 %m) noinline {
entry:
  %half = lshr i64 %m, 1
  %last = sub i64 %m, 1
  br label %loop
loop:
  %a = phi i64 [ 0, %entry ], [ %a.next, %loop ]
  %b = sub i64 %last, %a
$compare
  %a.next = add i64 %a, 1
  %more = icmp ult i64 %a.next, %half
  br i1 %more, label %loop, label %done
done:
  call void @settle(ptr %words, i64 %m, i64 %m)
  ret void
}""")

_DECLARED = (
    f"declare {V} @llvm.umin.v{LANES}i64({V}, {V})", f"declare {V} @llvm.umax.v{LANES}i64({V}, {V})",
    f"declare i64 @llvm.vector.reduce.umin.v{LANES}i64({V})",
    f"declare i64 @llvm.vector.reduce.umax.v{LANES}i64({V})",
    "declare i64 @llvm.ctlz.i64(i64, i1)", "declare i64 @llvm.umax.i64(i64, i64)",
)  # fmt: skip


def network_ir(type: str, word: str, vector_key: str) -> str:
    """`network` for rows of elements of this type; `vector_key` turns %given into %rising in vectors."""
    levels = [(1 << level) - 1 for level in range(1, LANES.bit_length())]
    return _NETWORK.substitute(
        declared="\n".join(_DECLARED), each_block=_EACH_BLOCK, next_block=_NEXT_BLOCK.substitute(BLOCK=BLOCK),
        sort_block=of_blocks(sorted_pairs(BLOCK)), merge_block=of_blocks(merged_pairs(BLOCK)),
        pairs_from_the_ends=_PAIRS.substitute(other="sub i64 %last, %j", compare=of_two(), after="done"),
        pairs_half_a_part_apart=_PAIRS.substitute(other="add i64 %a, %half", compare=of_two(), after="halves.done"),
        crossings="".join(_CROSSING.substitute(bits=b, compare=of_two(b)) for b in levels),
        cross="\n".join(f"  call void @cross.{b}(ptr %words, i64 %m)" for b in levels),
        type=type, word=word, widen="zext" if word == "i32" else "bitcast", vector_key=vector_key,
        V=V, WORDS=f"v{LANES}i64", LANES=LANES, LANE_BITS=LANES.bit_length() - 1, BLOCK=BLOCK,
        LEAST_BITS=(LANES * BLOCK).bit_length() - 1, ALIGN=1 if type == "i8" else int(word[1:]) // 8,
        STEPS=steps("i64", LANES),
    )  # fmt: skip
