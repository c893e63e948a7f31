"""`while_loop`: steps until a condition fails, as one operation.

How many steps there are is known only when it runs, so the states before each step cannot be kept in an
array of static shape.  Its reverse derivative is therefore an operation of its own: it runs the loop again,
keeps the states meanwhile, and goes back over them.  Its derivative in turn follows from the loop's tangent:

    bars -> J^T bars          <J^T bars, d> = <bars, J d>

so derivatives of any order are loops like these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from codegen.ir import Aval
from codegen.nested import Repetition, Retreat

from ..custom import function
from ..custom.context import wanted as wanted_of
from ..errors import DTypeError, GradientError, check_callable, located
from ..ops import any as any_
from ..ops import as_tensor, zeros_like
from ..ops.batching import with_examples
from ..tape.modes import enable_grad
from ..tape.watched import seen_within
from ..tensor import Tensor
from ..tracebacks import border
from ..transforms.anomaly import runs_as_written
from ..transforms.arguments import own
from .body import Body, BodyUse, cut, filled, float_places, joined, mode_of, placed, tracks_of, until_stable
from .regions import Regions, run_of
from .trace import Nesting, applied, as_written, check_kept, choose, derived, of_all, trace, where_differing

__all__ = ["while_loop"]


class Repeat(NamedTuple):
    """The static part of a loop: condition and step, which read the same."""

    condition: Body
    step: Body


class Back(NamedTuple):
    """The static part of going back over a loop: the loop, and the pullback of a step.

    back   (cotangents of the float states, sums of those of the float hidden inputs; states; what it captured)
    """

    condition: Body
    step: Body
    back: Body


def _run(loop: Repetition | Retreat, *arrays: np.ndarray) -> list[Any]:
    """Run the loop, and back where it has to.  (Compiled, it is native where condition and step are.)"""
    count = len(loop.step.inputs)
    states, hidden, before = list(arrays[: loop.carried]), arrays[loop.carried : count], []
    condition, step = run_of(loop.condition), run_of(loop.step)
    while condition(*states, *hidden)[0]:
        before.append(states)
        states = list(step(*states, *hidden))
    if isinstance(loop, Repetition):
        return states
    values, back = list(arrays[count:]), run_of(loop.back)
    for states in reversed(before):
        values = list(back(*values, *states, *hidden))
    return values


# ---------------------------------------------------------------- many examples


class Masked:
    """A `while_loop` for all examples: steps until none wants another; those that are done keep their state.

    flags   which inputs differ;  asks: whether the condition does, so that some are done before others
    uses    condition and step of all examples
    """

    def __init__(self, loop: Repeat | Back, inputs: Sequence[Tensor], mapped: Sequence[bool], size: int) -> None:
        self.loop, self.size, self.asks = loop, size, False
        count = self.count = len(loop.step.results)
        rest = list(mapped[count:])

        def after(flags: list[bool]) -> list[bool]:
            self.asks = loop.condition.differing(flags)[0]
            return [True] * count if self.asks else loop.step.differing(flags)

        self.flags = until_stable(mapped[:count], rest, after)
        self.states = where_differing(zip(inputs, mapped, strict=True), self.flags[:count], size)
        self.hidden = inputs[count:]
        self.purpose = "examples of steps", size, self.asks, *self.flags, loop.condition
        self.uses = [derived(body, (name, *self.purpose), f, self.states, (), self.hidden) for body, name, f in (
            (loop.condition, "asked", self._condition), (loop.step, "stepped", self._step))]

    def _goes_on(self, values: Sequence[Tensor]) -> Tensor:
        """The examples that want another step (one answer where they agree)."""
        ((chosen, _),) = applied(self.loop.condition, values, self.flags, self.size)
        return chosen

    def _condition(self, values: list[Tensor]) -> list[Tensor]:
        chosen = self._goes_on(values)
        return [any_(chosen) if self.asks else chosen]

    def _step(self, values: list[Tensor]) -> list[Tensor]:
        found = applied(self.loop.step, values, self.flags, self.size)
        return self.kept(values, where_differing(found, self.flags[: self.count], self.size), values)

    def kept(self, before: Sequence[Tensor], after: list[Tensor], values: Sequence[Tensor]) -> list[Tensor]:
        """The states after a step of the examples that want one; the other examples keep theirs."""
        if not self.asks:
            return after
        chosen = self._goes_on(values)
        return [choose(chosen, a, b) for a, b in zip(after, before, strict=False)]


def _of_all(size: int, repeat: Repeat, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Sequence[Tensor]:
    loop = Masked(repeat, inputs, mapped, size)
    bodies, hidden = joined(*loop.uses, shared=len(loop.hidden))
    found = _repeated(Repeat(*bodies), (*loop.states, *hidden))
    return with_examples(size, found, loop.flags[: loop.count])


def _back_of_all(size: int, back: Back, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Sequence[Tensor]:
    """Over the steps of others an example that was done keeps its values."""
    end = len(back.step.graph.inputs)
    loop = Masked(back, inputs[:end], mapped[:end], size)
    values = with_examples(size, inputs[end:], mapped[end:])
    flags = [*[True] * len(values), *loop.flags]

    def step(given: list[Tensor]) -> list[Tensor]:
        found = of_all(applied(back.back, given, flags, size), size)
        return loop.kept(given, found, given[len(values) :])

    turned = derived(back.back, loop.purpose, step, (*values, *loop.states), (), loop.hidden)
    bodies, hidden = joined(*loop.uses, turned, shared=len(loop.hidden))
    return _while_backwards.record(Back(*bodies), (*loop.states, *hidden, *values))


# ---------------------------------------------------------------- rules


@function
def _repeated(repeat, inputs): ...


_repeated.__name__ = "while_loop"  # in messages
_while = Regions("while", Repeat, Repetition, _run, _of_all)
_while_backwards = Regions("while_backwards", Back, Retreat, _run, _back_of_all)


@_repeated.forward
def _(ctx, repeat, inputs):
    return _while.record(repeat, inputs)


@_repeated.backward
def _(ctx, *bars):
    repeat, inputs = ctx.inputs
    repeat = seen_within(repeat)  # its numbers are parameters
    count, read = len(bars), repeat.step.read()
    floats = float_places(inputs[:count])
    places = [k for k, is_wanted in enumerate(wanted_of(ctx, "inputs")) if is_wanted and read[k] and k >= count]
    given = filled([bars[k] for k in floats], [inputs[k] for k in floats])
    found = _gone_back(repeat, tuple(places), inputs, tuple(given))
    return {"repeat": None, "inputs": tuple(placed(found, [*floats, *places], len(inputs)))}


@_repeated.jvp
def _(ctx, _repeat, dots):
    repeat, inputs = ctx.inputs
    count = len(repeat.step.results)
    found = _looped(*_moving(seen_within(repeat), inputs, dots))[count:]
    return tuple(placed(found, float_places(inputs[:count]), count))


def _moving(
    repeat: Repeat, inputs: Sequence[Tensor], dots: Sequence[Tensor | None]
) -> tuple[Repeat, tuple[Tensor, ...]]:
    """The loop of states and their tangents, where None is zero, and its inputs.

    These are the states, tangents of the float ones, the hidden inputs, tangents of those.
    """
    count = len(repeat.step.results)
    floats = float_places(inputs[:count])
    moving = [k for k, dot in enumerate(dots) if dot is not None and k >= count]
    split = count + len(floats)

    def pushed(values: list[Tensor]) -> list[Tensor]:
        end = split + len(inputs) - count
        now, along = [*values[:count], *values[split:end]], [*values[count:split], *values[end:]]
        after, moved = repeat.step.push(now, along, [*floats, *moving])
        return [*after, *[moved[k] for k in floats]]

    def goes_on(values: list[Tensor]) -> list[Tensor]:
        return repeat.condition.apply([*values[:count], *values[split : split + len(inputs) - count]])

    start = [*inputs[:count], *filled([dots[k] for k in floats], [inputs[k] for k in floats])]
    hidden = [*inputs[count:], *[dot for dot in dots[count:] if dot is not None]]
    uses = [derived(body, (purpose, *moving), f, start, (), hidden) for body, purpose, f in (
        (repeat.condition, "asked", goes_on), (repeat.step, "moving", pushed))]
    bodies, hidden = joined(*uses, shared=len(hidden))
    return Repeat(*bodies), (*start, *hidden)


def _looped(repeat: Repeat, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """The last states, those without a history that depend on nothing by a gradient."""
    states, hidden = inputs[: len(repeat.step.results)], inputs[len(repeat.step.results) :]
    with mode_of(repeat.step):
        found, after = _repeated(repeat, inputs), repeat.step.tracking_after(states, hidden)
        return cut(found, [a or b for a, b in zip(tracks_of(states), after, strict=True)])


@function
def _gone_back(repeat, wanted, inputs, bars): ...


_gone_back.__name__ = "the way back of while_loop"  # in messages


@_gone_back.forward
def _(ctx, repeat, wanted, inputs, bars):
    """Cotangents of the float states, and of the hidden inputs `wanted`."""
    count = len(repeat.step.results)
    states, hidden = inputs[:count], list(inputs[count:])
    places = [*float_places(states), *wanted]

    def back(values):
        found = repeat.step.pull(values[len(places) :], values[: len(bars)], places)
        sums = [s + found[k] for s, k in zip(values[len(bars) :], wanted, strict=False)]
        return [*[found[k] for k in places[: len(bars)]], *sums]

    first = *bars, *[zeros_like(inputs[k]) for k in wanted]
    made = derived(repeat.step, ("retreat", *wanted), back, (*first, *states), (), hidden)
    bodies, hidden = joined(*[BodyUse(body, hidden) for body in repeat], made, shared=len(hidden))
    return _while_backwards.record(Back(*bodies), (*states, *hidden, *first))


@_gone_back.backward
def _(ctx, *directions):
    """<J^T bars, d> = <bars, J d>: its derivative is that of the loop's tangent along d."""
    repeat, wanted, inputs, bars = ctx.inputs
    repeat, wanted = seen_within((repeat, wanted))  # numbers are parameters
    _refuse_hooks(repeat)
    count = len(repeat.step.results)
    floats = float_places(inputs[:count])
    second = [k for k, is_wanted in enumerate(wanted_of(ctx, "inputs")) if is_wanted and k >= count]
    along = placed(directions, [*floats, *wanted], len(inputs))
    moved = _looped(*_moving(repeat, inputs, along))[count:]
    found = _back_over_tangents(repeat, inputs, along, second, [*[zeros_like(bar) for bar in bars], *bars])
    back = placed([*found[: len(floats)], *found[2 * len(floats) :]], [*floats, *second], len(inputs))
    return {"repeat": None, "wanted": None, "inputs": tuple(back), "bars": tuple(moved)}


