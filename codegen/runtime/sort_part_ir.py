"""Keys on two sides of a pivot, as LLVM IR text.

    i64 @part(from, other, n, pivot)      keys below the pivot to the begin of `other`, the rest to its end; the former

No branch depends on a comparison.

    AVX-512    the lanes below the pivot are packed, and so are the rest, each stored as a whole vector; what is
               left in the end, by masks
    AVX2       a table says for each outcome which lane goes where, those below first: the same vector is stored twice
    others     each key is stored on both sides, and one of these moves on
"""

from __future__ import annotations

from ..emit.target import Target
from ..emit.types import steps
from .sort_key_ir import Key
from .template import Template

__all__ = ["part_ir"]

_PART = Template("""
$declared
define internal i64 @part(ptr noalias %from, ptr noalias %other, i64 %n, $K %pivot) noinline {
entry:
$pivots
  br label %loop
loop:
  ; as many keys are free as are unread: two vectors or more, so that whole ones can be stored at both ends
  %i = phi i64 [ 0, %entry ], [ %i.next, %vector ]
  %low = phi i64 [ 0, %entry ], [ %low.next, %vector ]
  %unread = sub i64 %n, %i
  %more = icmp uge i64 %unread, $TWO
  br i1 %more, label %vector, label %rest
vector:
  %at = getelementptr $K, ptr %from, i64 %i
  %keys = load $V, ptr %at, align $bytes
  %is.below = $less $V %keys, %pivots
  %below.bits = bitcast <$lanes x i1> %is.below to i$lanes
  %below.few = call i$lanes @llvm.ctpop.i$lanes(i$lanes %below.bits)
  %below.count = zext i$lanes %below.few to i64
$packed
  %low.at = getelementptr $K, ptr %other, i64 %low
  store $V %below, ptr %low.at, align $bytes
  ; what is above lies behind what is read and below
  %read.above = sub i64 %i, %low
  %high = sub i64 %n, %read.above
  %high.begin = sub i64 %high, $lanes
  %high.at = getelementptr $K, ptr %other, i64 %high.begin
  store $V %above, ptr %high.at, align $bytes
  %low.next = add i64 %low, %below.count
  %i.next = add i64 %i, $lanes
  br label %loop
$rest
}
""")

_PART_SINGLY = Template("""
define internal i64 @part(ptr noalias %from, ptr noalias %other, i64 %n, $K %pivot) noinline {
loop:
  br label %rest
$rest
}
""")

_BY_MASKS = Template("""\
rest:
  ; parts of vectors, both ends of which are stored by masks
  %j = phi i64 [ %i, %loop ], [ %j.next, %one ]
  %l = phi i64 [ %low, %loop ], [ %l.next, %one ]
  %j.more = icmp ult i64 %j, %n
  br i1 %j.more, label %one, label %done
one:
  %left = sub i64 %n, %j
  %many = call i64 @llvm.umin.i64(i64 %left, i64 $lanes)
  %many.short = trunc i64 %many to i32
$many_lanes
  %there = icmp ult <$lanes x i32> $steps, %many.lanes
  %j.at = getelementptr $K, ptr %from, i64 %j
  %given = call $V @llvm.masked.load.$named.p0(ptr %j.at, i32 $bytes, <$lanes x i1> %there, $V zeroinitializer)
  %lower = $less $V %given, %pivots
  %is.low = and <$lanes x i1> %lower, %there
  %is.high = xor <$lanes x i1> %is.low, %there
  %lows = call $V @llvm.experimental.vector.compress.$named($V %given, <$lanes x i1> %is.low, $V poison)
  %highs = call $V @llvm.experimental.vector.compress.$named($V %given, <$lanes x i1> %is.high, $V poison)
  %low.bits = bitcast <$lanes x i1> %is.low to i$lanes
  %low.few = call i$lanes @llvm.ctpop.i$lanes(i$lanes %low.bits)
  %low.count = zext i$lanes %low.few to i32
  %low.wide = zext i$lanes %low.few to i64
  %high.count = sub i32 %many.short, %low.count
$low_lanes
$high_lanes
  %low.mask = icmp ult <$lanes x i32> $steps, %low.lanes
  %high.mask = icmp ult <$lanes x i32> $steps, %high.lanes
  %l.at = getelementptr $K, ptr %other, i64 %l
  call void @llvm.masked.store.$named.p0($V %lows, ptr %l.at, i32 $bytes, <$lanes x i1> %low.mask)
  ; what is above lies behind what is read and below
  %l.next = add i64 %l, %low.wide
  %j.next = add i64 %j, %many
  %j.above = sub i64 %j.next, %l.next
  %h = sub i64 %n, %j.above
  %h.at = getelementptr $K, ptr %other, i64 %h
  call void @llvm.masked.store.$named.p0($V %highs, ptr %h.at, i32 $bytes, <$lanes x i1> %high.mask)
  br label %rest
done:
  ret i64 %l""")

