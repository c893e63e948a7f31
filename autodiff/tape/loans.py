"""NumPy memory that pending graphs still need: lent by its owner, locked, and given back at the next ask.

    lent(a)        a view for a node to hold; `a` is read-only while any node holds one
    give_back()    what nodes still hold is copied, and every lock of this recording is gone

A lock goes as soon as nothing needs it: when the node dies, or lets go of its value.  Locks are counted,
and the last one to go restores the flag that the array had.  Only an array that owns its memory can be
lent: other views could write to what they share.  Writes through views made earlier cannot be seen.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from codegen.forks import renewed_in_child

from .node import Node

__all__ = ["Loan", "can_be_lent", "give_back", "lend"]

# Re-entrant: a loan may end, by its weak reference, while another one is made.
_lock = renewed_in_child(globals(), "_lock")


class _Locked:
    """An array that is lent, how often, and whether it could be written to before."""

    __slots__ = ("array", "loans", "was_writeable")

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.was_writeable = array.flags.writeable
        self.loans: dict[int, Loan] = {}


#: By id of the array, which is kept alive while it is here.
_locked: dict[int, _Locked] = {}


class Loan(weakref.ref):
    """A weak reference to the view that a node holds; when the view dies, the loan ends."""

    __slots__ = ("key", "node")

    key: int
    node: Any


def can_be_lent(array: np.ndarray) -> bool:
    """Whether an array owns its memory, in the order of C; it may be locked already, by another loan."""
    flags = array.flags
    return bool(flags.owndata and flags.c_contiguous and (flags.writeable or id(array) in _locked))


def lend(array: np.ndarray, node: Node, loans: list[Loan]) -> None:
    """Let a node hold the memory of an array, which is read-only from now on.  The loan is noted in `loans`."""
    key = id(array)
    with _lock:
        locked = _locked.get(key)
        if locked is None:
            locked = _locked[key] = _Locked(array)
            array.flags.writeable = False
        node.value = view = array.view()
        loan = Loan(view, _ended)
        loan.key = key
        loan.node = weakref.ref(node)
        locked.loans[id(loan)] = loan
    loans.append(loan)
    if len(loans) & 0xFF == 0:
        loans[:] = [x for x in loans if x() is not None]


def _ended(loan: Loan) -> None:
    """The view is gone: unlock the array if this was its last loan."""
    with _lock:
        _end(loan)


def _end(loan: Loan) -> None:
    locked = _locked.get(loan.key)
    if locked is None:
        return
    locked.loans.pop(id(loan), None)
    if not locked.loans:
        del _locked[loan.key]
        if locked.was_writeable:
            locked.array.flags.writeable = True


def give_back(loans: list[Loan]) -> None:
    """End all loans: nodes that are still alive get copies of their own."""
    while loans:
        loan = loans.pop()
        view, node = loan(), loan.node()
        if view is not None and node is not None and node.value is view:
            node.value = view.copy()
        with _lock:
            _end(loan)  # and the weak reference goes before the view, which then has nobody to tell
        del loan
