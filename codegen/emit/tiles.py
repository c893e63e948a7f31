"""Square tiles, transposed in registers, for elements far apart along an inner loop, and adjacent along an outer one.

    for i in 0..m:                            for i in 0..m by 8:
      for j in 0..n:                            for j in 0..n by 8:
        store x[j * m + i], y[i * n + j]          8 vectors x[(j + 0, 1, ..) * m + i], transposed,
                                                  8 vectors y[(i + 0, 1, ..) * n + j]

Row by row each element is loaded alone, and each line of the cache is fetched once for each of its elements: a
transpose of 1024 x 1024 takes 3.1 ns per f64, in tiles .5 (Zen 4).

Loops between the two are moved outside of both.  Elements left over at the end of rows, and rows left over, run as
they would without tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..kernel.nest import INDEX, Block, Operation, Value, known_integer
from ..records import record
from .loop_plan import LoopPlan, plan_loop
from .operations import SCALAR
from .phases import phases
from .strides import NEAR, RunStride, Stride
from .types import ALIGNMENT, LLVM_TYPES
from .vector_loop import VectorLoop

if TYPE_CHECKING:
    from .body import BodyWriter

#: The body is written once for each row of a tile: more expensive bodies gain nothing.
_MOST_COST = 14
#: The most rows of a tile: more vectors than registers would be spilled to memory.  Of bytes a quarter of a register is
#: filled then: 1000 x 1000 bytes take 1.48 ms row by row, .08 in tiles.
_MOST_ROWS = 16
_LINE_BYTES = 64
#: Tiles side by side before the next columns: together they read consecutive lines of the cache of each row.
_TILES = 4


@record(frozen=True)
class _Tiled:
    """Loops that are written in tiles.

    between  loops between the outer and the inner one, which move outside of both
    before   the operations of the other loops ahead of the inner one
    inner    the innermost loop;   plan   its plan;   far   its loads at far places, adjacent along the outer loop
    """

    between: list[Operation]
    before: list[Operation]
    inner: Operation
    plan: LoopPlan
    far: list[Operation]

    @property
    def block(self) -> Block:
        return self.inner.regions[0]


def write_tiles(body: BodyWriter, block: Block, lower: str, upper: str, *, independent: bool) -> bool:
    """Write the loop in tiles; False if that is impossible, or does not pay.

    independent    the iterations are promised not to touch each other's memory
    """
    found = _tiled(block, independent=independent)
    if found is None:
        return False
    size = min(body.target.vector_bytes * 8 // found.plan.bits, _MOST_ROWS)
    columns = body.names[found.inner.operands[1]]
    if size < 4 or any(end.isdigit() and int(end) < size for end in (upper, columns)):
        return False
    _Tiles(body, block, found, size).write_both(lower, upper, columns)
    return True


def reads_across(block: Block) -> bool:
    """True if a parallel loop of this body would be written in tiles."""
    return _tiled(block, independent=True) is not None


def _tiled(block: Block, *, independent: bool) -> _Tiled | None:
    """The loops of this body that can be written in tiles, or None."""
    before, inner = _last(block)
    between: list[Operation] = []
    while inner is not None and _is_plain(inner, before):
        further, innermost = _last(inner.regions[0])
        if innermost is None:
            break
        between.append(inner)
        before, inner = [*before, *further], innermost
    if inner is None or not _is_plain(inner, before) or block.operations[-1].operands:
        return None
    (inside,) = inner.regions
    if any(o.regions or o.name == "memref.alloca" for o in (*before, *inside.operations)):
        return None
    stored = {o.operands[1] for o in inside.operations if o.name == "memref.store"}
    loads = [o for o in (*before, *inside.operations) if o.name == "memref.load"]
    if any(o.name == "memref.store" for o in before) or any(o.operands[0] in stored for o in loads):
        return None
    plan = plan_loop(inside, independent=independent)
    if plan is None or plan.reductions or plan.cost > _MOST_COST + sum(map(_is_far, plan.places.values())) * 10:
        return None
    flat = Block()
    flat.arguments, flat.operations = block.arguments, [*before, *inside.operations]
    along = plan_loop(flat, independent=True)
    if along is None:
        return None
    far = [o for o, place in plan.places.items() if _is_far(place)]
    if not far or any(o.name == "memref.store" or along.places.get(o) != 1 for o in far):
        return None
    # One width of elements, so that tiles are square; and stores along rows, for which tiles are transposed.
    widths = {o.operands[0].type.element.bits for o in far}
    is_rows = all(plan.places[o] == 1 for o in inside.operations if o.name == "memref.store")
    return _Tiled(between, before, inner, plan, far) if widths == {plan.bits} and is_rows else None


def _last(block: Block) -> tuple[list[Operation], Operation | None]:
    """(the operations before, the loop that a block ends with), or (all operations, None) if it ends with no loop."""
    operations = block.operations[:-1]
    if operations and operations[-1].name == "scf.for":
        return operations[:-1], operations[-1]
    return operations, None


def _is_plain(loop: Operation, before: list[Operation]) -> bool:
    """True if a loop carries nothing, and runs from 0 to a bound that does not depend on the operations `before`."""
    start, end = loop.operands[:2]
    made = {r for o in before for r in o.results}
    return not loop.results and known_integer(start) == 0 and end not in made


def _is_far(place: Stride) -> bool:
    return isinstance(place, RunStride) or (isinstance(place, int) and abs(place) > NEAR)


class _Tiles(VectorLoop):
    """Writes the outer and the inner loop in tiles."""

    def __init__(self, body: BodyWriter, block: Block, found: _Tiled, size: int) -> None:
        super().__init__(body, found.block, found.plan)
        self.outer, self.outer_counter, self.found, self.size = block, block.arguments[0], found, size
        self.between = found.between
        self.inside |= {self.outer_counter, *[r for o in found.before for r in o.results]}

    def write_both(self, lower: str, upper: str, columns: str) -> None:
        """Write the tiles, then the elements left over in their rows and the rows left over."""
        if self.between:
            loop, *self.between = self.between
            (block,) = loop.regions
            end = self.body.names[loop.operands[1]]
            write = partial(self.write_both, lower, upper, columns)
            self.body.loop(block, "0", end, "1", [], write)
            return
        rows_end, columns_end = self.body.whole(lower, upper, self.size), self.body.whole("0", columns, self.size)
        if not columns_end.isdigit():
            # Rows shorter than a tile are all left over.
            is_short = self.value(f"icmp eq i64 {columns_end}, 0")
            rows_end = self.value(f"select i1 {is_short}, i64 {lower}, i64 {rows_end}")
        self._outer(lower, rows_end, self.size * _TILES, lambda: self._panel(rows_end, columns_end))
        if columns_end != columns:
            self._outer(lower, rows_end, 1, lambda: self._rest(columns_end, columns))
        if rows_end != upper:
            self._outer(rows_end, upper, 1, lambda: self._rest("0", columns))

    def _outer(self, lower: str, upper: str, step: int, write: Callable[[], None]) -> None:
        self.body.loop(self.outer, lower, upper, str(step), [], write)

    def _rest(self, start: str, columns: str) -> None:
        """Write a row without tiles, from the column `start` on."""
        self.body.write_operations(self.found.before)
        trips = int(columns) - int(start) if columns.isdigit() and start.isdigit() else None
        covering = phases(self.plan, trips, self.body.target)
        VectorLoop(self.body, self.block, self.plan).write(start, columns, [], covering)

    def _panel(self, rows_end: str, columns_end: str) -> None:
        """Write up to `_TILES` tiles side by side, for all columns: they read several cache lines of each row."""
        body = self.body
        first = body.names[self.outer_counter]
        last = body.up_to(first, self.size * _TILES, rows_end)
        place, self.hoisted = len(body.lines), []
        self.lanes, self.mask, self.active = self.size, "", self.size
        column = partial(body.loop, self.outer, first, last, str(self.size), [], self._tile)
        body.loop(self.block, "0", columns_end, str(self.size), [], column)
        body.lines[place:place] = self.hoisted

    def _rows(self) -> list[dict[Value, str]]:
        """For each row of a tile, the names of the values that do not depend on the column."""
        body, first = self.body, self.body.names[self.outer_counter]
        made = [self.outer_counter, *[r for o in self.found.before for r in o.results]]
        rows = []
        for number in range(self.size):
            body.names[self.outer_counter] = body.value(f"add nuw nsw i64 {first}, {number}") if number else first
            body.write_operations(self.found.before)
            rows.append({v: body.names[v] for v in made})
        return rows

    def _tile(self) -> None:
        """Write one tile: load far elements along the outer loop, transpose them, then do the body row by row."""
        rows = self._rows()
        body, column = self.body, self.body.names[self.counter]
        loaded: dict[Operation, list[str]] = {o: [] for o in self.found.far}
        body.names.update(rows[0])
        for number in range(self.size):
            body.names[self.counter] = body.value(f"add nuw nsw i64 {column}, {number}") if number else column
            for operation in self.block.operations[:-1]:
                if operation in loaded:
                    loaded[operation].append(self._load_column(operation))
                elif operation.results and operation.result.type is INDEX and operation.name in SCALAR:
                    names = [body.names[v] for v in operation.operands]
                    body.names[operation.result] = SCALAR[operation.name](body, operation, names)
        transposed = {o.result: self._transpose(vectors, o) for o, vectors in loaded.items()}
        for number, row in enumerate(rows):
            body.names.update(row)
            self.given = {value: vectors[number] for value, vectors in transposed.items()}
            self.vectors = {}
            self._iteration(column, [])

    def _load_column(self, operation: Operation) -> str:
        """A vector of the elements that the rows of a tile read in one column."""
        memory, index = operation.operands
        element, names = memory.type.element, self.body.names
        address = self.body.address(memory.type, names[memory], names[index])
        return self.value(f"load {self.spelled(element)}, ptr {address}, align {ALIGNMENT[element]}")

    def _transpose(self, vectors: list[str], operation: Operation) -> list[str]:
        """Transpose a square of vectors: blocks of one, of two, of four, ... elements are exchanged."""
        size, type = self.size, f"<{self.size} x {LLVM_TYPES[operation.result.type]}>"
        step = 1
        while step < size:
            low = [lane if not lane & step else size + lane - step for lane in range(size)]
            high = [lane + step if not lane & step else size + lane for lane in range(size)]
            made = list(vectors)
            for a in range(size):
                if not a & step:
                    pair = f"{type} {vectors[a]}, {type} {vectors[a + step]}"
                    for at, order in ((a, low), (a + step, high)):
                        places = ", ".join(f"i32 {p}" for p in order)
                        made[at] = self.value(f"shufflevector {pair}, <{size} x i32> <{places}>")
            vectors, step = made, 2 * step
        return vectors

    def goes_past_caches(self, operation: Operation) -> bool:
        """True if a row of a tile is a whole line of the cache, too: parts of lines that bypass the caches are slow.

        Transposing 3,000 x 3,000 doubles, AVX2, rows of 32 bytes: 28.3 ms past the caches, 12.1 through them.
        """
        return self.size * self.plan.bits == 8 * _LINE_BYTES and super().goes_past_caches(operation)
