"""Passes of Fourier transforms in native Python (`codegen.native`): butterflies over elements that are vectors.

    fourier_pass(given, taken, m, s, factors)

An element is LANES real parts, then as many imaginary ones: transforms are done side by side.  With r the radix, a pass
(Stockham's) does

    taken[q + s (r p + k)] = w^(p k) · sum over j of given[q + s (p + m j)] exp(-2πi j k / r)     w = exp(-2πi / (r m))

for all p < m, q < s: passes with r1 r2 ... = n, s = 1, r1, r1 r2, ..., m = n / (r s) give the transform in its
natural order.  `factors` are w^(p k) for k = 1 .. r - 1, of p = 0, 1, ...  Before them come exp(-2πi j k / r) for
0 < j, k < r / 2.

Source: Van Loan, "Computational Frameworks for the Fast Fourier Transform" (1992), section 1.7.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..lowering import LANES
from ..native import f32, f64, i64, local, native, ptr, vector, void

FLOATS = {"f32": f32, "f64": f64}


def pass_of(dtype, radix):
    """`fourier_pass` for a radix, of f32 or f64 numbers."""
    number, half = FLOATS[dtype], (radix - 1) // 2
    element, butterfly = vector[number, LANES], butterfly_of(number, radix)

    @native
    def fourier_pass(given: ptr[element], taken: ptr[element], m: i64, s: i64, factors: ptr[number]) -> void:
        w = factors + 2 * half * half
        for p in range(m):
            for q in range(s):
                butterfly(given + 2 * (p * s + q), taken + 2 * (p * s * radix + q), m * s, s, w, factors)
            w += 2 * (radix - 1)

    return fourier_pass


def butterfly_of(number, radix):
    """The sums for one p and q.  Elements j from either end have the same cosines, and opposite sines; the one in the
    middle, where there is one, is added for even k and taken away for odd ones."""
    element, half, is_even = vector[number, LANES], (radix - 1) // 2, radix % 2 == 0
    pairs, parts = tuple(range(half)), (0, 1)

    @native(inline=True, contract=True)
    def put(taken: ptr[element], w: ptr[number], re: element, im: element) -> void:
        c = element(w[0])
        d = element(w[1])
        taken[0] = re * c - im * d
        taken[1] = re * d + im * c

    @native(inline=True, contract=True)
    def butterfly(
        given: ptr[element], taken: ptr[element], apart: i64, s: i64, w: ptr[number], angles: ptr[number]
    ) -> void:  # fmt: skip
        sums = local(element, 2 * radix)
        differences = local(element, 2 * radix)
        alone = local(element, 4)  # of even k, then of odd ones
        all_ = local(element, 4)  # of k = 0, then of the middle one
        found = local(element, 4)
        for part in parts:
            alone[part] = given[part]
            alone[2 + part] = given[part]
            if is_even:
                middle = given[radix * apart + part]
                alone[part] += middle
                alone[2 + part] -= middle
            all_[part] = alone[part]
            all_[2 + part] = alone[(half + 1) % 2 * 2 + part]
            for j in pairs:
                near = given[2 * (j + 1) * apart + part]
                over = given[2 * (radix - 1 - j) * apart + part]
                sums[2 * j + part] = near + over
                differences[2 * j + part] = near - over
                all_[part] += sums[2 * j + part]
                if j % 2:
                    all_[2 + part] += sums[2 * j + part]
                else:
                    all_[2 + part] -= sums[2 * j + part]
        taken[0] = all_[0]
        taken[1] = all_[1]
        if is_even:
            put(taken + radix * s, w + radix - 2, all_[2], all_[3])
        for k in pairs:
            for part in parts:
                found[part] = alone[(k + 1) % 2 * 2 + part]
                found[2 + part] = element(0.0)
            for j in pairs:
                c = element(angles[2 * (k * half + j)])
                d = element(angles[2 * (k * half + j) + 1])
                for part in parts:
                    found[part] += sums[2 * j + part] * c
                    found[2 + part] += differences[2 * j + part] * d
            put(taken + 2 * (k + 1) * s, w + 2 * k, found[0] - found[3], found[1] + found[2])
            put(taken + 2 * (radix - 1 - k) * s, w + 2 * (radix - 2 - k), found[0] + found[3], found[1] - found[2])

    return butterfly
