"""Rows of few elements in order, several side by side, as LLVM IR text.

    void @beside(rows, outs, keys, numbers, n, inner, flip)

writes for LANES rows the numbers of their n elements in rising order, equal ones as they stand: each row is one lane
of vectors, which go through one network of comparisons.  `rows` and `outs` are where they begin; elements are `inner`
apart.

A key of 32 bits and the number of its element are one word, which the smaller and the larger are taken of; a longer key
stands beside its number, and both change places.  Rows of packed elements are transposed by squares; of rows that touch
each other the i-th elements are one vector.  The network is Batcher's, for any n (Knuth, "The Art of Computer
Programming" 3, 5.2.2, algorithm M).

ms per 320,000 elements in rows of n, one after the other and so; one thread, Zen 4:

    n    3            8            16           32           64           100
    f32  2.67, .95    2.01, .52    1.48, .58    1.80, 1.02   2.37, 1.42   1.47, 1.55
    f64  2.29, .92    1.80, .78    1.63, 1.29   1.86, 1.61   2.56, 2.04   2.02, 2.51
"""

from __future__ import annotations

from .compare_ir import LANES
from .order_key_ir import key_ir
from .template import Template
from .transposed_ir import transposed

__all__ = ["beside_ir"]

_BESIDE = Template("""
; The keys of the i-th elements, and their number.
define internal void @put(ptr %keys, ptr %numbers, i64 %i, $E %given, $word %flip) alwaysinline {
  %flip.first = insertelement $W poison, $word %flip, i64 0
  %flips = shufflevector $W %flip.first, $W poison, <$LANES x i32> zeroinitializer
$key
  %key = xor $W %rising, %flips
  %number.first = insertelement $V poison, i64 %i, i64 0
  %number = shufflevector $V %number.first, $V poison, <$LANES x i32> zeroinitializer
  %key.at = getelementptr $V, ptr %keys, i64 %i
$put
  ret void
}

define internal void @beside(
  ptr %rows, ptr %outs, ptr noalias %keys, ptr noalias %numbers, i64 %n, i64 %inner, $word %flip
) noinline {
entry:
$bases
  %less = sub i64 %n, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %less, i1 false)
  %halvings = sub i64 63, %zeros
  %top = shl i64 1, %halvings
  %is.one = icmp eq i64 %inner, 1
  %next.row = getelementptr $type, ptr %row.0, i64 $LAST
  %are.touching = icmp eq ptr %next.row, %row.$LAST
  %whole = and i64 %n, $EIGHTS
  %squares = select i1 %is.one, i64 %whole, i64 0
  br label %square
square:
  %s = phi i64 [ 0, %entry ], [ %s.next, %square.some ]
  %s.more = icmp ult i64 %s, %squares
  br i1 %s.more, label %square.some, label %read
square.some:
$squares
  %s.next = add i64 %s, $LANES
  br label %square
read:
  %i = phi i64 [ %squares, %square ], [ %i.next, %read.put ]
  %i.more = icmp ult i64 %i, %n
  br i1 %i.more, label %read.some, label %phase
read.some:
  %offset = mul i64 %i, %inner
  br i1 %are.touching, label %read.all, label %read.each
read.all:
  %all.from = getelementptr $type, ptr %row.0, i64 %offset
  %all.given = load $E, ptr %all.from, align $SIZE
  br label %read.put
read.each:
$given
  br label %read.put
read.put:
  %found = phi $E [ %all.given, %read.all ], [ %given, %read.each ]
  call void @put(ptr %keys, ptr %numbers, i64 %i, $E %found, $word %flip)
  %i.next = add i64 %i, 1
  br label %read

; Elements i and i + d are compared where i has the bit p as r has it.
phase:
  %p = phi i64 [ %top, %read ], [ %p.half, %phase.done ]
  br label %merge
merge:
  %q = phi i64 [ %top, %phase ], [ %q.half, %merge.next ]
  %r = phi i64 [ 0, %phase ], [ %p, %merge.next ]
  %d = phi i64 [ %p, %phase ], [ %d.next, %merge.next ]
  %end = sub i64 %n, %d
  %step = shl i64 %p, 1
  br label %run
run:
  %run.begin = phi i64 [ %r, %merge ], [ %run.next, %run.done ]
  %run.more = icmp slt i64 %run.begin, %end
  br i1 %run.more, label %run.some, label %merge.done
run.some:
  %run.full = add i64 %run.begin, %p
  %run.end = call i64 @llvm.smin.i64(i64 %run.full, i64 %end)
  br label %pair
pair:
  %a = phi i64 [ %run.begin, %run.some ], [ %a.next, %pair ]
  %b = add i64 %a, %d
  %x.at = getelementptr $V, ptr %keys, i64 %a
  %y.at = getelementptr $V, ptr %keys, i64 %b
  %one = load $V, ptr %x.at, align 64
  %other = load $V, ptr %y.at, align 64
$compare
  store $V %low, ptr %x.at, align 64
  store $V %high, ptr %y.at, align 64
  %a.next = add i64 %a, 1
  %a.more = icmp slt i64 %a.next, %run.end
  br i1 %a.more, label %pair, label %run.done
run.done:
  %run.next = add i64 %run.begin, %step
  br label %run
merge.done:
  %is.last = icmp eq i64 %q, %p
  br i1 %is.last, label %phase.done, label %merge.next
merge.next:
  %d.next = sub i64 %q, %p
  %q.half = lshr i64 %q, 1
  br label %merge
phase.done:
  %p.half = lshr i64 %p, 1
  %p.more = icmp ne i64 %p.half, 0
  br i1 %p.more, label %phase, label %write
write:
  %w = phi i64 [ 0, %phase.done ], [ %w.next, %write.some ]
  %w.more = icmp ult i64 %w, %squares
  br i1 %w.more, label %write.some, label %rest
write.some:
$written
  %w.next = add i64 %w, $LANES
  br label %write
rest:
  %k = phi i64 [ %squares, %write ], [ %k.next, %written ]
  %k.more = icmp ult i64 %k, %n
  br i1 %k.more, label %rest.some, label %done
rest.some:
  %k.offset = mul i64 %k, %inner
  %k.at = getelementptr $V, ptr %$places, i64 %k
  %k.word = load $V, ptr %k.at, align 64
  %place = and $V %k.word, $mask
  br i1 %are.touching, label %write.all, label %write.each
write.all:
  %all.to = getelementptr i64, ptr %out.0, i64 %k.offset
  store $V %place, ptr %all.to, align 8
  br label %written
write.each:
$taken
  br label %written
written:
  %k.next = add i64 %k, 1
  br label %rest
done:
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
""")

