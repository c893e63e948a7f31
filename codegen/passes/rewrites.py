"""Rewrites of a graph, by which more of it fuses or is done with less, and the walk that passes share (`rebuild`).

choose: a scatter of one update per row is a choice, element by element; so it fuses with what reads it.

    y = scatter_along(index: i64[n,1], updates: f64[n,1], shape=(n, 10), axis=1)
    y[i,j] = updates[i,0] if index[i,0] == j else 0

It is what the gradient of picking one element of each row (a label's logit) is made of.

inner: a long product of one row and one column is a sum: it fuses with what it reads, and threads share it.

    y = matmul(x: f64[1,n], z: f64[n,1])        one thread, and both factors stored
    y = sum(x * z)                              n = 1e6: 215 us, so 87 on two

So are many short ones, of which each would be a product of its own.

cse, dce, fold: a program is spared work that is done twice, for nobody, or on known numbers.
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
    """The graph with every node replaced by `visit(node)`; the graph itself when nothing was.

    `visit` sees the nodes in order, each already reading the replacements of its inputs.  It returns
    the node, one seen before (an input included), or a new one of the same aval that reads such;
    what a new one reads may be new as well.
    """
    return _walked(graph, lambda node, original: visit(node))


def rebuilt(graph: Graph, visit: Callable[[Node, Node], Node]) -> Graph:
    """Rebuild by `visit(node, original)`, the original being the graph's own; drop nodes that nothing reads then."""
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
    """Append what a node reads, each after what it reads itself.  No recursion: a chain of new nodes can be long."""
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
    """The outputs of a graph on these inputs."""
    new = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        new[node] = Node(node.op, [new[i] for i in node.inputs], node.params, node.aval, graph.origins_of(node))
    return [new[o] for o in graph.outputs]


# ---------------------------------------------------------------- rows of which one element is updated


def choose(graph: Graph) -> Graph:
    """Replace such scatters."""
    return rebuild(graph, _chosen)


def _chosen(node: Node) -> Node:
    if node.op.name != "scatter_along":
        return node
    axis, shape = node.keywords["axis"], node.aval.shape
    if node.inputs[-1].aval.shape != (*shape[:axis], 1, *shape[axis + 1 :]):
        return node
    return Node(_choice(node.op), node.inputs, node.params, node.aval)


def _choice(scatter: Op) -> Op:
    """The operation that computes an element of such a scatter."""

    def element(k: Any, index: Any, places: Any, updates: Any, *, shape: tuple[int, ...], axis: int) -> Any:
        row = (*index[:axis], k.index(0), *index[axis + 1 :])
        target = scatter.lower.target(k, row, places, updates, shape=shape, axis=axis)
        update = updates(*row)
        zero = k.constant(0, like=update)
        # Added to 0 as a scatter does, so that -0.0 becomes 0.0.
        return k.select(k.eq(target[axis], index[axis]), k.add(zero, update), zero)

    return Op(scatter.name, infer=scatter.infer, reference=scatter.reference,
              lower=Move(element, free=False), params=scatter.params)


# ---------------------------------------------------------------- products of one row and one column


#: Fewer multiplications gain nothing.
_LONG = 4096


def inner(graph: Graph) -> Graph:
    """Replace such products."""
    return rebuild(graph, _added_up)


def _added_up(node: Node) -> Node:
    if not isinstance(node.op.lower, Contract) or node.aval.shape[-2:] != (1, 1) or node.aval.dtype.kind != "f":
        return node
    x, z = node.inputs
    n = x.aval.shape[-1]
    if typical(n * node.aval.size) < _LONG or not {"mul", "sum", "reshape"} <= OPS.keys():
        return node
    x, z = [apply(OPS["reshape"], side, shape=(*side.aval.shape[:-2], n)) for side in (x, z)]
    total = apply(OPS["sum"], apply(OPS["mul"], x, z), axis=(node.aval.ndim - 2,))
    return apply(OPS["reshape"], total, shape=node.aval.shape)


# ---------------------------------------------------------------- what is computed twice


def cse(graph: Graph) -> Graph:
    """Replace a node by an earlier one of the same operation, parameters and inputs.

    Operations with the trait "commutative" may have their inputs in another order.  Which of two
    zeros of different sign NumPy's maximum and minimum return depends on that order; it is the one
    thing here that is not preserved to the bit.
    """
    first: dict[tuple, Node] = {}

    def visit(node: Node) -> Node:
        found = first.setdefault(_key(node), node)
        # 0.0 == -0.0 and 1 == True: equal keys are not yet equal parameters.
        if found is node or (node.params and repr(found.params) != repr(node.params)):
            return node
        return found

    return rebuild(graph, visit)


def _key(node: Node) -> tuple[Any, ...]:
    inputs: Any = node.inputs
    if len(inputs) == 2 and "commutative" in node.op.traits:
        a, b = inputs
        inputs = inputs if id(a) <= id(b) else (b, a)
    # Constants of equal value and other text (0.0 and -0.0) each have their own first node.
    return node.op, repr(node.params) if node.op is CONSTANT else node.params, inputs


# ---------------------------------------------------------------- what nobody reads


def dce(graph: Graph) -> Graph:
    """Remove nodes no output depends on.  Order of the rest, and all inputs, are kept."""
    live = set(graph.outputs)
    nodes = []
    for node in reversed(graph.nodes):
        if node in live:
            live.update(node.inputs)
            nodes.append(node)
    if len(nodes) == len(graph.nodes):
        return graph
    return inherit(graph, Graph(graph.inputs, reversed(nodes), graph.outputs, graph.name), {})


# ---------------------------------------------------------------- what is known


def fold(graph: Graph) -> Graph:
    """Replace 0-d nodes that read nothing but constants by the constant that their reference gives.

    Arrays are not folded: a broadcast number is cheaper to make in a loop than to load.  Host calls,
    and operations that passes made, are left to run time; so is what is made of a float that may be an extent, the
    count of a mean, say: kernels take that as an argument (`kernel.arguments`), and are then the same for every count.
    """
    return rebuild(graph, _folded)


def _folded(node: Node) -> Node:
    # Most nodes read no constant first: that settles them.
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
