"""The loops of NumPy's ufuncs: what they call for arrays of each dtype.

A ufunc's C object is a public part of NumPy's API (`numpy/ufuncobject.h`): beside its loops it has their number and
their dtypes, which Python knows too, so that they are compared here before anything else in it is believed.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np


class _UFunc(ctypes.Structure):
    """`PyUFuncObject`, as far as it is read."""

    _fields_ = (
        ("references", ctypes.c_ssize_t), ("type", ctypes.c_void_p), ("operands", ctypes.c_int),
        ("results", ctypes.c_int), ("arguments", ctypes.c_int), ("identity", ctypes.c_int),
        ("loops", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("count", ctypes.c_int), ("reserved", ctypes.c_int), ("name", ctypes.c_char_p),
        ("types", ctypes.c_void_p),
    )  # fmt: skip


#: Operands of a loop at most.
MOST = 3
#: Of plain numbers: dtypes that own objects, or have units, are none.
_NUMBERS = frozenset("?bBhHiIlLqQefdFD")

#: Loops of our own, by what it is that they do: see `recording_interpret`.  Empty before there is machine code.
OWN: dict[str, bytes] = {}


#: The number of operands; rows of ufuncs: a table of loops, and its operands by number: what is given, then earlier
#: rows, constants below 0, None for the result so far of a sum; the constants.  Without rows Python computes it.
Runs = tuple[int, Sequence[tuple[bytes, Sequence[int | None]]], Sequence[np.ndarray]]


@cache
def loops_of(reference: Any) -> bytes | None:
    """A table of loops: how many there are, and the words of each; None for another function.

    The words are those that `recording_interpret` names.  Beside ufuncs a function may have one of our own: `loop` is
    its name, `nin` the number of its operands.
    """
    if type(reference) is not np.ufunc:
        return OWN.get(getattr(reference, "loop", ""))
    if reference.nout != 1 or reference.nin > MOST or reference.signature:
        return None
    raw = _UFunc.from_address(id(reference))
    known = reference.nin, reference.nout, reference.nargs, reference.ntypes, reference.__name__.encode()
    if known != (raw.operands, raw.results, raw.arguments, raw.count, raw.name) or not (raw.loops and raw.data):
        return None
    types = [t.replace("->", "") for t in reference.types]
    if bytes([np.dtype(c).num for t in types for c in t]) != ctypes.string_at(raw.types, raw.count * raw.arguments):
        return None
    return _table([
        (types[k], raw.loops[k] or 0, raw.data[k] or 0)
        for k in sorted(range(raw.count), key=lambda k: "df".find(types[k][0]) % 3)  # the usual ones first
        if _NUMBERS.issuperset(types[k])
    ])


def _table(loops: Sequence[tuple[str, int, int]]) -> bytes:
    """A table of loops.   loops: the letters of operands and result, the loop, its last argument"""
    words: list[int] = []
    for letters, loop, data in loops:
        dtypes = [*map(np.dtype, letters)]
        rest = [0] * (4 - len(dtypes))
        words += [*map(id, dtypes), *rest, *[dtype.itemsize for dtype in dtypes], *rest, loop, data]
    return struct.pack(f"{1 + len(words)}Q", len(loops), *words)


def use_loops(addresses: Mapping[tuple[str, int], int]) -> None:
    """Have loops of our own, by name and the bytes of an element."""
    by_size = {size: [c for c in _NUMBERS if np.dtype(c).itemsize == size] for _, size in addresses}
    for name, before in (("choice", "?"), ("copy", "")):
        OWN[name] = _table([
            (before + c * (3 if before else 2), address, 0)
            for (which, size), address in addresses.items()
            for c in by_size[size]
            if which == name
        ])
    loops_of.cache_clear()