_SINGLY = Template("""\
rest:
  %j = phi i64 [ $begin, %loop ], [ %j.next, %one ]
  %l = phi i64 [ $low, %loop ], [ %l.next, %one ]
  %j.more = icmp ult i64 %j, %n
  br i1 %j.more, label %one, label %done
one:
  %j.at = getelementptr $K, ptr %from, i64 %j
  %key = load $K, ptr %j.at
  %is.low = $less $K %key, %pivot
  %j.above = sub i64 %j, %l
  %j.high = sub i64 %n, %j.above
  %j.last = sub i64 %j.high, 1
  %l.at = getelementptr $K, ptr %other, i64 %l
  store $K %key, ptr %l.at
  %last.at = getelementptr $K, ptr %other, i64 %j.last
  store $K %key, ptr %last.at
  %one.low = zext i1 %is.low to i64
  %l.next = add i64 %l, %one.low
  %j.next = add i64 %j, 1
  br label %rest
done:
  ret i64 %l""")

_PACKED = Template("""\
  %is.above = xor <$lanes x i1> %is.below, splat (i1 true)
  %below = call $V @llvm.experimental.vector.compress.$named($V %keys, <$lanes x i1> %is.below, $V poison)
  %first = call $V @llvm.experimental.vector.compress.$named($V %keys, <$lanes x i1> %is.above, $V poison)
  %above = shufflevector $V %first, $V poison, <$lanes x i32> $backwards""")

_BY_TABLE = Template("""\
  %number = zext i$lanes %below.bits to i64
  %order.at = getelementptr <8 x i32>, ptr @orders, i64 %number
  %order = load <8 x i32>, ptr %order.at, align 32
  %words = bitcast $V %keys to <8 x i32>
  %ordered = call <8 x i32> @llvm.x86.avx2.permd(<8 x i32> %words, <8 x i32> %order)
  %below = bitcast <8 x i32> %ordered to $V
  %above = bitcast <8 x i32> %ordered to $V""")

_OF_MASKS = Template("""
declare i$lanes @llvm.ctpop.i$lanes(i$lanes)
declare $V @llvm.experimental.vector.compress.$named($V, <$lanes x i1>, $V)
$of_bits""")

_OF_TABLE = Template("""
declare i$lanes @llvm.ctpop.i$lanes(i$lanes)
declare <8 x i32> @llvm.x86.avx2.permd(<8 x i32>, <8 x i32>)
@orders = internal constant [$outcomes x <8 x i32>] [$orders], align 32
""")


def part_ir(key: Key, features: str) -> str:
    """`part` for such keys on such a machine."""
    target, lanes = Target.of(features), key.lanes
    backwards = ", ".join(f"i32 {lane}" for lane in reversed(range(lanes)))
    words = {
        "K": key.type, "V": key.vector, "named": key.named, "lanes": lanes, "bytes": key.bytes, "less": key.less,
        "TWO": 2 * lanes, "steps": steps("i32", lanes), "backwards": f"<{backwards}>",
    }  # fmt: skip
    pivots = key.in_all_lanes("pivots", key.type, "%pivot")
    if target.has_scale:
        lasts = (("many", "short"), ("low", "count"), ("high", "count"))
        ends = {f"{name}_lanes": key.in_all_lanes(f"{name}.lanes", "i32", f"%{name}.{last}") for name, last in lasts}
        of_floats = f"declare void @llvm.masked.store.{key.named}.p0({key.vector}, ptr, i32, <{lanes} x i1>)\n"
        return _PART.substitute(
            words, pivots=pivots, packed=_PACKED.substitute(words), rest=_BY_MASKS.substitute(words, **ends),
            declared=_OF_MASKS.substitute(words, of_bits=of_floats if key.is_float else ""),
        )  # fmt: skip
    if "+avx2" in features.split(","):
        return _PART.substitute(
            words, pivots=pivots, packed=_BY_TABLE.substitute(words),
            rest=_SINGLY.substitute(words, begin="%i", low="%low"),
            declared=_OF_TABLE.substitute(words, outcomes=1 << lanes, orders=_orders(lanes)),
        )  # fmt: skip
    return _PART_SINGLY.substitute(words, rest=_SINGLY.substitute(words, begin="0", low="0"))


def _orders(lanes: int) -> str:
    """For each outcome of comparing a vector, where its words of 32 bits come from."""
    rows = []
    for outcome in range(1 << lanes):
        by_side = sorted(range(lanes), key=lambda lane: not outcome >> lane & 1)
        words = [word for lane in by_side for word in range(lane * 8 // lanes, (lane + 1) * 8 // lanes)]
        rows.append(f"<8 x i32> <{', '.join(f'i32 {word}' for word in words)}>")
    return ", ".join(rows)
