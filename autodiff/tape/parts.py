"""Recordings in parts: a long one of a loop whose length changes is run segment by segment (`cut`).

A loop of fixed length makes the same graph each time: it is compiled whole, and found again by its hash.  So of each
kind of node that recordings end in it is known whether all had the same size.  Once they had not, new ones are run in
parts: forward from the beginning, where each part keeps its values, and back from the end, where gradients are asked
for.  Where that did not succeed several times in a row, it is tried now and then.

A part costs a call and a walk; one graph would be compiled for this length alone, and then cost less.  When parts have
taken as long as compiling the whole is expected to take, or the same recording comes in a loop, the whole is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from codegen.garbage import Paused
from codegen.ir import OutOfRange

from ..config import config
from ..session import namespace, tiers
from . import machine
from .cut import LARGEST, SHORTEST, Cut, Part
from .misses import note
from .node import Node
from .plan import COUNTS, located_at, settle, source
from .record import asking, state
from .segment import Rules, Segment, Unfit, machine_code
from .tier import Account, lately, prices
from .walk import reached

#: Of fewer parts it is one graph: what is asked at each step, say.
FEWEST = 3
#: Inputs of an operation from which on it puts a list together.
_MANY_INPUTS = 12
#: Failures in a row after which one recording in so many is tried.
PATIENT, TRIED = 3, 32


class Ending:
    """Recordings that end in one kind of node: the operations of the first, and whether another had another size."""

    __slots__ = ("_failures", "size", "varies")

    def __init__(self, size: int) -> None:
        self.size = size
        self.varies = False
        self._failures = 0

    def is_to_be_tried(self, roots: Sequence[Node], tracks: bool) -> bool:
        """True if a recording after the first is to be cut."""
        if self._failures >= PATIENT and self._failures % TRIED:
            self._failures += 1
            return False
        self.varies = self.varies or _size_of(roots, tracks, self.size) != self.size
        return self.varies

    def note(self, is_cut: bool) -> None:
        """A recording falls into segments, or does not."""
        self._failures = 0 if is_cut else self._failures + 1


#: By the kind of node, of one of many inputs the operation, and whether gradients went through.
_endings = namespace("ending")


def ending_of(roots: Sequence[Node], tracks: bool, length: float) -> Ending | None:
    """The recordings like one that is to be cut; None: it is not.

    roots     what is wanted of it: recordings are told apart by the first
    tracks    whether gradients go through it;  length: see `run_in_parts`
    """
    if not config.patience_now or config.eager:
        return None
    # The operation that puts a list of every length together is of another kind each time.
    key = (roots[0].kind if len(roots[0].inputs) < _MANY_INPUTS else roots[0].kind.op, tracks)
    ending: Ending | None = _endings.get(key)
    if ending is None:
        _endings.put(key, Ending(_size_of(roots, tracks)))
        return None
    if length > LARGEST:  # it is machine code that finds parts, and Python is slow with long ones
        machine.note_repeated()
    return ending if machine.asks is not None and ending.is_to_be_tried(roots, tracks) else None


def _size_of(roots: Sequence[Node], tracks: bool, largest: float = math.inf) -> int:
    """The number of nodes to be computed, or gone through: up to leaves; of a larger one any size above."""

    def followed(node: Node) -> list[Node]:
        inside = [i for i in node.inputs if i.leaf is None]
        return [i for i in inside if i.value is None or (tracks and i.kind.out.requires_grad)]

    return len(reached(roots, followed, largest))


def values_in_parts(roots: Sequence[Node], start: float) -> bool:
    """Compute pending nodes, if their recording falls into segments; False: it does not, or is not to.

    roots     what is asked for, then others that are wanted with it
    start     the number that the recording began with
    """
    measured, length = roots[:1], roots[0].number - start
    if 0 <= length < SHORTEST:  # of a list of values the first is asked for before the others
        measured, length = roots, max([root.number for root in roots]) - start
    if 0 <= length < SHORTEST or roots[0].leaf is not None:
        return False
    return run_in_parts(roots, measured, length) is not None


def run_in_parts(
    roots: Sequence[Node], measured: Sequence[Node], length: float, targets: AbstractSet[Node] = frozenset(),
    rules: Rules | None = None,
) -> dict[Node, Any] | None:  # fmt: skip
    """Compute what is pending in a recording, part by part, and give the cotangents of its leaves and targets.

    roots     a result, then nodes whose values are wanted in the same run;   measured: those that tell how long it is
    length    how many nodes were made since it began, enough of them; negative: it is an earlier one
    targets   where gradients end, beside leaves;   rules: those of segments, where gradients go through

    None where the recording does not fall into segments, or is not to.
    """
    ending = ending_of(measured, rules is not None, length)
    if ending is None:
        return None
    since = prices.now()
    bars: dict[Node, Any] = {}
    with Paused():
        try:
            cut = Cut(roots, targets, rules)
            whole = _whole_of((rules is not None, len(targets)), cut.parts)
            if whole is None:
                return None
            _compute(cut)
            if rules is not None:
                out = roots[0].kind.out
                bars[roots[0]] = np.ones(out.shape, out.aval.dtype)
                machine_code().pull_parts(cut.parts, bars, set(), Segment.pull, _zeros)
        except Unfit:
            ending.note(False)
            return None
    ending.note(True)
    whole.seconds += prices.now() - since
    _note_run(cut, rules is not None)
    return bars


def _zeros(leaf: Node) -> np.ndarray:
    """The cotangent of a leaf that no part has reached yet.

    So the first part that reaches a leaf is gone through by the code of all others.
    """
    aval = leaf.kind.out.aval
    return np.zeros(aval.shape, aval.dtype)


def _note_run(cut: Cut, goes_back: bool) -> None:
    """Count a recording that was run in parts."""
    if cut.new:
        COUNTS.misses += 1
        which = "1 segment of a loop was new" if cut.new == 1 else f"{cut.new} segments of a loop were new"
        note("backward" if goes_back else "value", which)
    else:
        COUNTS.hits += 1


def _compute(cut: Cut) -> None:
    """Compute what is pending in each part, and keep it."""
    for node in cut.pending:
        origin = source(node)
        if origin is not node and origin.value is not None:
            settle(node, origin.value)
    pending = [node for node in cut.pending if node.value is None]
    if pending:
        asking.evaluate((*pending, *state.now.waiting()), ends_recording=False)
    try:
        machine_code().compute_parts(cut.parts)
    except OutOfRange as error:
        raise located_at(error, [node for _, nodes in cut.parts for node in nodes]) from None
    COUNTS.runs += 1


def _whole_of(purpose: tuple, parts: Sequence[Part]) -> Account | None:
    """The account of a recording; None where the whole is to be compiled, or is.  Raises Unfit for too few parts."""
    if len(parts) < FEWEST:
        raise Unfit
    key = ("in parts", *purpose, *[segment.serial for segment, _ in parts])
    whole: Account | None = tiers.get(key)
    if whole is None:
        whole = Account(int(sum([segment.operations for segment, _ in parts])))
        tiers.put(key, whole, len(parts))
    if whole.runs > 1 and whole.why_now(lately.ran_in_parts):
        whole.seconds = math.inf  # from now on
        return None
    lately.ran_in_parts.append(whole)
    whole.runs += 1
    return whole
