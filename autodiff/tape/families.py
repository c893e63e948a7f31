"""Asks that machine code answers (`answered`): of a recording that is known, or that is known at another size.

A family is what is left of a kind, or of an Out, without numbers.  A key of families says which program was recorded,
the numbers beside it at which size: `without_numbers(key)` in Python, `known.described` by machine code.

Plans for any numbers (`AnyPlans`) are learnt from two sizes (`sizes`).  Where machine code finds the family of an ask,
a plan is made at its numbers, and named by the recording's own hash, by which it is answered.
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
from ..session import namespace, owned, plans
from . import known, machine
from .known import Ask, Reading, is_only_run
from .loans import give_back
from .node import CONSTANT, Node, Out
from .plan import Answer, Plan
from .record import Recording, state
from .tier import AtSize, SizedTier

# ---------------------------------------------------------------- plans for any size

#: Extents below this are small: where planning decides by size, it mostly does at 256.
SMALL = 257

#: Held while it is noted which plans were made.
_lock = held_over_fork(threading.RLock())


@record(frozen=True)
class AnyPlans:
    """Plans for any numbers that fit.

    positions  of the unknown numbers
    expected   all numbers of the key, from the unknown ones      is_fit   whether rules would decide the same
    tiers      of the program at large extents, and at small ones
    made       the plans for some numbers, which are valid as long as this is
    """

    positions: Sequence[int]
    expected: Callable[..., tuple[int, ...]]
    is_fit: Callable[..., bool]
    tiers: tuple[SizedTier, SizedTier]
    answer: Answer
    choices: Any
    made: WeakSet[Plan]

    def unknown(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The unknown ones of them."""
        return tuple([numbers[p] for p in self.positions])

    def at(self, numbers: tuple[int, ...]) -> AtSize | None:
        """The thing that runs these numbers; None where a plan would be wrong."""
        values = self.unknown(numbers)
        if min(values) < LEAST or self.expected(*values) != numbers or not self.is_fit(*values):
            return None
        fitting = [tier for tier in self.tiers if tier.fits(values)]
        return AtSize(fitting[0] if fitting else self.tiers[max(values) < SMALL], values)

    def plan(self, numbers: tuple[int, ...]) -> Plan | None:
        """The plan for these numbers; None as above."""
        run = self.at(numbers)
        if run is None:
            return None
        plan = self.answer.plan(run)
        plan.choices = self.choices
        with Paused(), _lock:
            self.made.add(plan)
        return plan

    def drop(self) -> None:
        """A method was registered that changes what the rules would record."""
        with Paused(), _lock:
            made = [*self.made]
        for plan in made:
            known.forget(plan)


