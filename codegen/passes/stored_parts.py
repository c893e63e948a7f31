"""Values whose parts are stored in one memory: the two of complex numbers, and those of a long concatenation.

Complex numbers become pairs of real ones: from here on the compiler sees nothing else.

    y: c128[n] = mul(x, w)          x.re = part(x), ...         y.re = mul_re(x.re, x.im, w.re, w.im), ...

What is in memory is an array of one more axis, of two: f64[n,2], the same bytes.  There the parts of inputs are read,
every second number; an output, and what the host or a loop reads, is a `pair` of its parts.  Bodies of loops and
branches are graphs like any other: their states are such pairs.  An operation that has no formula is computed by
NumPy, whose arrays are complex again.

The graph of the parts is made by `complex_parts`, elementwise ones by the table of `kernel.complex_formulas`.

Of concatenations of many parts, what computes a part stores it where it goes:

    y: f64[300,16] = concatenate(a, b, ...)      element i of b is element 16 + i of y

A loop over y would choose among all parts for each element.  Where the parts lie in y with one stride, they are stored
there by whatever kernels compute them, as the parts of a pair are; and nothing is left to do.
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

#: Nothing of its own to do: what computes the parts stores them where this lies (`kernel.elements`).
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


def seen(memory: Aval, dtype: Any) -> Aval:
    """The aval of memory as its owner sees it: that of a complex dtype has one axis less."""
    return Aval(memory.shape[:-1], dtype) if dtype in REALS else memory


def is_complex(node: Node) -> bool:
    """True if a node's numbers are complex."""
    return node.aval.dtype in REALS


def has_complex(nested: Nested) -> bool:
    """True if a loop or branch computes with complex numbers inside."""
    return any(map(needs_parts, graphs(nested).values()))


# ---------------------------------------------------------------- concatenations of many parts


#: Fewer parts are chosen among: then what reads the whole can be computed in the same loop.
_MANY = 8


#: `concatenate`, its parts stored in its memory.
JOIN = internal("join", Call(), ("axis",))


def as_join(node: Node) -> Node:
    """A concatenation of many parts as one that is only stored; any other node as it is."""
    if node.op.name != "concatenate" or len(node.inputs) < _MANY or node.aval.dtype.kind == "c":
        return node
    (axis,) = node.params
    shapes = [node.aval.shape, *[i.aval.shape for i in node.inputs]]
    # Symbols would be different numbers for each size of a family: where parts begin is text of the kernels.
    if any([type(n) is not int for shape in shapes for n in shape]) or 0 in node.aval.shape:
        return node
    if prod(node.aval.shape[:axis]) > 1 and any([prod(shape[axis:]) != 1 for shape in shapes[1:]]):
        return node
    return Node(JOIN, node.inputs, node.params, node.aval)


def placed_parts(graph: Graph) -> dict[Node, tuple[Node, int, int, bool]]:
    """For each value that is a part of another's memory: that one, the stride and place of its elements, and False."""
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
