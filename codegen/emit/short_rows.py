"""Unroll short loops within a loop, so that the loop around them can run in vectors.

    for i in 0..100000:                                for i in 0..100000:
      total = for j in 0..3 carrying addf: x[3i + j]     total = ((0 + x[3i]) + x[3i + 1]) + x[3i + 2]
      store total, y[i]                                  store total, y[i]

A vector along j would use three lanes, and end in additions that wait for each other; a vector along i uses all lanes,
and loads every third element: log(sum(exp(x))) of a row of 10 floats takes 5 ns, row by row 25 (Zen 4).

Short rows to which a loop adds are held in registers while it runs:

    for j in 0..n:                              total = load y[at .. at + 5]
      x = load a[j]                             for j in 0..n carrying total:
      for k in 0..5:                              x = load a[j]
        y[at + k] = y[at + k] + x * b[5j + k]     total = total + x * b[5j .. 5j + 5]
                                                store total, y[at .. at + 5]

In memory, each row waits until the one before it is stored, longer if the store is masked because a row does not fill
a vector: 10,000 products of 4 x 4 doubles take 184 us in memory, 50 in registers (Zen 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.instructions import is_function
from ..kernel.nest import INDEX, Block, Operation, Value, computing, known_integer
from ..records import record
from .loop_plan import LoopPlan, plan_loop
from .operations import SCALAR
from .phases import Phase, phases
from .strides import NEAR
from .types import first_lanes
from .vector_loop import VectorLoop

if TYPE_CHECKING:
    from .body import BodyWriter

#: The iterations that are worth unrolling: for each loop, for a search, for a function, division or root; and the most
#: of all.  Longer rows fill a vector themselves, and the code would be long.
_A_LOOP, _A_SEARCH, _A_FUNCTION, _MOST_ITERATIONS = 6, 6, 6, 16
#: Costs if rows are stored, which is done element by element: with functions, which outweigh that; without; and
#: where rows are also added up, because such additions would wait for each other row by row.
_STORED, _STORED_CHEAP, _ADDED = 12, 4, 7
#: The cost that a row must have for each element that it gathers, as the label of a cross-entropy: value and gradient,
#: us, of 66,666 rows of 3 floats, 28,571 of 7, 20,000 of 10: 1,212, 700, 470; side by side 232, 173, 166.
_A_GATHER = 40
_SLOW = ("arith.divf", "math.sqrt")
_PLACES = ("arith.addi", "arith.muli")


def unrolled(block: Block) -> tuple[Block, list[Operation]] | None:
    """The block with its loops unrolled, and operations to write before it; None if it has no loop, or a long one.

    Values that the block keeps in scratch memory are passed on directly instead.
    """
    loops = [o for o in block.operations if o.regions]
    most = _worthwhile_iterations(block, loops)
    if not loops or not all(_is_short(loop, most) for loop in loops):
        return None
    unrolled_block = _Unrolled(block)
    for operation in block.operations:
        if operation.regions:
            unrolled_block.loop(operation)
        else:
            unrolled_block.operation(operation)
    return None if unrolled_block.reads_unwritten else (unrolled_block.made, unrolled_block.before)


def unrolling_pays(plan: LoopPlan) -> bool:
    """True if all loads and stores have known strides, but for a few loads that the cost outweighs."""
    found = [o for o, place in plan.places.items() if not isinstance(place, int)]
    return all(o.name == "memref.load" for o in found) and len(found) * _A_GATHER <= plan.cost


def _worthwhile_iterations(block: Block, loops: list[Operation]) -> int:
    """The number of iterations of a block's loops that are worth unrolling."""
    inside = [o for loop in loops for o in loop.regions[0].operations[:-1]]
    carried = {v for loop in loops for v in loop.regions[0].arguments[1:]}
    searches = any(o.name != "arith.addf" and not carried.isdisjoint(o.operands) for o in inside)
    functions = any(is_function(o.name) or o.name in _SLOW for o in (*inside, *block.operations))
    if any(o.name == "memref.store" and not _is_scratch(o.operands[1]) for o in inside):
        if any(is_function(o.name) for o in inside):
            return _STORED
        return _ADDED if any(map(_adds, (*inside, *block.operations))) else _STORED_CHEAP
    return min(_MOST_ITERATIONS, _A_LOOP * len(loops) + _A_SEARCH * searches + _A_FUNCTION * functions)


def _adds(operation: Operation) -> bool:
    """True if an operation stores the sum of the value that was in that memory and another value."""
    if operation.name != "memref.store" or not isinstance(total := operation.operands[0].owner, Operation):
        return False
    loads = [v.owner for v in total.operands if isinstance(v.owner, Operation) and v.owner.name == "memref.load"]
    return total.name == "arith.addf" and any(load.operands[0] is operation.operands[1] for load in loads)


