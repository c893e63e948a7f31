"""Checks: a repeated ask is answered by straight-line code made from its last plan.

The structural key of a recording costs about 0.2 µs a node.  A loop asks for the same shape again and
again, so from the third time on, code is generated that walks a recording from its roots, compares
each node with what the plan expects, and gathers the inputs on the way: 0.03 µs a node.  It accepts
only what has the plan's key (or a sharing of equal nodes that the plan computes just as well);
on a mismatch it returns None and the key decides.

    def check(root0, live):
        v9 = root0
        if v9.kind is not k9 or v9.value is not None: return None
        v7, v8 = v9.inputs
        if v7.kind is not k7 ...
        return order-free bindings: (values to run on), (nodes to store in), (leaves)

What a check relies on besides nodes: which small results are live (`live`), which heavy nodes are live
(reference counts), and the present `.grad` of leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from codegen.runtime.launcher import OutOfRange

from .node import Kind, Node, released
from .plan import COUNTS, Plan, located, settle
from .streak import note_repeated
from .walk import _followed

__all__ = ["Checks", "Known", "Recipe", "checks"]

#: Nodes beyond which a check is not generated: making it takes about 13 µs a node.
LIMIT = 3000
#: Checks kept per purpose and kind of root, last hit first.
PER_KEY = 4
#: Purposes and kinds of roots: as many as there are plans, since a check holds one and its machine code.
KEYS = 512


class Recipe:
    """What a check is made from: one recording that had the plan's key.

    order      its nodes in canonical order
    past       its history (empty for a value)
    roots      nodes given to the check, in order
    live       nodes of small live results, in order
    watched    pending nodes whose being live was decisive, and whether they were
    groups     for gradients: the leaves, by the nodes of each, and the node of its old gradient
    """

    __slots__ = ("groups", "live", "order", "past", "plan", "roots", "watched")

    def __init__(
        self,
        plan: Plan,
        order: Sequence[Node],
        past: AbstractSet[Node],
        roots: Sequence[Node],
        live: Sequence[Node],
        watched: dict[Node, bool],
        groups: Sequence[tuple[Sequence[Node], Node | None]] = (),
    ) -> None:
        self.plan = plan
        self.order = order
        self.past = past
        self.roots = roots
        self.live = live
        self.watched = watched
        self.groups = groups


class Known(NamedTuple):
    """A recording that a check accepted.

    plan, arguments   what to run, on what
    stored            nodes that the results belong to, in the order of `plan.store`
    leaves, olds      for each group its leaf, and the node of the old gradient that is added
    past, freed       history nodes that can be released, and the kinds that they then have
    """

    plan: Plan
    arguments: tuple
    stored: tuple[Node, ...]
    leaves: tuple
    olds: tuple
    past: tuple[Node, ...]
    freed: tuple[Kind, ...]

    def run(self) -> tuple:
        """Run the plan and keep the values that belong to nodes."""
        COUNTS.hits += 1
        COUNTS.runs += 1
        try:
            results = self.plan.executable.call(*self.arguments)
        except OutOfRange as error:
            raise located(error) from None
        for node, (_, position) in zip(self.stored, self.plan.store, strict=True):
            settle(node, results[position])
        return results

    def release(self) -> None:
        """Mark the history as given up; what it kept for gradients is freed."""
        for node, kind in zip(self.past, self.freed, strict=True):
            node.kind = kind
            if node.value is not None:
                node.inputs = ()


class Checks:
    """The checks, by purpose and kind of the first root."""

    def __init__(self) -> None:
        self._found: dict[tuple, list[tuple[Callable, Plan]]] = {}

    def find(self, key: tuple, roots: Sequence[Node], live: Sequence[Node]) -> Known | None:
        """What the check that accepts a recording gathered; None when none does."""
        tried = self._found.get(key)
        if tried is None:
            return None
        for i, (check, plan) in enumerate(tried):
            gathered = check(*roots, live) if plan.valid else None
            if gathered is not None:
                if i:
                    self._found[key] = [tried[i], *tried[:i], *tried[i + 1 :]]
                return Known(plan, *gathered)
        return None

    def add(self, key: tuple, recipe: Recipe) -> None:
        """Make the check of a recipe, if it is small enough to pay and only runs and stores."""
        plan = recipe.plan
        note_repeated()
        if len(recipe.order) > LIMIT or plan.copies or plan.executable is None:
            return
        if not all(place is None or computed for place, computed in zip(plan.grads, plan.computed, strict=True)):
            return
        if len(self._found) >= KEYS:
            self._found.clear()
        others = [(c, p) for c, p in self._found.get(key, ()) if p is not plan]
        self._found[key] = [(generate(recipe), plan), *others[: PER_KEY - 1]]

    def clear(self) -> None:
        """Forget them all."""
        self._found.clear()


#: Checks of values and of gradients.
checks = Checks()


class _Writer:
    """Writes a check: nodes are bound to variables as they are reached, and compared once."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.number = {n: i for i, n in enumerate(recipe.order)}
        self.lines: list[str] = []
        self.env: dict[str, Any] = {"__name__": __name__, "references": sys.getrefcount}
        self.bound: set[Node] = set()
        self.waiting: list[Node] = []
        self.leaves: dict[Any, str] = {}
        self.again: set[str] = set()

    def bind(self, node: Node, expression: str) -> None:
        """Bind a node to its variable, or require that it is the one already bound."""
        name = f"v{self.number[node]}"
        if node in self.bound:
            self.lines.append(f"if {expression} is not {name}: return None")
            return
        self.bound.add(node)
        self.waiting.append(node)
        if expression != name:
            self.lines.append(f"{name} = {expression}")

    def run(self) -> None:
        while self.waiting:
            self.compare(self.waiting.pop())

    def compare(self, node: Node) -> None:
        """Require of a node what the key says about it, and bind its inputs."""
        i = self.number[node]
        name = f"v{i}"
        past = self.recipe.past
        if node.value is not None and node not in past:
            self.env[f"o{i}"] = node.kind.out
            self.lines.append(f"if {name}.kind.out is not o{i} or {name}.value is None: return None")
            return
        held = node.leaf is not None and node.value is not None
        kind, attribute = (node.kind.out, "kind.out") if held else (node.kind, "kind")
        self.env[f"k{i}"] = kind
        state = "is not None" if node.value is None else "is None"
        self.lines.append(f"if {name}.{attribute} is not k{i} or {name}.value {state}: return None")
        if type(node) is not Node:
            self.compare_rich(node, i)
        followed = _followed(node, past)
        if followed:
            self.bind_inputs(node, followed)

    def compare_rich(self, node: Node, i: int) -> None:
        name = f"v{i}"
        self.env["Rich"] = type(node)
        self.lines.append(f"if type({name}) is not Rich or {name}.hooks or {name}.retained: return None")
        if node.leaf is None:
            self.lines.append(f"if {name}.leaf is not None: return None")
        elif node.leaf in self.leaves:
            self.lines.append(f"if {name}.leaf is not {self.leaves[node.leaf]}: return None")
        else:
            self.leaves[node.leaf] = f"l{i}"
            self.lines.append(f"l{i} = {name}.leaf")
            self.lines.append(f"if l{i} is None or l{i}.hooks: return None")
        if node.call is not None and node in self.recipe.past:
            self.env[f"c{i}"] = node.call.key()
            self.lines.append(f"if {name}.call is None or {name}.call.key() != c{i}: return None")
        elif node.call is None:
            self.lines.append(f"if {name}.call is not None: return None")

    def bind_inputs(self, node: Node, followed: Sequence[Node]) -> None:
        i = self.number[node]
        if len(followed) != len(node.inputs):  # a boundary whose value only is needed
            self.bind(followed[0], f"v{i}.inputs[{node.body}]")
            return
        names = []
        later = []
        for k, x in enumerate(followed):
            if x in self.bound or x in followed[:k]:
                names.append(f"t{k}")
                self.again.add(names[-1])
                later.append((x, f"t{k}"))
            else:
                names.append(f"v{self.number[x]}")
        if type(node) is not Node:
            self.lines.append(f"if len(v{i}.inputs) != {len(followed)}: return None")
        self.lines.append(f"{', '.join(names)}, = v{i}.inputs")
        for x, name in zip(followed, names, strict=True):
            if name[0] == "v":
                self.bind(x, name)
        for x, name in later:
            self.bind(x, name)


