"""Loops that stay in the graph: `scan`, `fori_loop`, as users call them.

A loop is one operation (see `recurrence`) whose body was recorded once and is compiled once, so a recurrence of a
thousand steps compiles as fast as one of ten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codegen.symbols import as_index

from ..errors import ConcretizationError, DispatchError, ShapeError, check_callable, located
from ..ops import arange, as_tensor, astype
from ..ops.arguments import check_parts
from ..tensor import Tensor
from ..tracebacks import border
from ..transforms.anomaly import runs_as_written
from ..transforms.arguments import applied
from .recurrence import by_hand, looped
from .trace import Like, Nesting, Traced, check_kept, is_python_number, trace, valued

__all__ = ["fori_loop", "scan"]


@border
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
    check_callable(f, "scan")
    return _scanned(f, init, xs, length, reverse, "scan")


def _scanned(
    f: Callable, init: Any, xs: Any, length: int | None, reverse: bool, called: str
) -> tuple[Any, Any]:
    """The loop, called by the name that the user knows it by."""
    elements, nesting = Nesting.of(xs)
    tensors = [as_tensor(x, "scan", "xs") for x in elements]
    length = _length_of(tensors, length)
    start, carry = Nesting.of(init)
    states = [as_tensor(s, called, "init") for s in start]
    met = [0] if called == "fori_loop" else elements
    if length and runs_as_written():  # what no step gives has a shape in a trace only
        check_parts("scan", length)
        order = range(length)[:: -1 if reverse else 1]
        first = valued(carry.filled(list(map(Like, states, start))))
        return by_hand(f, first, lambda t: valued(nesting.filled([*map(Like, [x[t] for x in tensors], met)])), order)
    element = nesting.filled([Like(t, x, is_element=True) for t, x in zip(tensors, met, strict=True)])
    traced, states = _fitting(f, states, carry, element, [s if is_python_number(s) else None for s in start], called)
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
    """A number that says how many steps there are: an int, one of NumPy's, a 0-d integer tensor with a value."""
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


def _fitting(
    f: Callable, states: list[Tensor], carry: Nesting, element: Any, numbers: list[Any], called: str
) -> tuple[Traced, list[Tensor]]:
    """The recorded body, and the first carry in the dtypes that it keeps: numbers take those of what they meet.

    element, numbers   what an element is like, and the Python numbers in the carry, None elsewhere
    called             what the user called
    """
    traced = trace((f, (carry.filled(list(map(Like, states, numbers))), element)))
    (result,), (body,) = traced.results, traced.bodies
    if result.structure.cls is not tuple or len(result.structure.children) != 2:
        found = "one value" if result.structure.cls is None else result
        raise ShapeError(located(f"scan: the function returns (carry, y), not {found}"))
    after = result.parts()[0]
    outs = [n.aval for n in body.graph.outputs[: len(states)]]
    fitting = [astype(s, a.dtype) if x is not None and s.aval != a and s.shape == a.shape else s
               for s, x, a in zip(states, numbers, outs, strict=False)]
    if after == carry and any([a is not b for a, b in zip(fitting, states, strict=True)]):
        return _fitting(f, fitting, carry, element, [None] * len(states), called)
    check_kept(called, "carry" if called == "scan" else "value", carry, after, [s.aval for s in states], outs)
    return traced, states


@border
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
    check_callable(body, "fori_loop")
    lower, upper = _whole(lower, "fori_loop: the lower bound"), _whole(upper, "fori_loop: the upper bound")
    steps = arange(lower, max(lower, upper))
    value, _ = _scanned(lambda x, i: (applied(body, (i, x), {}), ()), init, steps, None, False, "fori_loop")
    return value
