"""A pass of Fourier transforms for any odd radix r, as LLVM IR text: a loop where `fourier_pass_ir` has no loop.

    void @pass(from, to, m, s, factors, re, im)

as there, but that `factors` has before them r as a number (and a 0), and exp(-2πi j k / r) for 0 < j, k <= h = r // 2.

Elements j from either end have the same cosines, and opposite sines: their sums and differences, which h² products of
numbers each make the results of, are kept on the stack.  Two pairs of results at a time keep the adders busy.
"""

from __future__ import annotations

from .fourier_pass_ir import LANES
from .template import Template

__all__ = ["PRIMES", "prime_ir"]

#: The primes that such passes are for: beyond them a convolution (`fourier_chirp_ir`) is faster.
PRIMES = tuple([n for n in range(17, 128, 2) if all([n % d for d in (3, 5, 7, 11)])])

_PASS = Template("""
define void @pass(
  ptr noalias %from, ptr noalias %to, i64 %m, i64 %s, ptr noalias %factors, i64 %re, i64 %im
) {
entry:
  %r.number = load $type, ptr %factors
  %r = fptoui $type %r.number to i64
  %h = lshr i64 %r, 1
  %h.square = mul i64 %h, %h
  %angles = getelementptr [2 x $type], ptr %factors, i64 1
  %turns = getelementptr [2 x $type], ptr %angles, i64 %h.square
  %kept = alloca [4 x $V], i64 %h, align 64
  %ms = mul i64 %m, %s
  %less = sub i64 %r, 1
  br label %next.p
next.p:
  %p = phi i64 [ 0, %entry ], [ %p.next, %end.p ]
  %is.first = icmp eq i64 %p, 0
  %p.less = sub i64 %p, 1
  %p.at = select i1 %is.first, i64 0, i64 %p.less
  %p.factors = mul i64 %p.at, %less
  %w = getelementptr [2 x $type], ptr %turns, i64 %p.factors
  %read = mul i64 %p, %s
  %write = mul i64 %read, %r
  br label %next.q
next.q:
  %q = phi i64 [ 0, %next.p ], [ %q.next, %end.q ]
  %begin = add i64 %read, %q
  %put = add i64 %write, %q
$first
  br label %pair
pair:
  %j = phi i64 [ 0, %next.q ], [ %j.more, %pair ]
  %t.re = phi $V [ %a.re, %next.q ], [ %t.all.re, %pair ]
  %t.im = phi $V [ %a.im, %next.q ], [ %t.all.im, %pair ]
  %j.more = add i64 %j, 1
  %near.far = mul i64 %j.more, %ms
  %near = add i64 %begin, %near.far
  %j.other = sub i64 %r, %j.more
  %over.far = mul i64 %j.other, %ms
  %over = add i64 %begin, %over.far
$near
$over
  %sum.re = fadd $V %x.re, %y.re
  %sum.im = fadd $V %x.im, %y.im
  %rest.re = fsub $V %x.re, %y.re
  %rest.im = fsub $V %x.im, %y.im
  %t.all.re = fadd $V %t.re, %sum.re
  %t.all.im = fadd $V %t.im, %sum.im
  %keep.sum.re = getelementptr [4 x $V], ptr %kept, i64 %j, i64 0
  %keep.sum.im = getelementptr [4 x $V], ptr %kept, i64 %j, i64 1
  %keep.rest.re = getelementptr [4 x $V], ptr %kept, i64 %j, i64 2
  %keep.rest.im = getelementptr [4 x $V], ptr %kept, i64 %j, i64 3
  store $V %sum.re, ptr %keep.sum.re, align 32
  store $V %sum.im, ptr %keep.sum.im, align 32
  store $V %rest.re, ptr %keep.rest.re, align 32
  store $V %rest.im, ptr %keep.rest.im, align 32
  %j.again = icmp ult i64 %j.more, %h
  br i1 %j.again, label %pair, label %total
total:
$total
  br label %next.i
next.i:
  %i = phi i64 [ 1, %total ], [ %i.next, %end.i ]
  %i.after = add i64 %i, 1
  %i.next = add i64 %i, 2
  %i.two = call i64 @llvm.umin.i64(i64 %i.after, i64 %h)
$rows
  br label %sum
sum:
  %k = phi i64 [ 0, %next.i ], [ %k.next, %sum ]
$phis
  %k.next = add i64 %k, 1
  %kept.sum.re = getelementptr [4 x $V], ptr %kept, i64 %k, i64 0
  %kept.sum.im = getelementptr [4 x $V], ptr %kept, i64 %k, i64 1
  %kept.rest.re = getelementptr [4 x $V], ptr %kept, i64 %k, i64 2
  %kept.rest.im = getelementptr [4 x $V], ptr %kept, i64 %k, i64 3
  %s.re = load $V, ptr %kept.sum.re, align 32
  %s.im = load $V, ptr %kept.sum.im, align 32
  %d.re = load $V, ptr %kept.rest.re, align 32
  %d.im = load $V, ptr %kept.rest.im, align 32
$sums
  %k.again = icmp ult i64 %k.next, %h
  br i1 %k.again, label %sum, label %end.i
end.i:
$results
  %i.again = icmp ule i64 %i.next, %h
  br i1 %i.again, label %next.i, label %end.q
end.q:
  %q.next = add i64 %q, 1
  %q.again = icmp ult i64 %q.next, %s
  br i1 %q.again, label %next.q, label %end.p
end.p:
  %p.next = add i64 %p, 1
  %p.again = icmp ult i64 %p.next, %m
  br i1 %p.again, label %next.p, label %done
done:
  ret void
}

declare i64 @llvm.umin.i64(i64, i64)
""")

