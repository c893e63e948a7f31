"""A program: what runs, as data.  Only kernels are code.

`passes` turn a graph into fusion groups, `kernel` turns groups into functions, `storage` gives
every stored value a buffer; the result is this.  `runtime` makes an executable of it.
Its kernels print as MLIR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .ir import Aval, Graph, Node
from .kernel.nest import NestFunction
from .records import field, record
from .symbols import most

#: observer(program) -> exchange(step, piece) -> the piece to run instead: so a profile puts itself between a program
#: and the steps that it runs.
Observer = Callable[[Any], Callable[[Any, Any], Any]]

#: They see programs that become executable while they are there; those are not looked for on disk, nor kept there.
observers: list[Observer] = []


@record(frozen=True)
class Buffer:
    """A place in memory.

    role     "input" (number `place` of the graph's inputs; read only), "output" (number `place`
             of its outputs), "temporary" (at byte `place` of the workspace, 64-byte aligned)
    """

    aval: Aval
    role: str
    place: int


@record(frozen=True)
class Kernel:
    """Generated loops.  `extents` are the values of the function's index arguments.

    `updates` are the numbers of the memref arguments that are read and then written in place.  `members` are the nodes
    that it computes, also those that another kernel computes again.
    """

    function: NestFunction
    extents: tuple[int, ...] = ()
    updates: frozenset[int] = frozenset()
    members: tuple[Node, ...] = ()


@record(frozen=True)
class Gemm:
    """c[b] = op(a[b]) @ op(b[b]) for `batch` products; buffers (a, b, c).

    All packed row-major.  op(a) is m x k, op(b) is k x n; `transpose_a` says that a is stored
    k x m.  `strides` are the distances in elements between the matrices of consecutive products
    (0: the same matrix each time); more than one batch dimension is flattened before, or looped over
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
    """The NumPy reference of `node`, called by Python; buffers (*inputs, output).  The step names
    them in the order of `node.inputs`.  For what is lowered by `Order` or `Fourier` machine code may stand ready
    instead."""

    node: Node


#: A buffer, by its place among those of the step, and the element of it where a value begins.
Place = tuple[int, int]


@record(frozen=True)
class Loop:
    """`length` runs of `body`; buffers (*inputs, *written, workspace), the first `reads` inputs.

    The body's inputs are states, elements (from the last to the first if `is_reversed`), and what every run gets as
    it is; its outputs the next states, and what is stacked.  Where they lie:

    firsts    the states before the first run
    scanned   arrays that each run gets one element of
    hidden    what every run gets
    lasts     the states after the last run; None where nobody wants them
    stacks    the other outputs of the runs, in the order of the elements
    befores   the states before each run, likewise, or None
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
        """Of the elements that one run gets."""
        return self.body.inputs[self.carried : self.carried + len(self.scanned)]

    @property
    def states(self) -> tuple[Aval, ...]:
        """Of the states."""
        return self.body.outputs[: self.carried]

    @property
    def stacked(self) -> tuple[Aval, ...]:
        """Of what one run stacks."""
        return self.body.outputs[self.carried :]

    def room(self) -> tuple[list[tuple[int, int]], int]:
        """The workspace after that of the body: for each state, the bytes where runs put it in turn (twice its size,
        if its values before each run are not kept) and where the last run does (if nobody wants it); and its size.
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
    """One run of a body: where its inputs and its outputs lie."""

    body: BufferProgram
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]


@record(frozen=True)
class Branch:
    """One of two bodies, by the bool at `chosen`; buffers (*inputs, *written, workspace), the first `reads` inputs."""

    reads: int
    chosen: Place
    yes: Run
    no: Run

    def room(self) -> int:
        """Bytes of the workspace: that of either body."""
        return most(self.yes.body.workspace_bytes, self.no.body.workspace_bytes)


@record(frozen=True)
class While:
    """Runs of `step` as long as `condition` holds; buffers (*inputs, *written, workspace), the first `reads` inputs.

    Both get the states first, then what every run gets as it is: `hidden`.  The condition is asked
    before the first run only: a step gives the next states, and whether the condition holds for them.  Where nobody
    wants a last state, `lasts` has None.  With `back`, the states before each run are kept, and that loop goes over
    them afterwards, last first: they are its elements, and its length and `scanned` are known only then.
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
        """Of the states."""
        return self.step.outputs[:-1]

    def record(self) -> tuple[list[int], int]:
        """All states as they lie together: the byte where each begins, and the size."""
        offsets, size = [], 0
        for aval in self.states:
            offsets.append(size)
            size += aligned(aval.nbytes)
        return offsets, size

    def room(self) -> tuple[int, int, int]:
        """The workspace after that of the bodies: where the condition's answer lies, where two records that are
        used in turn begin (none if they are kept), and its size.
        """
        answer = most(self.condition.workspace_bytes, self.step.workspace_bytes)
        records = answer + aligned(1)
        if self.back is None:
            return answer, records, records + 2 * self.record()[1]
        return answer, records, most(records, self.back.room()[1])


#: The times that a loop is taken to run whose trips are counted only when it does.
UNKNOWN_TRIPS = 16


def aligned(size: int) -> int:
    """Bytes up to the next cache line."""
    return -(-size // 64) * 64


@record(frozen=True)
class Step:
    """Run `work` on the buffers with these numbers (each buffer at most once for a Kernel).

    values   what they hold: nodes, and temporaries of the step
    """

    work: Kernel | Gemm | HostCall | Loop | Branch | While
    buffers: tuple[int, ...]
    values: tuple[object, ...] = ()


@record()
class BufferProgram:
    """Buffers, steps in order.  `inputs` and `outputs` are the graph's avals.

    Every output has its own buffer, written by some step (an output that is an input, or that
    stands twice, is copied).  To be looked at: `graph` is the optimised graph, `drawn` the one that was fused, and
    `shares` says which values lie in the memory of another, whose name steps have for them.
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
    """The programs that a step runs inside: what each is for, and how often it runs (at most, or roughly)."""
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
    """All steps, those of loops and branches in place of them; the program that each stands in; how often it runs.

    with_nests   loops and branches too
    """
    for step in program.steps:
        inside = bodies(step.work)
        if with_nests or not inside:
            yield step, program, 1
        for _, body, runs in inside:
            for inner, where, times in every_step(body, with_nests):
                yield inner, where, times * runs


def bytes_moved(program: BufferProgram) -> int:
    """The bytes that the steps read and write, each array once; one that a step writes in place, twice."""
    total = 0
    for step, where, times in every_step(program):
        for j, number in enumerate(step.buffers):
            size = where.buffers[number].aval.nbytes * times
            total += size
            if isinstance(step.work, Kernel) and j in step.work.updates:
                total += size
    return total
