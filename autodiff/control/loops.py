"""Loops that stay in the graph: `scan`, `fori_loop`, `while_loop`.

A loop is one operation whose body was recorded once and is compiled once, so a recurrence of a thousand steps
compiles as fast as one of ten.  Its derivative is another loop, which runs backwards:

    scan      c[t+1], y[t] = body(c[t], x[t], h)
    backwards c_bar[t], x_bar[t], h_bar += pullback of body at (c[t], x[t], h)  of (c_bar[t+1], y_bar[t])

The states c[t] are kept, and the products of each step; what is elementwise or a reduction is computed again.
Where memory is dear, `scan(checkpoint(f), ...)` computes all of a step again and keeps only the states.
The rule is a custom function that calls `scan` itself, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Nest
from codegen.nested import Recurrence
from codegen.runtime import memory
from codegen.symbols import as_index

from .. import tree
from ..custom import function
from ..custom.context import wanted
from ..errors import ConcretizationError, DispatchError, ShapeError, caller, check_callable
from ..ops import arange, as_tensor, astype, stack, zeros_like
from ..ops.arguments import check_parts
from ..ops.primitive import primitive, zeros_of
from ..stand_ins import standing
from ..tape.record import number_like_traced, record
from ..tape.watched import seen_within
from ..tensor import Tensor
from ..tracebacks import shorten
from ..transforms.anomaly import runs_as_written
from ..transforms.arguments import applied, own
from ..transforms.batch.walk import CALLS
from ..transforms.forward import jvp
from .batching import differing, looped_of_all, scan_batch, tracking_after, until_stable
from .body import Body, check_kept, cut, float_places, is_float, mode_of, placed, tracks_of
from .fission import apart
from .known import knowing
from .packing import pack, packed_aval, record_packed, rule_of_call, run_of
from .trace import Like, Nesting, Traced, as_written, is_python_number, started, trace

__all__ = ["fori_loop", "scan"]


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
    groups = _looped(loop, tuple(inputs[: loop.carried]), tuple(inputs[loop.carried : split]), tuple(inputs[split:]))
    return [t for group in groups for t in group][: len(loop.results)]


# ---------------------------------------------------------------- its rule


@function
def _looped(loop, states, scanned, hidden): ...


_looped.__name__ = "scan"  # in messages
CALLS[_looped] = looped_of_all(_looped)


@_looped.forward
def _(ctx, loop, states, scanned, hidden):
    ctx.set_materialize_grads(False)
    inputs = (*states, *scanned, *hidden)
    if not any(ctx.needs_input_grad):
        return _record(loop, inputs)
    given = len(loop.body.graph.outputs) - loop.carried
    last, stacked, before = _record(loop._replace(body=loop.body.keeping, keeps=True), inputs)
    ctx.save_for_backward(before=before, products=stacked[given:])
    return last, stacked[:given], before


@_looped.backward
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
    moving = until_stable(of_states, [*of_scanned, *of_hidden], lambda flags: differing(loop.body, flags))
    floats = [k for k in float_places(states) if moving[k]]
    split = len(states) + len(scanned)
    read = loop.body.read()
    wanted_x = [k for k in float_places(scanned) if of_scanned[k] and read[len(states) + k]]
    wanted_h = [k for k in float_places(hidden) if of_hidden[k] and read[split + k]]
    places = [*floats, *[len(states) + k for k in wanted_x], *[split + k for k in wanted_h]]
    kept_bars = [None if not before_bars else before_bars[k] for k in floats]
    body = loop.body

    def step(carry, x):
        state_bars, sums = carry
        now, given_x, y_bars, extra, known = x
        known_bars = placed(state_bars, floats, len(states))
        all_bars = [zeros_like(now[k]) if known_bars[k] is None else known_bars[k] for k in float_places(states)]
        found = body.pull([*now, *given_x, *hidden], [*all_bars, *y_bars], places, knowing(body, known))
        new_bars = [found[k] if e is None else found[k] + e for k, e in zip(floats, extra, strict=True)]
        x_bars = [found[len(states) + k] for k in wanted_x]
        return (new_bars, [s + found[split + k] for s, k in zip(sums, wanted_h, strict=True)]), x_bars

    sums = [zeros_like(hidden[k]) for k in wanted_h]
    xs = (list(before), list(scanned), list(given_bars), kept_bars, products)
    start = [bar for k, bar in zip(float_places(states), last_bars, strict=True) if moving[k]]
    (state_bars, sums), x_bars = scan(step, (start, sums), xs, length=loop.length, reverse=not loop.reverse)
    return (
        tuple(placed(state_bars, floats, len(states))) or None,
        tuple(placed(x_bars, wanted_x, len(scanned))) or None,
        tuple(placed(sums, wanted_h, len(hidden))) or None,
    )


@_looped.jvp
def _(ctx, _loop, state_dots, scanned_dots, hidden_dots):
    loop, states, scanned, hidden = ctx.inputs
    loop = seen_within(loop)  # its numbers are extents and parameters
    kept = ctx.saved_variables
    given = (state_dots, states), (scanned_dots, scanned), (hidden_dots, hidden)
    dots = [list(d or [None] * len(xs)) for d, xs in given]
    return _pushed(loop, states, scanned, hidden, kept.before, [p.detach() for p in kept.products], *dots)


def _pushed(loop, states, scanned, hidden, before, products, state_dots, scanned_dots, hidden_dots):
    """The loop of tangents: each step at the states that were kept."""
    body, outputs = loop.body, len(loop.body.results)
    moves = [d is not None for d in (*state_dots, *scanned_dots, *hidden_dots)]
    floats = [is_float(s) for s in states]

    def after(flags: list[bool]) -> list[bool]:
        return [a and b for a, b in zip(differing(body, flags), floats, strict=False)]

    moves[: loop.carried] = until_stable(moves[: loop.carried], moves[loop.carried :], after)
    results = enumerate(zip(differing(body, moves), body.graph.outputs, strict=True))
    given = [k for k, (m, y) in results if m and k >= loop.carried and is_float(y.aval)]
    places = [k for k, m in enumerate(moves) if m]
    moving = [k for k in places if k < loop.carried]
    constant = [d for d in hidden_dots if d is not None]

    def step(dots, x):
        now, given_x, x_dots, known = x
        inputs = [*now, *given_x, *hidden]
        directions = [*dots, *[d for d in x_dots if d is not None], *constant]
        _, found = jvp(body.moving(inputs, places, knowing(body, known)), ([inputs[k] for k in places],), (directions,))
        return [found[k] for k in moving], ([found[k] for k in given], list(dots))

    start = [zeros_like(states[k]) if state_dots[k] is None else state_dots[k] for k in moving]
    xs = (list(before), list(scanned), scanned_dots, products)
    last, (given_dots, before_dots) = scan(step, start, xs, length=loop.length, reverse=loop.reverse)
    return (
        tuple(placed(last, moving, loop.carried)),
        tuple(placed(given_dots, [k - loop.carried for k in given], outputs - loop.carried)),
        tuple(placed(before_dots, moving, loop.carried)),
    )


# ---------------------------------------------------------------- what users call


def scan(f: Callable, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """A loop with a state: `carry, ys[t] = f(carry, xs[t])` for t = 0, 1, ... ; returns (last carry, ys).

    f         (carry, x) -> (carry, y), recorded once; the carry keeps its shapes and dtypes
    init      the first carry;  xs: leaves T[length, ...];  each any nesting of tensors, arrays, numbers
    length    number of steps, where there are no xs
    reverse   from the last element to the first; ys are in the order of xs all the same

    Differentiable to any order, in both modes.  For a gradient the carries and products of all steps are kept;
    with `checkpoint(f)` only the carries.  Raises ShapeError or DTypeError where a carry changes its
    shape or dtype, or leaves of xs differ in length.

    >>> import autodiff as ad
    >>> ad.scan(lambda total, x: (total + x, total), ad.tensor(0.0), ad.tensor([1.0, 2.0, 3.0]))
    (f64[] 6.0, f64[3] [0. 1. 3.])
    """
    try:
        check_callable(f, "scan")
        return _scanned(f, init, xs, length, reverse, "scan")
    except Exception as error:
        shorten(error)
        raise


def _scanned(
    f: Callable, init: Any, xs: Any, length: int | None, reverse: bool, called: str
) -> tuple[Any, Any]:
    """The loop, called by the name that the user knows it by."""
    elements, nesting = Nesting.of(xs)
    tensors = [as_tensor(x, "scan", "xs") for x in elements]
    length = _length_of(tensors, length)
    if length and runs_as_written():  # what no step gives has a shape in a trace only
        return _by_hand(f, init, tensors, elements, nesting, length, reverse)
    avals = [x.aval.with_shape(x.shape[1:]) for x in tensors]
    like = [Like(a, 0 if called == "fori_loop" else x) for a, x in zip(avals, elements, strict=True)]
    element = nesting.filled(like)
    first = (lambda: nesting.filled([x.value(t[0]) for x, t in zip(like, tensors, strict=True)])) if length else None
    start, carry = Nesting.of(init)
    is_number = [is_python_number(s) for s in start]
    states = [as_tensor(s, called, "init") for s in start]
    traced, states = _fitting(f, states, carry, element, first, is_number, called)
    with mode_of(traced.body):
        last, given = _in_parts(traced.body, states, tensors, traced.hidden, length, reverse)
        if length:
            tracking = tracking_after(traced.body, states, tracks_of(tensors, traced.hidden))
            last, given = cut(last, tracking[: len(states)]), cut(given, tracking[len(states) :])
    return carry.filled(last), traced.result.parts()[1].filled(given)


def _in_parts(
    body: Body, states: list[Tensor], scanned: list[Tensor], hidden: list[Tensor], length: int, reverse: bool
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and what steps gave, by a loop of what needs one."""
    parts = apart(body, states, scanned, hidden, length)
    if parts is not None:
        body, states, scanned, hidden = parts.body, parts.states, parts.scanned, parts.hidden
    loop = Loop(len(states), len(scanned), length, reverse, False, body)
    last: Sequence[Tensor] = ()
    given: Sequence[Tensor] = ()
    if loop.results:  # else nothing is left to do: effects are no results
        last, given, _ = _looped(loop, tuple(states), tuple(scanned), tuple(hidden))
    return parts.finished(last, given) if parts is not None else (last, given)


