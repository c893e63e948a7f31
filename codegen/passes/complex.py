"""Complex numbers become pairs of real ones: from here on the compiler sees nothing else.

    y: c128[n] = mul(x, w)          x.re = part(x), ...         y.re = mul_re(x.re, x.im, w.re, w.im), ...

What is in memory is an array of one more axis, of two: f64[n,2], the same bytes.  There the parts of inputs are read,
every second number; what is an output, or read by the host or a loop, is a `pair` of its parts.  Bodies of loops and
branches are graphs like any other: their states are such pairs.  What has no rule by parts is computed by
NumPy, whose arrays are complex again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir import Aval, Graph, Node, inherit
from ..ir.op import CONSTANT, INPUT, derived
from ..lazily import later
from ..lowering import Call, Dense, Fourier
from ..nested import Nested
from ..records import replace
from .pairs import REALS
from .recur import RESULT

if TYPE_CHECKING:
    from . import complex_ops, complex_rules
    from .complex_rules import Parts
else:  # for graphs that have some
    complex_ops = later("codegen.passes.complex_ops")
    complex_rules = later("codegen.passes.complex_rules")

__all__ = ["by_parts", "seen"]


def by_parts(graph: Graph) -> Graph:
    """The graph without complex numbers; the very graph where there are none."""
    if not any(_is_complex(node) for node in (*graph.inputs, *graph.nodes)) and not _nests(graph):
        return graph
    return _Splitter({}).graph(graph)


def seen(memory: Aval, dtype: Any) -> Aval:
    """The aval of memory as its owner sees it: that of a complex dtype has one axis less."""
    return Aval(memory.shape[:-1], dtype) if dtype in REALS else memory


def _is_complex(node: Node) -> bool:
    return node.aval.dtype in REALS


def _nests(graph: Graph) -> bool:
    """True if a loop or branch computes with complex numbers inside."""
    return any(node.op is RESULT and _has_complex(node.params[0]) for node in graph.nodes)


def _has_complex(nested: Nested) -> bool:
    return any(by_parts(graph) is not graph for graph in nested.graphs.values())


class _Splitter:
    """Makes one graph without complex numbers.  `nests`: those that are made already, of all graphs."""

    def __init__(self, nests: dict[int, tuple[Nested, Nested]]) -> None:
        self.nests = nests
        #: Of a complex node its parts, of a real one the node that it has become.
        self.values: dict[Node, Any] = {}
        self.stored: dict[Node, Node] = {}

    def graph(self, graph: Graph) -> Graph:
        """The graph whose complex inputs and outputs are memory."""
        inputs = [self._input(node) for node in graph.inputs]
        for node in graph.nodes:
            self.values[node] = self._value(node)
        made = Graph.of(inputs, [self.memory(o) for o in graph.outputs], graph.name)
        for new in self._stands():
            inherit(graph, made, new)
        return made

    def _stands(self) -> list[dict[Node, Node]]:
        """Replacements of nodes: real ones and real parts, imaginary parts, what lies in memory."""
        found = self.values.items()
        first = {n: v if isinstance(v, Node) else v.re for n, v in found}
        return [first, {n: v.im for n, v in found if not isinstance(v, Node) and v.im is not None}, self.stored]

    def memory(self, node: Node) -> Node:
        """A node as it lies in memory."""
        value = self.values[node]
        if not _is_complex(node):
            return value
        found = self.stored.get(node)
        if found is None:
            found = self.stored[node] = complex_rules.memory_of(value)
        return found

    def _input(self, node: Node) -> Node:
        if not _is_complex(node):
            self.values[node] = node
            return node
        memory = Node(INPUT, (), (), complex_ops.memory_aval(node.aval))
        self.values[node] = self._parts(node, memory)
        return memory

    def _parts(self, node: Node, memory: Node) -> Parts:
        """The parts of what lies in memory."""
        self.stored[node] = memory
        aval = node.aval.with_dtype(REALS[node.aval.dtype])
        part = complex_ops.PART
        return complex_rules.Parts(Node(part, (memory,), (0,), aval), Node(part, (memory,), (1,), aval))

    def _value(self, node: Node) -> Any:
        if node.op is CONSTANT:
            return complex_rules.parts_of_constant(node) if _is_complex(node) else node
        if node.op is RESULT:
            return self._result(node)
        if not _is_complex(node) and not any(_is_complex(i) for i in node.inputs):
            return self._again(node, [self.values[i] for i in node.inputs], node.params)
        rule = complex_rules.rule_of(node)
        if rule is not None:
            return rule(node, [self.values[i] for i in node.inputs])
        lower = node.op.lower if isinstance(node.op.lower, Dense | Fourier) else Call()
        inputs, aval = [self.memory(i) for i in node.inputs], complex_ops.memory_aval(node.aval)
        memory = Node(derived(complex_ops.hosted, node.op.name, lower), inputs, (node,), aval)
        return self._parts(node, memory) if _is_complex(node) else memory

    def _again(self, node: Node, inputs: Sequence[Node], params: tuple) -> Node:
        """The node, reading what its inputs have become."""
        if params is node.params and all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            return node
        return Node(node.op, inputs, params, node.aval)

    # ------------------------------------------------------------ loops and branches

    def _result(self, node: Node) -> Any:
        nested, starts, number = node.params
        params = node.params
        if _has_complex(nested):
            if number is None:
                # Complex results and real ones have one dtype now: which are meant has to be said.
                number = tuple([k for k, aval in enumerate(nested.results) if aval.dtype == node.aval.dtype])
            starts = tuple([s * (1 + _is_complex(i)) for s, i in zip(starts, node.inputs, strict=True)])
            params = (self._nested(nested), starts, number)
        inputs = [self.memory(i) for i in node.inputs]
        if not _is_complex(node):
            return self._again(node, inputs, params)
        return self._parts(node, Node(RESULT, inputs, params, complex_ops.memory_aval(node.aval)))

    def _nested(self, nested: Nested) -> Nested:
        """The loop or branch with graphs without complex numbers; one for all results of an operation."""
        known = self.nests.get(id(nested))
        if known is None:
            found = {name: _Splitter(self.nests).graph(graph) for name, graph in nested.graphs.items()}
            made = replace(nested, **found)
            known = self.nests[id(nested)] = nested, made
        return known[1]
