"""Loads of every second element, or third, or fourth: out of whole vectors, which takes a third of what a gather does.

    a[3i + 1]                                       three vectors from 3i + 1 on, of the last only what there must be
    a[3i], a[3i + 1], a[3i + 2] in one iteration    three vectors from 3i on, for all three
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..kernel.nest import Block, Operation, ScalarType, Value
from ..records import record
from .operations import Writer
from .pairs import form_of
from .types import ALIGNMENT, LLVM_TYPES, first_lanes

__all__ = ["STEPS", "Member", "load_every", "load_rows", "members", "taken"]

#: By so many elements from lane to lane, vectors are taken out of whole ones.
STEPS = (2, 3, 4)


@record(frozen=True)
class Member:
    """A load among as many as elements are from lane to lane, which together read all of them.

    first    the one that reads first in the program
    column   which of the elements this one reads
    """

    first: Operation
    column: int


def members(block: Block, strides: Mapping[Operation, object]) -> dict[Operation, Member]:
    """The loads of a loop that read all elements together."""
    stored = {o.operands[1] for o in block.operations if o.name == "memref.store"}
    groups: dict[tuple[Value, frozenset], dict[int, Operation]] = {}
    for operation in block.operations:
        if strides.get(operation) in STEPS and operation.name == "memref.load" and len(operation.operands) == 2:
            memory, index = operation.operands
            form = form_of(index)
            groups.setdefault((memory, form.terms), {})[form.constant] = operation
    found: dict[Operation, Member] = {}
    for (memory, _), loads in groups.items():
        lowest, count = min(loads), len(loads)
        is_all = max(loads) - lowest == count - 1 and all(strides[o] == count for o in loads.values())
        if is_all and memory not in stored:
            first = next(iter(loads.values()))
            found |= {load: Member(first, place - lowest) for place, load in loads.items()}
    return found


def load_rows(w: Writer, element: ScalarType, address: str, count: int) -> list[str]:
    """Load so many whole vectors, one behind the other."""
    type, alignment = w.spelled(element), ALIGNMENT[element]
    found = []
    for part in range(count):
        at = _behind(w, element, address, part * w.lanes)
        found.append(w.value(f"load {type}, ptr {at}, align {alignment}"))
    return found


def load_every(w: Writer, element: ScalarType, address: str, stride: int) -> str:
    """Every `stride`th element from an address on."""
    parts = load_rows(w, element, address, stride - 1)
    # Of the last vector nothing behind the last element: there may be none.
    at = _behind(w, element, address, (stride - 1) * w.lanes)
    parts.append(_load_first(w, element, at, w.lanes - stride + 1))
    return taken(w, element, parts, 0)


def taken(w: Writer, element: ScalarType, parts: Sequence[str], column: int) -> str:
    """The elements of adjacent vectors whose place is `column` more than a multiple of how many these are."""
    type, lanes, stride = w.spelled(element), w.lanes, len(parts)
    found, places = parts[0], [j * stride + column for j in range(lanes)]
    for part in range(1, stride):
        begin = part * lanes
        # A lane that is not in this part stays what it was, which before the first part is the element itself.
        order = [
            lanes + place - begin if begin <= place < begin + lanes else j if part > 1 else min(place, lanes - 1)
            for j, place in enumerate(places)
        ]
        listed = ", ".join(f"i32 {place}" for place in order)
        found = w.value(f"shufflevector {type} {found}, {type} {parts[part]}, <{lanes} x i32> <{listed}>")
    return found


def _behind(w: Writer, element: ScalarType, address: str, places: int) -> str:
    return w.value(f"getelementptr {LLVM_TYPES[element]}, ptr {address}, i64 {places}") if places else address


def _load_first(w: Writer, element: ScalarType, address: str, count: int) -> str:
    """The first elements of a vector."""
    type = w.spelled(element)
    if count == w.lanes:
        return w.value(f"load {type}, ptr {address}, align {ALIGNMENT[element]}")
    bits = f"<{w.lanes} x i1>"
    callee = w.declare(f"llvm.masked.load.{w.suffix(element)}.p0", type, ("ptr", "i32", bits, type))
    mask = first_lanes(count, w.lanes)
    return w.value(
        f"call {type} {callee}(ptr {address}, i32 {ALIGNMENT[element]}, {bits} {mask}, {type} zeroinitializer)"
    )
