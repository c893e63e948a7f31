"""A graph of unknown extents, which is evaluated, or written out, for any values of them.

    f(x: f64[n0,4]) { a = sum(x, axis=(0,))  b = broadcast_to(a, shape=(n0, 4)) }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .ir import Aval, Graph, Node, evaluate
from .symbols import Symbol, SymbolicFloat, as_float, formula
from .written import defined


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
        self.text = text_of(graph)
        env: dict[str, Any] = {"as_float": as_float, "__name__": __name__}
        numbers = _written(tuple([(n.params, n.aval.shape) for n in (*graph.inputs, *graph.nodes)]), env)
        self._numbers = defined("f", f"def f({', '.join(names)}): return {numbers}", env)

    def at(self, values: Sequence[int]) -> Graph:
        """The graph for these values."""
        made: dict[Node, Node] = {}
        graph = self.graph
        numbers = self._numbers(*values)
        for node, (params, shape) in zip([*graph.inputs, *graph.nodes], numbers, strict=True):
            aval = Aval(shape, node.aval.dtype)
            made[node] = Node(node.op, [made[i] for i in node.inputs], params, aval, node.origins)
        inputs, nodes, outputs = ([made[n] for n in ns] for ns in (graph.inputs, graph.nodes, graph.outputs))
        return Graph(inputs, nodes, outputs, graph.name)

    def evaluate(self, values: Sequence[int], arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """Evaluate the graph for these values."""
        graph = self.at(values)
        return evaluate(graph, *[np.asarray(a, i.aval.dtype) for a, i in zip(arrays, graph.inputs, strict=True)])


def _has_symbols(value: Any) -> bool:
    if type(value) is tuple:
        return any([_has_symbols(v) for v in value])
    return type(value) in (Symbol, SymbolicFloat)


def text_of(graph: Graph) -> tuple:
    """A text that is equal for graphs whose numbers follow from symbols by the same formulas."""
    place = {node: i for i, node in enumerate((*graph.inputs, *graph.nodes))}
    nodes = [
        (n.op.name, repr(n.params), repr(n.aval.shape), n.aval.dtype, *[place[i] for i in n.inputs]) for n in place
    ]
    return tuple(nodes), len(graph.inputs), tuple([place[o] for o in graph.outputs])


def _written(value: Any, env: dict[str, Any]) -> str:
    """A value as an expression in the names of its symbols, and of objects that are put into `env`."""
    if not _has_symbols(value):
        name = f"c{len(env)}"
        env[name] = value
        return name
    if type(value) is Symbol:
        return f"({formula(value)})"
    if type(value) is SymbolicFloat:
        return f"as_float({formula(value.count)})"
    return f"({', '.join([*[_written(v, env) for v in value], ''])})"
