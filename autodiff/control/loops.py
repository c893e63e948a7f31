"""Loops that stay in the graph: `scan` and `fori_loop`, their operation, and its derivatives.

A loop is one operation whose body is recorded once and compiled once, so a recurrence of a thousand steps compiles
as fast as one of ten.  Its derivatives are loops too.

    scan      c[t+1], y[t] = body(c[t], x[t], h)
    backwards c_bar[t], x_bar[t], h_bar += pullback of body at (c[t], x[t], h)  of (c_bar[t+1], y_bar[t])

The states c[t], and the products of each step, are kept as further results of the loop (`body.keeping`); elementwise
operations and reductions are computed again.  The step of the backward loop gets the kept values as elements, without
the nodes that they were computed from; a derivative of that step gives them cotangents, and so reaches the loop.

The rule is a custom function that records loops itself, so derivatives of any order exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from codegen.nested import Recurrence
from codegen.runtime import memory
from codegen.symbols import as_index

from .. import tree
from ..custom import function
from ..custom.context import wanted
from ..errors import ConcretizationError, DispatchError, ShapeError, check_callable, located
from ..mode import MODE
from ..ops import as_tensor, stack, zeros_like
from ..ops.batching import to_front, with_examples
from ..ops.declare import check_parts
from ..ops.primitive import named
from ..stand_ins import standing
from ..tape.leaves import constant, number_like_traced
from ..tape.node import Node
from ..tape.record import record
from ..tape.watched import seen_within
from ..tensor import Tensor
from ..tracebacks import border
from ..transforms.anomaly import runs_as_written
from ..transforms.arguments import applied as called_with
from ..transforms.arguments import with_own_node
from ..transforms.batch.walk import CALLS, of_each
from .body import Body, ever_set, filled, float_places, has_rule, keeping, kept_results, mode_of, placed, tracks_of
from .regions import Regions, called, run_of
from .trace import (
    ExampleOf,
    Nesting,
    Traced,
    as_result,
    check_kept,
    derived,
    in_dtypes,
    is_python_number,
    run_as_written,
    trace,
    valued,
    where_differing,
)  # fmt: skip

#: Groups of tensors, each with one purpose.
Groups = Sequence[Sequence[Tensor]]


@border
def scan(f: Callable, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """A loop with a state: `carry, ys[t] = f(carry, xs[t])` for t = 0, 1, ... ; returns (last carry, ys).

    f         (carry, x) -> (carry, y), recorded once; the carry keeps its shapes and dtypes
    init      the first carry;  xs: leaves T[length, ...];  each any nesting of tensors, arrays, numbers
    length    the number of steps, if there are no xs
    reverse   go from the last element to the first; ys keep the order of xs

    Differentiable to any order, in both modes.  For a gradient the carries and products of all steps are kept;
    with `checkpoint(f)` only the carries.  Raises ShapeError or DTypeError if a carry changes its
    shape or dtype, or leaves of xs differ in length.

    >>> import autodiff as ad
    >>> ad.scan(lambda total, x: (total + x, total), ad.tensor(0.0), ad.tensor([1.0, 2.0, 3.0]))
    (f64[] 6.0, f64[3] [0. 1. 3.])
    """
    check_callable(f, "scan")
    return _scanned(f, init, xs, length, reverse, "scan")


def _scanned(f: Callable, init: Any, xs: Any, length: int | None, reverse: bool, name: str) -> tuple[Any, Any]:
    """The loop of `scan` or `fori_loop`.   name: that of the public function, for messages"""
    elements, nesting = Nesting.of(xs)
    tensors = [as_tensor(x, "scan", "xs") for x in elements]
    length = _length_of(tensors, length)
    start, carry = Nesting.of(init)
    if length and runs_as_written():  # without steps, only a trace knows the shapes of the results
        check_parts("scan", length)
        order = range(length)[:: -1 if reverse else 1]
        first = valued(carry.filled([ExampleOf(as_tensor(s, name, "init"), s) for s in start]))
        pairs = [*zip(tensors, elements, strict=True)]
        return python_loop(f, first, lambda t: nesting.filled([standing(x[t], xs) for x, xs in pairs]), order)
    element = nesting.filled([ExampleOf(t, x, is_element=True) for t, x in zip(tensors, elements, strict=True)])
    traced, states = _fitting(f, start, carry, element, name)
    last, given = looped(traced.bodies[0], states, tensors, traced.hidden, length, reverse)
    return carry.filled(last), traced.results[0].parts()[1].filled(given)


def _length_of(tensors: Sequence[Tensor], length: int | None) -> int:
    if any(not x.ndim for x in tensors):
        raise ShapeError(located("scan: a 0-d leaf of xs has no elements to go through"))
    given = () if length is None else (_whole(length, "scan: the length"),)
    lengths = sorted({*[x.shape[0] for x in tensors], *given})
    if lengths and lengths[0] < 0:
        raise ShapeError(located(f"scan: the length is a number of steps, not {lengths[0]}"))
    if len(lengths) != 1:
        what = f"lengths {', '.join(map(str, lengths))}" if lengths else "neither xs nor a length"
        raise ShapeError(located(f"scan: got {what}", "all leaves of xs, and length, say how many steps there are"))
    return lengths[0]


def _whole(number: Any, what: str) -> int:
    """A number of steps as an int; it may be an int, a NumPy integer, or a 0-d integer tensor with a value."""
    try:
        return as_index(number)
    except ConcretizationError:
        raise ConcretizationError(located(
            f"{what} is known when the program runs: how many steps there are has to be known before",
            "use ad.while_loop, or mark the argument static (static_argnums)",
        )) from None
    except TypeError:
        shown = number.aval if isinstance(number, Tensor) else f"{number!r:.40} ({type(number).__name__})"
        raise DispatchError(located(f"{what} is an int, not {shown}")) from None


def _fitting(f: Callable, start: list[Any], carry: Nesting, element: Any, name: str) -> tuple[Traced, list[Tensor]]:
    """The recorded body, and the first carry in the dtypes that the body keeps: numbers take those of the new carry.

    start, element   the leaves of the first carry, and the example of an element
    name             that of the public function, for messages
    """
    states = [as_tensor(s, name, "init") for s in start]
    examples = [ExampleOf(s, x if is_python_number(x) else None) for s, x in zip(states, start, strict=True)]
    traced = trace((f, (carry.filled(examples), element)))
    (result,), (body,) = traced.results, traced.bodies
    if result.structure.cls is not tuple or len(result.structure.children) != 2:
        found = "one value" if result.structure.cls is None else result
        raise ShapeError(located(f"scan: the function returns (carry, y), not {found}"))
    after = result.parts()[0]
    outs = [n.aval for n in body.graph.outputs[: len(states)]]
    first = int(name == "fori_loop")  # its first state is the step's number, which always counts as a Python number
    fitting = in_dtypes(start, body, traced.hidden)
    if fitting is not None and after == carry:
        return _fitting(f, fitting, carry, element, name)
    before, after = (n.parts()[1] if first else n for n in (carry, after))
    check_kept(name, "value" if first else "carry", before, after, [s.aval for s in states[first:]], outs[first:])
    return traced, states


@border
def fori_loop(lower: int, upper: int, body: Callable, init: Any) -> Any:
    """`for i in range(lower, upper): value = body(i, value)`, as one operation; returns the last value.

    lower, upper   ints;  i is an i64[] in the body, but counts as a Python number: float32 stays float32
    init           any nesting of tensors, arrays, numbers;  the value keeps its shapes and dtypes

    Differentiable to any order, in both modes.  Raises ShapeError or DTypeError if the
    value changes its shape or dtype.

    >>> import autodiff as ad
    >>> ad.fori_loop(1, 5, lambda i, x: x * i, ad.tensor(1.0, dtype="float32"))
    f32[] 24.0
    """
    check_callable(body, "fori_loop")
    lower, upper = _whole(lower, "fori_loop: the lower bound"), _whole(upper, "fori_loop: the upper bound")
    if runs_as_written():  # not through `python_loop`, which would collect a result of each step
        first, nesting = Nesting.of(init)
        value = valued(nesting.filled([ExampleOf(as_tensor(s), s) for s in first]))
        for i in range(lower, upper):
            value = run_as_written(body, number_like_traced(i, np.dtype(np.int64), weak=True), value)
        return as_result(value)

    def step(state: tuple[Any, Any], _: None) -> tuple[Any, tuple]:
        i, value = state
        return (record(named("add"), (i, constant(1, "i64"))), called_with(body, (i, value), {})), ()

    (_, value), _ = _scanned(step, (lower, init), None, max(upper - lower, 0), False, "fori_loop")
    return value


# ---------------------------------------------------------------- the operation


def _run(loop: Recurrence, *arrays: np.ndarray) -> Sequence[Any]:
    """Run the loop in Python, with one call of the body for each step.  Compiled code has a native loop if possible."""
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
    """One loop for all examples, whose body does a step of each."""
    carried, split = loop.carried, loop.carried + loop.scanned
    flags = ever_set(mapped[:carried], mapped[carried:], lambda flags: loop.body.differing(flags)[:carried])
    states = flags[:carried]
    given = [*where_differing(zip(inputs, mapped, strict=True), states, size),
             *[to_front(x, 1) if m else x for x, m in zip(inputs[carried:split], mapped[carried:], strict=False)]]

    def step(values: list[Tensor]) -> list[Tensor]:
        found = of_each(loop.body.apply, values, flags, size)
        return [*where_differing(found, states, size), *[t for t, _ in found[carried:]]]

    purpose = "examples of a loop", size, carried, *flags
    made = derived((loop.body,), purpose, [(step, given[:carried], given[carried:])], inputs[split:])
    results = _recorded(loop._replace(body=made.bodies[0]), (*given, *made.hidden))
    differ = [*states, *loop.body.differing(flags)[carried:]]
    return [
        with_examples(size, (t,), (m,))[0] if k < carried or not m else to_front(t, 1)
        for k, (t, m) in enumerate(zip(results, differ, strict=False))
    ]


# ---------------------------------------------------------------- its derivatives


@function
def _loop(loop, inputs): ...


_loop.__name__ = "scan"  # in messages
_scan = Regions("scan", Recurrence, _run, _of_all)
CALLS[_loop] = lambda size, values, differ: tuple(_of_all(size, values["loop"], values["inputs"], differ["inputs"]))


def _recorded(loop: Recurrence, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """The results of a loop, followed by the values that a gradient reads, if one may be needed."""
    body, carried = loop.body, loop.carried

    def tracking(flags: list[bool]) -> list[bool]:
        if not loop.length:
            return [True] * len(body.results)
        return body.tracking(ever_set(flags[:carried], flags[carried:], body.tracking))

    if MODE.get().tracks and any(tracks_of(inputs)):
        body = body.derived_once(keeping, carried)
    return called(_loop, loop._replace(body=body), inputs, tracking)


@_loop.forward
def _(ctx, loop, inputs):
    ctx.set_materialize_grads(False)
    found = _scan.record(loop, inputs)
    if any(ctx.needs_input_grad):
        stacked = dict(zip(loop.body.results[loop.carried :], found[loop.carried :], strict=True))
        kept = [*loop.body.arguments[: loop.carried], *loop.body.derived_once(kept_results, loop.carried)]
        ctx.save_for_backward(*[stacked[n] for n in kept])
    return found


@_loop.backward
def _(ctx, *bars):
    """The backward loop: pullbacks of the body, from the last step to the first."""
    loop, inputs = ctx.inputs
    loop = seen_within(loop)  # the watched numbers in it are extents and parameters, which count by value
    body, carried, split = loop.body, loop.carried, loop.carried + loop.scanned
    of_inputs = list(wanted(ctx, "inputs"))
    moving = ever_set(of_inputs[:carried], of_inputs[carried:], body.differing)
    have_bars = [bar is not None for bar in bars]
    pulled = ever_set(have_bars[:carried], have_bars[carried:], body.read)
    read = body.read(pulled)
    floats = [k for k in float_places(inputs[:carried]) if moving[k] and pulled[k]]
    places_x, places_h = [
        [start + k for k in float_places(xs) if moving[start + k] and read[start + k]]
        for start, xs in ((carried, inputs[carried:split]), (split, inputs[split:]))
    ]
    places = [*floats, *places_x, *places_h]
    there = [k for k, bar in enumerate(bars) if k >= carried and bar is not None]

    def step(stands, state_bars, sums, now, given_x, result_bars, hidden):
        of_results = placed([*state_bars, *result_bars], [*floats, *there], len(bars))
        found = body.pull([*now, *given_x, *hidden], of_results, places, stands)
        new_sums = [s + found[k] for s, k in zip(sums, places_h, strict=True)]
        return [*[found[k] for k in floats], *new_sums, *[found[k] for k in places_x]]

    start = filled([bars[k] for k in floats], [inputs[k] for k in floats]), [zeros_like(inputs[k]) for k in places_h]
    elements = inputs[carried:split], [bars[k] for k in there]
    purpose = "pulled in a loop", carried, tuple(places), tuple(there)
    found, x_bars = _derived_loop(ctx, loop, purpose, step, start, elements, (inputs[split:],), flipped=True)
    found = [*found[: len(floats)], *x_bars, *found[len(floats) :]]
    return {"loop": None, "inputs": tuple(placed(found, places, len(inputs)))}


@_loop.jvp
def _(ctx, _loop, dots):
    """The loop of tangents: each step is linearised at the kept states."""
    loop, inputs = ctx.inputs
    loop = seen_within(loop)  # the watched numbers in it are extents and parameters, which count by value
    body, carried, split = loop.body, loop.carried, loop.carried + loop.scanned
    floats = float_places(inputs[:carried])

    def after(flags: list[bool]) -> list[bool]:
        return [differs and k in floats for k, differs in enumerate(body.differing(flags))]

    moves = ever_set([d is not None for d in dots[:carried]], [d is not None for d in dots[carried:]], after)
    differs = body.differing(moves)
    given = [k for k in float_places([n.kind.out.aval for n in body.results])
             if k >= carried and differs[k] and has_rule(body.results[k])]
    places = [k for k, m in enumerate(moves) if m]
    moving = [k for k in places if k < carried]

    def step(stands, along, now, given_x, x_dots, hidden, constant):
        _, found = body.push([*now, *given_x, *hidden], [*along, *x_dots, *constant], places, stands)
        return [found[k] for k in (*moving, *given)]

    start = filled([dots[k] for k in moving], [inputs[k] for k in moving])
    x_dots, constant = [[d for d in ds if d is not None] for ds in (dots[carried:split], dots[split:])]
    purpose, elements = ("pushed in a loop", carried, tuple(places), tuple(given)), (inputs[carried:split], x_dots)
    last, made = _derived_loop(ctx, loop, purpose, step, (start,), elements, (inputs[split:], constant), flipped=False)
    return tuple(placed([*last, *made], [*moving, *given], len(body.results)))


def _derived_loop(
    ctx: Any, loop: Recurrence, purpose: tuple, step: Callable, states: Groups, elements: Groups, hidden: Groups,
    flipped: bool,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and the results of all steps, of a loop whose step is derived from the body of another.

    step     (dict that gets the new node of each recorded node, groups of states, states of the other loop before the
             step, groups of elements, groups of hidden inputs) -> results
    flipped  True if it goes in the opposite direction
    """
    before, products = _groups(ctx.saved_variables, (loop.carried,))
    nodes, stands = loop.body.derived_once(kept_results, loop.carried), dict[Node, Node]()
    counts = [len(group) for group in (*states, before, *elements, *hidden)]
    first, scanned, read = ([t for group in groups for t in group] for groups in (states, (before, *elements), hidden))

    def stepped(values: Sequence[Tensor]) -> list[Tensor]:
        found: list[Tensor] = step(stands, *_groups(values, counts)[:-1])
        return found

    def apply(states: Sequence[Tensor], elements: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        found = stepped([*states, *elements, *read])
        return found[: len(first)], found[len(first) :]

    reverse = loop.is_reversed != flipped
    if loop.length and runs_as_written():
        return python_loop(apply, first, lambda t: [x[t] for x in scanned], range(loop.length)[:: -1 if reverse else 1])
    made = derived((loop.body,), purpose, [(stepped, first, scanned)], read, lambda: [stands[n] for n in nodes])
    return looped(made.bodies[0], first, [*scanned, *products], made.hidden, loop.length, reverse)


# ---------------------------------------------------------------- loops of bodies


def python_loop(f: Callable, carry: Any, element: Callable[[int], Any], order: range) -> tuple[Any, Any]:
    """The loop as a Python loop, for debugging: the last carry, and the stacked results of the steps."""
    given = {}
    for t in order:
        carry, y = run_as_written(f, carry, element(t))
        given[t] = tree.map(with_own_node, y)  # new: the next step may update a tensor that is also in its carry
    stacked = tree.map(lambda *ys: None if ys[0] is None else stack(ys), *[given[t] for t in sorted(given)])
    return as_result(carry), stacked


def _groups(values: Sequence[Any], counts: Sequence[int]) -> list[list[Any]]:
    """The values split into groups of these lengths, and the rest."""
    given = iter(values)
    return [*[list(islice(given, n)) for n in counts], list(given)]


def looped(
    body: Body, states: Sequence[Tensor], scanned: Sequence[Tensor], hidden: Sequence[Tensor], length: int,
    reverse: bool,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The last states and the results of the steps.  Values that no step changes are computed before the loop."""
    carried = len(states)
    parts: tuple[Body, Body] | None = body.derived_once(Body.unchanging, carried + len(scanned)) if length > 1 else None
    with mode_of(body):
        if parts is not None:
            once, body = parts
            hidden = [*hidden, *once.apply(hidden)]
        loop = Recurrence(body, carried, len(scanned), length, reverse)
        # A loop without results has no effect, so it is not recorded.
        found = _recorded(loop, [*states, *scanned, *hidden]) if body.results else ()
    return found[:carried], found[carried : len(body.results)]
