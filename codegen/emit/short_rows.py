"""Short loops within a loop, written out, so that the loop around them can run in vectors.

    for i in 0..100000:                                for i in 0..100000:
      total = for j in 0..3 carrying addf: x[3i + j]     total = ((0 + x[3i]) + x[3i + 1]) + x[3i + 2]
      store total, y[i]                                  store total, y[i]

A vector along j would be three lanes full, and end in steps that wait for each other; along i it has all lanes, and
every third element is loaded: log(sum(exp(x))) of a row of 10 floats takes 5 ns, by rows 25 (Zen 4).

Short rows to which a loop adds, in registers while it runs.

    for j in 0..n:                              total = load y[at .. at + 5]
      x = load a[j]                             for j in 0..n carrying total:
      for k in 0..5:                              x = load a[j]
        y[at + k] = y[at + k] + x * b[5j + k]     total = total + x * b[5j .. 5j + 5]
                                                store total, y[at .. at + 5]

From memory each row waits until the one before it is stored, the longer if that is under a mask, and is no vector of
its own: 10,000 products of 4 x 4 doubles take 184 us so, 50 held (Zen 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.instructions import is_function
from ..kernel.nest import INDEX, Block, Operation, Value, known_integer
from ..records import record
from .loop_plan import LoopPlan, plan_loop
from .operations import SCALAR
from .phases import Phase, phases
from .strides import NEAR
from .types import first_lanes
from .vector_loop import VectorLoop

if TYPE_CHECKING:
    from .body import BodyWriter

#: Iterations that are worth writing out: for each loop, for what it carries besides a sum, for a function or root.
#: More than the last fill a vector themselves, and the code would be long.
_A_LOOP, _A_SEARCH, _A_FUNCTION, _MOST = 6, 6, 6, 16
#: The same where the rows are written: each element by itself, which only functions outweigh, or that something is
#: added up over rows as well, which one by one wait for each other.
_STORED, _STORED_CHEAP, _ADDED = 12, 4, 7
#: The cost that a row must have for each element that it looks up by a number: the label of a cross-entropy, us of
#: 66,666 rows of 3 floats, 28,571 of 7, 20,000 of 10, value and gradient: 1,212, 700, 470; side by side 232, 173, 166.
_A_GATHER = 40
_SLOW = ("arith.divf", "math.sqrt")
_PLACES = ("arith.addi", "arith.muli")


def unrolled(block: Block) -> tuple[Block, list[Operation]] | None:
    """The block without loops, and what stands before it; None if it has none, or one that is long.

    Values that it keeps in scratch are handed on instead.
    """
    loops = [o for o in block.operations if o.regions]
    most = _worth(block, loops)
    if not loops or not all(_is_short(loop, most) for loop in loops):
        return None
    written = _Written(block)
    for operation in block.operations:
        if operation.regions:
            written.loop(operation)
        else:
            written.operation(operation)
    return None if written.is_lost else (written.made, written.before)


def pays(plan: LoopPlan) -> bool:
    """True if memory is walked through by known steps, but for few loads."""
    found = [o for o, place in plan.places.items() if not isinstance(place, int)]
    return all(o.name == "memref.load" for o in found) and len(found) * _A_GATHER <= plan.cost


def _worth(block: Block, loops: list[Operation]) -> int:
    """The number of iterations of its loops that are worth writing out."""
    inside = [o for loop in loops for o in loop.regions[0].operations[:-1]]
    carried = {v for loop in loops for v in loop.regions[0].arguments[1:]}
    searches = any(o.name != "arith.addf" and not carried.isdisjoint(o.operands) for o in inside)
    functions = any(is_function(o.name) or o.name in _SLOW for o in (*inside, *block.operations))
    if any(o.name == "memref.store" and not _is_scratch(o.operands[1]) for o in inside):
        if any(is_function(o.name) for o in inside):
            return _STORED
        return _ADDED if any(map(_adds, (*inside, *block.operations))) else _STORED_CHEAP
    return min(_MOST, _A_LOOP * len(loops) + _A_SEARCH * searches + _A_FUNCTION * functions)


def _adds(operation: Operation) -> bool:
    """True if it stores the sum of the value that was there and another."""
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


class _Written:
    """The operations so far; `is_lost`: scratch was read at a place that nobody knows to have been written.

    before   places that are the same in every iteration, which stand before the loop
    """

    def __init__(self, block: Block) -> None:
        self.made = Block()
        self.made.arguments = block.arguments
        self.before: list[Operation] = []
        self.is_lost = False
        self._inside = set(block.arguments)
        self._values: dict[Value, Value] = {}
        self._scratch: dict[tuple[Value, int | None], Value] = {}
        self._added = _read_first(block)

    def loop(self, loop: Operation) -> None:
        """All iterations, one after the other."""
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
        """It, on what its operands are now."""
        values = self._values
        operands = [values.get(v, v) for v in operation.operands]
        is_store = operation.name == "memref.store"
        is_access = is_store or operation.name == "memref.load"
        if is_access and _is_scratch(operands[is_store]) and operands[is_store] not in self._added:
            place = operands[is_store], known_integer(operands[-1])
            self.is_lost |= place[1] is None or not (is_store or place in self._scratch)
            if is_store:
                self._scratch[place] = operands[0]
            elif not self.is_lost:
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
    """Memory that is read before it is written: what all iterations add to, as to the status of checks."""
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


#: A loop of so many iterations is written out.
_WRITTEN = 8
#: Of shorter rows more fit into one vector where the loop around them is long: that is left to `unrolled`.
_SHORT, _LONG_AROUND = NEAR, 16
#: Registers that rows may take.
_REGISTERS = 12


@record(frozen=True)
class _Rows:
    """before   what an iteration does ahead of the inner loop
    inner    that loop
    plan     of it
    loads    of the rows that are held;   stores  the same
    places   operations that find where these are
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