#: The halves of an element, read or written.
_READ = Template("""
  %$n.two = shl i64 %$place, 1
  %$n.re.place = add i64 %$n.two, %re
  %$n.im.place = add i64 %$n.two, %im
  %$n.re.at = getelementptr $V, ptr %from, i64 %$n.re.place
  %$n.im.at = getelementptr $V, ptr %from, i64 %$n.im.place
  %$n.re = load $V, ptr %$n.re.at, align 32
  %$n.im = load $V, ptr %$n.im.at, align 32""")
_WRITTEN = Template("""
  %$n.two = shl i64 %$place, 1
  %$n.re.place = add i64 %$n.two, %re
  %$n.im.place = add i64 %$n.two, %im
  %$n.re.at = getelementptr $V, ptr %to, i64 %$n.re.place
  %$n.im.at = getelementptr $V, ptr %to, i64 %$n.im.place
  store $V %$x.re, ptr %$n.re.at, align 32
  store $V %$x.im, ptr %$n.im.at, align 32""")
_EVERYWHERE = Template("""
  %$to.first = insertelement $V poison, $type %$number, i64 0
  %$to = shufflevector $V %$to.first, $V poison, <$LANES x i32> zeroinitializer""")

#: For one of two pairs of results: where its angles are; what is summed up; a sum; the results.
_ROW = Template("""
  %$i.less = sub i64 %$i, 1
  %$i.row = mul i64 %$i.less, %h
  %$i.angles = getelementptr [2 x $type], ptr %angles, i64 %$i.row""")
_PHIS = Template("""
  %$i.e.re = phi $V [ %a.re, %next.i ], [ %$i.e.re.more, %sum ]
  %$i.e.im = phi $V [ %a.im, %next.i ], [ %$i.e.im.more, %sum ]
  %$i.o.re = phi $V [ zeroinitializer, %next.i ], [ %$i.o.re.more, %sum ]
  %$i.o.im = phi $V [ zeroinitializer, %next.i ], [ %$i.o.im.more, %sum ]""")
