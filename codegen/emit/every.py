"""Loads of every second element, or third, or fourth: out of whole vectors, which takes a third of what a gather does.

    a[3i + 1]        three vectors from 3i + 1 on, of the last only what there must be
"""

from __future__ import annotations

from collections.abc import Sequence

from ..kernel.nest import ScalarType
from .operations import Writer
from .types import ALIGNMENT, LLVM_TYPES, first_lanes

__all__ = ["STEPS", "load_every"]

#: By so many elements from lane to lane, vectors are taken out of whole ones.
STEPS = (2, 3, 4)


def load_every(w: Writer, element: ScalarType, address: str, stride: int) -> str:
    """Every `stride`th element from an address on."""
    type, alignment = w.spelled(element), ALIGNMENT[element]
    parts = [
        w.value(f"load {type}, ptr {_behind(w, element, address, part * w.lanes)}, align {alignment}")
        for part in range(stride - 1)
    ]
    # Of the last vector nothing behind the last element: there may be none.
    at = _behind(w, element, address, (stride - 1) * w.lanes)
    parts.append(_load_first(w, element, at, w.lanes - stride + 1))
    return _taken(w, element, parts)


def _taken(w: Writer, element: ScalarType, parts: Sequence[str]) -> str:
    """The elements of adjacent vectors whose places are multiples of the number of these."""
    type, lanes, stride = w.spelled(element), w.lanes, len(parts)
    found, places = parts[0], [j * stride for j in range(lanes)]
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
