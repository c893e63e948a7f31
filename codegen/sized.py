"""A graph of unknown extents, which is evaluated, or written out, for any values of them.

    f(x: f64[n0,4]) { a = sum(x, axis=(0,))  b = broadcast_to(a, shape=(n0, 4)) }

Evaluating one is straight code that was written once, with the extents as its arguments: another value of them costs
nothing but what NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .blas import one_thread
from .garbage import ignoring
from .ir import CONSTANT, Aval, Graph, Node
from .ir.evaluate import Evaluation, evaluate_node, last_readers, takes_any_layout, unshared
from .passes.redundant import cse, dce
from .passes.simplify import simplify
from .symbols import Symbol, SymbolicFloat, as_float, formula
from .written import defined

__all__ = ["SizedGraph"]


class SizedGraph:
    """A graph in whose avals and parameters symbols stand.

    names   of its symbols, in the order in which their values are given
    text    equal for graphs whose numbers follow from the symbols by the same formulas

    Made where conditions are `watched`: the passes that it goes through before it is evaluated compare, too.
    """

    __slots__ = ("_constants", "_numbers", "_run", "graph", "names", "operations", "text")

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        self.graph = graph
        self.names = tuple(names)
        self.operations = len(graph.nodes)
        writer = _FormulaWriter()
        every = [*graph.inputs, *graph.nodes]
        numbers = writer.expression(tuple([(n.params, n.aval.shape) for n in every]))
        self._numbers = writer.function(self.names, [f"return {numbers}"])
        fewer = _fewer(graph)
        self.text = _text_of(graph), _text_of(fewer)
        self._run, self._constants = _straight(fewer, self.names)

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
        """Evaluate as `ir.evaluate` the graph for these values."""
        try:
            with ignoring(all="ignore"), one_thread():
                found = self._run(*values, *arrays)
        except Exception:  # raised again with the place of the node in the graph
            graph = self.at(values)
            return Evaluation(graph)(*[np.asarray(a, i.aval.dtype) for a, i in zip(arrays, graph.inputs, strict=True)])
        taken = {*map(id, arrays), *self._constants}
        return tuple([unshared(array, taken) for array in found])


def _fewer(graph: Graph) -> Graph:
    """The graph in fewer operations."""
    return dce(cse(simplify(cse(graph))))


def _straight(graph: Graph, names: tuple[str, ...]) -> tuple[Callable[..., tuple], list[int]]:
    """A function of the values of symbols, then arrays, that evaluates a graph; and which arrays are its own."""
    writer = _FormulaWriter()
    place: dict[Node, str] = {}
    lines = []
    for i, node in enumerate(graph.inputs):
        place[node] = f"x{i}"
        if not node.aval.shape:  # a number is one of Python's
            lines.append(f"x{i} = asarray(x{i}, {writer.constant(node.aval.dtype)})")
    last = last_readers(graph)
    own = []
    for i, node in enumerate([n for n in graph.nodes if n in last]):
        name = place[node] = f"v{i}"
        if node.op is CONSTANT and not _has_symbols(node.params):
            value = evaluate_node(node, ())
            own.append(id(value))
            place[node] = writer.constant(value)
            continue
        operands = [place[i] if takes_any_layout(node) else f"asarray({place[i]}, order='C')" for i in node.inputs]
        words = [f"{word}={writer.expression(value)}" for word, value in node.keywords.items()]
        call = f"{writer.constant(node.op.reference)}({', '.join([*operands, *words])})"
        lines.append(f"{name} = asarray({call}, {writer.constant(node.aval.dtype)})")
        gone = dict.fromkeys([place[i] for i in node.inputs if last[i] is node and place[i][0] == "v"])
        if gone:
            lines.append(f"del {', '.join(gone)}")
    for node in dict.fromkeys(graph.outputs):
        lines.append(f"assert {place[node]}.shape == {writer.expression(node.aval.shape)}")
    lines.append(f"return ({', '.join([*[place[node] for node in graph.outputs], ''])})")
    return writer.function((*names, *[f"x{i}" for i in range(len(graph.inputs))]), lines), own


def _has_symbols(value: Any) -> bool:
    if type(value) is tuple:
        return any([_has_symbols(v) for v in value])
    return type(value) in (Symbol, SymbolicFloat)


def _text_of(graph: Graph) -> tuple:
    place = {node: i for i, node in enumerate((*graph.inputs, *graph.nodes))}
    nodes = [
        (n.op.name, repr(n.params), repr(n.aval.shape), n.aval.dtype, *[place[i] for i in n.inputs]) for n in place
    ]
    return tuple(nodes), len(graph.inputs), tuple([place[o] for o in graph.outputs])


class _FormulaWriter:
    """Writes expressions, and makes functions of them."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {"asarray": np.asarray, "as_float": as_float, "__name__": __name__}
        self._names: dict[int, str] = {}

    def constant(self, value: Any) -> str:
        """The name of an object."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"c{len(self._objects)}"
            self._objects[name] = value
        return name

    def expression(self, value: Any) -> str:
        """A value in the names of its symbols."""
        if not _has_symbols(value):
            return self.constant(value)
        if type(value) is Symbol:
            return f"({formula(value)})"
        if type(value) is SymbolicFloat:
            return f"as_float({formula(value.count)})"
        return f"({', '.join([*map(self.expression, value), ''])})"

    def function(self, names: Sequence[str], lines: Sequence[str]) -> Callable[..., Any]:
        """The function of these names that has these lines."""
        body = "\n    ".join(lines)
        made: Callable[..., Any] = defined("f", f"def f({', '.join(names)}):\n    {body}", self._objects)
        return made
