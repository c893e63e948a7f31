"""Preparation of a graph for fusion: rewrites of all cases that later stages would have to treat specially.

    a constant that is an output or an operand of a host call         becomes an array
    an output that is an input, or is listed twice                    becomes a copy
    a reduction of no elements, a product over an inner size of 0     becomes a fill
    an operand of a product that is not stored as a matrix            is copied, packed by rows
    a concatenation of many parts                                     becomes a join
    the parts of a pair or join                                       become copies, stored in its memory
"""

from __future__ import annotations

from typing import Any

from ..ir import Graph, Node, inherit
from ..ir.aval import Aval, dtype_name
from ..ir.op import CONSTANT, internal
from ..kernel.edges import Probed
from ..kernel.monoids import identity
from ..kernel.operands import Product, product_of
from ..lowering import Call, Contract, Map, Move, Reduce
from ..program import Gemm
from ..records import record
from .stored_parts import JOIN, PAIR, as_join

_COPY = internal("copy", Map(lambda k, x: x))
_ROWS = internal(
    "rows",
    Move(lambda k, index, x, *, shape: x(*[k.index(0) if n == 1 else i for i, n in zip(
        index[len(index) - len(shape):], shape, strict=True)])),
    ("shape",),
)
_FILL = internal("fill", Move(lambda k, index, *, value, dtype: k.constant(value, dtype)), ("value", "dtype"))


@record(frozen=True)
class Prepared:
    """The prepared graph, and the operands and sizes of each product in it."""

    graph: Graph
    products: dict[Node, Product]


def prepare(graph: Graph, probed: Probed) -> Prepared:
    """The graph with special cases rewritten, as the head of the file lists them."""
    new: dict[Node, Node] = {}
    products: dict[Node, Product] = {}
    nodes: list[Node] = []
    arrays: dict[Node, Node] = {}
    for original in graph.nodes:
        node = as_join(original)
        inputs = [new.get(i, i) for i in node.inputs]
        if node.op in (PAIR, JOIN):
            # The parts are stored in the memory of this node, so they must be values that nothing else reads.
            inputs = [Node(_COPY, (i,), (), i.aval) for i in inputs]
            nodes += inputs
        elif isinstance(node.op.lower, Call):
            # Host calls and loops take arrays, so a constant operand is stored as one.
            for j, i in enumerate(inputs):
                if i.op is CONSTANT:
                    if i not in arrays:
                        arrays[i] = Node(_COPY, (i,), (), i.aval)
                        nodes.append(arrays[i])
                    inputs[j] = arrays[i]
        made = node if all(a is b for a, b in zip(inputs, node.inputs, strict=True)) else Node(
            node.op, inputs, node.params, node.aval
        )
        lower = node.op.lower
        if node.aval.size and isinstance(lower, Reduce) and inputs[0].aval.size == 0:
            made = _fill(identity(lower.monoid, inputs[0].aval.dtype), node.aval)
        elif node.aval.size and isinstance(lower, Contract):
            if inputs[0].aval.shape[-1] == 0:
                made = _fill(identity("any" if node.aval.dtype.kind == "b" else "add", node.aval.dtype), node.aval)
            else:
                made, products[made] = _product(made, nodes, probed)
        if made is not original:
            new[original] = made
        nodes.append(made)
    outputs, seen = [], set(graph.inputs)
    for output in graph.outputs:
        value = new.get(output, output)
        if value in seen or value.op is CONSTANT:
            value = Node(_COPY, (value,), (), value.aval)
            nodes.append(value)
        seen.add(value)
        outputs.append(value)
    return Prepared(inherit(graph, Graph(graph.inputs, nodes, outputs, graph.name), new), products)


def _fill(value: Any, aval: Aval) -> Node:
    return Node(_FILL, (), (value, dtype_name(aval.dtype)), aval)


def _product(node: Node, nodes: list[Node], probed: Probed) -> tuple[Node, Product]:
    """The product and its operands; appends to `nodes` a copy of each operand that is not stored as a matrix."""
    found = product_of(node, probed)
    if isinstance(found, tuple):
        inputs = list(node.inputs)
        batch = node.aval.shape[:-2]
        for j in found:
            x = inputs[j]
            copy = Node(_ROWS, (x,), (x.aval.shape,), x.aval.with_shape((*batch, *x.aval.shape[-2:])))
            nodes.append(copy)
            inputs[j] = copy
        node = Node(node.op, inputs, node.params, node.aval)
        found = product_of(node, probed)
        assert not isinstance(found, tuple), "a packed copy is a matrix by rows"
    return node, found


def gemm_of(node: Node, product: Product) -> Gemm:
    """The step that computes a product."""
    a, b = product.a, product.b
    dtype = "f32" if node.aval.dtype.itemsize == 4 else "f64"
    strides = (a.stride, b.stride, product.m * product.n) if product.batch > 1 else (0, 0, 0)
    return Gemm(dtype, product.m, product.n, product.k, a.transposed, b.transposed, product.batch, strides)


def computed_by(node: Node) -> Node:
    """The node that a host call evaluates: for a hosted complex operation the original node, else the node itself."""
    computed: Node = node.params[0] if node.op.params == ("computed",) else node
    return computed
