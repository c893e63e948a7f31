"""A program that needs Python: native segments, and host steps between them; loops that Python drives; references.

    call = Segmented(plan, hosts, avals)       hosts: for each piece a `Host` step, None for the next native one
    outputs = call(*arguments)
    driven(work, runs)(*arrays)                runs call the bodies of a loop or branch; arrays as a step has them
    Decided(graph)                             what may refuse numbers: then its graph is evaluated by the references

Arrays are made of the memory that host steps use; machine code is given addresses alone.  Loops and branches whose
bodies need Python are driven by it: to the bit what native code would give.  References raise what says which matrix is
singular, and where; or they give the value, where they round otherwise.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..blas import one_thread
from ..garbage import ignoring
from ..ir import Aval, Graph, Node, evaluate, evaluate_node
from ..ir.evaluate import failing
from ..program import Branch, Loop, Place, While
from ..records import NamedTuple
from .launcher import LaunchPlan, PackedCall, Refused, checked_arguments


class Decided:
    """`f(*arguments)`; `call` is what is called first."""

    __slots__ = ("__weakref__", "_graph", "call")

    call: Any

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        try:
            return self.call(*arguments)
        except Refused:
            pass  # what is raised now has nothing to do with it
        graph = self._graph
        try:
            return evaluate(graph, *checked_arguments(arguments, [i.aval for i in graph.inputs], graph.name))
        except Exception as error:  # machine code may have called, around which there is no other place for it
            for tell in failing:
                tell(error)
            raise


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


class Segmented(PackedCall):
    """`call` of a program that needs Python between native segments."""

    __slots__ = ("_avals", "_segments")

    def __init__(self, plan: LaunchPlan, hosts: Sequence[Host | None], avals: Mapping[int, Aval]) -> None:
        """`hosts`: for each piece of the program its host step, None for the next native one; `avals` by slot."""
        super().__init__(plan)
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

    def _run(self, arrays: Sequence[np.ndarray], space: np.ndarray, slots: ctypes.Array) -> None:
        for segment in self._segments:
            if isinstance(segment, Host):
                used = [self._array(slot, arrays, space) for slot in segment.slots]
                for array in used[: len(used) - segment.writes]:
                    array.flags.writeable = False
                with ignoring(all="ignore"):  # nan and overflow pass silently, as in kernels
                    segment.run(*used)
            else:
                self.steps.run(*segment, slots)

    def _array(self, slot: int, arrays: Sequence[np.ndarray], space: np.ndarray) -> np.ndarray:
        """A view of what lies in a slot, which host code may be kept from writing through."""
        aval = self._avals[slot]
        if slot < len(arrays):
            return _as_memory(arrays[slot], aval).view()
        return np.ndarray(aval.shape, aval.dtype, space, self._plan.offsets[slot - len(arrays)])
