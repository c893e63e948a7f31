"""The values of a loop whose iterations run side by side: the lanes of vectors, or one number for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.nest import Operation, ScalarType, Value
from .loop_plan import LoopPlan
from .operations import Writer
from .strides import VARYING, RunStride
from .types import LLVM_TYPES, steps

if TYPE_CHECKING:
    from .body import BodyWriter

__all__ = ["VectorValues"]


class VectorValues(Writer):
    """A writer of vectors: it knows each value by lanes, and makes those that it is asked for.

    vectors   the names of values by lanes
    inside    the values that the loop computes itself
    hoisted   lines to be written before the loop
    """

    body: BodyWriter
    plan: LoopPlan
    vectors: dict[Value, str]
    inside: set[Value]
    hoisted: list[str]

    def is_varying(self, value: Value) -> bool:
        """True if the lanes hold the value, and not one number for all of them."""
        return self.plan.strides.get(value, 0) is VARYING or value in self.plan.partial

    def vector(self, value: Value) -> str:
        """A value as a vector."""
        known = self.vectors.get(value)
        if known is None:
            known = self.vectors[value] = self._made_vector(value)
        return known

    def _made_vector(self, value: Value) -> str:
        type = value.type
        assert isinstance(type, ScalarType)
        owner = value.owner
        if isinstance(owner, Operation) and owner.name == "arith.constant":
            return self.literal(owner.attributes["value"], type)
        name = self.body.names[value]
        stride = self.plan.strides.get(value, 0)
        if stride:
            first = self.spread(LLVM_TYPES[type], name, self.body.value)
            return self.value(f"add {self.spelled(type)} {first}, {self.offsets(stride, LLVM_TYPES[type])}")
        return self.spread(LLVM_TYPES[type], name, self.body.value if value in self.inside else self.hoist)

    def offsets(self, stride: int | RunStride, type: str = "i64") -> str:
        """By how much each lane is beyond the first."""
        if isinstance(stride, int):
            return steps(type, self.lanes, stride)
        step = self.spread("i64", self.body.names[stride.step], self.body.value)
        far = self.value(f"mul <{self.lanes} x i64> {step}, {steps('i64', self.lanes, stride.factor)}")
        assert type == "i64", "positions are i64"
        return far

    def spread(self, type: str, name: str, write) -> str:
        vector = f"<{self.lanes} x {type}>"
        first = write(f"insertelement {vector} poison, {type} {name}, i64 0")
        return write(f"shufflevector {vector} {first}, {vector} poison, <{self.lanes} x i32> zeroinitializer")

    def hoist(self, instruction: str) -> str:
        """A line before the loop."""
        name = f"%t.{self.body.next_number()}"
        self.hoisted.append(f"  {name} = {instruction}")
        return name

    def value(self, instruction: str) -> str:
        return self.body.value(instruction)

    def line(self, instruction: str) -> None:
        """An instruction without a result."""
        self.body.lines.append(f"  {instruction}")

    def declare(self, name: str, result: str, arguments: tuple[str, ...]) -> str:
        return self.body.declare(name, result, arguments)

    def elementary(self, name: str, type: ScalarType) -> str:
        return self.body.needs.function(name, type, self.lanes, is_called=self.plan.is_large)
