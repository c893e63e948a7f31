"""Calling a forward method: what it is given, and what becomes of what it says and returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.method import is_own
from ..errors import ConcretizationError
from ..frames import UserLine, user_line
from ..mode import MODE
from ..stand_ins import standing
from ..tape.node import Node, new_number
from ..tape.record import DETACH, identity_of, is_masked, record, state
from ..tensor import Tensor, handle
from .boundary import outputs_of, token_of
from .call import CustomCall, Packed, Site, pack, shape_of
from .context import ForwardContext, attributes, said
from .host import Unlearnt, Visit, learn, run_on_arrays, run_traced
from .outputs import Outputs, dirty_places, no_gradient, rebind_callers, refuse_forgotten
from .reads import Path, closed_over, held_by, names_of


class Entered:
    """The arguments of a call that was entered.

    site     the function that was called;  line: the user's
    arguments, packed   by name;  needs: for each, whether it needs a gradient
    inputs   nodes of the tensors in them;  place: their numbers
    given, inner   the caller's handles, and those that forward gets, in order;  named: the nodes of the latter
    also_held      inputs that forward may read by other names, too: it is given nodes of their own for these
    since    the number of what forward records first
    asked, looked, covered   what the recording had counted before
    """

    __slots__ = (
        "also_held", "arguments", "asked", "covered", "given", "inner", "inputs", "line", "looked", "named", "needs",
        "packed", "place", "since", "site",
    )  # fmt: skip

    def __init__(self, site: Site, arguments: dict[str, Any], line: UserLine | None) -> None:
        self.site, self.arguments, self.line = site, arguments, line
        self.inputs: list[Node] = []
        self.place: dict[Node, int] = {}
        self.given: list[Tensor] = []
        self.inner: list[Tensor] = []
        self.named: list[Node] = []
        self.packed = {name: pack(value, self._place_of) for name, value in arguments.items()}
        tracks = MODE.get().tracks and any([n.kind.out.requires_grad for n in self.inputs])
        self.needs = [
            tracks and any([p is not None and self.inputs[p].kind.out.requires_grad for p in a.places])
            for a in self.packed.values()
        ]
        self.also_held = self.held() if tracks and site.separates else set()
        now = state.now
        self.asked, self.looked, self.covered = now.asked, now.looked, now.bounded
        self.since: float = new_number()

    def _place_of(self, t: Tensor) -> int:
        self.given.append(t)
        number = self.place.get(t.node)
        if number is None:
            number = self.place[t.node] = len(self.inputs)
            self.inputs.append(t.node)
        return number

    def inner_at(self, p: int) -> Tensor:
        """A handle for forward on an input."""
        node = self.inputs[p]
        if node in self.also_held:
            node = identity_of(node)
            self.place[node] = p
        self.named.append(node)
        self.inner.append(standing(handle(node, masked=True), self.given[len(self.inner)]))
        return self.inner[-1]

    def held(self) -> set[Node]:
        """The inputs that track gradients and that forward can read by other names, too."""
        names = {t.node for _, t in held_by(self.site.method.implementation)}
        return {n for n in self.inputs if n in names and n.kind.out.requires_grad}

    def closed(self, outputs: Outputs) -> list[Node] | None:
        """The nodes that forward read, that track gradients, and that are none of the inputs.

        None where an input may be one of them: a result was made of something else than arguments, and forward can
        read that input by another name.  It takes a run in which inputs have nodes of their own to know.
        """
        now, site = state.now, self.site
        asked = [node for count, node in now.seen if count > self.asked]
        if not now.body:
            now.seen.clear()
        if not (asked or now.body) and all([t.masked or not t.node.kind.out.requires_grad for t in outputs.tracked]):
            return []  # outside of other forwards, what is masked was made of inputs alone
        if not site.separates and any(self.needs) and self.held():
            site.separates = True
            return None
        mine = [n for n in self.place if n not in self.also_held]
        return closed_over([*[t.node for t in outputs.tracked], *asked], mine, self.since)

    def visit(self) -> Visit:
        """Visit a host forward."""
        avals = tuple([n.kind.out.aval for n in self.inputs])
        return Visit(self.site, self.packed, self.needs, avals)

    def note_on(self, error: Exception) -> None:
        """Say in which forward of the user's an error came up."""
        method = self.site.method
        if not is_own(method.implementation):
            name = self.site.function.__name__
            error.add_note(f"in the forward method of {name} ({method.place}), called at {self.line}")


def call_forward(site: Site, arguments: dict[str, Any]) -> Any:
    """Run a forward method and put a boundary around what it recorded.

    arguments    every declared parameter by name, defaults filled in; a variadic one as a tuple

    Returns forward's outputs in their container, tracking if any argument tracks.
    Raises GradientError when arguments track and nothing that is returned can.
    """
    now = state.now
    entered = Entered(site, arguments, user_line())
    if now.captures is not None:
        for t in entered.given:  # the caller's handles, before forward gets handles of its own
            now.meet(t)
    values = {name: a.unpack(entered.inner_at) for name, a in entered.packed.items()}
    ctx = ForwardContext(site.function.__name__, list(values), entered.needs, list(values.values()))
    now.body += 1
    try:
        result = _run(entered, ctx, values)
    except Exception as error:
        entered.note_on(error)
        if now.body == 1:
            now.seen.clear()
        raise
    finally:
        now.body -= 1
    return completed(entered, ctx, result)


