"""Loops: operations lowered by `Loop` become steps that run a program of their own again and again.

A recorded loop gives all results of a dtype in one vector, and parts are taken out of that.  Here each part
becomes a value of its own, and all results of one loop are made by one step:

    a: f32[72] = scan(c, x, w)                 loop(c, x, w) -> b, d
    b: f32[8]  = unpack(a, start=0, ...)
    d: f32[8,8] = unpack(a, start=8, ...)

A vector that is wanted as a whole (it is an output) stays one, and the step writes into it.  Arrays that a loop goes
through, which are parts of a vector that is there, are read where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..ir import Aval, Graph, Node
from ..ir.op import Op
from ..lowering import Call, Loop, Recurrence
from ..program import Loop as Work
from ..program import Place, Program
from ..records import replace
from .pipeline import optimize

__all__ = ["RESULT", "draft_loop", "results_together", "separate"]


def _no_rule(*_avals: Any, **_params: Any) -> Aval:
    raise AssertionError("made by a pass, which knows the aval")


#: One result of a loop, by its number; or (None) all of the node's dtype, as a vector.  `starts`: where the arrays
#: that it goes through begin.
RESULT = Op("loop", infer=_no_rule, reference=None, lower=Call(), params=("recurrence", "starts", "number"))

#: Memory of a step for itself.
_WORKSPACE = Op("workspace", infer=_no_rule, reference=None, lower=None)


def separate(graph: Graph) -> Graph:
    """The graph with results of loops instead of the parts of their vectors; the very graph where there is no loop."""
    loops = [n for n in graph.nodes if isinstance(n.op.lower, Loop) and not _is_complex(n)]
    if not loops:
        return graph
    readers = graph.readers()
    whole = {n for n in loops if n in graph.outputs or any("part" not in r.op.traits for r in readers[n])}
    recurrences = {n: n.op.lower.recurrence(**n.keywords) for n in loops}
    trimmed: dict[Recurrence, tuple[Recurrence, list[int]]] = {}
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        inputs = [new.get(i, i) for i in node.inputs]
        if node in recurrences:
            # Where nothing reads the vector as a whole, this only holds the inputs for its parts.
            whole_loop = recurrences[node]
            if whole_loop not in trimmed:
                trimmed[whole_loop] = _trimmed(whole_loop)
            recurrences[node], reads = trimmed[whole_loop]
            read, starts = _in_place(recurrences[node], [inputs[k] for k in reads])
            new[node] = Node(RESULT, read, (recurrences[node], starts, None), node.aval)
        elif "part" in node.op.traits and node.inputs[0] in recurrences and node.inputs[0] not in whole:
            new[node] = _result(recurrences[node.inputs[0]], inputs[0], node)
        elif any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            new[node] = Node(node.op, inputs, node.params, node.aval)
    return Graph.of(graph.inputs, [new.get(o, o) for o in graph.outputs], graph.name)


def _in_place(recurrence: Recurrence, inputs: list[Node]) -> tuple[list[Node], tuple[int, ...]]:
    """The inputs with vectors instead of the parts of them that the loop goes through, and where these begin."""
    starts = [0] * recurrence.scanned
    for j in range(recurrence.scanned):
        part = inputs[recurrence.carried + j]
        if "part" in part.op.traits:
            starts[j] = part.keywords["start"]
            (inputs[recurrence.carried + j],) = part.inputs
    return inputs, tuple(starts)


def _trimmed(recurrence: Recurrence) -> tuple[Recurrence, list[int]]:
    """The loop without the inputs that its body does not read, and the numbers of those that stay."""
    body = optimize(recurrence.body)
    read = {i for node in body.nodes for i in node.inputs} | set(body.outputs)
    split = recurrence.carried + recurrence.scanned
    stays = [k for k, i in enumerate(body.inputs) if k < recurrence.carried or i in read]
    body = Graph([body.inputs[k] for k in stays], body.nodes, body.outputs, body.name)
    scanned = sum(recurrence.carried <= k < split for k in stays)
    return replace(recurrence, body=body, scanned=scanned), stays


def _is_complex(node: Node) -> bool:
    """Complex arrays are for the host."""
    return any(x.aval.dtype.kind == "c" for x in (node, *node.inputs))


def _result(recurrence: Recurrence, vector: Node, part: Node) -> Node:
    """The result that a part of the vector is."""
    start = part.keywords["start"]
    found = zip(recurrence.results, recurrence.starts(), strict=True)
    number = next(k for k, (aval, first) in enumerate(found) if aval == part.aval and first == start)
    return Node(RESULT, vector.inputs, (*vector.params[:2], number), part.aval)


def results_together(nodes: Iterable[Node]) -> dict[Node, tuple[Node, ...]]:
    """For the first result of each loop all of them, in the order of the nodes; for the others nothing."""
    groups: dict[Any, list[Node]] = {}
    for node in nodes:
        if node.op is RESULT:
            groups.setdefault((node.params[:2], node.inputs), []).append(node)
    return {n: tuple(group) if n is group[0] else () for group in groups.values() for n in group}


def draft_loop(results: tuple[Node, ...], plan: Callable[[Graph], Program]) -> tuple[Work, tuple[Node, ...]]:
    """The step that makes all these results of one loop, and the values it works on.

    plan    makes the program of the body
    """
    recurrence: Recurrence = results[0].params[0]
    starts: tuple[int, ...] = results[0].params[1]
    inputs = results[0].inputs
    places: list[Place | None] = [None] * len(recurrence.results)
    for number, node in enumerate(results, len(inputs)):
        for k, start in _filled(recurrence, node):
            places[k] = (number, start)
    carried, outputs = recurrence.carried, recurrence.body.outputs
    given, befores = places[carried : len(outputs)], places[len(outputs) :]
    wanted = [output for output, place in zip(outputs[carried:], given, strict=True) if place is not None]
    body = Graph.of(recurrence.body.inputs, [*outputs[:carried], *wanted], recurrence.body.name)
    work = Work(
        body=plan(body),
        length=recurrence.length,
        carried=carried,
        starts=starts,
        is_reversed=recurrence.is_reversed,
        lasts=tuple(places[:carried]),
        stacks=tuple([p for p in given if p is not None]),
        befores=tuple(befores) if recurrence.keeps else (None,) * carried,
    )
    workspace = Node(_WORKSPACE, (), (), Aval((work.room()[1],), np.dtype(np.bool_)))
    return work, (*inputs, *results, workspace)


def _filled(recurrence: Recurrence, node: Node) -> list[tuple[int, int]]:
    """Which results lie in a value, and where they begin."""
    number = node.params[2]
    if number is not None:
        return [(number, 0)]
    found = enumerate(zip(recurrence.results, recurrence.starts(), strict=True))
    return [(k, start) for k, (aval, start) in found if aval.dtype == node.aval.dtype]
