"""Slices at places known only at run time: they read adjacent elements, with indices that are clamped at the edges.

    index     0  0  0  0  1  2  3  4  5  6  7  7  7  7  7  7        lanes: four
    loads     gather ---  gather ---  row ------  gather ---

An iteration is also written for places away from edges, where no counter is clamped and all comparisons hold: a
gather takes six times as long as a row of doubles (Zen 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..kernel.nest import INDEX, Block, Operation, Value, computing
from .operations import SCALAR

if TYPE_CHECKING:
    from .body import BodyWriter

#: Clamps and comparisons of a counter with a place, which have no effect from that place on, or until it: by how much
#: the first, or last, counter without an effect is beyond the place.
_FROM = {"arith.maxsi": 0, "sge": 0, "sgt": 1}
_UNTIL = {"arith.minsi": 0, "sle": 0, "slt": -1}
#: Operations that never fail, so that they may be computed before the loop.
_SAFE = ("arith.addi", "arith.constant", "arith.index_cast", "arith.maxsi", "arith.minsi", "arith.muli", "arith.subi")
_SWAPPED = {"sge": "sle", "sgt": "slt", "sle": "sge", "slt": "sgt"}


def clamped_counter(operation: Operation, strides: Mapping[Value, Any]) -> Value | None:
    """The counter that an operation clamps, or compares with a place; None for any other operation."""
    if _edge_of(operation, 0) is None:
        return None
    found = [strides.get(v, 0) for v in operation.operands]
    return operation.operands[found.index(1)] if {*found} == {0, 1} else None


def clamps_a_place(clamps: Iterable[Operation]) -> bool:
    """True if one of these operations clamps a place, and does not only compare it."""
    return any(o.name != "arith.cmpi" and o.result.type is INDEX for o in clamps)


def _edge_of(operation: Operation, at: int) -> str | None:
    """The name in `_FROM` or `_UNTIL` of an operation whose operand number `at` is the counter; None if in neither."""
    what = operation.attributes["predicate"] if operation.name == "arith.cmpi" else operation.name
    if at:
        what = _SWAPPED.get(what, what)
    return what if what in _FROM or what in _UNTIL else None


def _sources_of(block: Block, clamps: Iterable[Operation]) -> list[Operation]:
    """The operations of a loop that compute the operands of these clamps and comparisons, and with them the edges."""
    return computing({v for o in clamps for v in o.operands}, block.operations)


def are_hoistable(block: Block, clamps: Iterable[Operation]) -> bool:
    """True if the edges can be computed before the loop, even if the loop has no iteration."""
    return all(o.name in _SAFE for o in _sources_of(block, clamps))


def away_from_edges(body: BodyWriter, block: Block, clamps: Mapping[Operation, Value], lanes: int) -> list[str]:
    """Tests of the counter, "icmp sge i64 {}, x" and so on; they hold if none is clamped and all comparisons hold.

    Their bounds are computed before the loop.
    """
    names = body.names
    names[block.arguments[0]] = "0"
    bounds: dict[str, str] = {}
    for o in _sources_of(block, clamps):
        names[o.result] = names[clamps[o]] if o in clamps else SCALAR[o.name](body, o, [names[v] for v in o.operands])
    for o, x in clamps.items():
        at = o.operands.index(x)
        what = _edge_of(o, at)
        assert what is not None
        room = body.value(f"sub i64 {names[o.operands[1 - at]]}, {names[x]}")
        side, beyond = ("max", _FROM[what]) if what in _FROM else ("min", _UNTIL[what] + 1 - lanes)
        room = body.value(f"add i64 {room}, {beyond}") if beyond else room
        if side in bounds:
            room = body.value(body.call(f"llvm.s{side}.i64", "i64", ("i64", bounds[side]), ("i64", room)))
        bounds[side] = room
    return [f"icmp s{'ge' if side == 'max' else 'le'} i64 {{}}, {bound}" for side, bound in bounds.items()]
