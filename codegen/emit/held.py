"""Short rows to which a loop adds, in registers while it runs.

    for j in 0..n:                              total = load y[at .. at + 5]
      x = load a[j]                             for j in 0..n carrying total:
      for k in 0..5:                              x = load a[j]
        y[at + k] = y[at + k] + x * b[5j + k]     total = total + x * b[5j .. 5j + 5]
                                                store total, y[at .. at + 5]

From memory each row waits until the one before it is stored, the longer if it is stored in pieces, and is no vector of
its own.  us, f64, one thread, Zen 4, so and held: sum over the middle axis of 20,000 x 10 x 5
708, 369; of exp there 1616, 839; 10,000 products of 4 x 4 184, 50 (f32 154, 48), their gradient 828, 380.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.nest import Block, Operation, Value, known_integer
from ..records import record
from .loop_plan import LoopPlan, plan_loop
from .operations import SCALAR
from .phases import Phase, phases
from .strides import NEAR
from .types import first_lanes
from .vector_loop import VectorLoop

if TYPE_CHECKING:
    from .body import BodyWriter

__all__ = ["write_held"]

#: A loop of so many iterations is written out.
_WRITTEN = 8
#: Of shorter rows more fit into one vector where the loop around them is long: that is left to `unroll`.
_SHORT, _LONG = NEAR, 16
#: Registers that rows may take.
_MOST = 12


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


def write_held(body: BodyWriter, block: Block, lower: str, upper: str, *, is_few: bool) -> bool:
    """Write a loop of step 1 with its rows in registers; False if it has none.

    is_few    whether its iterations would not fill a vector, where their number is not known
    """
    counter = block.arguments[0]
    found = _rows(block, counter)
    if found is None:
        return False
    trips = known_integer(found.inner.operands[1])
    assert trips is not None, "a row has a known length"
    is_few |= lower.isdigit() and upper.isdigit() and int(upper) - int(lower) <= _LONG
    phase, *others = phases(found.plan, trips, body.target)
    if others or not phase.is_straight or phase.lanes < 2 or (trips <= _SHORT and not is_few):
        return False
    if len(found.loads) * phase.lanes * found.plan.bits > _MOST * body.target.vector_bytes * 8:
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
    start, end, step = map(known_integer, inner.operands[:3])
    (inside,) = inner.regions
    if (start, step) != (0, 1) or not end or not all(o.name in SCALAR or o.name == "memref.load" for o in before):
        return None
    plan = plan_loop(inside, inside.arguments[0], [], independent="apart" in inner.attributes)
    if plan is None or plan.reductions:
        return None
    operations = [*before, *inside.operations[:-1]]
    # What differs between the iterations of the outer loop, or may.
    moved = {counter}
    for o in operations:
        if o.name == "memref.load" or not moved.isdisjoint(o.operands):
            moved.update(o.results)
    loads, stores = [], []
    for store in inside.operations:
        if store.name != "memref.store" or not moved.isdisjoint(store.operands[2:]):
            continue
        if load := _row(store, operations, plan):
            loads.append(load)
            stores.append(store)
    written = {o.operands[1] for o in inside.operations if o.name == "memref.store"}
    if not loads or any(o.operands[0] in written for o in before if o.name == "memref.load"):
        return None
    needed = {index for load in loads for index in load.operands[1:]}
    places: list[Operation] = []
    for o in reversed(operations):
        if not needed.isdisjoint(o.results):
            places.insert(0, o)
            needed.update(o.operands)
    return _Rows(before, inner, plan, loads, stores, places)


def _row(store: Operation, operations: list[Operation], plan: LoopPlan) -> Operation | None:
    """The load of what a store writes back, if nothing else reads or writes that memory."""
    _, memory, *indices = store.operands
    others = [o for o in operations if memory in o.operands and o is not store]
    if len(others) != 1 or others[0].name != "memref.load" or plan.places[store] != 1:
        return None
    (load,) = others
    is_first = operations.index(load) < operations.index(store)
    return load if is_first and load.operands[1:] == indices and plan.places.get(load) == 1 else None


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
            memory, *indices = load.operands
            rows.append(self._load_row(memory, memory.type.element, indices, 1))
        place = len(body.lines)
        if lower.isdigit() and upper.isdigit() and int(upper) - int(lower) <= _WRITTEN:
            for number in range(int(lower), int(upper)):
                rows = self._row(str(number), rows)
        else:
            rows = self._rows(lower, upper, rows)
        body.lines[place:place] = self.hoisted
        body.names.update({self.counter: "0", **places})
        for store, row in zip(found.stores, rows, strict=True):
            self.vectors[store.operands[0]] = row
            super().store(store)

    def _rows(self, lower: str, upper: str, rows: list[str]) -> list[str]:
        """The loop; gives the rows at its end."""
        body = self.body
        number, before = body.next_number(), body.label
        counter, phis = f"%i.{number}", [f"%row.{number}.{j}" for j in range(len(rows))]
        body.lines.append(f"  br label %loop.{number}")
        body.start(f"loop.{number}")
        header = len(body.lines)
        body.lines.append(f"  %more.{number} = icmp slt i64 {counter}, {upper}")
        body.lines.append(f"  br i1 %more.{number}, label %body.{number}, label %done.{number}")
        body.start(f"body.{number}")
        after = self._row(counter, phis)
        body.lines.append(f"  %next.{number} = add nsw i64 {counter}, 1")
        body.lines.append(f"  br label %loop.{number}")
        types = [self.spelled(load.result.type) for load in self.found.loads]
        body.lines[header:header] = [
            f"  {name} = phi {type} [ {first}, %{before} ], [ {last}, %{body.label} ]"
            for name, type, first, last in zip(
                [counter, *phis], ["i64", *types], [lower, *rows], [f"%next.{number}", *after], strict=True
            )
        ]
        body.start(f"done.{number}")
        return phis

    def _row(self, counter: str, rows: list[str]) -> list[str]:
        """One iteration of the outer loop; gives the rows after it."""
        body, found = self.body, self.found
        outside, body.offsets = body.offsets, dict(body.offsets)
        body.names[self.outer_counter] = counter
        body._straight(found.before)
        self.vectors = {}
        self.now = dict(zip(found.loads, rows, strict=True))
        self._iteration("0", [])
        body.offsets = outside
        return [self.vector(store.operands[0]) for store in found.stores]

    def load(self, operation: Operation) -> None:
        if operation in self.now:
            self.vectors[operation.result] = self.now[operation]
        else:
            super().load(operation)

    def store(self, operation: Operation) -> None:
        if operation not in self.found.stores:
            super().store(operation)
