"""`while_loop`: steps until a condition fails, as one operation.

How many steps there are is known only when it runs, so the states before each step cannot be kept in an
array of static shape.  Its reverse derivative is therefore an operation of its own: it runs the loop again,
keeps the states meanwhile, and goes back over them.  That operation has no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from codegen.compiler import compile_graph
from codegen.ir import Aval
from codegen.lowering import Call

from ..config import config
from ..custom import function
from ..errors import DTypeError, ShapeError, caller
from ..ops import as_tensor, zeros_like
from ..ops.primitive import primitive
from ..tape.record import record, state
from ..tensor import Tensor
from ..transforms.forward import jvp
from ..transforms.functional import vjp
from .body import Body, Nesting, Traced, trace
from .packing import pack, packed_aval, record_packed

__all__ = ["while_loop"]


class Repeat(NamedTuple):
    """What is static about a loop: its condition and its step, how many hidden inputs the condition has."""

    condition: Body
    step: Body
    hidden: int

    @property
    def states(self) -> list[Aval]:
        """Of the states."""
        return [n.aval for n in self.step.graph.outputs]


def _parts(repeat: Repeat, arrays: Sequence[Any]) -> tuple[list, list, list]:
    """States, hidden inputs of the condition, hidden inputs of the step."""
    count = len(repeat.states)
    split = count + repeat.hidden
    return list(arrays[:count]), list(arrays[count:split]), list(arrays[split:])


def _run(*arrays: np.ndarray, repeat: Repeat, dtype: str) -> np.ndarray:
    states, of_condition, of_step = _parts(repeat, arrays)
    condition, step = compile_graph(repeat.condition.graph).call, compile_graph(repeat.step.graph).call
    while condition(*states, *of_condition)[0]:
        states = list(step(*states, *of_step))
    return pack([np.asarray(s) for s in states], dtype)


_while = primitive(
    "while",
    _run,
    infer=lambda *_avals, repeat, dtype: packed_aval(repeat.states, dtype),
    lower=Call(),
    params=("repeat", "dtype"),
    heavy=True,
)


class Backwards(NamedTuple):
    """What is static about going back: the loop, and the pullback of one step.

    pullback   (states, hidden inputs of the step, cotangents of float states) -> cotangents of float states, then of
               the float hidden inputs
    """

    repeat: Repeat
    pullback: Body
    floats: tuple[int, ...]

    @property
    def results(self) -> list[Aval]:
        """Cotangents of the float states, then of the float hidden inputs."""
        return [n.aval for n in self.pullback.graph.outputs]


def _run_backwards(*arrays: np.ndarray, back: Backwards, dtype: str) -> np.ndarray:
    repeat, count = back.repeat, len(back.floats)
    states, of_condition, of_step = _parts(repeat, arrays[: len(arrays) - count])
    bars = list(arrays[len(arrays) - count :])
    condition, step = compile_graph(repeat.condition.graph).call, compile_graph(repeat.step.graph).call
    pullback = compile_graph(back.pullback.graph).call
    before = []
    while condition(*states, *of_condition)[0]:
        before.append(states)
        states = list(step(*states, *of_step))
    sums = [np.zeros(a.shape, a.dtype) for a in back.results[count:]]
    while before:
        found = pullback(*before.pop(), *of_step, *bars)
        bars = list(found[:count])
        for total, bar in zip(sums, found[count:], strict=True):
            total += bar
    return pack([*[np.asarray(b) for b in bars], *sums], dtype)


_while_backwards = primitive(
    "while_backwards",
    _run_backwards,
    infer=lambda *_avals, back, dtype: packed_aval(back.results, dtype),
    lower=Call(),
    params=("back", "dtype"),
    heavy=True,
)


@function
def _repeated(repeat, states, of_condition, of_step): ...


@_repeated.forward
def _(ctx, repeat, states, of_condition, of_step):
    inputs = (*states, *of_condition, *of_step)
    return tuple(record_packed(lambda dtype: record(_while, inputs, (repeat, dtype)), repeat.states))


@_repeated.backward
def _(ctx, *bars):
    repeat, states, of_condition, of_step = ctx.inputs
    floats = tuple([k for k, s in enumerate(states) if s.dtype.kind in "fc"])
    h_floats = [k for k, h in enumerate(of_step) if h.dtype.kind in "fc"]

    def pullback(now, hidden, y_bars):
        def again(moving, moving_hidden):
            given = [*now, *hidden]
            for place, t in zip([*floats, *[len(now) + k for k in h_floats]], [*moving, *moving_hidden], strict=True):
                given[place] = t
            return [t for t in repeat.step.apply(given) if t.dtype.kind in "fc"]

        _, pulled = vjp(again, [now[k] for k in floats], [hidden[k] for k in h_floats])
        return pulled(y_bars)

    given_bars = [zeros_like(states[k]) if bars[k] is None else bars[k] for k in floats]
    shapes = ([s.aval for s in states], [h.aval for h in of_step], [b.aval for b in given_bars])
    back = Backwards(repeat, trace(pullback, *shapes).body, floats)
    inputs = (*states, *of_condition, *of_step, *given_bars)
    found = iter(record_packed(lambda dtype: record(_while_backwards, inputs, (back, dtype)), back.results))
    state_bars = [next(found) if k in floats else None for k in range(len(states))]
    hidden_bars = [next(found) if k in h_floats else None for k in range(len(of_step))]
    return {"repeat": None, "states": tuple(state_bars), "of_condition": None, "of_step": tuple(hidden_bars) or None}


@_repeated.jvp
def _(ctx, _repeat, state_dots, _condition_dots, hidden_dots):
    repeat, states, of_condition, of_step = ctx.inputs
    floats = [k for k, s in enumerate(states) if s.dtype.kind in "fc"]
    h_floats = [k for k, h in enumerate(of_step) if h.dtype.kind in "fc"]
    directions = [_dot_or_zero(hidden_dots, k, of_step[k]) for k in h_floats]

    def pushed(value):
        now, dots = value

        def again(moving, moving_hidden):
            given = [*now, *of_step]
            for place, t in zip([*floats, *[len(now) + k for k in h_floats]], [*moving, *moving_hidden], strict=True):
                given[place] = t
            return repeat.step.apply(given)

        primals = ([now[k] for k in floats], [of_step[k] for k in h_floats])
        after, moved = jvp(again, primals, (dots, directions))
        return after, [moved[k] for k in floats]

    start = (list(states), [_dot_or_zero(state_dots, k, states[k]) for k in floats])
    _, found = while_loop(lambda value: repeat.condition.apply([*value[0], *of_condition])[0], pushed, start)
    by_place = dict(zip(floats, found, strict=True))
    return tuple([by_place.get(k) for k in range(len(states))])


def _dot_or_zero(dots: Any, place: int, like: Tensor) -> Tensor:
    dot = None if dots is None else dots[place]
    return zeros_like(like) if dot is None else dot


def while_loop(condition: Callable, body: Callable, init: Any) -> Any:
    """`while condition(value): value = body(value)`, as one operation; returns the last value.

    condition   value -> bool[];  body: value -> value of the same avals;  both recorded once
    init        any nesting of tensors, arrays, numbers

    Reverse mode runs the loop once more and keeps its states; it gives first derivatives.  Where the number of
    steps is known, `fori_loop` and `scan` give all orders.  Raises ShapeError or DTypeError where a value changes
    its aval, or the condition is no bool.

    >>> import autodiff as ad
    >>> ad.while_loop(lambda x: x < 100.0, lambda x: x * 3.0, ad.tensor(1.0))
    f64[] 243.0
    """
    first, nesting = Nesting.of(init)
    states = [as_tensor(s, "while_loop", "init") for s in first]
    if config.eager and not state.now.tracing:
        value = nesting.filled(states)
        while condition(value):
            value = body(value)
        return value
    avals = nesting.filled([s.aval for s in states])
    asked, step = trace(condition, avals), trace(body, avals)
    _check(asked.body, step, states, nesting)
    repeat = Repeat(asked.body, step.body, len(asked.hidden))
    return nesting.filled(_repeated(repeat, tuple(states), tuple(asked.hidden), tuple(step.hidden)))


def _check(condition: Body, step: Traced, states: Sequence[Tensor], nesting: Nesting) -> None:
    outs = [n.aval for n in condition.graph.outputs]
    if len(outs) != 1 or outs[0] != Aval((), np.dtype(np.bool_)):
        raise DTypeError(
            f"while_loop: the condition gives {', '.join(map(str, outs)) or 'nothing'}, not bool[]\n"
            f"  called at {caller()}"
        )
    if step.result != nesting:
        raise ShapeError(f"while_loop: the value changes from {nesting} to {step.result}\n  called at {caller()}")
    for name, s, n in zip(nesting.names("value"), states, step.body.graph.outputs, strict=True):
        if s.aval != n.aval:
            error = ShapeError if s.shape != n.aval.shape else DTypeError
            raise error(f"while_loop: {name} is {s.aval} before a step and {n.aval} after it\n  called at {caller()}")
