"""The spectrum of 2n real numbers from that of n complex ones, and back, as LLVM IR text.

    void @half.NAME(row, n, inner, table, forward)

Z is the transform of the numbers with even places as real parts, those with odd ones as imaginary parts.  In place,
forward, X[k] = E + O and X[n-k] = conj(E - O) for

    E = (Z[k] + conj Z[n-k]) / 2      O = (Z[k] - conj Z[n-k]) / 2 · -i exp(-2πi k / 2n)

the factors of O being the table's.  Backward the same without the halves, and with the conjugates of the factors, gives
the Z whose inverse transform, undivided, is that of X; what X[0] and X[n] have as imaginary parts is not read.

    void @odd.given(block, n, kind)      void @odd.taken(block, n, kind)

An odd number n of real ones are complex ones: what is loaded becomes them, and what is found what is stored.
"""

from __future__ import annotations

from .template import Template

__all__ = ["half_ir", "odd_ir"]

_HALF = Template("""
define internal void @half.$name(ptr %row, i64 %n, i64 %inner, ptr %table, i1 %forward) noinline {
entry:
  %step = shl i64 %inner, 1
  %end.at = mul i64 %step, %n
  %end.re = getelementptr $V, ptr %row, i64 %end.at
  %end.im = getelementptr $V, ptr %end.re, i64 1
  %first.im = getelementptr $V, ptr %row, i64 1
  %fr = load $V, ptr %row, align $ALIGN
  %other.at = select i1 %forward, ptr %first.im, ptr %end.re
  %fo = load $V, ptr %other.at, align $ALIGN
  %sum = fadd $V %fr, %fo
  %difference = fsub $V %fr, %fo
  store $V %sum, ptr %row, align $ALIGN
  br i1 %forward, label %ends, label %joined
ends:
  store $V zeroinitializer, ptr %first.im, align $ALIGN
  store $V %difference, ptr %end.re, align $ALIGN
  store $V zeroinitializer, ptr %end.im, align $ALIGN
  br label %begin
joined:
  store $V %difference, ptr %first.im, align $ALIGN
  br label %begin
begin:
  %last = lshr i64 %n, 1
  %c.one = select i1 %forward, $type 0.5, $type 1.0
  %sign.one = select i1 %forward, $type 1.0, $type -1.0
$spread
  br label %next
next:
  %k = phi i64 [ 1, %begin ], [ %k.next, %pair ]
  %more = icmp ule i64 %k, %last
  br i1 %more, label %pair, label %done
pair:
  %j = sub i64 %n, %k
  %a.at = mul i64 %k, %step
  %b.at = mul i64 %j, %step
  %ar.at = getelementptr $V, ptr %row, i64 %a.at
  %ai.at = getelementptr $V, ptr %ar.at, i64 1
  %br.at = getelementptr $V, ptr %row, i64 %b.at
  %bi.at = getelementptr $V, ptr %br.at, i64 1
  %ar = load $V, ptr %ar.at, align $ALIGN
  %ai = load $V, ptr %ai.at, align $ALIGN
  %br = load $V, ptr %br.at, align $ALIGN
  %bi = load $V, ptr %bi.at, align $ALIGN
  %u.at = shl i64 %k, 1
  %ur.at = getelementptr $type, ptr %table, i64 %u.at
  %ui.at = getelementptr $type, ptr %ur.at, i64 1
  %ur.one = load $type, ptr %ur.at
  %ui.given = load $type, ptr %ui.at
  %ui.one = fmul $type %ui.given, %sign.one
$factor
  %er.two = fadd $V %ar, %br
  %ei.two = fsub $V %ai, %bi
  %or.two = fsub $V %ar, %br
  %oi.two = fadd $V %ai, %bi
  %er = fmul $V %er.two, %c
  %ei = fmul $V %ei.two, %c
  %or = fmul $V %or.two, %c
  %oi = fmul $V %oi.two, %c
  %rr = fmul contract $V %ur, %or
  %ii = fmul contract $V %ui, %oi
  %ri = fmul contract $V %ur, %oi
  %ir = fmul contract $V %ui, %or
  %tr = fsub contract $V %rr, %ii
  %ti = fadd contract $V %ri, %ir
  %xr = fadd $V %er, %tr
  %xi = fadd $V %ei, %ti
  %yr = fsub $V %er, %tr
  %yi = fsub $V %ti, %ei
  store $V %xr, ptr %ar.at, align $ALIGN
  store $V %xi, ptr %ai.at, align $ALIGN
  store $V %yr, ptr %br.at, align $ALIGN
  store $V %yi, ptr %bi.at, align $ALIGN
  %k.next = add i64 %k, 1
  br label %next
done:
  ret void
}
""")

