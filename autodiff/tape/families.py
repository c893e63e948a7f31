"""Asks that machine code answers (`answered`), because their recording is known, or known at another size.

The family of a kind, or of an Out, is all of it except its numbers.  A key of families tells which program was
recorded, and the numbers beside the key tell its size: machine code finds both (`known.described`).  Without machine
code each size has a plan of its own.  Plans for any numbers (`AnyPlans`) are learnt from two sizes (`sizes`).  If there
are such plans for an ask, a plan for its numbers is made and cached under the hash of the recording, by which the ask
is answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from codegen.forks import held_over_fork
from codegen.garbage import Paused
from codegen.program import observers
from codegen.records import record
from codegen.runtime.cache import LearningFilter
from codegen.symbols import LEAST

from ..config import config
from ..session import namespace, per_session, plans
from . import known, machine
from .known import Ask, Reading, is_run_natively
from .node import Node
from .plan import Answer, Plan
from .record import Recording, state
from .tier import AtSize, SizedTier

# ---------------------------------------------------------------- plans for any size

#: Extents below this are small: where the compiler's planning depends on a size, the limit is mostly 256.
SMALL = 257

#: Held while `AnyPlans.made` is read or changed.
_lock = held_over_fork(threading.RLock())


@record(frozen=True)
class AnyPlans:
    """Plans for any numbers that fit.

    positions  the places of the unknown numbers among all numbers of a key
    expected   a function from the unknown numbers to all numbers;  is_fit: one that tells if rules decide as before
    tiers      the tier of the program for large extents, and the one for small extents
    made       the plans that were made for single sizes; `drop` invalidates them
    """

    positions: Sequence[int]
    expected: Callable[..., tuple[int, ...]]
    is_fit: Callable[..., bool]
    tiers: tuple[SizedTier, SizedTier]
    answer: Answer
    choices: Any
    made: WeakSet[Plan]

    def unknown(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The unknown numbers among all numbers of a key."""
        return tuple([numbers[p] for p in self.positions])

    def at(self, numbers: tuple[int, ...]) -> AtSize | None:
        """The object that runs the program at these numbers; None if a plan for them would be wrong."""
        values = self.unknown(numbers)
        if min(values) < LEAST or self.expected(*values) != numbers or not self.is_fit(*values):
            return None
        fitting = [tier for tier in self.tiers if tier.fits(values)]
        return AtSize(fitting[0] if fitting else self.tiers[max(values) < SMALL], values)

    def plan(self, numbers: tuple[int, ...]) -> Plan | None:
        """A new plan for these numbers; None as for `at`."""
        run = self.at(numbers)
        if run is None:
            return None
        plan = self.answer.plan(run)
        plan.choices = self.choices
        with Paused(), _lock:
            self.made.add(plan)
        return plan

    def drop(self) -> None:
        """Forget all plans that were made, as a newly registered method changes what the rules would record."""
        with Paused(), _lock:
            made = [*self.made]
        for plan in made:
            known.forget(plan)


class Form:
    """Recordings that differ only in numbers.

    key        the key of one of them; it keeps the objects alive that the hash knows by their addresses
    samples    numbers that came -> the key of their plan, or None once there are plans for any numbers
    any        plans for any numbers, or None;  is_answered: True if machine code answers asks by these plans
    leaves, ranks    of an ask, as in plans and `known.native_answer`
    past       the places of the nodes that an ask releases; None: of all nodes of the history
    answer     (plans for any numbers, machine code's answer by the latest plan that they made)
    learning   decides, if there are plans for any, which numbers get a plan: the first ones, and those that come again
    """

    __slots__ = ("__weakref__", "answer", "any", "is_answered", "key", "learning", "leaves", "past", "ranks", "samples")

    learning: LearningFilter

    def __init__(self, key: tuple) -> None:
        self.key = key
        self.samples: dict[tuple[int, ...], Any] = {}
        self.any: AnyPlans | None = None
        self.leaves: tuple[int, ...] = ()
        self.past: Sequence[int] | None = None
        self.ranks: Sequence[int] = ()
        self.answer: tuple[Any, Any] = (None, None)
        self.is_answered = False

    def note_answered(
        self, plan: Plan, ask: Ask, order: Sequence[Node], released_nodes: Sequence[Node] | None, ranks: Sequence[int]
    ) -> None:
        """Let machine code answer asks of this form at any size, as there are plans for any size.

        order      the recording in canonical order;  released_nodes, ranks: as in `known.native_answer`
        """
        if self.is_answered or not is_run_natively(plan, ask):
            return
        number = {node: place for place, node in enumerate(order)}
        self.past = None if released_nodes is None else [number[node] for node in released_nodes]
        self.leaves, self.ranks = plan.leaves, ranks
        self.is_answered = _answered_forms.any = True