def _length_of(tensors: Sequence[Tensor], length: int | None) -> int:
    if any(not x.ndim for x in tensors):
        raise ShapeError(f"scan: a 0-d leaf of xs has no elements to go through\n  called at {caller()}")
    given = () if length is None else (_whole(length, "scan: the length"),)
    lengths = sorted({*[x.shape[0] for x in tensors], *given})
    if lengths and lengths[0] < 0:
        raise ShapeError(f"scan: the length is a number of steps, not {lengths[0]}\n  called at {caller()}")
    if len(lengths) != 1:
        what = f"lengths {', '.join(map(str, lengths))}" if lengths else "neither xs nor a length"
        raise ShapeError(
            f"scan: got {what}\n  called at {caller()}\n  all leaves of xs, and length, say how many steps there are"
        )
    return lengths[0]


def _whole(number: Any, what: str) -> int:
    """A number that says how many steps there are: an int, one of NumPy's, a 0-d integer tensor with a value."""
    try:
        return as_index(number)
    except ConcretizationError:
        raise ConcretizationError(
            f"{what} is known when the program runs: how many steps there are has to be known before\n"
            f"  called at {caller()}\n"
            "  use ad.while_loop, or mark the argument static (static_argnums)"
        ) from None
    except TypeError:
        shown = number.aval if isinstance(number, Tensor) else f"{number!r:.40} ({type(number).__name__})"
        raise DispatchError(f"{what} is an int, not {shown}\n  called at {caller()}") from None


