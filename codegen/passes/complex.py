"""Complex numbers become pairs of real ones: from here on the compiler sees nothing else.

    y: c128[n] = mul(x, w)          x.re = part(x), ...         y.re = mul_re(x.re, x.im, w.re, w.im), ...

What is in memory is an array of one more axis, of two: f64[n,2], the same bytes.  There the parts of inputs are read,
every second number; an output, and what the host or a loop reads, is a `pair` of its parts.  Bodies of loops and
branches are graphs like any other: their states are such pairs.  An operation that has no formula is computed by
NumPy, whose arrays are complex again.

    complex                    whether there are any, and what every plan asks
    complex_parts              the graph of the parts
    kernel.complex_formulas    elementwise operations: the real and the imaginary part of each
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Aval, Graph, Node
from ..ir.op import Op
from ..lowering import Call
from ..nested import Nested
from .recur import RESULT

__all__ = ["PAIR", "REALS", "has_complex", "is_complex", "needs_parts", "seen"]

#: The dtype of the parts of a complex dtype.
REALS: dict[Any, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64),
}  # fmt: skip

#: Nothing of its own to do: what computes the parts stores them where this lies (`kernel.elements`).
PAIR = Op(
    "pair",
    infer=lambda re, im: re.with_shape((*re.shape, 2)),
    reference=lambda re, im: np.stack([re, im], axis=-1),
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
    return any(map(needs_parts, nested.graphs.values()))
