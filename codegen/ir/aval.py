"""Avals: the shape and dtype of an array, written `f64[3,4]` everywhere.

Docstrings, error messages, printed graphs and goldens all use this one notation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

#: The short name of each dtype the compiler knows.
DTYPES: dict[str, np.dtype] = {
    "bool": np.dtype(np.bool_),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}
#: The dtypes of `DTYPES`, as a set.
KNOWN_DTYPES = frozenset(DTYPES.values())
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


#: The most bytes of an array, as in NumPy: strides, offsets and sizes fit signed 64-bit integers.
MOST_BYTES = (1 << 63) - 1
#: An array of fewer elements than this fits in MOST_BYTES, whatever its dtype.
_SAFE_SIZE = 1 << 58

#: Gives the last line of the message for an aval that is too large.  The front end replaces it by the user's line.
called_at: Callable[[], str] = str


def dtype_name(dtype: np.dtype | type) -> str:
    """`f64` for float64, and so on; NumPy's own name for a dtype the compiler does not know."""
    dtype = np.dtype(dtype)
    return _NAMES.get(dtype) or str(dtype)  # str(dtype) takes two microseconds


#: For each dtype, the object that NumPy's own arrays share.  A pickled dtype is equal to it, but another object.
_SHARED_DTYPE: dict[np.dtype, np.dtype] = {}
for _letter in "?bBhHiIlLqQefdFD":
    _SHARED_DTYPE.setdefault(np.dtype(_letter), np.dtype(_letter))


class Aval:
    """The shape and dtype of an array.  Immutable, hashable, compared by value.

    Raises MemoryError, as NumPy does, if strides or bytes would not fit 64 bits; extents of 0 are counted as 1 there.

    >>> Aval((3, 4), "f8")
    f64[3,4]
    """

    __slots__ = ("_hash", "dtype", "ndim", "shape", "size")

    shape: tuple[int, ...]
    dtype: np.dtype
    ndim: int
    size: int

    def __init__(self, shape: tuple[int, ...], dtype) -> None:
        self.shape = shape = tuple(shape)
        dtype = np.dtype(dtype)
        self.dtype = _SHARED_DTYPE.get(dtype, dtype)
        self.ndim = len(shape)
        self.size = math.prod(shape)
        self._hash = hash((shape, self.dtype))
        if not 0 < int(self.size) < _SAFE_SIZE:  # int(): comparing a symbolic size would record a condition on it
            self._check_bytes()

    def _check_bytes(self) -> None:
        size = math.prod([int(n) for n in self.shape if n]) * self.dtype.itemsize
        if size > MOST_BYTES:
            raise MemoryError(f"{self} would take {size} bytes: an array has fewer than 2**63{called_at()}")

    @property
    def nbytes(self) -> int:
        """Bytes of a packed array of this aval."""
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: tuple[int, ...]) -> Aval:
        """An aval of this dtype and another shape."""
        return Aval(shape, self.dtype)

    def with_dtype(self, dtype) -> Aval:
        """An aval of this shape and another dtype."""
        return Aval(self.shape, dtype)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Aval and self.shape == other.shape and self.dtype == other.dtype)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{dtype_name(self.dtype)}[{','.join(map(repr, self.shape))}]"


def aval_of(array: np.ndarray) -> Aval:
    """The aval of a NumPy array."""
    return Aval(array.shape, array.dtype)


def parse_aval(text: str) -> Aval:
    """Parse an aval such as `f64[3,4]`.  Raises ValueError for any other text.

    >>> parse_aval("f32[2, 3]")
    f32[2,3]
    """
    match = re.fullmatch(r"([a-z]+\d*)\[([\d,\s]*)\]", text.strip())
    if match is None or match[1] not in DTYPES:
        raise ValueError(f"not an aval: {text!r} (write it as f64[3,4]; dtypes: {', '.join(DTYPES)})")
    return Aval(tuple(int(n) for n in match[2].split(",") if n.strip()), DTYPES[match[1]])
