"""The operation of `scan` and `fori_loop`, and its derivatives, which are loops again.

    scan      c[t+1], y[t] = body(c[t], x[t], h)
    backwards c_bar[t], x_bar[t], h_bar += pullback of body at (c[t], x[t], h)  of (c_bar[t+1], y_bar[t])

The states c[t] are kept, and the products of each step; what is elementwise or a reduction is computed again.
Where memory is dear, `scan(checkpoint(f), ...)` computes all of a step again and keeps only the states.
The rule is a custom function that records loops itself, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Nest
from codegen.nested import Recurrence
from codegen.runtime import memory

from ..custom import function
from ..custom.context import wanted
from ..ops import stack, zeros_like
from ..ops.primitive import primitive, zeros_of
from ..tape.record import record
from ..tape.watched import seen_within
from ..tensor import Tensor
from ..transforms.anomaly import runs_as_written
from ..transforms.batch.walk import CALLS
from .batching import differing, looped_of_all, scan_batch, tracking_after, until_stable
from .body import Body, cut, filled, float_places, is_float, mode_of, placed, tracks_of
from .derived import derived
from .fission import apart
from .known import knowing
from .packing import pack, packed_aval, record_packed, rule_of_call, run_of

__all__ = ["looped"]


class Loop(NamedTuple):
    """The static part of a loop.

    carried, scanned   numbers of states, and of inputs that a step gets an element of
    keeps              whether the states before each step are results too
    """

    carried: int
    scanned: int
    length: int
    reverse: bool
    keeps: bool
    body: Body

    @property
    def recurrence(self) -> Recurrence:
        """The same, as the compiler has it."""
        return Recurrence(self.body.graph, self.carried, self.scanned, self.length, self.reverse, self.keeps)

    @property
    def results(self) -> list[Aval]:
        """Last states; what steps gave, stacked; states before each step, stacked."""
        return self.recurrence.results


# ---------------------------------------------------------------- the operation


def _run(*arrays: np.ndarray, dtype: str, **static: Any) -> np.ndarray:
    """Run the loop: each step is one call of its body.  (Compiled, it is a native loop where it can be.)"""
    loop = Loop(**static)
    step = run_of(loop.body.graph)
    carried, outputs = loop.carried, len(loop.body.graph.outputs)
    states: Sequence[Any] = arrays[:carried]
    scanned = arrays[carried : carried + loop.scanned]
    hidden = arrays[carried + loop.scanned :]
    stacks = [memory.new(a) for a in loop.results[carried:]]
    given, before = stacks[: outputs - carried], stacks[outputs - carried :]
    order = range(loop.length - 1, -1, -1) if loop.reverse else range(loop.length)
    for t in order:
        for kept, value in zip(before, states, strict=False):
            kept[t] = value
        found = step(*states, *[x[t] for x in scanned], *hidden)
        states = found[:carried]
        for stacked, value in zip(given, found[carried:], strict=True):
            stacked[t] = value
    return pack([*[np.asarray(s) for s in states], *stacks], dtype)


_scan = primitive(
    "scan",
    _run,
    infer=lambda *_avals, dtype, **static: packed_aval(Loop(**static).results, dtype),
    lower=Nest(lambda dtype, **static: Loop(**static).recurrence),
    vjp=rule_of_call(lambda inputs, **static: _results(Loop(**static), inputs)),
    params=("dtype", *Loop._fields),
    heavy=True,
    keeps_mask=False,
    traits=("regions",),
    batch=scan_batch(Loop),
)


def _record(loop: Loop, inputs: Sequence[Tensor]) -> tuple[tuple, tuple, tuple]:
    """The results of a loop: last states, what steps gave, states before each step."""
    found = record_packed(lambda dtype: record(_scan, tuple(inputs), (dtype, *loop)), loop.results)
    outputs = len(loop.body.graph.outputs)
    return tuple(found[: loop.carried]), tuple(found[loop.carried : outputs]), tuple(found[outputs:])


def _results(loop: Loop, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The results in a row, by a call of the loop's function: behind its rule."""
    split = loop.carried + loop.scanned
    groups = _loop(loop, tuple(inputs[: loop.carried]), tuple(inputs[loop.carried : split]), tuple(inputs[split:]))
    return [t for group in groups for t in group][: len(loop.results)]


# ---------------------------------------------------------------- its rule


@function
def _loop(loop, states, scanned, hidden): ...


_loop.__name__ = "scan"  # in messages
CALLS[_loop] = looped_of_all(_loop)