#: A key of 32 bits above the number, and of two words the smaller and the larger.
_WORD_PUT = """
  %wide = zext $W %key to $V
  %above = shl $V %wide, $thirty_two
  %word = or $V %above, %number
  store $V %word, ptr %key.at, align 64"""
_WORD_COMPARED = """
  %low = call $V @llvm.umin.v${LANES}i64($V %one, $V %other)
  %high = call $V @llvm.umax.v${LANES}i64($V %one, $V %other)"""

_PAIR_PUT = """
  %number.at = getelementptr $V, ptr %numbers, i64 %i
  store $V %key, ptr %key.at, align 64
  store $V %number, ptr %number.at, align 64"""
_PAIR_COMPARED = """
  %xn.at = getelementptr $V, ptr %numbers, i64 %a
  %yn.at = getelementptr $V, ptr %numbers, i64 %b
  %xn = load $V, ptr %xn.at, align 64
  %yn = load $V, ptr %yn.at, align 64
  %above = icmp ugt $V %one, %other
  %alike = icmp eq $V %one, %other
  %later = icmp ugt $V %xn, %yn
  %ties = and <$LANES x i1> %alike, %later
  %is.turned = or <$LANES x i1> %above, %ties
  %low = select <$LANES x i1> %is.turned, $V %other, $V %one
  %high = select <$LANES x i1> %is.turned, $V %one, $V %other
  %low.number = select <$LANES x i1> %is.turned, $V %yn, $V %xn
  %high.number = select <$LANES x i1> %is.turned, $V %xn, $V %yn
  store $V %low.number, ptr %xn.at, align 64
  store $V %high.number, ptr %yn.at, align 64"""