def _is_short(loop: Operation, most: int) -> bool:
    if loop.name != "scf.for":
        return False
    start, end = [known_integer(v) for v in loop.operands[:2]]
    if start != 0 or end not in range(2, most + 1):
        return False
    return not any(o.regions for o in loop.regions[0].operations)


class _Unrolled:
    """The unrolled operations so far; `reads_unwritten`: scratch is read at a place not known to have been written.

    before   operations on places that are the same in every iteration of the outer loop, to be written before it
    """

    def __init__(self, block: Block) -> None:
        self.made = Block()
        self.made.arguments = block.arguments
        self.before: list[Operation] = []
        self.reads_unwritten = False
        self._inside = set(block.arguments)
        self._values: dict[Value, Value] = {}
        self._scratch: dict[tuple[Value, int | None], Value] = {}
        self._added = _read_first(block)

    def loop(self, loop: Operation) -> None:
        """Append all iterations of an inner loop, one after the other."""
        (block,) = loop.regions
        values = self._values
        counter, *carried = block.arguments
        so_far = [values.get(v, v) for v in loop.operands[3:]]
        for number in range(known_integer(loop.operands[1]) or 0):
            place = Operation("arith.constant", (), (INDEX,), {"value": number})
            self.before.append(place)
            values.update({counter: place.result, **dict(zip(carried, so_far, strict=True))})
            for operation in block.operations[:-1]:
                self.operation(operation)
            so_far = [values.get(v, v) for v in block.operations[-1].operands]
        values.update(zip(loop.results, so_far, strict=True))

    def operation(self, operation: Operation) -> None:
        """Append an operation, on the current values of its operands."""
        values = self._values
        operands = [values.get(v, v) for v in operation.operands]
        is_store = operation.name == "memref.store"
        is_access = is_store or operation.name == "memref.load"
        if is_access and _is_scratch(operands[is_store]) and operands[is_store] not in self._added:
            place = operands[is_store], known_integer(operands[-1])
            self.reads_unwritten |= place[1] is None or not (is_store or place in self._scratch)
            if is_store:
                self._scratch[place] = operands[0]
            elif not self.reads_unwritten:
                values[operation.result] = self._scratch[place]
            return
        copied = Operation(operation.name, operands, [r.type for r in operation.results], operation.attributes)
        copied.node = operation.node
        values.update(zip(operation.results, copied.results, strict=True))
        if operation.name in _PLACES and self._inside.isdisjoint(operands):
            self.before.append(copied)
        else:
            self._inside.update(copied.results)
            self.made.operations.append(copied)


def _read_first(block: Block) -> set[Value]:
    """Memory that is read before it is written: all iterations add to such memory, as to the status of checks."""
    found: dict[Value, bool] = {}
    for operation in block.operations:
        for o in (operation, *(o for region in operation.regions for o in region.operations)):
            if o.name in ("memref.load", "memref.store"):
                is_store = o.name == "memref.store"
                found.setdefault(o.operands[is_store], not is_store)
    return {memory for memory, is_read in found.items() if is_read}


def _is_scratch(memory: Value) -> bool:
    return isinstance(memory.owner, Operation) and memory.owner.name == "memref.alloca"


# ---------------------------------------------------------------- rows in registers


#: A loop of up to this many iterations is unrolled.
_UNROLLED_TRIPS = 8
#: Rows of up to _SHORT elements in a loop longer than _LONG_AROUND are left to `unrolled`: a vector holds several.
_SHORT, _LONG_AROUND = NEAR, 16
#: The registers that held rows may take.
_REGISTERS = 12


@record(frozen=True)
class _Rows:
    """The rows of a loop that are held in registers.

    before   the operations of an iteration ahead of the inner loop
    inner    the inner loop;   plan   its plan
    loads    of the rows;   stores   of the rows;   places   the operations that compute the places of the rows
    """

    before: list[Operation]
    inner: Operation
    plan: LoopPlan
    loads: list[Operation]
    stores: list[Operation]
    places: list[Operation]

    @property
    def block(self) -> Block:
        return self.inner.regions[0]


