"""Sums that a loop around others carries: runs of its iterations add up by themselves, and enter the sum.

    for i in 0..n carrying total:                  for i in 0..n by 16 carrying total:
      row = for j in 0..4 carrying addf: x[i, j]     run = for k in i..min(i + 16, n) carrying addf, from 0: ...
      total + row                                    total + run

A chain of n additions errs by the square root of its length: the sum of 10,000 rows of four floats, 1,024 of which are
one chain, by 2.0 of its last bit, and by .7 so.  What else the loop carries goes through both loops as it was.

Loops of vectors (`vector_loop`) are done in runs for the same reason; and for another where they only find out whether
`any` of their elements is true, or `all`: behind each run they look whether the rest changes nothing.  A look at every
vector would take as long as the vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..kernel.nest import I1, INDEX, Block, Operation, ScalarType, Value, every
from .loop_plan import LoopPlan
from .operations import SCALAR
from .phases import Phase
from .reductions import Reduction
from .types import literal

if TYPE_CHECKING:
    from .body import BodyWriter

__all__ = ["RUN", "SEARCHED", "is_long", "is_open", "may_be_known", "write_in_runs"]

#: The number of iterations, or vectors, that are added up by themselves where there are twice as many.
RUN = 16

#: The number of vectors that are searched before a look: of a million that are false looks take 1 % of the time.
SEARCHED = 32

#: The result that is known whatever follows, by operation.
_KNOWN = {"arith.ori": 0, "arith.andi": -1}


def is_long(plan: LoopPlan, phase: Phase) -> bool:
    """True if sums are of so many vectors that those of runs are added up by themselves."""
    may_be = phase.trips is None or phase.trips >= 2 * RUN * phase.lanes
    return may_be and plan.near is None and any(r.adds_floats for r in plan.reductions)


def may_be_known(plan: LoopPlan, phase: Phase, block: Block) -> bool:
    """True if a loop only finds out whether any or all of its elements are true, of two runs at least."""
    ends = {r.store for r in plan.reductions}
    return (
        (phase.trips is None or phase.trips >= 2 * SEARCHED * phase.lanes)
        and plan.near is None
        and bool(plan.reductions)
        and all([r.type is I1 and r.combine is not None and r.combine.name in _KNOWN for r in plan.reductions])
        and not any([o.name == "memref.store" and o not in ends for o in block.operations])
    )


def is_open(body: BodyWriter, reductions: Sequence[Reduction], results: Sequence[str], lanes: int) -> str:
    """The bit that says that one of these results may change still."""
    found = "false"
    for reduction, result in zip(reductions, results, strict=True):
        assert reduction.combine is not None
        bits = body.value(f"bitcast <{lanes} x i1> {result} to i{lanes}")
        bits = body.value(f"icmp eq i{lanes} {bits}, {_KNOWN[reduction.combine.name]}")
        found = body.value(f"or i1 {found}, {bits}")
    return found


def write_in_runs(body: BodyWriter, block: Block, lower: str, upper: str, initial: list[str]) -> list[str] | None:
    """The loop over a block, a step of 1, in runs; gives what it carried.  None: it has no such sums, or is short."""
    if lower.isdigit() and upper.isdigit() and int(upper) - int(lower) < 2 * RUN:
        return None
    carried = block.arguments[1:]
    additions = [_addition(block, j, value) for j, value in enumerate(carried)]
    if not any(additions):
        return None
    around = Block([INDEX, *[v.type for v in carried]])

    def run() -> list[str]:
        first, *totals = [body.names[v] for v in around.arguments]
        smin = body.declare("llvm.smin.i64", "i64", ("i64", "i64"))
        end = body.value(f"add nsw i64 {first}, {RUN}")
        end = body.value(f"call i64 {smin}(i64 {end}, i64 {upper})")
        firsts = [
            literal(-0.0, value.type) if addition and isinstance(value.type, ScalarType) else total
            for value, addition, total in zip(carried, additions, totals, strict=True)
        ]
        found = body.loop(block, block.arguments[0], first, end, "1", firsts)
        return [
            SCALAR["arith.addf"](body, addition, [total, part]) if addition else part
            for addition, total, part in zip(additions, totals, found, strict=True)
        ]

    return body.loop(around, around.arguments[0], lower, upper, str(RUN), initial, run)


def _addition(block: Block, j: int, carried: Value) -> Operation | None:
    """The addition to a carried value, where nothing else is done with it and the order is free."""
    last = block.operations[-1].operands[j].owner
    if not isinstance(last, Operation) or last.name != "arith.addf" or carried not in last.operands:
        return None
    is_alone = _uses(block, carried) == _uses(block, last.result) == 1
    return last if is_alone and "reassoc" in last.attributes.get("fastmath", ()) else None


def _uses(block: Block, value: Value) -> int:
    return sum(o.operands.count(value) for o in every(block.operations))
