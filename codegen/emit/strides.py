"""Strides: the difference of a value between neighbouring lanes of a vector.

    a number      the same for all neighbours: 1 for a counter, 0 for a uniform value
    RunStride         a multiple of a number that is known only at run time
    VARYING       there is no pattern

Places are taken apart into sums of products: 2 i + 1 is 2 i and one more, a place that no other iteration uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from ..kernel.nest import Operation, Value, known_integer
from ..records import record

#: Elements up to this distance apart are on few lines of the cache.
NEAR = 4

#: Not a stride: the lanes have no pattern.
VARYING = None


@record(frozen=True)
class RunStride:
    """A stride that is known only at run time: `factor` times `step`, which is the same for all iterations."""

    step: Value
    factor: int


Stride = int | RunStride | None


def summed(a: Stride, b: Stride) -> Stride:
    """The stride of a sum."""
    if a == 0 or b == 0:
        return b if a == 0 else a
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, RunStride) and isinstance(b, RunStride) and a.step is b.step:
        return multiple(RunStride(a.step, 1), a.factor + b.factor)
    return VARYING


def multiple(stride: Stride, factor: int) -> Stride:
    """The stride of a product."""
    if isinstance(stride, RunStride):
        return RunStride(stride.step, stride.factor * factor) if factor else 0
    return None if stride is None else stride * factor


# ---------------------------------------------------------------- places as sums of products


@record(frozen=True)
class LinearForm:
    """constant + Σ factor·value."""

    terms: frozenset[tuple[Value, int]]
    constant: int

    def factor(self, value: Value) -> int:
        """The factor that a value is multiplied by."""
        return dict(self.terms).get(value, 0)


def form_of(index: Value) -> LinearForm:
    """An index as a sum of products."""
    terms: dict[Value, int] = {}
    constant = 0
    waiting = [(index, 1)]
    while waiting:
        value, factor = waiting.pop()
        owner = value.owner
        if (number := known_integer(value)) is not None:
            constant += factor * number
        elif isinstance(owner, Operation) and owner.name == "arith.addi":
            waiting += [(v, factor) for v in owner.operands]
        elif (
            isinstance(owner, Operation)
            and owner.name == "arith.muli"
            and (by := known_integer(owner.operands[1])) is not None
        ):
            waiting.append((owner.operands[0], factor * by))
        else:
            terms[value] = terms.get(value, 0) + factor
    return LinearForm(frozenset((v, f) for v, f in terms.items() if f), constant)


def never_meet(indices: Iterable[Value], counter: Value, inside: set[Value]) -> bool:
    """True if two iterations of a loop never use the same place at these indices, such as 2 i and 2 i + 1.

    inside    all values that may differ between iterations
    """
    forms = [form_of(index) for index in indices]
    step = abs(forms[0].factor(counter))
    if not step or any(form.terms != forms[0].terms for form in forms):
        return False
    if any(value in inside for value, _ in forms[0].terms if value is not counter):
        return False
    return all((a.constant - b.constant) % step for a, b in combinations(forms, 2))