@_loop.forward
def _(ctx, loop, states, scanned, hidden):
    ctx.set_materialize_grads(False)
    inputs = (*states, *scanned, *hidden)
    if not any(ctx.needs_input_grad):
        return _record(loop, inputs)
    given = len(loop.body.graph.outputs) - loop.carried
    last, stacked, before = _record(loop._replace(body=loop.body.keeping, keeps=True), inputs)
    ctx.save_for_backward(before=before, products=stacked[given:])
    return last, stacked[:given], before


@_loop.backward
def _(ctx, last_bars, given_bars, before_bars):
    loop, states, scanned, hidden = ctx.inputs
    loop = seen_within(loop)  # its numbers are extents and parameters
    outputs = len(loop.body.graph.outputs)
    last, given = loop.results[: loop.carried], loop.results[loop.carried : outputs]
    kept = ctx.saved_variables
    bars = _filled(last_bars, last), _filled(given_bars, given), before_bars
    state_bars, scanned_bars, hidden_bars = _backwards(
        loop, states, scanned, hidden, kept.before, [p.detach() for p in kept.products], *bars,
        [list(wanted(ctx, name)) for name in ("states", "scanned", "hidden")],
    )
    return {"loop": None, "states": state_bars, "scanned": scanned_bars, "hidden": hidden_bars}


def _filled(bars: Any, avals: Sequence[Aval]) -> list[Tensor]:
    """Cotangents of the float ones, zero where none arrived."""
    bars = bars or (None,) * len(avals)
    return [zeros_of(a) if b is None else b for b, a in zip(bars, avals, strict=True) if is_float(a)]


def _backwards(loop, states, scanned, hidden, before, products, last_bars, given_bars, before_bars, wants):
    """The loop of pullbacks, from the last step to the first."""
    of_states, of_scanned, of_hidden = wants
    body, carried, split = loop.body, len(states), len(states) + len(scanned)
    moving = until_stable(of_states, [*of_scanned, *of_hidden], lambda flags: differing(body, flags))
    floats = [k for k in float_places(states) if moving[k]]
    read = body.read()
    wanted_x = [k for k in float_places(scanned) if of_scanned[k] and read[carried + k]]
    wanted_h = [k for k in float_places(hidden) if of_hidden[k] and read[split + k]]
    places = [*floats, *[carried + k for k in wanted_x], *[split + k for k in wanted_h]]
    extra = [k for k in floats if before_bars and before_bars[k] is not None]

    def step(given, hidden):
        state_bars, sums, now, given_x, y_bars, more, known = _parts_of(given, counts)
        bars = placed(state_bars, floats, carried)
        all_bars = filled([bars[k] for k in float_places(states)], [now[k] for k in float_places(states)])
        found = body.pull([*now, *given_x, *hidden], [*all_bars, *y_bars], places, knowing(body, known))
        for k, bar in zip(extra, more, strict=True):
            found[k] = found[k] + bar
        new_sums = [s + found[split + k] for s, k in zip(sums, wanted_h, strict=True)]
        return [*[found[k] for k in floats], *new_sums, *[found[carried + k] for k in wanted_x]]

    start = [bar for k, bar in zip(float_places(states), last_bars, strict=True) if moving[k]]
    sums = [zeros_like(hidden[k]) for k in wanted_h]
    xs = before, scanned, given_bars, [before_bars[k] for k in extra], products
    counts = [len(g) for g in (start, sums, *xs)]
    purpose = "pulled in a loop", carried, tuple(floats), tuple(wanted_x), tuple(wanted_h), tuple(extra)
    found, x_bars = _derived_loop(loop, purpose, step, [*start, *sums], [x for g in xs for x in g], hidden, True)
    return (
        tuple(placed(found[: len(floats)], floats, carried)) or None,
        tuple(placed(x_bars, wanted_x, len(scanned))) or None,
        tuple(placed(found[len(floats) :], wanted_h, len(hidden))) or None,
    )


@_loop.jvp
def _(ctx, _loop, state_dots, scanned_dots, hidden_dots):
    loop, states, scanned, hidden = ctx.inputs
    loop = seen_within(loop)  # its numbers are extents and parameters
    kept = ctx.saved_variables
    given = (state_dots, states), (scanned_dots, scanned), (hidden_dots, hidden)
    dots = [list(d or [None] * len(xs)) for d, xs in given]
    return _pushed(loop, states, scanned, hidden, kept.before, [p.detach() for p in kept.products], *dots)


