"""Loops and branches as Python that calls their bodies: what machine code has to give, to the bit.

    driven(work, runs)(*arrays)        runs call the bodies of a loop or branch; arrays as a step has them
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.program import Branch, Loop, Place, While

_Run = Callable[..., tuple[np.ndarray, ...]]


def driven(work: Loop | Branch | While, runs: Sequence[Callable[..., tuple[np.ndarray, ...]]]) -> Callable[..., None]:
    """A function that runs the loop or branch in Python, on arrays."""
    match work:
        case Loop():
            return lambda *arrays: _run_loop(work, arrays, runs[0])
        case Branch():
            return lambda *arrays: _run_branch(work, arrays, *runs)
    return lambda *arrays: _run_while(work, arrays, *runs)


def _run_loop(
    loop: Loop, arrays: Sequence[np.ndarray], run: _Run, scanned: Sequence[Sequence[np.ndarray]] | None = None
) -> None:
    """`scanned`: the elements by input, where they lie elsewhere than the loop says."""
    hidden = _values(arrays, loop.hidden, loop.body.inputs[loop.carried + len(loop.scanned) :])
    states = _values(arrays, loop.firsts, loop.states)

    def stack(place: Place, aval: Aval, length: int = loop.length) -> np.ndarray:
        return _value(arrays, place, aval.with_shape((length, *aval.shape)))

    length = loop.length
    elements: list[Any] = list(scanned or ())
    if scanned is None:
        for place, aval in zip(loop.scanned, loop.elements, strict=True):
            elements.append(stack(place, aval))
    else:
        length = len(scanned[0])
    stacks = [stack(place, aval) for place, aval in zip(loop.stacks, loop.stacked, strict=True)]
    befores = [
        (k, stack(place, aval))
        for k, (place, aval) in enumerate(zip(loop.befores, loop.states, strict=True))
        if place is not None
    ]
    order = range(length)
    for t in reversed(order) if loop.is_reversed else order:
        for k, before in befores:
            before[t] = states[k]
        found = run(*states, *[x[t] for x in elements], *hidden)
        states = list(found[: loop.carried])
        for stacked, value in zip(stacks, found[loop.carried :], strict=True):
            stacked[t] = value
    _write(arrays, loop.lasts, states)


def _run_branch(branch: Branch, arrays: Sequence[np.ndarray], yes: _Run, no: _Run) -> None:
    """Only the chosen body is run."""
    buffer, start = branch.chosen
    chosen, run = (branch.yes, yes) if arrays[buffer].reshape(-1)[start] else (branch.no, no)
    _write(arrays, chosen.outputs, run(*_values(arrays, chosen.inputs, chosen.body.inputs)))


def _run_while(
    loop: While, arrays: Sequence[np.ndarray], condition: _Run, step: _Run, back: _Run | None = None
) -> None:
    """The states before each step are kept only where the loop goes back over them."""
    carried = len(loop.states)
    states: Sequence[np.ndarray] = _values(arrays, loop.firsts, loop.states)
    hidden = _values(arrays, loop.hidden, loop.step.inputs[carried:])
    kept: list[Sequence[np.ndarray]] = []
    (goes_on,) = condition(*states, *hidden)
    while goes_on:
        if back:
            kept.append(states)
        *states, goes_on = step(*states, *hidden)
    if loop.back is None or back is None:
        _write(arrays, loop.lasts, states)
    else:
        _run_loop(loop.back, arrays, back, [[before[k] for before in kept] for k in range(carried)])


def _values(arrays: Sequence[np.ndarray], places: Sequence[Place], avals: Sequence[Aval]) -> list[np.ndarray]:
    return [_value(arrays, place, aval) for place, aval in zip(places, avals, strict=True)]


def _value(arrays: Sequence[np.ndarray], place: Place, aval: Aval) -> np.ndarray:
    """The part of a step's array that a value lies in."""
    number, start = place
    return arrays[number].reshape(-1)[start : start + aval.size].reshape(aval.shape)


def _write(arrays: Sequence[np.ndarray], places: Sequence[Place | None], values: Sequence[np.ndarray]) -> None:
    for place, value in zip(places, values, strict=True):
        if place is not None:
            number, start = place
            arrays[number].reshape(-1)[start : start + value.size] = value.reshape(-1)
