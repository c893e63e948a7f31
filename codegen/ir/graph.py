"""Graphs: immutable, typed, in single assignment form.

    f(x: f64[8], w: f64[8]) {
      a = mul(x, w)
      b = sum(a, axis=(0,))
      return b
    }

A graph is the input of the compiler.  Its *shape* (`Graph.key`) holds everything that compiled code depends on: two
graphs of equal keys share one executable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import count, product
from typing import Any

import numpy as np

from .aval import DTYPES, Aval
from .op import CONSTANT, INPUT, Op
from .origin import Origin, origins_text


class Node:
    """One operation applied: `op(*inputs, **params)`, with its result's aval.

    A node has one result.  Nodes are compared by identity, and never change apart from `origins`: the recorded nodes
    that a node stands for, as far as known, which affect no computed value.
    """

    __slots__ = ("aval", "inputs", "op", "origins", "params")

    def __init__(
        self, op: Op, inputs: Sequence[Node], params: tuple, aval: Aval, origins: tuple[Origin, ...] = ()
    ) -> None:
        self.op = op
        self.inputs = tuple(inputs)
        self.params = params
        self.aval = aval
        self.origins = origins

    @property
    def keywords(self) -> dict:
        """Parameter values by name."""
        return self.op.keywords(self.params)

    def __repr__(self) -> str:
        return f"{self.op.name}(...): {self.aval}"


def input_node(aval: Aval) -> Node:
    """A graph input of the given aval."""
    return Node(INPUT, (), (), aval)


def apply(op: Op, *inputs: Node, **params) -> Node:
    """A new node that applies `op`; the operation's shape rule gives its aval."""
    return Node(
        op,
        inputs,
        tuple(params[name] for name in op.params),
        op.infer(*[i.aval for i in inputs], **params),
    )


def depth_first(roots: Sequence[Any], done: AbstractSet[Any]) -> list[Any]:
    """The nodes of a graph or a tape that `roots` need, each after its inputs, in depth-first order of first use.

    done    nodes to leave out, with all nodes reached only through them
    """
    found: dict[Any, None] = {}
    stack = [(node, False) for node in reversed(roots)]
    while stack:  # no recursion: graphs may be deeper than Python's limit
        node, is_ready = stack.pop()
        if node in found or node in done:
            continue
        if is_ready:
            found[node] = None
        else:
            stack.append((node, True))
            stack.extend([(i, False) for i in reversed(node.inputs) if i not in found])
    return list(found)


class Graph:
    """Inputs, nodes and outputs; each node comes after the nodes that it reads.

    inputs          nodes of op `input`, in call order, including inputs that nothing reads
    nodes           all other nodes that the outputs need, and before `dce` possibly more
    outputs         inputs or nodes; a node may occur more than once
    merged          for a node that also replaces other nodes (equal ones, say): its origins and theirs
    origin_setter   a function that sets the origins of the nodes, until `set_origins` has called it; None afterwards
    seconds         the time that compiling the graph took; 0.0 if it was not compiled
    """

    __slots__ = ("_key", "inputs", "merged", "name", "nodes", "origin_setter", "outputs", "seconds")

    def __init__(self, inputs: Iterable[Node], nodes: Iterable[Node], outputs: Iterable[Node], name: str = "f") -> None:
        self.inputs = tuple(inputs)
        self.nodes = tuple(nodes)
        self.outputs = tuple(outputs)
        self.name = name
        self.merged: dict[Node, tuple[Origin, ...]] = {}
        self.origin_setter: Callable[[], None] | None = None
        self.seconds = 0.0
        self._key: GraphKey | None = None

    @classmethod
    def of(cls, inputs: Iterable[Node], outputs: Iterable[Node], name: str = "f") -> Graph:
        """The graph of the nodes that `outputs` need, in depth-first order of first use."""
        inputs, outputs = tuple(inputs), tuple(outputs)
        return cls(inputs, depth_first(outputs, set(inputs)), outputs, name)

    @property
    def key(self) -> GraphKey:
        """The graph shape: hashable, equal for graphs that differ only in names and objects."""
        if self._key is None:
            number = {node: i for i, node in enumerate((*self.inputs, *self.nodes))}
            nodes = [
                (
                    n.op.name,
                    # Constants are compared by text: -0.0 == 0.0, but they differ; nan != nan, but they are equal.
                    repr(n.params) if n.op is CONSTANT else _shapes(n.params) if n.op.has_regions else n.params,
                    n.aval,
                    *[number[i] for i in n.inputs],
                )
                for n in self.nodes
            ]
            inputs = tuple([i.aval for i in self.inputs])
            self._key = GraphKey((inputs, tuple(nodes), tuple([number[o] for o in self.outputs])))
        return self._key

    def readers(self) -> dict[Node, list[Node]]:
        """For each input and node, the nodes that read it, once per reading operand."""
        found: dict[Node, list[Node]] = {n: [] for n in (*self.inputs, *self.nodes)}
        for node in self.nodes:
            for i in node.inputs:
                found[i].append(node)
        return found

    def set_origins(self) -> Graph:
        """Set the origins of all nodes, also in regions, by calling `origin_setter`.  Returns the graph."""
        setter, self.origin_setter = self.origin_setter, None
        if setter is not None:
            setter()
        for node in self.nodes:
            for value in node.params if node.op.has_regions else ():
                if isinstance(value, Region):
                    value.graph.set_origins()
        return self

    def origins_of(self, node: Node) -> tuple[Origin, ...]:
        """The origins of a node, with those in `merged`; known only after `set_origins`."""
        return self.merged.get(node, node.origins)

    def __str__(self) -> str:
        return print_graph(self.set_origins())


