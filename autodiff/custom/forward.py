"""Calls of a forward method: its arguments, its declarations, and the results behind the boundary.

The user's function runs at each call, so the usual call has next to no bookkeeping: its arguments are tensors, and
values that hold none; forward returns float tensors; it saves, and sets on its context, tensors and values that hold
none.  A call that turns out otherwise, before or after the function has run, is finished by `completed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from codegen.records import NamedTuple

from .. import tree
from ..dispatch.method import is_own
from ..errors import ConcretizationError
from ..frames import UserLine, nearest_line
from ..mode import MODE
from ..stand_ins import standing
from ..tape.node import Node, new_number, rich_node, store_bounded
from ..tape.record import DETACH, identity_of, is_masked, record, result_handle, state
from ..tensor import Tensor, handle
from .boundary import boundary_kind, outputs_of, token_of
from .call import HOLDS_NONE, CallShape, CustomCall, Packed, Site, own_copy, pack, shape_of
from .context import Declared, ForwardContext, attributes, declarations_of
from .host import Unlearnt, Visit, learn, run_on_arrays, run_traced
from .outputs import Outputs, dirty_places, no_gradient, rebind_callers, refuse_forgotten
from .reads import Path, closed_over, held_by, names_of

_new = object.__new__
_NO_DECLARATIONS = Declared()  # the declarations of a method that has no context


class Entered(NamedTuple):
    """The arguments of a call, and the state of the recording when it began."""

    site: Site  # the function that was called
    again: Callable[[], Any]  # makes the same call once more
    line: UserLine | None
    names: Sequence[str]  # of the parameters
    structures: Sequence[tree.Structure]  # of each argument
    needs: list[bool]  # for each argument, True if it needs a gradient
    leaves: Sequence[Any]  # of the arguments
    at: Sequence[int]  # the places of tensors among the leaves
    inner: list[Any]  # the leaves that forward gets: its own handles on the tensors
    named: list[Node]  # the nodes of these handles
    inputs: list[Node]  # the same nodes, without repetition
    place: dict[Node, int]  # the number of each input
    read_by_name: set[Node]  # inputs that forward may also read by other names: it gets new nodes for these arguments
    asked: int
    float_asks: int  # the counters of the recording before the call
    bounded_before: int
    since: float  # a node that forward records has a larger number

    @property
    def given(self) -> list[Tensor]:
        """The caller's handles."""
        return [self.leaves[k] for k in self.at]

    def enter(self) -> None:
        """Tell a surrounding trace of the arguments; give forward new nodes for inputs that it reads by other names."""
        for t in self.given:
            state.now.note_hidden_input(t)
        if self.site.gives_new_nodes and any(self.needs):
            self.read_by_name.update(self.held())
        for i, k in enumerate(self.at):
            node = self.named[i]
            if node in self.read_by_name:
                self.inner[k].node = self.named[i] = identity_of(node)
                self.place[self.named[i]] = self.place[node]
            self.inner[k] = standing(self.inner[k], self.leaves[k])

    def packed(self) -> dict[str, Packed]:
        """The arguments, taken apart."""
        places = {k: self.place[node] for k, node in zip(self.at, self.named, strict=True)}
        found, start = dict[str, Packed](), 0
        for name, s in zip(self.names, self.structures, strict=True):
            mine = range(start, start + s.size)
            own = tuple([places.get(k) for k in mine])
            statics = tuple([own_copy(self.leaves[k]) for k in mine if k not in places])
            found[name] = Packed(None if s.cls is None and own[0] is not None else s, own, statics)
            start += s.size
        return found

    def held(self) -> set[Node]:
        """The inputs that track gradients and that forward can also read by other names."""
        names = {t.node for _, t in held_by(self.site.method.implementation)}
        return {n for n in self.inputs if n in names and n.kind.out.requires_grad}

    def closed(self, outputs: Outputs) -> list[Node] | None:
        """The tracking nodes that forward read and that are no inputs of the call.

        None if an input may be one of them: some result depends on more than the arguments, and forward can read that
        input by another name.  Only a second run, in which inputs have new nodes, can tell.
        """
        now, site, depth = state.now, self.site, state.now.forward_depth
        asked = [node for count, node in now.asked_in_forward if count > self.asked] if now.asked_in_forward else []
        if not depth:
            now.asked_in_forward.clear()
        if not (asked or depth) and all([t.masked or not t.node.kind.out.requires_grad for t in outputs.tracked]):
            return []  # outside other forwards, a masked result depends on inputs alone
        if not site.gives_new_nodes and any(self.needs) and self.held():
            site.gives_new_nodes = True
            return None
        mine = [n for n in self.place if n not in self.read_by_name]
        return closed_over([*[t.node for t in outputs.tracked], *asked], mine, self.since)

    def visit(self) -> Visit:
        """The description of this call of a host forward."""
        return Visit(self.site, self.packed(), self.needs, tuple([n.kind.out.aval for n in self.inputs]))


