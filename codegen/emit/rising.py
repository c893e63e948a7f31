"""Slices at places that only the run knows: they read elements side by side, held back at an edge.

    index     0  0  0  0  1  2  3  4  5  6  7  7  7  7  7  7        lanes: four
    loads     one ------  gather ---  row ------  one ------        4 8 8 8 would be a gather, too

From lane to lane such an index rises by one or stays.  So where the last lane is as far beyond the first as there are
lanes between them it has risen all the way, and where it is not beyond it at all it has stayed.  A gather takes six
times as long as a row of doubles (Zen 4).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..kernel.nest import INDEX, Block, Operation, ScalarType, Value
from .operations import SCALAR
from .types import ALIGNMENT, LLVM_TYPES

if TYPE_CHECKING:
    from .body import BodyWriter

#: Operations that hold a counter back or compare it, and make no difference from some place on, or until one: by how
#: much the counter may be beyond the place.
_FROM = {"arith.maxsi": 0, "sge": 0, "sgt": 1}
_UNTIL = {"arith.minsi": 0, "sle": 0, "slt": -1}
#: Operations that never fail, wherever they are computed.
_ALWAYS = ("arith.addi", "arith.constant", "arith.index_cast", "arith.maxsi", "arith.minsi", "arith.muli", "arith.subi")
_TURNED = {"sge": "sle", "sgt": "slt", "sle": "sge", "slt": "sgt"}


def is_rising(operation: Operation, strides: Mapping[Value, Any], known: Container[Value]) -> bool:
    """True if the result is an index that rises by one from lane to lane, or stays.

    strides    of values that differ between lanes, the integer 1 for counters;   known: those found before
    """
    if operation.name not in ("arith.maxsi", "arith.minsi", "arith.addi", "arith.subi"):
        return False
    if operation.result.type is not INDEX:
        return False
    differ = [v in strides for v in operation.operands]
    rise = [v in known or strides.get(v) == 1 for v in operation.operands]
    if operation.name in ("arith.maxsi", "arith.minsi"):
        return differ == rise
    return differ == rise == [True, False] or (operation.name == "arith.addi" and differ == rise == [False, True])


def held_back(operation: Operation, strides: Mapping[Value, Any]) -> Value | None:
    """The counter that is held back, or compared with a place; None where it is no such operation."""
    if _edge_of(operation, 0) is None:
        return None
    found = [strides.get(v, 0) for v in operation.operands]
    return operation.operands[found.index(1)] if {*found} == {0, 1} else None


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


def load_rising(
    body: BodyWriter, memory: str, element: ScalarType, type: str, lanes: int, places: str, gather: Callable[[], str]
) -> str:
    """The elements at these places.

    type    of a vector of elements, as LLVM spells it;   gather: writes a gather of them
    """
    number, one = body.next_number(), LLVM_TYPES[element]
    indices = f"<{lanes} x i64> {places}"
    first = body.value(f"extractelement {indices}, i64 0")
    last = body.value(f"extractelement {indices}, i64 {lanes - 1}")
    apart = body.value(f"sub i64 {last}, {first}")
    address = body.value(f"getelementptr {one}, ptr {memory}, i64 {first}")
    ways = f"[ i64 {lanes - 1}, label %row.{number}  i64 0, label %one.{number} ]"
    body.lines.append(f"  switch i64 {apart}, label %far.{number} {ways}")
    found = []

    def ends_with(vector: str) -> None:
        found.append(f"[ {vector}, %{body.label} ]")
        body.lines.append(f"  br label %join.{number}")

    body.start(f"row.{number}")
    ends_with(body.value(f"load {type}, ptr {address}, align {ALIGNMENT[element]}"))
    body.start(f"one.{number}")
    value = body.value(f"load {one}, ptr {address}, align {ALIGNMENT[element]}")
    value = body.value(f"insertelement {type} poison, {one} {value}, i64 0")
    ends_with(body.value(f"shufflevector {type} {value}, {type} poison, <{lanes} x i32> zeroinitializer"))
    body.start(f"far.{number}")
    ends_with(gather())
    body.start(f"join.{number}")
    return body.value(f"phi {type} {', '.join(found)}")
