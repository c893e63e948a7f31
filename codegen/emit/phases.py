"""Phases of falling width, in which vectors cover a loop.

    phase      a number of lanes, and the elements that it covers; the last one may have a mask, or run one by one

    sum of 1000 doubles, 512-bit vectors              of a run-time number of exponentials
      <32 x double> at 0, 32, ..., 960                  <8 x double> at 0, 8, ..., with a mask
      <8 x double> with a mask at 992

A cheap body uses several registers per value, which hides the latency of its accumulators; so does a body that is a
long chain of operations, which hides theirs. An expensive body is written once, with a mask on every iteration, which
costs little there (a branch where masks are expensive) and saves half of the code. On a machine without masks the rest
runs one by one or, where its length is known, in vectors of ever fewer lanes: 4, 2 and 1 for 7 elements.

A sum that an outer loop carries is split into runs: each run is summed separately, then added to the total.

    for i in 0..n carrying total:                  for i in 0..n by 16 carrying total:
      row = for j in 0..4 carrying addf: x[i, j]     run = for k in i..min(i + 16, n) carrying addf, from 0: ...
      total + row                                    total + run

The error of a chain of n additions grows as the square root of n: the sum of 10,000 rows of four floats, in chains of
1,024 rows, errs by 2.0 of its last bit, and in runs by .7.  Other values that the loop carries pass through both loops.

Loops of vectors (`vector_loop`) are done in runs for the same reason.  So is a loop that computes only `any` or `all`:
after each run it tests if the result is decided.  A test after every vector would take as long as the vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..kernel.nest import I1, INDEX, Block, Operation, ScalarType, Value, every
from ..records import record
from .loop_plan import WAITS_LONG, LoopPlan
from .operations import SCALAR
from .reductions import Reduction
from .target import Target
from .types import NARROW, literal

if TYPE_CHECKING:
    from .body import BodyWriter

#: Up to these costs of an iteration a value takes four registers, or two.
_CHEAP, _MODERATE = 14, 40
#: A long loop that does little more than add takes eight registers if they are narrow: as many partial results as
#: four of 64 bytes hold, so that the error is as small.  Short rows of 40 floats would take 1.6 times as long.
_CHEAPEST, _LONG_TRIPS, _FULL_BYTES = 6, 512, 64
#: From this cost on a loop is written once, with a mask throughout.
EXPENSIVE = 60
#: The cost of AVX2's masked store: 12 cycles of floats, 6 of doubles (Zen 3).  Rows of 5 floats take .3 without it.
_STORE_F32, _STORE_F64 = 28, 6

#: The share of narrow numbers (32 bits) in the cost from which a vector has as many lanes as they fill; the few wide
#: values, places or sums, then take two registers (logsumexp of rows of 10 floats takes .65 of the time).  Where a
#: value takes several registers anyway, more lanes do not fit.
_MOSTLY_NARROW = 0.5

#: Latency of the longest chain of an expensive iteration, as a share of its cost, from which a value takes two
#: registers, or four: the next iteration is too far ahead for the processor to overlap both.  Two and four registers
#: against one, ns per f64, Zen 4: a mixture of normals (.94) 4.6, 4.3 against 6.4; six sines (1.4) 9.1, 7.1
#: against 13.3; exp, log, tanh mixed (.59) 4.2, 4.0 against 3.9.
_WAITS = 0.7
#: The share of functions in the cost from which narrower vectors, which overlap no more, take two.  Two against one,
#: Zen 3: sin, exp, log, atan (all) 8.5 and 10.3; a large loop (.38) 21 and 26; distances, divisions (none) 351 and 318.
_PARTLY = 0.3
#: A large loop has no registers left, but a function that it calls has.  One, two, four registers, us per 1,000
#: elements, by the share of functions in the cost: of 200 operations .1 64, 44, 60; .6 167, 103, 92; most 78, 48, 35.
_MOSTLY, _ENDLESS = 0.5, 1000


@record(frozen=True, slots=True)
class Phase:
    """A part of a loop that is covered by vectors of one width.

    lanes       the lanes of each value; 1: the loop runs element by element;   trips   the number of elements, or None
    is_masked   True if some lanes of the last vector may be inactive
    """

    lanes: int
    trips: int | None
    is_masked: bool

    @property
    def is_straight(self) -> bool:
        """True if there is one vector, and so no loop."""
        return self.trips is not None and self.trips <= self.lanes


def phases(plan: LoopPlan, trips: int | None, target: Target, *, in_one: bool = False) -> list[Phase]:
    """The phases that together cover all elements of a loop; if `in_one`, a few elements are never split."""
    # For argmax and argmin the width of the element counts, not that of its place, which is an i64.
    bits = max([max(r.type.bits, plan.bits // 2) for r in plan.reductions if r.better], default=plan.bits)
    is_long = trips is None or trips >= _LONG_TRIPS
    registers = _registers(plan, is_long and target.vector_bytes < _FULL_BYTES)
    if plan.reductions and plan.cost <= _CHEAPEST and is_long and target.vector_bytes < _FULL_BYTES:
        registers = 8
    if registers == 1 and plan.narrow >= _MOSTLY_NARROW * plan.cost:
        bits = min(bits, NARROW)
    lanes = target.vector_bytes * 8 // max(bits, 8)
    wide = lanes * registers
    if trips is not None and trips <= 1:
        return [Phase(1, trips, False)]
    if trips is not None and trips <= max(wide, 2 * lanes):
        whole = 1 << (trips - 1).bit_length()
        if whole == trips or (target.has_masks and (in_one or not _is_split(plan, trips % lanes, bits, target))):
            return [Phase(whole, trips, whole != trips)]
        return _falling(trips)
    if trips is not None and trips % wide == 0:
        return [Phase(wide, trips, False)]
    is_expensive = plan.cost >= EXPENSIVE and plan.interior is None  # under a mask no iteration is interior
    if target.has_masks and is_expensive and not plan.has_strided_access:
        return [Phase(wide, trips, True)]
    full, rest = (trips - trips % wide, trips % wide) if trips is not None else (None, None)
    found = [Phase(wide, full, False)]
    if rest is not None and (not target.has_masks or _is_split(plan, rest % lanes, bits, target)):
        return [*found, *_falling(rest)]
    # Under a mask that is known only at run time picked elements are gathered, which is slower than one by one.
    if rest is None and (plan.has_strided_access or not target.has_masks):
        return [*found, Phase(1, None, False)]
    # Narrowing vectors of extremes and their places takes longer than one wide vector with a mask.
    unknown = wide if any([r.is_place for r in plan.reductions]) else lanes
    last = unknown if rest is None else min(wide, 1 << (rest - 1).bit_length())
    return [*found, Phase(last, rest, rest != last)]


def _is_split(plan: LoopPlan, rest: int, bits: int, target: Target) -> bool:
    """True if the last elements, fewer than a vector has lanes, are stored by several vectors rather than by a mask."""
    more = plan.cost * (rest.bit_count() - 1)
    is_cheap = plan.cost <= _CHEAP and more <= (_STORE_F32 if bits <= NARROW else _STORE_F64)
    return rest > 1 and is_cheap and not plan.reductions and target.masks_are_expensive  # one lane needs no mask


def _falling(trips: int) -> list[Phase]:
    """Vectors of fewer and fewer lanes: 4, 2 and 1 of 7 elements."""
    return [Phase(1 << j, 1 << j, False) for j in reversed(range(trips.bit_length())) if trips >> j & 1]


def _registers(plan: LoopPlan, is_partly: bool) -> int:
    """The number of registers of a value: independent operations of one iteration hide each other's latency.

    is_partly    a share of functions is enough for two registers: the loop is long, and vectors are narrow
    """
    cost, latency = plan.cost, plan.latency
    waits = latency > _WAITS * cost or (is_partly and plan.of_functions > _PARTLY * cost)
    if plan.is_large:
        if not plan.of_functions and cost > _ENDLESS:
            return 1
        if plan.of_functions >= _MOSTLY * cost:
            return 4
        return 2 if waits else 1
    if cost <= _CHEAP or (cost > _MODERATE and latency > WAITS_LONG * cost):
        return 4
    return 2 if cost <= _MODERATE or waits else 1


# ---------------------------------------------------------------- runs of vectors


#: The number of iterations, or vectors, in a run that is summed separately; a loop shorter than two runs has none.
RUN = 16

#: The number of vectors searched between two tests: for a million false elements the tests take 1 % of the time.
SEARCHED = 32

#: The bits of a result that is not decided yet, by operation: any other bits decide it, whatever elements follow.
_UNDECIDED_BITS = {"arith.ori": 0, "arith.andi": -1}


def is_long(plan: LoopPlan, phase: Phase) -> bool:
    """True if a loop sums floats over enough vectors to split the sums into runs."""
    may_be = phase.trips is None or phase.trips >= 2 * RUN * phase.lanes
    return may_be and plan.interior is None and any(r.adds_floats for r in plan.reductions)


def may_end_early(plan: LoopPlan, phase: Phase, block: Block) -> bool:
    """True if a loop computes only `any` or `all` of its elements, and is at least two runs long."""
    ends = {r.store for r in plan.reductions}
    return (
        (phase.trips is None or phase.trips >= 2 * SEARCHED * phase.lanes)
        and plan.interior is None
        and bool(plan.reductions)
        and all([r.type is I1 and r.combine is not None and r.combine.name in _UNDECIDED_BITS for r in plan.reductions])
        and not any([o.name == "memref.store" and o not in ends for o in block.operations])
    )


def undecided_bit(body: BodyWriter, reductions: Sequence[Reduction], results: Sequence[str], lanes: int) -> str:
    """A bit that is true if one of these results may still change."""
    found = "false"
    for reduction, result in zip(reductions, results, strict=True):
        assert reduction.combine is not None
        bits = body.value(f"bitcast <{lanes} x i1> {result} to i{lanes}")
        bits = body.value(f"icmp eq i{lanes} {bits}, {_UNDECIDED_BITS[reduction.combine.name]}")
        found = body.value(f"or i1 {found}, {bits}")
    return found


def write_in_runs(body: BodyWriter, block: Block, lower: str, upper: str, initial: list[str]) -> list[str] | None:
    """Write the loop over a block in runs; return the carried values, or None if it has no sum to split or is short."""
    if lower.isdigit() and upper.isdigit() and int(upper) - int(lower) < 2 * RUN:
        return None
    carried = block.arguments[1:]
    additions = [_addition(block, j, value) for j, value in enumerate(carried)]
    if not any(additions):
        return None
    around = Block([INDEX, *[v.type for v in carried]])

    def run(*totals: str) -> list[str]:
        first = body.names[around.arguments[0]]
        end = body.up_to(first, RUN, upper)
        firsts = [
            literal(-0.0, value.type) if addition and isinstance(value.type, ScalarType) else total
            for value, addition, total in zip(carried, additions, totals, strict=True)
        ]
        found = body.loop(block, first, end, "1", firsts)
        return [
            SCALAR["arith.addf"](body, addition, [total, part]) if addition else part
            for addition, total, part in zip(additions, totals, found, strict=True)
        ]

    return body.loop(around, lower, upper, str(RUN), initial, run)


def _addition(block: Block, j: int, carried: Value) -> Operation | None:
    """The addition to the carried value of number j, if that has no other use and the order is free; else None."""
    last = block.operations[-1].operands[j].owner
    if not isinstance(last, Operation) or last.name != "arith.addf" or carried not in last.operands:
        return None
    is_alone = _uses(block, carried) == _uses(block, last.result) == 1
    return last if is_alone and "reassoc" in last.attributes.get("fastmath", ()) else None


def _uses(block: Block, value: Value) -> int:
    return sum(o.operands.count(value) for o in every(block.operations))
