"""An innermost loop whose iterations run side by side, in the lanes of vectors.

    plan (`loop_plan`)          the kind of each value: uniform, linear, varying, a partial result
    phases (`phases`)           numbers of lanes, and the elements that are covered with each
      -> for each phase a loop, or one straight iteration

Partial results of reductions are combined as a tree: the halves of the vector, the halves of their sum, ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.nest import I1, INDEX, Block, Operation, ScalarType, Value
from .loop_plan import LoopPlan
from .operations import SCALAR
from .phases import RUN, SEARCHED, Phase, is_long, may_end_early, undecided_bit
from .reductions import Reduction, combined, halved
from .rising import away_from_edges
from .types import first_lanes, steps, struct_type
from .vector_memory import VectorMemory
from .vector_values import is_by_doubles, quotient

if TYPE_CHECKING:
    from .body import BodyWriter


class VectorLoop(VectorMemory):
    """Writes one planned loop into a body."""

    def __init__(self, body: BodyWriter, block: Block, plan: LoopPlan) -> None:
        self.body, self.block, self.counter, self.plan = body, block, block.arguments[0], plan
        self.vectors: dict[Value, str] = {}
        self.given: dict[Value, str] = {}
        self.hoisted: list[str] = []
        self.mask, self.whole, self.active = "", "", 0
        self.late: set[Operation] = set()
        self.stores: dict[Operation, tuple[str, str]] = {}
        stored = {o.operands[1] for o in block.operations if o.name == "memref.store"}
        self.updated = stored & {o.operands[0] for o in block.operations if o.name == "memref.load"}
        inside = {r for o in block.operations for r in o.results}
        self.inside = inside | set(block.arguments)

    def write(self, lower: str, upper: str, initial: list[str], covering: list[Phase]) -> list[str]:
        """Write the whole loop; return the names of the carried values at its end."""
        partial: list[str] = []
        lanes = 0
        for phase in covering:
            if phase.lanes == 1:
                is_own_sum = bool(partial) and all(r.store is None and r.adds_floats for r in self.plan.reductions)
                initial, partial = self._finished(partial, lanes, initial), []
                initial = self._left_over(lower, upper, initial, is_own_sum=is_own_sum)
                continue
            partial = self._narrowed(partial, lanes, phase.lanes) if partial else self._identities(phase.lanes)
            lanes = phase.lanes
            stop = upper if phase is covering[-1] else self.body.whole(lower, upper, lanes)
            partial = self._phase(phase, lower, stop, partial, may_be_long=phase is covering[0])
            lower = stop
        return self._finished(partial, lanes, initial)

    def _left_over(self, lower: str, upper: str, initial: list[str], *, is_own_sum: bool) -> list[str]:
        """Write the elements left over, one by one.  `is_own_sum`: sum them first, to err less than in the total."""
        self.body.calls = self.plan.has_calls
        first = self._identities(1) if is_own_sum else initial
        found = self.body.loop(self.block, lower, upper, "1", first)
        self.body.calls = False
        return combined(self, self.plan.reductions, initial, found) if is_own_sum else found

    # ---- one phase ----

    def _phase(self, phase: Phase, start: str, stop: str, partial: list[str], *, may_be_long: bool) -> list[str]:
        """Write one phase; return the partial results at its end."""
        body = self.body
        self.lanes, self.vectors, self.hoisted = phase.lanes, {}, []
        place = len(body.lines)
        if phase.is_straight:
            self.mask = first_lanes(phase.trips or 0, self.lanes) if phase.is_masked else ""
            self.active = (phase.trips or 0) if phase.is_masked else self.lanes
            results = self._iteration(start, partial)
            # The vector of a uniform value may have been requested late: it is defined before all lines of the phase.
            body.lines[place:place] = self.hoisted
            return results
        is_searched = may_be_long and may_end_early(self.plan, phase, self.block)
        if is_searched or (may_be_long and is_long(self.plan, phase)):
            results = self._in_runs(phase, start, stop, partial, is_searched)
        else:
            results = self.repeated(phase, start, stop, partial)
        body.lines[place:place] = self.hoisted
        return results

    def _in_runs(self, phase: Phase, start: str, stop: str, partial: list[str], is_searched: bool) -> list[str]:
        """A loop over runs of iterations: each run is summed separately, or may end a search (see `phases`)."""
        body, lanes, reductions, around = self.body, phase.lanes, self.plan.reductions, Block([INDEX])
        run = Phase(lanes, (SEARCHED if is_searched else RUN) * lanes, phase.is_masked)

        def write(*totals: str) -> list[str]:
            first = body.names[around.arguments[0]]
            end = body.up_to(first, run.trips or 0, stop)
            if is_searched:
                return [end, *self.repeated(run, first, end, [*totals])]
            found = self.repeated(run, first, end, self._identities(lanes))
            return [end, *combined(self, reductions, [*totals], found)]

        return body.loop(
            around, start, stop, "", partial, write, types=self._types(),
            runs=phase.trips is not None, word="runs",
            more=(lambda found: undecided_bit(body, reductions, found, lanes)) if is_searched else None,
        )  # fmt: skip

    def repeated(self, phase: Phase, start: str, stop: str, partial: list[str]) -> list[str]:
        """Write a loop over vectors; return the partial results at its end."""
        body, plan = self.body, self.plan

        def write(*now: str) -> list[str]:
            counter = body.names[self.counter]
            self.mask = self._mask(stop, counter) if phase.is_masked else ""
            self.active = 0 if phase.is_masked else self.lanes
            write_one = self._iteration if self.mask or plan.interior is None else self._either
            results = write_one(counter, [*now])
            self.whole = ""
            return results

        return body.loop(
            self.block, start, stop, str(phase.lanes), partial, write, types=self._types(),
            runs=phase.trips is not None,
        )  # fmt: skip

    def _types(self) -> list[str]:
        """The types of the partial results."""
        return [self.spelled(r.type) for r in self.plan.reductions]

    def _mask(self, stop: str, counter: str) -> str:
        """The mask of the lanes whose element is before the end."""
        lanes = self.lanes
        rest = self.body.value(f"sub i64 {stop}, {counter}")
        if self.body.target.masks_are_expensive:
            self.whole = self.body.value(f"icmp sge i64 {rest}, {lanes}")
        rest = self.body.value(self.call("llvm.umin.i64", "i64", ("i64", rest), ("i64", lanes)))
        rest = self.body.value(f"trunc i64 {rest} to i32")
        rest = self.spread("i32", rest, self.body.value)
        return self.body.value(f"icmp ugt <{lanes} x i32> {rest}, {steps('i32', lanes)}")

    def _iteration(self, counter: str, partial: list[str]) -> list[str]:
        """Write one iteration; return the new partial results."""
        body, plan = self.body, self.plan
        body.names[self.counter] = counter
        for reduction, name in zip(plan.reductions, partial, strict=True):
            self.vectors[reduction.start] = name
        self.late = self._late() if self.whole else set()
        is_last = {*self.late, *filter(self.goes_past_caches, self.block.operations)}
        for operation in sorted(self.block.operations[:-1], key=is_last.__contains__):
            self._operation(operation)
        self.store_deferred()
        ends = [*self.block.operations[-1].operands, *(r.store.operands[0] for r in plan.reductions if r.store)]
        return [
            self._where_active(r, self.vectors[end], before)
            for r, end, before in zip(plan.reductions, ends, partial, strict=True)
        ]

    def _late(self) -> set[Operation]:
        """Stores to memory that the iteration does not read afterwards: they share a branch at its end.

        The arithmetic before that branch is then one block: LLVM does not fuse a product and a sum of two blocks.  And
        its time grows with the product of values and blocks: with a branch for each of 1,700 accesses it took 7.5 s.
        """
        found, is_read = set(), set()
        for o in reversed(self.block.operations):
            if o.name == "memref.load":
                is_read.add(o.operands[0])
            elif o.name == "memref.store" and o.operands[1] not in is_read:
                found.add(o)
        return found

    def _either(self, counter: str, partial: list[str]) -> list[str]:
        """Write an iteration twice, for places away from edges and for all others (see `rising`), behind a test."""
        body, plan, away = self.body, self.plan, self.plan.interior
        assert away is not None
        lines, body.lines = body.lines, self.hoisted
        tests = away_from_edges(body, self.block, away.clamps, self.lanes)
        body.lines = lines
        found = "true"
        for test in tests:
            found = body.value(f"and i1 {found}, {body.value(test.format(counter))}")

        def written(by: LoopPlan) -> list[str]:
            self.plan = by
            results = self._iteration(counter, partial)
            self.vectors = {v: name for v, name in self.vectors.items() if v not in self.inside}
            return results

        return self.either_way("near", found, lambda: written(away), lambda: written(plan), self._types(), other="edge")

    def _where_active(self, reduction: Reduction, after: str, before: str) -> str:
        if not self.mask:
            return after
        type = self.spelled(reduction.type)
        return self.value(f"select {self.spelled(I1)} {self.mask}, {type} {after}, {type} {before}")

    # ---- operations ----

    def _operation(self, operation: Operation) -> None:
        body, name = self.body, operation.name
        body.attribute_to(operation)
        if name == "memref.load":
            self.load(operation)
        elif name == "memref.store":
            self.store(operation)
        elif operation in self.plan.clamps:
            body.names[operation.result] = "true" if name == "arith.cmpi" else body.names[self.plan.clamps[operation]]
        elif not self.is_varying(operation.result):
            # A uniform value, or that of lane 0 of a linear value.
            body.names[operation.result] = SCALAR[name](body, operation, [body.names[v] for v in operation.operands])
        elif operation in self.plan.joint:
            if operation.result not in self.vectors:
                self._joint(operation)
        else:
            operands = [self.vector(v) for v in operation.operands]
            if self.mask and name in ("arith.divsi", "arith.remsi", "arith.floordivsi"):
                # A lane that is not active may hold a divisor of zero that no element has.
                type = self.spelled(operation.result.type)
                one = self.literal(1, operation.result.type)
                operands[1] = self.value(f"select {self.spelled(I1)} {self.mask}, {type} {operands[1]}, {type} {one}")
            write = quotient if is_by_doubles(operation, self.lanes) else SCALAR[name]
            self.vectors[operation.result] = write(self, operation, operands)

    def _joint(self, operation: Operation) -> None:
        """Write one call that gives the results of several operations."""
        joint, number, results = self.plan.joint[operation]
        scalar = operation.result.type
        assert isinstance(scalar, ScalarType)
        type, x = self.spelled(scalar), self.vector(number)
        struct = struct_type(type, len(results))
        whole = self.value(f"call {struct} {self.elementary(joint, scalar)}({type} {x})")
        for j, result in enumerate(results):
            self.vectors[result] = self.value(f"extractvalue {struct} {whole}, {j}")

    # ---- reductions ----

    def _identities(self, lanes: int) -> list[str]:
        self.lanes = lanes
        return [self.literal(r.identity, r.type) for r in self.plan.reductions]

    def _narrowed(self, partial: list[str], lanes: int, wanted: int) -> list[str]:
        """Combine halves of the partial results until they have the wanted number of lanes."""
        while lanes > wanted:
            lanes //= 2
            partial = halved(self, self.plan.reductions, partial, lanes)
        assert lanes == wanted, "no phase has more lanes than the one before"
        return partial

    def _finished(self, partial: list[str], lanes: int, initial: list[str]) -> list[str]:
        """The carried values: partial results combined with the initial values; accumulators in memory are stored."""
        if not partial:
            return initial
        totals, body = self._narrowed(partial, lanes, 1), self.body
        self.lanes = 1
        for reduction in self.plan.reductions:
            if reduction.load is not None:
                body.load(reduction.load)
                initial = [*initial, body.names[reduction.load.result]]
        totals = combined(self, self.plan.reductions, initial, totals)
        for reduction, total in zip(self.plan.reductions, totals, strict=True):
            if reduction.store is not None:
                body.names[reduction.store.operands[0]] = total
                body.store(reduction.store)
        return totals[: sum(r.load is None for r in self.plan.reductions)]
