"""Passes that machine code does in one call, the history included: nothing is left to Python but the question.

    pull_back_at_once(results, bars, targets, asked)     from cotangents of results to those of targets
    push_at_once(results, tangents, may_track)           from tangents to those of results

Both give None where Python has to look at a node of the history: at hooks, calls, rules that are no programs, or a node
that was released.  Then `reverse` and `forward` begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ops.primitive import named, zeros_of
from ..tape.node import Node
from ..tensor import Tensor
from .reverse import Many, aval_of, noted
from .rule_programs import PUSH, RulePrograms

__all__ = ["OUTSIDE", "RECORDED", "VERSIONS", "pull_back_at_once", "push_at_once"]

#: The kinds of sums that do not track, and of those that do.
_SUMS = (named("add").memo[False], named("add").memo[True])
#: What `pull_back_at_once` is asked for: gradients track, or where something leads to another than the targets, they
#: do; all versions of a leaf that is a target are meant.  Machine code has the same (`recording_gradients`).
RECORDED, OUTSIDE, VERSIONS = 1, 2, 4


def pull_back_at_once(
    results: Sequence[Node], bars: Sequence[Node], targets: Sequence[Node] | None, asked: int,
    many: Many | None = None,
) -> tuple[bool, Sequence[Node], list[Tensor | None]] | None:  # fmt: skip
    """True if gradients track, the targets, and their cotangents (None: not reached).

    bars       of each result
    targets    nodes; None: the leaves of the history
    asked      see `RECORDED`;  many: what cotangents are many

    None where Python has to look.
    """
    programs = RulePrograms.at_once(is_many=many is not None)
    if programs is None:
        return None
    ends = None if targets is None else tuple(targets)
    try:
        found = programs.native.pulled(
            tuple(results), tuple(bars), ends, asked, programs.word, _SUMS, programs.used, programs.stamp
        )
    finally:
        programs.note_used()
    if found is None:
        return None
    tracks, *rest = found
    if ends is None:
        ends = tuple(rest[: len(rest) // 2])
        del rest[: len(ends)]
    there = zip(ends, rest, strict=True)
    return tracks, ends, [None if g is None else noted(g or zeros_of(aval_of(n, many)).node) for n, g in there]


def push_at_once(results: Sequence[Node], given: Mapping[Node, Tensor], may_track: bool) -> list[Any] | None:
    """True if tangents track, and the tangents of results (None: zero); None where Python has to look."""
    programs = RulePrograms.at_once()
    if programs is None:
        return None
    dots = tuple([t.node for t in given.values()])
    asked = 0 if not may_track else RECORDED if any([d.kind.out.requires_grad for d in dots]) else OUTSIDE
    try:
        found = programs.native.pushed(
            tuple(results), tuple(given), dots, asked, programs.word | PUSH, programs.used, programs.stamp
        )
    finally:
        programs.note_used()
    if found is None:
        return None
    ends = zip(results, found[1:], strict=True)
    return [found[0], *[given.get(n) if dot is None else noted(dot) for n, dot in ends]]