@_gone_back.jvp
def _(ctx, _repeat, _wanted, dots, bar_dots):
    """The way back of the loop of states and tangents, given the tangents of the bars, and the bars.

    For all d: <h, d> = <bars, J d>, so <h', d> = <bars', J d> + <bars, (J d)'>; and (J d)' = (J v)' in direction d.
    """
    repeat, wanted, inputs, bars = ctx.inputs
    repeat, wanted = seen_within((repeat, wanted))  # numbers are parameters
    _refuse_hooks(repeat)
    bar_dots = filled(bar_dots or [None] * len(bars), bars)
    found = _back_over_tangents(repeat, inputs, dots or [None] * len(inputs), wanted, [*bar_dots, *bars])
    return (*found[: len(bars)], *found[2 * len(bars) :])


def _back_over_tangents(
    repeat: Repeat, inputs: Sequence[Tensor], dots: Sequence[Tensor | None], wanted: Sequence[int], bars: list[Tensor]
) -> Sequence[Tensor]:
    """The way back of the loop of states and tangents: cotangents of both, then of the hidden inputs `wanted`."""
    with enable_grad():  # its step is differentiated
        moving, given = _moving(repeat, inputs, dots)
    before = len(moving.step.results) - len(repeat.step.results)  # hidden inputs stand after the tangents
    found: Sequence[Tensor] = _gone_back(moving, tuple([before + k for k in wanted]), given, tuple(bars))
    return found


