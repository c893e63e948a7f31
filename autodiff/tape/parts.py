"""Recordings in parts: the long recording of a loop whose length varies runs segment by segment (`cut`).

A loop of fixed length makes the same graph each time: the graph is compiled as a whole, and found again by its hash.
So sizes of recordings are compared for each kind of node that recordings end in.  Once they differ, new recordings run
in parts: forward from the beginning, where each part stores its values, and back from the end if gradients are asked
for.  After several recordings in a row that could not be cut, only some of the following ones are tried.

Each part costs a call and a walk; a graph of the whole has to be compiled for this length alone, and then costs less.
The whole is compiled when its parts have taken as long as that is expected to take, or the recording comes in a loop.
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
from .plan import COUNTS, located_at, set_value, source
from .record import asking, state
from .segment import Rules, Segment, Unfit, machine_code
from .tier import Account, latest_runs, prices
from .walk import reached

#: A recording of fewer parts runs as one graph (if a value is asked for at each step, say).
FEWEST = 3
#: An operation with this many inputs or more is taken to put a list together.
_MANY_INPUTS = 12
#: After `PATIENT` failures in a row, one recording in `TRIED` is tried.
PATIENT, TRIED = 3, 32


class Ending:
    """Recordings that end in one kind of node: the size of the first; `varies` is True once another size came."""

    __slots__ = ("_failures", "size", "varies")

    def __init__(self, size: int) -> None:
        self.size = size
        self.varies = False
        self._failures = 0

    def is_to_be_tried(self, roots: Sequence[Node], tracks: bool) -> bool:
        """True if a recording after the first should be cut."""
        if self._failures >= PATIENT and self._failures % TRIED:
            self._failures += 1
            return False
        self.varies = self.varies or _size_of(roots, tracks, self.size) != self.size
        return self.varies

    def note(self, is_cut: bool) -> None:
        """Note if a recording could be cut."""
        self._failures = 0 if is_cut else self._failures + 1


#: Endings by (the kind of the last node, or its operation if it has many inputs; True if gradients go through).
_endings = namespace("ending")


def ending_of(roots: Sequence[Node], tracks: bool, length: float) -> Ending | None:
    """The ending of a recording that should be cut; None for one that should not.

    roots     the nodes that are wanted: the first is the end of the recording
    tracks    True if gradients go through;  length: see `run_in_parts`
    """
    if not config.patience_now or config.eager:
        return None
    # An operation that puts a list of varying length together has another kind each time.
    key = (roots[0].kind if len(roots[0].inputs) < _MANY_INPUTS else roots[0].kind.op, tracks)
    ending: Ending | None = _endings.get(key)
    if ending is None:
        _endings.put(key, Ending(_size_of(roots, tracks)))
        return None
    if length > LARGEST:  # only machine code finds parts, and Python is slow with long recordings
        machine.note_repeated()
    return ending if machine.asks is not None and ending.is_to_be_tried(roots, tracks) else None


def _size_of(roots: Sequence[Node], tracks: bool, largest: float = math.inf) -> int:
    """The number of nodes to compute or to differentiate, without leaves; a number above `largest` may be too small."""

    def followed(node: Node) -> list[Node]:
        inside = [i for i in node.inputs if i.leaf is None]
        return [i for i in inside if i.value is None or (tracks and i.kind.out.requires_grad)]

    return len(reached(roots, followed, largest))


def values_in_parts(roots: Sequence[Node], start: float) -> bool:
    """Compute pending nodes part by part; False if their recording has no segments, or should not be cut.

    roots     the node that is asked for, then nodes that are wanted with it
    start     the node number at which the recording began
    """
    measured, length = roots[:1], roots[0].number - start
    if 0 <= length < SHORTEST:  # of a list of values, the first one may be asked for first
        measured, length = roots, max([root.number for root in roots]) - start
    if 0 <= length < SHORTEST or roots[0].leaf is not None:
        return False
    return run_in_parts(roots, measured, length) is not None


def run_in_parts(
    roots: Sequence[Node], measured: Sequence[Node], length: float, targets: AbstractSet[Node] = frozenset(),
    rules: Rules | None = None,
) -> dict[Node, Any] | None:  # fmt: skip
    """Compute the pending nodes of a recording part by part, and return the cotangents of its leaves and targets.

    roots     a result, then nodes whose values are wanted in the same run;   measured: the roots that give its size
    length    the number of nodes since the recording began, at least `SHORTEST`; negative for an earlier recording
    targets   the nodes at which gradients end, beside leaves;   rules: runs those of a segment; None: no gradients

    Returns None if the recording has no segments, or should not be cut.
    """
    ending = ending_of(measured, rules is not None, length)
    if ending is None:
        return None
    since = prices.now()
    cotangents: dict[Node, Any] = {}
    with Paused():
        try:
            cut = Cut(roots, targets, rules)
            whole = _whole_of((rules is not None, len(targets)), cut.parts)
            if whole is None:
                return None
            _compute(cut)
            if rules is not None:
                out = roots[0].kind.out
                cotangents[roots[0]] = np.ones(out.shape, out.aval.dtype)
                machine_code().pull_parts(cut.parts, cotangents, set(), Segment.pull, _zeros)
        except Unfit:
            ending.note(False)
            return None
    ending.note(True)
    whole.seconds += prices.now() - since
    _note_run(cut, rules is not None)
    return cotangents


def _zeros(leaf: Node) -> np.ndarray:
    """Zeros, as the cotangent of a leaf that no part has reached yet.

    So the first part that reaches the leaf has the same pattern of cotangents, and the same code, as all others.
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
    """Compute the pending nodes of each part, and store their values."""
    for node in cut.pending:
        origin = source(node)
        if origin is not node and origin.value is not None:
            set_value(node, origin.value)
    pending = [node for node in cut.pending if node.value is None]
    if pending:
        asking.evaluate((*pending, *state.now.waiting()), ends_recording=False)
    try:
        machine_code().compute_parts(cut.parts)
    except OutOfRange as error:
        raise located_at(error, [node for _, nodes in cut.parts for node in nodes]) from None
    COUNTS.runs += 1


def _whole_of(purpose: tuple, parts: Sequence[Part]) -> Account | None:
    """The account of a recording in parts; None if it should run as a whole.  Raises Unfit for too few parts."""
    if len(parts) < FEWEST:
        raise Unfit
    key = ("in parts", *purpose, *[segment.serial for segment, _ in parts])
    whole: Account | None = tiers.get(key)
    if whole is None:
        whole = Account(int(sum([segment.operations for segment, _ in parts])))
        tiers.put(key, whole, len(parts))
    if whole.runs > 1 and whole.reason_to_compile(latest_runs.ran_in_parts):
        whole.seconds = math.inf  # so that it runs as a whole from now on
        return None
    latest_runs.ran_in_parts.append(whole)
    whole.runs += 1
    return whole
