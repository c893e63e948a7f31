"""Separation of a graph into its numbers (extents and similar numbers, or symbols) and the rest; and the reverse.

    f(x: f64[9,4]) { a = exp(x)  b = reshape(a, (36,)) }         9, 4; 9, 4; 36; 36

Graphs inside a graph, such as the bodies of loops, are separated in the same way.  Numbers that follow from others are
left out: the length of the vector of all results of a loop, and the position of each result in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from .ir import CONSTANT, INPUT, Aval, Graph, Node, evaluate
from .ir.graph import Region
from .lowering import Nest
from .nested import starts
from .runtime.disk import blake2b
from .symbols import NotSymbolic, Symbol, SymbolicFloat, as_float, formula, numbers_function

#: Placeholders for numbers.  No parameter is a class, so they are equal to no parameter.
_INT, _FLOAT = int, float

#: Parameters that are not separated: if axis 0 goes with 2 rows and axis 1 with 3, the axis does not follow from rows.
_AXES = frozenset(("axis", "axes"))
#: The classes of numbers.
_NUMBERS = frozenset((int, Symbol))
#: The classes of parameters that are determined by their text.
_PLAIN = frozenset((bool, float, str, type(None)))


def _changed(node: Node, change: Callable[[Any], Any]) -> tuple:
    """The parameters of a node, with `change` applied to all but axes."""
    return tuple([p if n in _AXES else change(p) for n, p in zip(node.op.params, node.params, strict=True)])


class SeparatedGraph(NamedTuple):
    """A separated graph: `digest`, a hash of the graph without its numbers; `numbers`, in a fixed order, extents of
    inputs first; and `lengths`, the positions of those numbers that are lengths of loops.
    """

    digest: bytes
    numbers: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def text(self) -> tuple:
        """A key that is equal for graphs whose numbers follow from symbols by the same formulas."""
        return self.digest, tuple(map(formula, self.numbers))


def separate_numbers(graph: Graph) -> SeparatedGraph:
    """Separate the numbers from a graph.  Raises NotSymbolic for a parameter that its text does not determine."""
    found = _Separator()
    text = repr(found.graph(graph))
    # Only a hash is kept: the text takes 50 to 65 bytes a node (a chain of functions, a perceptron).
    return SeparatedGraph(blake2b(text.encode(), digest_size=16).digest(), tuple(found.numbers), tuple(found.lengths))


#: A cache by body, since many graphs share the bodies of their loops.
_regions: dict[ref[Region], SeparatedGraph] = {}


class _Separator:
    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.lengths: list[int] = []

    def graph(self, graph: Graph) -> Hashable:
        """The graph without its numbers."""
        place_of = {node: i for i, node in enumerate((*graph.inputs, *graph.nodes))}
        inputs = [(self.without(i.aval.shape), i.aval.dtype.str) for i in graph.inputs]
        regions: dict[Region, int] = {}
        nodes = [(*self.node(n, regions), n.aval.dtype.str, *[place_of[i] for i in n.inputs]) for n in graph.nodes]
        return tuple(inputs), tuple(nodes), tuple([place_of[o] for o in graph.outputs])

    def node(self, node: Node, regions: dict[Region, int]) -> tuple[Hashable, ...]:
        """The operation and parameters of a node, without numbers."""
        if isinstance(node.op.lower, Nest):
            return node.op.name, *[self.parameter(*p, regions) for p in node.keywords.items()]
        if _is_part(node):
            return "part", node.keywords["number"]
        left = self.constant(node.params) if node.op is CONSTANT else _changed(node, self.without)
        return node.op.name, left, self.without(node.aval.shape)

    def parameter(self, name: str, value: Any, regions: dict[Region, int]) -> Hashable:
        """A parameter of a loop or branch, without numbers; a body that occurs again is replaced by its position."""
        if name == "length":
            self.lengths.append(len(self.numbers))
        if not isinstance(value, Region):
            return self.without(value)
        if value in regions:
            return "again", regions[value]
        regions[value] = len(regions)
        found = _regions.get(ref(value))
        if found is None:
            found = _regions[ref(value, _regions.pop)] = separate_numbers(value.graph)
        self.lengths += [len(self.numbers) + k for k in found.lengths]
        self.numbers += found.numbers
        return found.digest

    def without(self, value: Any) -> Hashable:
        """A parameter with placeholders for its numbers, which are appended to `self.numbers`."""
        kind = type(value)
        if kind in _NUMBERS:
            self.numbers.append(value)
            return _INT
        if kind is tuple:
            return tuple([self.without(v) for v in value])
        if kind not in _PLAIN:
            raise NotSymbolic(f"{value!r} is compared by more than its text")
        return value

    def constant(self, params: tuple) -> Hashable:
        """A constant without its number.  A whole float is separated, too, since it may be the count of a mean."""
        value, dtype = params
        if _is_count(value):
            self.numbers.append(value.count if type(value) is SymbolicFloat else int(value))
            return _FLOAT, dtype
        if type(value) is Symbol:
            return self.without(value), dtype
        return repr(value), dtype  # by text, as -0.0 and 0.0 are different constants


def _is_count(value: Any) -> bool:
    return type(value) is SymbolicFloat or (type(value) is float and value.is_integer() and value != 0)


def _is_part(node: Node) -> bool:
    """True if the node takes one result out of the vector of results of a loop."""
    return "part" in node.op.traits and isinstance(node.inputs[0].op.lower, Nest)


# ---------------------------------------------------------------- graphs with other numbers


def with_numbers(graph: Graph, numbers: Iterator[int]) -> Graph:
    """The graph with these numbers in place of its own, in the order of `separate_numbers`."""
    new: dict[Node, Node] = {}
    regions: dict[Region, Region] = {}
    for i in graph.inputs:
        new[i] = Node(INPUT, (), (), Aval(_filled(i.aval.shape, numbers), i.aval.dtype), i.origins)
    for n in graph.nodes:
        new[n] = _node(n, [new[i] for i in n.inputs], numbers, regions)
    inputs, nodes, outputs = ([new[x] for x in xs] for xs in (graph.inputs, graph.nodes, graph.outputs))
    return Graph(inputs, nodes, outputs, graph.name)


def _node(node: Node, inputs: list[Node], numbers: Iterator[int], regions: dict[Region, Region]) -> Node:
    op = node.op
    if isinstance(op.lower, Nest):
        params = tuple(
            [_region(p, numbers, regions) if isinstance(p, Region) else _filled(p, numbers) for p in node.params]
        )
        return Node(op, inputs, params, op.infer(*[i.aval for i in inputs], **op.keywords(params)), node.origins)
    if _is_part(node):
        k, nested = node.keywords["number"], inputs[0].op.lower.control(**inputs[0].keywords)
        results = nested.results
        return Node(op, inputs, (k, starts(results)[k], results[k].shape), results[k], node.origins)
    params = _constant(node.params, numbers) if op is CONSTANT else _changed(node, lambda p: _filled(p, numbers))
    return Node(op, inputs, params, Aval(_filled(node.aval.shape, numbers), node.aval.dtype), node.origins)


def _region(region: Region, numbers: Iterator[int], regions: dict[Region, Region]) -> Region:
    """A body with other numbers; the same object if the numbers are equal."""
    if region not in regions:
        old = _regions[ref(region)].numbers
        given = [next(numbers) for _ in old]
        is_same = not any([type(n) is Symbol for n in given]) and given == [*old]
        regions[region] = region if is_same else Region(with_numbers(region.graph, iter(given)))
    return regions[region]


def _filled(value: Any, numbers: Iterator[int]) -> Any:
    if type(value) in _NUMBERS:
        return next(numbers)
    return tuple([_filled(v, numbers) for v in value]) if type(value) is tuple else value


def _constant(params: tuple, numbers: Iterator[int]) -> tuple:
    value, dtype = params
    if _is_count(value):
        value = as_float(next(numbers))
    elif type(value) is Symbol:
        value = next(numbers)
    return value, dtype


# ---------------------------------------------------------------- a graph of unknown extents


class SizedGraph:
    """A graph whose avals and parameters contain symbols; it can be evaluated, or made, for any values of these.

        f(x: f64[n0,4]) { a = sum(x, axis=(0,))  b = broadcast_to(a, shape=(n0, 4)) }

    names   the names of the symbols, in the order in which values are given
    text    a key that is equal for graphs whose numbers follow from the symbols by the same formulas
    """

    __slots__ = ("_numbers", "graph", "names", "operations", "text")

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        self.graph = graph
        self.names = tuple(names)
        self.operations = len(graph.nodes)
        found = separate_numbers(graph)
        self.text = found.text
        self._numbers = numbers_function(found.numbers, names)

    def at(self, values: Sequence[int]) -> Graph:
        """The graph for these values of the symbols."""
        return with_numbers(self.graph, iter(self._numbers(*values)))

    def evaluate(self, values: Sequence[int], arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """Evaluate the graph for these values of the symbols, on these arrays."""
        graph = self.at(values)
        return evaluate(graph, *[np.asarray(a, i.aval.dtype) for a, i in zip(arrays, graph.inputs, strict=True)])
