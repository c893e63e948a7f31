"""The elements of rows in order as LLVM IR text.

    i32 @order(pointers, extents)      pointers (x, out), extents (n, inner, flip, begin, end)

writes for each row in [begin, end) its n elements in rising order, equal ones as they stand.  Elements of a row are
`inner` apart, in x and in out; `flip` -1 gives the falling order.

Keys (`sort_key_ir`) are sorted, and become elements again where they are put.  Equal ones are the same bits, but for
zeros, which have two signs, and nan, which has many: where there are some of them, they are put a second time, as
they stand (`sort_special_ir`).

    part    keys below a pivot to the begin of another buffer, the others to its end (`sort_part_ir`).  Each part then
            goes the other way, until it fits into registers (`sort_network_ir`).
    pivot   the middle of some vectors of the part.  After one that left an eighth or less on one side, halfway between
            the least and the largest key, which halves what keys there can be: no row takes many times longer than
            others.  Where no key is below the pivot, those that are equal to it are the first.

Columns are sorted several side by side, each from a row of its own.  Where there is no memory, by insertion.  Threads
share a long row (`sort_long_ir`).
"""

from __future__ import annotations

from ..emit.target import Target
from .compare_ir import Lines
from .sort_columns_ir import COLUMNS, columns_ir
from .sort_key_ir import key_of, steps_ir
from .sort_long_ir import long_ir
from .sort_network_ir import LARGEST, SAMPLE, SIZES, few_ir
from .sort_part_ir import part_ir
from .sort_special_ir import special_ir
from .template import Template

__all__ = ["COLUMNS", "sort_ir"]

#: From so many keys on it pays to find the pivot among more of them.
_LONG = 2048

