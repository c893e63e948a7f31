"""The classes and objects that the recorder (`record`) works on, and where machine code finds their fields.

    offsets_of(layout)    by name; empty where a self-check does not confirm how objects look
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..records import record
from .native import native, numpy_function
from .record_life_ir import RICH
from .slots import life_of, offset_of

__all__ = ["SET_HANDLER", "VIEW", "Layout", "offsets_of"]

#: PyArray_View and PyDataMem_SetHandler in NumPy's table.
VIEW, SET_HANDLER = 137, 304


@record(frozen=True)
class Layout:
    """The classes and objects of the one who records.

    handle, node, kind, out, leaf, recording, config, function, plan, lender    classes with slots: those that
               `record_ir` names
    rich       a class of nodes with more slots, which are operands too
    settings   the one object of class `config`
    counter    an iterator that gives each node its number
    mode       a ContextVar of bool
    note_small, look_at    note_small(recording, handle), look_at(recording, inputs): called when it is time
    note_updated           note_updated(recording, handle): of a leaf that is not small
    force      force(node): evaluates what is pending from an earlier recording
    lent       lenders, by the addresses of their arrays (`record_loan_ir`)
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
    config: type
    function: type
    settings: Any
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
    emissions: Any
    lock: Any
    operations: tuple[Any, Any]
    told: Callable[[Any, list], Any]
    aliases: tuple[Any, ...]
    argument: Any
    limits: tuple[int, int, int]
    lender: type
    lent: dict
    prune: Callable[[list], Any]


def _are_as_known(layout: Layout) -> bool:
    """True if nodes and handles have the fields that machine code knows and no others, and live in the usual way."""
    node, rich, handle = layout.node, layout.rich, layout.handle
    count = len(_FIELDS["node"])
    expected = {node: count, rich: count + len(RICH), handle: 2}
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


#: The fields that the machine code reads and writes, by class.
_FIELDS: dict[str, tuple[str, ...]] = {
    "handle": ("node", "masked"),
    "node": ("kind", "inputs", "first", "second", "value", "number", "mark"),
    "rich": ("hooks", "retained", "leaf", "call", "line", "body", "flow", "slot"),
    "kind": ("out", "op", "released"),
    "out": ("requires_grad", "flows", "cls", "shape", "small", "as_leaf", "weak"),
    "leaf": ("grad", "hooks"),
    "recording": (
        "start", "look_at", "body", "literal", "small", "limit", "asked", "looked", "lent", "lends", "tracing",
        "transforming", "since",
    ),
    "config": ("careful", "watching"),
    "function": ("site",),
    "lender": ("array", "loans", "was_writeable"),
}
#: Fields that are named as those of other classes.
_OWN_NAMES = {
    ("leaf", "hooks"): "leaf_hooks_at", ("out", "small"): "is_small_at", ("rich", "line"): "rich_line_at",
    ("rich", "body"): "rich_body_at",
} | {
    ("lender", name): f"lender_{name}_at" for name in _FIELDS["lender"]
}


def offsets_of(layout: Layout) -> dict[str, int]:
    """The offsets of the fields by name; empty when the self-check does not confirm them."""
    found = {}
    for role, names in _FIELDS.items():
        role_of = getattr(layout, role)
        cls = role_of if isinstance(role_of, type) else type(role_of)
        for name in names:
            offset = offset_of(cls, name)
            if offset is None:
                return {}
            found[_OWN_NAMES.get((role, name), f"{name}_at")] = offset
    parts = slice(object(), object(), object())
    are_parts = _words_of(parts, 5)[2:] == [id(parts.start), id(parts.stop), id(parts.step)]
    if not (are_parts and _is_view(numpy_function(VIEW)) and _is_handler(numpy_function(SET_HANDLER))):
        return {}
    if not (_are_as_known(layout) and _counts(layout.counter)):
        return {}
    token = object()
    counted = ctypes.c_ssize_t.from_address(id(token)).value  # where checks read how many references there are
    return found if counted == 1 else {}


def _words_of(thing: Any, count: int) -> list[int]:
    return (ctypes.c_int64 * count).from_address(id(thing))[:]


def _count(cls: type) -> int:
    """The number of words that the objects of a class have, beside those of all."""
    return -1 if cls.__dictoffset__ else (cls.__basicsize__ - object.__basicsize__) // ctypes.sizeof(ctypes.c_void_p)
