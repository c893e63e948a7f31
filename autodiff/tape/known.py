"""Asks of recordings that are known: found by their keys, and answered by their plans.

An ask names what is wanted of a recording:

    VALUE       values of pending nodes
    BACKWARD    gradients of results, added to the `.grad` of all leaves that they were made from
    TENSORS     gradients of results with respect to tensors, which all have to be reached;  SOME: which need not
    NODES       gradients for a function's caller, as arrays (`ad.grad(f)`)

Machine code walks over the recording and gives its key, a hash of what `walk.structure` says, with its nodes in
canonical order (`codegen.runtime.recording_hash`).  `plans` has plans by these hashes, as by exact keys; where a plan
only has to be run, machine code does all of it (`codegen.runtime.recording_run`): a `NativeAnswer` stands in its place.
Without machine code the exact key is the only one: the same road, slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from codegen.records import NamedTuple

from . import machine
from .loans import give_back
from .node import Node, leaf_kind, out_of, released
from .plan import Misfit, Plan, drops_inputs, plans
from .record import Recording

__all__ = [
    "BACKWARD", "EXACT_KEYS", "IS_COMPARED", "NODES", "SOME", "TENSORS", "VALUE", "Ask", "Known", "answer_of",
    "answered", "compare", "forget", "keys_of", "live_of", "name_plan", "plan_of", "told",
]  # fmt: skip

#: The purposes of asks, as `codegen.runtime.recording_structs` says it.
VALUE, BACKWARD, TENSORS, NODES, SOME = 1, 2, 3, 4, 5

IS_COMPARED = os.environ.get("AUTODIFF_NATIVE_CHECKS") == "1"
#: Under AUTODIFF_NATIVE_CHECKS=1: the exact key that each hash had, and what says it: of values, and of gradients.
_exact: dict[Any, Any] = {}
EXACT_KEYS: dict[bool, Callable[[Ask, Sequence[Node], bool], Any]] = {}


class Ask(NamedTuple):
    """A question about a recording.

    purpose   one of the words of this module
    results   nodes whose values are asked for, or gradients
    seeds     of gradients: for each result its cotangent, None for one
    also      nodes whose values are wanted in the same run
    targets   of `TENSORS`, `SOME` and `NODES`: the nodes that gradients are taken with respect to
    """

    purpose: int
    results: tuple[Node, ...]
    seeds: tuple[Node | None, ...] = ()
    also: tuple[Node, ...] = ()
    targets: tuple[Node, ...] = ()

    @property
    def name(self) -> str:
        """The purpose as `ad.explain` says it."""
        return "value" if self.purpose == VALUE else "backward"


class Known(NamedTuple):
    """A recording as machine code describes it.

    order     its nodes in canonical order;  calls: which of them are calls
    states    of each node if it is pending (1) and to be stored (2)
    """

    key: Any
    order: list[Any]
    calls: list[int]
    states: bytes

    def without_nodes(self) -> Known:
        """A copy with the addresses of the nodes: what is held counts as something that may be asked for."""
        return self._replace(order=[id(n) for n in self.order])

    def describes(self, exact: tuple, order: Sequence[Node]) -> bool:
        """True if an exact key was made of the same recording, in which another thread changed nothing meanwhile."""
        parts = exact[1]
        stored = set(exact[2] if exact[0] == "value" else exact[3])
        states = bytes([
            (type(p) is tuple and p[1]) | (i in stored) << 1 for i, p in enumerate(parts)
        ])
        return self.states == states and self.order == [id(n) for n in order]

    def with_calls(self, keys: dict[int, Any]) -> Known:
        """A copy with other keys of some calls, by their places."""
        if not keys:
            return self
        key, own = self.key
        return self._replace(key=(key, tuple([keys.get(c, k) for c, k in zip(self.calls, own, strict=True)])))

    @property
    def entry(self) -> Any:
        """The plan or answer of this key, if there is one that is valid."""
        found = plans.get(self.key)
        return found if found is not None and type(found) is not tuple and plan_of(found).valid else None


def plan_of(entry: Any) -> Plan:
    """The plan of an entry of `plans`: of one size of many (a tuple) that of all."""
    answer = entry[0] if type(entry) is tuple else entry
    plan: Plan = answer if type(answer) is Plan else answer.plan
    return plan


def keys_of(nodes: Sequence[Node]) -> tuple:
    met: dict[int, tuple] = {}
    return tuple([n.call.key(met) for n in nodes])


def answered(ask: Ask, now: Recording | None, small: list | None, tracks: bool, is_released: bool = False) -> Any:
    """Answer an ask, if it is known how; None: it is not, or not any more.

    now     the recording that ends with it, if one does;  small: weak references to handles of small results
    is_released    the history of the results is given up

    Gives True; a list of leaves whose post-accumulate hooks are due, each with its node, which nothing else may hold
    any more; of gradients of tensors [the plan's results, the answer].
    """
    native = machine.asks
    if native is None:
        return None
    purpose, results, seeds, also, targets = ask
    if IS_COMPARED:
        _look_closer(ask, small, tracks)
    found = native.ask(purpose, now, small, results, seeds, also, targets, tracks, is_released, None)
    if type(found) is list and type(found[0]) is bytes:
        found = _with_calls(ask, now, small, tracks, is_released, found)
    if found is not None and now is not None and now.lent:
        give_back(now.lent)
    return found


def live_of(ask: Ask, small: list | None) -> list[Node]:
    """Pending nodes of small results that somebody holds, beside those that are asked for."""
    live = [t.node for r in small or () if (t := r()) is not None and t.node.value is None]
    return [n for n in dict.fromkeys(live) if n not in ask.results]


def _look_closer(ask: Ask, small: list | None, tracks: bool) -> None:
    """Compare the hash of a recording with its exact key."""
    live = live_of(ask, small)
    compare(ask, live, tracks, 0, lambda: EXACT_KEYS[ask.purpose == VALUE](ask, live, tracks))


def compare(ask: Ask, live: Sequence[Node], tracks: bool, held: int, exact: Callable[[], tuple]) -> None:
    """Look that the hash of a recording stands for one exact key."""
    said = exact()
    asked = ask.purpose, None, ask.results, ask.seeds, (*ask.also, *live), ask.targets
    found = machine.asks.described(*asked, tracks, held)
    if found is None:
        return
    key = (found[0], keys_of(found[2]))
    del found  # what is held counts as something that may be asked for
    if said != exact():
        return  # a key of a call says more since it was first asked for
    if len(_exact) > 4096:
        _exact.clear()
    before = _exact.setdefault(key, said)
    assert before == said, "the hash of a recording stands for two exact keys"


def _with_calls(
    ask: Ask, now: Recording | None, small: list | None, tracks: bool, is_released: bool, found: list
) -> Any:
    """Answer an ask where keys of calls belong to the key: the calls are asked for them here."""
    key, nodes = found
    entry = plans.get((key, keys_of(nodes)))
    if entry is None or type(entry) is Plan or not entry.plan.valid:
        return None
    computed = told(entry, nodes)
    if computed is None:
        return None
    plans.put(key, entry)
    del nodes, found
    purpose, results, seeds, also, targets = ask
    given = entry, key, computed
    return machine.asks.ask(purpose, now, small, results, seeds, also, targets, tracks, is_released, given)


def told(answer: Any, nodes: Sequence[Node]) -> tuple | None:
    """The inputs of an answer that are computed from the numbers of calls; None where it is not for these calls."""
    if keys_of(nodes) != answer.told:
        return None
    formulas = answer.plan.formulas
    if formulas is None:
        return ()
    try:
        values: tuple = formulas.values(*[nodes[k].call.numbers for k in answer.calls])
    except Misfit:
        return None
    return values


# ---------------------------------------------------------------- names of plans


def name_plan(
    plan: Plan, exact: tuple, found: Known | None, order: Sequence[Node], ask: Ask | None = None,
    given_up: Sequence[Node] | None = (), ranks: Sequence[int] = (),
) -> None:  # fmt: skip
    """Find a plan by its exact key from now on, and by what machine code says of the recording.

    Where the plan only has to be run, machine code answers such an ask: see `answer_of`.

    found    without its nodes;   order: the nodes that the exact key was made of
    """
    plan.parts = exact
    keys = [exact] if found is None or not found.describes(exact, order) else [exact, found.key]
    for key in keys:
        if plans.get(key) is not plan:
            plans.put(key, plan)
    plan.keys = tuple(dict.fromkeys([*plan.keys[-2:], *keys]))
    if found is None or ask is None or len(keys) < 2:
        return
    answer = answer_of(plan, ask, order, found.calls, given_up, ranks)
    if answer is None:
        return
    plans.put(found.key, answer)
    if found.calls:
        key, answer.told = found.key
        plans.put(key, answer)


def forget(plan: Plan) -> None:
    """Find a plan no more."""
    for key in plan.keys:
        entry = plans.get(key)
        if entry is not None and plan_of(entry) is plan:
            plans.pop(key)


def answer_of(
    plan: Plan, ask: Ask, order: Sequence[Node], calls: Sequence[int], given_up: Sequence[Node] | None,
    ranks: Sequence[int],
) -> Any:  # fmt: skip
    """Machine code's answer to an ask, where a plan only has to be run; else None.

    order, calls    the recording in canonical order, and which of its nodes are calls
    given_up   what of the history is given up with the ask, if it is; None: all of it
    ranks      of gradients of tensors: in which order the plan has them
    """
    reached = [place for place in plan.grads if place is not None]
    is_only_run = not (plan.copies or plan.executable is None or plan.relied)
    are_computed = all([p is None or c for p, c in zip(plan.grads, plan.computed, strict=True)])
    native = machine.asks
    if native is None or not is_only_run or not are_computed:
        return None
    if ask.purpose == BACKWARD and not 0 < len(set(reached)) == len(reached):
        return None  # a gradient is no result of its own
    formulas = plan.formulas
    places = {} if formulas is None else {place: k for k, place in enumerate(formulas.places)}
    arguments = [
        (-2, places[k]) if k in places else (g, None) if type(g) is int else (-1, g.value)
        for k, g in enumerate(plan.gather)
    ]
    stored = [(number, position, drops_inputs(order[number])) for number, position in plan.store]
    groups = []
    for place, position in zip(plan.leaves, plan.grads, strict=True) if ask.purpose == BACKWARD else ():
        kind = leaf_kind(out_of(order[place].kind.out.aval))
        groups.append((place, -1 if position is None else position, kind, kind.out.cls))
    for node in order if given_up is None else given_up:
        if node.kind.out.requires_grad and node.leaf is None:
            released(node.kind)  # machine code finds it there
    numbers = {n: i for i, n in enumerate(order)} if given_up is not None else {}
    past = None if given_up is None else [numbers[n] for n in given_up]
    answer = native.answer(plan, arguments, stored, groups, past, len(reached) == len(plan.grads))
    answer.ranks = ranks
    answer.calls = [] if formulas is None else [calls.index(c) for c in formulas.calls]
    return answer
