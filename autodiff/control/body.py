"""Bodies: a function recorded once on arguments without values, to be run many times.

    body = Body(arguments, hidden, ...)   see `trace`: tensors from elsewhere that f reads are hidden inputs
    body.graph                            frozen, for the compiler: inputs are arguments, then hidden inputs
    body.apply(carry, x, hidden)          replays the recording on tensors, for derivatives

Bodies with equal nodes are one object, so that a loop in a program that repeats is the same graph each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from codegen import ir
from codegen.lowering import Move

from ..ops import zeros_like
from ..session import namespace
from ..tape.modes import enable_grad
from ..tape.node import Node, RichNode
from ..tape.plan import freeze
from ..tape.program import clone, hooked_like, replay
from ..tape.record import DETACH, argument, record, state
from ..tape.walk import gradient_inputs, reached
from ..tensor import Tensor, handle
from ..transforms.forward import jvp
from ..transforms.functional import vjp
from ..tree import exchanged

_bodies = namespace("body")

#: Operations whose rules read none of their values, so that a sum of products can be kept in place of its terms.
_SUMS = frozenset(("add", "sub", "neg", "reshape"))

#: Functions whose calls a backward pass computes again: nothing inside them is kept.
RECOMPUTED: set[Any] = set()


class Body(ir.Region):
    """Recorded nodes from arguments and hidden inputs to results.  Compared by identity, interned by structure.

    arguments, hidden, results   nodes of the recording that first had this structure
    order                        all nodes from the inputs to the results, by creation
    graph                        the nodes as a graph for the compiler
    lines                        lines of the trace that first had this structure
    made                         objects derived from this body: see `derived_once`
    """

    __slots__ = (
        "_calls", "arguments", "hidden", "is_interned_itself", "lines", "made", "order", "results",
    )  # fmt: skip

    is_interned = True

    def __init__(
        self, arguments: Sequence[Node], hidden: Sequence[Node], results: Sequence[Node], order: Sequence[Node]
    ) -> None:
        self.arguments = [_placeholder(n, _hooks_of(n)) for n in arguments]
        self.hidden = [_placeholder(n) for n in hidden]
        stands = dict(zip([*arguments, *hidden], [*self.arguments, *self.hidden], strict=True))
        self.order = []
        for node in order:
            stands[node] = clone(node, tuple([stands[i] for i in node.inputs]))
            self.order.append(stands[node])
        self.results = [stands[n] for n in results]
        lines = state.now.lines
        self.lines = None if lines is None else lines.of(self.order)
        super().__init__(freeze(self.results, [*self.arguments, *self.hidden])[0])
        self.made: dict[Any, Any] = {}
        self.is_interned_itself = False
        self._calls: list[Any] | None = None

    def derived_once(self, make: Callable[..., Any], *of: Any) -> Any:
        """make(body, *of), computed once and cached."""
        key = make, *of
        if key not in self.made:
            self.made[key] = make(self, *of)
        return self.made[key]

    def __repr__(self) -> str:
        return f"{{{len(self.graph.nodes)} operations, {len(self.arguments)} arguments, {len(self.hidden)} hidden}}"

    def tracking(self, flags: Sequence[bool]) -> list[bool]:
        """For each result, True if gradients flow through it, if they flow through the inputs whose flag is set."""
        return self._reached(flags, lambda node: _sources(node) if node.kind.out.requires_grad else ())

    def differing(self, flags: Sequence[bool]) -> list[bool]:
        """For each result, True if it is computed from an input whose flag is set."""
        return self._reached(flags, lambda node: node.inputs)

    def _reached(self, flags: Sequence[bool], reads: Callable[[Node], Sequence[Node]]) -> list[bool]:
        found = {n for n, is_set in zip([*self.arguments, *self.hidden], flags, strict=True) if is_set}
        for node in self.order:
            if not found.isdisjoint(reads(node)):
                found.add(node)
        return [n in found for n in self.results]

    def read(self, flags: Sequence[bool]) -> list[bool]:
        """For each input, True if a result whose flag is set may pass a gradient to it."""
        found = {n for n, is_set in zip(self.results, flags, strict=True) if is_set and is_float(n.kind.out.aval)}
        for node in reversed(self.order):
            if node in found:
                found.update(_sources(node))
        return [n in found for n in (*self.arguments, *self.hidden)]

    @property
    def has_hooks(self) -> bool:
        """True if a backward pass of a step calls hooks, those in the bodies inside it included."""
        return any([n.hooks for n in (*self.arguments, *self.order)]) or any([b.has_hooks for b in self.inside()])

    def inside(self) -> list[Body]:
        """The bodies of the loops and branches in this body."""
        given = [x for node in self.order for x in (*node.kind.params, *(node.call.statics if node.call else ()))]
        return list(dict.fromkeys([x for x in given if isinstance(x, Body)]))

    def has_rules_of(self, order: Sequence[Node], rules: Sequence[Any]) -> bool:
        """True if the calls among these nodes still have the rules that this body was recorded with."""
        calls = [(old.call, new.call, rule) for old, new, rule in zip(self.order, order, rules, strict=True)
                 if new.call is not None]
        return all([old.site is new.site or old.rules_key() == rule for old, new, rule in calls])

    def calls(self) -> list[Any]:
        """The calls of custom functions in this body and the bodies inside it."""
        if self._calls is None:
            calls = [n.call for n in self.order if n.call is not None]
            self._calls = [*calls, *[c for body in self.inside() for c in body.calls()]]
        return self._calls

    def apply(self, given: Sequence[Tensor], stands: dict[Node, Node] | None = None) -> list[Tensor]:
        """Record the body on tensors: the arguments, then the hidden inputs.   stands: gets each node's new node"""
        stands = {} if stands is None else stands
        for n, t in zip([*self.arguments, *self.hidden], given, strict=True):
            stands[n] = hooked_like(n, t.node) if n.hooks else t.node
        replay(self.order, stands, self.lines)
        return [handle(stands[n]) for n in self.results]

    def pull(
        self, given: Sequence[Tensor], bars: Sequence[Tensor | None], places: Sequence[int],
        stands: dict[Node, Node] | None = None,
    ) -> list[Any]:
        """The cotangents of the inputs at `places` (None for others), from those of the results (None: zero)."""
        there = [k for k, bar in enumerate(bars) if bar is not None]

        def reached_by_bars(values: Sequence[Tensor]) -> list[Tensor]:
            results = self.apply(exchanged(given, places, values), stands)
            return [results[k] for k in there]

        _, pullback = vjp(reached_by_bars, [given[k] for k in places])
        (found,) = pullback([bars[k] for k in there])
        return placed(found, places, len(given))

    def push(
        self, given: Sequence[Tensor], dots: Sequence[Tensor], places: Sequence[int],
        stands: dict[Node, Node] | None = None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The results and their tangents, from the tangents of the inputs at `places`; others are constant."""
        have_rules = [has_rule(n) for n in self.results]

        def applied(values: Sequence[Tensor]) -> list[Tensor]:
            return detached_unless(self.apply(exchanged(given, places, values), stands), have_rules)

        return jvp(applied, ([given[k] for k in places],), (list(dots),))

    def unchanging(self, changing: int) -> tuple[Body, Body] | None:
        """The part of a loop's body that no step changes, to compute before the loop, and the rest of the body.

        That part, such as a function of weights alone, reads hidden inputs; its results are further hidden inputs of
        the rest.  None if there is no such part.   changing: this many arguments differ between steps

        These nodes stay in the step: moves, which are free there; a result larger than all its inputs, as reading it
        may cost more; the inside of a call, which has no use without the call; hooks; host calls; and nodes that a
        backward pass computes again.
        """
        differ = {*self.arguments[:changing], *recomputed(self.order)}
        within = inside_calls(self.order, lambda call: not call.transparent)
        found: set[Node] = set()
        for node in self.order:
            op = node.kind.op
            stays = node.hooks or op.name == "barrier" or (node.call is not None and node.call.token is not None)
            if stays or node in differ or not differ.isdisjoint(node.inputs):
                differ.add(node)
            elif node.inputs and node not in within and (node.call is None or node.body is not None):
                is_free = isinstance(op.lower, Move) and "part" not in op.traits
                if not (is_free or op.has_regions) and _bytes_of(node) <= max(map(_bytes_of, node.inputs)):
                    found.add(node)
        read = reached(self.results, lambda node: () if node in found else node.inputs)
        once = [n for n in self.order if n in found and n in read]
        if not once:
            return None
        before = inside(once, set(self.hidden))
        return (
            interned([], self.hidden, once, [n for n in self.order if n in before]),
            interned(self.arguments, [*self.hidden, *once], self.results,
                     [n for n in self.order if n in read and n not in found]),
        )  # fmt: skip


def ever_set(states: Sequence[bool], rest: Sequence[bool], step: Callable[[list[bool]], list[bool]]) -> list[bool]:
    """The flags of a loop's inputs that are set at some step: at the first, or by a step, through the states."""
    found = list(states)
    while True:
        after = [a or b for a, b in zip(found, step([*found, *rest]), strict=False)]
        if after == found:
            return [*found, *rest]
        found = after


def filled(values: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor]:
    """The values, with zeros in place of None."""
    return [zeros_like(x) if value is None else value for value, x in zip(values, like, strict=True)]


def tracks_of(tensors: Sequence[Tensor]) -> list[bool]:
    """For each tensor, True if gradients flow through it."""
    return [t.node.kind.out.requires_grad for t in tensors]


def detached_unless(found: Sequence[Tensor], tracking: Sequence[bool]) -> list[Tensor]:
    """The results of a rule; a result is detached unless its flag says that a gradient depends on it."""
    return [
        record(DETACH, (t,)) if t.node.kind.out.requires_grad and not tracks else t
        for t, tracks in zip(found, tracking, strict=True)
    ]


def mode_of(*bodies: Body) -> AbstractContextManager[None]:
    """The grad mode to record a use of bodies in: on, even under no_grad, if a body computed under enable_grad."""
    computed = [n for body in bodies for n in body.results if n.inputs]
    return enable_grad() if any([n.kind.out.requires_grad for n in computed]) else nullcontext()


def is_float(x: Any) -> bool:
    """True if a tensor or an aval may have a derivative."""
    return x.dtype.kind in "fc"


def float_places(xs: Sequence[Any]) -> list[int]:
    """The places of the tensors or avals that may have a derivative."""
    return [k for k, x in enumerate(xs) if is_float(x)]


def placed(values: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    """A list of length `count`, with these values at these places, and None elsewhere."""
    return exchanged([None] * count, places, values)


def interned(arguments: Sequence[Node], hidden: Sequence[Node], results: Sequence[Node], order: Sequence[Node]) -> Body:
    """The cached body of this structure, or a new one."""
    number = {n: i for i, n in enumerate([*arguments, *hidden, *order])}
    parts: list[Any] = [n.kind.out for n in (*arguments, *hidden)]
    rules = [None if n.call is None else n.call.rules_key() for n in order]
    for node, rule in zip(order, rules, strict=True):
        parts.append((node.kind, rule, bool(node.hooks), *[number[i] for i in node.inputs]))
    is_pure = all([n.call is None or n.call.is_pure for n in order])
    if not is_pure or any(map(_hooks_of, arguments)) or any([n.hooks for n in order]):
        return Body(arguments, hidden, results, order)
    lines = state.now.lines
    key = (lines and lines.trace, len(arguments), tuple(parts), tuple([number[n] for n in results]))
    found: Body | None = _bodies.get(key)
    if found is None or not found.has_rules_of(order, rules):
        found = Body(arguments, hidden, results, order)
        found.is_interned_itself = True
        _bodies.put(key, found)
    return found


def has_rule(node: Node) -> bool:
    """False for loops, branches, parts of their results, and host calls: custom calls around them have the rules."""
    return node.kind.op.traits.isdisjoint(("regions", "part", "host"))


def _sources(node: Node) -> Sequence[Node]:
    """The inputs that gradients flow to."""
    return gradient_inputs(node) if has_rule(node) else ()


def _hooks_of(argument: Node) -> dict[Any, Callable] | None:
    """The hooks that a step registers on an argument; None for a computed node in its place, whose hooks stay there."""
    return None if argument.inputs else argument.hooks


def _placeholder(node: Node, hooks: dict[Any, Callable] | None = None) -> Node:
    """A node without value or history that stands for an argument, so that a body holds no data.

    hooks   those that a step registers on an argument; the hooks of a hidden input stay outside
    """
    made = argument(node.kind.out.aval, requires_grad=node.kind.out.requires_grad).node
    if hooks:
        made.hooks = hooks
    if state.now.lines is not None:
        state.now.lines.copy(made, node)
    return made


def _kept(body: Body, carried: int) -> list[Node]:
    """The nodes to keep for a backward pass: products, solves, loops and host calls; a sum in place of its products.

    Next states are left out, as they are kept anyway.  Reductions and elementwise operations are computed again.
    """
    fresh: set[Node] = {*body.results[:carried], *recomputed(body.order)}
    readers = Counter([i for node in body.order for i in node.inputs] + body.results[:carried])
    plain: set[Node] = {*body.arguments, *body.hidden}
    kept: set[Node] = set()
    for node in body.order:
        op = node.kind.op
        if isinstance(op.lower, Move) and plain.issuperset(node.inputs):
            plain.add(node)
        elif node in fresh:
            continue
        elif "part" in op.traits or (op.heavy and not op.has_regions and (op.pull is None or not op.keeps_mask)):
            kept.add(node)  # for a loop the parts of its result, not the vector that holds them
        elif op.name in _SUMS:
            terms = kept.intersection(node.inputs)
            size = sum([t.kind.out.aval.nbytes for t in terms])
            others = [i for i in node.inputs if i not in terms]
            if node.kind.out.aval.nbytes <= size and plain.issuperset(others) and all(readers[t] == 1 for t in terms):
                kept = kept - terms | {node}
    return [node for node in body.order if node in kept]


def keeping(body: Body, carried: int) -> Body:
    """The body with further results: the states, and the nodes that a gradient of the loop reads (`kept_results`)."""
    more = [n for n in (*body.arguments[:carried], *_kept(body, carried)) if n not in body.results[carried:]]
    return interned(body.arguments, body.hidden, [*body.results, *more], body.order)


def kept_results(body: Body, carried: int) -> list[Node]:
    """The results of a body that a backward pass does not compute again: products and the like.

    States with hooks are among them: their hooks run in the loop that made the state, where its whole cotangent is.
    """
    hooked = [n for n in body.arguments[:carried] if n.hooks]
    return [*hooked, *[n for n in _kept(body, carried) if n in body.results[carried:]]]


def recomputed(order: Sequence[Node]) -> set[Node]:
    """The nodes between the inputs and the outputs of calls in `RECOMPUTED`: a backward pass computes them again."""
    return inside_calls(order, lambda call: call.function in RECOMPUTED)


def inside_calls(order: Sequence[Node], is_one: Callable[[Any], bool]) -> set[Node]:
    """The nodes between the inputs and the outputs of calls for which `is_one` is true."""
    found: set[Node] = set()
    for node in order:
        if isinstance(node, RichNode) and node.call is not None and is_one(node.call):
            found |= inside(node.inputs, set(gradient_inputs(node)))
    return found


def inside(results: Sequence[Node], starts: set[Node]) -> set[Node]:
    """The nodes that results are computed from, without `starts` and the nodes before them."""
    return reached(results, lambda node: () if node in starts else node.inputs) - starts


def _bytes_of(node: Node) -> float:
    return node.kind.out.aval.nbytes
