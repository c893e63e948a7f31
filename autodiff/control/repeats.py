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
from codegen.lowering import Nest
from codegen.nested import Repetition, Retreat

from ..custom import function
from ..custom.context import wanted as wanted_of
from ..errors import DTypeError, GradientError, ShapeError, caller, check_callable
from ..ops import as_tensor, zeros_like
from ..ops.primitive import primitive
from ..tape.record import record
from ..tape.watched import seen_within
from ..tensor import Tensor
from ..tracebacks import shorten
from ..transforms.anomaly import runs_as_written
from ..transforms.arguments import own
from ..transforms.modes import enable_grad
from .batching import tracking_after, while_backwards_batch, while_batch
from .body import Body, check_kept, cut, filled, float_places, mode_of, placed, tracks_of
from .derived import derived
from .packing import pack, packed_aval, record_packed, rule_of_call, run_of
from .trace import Nesting, Traced, as_written, trace

__all__ = ["while_loop"]


class Repeat(NamedTuple):
    """The static part of a loop: condition and step, and the number of hidden inputs of the condition."""

    hidden: int
    condition: Body
    step: Body

    @property
    def repetition(self) -> Repetition:
        """The same, as the compiler has it."""
        return Repetition(self.condition.graph, self.step.graph, self.hidden)


class Back(NamedTuple):
    """The static part of going back over a loop: the loop, and the pullback of a step.

    back   (cotangents of the float states, sums of those of the float hidden inputs; states; what it captured)
    """

    hidden: int
    condition: Body
    step: Body
    back: Body

    @property
    def retreat(self) -> Retreat:
        """The same, as the compiler has it."""
        return Retreat(self.condition.graph, self.step.graph, self.back.graph, self.hidden)


def _run(*arrays: np.ndarray, dtype: str, **static: Any) -> np.ndarray:
    """Run the loop.  (Compiled, it is native where condition and step are.)"""
    states, _ = _repeated_by_python(Repeat(**static).repetition, arrays)
    return pack([np.asarray(s) for s in states], dtype)


def _run_back(*arrays: np.ndarray, dtype: str, **static: Any) -> np.ndarray:
    retreat = Back(**static).retreat
    count, split = retreat.forwards, retreat.forwards + len(retreat.back.outputs)
    _, before = _repeated_by_python(retreat, arrays[:count])
    values, hidden = list(arrays[count:split]), arrays[split:]
    back = run_of(retreat.back)
    for states in reversed(before):
        values = list(back(*values, *states, *hidden))
    return pack([np.asarray(v) for v in values], dtype)


def _repeated_by_python(loop: Repetition | Retreat, arrays: Sequence[Any]) -> tuple[list, list[list]]:
    """The last states, and those before each step."""
    count = loop.carried
    split = count + loop.hidden
    states, before = list(arrays[:count]), []
    condition, step = run_of(loop.condition), run_of(loop.step)
    while condition(*states, *arrays[count:split])[0]:
        before.append(states)
        states = list(step(*states, *arrays[split:]))
    return states, before


_while = primitive(
    "while",
    _run,
    infer=lambda *_avals, dtype, **static: packed_aval(Repeat(**static).repetition.results, dtype),
    lower=Nest(lambda dtype, **static: Repeat(**static).repetition),
    vjp=rule_of_call(lambda inputs, **static: _results(Repeat(**static), inputs)),
    params=("dtype", *Repeat._fields),
    heavy=True,
    keeps_mask=False,
    traits=("regions",),
    batch=while_batch(Repeat),
)

_while_backwards = primitive(
    "while_backwards",
    _run_back,
    infer=lambda *_avals, dtype, **static: packed_aval(Back(**static).retreat.results, dtype),
    lower=Nest(lambda dtype, **static: Back(**static).retreat),
    params=("dtype", *Back._fields),
    heavy=True,
    traits=("regions",),
    batch=while_backwards_batch(Back),
)


