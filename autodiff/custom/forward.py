"""Calling a forward method: what it is given, and what becomes of what it says and returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codegen.lazily import imported

from ..dispatch.late import is_own
from ..errors import ConcretizationError
from ..frames import UserLine, user_line
from ..mode import MODE
from ..stand_ins import StandsForArray, standing
from ..tape.node import Node, new_number
from ..tape.record import identity_of, is_masked, state
from ..tensor import Tensor, handle
from .boundary import bounded
from .call import Site
from .closures import closed_over, held_by, names_of
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
    given, inner   the caller's handles, and those that forward gets, in order;  named: the nodes of the latter
    standing       by the number of an input: the caller's handle, where that stands for an array
    also_held      inputs that forward may read without their argument, too: it is given other nodes for these
    since    the number of what forward records first
    asked, looked, covered   what the recording had counted before
    """

    __slots__ = (
        "also_held", "asked", "covered", "given", "inner", "inputs", "line", "looked", "named", "needs", "packed",
        "place", "run", "since", "site", "standing",
    )  # fmt: skip

    def __init__(self, site: Site, run: Callable, arguments: dict[str, Any], line: UserLine | None) -> None:
        self.site = site
        self.run = run
        self.line = line
        self.inputs: list[Node] = []
        self.place: dict[Node, int] = {}
        self.given: list[Tensor] = []
        self.inner: list[Tensor] = []
        self.named: list[Node] = []
        self.standing: dict[int, Tensor] = {}
        self.packed = {name: Packed(value, self._place_of) for name, value in arguments.items()}
        tracks = MODE.get().tracks and any([n.kind.out.requires_grad for n in self.inputs])
        self.needs = [
            tracks and any([p is not None and self.inputs[p].kind.out.requires_grad for p in a.places])
            for a in self.packed.values()
        ]
        self.also_held: set[Node] = set()
        if tracks:
            self.also_held = {t.node for _, t in held_by(site.method.implementation)}.intersection(self.inputs)
        now = state.now
        self.asked, self.looked, self.covered = now.asked, now.looked, now.bounded
        self.since: float = new_number()

    def _place_of(self, t: Tensor) -> int:
        self.given.append(t)
        number = self.place.get(t.node)
        if number is None:
            number = self.place[t.node] = len(self.inputs)
            self.inputs.append(t.node)
        if isinstance(t, StandsForArray):
            self.standing[number] = t
        return number

    @property
    def masked(self) -> bool:
        """Inside of another forward: True where all that track are masked."""
        return is_masked(self.given)

    def inner_at(self, p: int) -> Tensor:
        """A handle for forward on an input."""
        node = self.inputs[p]
        if node in self.also_held and node.kind.out.requires_grad:
            node = identity_of(node)
            self.place[node] = p
        self.named.append(node)
        self.inner.append(standing(handle(node, masked=True), self.standing.get(p)))
        return self.inner[-1]

    def closed(self, outputs: Outputs) -> list[Node]:
        """The nodes that forward read, that track gradients, and that are none of the inputs."""
        now = state.now
        asked = [node for count, node in now.seen if count > self.asked]
        if not now.body:
            now.seen.clear()
        mine = [n for n in self.place if n not in self.also_held]
        return closed_over([*[t.node for t in outputs.tracked], *asked], mine, self.since)

    def visit(self) -> Visit:
        """The same for a host forward."""
        return Visit(self.site.function, self.site.method, self.run, self.packed, self.needs, self.inputs)

    def note_on(self, error: Exception) -> None:
        """Say in which forward of the user's an error came up."""
        site = self.site
        if is_own(site.method.implementation):
            return
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
        if now.body == 1:
            now.seen.clear()
        raise
    finally:
        now.body -= 1
    return completed(entered, ctx, result, has_token)


def completed(entered: Entered, ctx: ForwardContext, result: Any, has_token: bool) -> Any:
    """The results of a call, given what its forward has declared and returned."""
    now, site, name = state.now, entered.site, entered.site.function.__name__
    told = said(ctx)
    if result is None:
        where = f"{name}: its forward ({site.method.place}), called at {entered.line},"
        forgotten = imported("autodiff.custom.forgotten")
        forgotten.refuse_forgotten(site.method, where, "return the result; `return None` says that there is none")
    try:
        outputs = Outputs(name, result, told.constant)
        dirty = dirty_places(name, entered.inner, entered.given, entered.named, told.dirty, outputs)
    except Exception as error:
        entered.note_on(error)
        raise
    closed = entered.closed(outputs)
    masked = entered.masked and not closed
    if now.asked != entered.asked and not now.tracing:
        learn(entered.visit(), ctx, outputs, names_of(closed, site.method.implementation))
    if any(entered.needs) or (closed and outputs.tracked):
        opaque = now.looked != entered.looked
        leaves = bounded(
            site, ctx, entered.packed, entered.inputs, entered.place, outputs, masked, has_token, opaque,
            entered.line, closed,
        )  # fmt: skip
        now.bounded = entered.covered + now.looked - entered.looked
    else:
        leaves = [handle(t.node, masked) if isinstance(t, Tensor) else t for t in outputs.leaves]
        looked = now.looked - entered.looked
        if looked and not closed and not any([n.kind.out.requires_grad for n in entered.inputs]):
            now.bounded = entered.covered + looked  # of constants: there is no history to lose
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