def _fitting(
    f: Callable, states: list[Tensor], carry: Nesting, element: Any, first: Callable | None, is_number: list[bool],
    called: str,
) -> tuple[Traced, list[Tensor]]:
    """The recorded body, and the first carry in the dtypes that it keeps: numbers take those of what they meet.

    element, first   what an element is like, and what gives one, if there is any
    called           what the user called
    """
    examples = [Like(s.aval, 0) if w else s.aval for w, s in zip(is_number, states, strict=True)]
    traced = trace(f, carry.filled(examples), element, values=first and (lambda: [carry.filled(states), first()]))
    if traced.result.structure.cls is not tuple or len(traced.result.structure.children) != 2:
        found = "one value" if traced.result.structure.cls is None else traced.result
        raise ShapeError(f"scan: the function returns (carry, y), not {found}\n  called at {caller()}")
    after = traced.result.parts()[0]
    if after != carry:
        what = "carry" if called == "scan" else "value"
        raise ShapeError(f"{called}: the {what} changes from {carry} to {after}\n  called at {caller()}")
    outs = [n.aval for n in traced.body.graph.outputs[: len(states)]]
    if any(w and s.aval != a for w, s, a in zip(is_number, states, outs, strict=True)):
        cast = [astype(s, a.dtype) if w and s.shape == a.shape else s
                for w, s, a in zip(is_number, states, outs, strict=True)]
        return _fitting(f, cast, carry, element, first, [False] * len(cast), called)
    check_kept(called, carry.names("carry" if called == "scan" else "value"), [s.aval for s in states], outs)
    return traced, states


