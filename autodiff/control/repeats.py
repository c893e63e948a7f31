"""`while_loop`: steps until a condition fails, as one operation.

The number of steps is known only when the loop runs, so the states before each step cannot be kept in an
array of static shape.  Its reverse derivative is therefore another operation, which runs the loop again,
keeps the states meanwhile, and goes back over them.  The derivative of that operation follows from the loop's tangent:

    bars -> J^T bars          <J^T bars, d> = <bars, J d>

so derivatives of any order are loops of these two kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.nested import Repetition

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
from ..transforms.batch.walk import of_each
from .body import Body, ever_set, filled, float_places, mode_of, placed
from .regions import Regions, called, run_of
from .trace import (
    ExampleOf,
    Nesting,
    as_result,
    check_kept,
    choose,
    derived,
    in_dtypes,
    is_python_number,
    run_as_written,
    trace,
    valued,
    where_differing,
)  # fmt: skip


def _run(loop: Repetition, *arrays: np.ndarray) -> list[Any]:
    """Run the loop, and back over its states if it has a way back.  Compiled code is native if the bodies can be."""
    first = len(arrays) - len(loop.step.inputs)
    split = first + loop.carried
    values, states, hidden, before = list(arrays[:first]), list(arrays[first:split]), arrays[split:], []
    condition, step = run_of(loop.condition), run_of(loop.step)
    while condition(*states, *hidden)[0]:
        before.append(states)
        states = list(step(*states, *hidden))
    if loop.back is None:
        return states
    back = run_of(loop.back)
    for states in reversed(before):
        values = list(back(*values, *states, *hidden))
    return values


def _of_all(size: int, loop: Repetition, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Sequence[Tensor]:
    """Steps until no example needs another; a finished example keeps its state, and on the way back its cotangents."""
    first, count, asks = len(inputs) - len(loop.step.graph.inputs), len(loop.step.results), False
    split = first + count

    def after(flags: list[bool]) -> list[bool]:
        nonlocal asks
        asks = loop.condition.differing(flags)[0]  # True: some examples may be finished before others
        return [True] * count if asks else loop.step.differing(flags)

    flags = [*[True] * first, *ever_set(mapped[first:split], mapped[split:], after)]
    start, hidden = where_differing(zip(inputs, mapped, strict=True), flags[:split], size), inputs[split:]

    def going_on(values: Sequence[Tensor]) -> Tensor:
        """True for the examples that need another step (one value if all agree)."""
        ((chosen, _),) = of_each(loop.condition.apply, values, flags[first:], size)
        return chosen

    def asked(values: list[Tensor]) -> list[Tensor]:
        chosen = going_on(values)
        return [any_(chosen) if asks else chosen]

    def stepped(body: Body, begin: int, values: list[Tensor]) -> list[Tensor]:
        """The step of a body whose inputs are those of the loop from `begin` on, for the examples that need one."""
        found = where_differing(of_each(body.apply, values, flags[begin:], size), flags[begin:], size)
        if not asks:
            return found
        chosen = going_on(values[first - begin :])
        return [choose(chosen, now, before) for now, before in zip(found, values, strict=False)]

    calls: list[Any] = [(asked, start[first:], ()), (partial(stepped, loop.step, first), start[first:], ())]
    if loop.back is not None:
        calls.append((partial(stepped, loop.back, 0), start, ()))
    made = derived(_bodies(loop), ("examples of steps", size, *flags), calls, hidden)
    repeat, given = Repetition(*made.bodies), (*start, *made.hidden)
    if loop.back is not None:
        return _while.record(repeat, given)
    return with_examples(size, _repeated(repeat, given), flags[:count])


def _bodies(loop: Repetition) -> tuple[Body, ...]:
    """The condition and the step; if the loop has a way back, also its body.

    Inputs of the latter: cotangents of float states, sums of those of float hidden inputs, the states, hidden inputs.
    """
    return tuple([body for body in loop if body is not None])


# ---------------------------------------------------------------- rules


@function
def _repeated(repeat, inputs): ...


_repeated.__name__ = "while_loop"  # in messages
_while = Regions("while", Repetition, _run, _of_all)


@_repeated.forward
def _(ctx, repeat, inputs):
    ctx.set_materialize_grads(False)
    return _while.record(repeat, inputs)


@_repeated.backward
def _(ctx, *bars):
    repeat, inputs = ctx.inputs
    repeat = seen_within(repeat)  # the watched numbers in it are parameters, which count by value
    count, pulled = len(bars), ever_set([bar is not None for bar in bars], [], repeat.step.read)
    read = repeat.step.read(pulled)
    floats = [k for k in float_places(inputs[:count]) if pulled[k]]
    hidden = [k for k, is_wanted in enumerate(wanted_of(ctx, "inputs")) if is_wanted and read[k] and k >= count]
    given, places = filled([bars[k] for k in floats], [inputs[k] for k in floats]), (*floats, *hidden)
    found = _backward_loop(repeat, places, inputs, tuple(given))
    return {"repeat": None, "inputs": tuple(placed(found, places, len(inputs)))}


@_repeated.jvp
def _(ctx, _repeat, dots):
    repeat, inputs = ctx.inputs
    count = len(repeat.step.results)
    floats = float_places(inputs[:count])
    found = _looped(*_with_tangents(seen_within(repeat), floats, inputs, dots))[count:]
    return tuple(placed(found, floats, count))


def _with_tangents(
    repeat: Repetition, floats: Sequence[int], inputs: Sequence[Tensor], dots: Sequence[Tensor | None]
) -> tuple[Repetition, tuple[Tensor, ...]]:
    """The loop of states and the tangents of those at `floats` (None: zero), and its inputs.

    The inputs are the states, these tangents, the hidden inputs, and tangents of these.
    """
    count = len(repeat.step.results)
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
    made = derived(_bodies(repeat), ("moving", *floats, *moving), [(goes_on, start, ()), (pushed, start, ())], hidden)
    return Repetition(*made.bodies), (*start, *made.hidden)


def _looped(repeat: Repetition, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The last states; a state is detached if no gradient can flow through it."""
    step, count = repeat.step, len(repeat.step.results)

    def tracking(flags: list[bool]) -> list[bool]:
        return ever_set(flags[:count], flags[count:], step.tracking)[:count]

    with mode_of(step):
        return called(_repeated, repeat, inputs, tracking)


