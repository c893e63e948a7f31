"""Memory for one run, and the conversion of arguments for native code.

These functions serve the slow path of a call and the ctypes path.  On the fast path `launch` does the same in machine
code.
"""

from __future__ import annotations

import ctypes
import os
from array import array as packed
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..garbage import ignoring
from ..ir import Aval, dtype_name
from ..ir import aval as avals


def physical_bytes() -> int:
    """The bytes of memory of this machine; 4 GiB if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 32


#: The free bytes that the pool (`pool`) may hold: a thirty-second of the machine's memory, from 64 MiB to 1 GiB.
POOL_BYTES = min(max(physical_bytes() // 32, 1 << 26), 1 << 30)

#: Temporaries start at multiples of this: a cache line, and the widest vector.
ALIGNMENT = 64


def address_of(array: np.ndarray) -> int:
    """The address at which the data of an array start."""
    return array.__array_interface__["data"][0]


def words(values: Sequence[int]) -> ctypes.Array:
    """Numbers as consecutive 64-bit words.  Raises MemoryError if one does not fit, since it is a size or a count.
    """
    try:
        return (ctypes.c_int64 * len(values)).from_buffer(packed("q", values))
    except OverflowError:
        raise MemoryError(f"{max(values, key=abs)} bytes or iterations: a size does not fit 64 bits") from None


def new(aval: Aval) -> np.ndarray:
    """A new array for a result.  Raises MemoryError that says how many bytes could not be allocated."""
    try:
        return np.empty(aval.shape, aval.dtype)
    except MemoryError:
        raise MemoryError(f"no memory for {aval.nbytes} bytes of a result, {aval}{avals.called_at()}") from None


def workspace(size: int) -> np.ndarray:
    """An array of `size` bytes, at least one, whose data start at a multiple of `ALIGNMENT`."""
    try:
        memory = np.empty(size + ALIGNMENT, np.uint8)
    except MemoryError:
        raise MemoryError(f"no memory for {size} bytes of temporaries{avals.called_at()}") from None
    start = -address_of(memory) % ALIGNMENT
    return memory[start : start + max(size, 1)]


def as_argument(value: Any, aval: Aval, place: int, name: str) -> np.ndarray:
    """`value` as a packed, aligned array of `aval`; `value` itself if it already is one.

    An array of another byte order or layout, of a subclass, or of another name for the same dtype
    (`np.longlong`) is converted.  A number is accepted for a 0-d input whose dtype can hold it: a bool
    for any, an int for all but a bool, a float for a float or complex, a complex for a complex.

    Raises ValueError for another shape, TypeError for another dtype or no array at all, OverflowError
    for an integer that does not fit.
    """
    if type(value) is np.ndarray and value.shape == aval.shape and value.dtype == aval.dtype:
        flags = value.flags
        if flags.c_contiguous and flags.aligned:
            return value
    if type(value) in (bool, int, float, complex):
        return _as_number(value, aval, place, name)
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(
            f"{name}: argument {place} should be an array {aval}, not a {type(value).__name__}\n"
            f"  convert it with numpy.asarray(..., dtype={aval.dtype.name!r})"
        )
    array = np.asarray(value)
    if array.dtype.newbyteorder("=") != aval.dtype:
        raise TypeError(
            f"{name}: argument {place} should be {aval}, got {dtype_name(array.dtype)}"
            f"[{','.join(map(str, array.shape))}]\n  convert it with .astype({aval.dtype.name!r})"
        )
    if array.shape != aval.shape:
        raise ValueError(f"{name}: argument {place} should be {aval}, got {Aval(array.shape, aval.dtype)}")
    # Not ascontiguousarray, which makes a 0-d array one-dimensional.
    return np.require(array, dtype=aval.dtype, requirements=("C_CONTIGUOUS", "ALIGNED"))


_ACCEPTED = {"b": (bool,), "i": (bool, int), "f": (bool, int, float), "c": (bool, int, float, complex)}


def _as_number(value: Any, aval: Aval, place: int, name: str) -> np.ndarray:
    if aval.shape != ():
        raise ValueError(f"{name}: argument {place} should be an array {aval}, got the number {value!r}")
    if type(value) not in _ACCEPTED.get(aval.dtype.kind, ()):
        raise TypeError(f"{name}: argument {place} should be {aval}, got the {type(value).__name__} {value!r}")
    with ignoring(over="ignore"):  # a float that is too large for f32 becomes inf, as in the kernels
        try:
            return np.asarray(value, aval.dtype)
        except OverflowError as error:
            raise OverflowError(f"{name}: argument {place} should be {aval}; {value!r} does not fit") from error