#: Forms by the hash of their family.
forms = namespace("form")
#: `any`: True if machine code answers some form; else the walk for a hash without numbers is left out.
_answered_forms = per_session(lambda: SimpleNamespace(any=False), lambda named: named.__init__(any=False))


def form_of(found: Reading, key: tuple) -> tuple[Form | None, tuple[int, ...]]:
    """The form of a recording, and its numbers; None while plans for any size are off, as in a trace or a profile."""
    if found.family is None or not config.patience_now or state.now.tracing or observers:
        return None, ()
    form: Form | None = forms.get(found.family)
    if form is None and found.numbers:
        form = Form(key)
        forms.put(found.family, form, len(key[1]))
    return form, found.numbers


# ---------------------------------------------------------------- by machine code


def answered(ask: Ask, now: Recording | None, tracks: bool, is_released: bool = False) -> Any:
    """Have machine code answer an ask, if there is a plan for its size or for any size; None if there is no valid one.

    now     the recording that the ask ends, whose small results are computed too; or None
    is_released    True if the ask releases the history of the results

    Returns True; or a list of the leaves whose post-accumulate hooks are due, each with its node, to which nothing else
    may refer any more; or, for gradients of tensors, [the plan's results, the answer].
    """
    native = machine.asks
    if native is None:
        return None
    purpose, results, seeds, also, targets = ask
    found = native.ask(purpose, now, results, seeds, also, targets, tracks, is_released, None)
    given = None
    if found is None:
        given = _at_size(ask, now, tracks) if _answered_forms.any else None
    elif type(found) is list and type(found[0]) is bytes:
        given, found = _with_calls(found), None
    if given is not None:
        found = native.ask(purpose, now, results, seeds, also, targets, tracks, is_released, given)
    return found


def _with_calls(found: list) -> tuple | None:
    """The answer to a recording with custom calls, in the form of `_at_size`.   found: [hash, nodes of the calls]"""
    key, nodes = found
    keys = known.keys_of(nodes)
    entry = None if keys is None else plans.get((key, keys))
    if entry is None or type(entry) is Plan or not entry.plan.valid:
        return None
    computed = known.computed(entry, nodes)
    return None if computed is None else (entry, key, None, computed)


def _at_size(ask: Ask, now: Recording | None, tracks: bool) -> tuple | None:
    """(answer, hash, what runs the program, None) for a recording with plans for any size; None if there are none.

    A size that is expected again gets a plan of its own, cached under the hash.  A node that a variable here refers to
    counts as a live result while machine code reads the recording.
    """
    found = known.described(ask, now, (), tracks, 0)
    form: Form | None = None if found is None or found[6] is None else forms.get(found[6])
    sizes = None if form is None else form.any
    if form is None or sizes is None or not form.is_answered:
        return None
    # Another thread may change the form meanwhile: each attribute is read once.
    exact, order, numbers = found[0], found[1], found[7]
    released_nodes = order if form.past is None else [order[place] for place in form.past]
    latest, answer = form.answer
    if latest is not sizes or not answer.plan.valid or form.learning.admits(numbers):
        plan = sizes.plan(numbers)
        if plan is None:
            return None
        plan.leaves, plan.parts, plan.keys = form.leaves, [node.kind for node in order], (exact,)
        own = None if form.past is None else released_nodes
        answer = known.native_answer(plan, ask, order, (), own, form.ranks)
        form.answer = sizes, answer
        plans.put(exact, answer)
        if form.any is not sizes:  # another thread has dropped the plans for any size
            known.forget(plan)
        return answer, exact, None, None
    run = sizes.at(numbers)
    if run is None:
        return None
    known.note_kinds(order, form.leaves if ask.purpose == known.BACKWARD else (), released_nodes)
    return answer, exact, run, None