_SORT = Template("""
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare i1 @llvm.vector.reduce.or.v${lanes}i1(<$lanes x i1>)
declare $V @llvm.masked.load.$named.p0(ptr, i32, <$lanes x i1>, $V)
$declared

; The key of an element, and whether it is special.
define internal { $K, i1 } @key.at(ptr %row, i64 %place, $bits %flip) alwaysinline {
  %at = getelementptr $type, ptr %row, i64 %place
  %given = load $type, ptr %at
$key
$is_special
  %one = insertvalue { $K, i1 } poison, $K %key, 0
  %two = insertvalue { $K, i1 } %one, i1 %is.special, 1
  ret { $K, i1 } %two
}

define i32 @order(ptr %pointers, ptr %extents) {
entry:
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
  %flip.wide = zext i64 %wide.flip to i128
  %flip = trunc i128 %flip.wide to $bits
  %is.row = icmp eq i64 %inner, 1
  %is.direct = and i1 %is.row, $is_word
  %is.few = icmp ule i64 %n, $MOST
  %is.free = and i1 %is.direct, %is.few
  br i1 %is.free, label %rows, label %ask
ask:
  ; columns one behind the other, and the other buffer, which is as long as one of them
  %columns = select i1 %is.direct, i64 1, i64 $COLUMNS_AND_ONE
  %bytes.one = mul i64 %n, $bytes
  %bytes = mul i64 %bytes.one, %columns
  %asked = call ptr @PyMem_RawMalloc(i64 %bytes)
  br label %rows
rows:
  %memory = phi ptr [ null, %entry ], [ %asked, %ask ]
  %has.none = icmp eq ptr %memory, null
  %is.slow = xor i1 %is.free, true
  %is.insertion = and i1 %is.slow, %has.none
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
  %out.row = getelementptr $type, ptr %out, i64 %base
  br i1 %is.insertion, label %insert, label %fast
insert:
  call void @insert(ptr %x.row, ptr %out.row, i64 %n, i64 %inner, $bits %flip)
  br label %sorted
fast:
  br i1 %is.direct, label %direct, label %some
direct:
  %is.special = call i1 @read(ptr %x.row, ptr %out.row, i64 %n, $bits %flip)
  call void @sort(ptr %out.row, ptr %memory, ptr %out.row, i64 %n, $bits %flip, i1 false)
  br i1 %is.special, label %again, label %sorted
again:
  call void @again(ptr %x.row, ptr %out.row, i64 %n, i64 1, $bits %flip)
  br label %sorted
some:
  %left = sub i64 %end, %r
  %beside = sub i64 %inner, %within
  %width.most = call i64 @llvm.umin.i64(i64 %left, i64 %beside)
  %width = call i64 @llvm.umin.i64(i64 %width.most, i64 $COLUMNS)
  call void @columns(ptr %x.row, ptr %out.row, ptr %memory, i64 %n, i64 %inner, i64 %width, $bits %flip)
  br label %sorted
sorted:
  %step = phi i64 [ 1, %insert ], [ 1, %direct ], [ 1, %again ], [ %width, %some ]
  %r.next = add i64 %r, %step
  br label %row
done:
  call void @PyMem_RawFree(ptr %memory)
  ret i32 0
}

; The keys of a row, one behind the other; whether elements are special.
define internal i1 @read(ptr %row, ptr noalias %keys, i64 %n, $bits %flip) noinline {
entry:
$flips
  %full = and i64 %n, -$lanes
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %vector ]
  %special = phi <$lanes x i1> [ zeroinitializer, %entry ], [ %special.next, %vector ]
  %more = icmp ult i64 %i, %full
  br i1 %more, label %vector, label %rest.start
vector:
  %at = getelementptr $type, ptr %row, i64 %i
  %given = load <$lanes x $type>, ptr %at, align $align
$keys
$are_special
  %special.next = or <$lanes x i1> %special, %is.special
  %to = getelementptr $K, ptr %keys, i64 %i
  store $V %key, ptr %to, align $bytes
  %i.next = add i64 %i, $lanes
  br label %loop
rest.start:
  %any = call i1 @llvm.vector.reduce.or.v${lanes}i1(<$lanes x i1> %special)
  br label %rest
rest:
  %j = phi i64 [ %full, %rest.start ], [ %j.next, %one ]
  %found = phi i1 [ %any, %rest.start ], [ %found.next, %one ]
  %j.more = icmp ult i64 %j, %n
  br i1 %j.more, label %one, label %done
one:
  %both = call { $K, i1 } @key.at(ptr %row, i64 %j, $bits %flip)
  %one.key = extractvalue { $K, i1 } %both, 0
  %one.special = extractvalue { $K, i1 } %both, 1
  %found.next = or i1 %found, %one.special
  %one.to = getelementptr $K, ptr %keys, i64 %j
  store $K %one.key, ptr %one.to
  %j.next = add i64 %j, 1
  br label %rest
done:
  ret i1 %found
}

; The elements of n keys, which lie at `from`, in order at `out`; `other` is as long as both.  `is.bad`: the last pivot
; was far from the middle.
define internal void @sort(ptr %from, ptr %other, ptr %out, i64 %n, $bits %flip, i1 %is.bad) noinline {
entry:
  %is.few = icmp ule i64 %n, $MOST
  br i1 %is.few, label %few, label %many
$few
many:
  br i1 %is.bad, label %middle, label %sample
middle:
  %ends = call { $K, $K } @ends(ptr %from, i64 %n)
  %least = extractvalue { $K, $K } %ends, 0
  %most = extractvalue { $K, $K } %ends, 1
  %is.same = $equal $K %least, %most
  br i1 %is.same, label %alike, label %halve
halve:
  %halfway = call $K @halfway($K %least, $K %most)
  br label %part
sample:
  %apart = udiv i64 %n, $SAMPLE
  %free = sub i64 %apart, $lanes
  %first = lshr i64 %free, 1
  %first.at = getelementptr $K, ptr %from, i64 %first
  %is.long = icmp uge i64 %n, $LONG
  br i1 %is.long, label %of.many, label %of.few
of.many:
  %median = call $K @median(ptr %first.at, i64 %apart)
  br label %part
of.few:
  %about = call $K @about.median(ptr %first.at, i64 %apart)
  br label %part
part:
  %pivot = phi $K [ %halfway, %halve ], [ %median, %of.many ], [ %about, %of.few ]
  %eighth = lshr i64 %n, 3
  %count = call i64 @part(ptr %from, ptr %other, i64 %n, $K %pivot)
  %is.least = icmp eq i64 %count, 0
  br i1 %is.least, label %equal, label %both
equal:
  %is.top = $equal $K %pivot, $largest
  br i1 %is.top, label %alike, label %once.more
once.more:
  %above = call $K @next($K %pivot)
  %same = call i64 @part(ptr %from, ptr %other, i64 %n, $K %above)
  call void @fill(ptr %out, i64 %same, $K %pivot, $bits %flip)
  %same.out = getelementptr $K, ptr %out, i64 %same
  %same.from = getelementptr $K, ptr %from, i64 %same
  %same.other = getelementptr $K, ptr %other, i64 %same
  %rest = sub i64 %n, %same
  %rest.bad = icmp ule i64 %same, %eighth
  call void @sort(ptr %same.other, ptr %same.from, ptr %same.out, i64 %rest, $bits %flip, i1 %rest.bad)
  ret void
both:
  %right = sub i64 %n, %count
  %smaller = call i64 @llvm.umin.i64(i64 %count, i64 %right)
  %bad = icmp ule i64 %smaller, %eighth
  call void @sort(ptr %other, ptr %from, ptr %out, i64 %count, $bits %flip, i1 %bad)
  %right.out = getelementptr $K, ptr %out, i64 %count
  %right.from = getelementptr $K, ptr %from, i64 %count
  %right.other = getelementptr $K, ptr %other, i64 %count
  call void @sort(ptr %right.other, ptr %right.from, ptr %right.out, i64 %right, $bits %flip, i1 %bad)
  ret void
alike:
  %only = phi $K [ %least, %middle ], [ %pivot, %equal ]
  call void @fill(ptr %out, i64 %n, $K %only, $bits %flip)
  ret void
}

; The element of a key, n times.
define internal void @fill(ptr %out, i64 %n, $K %key, $bits %flip) noinline {
entry:
$element
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %at = getelementptr $K, ptr %out, i64 %i
  store $bits %bits, ptr %at
  %i.next = add i64 %i, 1
  br label %loop
done:
  ret void
}

; The least and the largest of n keys, at least a vector of them.
define internal { $K, $K } @ends(ptr %from, i64 %n) noinline {
entry:
  %last = sub i64 %n, $lanes
  %first = load $V, ptr %from, align $bytes
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %low = phi $V [ %first, %entry ], [ $low, %loop ]
  %high = phi $V [ %first, %entry ], [ $high, %loop ]
  ; the last vector is read a second time in part
  %place = call i64 @llvm.umin.i64(i64 %i, i64 %last)
  %at = getelementptr $K, ptr %from, i64 %place
  %keys = load $V, ptr %at, align $bytes
$lower
  %i.next = add i64 %i, $lanes
  %more = icmp ult i64 %i.next, %n
  br i1 %more, label %loop, label %done
done:
  %least = call $K @llvm.vector.reduce.$min.$named($V $low)
  %most = call $K @llvm.vector.reduce.$max.$named($V $high)
  %one = insertvalue { $K, $K } poison, $K %least, 0
  %two = insertvalue { $K, $K } %one, $K %most, 1
  ret { $K, $K } %two
}
""")

