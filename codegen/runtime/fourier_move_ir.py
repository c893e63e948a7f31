"""Rows to the blocks of Fourier transforms, and back, as LLVM IR text.

    void @load(lanes, block, count, step, im, way)     void @store(lanes, block, count, step, im, way)

`lanes` are where the rows of a block begin.  Element i of a row has its real part `step` i numbers from there, and its
imaginary part `im` after that.  The ways:

    0    each number by itself
    1    rows stand side by side, their parts in pairs: a vector of pairs at a time
    2    rows stand side by side, their parts do not: a vector of each
    3    rows of pairs one after the other: as many elements of as many rows are transposed at a time

`turn` multiplies what is in a block by numbers of its own for each row.
"""

from __future__ import annotations

from .fourier_pass_ir import LANES
from .template import Template
from .transposed_ir import listed, transposed

__all__ = ["moves_ir"]

_MOVE = Template("""
define internal void @$name(ptr %lanes, ptr noalias %block, i64 %count, i64 %step, i64 %im, i64 %way) noinline {
entry:
  switch i64 %way, label %one [ i64 1, label %pairs i64 2, label %parts i64 3, label %rows ]
pairs:
  %p.base = load ptr, ptr %lanes
  br label %p.next
p.next:
  %p = phi i64 [ 0, %pairs ], [ %p.more, %p.next ]
  %p.far = mul i64 %p, %step
  %p.row = getelementptr $type, ptr %p.base, i64 %p.far
  %p.two = shl i64 %p, 1
  %p.re.block = getelementptr $V, ptr %block, i64 %p.two
  %p.im.block = getelementptr $V, ptr %p.re.block, i64 1
$pairs
  %p.more = add i64 %p, 1
  %p.again = icmp ult i64 %p.more, %count
  br i1 %p.again, label %p.next, label %done
parts:
  %q.base = load ptr, ptr %lanes
  br label %q.next
q.next:
  %q = phi i64 [ 0, %parts ], [ %q.more, %q.next ]
  %q.far = mul i64 %q, %step
  %q.re.row = getelementptr $type, ptr %q.base, i64 %q.far
  %q.im.row = getelementptr $type, ptr %q.re.row, i64 %im
  %q.two = shl i64 %q, 1
  %q.re.block = getelementptr $V, ptr %block, i64 %q.two
  %q.im.block = getelementptr $V, ptr %q.re.block, i64 1
$parts
  %q.more = add i64 %q, 1
  %q.again = icmp ult i64 %q.more, %count
  br i1 %q.again, label %q.next, label %done
rows:
$bases
  br label %r.next
r.next:
  %r = phi i64 [ 0, %rows ], [ %r.more, %r.some ]
  %r.more = add i64 %r, $LANES
  %r.fits = icmp ule i64 %r.more, %count
  br i1 %r.fits, label %r.some, label %one
r.some:
  %r.two = shl i64 %r, 1
  %r.block = getelementptr $V, ptr %block, i64 %r.two
$rows
  br label %r.next
one:
  %i.first = phi i64 [ 0, %entry ], [ %r, %r.next ]
  br label %i.next
i.next:
  %i = phi i64 [ %i.first, %one ], [ %i.more, %i.done ]
  %i.go = icmp ult i64 %i, %count
  br i1 %i.go, label %i.some, label %done
i.some:
  %i.far = mul i64 %i, %step
  %i.two = shl i64 %i, 1
  %i.re = getelementptr $V, ptr %block, i64 %i.two
  %i.im = getelementptr $V, ptr %i.re, i64 1
  br label %l.next
l.next:
  %l = phi i64 [ 0, %i.some ], [ %l.more, %l.next ]
  %l.base.at = getelementptr ptr, ptr %lanes, i64 %l
  %l.base = load ptr, ptr %l.base.at
  %l.re.row = getelementptr $type, ptr %l.base, i64 %i.far
  %l.im.row = getelementptr $type, ptr %l.re.row, i64 %im
  %l.re.block = getelementptr $type, ptr %i.re, i64 %l
  %l.im.block = getelementptr $type, ptr %i.im, i64 %l
$one
  %l.more = add i64 %l, 1
  %l.again = icmp ult i64 %l.more, $LANES
  br i1 %l.again, label %l.next, label %i.done
i.done:
  %i.more = add i64 %i, 1
  br label %i.next
done:
  ret void
}
""")

_PAIRS_LOADED = Template("""
  %p.both = load $W, ptr %p.row, align $SIZE
  %p.re = shufflevector $W %p.both, $W poison, <$LANES x i32> <$EVEN>
  %p.im = shufflevector $W %p.both, $W poison, <$LANES x i32> <$ODD>
  store $V %p.re, ptr %p.re.block, align 32
  store $V %p.im, ptr %p.im.block, align 32""")
_PAIRS_STORED = Template("""
  %p.re = load $V, ptr %p.re.block, align 32
  %p.im = load $V, ptr %p.im.block, align 32
  %p.both = shufflevector $V %p.re, $V %p.im, <$BOTH x i32> <$MIXED>
  store $W %p.both, ptr %p.row, align $SIZE""")
