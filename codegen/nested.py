"""Control flow: operations that run graphs of their own.

    Recurrence    a number of steps
    Repetition    steps while a condition holds, and then back over their states, if it has a way back
    NestedBranch  one of two graphs

Each says which graphs enter it, and what the results are; recorded, it holds bodies (`ir.Region`) in place of graphs.
Inputs are `own` ones, each for one purpose, then what all graphs read.  An operation has one result, so it gives all of
one dtype in one vector, one after the other: `starts` says where each begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .ir import Aval, Graph, Region
from .records import NamedTuple


class Recurrence(NamedTuple):
    """`length` steps `*states, *y[t] = body(*states, *x[t], *hidden)`, from the last t to the first if `is_reversed`.

    body      its inputs are `carried` states, an element of each of `scanned` arrays, and what every step reads
    """

    body: Any
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


class NestedBranch(NamedTuple):
    """`yes(*hidden)` or `no(*hidden)`.   Inputs are the bool to choose by, then what either reads."""

    yes: Any
    no: Any

    @property
    def results(self) -> list[Aval]:
        """Of either graph."""
        return _outputs(self.yes)

    @property
    def own(self) -> int:
        return 1


class Repetition(NamedTuple):
    """`while condition(*states, *hidden): states = step(*states, *hidden)`.   Inputs are the first states, hidden.

    back    then `*values = back(*values, *states, *hidden)` for the states before each step, the last first.  The
            results are these values; the inputs begin with the first ones
    """

    condition: Any
    step: Any
    back: Any = None

    @property
    def carried(self) -> int:
        return len(_outputs(self.step))

    @property
    def results(self) -> list[Aval]:
        """The last states, or values."""
        return _outputs(self.step if self.back is None else self.back)

    @property
    def own(self) -> int:
        return self.carried + (0 if self.back is None else len(self.results))


Nested = Recurrence | NestedBranch | Repetition


def graphs(nested: Nested) -> dict[str, Graph]:
    """Its graphs, by what they are to it."""
    return {name: x for name, x in nested._asdict().items() if isinstance(x, Graph)}


def of_graphs(nested: Any) -> Any:
    """An operation that was recorded with bodies, with their graphs."""
    return type(nested)(*[x.graph if isinstance(x, Region) else x for x in nested])


def starts(results: Sequence[Aval]) -> list[int]:
    """The place of each result of an operation in the vector of all results of its dtype."""
    taken: dict[Any, int] = {}
    found = []
    for aval in results:
        start = taken.get(aval.dtype, 0)
        found.append(start)
        taken[aval.dtype] = start + aval.size
    return found


def _outputs(body: Any) -> list[Aval]:
    graph = body.graph if isinstance(body, Region) else body
    return [o.aval for o in graph.outputs]
