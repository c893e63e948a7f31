"""Calling a forward method: what it is given, and what becomes of what it says and returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ConcretizationError, UserLine, user_line
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

__all__ = ["Entered", "call_forward", "completed"]


class Entered:
    """The arguments of a call that was entered.

    site     who was called;  run: run(ctx, arguments by name) calls the method;  line: the user's
    packed   the arguments by name;  needs: for each, whether it needs a gradient
    inputs   nodes of the tensors in them;  place: their numbers
    given, inner   the caller's handles, and those that forward gets, in order
    masked   whether any of the caller's is
    asked, looked, covered   what the recording had counted before
    """

    __slots__ = (
        "asked", "covered", "given", "inner", "inputs", "line", "looked", "masked", "needs", "packed", "place", "run",
        "site",
    )  # fmt: skip

    def __init__(self, site: Site, run: Callable, arguments: dict[str, Any], line: UserLine | None) -> None:
        self.site = site
        self.run = run
        self.line = line
        self.inputs: list[Node] = []
        self.place: dict[Node, int] = {}
        self.given: list[Tensor] = []
        self.inner: list[Tensor] = []
        self.masked = False
        self.packed = {name: Packed(value, self._place_of) for name, value in arguments.items()}
        tracks = grad_mode.get() and any([n.kind.out.requires_grad for n in self.inputs])
        self.needs = [
            tracks and any([p is not None and self.inputs[p].kind.out.requires_grad for p in a.places])
            for a in self.packed.values()
        ]
        now = state.now
        self.asked, self.looked, self.covered = now.asked, now.looked, now.bounded

    def _place_of(self, t: Tensor) -> int:
        self.masked |= t.masked
        self.given.append(t)
        number = self.place.get(t.node)
        if number is None:
            number = self.place[t.node] = len(self.inputs)
            self.inputs.append(t.node)
        return number

    def inner_at(self, p: int) -> Tensor:
        """A handle for forward on an input."""
        self.inner.append(handle(self.inputs[p], masked=True))
        return self.inner[-1]

    def visit(self) -> Visit:
        """The same for a host forward."""
        return Visit(self.site.function, self.site.method, self.run, self.packed, self.needs, self.inputs)

    def note_on(self, error: Exception) -> None:
        """Say in which forward an error came up."""
        site = self.site
        error.add_note(
            f"in the forward method of {site.function.__name__} ({site.method.place}), called at {self.line}"
        )


def call_forward(site: Site, run: Callable, arguments: dict[str, Any], has_token: bool = False) -> Any:
    """Run a forward method and put a boundary around what it recorded.

    arguments    every declared parameter by name, defaults filled in; a variadic one as a tuple
    run          run(ctx, arguments) calls the method
    has_token    its backward is a host rule, which finds the call by a token

    Returns forward's outputs in their container, tracking if any argument tracks.
    Raises GradientError when arguments track and nothing that is returned can.
    """
    now = state.now
    entered = Entered(site, run, arguments, user_line())
    if now.captures is not None:
        for t in entered.given:  # the caller's handles, before forward gets handles of its own
            now.meet(t)
    values = {name: a.unpack(entered.inner_at) for name, a in entered.packed.items()}
    ctx = ForwardContext(site.function.__name__, list(values), entered.needs, list(values.values()))
    now.body += 1
    try:
        result = _run(entered.visit(), ctx, values)
    except Exception as error:
        entered.note_on(error)
        raise
    finally:
        now.body -= 1
    return completed(entered, ctx, result, has_token)


def completed(entered: Entered, ctx: ForwardContext, result: Any, has_token: bool) -> Any:
    """What a call returns, given what its forward has said and returned."""
    now, site, name = state.now, entered.site, entered.site.function.__name__
    told = said(ctx)
    try:
        outputs = Outputs(name, result, told.constant)
        nodes = [g.node for g in entered.given]
        dirty = dirty_places(name, entered.inner, entered.given, nodes, told.dirty, outputs)
    except Exception as error:
        entered.note_on(error)
        raise
    if now.asked != entered.asked and not now.tracing:
        learn(entered.visit(), ctx, outputs)
    if any(entered.needs):
        opaque = now.looked != entered.looked
        leaves = bounded(
            site, ctx, entered.packed, entered.inputs, entered.place, outputs, entered.masked, has_token, opaque,
            entered.line,
        )  # fmt: skip
        now.bounded = entered.covered + now.looked - entered.looked
    else:
        leaves = [handle(t.node, entered.masked) if isinstance(t, Tensor) else t for t in outputs.leaves]
    if dirty:
        leaves = rebind_callers(dirty, entered.given, outputs, leaves)
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
