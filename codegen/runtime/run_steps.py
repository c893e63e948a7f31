"""The loop over the steps of a program, in native Python."""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import i64, native, ptr, u32
from .plan_words import KernelCallWords

__all__ = ["run_steps"]


@native
def run_steps(steps: ptr[KernelCallWords], count: i64, slots: ptr[ptr], scratch: ptr[ptr]) -> i64:
    """Run so many steps: 0, or step << 32 | status of the one that failed.

    scratch    room for the pointers of a step
    """
    for s in range(count):
        step = steps[s]
        places = step.places
        for j in range(step.pointers):
            scratch[j] = slots[places[j]]
        if step.share is None:
            status = step.function(scratch, step.extents)
        else:
            status = step.share(
                step.function, scratch, step.extents, step.extent_count, step.blocks, step.chunk, step.total
            )
        if status != 0:
            return s << 32 | i64(u32(status))
    return 0