@function
def _backward_loop(repeat, places, inputs, bars): ...


_backward_loop.__name__ = "the way back of while_loop"  # in messages


@_backward_loop.forward
def _(ctx, repeat, places, inputs, bars):
    """Cotangents of the inputs at `places`: of the states that `bars` are the cotangents of, then of hidden inputs."""
    count = len(repeat.step.results)
    states, floats, wanted = inputs[:count], places[: len(bars)], places[len(bars) :]

    def back(values):
        found = repeat.step.pull(values[len(places) :], placed(values[: len(bars)], floats, count), places)
        sums = [s + found[k] for s, k in zip(values[len(bars) :], wanted, strict=False)]
        return [*[found[k] for k in floats], *sums]

    start = *bars, *[zeros_like(inputs[k]) for k in wanted], *states
    calls = [*[(body.apply, states, ()) for body in _bodies(repeat)], (back, start, ())]
    made = derived(_bodies(repeat), ("retreat", *places), calls, inputs[count:])
    return _while.record(Repetition(*made.bodies), (*start, *made.hidden))


@_backward_loop.backward
def _(ctx, *directions):
    """<J^T bars, d> = <bars, J d>: the derivative along d is that of the loop's tangent."""
    repeat, places, inputs, bars = _of_way_back(ctx)
    count, floats = len(repeat.step.results), places[: len(bars)]
    second = [*floats, *[k for k, is_wanted in enumerate(wanted_of(ctx, "inputs")) if is_wanted and k >= count]]
    along = placed(directions, places, len(inputs))
    moved = _looped(*_with_tangents(repeat, floats, inputs, along))[count:]
    found = _back_over_tangents(repeat, inputs, along, second, [zeros_like(bar) for bar in bars], bars)
    return {"repeat": None, "places": None, "inputs": tuple(placed(found, second, len(inputs))), "bars": tuple(moved)}


