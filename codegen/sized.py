"""A graph of unknown extents, which is evaluated, or written out, for any values of them.

    f(x: f64[n0,4]) { a = sum(x, axis=(0,))  b = broadcast_to(a, shape=(n0, 4)) }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .ir import Graph, evaluate
from .numbers import Apart, apart, with_numbers
from .symbols import evaluated, formula


class SizedGraph:
    """A graph in whose avals and parameters symbols stand.

    names   of its symbols, in the order in which their values are given
    text    equal for graphs whose numbers follow from the symbols by the same formulas
    """

    __slots__ = ("_numbers", "graph", "names", "operations", "text")

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        self.graph = graph
        self.names = tuple(names)
        self.operations = len(graph.nodes)
        found = apart(graph)
        self.text = text_of(found)
        self._numbers = evaluated(found.numbers, names)

    def at(self, values: Sequence[int]) -> Graph:
        """The graph for these values."""
        return with_numbers(self.graph, iter(self._numbers(*values)))

    def evaluate(self, values: Sequence[int], arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """Evaluate the graph for these values."""
        graph = self.at(values)
        return evaluate(graph, *[np.asarray(a, i.aval.dtype) for a, i in zip(arrays, graph.inputs, strict=True)])


def text_of(found: Apart) -> tuple:
    """A text that is equal for graphs whose numbers follow from symbols by the same formulas."""
    return found.digest, tuple(map(formula, found.numbers))
