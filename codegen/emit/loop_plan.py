"""Plans of loops whose iterations can run side by side: the form of each value in the lanes of vectors.

    for j in 0..n carrying total:           j      linear: i, i+1, i+2, ... over the lanes
      at = first + j                        at     linear
      x = load a[at]                        x      varying: a vector, loaded at once
      z = load d[j * n]                     z      varying: elements at a distance known only at run time
      w = load b[row]                       w      uniform: the same number for all lanes
      y = exp(x * w)                        y      varying
      store y, c[at]
      yield total + y                       a reduction: each lane has its own total

Only innermost loops are planned.  A loop has no plan (None) if an iteration may read a value that another one
stored, if it carries anything but reductions whose order is free, or if it contains a call or branch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import pairwise

from ..kernel.instructions import INSTRUCTIONS, is_function
from ..kernel.nest import I1, INDEX, Block, Operation, ScalarType, Value, known_integer
from ..records import field, record
from .math import find_joint
from .operations import SCALAR
from .reductions import Reduction, find_extreme, is_order_free
from .rising import are_hoistable, clamped_counter, clamps_a_place
from .strides import NEAR, VARYING, LinearForm, RunStride, Stride, form_of, multiple, never_meet, summed
from .types import NARROW, width

#: In additions, as the costs of `kernel.instructions`; the second is saved where one function computes two results.
_COST_OF_A_GATHER = 10
_SHARED = 12
#: From this cost on functions are called: inlined, a loop takes .95 to 1 of the time, and LLVM two to three times.
_LARGE = 400
#: Latency of the longest chain as a share of the cost, from which a value takes four registers (see `phases`), and the
#: cost of such a loop from which functions are called: inlined, a loop of ten operations takes 1 to 1.2 of the time.
WAITS_LONG, _LONG = 1.3, 60


@record(eq=False, slots=True)
class LoopPlan:
    """The plan of a loop: the form of its values in the lanes of vectors, and the cost of an iteration.

    strides     for each value that differs between lanes: the difference of neighbouring lanes, or VARYING
    places      for each load and store: the elements between the places of neighbouring lanes, or VARYING
    reductions  in the order of the carried values, then those in memory
    partial     values in the chain of a reduction, which are vectors of partial results
    in_memory   loads and stores of accumulators in memory, with the number of the reduction
    reloaded    for such a load after a store of the same iteration: the value that was stored
    joint       operations that one function computes together: its name, its operand, and its results in order
    interior    the plan of an iteration away from edges (see `rising`), whose costs are used
    clamps      of such a plan: clamps and comparisons without an effect there, each with its counter
    bits        those of the widest element that differs between lanes;   narrow   the cost of arithmetic on narrow ones
    cost        of one iteration;   of_functions   of functions in it;   latency   of its longest chain, load to result
    """

    strides: dict[Value, Stride] = field(default_factory=dict)
    places: dict[Operation, Stride] = field(default_factory=dict)
    reductions: list[Reduction] = field(default_factory=list)
    partial: set[Value] = field(default_factory=set)
    in_memory: dict[Operation, int] = field(default_factory=dict)
    reloaded: dict[Value, Value] = field(default_factory=dict)
    joint: dict[Operation, tuple[str, Value, tuple[Value, ...]]] = field(default_factory=dict)
    interior: LoopPlan | None = None
    clamps: dict[Operation, Value] = field(default_factory=dict)
    bits: int = 8
    narrow: int = 0
    cost: int = 0
    of_functions: int = 0
    latency: int = 0

    @property
    def is_large(self) -> bool:
        """True if the loop has more values than registers."""
        return self.cost > _LARGE

    @property
    def has_calls(self) -> bool:
        """True if functions are called rather than inlined."""
        return self.is_large or (self.cost >= _LONG and self.latency > WAITS_LONG * self.cost)

    @property
    def has_strided_access(self) -> bool:
        """True if elements are read or written at a regular distance of more than one."""
        return any(place not in (0, 1, -1, VARYING) for place in self.places.values())


def plan_loop(block: Block, *, independent: bool) -> LoopPlan | None:
    """The plan of a loop with this body, or None if its iterations cannot run side by side.

    independent     the iterations are promised not to touch each other's memory
    """
    plan = _Planner(block, independent).plan()
    if plan is not None and any([o.name in ("arith.maxsi", "arith.minsi") for o in block.operations]):
        away = _Planner(block, independent, is_interior=True).plan()
        if away is not None and clamps_a_place(away.clamps) and not away.is_large and are_hoistable(block, away.clamps):
            plan.interior, plan.cost, plan.narrow = away, away.cost, away.narrow
            plan.of_functions, plan.latency = away.of_functions, away.latency
    return plan


class _NotInVectors(Exception):
    """The iterations cannot run side by side."""


class _Planner:
    def __init__(self, block: Block, independent: bool, is_interior: bool = False) -> None:
        counter, *carried = block.arguments
        self.block, self.independent, self.is_interior = block, independent, is_interior
        self.found = LoopPlan({counter: 1}, reductions=[Reduction(j, value) for j, value in enumerate(carried)])
        made = (o for o in block.operations if o.name != "arith.constant")
        self.inside = {counter, *carried, *(r for o in made for r in o.results)}
        #: Values of the chain of each reduction, with its number.
        self.chains = {value: j for j, value in enumerate(carried)}
        self.in_memory = self.found.in_memory
        #: The latency from the loads to a value.
        self.after: dict[Value, int] = {}

    def plan(self) -> LoopPlan | None:
        try:
            self._extremes()
            self._memory()
            for operation in self.block.operations[:-1]:
                self._operation(operation)
            self._ends()
            self._joint()
        except _NotInVectors:
            return None
        self.found.partial |= self.chains.keys()
        return self.found

    # ---- operations ----

    def _operation(self, operation: Operation) -> None:
        name, strides = operation.name, self.found.strides
        if name == "memref.load":
            self._load(operation)
        elif name == "memref.store":
            self._store(operation)
        elif name not in SCALAR:
            raise _NotInVectors(name)
        elif operation.result in self.found.partial:
            self.found.cost += 1
        elif any(v in self.chains for v in operation.operands):
            self._combine(operation)
        elif any(v in strides for v in operation.operands):
            self._set_stride(operation.result, self._interior_stride(operation, self._stride(operation)))
            cost = INSTRUCTIONS[name].cost
            if strides.get(operation.result, 0) is VARYING:
                self.found.cost += cost
                self.found.narrow += cost if width(operation) <= NARROW else 0
                self.found.of_functions += cost if is_function(name) else 0
                self._add_latency(operation)

    def _interior_stride(self, operation: Operation, stride: Stride) -> Stride:
        """The stride of a result; in a plan away from edges, clamps and comparisons of a counter have no effect."""
        if stride is not VARYING:
            return stride
        counter = clamped_counter(operation, self.found.strides) if self.is_interior else None
        if counter is None:
            return VARYING
        self.found.clamps[operation] = counter
        return 0 if operation.name == "arith.cmpi" else 1

    def _add_latency(self, operation: Operation) -> None:
        after = INSTRUCTIONS[operation.name].latency + max([self.after.get(v, 0) for v in operation.operands])
        self.after[operation.result] = after
        self.found.latency = max(self.found.latency, after)

    def _set_stride(self, value: Value, stride: Stride) -> None:
        if stride == 0:
            return
        self.found.strides[value] = stride
        if stride is VARYING and value.type is not I1:
            self._widen(value.type)

    def _widen(self, type: ScalarType) -> None:
        self.found.bits = max(self.found.bits, type.bits)

    def _stride(self, operation: Operation) -> Stride:
        """The stride of a result between lanes: known for sums and multiples of counters."""
        found = [self.found.strides.get(v, 0) for v in operation.operands]
        strides = [s for s in found if s is not VARYING]
        is_varying = len(strides) < len(found)
        if is_varying or (operation.result.type is not INDEX and operation.name != "arith.index_cast"):
            return VARYING
        match operation.name:
            case "arith.addi":
                return summed(strides[0], strides[1])
            case "arith.subi":
                return summed(strides[0], multiple(strides[1], -1))
            case "arith.muli":
                for j, (value, stride) in enumerate(zip(operation.operands, reversed(strides), strict=True)):
                    factor = known_integer(value)
                    if factor is not None:
                        return multiple(stride, factor)
                    if strides[j] == 0 and isinstance(stride, int):
                        return RunStride(value, stride)
            case "arith.index_cast":
                return strides[0] if operation.result.type.bits == 64 else VARYING
        return VARYING

    def _joint(self) -> None:
        """Find functions of one number that have most of their steps in common."""
        for name, x, operations in find_joint(self.block.operations):
            if operations[0].result in self.found.strides:
                results = tuple([o.result for o in operations])
                self.found.joint.update(dict.fromkeys(operations, (name, x, results)))
                self.found.cost -= _SHARED
                self.found.of_functions -= _SHARED

    # ---- reductions ----

    def _combine(self, operation: Operation) -> None:
        """Add an operation on a partial result to the chain of a reduction, all of whose operations are of one kind."""
        name = operation.name
        chains = {self.chains[v] for v in operation.operands if v in self.chains}
        in_chain = [v for v in operation.operands if v in self.chains]
        (number, *others) = chains
        reduction = self.found.reductions[number]
        # Additions to an accumulator in memory have no flag, because other code keeps their order: here it is free.
        if len(in_chain) != 1 or others or not (is_order_free(operation) or (reduction.load and name == "arith.addf")):
            raise _NotInVectors(name)
        if reduction.combine is not None and reduction.combine.name != name:
            raise _NotInVectors(name)
        reduction.combine = operation
        self.chains[operation.result] = number
        self.found.cost += 1
        self._widen(reduction.type)

    def _ends(self) -> None:
        """Check that each chain ends in the value carried on, and that no other operation uses its values."""
        last = self.block.operations[-1]
        uses = Counter(v for o in self.block.operations for v in o.operands if v in self.chains)
        if any(uses[value] != 1 for value in self.chains):
            raise _NotInVectors("a partial result is used")
        for reduction, value in zip(self.found.reductions, last.operands, strict=False):
            is_extreme = reduction.better or reduction.is_place
            if not is_extreme and (self.chains.get(value) != reduction.carried or reduction.combine is None):
                raise _NotInVectors("a carried value is no reduction")

    def _extremes(self) -> None:
        """Find pairs of carried values that are an extreme and its place."""
        ends = self.block.operations[-1].operands
        for reduction, place in pairwise(self.found.reductions):
            if reduction.carried + 1 < len(ends) and not reduction.is_place:
                extreme = find_extreme(self.block, reduction.start, place.start, *ends[reduction.carried :][:2])
                if extreme is not None:
                    reduction.better, place.is_place = extreme.better, True
                    self.found.partial |= extreme.values
                    del self.chains[reduction.start], self.chains[place.start]
                    self._widen(reduction.type)
                    self._widen(place.type)

    # ---- memory ----

    def _memory(self) -> None:
        """Check the memory that the loop writes: two iterations must not access the same place."""
        accesses: dict[Value, list[Operation]] = {}
        for operation in self.block.operations:
            if operation.name in ("memref.load", "memref.store"):
                memory = operation.operands[operation.name == "memref.store"]
                accesses.setdefault(memory, []).append(operation)
        for operations in accesses.values():
            if any(o.name == "memref.store" for o in operations):
                self._written(operations)

    def _written(self, operations: list[Operation]) -> None:
        places = set(map(_number, operations))
        if not self.inside.isdisjoint(places):
            # One place per iteration (that lanes have different places is checked when the stride is known).
            if len(places) > 1 and not self.independent and not self._are_disjoint(places):
                raise _NotInVectors("iterations may meet in memory")
            return
        by_place: dict[Value | int, list[Operation]] = {}
        for operation in operations:
            by_place.setdefault(_number(operation), []).append(operation)
        if len(by_place) > 1 and not _differ(by_place):
            raise _NotInVectors("iterations meet in memory")
        for group in by_place.values():
            self._accumulated(group)

    def _accumulated(self, operations: list[Operation]) -> None:
        """Add a reduction for an accumulator in memory, whose loads and stores must alternate."""
        loads, stores = operations[::2], operations[1::2]
        names = {o.name for o in loads}, {o.name for o in stores}
        if len(loads) != len(stores) or names != ({"memref.load"}, {"memref.store"}):
            raise _NotInVectors("iterations meet in memory")
        number = len(self.found.reductions)
        self.found.reductions.append(Reduction(-1, loads[0].result, load=loads[0], store=stores[-1]))
        self.in_memory |= dict.fromkeys(operations, number)
        self.found.reloaded |= {o.result: store.operands[0] for o, store in zip(loads[1:], stores, strict=False)}

    def _are_disjoint(self, places: set[Value | int]) -> bool:
        """True if no iteration uses a place of another one, though each uses several places."""
        indices = [place for place in places if isinstance(place, Value)]
        return len(indices) == len(places) and never_meet(indices, self.block.arguments[0], self.inside)

    def _load(self, operation: Operation) -> None:
        if operation in self.in_memory:
            self.chains[operation.result] = self.in_memory[operation]
            return
        stride = self._placed(operation)
        if stride == 0:
            return
        self._set_stride(operation.result, VARYING)
        self._widen(operation.result.type)
        if isinstance(stride, int) and -1 <= stride <= NEAR:
            self.found.cost += 1 if abs(stride) == 1 else 2 * stride
        else:
            self.found.cost += _COST_OF_A_GATHER

    def _store(self, operation: Operation) -> None:
        if operation in self.in_memory:
            if self.chains.get(operation.operands[0]) != self.in_memory[operation]:
                raise _NotInVectors("what is stored is no reduction")
            return
        if operation.operands[0] in self.chains:
            raise _NotInVectors("a partial result is stored")
        stride = self._placed(operation)
        if stride == 0:
            raise _NotInVectors("all iterations store in one place")
        if not isinstance(stride, int) and not self.independent and self._is_read(operation.operands[1]):
            raise _NotInVectors("iterations may meet in memory")
        self._widen(operation.operands[1].type.element)
        self.found.cost += 1 if stride in (1, -1) else _COST_OF_A_GATHER

    def _is_read(self, memory: Value) -> bool:
        return any(o.name == "memref.load" and o.operands[0] is memory for o in self.block.operations)

    def _placed(self, operation: Operation) -> Stride:
        """The number of elements between the places of a load or store in neighbouring lanes."""
        stride = self.found.places[operation] = self.found.strides.get(operation.operands[-1], 0)
        return stride


def _number(operation: Operation) -> Value | int:
    """The place of a load or store: an int if it is constant."""
    place = operation.operands[-1]
    return place if (number := known_integer(place)) is None else number


def _differ(places: Collection[Value | int]) -> bool:
    """True if no two of these places are the same: they differ by a known number."""
    forms = [form_of(place) if isinstance(place, Value) else LinearForm(frozenset(), place) for place in places]
    return len({f.terms for f in forms}) == 1 and len({f.constant for f in forms}) == len(forms)
