"""Passes of Fourier transforms as LLVM IR text: butterflies over elements that are vectors of numbers.

    void @pass(from, to, m, s, factors, re, im)

An element holds the real parts of LANES transforms, then their imaginary parts; `re` and `im` say which half is
which: the other way round, the transform is the inverse.  A pass (Stockham's) does

    to[q + s (r p + k)] = w^(p k) · sum over j of from[q + s (p + m j)] exp(-2πi j k / r)        w = exp(-2πi / (r m))

for all p < m, q < s: passes with r1 r2 ... = n, s = 1, r1, r1 r2, ..., m = n / (r s) give the transform in its
natural order.  `factors` are w^(p k) for k = 1 .. r - 1, of p = 1, 2, ...: nothing is multiplied by w^0.

Source: Van Loan, "Computational Frameworks for the Fast Fourier Transform" (1992), section 1.7.
"""

from __future__ import annotations

import itertools
import math
import struct

from .template import Template

__all__ = ["LANES", "RADICES", "pass_ir"]

#: How many transforms are done side by side.
LANES = 8
#: What such passes take, the first that fits (others: `fourier_prime_ir`): 8 is the largest that keeps its elements in
#: registers.
RADICES = (8, 4, 2, 3, 5, 7, 11, 13)

#: The names of the parts of a complex value.
_Complex = tuple[str, str]

_PASS = Template("""
define void @pass(
  ptr noalias %from, ptr noalias %to, i64 %m, i64 %s, ptr noalias %factors, i64 %re, i64 %im
) {
entry:
  %ms = mul i64 %m, %s
  br label %first
first:
  %fq = phi i64 [ 0, %entry ], [ %fq.next, %first ]
$first
  %fq.next = add i64 %fq, 1
  %f.more = icmp ult i64 %fq.next, %s
  br i1 %f.more, label %first, label %next
next:
  %p = phi i64 [ 1, %first ], [ %p.next, %row.end ]
  %more = icmp ult i64 %p, %m
  br i1 %more, label %row, label %done
row:
  %p.less = sub i64 %p, 1
  %at.factor = mul i64 %p.less, $FACTORS
  %w = getelementptr $type, ptr %factors, i64 %at.factor
  %read = mul i64 %p, %s
  %write = mul i64 %read, $R
$factors
  br label %one
one:
  %q = phi i64 [ 0, %row ], [ %q.next, %one ]
  %begin = add i64 %read, %q
  %put = add i64 %write, %q
$one
  %q.next = add i64 %q, 1
  %q.more = icmp ult i64 %q.next, %s
  br i1 %q.more, label %one, label %row.end
row.end:
  %p.next = add i64 %p, 1
  br label %next
done:
  ret void
}
""")

class _Lines:
    """Instructions on vectors; a product and a sum may become one that rounds once."""

    def __init__(self, element: str) -> None:
        self.element, self.vector = element, f"<{LANES} x {element}>"
        self.lines: list[str] = []
        self._numbers = itertools.count()

    def put(self, text: str) -> str:
        name = f"%v{next(self._numbers)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def taken(self) -> str:
        """The lines so far, which are forgotten."""
        lines, self.lines = self.lines, []
        return "\n".join(lines)

    def op(self, name: str, a: str, b: str) -> str:
        return self.put(f"{name} contract {self.vector} {a}, {b}")

    def number(self, value: float) -> str:
        """A constant in all lanes.  Text gives an f32 number as the f64 number that it is."""
        if self.element == "float":
            (value,) = struct.unpack("f", struct.pack("f", value))
        bits = struct.pack(">d", value).hex().upper()
        return f"<{', '.join([f'{self.element} 0x{bits}'] * LANES)}>"

    def add(self, a: _Complex, b: _Complex) -> _Complex:
        return self.op("fadd", a[0], b[0]), self.op("fadd", a[1], b[1])

    def sub(self, a: _Complex, b: _Complex) -> _Complex:
        return self.op("fsub", a[0], b[0]), self.op("fsub", a[1], b[1])

    def plus_i(self, a: _Complex, b: _Complex) -> _Complex:
        """a + i b"""
        return self.op("fsub", a[0], b[1]), self.op("fadd", a[1], b[0])

    def minus_i(self, a: _Complex, b: _Complex) -> _Complex:
        """a - i b"""
        return self.op("fadd", a[0], b[1]), self.op("fsub", a[1], b[0])

    def scaled(self, a: _Complex, factor: float) -> _Complex:
        c = self.number(factor)
        return self.op("fmul", a[0], c), self.op("fmul", a[1], c)

    def times(self, a: _Complex, w: _Complex) -> _Complex:
        return (
            self.op("fsub", self.op("fmul", a[0], w[0]), self.op("fmul", a[1], w[1])),
            self.op("fadd", self.op("fmul", a[0], w[1]), self.op("fmul", a[1], w[0])),
        )

    def part(self, base: str, element: str, half: str) -> str:
        """Where one half of an element is."""
        vectors = self.put(f"shl i64 {element}, 1")
        at = self.put(f"add i64 {vectors}, {half}")
        return self.put(f"getelementptr {self.vector}, ptr {base}, i64 {at}")

    def read(self, base: str, element: str) -> _Complex:
        re, im = [self.part(base, element, half) for half in ("%re", "%im")]
        return self.put(f"load {self.vector}, ptr {re}, align 32"), self.put(f"load {self.vector}, ptr {im}, align 32")

    def write(self, value: _Complex, base: str, element: str) -> None:
        for half, part in zip(("%re", "%im"), value, strict=True):
            self.lines.append(f"  store {self.vector} {part}, ptr {self.part(base, element, half)}, align 32")

    def everywhere(self, number: str) -> str:
        first = self.put(f"insertelement {self.vector} poison, {self.element} {number}, i64 0")
        zeros = f"<{LANES} x i32> zeroinitializer"
        return self.put(f"shufflevector {self.vector} {first}, {self.vector} poison, {zeros}")

    def factor(self, k: int) -> _Complex:
        """The k-th pair of numbers from %w on, in all lanes."""
        found = []
        for at in (2 * k, 2 * k + 1):
            place = self.put(f"getelementptr {self.element}, ptr %w, i64 {at}")
            found.append(self.everywhere(self.put(f"load {self.element}, ptr {place}")))
        return found[0], found[1]