def write_with_held_rows(body: BodyWriter, block: Block, lower: str, upper: str) -> bool:
    """Write a loop with its rows in registers; False if it has no rows that can be held."""
    found = _rows(block)
    if found is None:
        return False
    trips = known_integer(found.inner.operands[1])
    assert trips is not None, "a row has a known length"
    is_few = lower.isdigit() and upper.isdigit() and int(upper) - int(lower) <= _LONG_AROUND
    phase, *others = phases(found.plan, trips, body.target, in_one=True)
    if others or not phase.is_straight or phase.lanes < 2 or (trips <= _SHORT and not is_few):
        return False
    if len(found.loads) * phase.lanes * found.plan.bits > _REGISTERS * body.target.vector_bytes * 8:
        return False
    _HeldRows(body, block, found, phase).write_rows(lower, upper)
    return True


def _rows(block: Block) -> _Rows | None:
    """The rows of a loop that can be held in registers, or None."""
    if len(block.operations) < 2 or block.operations[-1].operands:
        return None
    *before, inner, _ = block.operations
    if inner.name != "scf.for" or inner.results:
        return None
    start, end = map(known_integer, inner.operands[:2])
    (inside,) = inner.regions
    if start != 0 or not end or not all(o.name in SCALAR or o.name == "memref.load" for o in before):
        return None
    plan = plan_loop(inside, independent="independent_except_carried" in inner.attributes)
    if plan is None or plan.reductions:
        return None
    operations = [*before, *inside.operations[:-1]]
    # The values that differ between the iterations of the outer loop, or may.
    moved = {block.arguments[0]}
    for o in operations:
        if o.name == "memref.load" or not moved.isdisjoint(o.operands):
            moved.update(o.results)
    loads, stores = [], []
    for store in inside.operations:
        if store.name != "memref.store" or store.operands[2] in moved:
            continue
        if load := _row(store, operations, plan):
            loads.append(load)
            stores.append(store)
    written = {o.operands[1] for o in inside.operations if o.name == "memref.store"}
    if not loads or any(o.operands[0] in written for o in before if o.name == "memref.load"):
        return None
    places = computing({load.operands[1] for load in loads}, operations)
    return _Rows(before, inner, plan, loads, stores, places)


def _row(store: Operation, operations: list[Operation], plan: LoopPlan) -> Operation | None:
    """The load of the row that a store writes back, if no other operation accesses that memory; else None."""
    _, memory, index = store.operands
    others = [o for o in operations if memory in o.operands and o is not store]
    if len(others) != 1 or others[0].name != "memref.load" or plan.places[store] != 1:
        return None
    (load,) = others
    is_first = operations.index(load) < operations.index(store)
    return load if is_first and load.operands[1] is index and plan.places.get(load) == 1 else None


class _HeldRows(VectorLoop):
    """Writes an outer loop, and its inner one on rows that are held in registers."""

    def __init__(self, body: BodyWriter, block: Block, found: _Rows, phase: Phase) -> None:
        super().__init__(body, found.block, found.plan)
        self.outer, self.outer_counter, self.found = block, block.arguments[0], found
        self.inside |= {self.outer_counter, *[r for o in found.before for r in o.results]}
        self.lanes = phase.lanes
        self.mask = first_lanes(phase.trips or 0, phase.lanes) if phase.is_masked else ""
        self.active = phase.trips or 0

    def write_rows(self, lower: str, upper: str) -> None:
        """Write the loads of the rows, the loop, and the stores of the rows."""
        body, found = self.body, self.found
        body.names[self.counter] = "0"
        body.write_operations(found.places)
        places = {o.result: body.names[o.result] for o in found.places}
        rows = []
        for load in found.loads:
            memory, index = load.operands
            rows.append(self._load_row(memory, memory.type.element, index, 1))
        place = len(body.lines)
        if lower.isdigit() and upper.isdigit() and int(upper) - int(lower) <= _UNROLLED_TRIPS:
            for number in range(int(lower), int(upper)):
                rows = self._row(str(number), rows)
        else:
            types = [self.spelled(load.result.type) for load in found.loads]
            rows = body.loop(
                self.outer, lower, upper, "1", rows,
                lambda *now: self._row(body.names[self.outer_counter], [*now]), types=types,
            )  # fmt: skip
        body.lines[place:place] = self.hoisted
        body.names.update({self.counter: "0", **places})
        for store, row in zip(found.stores, rows, strict=True):
            self.vectors[store.operands[0]] = row
            super().store(store)

    def _row(self, counter: str, rows: list[str]) -> list[str]:
        """Write one iteration of the outer loop; return the rows after it."""
        body, found = self.body, self.found
        body.names[self.outer_counter] = counter
        body.write_operations(found.before)
        self.vectors = {}
        self.given = {load.result: row for load, row in zip(found.loads, rows, strict=True)}
        self._iteration("0", [])
        return [self.vector(store.operands[0]) for store in found.stores]

    def store(self, operation: Operation) -> None:
        if operation not in self.found.stores:
            super().store(operation)
