"""Partial results of a loop, one per lane, and how two of them become one.

    sum        total = total + x                                  any operation whose order is free
    argmax     takes = x > top or (isnan(x) and not isnan(top))
               top, place = select(takes, (x, j), (top, place))   an extreme and where it is

Lanes see every eighth element, say, each in order.  So for an extreme met in two lanes the smaller
place stays, as it would have if the loop had run one by one.
"""

from __future__ import annotations

from ..kernel.nest import I1, I64, Operation, ScalarType, Value
from ..records import record
from .operations import SCALAR, Writer
from .types import LLVM_TYPES

__all__ = ["Reduction", "combined", "halved", "is_free"]

#: What changes nothing, by the operation.  For sums that is -0.0, since -0.0 + 0.0 is 0.0.
_IDENTITIES = {
    "arith.addf": -0.0, "arith.mulf": 1.0, "arith.maximumf": float("-inf"), "arith.minimumf": float("inf"),
    "arith.addi": 0, "arith.muli": 1, "arith.andi": -1, "arith.ori": 0, "arith.xori": 0,
}  # fmt: skip
_INTEGER_EXTREMES = ("arith.maxsi", "arith.minsi")


def is_free(operation: Operation) -> bool:
    """Whether it combines partial results whose order does not matter, or is promised not to."""
    name = operation.name
    if name in ("arith.addf", "arith.mulf"):
        return "reassoc" in operation.attributes.get("fastmath", ())
    return name in _IDENTITIES or name in _INTEGER_EXTREMES


@record(eq=False, slots=True)
class Reduction:
    """One value that a loop carries, or an accumulator in memory.

    carried     the number of the loop-carried value, or -1 for an accumulator in memory:
    load, store     its load and store, at a place that is the same in all iterations
    start       the value an iteration begins with
    combine     an operation of the chain from there to what it ends with
    better      for an extreme whose place is also carried: the predicate "ogt", "slt", ... of the
                comparison; the place is the reduction behind it
    is_place    of that extreme
    """

    carried: int
    start: Value
    combine: Operation | None = None
    load: Operation | None = None
    store: Operation | None = None
    better: str = ""
    is_place: bool = False

    @property
    def type(self) -> ScalarType:
        type = self.start.type
        assert isinstance(type, ScalarType)
        return type

    @property
    def identity(self) -> int | float:
        """What a lane starts with."""
        if self.is_place:
            return 0
        name = self.combine.name if self.combine else ""
        if name in _IDENTITIES:
            return _IDENTITIES[name]
        seeks_greatest = "gt" in self.better or name == "arith.maxsi"
        if self.type.is_float:
            return float("-inf") if seeks_greatest else float("inf")
        if self.type is I1:
            return 0 if seeks_greatest else 1
        return -(1 << self.type.bits - 1) if seeks_greatest else (1 << self.type.bits - 1) - 1


def combined(w: Writer, reductions: list[Reduction], ones: list[str], others: list[str]) -> list[str]:
    """Partial results of two parts of the elements as one."""
    found: list[str] = []
    for j, reduction in enumerate(reductions):
        if reduction.better:
            found += _extreme(w, reduction, ones[j : j + 2], others[j : j + 2])
        elif not reduction.is_place:
            assert reduction.combine is not None
            found.append(SCALAR[reduction.combine.name](w, reduction.combine, [ones[j], others[j]]))
    return found


def _extreme(w: Writer, reduction: Reduction, one: list[str], other: list[str]) -> list[str]:
    """The better of two extremes, or the one at the smaller place; nan is better than all numbers."""
    (a, a_place), (b, b_place) = one, other
    type, bit, place = w.spelled(reduction.type), w.spelled(I1), w.spelled(I64)
    if reduction.type.is_float:
        a_nan, b_nan = w.value(f"fcmp uno {type} {a}, {a}"), w.value(f"fcmp uno {type} {b}, {b}")
        both = w.value(f"and {bit} {a_nan}, {b_nan}")
        # Unordered or better: true for any nan, so that of a nan before it is taken back below.
        better = w.value(f"fcmp {'u' + reduction.better[1:]} {type} {b}, {a}")
        better = w.value(f"and {bit} {better}, {w.value(f'xor {bit} {a_nan}, {w.literal(True, I1)}')}")
        same = w.value(f"or {bit} {both}, {w.value(f'fcmp oeq {type} {a}, {b}')}")
    else:
        better = w.value(f"icmp {reduction.better} {type} {b}, {a}")
        same = w.value(f"icmp eq {type} {a}, {b}")
    earlier = w.value(f"icmp slt {place} {b_place}, {a_place}")
    takes = w.value(f"or {bit} {better}, {w.value(f'and {bit} {same}, {earlier}')}")
    return [
        w.value(f"select {bit} {takes}, {type} {b}, {type} {a}"),
        w.value(f"select {bit} {takes}, {place} {b_place}, {place} {a_place}"),
    ]


def halved(w: Writer, reductions: list[Reduction], partial: list[str], lanes: int) -> list[str]:
    """Vectors of twice as many lanes as one of `lanes`: their lower and upper halves combined."""
    halves: list[list[str]] = []
    for first in (0, lanes):
        order = ", ".join(f"i32 {first + j}" for j in range(lanes))
        half = []
        for reduction, name in zip(reductions, partial, strict=True):
            whole = f"<{2 * lanes} x {LLVM_TYPES[reduction.type]}>"
            if lanes == 1:
                half.append(w.value(f"extractelement {whole} {name}, i64 {first}"))
            else:
                half.append(w.value(f"shufflevector {whole} {name}, {whole} poison, <{lanes} x i32> <{order}>"))
        halves.append(half)
    w.lanes = lanes
    return combined(w, reductions, *halves)
