"""Plans for any extents that fit, which one recording was put down for: see `sizes`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from codegen.forks import held_over_fork
from codegen.garbage import Paused
from codegen.records import NamedTuple, record
from codegen.symbols import LEAST

from .known import forget
from .plan import Drawn, Plan
from .tier import SizedTier, TierAt

__all__ = ["Answer", "AnyPlans"]

#: Held while it is noted which plans were made.
_lock = held_over_fork(threading.RLock())


class Answer(NamedTuple):
    """An answer to a recording: its program; the places of gradients, and which are computed (see `Plan`)."""

    drawn: Drawn
    grads: tuple = ()
    computed: tuple = ()


@record(frozen=True)
class AnyPlans:
    """Plans for any numbers that fit.

    positions  of the unknown numbers
    expected   all numbers of the key, from the unknown ones      is_fit   whether rules would decide the same
    made       the plans of sizes that were met again
    outlines   the plans of machine code's answers: they say where all goes, and are valid as long as this is
    """

    positions: Sequence[int]
    expected: Callable[..., tuple[int, ...]]
    is_fit: Callable[..., bool]
    tier: SizedTier
    answer: Answer
    choices: Any
    made: WeakSet[Plan]
    outlines: list[Plan]

    def unknown(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The unknown ones of them."""
        return tuple([numbers[p] for p in self.positions])

    def is_formula_of(self, numbers: tuple[int, ...]) -> bool:
        """True if these numbers follow from the unknown ones among them."""
        return self.expected(*self.unknown(numbers)) == numbers

    def fitting(self, numbers: tuple[int, ...]) -> tuple[int, ...] | None:
        """The unknown ones of these numbers; None where a plan would be wrong."""
        values = self.unknown(numbers)
        is_right = min(values) >= LEAST and self.expected(*values) == numbers and self.is_fit(*values)
        return values if is_right else None

    def plan(self, numbers: tuple[int, ...]) -> Plan | None:
        """The plan for these numbers alone; None where it would be wrong."""
        values = self.fitting(numbers)
        if values is None:
            return None
        tier = self.tier
        plan = self.outline(TierAt(tier, values) if tier.compiled is None else tier.compiled.at(values))
        with Paused(), _lock:
            self.made.add(plan)
        return plan

    def outline(self, executable: Any) -> Plan:
        """A plan that runs something."""
        drawn = self.answer.drawn
        plan = Plan(executable, drawn.gather, drawn.store, drawn.copies)
        plan.grads, plan.computed, plan.choices = self.answer.grads, self.answer.computed, self.choices
        return plan

    def drop(self) -> None:
        """A method was registered that changes what the rules would record."""
        with Paused(), _lock:
            made = [*self.made, *self.outlines]
        for plan in made:
            plan.valid = False
            forget(plan)
