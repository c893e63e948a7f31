"""NumPy memory that pending graphs still need: lent by its owner, locked, and given back at the next ask.

    held(a, kind, now)     a leaf with the values of `a`; if it uses the memory of `a`, then `a` is read-only meanwhile
    give_back(now.lent)    nodes that still use lent memory get copies, and all locks of this recording end

An array is usually copied when it is recorded, as the user may write to it through a view that NumPy does not report.
In functions whose results are computed before the user's program goes on (`Recording.lends`), a large array that owns
its memory is lent instead; an array that nothing can write to is used as it is.

A node holds a *view*.  A weak reference to the view is a *loan*, and calls the *lender* when the view is freed.  The
lender counts its loans: the end of the last one restores the flag that the array had.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from codegen.forks import renewed_in_child

from .node import Kind, Node, data_node, rich_node

#: Arrays of at most this many elements are always copied: a copy takes no longer than a lock (copies of 1, 256, 1,024
#: and 2,048 doubles take 210, 290, 540 and 770 ns, a lock 600; one core of a Zen 4, 2026-11).
FEW = 1024

# Re-entrant: a loan may end, by its weak reference, while another one is made.
_lock = renewed_in_child(globals(), "_lock")


class Lender:
    """An array that is lent, its loans by their addresses, and its flag `writeable` from before."""

    __slots__ = ("array", "loans", "was_writeable")

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.was_writeable = array.flags.writeable
        self.loans: dict[int, weakref.ref] = {}

    def __call__(self, loan: weakref.ref) -> None:
        """End a loan whose view was freed; the end of the last loan unlocks the array."""
        with _lock:
            _end(self, loan)


#: Lenders by the addresses of their arrays; an entry keeps its array alive.
LENT: dict[int, Lender] = {}
#: The nodes of lent arrays, weakly, by the addresses of their loans: `give_back` gives them copies.
_nodes: dict[int, weakref.ref] = {}


def held(array: np.ndarray, kind: Kind, now: Any) -> Node:
    """A leaf with the values of an array.  A lent array is read-only from now on, and its loan noted in `now.lent`."""
    flags = array.flags
    if not now.lends or array.size <= FEW or not (flags.owndata and flags.c_contiguous):
        copy = array.copy()
        copy.flags.writeable = False
        return data_node(kind, copy)
    with _lock:
        # Another thread may have ended the last loan meanwhile, so the flag is read again.
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
    if len(loans) & 0xFF == 0:  # remove the loans that have ended
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
    """End all loans: nodes that are still alive get copies of the memory."""
    while loans:
        loan = loans.pop()
        view, lender = loan(), loan.__callback__
        if view is not None and isinstance(lender, Lender):
            node = _nodes[id(loan)]()
            if node is not None and node.value is view:
                node.value = view.copy()
            with _lock:
                _end(lender, loan)  # the weak reference is freed before the view, so it is not called
        del loan, view
