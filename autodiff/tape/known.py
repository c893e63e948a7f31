"""Asks of recordings that are known: found by their keys, and answered by their plans.

An ask names what is wanted of a recording:

    VALUE       values of pending nodes
    BACKWARD    gradients of results, added to the `.grad` of all leaves that they were made from
    TENSORS     gradients of results with respect to tensors, which all have to be reached;  SOME: which need not
    NODES       gradients for a function's caller, as arrays (`ad.grad(f)`)

Machine code gives a hash of what `walk.structure` says (`codegen.runtime.recording_hash`).  `plans` has plans by these
hashes, as by exact keys.  Where a plan only has to be run, machine code does all of it, and a `NativeAnswer` stands in
its place (`codegen.runtime.recording_run`).  Without machine code the exact key is the only one.
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
from .walk import Said, part_of

#: The purposes of asks, as `codegen.runtime.recording_structs` says it.
VALUE, BACKWARD, TENSORS, NODES, SOME = 1, 2, 3, 4, 5


class Ask(NamedTuple):
    """A question about a recording: its purpose, and the nodes whose values are asked for, or gradients.

    seeds     of gradients: for each result its cotangent, None for one
    also      nodes whose values are wanted in the same run
    targets   of `TENSORS`, `SOME` and `NODES`: the nodes that gradients are taken with respect to
    """

    purpose: int
    results: tuple[Node, ...]
    seeds: tuple[Node | None, ...] = ()
    also: tuple[Node, ...] = ()
    targets: tuple[Node, ...] = ()


class Reading(NamedTuple):
    """A recording as machine code reads it, with its numbers and without.

    key       its hash, with the keys of its calls if there are any
    order     its nodes in canonical order;  calls: which of them are calls
    parts, wires    what an exact key says of them (`codegen.runtime.recording_families`)
    states    of each node if it is pending (1) and to be stored (2)
    family    the hash without numbers, None where no plan is for any size;  numbers: these
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
        """The plan of this key, if there is one that is valid."""
        entry = plans.get(self.key)
        plan = None if entry is None else plan_of(entry)
        return plan if plan is not None and plan.valid else None

    @property
    def kept(self) -> list[Node]:
        """The nodes that are to be stored."""
        return list(compress(self.order, [state & 2 for state in self.states]))

    def said(self, past: Sequence[Node]) -> Said:
        """The recording as `walk.structure` says it.   past: the history that gradients go through"""
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
        return parts, number, order, self.kept

    def with_calls(self, keys: dict[int, Any]) -> Reading:
        """A copy with other keys of some calls, by their places."""
        if not keys:
            return self
        key, own = self.key
        return self._replace(key=(key, tuple([keys.get(c, k) for c, k in zip(self.calls, own, strict=True)])))


def described(ask: Ask, small: list | None, live: Sequence[Node], tracks: bool, held: int) -> Any:
    """The answer of machine code about a recording; None without it, and where no key says all (hooks).

    small, live   small live results, which are asked for as well: handles, or nodes
    held          how many lists of the caller hold the history
    """
    native = machine.asks
    if native is None:
        return None
    purpose, results, seeds, also, targets = ask
    return native.described(purpose, small, results, seeds, (*also, *live), targets, tracks, held)


def read(ask: Ask, live: Sequence[Node], tracks: bool) -> Reading | None:
    """A recording as machine code reads it; None as above.  Of gradients one list holds the history."""
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
    """The keys of calls; None where one of them does not say everything: of an object that has changed, say."""
    rules_by_site: dict[int, tuple] = {}
    keys = tuple([n.call.key(rules_by_site) for n in nodes])
    return keys if all([n.call.is_pure for n in nodes]) else None


def computed(answer: Any, nodes: Sequence[Node]) -> tuple | None:
    """The inputs of an answer that are computed from the numbers of calls; None where these are other ones."""
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
    """Find a plan no more, which is not valid any more; not another that was made under its key since."""
    plan.valid = False
    for key in plan.keys:
        entry = plans.get(key)
        if entry is not None and plan_of(entry) is plan:
            plans.pop(key)


def is_only_run(plan: Plan, ask: Ask) -> bool:
    """True if machine code can do all that answers an ask."""
    if machine.asks is None or plan.copies or plan.executable is None or plan.relied:
        return False
    reached = [place for place in plan.grads if place is not None]
    if ask.purpose == BACKWARD and not 0 < len(set(reached)) == len(reached):
        return False  # a gradient is no result of its own
    return all([place is None or is_result for place, is_result in zip(plan.grads, plan.computed, strict=True)])


def note_kinds(order: Sequence[Node], leaves: Sequence[int], given_up: Sequence[Node]) -> None:
    """Make the kinds that an answer gives: of gradients of leaves, and of what is given up.  Machine code finds them.

    leaves    their places in the order
    """
    for place in leaves:
        out = order[place].kind.out
        out.gradient = out.gradient or leaf_kind(out_of(out.aval))
    for node in given_up:
        if node.kind.out.requires_grad and node.leaf is None:
            released(node.kind)


def answer_of(
    plan: Plan, ask: Ask, order: Sequence[Node], calls: Sequence[int], given_up: Sequence[Node] | None,
    ranks: Sequence[int],
) -> Any:  # fmt: skip
    """Machine code's answer to an ask, where its plan only has to be run.

    order, calls    the recording in canonical order, and which of its nodes are calls
    given_up   what of the history is given up with the ask, if it is; None: all of it
    ranks      of gradients of tensors: in which order the plan has them
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
    note_kinds(order, [place for place, _ in groups], order if given_up is None else given_up)
    numbers = {n: i for i, n in enumerate(order)} if given_up is not None else {}
    past = None if given_up is None else [numbers[n] for n in given_up]
    answer = machine.asks.answer(plan, arguments, stored, groups, past, None not in plan.grads)
    answer.ranks = ranks
    answer.calls = [] if formulas is None else [calls.index(c) for c in formulas.calls]
    return answer
