"""Concatenations of many parts: what computes a part stores it where it goes.

    y: f64[300,16] = concatenate(a, b, ...)      element i of b is element 16 + i of y

A loop over y would choose among all parts for each element.  Where the parts lie in y with one stride, they are stored
there by whatever kernels compute them, as the parts of a pair are; and nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from ..ir import Aval, Graph, Node
from ..ir.op import Op
from ..lowering import Call
from .complex import PAIR

__all__ = ["JOIN", "as_join", "placed_parts"]

#: Fewer parts are chosen among: then what reads the whole can be computed in the same loop.
_MANY = 8


def _no_rule(*_avals: Any, **_params: Any) -> Aval:
    raise AssertionError("made by a pass, which knows the aval")


#: `concatenate`, its parts stored in its memory.
JOIN = Op("join", infer=_no_rule, reference=None, lower=Call(), params=("axis",))


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


def placed_parts(graph: Graph) -> dict[Node, tuple[Node, int, int]]:
    """For each value that is stored in the memory of another: that one, and the stride and place of its elements."""
    return {part: place for node in graph.nodes for part, place in _parts(node)}


def _parts(node: Node) -> Iterator[tuple[Node, tuple[Node, int, int]]]:
    if node.op is PAIR:
        for j, part in enumerate(node.inputs):
            yield part, (node, 2, j)
    elif node.op is JOIN:
        (axis,) = node.params
        shape = node.aval.shape
        stride = 1 if prod(shape[:axis]) == 1 else prod(shape[axis:])
        first = 0
        for part in node.inputs:
            yield part, (node, stride, first)
            first += prod(part.aval.shape[axis:])
