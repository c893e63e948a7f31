"""Quotients of a vector by a number that is the same in all iterations: its inverse is found once, before the loop.

    z = 1 / c                     before the loop
    q = x z                       less than two units of its last place from x / c
    r = x - q c                   exactly
    x / c = q + r z               rounded as a division rounds

Source: Brisebarre, Muller, Raina, "Accelerating correctly rounded floating-point division when the divisor is known in
advance", IEEE Transactions on Computers 53 (2004), which owe it to Markstein.  Three operations, where a division keeps
the one unit that divides busy as long as thirty of them (512 bits of doubles: 17 cycles, Sapphire Rapids; 10, Zen 4).

Only a remainder that is no number's is inexact: of a double x below 2^-968, of a float below 2^-101, the quotient is
within 1.5 ulp.  Where q is 0, infinite, nan or subnormal, it is the quotient.  A huge or tiny c is scaled by a power of
two, as its inverse would be no number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..kernel.nest import F32, F64, I1, Operation, ScalarType, Value
from .types import LLVM_TYPES, float_literal, vector_type

if TYPE_CHECKING:
    from .vector_loop import VectorLoop

__all__ = ["by_inverse", "has_inverse"]

#: From so many registers full of quotients on, one inverse takes less time than they: it is waited for, once.
#: Floats are divided in 10 cycles a register: of rows of 200, layer norm and its gradient took 1.04 of the time.
_FEWEST = {F64: 8, F32: 16}
#: Beyond this power of two, or below its inverse, a divisor is scaled, by this power: 1/c and x/c are numbers then.
_SCALES = {F64: (1000, 200), F32: (100, 40)}
#: What vfpclass calls zeros (2 and 4), infinities (8 and 16), subnormal numbers (32) and nan (1 and 128).
_NO_REMAINDER = 2 | 4 | 8 | 16 | 32 | 1 | 128


def has_inverse(w: VectorLoop, operation: Operation) -> bool:
    """True if an operation is such a quotient, of full registers, in a loop that is long enough."""
    if operation.name != "arith.divf" or not w.repeats or not w.body.target.has_scale or not w.body.target.has_fma:
        return False
    type, divisor = operation.result.type, operation.operands[1]
    if type not in _SCALES or divisor in w.inside or w.is_varying(divisor):
        return False
    vectors = w.lanes * type.bits // (8 * w.body.target.vector_bytes)
    return vectors > 0 and not _is_power_of_two(divisor) and w.repeats * vectors >= _FEWEST[type]


def _is_power_of_two(divisor: Value) -> bool:
    """True if the divisor is a power of two, for which LLVM multiplies by itself."""
    owner = divisor.owner
    if not isinstance(owner, Operation) or owner.name != "arith.constant":
        return False
    return abs(math.frexp(owner.attributes["value"])[0]) == 1 / 2


def by_inverse(w: VectorLoop, operation: Operation, operands: list[str]) -> str:
    """The result's name."""
    type, divisor, (x, _) = operation.result.type, operation.operands[1], operands
    assert isinstance(type, ScalarType)
    if divisor not in w.inverses:
        w.inverses[divisor] = _inverse(w, type, divisor)
    minus_c, z, scale = w.inverses[divisor]
    vector = w.spelled(type)
    fma = w.declare(f"llvm.fma.{w.suffix(type)}", vector, (vector,) * 3)
    q = w.value(f"fmul {vector} {x}, {z}")
    r = w.value(f"call {vector} {fma}({vector} {q}, {vector} {minus_c}, {vector} {x})")
    rounded = w.value(f"call {vector} {fma}({vector} {r}, {vector} {z}, {vector} {q})")
    kept = w.value(f"select {w.spelled(I1)} {_is_kept(w, type, q)}, {vector} {q}, {vector} {rounded}")
    return w.value(f"fmul contract {vector} {kept}, {scale}")


def _inverse(w: VectorLoop, type: ScalarType, divisor: Value) -> tuple[str, str, str]:
    """(-c s, 1 / (c s), s) in all lanes, s a power of two; LLVM computes what is known."""
    one, name = LLVM_TYPES[type], w.body.names[divisor]
    limit, power = (float(2**n) for n in _SCALES[type])

    def number(value: float) -> str:
        return float_literal(value, single=type is F32)

    absolute = w.declare(f"llvm.fabs.{'f32' if type is F32 else 'f64'}", one, (one,))
    size = w.hoist(f"call {one} {absolute}({one} {name})")
    is_huge = w.hoist(f"fcmp ogt {one} {size}, {number(limit)}")
    is_tiny = w.hoist(f"fcmp olt {one} {size}, {number(1 / limit)}")
    scale = w.hoist(f"select i1 {is_tiny}, {one} {number(power)}, {one} {number(1.0)}")
    scale = w.hoist(f"select i1 {is_huge}, {one} {number(1 / power)}, {one} {scale}")
    c = w.hoist(f"fmul {one} {name}, {scale}")
    z = w.hoist(f"fdiv {one} {number(1.0)}, {c}")
    minus_c = w.hoist(f"fneg {one} {c}")
    return w.splat(type, minus_c), w.splat(type, z), w.splat(type, scale)


def _is_kept(w: VectorLoop, type: ScalarType, q: str) -> str:
    """The mask of lanes in which q is the quotient as it is."""
    lanes = 8 * w.body.target.vector_bytes // type.bits
    register, bits = vector_type(LLVM_TYPES[type], lanes), f"<{lanes} x i1>"
    callee = w.declare(f"llvm.x86.avx512.fpclass.{'ps' if type is F32 else 'pd'}.512", bits, (register, "i32"))
    parts = []
    for first in range(0, w.lanes, lanes):
        part = q
        if lanes != w.lanes:
            places = ", ".join(f"i32 {first + j}" for j in range(lanes))
            part = w.value(f"shufflevector {w.spelled(type)} {q}, {w.spelled(type)} poison, <{lanes} x i32> <{places}>")
        parts.append(w.value(f"call {bits} {callee}({register} {part}, i32 {_NO_REMAINDER})"))
    while len(parts) > 1:
        places = ", ".join(f"i32 {j}" for j in range(2 * lanes))
        parts = [
            w.value(f"shufflevector <{lanes} x i1> {a}, <{lanes} x i1> {b}, <{2 * lanes} x i32> <{places}>")
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        lanes *= 2
    return parts[0]
