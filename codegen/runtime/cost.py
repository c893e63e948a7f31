"""How much work a program is, roughly: whether its call should let other threads run meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernel.nest import Block, Function, MemRef, Operation, Value
from ..program import Gemm, Kernel, Program

__all__ = ["LONG", "operations_of"]

#: From this many scalar operations on (about half a millisecond, vectorised) a call releases the
#: interpreter's lock.  Taking it back can cost 5 ms, the switch interval, when another thread computes in Python.
LONG = 3_000_000

#: Loops whose trip count is computed (a triangular one, say) are taken to run this often.
UNKNOWN_TRIPS = 16


def operations_of(program: Program) -> int:
    """Scalar operations of one run, host calls not counted (they hold the lock in any case)."""
    total = 0
    for step in program.steps:
        match step.work:
            case Kernel(function, extents):
                total += _of_function(function, extents)
            case Gemm() as gemm:
                total += gemm.batch * gemm.m * gemm.n * gemm.k
    return total


def _of_function(function: Function, extents: Sequence[int]) -> int:
    indices = [a for a in function.arguments if not isinstance(a.type, MemRef)]
    return _of_block(function.body, dict(zip(indices, extents, strict=True)))


def _of_block(block: Block, known: dict[Value, int]) -> int:
    """Operations executed by one pass through the block.  `known` are index values that are certain."""
    total = 0
    for operation in block.operations:
        if operation.name == "arith.constant" and isinstance(operation.attributes["value"], int):
            known[operation.result] = operation.attributes["value"]
        inside = sum(_of_block(region, known) for region in operation.regions)
        total += 1 + inside * _trips(operation, known)
    return total


def _trips(operation: Operation, known: dict[Value, int]) -> int:
    """How often the body of an operation runs."""
    if operation.name == "scf.for":
        bounds = [operation.operands[:3]]
    elif operation.name == "scf.parallel":
        n = len(operation.regions[0].arguments)
        o = operation.operands
        bounds = [[o[i], o[n + i], o[2 * n + i]] for i in range(n)]
    else:
        return 1
    trips = 1
    for lower, upper, step in bounds:
        if lower in known and upper in known and known.get(step, 0) > 0:
            trips *= len(range(known[lower], known[upper], known[step]))
        else:
            trips *= UNKNOWN_TRIPS
    return trips
