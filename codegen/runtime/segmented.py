"""A program that needs Python: native segments, and host steps between them.

    call = Segmented(plan, pieces, avals)      pieces: native steps (None), and `Host` steps, in their order
    outputs = call(*arguments)

Arrays are made of the memory that host steps use; machine code is given addresses alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..blas import one_thread
from ..garbage import ignoring
from ..ir import Aval, Node, evaluate_node
from ..records import NamedTuple
from . import memory
from .launcher import LaunchPlan, StepTable, checked_arguments, storage

__all__ = ["Host", "Segmented", "reference_step"]


class Host(NamedTuple):
    """A step in Python: run(*arrays) on the arrays of these slots, of which it writes the last `writes`."""

    run: Callable[..., None]
    slots: tuple[int, ...]
    writes: int = 1


def reference_step(node: Node, slots: tuple[int, ...]) -> Host:
    """The step that calls a node's reference."""
    return Host(lambda *arrays: _call_reference(node, arrays), slots)


def _call_reference(node: Node, arrays: Sequence[np.ndarray]) -> None:
    """Write the reference's value into the last array."""
    *inputs, output = [_as_seen(a, n.aval.dtype) for a, n in zip(arrays, (*node.inputs, node), strict=True)]
    with one_thread():
        output[...] = evaluate_node(node, inputs)


def _as_seen(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Memory as an array of its owner's dtype: pairs as complex numbers."""
    return array.view(dtype)[..., 0] if dtype.kind == "c" and array.dtype.kind != "c" else array


def _as_memory(array: np.ndarray, aval: Aval) -> np.ndarray:
    """The other way round."""
    return array if array.dtype == aval.dtype else array.reshape(-1).view(aval.dtype).reshape(aval.shape)


class Segmented:
    """`call` of a program that needs Python between native segments."""

    __slots__ = ("__weakref__", "_avals", "_plan", "_segments", "_steps", "_storage")

    def __init__(self, plan: LaunchPlan, hosts: Sequence[Host | None], avals: Mapping[int, Aval]) -> None:
        """`hosts`: for each piece of the program its host step, None for the next native one; `avals` by slot."""
        self._plan = plan
        self._steps = StepTable(plan.steps, is_long=plan.is_long)
        self._storage = storage(plan)
        self._avals = avals
        #: (first, stop) of consecutive native steps, or a host step.
        self._segments: list[tuple[int, int] | Host] = []
        first = stop = 0
        for host in hosts:
            if host is None:
                stop += 1
                continue
            self._segments += [(first, stop), host] if stop > first else [host]
            first = stop
        if stop > first:
            self._segments.append((first, stop))

    def __call__(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        plan = self._plan
        inputs = checked_arguments(arguments, plan.inputs, plan.name)
        outputs, space = self._storage()
        arrays = (*inputs, *outputs)
        base = memory.address_of(space)
        addresses = [memory.address_of(array) for array in arrays]
        addresses += [base + offset for offset in plan.offsets]
        table = memory.pointer_table(addresses, self._steps.scratch)
        for segment in self._segments:
            if isinstance(segment, Host):
                used = [self._array(slot, arrays, space) for slot in segment.slots]
                for array in used[: len(used) - segment.writes]:
                    array.flags.writeable = False
                with ignoring(all="ignore"):  # nan and overflow pass silently, as in kernels
                    segment.run(*used)
            else:
                self._steps.run(*segment, table)
        return outputs

    def _array(self, slot: int, arrays: tuple[np.ndarray, ...], space: np.ndarray) -> np.ndarray:
        """A view of what lies in a slot, which host code may be kept from writing through."""
        aval = self._avals[slot]
        if slot < len(arrays):
            return _as_memory(arrays[slot], aval).view()
        return np.ndarray(aval.shape, aval.dtype, space, self._plan.offsets[slot - len(arrays)])
