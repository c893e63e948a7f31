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
from typing import Any

from codegen.ir import OutOfRange

from .expected import Expected, python_check
from .natively import native_answer, native_check, native_finish
from .node import Kind, Node, leaf_kind, out_of
from .plan import COUNTS, Plan, located_at, settle
from .streak import BEGUN, go_on, note_repeated
from .walk import still_true

__all__ = ["Check", "Checks", "Gathered", "Recipe", "checks", "let_go", "looks_of"]

#: Nodes beyond which a check is not generated.  Making it takes about 13 µs a node, and each call without it 7:
#: 20 steps of RK4 for three equations are 3,400 nodes, which take 25 ms a call without and 0.6 with.
LIMIT = 12_000
#: Checks kept per purpose and kind of root, last hit first; and by how much was recorded, and how that begins.
PER_KEY = 8
LENGTHS = 256
#: Nodes next to the root and to what is live that tell recordings of as many operations apart: batches of many sizes,
#: say, or losses to which the step before has added one term or another.
LOOKS = 12
#: Purposes and kinds of roots: as many as there are plans, since a check holds one and its machine code.
KEYS = 512


class Recipe:
    """What a check is made from: one recording that had the plan's key.

    order      its nodes in canonical order
    parts      what its key says of them
    past       its history (empty for a value)
    roots      nodes given to the check, in order
    live       nodes of small live results, in order
    watched    pending nodes whose being live was decisive, and whether they were
    groups     where gradients are added to `.grad`: the leaves, by the nodes of each, and the node of its old gradient
    given_up   what of the history may be released
    """

    __slots__ = ("given_up", "groups", "live", "order", "parts", "past", "plan", "roots", "watched")

    def __init__(
        self,
        plan: Plan,
        order: Sequence[Node],
        parts: Sequence,
        past: AbstractSet[Node],
        roots: Sequence[Node],
        live: Sequence[Node],
        watched: dict[Node, bool],
        groups: Sequence[tuple[Sequence[Node], Node | None]] = (),
        given_up: AbstractSet[Node] | None = None,
    ) -> None:
        self.plan = plan
        self.order = order
        self.parts = parts
        self.past = past
        self.roots = roots
        self.live = live
        self.watched = watched
        self.groups = groups
        self.given_up = past if given_up is None else given_up


class Check:
    """A check, what it answers with, and what follows a run.

    accepts    what a recording that is as expected holds (`gathered`), else None
    plan       what to run
    finish     finish(results, gathered, is_released): all that follows a run, natively; None: in Python
    answer     all of it natively, of an ask for a value (`Checks.answers`); None: in Python
    """

    __slots__ = ("accepts", "answer", "finish", "plan")

    def __init__(
        self,
        accepts: Callable,
        plan: Plan,
        finish: Callable[[tuple, tuple, bool], bool] | None,
        answer: Any = None,
    ) -> None:
        self.accepts = accepts
        self.plan = plan
        self.finish = finish
        self.answer = answer

    def results(self, gathered: Gathered) -> tuple:
        """Run the plan."""
        COUNTS.hits += 1
        return self.run_on(gathered[0], gathered[1])

    def run_on(self, arguments: tuple, nodes: Sequence[Node] = ()) -> tuple:
        """Run the plan on these, for nodes that have no values yet."""
        COUNTS.runs += 1
        try:
            results: tuple = self.plan.executable.call(*arguments)
            return results
        except OutOfRange as error:
            raise located_at(error, nodes) from None

    def run(self, gathered: Gathered, is_released: bool = False) -> tuple:
        """Run the plan and keep the values that belong to nodes; the history may be given up."""
        results = self.results(gathered)
        if self.finish is not None and not gathered[2]:
            self.finish(results, gathered, is_released)
            return results
        for node, (_, position) in zip(gathered[1], self.plan.store, strict=True):
            settle(node, results[position])
        if is_released:
            let_go(gathered)
        return results


#: What a check found in a recording that it accepted.
#:    arguments     to run its plan on
#:    stored        nodes that the results belong to, in the order of `plan.store`
#:    leaves, olds  for each group its leaf, and the node of the old gradient that is added
#:    past, freed   history nodes that can be released, and the kinds that they then have
Gathered = tuple[tuple, tuple[Node, ...], tuple, tuple, tuple[Node, ...], tuple[Kind, ...]]


def let_go(gathered: Gathered) -> None:
    """Mark the history as given up; what it kept for gradients is freed."""
    for node, kind in zip(*gathered[4:6], strict=True):
        node.kind = kind
        if node.value is not None:
            node.inputs = ()


class _Tried:
    """The checks of one purpose and kind of root.

    latest      the last that accepted or were made, last one first
    by_length   by how much was recorded: episodes end in the same operation, and differ where they began
    by_looks    by the nodes next to the root (`looks_of`): batches of many sizes are equally long
    of_plan     by the plan that they answer with
    """

    __slots__ = ("by_length", "by_looks", "latest", "of_plan")

    def __init__(self) -> None:
        self.latest: list[Check] = []
        self.by_length: dict[float, Check] = {}
        self.by_looks: dict[tuple, Check] = {}
        self.of_plan: dict[Plan, Check] = {}

    def put(self, check: Check, length: float, looks: tuple) -> None:
        """Try this one first from now on."""
        self.latest = [check, *[c for c in self.latest if c.plan is not check.plan][: PER_KEY - 1]]
        for table in (self.by_length, self.by_looks):
            if len(table) >= LENGTHS:
                table.clear()
        if len(self.of_plan) >= LENGTHS and check.plan not in self.of_plan:
            self.forget()
        self.by_length[length] = self.by_looks[looks] = self.of_plan[check.plan] = check

    def forget(self) -> None:
        """Forget the checks of all plans: one that is found again gets another."""
        for plan in self.of_plan:
            plan.checked_for = ()
        for table in (self.of_plan, self.by_length, self.by_looks):
            table.clear()
        self.latest = []