def _note_on(error: Exception, site: Site, line: UserLine | None) -> None:
    method = site.method
    if not is_own(method.implementation):
        error.add_note(f"in the forward method of {site.function.__name__} ({method.place}), called at {line}")


def _are_leaves(site: Site) -> bool:
    """True if the classes say that each argument of a call is a tensor or a value that holds none."""
    declaration = site.function.declaration
    if declaration.variadic is not None or declaration.keywords or declaration.open:
        return False
    are_known = all([issubclass(c, Tensor) or c in HOLDS_NONE for c in site.types])
    return are_known and not any([hasattr(c, "__dispatches_as__") for c in site.types])


def _is_plain(t: Tensor, tracks: bool) -> bool:
    """True for a result that can carry a gradient, and does so only through the call's inputs, as far as is known."""
    out = t.node.kind.out
    return out.flows and (not out.requires_grad or (tracks and t.masked))


def calling(site: Site) -> Callable:
    """The function that runs a forward method and puts a boundary around the recorded nodes.

    By position it takes the declared parameters that dispatch, by name the keyword-only ones.  It returns forward's
    outputs in their container, which track if any argument tracks.  Raises GradientError if arguments track and no
    output can.
    """
    declaration, are_leaves, method = site.function.declaration, _are_leaves(site), site.method
    name, run, has_context = site.function.__name__, method.implementation, site.has_context
    fixed, variadic = declaration.fixed, declaration.variadic
    is_usual = are_leaves and not (site.has_token or method.host or site.transparent)
    tensors = tuple([k for k, c in enumerate(site.types) if issubclass(c, Tensor)])
    others = [k for k in range(len(site.types)) if k not in tensors]
    count, flow, all_leaves = len(tensors), slice(0, len(tensors)), [tree.LEAF] * len(fixed)
    shapes: dict[tuple, CallShape] = {}

    def call(*arguments: Any, **keywords: Any) -> Any:
        now = state.now
        names: Sequence[str] = fixed
        leaves: Sequence[Any] = arguments
        structures: Sequence[tree.Structure] = all_leaves
        at: Sequence[int] = tensors
        if not are_leaves:
            values = dict(zip(fixed, arguments, strict=False))
            values |= {} if variadic is None else {variadic: arguments[len(fixed) :]}
            names = [*values, *keywords]
            leaves, nesting = tree.flatten((*values.values(), *keywords.values()))
            structures, at = nesting.children, [k for k, x in enumerate(leaves) if isinstance(x, Tensor)]
        tracks, may_track, needs, inner = False, MODE.get().tracks, [False] * len(leaves), [*leaves]
        place: dict[Node, int] = {}
        named: list[Node] = []
        for k in at:
            node = leaves[k].node
            if node not in place:
                place[node] = len(place)
            named.append(node)
            out = node.kind.out
            if may_track and out.requires_grad:
                tracks = needs[k] = True
            inner[k] = t = _new(out.cls)
            t.node = node
            t.masked = True
        line, entered = nearest_line(3), None
        before = asked, _, _, since = now.asked, now.float_asks, now.covered_asks, new_number()
        if is_usual and not (now.tracing or site.gives_new_nodes or now.captures is not None):
            ctx: Any = ForwardContext(name, names, needs, inner) if has_context else None
        else:
            if not are_leaves:
                flags = iter(needs)
                needs = [any([next(flags) for _ in range(s.size)]) for s in structures]
            again = partial(call, *arguments, **keywords)
            entered = Entered(site, again, line, names, structures, needs, leaves, at, inner, named, [*place], place,
                              set(), *before)  # fmt: skip
            entered.enter()
            values = dict(zip(names, inner if are_leaves else tree.unflatten(nesting, inner), strict=True))
            ctx = ForwardContext(name, names, needs, list(values.values()))
        now.forward_depth += 1
        try:
            if entered is not None:
                y = _run(entered, ctx, values)
            elif has_context:
                y = run(ctx, *inner)
            else:
                y = run(*inner)
        except Exception as error:
            _note_on(error, site, line)
            if now.forward_depth == 1:
                now.asked_in_forward.clear()
            raise
        finally:
            now.forward_depth -= 1
        if entered is not None:
            return completed(entered, ctx, y)
        declared, structure = _NO_DECLARATIONS if ctx is None else declarations_of(ctx), None
        is_plain = (
            now.asked == asked and not declared.constant and not declared.dirty
            and len(place) == count and [inner[k].node for k in at] == named
        )  # fmt: skip
        if is_plain and isinstance(y, Tensor):  # a branch for one output, because most calls have one
            body = y.node
            is_plain = _is_plain(y, tracks) and not (now.forward_depth and closed_over((body,), named, since))
        elif is_plain:
            ys, structure = tree.flatten(y)
            bodies = [t.node for t in ys if isinstance(t, Tensor) and _is_plain(t, tracks)]
            is_plain = len(bodies) == len(ys) > 0 and not (now.forward_depth and closed_over(bodies, named, since))
        if is_plain:
            masked = now.forward_depth != 0 and is_masked([leaves[k] for k in at])
            if not tracks:
                several = structure and tree.unflatten(structure, [result_handle(n, masked) for n in bodies])
                return result_handle(body, masked) if structure is None else several
            statics: list[Any] = [own_copy(leaves[k]) for k in others] if others else []
            extras: list[Node] = []
            key: tuple[Any, ...] = (declared.materialize, structure)
            if ctx is not None:
                saved, on_it = declared.saved or (), ctx.__dict__
                if on_it:
                    saved, key = (*saved, *attributes(ctx).items()), (*key, len(on_it))
                number = {body: -1} if structure is None else {n: -1 - bodies.index(n) for n in bodies}
                number.update(place)
                for label, value in saved:
                    where: int | None = None
                    if isinstance(value, Tensor):
                        node = value.node
                        if (where := number.get(node)) is None:
                            where = number[node] = count + len(extras)
                            extras.append(node)
                    elif type(value) in HOLDS_NONE:
                        statics.append(own_copy(value))
                    else:
                        is_plain = False
                    key += (label, where)
            if is_plain and (shape := shapes.get(key)) is not None:
                made = CustomCall(site, shape, tuple(statics), (), False, None, line)
                if structure is not None:
                    made.avals = tuple([n.kind.out.aval for n in bodies])
                    found = outputs_of(made, (*named, *extras, *bodies), flow, masked)
                    return tree.unflatten(structure, found)
                out = body.kind.out
                made.avals = (out.aval,)
                node = rich_node(boundary_kind(out), (*named, *extras, body), call=made)
                node.body, node.flow, node.line = count + len(extras), flow, line
                return result_handle(node, masked)
        again = partial(call, *arguments)
        entered = Entered(site, again, line, names, structures, needs, leaves, at, inner, named, [*place], place,
                          set(), *before)  # fmt: skip
        result = completed(entered, ctx or ForwardContext(name, names, needs, inner), y)
        if is_plain and not site.gives_new_nodes:  # later calls that save the same kinds of values find this shape
            (node, *_) = [t.node for t in tree.leaves(result)]
            store_bounded(shapes, key, (node if node.slot is None else node.inputs[0]).call.shape)
        return result

    return call


