"""Passes over one recording, one for each unit tensor of an aval, done many at once: the rows of a Jacobian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ConcretizationError, GradientError
from ...ops import concatenate
from ...ops.batching import with_examples
from ...tape.ask import evaluate
from ...tape.leaves import leaf
from ...tape.node import Node
from ...tape.plan import data
from ...tensor import Tensor
from .walk import NoBatchRule, of_each

__all__ = ["at_once", "together"]

#: Fewer passes are done one after the other: what it costs to make one pass into many is then more than it saves.
#: Jacobians of two dense layers, from plain code: 3 rows 0.2 ms by themselves and 0.4 ms at once, 20 rows 0.7 and 0.4,
#: 100 rows 3.4 and 0.7, 400 rows 115 and 15 (two cores of a shared machine, November 2026).
FEWEST = 8

#: At most this many elements of one intermediate result, of all passes that are done at once: 32 MB of float64.
LIMIT = 1 << 22


def at_once(run: Callable[[Tensor], Sequence[Any]], like: Tensor, past: Sequence[Node]) -> list[Any] | None:
    """All passes as tensors, also where they are few: they are recorded once, for many calls.

    None where they are large ones, or a rule on the way needs values.
    """
    if _most(like, past) < like.size:
        return None
    try:
        return _block(run, like, 0, like.size, False)
    except (ConcretizationError, GradientError, NoBatchRule):
        return None


def _most(like: Tensor, past: Sequence[Node]) -> int:
    """The number of passes that may be done at once."""
    largest = max([n.kind.out.aval.size for n in past], default=1)
    return min(like.size, LIMIT // max(largest, like.size, 1))


def together(
    run: Callable[[Tensor], Sequence[Any]], like: Tensor, past: Sequence[Node], is_plain: bool
) -> list[Any] | None:
    """run(e) for each unit tensor of the aval of `like`, in C order: each of its results, with the passes along axis 0.

    run    records a pass over the history `past`;  a result that is None in one is None in all

    Arrays from plain code, tensors otherwise.  None where passes are to be done one by one: there are few, or large
    ones, or a rule on the way needs values.
    """
    count = _most(like, past)
    if count < FEWEST:
        return None
    blocks: list[list[Any]] = []
    try:
        for start in range(0, like.size, count):
            blocks.append(_block(run, like, start, min(start + count, like.size), is_plain))
    except (ConcretizationError, GradientError, NoBatchRule):
        return None  # one by one each of them finds its values, or says what is wrong
    if len(blocks) == 1:
        return blocks[0]
    joined = np.concatenate if is_plain else concatenate
    return [None if parts[0] is None else joined(parts) for parts in zip(*blocks, strict=True)]


def _block(
    run: Callable[[Tensor], Sequence[Any]], like: Tensor, start: int, stop: int, is_plain: bool
) -> list[Any]:
    """The passes from `start` to `stop`."""
    size = stop - start
    units = np.zeros((size, like.size), like.dtype)
    units[np.arange(size), np.arange(start, stop)] = 1
    given = leaf(units.reshape(size, *like.shape))
    pairs = of_each(lambda one: run(one[0]), [given], [True], size)
    found = [None if t is None else with_examples(size, (t,), (differs,))[0] for t, differs in pairs]
    if not is_plain:
        return found
    evaluate([t.node for t in found if t is not None])
    return [None if t is None else data(t.node) for t in found]
