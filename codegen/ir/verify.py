"""The verifier: checks the form of a graph, and that every node has the aval its operation infers.

It calls the shape rules of the operations, so it repeats nothing about any operation.
"""

from __future__ import annotations

from typing import NoReturn

from .aval import Aval
from .graph import Graph, Node, Region, node_names, node_text
from .op import INPUT


class VerifyError(ValueError):
    """Raised for a graph that breaks a rule of the IR.  The message shows the node as it prints."""


def verify(graph: Graph) -> None:
    """Check a graph; return nothing.

    Raises VerifyError when an input is not an `input` node, a node or input is listed twice, an operand
    or output is not defined (before its use), the parameters are not as many as the operation has or not
    hashable, operands do not fit the operation, or the aval of a node is not the inferred one.
    """
    defined: set[Node] = set()
    for node in graph.inputs:
        if node.op is not INPUT:
            _fail(graph, node, "stands among the inputs and is no `input` node")
        if node in defined:
            _fail(graph, node, "stands twice among the inputs")
        defined.add(node)
    for node in graph.nodes:
        _verify_node(graph, node, defined)
        defined.add(node)
    for position, node in enumerate(graph.outputs):
        if node not in defined:
            _fail(graph, node, f"is output {position} and is not defined in the graph")


def _verify_node(graph: Graph, node: Node, defined: set[Node]) -> None:
    if node in defined:
        _fail(graph, node, "stands twice")
    if node.op is INPUT:
        _fail(graph, node, "is an input and stands among the nodes")
    for position, operand in enumerate(node.inputs):
        if operand not in defined:
            _fail(graph, node, f"reads operand {position} ({operand.op.name}: {operand.aval}) before it is defined")
    if len(node.params) != len(node.op.params):
        _fail(graph, node, f"has {len(node.params)} parameters; {node.op.name} has {len(node.op.params)}")
    try:
        hash(node.params)
    except TypeError as error:
        _fail(graph, node, f"has a parameter that cannot be part of a key: {error}", error)
    for region in node.params:
        if isinstance(region, Region):
            verify(region.graph)
    inferred = _inferred(graph, node)
    if inferred != node.aval:
        _fail(graph, node, f"is recorded as {node.aval}, and its operands give {inferred}")


def _inferred(graph: Graph, node: Node) -> Aval:
    try:
        return node.op.infer(*[i.aval for i in node.inputs], **node.keywords)
    except Exception as error:  # a shape rule may raise any exception
        _fail(graph, node, f"has operands that do not fit: {error}", error)


def _fail(graph: Graph, node: Node, what: str, cause: Exception | None = None) -> NoReturn:
    names = node_names(graph)
    operands = ", ".join(f"{names.get(i, '?')}: {i.aval}" for i in node.inputs)
    where = f"\n  with {operands}" if operands else ""
    raise VerifyError(
        f"{names.get(node, '?')} of graph {graph.name} {what}\n  {node_text(node, names)}{where}"
    ) from cause
