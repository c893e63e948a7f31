"""Threefry-2x32: two words out of a key and a number, and a float out of a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.garbage import ignoring
from codegen.ir import DTYPES, Aval
from codegen.lowering import Map

from ..primitive import broadcast_avals, expect, primitive

__all__ = ["fraction", "threefry"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_ROUNDS = 5  # of four each


def _threefry_aval(*avals: Aval, dtype: str) -> Aval:
    expect("threefry", avals, "i")
    return Aval(broadcast_avals("threefry", avals), DTYPES[dtype])


def _threefry_reference(k0, k1, high, low, *, dtype):
    keys = [np.asarray(k).astype(np.uint32) for k in (k0, k1)]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(_PARITY))
    with ignoring(over="ignore"):
        x0, x1 = (np.asarray(x).astype(np.uint32) + k for x, k in zip((high, low), keys, strict=False))
        for i in range(_ROUNDS):
            for r in _ROTATIONS[i % 2]:
                x0 = x0 + x1
                x1 = (x1 << np.uint32(r) | x1 >> np.uint32(32 - r)) ^ x0
            x0, x1 = x0 + keys[(i + 1) % 3], x1 + keys[(i + 2) % 3] + np.uint32(i + 1)
    if dtype == "i32":
        return np.asarray(x0 ^ x1).view(np.int32)
    return np.asarray(x0.astype(np.uint64) << np.uint64(32) | x1).view(np.int64)


def _threefry_scalar(k: Any, k0: Any, k1: Any, high: Any, low: Any, *, dtype: str) -> Any:
    def number(value: int) -> Any:
        return k.constant(value, "i32")

    def turned(x: Any, by: int) -> Any:
        kept = k.bit_and(k.shift_right(x, number(32 - by)), number((1 << by) - 1))
        return k.bit_or(k.shift_left(x, number(by)), kept)

    keys = (k0, k1, k.bit_xor(k.bit_xor(k0, k1), number(_PARITY)))
    x0, x1 = k.add(high, k0), k.add(low, k1)
    for i in range(_ROUNDS):
        for by in _ROTATIONS[i % 2]:
            x0 = k.add(x0, x1)
            x1 = k.bit_xor(turned(x1, by), x0)
        x0, x1 = k.add(x0, keys[(i + 1) % 3]), k.add(x1, k.add(keys[(i + 2) % 3], number(i + 1)))
    if dtype == "i32":
        return k.bit_xor(x0, x1)
    above = k.shift_left(k.cast(x0, "i64"), k.constant(32, "i64"))
    return k.bit_or(above, k.bit_and(k.cast(x1, "i64"), k.constant(0xFFFFFFFF, "i64")))


#: threefry(k0, k1, high, low): both words of the result (i64), or one exclusive-or the other (i32).
threefry = primitive(
    "threefry",
    _threefry_reference,
    infer=_threefry_aval,
    lower=Map(_threefry_scalar),
    params=("dtype",),
    discrete=True,
    traits=("elementwise",),
)


def _fraction_aval(bits: Aval) -> Aval:
    expect("fraction", (bits,), "i")
    return bits.with_dtype(DTYPES[f"f{8 * bits.dtype.itemsize}"])


#: Of i32 and i64: the bits that make the fraction of a float, and the float that one of them is worth.
_FRACTION = {"i32": (23, 2.0**-23), "i64": (52, 2.0**-52)}


def _fraction_reference(bits: np.ndarray) -> np.ndarray:
    kept, unit = _FRACTION[f"i{8 * bits.dtype.itemsize}"]
    shifted = bits.view(f"u{bits.dtype.itemsize}") >> (8 * bits.dtype.itemsize - kept)
    return (shifted * unit).astype(f"f{bits.dtype.itemsize}")


def _fraction_scalar(k: Any, bits: Any) -> Any:
    kept, unit = _FRACTION[k.dtype(bits)]
    shifted = k.shift_right(bits, k.constant(bits.type.bits - kept, like=bits))
    number = k.cast(k.bit_and(shifted, k.constant((1 << kept) - 1, like=bits)), f"f{bits.type.bits}")
    return k.mul(number, k.constant(unit, like=number))


#: The first bits of an integer as a float in [0, 1).
fraction = primitive(
    "fraction",
    _fraction_reference,
    infer=_fraction_aval,
    lower=Map(_fraction_scalar),
    discrete=True,
    traits=("elementwise",),
)
