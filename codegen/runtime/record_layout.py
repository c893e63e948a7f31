"""The classes and objects that the recorder (`record`) works on.

    is_as_known(layout)    False where a self-check does not confirm how objects look
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..records import record
from .native import native, numpy_function
from .slots import life_of

__all__ = ["SET_HANDLER", "VIEW", "RecordLayout", "is_as_known"]

#: PyArray_View and PyDataMem_SetHandler in NumPy's table.
VIEW, SET_HANDLER = 137, 304


@record(frozen=True)
class RecordLayout:
    """The classes and objects of the one who records.

    classes    with slots, by name: see `recording_structs`; "plain" and "rich" are those of nodes
    objects    those of `recording_structs.Tape` that are not Python's or NumPy's own, by name
    """

    classes: Mapping[str, type]
    objects: Mapping[str, Any]


def _are_as_known(layout: RecordLayout) -> bool:
    """True if nodes and handles have the fields that machine code knows and no others, and live in the usual way."""
    node, rich, handle = [layout.classes[name] for name in _WORDS]
    expected = dict(zip((node, rich, handle), _WORDS.values(), strict=True))
    # Since Python 3.12 weak references stand before the object.
    have = [_count(cls) == number + (cls.__weakrefoffset__ > 0) for cls, number in expected.items()]
    weak = (not node.__weakrefoffset__, rich.__weakrefoffset__, handle.__weakrefoffset__)
    return all(have) and all(weak) and None not in [life_of(cls) for cls in expected]


def _counts(counter: Any) -> bool:
    """True if a counter's first word is the number that comes next."""
    word = (ctypes.c_int64 * 3).from_address(id(counter))
    first = next(counter)
    before = word[2]
    word[2] += 1
    return before == first + 1 and next(counter) == first + 2


def _is_view(address: int) -> bool:
    """True if a function of NumPy's makes views: a table of another version would have another one there."""
    array = np.arange(6.0)[1:4]
    made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(address)
    view = made(array, None, None)
    return type(view) is np.ndarray and view is not array and view.base is not None and view.data == array.data


def _is_handler(address: int) -> bool:
    """True if a function of NumPy's says by whom memory is had from now on, and gives who it was."""
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)
    allocator = native().allocator
    usual = set_handler(allocator)
    return set_handler(usual) is allocator


#: The numbers of words that handles and nodes have of their own.
_WORDS = {"plain": 7, "rich": 15, "handle": 2}


def is_as_known(layout: RecordLayout) -> bool:
    """True if objects of Python's and NumPy's, and those of the layout, are as machine code knows them."""
    parts = slice(object(), object(), object())
    if _words_of(parts, 5)[2:] != [id(parts.start), id(parts.stop), id(parts.step)]:
        return False
    if not (_is_view(numpy_function(VIEW)) and _is_handler(numpy_function(SET_HANDLER))):
        return False
    if not (_are_as_known(layout) and _counts(layout.objects["counter"])):
        return False
    token = object()
    return ctypes.c_ssize_t.from_address(id(token)).value == 1  # where checks read how many references there are


def _words_of(thing: Any, count: int) -> list[int]:
    return (ctypes.c_int64 * count).from_address(id(thing))[:]


def _count(cls: type) -> int:
    """The number of words that the objects of a class have, beside those of all."""
    return -1 if cls.__dictoffset__ else (cls.__basicsize__ - object.__basicsize__) // ctypes.sizeof(ctypes.c_void_p)