def _two(k: _Lines, a: list[_Complex]) -> list[_Complex]:
    return [k.add(a[0], a[1]), k.sub(a[0], a[1])]


def _four(k: _Lines, a: list[_Complex]) -> list[_Complex]:
    (even, far), (odd, side) = _two(k, [a[0], a[2]]), _two(k, [a[1], a[3]])
    return [k.add(even, odd), k.minus_i(far, side), k.sub(even, odd), k.plus_i(far, side)]


def _eight(k: _Lines, a: list[_Complex]) -> list[_Complex]:
    even, odd = _four(k, a[0::2]), _four(k, a[1::2])
    half = math.sqrt(0.5)
    # odd times (1 - i) and -(1 + i), both by the root of a half
    one = k.scaled((k.op("fadd", odd[1][0], odd[1][1]), k.op("fsub", odd[1][1], odd[1][0])), half)
    three = k.scaled((k.op("fsub", odd[3][1], odd[3][0]), k.op("fadd", odd[3][0], odd[3][1])), half)
    low = [k.add(even[0], odd[0]), k.add(even[1], one), k.minus_i(even[2], odd[2]), (
        k.op("fadd", even[3][0], three[0]), k.op("fsub", even[3][1], three[1]))]  # fmt: skip
    high = [k.sub(even[0], odd[0]), k.sub(even[1], one), k.plus_i(even[2], odd[2]), (
        k.op("fsub", even[3][0], three[0]), k.op("fadd", even[3][1], three[1]))]  # fmt: skip
    return low + high


def _odd(k: _Lines, a: list[_Complex]) -> list[_Complex]:
    """Of an odd number of elements: those j from either end have the same cosines, and opposite sines."""
    r = len(a)
    half = range(1, r // 2 + 1)
    sums, differences = [k.add(a[j], a[r - j]) for j in half], [k.sub(a[j], a[r - j]) for j in half]
    results = [a[0]] * r
    for s in sums:
        results[0] = k.add(results[0], s)
    for i in half:
        angles = [2 * math.pi * (i * j % r) / r for j in half]
        even, odd = a[0], k.scaled(differences[0], math.sin(angles[0]))
        for s, angle in zip(sums, angles, strict=True):
            even = k.add(even, k.scaled(s, math.cos(angle)))
        for d, angle in zip(differences[1:], angles[1:], strict=True):
            odd = k.add(odd, k.scaled(d, math.sin(angle)))
        results[i], results[r - i] = k.minus_i(even, odd), k.plus_i(even, odd)
    return results


_BUTTERFLIES = {2: _two, 4: _four, 8: _eight}


def _body(k: _Lines, radix: int, begin: str, put: str, factors: list[_Complex]) -> str:
    """One butterfly: elements %ms apart from `begin` on, to those %s apart from `put` on."""
    places = [begin]
    for _ in range(radix - 1):
        places.append(k.put(f"add i64 {places[-1]}, %ms"))
    results = _BUTTERFLIES.get(radix, _odd)(k, [k.read("%from", place) for place in places])
    for j, result in enumerate(results):
        k.write(k.times(result, factors[j - 1]) if factors and j else result, "%to", put)
        put = k.put(f"add i64 {put}, %s") if j < radix - 1 else put
    return k.taken()


def pass_ir(dtype: str, radix: int) -> str:
    """The module of `pass` for one radix, of f32 or f64 numbers."""
    element = "float" if dtype == "f32" else "double"
    k = _Lines(element)
    first = _body(k, radix, "%fq", "%fq", [])
    factors = [k.factor(j) for j in range(radix - 1)]
    return _PASS.substitute(
        R=radix, type=element, FACTORS=2 * (radix - 1), first=first, factors=k.taken(),
        one=_body(k, radix, "%begin", "%put", factors),
    )  # fmt: skip