@_backward_loop.jvp
def _(ctx, _repeat, _places, dots, bar_dots):
    """The way back of the loop of states and tangents, from the tangents of the bars, and the bars.

    For all d: <h, d> = <bars, J d>, so <h', d> = <bars', J d> + <bars, (J d)'>; and (J d)' = (J v)' in direction d.
    """
    repeat, places, inputs, bars = _of_way_back(ctx)
    bar_dots = filled(bar_dots or [None] * len(bars), bars)
    return tuple(_back_over_tangents(repeat, inputs, dots or [None] * len(inputs), places, bar_dots, bars))


def _back_over_tangents(
    repeat: Repetition, inputs: Sequence[Tensor], dots: Sequence[Tensor | None], places: Sequence[int],
    state_bars: Sequence[Tensor], bars: Sequence[Tensor],
) -> Sequence[Tensor]:
    """The way back of the loop of states and tangents, from cotangents of both: those of the inputs at `places`."""
    count, size = len(repeat.step.results), len(bars)
    with enable_grad():  # because the step of this loop is differentiated
        moving, given = _with_tangents(repeat, places[:size], inputs, dots)
    hidden = [size + k for k in places[size:]]  # these come after the tangents
    through = *places[:size], *range(count, count + size), *hidden
    found: Sequence[Tensor] = _backward_loop(moving, through, given, (*state_bars, *bars))
    return [*found[:size], *found[2 * size :]]


def _of_way_back(ctx: Any) -> tuple[Repetition, Sequence[int], Sequence[Tensor], Sequence[Tensor]]:
    """The arguments of `_backward_loop`, for its derivative."""
    repeat, places, inputs, bars = ctx.inputs
    if repeat.step.has_hooks:
        raise GradientError(located(
            "while_loop: a second derivative through a step with hooks is not known: they change the gradients that it"
            " is derived from",
            "use fori_loop or scan, where the number of steps is known, or register the hooks outside of the loop",
        ))
    return *seen_within((repeat, places)), inputs, bars  # watched numbers are parameters, which count by value


@border
def while_loop(condition: Callable, body: Callable, init: Any) -> Any:
    """`while condition(value): value = body(value)`, as one operation; returns the last value.

    condition   value -> bool[];  body: value -> value of the same shapes and dtypes;  both recorded once
    init        any nesting of tensors, arrays, numbers

    Differentiable to any order, in both modes.  Reverse mode runs the loop once more and keeps its states; if the
    number of steps is known, `fori_loop` and `scan` avoid the second run.  Raises ShapeError or DTypeError if the value
    changes its shape or dtype, or the condition is no bool.

    >>> import autodiff as ad
    >>> ad.while_loop(lambda x: x < 100.0, lambda x: x * 3.0, ad.tensor(1.0))
    f64[] 243.0
    """
    check_callable(condition, "while_loop")
    check_callable(body, "while_loop")
    first, nesting = Nesting.of(init)
    states = [as_tensor(s, "while_loop", "init") for s in first]
    if runs_as_written():
        value = valued(nesting.filled(list(map(ExampleOf, states, first))))
        while condition(value):
            value = run_as_written(body, value)
        return as_result(value)
    examples = [ExampleOf(s, x if is_python_number(x) else None) for s, x in zip(states, first, strict=True)]
    example = nesting.filled(examples)
    traced = trace(*[(f, (example,)) for f in (condition, body)])
    outs, after = [[n.aval for n in body.graph.outputs] for body in traced.bodies]
    fitting = in_dtypes(first, traced.bodies[1], traced.hidden)
    if fitting is not None and traced.results[1] == nesting:
        return while_loop(condition, body, nesting.filled(fitting))
    if outs != [Aval((), np.dtype(np.bool_))]:
        given = ", ".join(map(str, outs)) or "nothing"
        raise DTypeError(located(f"while_loop: the condition gives {given}, not bool[]"))
    check_kept("while_loop", "value", nesting, traced.results[1], [s.aval for s in states], after)
    return nesting.filled(_looped(Repetition(*traced.bodies), (*states, *traced.hidden)))
