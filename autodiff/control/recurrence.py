"""The operation of `scan` and `fori_loop`, and its derivatives, which are loops again.

    scan      c[t+1], y[t] = body(c[t], x[t], h)
    backwards c_bar[t], x_bar[t], h_bar += pullback of body at (c[t], x[t], h)  of (c_bar[t+1], y_bar[t])

The states c[t] are kept, and the products of each step; what is elementwise or a reduction is computed again.
A node whose value was kept stands in the step that goes back as

    known(value, inputs)     its value is `value`; its derivative that of the operation at `inputs`

Where memory is dear, `scan(checkpoint(f), ...)` computes all of a step again and keeps only the states.
The rule is a custom function that records loops itself, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from codegen.nested import Recurrence
from codegen.runtime import memory

from .. import tree
from ..custom import function
from ..custom.context import wanted
from ..ops import stack, zeros_like
from ..ops.batching import to_front, with_examples
from ..ops.primitive import zeros_of
from ..tape.node import Node
from ..tape.record import is_cut
from ..tape.watched import seen_within
from ..tensor import Tensor, handle
from ..transforms.arguments import own
from ..transforms.batch.walk import CALLS
from ..transforms.forward import jvp
from ..transforms.modes import runs_as_written
from ..transforms.rule_programs import missing_rule
from .body import (
    Body,
    Recorded,
    again,
    cut,
    filled,
    float_places,
    hooked_like,
    is_float,
    mode_of,
    placed,
    until_stable,
)  # fmt: skip
from .fission import in_parts
from .regions import Regions, run_of
from .trace import applied, as_written, derived, where_differing

__all__ = ["by_hand", "looped"]


class StaticLoop(NamedTuple):
    """The static part of a loop.

    carried, scanned   numbers of states, and of inputs that a step gets an element of
    keeps              whether the states before each step are results too
    """

    body: Body
    carried: int
    scanned: int
    length: int
    reverse: bool
    keeps: bool


def _run(loop: Recurrence, *arrays: np.ndarray) -> Sequence[Any]:
    """Run the loop: each step is one call of its body.  (Compiled, it is a native loop where it can be.)"""
    step = run_of(loop.body)
    states, scanned, hidden = _groups(arrays, (loop.carried, loop.scanned))
    stacks = [memory.new(a) for a in loop.results[loop.carried :]]
    for t in range(loop.length)[:: -1 if loop.is_reversed else 1]:
        found = step(*states, *[x[t] for x in scanned], *hidden)
        for stacked, value in zip(stacks, [*found[loop.carried :], *states], strict=False):
            stacked[t] = value
        states = list(found[: loop.carried])
    return [*states, *stacks]


def _of_all(size: int, loop: StaticLoop, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Sequence[Tensor]:
    """One loop whose body does a step of every example."""
    carried, split = loop.carried, loop.carried + loop.scanned
    flags = until_stable(mapped[:carried], mapped[carried:], lambda flags: loop.body.differing(flags)[:carried])
    states = flags[:carried]
    given = [*where_differing(zip(inputs, mapped, strict=True), states, size),
             *[to_front(x, 1) if m else x for x, m in zip(inputs[carried:split], mapped[carried:], strict=False)]]

    def step(values: list[Tensor]) -> list[Tensor]:
        found = applied(loop.body, values, flags, size)
        return [*where_differing(found, states, size), *[t for t, _ in found[carried:]]]

    purpose = "examples of a loop", size, carried, *flags
    made = derived(loop.body, purpose, step, given[:carried], given[carried:], inputs[split:])
    results = _loop(loop._replace(body=made.body), (*given, *made.hidden))
    differ = [*states, *loop.body.differing(flags)[carried:], *states]
    return [
        with_examples(size, (t,), (m,))[0] if k < carried or not m else to_front(t, 1)
        for k, (t, m) in enumerate(zip(results, differ, strict=False))
    ]


# ---------------------------------------------------------------- its rule


@function
def _loop(loop, inputs): ...


_loop.__name__ = "scan"  # in messages
_scan = Regions("scan", StaticLoop, Recurrence, _run, _of_all)
CALLS[_loop] = lambda size, values, differ: tuple(_of_all(size, values["loop"], values["inputs"], differ["inputs"]))


@_loop.forward
def _(ctx, loop, inputs):
    """Last states, what steps gave; states before each step too, where a gradient may be asked for."""
    ctx.set_materialize_grads(False)
    if not any(ctx.needs_input_grad):
        return _scan.record(loop, inputs)
    given, products, before = _groups(
        _scan.record(loop._replace(body=loop.body.keeping, keeps=True), inputs),
        (len(loop.body.results), len(loop.body.kept)),
    )
    ctx.save_for_backward(before=before, products=products)
    return (*given, *before)


@_loop.backward
def _(ctx, *bars):
    """The loop of pullbacks, from the last step to the first."""
    loop, inputs = ctx.inputs
    loop = seen_within(loop)  # its numbers are extents and parameters
    body, carried, split = loop.body, loop.carried, loop.carried + loop.scanned
    of_inputs = list(wanted(ctx, "inputs"))
    moving = until_stable(of_inputs[:carried], of_inputs[carried:], body.differing)
    read = body.read()
    floats = [k for k in float_places(inputs[:carried]) if moving[k]]
    places_x, places_h = [
        [start + k for k in float_places(xs) if moving[start + k] and read[start + k]]
        for start, xs in ((carried, inputs[carried:split]), (split, inputs[split:]))
    ]
    places = [*floats, *places_x, *places_h]
    results = _scan.nested(loop).results
    last_bars, given_bars, before_bars = _groups(bars, (carried, len(body.results) - carried))
    extra = [k for k in floats if before_bars[k] is not None]

    def step(values):
        state_bars, sums, now, given_x, y_bars, more, known, hidden = _groups(values, counts)
        bars = placed(state_bars, floats, carried)
        all_bars = filled([bars[k] for k in float_places(now)], [now[k] for k in float_places(now)])
        found = body.pull([*now, *given_x, *hidden], [*all_bars, *y_bars], places, knowing(body, known))
        for k, bar in zip(extra, more, strict=True):
            found[k] = found[k] + bar
        new_sums = [s + found[k] for s, k in zip(sums, places_h, strict=True)]
        return [*[found[k] for k in floats], *new_sums, *[found[k] for k in places_x]]

    start = [zeros_of(results[k]) if last_bars[k] is None else last_bars[k] for k in floats]
    sums = [zeros_like(inputs[k]) for k in places_h]
    of_given = [zeros_of(a) if b is None else b
                for b, a in zip(given_bars, results[carried:], strict=False) if is_float(a)]
    before, scanned, products = _kept(ctx, loop, inputs)
    xs = before, scanned, of_given, [before_bars[k] for k in extra], products
    counts = [len(g) for g in (start, sums, *xs)]
    purpose = "pulled in a loop", carried, tuple(places), tuple(extra)
    over = [x for g in xs for x in g]
    found, x_bars = _derived_loop(loop, purpose, step, [*start, *sums], over, inputs[split:], True)
    found = [*found[: len(floats)], *x_bars, *found[len(floats) :]]
    return {"loop": None, "inputs": tuple(placed(found, places, len(inputs)))}


def _kept(ctx, loop, inputs):
    """States before each step, elements, and products of each step."""
    kept = ctx.saved_variables
    return kept.before, inputs[loop.carried : loop.carried + loop.scanned], [p.detach() for p in kept.products]


@_loop.jvp
def _(ctx, _loop, dots):
    """The loop of tangents: each step at the states that were kept."""
    loop, inputs = ctx.inputs
    loop = seen_within(loop)  # its numbers are extents and parameters
    body, outputs, carried, split = loop.body, len(loop.body.results), loop.carried, loop.carried + loop.scanned
    before, scanned, products = _kept(ctx, loop, inputs)
    floats = [is_float(s) for s in inputs[:carried]]

    def after(flags: list[bool]) -> list[bool]:
        return [a and b for a, b in zip(body.differing(flags), floats, strict=False)]

    moves = until_stable([d is not None for d in dots[:carried]], [d is not None for d in dots[carried:]], after)
    results = enumerate(zip(body.differing(moves), body.results, strict=True))
    given = [k for k, (m, y) in results if m and k >= carried and is_float(y.kind.out.aval)]
    places = [k for k, m in enumerate(moves) if m]
    moving = [k for k in places if k < carried]

    def step(values):
        along, now, given_x, x_dots, known, hidden, constant = _groups(values, counts)
        _, found = body.push([*now, *given_x, *hidden], [*along, *x_dots, *constant], places, knowing(body, known))
        return [*[found[k] for k in (*moving, *given)], *along]

    start = filled([dots[k] for k in moving], [inputs[k] for k in moving])
    x_dots, constant = [[d for d in ds if d is not None] for ds in (dots[carried:split], dots[split:])]
    xs = before, scanned, x_dots, products
    counts = [len(g) for g in (start, *xs, inputs[split:])]
    purpose = "pushed in a loop", carried, tuple(places), tuple(given)
    over = [x for g in xs for x in g]
    last, made = _derived_loop(loop, purpose, step, start, over, (*inputs[split:], *constant), False)
    there = [*moving, *given, *[outputs + k for k in moving]]
    return tuple(placed([*last, *made], there, outputs + carried))


def _derived_loop(
    loop: StaticLoop, purpose: tuple, step: Callable, states: Sequence[Tensor], scanned: Sequence[Tensor],
    hidden: Sequence[Tensor], turned: bool,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and what steps gave, by a loop whose step is made of the body's.

    turned   it goes the other way
    """
    if loop.length and runs_as_written():

        def stepped(states: Sequence[Tensor], elements: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            found = step([*states, *elements, *hidden])
            return found[: len(states)], found[len(states) :]

        order = range(loop.length)[:: -1 if loop.reverse != turned else 1]
        found: tuple = by_hand(stepped, list(states), lambda t: [x[t] for x in scanned], order)
        return found
    made = derived(loop.body, purpose, step, states, scanned, hidden)
    return looped(made.body, states, scanned, made.hidden, loop.length, loop.reverse != turned)


# ---------------------------------------------------------------- products that are known when it goes back


@function
def _known(body, number, value, inputs): ...


@_known.forward
def _(ctx, body, number, value, inputs):
    return value


@_known.backward
def _(ctx, y_bar):
    body, number, value, inputs = ctx.inputs
    node = body.order[number]
    if node.kind.op.pull is None:
        raise missing_rule(node)
    y = _known(body, number, value, inputs)  # what a rule reads: the known value, with its history
    return {"inputs": tuple(node.kind.op.pull(y_bar, y, inputs, node.kind.params, False))}


@_known.jvp
def _(ctx, _body, _number, _value, dots):
    body, number, value, inputs = ctx.inputs
    node = body.order[number]
    if node.kind.op.push is None:
        given = [zeros_like(x) if dot is None else dot for x, dot in zip(inputs, dots, strict=True)]
        return jvp(lambda *xs: handle(again(node, [x.node for x in xs])), inputs, given)[1]
    y = _known(body, number, value, inputs)
    return node.kind.op.push(tuple(dots), y, inputs, node.kind.params)


def knowing(body: Body, known: Sequence[Tensor]) -> Recorded:
    """A function that applies the body where `known` are the values of its nodes `kept`, without a history."""
    values = dict(zip(body.kept, known, strict=True))

    def recorded(number: int, inputs: list[Node]) -> Node:
        value = values.get(number)
        if value is None:
            return again(body.order[number], inputs)
        tracks = any(i.kind.out.requires_grad for i in inputs) and not is_cut(body.order[number])
        tracks = tracks and value.dtype.kind in "fc"
        if not tracks:
            return value.node
        return hooked_like(body.order[number], _known(body, number, value, tuple([handle(i) for i in inputs])).node)

    return recorded


# ---------------------------------------------------------------- loops of bodies


def by_hand(f: Callable, carry: Any, element: Callable[[int], Any], order: range) -> tuple[Any, Any]:
    """The loop as a Python loop, to step through: the last carry, and what the steps gave."""
    given = {}
    for t in order:
        carry, y = as_written(f, carry, element(t))
        given[t] = tree.map(own, y)  # the next step may update what is also in its carry
    return carry, tree.map(lambda *ys: None if ys[0] is None else stack(ys), *[given[t] for t in sorted(given)])


def _groups(values: Sequence[Any], counts: Sequence[int]) -> list[list[Any]]:
    """Groups of so many values, one after the other, and the rest of them."""
    given = iter(values)
    return [*[list(islice(given, n)) for n in counts], list(given)]


def looped(
    body: Body, states: Sequence[Tensor], scanned: Sequence[Tensor], hidden: Sequence[Tensor], length: int,
    reverse: bool,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and what steps gave, those without a history that depend on nothing by a gradient."""

    def steps(body: Body, *groups: Sequence[Tensor]) -> list[list[Tensor]]:
        carried = len(groups[0])
        loop = StaticLoop(body, carried, len(groups[1]), length, reverse, False)
        # A loop without results has no effect, so it is left out.
        found = _loop(loop, tuple([t for group in groups for t in group])) if body.results else ()
        return _groups(found, (carried, len(body.results) - carried))[:2]

    with mode_of(body):
        last, given = in_parts(steps, body, states, scanned, hidden, length)
        if length:
            tracking = body.tracking_after(states, [*scanned, *hidden])
            last, given = cut(last, tracking[: len(states)]), cut(given, tracking[len(states) :])
    return last, given