def _results(repeat: Repeat, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The last states, by a call of the loop's function: behind its rule."""
    count = len(repeat.step.results)
    split = count + repeat.hidden
    found: tuple[Tensor, ...] = _repeated(
        repeat, tuple(inputs[:count]), tuple(inputs[count:split]), tuple(inputs[split:])
    )
    return found


# ---------------------------------------------------------------- rules


@function
def _repeated(repeat, states, of_condition, of_step): ...


_repeated.__name__ = "while_loop"  # in messages

@_repeated.forward
def _(ctx, repeat, states, of_condition, of_step):
    inputs = (*states, *of_condition, *of_step)
    avals = repeat.repetition.results
    return tuple(record_packed(lambda dtype: record(_while, inputs, (dtype, *repeat)), avals))


@_repeated.backward
def _(ctx, *bars):
    repeat, states, of_condition, of_step = ctx.inputs
    repeat = seen_within(repeat)  # its numbers are parameters
    floats = float_places(states)
    places = tuple([k for k, is_wanted in enumerate(wanted_of(ctx, "of_step")) if is_wanted])
    given = filled([bars[k] for k in floats], [states[k] for k in floats])
    state_bars, hidden_bars = _gone_back(repeat, places, states, of_condition, of_step, tuple(given))
    return {
        "repeat": None,
        "states": tuple(placed(state_bars, floats, len(states))),
        "of_condition": None,
        "of_step": tuple(placed(hidden_bars, places, len(of_step))) or None,
    }


@_repeated.jvp
def _(ctx, _repeat, state_dots, _condition_dots, hidden_dots):
    repeat, states, of_condition, of_step = ctx.inputs
    loop = MovingRepeat.of(seen_within(repeat), states, of_condition, of_step, state_dots, hidden_dots)
    found = _looped(loop.repeat, loop.states, loop.of_condition, loop.of_step)[len(states) :]
    return tuple(placed(found, float_places(states), len(states)))


class MovingRepeat(NamedTuple):
    """A loop of states and their tangents, and its inputs.

    reads   numbers of the hidden inputs of the step among those of the loop without tangents, then their tangents
    """

    repeat: Repeat
    states: tuple[Tensor, ...]
    of_condition: tuple[Tensor, ...]
    of_step: tuple[Tensor, ...]
    reads: tuple[int, ...]

    @staticmethod
    def of(
        repeat: Repeat, states: Sequence[Tensor], of_condition: Sequence[Tensor], of_step: Sequence[Tensor],
        state_dots: Sequence[Tensor | None] | None, hidden_dots: Sequence[Tensor | None] | None,
    ) -> MovingRepeat:
        """The loop of these tangents, where None is zero."""
        floats, count = float_places(states), len(states)
        moving = [k for k, dot in enumerate(hidden_dots or ()) if dot is not None]
        places = [*floats, *[count + k for k in moving]]

        def pushed(value: list[Tensor], hidden: list[Tensor]) -> list[Tensor]:
            inputs, along = [*value[:count], *hidden[: len(of_step)]], [*value[count:], *hidden[len(of_step) :]]
            after, moved = repeat.step.push(inputs, along, places)
            return [*after, *[moved[k] for k in floats]]

        def goes_on(value: list[Tensor], hidden: list[Tensor]) -> list[Tensor]:
            return repeat.condition.apply([*value[:count], *hidden])

        start = [*states, *filled([(state_dots or [None] * count)[k] for k in floats], [states[k] for k in floats])]
        hidden = [*of_step, *[dot for dot in hidden_dots or () if dot is not None]]
        avals = [t.aval for t in start]
        asked = derived(repeat.condition, ("asked",), goes_on, avals, of_condition, lambda: (start, [*of_condition]))
        step = derived(repeat.step, ("moving", *moving), pushed, avals, hidden, lambda: (start, hidden))
        both = Repeat(len(asked.hidden), asked.body, step.body)
        return MovingRepeat(both, tuple(start), tuple(asked.hidden), tuple(step.hidden), step.reads)

    def back(self, wanted: Sequence[int], bars: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor | None]]:
        """The cotangents of the float states, and of the hidden inputs `wanted` of the loop without tangents."""
        there = tuple([self.reads.index(k) for k in wanted if k in self.reads])
        found, sums = _gone_back(self.repeat, there, self.states, self.of_condition, self.of_step, tuple(bars))
        known = dict(zip([self.reads[k] for k in there], sums, strict=True))
        return found, [known.get(k) for k in wanted]


def _looped(
    repeat: Repeat, states: Sequence[Tensor], of_condition: Sequence[Tensor], of_step: Sequence[Tensor]
) -> list[Tensor]:
    """The last states, those without a history that depend on nothing by a gradient."""
    with mode_of(repeat.step):
        found = _repeated(repeat, tuple(states), tuple(of_condition), tuple(of_step))
        after = tracking_after(repeat.step, states, tracks_of(of_step))
        return cut(found, [a or b for a, b in zip(tracks_of(states), after, strict=True)])


@function
def _gone_back(repeat, wanted, states, of_condition, of_step, bars): ...


_gone_back.__name__ = "the way back of while_loop"  # in messages

