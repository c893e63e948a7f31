"""The steps of loops and branches: the programs that they run, and the places of their inputs and results.

    results of one operation  ->  Loop, Branch or While, and the values that the step works on

`merged` joins small kernels that follow each other: in the body of a loop most of their cost is the call.

    k0(x0, x1) -> t0        one multiplication              k0(x0, x1, x2) -> t0, y0
    k1(t0, x2) -> y0        one addition

Only straight-line code that cannot fail is joined: the second kernel's operations simply follow those of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate

import numpy as np

from ..ir import Aval, Graph, Node, inherit
from ..ir.op import internal
from ..kernel.elements import argument_names
from ..kernel.nest import Block, NestFunction, known_integer
from ..nested import Nested, NestedBranch, Recurrence, Repetition
from ..program import Branch, BufferProgram, Kernel, Loop, Place, Run, While
from .in_place import Draft
from .rewrites import inlined

#: A function that makes the program of a graph; the letter keeps the kernel names of two graphs of one step apart.
Planner = Callable[[Graph, str], BufferProgram]


#: The operation of a node that stands for the workspace of a step.
_WORKSPACE = internal("workspace", None)


def draft_nest(results: tuple[Node, ...], plan: Planner) -> tuple[object, tuple[Node, ...]]:
    """The step that computes these results of one operation, and the values that it works on."""
    nested: Nested = results[0].params[0]
    inputs = results[0].inputs
    reads = list(enumerate(results[0].params[1]))
    places: list[Place | None] = [None] * len(nested.results)
    for number, node in enumerate(results, len(inputs)):
        held = node.params[2]
        starts = accumulate([nested.results[k].size for k in held], initial=0)
        for k, start in zip(held, starts, strict=False):
            places[k] = (number, start)
    work, room = _draft(nested, reads, places, plan)
    workspace = Node(_WORKSPACE, (), (), Aval((room,), np.dtype(np.bool_)))
    return work, (*inputs, *results, workspace)


def _draft(
    nested: Nested, reads: list[Place], places: list[Place | None], plan: Planner
) -> tuple[Loop | Branch | While, int]:
    """The step, and the size of its workspace in bytes."""
    match nested:
        case Recurrence():
            loop = _loop(nested, reads, places, plan)
            return loop, loop.room()[1]
        case NestedBranch(yes, no):
            chosen, *rest = reads
            given = {k: p for k, p in enumerate(places) if p is not None}
            runs = [Run(plan(_with_ends(body, body.inputs, [body.outputs[k] for k in given]), letter),
                        tuple(rest), tuple(given.values())) for body, letter in ((yes, "y"), (no, "n"))]
            branch = Branch(len(reads), chosen, *runs)
            return branch, branch.room()
        case Repetition():
            back, own, hidden = None, nested.own, tuple(reads[nested.own :])
            firsts = tuple(reads[own - nested.carried : own])
            if nested.back is not None:
                values = len(nested.back.outputs)
                over = Recurrence(nested.back, values, nested.carried, 1, True)
                scanned = [(0, 0)] * nested.carried  # placeholders: arrays and length are known only at run time
                back = _loop(over, [*reads[:values], *scanned, *hidden], places, plan, "b")
                places = [None] * nested.carried
            condition, step = plan(nested.condition, "c"), plan(_with_condition(nested), "s")
            repeat = While(len(reads), condition, step, firsts, hidden, tuple(places), back)
            return repeat, repeat.room()[2]
    raise AssertionError(f"control flow of an unknown kind: {nested!r}")


def _loop(
    recurrence: Recurrence, reads: Sequence[Place], places: list[Place | None], plan: Planner, letter: str = "k"
) -> Loop:
    carried, body = recurrence.carried, recurrence.body
    befores: list[Place | None] = [None] * carried
    stacked, given = [], []
    for output, place in zip(body.outputs[carried:], places[carried:], strict=True):
        k = body.inputs.index(output) if output in body.inputs[:carried] else -1
        if place is not None and k >= 0 and befores[k] is None:
            befores[k] = place
        elif place is not None:
            stacked.append(output)
            given.append(place)
    live = _live(body, carried, stacked, [k for k in range(carried) if places[k] is not None or befores[k] is not None])
    inputs = [*[body.inputs[k] for k in live], *body.inputs[carried:]]
    split = carried + recurrence.scanned
    return Loop(
        reads=len(reads),
        body=plan(_with_ends(body, inputs, [*[body.outputs[k] for k in live], *stacked]), letter),
        length=recurrence.length,
        is_reversed=recurrence.is_reversed,
        firsts=tuple([reads[k] for k in live]),
        scanned=tuple(reads[carried:split]),
        hidden=tuple(reads[split:]),
        lasts=tuple([places[k] for k in live]),
        stacks=tuple(given),
        befores=tuple([befores[k] for k in live]),
    )


def _live(body: Graph, carried: int, stacked: Sequence[Node], wanted: Sequence[int]) -> list[int]:
    """The numbers of the states to compute: the wanted ones, and those on which they or the stacked outputs depend."""
    live, before = set(wanted), -1
    while before != len(live):
        before = len(live)
        needed = Graph.of(body.inputs, [*stacked, *[body.outputs[k] for k in sorted(live)]])
        read = {i for node in needed.nodes for i in node.inputs} | set(needed.outputs)
        live |= {k for k in range(carried) if body.inputs[k] in read}
    return sorted(live)


def _with_ends(body: Graph, inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    """The body with these inputs and outputs."""
    return inherit(body, Graph.of(inputs, outputs, body.name), {})


def _with_condition(nested: Repetition) -> Graph:
    """The step's graph with one more output: the condition on the new states."""
    step, condition = nested.step, nested.condition
    answer = inlined(condition, [*step.outputs, *step.inputs[nested.carried :]])
    return Graph.of(step.inputs, [*step.outputs, *answer], step.name)