_BETWEEN = Template("""
  %$i.re.moved = load $type, ptr %$i.re.$from, align $FROM
  %$i.im.moved = load $type, ptr %$i.im.$from, align $FROM
  store $type %$i.re.moved, ptr %$i.re.$to, align $TO
  store $type %$i.im.moved, ptr %$i.im.$to, align $TO""")

_TURN = Template("""
define internal void @turn(ptr %block, ptr noalias %turns, i64 %count, i64 %step, i64 %n, i64 %re, i64 %im) noinline {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %two = shl i64 %i, 1
  %element = getelementptr $V, ptr %block, i64 %two
  %re.at = getelementptr $V, ptr %element, i64 %re
  %im.at = getelementptr $V, ptr %element, i64 %im
  %far = mul i64 %i, %step
  %c.at = getelementptr $type, ptr %turns, i64 %far
  %s.at = getelementptr $type, ptr %c.at, i64 %n
  %x = load $V, ptr %re.at, align 32
  %y = load $V, ptr %im.at, align 32
  %c = load $V, ptr %c.at, align $SIZE
  %s = load $V, ptr %s.at, align $SIZE
  %xc = fmul contract $V %x, %c
  %ys = fmul contract $V %y, %s
  %xs = fmul contract $V %x, %s
  %yc = fmul contract $V %y, %c
  %to.re = fsub contract $V %xc, %ys
  %to.im = fadd contract $V %xs, %yc
  store $V %to.re, ptr %re.at, align 32
  store $V %to.im, ptr %im.at, align 32
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %next, label %done
done:
  ret void
}
""")


def _rows_loaded(words: dict[str, object], even: str, odd: str) -> list[str]:
    """The pairs of as many rows as elements, to elements of all rows."""
    given = Template("""
  %from.$j = getelementptr $type, ptr %base.$j, i64 %r.two
  %row.$j = load $W, ptr %from.$j, align $SIZE""")
    part = Template("""
  %of.$j.$part = shufflevector $W %turned.$j, $W poison, <$LANES x i32> <$places>
  %at.$j.$part = getelementptr $V, ptr %r.block, i64 $number
  store $V %of.$j.$part, ptr %at.$j.$part, align 32""")
    lines = [given.substitute(words, j=j) for j in range(LANES)]
    lines += transposed([f"%row.{j}" for j in range(LANES)], str(words["W"]), "turned", parts=2)
    return lines + [
        part.substitute(words, j=j, part=p, places=(even, odd)[p], number=2 * j + p)
        for j in range(LANES) for p in (0, 1)
    ]  # fmt: skip


def _rows_stored(words: dict[str, object], mixed: str) -> list[str]:
    """The other way round."""
    part = Template("""
  %at.$j.$part = getelementptr $V, ptr %r.block, i64 $number
  %of.$j.$part = load $V, ptr %at.$j.$part, align 32""")
    both = Template("  %both.$j = shufflevector $V %of.$j.0, $V %of.$j.1, <$BOTH x i32> <$mixed>")
    given = Template("""
  %to.$j = getelementptr $type, ptr %base.$j, i64 %r.two
  store $W %turned.$j, ptr %to.$j, align $SIZE""")
    lines = [part.substitute(words, j=j, part=p, number=2 * j + p) for j in range(LANES) for p in (0, 1)]
    lines += [both.substitute(words, j=j, mixed=mixed) for j in range(LANES)]
    lines += transposed([f"%both.{j}" for j in range(LANES)], str(words["W"]), "turned", parts=2)
    return lines + [given.substitute(words, j=j) for j in range(LANES)]


def moves_ir(element: str) -> str:
    """`load`, `store` and `turn` for numbers of this type."""
    v, w = f"<{LANES} x {element}>", f"<{2 * LANES} x {element}>"
    size = 4 if element == "float" else 8
    even, odd = listed(list(range(0, 2 * LANES, 2))), listed(list(range(1, 2 * LANES, 2)))
    mixed = listed([k + part for k in range(LANES) for part in (0, LANES)])
    base = Template("  %base.at.$j = getelementptr ptr, ptr %lanes, i64 $j\n  %base.$j = load ptr, ptr %base.at.$j")
    bases = "\n".join([base.substitute(j=j) for j in range(LANES)])
    words: dict[str, object] = {"type": element, "V": v, "W": w, "SIZE": size, "LANES": LANES, "BOTH": 2 * LANES}
    row, block = {"from": "row", "to": "block"}, {"from": "block", "to": "row"}
    load = _MOVE.substitute(
        words, name="load", bases=bases, rows="\n".join(_rows_loaded(words, even, odd)),
        pairs=_PAIRS_LOADED.substitute(words, EVEN=even, ODD=odd),
        parts=_BETWEEN.substitute(row, type=v, i="q", FROM=size, TO=32),
        one=_BETWEEN.substitute(row, type=element, i="l", FROM=size, TO=size),
    )  # fmt: skip
    store = _MOVE.substitute(
        words, name="store", bases=bases, rows="\n".join(_rows_stored(words, mixed)),
        pairs=_PAIRS_STORED.substitute(words, MIXED=mixed),
        parts=_BETWEEN.substitute(block, type=v, i="q", FROM=32, TO=size),
        one=_BETWEEN.substitute(block, type=element, i="l", FROM=size, TO=size),
    )  # fmt: skip
    return load + store + _TURN.substitute(words)
