"""Control flow: descriptions of operations that run graphs.

    Recurrence    a given number of steps
    Repetition    steps while a condition holds, and optionally a second loop over their states in reverse order
    NestedBranch  one of two graphs

Each holds its graphs and gives the avals of its results; as recorded, it holds bodies (`ir.Region`) in place of graphs.
The first `own` inputs have one purpose each; the others, the hidden inputs, are read by all graphs.  An operation has
one result, a vector of all results of one dtype: `starts` gives the position of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .ir import Aval, Graph, Region
from .records import NamedTuple


class Recurrence(NamedTuple):
    """`length` steps `*states, *y[t] = body(*states, *x[t], *hidden)`, from the last t to the first if `is_reversed`.

    body      a graph of `carried` states, one element of each of `scanned` arrays, and the hidden inputs of all steps
    """

    body: Any
    carried: int
    scanned: int
    length: int
    is_reversed: bool

    @property
    def results(self) -> list[Aval]:
        """The avals of the last states, then of the other outputs of the steps, stacked."""
        outputs = _outputs(self.body)
        stacked = [a.with_shape((self.length, *a.shape)) for a in outputs[self.carried :]]
        return outputs[: self.carried] + stacked

    @property
    def own(self) -> int:
        return self.carried


class NestedBranch(NamedTuple):
    """`yes(*hidden)` or `no(*hidden)`.   The inputs are the bool that chooses, then the hidden inputs of both."""

    yes: Any
    no: Any

    @property
    def results(self) -> list[Aval]:
        """The avals of the results, which both graphs share."""
        return _outputs(self.yes)

    @property
    def own(self) -> int:
        return 1


class Repetition(NamedTuple):
    """`while condition(*states, *hidden): states = step(*states, *hidden)`.   Inputs: first states, hidden inputs.

    back    a graph, or None; `*values = back(*values, *states, *hidden)` then runs for the states before each step,
            the last first.  The results are the last values, and the first values come first among the inputs
    """

    condition: Any
    step: Any
    back: Any = None

    @property
    def carried(self) -> int:
        return len(_outputs(self.step))

    @property
    def results(self) -> list[Aval]:
        """The avals of the last states, or of the last values if there is a `back`."""
        return _outputs(self.step if self.back is None else self.back)

    @property
    def own(self) -> int:
        return self.carried + (0 if self.back is None else len(self.results))


Nested = Recurrence | NestedBranch | Repetition


def graphs(nested: Nested) -> dict[str, Graph]:
    """The graphs of a loop or branch, by field name."""
    return {name: x for name, x in nested._asdict().items() if isinstance(x, Graph)}


def of_graphs(nested: Any) -> Any:
    """The description with the graph of each body in place of the body."""
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