_SUM = Template("""
  %$i.c.at = getelementptr [2 x $type], ptr %$i.angles, i64 %k
  %$i.s.at = getelementptr $type, ptr %$i.c.at, i64 1
  %$i.c.one = load $type, ptr %$i.c.at
  %$i.s.one = load $type, ptr %$i.s.at
$everywhere
  %$i.c.re = fmul contract $V %s.re, %$i.c
  %$i.c.im = fmul contract $V %s.im, %$i.c
  %$i.s.re = fmul contract $V %d.re, %$i.s
  %$i.s.im = fmul contract $V %d.im, %$i.s
  %$i.e.re.more = fadd contract $V %$i.e.re, %$i.c.re
  %$i.e.im.more = fadd contract $V %$i.e.im, %$i.c.im
  %$i.o.re.more = fadd contract $V %$i.o.re, %$i.s.re
  %$i.o.im.more = fadd contract $V %$i.o.im, %$i.s.im""")
_RESULTS = Template("""
  %$i.low.re = fsub $V %$i.e.re.more, %$i.o.im.more
  %$i.low.im = fadd $V %$i.e.im.more, %$i.o.re.more
  %$i.high.re = fadd $V %$i.e.re.more, %$i.o.im.more
  %$i.high.im = fsub $V %$i.e.im.more, %$i.o.re.more
  %$i.other = sub i64 %r, %$i
$ends""")
_TURNED = Template("""
  %$n.less = sub i64 %$place, 1
  %$n.w.at = getelementptr [2 x $type], ptr %w, i64 %$n.less
  %$n.v.at = getelementptr $type, ptr %$n.w.at, i64 1
  %$n.w.given = load $type, ptr %$n.w.at
  %$n.v.given = load $type, ptr %$n.v.at
  %$n.w.one = select i1 %is.first, $type 1.0, $type %$n.w.given
  %$n.v.one = select i1 %is.first, $type 0.0, $type %$n.v.given
$everywhere
  %$n.rr = fmul contract $V %$n.re, %$n.w
  %$n.ii = fmul contract $V %$n.im, %$n.v
  %$n.ri = fmul contract $V %$n.re, %$n.v
  %$n.ir = fmul contract $V %$n.im, %$n.w
  %$n.turned.re = fsub contract $V %$n.rr, %$n.ii
  %$n.turned.im = fadd contract $V %$n.ri, %$n.ir
  %$n.far = mul i64 %$place, %s
  %$n.place = add i64 %put, %$n.far
$written""")


def prime_ir(dtype: str) -> str:
    """The module of `pass` for odd radices, of f32 or f64 numbers."""
    element = "float" if dtype == "f32" else "double"
    given: dict[str, object] = {"type": element, "V": f"<{LANES} x {element}>", "LANES": LANES}

    def everywhere(name: str) -> str:
        return _EVERYWHERE.substitute(given, to=name, number=f"{name}.one")

    def end(n: str, place: str) -> str:
        written = _WRITTEN.substitute(given, n=f"{n}.to", place=f"{n}.place", x=f"{n}.turned")
        both = everywhere(f"{n}.w") + everywhere(f"{n}.v")
        return _TURNED.substitute(given, n=n, place=place, everywhere=both, written=written)

    pairs = ("i", "i.two")
    return _PASS.substitute(
        given,
        first=_READ.substitute(given, n="a", place="begin"),
        near=_READ.substitute(given, n="x", place="near"),
        over=_READ.substitute(given, n="y", place="over"),
        total=_WRITTEN.substitute(given, n="t.to", place="put", x="t.all"),
        rows="".join([_ROW.substitute(given, i=i) for i in pairs]),
        phis="".join([_PHIS.substitute(given, i=i) for i in pairs]),
        sums="".join([
            _SUM.substitute(given, i=i, everywhere=everywhere(f"{i}.c") + everywhere(f"{i}.s")) for i in pairs
        ]),
        results="".join([
            _RESULTS.substitute(given, i=i, ends=end(f"{i}.low", i) + end(f"{i}.high", f"{i}.other")) for i in pairs
        ]),
    )  # fmt: skip
