"""What Fourier transforms of blocks and of long rows share, as LLVM IR text.

    ptr @transform(passes, buffer, other, inverse)               all passes of a block; where the result is
    i1 @is_sound(block, count)                                   whether all numbers of a block are finite
    void @beside(lanes, first, apart)                            lanes that are so many numbers one after the other
    i1 @apart(x, y, plan, buffer, other, matrix, inverse)        one long row; false where it is not finite
    ptr @row(base, r, inner, count, size)                        where a row begins

A long row n = rows · columns is a matrix: its columns are transformed, multiplied by the numbers at `turns`, then its
rows (`fourier_ir` says what the words of a plan are).  y may be x.
"""

from __future__ import annotations

from collections.abc import Sequence

from .fourier_move_ir import moves_ir
from .fourier_pass_ir import LANES
from .template import Template

__all__ = ["WORDS", "apart_ir", "words_read"]

#: The words of every plan, in their order.
WORDS = (
    "n", "inner", "inverse", "kind", "passes", "halves", "columns", "rows", "passes.rows", "passes.columns", "turns",
)  # fmt: skip

#: Those that are no addresses.
_NUMBERS = frozenset(["n", "inner", "inverse", "kind", "columns", "rows", "count"])

_SHARED = Template("""
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; All passes, back and forth; where the result is.
define internal ptr @transform(ptr %passes, ptr %buffer, ptr %other, i64 %inverse) {
entry:
  %re = and i64 %inverse, 1
  %im = xor i64 %re, 1
  br label %next
next:
  %at = phi ptr [ %passes, %entry ], [ %at.next, %one ]
  %from = phi ptr [ %buffer, %entry ], [ %to, %one ]
  %to = phi ptr [ %other, %entry ], [ %from, %one ]
  %pass = load ptr, ptr %at
  %is.end = icmp eq ptr %pass, null
  br i1 %is.end, label %done, label %one
one:
  %m.at = getelementptr i64, ptr %at, i64 1
  %s.at = getelementptr i64, ptr %at, i64 2
  %factors.at = getelementptr i64, ptr %at, i64 3
  %m = load i64, ptr %m.at
  %s = load i64, ptr %s.at
  %factors = load ptr, ptr %factors.at
  call void %pass(ptr %from, ptr %to, i64 %m, i64 %s, ptr %factors, i64 %re, i64 %im)
  %at.next = getelementptr i64, ptr %at, i64 4
  br label %next
done:
  ret ptr %from
}

; Whether all numbers of a block are finite: x * 0 is nan for what is not.
define internal i1 @is_sound(ptr %block, i64 %count) {
entry:
  %vectors = shl i64 %count, 1
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %sum = phi $V [ zeroinitializer, %entry ], [ %added, %next ]
  %at = getelementptr $V, ptr %block, i64 %i
  %x = load $V, ptr %at, align 32
  %zero = fmul $V %x, zeroinitializer
  %added = fadd $V %sum, %zero
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %vectors
  br i1 %more, label %next, label %done
done:
  %lanes = fcmp une $V %added, zeroinitializer
  %any = bitcast <$LANES x i1> %lanes to i$LANES
  %is = icmp eq i$LANES %any, 0
  ret i1 %is
}

; Rows begin `apart` numbers one after the other.
define internal void @beside(ptr %lanes, ptr %first, i64 %apart) {
entry:
  br label %next
next:
  %j = phi i64 [ 0, %entry ], [ %j.next, %next ]
  %at = phi ptr [ %first, %entry ], [ %at.next, %next ]
  %to = getelementptr ptr, ptr %lanes, i64 %j
  store ptr %at, ptr %to
  %at.next = getelementptr $type, ptr %at, i64 %apart
  %j.next = add i64 %j, 1
  %more = icmp ult i64 %j.next, $LANES
  br i1 %more, label %next, label %done
done:
  ret void
}

; One long row by its columns, then by its rows; false, and nothing is written, where it is not finite.
define internal i1 @apart(
  ptr %x, ptr %y, ptr %plan, ptr %buffer, ptr %other, ptr %matrix, i64 %back
) noinline {
entry:
  %lanes = alloca [$LANES x ptr]
$words
  %column.step = shl i64 %columns, 1
  %row.step = shl i64 %rows, 1
  %last.column = sub i64 %columns, $LANES
  %last.row = sub i64 %rows, $LANES
  %is.back = icmp ne i64 %back, 0
  %re = zext i1 %is.back to i64
  %im = xor i64 %re, 1
  br label %down
down:
  %j.asked = phi i64 [ 0, %entry ], [ %j.next, %column ]
  %j.over = icmp ugt i64 %j.asked, %last.column
  %j = select i1 %j.over, i64 %last.column, i64 %j.asked
  %j.at = shl i64 %j, 1
  %column.from = getelementptr $type, ptr %x, i64 %j.at
  %column.to = getelementptr $type, ptr %matrix, i64 %j.at
  %turn = getelementptr $type, ptr %turns, i64 %j
  call void @beside(ptr %lanes, ptr %column.from, i64 2)
  call void @load(ptr %lanes, ptr %buffer, i64 %rows, i64 %column.step, i64 1, i64 1)
  %is.sound = call i1 @is_sound(ptr %buffer, i64 %rows)
  br i1 %is.sound, label %column, label %unsound
column:
  %of.column = call ptr @transform(ptr %passes.rows, ptr %buffer, ptr %other, i64 %back)
  call void @turn(ptr %of.column, ptr %turn, i64 %rows, i64 %columns, i64 %n, i64 %re, i64 %im)
  call void @beside(ptr %lanes, ptr %column.to, i64 2)
  call void @store(ptr %lanes, ptr %of.column, i64 %rows, i64 %column.step, i64 1, i64 1)
  %j.next = add i64 %j, $LANES
  %j.more = icmp ult i64 %j.next, %columns
  br i1 %j.more, label %down, label %along
along:
  %k.asked = phi i64 [ 0, %column ], [ %k.next, %along ]
  %k.over = icmp ugt i64 %k.asked, %last.row
  %k = select i1 %k.over, i64 %last.row, i64 %k.asked
  %k.at = mul i64 %k, %column.step
  %row = getelementptr $type, ptr %matrix, i64 %k.at
  %k.to = shl i64 %k, 1
  %row.to = getelementptr $type, ptr %y, i64 %k.to
  call void @beside(ptr %lanes, ptr %row, i64 %column.step)
  call void @load(ptr %lanes, ptr %buffer, i64 %columns, i64 2, i64 1, i64 3)
  %of.row = call ptr @transform(ptr %passes.columns, ptr %buffer, ptr %other, i64 %back)
  call void @beside(ptr %lanes, ptr %row.to, i64 2)
  call void @store(ptr %lanes, ptr %of.row, i64 %columns, i64 %row.step, i64 1, i64 1)
  %k.next = add i64 %k, $LANES
  %k.more = icmp ult i64 %k.next, %rows
  br i1 %k.more, label %along, label %done
done:
  ret i1 true
unsound:
  ret i1 false
}

; Where row r begins, of rows of `count` elements that are `inner` apart, `size` numbers each.
define internal ptr @row(ptr %base, i64 %r, i64 %inner, i64 %count, i64 %size) alwaysinline {
  %outer = udiv i64 %r, %inner
  %within = urem i64 %r, %inner
  %elements = mul i64 %count, %inner
  %begin = mul i64 %outer, %elements
  %at = add i64 %begin, %within
  %number = mul i64 %at, %size
  %place = getelementptr $type, ptr %base, i64 %number
  ret ptr %place
}
""")


def words_read(words: Sequence[str]) -> str:
    """Instructions that read the words of `%plan`."""
    lines = []
    for j, word in enumerate(words):
        kind = "i64" if word in _NUMBERS else "ptr"
        lines.append(f"  %{word}.word = getelementptr i64, ptr %plan, i64 {j}")
        lines.append(f"  %{word} = load {kind}, ptr %{word}.word")
    return "\n".join(lines)


def apart_ir(element: str) -> str:
    """These functions, and those of `fourier_move_ir`, for numbers of this type."""
    given = {"type": element, "LANES": LANES, "V": f"<{LANES} x {element}>", "words": words_read(WORDS)}
    return moves_ir(element) + _SHARED.substitute(given)