def _pushed(loop, states, scanned, hidden, before, products, state_dots, scanned_dots, hidden_dots):
    """The loop of tangents: each step at the states that were kept."""
    body, outputs, carried = loop.body, len(loop.body.results), loop.carried
    moves = [d is not None for d in (*state_dots, *scanned_dots, *hidden_dots)]
    floats = [is_float(s) for s in states]

    def after(flags: list[bool]) -> list[bool]:
        return [a and b for a, b in zip(differing(body, flags), floats, strict=False)]

    moves[:carried] = until_stable(moves[:carried], moves[carried:], after)
    results = enumerate(zip(differing(body, moves), body.graph.outputs, strict=True))
    given = [k for k, (m, y) in results if m and k >= carried and is_float(y.aval)]
    places = [k for k, m in enumerate(moves) if m]
    moving = [k for k in places if k < carried]

    def step(values, hidden):
        dots, now, given_x, x_dots, known = _parts_of(values, counts)
        inputs = [*now, *given_x, *hidden[: len(hidden) - len(constant)]]
        along = [*dots, *x_dots, *hidden[len(hidden) - len(constant) :]]
        _, found = body.push(inputs, along, places, knowing(body, known))
        return [*[found[k] for k in (*moving, *given)], *dots]

    start = filled([state_dots[k] for k in moving], [states[k] for k in moving])
    constant = [d for d in hidden_dots if d is not None]
    xs = before, scanned, [d for d in scanned_dots if d is not None], products
    counts = [len(g) for g in (start, *xs)]
    purpose = "pushed in a loop", carried, tuple(places), tuple(given)
    last, made = _derived_loop(loop, purpose, step, start, [x for g in xs for x in g], (*hidden, *constant), False)
    return (
        tuple(placed(last, moving, carried)),
        tuple(placed(made[: len(given)], [k - carried for k in given], outputs - carried)),
        tuple(placed(made[len(given) :], moving, carried)),
    )


def _derived_loop(
    loop: Loop, purpose: tuple, step: Callable, states: Sequence[Tensor], scanned: Sequence[Tensor],
    hidden: Sequence[Tensor], turned: bool,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and what steps gave, by a loop whose step is made of the body's.

    turned   it goes the other way
    """
    if loop.length and runs_as_written():
        return _by_hand(step, states, scanned, hidden, range(loop.length)[:: -1 if loop.reverse != turned else 1])
    avals = [*[t.aval for t in states], *[t.aval.with_shape(t.shape[1:]) for t in scanned]]

    def first() -> tuple[list[Tensor], list[Tensor]]:
        return [*states, *[t[0] for t in scanned]], list(hidden)

    made = derived(loop.body, purpose, step, avals, hidden, first if loop.length else None)
    return looped(made.body, states, scanned, made.hidden, loop.length, loop.reverse != turned)


def _by_hand(
    step: Callable, states: Sequence[Tensor], scanned: Sequence[Tensor], hidden: Sequence[Tensor], order: range
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and what steps gave, by a Python loop: to look for anomalies in each step."""
    given = []
    for t in order:
        found = step([*states, *[x[t] for x in scanned]], hidden)
        states = found[: len(states)]
        given.append(found[len(states) :])
    return states, [stack(ys) for ys in zip(*given[:: order.step], strict=True)]


def _parts_of(values: Sequence[Tensor], counts: Sequence[int]) -> list[list[Tensor]]:
    """Groups of so many values, one after the other."""
    given = iter(values)
    return [list(islice(given, n)) for n in counts]


def looped(
    body: Body, states: Sequence[Tensor], scanned: Sequence[Tensor], hidden: Sequence[Tensor], length: int,
    reverse: bool,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and what steps gave, those without a history that depend on nothing by a gradient."""
    with mode_of(body):
        last, given = _in_parts(body, states, scanned, hidden, length, reverse)
        if length:
            tracking = tracking_after(body, states, tracks_of(scanned, hidden))
            last, given = cut(last, tracking[: len(states)]), cut(given, tracking[len(states) :])
    return last, given


def _in_parts(
    body: Body, states: Sequence[Tensor], scanned: Sequence[Tensor], hidden: Sequence[Tensor], length: int,
    reverse: bool,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and what steps gave, by a loop of what needs one."""
    parts = apart(body, states, scanned, hidden, length)
    if parts is not None:
        body, states, scanned, hidden = parts.body, parts.states, parts.scanned, parts.hidden
    loop = Loop(len(states), len(scanned), length, reverse, False, body)
    last: Sequence[Tensor] = ()
    given: Sequence[Tensor] = ()
    if loop.results:  # else nothing is left to do: effects are no results
        last, given, _ = _loop(loop, tuple(states), tuple(scanned), tuple(hidden))
    return parts.finished(last, given) if parts is not None else (last, given)
