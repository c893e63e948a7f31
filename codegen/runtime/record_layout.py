"""The classes and objects that the recorder (`record`) works on.

    is_as_known(layout)    False where a self-check does not confirm how objects look
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
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

    handle, node, kind, out, leaf, recording, mode_type, function, plan, lender    classes with slots: see
               `recording_structs`
    rich       a class of nodes with more slots, which are operands too
    counter    an iterator that gives each node its number
    mode       a ContextVar of one of few objects of `mode_type`
    note_small, look_at    note_small(recording, handle), look_at(recording, inputs): called when it is time
    note_updated           note_updated(recording, handle): of a leaf that is not small
    force      force(node): evaluates what is pending from an earlier recording
    lent       lenders, by the addresses of their arrays (`recorder_arrays`)
    prune      prune(loans): leaves those out that have ended
    reads      what Python has for what handles are asked: "numpy", "array", "item", "float", "bool", "get_grad",
               "set_grad" (without a value: deleted)
    start_kind     of the leaves that say where slices start
    counts     an object that counts what was found, and run
    plans      the table of plans;  lock: of who writes the `.grad` of leaves
    told       told(answer, calls): what is computed from the numbers of these; None where the answer is not for them
    operations those of nodes that hold given data, and of constants
    limits     how much a recording, and how many small results, may grow to from its start; of how many elements an
               array is copied in any case
    """

    handle: type
    node: type
    rich: type
    kind: type
    out: type
    leaf: type
    recording: type
    mode_type: type
    function: type
    counter: Any
    mode: Any
    note_small: Callable[[Any, Any], Any]
    note_updated: Callable[[Any, Any], Any]
    look_at: Callable[[Any, Any], Any]
    force: Callable[[Any], Any]
    reads: dict[str, Callable[..., Any]]
    plan: type
    start_kind: Any
    counts: Any
    plans: Any
    lock: Any
    operations: tuple[Any, Any]
    told: Callable[[Any, list], Any]
    aliases: tuple[Any, ...]
    argument: Any
    limits: tuple[int, int, int]
    lender: type
    lent: dict
    prune: Callable[[list], Any]


def _are_as_known(layout: RecordLayout) -> bool:
    """True if nodes and handles have the fields that machine code knows and no others, and live in the usual way."""
    node, rich, handle = layout.node, layout.rich, layout.handle
    expected = {getattr(layout, name): count for name, count in _WORDS.items()}
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
_WORDS = {"handle": 2, "node": 7, "rich": 15}


def is_as_known(layout: RecordLayout) -> bool:
    """True if objects of Python's and NumPy's, and those of the layout, are as machine code knows them."""
    parts = slice(object(), object(), object())
    if _words_of(parts, 5)[2:] != [id(parts.start), id(parts.stop), id(parts.step)]:
        return False
    if not (_is_view(numpy_function(VIEW)) and _is_handler(numpy_function(SET_HANDLER))):
        return False
    if not (_are_as_known(layout) and _counts(layout.counter)):
        return False
    token = object()
    return ctypes.c_ssize_t.from_address(id(token)).value == 1  # where checks read how many references there are


def _words_of(thing: Any, count: int) -> list[int]:
    return (ctypes.c_int64 * count).from_address(id(thing))[:]


def _count(cls: type) -> int:
    """The number of words that the objects of a class have, beside those of all."""
    return -1 if cls.__dictoffset__ else (cls.__basicsize__ - object.__basicsize__) // ctypes.sizeof(ctypes.c_void_p)
