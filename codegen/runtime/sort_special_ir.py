"""What a sort of keys leaves to be done, as LLVM IR text.

    void @again(row, out, n, inner, flip)     zeros and nan once more where they belong, as they stand in the row
    void @insert(row, out, n, inner, flip)    the elements of a row in order by insertion, without further memory
"""

from __future__ import annotations

from .order_key_ir import key_ir
from .sort_key_ir import Key
from .template import Template

__all__ = ["special_ir"]

_AGAIN = Template("""
define internal void @again(ptr %row, ptr noalias %out, i64 %n, i64 %inner, $bits %flip) noinline {
entry:
  %falls = icmp ne $bits %flip, 0
  br label %count
count:
  %i = phi i64 [ 0, %entry ], [ %i.next, %count.one ]
  %nans = phi i64 [ 0, %entry ], [ %nans.next, %count.one ]
  %before = phi i64 [ 0, %entry ], [ %before.next, %count.one ]
  %i.more = icmp ult i64 %i, %n
  br i1 %i.more, label %count.one, label %put.start
count.one:
  %i.place = mul i64 %i, %inner
  %i.at = getelementptr $type, ptr %row, i64 %i.place
  %x = load $type, ptr %i.at
  %is.nan = fcmp uno $type %x, %x
  %is.negative = fcmp olt $type %x, 0.0
  %is.positive = fcmp ogt $type %x, 0.0
  %is.before = select i1 %falls, i1 %is.positive, i1 %is.negative
  %one.nan = zext i1 %is.nan to i64
  %one.before = zext i1 %is.before to i64
  %nans.next = add i64 %nans, %one.nan
  %before.next = add i64 %before, %one.before
  %i.next = add i64 %i, 1
  br label %count
put.start:
  %last.nans = sub i64 %n, %nans
  %first.nan = select i1 %falls, i64 0, i64 %last.nans
  %nans.before = select i1 %falls, i64 %nans, i64 0
  %first.zero = add i64 %before, %nans.before
  br label %put
put:
  %j = phi i64 [ 0, %put.start ], [ %j.next, %put.done ]
  %nan.to = phi i64 [ %first.nan, %put.start ], [ %nan.next, %put.done ]
  %zero.to = phi i64 [ %first.zero, %put.start ], [ %zero.next, %put.done ]
  %j.more = icmp ult i64 %j, %n
  br i1 %j.more, label %look, label %done
look:
  %j.place = mul i64 %j, %inner
  %j.at = getelementptr $type, ptr %row, i64 %j.place
  %y = load $type, ptr %j.at
  %y.nan = fcmp uno $type %y, %y
  %y.zero = fcmp oeq $type %y, 0.0
  %is.one = or i1 %y.nan, %y.zero
  br i1 %is.one, label %put.one, label %put.done
put.one:
  %to = select i1 %y.nan, i64 %nan.to, i64 %zero.to
  %to.place = mul i64 %to, %inner
  %to.at = getelementptr $type, ptr %out, i64 %to.place
  store $type %y, ptr %to.at
  br label %put.done
put.done:
  %a.nan = zext i1 %y.nan to i64
  %a.zero = zext i1 %y.zero to i64
  %nan.next = add i64 %nan.to, %a.nan
  %zero.next = add i64 %zero.to, %a.zero
  %j.next = add i64 %j, 1
  br label %put
done:
  ret void
}
""")

_NOT_AGAIN = Template("""
define internal void @again(ptr %row, ptr noalias %out, i64 %n, i64 %inner, $bits %flip) alwaysinline {
  ret void
}
""")

_INSERT = Template("""
define internal $bits @order.key(ptr %row, i64 %number, i64 %inner) alwaysinline {
  %offset = mul i64 %number, %inner
  %at = getelementptr $type, ptr %row, i64 %offset
  %given = load $type, ptr %at
$key
  ret $bits %rising
}

define internal void @insert(ptr %row, ptr noalias %out, i64 %n, i64 %inner, $bits %flip) noinline {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %placed ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %i.next = add i64 %i, 1
  %rising = call $bits @order.key(ptr %row, i64 %i, i64 %inner)
  %key = xor $bits %rising, %flip
  %x.place = mul i64 %i, %inner
  %x.at = getelementptr $type, ptr %row, i64 %x.place
  %x = load $type, ptr %x.at
  br label %look
look:
  %j = phi i64 [ %i, %one ], [ %j.less, %shift ]
  %j.less = sub i64 %j, 1
  %to.place = mul i64 %j, %inner
  %to.at = getelementptr $type, ptr %out, i64 %to.place
  %is.first = icmp eq i64 %j, 0
  br i1 %is.first, label %placed, label %compare
compare:
  %before.rising = call $bits @order.key(ptr %out, i64 %j.less, i64 %inner)
  %before.key = xor $bits %before.rising, %flip
  %is.larger = icmp ugt $bits %before.key, %key
  br i1 %is.larger, label %shift, label %placed
shift:
  %before.place = mul i64 %j.less, %inner
  %before.at = getelementptr $type, ptr %out, i64 %before.place
  %before = load $type, ptr %before.at
  store $type %before, ptr %to.at
  br label %look
placed:
  store $type %x, ptr %to.at
  br label %next
done:
  ret void
}
""")


def special_ir(key: Key) -> str:
    """These functions for elements of such keys."""
    again = _AGAIN if key.is_float else _NOT_AGAIN
    words = {"type": key.element, "bits": key.bits, "key": key_ir(key.element, key.bits, 1)}
    return again.substitute(words) + _INSERT.substitute(words)
