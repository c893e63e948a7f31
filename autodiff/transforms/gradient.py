"""Gradients as values: rules are run once per shape of recording, then a cached plan computes the gradients.

`Gradients.solve` is the only way from a recording to arrays:

    history, closure  ->  exact key  ->  plan     (miss: rules emit nodes, the graph is frozen and looked up)
                                          |
                                       results   ->  values of nodes are kept; the caller commits gradients
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial, reduce
from typing import Any
from weakref import ref

import numpy as np

from codegen.garbage import Paused, ignoring
from codegen.ir import copy_if_shared

from ..custom.keys import reading, users_methods
from ..dispatch import Choices, observed
from ..mode import MODE
from ..tape.ask import RUN_ERRORS, Question, end_recording, evaluate, still_true
from ..tape.known import BACKWARD, NODES, Ask, forget
from ..tape.misses import note
from ..tape.node import Node, data_node, leaf_kind, new_number, out_of
from ..tape.parts import SHORTEST, run_in_parts
from ..tape.plan import COUNTS, Answer, Misfit, Plan, answer_computing, data, run_once, source
from ..tape.record import state
from ..tape.segment import HAS_VALUE, RuleRecord, Segment, Unfit
from ..tape.walk import Description, history
from ..tensor import Tensor
from .backward_pass import Group, emit, looking
from .reverse import ReversePass
from .rules import Watches, evaluating_rules


class Gradients(Question):
    """A request for gradients, whose plan is made from the nodes that rules record.

    given, implicit    cotangents that count as nodes of the recording; cotangents that are the constant one
    asked, also        the results, the given cotangents and `also`; further nodes whose values are wanted
    ordered            the groups in canonical order
    is_run             True once rules and hooks have run: a later error comes from computing values
    """

    past: list[Node]
    is_run = False

    def __init__(
        self, seeds: Sequence[tuple[Node, Node]], groups: Sequence[Group], *, retain: bool, live: Sequence[Node],
        ask: Ask | None, also: Sequence[Node] = (), past: list[Node] | None = None,
        through: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        """The gradients of groups, from cotangents of results.

        retain        True if a later pass goes through the history again: the values that it reads are then stored
        live          nodes of small live results;  also: nodes whose values are wanted in the same run
        ask           the request by which machine code finds the plan when it is repeated
        past          the history of the results, if it is known
        through       places in the history of the nodes to release afterwards; None: all for `.backward()`, else none
        """
        ends = [r for r, _ in seeds]
        self.past = history(ends) if past is None else past
        self.live, self.ask, self.tracks, self.through = live, ask, retain, through
        self.seeds, self.groups = seeds, groups
        self.given: list[Node] = []
        self.implicit: set[Node] = set()
        for k, (_, seed) in enumerate(seeds):
            if ask is not None and ask.seeds[k] is None:
                self.implicit.add(seed)
            else:
                self.given.append(seed)
        self.asked, self.also = [*ends, *self.given, *also], also

    def solve(self) -> list[np.ndarray | None]:
        """The gradients as arrays (None: the group is not reached, its gradient is symbolically zero)."""
        if self.why_uncached() is not None:
            return self.run_uncached()
        try:
            if self.ask is not None and self.ask.seeds == (None,):
                found = in_parts(self.seeds[0][0], self.groups, [*self.also, *self.live])
                if found is not None:
                    end_recording(state.now)
                    return found
            with Paused():  # nearly all that rules and passes make stays in use; the run, which may be long, is outside
                plan = self.known()
                if plan is None and self.is_let_pass:
                    return self.let_pass()
                plan = plan or self.make()
            self.is_run = True
            try:
                results = plan.run(self.order)
            except Misfit:
                self.describe()
                plan = self.make("a rule cannot compute with a number as it did before")
                results = plan.run(self.order)
            plan.commit(self.order, results)
            found = plan.gradients(results, self.ranks, self.order)
            end_recording(state.now)
            return found
        except Exception as error:
            if not self.live or not (self.is_run or isinstance(error, RUN_ERRORS)):
                raise
        again = Gradients(  # without the small results, which nobody asked for
            self.seeds, self.groups, retain=self.tracks, also=self.also, past=self.past, live=(), ask=self.ask,
            through=self.through,
        )  # fmt: skip
        return again.solve()

    @property
    def released_nodes(self) -> Sequence[Node] | None:
        # Built on each read: a list kept beside the history would count as a holder that may need the values.
        if self.through is None:
            return None if self.ask is not None and self.ask.purpose == BACKWARD else ()
        return [self.past[k] for k in self.through]

    def set_order(self, order: list[Node]) -> None:
        self.order = order
        self._rank({n: i for i, n in enumerate(order)})

    def _rank(self, number: dict[Node, int]) -> None:
        """Put the groups in canonical order, unreached ones last."""
        places = [min([number[n] for n in g.nodes if n in number], default=-1) for g in self.groups]
        self.ranks = sorted(range(len(places)), key=lambda i: (places[i] < 0, places[i]))
        self.places = tuple([places[i] for i in self.ranks])
        self.ordered = [self.groups[i] for i in self.ranks]

    def set_description(self, description: Description) -> None:
        self.parts, self.number, self.order, self.stored = description
        self._rank(self.number)
        for node in self.implicit:
            self.number[node] = len(self.number)

    def key(self) -> tuple:
        number = self.number
        seeds = tuple([(number[r], -1 if s in self.implicit else number[s]) for r, s in self.seeds])
        stored = tuple(sorted([number[n] for n in self.stored]))
        groups = [(bool(g.hooks), *sorted([number.get(n, -1) for n in g.nodes])) for g in self.ordered]
        return "gradient", tuple(self.parts), seeds, stored, tuple(groups)

    def still_right(self, plan: Plan | None) -> Plan | None:
        return None if plan is not None and plan.relied and reading(plan.relied)[0] != plan.read else plan

    def why_uncached(self) -> Callable[[], str] | None:
        """A function that returns the reason why no plan can be cached and the rules run each time; None: no reason."""
        for node in self.past:
            if type(node) is Node:
                continue  # a plain node has neither hooks nor a call
            if node.hooks:
                return partial("a hook on a {} runs each time".format, node.kind.out.aval)
            if node.call is not None and not node.call.is_pure:
                return partial(_reads_unnamed, node.call)
        if any(g.hooks for g in self.groups):
            return lambda: "a hook on a leaf runs each time"
        if MODE.get().eager:
            return lambda: "in eager mode everything runs each time"
        return (lambda: "anomalies are looked for") if MODE.get().anomalies and not state.now.tracing else None

    def make(self, why: str = "") -> Plan:
        """Run the rules, and make the plan of what they record.   why: the reason to replace a cached plan"""
        past, seeds, groups, number = self.past, self.seeds, self.ordered, self.number
        key = self.key()
        asked = state.now.asked
        watches = Watches(past if not why else ())
        # Rules that run each time need no record of the methods they chose, and an observer would keep them in Python.
        with watches.open(), nullcontext(Choices()) if why else observed(tracks=False) as choices:
            try:
                gradients = emit(past, seeds, groups, tracks=False)
            except Exception:
                if not watches.by_node:
                    raise
                # Run the rules once more, with plain numbers: an error that is raised now is the user's own.
                watches.see_all()
                asked = state.now.asked
                with watches.open(is_watched=False):
                    gradients = emit(past, seeds, groups, tracks=False)
        if state.now.asked != asked and not why:
            why = "; ".join([evaluating_rules[ref(rule)] for rule in watches.asking])
            why = why or "a value was asked for: the rules run each time"
        watches.see_returned(gradients)
        if not why and watches.looked_at_array():
            why = "a rule looks at the contents of an array that it reads: it runs each time"
        relied = users_methods(choices)
        read, unnamed = reading(relied)
        why = why or unnamed
        keys = watches.keys() if watches.calls else {}
        key = _with_calls(key, keys, number) if keys else key
        answer = _gradient_answer(gradients, self.seeds, self.stored, number)
        plan = answer.plan()
        plan.relied, plan.read, plan.leaves = relied, read, self.places
        if not why and still_true(self.parts, self.order):
            if watches.by_node:
                plan.formulas = watches.formulas(plan.gather, number)
                plan.gather = watches.without_read_values(plan.gather)
            self.found = self.found and self.found.with_calls({number[n]: call for n, call in keys.items()})
            plan.choices = choices
            choices.on_change(partial(_drop, ref(plan), self.cache(plan, key, None if relied else answer, choices)))
        note("backward", why or key)
        return plan

    def run_uncached(self) -> list[np.ndarray | None]:
        """The gradients where no plan can be cached: nodes of rules and hooks are computed as any recording is."""
        misses, ask, mode = COUNTS.misses, self.ask, MODE.get()
        why = self.why_uncached()  # before the rules run: a hook may remove itself
        # A loss with hooks notes its reason only while a recording between the hooks is new (see `evaluate`).
        is_known = not (mode.eager or mode.anomalies) and ask is not None and all([s is None for s in ask.seeds])
        is_known = is_known and all([n.call is None or n.call.is_pure for n in self.past])
        with Paused():  # as in `solve`
            gradients, own = self.emitted()
        # The caller of a function owns the arrays it gets, and a hook may hold the tensor that it returned: copy all.
        if ask is not None and ask.purpose == NODES:
            own.clear()
        # The nodes whose values a later pass reads are evaluated as well.
        there = [n for n in gradients if n is not None]
        wanted = [*there, *[r for r, _ in self.seeds], *self.also]
        evaluate(wanted, ends_recording=False, tracks=self.tracks, why=why, live=self.live)
        if why is not None and COUNTS.misses == misses and not is_known:
            note("backward", why())
        return _values(gradients, own)

    def let_pass(self) -> list[np.ndarray | None]:
        """The gradients of a program that is not cached, because most programs are new."""
        assert self.found is not None
        gradients, own = self.emitted()
        self.is_run = True
        run_once([*[n for n in gradients if n is not None], *self.found.stored])
        note("backward", "one new program comes after another: each is kept when it comes again")
        return _values(gradients, own)

    def emitted(self) -> tuple[list[Node | None], set[Node]]:
        """The gradients as nodes, and the set of those that rules made new: no other node names their values."""
        since = new_number()
        gradients = [None if t is None else t.node for t in emit(self.past, self.seeds, self.groups, tracks=False)]
        there = [n for n in gradients if n is not None]
        return gradients, {n for n in there if n.number > since and n.value is None and source(n) is n}

    def answer_again(self, new: dict[Node, Node]) -> Answer:
        # The rules run on the nodes of `new`, which stand for those of the recording.
        seeds = [(new[r], new.get(s, s)) for r, s in self.seeds]  # the constant one stays
        groups = [Group(tuple([new.get(n, n) for n in g.nodes])) for g in self.ordered]
        number = {new.get(n, n): i for n, i in self.number.items()}
        gradients = emit([new[n] for n in self.past], seeds, groups, tracks=False)
        return _gradient_answer(gradients, seeds, [new[n] for n in self.stored], number)


def _values(gradients: Sequence[Node | None], own: set[Node]) -> list[np.ndarray | None]:
    """The values of gradients, none of which shares memory; ends the recording.   own: nodes not to be copied"""
    end_recording(state.now)
    values: list[np.ndarray | None] = []
    for node in gradients:
        value = None if node is None else data(node)
        values.append(value if value is None or node in own else value.copy())
        own.discard(node)
    return values


def _gradient_answer(
    gradients: Sequence[Tensor | None], seeds: Sequence[tuple[Node, Node]], stored: Sequence[Node],
    number: dict[Node, int],
) -> Answer:  # fmt: skip
    """The answer to a recording: its gradients, and the values of the nodes `stored`."""
    nodes = [None if g is None else g.node for g in gradients]
    # A seed may itself be a gradient (of y in x + y): each call makes a new seed node, so none stores a value.
    own = {number[s] for _, s in seeds} - {number[n] for n in stored}
    return answer_computing([*[n for n in nodes if n is not None], *stored], number, nodes, own)


def _with_calls(key: tuple, calls: dict[Node, Any], number: dict[Node, int]) -> tuple:
    """A key with new keys of its calls, once rules were seen to look at numbers that they read."""
    purpose, parts, *rest = key
    parts = list(parts)
    for node, call in calls.items():
        kind, pending, identity, _, *others = parts[number[node]]
        parts[number[node]] = (kind, pending, identity, call, *others)
    return (purpose, tuple(parts), *rest)


def _drop(plan: ref[Plan], forget_size: Callable[[], None]) -> None:
    """Drop a plan: a method was registered that changes what the rules behind it would record."""
    forget_size()
    if (found := plan()) is not None:
        forget(found)


def _reads_unnamed(call: Any) -> str:
    rule = call.rule()
    place = "" if rule is None else f" ({rule.place})"
    return f"the backward of {call.function.__name__}{place} reads what no key can name: it runs each time"


# ---------------------------------------------------------------- gradients part by part (`tape.parts`)


def in_parts(root: Node, groups: Sequence[Group], beside: Sequence[Node]) -> list[np.ndarray | None] | None:
    """The gradients of a scalar `root`, and the values of `beside`, part by part; None if no segments are found."""
    now, out = state.now, root.kind.out
    length = root.number - now.began
    if 0 <= length < SHORTEST or now.tracing or out.aval.size != 1 or out.aval.dtype.kind != "f":
        return None
    targets = frozenset([n for group in groups for n in group.nodes if n.leaf is None])
    if any([n.inputs for n in targets]):
        return None  # gradients end at a target: nodes before an inner target may need none
    bars = run_in_parts([root, *beside], [root], length, targets, _segment_rules)
    return None if bars is None else _sums(bars, groups)


def _sums(bars: dict[Node, np.ndarray], groups: Sequence[Group]) -> list[np.ndarray | None]:
    """The sum of the cotangents of each group, in memory of its own."""
    taken: set[int] = set()
    found: list[np.ndarray | None] = []
    for group in groups:
        terms = [bars[n] for n in group.nodes if n in bars]
        if not terms:
            found.append(None)
            continue
        with ignoring(all="ignore"):
            total = reduce(lambda a, b: np.asarray(np.add(a, b)), terms)
        found.append(copy_if_shared(total, taken))
    return found


def _segment_rules(segment: Segment, pattern: Sequence[int]) -> RuleRecord:
    """Run the rules of a segment.  Raises Unfit if one is the user's, since a user's rule may read anything."""
    given: list[Node | None] = []
    seeds = []
    targets = tuple(segment.tracked)
    with observed() as choices:
        for node, flag in zip([*segment.roots, *targets], pattern, strict=True):
            bar = data_node(leaf_kind(out_of(node.kind.out.aval)), HAS_VALUE) if flag else None
            given.append(bar)
            if bar is not None:
                seeds.append((node, bar, flag == 2))
        order = [n for n in segment.nodes if n.kind.out.requires_grad]
        walk = ReversePass(order, seeds, targets, False, looking(order, (), False))
        found = {n: (bar, 1 + is_masked) for n, bar, is_masked in walk.reached()}
    if users_methods(choices):
        raise Unfit
    return RuleRecord(given, found, choices)
