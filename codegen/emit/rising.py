"""Slices at places that only the run knows: they read elements side by side, held back at an edge.

    index     0  0  0  0  1  2  3  4  5  6  7  7  7  7  7  7        lanes: four
    loads     gather ---  gather ---  row ------  gather ---

An iteration is written for places away from edges too, where no counter is held back and all comparisons hold: a
gather takes six times as long as a row of doubles (Zen 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..kernel.nest import INDEX, Block, Operation, Value
from .operations import SCALAR

if TYPE_CHECKING:
    from .body import BodyWriter

#: Operations that hold a counter back or compare it, and make no difference from some place on, or until one: by how
#: much the counter may be beyond the place.
_FROM = {"arith.maxsi": 0, "sge": 0, "sgt": 1}
_UNTIL = {"arith.minsi": 0, "sle": 0, "slt": -1}
#: Operations that never fail, wherever they are computed.
_ALWAYS = ("arith.addi", "arith.constant", "arith.index_cast", "arith.maxsi", "arith.minsi", "arith.muli", "arith.subi")
_TURNED = {"sge": "sle", "sgt": "slt", "sle": "sge", "slt": "sgt"}


def held_back(operation: Operation, strides: Mapping[Value, Any]) -> Value | None:
    """The counter that is held back, or compared with a place; None where it is no such operation."""
    if _edge_of(operation, 0) is None:
        return None
    found = [strides.get(v, 0) for v in operation.operands]
    return operation.operands[found.index(1)] if {*found} == {0, 1} else None


def holds_places(held: Iterable[Operation]) -> bool:
    """True if one of these holds a place back, not only compares it."""
    return any(o.name != "arith.cmpi" and o.result.type is INDEX for o in held)


def _edge_of(operation: Operation, at: int) -> str | None:
    """The edge of the counter, which is this operand; None: no edge that lasts."""
    what = operation.attributes["predicate"] if operation.name == "arith.cmpi" else operation.name
    if at:
        what = _TURNED.get(what, what)
    return what if what in _FROM or what in _UNTIL else None


def _behind(block: Block, held: Iterable[Operation]) -> list[Operation]:
    """The operations of a loop by which it is known where these ones make no difference."""
    needed, wanted = [], {v for o in held for v in o.operands}
    for operation in reversed(block.operations):
        if any(r in wanted for r in operation.results):
            needed.append(operation)
            wanted.update(operation.operands)
    return needed[::-1]


def is_known_before(block: Block, held: Iterable[Operation]) -> bool:
    """True if the value can be computed before the loop, also before one that does not run."""
    return all(o.name in _ALWAYS for o in _behind(block, held))


def away_from_edges(
    body: BodyWriter, block: Block, held: Mapping[Operation, Value], counter: Value, lanes: int
) -> list[str]:
    """The first iteration in which no counter is held back, and all comparisons hold: "sge i64 .., x" and so on.

    It is written before the loop.
    """
    names = body.names
    names[counter] = "0"
    bounds: dict[str, str] = {}
    for o in _behind(block, held):
        names[o.result] = names[held[o]] if o in held else SCALAR[o.name](body, o, [names[v] for v in o.operands])
    for o, x in held.items():
        at = o.operands.index(x)
        what = _edge_of(o, at)
        assert what is not None
        room = body.value(f"sub i64 {names[o.operands[1 - at]]}, {names[x]}")
        side, beyond = ("max", _FROM[what]) if what in _FROM else ("min", _UNTIL[what] + 1 - lanes)
        room = body.value(f"add i64 {room}, {beyond}") if beyond else room
        if side in bounds:
            callee = body.declare(f"llvm.s{side}.i64", "i64", ("i64", "i64"))
            room = body.value(f"call i64 {callee}(i64 {bounds[side]}, i64 {room})")
        bounds[side] = room
    return [f"icmp s{'ge' if side == 'max' else 'le'} i64 {{}}, {bound}" for side, bound in bounds.items()]
