"""Loops that end where the rest of them changes nothing: `any` once it is true, `all` once it is false.

    runs:  end = min(first + 32 vectors, stop)          a run of iterations, then a look at what they found
           found = loop first .. end
           br (end < stop and found is 0)  runs, done

A look at every vector would take as long as the vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.nest import I1
from .loop_plan import LoopPlan
from .phases import Phase

if TYPE_CHECKING:
    from .vector_loop import VectorLoop

__all__ = ["may_be_known", "write_until_known"]

#: So many vectors make a run: of a million that are false the looks take a hundredth of the time.
_RUN = 32

#: What is known whatever follows, by the operation.
_KNOWN = {"arith.ori": 0, "arith.andi": -1}


def may_be_known(loop: VectorLoop, phase: Phase) -> bool:
    """True if a loop only finds out whether any or all of its elements are true, of two runs at least."""
    plan: LoopPlan = loop.plan
    ends = {r.store for r in plan.reductions}
    return (
        (phase.trips is None or phase.trips >= 2 * _RUN * phase.lanes)
        and plan.near is None
        and bool(plan.reductions)
        and all([r.type is I1 and r.combine is not None and r.combine.name in _KNOWN for r in plan.reductions])
        and not any([o.name == "memref.store" and o not in ends for o in loop.block.operations])
    )


def write_until_known(loop: VectorLoop, phase: Phase, start: str, stop: str, partial: list[str]) -> list[str]:
    """The loop in runs; gives the partial results at its end."""
    body, lanes = loop.body, phase.lanes
    number, before, place = body.next_number(), body.label, len(body.lines)
    first, totals = f"%run.{number}", [f"%found.{number}.{j}" for j in range(len(partial))]
    body.start(f"runs.{number}")
    header = len(body.lines)
    smin = body.declare("llvm.smin.i64", "i64", ("i64", "i64"))
    end = body.value(f"add i64 {first}, {_RUN * lanes}")
    end = body.value(f"call i64 {smin}(i64 {end}, i64 {stop})")
    results = loop.repeated(Phase(lanes, _RUN * lanes, phase.is_masked), first, end, totals)
    more = body.value(f"icmp slt i64 {end}, {stop}")
    is_open = "false"
    for reduction, result in zip(loop.plan.reductions, results, strict=True):
        assert reduction.combine is not None
        bits = body.value(f"bitcast <{lanes} x i1> {result} to i{lanes}")
        bits = body.value(f"icmp eq i{lanes} {bits}, {_KNOWN[reduction.combine.name]}")
        is_open = body.value(f"or i1 {is_open}, {bits}")
    body.lines.append(f"  %more.{number} = and i1 {more}, {is_open}")
    body.lines.append(f"  br i1 %more.{number}, label %runs.{number}, label %done.{number}")
    body.lines[header:header] = loop.phis([first, *totals], [start, *partial], before, [end, *results], body.label)
    return loop.entered(f"runs.{number}", number, phase, start, stop, place, before, partial, results)
