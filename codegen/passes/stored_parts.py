"""Values stored in one buffer by parts: the two parts of complex numbers, and the parts of a long concatenation.

Complex numbers become pairs of real ones: later stages of the compiler see no complex dtype.

    y: c128[n] = mul(x, w)          x.re = part(x), ...         y.re = mul_re(x.re, x.im, w.re, w.im), ...

A complex array is stored as a real array with one more axis, of extent 2: f64[n,2] has the bytes of c128[n].  Parts of
an input are read from that array, every second number; an output, and an operand of a host call or a loop, is a `pair`
of its parts.  Bodies of loops and branches are split in the same way: their states are such pairs.  An operation
without a formula is computed by NumPy, on complex arrays over the same memory.

`complex_parts` makes the graph of the parts; `kernel.complex_formulas` has the formulas of elementwise operations.

The kernel that computes a part of a long concatenation stores the part in the memory of the result:

    y: f64[300,16] = concatenate(a, b, ...)      element i of b is element 16 + i of y

A loop over y would choose among all parts for each element.  If each part lies in y with one stride, the kernel that
computes the part stores it there, as with the parts of a pair, and the concatenation needs no step.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ..ir import Aval, Graph, Node
from ..ir.op import Op, internal
from ..lowering import Call
from ..nested import Nested, graphs
from .recur import RESULT

#: The dtype of the parts of a complex dtype.
REALS: dict[Any, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64),
}  # fmt: skip

#: The operation that interleaves two parts.  It needs no step: the kernels of the parts store into its memory.
PAIR = Op(
    "pair",
    infer=lambda re, im: re.with_shape((*re.shape, 2)),
    reference=None,
    lower=Call(),
)


def needs_parts(graph: Graph) -> bool:
    """True if a graph computes with complex numbers, or a loop or branch in it does."""
    inside = any([node.op is RESULT and has_complex(node.params[0]) for node in graph.nodes])
    return inside or any(map(is_complex, (*graph.inputs, *graph.nodes)))


def caller_aval(memory: Aval, dtype: Any) -> Aval:
    """The aval of an array as the caller sees it, from that in memory: a complex dtype replaces the last axis."""
    return Aval(memory.shape[:-1], dtype) if dtype in REALS else memory


def is_complex(node: Node) -> bool:
    """True if a node's numbers are complex."""
    return node.aval.dtype in REALS


def has_complex(nested: Nested) -> bool:
    """True if a loop or branch computes with complex numbers inside."""
    return any(map(needs_parts, graphs(nested).values()))


# ---------------------------------------------------------------- concatenations of many parts


#: The fewest parts of a join.  A loop chooses among fewer parts per element, so that readers can be fused with it.
_LEAST_PARTS = 8


#: A `concatenate` whose parts are stored into its memory.
JOIN = internal("join", Call(), ("axis",))


def as_join(node: Node) -> Node:
    """A join for a concatenation of many parts; any other node unchanged."""
    if node.op.name != "concatenate" or len(node.inputs) < _LEAST_PARTS or node.aval.dtype.kind == "c":
        return node
    (axis,) = node.params
    shapes = [node.aval.shape, *[i.aval.shape for i in node.inputs]]
    # No join for symbolic extents: the offsets of parts are constants in the text of kernels.
    if any([type(n) is not int for shape in shapes for n in shape]) or 0 in node.aval.shape:
        return node
    if prod(node.aval.shape[:axis]) > 1 and any([prod(shape[axis:]) != 1 for shape in shapes[1:]]):
        return node
    return Node(JOIN, node.inputs, node.params, node.aval)


def placed_parts(graph: Graph) -> dict[Node, tuple[Node, int, int, bool]]:
    """For each part of a pair or join: the pair or join, the stride and offset of the part in its memory, and False."""
    return {part: place for node in graph.nodes for part, place in _parts(node)}


def _parts(node: Node) -> Iterator[tuple[Node, tuple[Node, int, int, bool]]]:
    if node.op is PAIR:
        for j, part in enumerate(node.inputs):
            yield part, (node, 2, j, False)
    elif node.op is JOIN:
        (axis,) = node.params
        shape = node.aval.shape
        stride = 1 if prod(shape[:axis]) == 1 else prod(shape[axis:])
        first = 0
        for part in node.inputs:
            yield part, (node, stride, first, False)
            first += prod(part.aval.shape[axis:])
