"""By how much a value differs from lane to lane of a vector.

    a number      the same for all neighbours: 1 for a counter, 0 for what is no vector
    RunStride         a multiple of what only the run knows
    VARYING       there is no pattern
"""

from __future__ import annotations

from ..kernel.nest import Value
from ..records import record

__all__ = ["NEAR", "VARYING", "RunStride", "Stride", "multiple", "summed"]

#: Elements that are no further apart lie on few lines of the cache.
NEAR = 4

#: Not a stride: the lanes have no pattern.
VARYING = None


@record(frozen=True)
class RunStride:
    """A stride that only the run knows: `factor` times `step`, which is the same for all iterations."""

    step: Value
    factor: int


Stride = int | RunStride | None


def summed(a: Stride, b: Stride) -> Stride:
    """The stride of a sum."""
    if a == 0 or b == 0:
        return b if a == 0 else a
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, RunStride) and isinstance(b, RunStride) and a.step is b.step:
        return multiple(RunStride(a.step, 1), a.factor + b.factor)
    return VARYING


def multiple(stride: Stride, factor: int) -> Stride:
    """The stride of a product."""
    if isinstance(stride, RunStride):
        return RunStride(stride.step, stride.factor * factor) if factor else 0
    return None if stride is None else stride * factor
