"""One row of few elements in order by counting, and any row by insertion, as LLVM IR text.

    void @rank(row, out, keys, n, inner, flip)     void @insert(row, out, n, inner, flip)

write the numbers of n elements in rising order, equal ones as they stand; `key` of the module gives their keys.
"""

from __future__ import annotations

from .template import Template

__all__ = ["alone_ir"]

#: Bytes of the keys that are compared at a time.
_VECTOR_BYTES = 64


def _counted(k: str, block: str, end: str, then: str, below: str) -> str:
    """The body of a loop over elements that lie on one side of those compared; `below` says which go before them."""
    return f"""  %{k}.more = icmp ult i64 %{k}, {end}
  br i1 %{k}.more, label %{block}.one, label %{then}
{block}.one:
  %{k}.at = getelementptr $word, ptr %keys, i64 %{k}
  %{k}.key = load $word, ptr %{k}.at
  %{k}.first = insertelement <$LANES x $word> poison, $word %{k}.key, i64 0
  %{k}.all = shufflevector <$LANES x $word> %{k}.first, <$LANES x $word> poison, <$LANES x i32> zeroinitializer
  %{k}.less = icmp {below} <$LANES x $word> %{k}.all, %mine
  %{k}.one = sext <$LANES x i1> %{k}.less to <$LANES x $word>
  %{k}.counted = sub <$LANES x $word> %{k}.count, %{k}.one
  %{k}.next = add i64 %{k}, 1
  br label %{block}
"""


_ALONE = Template(
    """
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
$BEFOREamong:
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
$AFTERcounted:
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
"""
    .replace("$BEFORE", _counted("b", "before", "%i", "among", "ule"))
    .replace("$AFTER", _counted("c", "after", "%n", "counted", "ult"))
)


def alone_ir(word: str) -> str:
    """Both for keys that are such words."""
    bits = int(word[1:])
    lanes = _VECTOR_BYTES * 8 // bits
    steps = ", ".join(f"{word} {j}" for j in range(lanes))
    return _ALONE.substitute(word=word, LANES=lanes, ALIGN=bits // 8, STEPS=steps)
