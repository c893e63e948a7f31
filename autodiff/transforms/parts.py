"""Gradients of a recording that was cut into segments (`tape.cut`).

What the rules of a segment record depends on which of its roots have a cotangent, and which of what it reads
has one already, from what was recorded later: they are put down once for each such *pattern*, and compiled.
Cotangents are then carried from segment to segment as arrays.

    pattern    per root, then per tracked node outside:  0 no cotangent   1 a cotangent   2 a masked one
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from codegen.garbage import Paused, ignoring

from ..custom.keys import users_methods
from ..dispatch import observed
from ..tape.ask import end_recording, evaluate
from ..tape.cut import FoundPart, cut
from ..tape.node import Node, data_node, leaf_kind, out_of
from ..tape.parts import Ending, commit, computed, ending_of, note_parts, whole_of
from ..tape.plan import data
from ..tape.record import state
from ..tape.segment import GIVEN, Segment, SegmentCode, Unfit, code_of
from ..tape.tier import prices
from ..tape.walk import by_number, reached
from .backward_pass import recording_rules
from .reverse import Cotangent, pull_back_masked

__all__ = ["InParts", "in_parts"]

#: Patterns that are kept of one segment.
PATTERNS = 16
_NONE: tuple[Any, int] = (None, 0)
#: Cotangents by node, and whether they are masked.
_Bars = dict[Node, tuple[Any, int]]


class InParts:
    """A recording whose gradients are computed in parts.

    bars       the cotangents that were found at its ends: leaves and targets
    partial    for parts, one by one, that gradients did not go through all roots of: those that they went through
    """

    def __init__(
        self, parts: list[FoundPart], done: list, bars: dict[Node, np.ndarray], partial: dict[int, list[Node]]
    ) -> None:
        self.bars = bars
        self._parts, self._done, self._partial = parts, done, partial

    def gradients(
        self, groups: Sequence[Sequence[Node]], olds: Sequence[Node | None] = ()
    ) -> list[np.ndarray | None]:
        """The sum of the cotangents of each group, and of an old gradient; each in memory of its own.

        None for a group that was not reached.
        """
        taken: set[int] = set()
        found: list[np.ndarray | None] = []
        for nodes, old in zip(groups, olds or [None] * len(groups), strict=True):
            terms = [self.bars[n] for n in nodes if n in self.bars]
            if not terms:
                found.append(None)
                continue
            if old is not None:
                terms.append(data(old))
            total = terms[0] if len(terms) == 1 else _sum(terms)
            found.append(total.copy() if id(total) in taken else total)
            taken.add(id(total))
        return found

    def commit(self, is_released: bool) -> None:
        """Keep values in nodes, and give up the history that gradients went through.  The recording is over."""
        parts = [*self._parts]
        for i, roots in self._partial.items() if is_released else ():
            parts[i] = _with_history_of(parts[i], roots)
        commit(parts, self._done, is_released)
        now = state.now
        now.asked += 1  # as `solve` does: a rule that goes back is found out by it
        now.looked += 1
        end_recording(now)


def _sum(terms: Sequence[np.ndarray]) -> np.ndarray:
    total = terms[0]
    with ignoring(all="ignore"):
        for term in terms[1:]:
            total = np.asarray(np.add(total, term))
    return total


def in_parts(
    root: Node, beside: Sequence[Node], targets: AbstractSet[Node] = frozenset()
) -> InParts | None:
    """The gradients of one number, if its recording falls into segments; None: it does not, or is not to.

    beside    nodes of results that are wanted in the same run
    targets   where gradients end, beside leaves
    """
    now = state.now
    ending = None if now.tracing else ending_of((root,), True, root.number - now.began)
    if ending is None:
        return None
    with Paused():
        return _in_parts(root, beside, targets, ending)


def _in_parts(
    root: Node, beside: Sequence[Node], targets: AbstractSet[Node], ending: Ending
) -> InParts | None:
    since = prices.now()
    seed = np.ones(root.kind.out.shape, root.kind.out.aval.dtype)
    try:
        found = cut(root, beside, True, targets, _complete)
        parts = found.parts
        whole = whole_of((True, len(targets)), parts)
        if whole is None:
            return None
        done = computed(found, _compute)
        bars, partial = _pulled(parts, done, root, seed)
    except Unfit:
        ending.failed()
        return None
    ending.succeeded()
    whole.seconds += prices.now() - since
    note_parts("backward", found.new)
    return InParts(parts, done, bars, partial)


def _compute(nodes: Sequence[Node]) -> None:
    evaluate((*nodes, *state.now.waiting()), ends_recording=False)


def _pulled(
    parts: Sequence[FoundPart], done: Sequence[tuple[Sequence[Any], tuple]], root: Node, seed: np.ndarray
) -> tuple[dict[Node, np.ndarray], dict[int, list[Node]]]:
    """Carry the cotangent of the root through the parts."""
    bars: _Bars = {root: (seed, 1)}
    partial: dict[int, list[Node]] = {}
    for i, (part, (values, results)) in enumerate(zip(parts, done, strict=True)):
        _through(part.segment, part.roots, part.outer, values, results, bars, partial, i)
    return {node: bar for node, (bar, _) in bars.items()}, partial


def _through(
    segment: Segment, roots: Sequence[Node], outer: Sequence[Node], values: Sequence[Any], results: Sequence[Any],
    bars: _Bars, partial: dict[int, list[Node]], i: int,
) -> None:  # fmt: skip
    """Carry cotangents through one part, the i-th one."""
    given = [bars.pop(r, _NONE) for r in roots]
    given += [_bar_of(outer[k], bars) for k in segment.tracked]
    pattern = tuple([flag for _, flag in given])
    pull = segment.pulls.get(pattern)
    if pull is None:
        pull = _new_pull(segment, pattern)
    if pull.is_partial:
        partial[i] = [r for r, flag in zip(roots, pattern, strict=False) if flag]
    sources = [*values, *results, *[bar for bar, _ in given]]
    code = pull.code
    if code is not None:
        found = code(sources)
    for k, position, flag in pull.computed:
        bars[outer[k]] = (found[position], flag)
    for k, source, flag in pull.passed:
        if outer[k].leaf is None or outer[k] in bars:  # else it is the zero that was made for it here: none reaches it
            bars[outer[k]] = (sources[source], flag)


def _bar_of(node: Node, bars: _Bars) -> tuple[Any, int]:
    """The cotangent that something outside has; of a leaf that has none yet it is zero.

    So the first part that reaches a leaf is gone through by the code of all others.
    """
    found = bars.get(node, _NONE)
    if found is _NONE and node.leaf is not None:
        aval = node.kind.out.aval
        return np.zeros(aval.shape, aval.dtype), 1
    return found


def _with_history_of(part: FoundPart, roots: Sequence[Node]) -> FoundPart:
    """A part whose history is what these roots have; the rest of it belongs to results that were only computed."""
    inside = set(part.past)
    mine = reached(roots, lambda node: [i for i in node.inputs if i in inside])
    return part._replace(past=tuple([node for node in part.past if node in mine]))


# ---------------------------------------------------------------- made once


class _Pull:
    """From the cotangents of a segment's roots to those of what it reads.

    computed   (place in `outer`, position among the results, flag)
    passed     (place in `outer`, source that is the cotangent itself, flag)
    is_partial whether a root with a history has no cotangent
    """

    __slots__ = ("choices", "code", "computed", "is_partial", "passed")

    def __init__(self, is_partial: bool) -> None:
        self.is_partial = is_partial
        self.code: SegmentCode | None = None
        self.choices: Any = None
        self.computed: list[tuple[int, int, int]] = []
        self.passed: list[tuple[int, int, int]] = []

def _complete(segment: Segment, nodes: Sequence[Node], roots: Sequence[Node], past: frozenset[Node]) -> None:
    """Make the code of a new segment; what its rules read is stored by forward."""
    flags = [int(r.kind.out.requires_grad) for r in segment.roots]
    pattern = (*flags, *map(int, segment.ends))
    emitted = _emitted(segment, pattern)
    model = set(segment.nodes)
    read = {i for n in _made(emitted, model) for i in n.inputs if i in model}
    segment.complete(nodes, roots, past, read)
    _put(segment, pattern, emitted)


def _new_pull(segment: Segment, pattern: tuple[int, ...]) -> _Pull:
    return _put(segment, pattern, _emitted(segment, pattern))


class _PulledBack:
    """The record of a segment's rules: the cotangents given, those found, and the choices of dispatch."""

    def __init__(self, given: list[Node | None], found: dict[Node, Cotangent], choices: Any) -> None:
        self.given, self.found, self.choices = given, found, choices


