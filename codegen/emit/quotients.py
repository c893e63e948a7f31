"""Quotients and remainders of vectors of 64-bit integers, by doubles.

    a, b within 2^51:    da = double(a + bits(1.5 2^52)) - 1.5 2^52,  db alike
                         a // b = floor(da / db),    a rem b = da - trunc(da / db) db
    others               one by one, behind a branch; positions in arrays are certainly within

No vector unit divides integers.  Where a / b is no integer it is at least 1 / |b| from one, and the double next to it
is nearer to it than a quarter of that; and what a remainder is made of is below 2^52, so exact.  Of 1e5 integers, us,
AVX2: by a number 217, so 49.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.nest import F64, I64, INDEX, Operation, known_integer
from .operations import SCALAR

if TYPE_CHECKING:
    from .vector_loop import VectorLoop

__all__ = ["is_by_doubles", "quotient"]

_NAMES = ("arith.divsi", "arith.remsi", "arith.floordivsi")
_BOUND = 1 << 51
_MAGIC = 1.5 * 2.0**52
_MAGIC_BITS = 0x4338_0000_0000_0000


def is_by_doubles(operation: Operation, lanes: int) -> bool:
    """True if the operation divides several 64-bit integers, by no power of two, which would be a shift."""
    if operation.name not in _NAMES or lanes == 1 or operation.result.type not in (I64, INDEX):
        return False
    divisor = known_integer(operation.operands[1])
    return divisor is None or divisor <= 0 or divisor & (divisor - 1) != 0


def quotient(w: VectorLoop, operation: Operation, operands: list[str]) -> str:
    """The result's name."""
    if operation.result.type is INDEX:
        return _by_doubles(w, operation.name, operands)
    type = w.spelled(I64)
    a, b = [w.value(f"add {type} {x}, {w.literal(_BOUND, I64)}") for x in operands]
    beyond = w.value(f"lshr {type} {w.value(f'or {type} {a}, {b}')}, {w.literal(52, I64)}")
    callee = w.declare(f"llvm.vector.reduce.or.{w.suffix(I64)}", "i64", (type,))
    test = w.value(f"icmp eq i64 {w.value(f'call i64 {callee}({type} {beyond})')}, 0")
    found = w.either_way(
        "small", test, lambda: _by_doubles(w, operation.name, operands),
        lambda: SCALAR[operation.name](w, operation, operands),
    )  # fmt: skip
    return w.value(f"phi {type} {', '.join(found)}")


def _by_doubles(w: VectorLoop, name: str, operands: list[str]) -> str:
    integer, double = w.spelled(I64), w.spelled(F64)
    bits, magic = w.literal(_MAGIC_BITS, I64), w.literal(_MAGIC, F64)
    a, b = [
        w.value(f"fsub {double} {w.value(f'bitcast {integer} {moved} to {double}')}, {magic}")
        for moved in [w.value(f"add {integer} {x}, {bits}") for x in operands]
    ]
    rounding = "floor" if name == "arith.floordivsi" else "trunc"
    callee = w.declare(f"llvm.{rounding}.{w.suffix(F64)}", double, (double,))
    found = w.value(f"call {double} {callee}({double} {w.value(f'fdiv {double} {a}, {b}')})")
    if name == "arith.remsi":
        found = w.value(f"fsub {double} {a}, {w.value(f'fmul {double} {found}, {b}')}")
    moved = w.value(f"fadd {double} {found}, {magic}")
    return w.value(f"sub {integer} {w.value(f'bitcast {double} {moved} to {integer}')}, {bits}")
