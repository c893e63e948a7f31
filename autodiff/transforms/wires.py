"""The wires between the nodes of a pass: by place in its order, where the inputs of each stand."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import Any

from ..tape.node import Node

__all__ = ["Wires", "begun"]


def begun(order: Sequence[Node], asked: Sequence[Node]) -> list[Any]:
    """The beginning of a pass: its wires, nothing for each node, a flag for each, 0, the places of nodes.

    A place is -1 for a node that is not in the pass.  Machine code does the same (`recording_rules`).
    """
    place = {n: k for k, n in enumerate(order)}
    inputs = [[place.get(i, -1) for i in n.inputs] for n in order]
    starts = itertools.accumulate(map(len, inputs), initial=len(order) + 1)
    words = array("i", [*starts, *itertools.chain.from_iterable(inputs)]).tobytes()
    return [words, [None] * len(order), bytearray(len(order)), 0, *[place.get(n, -1) for n in asked]]


class Wires:
    """The wires between the nodes of a pass.

    words     the same as machine code reads it (`recording_rules`)
    """

    __slots__ = ("_all", "words")

    def __init__(self, words: bytes) -> None:
        self.words = words
        self._all = memoryview(words).cast("i")

    def of(self, at: int) -> Sequence[int]:
        """The places of the inputs of the node at a place; -1 for one that is not in the pass."""
        return self._all[self._all[at] : self._all[at + 1]]

    def sources(self, at: int, node: Node) -> Sequence[int]:
        """The places of the inputs that gradients of the node at a place flow to."""
        found = self.of(at)
        if type(node) is Node:
            return found
        if node.leaf is not None:
            return ()
        return found if node.flow is None else found[node.flow]
