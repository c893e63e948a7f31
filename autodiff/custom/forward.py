"""Calling a forward method: what it is given, and what becomes of what it says and returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ConcretizationError, user_line
from ..tape.node import Node
from ..tape.record import grad_mode, state
from ..tensor import Tensor, handle
from .boundary import bounded
from .call import Site
from .context import ForwardContext, said
from .dirty import dirty_places, rebind_callers
from .host import Unlearnt, Visit, learn, run_on_arrays, run_traced
from .outputs import Outputs
from .packed import Packed

__all__ = ["call_forward"]


def call_forward(
    function: Any,
    method: Any,
    run: Callable,
    arguments: dict[str, Any],
    types: tuple,
    has_token: bool = False,
    transparent: bool = False,
) -> Any:
    """Run a forward method and put a boundary around what it recorded.

    arguments    every declared parameter by name, defaults filled in; a variadic one as a tuple
    run          run(ctx, arguments) calls the method
    has_token    its backward is a host rule, which finds the call by a token
    transparent  reverse mode differentiates the body

    Returns forward's outputs in their container, tracking if any argument tracks.
    Raises GradientError when arguments track and nothing that is returned can.
    """
    now = state.now
    inputs: list[Node] = []
    place: dict[Node, int] = {}
    given: list[Tensor] = []
    inner: list[Tensor] = []
    masked = False

    def place_of(t: Tensor) -> int:
        nonlocal masked
        masked |= t.masked
        given.append(t)
        number = place.get(t.node)
        if number is None:
            number = place[t.node] = len(inputs)
            inputs.append(t.node)
        return number

    def inner_at(p: int) -> Tensor:
        inner.append(handle(inputs[p], masked=True))
        return inner[-1]

    packed = {name: Packed(value, place_of) for name, value in arguments.items()}
    if now.captures is not None:
        for t in given:  # the caller's handles, before forward gets handles of its own
            now.meet(t)
    tracks = grad_mode.get() and any([n.kind.out.requires_grad for n in inputs])
    needs = [tracks and any([p is not None and inputs[p].kind.out.requires_grad for p in a.places])
             for a in packed.values()]
    values = {name: a.unpack(inner_at) for name, a in packed.items()}
    ctx = ForwardContext(function.__name__, list(values), needs, list(values.values()))
    visit = Visit(function, method, run, packed, needs, inputs)
    asked, looked, covered = now.asked, now.looked, now.bounded
    line = user_line()
    now.body += 1
    try:
        result = _run(visit, ctx, values)
        told = said(ctx)
        outputs = Outputs(function.__name__, result, told.constant)
        nodes = [g.node for g in given]
        dirty = dirty_places(function.__name__, inner, given, nodes, told.dirty, outputs)
    except Exception as error:
        error.add_note(f"in the forward method of {function.__name__} ({method.place}), called at {line}")
        raise
    finally:
        now.body -= 1
    if now.asked != asked and not now.tracing:
        learn(visit, ctx, outputs)
    if tracks:
        site = Site(function, method, types, transparent)
        opaque = now.looked != looked
        leaves = bounded(site, ctx, packed, inputs, place, outputs, masked, has_token, opaque, line)
        now.bounded = covered + now.looked - looked
    else:
        leaves = [handle(t.node, masked) if isinstance(t, Tensor) else t for t in outputs.leaves]
    if dirty:
        leaves = rebind_callers(dirty, given, outputs, leaves)
    return outputs.rebuilt(leaves)


def _run(visit: Visit, ctx: ForwardContext, values: dict[str, Any]) -> Any:
    """Forward's result: on tensors; on arrays for a host forward; as a host call in a trace where it needs values."""
    tracing = state.now.tracing
    if visit.method.host:
        return run_traced(visit, ctx, values) if tracing else run_on_arrays(visit, ctx, values)
    if not tracing:
        return visit.run(ctx, values)
    asked = state.now.asked
    try:
        return visit.run(ctx, values)
    except Unlearnt:
        raise
    except ConcretizationError as error:
        if state.now.asked == asked:  # refused for something else than asking
            raise
        return run_traced(visit, ctx, values, error)
