"""Gradients of a known recording with hooks: what rules record between two hooks is put down without the rules.

Hooks run each time, and nobody knows what they will return.  But what rules record up to a hook is decided by what they
go through, and what they record behind it takes the hook's result as it is.  So a recording with hooks that repeats is
found by one key (`behind.Hooked`), and put down in sections:

    nodes that are read  ->  section: nodes as recorded before (`emitted`)  ->  hook  ->  section  ->  ...

All of it is pending, the hooks' own work too, and is computed as one graph; a hook that asks for a value has computed
what leads up to it.

Sections are made when a recording is met for the second time: the rules run once with a node of its own in the place of
each hook's result.  Gradients that are retained (`retain_grad`) are among the gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from codegen.garbage import set_in_context
from codegen.records import NamedTuple

from ..config import config
from ..custom.keys import users_methods
from ..dispatch import Choices, observed
from ..mode import MODE
from ..tape.ask import evaluate
from ..tape.behind import NOTHING, FoundBehind, Hooked, Recorded, emissions, look, remember
from ..tape.machine import native_put
from ..tape.node import Leaf, Node, new_number
from ..tape.plan import data, source
from ..tape.record import identity_of, state
from ..tensor import Tensor, handle
from .anomaly import is_watching
from .backward_pass import Group, recording_rules
from .emitted import LIMIT, NEVER, Rich, is_repeatable, made_between, put_again, rich_of
from .hooks import run_hooks

__all__ = ["computed", "hooked_gradients", "learn_hooked"]

class _HookedSection(NamedTuple):
    """A section of a recording, up to a hook, or to the end.

    reads    which of the nodes so far it reads
    steps    nodes that are put down behind these, some of them `rich`;  results: which of them all are wanted later
    hook     (place of the cotangent, place of the node whose hooks, or whose leaf's, get it); None at the end
    """

    reads: tuple[int, ...]
    steps: Sequence[tuple]
    rich: dict[int, Rich]
    results: Sequence[int]
    hook: tuple[int, int] | None

    def put(self) -> Callable[[tuple], tuple]:
        """A function that puts it down, natively if that is possible by now."""
        native = None if self.rich else native_put(len(self.reads), self.steps, self.results)
        return native or partial(put_again, steps=self.steps, rich=self.rich, results=self.results)


class _Sections(Recorded):
    """All of a recording's gradients.

    exact     the key, which keeps the kinds that it names
    puts      what puts each section down
    owners    places of the nodes whose gradients these are;  results: their places, None for one that is not reached
    """

    __slots__ = ("choices", "exact", "owners", "puts", "results", "sections")

    def __init__(
        self, exact: Any, reads: Sequence[int], sections: list[_HookedSection], owners: list[int],
        results: list[int | None], choices: Choices,
    ) -> None:  # fmt: skip
        self.exact, self.reads = exact, reads
        self.sections, self.owners, self.results, self.choices = sections, owners, results, choices
        self.puts = [section.put() for section in sections]

    def on(self, given: Sequence[Node]) -> list[tuple[Leaf, Node | None]]:
        """Put them down behind the nodes that are read, and call the hooks."""
        nodes = list(given)
        with recording_rules(False):
            for section, put in zip(self.sections, self.puts, strict=True):
                if section.steps:
                    nodes += put(tuple([nodes[i] for i in section.reads]))
                if section.hook is not None:
                    bar, owner = [nodes[i] for i in section.hook]
                    hooks = owner.hooks if owner.leaf is None else owner.leaf.hooks
                    nodes.append(run_hooks(hooks, handle(bar)).node if hooks else bar)
        return [
            (_identity(nodes[owner]), None if place is None else nodes[place])
            for owner, place in zip(self.owners, self.results, strict=True)
        ]


def _identity(owner: Node) -> Leaf:
    found = owner.leaf or owner.retained
    assert found is not None
    return found


def _look(root: Node) -> FoundBehind | None:
    return look(Hooked, ("hooked",), (root,), 1, 0, False)


def hooked_gradients(root: Node) -> list[tuple[Leaf, Node | None]] | None:
    """The leaves of a known recording with hooks, and their gradients, pending; None where it is not known."""
    found = _look(root)
    if found is None or not isinstance(found.entry, _Sections):
        return None
    return found.entry.on(found.nodes)


def computed(
    gradients: Sequence[Node | None], root: Node, live: Sequence[Node], retain: bool
) -> list[np.ndarray | None]:
    """The values of pending gradients, each in memory of its own; `root` and what is live are computed along.

    retain   whether the history will be gone through again: what it reads is then stored
    """
    own = {n for n in gradients if n is not None and n.value is None and source(n) is n}
    mode = MODE.get()
    try:
        set_in_context(MODE, mode.on if retain else mode.off)
        evaluate([n for n in gradients if n is not None] + [root, *live], ends_recording=False)
    finally:
        set_in_context(MODE, mode)
    values: list[np.ndarray | None] = []
    for node in gradients:
        value = None if node is None else data(node)
        values.append(value if value is None or node in own else value.copy())
        own.discard(node)
    return values


def learn_hooked(
    root: Node, groups: Sequence[Group], emit: Callable[[Callable], Sequence[Tensor | None]]
) -> list[tuple[Leaf, Node | None]] | None:
    """Learn one that is met again, by rules that run once more; None where it is met for the first time.

    emit(hooked)   runs the rules: the gradients of groups, with hooked(hooks, cotangent) in the place of hooks
    """
    now = state.now
    if config.eager or is_watching() or MODE.get().closely or now.literal:
        return None
    found = _look(root)
    if found is None:
        return None
    key, entry, nodes = found
    if isinstance(entry, _Sections):
        return entry.on(nodes)
    if entry is NOTHING:
        remember(key, None)
    if entry is not None:
        return None
    behind = Hooked.of((root,), 1, 0, False)
    made = _made(behind, groups, emit) if isinstance(behind, Hooked) else None
    remember(key, made or NEVER)
    if made is None or not isinstance(behind, Hooked):
        return None
    made.choices.on_change(lambda: emissions.pop(key))
    return made.on([behind.order[place] for place in made.reads])


class _Stops:
    """In the place of hooks while rules are run for what they record: each gives a node of its own.

    found    (cotangent, the node in place of the hooks' result, the node that has the hooks), in order
    """

    def __init__(self, behind: Hooked, groups: Sequence[Group]) -> None:
        self._owners = {id(n.hooks): n for n in behind.hooked if n.hooks}
        self._owners |= {id(g.hooks): g.nodes[0] for g in groups if g.hooks}
        self.found: list[tuple[Node, Node, Node]] = []

    def __call__(self, hooks: dict[Any, Callable], bar: Tensor) -> Tensor:
        made = identity_of(bar.node, requires_grad=bar.node.kind.out.requires_grad)
        self.found.append((bar.node, made, self._owners[id(hooks)]))
        return handle(made)


def _made(
    behind: Hooked, groups: Sequence[Group], emit: Callable[[Callable], Sequence[Tensor | None]]
) -> _Sections | None:
    """The sections that rules record between hooks; None where one holds what cannot be put down again."""
    now = state.now
    asked, start = now.asked, new_number()
    stops = _Stops(behind, groups)
    with observed() as choices:
        found = [None if t is None else t.node for t in emit(stops)]
    if now.asked != asked or users_methods(choices):
        return None
    given = dict.fromkeys([n for n, _, _ in stops.found] + [n for n in found if n is not None])
    results_of_hooks = {made: k for k, (_, made, _) in enumerate(stops.found)}
    known = behind.number | results_of_hooks
    made = made_between([n for n in given if n not in known], known)
    if len(made) + len(known) > LIMIT or not all([is_repeatable(n, start, {}) for n in made]):
        return None
    owners = [group.nodes[0] for group in groups]
    read = [i for node in made for i in node.inputs] + list(given) + owners + [owner for _, _, owner in stops.found]
    reads = [n for n in dict.fromkeys(read) if n in behind.number]
    place = {n: k for k, n in enumerate(reads)}
    sections: list[_HookedSection] = []
    rest = list(made)
    for k, (bar, result, owner) in enumerate([*stops.found, (None, None, None)]):
        own = rest if result is None else [n for n in rest if n.number < result.number]
        rest = rest[len(own) :]
        later = {i for n in rest for i in n.inputs} | {n for n, _, _ in stops.found[k:]} | set(found)
        sections.append(_section(own, [n for n in own if n in later], place, None if bar is None else (bar, owner)))
        if result is not None:
            place[result] = len(place)
    return _Sections(
        behind.key, [behind.number[n] for n in reads], sections, [place[n] for n in owners],
        [None if n is None else place[n] for n in found], choices,
    )  # fmt: skip


def _section(own: list[Node], wanted: list[Node], place: dict[Node, int], hook: tuple | None) -> _HookedSection:
    """Nodes that are put down together, those of them that are wanted later, and what hooks get.   place: grows"""
    inside = set(own)
    reads = list(dict.fromkeys([i for n in own for i in n.inputs if i not in inside]))
    local = {n: k for k, n in enumerate([*reads, *own])}
    steps = [(n.kind, n.value, tuple([local[i] for i in n.inputs])) for n in own]
    rich: dict[int, Rich] = {k: rich_of(n, {}, local) for k, n in enumerate(own) if type(n) is not Node}
    section = _HookedSection(
        tuple([place[n] for n in reads]), steps, rich, [local[n] for n in wanted], None
    )  # fmt: skip
    for n in wanted:
        place[n] = len(place)
    return section if hook is None else section._replace(hook=(place[hook[0]], place[hook[1]]))
