"""A recording once more, with symbols for numbers: what rules are run on to know them for any size (`sizes`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from codegen.ir import Aval
from codegen.symbols import Symbol, SymbolicFloat

from .families import is_count
from .node import CONSTANT, Kind, Node, Out, data_node, leaf_kind, out_of, rich_node

__all__ = ["with_symbols"]


def with_symbols(parts: Sequence[Any], order: Sequence[Node], numbers: Iterator[int]) -> dict[Node, Node]:
    """For each node of a recording one that has the next of these numbers for its own."""
    new: dict[Node, Node] = {}
    for part, node in zip(parts, order, strict=True):
        kind = part[0] if type(part) is tuple else part
        is_given = type(kind) is Out
        wiring = () if is_given else part[2:] if type(node) is Node else part[5:]
        inputs = tuple([new[order[i]] for i in wiring])
        kind = _kind_of_given(node, numbers) if is_given else _kind_with(kind, inputs, numbers)
        # A value stands for one: whatever looks at it is found out.
        if type(node) is Node:
            twin = data_node(kind, node.value)
            twin.inputs = inputs
        else:
            twin = rich_node(kind, inputs, node.value, leaf=node.leaf)
        new[node] = twin
    return new


def _kind_of_given(node: Node, numbers: Iterator[int]) -> Kind:
    out = node.kind.out
    shape = tuple([next(numbers) for _ in out.shape])
    return leaf_kind(out_of(Aval(shape, out.aval.dtype), out.requires_grad)) if _has_symbols(shape) else node.kind


def _kind_with(kind: Kind, inputs: Sequence[Node], numbers: Iterator[int]) -> Kind:
    """The kind of an operation with other numbers, on these inputs."""
    op, out = kind.op, kind.out
    if op is CONSTANT:
        value, dtype = kind.params
        if not is_count(value):
            return kind
        number = next(numbers)
        if type(number) is not Symbol:
            return kind
        value = SymbolicFloat(number)
        value.count = number
        return Kind(op, (value, dtype), out)
    params = tuple([_filled(p, numbers) for p in kind.params])
    avals = [i.kind.out.aval for i in inputs]
    if not any([_has_symbols(a.shape) for a in avals]) and not _has_symbols(params):
        return kind
    aval = op.infer(*avals, **op.keywords(params))
    return Kind(op, params, out_of(aval, out.requires_grad, out.weak))


def _filled(value: Any, numbers: Iterator[int]) -> Any:
    if type(value) is int:
        return next(numbers)
    return tuple([_filled(v, numbers) for v in value]) if type(value) is tuple else value


def _has_symbols(value: Any) -> bool:
    if type(value) is tuple:
        return any([_has_symbols(v) for v in value])
    return type(value) is Symbol
