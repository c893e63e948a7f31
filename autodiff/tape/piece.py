"""Pieces of recordings that are met again and again: what a piece is, and finding one again.

A piece is what is reached from its roots, as far as it goes.  Its nodes are in the order in which they are met from the
roots on, inputs in turn: so the order says nothing of when they were recorded.  A piece looks like another one if

    own nodes    are of the same kinds, wired in the same way, and the same of them have values
    outside      what these read has the same Out, and the same of it is pending

Machine code says that by a hash (`codegen.runtime.recording_piece`); `described` is the same in plain Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from codegen.records import NamedTuple

from .machine import asks
from .node import Node, released
from .plan import drops_inputs, settle

__all__ = ["FoundPiece", "Piece", "described", "finish_in_python"]

#: Under AUTODIFF_NATIVE_CHECKS=1 each hash is compared with what plain Python says.
_is_compared = os.environ.get("AUTODIFF_NATIVE_CHECKS") == "1"


class FoundPiece(NamedTuple):
    """A piece that was found in a recording.

    values    of nodes that are read;   stored: nodes that are given values
    outer     nodes that are asked for;   past: those whose history is given up
    """

    values: tuple
    stored: tuple[Node, ...]
    outer: tuple[Node, ...]
    past: tuple[Node, ...]


def described(roots: Sequence[Node], bounds: Sequence[bool]) -> tuple[list[tuple], list[Node]] | None:
    """The nodes that are reached from the roots, made comparable, and in the order in which they are met.

    bounds    of each in this order: True for one of its own

    None where it has not so many nodes, or one of its own has room for more than an operation.
    """
    order = list(roots)
    place = {n: i for i, n in enumerate(order)}
    parts: list[tuple] = []
    for node, is_own in zip(order, bounds, strict=False):  # the order grows meanwhile
        pending = node.value is None
        if not is_own:
            parts.append((node.kind.out, pending))
            continue
        inputs = node.inputs
        if type(node) is not Node:
            return None
        for i in inputs:
            if i not in place:
                place[i] = len(order)
                order.append(i)
        parts.append((node.kind, pending, *[place[i] for i in inputs]))
    return (parts, order) if len(order) == len(bounds) == len(place) else None


def _bounds_of(roots: Sequence[Node], inside: AbstractSet[Node]) -> list[bool]:
    """Of each node that is reached from the roots, in the order in which they are met, if it is inside."""
    order = list(dict.fromkeys(roots))
    seen = set(order)
    for node in order:  # which grows meanwhile
        for i in node.inputs if node in inside else ():
            if i not in seen:
                seen.add(i)
                order.append(i)
    return [node in inside for node in order]


class Piece:
    """A piece, learnt from one recording.

    accepts(roots)      what a recording holds that ends in the same piece (`FoundPiece`), else None
    finish(results, stored, past, is_released)    values are kept; the history of `past` is given up if it is released
    """

    __slots__ = ("_bounds", "_parts", "_places", "accepts", "finish")

    def __init__(
        self, roots: Sequence[Node], inside: AbstractSet[Node], values: Sequence[Node], stored: Sequence[Node],
        outer: Sequence[Node], past: Sequence[Node],
    ) -> None:  # fmt: skip
        """Learn a piece.  Raises KeyError where another thread changes it meanwhile.

        inside    its own nodes;   values: nodes whose values are read;   stored, outer, past: see `FoundPiece`
        """
        self._bounds = _bounds_of(roots, inside)
        found = described(roots, self._bounds)
        if found is None:
            raise KeyError
        self._parts, order = found
        place = {n: i for i, n in enumerate(order)}
        self._places = [[place[n] for n in nodes] for nodes in (values, stored, outer, past)]
        for node in past:
            released(node.kind)  # machine code finds it there
        self.accepts: Callable[[tuple[Node, ...]], tuple | None] = self.accepts_in_python
        self.finish: Callable[[tuple, Sequence[Node], Sequence[Node], bool], None] = finish_in_python
        native = asks()
        if native is None:
            return
        at, first, others, history = self._places
        drops = list(map(drops_inputs, stored))
        made = native.piece(roots, self._bounds, at, list(zip(first, drops, strict=True)), others, history)
        if made is None or described(roots, self._bounds) != found:
            raise KeyError
        self.finish = partial(native.finish_piece, made)
        self.accepts = partial(native.piece_of, made)
        if _is_compared:
            self.accepts = partial(self._compared, self.accepts)

    def accepts_in_python(self, roots: Sequence[Node]) -> FoundPiece | None:
        """Do as `accepts` does, in plain Python."""
        found = described(roots, self._bounds)
        if found is None or found[0] != self._parts:
            return None
        order = found[1]
        values, stored, outer, past = [tuple([order[i] for i in places]) for places in self._places]
        return FoundPiece(tuple([n.value for n in values]), stored, outer, past)

    def _compared(self, accepts: Callable, roots: tuple[Node, ...]) -> tuple | None:
        """The piece that machine code finds, compared with that of Python."""
        found: tuple | None = accepts(roots)
        exact = self.accepts_in_python(roots)
        assert (found is None) == (exact is None), "the hash of a piece stands for another one"
        assert found is None or exact is None or found[1:] == exact[1:], "machine code finds other nodes in a piece"
        return found


def finish_in_python(results: tuple, stored: Sequence[Node], past: Sequence[Node], is_released: bool) -> None:
    """Keep values, and give the history up if it is released, in plain Python."""
    for node, value in zip(stored, results, strict=True):
        settle(node, value)
    for node in past if is_released else ():
        if not node.kind.released:
            node.kind = released(node.kind)
        if node.value is not None:
            node.inputs = ()
