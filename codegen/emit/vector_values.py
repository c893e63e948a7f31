"""The values of a loop whose iterations run side by side: the lanes of vectors, or one number for all of them.

Quotients and remainders of vectors of integers are computed in doubles:

    a, b within 2^51:    da = double(a + bits(1.5 2^52)) - 1.5 2^52,  db alike; 32-bit numbers by an instruction
                         a // b = floor(da / db),    a rem b = da - trunc(da / db) db
    larger ones          one by one, behind a branch; positions in arrays are always within 2^51

No vector unit divides integers.  If a / b is not an integer, it is at least 1 / |b| from one, and the double quotient
is nearer to a / b than a quarter of that.  The terms of a remainder are below 2^52, so exact.  1e5 quotients by a
number, AVX2: 217 us one by one, 49 in doubles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.nest import F64, I32, I64, INDEX, Operation, ScalarType, Value, known_integer
from .loop_plan import LoopPlan
from .operations import SCALAR, Writer
from .strides import VARYING, RunStride
from .types import LLVM_TYPES, steps

if TYPE_CHECKING:
    from .body import BodyWriter
    from .vector_loop import VectorLoop


class VectorValues(Writer):
    """A writer of vectors: the vector of a value is made when it is first needed.

    vectors   the name of each value that is a vector
    inside    the values that the loop computes itself
    hoisted   lines to be written before the loop
    """

    body: BodyWriter
    plan: LoopPlan
    vectors: dict[Value, str]
    inside: set[Value]
    hoisted: list[str]

    def is_varying(self, value: Value) -> bool:
        """True if a value is a vector, and not one number for all lanes."""
        return self.plan.strides.get(value, 0) is VARYING or value in self.plan.partial

    def vector(self, value: Value) -> str:
        """The name of a value as a vector."""
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
        """A vector of the difference between each lane and the first one."""
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
        """Write an instruction before the loop; return the name of its result."""
        name = f"%t.{self.body.next_number()}"
        self.hoisted.append(f"  {name} = {instruction}")
        return name

    def value(self, instruction: str) -> str:
        return self.body.value(instruction)

    def line(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self.body.lines.append(f"  {instruction}")

    def declare(self, name: str, result: str, arguments: tuple[str, ...]) -> str:
        return self.body.declare(name, result, arguments)

    def elementary(self, name: str, type: ScalarType) -> str:
        return self.body.needs.function(name, type, self.lanes, is_called=self.plan.has_calls)


# ---------------------------------------------------------------- quotients of integers


_NAMES = ("arith.divsi", "arith.remsi", "arith.floordivsi")
_BOUND = 1 << 51
_MAGIC = 1.5 * 2.0**52
_MAGIC_BITS = 0x4338_0000_0000_0000


def is_by_doubles(operation: Operation, lanes: int) -> bool:
    """True if the operation divides a vector of integers, but not by a power of two, which is a shift."""
    if operation.name not in _NAMES or lanes == 1 or operation.result.type not in (I32, I64, INDEX):
        return False
    divisor = known_integer(operation.operands[1])
    return divisor is None or divisor <= 0 or divisor & (divisor - 1) != 0


def quotient(w: VectorLoop, operation: Operation, operands: list[str]) -> str:
    """Write a quotient or remainder of vectors of integers; return its name."""
    if operation.result.type is not I64:
        return _by_doubles(w, operation, operands)
    type = w.spelled(I64)
    a, b = [w.value(f"add {type} {x}, {w.literal(_BOUND, I64)}") for x in operands]
    beyond = w.value(f"lshr {type} {w.value(f'or {type} {a}, {b}')}, {w.literal(52, I64)}")
    any_bits = w.value(w.call(f"llvm.vector.reduce.or.{w.suffix(I64)}", "i64", (type, beyond)))
    test = w.value(f"icmp eq i64 {any_bits}, 0")
    (found,) = w.either_way(
        "small", test, lambda: [_by_doubles(w, operation, operands)],
        lambda: [SCALAR[operation.name](w, operation, operands)], [type],
    )  # fmt: skip
    return found


def _by_doubles(w: VectorLoop, operation: Operation, operands: list[str]) -> str:
    is_narrow, name = operation.result.type is I32, operation.name
    integer, double = w.spelled(I32 if is_narrow else I64), w.spelled(F64)
    bits, magic = w.literal(_MAGIC_BITS, I64), w.literal(_MAGIC, F64)
    if is_narrow:
        a, b = [w.value(f"sitofp {integer} {x} to {double}") for x in operands]
    else:
        a, b = [
            w.value(f"fsub {double} {w.value(f'bitcast {integer} {moved} to {double}')}, {magic}")
            for moved in [w.value(f"add {integer} {x}, {bits}") for x in operands]
        ]
    rounding = "floor" if name == "arith.floordivsi" else "trunc"
    ratio = w.value(f"fdiv {double} {a}, {b}")
    found = w.value(w.call(f"llvm.{rounding}.{w.suffix(F64)}", double, (double, ratio)))
    if name == "arith.remsi":
        found = w.value(f"fsub {double} {a}, {w.value(f'fmul {double} {found}, {b}')}")
    if is_narrow:
        return w.value(f"fptosi {double} {found} to {integer}")
    moved = w.value(f"fadd {double} {found}, {magic}")
    return w.value(f"sub {integer} {w.value(f'bitcast {double} {moved} to {integer}')}, {bits}")
