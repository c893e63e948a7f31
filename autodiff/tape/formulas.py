"""Formulas: what a plan reads of numbers, computed again from those that are there now.

A rule that was run with watched numbers leaves steps behind (`watched`): it is Python's own arithmetic, done again as
the rule did it, with Python's own exceptions; so what the rule computed and did not use is computed as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .node import Node
from .watched import Watch

__all__ = ["Formulas", "Misfit"]


class Misfit(Exception):
    """A number that a rule computed before cannot be computed from the present ones: the rule itself has to run."""


class Formulas:
    """The reads of a plan among the numbers of its calls.

    calls     canonical numbers of the calls' nodes
    places    which inputs of the plan are meant
    """

    __slots__ = ("_work", "calls", "places")

    def __init__(self, gathered: Sequence[Any], watches: Mapping[int, Watch]) -> None:
        """`gathered`: the plan's inputs, some of them leaves of `watches`, which are given by the calls' numbers."""
        inputs = {x: i for i, x in enumerate(gathered) if isinstance(x, Node)}
        self._work: list[tuple] = []
        calls, places = [], list[int]()
        for number, watch in watches.items():
            made = [k for k, step in enumerate(watch.steps) if step.function is not None]
            if made or watch.leaves:
                calls.append(number)
                leaves = [(step, convert, node in inputs) for node, (step, convert) in watch.leaves.items()]
                places += [inputs[node] for node in watch.leaves if node in inputs]
                self._work.append((_in_order(watch, [*made, *[step for step, _, _ in leaves]]), leaves))
        self.calls, self.places = tuple(calls), tuple(places)

    def values(self, *numbers: Sequence[Any]) -> tuple:
        """A value for each place, given the numbers of each call.  Raises Misfit."""
        found: list[Any] = []
        try:
            for given, (steps, leaves) in zip(numbers, self._work, strict=True):
                known: dict[int, Any] = {}
                for at, function, operands in steps:
                    if function is None:
                        known[at] = given[operands[0][1]]
                    else:
                        known[at] = function(*[x if step < 0 else known[step] for step, x in operands])
                for at, convert, is_read in leaves:
                    value = convert(known[at])
                    if is_read:
                        found.append(value)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Misfit from error
        return tuple(found)

    def __bool__(self) -> bool:
        return bool(self.calls)


def _in_order(watch: Watch, wanted: Sequence[int]) -> list[tuple]:
    """The steps that lead to `wanted`, in order."""
    needed: set[int] = set()
    waiting = list(wanted)
    while waiting:
        at = waiting.pop()
        if at not in needed:
            needed.add(at)
            waiting += [step for step, _ in watch.steps[at].operands if step >= 0]
    return [(at, watch.steps[at].function, watch.steps[at].operands) for at in sorted(needed)]
