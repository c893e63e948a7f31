"""The approximate work of a program, which decides whether a call releases the interpreter's lock."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..kernel.instructions import is_function
from ..kernel.nest import MemRef, NestFunction, Operation, Value
from ..lowering import Fourier, Order
from ..program import UNKNOWN_TRIPS, Branch, BufferProgram, Gemm, HostCall, Kernel, every_step
from ..symbols import is_sure, smaller, symbolic_max, typical

#: From this many scalar operations on (about half a millisecond, vectorised) a call releases the
#: interpreter's lock.  Taking it back can cost 5 ms, the switch interval, when another thread computes in Python.
LONG = 3_000_000

#: The cost of calling a step: some 10 ns.
STEP = 100

#: The cost of an elementary function: some 0.8 ns an element, inline, against 0.1 of an addition (Zen 4).
ELEMENTARY = 8

#: The cost of sorting, per element.
ORDERED = 100


def operations_of(program: BufferProgram) -> int:
    """The number of scalar operations of one run, without host calls (which hold the lock in any case)."""
    total = 0
    for step, _, times in every_step(program):
        match step.work:
            case Kernel(function, extents):
                total += times * operations_of_function(function, extents)
            case Gemm() as gemm:
                total += times * gemm.batch * gemm.m * gemm.n * gemm.k
            case HostCall(node) if isinstance(node.op.lower, Order):
                total += times * ORDERED * node.aval.size
            case HostCall(node) if isinstance(node.op.lower, Fourier):
                n = node.aval.shape[node.keywords["axis"]]
                total += times * transformed(n, node.aval.size // max(1, n))
    return total


def transformed(n: int, rows: int) -> int:
    """The scalar operations of Fourier transforms of rows of n elements each."""
    return 5 * rows * n * max(1, n.bit_length())


def work_of(program: BufferProgram) -> int:
    """The work of one pass of a loop's body, without inner loops, which count their own.  At most 2**62."""
    total: int = 0
    for step in program.steps:
        total += STEP
        match step.work:
            case Kernel(function, extents):
                total += operations_of_function(function, extents)
            case Gemm() as gemm:
                total += gemm.batch * gemm.m * gemm.n * gemm.k
            case Branch(yes=yes, no=no):
                total += symbolic_max(work_of(yes.body), work_of(no.body))
    return smaller(total, 1 << 62)


def operations_of_function(function: NestFunction, extents: Sequence[int]) -> int:
    """The number of scalar operations of one run of a kernel."""
    indices = [a for a in function.arguments if not isinstance(a.type, MemRef)]
    return operations_of_block(function.body.operations, dict(zip(indices, extents, strict=True)))


def operations_of_block(operations: Sequence[Operation], known: dict[Value, int]) -> int:
    """The number of scalar operations of one pass.  `known`: index values known so far; those found are added."""
    total = 0
    for operation in operations:
        name = operation.name
        if name == "arith.constant":
            value = operation.attributes["value"]
            if isinstance(value, int):
                known[operation.result] = value
        elif name == "arith.minsi":  # the end of a block: the last block may be shorter, the others' length counts
            bounds = [known[value] for value in operation.operands if value in known]
            if bounds:
                known[operation.result] = functools.reduce(smaller, bounds)
            total += 1
        elif operation.regions:
            inside = sum(operations_of_block(region.operations, known) for region in operation.regions)
            total += 1 + inside * _trips(operation, known)
        else:
            total += ELEMENTARY if is_function(name) else 1
    return total


def _trips(operation: Operation, known: dict[Value, int]) -> int:
    """The number of runs of a loop's body."""
    lower, upper = operation.operands[:2]
    if lower in known and upper in known:
        span = known[upper] - known[lower]
        return span if is_sure(0, span) else max(0, typical(span))
    found: int = operation.attributes.get("about", UNKNOWN_TRIPS)
    return found
