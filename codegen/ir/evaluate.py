"""The evaluator, which defines the meaning of a graph by the NumPy reference of each operation.

Tests compare all later stages with it.  It also computes single nodes at compile time
(`codegen.passes.rewrites`) and while debugging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..blas import one_thread
from ..garbage import ignoring
from . import aval as avals
from .aval import Aval, aval_of
from .graph import Graph, Node, node_names, node_text
from .op import Op

#: Functions to call with an error that a reference raised inside machine code, through which no exception passes.
error_observers: list[Callable[[Exception], None]] = []

#: Traits of operations whose result does not depend on the memory layout of their inputs.
ANY_LAYOUT = frozenset(("elementwise", "move"))
#: Traits of operations whose references run other graphs, or Python code of the user.
_RUNS_OTHER_CODE = frozenset(("regions", "host"))


class OutOfRange(IndexError):
    """Raised for an index outside its axis; nothing was read or written there.

    which   the operation, the index and the extent, or "" if they are unknown
    """

    def __init__(self, message: str, which: str = "") -> None:
        super().__init__(message)
        self.which = which


def evaluate(graph: Graph, *arrays) -> tuple[np.ndarray, ...]:
    """The outputs of the graph for these inputs, as packed arrays that share no memory with any other array.

    arrays   one array (or number) per input, of exactly its aval

    Nodes that no output needs are not computed; a value is dropped after its last reader.
    nan, inf and overflow pass silently, as in compiled code.
    Raises TypeError for the wrong number of arrays, ValueError for an array of another aval, OutOfRange for an
    index; any other error of a reference keeps its type.  Each error gets a note that shows the node.
    """
    last = _last_readers(graph)
    given = _checked(graph, arrays)
    values = dict(zip(graph.inputs, given, strict=True))
    with ignoring(all="ignore"), one_thread():
        for node in graph.nodes:
            if node not in last:
                continue
            try:
                values[node] = evaluate_op(node.op, node.params, node.aval, [values[i] for i in node.inputs])
            except Exception as error:
                error.add_note(f"while evaluating {node_text(node, node_names(graph))}")
                raise
            for i in set(node.inputs):
                if last[i] is node:
                    del values[i]
    taken = {id(array) for array in given}  # an output may be an input, a view of one, or equal to another output
    return tuple([copy_if_shared(values[node], taken) for node in graph.outputs])


def evaluate_node(node: Node, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The value of one node for these values of its inputs."""
    with ignoring(all="ignore"):
        return evaluate_op(node.op, node.params, node.aval, arrays)


def evaluate_op(op: Op, params: tuple, aval: Aval, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The value of an operation on these operands by its reference, with exactly this aval.

    The reference may compute in another dtype (np.sum of int32 gives int64): the value is cast to that of the aval.
    Reductions and products get packed arrays, since NumPy adds up in the order of memory: the value of a
    node then depends only on the values of its inputs, not on their layout.
    """
    reference = op.reference
    assert reference is not None, f"{op.name} has no reference"
    try:
        given = [np.asarray(array, order="C") for array in arrays] if ANY_LAYOUT.isdisjoint(op.traits) else arrays
        found = reference(*given, **dict(zip(op.params, params, strict=True)))
    except Exception as error:
        told = clearer_error(error, op, aval)
        if told is not None:
            raise told from None
        raise
    array = np.asarray(found, aval.dtype)
    if array.shape != aval.shape:  # machine code reads as many elements as the aval says
        raise AssertionError(f"{op.name}: the shape rule says {aval}, the reference gave {aval_of(np.asarray(found))}")
    return array


def clearer_error(error: Exception, op: Op, aval: Aval) -> Exception | None:
    """A clearer error to raise instead, which names the operation and its index or bytes; None if there is none."""
    if type(error) is IndexError and _RUNS_OTHER_CODE.isdisjoint(op.traits):
        return OutOfRange("an index is out of range", f"{op.name}: {error}")
    if isinstance(error, MemoryError) and type(error) is not MemoryError and "host" not in op.traits:  # by NumPy
        what = f"{aval.nbytes} bytes of {aval}, the result of {op.name}"
        return MemoryError(f"no memory for {what}{avals.called_at()}")
    return None


def _checked(graph: Graph, arrays: Sequence) -> list[np.ndarray]:
    if len(arrays) != len(graph.inputs):
        raise TypeError(f"evaluate: graph {graph.name} takes {len(graph.inputs)} arrays, got {len(arrays)}")
    found = [np.asarray(array) for array in arrays]
    for position, (node, array) in enumerate(zip(graph.inputs, found, strict=True)):
        if array.shape != node.aval.shape or array.dtype != node.aval.dtype:
            raise ValueError(f"evaluate: input {position} of graph {graph.name} is {node.aval}, got {aval_of(array)}")
    return found


def _last_readers(graph: Graph) -> dict[Node, Node | None]:
    """For each input and node that the outputs need, its last reader; None for an output, which is never dropped."""
    last: dict[Node, Node | None] = dict.fromkeys(graph.outputs)
    for node in reversed(graph.nodes):
        if node in last:
            for i in node.inputs:
                last.setdefault(i, node)
    return last


def copy_if_shared(array: np.ndarray, taken: set[int]) -> np.ndarray:
    """The array, or a packed copy if it is a view, is not packed, or is in `taken`; adds the result to `taken`."""
    if id(array) in taken or not (array.flags.owndata and array.flags.c_contiguous):
        try:
            array = np.array(array, order="C")
        except MemoryError:
            what = f"{array.nbytes} bytes of a result, {aval_of(array)}"
            raise MemoryError(f"no memory for {what}{avals.called_at()}") from None
    taken.add(id(array))
    return array
