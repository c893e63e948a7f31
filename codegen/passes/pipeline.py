"""The graph passes, and the order in which they run.

    recorded graph  ->  optimize  ->  fusion and storage (`codegen.compiler`)

Each pass is a function `Graph -> Graph`.  A pass keeps the inputs, the outputs and the values of the outputs; it is
idempotent; and it returns the same `Graph` object that it was given when it changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import cycle, islice

from ..ir import Graph, VerifyError, verify
from .rewrites import cse, dce, fold
from .simplify import simplify
from .windows import windows

#: The passes, in the order in which they run.  The sequence repeats until no pass changes the graph.
PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("fold", fold),            # first, since the rewrites of `simplify` look for constants
    ("simplify", simplify),    # leaves nodes that nothing reads, for `dce`
    ("windows", windows),      # makes sums, which the next round may simplify
    ("cse", cse),              # replaces equal nodes by one
    ("dce", dce),
)

#: The most rounds of all passes.  Two or three suffice; the bound ends the loop if a faulty rewrite never settles.
ROUNDS = 8


def optimize(graph: Graph) -> Graph:
    """The graph after all passes.

    With AUTODIFF_VERIFY=1 in the environment (and without python -O) the graph is verified before and after the
    passes, and its inputs and outputs are compared.  Raises VerifyError if a check fails.
    """
    checked = __debug__ and os.environ.get("AUTODIFF_VERIFY") == "1"
    if checked:
        verify(graph)
    result = stages(graph)[-1][1]
    if checked:
        verify(result)
        if graph.inputs != result.inputs or [o.aval for o in graph.outputs] != [o.aval for o in result.outputs]:
            raise VerifyError(f"passes changed the inputs or the avals of outputs of graph {graph.name}")
    return result


def stages(graph: Graph) -> list[tuple[str, Graph]]:
    """The stages of `optimize`, for inspection: each pass that ran, in order, and the graph after it.

    The entry of a pass that changed nothing holds the same `Graph` object as the entry before it.
    """
    found = []
    at_rest = 0  # the number of passes in a row that would not change the current graph
    for name, run in islice(cycle(PASSES), ROUNDS * len(PASSES)):
        after = run(graph)
        # A pass is idempotent: the pass that has just changed the graph counts as the first one at rest.
        at_rest = at_rest + 1 if after is graph else 1
        graph = after
        found.append((name, graph))
        if at_rest == len(PASSES):
            break
    return found