def _by_hand(
    f: Callable, carry: Any, tensors: list[Tensor], elements: list[Any], nesting: Nesting, length: int, reverse: bool
) -> tuple[Any, Any]:
    """A Python loop, to step through."""
    carry = started(carry)
    check_parts("scan", length)
    given: list[Any] = [None] * length
    for t in range(length - 1, -1, -1) if reverse else range(length):
        element = nesting.filled([standing(x[t], xs) for x, xs in zip(tensors, elements, strict=True)])
        carry, y = as_written(f, carry, element)
        given[t] = tree.map(own, y)  # the next step may update what is also in its carry
    return carry, tree.map(lambda *ys: None if ys[0] is None else stack(ys), *given)


def fori_loop(lower: int, upper: int, body: Callable, init: Any) -> Any:
    """`for i in range(lower, upper): value = body(i, value)`, as one operation; returns the last value.

    lower, upper   ints;  i is an i64[] inside, and a number to what it meets: float32 stays float32
    init           any nesting of tensors, arrays, numbers;  the value keeps its shapes and dtypes

    Differentiable to any order, in both modes.  Raises ShapeError or DTypeError where a
    value changes its shape or dtype.

    >>> import autodiff as ad
    >>> ad.fori_loop(1, 5, lambda i, x: x * i, ad.tensor(1.0, dtype="float32"))
    f32[] 24.0
    """
    try:
        check_callable(body, "fori_loop")
        lower, upper = _whole(lower, "fori_loop: the lower bound"), _whole(upper, "fori_loop: the upper bound")
        if runs_as_written():
            if lower >= upper:
                return tree.map(lambda s: None if s is None else own(as_tensor(s)), init)
            value = started(init)
            for i in range(lower, upper):
                value = as_written(body, number_like_traced(i, np.dtype(np.int64), weak=True), value)
            return value
        steps = arange(lower, max(lower, upper))
        value, _ = _scanned(lambda x, i: (applied(body, (i, x), {}), ()), init, steps, None, False, "fori_loop")
        return value
    except Exception as error:
        shorten(error)
        raise