def generate(recipe: Recipe) -> Callable:
    """The check of a recipe: check(*roots, live) -> the fields of `Known` after its plan, or None."""
    w = _Writer(recipe)
    parameters = [f"r{k}" for k in range(len(recipe.roots))]
    for parameter, root in zip(parameters, recipe.roots, strict=True):
        if root in w.number:
            w.bind(root, parameter)
    apart = [p for p, r in zip(parameters, recipe.roots, strict=True) if r not in w.number]
    w.lines.append(f"if len(live) != {len(recipe.live)}: return None")
    for k, node in enumerate(recipe.live):
        w.bind(node, f"live[{k}]")
    w.run()
    for parameter in apart:  # it was not reached, so it must not be now
        w.lines.append(f"if {parameter} in {_tuple([f'v{w.number[n]}' for n in w.bound])}: return None")
    _compare_groups(w)
    _compare_liveness(w)
    w.lines.append(f"return {_gathered(w)}")
    source = f"def check({', '.join(parameters)}, live):\n " + "\n ".join(w.lines) + "\n"
    exec(source, w.env)  # straight-line code from our own templates; nothing of the user's is in it
    return w.env["check"]


def _compare_groups(w: _Writer) -> None:
    """Leaves are distinct as they were, and have an old gradient where they had one."""
    for nodes, old in w.recipe.groups:
        name = _leaf_name(w, nodes)
        if name == "None":
            continue
        if old is None:
            w.lines.append(f"if {name}.grad is not None: return None")
        else:
            w.lines.append(f"if {name}.grad is None: return None")
            w.bind(old, f"{name}.grad.node")
    w.run()
    names = list(w.leaves.values())
    if len(names) > 1:
        w.lines.append(f"if len({{{', '.join(names)}}}) != {len(names)}: return None")


