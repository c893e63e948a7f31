"""Passes of Fourier transforms in native Python (`codegen.native`): butterflies over elements that are vectors.

    fourier_pass(given, taken, m, s, factors)

An element is LANES real parts, then as many imaginary ones: transforms are done side by side.  With r the radix, a pass
(Stockham's) does

    taken[q + s (r p + k)] = w^(p k) · sum over j of given[q + s (p + m j)] exp(-2πi j k / r)     w = exp(-2πi / (r m))

for all p < m, q < s: passes with r1 r2 ... = n, s = 1, r1, r1 r2, ..., m = n / (r s) give the transform in its
natural order.  `factors` are w^(p k) for k = 1 .. r - 1, of p = 1, 2, ...: nothing is multiplied by w^0.  Of an odd
radix exp(-2πi j k / r) for 0 < j, k <= h come before them, h = r // 2.

Source: Van Loan, "Computational Frameworks for the Fast Fourier Transform" (1992), section 1.7.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

import math

from ..lowering import LANES
from ..native import f32, f64, i64, local, native, ptr, vector, void

FLOATS = {"f32": f32, "f64": f64}


def pass_of(dtype, radix):
    """`fourier_pass` for a radix, of f32 or f64 numbers."""
    number, half, is_odd = FLOATS[dtype], radix // 2, radix % 2 == 1
    element = vector[number, LANES]
    butterfly = odd_butterfly(number, radix) if is_odd else even_butterfly(number, radix)

    @native
    def fourier_pass(given: ptr[element], taken: ptr[element], m: i64, s: i64, factors: ptr[number]) -> void:
        w = factors + 2 * half * half if is_odd else factors
        for q in range(s):
            butterfly(given + 2 * q, taken + 2 * q, m * s, s, w, factors, False)
        for p in range(1, m):
            for q in range(s):
                butterfly(given + 2 * (p * s + q), taken + 2 * (p * s * radix + q), m * s, s, w, factors, True)
            w += 2 * (radix - 1)

    return fourier_pass


def put_of(number):
    """The function that writes an element, or its product with a factor."""
    element = vector[number, LANES]

    @native(inline=True, contract=True)
    def put(taken: ptr[element], w: ptr[number], re: element, im: element, is_turned: bool) -> void:
        if is_turned:
            c = element(w[0])
            d = element(w[1])
            taken[0] = re * c - im * d
            taken[1] = re * d + im * c
        else:
            taken[0] = re
            taken[1] = im

    return put


def even_butterfly(number, radix):
    """A butterfly of a power of two: each of its steps adds and subtracts two elements a distance apart, and turns the
    difference by some eighths of a circle."""
    element, put = vector[number, LANES], put_of(number)
    bits = radix.bit_length() - 1
    distances = [radix >> level + 1 for level in range(bits)]
    pairs = [(d, i, j) for d in distances for i in range(0, radix, 2 * d) for j in range(d)]
    steps = tuple([(2 * (i + j), 2 * (i + j + d), 4 * j // d) for d, i, j in pairs])
    places = tuple([(j, 2 * j) for j in range(radix)])
    results = tuple([(k, 2 * int(f"{k:0{bits}b}"[::-1], 2)) for k in range(1, radix)])
    root = math.sqrt(0.5)

    @native(inline=True, contract=True)
    def butterfly(
        given: ptr[element], taken: ptr[element], apart: i64, s: i64, w: ptr[number], angles: ptr[number],
        is_turned: bool,
    ) -> void:  # fmt: skip
        a = local(element, 2 * radix)
        for j, at in places:
            x = given + 2 * j * apart
            a[at] = x[0]
            a[at + 1] = x[1]
        for low, high, eighths in steps:
            re = a[low] - a[high]
            im = a[low + 1] - a[high + 1]
            a[low] += a[high]
            a[low + 1] += a[high + 1]
            if eighths == 0:
                a[high] = re
                a[high + 1] = im
            elif eighths == 1:
                a[high] = (re + im) * element(root)
                a[high + 1] = (im - re) * element(root)
            elif eighths == 2:
                a[high] = im
                a[high + 1] = -re
            else:
                a[high] = (im - re) * element(root)
                a[high + 1] = (re + im) * element(-root)
        taken[0] = a[0]
        taken[1] = a[1]
        for k, place in results:
            put(taken + 2 * k * s, w + 2 * k - 2, a[place], a[place + 1], is_turned)

    return butterfly


def odd_butterfly(number, radix):
    """A butterfly of an odd number of elements: those j from either end have the same cosines, and opposite sines."""
    element, half, put = vector[number, LANES], radix // 2, put_of(number)
    pairs = tuple(range(half))

    @native(inline=True, contract=True)
    def butterfly(
        given: ptr[element], taken: ptr[element], apart: i64, s: i64, w: ptr[number], angles: ptr[number],
        is_turned: bool,
    ) -> void:  # fmt: skip
        kept = local(element, 4 * half)
        sums = local(element, 4)
        first_re = given[0]
        first_im = given[1]
        all_re = first_re
        all_im = first_im
        for j in pairs:
            near = given + 2 * (j + 1) * apart
            over = given + 2 * (radix - 1 - j) * apart
            kept[4 * j] = near[0] + over[0]
            kept[4 * j + 1] = near[1] + over[1]
            kept[4 * j + 2] = near[0] - over[0]
            kept[4 * j + 3] = near[1] - over[1]
            all_re += kept[4 * j]
            all_im += kept[4 * j + 1]
        taken[0] = all_re
        taken[1] = all_im
        for i in pairs:
            sums[0] = first_re
            sums[1] = first_im
            sums[2] = element(0.0)
            sums[3] = element(0.0)
            for j in pairs:
                c = element(angles[2 * (i * half + j)])
                d = element(angles[2 * (i * half + j) + 1])
                sums[0] += kept[4 * j] * c
                sums[1] += kept[4 * j + 1] * c
                sums[2] += kept[4 * j + 2] * d
                sums[3] += kept[4 * j + 3] * d
            near_to = taken + 2 * (i + 1) * s
            over_to = taken + 2 * (radix - 1 - i) * s
            put(near_to, w + 2 * i, sums[0] - sums[3], sums[1] + sums[2], is_turned)
            put(over_to, w + 2 * (radix - 2 - i), sums[0] + sums[3], sums[1] - sums[2], is_turned)

    return butterfly