def _refuse_hooks(repeat: Repeat) -> None:
    if repeat.step.has_hooks:
        raise GradientError(located(
            "while_loop: a second derivative through a step with hooks is not known: they change the gradients that it"
            " is derived from",
            "use fori_loop or scan, where the number of steps is known, or register the hooks outside of the loop",
        ))


@border
def while_loop(condition: Callable, body: Callable, init: Any) -> Any:
    """`while condition(value): value = body(value)`, as one operation; returns the last value.

    condition   value -> bool[];  body: value -> value of the same shapes and dtypes;  both recorded once
    init        any nesting of tensors, arrays, numbers

    Differentiable to any order, in both modes.  Reverse mode runs the loop once more and keeps its states; where the
    number of steps is known, `fori_loop` and `scan` do not.  Raises ShapeError or DTypeError where a value changes
    its shape or dtype, or the condition is no bool.

    >>> import autodiff as ad
    >>> ad.while_loop(lambda x: x < 100.0, lambda x: x * 3.0, ad.tensor(1.0))
    f64[] 243.0
    """
    check_callable(condition, "while_loop")
    check_callable(body, "while_loop")
    first, nesting = Nesting.of(init)
    states = [as_tensor(s, "while_loop", "init") for s in first]
    if runs_as_written():
        value = nesting.filled([own(s) for s in states])
        while condition(value):
            value = as_written(body, value)
        return value
    avals = nesting.filled([s.aval for s in states])
    asked, step = [trace(f, avals, values=lambda: [nesting.filled(states)]) for f in (condition, body)]
    _check(asked.body, step, states, nesting)
    bodies, hidden = joined(asked, step)
    return nesting.filled(_looped(Repeat(*bodies), (*states, *hidden)))


def _check(condition: Body, step: BodyUse, states: Sequence[Tensor], nesting: Nesting) -> None:
    outs = [n.aval for n in condition.graph.outputs]
    if len(outs) != 1 or outs[0] != Aval((), np.dtype(np.bool_)):
        given = ", ".join(map(str, outs)) or "nothing"
        raise DTypeError(located(f"while_loop: the condition gives {given}, not bool[]"))
    after = [n.aval for n in step.body.graph.outputs]
    check_kept("while_loop", "value", nesting, step.result, [s.aval for s in states], after)
