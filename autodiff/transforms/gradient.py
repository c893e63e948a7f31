"""Gradients as values: rules are run once per shape of recording, then a plan answers.

`solve` is the one road from a recording to numbers: roots, seeds and groups of targets in, arrays
out.

    history, closure  ->  exact key  ->  plan     (miss: rules emit nodes, the graph is frozen and looked up)
                                          |
                                       results   ->  values of nodes are kept; the caller commits gradients
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from codegen.garbage import Paused

from ..custom.keys import reading, unnamed, users_methods
from ..dispatch import Choices, observed
from ..mode import MODE
from ..ops import add
from ..tape import tier
from ..tape.ask import end_recording, evaluate, live_small
from ..tape.families import Described, described
from ..tape.known import BACKWARD, NODES, Ask, Known, forget, name_plan, plan_of
from ..tape.misses import note
from ..tape.node import Node, new_number
from ..tape.plan import COUNTS, Drawn, Misfit, Plan, build, count, data, draw, plans, source
from ..tape.record import state
from ..tape.sizes import Answer, Size, size_of
from ..tape.walk import history, still_true, uncommon
from ..tensor import Tensor, handle
from .backward_pass import Group, emit, recording_rules
from .gradient_asks import Exactly, Gradients, in_order, separate
from .parts import in_parts
from .rules import Watches, found_out

__all__ = ["solve"]


def solve(
    seeds: Sequence[tuple[Node, Tensor]],
    groups: Sequence[Group],
    *,
    retain: bool,
    also: Sequence[Node] = (),
    past: list[Node] | None = None,
    live: Sequence[Node] | None = None,
    ask: Ask | None = None,
    through: Sequence[int] | None = None,
) -> list[np.ndarray | None]:
    """The gradients of groups as arrays (None: not reached, symbolically zero).

    seeds     (result, cotangent): at least one
    retain    whether the history will be gone through again: what it reads is then stored
    also      nodes whose values are wanted in the same run
    past      the history of the results, if it is known
    live      nodes of small live results, if they were looked up before
    ask       what is asked, where machine code is to find it when it is repeated
    through   places in the history of what is given up then, if that is not all of it

    Values of the results, of `also`, and of small live tensors are kept in their nodes.
    """
    ends = [r for r, _ in seeds]
    if past is None:
        past = history(ends)
    if live is None:
        live = live_small(state.now, [*ends, *[s.node for _, s in seeds], *also])
    mode = MODE.get()
    runs_every_rule = mode.eager or (mode.anomalies and not state.now.tracing)
    has_hooks = any([n.hooks for n in uncommon(past)]) or any([g.hooks for g in groups])
    what = Gradients(seeds, groups, retain, also, past, live, ask, through)
    planned = sought = None
    if not (runs_every_rule or has_hooks):
        found = in_parts(ends[0], groups, [*also, *live]) if ask is not None and ask.seeds == (None,) else None
        if found is not None:
            end_recording(state.now)
            return found
        with Paused():  # nearly all that rules and passes make is still in use; the run is left out, which may be long
            planned, name, family = _planned(what)
            if planned is None and (sought := _sought(what, name, family)) is not None:
                planned = sought.plan or _make(sought), sought.exact.order, sought.exact.ranks
                sought.note_answered()
    if planned is None:
        return _computed(seeds, groups, retain, [*ends, *also, *live], past, ask, runs_every_rule)
    plan, order, ranks = planned
    try:
        results = plan.run(order)
    except Misfit:
        plan = _make(sought or _Sought(what, None), "a rule cannot compute with a number as it did before")
        results = plan.run(order)
    plan.commit(order, results)
    end_recording(state.now)
    return in_order(separate(plan, results, order), ranks)


def _computed(
    seeds: Sequence[tuple[Node, Tensor]], groups: Sequence[Group], retain: bool, wanted: Sequence[Node],
    past: list[Node], ask: Ask | None, runs_every_rule: bool,
) -> list[np.ndarray | None]:  # fmt: skip
    """The gradients where no plan of them can be kept: what hooks and rules record is computed as any recording is."""
    since, misses = new_number(), COUNTS.misses
    rare = uncommon(past)
    why = _why_unkept(rare, groups)  # before the rules run: a hook may remove itself
    # Of the hooks of a loss it is said once: all that is recorded between them is known then.
    is_known = not runs_every_rule and ask is not None and all([s is None for s in ask.seeds])
    is_known = is_known and all([n.call is None or n.call.is_pure for n in rare])
    del rare  # a list beside the history counts as somebody who may need the values of its nodes
    gradients = [None if t is None else t.node for t in emit(past, seeds, groups, tracks=False)]
    for group in groups:
        group.old = None
    # Arrays that a function returns are the caller's own; a hook may hold the tensor that it gave.
    shares = ask is None or ask.purpose != NODES
    own = {n for n in gradients if n is not None and n.number > since and n.value is None and source(n) is n and shares}
    # Values that another pass will read are stored.
    evaluate([*[n for n in gradients if n is not None], *wanted], ends_recording=False, tracks=retain, why=why)
    if why is not None and COUNTS.misses == misses and not is_known:
        note("backward", why())
    end_recording(state.now)
    values: list[np.ndarray | None] = []
    for node in gradients:
        value = None if node is None else data(node)
        values.append(value if value is None or node in own else value.copy())
        own.discard(node)
    return values


#: A plan, the recording in canonical order, and that of the groups.
_Planned = tuple[Plan, Sequence[Node], Sequence[int]]


def _planned(what: Gradients) -> tuple[_Planned | None, Known | None, Described | None]:
    """The plan by a hash, if there is one; what machine code says of the recording, and of it without numbers."""
    ask = what.ask
    found = family = None
    if ask is not None:
        found, family = described(ask, what.live, what.retain, lambda: Exactly.of(what).key)
    if ask is None or found is None or (ask.purpose == BACKWARD and not what.has_present_olds()):
        return None, None, None
    entry = found.entry
    plan = None if entry is None else _if_still_right(plan_of(entry))
    if plan is None:
        is_new = family is not None and tier.is_let_pass(family.key, COUNTS.hits)
        if is_new and _why_unkept(uncommon(what.past), what.groups) is None:
            return _let_pass(what, found), None, None
        # A node that is held counts as something that may be asked for.
        return None, found.without_nodes(), family and family.without_nodes()
    count(plan)
    order = found.order
    ranks, _ = what.ranks({n: i for i, n in enumerate(order)})
    return (plan, order, ranks), None, None


def _let_pass(what: Gradients, found: Known) -> _Planned:
    """A plan for `solve` that nobody keeps: the program is one of many that are new."""
    count(None)
    kept = [n for n, state in zip(found.order, found.states, strict=True) if state & 2]
    exact = Exactly(what, ([], {n: i for i, n in enumerate(found.order)}, found.order, kept))
    number, order, groups = exact.number, exact.order, exact.groups
    gradients = emit(what.past, what.seeds, groups, tracks=False)
    drawn, grads, computed = _answer(
        draw([*_with_old(gradients, groups), *kept], number), gradients, what.seeds, kept, number
    )
    executable = drawn.program if tier.is_evaluated(drawn.program) else tier.executable_of(drawn.program)
    plan = Plan(executable, drawn.gather, drawn.store, drawn.copies)
    plan.grads, plan.computed = grads, computed
    note("backward", "one new program comes after another: each is kept when it comes again")
    return plan, order, exact.ranks


class _Sought:
    """A recording whose plan is looked for by its exact key.

    found    what machine code says of the recording;   plan: the known one;   size: set where it is one of many
    """

    size: Size | None = None
    plan: Plan | None = None

    def __init__(self, what: Gradients, found: Known | None) -> None:
        self.what, self.found = what, found
        self.exact = (None if found is None else Exactly.natively(what)) or Exactly.of(what)

    def name(self, plan: Plan, key: tuple, found: Known | None) -> None:
        """Find a plan from now on."""
        what, exact = self.what, self.exact
        name_plan(plan, key, found, exact.order, what.ask, what.given_up(), exact.ranks)

    def note_answered(self) -> None:
        """Have machine code answer such an ask at other sizes, too."""
        what, exact = self.what, self.exact
        if what.ask is not None and self.size is not None:
            self.size.note_answered(what.ask, exact.order, what.given_up(), exact.places, exact.ranks)


def _sought(what: Gradients, found: Known | None, family: Described | None) -> _Sought | None:
    """The recording with its plan, if there is one; None where no plan can be kept.

    found, family    what machine code says of the recording, and of it without numbers
    """
    sought = _Sought(what, found)
    key, order = sought.exact.key, sought.exact.order
    plan = _known(key)
    if plan is None:
        if _why_unkept(uncommon(what.past), what.groups) is not None:
            return None
        sought.size = size_of(key, family, order)
        plan = None if sought.size is None else sought.size.plan()
    count(plan)
    if plan is not None:
        sought.plan, plan.leaves = plan, sought.exact.places
        sought.name(plan, key, found)
    return sought


def _known(key: tuple) -> Plan | None:
    """The plan for this key, if its rules would record the same now."""
    plan = plans.get(key)
    return None if plan is None else _if_still_right(plan)


def _if_still_right(plan: Plan) -> Plan | None:
    return None if plan.relied and reading(plan.relied) != plan.read else plan


def _make(sought: _Sought, why: str = "") -> Plan:
    """Run the rules, and make the plan of what they record.   why: it is made anew, or rules run each time"""
    what, exact, found, size = sought.what, sought.exact, sought.found, None if why else sought.size
    past, seeds, groups = what.past, what.seeds, exact.groups
    key, number, order, kept = exact.key, exact.number, exact.order, exact.kept
    asked = state.now.asked
    watches = Watches(past if not why else ())
    # Of rules that run each time nobody asks what was chosen, and who observes keeps them in Python.
    with nullcontext(Choices()) if why else observed() as choices:
        try:
            with watches.open():
                gradients = emit(past, seeds, groups, tracks=False)
        except Exception:
            if not watches.by_node:
                raise
            # The rules are run once more, with the numbers themselves: what is raised then is meant.
            watches.see_all()
            asked = state.now.asked
            with watches.open(is_watched=False):
                gradients = emit(past, seeds, groups, tracks=False)
    if state.now.asked != asked and not why:
        why = "; ".join([found_out[ref(rule)] for rule in watches.asking])
        why = why or "a value was asked for: the rules run each time"
    watches.see_returned(gradients)
    if not why and watches.looked_at_array():
        why = "a rule looks at the contents of an array that it reads: it runs each time"
    relied = users_methods(choices)
    read = reading(relied)
    why = why or unnamed(relied)
    keys = watches.keys() if watches.calls else {}
    key = _with_calls(key, keys, number) if keys else key
    known = not why
    for group in () if known else groups:
        group.old = None
    plan, drawn = build([*_with_old(gradients, groups), *kept], number)
    plan.relied, plan.read = relied, read
    answer = _answer(drawn, gradients, seeds, kept, number)
    plan.store, plan.grads, plan.computed, plan.leaves = answer.drawn.store, answer.grads, answer.computed, exact.places
    if known and still_true(key[1], order):
        if watches.by_node:
            plan.formulas = watches.formulas(plan.gather, number)
            plan.gather = watches.let_go(plan.gather)
        sought.name(plan, key, found and found.with_calls({number[n]: call for n, call in keys.items()}))
        plan.choices = choices
        known_plan = ref(plan)
        forget_size: Callable[[], None] | None = None
        choices.on_change(lambda: _drop(known_plan(), forget_size))
        if size is not None and not relied:
            forget_size = size.learn(order, answer, partial(_answer_again, past, seeds, groups, kept, number), choices)
    note("backward", why or key)
    return plan


def _with_old(gradients: list[Tensor | None], groups: Sequence[Group]) -> list[Node]:
    """Add each gradient to what its group says; the nodes of those that are there."""
    if any([group.old is not None for group in groups]):
        with recording_rules(False):
            for i, (group, g) in enumerate(zip(groups, gradients, strict=True)):
                if g is not None and group.old is not None:
                    gradients[i] = add(handle(group.old), g)
    return [g.node for g in gradients if g is not None]


def _answer(
    drawn: Drawn, gradients: Sequence[Tensor | None], seeds: Sequence[tuple[Node, Tensor]], kept: Sequence[Node],
    number: dict[Node, int],
) -> Answer:  # fmt: skip
    """The answer to a recording by what was drawn of its gradients, and of what is kept."""
    # A seed may itself be a gradient (of y in x + y): it is made anew each time, so nothing is kept in it.
    own = {number[s.node] for _, s in seeds} - {number[n] for n in kept}
    if any([n in own for n, _ in drawn.store]):
        drawn = drawn._replace(store=tuple([(n, position) for n, position in drawn.store if n not in own]))
    places = drawn.places
    return Answer(
        drawn,
        tuple([None if g is None else places.get(g.node, number.get(g.node, g.node)) for g in gradients]),
        tuple([g is not None and g.node in places for g in gradients]),
    )


def _answer_again(
    past: Sequence[Node],
    seeds: Sequence[tuple[Node, Tensor]],
    groups: Sequence[Group],
    kept: Sequence[Node],
    number: dict[Node, int],
    new: dict[Node, Node],
) -> Answer:
    """The answer to a recording in which others stand for its nodes: the rules run on these."""
    seeds = [(new[r], handle(new.get(s.node, s.node))) for r, s in seeds]  # one stays what it is
    groups = [Group(tuple([new.get(n, n) for n in g.nodes]), None, g.old and new[g.old]) for g in groups]
    kept = [new[n] for n in kept]
    number = {new.get(n, n): i for n, i in number.items()}
    gradients = emit([new[n] for n in past], seeds, groups, tracks=False)
    drawn = draw([*_with_old(gradients, groups), *kept], number)
    return _answer(drawn, gradients, seeds, kept, number)


def _with_calls(key: tuple, calls: dict[Node, Any], number: dict[Node, int]) -> tuple:
    """A key with other keys of its calls: rules were seen to look at numbers that they read."""
    purpose, parts, *rest = key
    parts = list(parts)
    for node, call in calls.items():
        kind, pending, identity, _, *others = parts[number[node]]
        parts[number[node]] = (kind, pending, identity, call, *others)
    return (purpose, tuple(parts), *rest)


def _drop(plan: Plan | None, forget_size: Callable[[], None] | None) -> None:
    """A method was registered that changes what the rules behind this plan would record."""
    if forget_size is not None:
        forget_size()
    if plan is not None:
        plan.valid = False
        forget(plan)  # not another that was made under its key since


def _why_unkept(rare: Sequence[Node], groups: Sequence[Group]) -> Callable[[], str] | None:
    """The reason why no plan of a backward can be kept; None where one can.

    The rules are gone through each time then; of a user's rule `rules.again` may put down what it recorded.

    rare    the `uncommon` nodes of its history
    """
    for node in rare:
        if node.hooks:
            return partial("a hook on a {} runs each time".format, node.kind.out.aval)
        if node.call is not None and not node.call.is_pure:
            return partial(_reads_unnamed, node.call)
    if any(g.hooks for g in groups):
        return lambda: "a hook on a leaf runs each time"
    if MODE.get().eager:
        return lambda: "in eager mode everything runs each time"
    return (lambda: "anomalies are looked for") if MODE.get().anomalies and not state.now.tracing else None


def _reads_unnamed(call: Any) -> str:
    rule = call.rule()
    place = "" if rule is None else f" ({rule.place})"
    return f"the backward of {call.function.__name__}{place} reads what no key can name: it runs each time"