def completed(entered: Entered, ctx: ForwardContext, result: Any) -> Any:
    """The results of a call, given what its forward has declared and returned."""
    now, site, name = state.now, entered.site, entered.site.function.__name__
    told = said(ctx)
    if result is None:
        where = f"{name}: its forward ({site.method.place}), called at {entered.line},"
        refuse_forgotten(site.method, where, "return the result; `return None` says that there is none")
    try:
        outputs = Outputs(name, result, told.constant)
        dirty: dict[int, Tensor] = {}
        if told.dirty or any([t.node is not n for t, n in zip(entered.inner, entered.named, strict=True)]):
            dirty = dirty_places(name, entered.inner, entered.given, entered.named, told.dirty, outputs)
    except Exception as error:
        entered.note_on(error)
        raise
    closed, looked = entered.closed(outputs), now.looked - entered.looked
    if closed is None:
        now.bounded = entered.covered + looked
        return call_forward(site, entered.arguments)
    masked = is_masked(entered.given) and not closed  # inside of another forward
    if now.asked != entered.asked and not now.tracing:
        learn(entered.visit(), ctx, outputs, names_of(closed, site.method.implementation))
    if any(entered.needs) or (closed and outputs.tracked):
        leaves = _bounded(entered, ctx, outputs, closed, masked, opaque=bool(looked))
        now.bounded = entered.covered + looked
    else:
        leaves = [handle(t.node, masked) if isinstance(t, Tensor) else t for t in outputs.leaves]
        if looked and not closed and not any([n.kind.out.requires_grad for n in entered.inputs]):
            now.bounded = entered.covered + looked  # of constants: there is no history to lose
    if dirty:
        leaves = rebind_callers(dirty, entered.given, outputs, leaves)
    return outputs.rebuilt(leaves)


def _run(entered: Entered, ctx: ForwardContext, values: dict[str, Any]) -> Any:
    """Forward's result: on tensors; on arrays for a host forward; as a host call in a trace where it needs values."""
    now, is_host = state.now, entered.site.method.host
    if is_host:
        return (run_traced if now.tracing else run_on_arrays)(entered.visit(), ctx, values)
    if not now.tracing:
        return entered.site.run(ctx, values)
    asked = now.asked
    try:
        return entered.site.run(ctx, values)
    except ConcretizationError as error:
        if now.asked == asked or isinstance(error, Unlearnt):  # refused for something else than asking
            raise
        return run_traced(entered.visit(), ctx, values, error)


# ---------------------------------------------------------------- the boundary around it


def _bounded(
    entered: Entered, ctx: ForwardContext, outputs: Outputs, closed: list[Node], masked: bool, opaque: bool
) -> list[Any]:
    """The leaves of the result of a call that tracks, behind its boundary.

    closed    what it closes over and tracks;  opaque: forward asked for values
    """
    site, told, body = entered.site, said(ctx), [t.node for t in outputs.tracked]
    untracked = [x if slot is not None else _detached(x, masked)
                 for x, slot in zip(outputs.leaves, outputs.slots, strict=True)]  # fmt: skip
    if not body:
        if not any([isinstance(x, Tensor) for x in outputs.leaves]):
            has_number = any([isinstance(x, (float, complex)) for x in outputs.leaves])
            raise no_gradient(site.function.__name__, entered.line, has_number)
        return untracked
    inputs, place = [*entered.inputs, *closed], entered.place
    extra: list[Node] = []
    for k, node in enumerate(closed, len(entered.inputs)):
        place.setdefault(node, k)
    number = {node: -1 - k for k, node in reversed(list(enumerate(body)))}

    def place_of(t: Tensor) -> int:
        node = t.node
        if node not in place:
            if node in number:
                return number[node]
            place[node] = len(inputs) + len(extra)
            extra.append(node)
        return place[node]

    kept = [(n, pack(v, place_of, outputs.tensor_of)) for n, v in (*(told.saved or ()), *attributes(ctx).items())]
    places = tuple([
        -1 - slot if slot is not None else place_of(x) if isinstance(x, Tensor) else None
        for x, slot in zip(untracked, outputs.slots, strict=True)
    ])  # fmt: skip
    result = Packed(outputs.structure, places, tuple([x for x in untracked if not isinstance(x, Tensor)]))
    named = [*entered.packed.items(), *kept, (None, result)]
    names: tuple[Any, ...] = (names_of(closed, site.method.implementation), len(entered.inputs)) if closed else ()
    parts = tuple([(n, p.structure, p.places) for n, p in named])
    shape = shape_of(parts, len(entered.packed), len(told.saved or ()), told.materialize, *names)
    statics = tuple([x for _, p in named for x in p.statics])
    call = CustomCall(site, shape, statics, tuple([n.kind.out.aval for n in body]), opaque, None, entered.line)
    if state.now.tracing:
        call.reads = _traced_reads(call, place_of)
    if site.has_token:
        call.token = len(inputs) + len(extra)
        extra.append(token_of(call))
    flow = slice(len(inputs) + len(extra), None) if site.transparent else slice(0, len(inputs))
    found = outputs_of(call, (*inputs, *extra, *body), flow, masked)
    return [x if slot is None else found[slot] for x, slot in zip(untracked, outputs.slots, strict=True)]


def _traced_reads(call: CustomCall, place_of: Callable[[Tensor], int]) -> dict[Path, int]:
    """The values of this trace, and of those around it, that the rules of a call close over: where they are now."""
    outside = state.now.outside
    rules = [rule for rule in (call.rule(), call.rule("jvp")) if rule is not None]
    held = [((rule.kind, *path), t) for rule in rules for path, t in held_by(rule.implementation)]
    return {path: place_of(t) for path, t in held if t.node.value is None and t.node.number >= outside}


def _detached(t: Any, masked: bool) -> Any:
    """A tensor without its history; anything else as it is."""
    if not isinstance(t, Tensor):
        return t
    return handle(record(DETACH, (t,)).node if t.node.kind.out.requires_grad else t.node, masked)
