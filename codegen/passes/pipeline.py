"""The graph passes, in order, on one page.

    recorded graph  ->  optimize  ->  fusion and storage (`codegen.compiler`)

Each pass is a function `Graph -> Graph` that keeps inputs, outputs and their meaning, is idempotent,
and returns the very graph it got when it has nothing to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import cycle, islice

from ..ir import Graph, VerifyError, verify
from .rewrites import cse, dce, fold
from .simplify import simplify
from .windows import windows

#: In this order, again and again until none has anything to do.
PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("fold", fold),            # constants first: rewrites look for them
    ("simplify", simplify),    # leaves nodes unread
    ("windows", windows),      # makes sums, which may be simple
    ("cse", cse),              # makes equal nodes one
    ("dce", dce),
)

#: Passes over a graph come to rest in two or three rounds; a bound keeps a mistake in a rewrite finite.
ROUNDS = 8


def optimize(graph: Graph) -> Graph:
    """The graph after all passes.

    With AUTODIFF_VERIFY=1 in the environment (and without python -O) the graph is verified before
    and after, and its interface compared.  Raises VerifyError then.
    """
    checked = __debug__ and os.environ.get("AUTODIFF_VERIFY") == "1"
    if checked:
        verify(graph)
    result = stages(graph)[-1][1]
    if checked:
        verify(result)
        _verify_interface(graph, result)
    return result


def stages(graph: Graph) -> list[tuple[str, Graph]]:
    """The stages of `optimize`, to look at: each pass that ran, in order, and the graph after it.

    A pass that had nothing to do gives the same object as the one before it.
    """
    found = []
    at_rest = 0  # passes in a row that have nothing to do with the graph as it is
    for name, run in islice(cycle(PASSES), ROUNDS * len(PASSES)):
        after = run(graph)
        # A pass is idempotent: right after itself it has nothing to do.
        at_rest = at_rest + 1 if after is graph else 1
        graph = after
        found.append((name, graph))
        if at_rest == len(PASSES):
            break
    return found


def _verify_interface(before: Graph, after: Graph) -> None:
    if before.inputs != after.inputs or [o.aval for o in before.outputs] != [o.aval for o in after.outputs]:
        raise VerifyError(f"passes changed the inputs or the avals of outputs of graph {before.name}")
