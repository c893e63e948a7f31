"""Rewrites of a graph that allow more fusion or save work, and `rebuild`, the walk that all passes share.

scatters_to_selects: a scatter of one update per row becomes a choice for each element, which fuses with its readers.

    y = scatter_along(index: i64[n,1], updates: f64[n,1], shape=(n, 10), axis=1)
    y[i,j] = updates[i,0] if index[i,0] == j else 0

The gradient of picking one element of each row (a label's logit) consists of such scatters.

products_to_sums: a long product of a row and a column becomes a sum, which fuses with its operands and uses threads.

    y = matmul(x: f64[1,n], z: f64[n,1])        one thread, and both factors stored: n = 1e6, 215 us
    y = sum(x * z)                              n = 1e6, two threads: 87 us

The same holds for a batch of many short products, each of which would be a separate matrix product.

cse, dce, fold: these remove work that is done twice, that no output needs, or that has a constant result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir import CONSTANT, OPS, Graph, Node, apply, dtype_name, evaluate_node, inherit
from ..ir.op import Op
from ..kernel.arguments import MOST, SMALL
from ..lowering import Call, Contract, Move
from ..symbols import typical


def rebuild(graph: Graph, visit: Callable[[Node], Node]) -> Graph:
    """The graph with every node replaced by `visit(node)`; the same object if `visit` replaces no node.

    `visit` is called with the nodes in order, each already reading the replacements of its inputs.  It
    returns the node, an earlier node or graph input, or a new node of the same aval; the inputs of a new
    node are earlier nodes, or new nodes in turn.
    """
    return _walked(graph, lambda node, original: visit(node))


def rebuild_with_originals(graph: Graph, visit: Callable[[Node, Node], Node]) -> Graph:
    """Like `rebuild`, with `visit(node, original)`, the original being the graph's node; drops nodes left unread."""
    found = _walked(graph, visit)
    return found if found is graph else inherit(found, Graph.of(found.inputs, found.outputs, found.name), {})


def _walked(graph: Graph, visit: Callable[[Node, Node], Node]) -> Graph:
    replaced: dict[Node, Node] = {}
    placed = set(graph.inputs)
    nodes: list[Node] = []
    for node in graph.nodes:
        current = node
        if replaced:
            for i in node.inputs:
                if i in replaced:
                    inputs = [replaced.get(i, i) for i in node.inputs]
                    current = Node(node.op, inputs, node.params, node.aval)
                    break
        current = visit(current, node)
        if current is not node:
            replaced[node] = current
        if current not in placed:
            if not placed.issuperset(current.inputs):
                _place_inputs(current, placed, nodes)
            placed.add(current)
            nodes.append(current)
    if not replaced:
        return graph
    after = Graph(graph.inputs, nodes, [replaced.get(o, o) for o in graph.outputs], graph.name)
    return inherit(graph, after, replaced)


def _place_inputs(node: Node, placed: set[Node], nodes: list[Node]) -> None:
    """Append the new inputs of a node, each after its own inputs.  No recursion: a chain of new nodes can be long."""
    waiting = [i for i in reversed(node.inputs) if i not in placed]
    while waiting:
        node = waiting[-1]
        missing = [i for i in reversed(node.inputs) if i not in placed]
        if missing:
            waiting.extend(missing)
            continue
        waiting.pop()
        if node not in placed:
            placed.add(node)
            nodes.append(node)


def inlined(graph: Graph, inputs: Sequence[Node]) -> list[Node]:
    """Copies of the nodes of a graph on other inputs; the copies of its outputs."""
    new = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        new[node] = Node(node.op, [new[i] for i in node.inputs], node.params, node.aval, graph.origins_of(node))
    return [new[o] for o in graph.outputs]


# ---------------------------------------------------------------- rows of which one element is updated


def scatters_to_selects(graph: Graph) -> Graph:
    """Replace each scatter of one update per row by a choice for each element; see the head of the file."""
    return rebuild(graph, _as_select)


def _as_select(node: Node) -> Node:
    if node.op.name != "scatter_along":
        return node
    axis, shape = node.keywords["axis"], node.aval.shape
    if node.inputs[-1].aval.shape != (*shape[:axis], 1, *shape[axis + 1 :]):
        return node
    return Node(_select_op(node.op), node.inputs, node.params, node.aval)