def _compare_liveness(w: _Writer) -> None:
    """A heavy node is stored if something outside holds it: that must be as it was.

    Its references here are the links of pending nodes, the variable, and the argument of the count.
    """
    given = {*w.recipe.roots, *w.recipe.live}
    links: dict[Node, int] = dict.fromkeys(w.recipe.watched, 0)
    for node in w.recipe.order:
        for i in node.inputs if node.value is None else ():
            if i in links:
                links[i] += 1
    if w.again:  # what was reached again must not count as a reference from outside
        w.lines.append(f"{' = '.join(sorted(w.again))} = None")
    for node, was_live in w.recipe.watched.items():
        if node in w.bound and node not in given:
            relation = "<=" if was_live else ">"
            w.lines.append(f"if references(v{w.number[node]}) {relation} {links[node] + 2}: return None")


def _gathered(w: _Writer) -> str:
    """What an accepted recording gives: arguments, nodes to store in, leaves by group, history to release."""
    plan = w.recipe.plan
    arguments = []
    for k, g in enumerate(plan.gather):
        if type(g) is int:
            arguments.append(f"v{g}.value")
        else:
            w.env[f"g{k}"] = g.value
            arguments.append(f"g{k}")
    stored = [f"v{number}" for number, _ in plan.store]
    leaves = [_leaf_name(w, nodes) for nodes, _ in w.recipe.groups]
    olds = ["None" if old is None else f"v{w.number[old]}" for _, old in w.recipe.groups]
    history = [n for n in w.recipe.order if n in w.recipe.past and n.leaf is None]
    past = [f"v{w.number[n]}" for n in history]
    w.env["freed"] = tuple([released(n.kind) for n in history])
    return f"({_tuple(arguments)}, {_tuple(stored)}, {_tuple(leaves)}, {_tuple(olds)}, {_tuple(past)}, freed)"


def _leaf_name(w: _Writer, nodes: Sequence[Node]) -> str:
    """The variable of a group's leaf; "None" when no gradient reaches it."""
    return w.leaves.get(nodes[0].leaf, "None")


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"

