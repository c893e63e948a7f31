"""Columns side by side in order, as LLVM IR text.

    void @columns(x, out, memory, n, inner, width, flip)

sorts each of `width` columns of n elements in a row of its own in `memory`, which is as long as all of them and one.
"""

from __future__ import annotations

from .sort_key_ir import Key
from .template import Template

__all__ = ["COLUMNS", "columns_ir"]

#: Columns that are sorted side by side: a line of the cache has so many f32 numbers.
COLUMNS = 16

_COLUMNS = Template("""
define internal void @columns(
  ptr %x, ptr %out, ptr %memory, i64 %n, i64 %inner, i64 %width, $bits %flip
) noinline {
entry:
  %rows.size = mul i64 %n, %width
  %other = getelementptr $K, ptr %memory, i64 %rows.size
  br label %read
read:
  %i = phi i64 [ 0, %entry ], [ %i.next, %read.done ]
  %found.before = phi i1 [ false, %entry ], [ %found.next, %read.done ]
  %i.more = icmp ult i64 %i, %n
  br i1 %i.more, label %read.line, label %each
read.line:
  %line = mul i64 %i, %inner
  br label %read.one
read.one:
  %j = phi i64 [ 0, %read.line ], [ %j.next, %read.one ]
  %found = phi i1 [ %found.before, %read.line ], [ %found.next, %read.one ]
  %place = add i64 %line, %j
  %both = call { $K, i1 } @key.at(ptr %x, i64 %place, $bits %flip)
  %one.key = extractvalue { $K, i1 } %both, 0
  %one.special = extractvalue { $K, i1 } %both, 1
  %found.next = or i1 %found, %one.special
  %row.begin = mul i64 %j, %n
  %row.place = add i64 %row.begin, %i
  %row.at = getelementptr $K, ptr %memory, i64 %row.place
  store $K %one.key, ptr %row.at
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, %width
  br i1 %j.more, label %read.one, label %read.done
read.done:
  %i.next = add i64 %i, 1
  br label %read
each:
  %c = phi i64 [ 0, %read ], [ %c.next, %each.one ]
  %c.more = icmp ult i64 %c, %width
  br i1 %c.more, label %each.one, label %write
each.one:
  %c.begin = mul i64 %c, %n
  %c.at = getelementptr $K, ptr %memory, i64 %c.begin
  call void @sort(ptr %c.at, ptr %other, ptr %c.at, i64 %n, $bits %flip, i1 false)
  %c.next = add i64 %c, 1
  br label %each
write:
  %k = phi i64 [ 0, %each ], [ %k.next, %write.done ]
  %k.more = icmp ult i64 %k, %n
  br i1 %k.more, label %write.line, label %special
write.line:
  %to.line = mul i64 %k, %inner
  br label %write.one
write.one:
  %l = phi i64 [ 0, %write.line ], [ %l.next, %write.one ]
  %l.begin = mul i64 %l, %n
  %l.place = add i64 %l.begin, %k
  %l.at = getelementptr $K, ptr %memory, i64 %l.place
  %bits = load $bits, ptr %l.at
  %sorted = $narrow $bits %bits to $type
  %l.to = add i64 %to.line, %l
  %l.to.at = getelementptr $type, ptr %out, i64 %l.to
  store $type %sorted, ptr %l.to.at
  %l.next = add i64 %l, 1
  %l.more = icmp ult i64 %l.next, %width
  br i1 %l.more, label %write.one, label %write.done
write.done:
  %k.next = add i64 %k, 1
  br label %write
special:
  br i1 %found.before, label %again, label %done
again:
  %s = phi i64 [ 0, %special ], [ %s.next, %again ]
  %s.x = getelementptr $type, ptr %x, i64 %s
  %s.out = getelementptr $type, ptr %out, i64 %s
  call void @again(ptr %s.x, ptr %s.out, i64 %n, i64 %inner, $bits %flip)
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %width
  br i1 %s.more, label %again, label %done
done:
  ret void
}
""")


def columns_ir(key: Key) -> str:
    """`columns` for elements of such keys."""
    narrow = "trunc" if key.element == "i8" else "bitcast"
    return _COLUMNS.substitute(K=key.type, bits=key.bits, type=key.element, narrow=narrow)
