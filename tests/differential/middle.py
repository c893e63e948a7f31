"""Random programs over arrays of middle sizes: those where kernels take several vectors, rows and blocks at a time.

    build, arrays = program(seed)      build(*tensors) -> scalar

Values carry the letters of their axes, so that any two broadcast: "ac" stands for [a, 1, c].
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import autodiff as ad

__all__ = ["program"]

#: Below, at and above the widths of vectors, of groups of rows, and of the blocks that threads share.
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20, 31, 33, 40, 64, 65, 100, 130, 257, 513)
LARGEST = 150_000

ONE = (
    ad.tanh, ad.sin, ad.sigmoid, ad.relu, ad.abs, lambda x: ad.exp(-x * x), lambda x: ad.log1p(x * x),
    lambda x: ad.sqrt(x * x + 0.1), lambda x: x * 0.7 + 0.1,
)  # fmt: skip
TWO = (
    ad.multiply, ad.subtract, lambda x, y: x / (1 + y * y), lambda x, y: ad.where(x > y, x, 0.5 * y),
    lambda x, y: ad.maximum(x, 0.3 * y), lambda x, y: (x - y) ** 2, lambda x, y: ad.hypot(x, y + 2),
)  # fmt: skip
REDUCTIONS = (
    ad.sum, ad.mean, ad.logsumexp, ad.max, ad.var, lambda x, axis: ad.sqrt(ad.sum(x * x, axis=axis) + 0.1),
)  # fmt: skip
ALONG = (
    lambda x, axis: ad.softmax(x, axis=axis), lambda x, axis: ad.roll(x, 1, axis=axis),
    lambda x, axis: ad.flip(x, axis=axis), lambda x, axis: ad.cumsum(x, axis=axis) / x.shape[axis],
)  # fmt: skip


@dataclass(frozen=True)
class Named:
    """A tensor and the letters of its axes, in the order of the alphabet."""

    axes: str
    x: Any

    def over(self, axes: str) -> Any:
        """With an axis of one element for each letter that it lacks."""
        index = tuple([slice(None) if a in self.axes else None for a in axes])
        return self.x[index] if index else self.x


def program(seed: int) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A function of tensors with one number as its result, and arrays for it."""
    rng = random.Random(seed)
    extents = {a: rng.choice(EXTENTS) for a in "abc"}
    draw, dtype = np.random.default_rng(seed), rng.choice([np.float32, np.float64])
    inputs = [_axes(rng, extents) for _ in range(rng.randint(1, 4))]
    arrays = [draw.normal(size=[extents[a] for a in axes]).astype(dtype) for axes in inputs]
    steps = rng.randint(3, 14)

    def build(*xs: Any) -> Any:
        choose = random.Random(seed)
        values = [Named(axes, x) for axes, x in zip(inputs, xs, strict=True)]
        for _ in range(steps):
            values += _step(choose, values, extents)
        total = 0.0
        for y in values[-choose.randint(1, 4) :]:
            total = total + choose.choice([ad.mean, ad.sum])(y.x * (1 + 0.1 * y.x))
        return total

    return build, arrays


def _size(axes: str, extents: dict[str, int]) -> int:
    return math.prod([extents[a] for a in axes])


def _axes(rng: random.Random, extents: dict[str, int]) -> str:
    axes = "".join([a for a in "abc" if rng.random() < 0.55])
    return axes if _size(axes, extents) <= LARGEST else axes[:2]


def _step(rng: random.Random, values: list[Named], extents: dict[str, int]) -> list[Named]:
    kind, v, w = rng.randrange(9), rng.choice(values), rng.choice(values)
    axes = "".join(sorted({*v.axes, *w.axes}))
    if kind < 4 and _size(axes, extents) <= LARGEST:
        both = Named(axes, rng.choice(TWO)(v.over(axes), w.over(axes)))
        return [both] if kind < 2 or not axes else [_reduced(rng, both, (i,)) for i in range(len(axes))]
    if kind < 6 or not v.axes:
        return [Named(v.axes, rng.choice(ONE)(v.x))]
    if kind == 6:
        return [Named(v.axes, rng.choice(ALONG)(v.x, rng.randrange(len(v.axes))))]
    if kind == 7 and (shared := sorted({*v.axes} & {*w.axes})):
        return [_contracted(v, w, rng.choice(shared), extents)]
    return [_reduced(rng, v, [i for i in range(len(v.axes)) if rng.random() < 0.5] or [rng.randrange(len(v.axes))])]


def _reduced(rng: random.Random, v: Named, gone: Sequence[int]) -> Named:
    rest = "".join([a for i, a in enumerate(v.axes) if i not in gone])
    return Named(rest, rng.choice(REDUCTIONS)(v.x, axis=tuple(gone)))


def _contracted(v: Named, w: Named, over: str, extents: dict[str, int]) -> Named:
    """The product of two, summed over an axis of both."""
    axes = "".join(sorted({*v.axes, *w.axes} - {over}))
    if _size(axes, extents) * extents[over] > 4 * LARGEST:
        return Named(v.axes, v.x * 0.5)
    return Named(axes, ad.einsum(f"{v.axes},{w.axes}->{axes}", v.x, w.x) / math.sqrt(extents[over]))
