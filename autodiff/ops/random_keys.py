"""Keys of random numbers, and random bits: Threefry-2x32 gives two words from a key and a counter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from codegen.ir import DTYPES, Aval
from codegen.lowering import Map

from ..errors import DTypeError, ShapeError, in_short, located
from ..tape import constant
from ..tensor import Tensor
from .arrays import on_arrays
from .conversion import as_tensor, cast_to, dtype_of
from .creation import extents_of, iota
from .joining import stack
from .primitive import I32, I64, Ints, broadcast_avals, primitive
from .shaping import reshape
from .slicing import part
from .template import public

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_ROUNDS = 5  # groups of four rounds each


def _threefry(k: Any, k0: Any, k1: Any, high: Any, low: Any, *, dtype: str) -> Any:
    def number(value: int) -> Any:
        return k.constant(value, like=k0)

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
    high, low = k.cast(x0, "i64"), k.cast(x1, "i64")
    return k.bit_or(k.shift_left(high, k.constant(32, like=high)), k.bit_and(low, k.constant(0xFFFFFFFF, like=low)))


#: threefry(k0, k1, high, low): both words of the result as one i64, or their exclusive or as an i32.
threefry = primitive(
    "threefry",
    on_arrays(_threefry, casts=True),
    infer=lambda *avals, dtype: Aval(broadcast_avals("threefry", avals), DTYPES[dtype]),
    lower=Map(_threefry),
    discrete=True,
)


#: For i32 and i64: (the number of bits in the fraction of a float of this width, the value of its lowest bit).
_FRACTION = {"i32": (23, 2.0**-23), "i64": (52, 2.0**-52)}


def _fraction(k, bits):
    (kept, unit), width = _FRACTION[k.dtype(bits)], int(k.dtype(bits)[1:])
    shifted = k.shift_right(bits, k.constant(width - kept, like=bits))
    number = k.cast(k.bit_and(shifted, k.constant((1 << kept) - 1, like=bits)), f"f{width}")
    return k.mul(number, k.constant(unit, like=number))


#: The highest bits of an integer as a float in [0, 1).
fraction = primitive(
    "fraction",
    on_arrays(_fraction, casts=True),
    infer=lambda bits: bits.with_dtype(DTYPES[f"f{8 * bits.dtype.itemsize}"]),
    lower=Map(_fraction),
    discrete=True,
)


def of_key(name: str, key: Any) -> Tensor:
    """A key as a tensor.  Raises TypeError for an argument that is no array (most often a seed)."""
    if not isinstance(key, (Tensor, np.ndarray)):
        raise TypeError(located(f"random.{name}: {in_short(key)} is no key", "make one of a seed: ad.random.key(0)"))
    key = as_tensor(key, f"random.{name}", "key")
    if key.shape != (2,) or key.dtype != I32:
        raise ShapeError(located(
            f"random.{name}: a key is an i32[2], got {key.aval}",
            "make one by ad.random.key(seed); for several at once ad.vmap over them",
        ))
    return key


def _words(key: Tensor, high: Tensor, low: Tensor, dtype: str) -> Tensor:
    first, second = (reshape(part(key, 0, n, n + 1), ()) for n in range(2))
    return threefry(first, second, high, low, dtype=dtype)


def numbered(key: Tensor, shape: Ints, dtype: str) -> Tensor:
    """Random words for each element of an array, from its position: one (i32) or two (i64)."""
    size = math.prod(shape)
    if size <= np.iinfo(I32).max:
        low = iota((size,), 0, I32)
        return reshape(_words(key, constant(0, "i32"), low, dtype), shape)
    position = iota((size,), 0, I64)
    high = cast_to(position >> constant(32, "i64"), I32)
    return reshape(_words(key, high, cast_to(position, I32), dtype), shape)


def _pair(words: Tensor) -> Tensor:
    """The two words of each integer, the upper one first.   i64[...] → i32[..., 2]"""
    return stack([cast_to(words >> constant(32, "i64"), I32), cast_to(words, I32)], axis=-1)


def key(seed):
    """A key made from a seed.   i[]  →  i32[2]

    Raises TypeError for a seed that is no integer.

    >>> import autodiff as ad
    >>> ad.random.key(42).tolist()
    [0, 42]
    """
    seed = as_tensor(seed, "random.key", "seed")
    if seed.dtype.kind != "i" or seed.ndim:
        raise TypeError(located(f"random.key: a seed is an integer, got {seed.aval}"))
    return _pair(cast_to(seed, I64))


@public(1)
def split(key, num=2):
    """New keys from one, which should not be used again.   key: i32[2]  →  i32[num, 2]     num: int or shape

    Raises TypeError for a key that is no array, ShapeError for a negative number.

    >>> ad.random.split(ad.random.key(0), 3).shape
    (3, 2)
    """
    return _pair(numbered(of_key("split", key), extents_of("random.split", num), "i64"))


@public(takes_numbers=True)
def fold_in(key, data):
    """A key made from a key and an integer, such as a loop's step.   key: i32[2], data: i[]  →  i32[2]

    Raises TypeError for a key that is no array, or data that is no integer.

    >>> ad.random.fold_in(ad.random.key(0), 1)
    i32[2] [ 928981903 -841280227]
    >>> ad.random.fold_in(ad.random.key(0), 2)
    i32[2] [ -148943191 -1576124287]
    """
    data = as_tensor(data, "random.fold_in", "data")
    if data.dtype.kind != "i" or data.ndim:
        raise TypeError(located(f"random.fold_in: data is an integer, got {data.aval}"))
    return _pair(_words(of_key("fold_in", key), constant(0, "i32"), cast_to(data, I32), "i64"))


@public(1)
def bits(key, shape=(), dtype=np.int32):
    """Random bits, as integers.   key: i32[2]  →  dtype[shape]     dtype: int32 or int64

    Raises TypeError for a key that is no array, DTypeError for another dtype.
    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

    >>> ad.random.bits(ad.random.key(0), (2,))
    i32[2] [-224768089  -91998574]
    """
    dtype = dtype_of(dtype, "random.bits")
    if dtype not in (I32, I64):
        raise DTypeError(located(f"random.bits: bits are int32 or int64, not {dtype}"))
    return numbered(of_key("bits", key), extents_of("random.bits", shape), f"i{8 * dtype.itemsize}")
