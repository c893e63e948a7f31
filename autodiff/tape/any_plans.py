"""Plans for any extents that fit, which one recording was put down for: see `sizes`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from codegen.forks import held_over_fork
from codegen.garbage import Paused
from codegen.records import NamedTuple, record
from codegen.runtime.cache import LRU
from codegen.symbols import LEAST

from .any_size import AnySize
from .plan import Drawn, Plan, plans
from .tier import executable_at, note_found
from .varied import note_compiled

__all__ = ["Answer", "AnyPlans", "held", "lock"]

#: Sizes that are counted.
_MET = 4096

#: Held while it is noted which plans were made.
lock = held_over_fork(threading.RLock())


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
    latest     plans, without a key, of sizes that were met once
    ordinary   sizes that have plans of their own
    met        how often each size was answered by machine code for any
    outlines   the plans of machine code's answers: they say where all goes, and are valid as long as this is
    """

    positions: Sequence[int]
    expected: Callable[..., tuple[int, ...]]
    is_fit: Callable[..., bool]
    sized: AnySize
    answer: Answer
    choices: Any
    made: dict[ref[Plan], tuple]  # and their keys
    latest: dict[tuple[int, ...], ref[Plan]]
    ordinary: LRU
    met: dict[tuple[int, ...], int]
    outlines: list[Plan]

    def note_met(self, values: tuple[int, ...]) -> int:
        """Count a meeting with this size: the number of all."""
        if len(self.met) >= _MET:
            self.met.clear()
        times = self.met[values] = self.met.get(values, 0) + 1
        return times

    def unknown(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The unknown ones of them."""
        return tuple([numbers[p] for p in self.positions])

    def fitting(self, numbers: tuple[int, ...]) -> tuple[int, ...] | None:
        """The unknown ones of these numbers; None where a plan would be wrong."""
        values = self.unknown(numbers)
        is_right = min(values) >= LEAST and self.expected(*values) == numbers and self.is_fit(*values)
        return values if is_right else None

    def plan(self, key: tuple, numbers: tuple[int, ...]) -> Plan | None:
        """The plan of a key with these numbers; None where it would be wrong."""
        values = self.fitting(numbers)
        if values is None:
            return None
        with Paused(), lock:
            plan = held(self.latest.pop(values, None))
        if plan is None:
            plan = self.new(values)
        else:
            note_found(plan)
        with Paused(), lock:
            self.made[ref(plan, self.made.pop)] = key
        plans.put(key, plan)
        return plan

    def new(self, values: tuple[int, ...]) -> Plan:
        """A plan for these numbers."""
        executable, known = executable_at(self.sized, values)
        plan = self.outline(executable)
        if not known:
            note_compiled(plan)
        return plan

    def outline(self, executable: Any) -> Plan:
        """A plan that runs something."""
        drawn = self.answer.drawn
        plan = Plan(executable, drawn.gather, drawn.store, drawn.copies)
        plan.grads, plan.computed, plan.choices = self.answer.grads, self.answer.computed, self.choices
        return plan

    def drop(self) -> None:
        """A method was registered that changes what the rules would record."""
        with Paused(), lock:
            made = [(plan, key) for r, key in list(self.made.items()) if (plan := r()) is not None]
            self.latest.clear()
        for plan in list(self.outlines):
            plan.valid = False
        for plan, key in made:
            plan.valid = False
            if plans.get(key) is plan:
                plans.pop(key)


def held(plan: ref[Plan] | None) -> Plan | None:
    return None if plan is None else plan()
