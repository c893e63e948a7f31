"""Runs of a recording that was taken apart (`peel`): forward from its beginning, values kept at the end.

A recording in parts costs a call and a walk for each part, however long it is; one graph of its own would be
compiled once for this length, and then cost less.  So where lengths are varied (`lengths`), parts are what one
rents: when they have taken as long as compiling the whole is expected to take, or the same recording comes again
and again in a loop that would soon have paid for it, the whole is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from codegen.ir import OutOfRange

from ..session import tiers
from .cutting import SHORTEST
from .lengths import Ending, ending_of
from .misses import note
from .node import Node
from .peel import FoundPart, Peeled, peel
from .plan import COUNTS, located_at, settle, source
from .stretch import Stretch, Unfit
from .tier import Account, lately, prices

__all__ = ["commit", "computed", "note_parts", "taken_apart", "values_in_parts", "whole_of"]

#: Of fewer parts it is one graph: what is asked at each step, say.
FEWEST = 3


def taken_apart(
    root: Node, beside: Sequence[Node], tracks: bool, targets: AbstractSet[Node], complete: Callable, ending: Ending
) -> Peeled:
    """The parts of what a result needs, and of what is wanted beside it.  Raises Unfit.

    What lies within what the result needs, a list of losses say, is stored by the parts that it lies in.  Only what
    does not is a root of its own.
    """
    apart = list(beside)
    if len(apart) > ending.apart:
        try:
            peeled = peel([root], tracks, targets, complete, ending.varies, frozenset(beside))
        except Unfit:  # the others may be most of the recording
            ending.apart = len(apart)
        else:
            stored = {node for part in peeled.parts for node in part.stored}
            apart = [node for node in apart if node not in stored]
            ending.apart = len(apart)
            if not apart:
                return peeled
    return peel([root, *apart], tracks, targets, complete, ending.varies, frozenset(beside))


def computed(
    peeled: Peeled, compute: Callable[[Sequence[Node]], None]
) -> list[tuple[Sequence[Any], tuple]]:
    """The sources of each part, and what its forward gives; nothing of that is kept in nodes yet.

    compute    compute(nodes): evaluate leaves that are pending

    Raises Unfit when another thread has computed some of it meanwhile.
    """
    found: dict[Node, Any] = _values_of(peeled.pending, compute)
    parts = peeled.parts
    done: list[tuple[Sequence[Any], tuple]] = []
    try:
        for part in reversed(parts):
            stretch, roots, values, _, outer, _ = part
            if stretch.waits:
                values = list(values)
                for at, k in stretch.waits:
                    if outer[k] not in found:
                        raise Unfit
                    values[at] = found[outer[k]]
            results: tuple = ()
            forward = stretch.forward
            if forward is not None:
                compiled = forward.run.compiled
                results = forward(values) if compiled is None else compiled.call(*forward.pick(values))
                for k, position in stretch.leads:
                    found[roots[k]] = results[position]
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


def values_in_parts(
    roots: Sequence[Node], start: float, compute: Callable[[Sequence[Node]], None]
) -> bool:
    """Compute pending nodes, if their recording falls into stretches; False: it does not, or is not to.

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
        peeled = taken_apart(roots[0], roots[1:], False, frozenset(), _complete, ending)
        whole = whole_of((), peeled.parts)
        if whole is None:
            ending.compiled(measured, False, length)
            return False
        done = computed(peeled, compute)
    except Unfit:
        ending.failed()
        return False
    ending.succeeded()
    commit(peeled.parts, done, False)
    whole.seconds += prices.now() - since
    note_parts("value", peeled.new)
    return True


def _complete(stretch: Stretch, nodes: Sequence[Node], roots: Sequence[Node], past: frozenset[Node]) -> None:
    stretch.complete(nodes, roots, past)


def note_parts(what: str, new: int) -> None:
    """Count a recording that was run in parts, of which so many stretches were new."""
    if not new:
        COUNTS.hits += 1
    else:
        COUNTS.misses += 1
        note(what, f"{new} stretch{'es' if new > 1 else ''} of a loop {'were' if new > 1 else 'was'} new")


def commit(
    parts: Sequence[FoundPart], done: Sequence[tuple[Sequence[Any], tuple]], is_released: bool
) -> None:
    """Keep the values that belong to nodes, and mark the history as given up."""
    for (stretch, _, _, stored, _, past), (_, results) in zip(parts, done, strict=True):
        stretch.piece.finish(results, stored, past, is_released)


# ---------------------------------------------------------------- in parts, or whole


def whole_of(purpose: tuple, parts: Sequence[FoundPart]) -> Account | None:
    """The account of a recording; None where the whole is to be compiled, or is.  Raises Unfit for too few parts."""
    if len(parts) < FEWEST:
        raise Unfit
    key = ("in parts", purpose, *_numbers(parts))
    whole: Account | None = tiers.get(key)
    if whole is None:
        whole = Account(sum([p.stretch.operations for p in parts]))
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
        stretch, times = part.stretch, part.stretch.times
        if stretch.serial == latest:
            found[-1] += times
        else:
            latest = stretch.serial
            found += (latest, times)
    return found