class Region:
    """A graph as a parameter of an operation that runs it, such as the body of a loop.

    Regions are compared by identity, so that other modules can attach data to one (its derivative, say).  In the key
    of the enclosing graph a region is represented by the shape of its graph.
    """

    __slots__ = ("__weakref__", "graph")

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @property
    def shape(self) -> GraphKey:
        """The key of the region's graph."""
        return self.graph.key

    def __repr__(self) -> str:
        return f"<{len(self.graph.nodes)} operations>"


class GraphKey:
    """The key of a graph, with its hash computed once, since several tables look it up."""

    __slots__ = ("_hash", "_key")

    def __init__(self, key: tuple) -> None:
        self._key = key
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, GraphKey) and self._hash == other._hash and self._key == other._key)


def _shapes(params: tuple) -> tuple:
    return tuple([p.shape if isinstance(p, Region) else p for p in params])


# ---------------------------------------------------------------- printing; `text` has the grammar and the parser


#: The pattern of a name in printed graphs: `w`, `params['bias']`, `layers[0].w`.
WORD = r"[^\W\d]\w*"
NAME = rf"{WORD}(?:\[(?:\d+|'[^'\n]*')\]|\.{WORD})*"
_PATH = re.compile(NAME)


def print_graph(graph: Graph) -> str:
    """The graph as text, without a final newline; nodes whose origins are known (`Graph.set_origins`) get a comment.

    A parameter without a notation (the Python function of a host call) prints as <its name>:
    `parse` cannot read such a text.
    """
    return _graph_text(graph, _as_name(graph.name), {})


def _graph_text(graph: Graph, name: str, regions: dict[Any, str]) -> str:
    """The text of a graph under this name.  `regions` maps the shapes of regions already printed to their names."""
    names = node_names(graph)
    inputs = ", ".join(f"{names[node]}: {node.aval}" for node in graph.inputs)

    def text_of(region: Region) -> str:
        if region.shape in regions:
            return regions[region.shape]
        regions[region.shape] = called = f"body{len(regions)}"
        return _graph_text(region.graph, called, regions).replace("\n", "\n  ")

    statements = "".join(
        f"  {_statement(node, names, text_of)}{_comment(graph.origins_of(node))}\n" for node in graph.nodes
    )
    outputs = ", ".join(names.get(node, "?") for node in graph.outputs)
    return f"{name}({inputs}) {{\n{statements}  return{' ' if outputs else ''}{outputs}\n}}"


def node_names(graph: Graph) -> dict[Node, str]:
    """The names of inputs and nodes in printed graphs and in messages.

    A node has the name of the first recorded node that it stands for, so its name is equal in every stage.  If several
    nodes stand for one recorded node, the last has its name and those before it are numbered: `c_1`, `c_2`, `c`.
    """
    names: dict[Node, str] = {}
    of_name: dict[str, list[Node]] = {}
    every = (*graph.inputs, *graph.nodes)
    for node in every:
        origins = graph.origins_of(node)
        if origins and origins[0].name:
            of_name.setdefault(origins[0].name, []).append(node)
    letters = (name for name in _letters() if name not in of_name)
    for name, nodes in of_name.items():
        names.update({node: f"{name}_{k}" for k, node in enumerate(nodes[:-1], 1)})
        names[nodes[-1]] = name
    for i, node in enumerate(every):
        if node not in names:
            names[node] = f"x{i}" if i < len(graph.inputs) else next(letters)
    return names


def name_origins(graph: Graph) -> None:
    """Name the values of a recorded graph: by the user's name if known, else inputs x0, x1, ... and nodes a, b, ..."""
    taken: set[str] = set()
    for i, node in enumerate(graph.inputs):
        for origin in node.origins:
            origin.name = _free(_spelled(origin.label) or f"x{i}", taken)
    letters = (name for name in _letters() if name not in taken)
    for node in graph.nodes:
        for origin in node.origins:
            origin.name = origin.name or (_free(_spelled(origin.label), taken) if origin.label else next(letters))


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number appended if it is taken; adds the result to `taken`."""
    found = next(n for n in (name, *[f"{name}_{k}" for k in range(1, len(taken) + 2)]) if n not in taken)
    taken.add(found)
    return found


def _spelled(label: str) -> str:
    """A user's name in the form that the grammar of texts allows."""
    if _PATH.fullmatch(label) and label.partition("[")[0] not in DTYPES:
        return label
    return re.sub(r"\W+", "_", label).strip("_")


def _comment(origins: Sequence[Origin]) -> str:
    told = origins_text(origins)
    return f"  # {told}" if told else ""


def node_text(node: Node, names: Mapping[Node, str]) -> str:
    """The statement of one node on one line.  A region prints as its number of operations, an unnamed node as `?`."""
    return _statement(node, names, repr)


def _statement(node: Node, names: Mapping[Node, str], region_text: Callable[[Region], str]) -> str:
    arguments = [names.get(i, "?") for i in node.inputs]
    for name, value in zip(node.op.params, node.params, strict=False):
        text = region_text(value) if isinstance(value, Region) else value_text(value)
        arguments.append(f"{name}={text}")
    return f"{names.get(node, '?')}: {node.aval} = {node.op.name}({', '.join(arguments)})"


def _letters() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ..."""
    for length in count(1):
        for letters in product("abcdefghijklmnopqrstuvwxyz", repeat=length):
            yield "".join(letters)


def _as_name(name: str) -> str:
    """The graph's name as one word: a function called `<lambda>` is printed as `lambda`."""
    return name if re.fullmatch(WORD, name) else re.sub(r"\W+|^\d+", "_", name).strip("_") or "f"


def value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex):
        # The repr of -0.0 + 1j evaluates to 0.0 + 1j, so both parts are printed.
        return f"complex({value.real!r}, {value.imag!r})"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"