_FEW_OF = Template("""few$after:
  %is.$size = icmp ule i64 %n, $words
  br i1 %is.$size, label %sort.$size, label %few.$size
sort.$size:
  call void @few.$size(ptr %from, ptr %out, i64 %n, $bits %flip)
  ret void
""")

def sort_ir(dtype: str, features: str) -> str:
    """`order` for rows of this dtype on such a machine."""
    key = key_of(dtype, Target.of(features).vector_bytes)
    is_word = key.element != "i8"
    lanes = key.lanes
    few = [
        _FEW_OF.substitute(after=f".{before}" if before else "", size=s, words=s * lanes, bits=key.bits)
        for before, s in zip((0, *SIZES), SIZES, strict=False)
    ]
    ends = Lines(key.type, lanes)
    low, _ = ends.both("%low", "%keys")
    _, high = ends.both("%high", "%keys")
    words = {
        "type": key.element, "K": key.type, "bits": key.bits, "V": key.vector, "named": key.named, "lanes": lanes,
        "bytes": key.bytes, "align": key.bytes if is_word else 1, "is_word": str(is_word).lower(),
        "MOST": LARGEST * lanes, "COLUMNS": COLUMNS, "COLUMNS_AND_ONE": COLUMNS + 1,
        "SAMPLE": SAMPLE, "LONG": _LONG,
        "largest": key.largest, "equal": "fcmp oeq" if key.is_float else "icmp eq",
        "min": "fmin" if key.is_float else "umin", "max": "fmax" if key.is_float else "umax",
        "low": low, "high": high,
    }  # fmt: skip
    declared = [] if key.is_float else [
        f"declare {key.vector} @llvm.{name}.{key.named}({key.vector}, {key.vector})" for name in ("umin", "umax")
    ]  # fmt: skip
    of_long = long_ir(key) if is_word else ""
    return "".join((few_ir(key), steps_ir(key), special_ir(key), _SORT.substitute(
        words, declared="\n".join(declared), key=key.of("%flip", 1), keys=key.of("%flips", lanes),
        is_special=key.special(1), are_special=key.special(lanes), element=key.back("%key", "%flip", 1),
        flips=key.in_all_lanes("flips", key.bits, "%flip"), few="".join(few) + f"few.{LARGEST}:\n  unreachable",
        lower="\n".join(ends.text),
    ), columns_ir(key), part_ir(key, features), of_long))  # fmt: skip