# ---------------------------------------------------------------- small kernels that follow each other


#: The most operations of a kernel that may be joined with another.
_MOST_OPERATIONS = 256

#: The most letters of a kernel's name.
_NAME_LENGTH = 60


def merged(drafts: Sequence[Draft]) -> list[Draft]:
    """The steps, with each run of consecutive small kernels joined into one kernel."""
    found: list[Draft] = []
    for draft in drafts:
        if found and _is_small(found[-1][0]) and _is_small(draft[0]):
            found[-1] = _joined(*found[-1], *draft)
        else:
            found.append(draft)
    return found


def _is_small(work: object) -> bool:
    """True if the step is a kernel of straight-line code that cannot fail, since it returns the constant status 0."""
    if not isinstance(work, Kernel) or work.extents or len(work.function.body.operations) > _MOST_OPERATIONS:
        return False
    *operations, end = work.function.body.operations
    return known_integer(end.operands[0]) == 0 and not any(o.regions for o in operations)


def _joined(a: Kernel, of_a: tuple[Hashable, ...], b: Kernel, of_b: tuple[Hashable, ...]) -> Draft:
    """Both kernels as one.  A value that both use becomes one argument."""
    values = [*of_a, *[v for v in of_b if v not in of_a]]
    own = dict(zip((*of_b, *of_a), (*b.function.arguments, *a.function.arguments), strict=True))
    same = {x: own[value] for value, x in zip(of_b, b.function.arguments, strict=True)}
    for operation in b.function.body.operations:
        operation.operands = [same.get(v, v) for v in operation.operands]
    body = Block()
    body.operations = [*a.function.body.operations[:-1], *b.function.body.operations]
    writes = {values.index(of[j]) for of, k in ((of_a, a), (of_b, b)) for j in k.function.writes}
    read_first = {values.index(of_a[j]) for j in a.updates}
    of_first = {of_a[j] for j in a.function.writes}
    # An array that the first kernel reads and the second one writes is an update of the joined kernel.
    updates = b.updates | {j for j in b.function.writes if of_b[j] in of_a}
    read_first |= {values.index(of_b[j]) for j in updates if of_b[j] not in of_first}
    order = [*[j for j in range(len(values)) if j not in writes], *sorted(writes)]
    place = {j: k for k, j in enumerate(order)}
    body.arguments = [own[values[j]] for j in order]
    written = {place[j] for j in writes}
    function = NestFunction(
        _name(a.function.name, b.function.name), body, tuple(argument_names(len(order), written)), frozenset(written)
    )
    members = tuple(dict.fromkeys([*a.members, *b.members]))
    return Kernel(function, (), frozenset([place[j] for j in read_first]), members), tuple([values[j] for j in order])


def _name(a: str, b: str) -> str:
    """The name of the joined kernel: the name of the first, with the new words of the second but without its number."""
    words = [w for w in b.split("_")[2:] if w not in a.split("_")]
    return "_".join([a, *words])[:_NAME_LENGTH].rstrip("_")