@_gone_back.forward
def _(ctx, repeat, wanted, states, of_condition, of_step, bars):
    """Cotangents of the float states, and of the hidden inputs `wanted`."""
    floats = float_places(states)
    places = [*floats, *[len(states) + k for k in wanted]]

    def back(given, hidden):
        bars, sums, now = given[: len(floats)], given[len(floats) : len(places)], given[len(places) :]
        found = repeat.step.pull([*now, *hidden], bars, places)
        return [found[k] for k in floats] + [s + found[len(states) + k] for s, k in zip(sums, wanted, strict=True)]

    sums = [zeros_like(of_step[k]) for k in wanted]
    avals = [t.aval for t in (*bars, *sums, *states)]
    made = derived(repeat.step, ("retreat", *wanted), back, avals, of_step)
    static = Back(*repeat, made.body)
    inputs = (*states, *of_condition, *of_step, *bars, *sums, *made.hidden)
    avals = static.retreat.results
    found = record_packed(lambda dtype: record(_while_backwards, inputs, (dtype, *static)), avals)
    return tuple(found[: len(floats)]), tuple(found[len(floats) :])


@_gone_back.backward
def _(ctx, dots, directions):
    """<J^T bars, d> = <bars, J d>: its derivative is that of the loop's tangent along d."""
    repeat, wanted, states, of_condition, of_step, bars = ctx.inputs
    repeat, wanted = seen_within((repeat, wanted))  # numbers are parameters
    _refuse_hooks(repeat)
    floats = float_places(states)
    second = [k for k, is_wanted in enumerate(wanted_of(ctx, "of_step")) if is_wanted]
    along = placed(dots, floats, len(states)), placed(directions, wanted, len(of_step))
    loop = MovingRepeat.of(repeat, states, of_condition, of_step, *along)
    moved = _looped(loop.repeat, loop.states, loop.of_condition, loop.of_step)[len(states) :]
    with enable_grad():  # its step is differentiated
        loop = MovingRepeat.of(repeat, states, of_condition, of_step, *along)
    state_bars, hidden_bars = loop.back(second, [*[zeros_like(bar) for bar in bars], *bars])
    return {
        "repeat": None,
        "wanted": None,
        "states": tuple(placed(state_bars[: len(floats)], floats, len(states))),
        "of_condition": None,
        "of_step": tuple(placed(hidden_bars, second, len(of_step))) or None,
        "bars": tuple(moved),
    }


@_gone_back.jvp
def _(ctx, _repeat, _wanted, state_dots, _condition_dots, hidden_dots, bar_dots):
    """The way back of the loop of states and tangents, given the tangents of the bars, and the bars.

    For all d: <h, d> = <bars, J d>, so <h', d> = <bars', J d> + <bars, (J d)'>; and (J d)' = (J v)' in direction d.
    """
    repeat, wanted, states, of_condition, of_step, bars = ctx.inputs
    repeat, wanted = seen_within((repeat, wanted))  # numbers are parameters
    _refuse_hooks(repeat)
    with enable_grad():  # its step is differentiated
        loop = MovingRepeat.of(repeat, states, of_condition, of_step, state_dots, hidden_dots)
    found, sums = loop.back(wanted, [*filled(bar_dots or [None] * len(bars), bars), *bars])
    return tuple(found[: len(bars)]), tuple(sums)


def _refuse_hooks(repeat: Repeat) -> None:
    if repeat.step.has_hooks:
        raise GradientError(
            "while_loop: a second derivative through a step with hooks is not known: they change the gradients that it"
            f" is derived from\n  called at {caller()}\n"
            "  use fori_loop or scan, where the number of steps is known, or register the hooks outside of the loop"
        )


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
    try:
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
        repeat = Repeat(len(asked.hidden), asked.body, step.body)
        return nesting.filled(_looped(repeat, states, asked.hidden, step.hidden))
    except Exception as error:
        shorten(error)
        raise


def _check(condition: Body, step: Traced, states: Sequence[Tensor], nesting: Nesting) -> None:
    outs = [n.aval for n in condition.graph.outputs]
    if len(outs) != 1 or outs[0] != Aval((), np.dtype(np.bool_)):
        raise DTypeError(
            f"while_loop: the condition gives {', '.join(map(str, outs)) or 'nothing'}, not bool[]\n"
            f"  called at {caller()}"
        )
    if step.result != nesting:
        raise ShapeError(f"while_loop: the value changes from {nesting} to {step.result}\n  called at {caller()}")
    after = [n.aval for n in step.body.graph.outputs]
    check_kept("while_loop", nesting.names("value"), [s.aval for s in states], after)
