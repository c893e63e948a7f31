"""Loads and stores that are each other's neighbours: of complex numbers both parts, which lie side by side.

    re = load x[2 i], im = load x[2 i + 1]        two whole vectors, then every second element of both
    store y[2 i], store y[2 i + 1]                two vectors of alternate elements

Places are told apart as sums of products, as they were built: 2 i + 1 is 2 i and one more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise

from ..kernel.nest import Block, Operation, Value, known_integer
from ..records import record

__all__ = ["Form", "Pair", "find_pairs", "form_of", "never_meet"]


@record(frozen=True)
class Form:
    """constant + Σ factor·value."""

    terms: frozenset[tuple[Value, int]]
    constant: int

    def factor(self, value: Value) -> int:
        """The factor that a value is multiplied by."""
        return dict(self.terms).get(value, 0)


@record(frozen=True)
class Pair:
    """Two accesses of neighbouring places, the lower one first."""

    low: Operation
    high: Operation


def form_of(index: Value) -> Form:
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
    return Form(frozenset((v, f) for v, f in terms.items() if f), constant)


def never_meet(indices: Iterable[Value], counter: Value, inside: set[Value]) -> bool:
    """True if no two iterations of a loop can use one place of these: 2 i and 2 i + 1, say.

    inside    all values that may differ between iterations
    """
    forms = [form_of(index) for index in indices]
    step = abs(forms[0].factor(counter))
    if not step or any(form.terms != forms[0].terms for form in forms):
        return False
    if any(value in inside for value, _ in forms[0].terms if value is not counter):
        return False
    return all((a.constant - b.constant) % step for a, b in combinations(forms, 2))


def find_pairs(block: Block, accesses: Sequence[Operation]) -> list[Pair]:
    """Neighbours among these loads, or among these stores, of one memory, that can be done together."""
    is_store = accesses[0].name == "memref.store"
    forms = [(form_of(a.operands[-1]), a) for a in accesses if len(a.operands) == 2 + is_store]
    by_terms: dict[frozenset[tuple[Value, int]], list[tuple[int, Operation]]] = {}
    for form, access in forms:
        by_terms.setdefault(form.terms, []).append((form.constant, access))
    found, taken = [], set()
    for group in by_terms.values():
        group.sort(key=lambda entry: entry[0])
        for (low, a), (high, b) in pairwise(group):
            if high == low + 1 and a not in taken and _are_together(block, a, b):
                found.append(Pair(a, b))
                taken.add(b)
    return found


def _are_together(block: Block, a: Operation, b: Operation) -> bool:
    """True if no operation between the two does the opposite to the same memory."""
    first, last = sorted([block.operations.index(a), block.operations.index(b)])
    memory, opposite = _memory(a), "memref.load" if a.name == "memref.store" else "memref.store"
    return not any(o.name == opposite and _memory(o) is memory for o in block.operations[first:last])


def _memory(access: Operation) -> Value:
    return access.operands[access.name == "memref.store"]
