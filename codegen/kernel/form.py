"""The form of functions: it tells them apart, whatever they and their values are called.

    form_of(k3_exp_sum_1) == form_of(k7_exp_sum_1)      equal forms, equal text: the second need not be written

A form is a nested tuple: values are numbers, by where they first stand.  Finding it takes a tenth of the time of
writing the text.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from .nest import Block, Extent, MemRef, NestFunction, Type, Value

__all__ = ["form_of"]


def form_of(function: NestFunction) -> Hashable:
    """The form of a function, for its text without names."""
    indices = function.indices
    if indices is None:
        indices = tuple([a for a in function.arguments if not isinstance(a.type, MemRef)])
    form = _KernelForm(indices)
    calls = tuple([(name, *map(form.type, types)) for name, types in function.calls.items()])
    body = form.block(function.body)
    multiples = tuple([(form.numbers[a], multiple) for a, multiple in function.multiples.items()])
    return body, function.writes, calls, multiples, function.refuses, function.is_fixed


class _KernelForm:
    def __init__(self, indices: tuple[Value, ...]) -> None:
        self.indices = indices
        self.numbers: dict[Value, int] = {}

    def block(self, block: Block) -> Hashable:
        """Arguments with their types, then operations."""
        numbers = self.numbers
        for argument in block.arguments:
            numbers[argument] = len(numbers)
        found: list[Any] = [self.type(a.type) for a in block.arguments]
        for o in block.operations:
            found.append(o.name)
            found += [numbers[v] for v in o.operands]
            if o.attributes:
                # As text: -0.0 is equal to 0.0, and True to 1.
                found += [(name, repr(value)) for name, value in o.attributes.items()]
            if o.regions:
                found += [self.block(region) for region in o.regions]
            for result in o.results:
                numbers[result] = len(numbers)
                found.append(self.type(result.type))
        return tuple(found)

    def type(self, type: Type) -> Hashable:
        """A type, with the numbers of the arguments that hold its extents; the first is for readers only."""
        if not isinstance(type, MemRef):
            return type.name
        first, *others = [self.extent(n) for n in type.shape] or [None]
        return type.element.name, "?" if isinstance(first, tuple) else first, *others

    def extent(self, n: int | Extent) -> Hashable:
        """A number, or which argument holds it."""
        return n if not isinstance(n, Extent) else (self.numbers.get(self.indices[n.position]),)