def completed(entered: Entered, ctx: ForwardContext, result: Any) -> Any:
    """The results of a call, from its forward's declarations and result."""
    now, site, name = state.now, entered.site, entered.site.function.__name__
    declared = declarations_of(ctx)
    if result is None:
        where = f"{name}: its forward ({site.method.place}), called at {entered.line},"
        refuse_forgotten(site.method, where, "return the result; `return None` says that there is none")
    try:
        outputs = Outputs(name, result, declared.constant)
        dirty: dict[int, Tensor] = {}
        handles = [entered.inner[k] for k in entered.at]
        if declared.dirty or [t.node for t in handles] != entered.named:
            dirty = dirty_places(name, handles, entered.given, entered.named, declared.dirty, outputs)
    except Exception as error:
        _note_on(error, site, entered.line)
        raise
    closed, looked = entered.closed(outputs), now.float_asks - entered.float_asks
    if closed is None:
        now.covered_asks = entered.bounded_before + looked
        return entered.again()
    masked = now.forward_depth != 0 and not closed and is_masked(entered.given)
    if now.asked != entered.asked and not now.tracing:
        learn(entered.visit(), ctx, outputs, names_of(closed, site.method.implementation))
    if any(entered.needs) or (closed and outputs.tracked):
        leaves = _bounded(entered, ctx, outputs, closed, masked, opaque=bool(looked))
        now.covered_asks = entered.bounded_before + looked
    else:
        leaves = [handle(t.node, masked) if isinstance(t, Tensor) else t for t in outputs.leaves]
        if looked and not closed and not any([n.kind.out.requires_grad for n in entered.inputs]):
            now.covered_asks = entered.bounded_before + looked  # only constants were evaluated: no history is lost
    if dirty:
        leaves = rebind_callers(dirty, entered.given, outputs, leaves)
    return outputs.rebuilt(leaves)


