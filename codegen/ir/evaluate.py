"""The evaluator: what a graph means, by the NumPy reference of each operation.

Everything below the graph level is measured against this.  It is also how single nodes are computed
at compile time (`codegen.passes.fold`) and while debugging.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .aval import aval_of
from .graph import Graph, Node

__all__ = ["evaluate", "evaluate_node"]

#: Traits of operations that treat every element alike, wherever it lies.
_ANY_LAYOUT = frozenset(("elementwise", "move"))


def evaluate(graph: Graph, *arrays) -> tuple[np.ndarray, ...]:
    """The outputs of the graph for these inputs, as packed arrays that share memory with nothing.

    arrays   one array (or number) per input, of exactly its aval

    Nodes that no output needs are not computed; a value is dropped after its last reader.
    nan, inf and overflow pass silently, as in compiled code.
    Raises TypeError for the wrong number of arrays, ValueError for one of another aval; what a
    reference raises (an index out of range) keeps its type and gets a note that shows the node.
    """
    values = dict(zip(graph.inputs, _checked(graph, arrays), strict=True))
    last = _last_readers(graph)
    # An output may be an input, or a view of one, or stand twice.
    taken = {id(array) for array in values.values()}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node not in last:
                continue
            values[node] = _computed(graph, node, [values[i] for i in node.inputs])
            for i in node.inputs:
                if last[i] is node:
                    values.pop(i, None)
    return tuple([_unshared(values[node], taken) for node in graph.outputs])


def evaluate_node(node: Node, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """One node's value for these values of its inputs, of exactly its aval.

    The reference may compute in another dtype (np.sum of int32 gives int64): the aval decides.
    Reductions and products are given packed arrays, since NumPy adds up in the order of memory: the
    value of a node then depends on nothing but the values of its inputs.
    """
    assert node.op.reference is not None, f"{node.op.name} has no reference"
    if not _ANY_LAYOUT & node.op.traits:
        arrays = [np.asarray(array, order="C") for array in arrays]
    value = np.asarray(node.op.reference(*arrays, **node.keywords), node.aval.dtype)
    assert value.shape == node.aval.shape, (
        f"{node.op.name}: the shape rule says {node.aval}, the reference gave {aval_of(value)}"
    )
    return value


def _checked(graph: Graph, arrays: Sequence) -> list[np.ndarray]:
    if len(arrays) != len(graph.inputs):
        raise TypeError(f"evaluate: graph {graph.name} takes {len(graph.inputs)} arrays, got {len(arrays)}")
    found = [np.asarray(array) for array in arrays]
    for position, (node, array) in enumerate(zip(graph.inputs, found, strict=True)):
        if aval_of(array) != node.aval:
            raise ValueError(
                f"evaluate: input {position} of graph {graph.name} is {node.aval}, got {aval_of(array)}"
            )
    return found


def _last_readers(graph: Graph) -> dict[Node, Node | None]:
    """For each input and node that the outputs need, its last reader; None for an output, kept to the end."""
    last: dict[Node, Node | None] = dict.fromkeys(graph.outputs)
    for node in reversed(graph.nodes):
        if node in last:
            for i in node.inputs:
                last.setdefault(i, node)
    return last


def _computed(graph: Graph, node: Node, arrays: list[np.ndarray]) -> np.ndarray:
    try:
        return evaluate_node(node, arrays)
    except Exception as error:
        from .text import node_names, node_text

        error.add_note(f"while evaluating {node_text(node, node_names(graph))}")
        raise


def _unshared(array: np.ndarray, taken: set[int]) -> np.ndarray:
    """The array, or a packed copy if its memory belongs to something else."""
    if id(array) in taken or not (array.flags.owndata and array.flags.c_contiguous):
        array = np.array(array, order="C")
    taken.add(id(array))
    return array
