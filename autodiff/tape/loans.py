"""NumPy memory that pending graphs still need: lent by its owner, locked, and given back at the next ask.

    held(a, kind, now)     a leaf with the values of `a`: with its memory, which is read-only while there is one
    give_back(now.lent)    what still needs memory gets a copy, and every lock of this recording is gone

An array is copied when it is recorded: the user may write to its memory through a view of which NumPy cannot tell.
Where a function is called whose results are computed before the user's program goes on (`Recording.lends`), a large
array that owns its memory is lent; one that nobody can write to is simply held.

A node holds a *view*; a weak reference to that is a *loan*, and calls the *lender* when the view is gone.  Locks are
counted: the last one restores the flag that the array had.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from codegen.forks import renewed_in_child

from .node import Kind, Node, data_node, rich_node

#: Arrays of so few elements are copied in any case: that takes no longer than to lock them (of 1, 256, 1,024 and 2,048
#: doubles 210, 290, 540 and 770 ns; a lock takes 600; one core of a Zen 4, 2026-11).
FEW = 1024

# Re-entrant: a loan may end, by its weak reference, while another one is made.
_lock = renewed_in_child(globals(), "_lock")


class Lender:
    """An array that is lent, its loans by their addresses, and whether it could be written to before."""

    __slots__ = ("array", "loans", "was_writeable")

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.was_writeable = array.flags.writeable
        self.loans: dict[int, weakref.ref] = {}

    def __call__(self, loan: weakref.ref) -> None:
        """The view of this loan is gone: unlock the array if it was the last."""
        with _lock:
            _end(self, loan)


#: Lenders by the addresses of their arrays, which are kept alive while they are here.
LENT: dict[int, Lender] = {}
#: The nodes that are to get copies, by the addresses of their loans.
_nodes: dict[int, weakref.ref] = {}


def held(array: np.ndarray, kind: Kind, now: Any) -> Node:
    """A leaf with the values of an array.  If that is lent, which the recording `now` notes, it is read-only now."""
    flags = array.flags
    if not now.lends or array.size <= FEW or not (flags.owndata and flags.c_contiguous):
        copy = array.copy()
        copy.flags.writeable = False
        return data_node(kind, copy)
    with _lock:
        # Another thread may have ended the last loan meanwhile; flags are those of when they were asked for.
        if not array.flags.writeable and id(array) not in LENT:
            return data_node(kind, array)
        return _lent(array, kind, now.lent)


def _lent(array: np.ndarray, kind: Kind, loans: list[weakref.ref]) -> Node:
    lender = LENT.get(id(array))
    if lender is None:
        lender = LENT[id(array)] = Lender(array)
        array.flags.writeable = False
    node = rich_node(kind, ())
    node.value = view = array.view()
    loan = weakref.ref(view, lender)
    lender.loans[id(loan)] = loan
    _nodes[id(loan)] = weakref.ref(node)
    loans.append(loan)
    if len(loans) & 0xFF == 0:  # leave out what has ended
        loans[:] = [x for x in loans if x() is not None]
    return node


def _end(lender: Lender, loan: weakref.ref) -> None:
    lender.loans.pop(id(loan), None)
    _nodes.pop(id(loan), None)
    if not lender.loans and LENT.get(id(lender.array)) is lender:
        del LENT[id(lender.array)]
        if lender.was_writeable:
            lender.array.flags.writeable = True


def give_back(loans: list[weakref.ref]) -> None:
    """End all loans: what is still alive gets memory of its own."""
    while loans:
        loan = loans.pop()
        view, lender = loan(), loan.__callback__
        if view is not None and isinstance(lender, Lender):
            node = _nodes[id(loan)]()
            if node is not None and node.value is view:
                node.value = view.copy()
            with _lock:
                _end(lender, loan)  # and the weak reference goes before the view, which then has nobody to tell
        del loan, view
