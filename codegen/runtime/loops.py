"""Loops at run time: as data for `run_loop` (`loop_ir`), and, where a body needs Python, driven by it.

Both give the same bits: the body's kernels are the same, only who calls them differs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from ..ir import Aval
from ..program import Loop, Place, aligned
from .launcher import NativeStep, StepTable
from .native import native

__all__ = ["LoopTable", "run_by_python"]


class LoopTable:
    """What `run_loop` reads: the body's steps, and how its pointers move.  Lives as long as the loop may run.

    loop      its buffers are (inputs, written, workspace);  `buffers` is their number
    offsets   of the body's temporaries in the workspace
    steps     of the body; slots are inputs, outputs, temporaries
    numbers   of the step
    """

    __slots__ = ("_steps", "_words", "numbers")

    def __init__(self, loop: Loop, buffers: int, offsets: Sequence[int], steps: Sequence[NativeStep]) -> None:
        inputs, outputs = len(loop.body.inputs), len(loop.body.outputs)
        moves = _moves(loop, offsets, buffers - 1)
        states = [n for k in range(loop.carried) for n in _state(loop, k, buffers - 1)]
        self._words = (ctypes.c_int64 * (len(moves) + len(states)))(*moves, *states)
        self._steps = StepTable(steps, is_long=False)
        address = ctypes.addressof(self._words)
        slots = inputs + outputs + len(offsets)
        self.numbers = (
            loop.length, self._steps.address, len(steps), slots, self._steps.scratch,
            address, len(moves) // 4, address + 8 * len(moves), loop.carried,
        )  # fmt: skip

    def step(self, slots: tuple[int, ...]) -> NativeStep:
        """The loop as a step on these slots."""
        return NativeStep(native().code.address("run_loop"), slots, self.numbers)


def _moves(loop: Loop, offsets: Sequence[int], workspace: int) -> list[int]:
    """Of all slots that hold no state: slot, buffer, offset, stride."""
    inputs = loop.body.inputs
    found: list[int] = []
    for k, (aval, start) in enumerate(zip(loop.elements, loop.starts, strict=True), loop.carried):
        found += (k, k, *_elements(loop, aval, start))
    for k in range(loop.carried + len(loop.starts), len(inputs)):
        found += (k, k, 0, 0)
    stacks = zip(loop.stacked, loop.stacks, strict=True)
    for k, (aval, (buffer, start)) in enumerate(stacks, len(inputs) + loop.carried):
        found += (k, buffer, *_elements(loop, aval, start))
    for k, offset in enumerate(offsets, len(inputs) + len(loop.body.outputs)):
        found += (k, workspace, offset, 0)
    return found


def _elements(loop: Loop, aval: Aval, start: int) -> tuple[int, int]:
    """Bytes to the element of the first run, in an array that begins at element `start`; and from run to run."""
    begin, size = start * aval.dtype.itemsize, aval.nbytes
    return (begin + max(loop.length - 1, 0) * size, -size) if loop.is_reversed else (begin, size)


def _state(loop: Loop, k: int, workspace: int) -> tuple[int, ...]:
    """One state, as `run_loop` reads it."""
    aval, last, before = loop.states[k], loop.lasts[k], loop.befores[k]
    in_turn, at_last = loop.room()[0][k]
    place = (workspace, at_last) if last is None else (last[0], last[1] * aval.dtype.itemsize)
    if before is None:
        then = (workspace, in_turn, aligned(aval.nbytes), 1)
    else:
        then = (before[0], *_elements(loop, aval, before[1]), -1)
    return (k, len(loop.body.inputs) + k, k, aval.nbytes, *place, *then)


def run_by_python(loop: Loop, run: Callable[..., tuple[np.ndarray, ...]], arrays: Sequence[np.ndarray]) -> None:
    """The same loop with `run` called for the body.  `arrays` are those of the step, without the workspace."""
    hidden = arrays[loop.carried + len(loop.starts) : len(loop.body.inputs)]
    states = list(arrays[: loop.carried])

    def stack(place: Place, aval: Aval) -> np.ndarray:
        return _array(arrays, place, aval.with_shape((loop.length, *aval.shape)))

    starts = enumerate(loop.starts, loop.carried)
    scanned = [stack(place, aval) for place, aval in zip(starts, loop.elements, strict=True)]
    stacks = [stack(place, aval) for place, aval in zip(loop.stacks, loop.stacked, strict=True)]
    befores = [
        (k, stack(place, aval))
        for k, (place, aval) in enumerate(zip(loop.befores, loop.states, strict=True))
        if place is not None
    ]
    order = range(loop.length)
    for t in reversed(order) if loop.is_reversed else order:
        for k, before in befores:
            before[t] = states[k]
        found = run(*states, *[x[t] for x in scanned], *hidden)
        states = list(found[: loop.carried])
        for stacked, value in zip(stacks, found[loop.carried :], strict=True):
            stacked[t] = value
    for place, aval, state in zip(loop.lasts, loop.states, states, strict=True):
        if place is not None:
            _array(arrays, place, aval)[...] = state


def _array(arrays: Sequence[np.ndarray], place: Place, aval: Aval) -> np.ndarray:
    """The part of a step's array that one result lies in."""
    number, start = place
    return arrays[number].reshape(-1)[start : start + aval.size].reshape(aval.shape)