_BASE = Template("""
  %row.at.$l = getelementptr ptr, ptr %rows, i64 $l
  %out.at.$l = getelementptr ptr, ptr %outs, i64 $l
  %row.$l = load ptr, ptr %row.at.$l
  %out.$l = load ptr, ptr %out.at.$l""")
_GIVEN = Template("""
  %from.$l = getelementptr $type, ptr %row.$l, i64 %offset
  %one.$l = load $type, ptr %from.$l
  $to = insertelement $E $before, $type %one.$l, i64 $l""")
_TAKEN = Template("""
  %place.$l = extractelement $V %place, i64 $l
  %to.$l = getelementptr i64, ptr %out.$l, i64 %k.offset
  store i64 %place.$l, ptr %to.$l""")


_SQUARE_ROW = Template("""
  %row.from.$l = getelementptr $type, ptr %row.$l, i64 %s
  %row.given.$l = load $E, ptr %row.from.$l, align $SIZE""")
_SQUARE_PUT = Template("""
  %s.$l = add i64 %s, $l
  call void @put(ptr %keys, ptr %numbers, i64 %s.$l, $E %turned.$l, $word %flip)""")
_WRITTEN_ROW = Template("""
  %w.$l = add i64 %w, $l
  %w.at.$l = getelementptr $V, ptr %$places, i64 %w.$l
  %w.word.$l = load $V, ptr %w.at.$l, align 64
  %w.place.$l = and $V %w.word.$l, $mask""")
_WRITTEN = Template("""
  %w.to.$l = getelementptr i64, ptr %out.$l, i64 %w
  store $V %numbered.$l, ptr %w.to.$l, align 8""")


def beside_ir(element: str, word: str) -> str:
    """`beside` for elements of this type, whose keys are such words."""
    is_pair = word == "i64"
    vectors = {"V": f"<{LANES} x i64>", "W": f"<{LANES} x {word}>", "E": f"<{LANES} x {element}>"}
    words = {**vectors, "LANES": LANES, "LAST": LANES - 1, "EIGHTS": -LANES}
    words |= {"word": word, "type": element, "thirty_two": _splat(32)}
    words |= {"SIZE": {"i8": 1, "i32": 4, "float": 4}.get(element, 8), "places": "numbers" if is_pair else "keys"}
    words |= {"mask": _splat(-1 if is_pair else (1 << 32) - 1)}

    def each(text: Template) -> str:
        return "".join([text.substitute(words, l=lane) for lane in range(LANES)])

    names = [f"%given.{lane}" for lane in range(LANES - 1)]
    given = [
        _GIVEN.substitute(words, l=lane, before=before, to=to)
        for lane, (before, to) in enumerate(zip(["poison", *names], [*names, "%given"], strict=True))
    ]
    turned = transposed([f"%row.given.{lane}" for lane in range(LANES)], vectors["E"], "turned")
    numbered = transposed([f"%w.place.{lane}" for lane in range(LANES)], vectors["V"], "numbered")
    return _BESIDE.substitute(
        words, bases=each(_BASE), given="".join(given), taken=each(_TAKEN), key=key_ir(element, word, LANES),
        squares="\n".join([each(_SQUARE_ROW), *turned, each(_SQUARE_PUT)]),
        written="\n".join([each(_WRITTEN_ROW), *numbered, each(_WRITTEN)]),
        put=Template(_PAIR_PUT if is_pair else _WORD_PUT).substitute(words),
        compare=Template(_PAIR_COMPARED if is_pair else _WORD_COMPARED).substitute(words),
    )  # fmt: skip


def _splat(number: int) -> str:
    return f"<{', '.join([f'i64 {number}'] * LANES)}>"