class Form:
    """Recordings that differ in numbers alone.

    key        of one of them: it holds what the hash knows by its address
    samples    numbers that came, and what plans of these are found by, while there are no plans for any
    any        plans for any numbers;  is_answered: machine code answers asks by them
    leaves, past, ranks    of an ask, as plans and `known.answer_of` have them; the places of what is given up, None: of
                           all of the history
    answer     plans for any, and machine code's answer to such an ask by the one of these that was named last
    learning   beside plans for any: for numbers that get plans of their own, the first ones and those that come again
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
        self, plan: Plan, ask: Ask, order: Sequence[Node], given_up: Sequence[Node] | None, ranks: Sequence[int]
    ) -> None:
        """There are plans for any size: machine code finds others like this from now on.

        order      the recording in canonical order;  given_up, ranks: as `known.answer_of` has them
        """
        machine.note_repeated()  # that sizes differ does not matter to who records it
        if self.is_answered or not is_only_run(plan, ask):
            return
        number = {node: place for place, node in enumerate(order)}
        self.past = None if given_up is None else [number[node] for node in given_up]
        self.leaves, self.ranks = plan.leaves, ranks
        self.is_answered = _named.any = True


#: By the hash of their family; those that were met without machine code by their keys without numbers, and noted by
#: their length.
forms = namespace("form")
#: `any`: a form is answered; else a walk without numbers would find nothing.
_named = owned(lambda: SimpleNamespace(any=False), lambda named: named.__init__(any=False))


# ---------------------------------------------------------------- keys without numbers


def without_numbers(key: tuple) -> tuple[tuple, tuple[int, ...]]:
    """An exact key without its numbers, and these in order."""
    purpose, parts, *rest = key
    numbers: list[int] = []
    left = tuple([_without_numbers(part, numbers) for part in parts])
    return (purpose, left, *rest), tuple(numbers)


def _without_numbers(part: Any, numbers: list[int]) -> tuple:
    """A part of a key without its numbers.   part: an Out, or (kind, or Out of a leaf; pending; ...; wiring)"""
    if type(part) is not tuple:
        numbers += part.shape
        return part.cls, part.requires_grad, part.weak
    kind, *others = part
    if type(kind) is Out:
        numbers += kind.shape
        return kind.cls, kind.requires_grad, kind.weak, *others
    out = kind.out
    left = _constant(kind.params, numbers) if kind.op is CONSTANT else _left(kind.params, numbers)
    return kind.op, left, out.requires_grad, out.weak, kind.released, *others


#: Stand-ins for numbers: of no class that a parameter is of.
_INT, _FLOAT = int, float
#: A constant that is larger is no count.
_MOST_COUNT = 2.0**53


def _left(value: Any, numbers: list[int]) -> Any:
    if type(value) is int:
        numbers.append(value)
        return _INT
    return tuple([_left(v, numbers) for v in value]) if type(value) is tuple else value


def is_count(value: Any) -> bool:
    """True for the value of a constant that may be a count, as that of a mean: a float that is a whole number."""
    return type(value) is float and value.is_integer() and 0 < abs(value) <= _MOST_COUNT


def _constant(params: tuple, numbers: list[int]) -> tuple:
    value, dtype = params
    if is_count(value):
        numbers.append(int(value))
        return _FLOAT, dtype
    return repr(value), dtype  # -0.0 is another constant than 0.0


def form_of(key: tuple, found: Reading | None = None) -> tuple[Form | None, tuple[int, ...]]:
    """The form of a key, (purpose, parts, ...), and its numbers.  None where plans are not for any size now, as in a
    profile.

    found    the recording as machine code read it
    """
    length = len(key[1])
    if not (length and config.patience_now) or state.now.tracing or observers:
        return None, ()
    name: Any
    if found is None or found.family is None:
        name, numbers = without_numbers(key)
    else:
        name, numbers = found.family, found.numbers
    form: Form | None = forms.get(name)
    if form is None and numbers:
        if found is None:
            forms.put(length, None)
        elif length in forms:
            form = forms.get(without_numbers(key)[0])
        form = form or Form(key)
        forms.put(name, form, length)
    return form, numbers


# ---------------------------------------------------------------- by machine code


def answered(ask: Ask, now: Recording | None, small: list | None, tracks: bool, is_released: bool = False) -> Any:
    """Answer an ask, if it is known how, at this size or at any; None: it is not, or not any more.

    now     the recording that ends with it, if one does;  small: weak references to handles of small results
    is_released    the history of the results is given up

    Gives True; a list of leaves whose post-accumulate hooks are due, each with its node, which nothing else may hold
    any more; of gradients of tensors [the plan's results, the answer].
    """
    native = machine.asks
    if native is None:
        return None
    purpose, results, seeds, also, targets = ask
    found = native.ask(purpose, now, small, results, seeds, also, targets, tracks, is_released, None)
    given = None
    if found is None:
        given = _at_size(ask, small, tracks) if _named.any else None
    elif type(found) is list and type(found[0]) is bytes:
        given, found = _with_calls(found), None
    if given is not None:
        found = native.ask(purpose, now, small, results, seeds, also, targets, tracks, is_released, given)
    if found is not None and now is not None and now.lent:
        give_back(now.lent)
    return found


def _with_calls(found: list) -> tuple | None:
    """The answer to a recording whose calls have keys of their own, as `_at_size` gives it.   found: hash and calls"""
    key, nodes = found
    keys = known.keys_of(nodes)
    entry = None if keys is None else plans.get((key, keys))
    if entry is None or type(entry) is Plan or not entry.plan.valid:
        return None
    computed = known.computed(entry, nodes)
    return None if computed is None else (entry, key, None, computed)


def _at_size(ask: Ask, small: list | None, tracks: bool) -> tuple | None:
    """The answer to a recording that has a plan for any size, its hash, what is run, and nothing; None for none.

    A size that is expected again gets a plan of its own, which its hash names from now on.  What is held meanwhile
    counts as something that may be asked for.
    """
    found = known.described(ask, small, (), tracks, 0)
    form: Form | None = None if found is None or found[6] is None else forms.get(found[6])
    sizes = None if form is None else form.any
    if form is None or sizes is None or not form.is_answered:
        return None
    # Another thread may change the form meanwhile: each attribute is read once.
    exact, order, numbers = found[0], found[1], found[7]
    given_up = order if form.past is None else [order[place] for place in form.past]
    latest, answer = form.answer
    if latest is not sizes or not answer.plan.valid or form.learning.admits(numbers):
        plan = sizes.plan(numbers)
        if plan is None:
            return None
        plan.leaves, plan.parts, plan.keys = form.leaves, [node.kind for node in order], (exact,)
        own = None if form.past is None else given_up
        answer = known.answer_of(plan, ask, order, (), own, form.ranks)
        form.answer = sizes, answer
        plans.put(exact, answer)
        if form.any is not sizes:  # they were dropped meanwhile
            known.forget(plan)
        return answer, exact, None, None
    run = sizes.at(numbers)
    if run is None:
        return None
    known.note_kinds(order, form.leaves if ask.purpose == known.BACKWARD else (), given_up)
    return answer, exact, run, None
