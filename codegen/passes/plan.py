"""Planning: an optimised graph becomes a program of steps and buffers.

    recur     gives each result of a loop or branch a node           prepare   removes the special cases of later stages
    drafts    groups operations and builds a kernel for each group   storage   assigns a buffer to each value
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from ..ir import Aval, Graph, Node, inherit
from ..kernel.edges import Axes, Probed
from ..lazily import later
from ..program import BufferProgram, Step
from ..symbols import is_watched
from .pipeline import optimize
from .prepare import prepare
from .recur import split_results
from .rewrites import products_to_sums, scatters_to_selects
from .storage import place_buffers
from .stored_parts import caller_aval, needs_parts

if TYPE_CHECKING:
    from . import complex_parts, drafts
else:
    complex_parts = later("codegen.passes.complex_parts")  # only graphs with complex numbers need it
    drafts = later("codegen.passes.drafts")


def by_parts(graph: Graph) -> Graph:
    """The graph with complex numbers split into real parts; the same object if the graph has none."""
    return complex_parts.split(graph) if needs_parts(graph) else graph


#: The rewrites of an optimised graph before it is prepared and fused, in order.
REWRITES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("separate", split_results),
    ("by_parts", by_parts),
    ("choose", scatters_to_selects),
    ("inner", products_to_sums),
)


def rewritten(graph: Graph) -> list[tuple[str, Graph]]:
    """The name of each rewrite and the graph after it.  The last entry, "prepare", is the graph that fusion gets."""
    found = []
    for name, rewrite in REWRITES:
        graph = rewrite(graph)
        found.append((name, graph))
    return [*found, ("prepare", prepare(graph, Probed(Axes())).graph)]


def plan(
    graph: Graph, prefix: str = "k", *, is_body: bool = False, bodies: dict[Any, BufferProgram] | None = None
) -> BufferProgram:
    """The program that computes a graph.  Nodes that no output needs are not computed.

    prefix    the beginning of each kernel's name, also of kernels in the bodies of loops
    is_body   True for the body of a loop or branch, which runs inside a step, perhaps many times
    bodies    programs of bodies already planned, by graph shape: the derivative of nested loops repeats many bodies
    """
    graph = original = inherit(graph, Graph.of(graph.inputs, graph.outputs, graph.name), {})
    for _, rewrite in REWRITES:
        graph = rewrite(graph)
    probed = Probed(Axes())
    prepared = prepare(graph, probed)
    planner = functools.partial(_body_planner, {} if bodies is None else bodies)
    steps, shares = drafts.drafted(prepared, probed, prefix, planner)
    if is_body:
        from .nests import merged  # imported only for the bodies of loops and branches

        steps = merged(steps)
    ends = prepared.graph
    avals: dict[Hashable, Aval] = {v: v.aval for v in (*ends.inputs, *ends.outputs)}
    avals.update({v: v.aval for _, values in steps for v in values})
    buffers, numbers, size = place_buffers(ends, avals, [values for _, values in steps])
    return BufferProgram(
        name=original.name,
        buffers=buffers,
        steps=tuple([Step(w, tuple([numbers[v] for v in vs]), vs) for w, vs in drafts.for_any_extent(steps)]),
        inputs=_caller_avals(ends.inputs, original.inputs),
        outputs=_caller_avals(ends.outputs, original.outputs),
        workspace_bytes=size,
        graph=original,
        drawn=ends,
        shares=shares,
    )


def _caller_avals(memory: tuple[Node, ...], nodes: tuple[Node, ...]) -> tuple[Aval, ...]:
    """The avals of inputs or outputs as the caller sees them: complex arrays, not the pairs stored in memory."""
    return tuple([caller_aval(m.aval, node.aval.dtype) for m, node in zip(memory, nodes, strict=True)])


def _body_planner(bodies: dict[Any, BufferProgram], prefix: str) -> drafts.BodyPlanner:
    """A function that plans the bodies of one loop or branch; their kernels' names begin with `prefix` and a letter."""

    def planner(body: Graph, letter: str) -> BufferProgram:
        key = None if is_watched() or any([n.origins for n in body.nodes]) else body.key
        found = bodies.get(key)
        if found is None:
            found = plan(optimize(body), prefix + letter, is_body=True, bodies=bodies)
            if key is not None:
                bodies[key] = found
        return found

    return planner
