"""Short loops within a loop, written out, so that the loop around them can run in vectors.

    for i in 0..100000:                                for i in 0..100000:
      total = for j in 0..3 carrying addf: x[3i + j]     total = ((0 + x[3i]) + x[3i + 1]) + x[3i + 2]
      store total, y[i]                                  store total, y[i]

A vector along j would be three lanes full, and end in steps that wait for each other; along i it has all lanes, and
every third element is loaded.  ns per row of floats, so and by rows, Zen 4:

    log(sum(exp(x)))     rows of 5  2.9, 21     10  5.0, 25     16  7.9, 23
    max(x)                          .8, 2.5         1.8, 3.9        3.0, 3.0
    sum(x)                          .7, 1.0         1.4, 1.7        2.3, 1.1
    softmax(x)           rows of 3  2.6, 11     10  7.7, 17     16   12, 14
"""

from __future__ import annotations

from ..kernel.instructions import is_function
from ..kernel.nest import INDEX, Block, Operation, Value, known_integer
from .loop_plan import LoopPlan

__all__ = ["is_long", "pays", "unrolled"]

#: Iterations that are worth writing out: for each loop, for what it carries besides a sum, for a function or root.
#: More than the last fill a vector themselves, and the code would be long.
_A_LOOP, _A_SEARCH, _A_FUNCTION, _MOST = 6, 6, 6, 16
#: The same where the rows are written: each element by itself, which only functions outweigh, or that something is
#: added up over rows as well, which one by one wait for each other (the loss of x - mean(x), and its slope: rows of 5
#: .62 of the time, of 7 .87 to 1, of 8 1.4; without a loss 1.2 to 1.7).
_STORED, _STORED_CHEAP, _ADDED = 12, 4, 7
_LONG = 160
#: What a row must cost for each element that it looks up by a number: the label of a cross-entropy, us of 66,666 rows
#: of 3 floats, 28,571 of 7, 20,000 of 10, value and gradient: 1,212, 700, 470; side by side 232, 173, 166.
_A_GATHER = 40
_SLOW = ("arith.divf", "math.sqrt")
_PLACES = ("arith.addi", "arith.muli")


def unrolled(block: Block) -> tuple[Block, list[Operation]] | None:
    """The block without loops, and what stands before it; None if it has none, or one that is long.

    What it keeps in scratch is handed on instead.
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


def is_long(plan: LoopPlan) -> bool:
    """True if the code is better not written twice: then the rest of the elements runs the loops as they were."""
    return plan.cost > _LONG


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
    bounds = [known_integer(v) for v in loop.operands[:3]]
    if bounds[0] != 0 or bounds[2] != 1 or bounds[1] not in range(2, most + 1):
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
            is_known = place[1] is not None and len(operands) == 2 + is_store
            self.is_lost |= not is_known or not (is_store or place in self._scratch)
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
