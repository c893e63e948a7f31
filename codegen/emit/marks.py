"""Places of extremes, carried by a loop as numbers of its iterations.

    argmax of f32, 64 lanes    loop:  mark = select(takes, splat of i / 64 as i32, mark)        begins as -1
                               after: place = select(mark < 0, place before, first + 64 mark + lane)

A mark is as wide as the elements, so that one instruction writes as many of them as are compared, where places of 64
bits take two of floats; and it is one number for all lanes, which nothing is added to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.nest import I1, Operation, Value
from ..records import record
from .reductions import Reduction
from .types import steps

if TYPE_CHECKING:
    from .vector_loop import VectorLoop

__all__ = ["Mark", "begun", "mark_of", "marked", "marks_of", "placed"]


@record(frozen=True)
class Mark:
    """type    of a mark: i32 or i64
    select     what carries it on
    place      what an iteration of the first lane would carry on as the place, and how far apart those of lanes are
    stride
    """

    type: str
    select: Operation
    place: Value
    stride: int


def marks_of(loop: VectorLoop) -> dict[Reduction, Mark]:
    """The places that a loop can carry so: those that are as far apart as elements."""
    plan, found = loop.plan, {}
    ends = loop.block.operations[-1].operands
    for j, reduction in enumerate(plan.reductions):
        if reduction.is_place and plan.near is None:
            select = ends[reduction.carried].owner
            assert isinstance(select, Operation), "of an extreme both ends are selects"
            place = select.operands[1]
            stride = plan.strides.get(place, 0)
            if isinstance(stride, int) and stride:
                is_wide = plan.reductions[j - 1].type.bits > 32
                found[reduction] = Mark("i64" if is_wide else "i32", select, place, stride)
    return found


def mark_of(loop: VectorLoop, operation: Operation) -> Mark | None:
    """The mark that an operation carries on in the present loop."""
    return next((mark for mark in loop.marks.values() if mark.select is operation), None)


def marked(loop: VectorLoop, operation: Operation, mark: Mark) -> str:
    """The marks after it."""
    takes, so_far = loop.vector(operation.operands[0]), loop.vector(operation.operands[2])
    type = f"<{loop.lanes} x {mark.type}>"
    return loop.value(f"select {loop.spelled(I1)} {takes}, {type} {loop.present[mark.type]}, {type} {so_far}")


def begun(loop: VectorLoop, counter: str, start: str) -> dict[str, str]:
    """The number of the present iteration in all lanes, by the type of marks."""
    body, found = loop.body, {}
    far = counter if start == "0" else body.value(f"sub i64 {counter}, {start}")
    number = body.value(f"lshr i64 {far}, {loop.lanes.bit_length() - 1}")
    for type in sorted({mark.type for mark in loop.marks.values()}):
        one = number if type == "i64" else body.value(f"trunc i64 {number} to i32")
        found[type] = loop.spread(type, one, body.value)
    return found


def placed(loop: VectorLoop, mark: Mark, marks: str, before: str, counter: str, start: str) -> str:
    """The places that marks stand for, after the last iteration."""
    body, lanes, value = loop.body, loop.lanes, loop.body.value
    first = body.names[mark.place]
    if first == counter:
        first = start
    else:
        gone = value(f"sub i64 {counter}, {start}")
        gone = value(f"mul i64 {gone}, {mark.stride}")
        first = value(f"sub i64 {first}, {gone}")
    numbers, places = f"<{lanes} x {mark.type}>", f"<{lanes} x i64>"
    far = marks if mark.type == "i64" else value(f"sext {numbers} {marks} to {places}")
    far = value(f"mul {places} {far}, {loop.spread('i64', str(mark.stride * lanes), value)}")
    lane = value(f"add {places} {loop.spread('i64', first, value)}, {steps('i64', lanes, mark.stride)}")
    place = value(f"add {places} {lane}, {far}")
    is_none = value(f"icmp slt {numbers} {marks}, zeroinitializer")
    return value(f"select <{lanes} x i1> {is_none}, {places} {before}, {places} {place}")