def write_held(body: BodyWriter, block: Block, lower: str, upper: str) -> bool:
    """Write a loop with its rows in registers; False if it has none."""
    counter = block.arguments[0]
    found = _rows(block, counter)
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
    _Held(body, block, counter, found, phase).write_rows(lower, upper)
    return True


def _rows(block: Block, counter: Value) -> _Rows | None:
    """The rows that are held, or None."""
    if len(block.operations) < 2 or block.operations[-1].operands:
        return None
    *before, inner, _ = block.operations
    if inner.name != "scf.for" or inner.results:
        return None
    start, end = map(known_integer, inner.operands[:2])
    (inside,) = inner.regions
    if start != 0 or not end or not all(o.name in SCALAR or o.name == "memref.load" for o in before):
        return None
    plan = plan_loop(inside, inside.arguments[0], [], independent="apart" in inner.attributes)
    if plan is None or plan.reductions:
        return None
    operations = [*before, *inside.operations[:-1]]
    # The values that differ between the iterations of the outer loop, or may.
    moved = {counter}
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
    needed = {load.operands[1] for load in loads}
    places: list[Operation] = []
    for o in reversed(operations):
        if not needed.isdisjoint(o.results):
            places.insert(0, o)
            needed.update(o.operands)
    return _Rows(before, inner, plan, loads, stores, places)


def _row(store: Operation, operations: list[Operation], plan: LoopPlan) -> Operation | None:
    """The load of what a store writes back, if nothing else reads or writes that memory."""
    _, memory, index = store.operands
    others = [o for o in operations if memory in o.operands and o is not store]
    if len(others) != 1 or others[0].name != "memref.load" or plan.places[store] != 1:
        return None
    (load,) = others
    is_first = operations.index(load) < operations.index(store)
    return load if is_first and load.operands[1] is index and plan.places.get(load) == 1 else None


class _Held(VectorLoop):
    """Writes the loops."""

    def __init__(self, body: BodyWriter, block: Block, counter: Value, found: _Rows, phase: Phase) -> None:
        super().__init__(body, found.block, found.block.arguments[0], found.plan)
        self.outer, self.outer_counter, self.found = block, counter, found
        self.inside |= {counter, *[r for o in found.before for r in o.results]}
        self.now: dict[Operation, str] = {}
        self.lanes = phase.lanes
        self.mask = first_lanes(phase.trips or 0, phase.lanes) if phase.is_masked else ""
        self.active = phase.trips or 0

    def write_rows(self, lower: str, upper: str) -> None:
        """The rows before the loop, the loop, and where they go."""
        body, found = self.body, self.found
        body.names[self.counter] = "0"
        body._straight(found.places)
        places = {o.result: body.names[o.result] for o in found.places}
        rows = []
        for load in found.loads:
            memory, index = load.operands
            rows.append(self._load_row(memory, memory.type.element, index, 1))
        place = len(body.lines)
        if lower.isdigit() and upper.isdigit() and int(upper) - int(lower) <= _WRITTEN:
            for number in range(int(lower), int(upper)):
                rows = self._row(str(number), rows)
        else:
            types = [self.spelled(load.result.type) for load in found.loads]
            rows = body.loop(
                self.outer, self.outer_counter, lower, upper, "1", rows,
                lambda *now: self._row(body.names[self.outer_counter], [*now]), types=types,
            )  # fmt: skip
        body.lines[place:place] = self.hoisted
        body.names.update({self.counter: "0", **places})
        for store, row in zip(found.stores, rows, strict=True):
            self.vectors[store.operands[0]] = row
            super().store(store)

    def _row(self, counter: str, rows: list[str]) -> list[str]:
        """One iteration of the outer loop; gives the rows after it."""
        body, found = self.body, self.found
        body.names[self.outer_counter] = counter
        body._straight(found.before)
        self.vectors = {}
        self.now = dict(zip(found.loads, rows, strict=True))
        self._iteration("0", [])
        return [self.vector(store.operands[0]) for store in found.stores]

    def load(self, operation: Operation) -> None:
        if operation in self.now:
            self.vectors[operation.result] = self.now[operation]
        else:
            super().load(operation)

    def store(self, operation: Operation) -> None:
        if operation not in self.found.stores:
            super().store(operation)
