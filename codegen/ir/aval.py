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
#: The same to look one up in.
KNOWN_DTYPES = frozenset(DTYPES.values())
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


#: An array has at most this many bytes, as in NumPy: strides, offsets and sizes fit 64 bits with a sign.
MOST_BYTES = (1 << 63) - 1
#: Fewer elements than this fit, of whichever dtype.
_CERTAIN = 1 << 58

#: The last line of the message of an aval that is too large: the front end knows the user's line.
place: Callable[[], str] = str


def dtype_name(dtype: np.dtype | type) -> str:
    """`f64` for float64, and so on; NumPy's own name for a dtype the compiler does not know."""
    dtype = np.dtype(dtype)
    return _NAMES.get(dtype) or str(dtype)  # the latter takes two microseconds


#: Of equal dtypes the one that NumPy's own arrays have: those that were pickled are others.
_ONE: dict[np.dtype, np.dtype] = {}
for _letter in "?bBhHiIlLqQefdFD":
    _ONE.setdefault(np.dtype(_letter), np.dtype(_letter))


class Aval:
    """The shape and dtype of an array.  Immutable, hashable, compared by value.

    Raises MemoryError where strides or bytes would not fit 64 bits, as NumPy does; extents of 0 do not count for that.

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
        self.dtype = _ONE.get(dtype, dtype)
        self.ndim = len(shape)
        self.size = math.prod(shape)
        self._hash = hash((shape, self.dtype))
        if not 0 < int(self.size) < _CERTAIN:  # int: of a symbol it is no condition
            self._check_bytes()

    def _check_bytes(self) -> None:
        size = math.prod([int(n) for n in self.shape if n]) * self.dtype.itemsize
        if size > MOST_BYTES:
            raise MemoryError(f"{self} would take {size} bytes: an array has fewer than 2**63{place()}")

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
    """Read `f64[3,4]`.  Raises ValueError on anything else.

    >>> parse_aval("f32[2, 3]")
    f32[2,3]
    """
    match = re.fullmatch(r"([a-z]+\d*)\[([\d,\s]*)\]", text.strip())
    if match is None or match[1] not in DTYPES:
        raise ValueError(f"not an aval: {text!r} (write it as f64[3,4]; dtypes: {', '.join(DTYPES)})")
    return Aval(tuple(int(n) for n in match[2].split(",") if n.strip()), DTYPES[match[1]])
