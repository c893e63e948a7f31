"""Directions in which structured arguments may move: the directions that `ad.project` leaves unchanged.

A type whose gradients are projected (tangent to a sphere, say) has no derivative in other directions, so difference
quotients are taken, and compared, only in these directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import tree
from .ops import dense, project
from .tensor import AbstractTensor, Tensor
from .transforms import jvp

#: The direction of each leaf, as an array, by the number of the leaf.
Directions = dict[int, np.ndarray]


def tangents(args: Sequence[Any]) -> Callable[[Directions], Directions]:
    """A function that projects directions of some leaves of `args` to directions that the types of `args` have."""
    structured = list(_structured(tuple(args), 0))

    def projected(directions: Directions) -> Directions:
        found = dict(directions)
        for start, value in structured:
            found.update(_projected(value, start, {i: d for i, d in directions.items() if i >= start}))
        return {i: found[i] for i in directions}

    return projected


def _structured(x: Any, start: int) -> Iterator[tuple[int, AbstractTensor]]:
    """(number of its first leaf, value) of the outermost structured values of a tree; its leaves count from `start`."""
    if isinstance(x, Tensor) or tree.flatten(x)[1] == tree.LEAF:
        return
    if isinstance(x, AbstractTensor):
        yield start, x
        return
    for child in tree.split(x)[0]:
        yield from _structured(child, start)
        start += len(tree.leaves(child))


def _projected(value: AbstractTensor, start: int, directions: Directions) -> Directions:
    """The projected directions of the leaves of one structured value; none if its type has no method of `ad.dense`.

    A projection does not change its own result.  A method of `project` that does (it may add up the gradients of a
    number in several places) must not change directions.
    """
    leaves, structure = tree.flatten(value)
    moved = [i for i in range(len(leaves)) if start + i in directions]
    method = dense.table.find((type(value),))
    if not moved or method is None or method.signature.takes((object,)):
        return {}

    def along(dxs: list) -> list:
        """The projection of the direction in which the dense value moves."""

        def written_out(*xs: Any) -> Any:
            return dense(tree.unflatten(structure, tree.exchanged(leaves, moved, xs)))

        change = jvp(written_out, [array_of(leaves[i]) for i in moved], dxs)[1]
        found = tree.leaves(project(change, value))
        return [array_of(found[i]).astype(dx.dtype) for i, dx in zip(moved, dxs, strict=True)]

    once = along([directions[start + i] for i in moved])
    is_projection = all([np.allclose(a, b) for a, b in zip(once, along(once), strict=True)])
    return {start + i: dx for i, dx in zip(moved, once, strict=True)} if is_projection else {}


def array_of(x: Any) -> np.ndarray:
    """A copy of the value of a leaf."""
    return np.array(x.detach().numpy() if isinstance(x, Tensor) else x)
