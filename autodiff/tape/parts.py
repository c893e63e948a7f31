"""Recordings in parts: a long one of a loop whose length changes is run segment by segment (`cut`).

A loop of fixed length makes the same graph each time: it is compiled whole, in its first two steps, and found again by
its hash.  So recordings are told apart by the kind of node that they end in, and of each kind is known whether all had
the same size.  Once they had not, new ones are run in parts, forward from the beginning, values kept at the end; and
where that did not succeed several times in a row, it is tried less and less often.

A recording in parts costs a call and a walk for each part, however long it is; one graph of its own would be
compiled once for this length, and then cost less.  So where lengths vary, parts are what one rents: when they have
taken as long as compiling the whole is expected to take, or the same recording comes again and again in a loop that
would soon have paid for it, the whole is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from codegen.ir import OutOfRange

from ..config import config
from ..session import namespace, tiers
from . import machine
from .cut import LARGEST, SHORTEST, Cut, FoundPart, cut
from .misses import note
from .node import Node
from .plan import COUNTS, located_at, settle, source
from .segment import Segment, Unfit
from .tier import Account, lately, prices
from .walk import reached

__all__ = ["Ending", "commit", "computed", "ending_of", "note_parts", "values_in_parts", "whole_of"]

#: Of fewer parts it is one graph: what is asked at each step, say.
FEWEST = 3
#: Inputs of an operation from which on it puts a list together.
_MANY_INPUTS = 12
#: Failures in a row before any try is left out; the most tries that are.
PATIENT, MOST_LEFT_OUT = 3, 64


class Ending:
    """Recordings that end in one kind of node.

    size      operations of the first one
    varies    whether another had another size
    """

    __slots__ = ("_failures", "_left_out", "size", "varies")

    def __init__(self, size: int) -> None:
        self.size = size
        self.varies = False
        self._failures = 0
        self._left_out = 0

    def is_to_be_tried(self, roots: Sequence[Node], tracks: bool) -> bool:
        """True if a recording after the first is to be cut."""
        if self._left_out:
            self._left_out -= 1
            return False
        self.varies = self.varies or _size_of(roots, tracks, self.size) != self.size
        return self.varies

    def failed(self) -> None:
        """A recording does not fall into segments."""
        self._failures += 1
        if self._failures >= PATIENT:
            self._left_out = min(1 << (self._failures - PATIENT), MOST_LEFT_OUT)

    def succeeded(self) -> None:
        """One does."""
        self._failures = 0


#: By the kind of node, of one of many inputs the operation, and whether gradients went through.
_endings = namespace("ending")


def ending_of(roots: Sequence[Node], tracks: bool, length: float) -> Ending | None:
    """The recordings like one that is to be cut; None: it is not.

    roots     what is wanted of it: recordings are told apart by the first
    tracks    whether gradients go through it
    length    how many nodes were made since the recording began; negative: it is an earlier one
    """
    if 0 <= length < SHORTEST or not config.patience or config.eager:
        return None
    # The operation that puts a list of every length together is of another kind each time.
    key = (roots[0].kind if len(roots[0].inputs) < _MANY_INPUTS else roots[0].kind.op, tracks)
    ending: Ending | None = _endings.get(key)
    if ending is None:
        _endings.put(key, Ending(_size_of(roots, tracks)))
        return None
    machine.note_repeated(length > LARGEST)  # it is machine code that finds parts, and Python is slow with long ones
    return ending if machine.asks is not None and ending.is_to_be_tried(roots, tracks) else None


def _size_of(roots: Sequence[Node], tracks: bool, largest: float = math.inf) -> int:
    """The number of nodes to be computed, or gone through: up to leaves; of a larger one any size above."""

    def followed(node: Node) -> list[Node]:
        inside = [i for i in node.inputs if i.leaf is None]
        return [i for i in inside if i.value is None or (tracks and i.kind.out.requires_grad)]

    return len(reached(roots, followed, largest))


def computed(found: Cut, compute: Callable[[Sequence[Node]], None]) -> list[tuple[Sequence[Any], tuple]]:
    """The sources of each part, and what its forward gives; nothing of that is kept in nodes yet.

    compute    compute(nodes): evaluate leaves that are pending

    Raises Unfit when another thread has computed some of it meanwhile.
    """
    parts = found.parts
    values_of: dict[Node, Any] = _values_of(found.pending, compute)
    done: list[tuple[Sequence[Any], tuple]] = []
    try:
        for part in reversed(parts):
            segment, roots, values, _, outer, _ = part
            if segment.waits:
                values = list(values)
                for at, k in segment.waits:
                    if outer[k] not in values_of:
                        raise Unfit
                    values[at] = values_of[outer[k]]
            results: tuple = ()
            forward = segment.forward
            if forward is not None:
                results = forward(values)
                for k, position in segment.leads:
                    values_of[roots[k]] = results[position]
            done.append((values, results))
    except OutOfRange as error:
        raise located_at(error, [r for part in parts for r in part.roots]) from None
    COUNTS.runs += 1
    done.reverse()
    return done


def _values_of(ends: Sequence[Node], compute: Callable[[Sequence[Node]], None]) -> dict[Node, Any]:
    """The values of pending leaves, and of targets: they have them from now on."""
    for node in ends:
        origin = source(node)
        if origin is not node and origin.value is not None:
            settle(node, origin.value)
    pending = [node for node in ends if node.value is None]
    if pending:
        compute(pending)
    return {node: node.value for node in ends}


def values_in_parts(roots: Sequence[Node], start: float, compute: Callable[[Sequence[Node]], None]) -> bool:
    """Compute pending nodes, if their recording falls into segments; False: it does not, or is not to.

    roots     what is asked for, then others that are wanted with it
    start     the number that the recording began with
    compute   compute(nodes): evaluate leaves that are pending
    """
    # Of a list of values the first is asked for before the others.
    measured = roots if 0 <= roots[0].number - start < SHORTEST else roots[:1]
    length = max([root.number for root in measured]) - start
    ending = None if roots[0].leaf is not None else ending_of(measured, False, length)
    if ending is None:
        return False
    since = prices.now()
    try:
        found = cut(roots[0], roots[1:], False, frozenset(), Segment.complete)
        whole = whole_of((), found.parts)
        if whole is None:
            return False
        done = computed(found, compute)
    except Unfit:
        ending.failed()
        return False
    ending.succeeded()
    commit(found.parts, done, False)
    whole.seconds += prices.now() - since
    note_parts("value", found.new)
    return True


def note_parts(what: str, new: int) -> None:
    """Count a recording that was run in parts, of which so many segments were new."""
    if not new:
        COUNTS.hits += 1
    else:
        COUNTS.misses += 1
        note(what, f"{new} segment{'s' if new > 1 else ''} of a loop {'were' if new > 1 else 'was'} new")


def commit(
    parts: Sequence[FoundPart], done: Sequence[tuple[Sequence[Any], tuple]], is_released: bool
) -> None:
    """Keep the values that belong to nodes, and mark the history as given up."""
    for (segment, _, _, stored, _, past), (_, results) in zip(parts, done, strict=True):
        segment.finish(results, stored, past, is_released)


# ---------------------------------------------------------------- in parts, or whole


def whole_of(purpose: tuple, parts: Sequence[FoundPart]) -> Account | None:
    """The account of a recording; None where the whole is to be compiled, or is.  Raises Unfit for too few parts."""
    if len(parts) < FEWEST:
        raise Unfit
    key = ("in parts", purpose, *_numbers(parts))
    whole: Account | None = tiers.get(key)
    if whole is None:
        whole = Account(sum([p.segment.operations for p in parts]))
        tiers.put(key, whole, len(key))
    if whole.runs > 1 and whole.why_now(lately.ran_in_parts):
        whole.seconds = math.inf  # from now on
        return None
    lately.ran_in_parts.append(whole)
    whole.runs += 1
    return whole


def _numbers(parts: Sequence[FoundPart]) -> list[float]:
    """Numbers of the parts, and how often each comes in a row: the same where several are taken as one."""
    found: list[float] = []
    latest = None
    for part in parts:
        segment, times = part.segment, part.segment.times
        if segment.serial == latest:
            found[-1] += times
        else:
            latest = segment.serial
            found += (latest, times)
    return found
