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

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from codegen.runtime.launcher import OutOfRange

from .expected import Expected, native_check, native_finish, python_check
from .node import Kind, Node, leaf_kind, out_of
from .plan import COUNTS, Plan, located, settle
from .streak import note_repeated

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

    plan       what to run
    gathered   arguments    to run it on
               stored       nodes that the results belong to, in the order of `plan.store`
               leaves, olds for each group its leaf, and the node of the old gradient that is added
               past, freed  history nodes that can be released, and the kinds that they then have
    finish     finish(results, gathered, is_released): all that follows a run, natively; None: in Python
    """

    plan: Plan
    gathered: tuple[tuple, tuple[Node, ...], tuple, tuple, tuple[Node, ...], tuple[Kind, ...]]
    finish: Callable[[tuple, tuple, bool], bool] | None

    @property
    def leaves(self) -> tuple:
        return self.gathered[2]

    @property
    def olds(self) -> tuple:
        return self.gathered[3]

    def results(self) -> tuple:
        """Run the plan."""
        COUNTS.hits += 1
        COUNTS.runs += 1
        try:
            return self.plan.executable.call(*self.gathered[0])
        except OutOfRange as error:
            raise located(error) from None

    def run(self) -> tuple:
        """Run the plan and keep the values that belong to nodes."""
        results = self.results()
        for node, (_, position) in zip(self.gathered[1], self.plan.store, strict=True):
            settle(node, results[position])
        return results

    def release(self) -> None:
        """Mark the history as given up; what it kept for gradients is freed."""
        for node, kind in zip(*self.gathered[4:], strict=True):
            node.kind = kind
            if node.value is not None:
                node.inputs = ()


#: A check, the plan of what it accepts, and what commits its gradients in machine code.
_Check = tuple[Callable, Plan, Callable | None]


class Checks:
    """The checks, by purpose and kind of the first root.

    Episodes of many lengths end in the same operation, and differ where they began.  So a backward's check is
    also found by how many nodes were made since the backward before it, which is as good as the length where a
    program repeats; elsewhere it is a bad guess, which costs a look.
    """

    def __init__(self) -> None:
        self._found: dict[tuple, list[_Check]] = {}
        self._by_length: dict[tuple[tuple, int], _Check] = {}
        self._of_plan: dict[Plan, _Check] = {}
        self._last: dict[tuple, tuple[int, int]] = {}  # number of the last root of a key, and the length then

    def find(self, key: tuple, roots: Sequence[Node], live: Sequence[Node]) -> Known | None:
        """What the check that accepts a recording gathered; None when none does."""
        tried = self._found.get(key)
        if key[0] == "backward":
            number = int(roots[0].number)
            length = number - self._last.get(key, (0, 0))[0]
            if len(self._last) >= KEYS:
                self._last.clear()
            self._last[key] = number, length
            if tried is not None and len(tried) > 1 and (likely := self._by_length.get((key, length))) is not None:
                check, plan, finish = likely
                gathered = check(*roots, live) if plan.valid else None
                if gathered is not None:
                    return Known(plan, gathered, finish)
        if tried is None:
            return None
        for i, (check, plan, finish) in enumerate(tried):
            gathered = check(*roots, live) if plan.valid else None
            if gathered is not None:
                if i:
                    self._found[key] = [tried[i], *tried[:i], *tried[i + 1 :]]
                return Known(plan, gathered, finish)
        return None

    def add(self, key: tuple, recipe: Recipe) -> None:
        """Make the check of a recipe, if it is small enough to pay and only runs and stores."""
        plan = recipe.plan
        note_repeated()
        if len(recipe.order) > LIMIT or plan.copies or plan.executable is None:
            return
        if not all(place is None or computed for place, computed in zip(plan.grads, plan.computed, strict=True)):
            return
        if max(len(self._found), len(self._of_plan)) >= KEYS:
            self.clear()
        others = [known for known in self._found.get(key, ()) if known[1] is not plan]
        expected = Expected(recipe)
        check = native_check(expected) or python_check(expected)
        kinds = [leaf_kind(out_of(nodes[0].kind.out.aval)) for nodes, _ in recipe.groups]
        finish = native_finish(expected, kinds) if recipe.groups else None
        self._found[key] = [(check, plan, finish), *others[: PER_KEY - 1]]
        if key in self._last:
            self._of_plan[plan] = check, plan, finish
            self.note_length(key, plan)

    def note_length(self, key: tuple, plan: Plan) -> None:
        """The plan was found for a recording that no check accepted in `find`: next time its own is tried."""
        if key in self._last and plan in self._of_plan:
            if len(self._by_length) >= 4 * KEYS:
                self._by_length.clear()
            self._by_length[key, self._last[key][1]] = self._of_plan[plan]

    def clear(self) -> None:
        """Forget them all."""
        self._found.clear()
        self._by_length.clear()
        self._of_plan.clear()
        self._last.clear()


#: Checks of values and of gradients.
checks = Checks()
