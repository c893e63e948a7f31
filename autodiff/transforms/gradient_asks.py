"""Asks for gradients: the exact key, which says which programs of rules are the same, and the answer to a known ask.

    again(ask, ...)    gradients of a recording that is known: asked for before in the same way, by its plan
    Gradients          what `solve` is asked for: seeds, groups, and the nodes that they name
    Exactly.of         its key
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tape.ask import live_small, stored_along
from ..tape.families import answered
from ..tape.known import BACKWARD, EXACT_KEYS, NODES, SOME, TENSORS, Ask
from ..tape.node import Leaf, Node, data_node
from ..tape.plan import Plan, data
from ..tape.record import Recording, state
from ..tape.walk import Said, history, needed, said, structure
from ..tensor import Tensor, handle
from .backward_pass import Group
from .modes import is_watching

__all__ = ["Exactly", "Gradients", "again", "ask_for", "in_order", "live_beside", "separate"]


def ask_for(
    ys: Sequence[Tensor], targets: Sequence[Tensor], seeds: Sequence[Tensor | None], allow_unused: bool
) -> Ask:
    """The ask for gradients of tensors.   seeds: the cotangent that is given for each result (None: one is meant)"""
    purpose = SOME if allow_unused else TENSORS
    starts = tuple([None if s is None else s.node for s in seeds])
    return Ask(purpose, tuple([y.node for y in ys]), starts, (), tuple([x.node for x in targets]))


def again(ask: Ask, retain: bool, is_released: bool = False) -> list[np.ndarray | None] | None:
    """The gradients of a recording that is known, by its plan; None: there is none, or it has to be refused.

    retain        whether the history will be gone through again: what it reads is then stored
    is_released   it is given up
    """
    now = state.now
    if now.tracing or is_watching():
        return None
    found = answered(ask, now, now.small, retain, is_released)
    if found is None:
        return None
    results, answer = found
    return in_order(separate(answer.plan, results), answer.ranks)


def in_order(gradients: Sequence[np.ndarray | None], ranks: Sequence[int]) -> list[np.ndarray | None]:
    """Gradients in the order of their groups.   ranks: which group each is of, as a plan has them"""
    found: list[np.ndarray | None] = [None] * len(ranks)
    for rank, gradient in zip(ranks, gradients, strict=True):
        found[rank] = gradient
    return found


def separate(plan: Plan, results: tuple, order: Sequence[Node] = ()) -> list[np.ndarray | None]:
    """The gradients of a plan that was run, each in memory of its own: nothing a user holds changes with another.

    order   the recording, for gradients that are values of its nodes
    """
    taken: set[int] = set()
    gradients: list[np.ndarray | None] = []
    for place, computed in zip(plan.grads, plan.computed, strict=True):
        if place is None:
            gradients.append(None)
        elif computed:
            gradients.append(results[place] if place not in taken else results[place].copy())
            taken.add(place)
        else:
            gradients.append(data(order[place] if type(place) is int else place).copy())
    return gradients


def live_beside(now: Recording, roots: Sequence[Node]) -> list[Node]:
    """Small live results that are to be computed along with `roots` (none in a trace)."""
    if now.tracing or not now.small:
        return []
    live = live_small(now)
    for root in roots if live else ():
        if root in live:
            live.remove(root)
    return live


class Gradients:
    """The arguments of `solve`, and the nodes that they name.

    given, implicit    cotangents that are nodes of the recording's, and those of one
    asked              the results, the cotangents that are given, and what is computed along
    """

    def __init__(
        self, seeds: Sequence[tuple[Node, Tensor]], groups: Sequence[Group], retain: bool, also: Sequence[Node],
        past: list[Node], live: Sequence[Node], ask: Ask | None, through: Sequence[int] | None,
    ) -> None:  # fmt: skip
        self.seeds, self.groups, self.retain, self.ask, self.through = seeds, groups, retain, ask, through
        self.past, self.live = past, live
        self.given: list[Node] = []
        self.implicit: set[Node] = set()
        for k, (_, seed) in enumerate(seeds):
            if ask is not None and ask.seeds[k] is None:
                self.implicit.add(seed.node)
            else:
                self.given.append(seed.node)
        self.olds = [g.old for g in groups if g.old is not None]
        self.asked = [*[r for r, _ in seeds], *self.given, *also]

    def ranks(self, number: dict[Node, int]) -> tuple[list[int], tuple[int, ...]]:
        """The groups in canonical order, those that are not reached last; the place of the first node of each."""
        places = [min([number[n] for n in g.nodes if n in number], default=-1) for g in self.groups]
        ranks = sorted(range(len(places)), key=lambda i: (places[i] < 0, places[i]))
        return ranks, tuple([places[i] for i in ranks])

    def has_present_olds(self) -> bool:
        """True if the old gradients that were read are those of now, which machine code has read since."""
        leaves = [(g.nodes[0].leaf, g.old) for g in self.groups]
        grads = [(None if leaf is None else leaf.grad, old) for leaf, old in leaves]
        return all([(None if grad is None else grad.node) is old for grad, old in grads])

    def given_up(self) -> list[Node] | None:
        """The part of the history that is given up with the ask, if it is; None: all of it."""
        if self.through is None:
            return None if self.ask is not None and self.ask.purpose == BACKWARD else []
        return [self.past[k] for k in self.through]


class Exactly:
    """The exact key of gradients, and what it was made of; without parts there is no key.

    number, order            the numbers of nodes, and the nodes in canonical order, as `structure` says them
    kept                     nodes that are to be stored
    ranks, places, groups    the groups in canonical order: which they are, the place of the first node of each
    """

    def __init__(self, what: Gradients, told: Said) -> None:
        """Of a recording that was described."""
        parts, self.number, self.order, self.kept = told
        has_key = parts != []
        number = self.number
        self.ranks, self.places = what.ranks(number)
        self.groups = [what.groups[i] for i in self.ranks]
        for old in [g.old for g in self.groups]:
            if old is not None and old not in number:
                number[old] = len(number)
                parts.append(old.kind.out)
                self.order.append(old)
        seeds = tuple([(number[r], -1 if s.node in what.implicit else number[s.node]) for r, s in what.seeds])
        for node in what.implicit:
            number[node] = len(number)
        self.key: tuple = ()
        if has_key:
            stored = tuple(sorted([number[n] for n in self.kept]))
            groups = tuple([_group_key(g, number) for g in self.groups])
            self.key = ("gradient", tuple(parts), seeds, stored, groups)

    @classmethod
    def of(cls, what: Gradients) -> Exactly:
        """Of what is asked."""
        inside = frozenset(what.past)
        roots = list(dict.fromkeys([*what.asked, *what.live, *what.olds]))
        order = needed(roots, inside)
        along = stored_along(order, roots, what.retain, inside)
        read = {*what.given, *what.olds}
        kept = [n for n in roots if n.value is None and n not in read] + along
        described = structure(order, [*what.asked, *what.live], inside, frozenset(what.olds))
        return cls(what, (*described, kept))

    @classmethod
    def natively(cls, what: Gradients) -> Exactly | None:
        """The key by machine code; None where Python has to say it."""
        ask = what.ask
        if ask is None:
            return None
        also = (*ask.also, *what.live)
        found = said(ask.purpose, ask.results, ask.seeds, also, ask.targets, what.retain, what.past)
        return None if found is None else cls(what, found)


def _exact_key(ask: Ask, live: Sequence[Node], tracks: bool) -> tuple:
    """The exact key of an ask for gradients."""
    past = history(ask.results)
    if ask.purpose == BACKWARD:
        leaves: dict[Leaf, list[Node]] = {}
        for node in past:
            if node.leaf is not None:
                leaves.setdefault(node.leaf, []).append(node)
        groups = [Group(tuple(n), None, None if leaf.grad is None else leaf.grad.node) for leaf, n in leaves.items()]
    else:
        are_one = ask.purpose != NODES
        groups = [
            Group(tuple([n for n in past if n is x or (are_one and x.leaf is not None and n.leaf is x.leaf)]) or (x,))
            for x in ask.targets
        ]
    one = handle(data_node(ask.results[0].kind, None))
    seeds = [(r, one if s is None else handle(s)) for r, s in zip(ask.results, ask.seeds, strict=True)]
    return Exactly.of(Gradients(seeds, groups, tracks, ask.also, past, live, ask, None)).key


EXACT_KEYS[False] = _exact_key


def _group_key(group: Group, number: dict[Node, int]) -> tuple:
    old = -1 if group.old is None else number[group.old]
    return (old, bool(group.hooks), *sorted([number.get(n, -1) for n in group.nodes]))
