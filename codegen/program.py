"""A program: what runs, as data.  Only kernels are code.

`passes` turn a graph into fusion groups, `kernel` turns groups into functions, `storage` gives
every stored value a buffer; the result is this.  `runtime` makes an executable of it.
The same program prints as MLIR (its kernels, and one func.func that calls them in order).
"""

from __future__ import annotations

from collections.abc import Iterator

from .ir import Aval, Graph, Node
from .kernel.nest import Function
from .records import field, record

__all__ = [
    "Buffer", "Gemm", "HostCall", "Kernel", "Loop", "Place", "Program", "Step", "aligned", "bytes_moved", "every_step",
]  # fmt: skip


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

    `updates` are the numbers of the memref arguments that are read and then written in place.
    """

    function: Function
    extents: tuple[int, ...] = ()
    updates: frozenset[int] = frozenset()


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
    them in the order of `node.inputs`."""

    node: Node


#: A buffer, by its place among those of the step, and the element of it where a value begins.
Place = tuple[int, int]


@record(frozen=True)
class Loop:
    """`length` runs of `body`; buffers (*inputs, *written, workspace).

    Inputs are the first `carried` states, `scanned` arrays that each run gets one element of (from the last to the
    first if `is_reversed`; they begin at element `starts` of their buffers), and what every run gets as it is.  The
    body's outputs are the next states, and what is
    stacked.  Results, None where nobody wants one:

    lasts     the states after the last run
    stacks    the other outputs of the runs, in the order of the elements
    befores   the states before each run, likewise
    """

    body: Program
    length: int
    carried: int
    starts: tuple[int, ...]
    is_reversed: bool
    lasts: tuple[Place | None, ...]
    stacks: tuple[Place, ...]
    befores: tuple[Place | None, ...]

    @property
    def elements(self) -> tuple[Aval, ...]:
        """Of the elements that one run gets."""
        return self.body.inputs[self.carried : self.carried + len(self.starts)]

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


def aligned(size: int) -> int:
    """Bytes up to the next cache line."""
    return -(-size // 64) * 64


@record(frozen=True)
class Step:
    """Run `work` on the buffers with these numbers (each buffer at most once for a Kernel)."""

    work: Kernel | Gemm | HostCall | Loop
    buffers: tuple[int, ...]


@record()
class Program:
    """Buffers, steps in order.  `inputs` and `outputs` are the graph's avals.

    Every output has its own buffer, written by some step (an output that is an input, or that
    stands twice, is copied).  `graph` is the optimised graph, kept to be looked at.
    """

    name: str
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    inputs: tuple[Aval, ...]
    outputs: tuple[Aval, ...]
    workspace_bytes: int
    graph: Graph
    notes: dict[str, str] = field(default_factory=dict)


def every_step(program: Program) -> Iterator[tuple[Step, Program, int]]:
    """All steps, those of loops in place of the loop; the program that each stands in; how often it runs."""
    for step in program.steps:
        if isinstance(step.work, Loop):
            for inner, where, times in every_step(step.work.body):
                yield inner, where, times * step.work.length
        else:
            yield step, program, 1


def bytes_moved(program: Program) -> int:
    """What the steps read and write, each of its arrays once; what a step writes in place, twice."""
    total = 0
    for step, where, times in every_step(program):
        for j, number in enumerate(step.buffers):
            size = where.buffers[number].aval.nbytes * times
            total += size
            if isinstance(step.work, Kernel) and j in step.work.updates:
                total += size
    return total