_EVERYWHERE = Template("""
  %$to.first = insertelement $V poison, $type %$from, i64 0
  %$to = shufflevector $V %$to.first, $V poison, <$LANES x i32> zeroinitializer""")
_ALONE = Template("  %$to = fadd $type %$from, -0.0\n")


def half_ir(name: str, element: str, lanes: int) -> str:
    """`half` for one row of numbers, or for vectors of as many lanes: elements of a block."""
    vector = f"<{lanes} x {element}>" if lanes > 1 else element
    fill = (_EVERYWHERE if lanes > 1 else _ALONE).substitute
    given = {"V": vector, "type": element, "LANES": lanes}
    return _HALF.substitute(
        name=name, V=vector, type=element, ALIGN=32 if lanes > 1 else 4,
        spread=fill(given, to="c", **{"from": "c.one"}),
        factor=fill(given, to="ur", **{"from": "ur.one"}) + fill(given, to="ui", **{"from": "ui.one"}),
    )  # fmt: skip


_ODD = Template("""
; Of real numbers the imaginary parts are 0; of the half of a spectrum the rest are conjugates.
define internal void @odd.given(ptr %block, i64 %n, i64 %kind) noinline {
entry:
  %first.im = getelementptr $V, ptr %block, i64 1
  store $V zeroinitializer, ptr %first.im, align 32
  %half = lshr i64 %n, 1
  %is.real = icmp eq i64 %kind, 3
  br label %next
next:
  %k = phi i64 [ 1, %entry ], [ %k.next, %pair ]
  %more = icmp ule i64 %k, %half
  br i1 %more, label %pair, label %done
pair:
  %near = shl i64 %k, 1
  %j = sub i64 %n, %k
  %over = shl i64 %j, 1
  %near.re = getelementptr $V, ptr %block, i64 %near
  %near.im = getelementptr $V, ptr %near.re, i64 1
  %over.re = getelementptr $V, ptr %block, i64 %over
  %over.im = getelementptr $V, ptr %over.re, i64 1
  %re = load $V, ptr %near.re, align 32
  %im = load $V, ptr %near.im, align 32
  %own = load $V, ptr %over.re, align 32
  %opposite = fneg $V %im
  %to.near.im = select i1 %is.real, $V zeroinitializer, $V %im
  %to.re = select i1 %is.real, $V %own, $V %re
  %to.im = select i1 %is.real, $V zeroinitializer, $V %opposite
  store $V %to.near.im, ptr %near.im, align 32
  store $V %to.re, ptr %over.re, align 32
  store $V %to.im, ptr %over.im, align 32
  %k.next = add i64 %k, 1
  br label %next
done:
  ret void
}

; A real number is stored where its imaginary part is, too.
define internal void @odd.taken(ptr %block, i64 %n, i64 %kind) noinline {
entry:
  %first.im = getelementptr $V, ptr %block, i64 1
  store $V zeroinitializer, ptr %first.im, align 32
  %is.half = icmp eq i64 %kind, 3
  br i1 %is.half, label %done, label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %two = shl i64 %k, 1
  %re.at = getelementptr $V, ptr %block, i64 %two
  %im.at = getelementptr $V, ptr %re.at, i64 1
  %re = load $V, ptr %re.at, align 32
  store $V %re, ptr %im.at, align 32
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %n
  br i1 %more, label %next, label %done
done:
  ret void
}
""")


def odd_ir(element: str, lanes: int) -> str:
    """`odd.given` and `odd.taken` for blocks of as many rows."""
    return _ODD.substitute(V=f"<{lanes} x {element}>")
