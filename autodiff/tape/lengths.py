"""The choice of recordings that are worth taking apart (`peel`): those of loops whose length changes.

A loop of fixed length makes the same graph each time: it is compiled whole, in its first two steps, and one check
answers it.  So recordings are told apart by the kind of node that they end in, and of each kind is known whether
all had the same size.  Once they had not, they are run in parts, but for sizes that were compiled whole since; and
where that did not succeed several times in a row, it is tried less and less often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..config import config
from ..session import namespace
from .cutting import SHORTEST
from .node import Node
from .walk import reached

__all__ = ["Ending", "ending_of"]

#: Inputs of an operation from which on it puts a list together.
_MANY_INPUTS = 12
#: Lengths that are kept of one kind.
LENGTHS = 256
#: Failures in a row before any try is left out; the most tries that are.
PATIENT, MOST_LEFT_OUT = 3, 64


class Ending:
    """Recordings that end in one kind of node.

    size      operations of the first one
    varies    whether another had another size
    whole     sizes that are compiled whole all the same
    lengths   how long the recordings of these were: those of another length are of another size, as a rule
    apart     of the results that were wanted with the latest, how many did not lie within what it needs
    """

    __slots__ = ("_failures", "_left_out", "apart", "lengths", "size", "varies", "whole")

    def __init__(self, size: int) -> None:
        self.size = size
        self.varies = False
        self.whole: set[int] = set()
        self.lengths: set[float] = set()
        self.apart = 0
        self._failures = 0
        self._left_out = 0

    def is_to_be_tried(self, roots: Sequence[Node], tracks: bool, length: float) -> bool:
        """True if a recording after the first, of so many nodes, is to be taken apart."""
        if self._left_out:
            self._left_out -= 1
            return False
        if self.varies and length >= 0 and length not in self.lengths:
            return True  # where it is of such a size all the same, the account of its parts says so (`parts.whole_of`)
        known = [*self.whole] if self.varies else [self.size, *self.whole]
        size = size_of(roots, tracks, max(known, default=0))
        self.varies = self.varies or size != self.size
        return self.varies and size not in self.whole

    def failed(self) -> None:
        """A recording does not fall into stretches."""
        self._failures += 1
        if self._failures >= PATIENT:
            self._left_out = min(1 << (self._failures - PATIENT), MOST_LEFT_OUT)

    def succeeded(self) -> None:
        """One does."""
        self._failures = 0

    def compiled(self, roots: Sequence[Node], tracks: bool, length: float) -> None:
        """One of so many nodes does, but is to be compiled whole from now on."""
        self.whole.add(size_of(roots, tracks))
        if len(self.lengths) >= LENGTHS:
            self.lengths.clear()
        self.lengths.add(length)


#: By the kind of node, of one of many inputs the operation, and whether gradients went through.
_endings = namespace("ending")


def ending_of(roots: Sequence[Node], tracks: bool, length: float) -> Ending | None:
    """The recordings like one that is to be taken apart; None: it is not.

    roots     what is wanted of it: recordings are told apart by the first
    tracks    whether gradients go through it
    length    how many nodes were made since the recording began; negative: it is an earlier one
    """
    if 0 <= length < SHORTEST or not config.patience or config.eager:
        return None
    # The operation that puts a list of every length together is of another kind each time.
    key = (roots[0].kind if len(roots[0].inputs) < _MANY_INPUTS else roots[0].kind.op, tracks)
    ending: Ending | None = _endings.get(key)
    if ending is not None:
        return ending if ending.is_to_be_tried(roots, tracks, length) else None
    _endings.put(key, Ending(size_of(roots, tracks)))
    return None


def size_of(roots: Sequence[Node], tracks: bool, largest: float = math.inf) -> int:
    """The number of nodes to be computed, or gone through: up to leaves; of those that are larger any size above."""

    def followed(node: Node) -> list[Node]:
        inside = [i for i in node.inputs if i.leaf is None]
        return [i for i in inside if i.value is None or (tracks and i.kind.out.requires_grad)]

    return len(reached(roots, followed, largest))
