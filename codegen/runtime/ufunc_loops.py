"""The loops of NumPy's ufuncs: the C functions that a ufunc calls for arrays of each dtype.

The C struct of a ufunc is a public part of NumPy's API (`numpy/ufuncobject.h`).  Beside its loops it has their number
and their dtypes.  Python knows these too, so they are compared here before anything else in the struct is trusted.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np


class _UFunc(ctypes.Structure):
    """The leading fields of `PyUFuncObject`."""

    _fields_ = (
        ("references", ctypes.c_ssize_t), ("type", ctypes.c_void_p), ("operands", ctypes.c_int),
        ("results", ctypes.c_int), ("arguments", ctypes.c_int), ("identity", ctypes.c_int),
        ("loops", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("count", ctypes.c_int), ("reserved", ctypes.c_int), ("name", ctypes.c_char_p),
        ("types", ctypes.c_void_p),
    )  # fmt: skip


#: The most operands of a loop.
MOST = 3
#: The letters of dtypes of plain numbers, without dtypes that hold objects or have units.
_NUMBERS = frozenset("?bBhHiIlLqQefdFD")

#: Tables of our own loops, by the name of their operation: see `recording_interpret`.  Empty without machine code.
OWN: dict[str, bytes] = {}


#: The computation of a kind: the number of inputs; rows, each a table of loops and the numbers of its operands (inputs,
#: then earlier rows; constants from -1 down; None: the sum so far); the constants.  Without rows Python computes it.
Runs = tuple[int, Sequence[tuple[bytes, Sequence[int | None]]], Sequence[np.ndarray]]


@cache
def loops_of(reference: Any) -> bytes | None:
    """A table of the loops of a function: their number, then the words of each; None for a function without loops.

    `recording_interpret` describes the words.  A function that is no ufunc may name one of our own loops by its
    attribute `loop`; its attribute `nin` is then the number of operands.
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
    """A table of loops.   loops: for each the letters of operands and result, its address, its last argument"""
    words: list[int] = []
    for letters, loop, data in loops:
        dtypes = [*map(np.dtype, letters)]
        rest = [0] * (4 - len(dtypes))
        words += [*map(id, dtypes), *rest, *[dtype.itemsize for dtype in dtypes], *rest, loop, data]
    return struct.pack(f"{1 + len(words)}Q", len(loops), *words)


def use_loops(addresses: Mapping[tuple[str, int], int]) -> None:
    """Put our own loops into `OWN`.   addresses: by name and bytes of an element"""
    by_size = {size: [c for c in _NUMBERS if np.dtype(c).itemsize == size] for _, size in addresses}
    for name, before in (("choice", "?"), ("copy", "")):
        OWN[name] = _table([
            (before + c * (3 if before else 2), address, 0)
            for (which, size), address in addresses.items()
            for c in by_size[size]
            if which == name
        ])
    loops_of.cache_clear()
