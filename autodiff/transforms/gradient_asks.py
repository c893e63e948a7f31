"""Asks for gradients: the exact key, which says which programs of rules are the same, and the answer to a known ask.

    again(ask, ...)    gradients of a recording that is known: asked for before in the same way, by its plan
    Gradients          what `solve` is asked for: seeds, groups, and the nodes that they name; its key
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tape.ask import Question, stored_along
from ..tape.families import answered
from ..tape.known import BACKWARD, EXACT_KEYS, NODES, SOME, TENSORS, Ask, Reading
from ..tape.node import Leaf, Node, data_node
from ..tape.plan import Plan, data
from ..tape.record import state
from ..tape.walk import Said, history, needed, structure
from ..tensor import Tensor, handle
from .anomaly import is_watching
from .backward_pass import Group

__all__ = ["Gradients", "again", "ask_for", "in_order", "separate"]


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


class Gradients(Question):
    """The arguments of `solve`, the nodes that they name, and the exact key.

    given, implicit    cotangents that are nodes of the recording's, and those of one
    asked              the results, the cotangents that are given, and what is computed along
    ordered            the groups in canonical order
    """

    past: list[Node]

    def __init__(
        self, seeds: Sequence[tuple[Node, Tensor]], groups: Sequence[Group], retain: bool, also: Sequence[Node],
        past: list[Node], live: Sequence[Node], ask: Ask | None, through: Sequence[int] | None,
    ) -> None:  # fmt: skip
        super().__init__(ask, live, retain)
        self.seeds, self.groups, self.past, self.through = seeds, groups, past, through
        self.given: list[Node] = []
        self.implicit: set[Node] = set()
        for k, (_, seed) in enumerate(seeds):
            if ask is not None and ask.seeds[k] is None:
                self.implicit.add(seed.node)
            else:
                self.given.append(seed.node)
        self.olds = [g.old for g in groups if g.old is not None]
        self.asked = [*[r for r, _ in seeds], *self.given, *also]

    def read_natively(self) -> Reading | None:
        found = super().read_natively()
        # Machine code reads the old gradients that are there now.
        is_same = self.ask is None or self.ask.purpose != BACKWARD or all([_is_present(g) for g in self.groups])
        return found if is_same else None

    @property
    def given_up(self) -> Sequence[Node] | None:
        # Made when it is asked for: what is held beside the history counts as something that may be asked for.
        if self.through is None:
            return None if self.ask is not None and self.ask.purpose == BACKWARD else ()
        return [self.past[k] for k in self.through]

    def recognise(self, order: list[Node]) -> None:
        self.order = order
        self._rank({n: i for i, n in enumerate(order)})

    def _rank(self, number: dict[Node, int]) -> None:
        """Put the groups in canonical order, those that are not reached last."""
        places = [min([number[n] for n in g.nodes if n in number], default=-1) for g in self.groups]
        self.ranks = sorted(range(len(places)), key=lambda i: (places[i] < 0, places[i]))
        self.places = tuple([places[i] for i in self.ranks])
        self.ordered = [self.groups[i] for i in self.ranks]

    def said(self) -> Said:
        inside = frozenset(self.past)
        roots = list(dict.fromkeys([*self.asked, *self.live, *self.olds]))
        order = needed(roots, inside)
        along = stored_along(order, roots, self.tracks, inside)
        read = {*self.given, *self.olds}
        kept = [n for n in roots if n.value is None and n not in read] + along
        return *structure(order, [*self.asked, *self.live], inside, frozenset(self.olds)), kept

    def take(self, said: Said) -> None:
        super().take(said)
        number = self.number
        self._rank(number)
        for old in [g.old for g in self.ordered]:
            if old is not None and old not in number:
                number[old] = len(number)
                self.parts.append(old.kind.out)
                self.order.append(old)
        for node in self.implicit:
            number[node] = len(number)

    def key(self) -> tuple:
        number = self.number
        seeds = tuple([(number[r], -1 if s.node in self.implicit else number[s.node]) for r, s in self.seeds])
        stored = tuple(sorted([number[n] for n in self.kept]))
        return "gradient", tuple(self.parts), seeds, stored, tuple([_group_key(g, number) for g in self.ordered])


def _is_present(group: Group) -> bool:
    """True if the old gradient of a group is that of now."""
    leaf = group.nodes[0].leaf
    present = None if leaf is None else leaf.grad
    return (None if present is None else present.node) is group.old


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
    return Gradients(seeds, groups, tracks, ask.also, past, live, ask, None).describe()


EXACT_KEYS[False] = _exact_key


def _group_key(group: Group, number: dict[Node, int]) -> tuple:
    old = -1 if group.old is None else number[group.old]
    return (old, bool(group.hooks), *sorted([number.get(n, -1) for n in group.nodes]))
