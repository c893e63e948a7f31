"""Passes over one recording, one for each unit tensor of an aval, done many at once: the rows of a Jacobian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...errors import ConcretizationError, GradientError
from ...ops import concatenate
from ...ops.batching import with_examples
from ...tape.ask import evaluate
from ...tape.leaves import leaf_node
from ...tape.node import Node
from ...tape.plan import data
from ...tape.walk import largest
from ...tensor import Tensor, handle
from ..reverse import Many
from .walk import NoBatchRule, of_each

__all__ = ["Run", "at_once", "many", "together"]

#: Fewer passes are done one after the other where memory does not suffice for all at once.
FEWEST = 8

#: At most this many elements of one intermediate result, of all passes that are done at once: 32 MB of float64.
LIMIT = 1 << 22

#: At most this many elements of unit tensors that are kept.
FEW = 4096

#: From unit tensors along axis 0, and what is done with each, to the results of passes.
Run = Callable[[Tensor, Many], Sequence[Any]]


def at_once(run: Run, like: Tensor, past: list[Node]) -> list[Any] | None:
    """The results of a pass for each unit tensor of the aval of `like`, in C order, along axis 0: as tensors.

    run    records passes over the history `past`;  a result that is None in one is None in all

    None where they are too large together, or a rule on the way needs values.
    """
    if _most(like, past) < like.size:
        return None
    try:
        return _block(run, like, 0, like.size)
    except (ConcretizationError, GradientError, NoBatchRule):
        return None


def _most(like: Tensor, past: list[Node]) -> int:
    """The number of passes that may be done at once."""
    return min(like.size, LIMIT // max(largest(past), like.size, 1))


def together(run: Run, like: Tensor, past: list[Node], is_plain: bool) -> list[Any] | None:
    """The same in blocks: arrays from plain code, tensors otherwise.

    None where passes are to be done one by one: they are large ones, or a rule on the way needs values.
    """
    count = _most(like, past)
    if count < FEWEST:
        return None
    blocks: list[list[Any]] = []
    try:
        for start in range(0, like.size, count):
            found = _block(run, like, start, min(start + count, like.size))
            if is_plain:
                evaluate([t.node for t in found if t is not None])
                found = [None if t is None else data(t.node) for t in found]
            blocks.append(found)
    except (ConcretizationError, GradientError, NoBatchRule):
        return None  # one by one each of them finds its values, or says what is wrong
    joined = np.concatenate if is_plain else concatenate
    return [None if parts[0] is None else joined(parts) for parts in zip(*blocks, strict=True)]


def _block(run: Run, like: Tensor, start: int, stop: int) -> list[Any]:
    """The passes from `start` to `stop`."""
    size = stop - start
    units = (_known_units if size * like.size <= FEW else _units)(like.shape, like.dtype, start, stop)
    return list(run(handle(units), many(size)))


def _units(shape: tuple[int, ...], dtype: np.dtype, start: int, stop: int) -> Node:
    """Unit tensors from `start` to `stop`, along axis 0."""
    columns = int(np.prod(shape))
    return leaf_node(np.eye(stop - start, columns, start, dtype).reshape(stop - start, *shape))


_known_units = lru_cache(16)(_units)


def many(size: int) -> Many:
    """So many cotangents, or tangents, at once."""
    return Many(size, partial(_each, size))


def _each(size: int, f: Callable[[list[Tensor]], Sequence[Any]], given: Sequence[Tensor]) -> list[Tensor | None]:
    """f of each of so many tensors along axis 0 of the given ones."""
    pairs = of_each(f, given, [True] * len(given), size)
    return [None if t is None else with_examples(size, (t,), (differs,))[0] for t, differs in pairs]