def _select_op(scatter: Op) -> Op:
    """The operation that computes a scatter of one update per row element by element."""

    def element(k: Any, index: Any, places: Any, updates: Any, *, shape: tuple[int, ...], axis: int) -> Any:
        row = (*index[:axis], k.index(0), *index[axis + 1 :])
        target = scatter.lower.target(k, row, places, updates, shape=shape, axis=axis)
        update = updates(*row)
        zero = k.constant(0, like=update)
        # A scatter adds the update to 0, which turns -0.0 into 0.0: so does this sum.
        return k.select(k.eq(target[axis], index[axis]), k.add(zero, update), zero)

    return Op(scatter.name, infer=scatter.infer, reference=scatter.reference,
              lower=Move(element, free=False), params=scatter.params)


# ---------------------------------------------------------------- products of one row and one column


#: The least number of multiplications for which a sum is faster than a product.
_LEAST_FOR_SUM = 4096


def products_to_sums(graph: Graph) -> Graph:
    """Replace products of one row and one column by sums; see the head of the file."""
    return rebuild(graph, _as_sum)


def _as_sum(node: Node) -> Node:
    if not isinstance(node.op.lower, Contract) or node.aval.shape[-2:] != (1, 1) or node.aval.dtype.kind != "f":
        return node
    x, z = node.inputs
    n = x.aval.shape[-1]
    if typical(n * node.aval.size) < _LEAST_FOR_SUM or not {"mul", "sum", "reshape"} <= OPS.keys():
        return node
    x, z = [apply(OPS["reshape"], side, shape=(*side.aval.shape[:-2], n)) for side in (x, z)]
    total = apply(OPS["sum"], apply(OPS["mul"], x, z), axis=(node.aval.ndim - 2,))
    return apply(OPS["reshape"], total, shape=node.aval.shape)


# ---------------------------------------------------------------- equal nodes


def cse(graph: Graph) -> Graph:
    """Replace a node by an earlier one of equal operation, parameters and inputs.

    The inputs of operations with the trait "commutative" may be in another order.  NumPy's maximum
    and minimum of two zeros of different sign depend on that order: this is the only result whose
    bits the pass may change.
    """
    first: dict[tuple, Node] = {}

    def visit(node: Node) -> Node:
        found = first.setdefault(_key(node), node)
        # Equal keys do not imply equal parameters: 0.0 == -0.0 and 1 == True.
        if found is node or (node.params and repr(found.params) != repr(node.params)):
            return node
        return found

    return rebuild(graph, visit)


def _key(node: Node) -> tuple[Any, ...]:
    inputs: Any = node.inputs
    if len(inputs) == 2 and "commutative" in node.op.traits:
        a, b = inputs
        inputs = inputs if id(a) <= id(b) else (b, a)
    # The key of a constant is its text, so that 0.0 and -0.0 are separate entries of the table.
    return node.op, repr(node.params) if node.op is CONSTANT else node.params, inputs


# ---------------------------------------------------------------- unread nodes


def dce(graph: Graph) -> Graph:
    """Remove the nodes that no output depends on.  All inputs, and the order of the other nodes, are kept."""
    live = set(graph.outputs)
    nodes = []
    for node in reversed(graph.nodes):
        if node in live:
            live.update(node.inputs)
            nodes.append(node)
    if len(nodes) == len(graph.nodes):
        return graph
    return inherit(graph, Graph(graph.inputs, reversed(nodes), graph.outputs, graph.name), {})


# ---------------------------------------------------------------- constant results


def fold(graph: Graph) -> Graph:
    """Replace 0-d nodes whose inputs are all constants by the constant that their reference computes.

    Arrays are not folded: computing a broadcast number in a loop is cheaper than loading it.  Host calls and internal
    operations of passes are left to run time, and so are nodes on a float that may be an extent, such as the count of a
    mean: kernels take such a float as an argument (`kernel.arguments`), so that one kernel serves every count.
    """
    return rebuild(graph, _folded)


def _folded(node: Node) -> Node:
    # A quick test, which excludes most nodes: the first input is a constant.
    if not node.inputs or node.inputs[0].op is not CONSTANT or not _is_foldable(node):
        return node
    value = evaluate_node(node, [evaluate_node(i, ()) for i in node.inputs])
    return Node(CONSTANT, (), (value.item(), dtype_name(value.dtype)), node.aval)


def _is_foldable(node: Node) -> bool:
    if node.aval.ndim or isinstance(node.op.lower, Call) or node.op.reference is None:
        return False
    return all([i.op is CONSTANT and not _may_be_extent(i) for i in node.inputs])


def _may_be_extent(constant: Node) -> bool:
    value = constant.params[0]
    return isinstance(value, float) and SMALL < abs(value) < MOST and value == int(value)
