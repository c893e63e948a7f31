"""Programs: the steps that an executable runs, as data.  Only kernels are code.

`passes` turn a graph into fusion groups, `kernel` turns groups into functions, and `storage` gives every
stored value a buffer; the result is a `BufferProgram`, from which `runtime` makes an executable.
The kernels of a program print as MLIR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .ir import Aval, Graph, Node
from .kernel.nest import NestFunction
from .records import field, record
from .symbols import symbolic_max

#: observer(program) -> exchange(step, piece) -> the piece to run instead: this is how a profile measures the steps of
#: a program.
Observer = Callable[[Any], Callable[[Any, Any], Any]]

#: The active observers.  They see each program that becomes executable meanwhile; such programs bypass the disk cache.
observers: list[Observer] = []


@record(frozen=True)
class Buffer:
    """A region of memory for one array.

    role     "input" (read only; `place` is its number among the graph's inputs), "output" (`place` is its
             number among the outputs), "temporary" (at byte `place` of the workspace, 64-byte aligned)
    """

    aval: Aval
    role: str
    place: int


@record(frozen=True)
class Kernel:
    """A step of generated loops.  `extents` are the values of the function's index arguments.

    `updates` are the numbers of the memref arguments that are read and then written in place.  `members` are the nodes
    that the kernel computes, including those that other kernels compute again.
    """

    function: NestFunction
    extents: tuple[int, ...] = ()
    updates: frozenset[int] = frozenset()
    members: tuple[Node, ...] = ()


@record(frozen=True)
class Gemm:
    """A step that computes c[b] = op(a[b]) @ op(b[b]) for `batch` products; buffers (a, b, c).

    All matrices are packed by rows.  op(a) is m x k, op(b) is k x n; with `transpose_a` a is stored
    k x m.  `strides` are the distances in elements between the matrices of consecutive products
    (0: every product reads one matrix); several batch dimensions are flattened before, or looped over
    by several steps.
    """

    dtype: str  # "f32" or "f64"
    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    batch: int = 1
    strides: tuple[int, int, int] = (0, 0, 0)


@record(frozen=True)
class HostCall:
    """A step that calls the NumPy reference of `node` in Python; buffers (*inputs, output), the inputs in
    the order of `node.inputs`.  For operations lowered by `Order` or `Fourier` the runtime may call machine code
    instead."""

    node: Node


#: The place of a value: the number of a buffer among those of the step, and the element at which the value begins.
Place = tuple[int, int]


@record(frozen=True)
class Loop:
    """A step of `length` runs of `body`; buffers (*inputs, *written, workspace), of which the first `reads` are inputs.

    The inputs of the body are the states, one element of each scanned array (from the last to the first if
    `is_reversed`), and the hidden inputs; its outputs are the next states and the values to stack.  Their places:

    firsts    the states before the first run
    scanned   the arrays of which each run gets one element
    hidden    the inputs that every run gets unchanged
    lasts     the states after the last run; None for a state that nothing reads
    stacks    the other outputs of all runs, stacked in the order of the elements
    befores   the states before each run, stacked in that order; None for a state of which they are not kept
    """

    reads: int
    body: BufferProgram
    length: int
    is_reversed: bool
    firsts: tuple[Place, ...]
    scanned: tuple[Place, ...]
    hidden: tuple[Place, ...]
    lasts: tuple[Place | None, ...]
    stacks: tuple[Place, ...]
    befores: tuple[Place | None, ...]

    @property
    def carried(self) -> int:
        return len(self.firsts)

    @property
    def elements(self) -> tuple[Aval, ...]:
        """The avals of the elements that one run gets."""
        return self.body.inputs[self.carried : self.carried + len(self.scanned)]

    @property
    def states(self) -> tuple[Aval, ...]:
        """The avals of the states."""
        return self.body.outputs[: self.carried]

    @property
    def stacked(self) -> tuple[Aval, ...]:
        """The avals of the outputs of one run that are stacked."""
        return self.body.outputs[self.carried :]

    def room(self) -> tuple[list[tuple[int, int]], int]:
        """The layout of the workspace after that of the body, and the size of the whole.  For each state: the byte of
        the two copies between which runs alternate (none if all its values are kept), and that of an unread last state.
        """
        size = self.body.workspace_bytes
        found = []
        for aval, last, before in zip(self.states, self.lasts, self.befores, strict=True):
            one = aligned(aval.nbytes)
            turns, size = size, size + (2 * one if before is None else 0)
            found.append((turns, size))
            size += one if last is None else 0
        return found, size


@record(frozen=True)
class Run:
    """One run of a body, with the places of its inputs and outputs."""

    body: BufferProgram
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]


@record(frozen=True)
class Branch:
    """A step that runs one of two bodies, by the bool at `chosen`; buffers as those of a `Loop`."""

    reads: int
    chosen: Place
    yes: Run
    no: Run

    def room(self) -> int:
        """The bytes of the workspace, which is large enough for either body."""
        return symbolic_max(self.yes.body.workspace_bytes, self.no.body.workspace_bytes)


@record(frozen=True)
class While:
    """A step that runs `step` as long as `condition` holds; buffers as those of a `Loop`.

    Both programs get the states, then the `hidden` inputs.  The program `condition` runs only before the first run of
    `step`, whose outputs are the next states and the condition on them.  `lasts` has None for a last state
    that nothing reads.  With `back`, the states before each run are kept, and the loop `back` runs over them
    afterwards, last first: they are its elements, and its length and `scanned` are known only at run time.
    """

    reads: int
    condition: BufferProgram
    step: BufferProgram
    firsts: tuple[Place, ...]
    hidden: tuple[Place, ...]
    lasts: tuple[Place | None, ...]
    back: Loop | None = None

    @property
    def states(self) -> tuple[Aval, ...]:
        """The avals of the states."""
        return self.step.outputs[:-1]

    def record(self) -> tuple[list[int], int]:
        """The layout of a record of all states: the byte at which each begins, and the size."""
        offsets, size = [], 0
        for aval in self.states:
            offsets.append(size)
            size += aligned(aval.nbytes)
        return offsets, size

    def room(self) -> tuple[int, int, int]:
        """The layout of the workspace after that of the bodies: the byte of the condition's result, the byte at which
        two alternating records of states begin (none if all states are kept), and the size of the whole.
        """
        answer = symbolic_max(self.condition.workspace_bytes, self.step.workspace_bytes)
        records = answer + aligned(1)
        if self.back is None:
            return answer, records, records + 2 * self.record()[1]
        return answer, records, symbolic_max(records, self.back.room()[1])


#: The assumed number of runs of a loop whose length is known only at run time.
UNKNOWN_TRIPS = 16


def aligned(size: int) -> int:
    """The size in bytes, rounded up to whole cache lines."""
    return -(-size // 64) * 64


@record(frozen=True)
class Step:
    """Run `work` on the buffers with these numbers (each buffer at most once for a Kernel).

    values   the contents of the buffers: nodes, and temporaries of the step
    """

    work: Kernel | Gemm | HostCall | Loop | Branch | While
    buffers: tuple[int, ...]
    values: tuple[object, ...] = ()


@record()
class BufferProgram:
    """The buffers, and the steps in order.  `inputs` and `outputs` are the avals of the graph.

    Every output has a separate buffer that some step writes (an output that is an input, or is listed
    twice, is copied).  For inspection: `graph` is the optimised graph, `drawn` the prepared graph that was fused, and
    `shares` maps each value that shares memory to the value by which the steps refer to that memory.
    """

    name: str
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    inputs: tuple[Aval, ...]
    outputs: tuple[Aval, ...]
    workspace_bytes: int
    graph: Graph
    notes: dict[str, str] = field(default_factory=dict)
    drawn: Graph | None = None
    shares: dict[Node, Node] = field(default_factory=dict)


def bodies(work: object) -> list[tuple[str, BufferProgram, int]]:
    """The programs that a step runs: a word for the use of each, and the number of its runs (at most, or assumed)."""
    match work:
        case Loop(body=body, length=length):
            return [("", body, length)]
        case Branch(yes=yes, no=no):
            return [("yes", yes.body, 1), ("no", no.body, 1)]
        case While(condition=condition, step=step, back=back):
            found = [("condition", condition, UNKNOWN_TRIPS), ("step", step, UNKNOWN_TRIPS)]
            return [*found, ("back", back.body, UNKNOWN_TRIPS)] if back else found
    return []


def every_step(program: BufferProgram, with_nests: bool = False) -> Iterator[tuple[Step, BufferProgram, int]]:
    """All steps, including those inside loops and branches; each with its program and the number of its runs.

    with_nests   True to include the loops and branches themselves
    """
    for step in program.steps:
        inside = bodies(step.work)
        if with_nests or not inside:
            yield step, program, 1
        for _, body, runs in inside:
            for inner, where, times in every_step(body, with_nests):
                yield inner, where, times * runs


def bytes_moved(program: BufferProgram) -> int:
    """The bytes that the steps read and write: each array once per step, and twice if it is updated in place."""
    total = 0
    for step, where, times in every_step(program):
        for j, number in enumerate(step.buffers):
            size = where.buffers[number].aval.nbytes * times
            total += size
            if isinstance(step.work, Kernel) and j in step.work.updates:
                total += size
    return total
