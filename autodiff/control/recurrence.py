"""The operation of `scan` and `fori_loop`, and its derivatives, which are loops again.

    scan      c[t+1], y[t] = body(c[t], x[t], h)
    backwards c_bar[t], x_bar[t], h_bar += pullback of body at (c[t], x[t], h)  of (c_bar[t+1], y_bar[t])

The states c[t] are kept, and the products of each step; what is elementwise or a reduction is computed again.
Both are results of the loop: its body gives them too (`Body.keeping`).  The step that goes back gets them as elements,
and what it computed them from is cut off; a derivative of that step comes to them, and by them to the loop.

Where memory is dear, `scan(checkpoint(f), ...)` computes all of a step again and keeps only the states.
The rule is a custom function that records loops itself, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from codegen.nested import Recurrence
from codegen.runtime import memory

from .. import tree
from ..custom import function
from ..custom.context import wanted
from ..mode import MODE
from ..ops import stack, zeros_like
from ..ops.batching import to_front, with_examples
from ..tape.node import Node
from ..tape.watched import seen_within
from ..tensor import Tensor
from ..transforms.anomaly import runs_as_written
from ..transforms.arguments import own
from ..transforms.batch.walk import CALLS
from .body import Body, filled, float_places, has_rule, keeping, known, mode_of, placed, tracks_of, until_stable
from .fission import in_parts
from .regions import Regions, called, run_of
from .trace import applied, as_written, derived, where_differing

__all__ = ["by_hand", "looped"]


def _run(loop: Recurrence, *arrays: np.ndarray) -> Sequence[Any]:
    """Run the loop: each step is one call of its body.  (Compiled, it is a native loop where it can be.)"""
    step = run_of(loop.body)
    states, scanned, hidden = _groups(arrays, (loop.carried, loop.scanned))
    stacks = [memory.new(a) for a in loop.results[loop.carried :]]
    for t in range(loop.length)[:: -1 if loop.is_reversed else 1]:
        found = step(*states, *[x[t] for x in scanned], *hidden)
        for stacked, value in zip(stacks, found[loop.carried :], strict=True):
            stacked[t] = value
        states = list(found[: loop.carried])
    return [*states, *stacks]


def _of_all(size: int, loop: Recurrence, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Sequence[Tensor]:
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
    made = derived((loop.body,), purpose, [(step, given[:carried], given[carried:])], inputs[split:])
    results = _recorded(loop._replace(body=made.bodies[0]), (*given, *made.hidden))
    differ = [*states, *loop.body.differing(flags)[carried:]]
    return [
        with_examples(size, (t,), (m,))[0] if k < carried or not m else to_front(t, 1)
        for k, (t, m) in enumerate(zip(results, differ, strict=False))
    ]


# ---------------------------------------------------------------- its rule


@function
def _loop(loop, inputs): ...


_loop.__name__ = "scan"  # in messages
_scan = Regions("scan", Recurrence, _run, _of_all)
CALLS[_loop] = lambda size, values, differ: tuple(_of_all(size, values["loop"], values["inputs"], differ["inputs"]))


def _recorded(loop: Recurrence, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """The results of a loop, and behind them what a gradient finds computed, where one may be asked for."""
    body, carried = loop.body, loop.carried

    def tracking(flags: list[bool]) -> list[bool]:
        if not loop.length:
            return [True] * len(body.results)
        return body.tracking(until_stable(flags[:carried], flags[carried:], body.tracking))

    if MODE.get().tracks and any(tracks_of(inputs)):
        body = body.once(keeping, carried)
    return called(_loop, loop._replace(body=body), inputs, tracking)


@_loop.forward
def _(ctx, loop, inputs):
    ctx.set_materialize_grads(False)
    found = _scan.record(loop, inputs)
    if any(ctx.needs_input_grad):
        stacked = dict(zip(loop.body.results[loop.carried :], found[loop.carried :], strict=True))
        kept = [*loop.body.arguments[: loop.carried], *loop.body.once(known, loop.carried)]
        ctx.save_for_backward(*[stacked[n] for n in kept])
    return found


def _kept(ctx, loop):
    """States before each step; the nodes of the body that are known, and their values at each step."""
    before, products = _groups(ctx.saved_variables, (loop.carried,))
    return before, loop.body.once(known, loop.carried), products


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
    there = [k for k, bar in enumerate(bars) if k >= carried and bar is not None]
    before, nodes, products = _kept(ctx, loop)
    stands = {}

    def step(values):
        state_bars, sums, now, given_x, result_bars, hidden = _groups(values, counts)
        of_results = placed([*state_bars, *result_bars], [*floats, *there], len(bars))
        found = body.pull([*now, *given_x, *hidden], of_results, places, stands)
        new_sums = [s + found[k] for s, k in zip(sums, places_h, strict=True)]
        return [*[found[k] for k in floats], *new_sums, *[found[k] for k in places_x]]

    start = filled([bars[k] for k in floats], [inputs[k] for k in floats])
    sums = [zeros_like(inputs[k]) for k in places_h]
    xs = before, inputs[carried:split], [bars[k] for k in there]
    counts = [len(g) for g in (start, sums, *xs)]
    purpose = "pulled in a loop", carried, tuple(places), tuple(there)
    found, x_bars = _derived_loop(
        loop, purpose, step, [*start, *sums], [x for g in xs for x in g], inputs[split:], products,
        lambda: [stands[n] for n in nodes], turned=True,
    )
    found = [*found[: len(floats)], *x_bars, *found[len(floats) :]]
    return {"loop": None, "inputs": tuple(placed(found, places, len(inputs)))}


@_loop.jvp
def _(ctx, _loop, dots):
    """The loop of tangents: each step at the states that were kept."""
    loop, inputs = ctx.inputs
    loop = seen_within(loop)  # its numbers are extents and parameters
    body, carried, split = loop.body, loop.carried, loop.carried + loop.scanned
    floats = float_places(inputs[:carried])

    def after(flags: list[bool]) -> list[bool]:
        return [differs and k in floats for k, differs in enumerate(body.differing(flags))]

    moves = until_stable([d is not None for d in dots[:carried]], [d is not None for d in dots[carried:]], after)
    differs = body.differing(moves)
    given = [k for k in float_places([n.kind.out.aval for n in body.results])
             if k >= carried and differs[k] and has_rule(body.results[k])]
    places = [k for k, m in enumerate(moves) if m]
    moving = [k for k in places if k < carried]
    before, nodes, products = _kept(ctx, loop)
    stands = {}

    def step(values):
        along, now, given_x, x_dots, hidden, constant = _groups(values, counts)
        _, found = body.push([*now, *given_x, *hidden], [*along, *x_dots, *constant], places, stands)
        return [found[k] for k in (*moving, *given)]

    start = filled([dots[k] for k in moving], [inputs[k] for k in moving])
    x_dots, constant = [[d for d in ds if d is not None] for ds in (dots[carried:split], dots[split:])]
    xs = before, inputs[carried:split], x_dots
    counts = [len(g) for g in (start, *xs, inputs[split:])]
    purpose = "pushed in a loop", carried, tuple(places), tuple(given)
    last, made = _derived_loop(
        loop, purpose, step, start, [x for g in xs for x in g], (*inputs[split:], *constant), products,
        lambda: [stands[n] for n in nodes], turned=False,
    )
    return tuple(placed([*last, *made], [*moving, *given], len(body.results)))


def _derived_loop(
    loop: Recurrence, purpose: tuple, step: Callable, states: Sequence[Tensor], scanned: Sequence[Tensor],
    hidden: Sequence[Tensor], products: Sequence[Tensor], met: Callable[[], list[Node]], turned: bool,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and what steps gave, by a loop whose step is made of the body's.

    met      gives the values of the step that `products` are, once it is recorded
    turned   it goes the other way
    """
    if loop.length and runs_as_written():

        def stepped(states: Sequence[Tensor], elements: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            found = step([*states, *elements, *hidden])
            return found[: len(states)], found[len(states) :]

        order = range(loop.length)[:: -1 if loop.is_reversed != turned else 1]
        found: tuple = by_hand(stepped, list(states), lambda t: [x[t] for x in scanned], order)
        return found
    made = derived((loop.body,), purpose, [(step, states, scanned)], hidden, met)
    return looped(made.bodies[0], states, [*scanned, *products], made.hidden, loop.length, loop.is_reversed != turned)


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
    """The last states and what steps gave."""

    def steps(body: Body, *groups: Sequence[Tensor]) -> list[list[Tensor]]:
        carried = len(groups[0])
        loop = Recurrence(body, carried, len(groups[1]), length, reverse)
        # A loop without results has no effect, so it is left out.
        found = _recorded(loop, [t for group in groups for t in group]) if body.results else ()
        return _groups(found, (carried, len(body.results) - carried))[:2]

    with mode_of(body):
        last, given = in_parts(steps, body, states, scanned, hidden, length)
    return last, given