def _run(entered: Entered, ctx: ForwardContext, values: dict[str, Any]) -> Any:
    """Run forward: on tensors; on arrays if it is a host forward; in a trace, if it needs values, as a host call."""
    now, is_host = state.now, entered.site.method.host
    if is_host:
        return (run_traced if now.tracing else run_on_arrays)(entered.visit(), ctx, values)
    if not now.tracing:
        return entered.site.run(ctx, values)
    asked = now.asked
    try:
        return entered.site.run(ctx, values)
    except ConcretizationError as error:
        if now.asked == asked or isinstance(error, Unlearnt):  # the error is not about a missing value
            raise
        return run_traced(entered.visit(), ctx, values, error)


# ---------------------------------------------------------------- the boundary around it


def _bounded(
    entered: Entered, ctx: ForwardContext, outputs: Outputs, closed: list[Node], masked: bool, opaque: bool
) -> list[Any]:
    """The leaves of the result of a call that tracks, behind its boundary.

    closed    the tracking nodes that forward closes over;  opaque: True if forward evaluated tensors
    """
    site, declared, body = entered.site, declarations_of(ctx), [t.node for t in outputs.tracked]
    leaves, slots = outputs.leaves, outputs.slots
    leaves = [x if slot is not None else _detached(x, masked) for x, slot in zip(leaves, slots, strict=True)]
    if not body:
        if not any([isinstance(x, Tensor) for x in leaves]):
            has_number = any([isinstance(x, (float, complex)) for x in leaves])
            raise no_gradient(site.function.__name__, entered.line, has_number)
        return leaves
    inputs, place, extra = [*entered.inputs, *closed], entered.place, list[Node]()
    for node in (*closed, *body):
        if node not in place:
            place[node] = len(entered.inputs) + closed.index(node) if node in closed else -1 - body.index(node)

    def place_of(t: Tensor) -> int:
        if (found := place.get(t.node)) is None:
            found = place[t.node] = len(inputs) + len(extra)
            extra.append(t.node)
        return found

    parts: list[tuple[str | None, Packed]] = [*entered.packed().items()]
    n_arguments, saved = len(parts), declared.saved or ()
    parts += [(label, pack(x, place_of, outputs.tensor_of)) for label, x in (*saved, *attributes(ctx).items())]
    pairs = zip(leaves, slots, strict=True)
    places = tuple([-1 - k if k is not None else place_of(x) if isinstance(x, Tensor) else None for x, k in pairs])
    parts.append((None, Packed(outputs.structure, places, tuple([x for x in leaves if not isinstance(x, Tensor)]))))
    names: tuple[Any, ...] = (names_of(closed, site.method.implementation), len(entered.inputs)) if closed else ()
    key = tuple([(label, p.structure, p.places) for label, p in parts])
    shape = shape_of(key, n_arguments, len(saved), declared.materialize, *names)
    statics, avals = tuple([x for _, p in parts for x in p.statics]), tuple([n.kind.out.aval for n in body])
    call = CustomCall(site, shape, statics, avals, opaque, None, entered.line)
    if state.now.tracing:
        call.reads = _traced_reads(call, place_of)
    if site.has_token:
        call.token = len(inputs) + len(extra)
        extra.append(token_of(call))
    flow = slice(len(inputs) + len(extra), None) if site.transparent else slice(0, len(inputs))
    found = outputs_of(call, (*inputs, *extra, *body), flow, masked)
    return [x if slot is None else found[slot] for x, slot in zip(leaves, slots, strict=True)]


def _traced_reads(call: CustomCall, place_of: Callable[[Tensor], int]) -> dict[Path, int]:
    """The tensors of traces that a call's rules close over: path of names -> place among the boundary's inputs."""
    outside = state.now.outside
    rules = [rule for rule in (call.rule(), call.rule("jvp")) if rule is not None]
    held = [((rule.kind, *path), t) for rule in rules for path, t in held_by(rule.implementation)]
    return {path: place_of(t) for path, t in held if t.node.value is None and t.node.number >= outside}


def _detached(t: Any, masked: bool) -> Any:
    """A tensor without its history; any other value unchanged."""
    if not isinstance(t, Tensor):
        return t
    return handle(record(DETACH, (t,)).node if t.node.kind.out.requires_grad else t.node, masked)