def looks_of(root: Node, live: Sequence[Node]) -> tuple:
    """What the nodes next to a root and to live ones are: of pending ones the kind, of others what a check compares."""
    near = [root, *live]
    most = LOOKS + len(live)
    looks: list[Any] = []
    for node in near:
        if node.value is not None:
            looks.append(node.kind.out)
            continue
        looks.append(node.kind)
        if len(near) < most:
            near += node.inputs
    return tuple(looks)


class Checks:
    """The checks, by purpose and kind of the first root.

    answers   those of asks for one value that need no Python: by kind, where nothing is tracked, where it is
    """

    def __init__(self) -> None:
        self._found: dict[tuple, _Tried] = {}
        self.answers: tuple[dict[Kind, tuple], dict[Kind, tuple]] = ({}, {})

    def find(
        self, key: tuple, roots: Sequence[Node], live: Sequence[Node], start: float
    ) -> tuple[Check, Gathered] | None:
        """The check that accepts a recording, and what it gathered; None when none does.

        start   the number that the recording began with; of a gradient, after the gradient before it
        """
        if BEGUN:
            go_on()
        tried = self._found.get(key)
        if tried is None:
            return None
        length = roots[0].number - start
        likely = tried.by_length.get(length)
        if likely is not None and likely.plan.valid:
            gathered = likely.accepts(*roots, live)
            if gathered is not None:
                if likely not in tried.latest:
                    self._put(key, tried, likely, length, looks_of(roots[0], live))
                return likely, gathered
        looks = looks_of(roots[0], live)
        alike = tried.by_looks.get(looks)
        if alike is None:  # of whatever a check accepts it knows the looks, once that was found by its key
            return None
        # Something beside it may have been recorded, too: a value that was looked at, say.
        others = [tried.by_length.get(length - k) for k in (1, 2)]
        for check in dict.fromkeys((alike, *tried.latest, *others)):
            if check is None or check is likely or not check.plan.valid:
                continue
            gathered = check.accepts(*roots, live)
            if gathered is not None:
                self._put(key, tried, check, length, looks)
                return check, gathered
        return None

    def add(self, key: tuple, recipe: Recipe, start: float) -> None:
        """Make the check of a recipe, if it is small enough to pay and only runs and stores.

        None is made of a recording that another thread has evaluated in part while it was looked at.
        """
        plan = recipe.plan
        note_repeated()
        if len(recipe.order) > LIMIT or plan.copies or plan.executable is None:
            return
        if not all(place is None or computed for place, computed in zip(plan.grads, plan.computed, strict=True)):
            return
        expected = Expected(recipe)
        if not (expected.is_complete() and still_true(recipe.parts, recipe.order)):
            return
        native = native_check(expected)
        kinds = [leaf_kind(out_of(nodes[0].kind.out.aval)) for nodes, _ in recipe.groups]
        finish = native_finish(expected, kinds)
        answer = None
        if key[:2] == ("value", 1) and native and finish and hasattr(native, "__self__"):
            answer = native_answer(native, finish, plan)
        check = Check(native or python_check(expected), plan, finish, answer)
        self.keep(key, check, recipe.roots[0], recipe.live, start)

    def keep(self, key: tuple, check: Check, root: Node, live: Sequence[Node], start: float) -> None:
        """Find this check from now on."""
        if key not in self._found and len(self._found) >= KEYS:
            self._drop(next(iter(self._found)))
        tried = self._found.setdefault(key, _Tried())
        self._put(key, tried, check, root.number - start, looks_of(root, live))

    def _put(self, key: tuple, tried: _Tried, check: Check, length: float, looks: tuple) -> None:
        tried.put(check, length, looks)
        if check.answer is not None:
            _, _, kind, tracks = key
            self.answers[tracks][kind] = tuple([c.answer for c in tried.latest if c.answer is not None])

    def note_length(self, key: tuple, plan: Plan, root: Node, live: Sequence[Node], start: float) -> None:
        """The plan was found for a recording that no check accepted in `find`: next time its own is tried."""
        tried = self._found.get(key)
        if tried is not None and plan in tried.of_plan:
            self._put(key, tried, tried.of_plan[plan], root.number - start, looks_of(root, live))

    def _drop(self, key: tuple) -> None:
        """Forget those of one purpose and kind of root."""
        tried = self._found.pop(key, None)  # another thread may have dropped it
        if tried is not None:
            tried.forget()
        if key[0] == "value":
            _, _, kind, tracks = key
            self.answers[tracks].pop(kind, None)

    def clear(self) -> None:
        """Forget them all."""
        for key in list(self._found):
            self._drop(key)


#: Checks of values and of gradients.
checks = Checks()
