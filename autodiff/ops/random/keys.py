"""Keys, and the bits that they stand for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...custom import function
from ...errors import DTypeError, ShapeError, caller
from ...tape import constant
from ...tensor import Tensor
from ..bits import bitwise_right_shift
from ..conversion import as_tensor, cast_to, dtype_of
from ..creation import extents_of, iota
from ..joining import stack
from ..shaping import reshape
from ..slicing import part
from ..template import remembered
from .words import threefry

__all__ = ["bits", "fold_in", "key", "numbered", "of_key", "split"]

_I32, _I64 = np.dtype(np.int32), np.dtype(np.int64)


def of_key(name: str, key: Any) -> Tensor:
    """A key as a tensor.  Raises TypeError for what is none: a seed, most often."""
    if not isinstance(key, (Tensor, np.ndarray)):
        raise TypeError(
            f"random.{name}: key is {key!r}\n  called at {caller()}\n  make one of a seed: ad.random.key(0)"
        )
    key = as_tensor(key, f"random.{name}", "key")
    if key.shape != (2,) or key.dtype != _I32:
        raise ShapeError(
            f"random.{name}: a key is an i32[2], got {key.aval}\n  called at {caller()}\n"
            "  make one by ad.random.key(seed); for several at once ad.vmap over them"
        )
    return key


def _word(key: Tensor, number: int) -> Tensor:
    return reshape(part(key, 0, number, number + 1), ())


def _words(key: Tensor, high: Tensor, low: Tensor, dtype: str) -> Tensor:
    return threefry(_word(key, 0), _word(key, 1), high, low, dtype=dtype)


def numbered(key: Tensor, shape: tuple[int, ...], dtype: str) -> Tensor:
    """A word (i32) or two (i64) for each element of an array, from its position."""
    size = math.prod(shape)
    if size <= np.iinfo(_I32).max:
        low = iota((size,), 0, _I32)
        return reshape(_words(key, constant(0, "i32"), low, dtype), shape)
    position = iota((size,), 0, _I64)
    high = cast_to(bitwise_right_shift(position, constant(32, "i64")), _I32)
    return reshape(_words(key, high, cast_to(position, _I32), dtype), shape)


def _pair(words: Tensor) -> Tensor:
    """i64[...] → i32[..., 2]: the upper word, the lower one."""
    return stack([cast_to(bitwise_right_shift(words, constant(32, "i64")), _I32), cast_to(words, _I32)], axis=-1)


def key(seed):
    """A key made from a seed.   i[]  →  i32[2]

    Raises TypeError for a seed that is no integer.

    >>> import autodiff as ad
    >>> ad.random.key(42).tolist()
    [0, 42]
    """
    seed = as_tensor(seed, "random.key", "seed")
    if seed.dtype.kind != "i" or seed.ndim:
        raise TypeError(f"random.key: a seed is an integer, got {seed.aval}\n  called at {caller()}")
    return _pair(cast_to(seed, _I64))


@function
@remembered(1)
def split(key, num=2):
    """New keys made from one, which is not used again.   key: i32[2]  →  i32[num, 2]     num: int or shape

    Raises TypeError for what is no key, ShapeError for a negative number.

    >>> import autodiff as ad
    >>> ad.random.split(ad.random.key(0), 3).shape
    (3, 2)
    """
    return _pair(numbered(of_key("split", key), extents_of("random.split", num), "i64"))


@function
def fold_in(key, data):
    """A key made from a key and a number: one for each step of a loop.   key: i32[2], data: i[]  →  i32[2]

    Raises TypeError for what is no key, or data that is no integer.

    >>> import autodiff as ad
    >>> ad.random.fold_in(ad.random.key(0), 1)
    i32[2] [ 928981903 -841280227]
    >>> ad.random.fold_in(ad.random.key(0), 2)
    i32[2] [ -148943191 -1576124287]
    """
    data = as_tensor(data, "random.fold_in", "data")
    if data.dtype.kind != "i" or data.ndim:
        raise TypeError(f"random.fold_in: data is an integer, got {data.aval}\n  called at {caller()}")
    return _pair(_words(of_key("fold_in", key), constant(0, "i32"), cast_to(data, _I32), "i64"))


@function
@remembered(1)
def bits(key, shape=(), dtype=np.int32):
    """Random bits, as integers.   key: i32[2]  →  dtype[shape]     dtype: int32 or int64

    Raises TypeError for what is no key, DTypeError for another dtype.
    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

    >>> import autodiff as ad
    >>> ad.random.bits(ad.random.key(0), (2,))
    i32[2] [-224768089  -91998574]
    """
    dtype = dtype_of(dtype, "random.bits")
    if dtype not in (_I32, _I64):
        raise DTypeError(f"random.bits: bits are int32 or int64, not {dtype}\n  called at {caller()}")
    return numbered(of_key("bits", key), extents_of("random.bits", shape), f"i{8 * dtype.itemsize}")