def _emitted(segment: Segment, pattern: tuple[int, ...]) -> _PulledBack:
    given: list[Node | None] = []
    seeds = []
    with observed() as choices, recording_rules(False):
        for node, flag in zip([*segment.roots, *segment.reached], pattern, strict=True):
            bar = data_node(leaf_kind(out_of(node.kind.out.aval)), GIVEN) if flag else None
            given.append(bar)
            if bar is not None:
                seeds.append((node, Cotangent(bar, flag == 2)))
        order = [n for n in segment.nodes if n.kind.out.requires_grad]
        found = pull_back_masked(order, seeds, segment.reached)
    if users_methods(choices):
        raise Unfit  # they may read anything
    return _PulledBack(given, found, choices)


def _made(emitted: _PulledBack, model: AbstractSet[Node]) -> Iterable[Node]:
    """The nodes that rules recorded for the cotangents that are found."""
    found = [c.node for c in emitted.found.values()]
    return sorted(reached(found, lambda node: [i for i in node.inputs if i not in model]), key=by_number)


def _put(segment: Segment, pattern: tuple[int, ...], emitted: _PulledBack) -> _Pull:
    pull = _Pull(any(r.kind.out.requires_grad and not f for r, f in zip(segment.roots, pattern, strict=False)))
    number = dict(segment.number)
    for i, bar in enumerate(emitted.given, segment.count):
        if bar is not None:
            number[bar] = i
    outputs: dict[Node, int] = {}
    for k, node in zip(segment.tracked, segment.reached, strict=True):
        cotangent = emitted.found.get(node)
        if cotangent is None:
            continue
        bar, flag = cotangent.node, 1 + cotangent.masked
        if bar in number:
            pull.passed.append((k, number[bar], flag))
        else:
            pull.computed.append((k, outputs.setdefault(bar, len(outputs)), flag))
    if outputs:
        pull.code = code_of(list(outputs), number, segment.count + len(emitted.given), segment.is_long)
    pull.choices = emitted.choices
    pull.choices.on_change(lambda: segment.pulls.pop(pattern, None))
    if len(segment.pulls) >= PATTERNS:
        segment.pulls.clear()
    segment.pulls[pattern] = pull
    return pull
