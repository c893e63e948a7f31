"""The steps of loops and branches: which programs run, and where their inputs and results lie.

    results of one operation  ->  Loop, Branch or While, and the values that the step works on
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from ..ir import Aval, Graph, Node, inherit
from ..ir.op import Op
from ..nested import Nested, NestedBranch, Recurrence, Repetition, Retreat
from ..program import Branch, BufferProgram, Loop, Place, Run, While
from .rebuild import inlined

__all__ = ["draft_nest"]

#: What makes the program of a graph.  Kernels of two graphs of one step differ in a letter of their names.
Planner = Callable[[Graph, str], BufferProgram]


def _no_rule() -> Aval:
    raise AssertionError("made by a pass, which knows the aval")


#: Memory of a step for itself.
_WORKSPACE = Op("workspace", infer=_no_rule, reference=None, lower=None)


def draft_nest(results: tuple[Node, ...], plan: Planner) -> tuple[object, tuple[Node, ...]]:
    """The step that makes all these results of one operation, and the values it works on."""
    nested: Nested = results[0].params[0]
    inputs = results[0].inputs
    reads = list(enumerate(results[0].params[1]))
    places: list[Place | None] = [None] * len(nested.results)
    for number, node in enumerate(results, len(inputs)):
        for k, start in _filled(nested, node):
            places[k] = (number, start)
    work, room = _draft(nested, reads, places, plan)
    workspace = Node(_WORKSPACE, (), (), Aval((room,), np.dtype(np.bool_)))
    return work, (*inputs, *results, workspace)


def _filled(nested: Nested, node: Node) -> list[tuple[int, int]]:
    """The results that lie in a value, and where they begin."""
    number = node.params[2]
    if isinstance(number, tuple):
        sizes = [nested.results[k].size for k in number]
        return list(zip(number, accumulate(sizes, initial=0), strict=False))
    if number is not None:
        return [(number, 0)]
    found = enumerate(zip(nested.results, nested.starts(), strict=True))
    return [(k, start) for k, (aval, start) in found if aval.dtype == node.aval.dtype]


def _draft(
    nested: Nested, reads: list[Place], places: list[Place | None], plan: Planner
) -> tuple[Loop | Branch | While, int]:
    """The step, and how large its workspace is."""
    match nested:
        case Recurrence():
            loop = _loop(nested, reads, places, plan)
            return loop, loop.room()[1]
        case NestedBranch(yes, no):
            chosen, *rest = reads
            given = tuple([p for p in places if p is not None])
            runs = [Run(plan(_wanting(body, places), letter), tuple(rest), given)
                    for body, letter in ((yes, "y"), (no, "n"))]
            branch = Branch(len(reads), chosen, *runs)
            return branch, branch.room()
        case Repetition():
            repeat = _while(nested, reads, places, plan)
            return repeat, repeat.room()[2]
        case Retreat(back=body):
            forwards, values = nested.forwards, len(body.outputs)
            split = forwards + values
            scanned = [(0, 0)] * nested.carried  # known only when it runs
            over = Recurrence(body, values, nested.carried, 1, True, False)
            back = _loop(over, [*reads[forwards:split], *scanned, *reads[nested.carried : forwards]], places, plan, "b")
            repeat = _while(nested, reads, [None] * nested.carried, plan, back)
            return repeat, repeat.room()[2]
    raise AssertionError(f"control flow of an unknown kind: {nested!r}")


def _loop(
    recurrence: Recurrence, reads: Sequence[Place], places: list[Place | None], plan: Planner, letter: str = "k"
) -> Loop:
    carried, body = recurrence.carried, recurrence.body
    given, befores = places[carried : len(body.outputs)], places[len(body.outputs) :] or [None] * carried
    stacked = [o for o, place in zip(body.outputs[carried:], given, strict=True) if place is not None]
    live = _live(body, carried, stacked, [k for k in range(carried) if places[k] is not None or befores[k] is not None])
    inputs = [*[body.inputs[k] for k in live], *body.inputs[carried:]]
    split = carried + recurrence.scanned
    return Loop(
        reads=len(reads),
        body=plan(_with(body, inputs, [*[body.outputs[k] for k in live], *stacked]), letter),
        length=recurrence.length,
        is_reversed=recurrence.is_reversed,
        firsts=tuple([reads[k] for k in live]),
        scanned=tuple(reads[carried:split]),
        hidden=tuple(reads[split:]),
        lasts=tuple([places[k] for k in live]),
        stacks=tuple([p for p in given if p is not None]),
        befores=tuple([befores[k] for k in live]),
    )


def _live(body: Graph, carried: int, stacked: Sequence[Node], wanted: Sequence[int]) -> list[int]:
    """The states that are wanted, or from which anything is computed that is."""
    live, before = set(wanted), -1
    while before != len(live):
        before = len(live)
        needed = Graph.of(body.inputs, [*stacked, *[body.outputs[k] for k in sorted(live)]])
        read = {i for node in needed.nodes for i in node.inputs} | set(needed.outputs)
        live |= {k for k in range(carried) if body.inputs[k] in read}
    return sorted(live)


def _wanting(body: Graph, places: Sequence[Place | None]) -> Graph:
    """The body with those outputs that have a place."""
    outputs = [output for output, place in zip(body.outputs, places, strict=True) if place is not None]
    return _with(body, body.inputs, outputs)


def _with(body: Graph, inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    """The body with these inputs and outputs."""
    return inherit(body, Graph.of(inputs, outputs, body.name), {})


def _while(
    nested: Repetition | Retreat,
    reads: list[Place],
    places: list[Place | None],
    plan: Planner,
    back: Loop | None = None,
) -> While:
    carried = nested.carried
    return While(
        reads=len(reads),
        condition=plan(nested.condition, "c"),
        step=plan(_asking(nested), "s"),
        firsts=tuple(reads[:carried]),
        hidden=tuple(reads[carried : len(nested.step.inputs)]),
        lasts=tuple(places),
        back=back,
    )


def _asking(nested: Repetition | Retreat) -> Graph:
    """A step, and whether the condition holds after it."""
    step, condition = nested.step, nested.condition
    answer = inlined(condition, [*step.outputs, *step.inputs[nested.carried :]])
    return Graph.of(step.inputs, [*step.outputs, *answer], step.name)
