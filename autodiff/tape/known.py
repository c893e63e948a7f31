"""Asks about known recordings: their plans are found by key, and machine code runs these plans if it can.

The purpose of an ask:

    VALUE       values of pending nodes
    BACKWARD    gradients of results, added to the `.grad` of all leaves that the results depend on
    TENSORS     gradients of results with respect to tensors, all of which have to be reached;  SOME: they need not be
    NODES       gradients for a function's caller, as arrays (`ad.grad(f)`)

Machine code computes a hash of the description by `walk.structure` (`codegen.runtime.recording_hash`).  `plans` holds
plans under these hashes and under exact keys.  If a plan only has to be run, the entry is a `NativeAnswer`, with which
machine code does everything (`codegen.runtime.recording_run`).  Without machine code there are only exact keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from codegen.records import NamedTuple

from ..session import plans
from . import machine
from .node import Kind, Leaf, Node, leaf_kind, out_of, released
from .plan import Misfit, Plan, drops_inputs
from .record import Recording
from .walk import Description, part_of

#: The purposes of asks, by the numbers of `codegen.runtime.recording_structs`.
VALUE, BACKWARD, TENSORS, NODES, SOME = 1, 2, 3, 4, 5


class Ask(NamedTuple):
    """A question about a recording: its purpose, and the nodes of which values or gradients are asked for.

    seeds     for gradients: the cotangent of each result, None for a cotangent of 1
    also      further nodes whose values the same run has to compute
    targets   of `TENSORS`, `SOME` and `NODES`: the nodes that gradients are taken with respect to
    """

    purpose: int
    results: tuple[Node, ...]
    seeds: tuple[Node | None, ...] = ()
    also: tuple[Node, ...] = ()
    targets: tuple[Node, ...] = ()


class Reading(NamedTuple):
    """The description of a recording by machine code, with numbers and without.

    key       the hash; if there are custom calls, (hash, keys of the calls)
    order     the nodes in canonical order;  calls: the places of custom calls in it
    parts, wires    the contents of an exact key (`codegen.runtime.recording_families`)
    states    for each node the sum of two bits: it is pending (1), its value is to be stored (2)
    family    the hash without numbers, None if no plan can serve any size;  numbers: the numbers that it leaves out
    """

    key: Any
    order: list[Node]
    calls: list[int]
    parts: list[Any]
    states: bytes
    wires: bytes
    family: bytes | None
    numbers: tuple[int, ...]

    @property
    def plan(self) -> Plan | None:
        """The cached plan of the key; None if there is no valid one."""
        entry = plans.get(self.key)
        plan = None if entry is None else plan_of(entry)
        return plan if plan is not None and plan.valid else None

    @property
    def stored(self) -> list[Node]:
        """The nodes whose values are to be stored."""
        return list(compress(self.order, [state & 2 for state in self.states]))

    def description(self, past: Sequence[Node]) -> Description:
        """The description of the recording by `walk.describe`.   past: the history that gradients go through"""
        order, states, words = self.order, self.states, memoryview(self.wires).cast("i")
        number = {n: i for i, n in enumerate(order)}
        inside = frozenset(past)
        leaves: dict[Leaf, int] = {}
        parts: list[Any] = []
        for i, part in enumerate(self.parts):
            if part is None:
                parts.append(part_of(order[i], number, inside, leaves))
            elif type(part) is Kind:
                parts.append((part, states[i] & 1 == 1, *words[words[i] : words[i + 1]]))
            else:
                parts.append(part)
        return parts, number, order, self.stored

    def with_calls(self, keys: dict[int, Any]) -> Reading:
        """A copy with other keys for some custom calls.   keys: by the places of the calls"""
        if not keys:
            return self
        key, own = self.key
        return self._replace(key=(key, tuple([keys.get(c, k) for c, k in zip(self.calls, own, strict=True)])))


def described(ask: Ask, now: Recording | None, live: Sequence[Node], tracks: bool, held: int) -> Any:
    """Machine code's description of a recording; None without machine code, or if no key can describe it (hooks).

    now     the recording whose small results are computed too, or None;  live: nodes that are computed too
    held    the number of the caller's lists that refer to the nodes of the history
    """
    native = machine.asks
    if native is None:
        return None
    purpose, results, seeds, also, targets = ask
    return native.describe_ask(purpose, now, results, seeds, (*also, *live), targets, tracks, held)


def read(ask: Ask, live: Sequence[Node], tracks: bool) -> Reading | None:
    """The Reading of a recording; None as for `described`.  For gradients, one list of the caller has the history."""
    found = described(ask, None, live, tracks, int(ask.purpose != VALUE))
    if found is None:
        return None
    key, order, nodes, *rest = found
    calls: list[int] = []
    if nodes:
        place = {n: i for i, n in enumerate(order)}
        key, calls = (key, keys_of(nodes)), [place[n] for n in nodes]
        if key[1] is None:
            return None
    return Reading(key, order, calls, *rest)


def plan_of(entry: Any) -> Plan:
    """The plan of an entry of `plans`."""
    plan: Plan = entry if type(entry) is Plan else entry.plan
    return plan


def keys_of(nodes: Sequence[Node]) -> tuple | None:
    """The keys of custom calls; None if a key cannot name everything that its rule reads (a changed object, say)."""
    rules_by_site: dict[int, tuple] = {}
    keys = tuple([n.call.key(rules_by_site) for n in nodes])
    return keys if all([n.call.is_pure for n in nodes]) else None


def computed(answer: Any, nodes: Sequence[Node]) -> tuple | None:
    """The inputs of an answer that are computed from the numbers of calls; None if they cannot be computed."""
    formulas = answer.plan.formulas
    if formulas is None:
        return ()
    try:
        values: tuple = formulas.values(*[nodes[k].call.numbers for k in answer.calls])
    except Misfit:
        return None
    return values


# ---------------------------------------------------------------- names of plans


def forget(plan: Plan) -> None:
    """Mark a plan as invalid and remove it from the cache; a newer plan under one of its keys stays."""
    plan.valid = False
    for key in plan.keys:
        entry = plans.get(key)
        if entry is not None and plan_of(entry) is plan:
            plans.pop(key)


def is_run_natively(plan: Plan, ask: Ask) -> bool:
    """True if running the plan by machine code is all that the ask needs."""
    if machine.asks is None or plan.copies or plan.executable is None or plan.relied:
        return False
    reached = [place for place in plan.grads if place is not None]
    if ask.purpose == BACKWARD and not 0 < len(set(reached)) == len(reached):
        return False  # no gradient is reached, or two of them are one result
    return all([place is None or is_result for place, is_result in zip(plan.grads, plan.computed, strict=True)])


def note_kinds(order: Sequence[Node], leaves: Sequence[int], released_nodes: Sequence[Node]) -> None:
    """Make the kinds that machine code gives to nodes: those of leaves' gradients, and those of released nodes.

    leaves    the places of the leaves in the order
    """
    for place in leaves:
        out = order[place].kind.out
        out.gradient = out.gradient or leaf_kind(out_of(out.aval))
    for node in released_nodes:
        if node.kind.out.requires_grad and node.leaf is None:
            released(node.kind)


def native_answer(
    plan: Plan, ask: Ask, order: Sequence[Node], calls: Sequence[int], released_nodes: Sequence[Node] | None,
    ranks: Sequence[int],
) -> Any:  # fmt: skip
    """The `NativeAnswer` to an ask whose plan only has to be run.

    order, calls    the nodes of the recording in canonical order, and the places of its custom calls
    released_nodes  the nodes whose history the ask releases; None: all nodes
    ranks      for gradients of tensors: their order in the plan
    """
    formulas = plan.formulas
    places = {} if formulas is None else {place: k for k, place in enumerate(formulas.places)}
    arguments = [
        (-2, places[k]) if k in places else (g, None) if type(g) is int else (-1, g.value)
        for k, g in enumerate(plan.gather)
    ]
    stored = [(number, position, drops_inputs(order[number])) for number, position in plan.store]
    groups = [
        (place, -1 if position is None else position)
        for place, position in zip(plan.leaves, plan.grads, strict=True)
    ] if ask.purpose == BACKWARD else []
    note_kinds(order, [place for place, _ in groups], order if released_nodes is None else released_nodes)
    numbers = {n: i for i, n in enumerate(order)} if released_nodes is not None else {}
    past = None if released_nodes is None else [numbers[n] for n in released_nodes]
    answer = machine.asks.answer(plan, arguments, stored, groups, past, None not in plan.grads)
    answer.ranks = ranks
    answer.calls = [] if formulas is None else [calls.index(c) for c in formulas.calls]
    return answer
