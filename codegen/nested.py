"""Control flow as the compiler has it: operations that run graphs of their own.

    Recurrence    a number of steps                          Choice      one of two graphs
    Repetition    steps while a condition holds              Retreat     the same, and then back over its states

Each says which graphs there are, what enters them, and what the results are.  An operation has one result, so it
gives all of one dtype in one vector, one after the other: `starts` says where each begins.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from .ir import Aval, Graph
from .records import record

__all__ = ["Nested", "NestedBranch", "Recurrence", "Repetition", "Retreat"]


class Nested:
    """The common base of the four.   Inputs are `own` ones, each for one purpose, then what all graphs read."""

    @property
    @abstractmethod
    def results(self) -> list[Aval]:
        """The results of the operation."""

    @property
    @abstractmethod
    def own(self) -> int:
        """The number of inputs before those that all graphs read."""

    @property
    def graphs(self) -> dict[str, Graph]:
        """Its graphs, by what they are to it."""
        return {name: x for name, x in vars(self).items() if isinstance(x, Graph)}

    def starts(self) -> list[int]:
        """The place of each result in the vector of all results of its dtype."""
        taken: dict[Any, int] = {}
        found = []
        for aval in self.results:
            start = taken.get(aval.dtype, 0)
            found.append(start)
            taken[aval.dtype] = start + aval.size
        return found


def _outputs(graph: Graph) -> list[Aval]:
    return [o.aval for o in graph.outputs]


@record(frozen=True)
class Recurrence(Nested):
    """`length` steps `*states, *y[t] = body(*states, *x[t], *hidden)`, from the last t to the first if `is_reversed`.

    body      its inputs are `carried` states, an element of each of `scanned` arrays, and what every step reads
    """

    body: Graph
    carried: int
    scanned: int
    length: int
    is_reversed: bool

    @property
    def results(self) -> list[Aval]:
        """Last states; what steps gave, stacked."""
        outputs = _outputs(self.body)
        stacked = [a.with_shape((self.length, *a.shape)) for a in outputs[self.carried :]]
        return outputs[: self.carried] + stacked

    @property
    def own(self) -> int:
        return self.carried


@record(frozen=True)
class NestedBranch(Nested):
    """`yes(*hidden)` or `no(*hidden)`.   Inputs are the bool to choose by, then what either reads."""

    yes: Graph
    no: Graph

    @property
    def results(self) -> list[Aval]:
        """Of either graph."""
        return _outputs(self.yes)

    @property
    def own(self) -> int:
        return 1


@record(frozen=True)
class Repetition(Nested):
    """`while condition(*states, *hidden): states = step(*states, *hidden)`.   Inputs are the first states, hidden."""

    condition: Graph
    step: Graph

    @property
    def carried(self) -> int:
        return len(self.step.outputs)

    @property
    def results(self) -> list[Aval]:
        """The last states."""
        return _outputs(self.step)

    @property
    def own(self) -> int:
        return self.carried


@record(frozen=True)
class Retreat(Nested):
    """A repetition, and then `*values = back(*values, *states, *hidden)` for its states before each step, last first.

    Inputs are the first values, and those of the repetition.
    """

    condition: Graph
    step: Graph
    back: Graph

    @property
    def carried(self) -> int:
        return len(self.step.outputs)

    @property
    def results(self) -> list[Aval]:
        """The last values."""
        return _outputs(self.back)

    @property
    def own(self) -> int:
        return len(self.back.outputs) + self.carried
