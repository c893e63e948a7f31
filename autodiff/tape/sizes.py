"""Plans for any extents: a recording that is a known one at another size needs no rule and no graph of its own.

A batch that grows by one at each step, sequences of every length: the same program, whose keys differ in numbers alone.
What is left of a key without its numbers is its *form*.  When shapes do not repeat and a form has come with other
numbers, what has changed is unknown from then on (`codegen.unknowns`): the recording is put down once more with
symbols for extents, the rules run on that, and what they emit is a graph with formulas for numbers.

    forms of keys  ->  _Form      numbers seen so far
                         -> _Any  plans for any numbers that fit: gathering and storing are the same for all

It is sound because rules of this library alone are run like this, whose every comparison of a symbol is kept as a
condition that a size must fulfil (`codegen.symbols`); because what took the number itself differs between two
examples, which must agree; and because the size at hand must come out as it did without symbols.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

from codegen.forks import held_over_fork
from codegen.garbage import Paused
from codegen.ir import OPS
from codegen.lazily import imported
from codegen.records import NamedTuple, record
from codegen.runtime.cache import LRU
from codegen.symbols import LEAST, Symbol, checked, evaluated, formula, watched

from ..config import config
from ..dispatch import observed
from . import sized_checks
from .any_size import AnySize
from .check import Recipe
from .node import CONSTANT, LEAF, Node, Out
from .plan import Drawn, Plan, plans
from .record import ALIASES, state
from .streak import executable_at, is_waiting, note_found
from .symbolic import with_symbols
from .varied import is_varied, note_compiled

__all__ = ["Answer", "Size", "clear_sizes", "size_of"]

#: How often rules are run with symbols for one form.
_TRIES = 3

#: At which sizes that were found by their key a check for any size is made: making it takes as long as some finds.
_CHECKED = (2, 8, 32)

#: A size that was met so often is left to its key, and comes to be compiled by itself: machine code for any takes some
#: 50 us more each time, planning for one 3 to 4 ms.  How many sizes are counted.
_OFTEN, _MET = 64, 4096

#: What stands in a form where a number stood: of no class that a parameter is of.
_INT, _FLOAT = int, float

#: Forms, by themselves; a recording of so many nodes in all.
_forms = LRU(256, most=50_000)

#: Operations of the tape's own.
_PLAIN = frozenset((CONSTANT, LEAF, *ALIASES))

_serial = itertools.count()
#: Held while it is noted which plans were made.
_lock = held_over_fork(threading.RLock())


class Answer(NamedTuple):
    """What answers a recording: what was drawn; where gradients are found, and which are computed (see `Plan`)."""

    drawn: Drawn
    grads: tuple = ()
    computed: tuple = ()


@record(frozen=True)
class _Any:
    """Plans for any numbers that fit.

    expected   all numbers of the key, from the unknown ones      is_fit   whether rules would decide the same
    texts      of these numbers the formulas, or themselves       names    of the unknown ones
    latest     plans, without a key, of sizes that were met once
    ordinary   sizes that have plans of their own
    checked    how often a recording was found by its key, by purpose and age of the checks
    met        how often each size was answered by machine code for any
    """

    texts: Sequence[str | int]
    names: Sequence[str]
    positions: Sequence[int]
    expected: Callable[..., tuple[int, ...]]
    is_fit: Callable[..., bool]
    sized: AnySize
    answer: Answer
    choices: Any
    made: dict[ref[Plan], tuple]  # and their keys
    latest: dict[tuple[int, ...], ref[Plan]]
    ordinary: LRU
    checked: dict[tuple, int]
    met: dict[tuple[int, ...], int]

    def note_met(self, values: tuple[int, ...]) -> int:
        """How often this size was met."""
        if len(self.met) >= _MET:
            self.met.clear()
        times = self.met[values] = self.met.get(values, 0) + 1
        return times

    def expects(self, numbers: tuple[int, ...]) -> bool:
        """Whether all numbers follow from the unknown ones."""
        return self.expected(*self.unknown(numbers)) == numbers

    def unknown(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The unknown ones of them."""
        return tuple([numbers[p] for p in self.positions])

    def plan(self, key: tuple, numbers: tuple[int, ...]) -> Plan | None:
        """The plan of a key with these numbers; None where it would be wrong."""
        values = self.unknown(numbers)
        if min(values) < LEAST or not self.expects(numbers) or not self.is_fit(*values):
            return None
        with Paused(), _lock:
            plan = _held(self.latest.pop(values, None))
        if plan is None:
            plan = self.new(values)
        else:
            note_found(plan, None)
        with Paused(), _lock:
            self.made[ref(plan, self.made.pop)] = key
        plans.put(key, plan)
        return plan

    def new(self, values: tuple[int, ...]) -> Plan:
        """A plan for these numbers."""
        drawn = self.answer.drawn
        executable, known = executable_at(self.sized, values)
        plan = Plan(executable, drawn.gather, drawn.store, drawn.copies)
        plan.grads, plan.computed, plan.choices = self.answer.grads, self.answer.computed, self.choices
        if not known:
            note_compiled(plan)
        return plan

    def drop(self) -> None:
        """A method was registered that changes what the rules would record."""
        with Paused(), _lock:
            made = [(plan, key) for r, key in list(self.made.items()) if (plan := r()) is not None]
            self.latest.clear()
        for plan, key in made:
            plan.valid = False
            if plans.get(key) is plan:
                plans.pop(key)


def _held(plan: ref[Plan] | None) -> Plan | None:
    return None if plan is None else plan()


class _Form:
    """Numbers that came with a form, the latest or those that were tried; plans for any; how often a size was new."""

    __slots__ = ("__weakref__", "any", "news", "samples")

    def __init__(self) -> None:
        self.samples: list[tuple[int, ...]] = []
        self.any: _Any | None = None
        self.news = 0

    def is_varied(self) -> bool:
        """Whether a new size is expected to be one of many."""
        # Where a plan serves twice in each step, every one is used again soon.
        return is_varied() or 0 < 2 * config.patience <= self.news

    def numbers(self, found: _Any) -> sized_checks.Numbers:
        """What a check for any size needs to know."""

        def plan_at(values: tuple[int, ...]) -> Plan | None:
            if self.any is not found or not self.is_varied() or values in found.ordinary:
                return None
            with Paused(), _lock:
                plan = _held(found.latest.pop(values, None))
            if plan is not None:  # what a step does twice
                note_found(plan, None)
            elif not is_waiting(found.sized, values):  # else it gets a key: it may come to be compiled
                plan = found.new(values)
                with Paused(), _lock:
                    found.latest[values] = ref(plan, partial(found.latest.pop, values))
            return plan

        def run_at(values: tuple[int, ...]) -> Callable[[tuple[int, ...], tuple], tuple] | None:
            if self.any is not found or not found.sized.is_compiled:
                return None
            return found.sized.run if found.note_met(values) <= _OFTEN else None

        return sized_checks.Numbers(
            found.texts, found.names, found.positions, found.is_fit, plan_at, run_at
        )


@record(frozen=True)
class Size:
    """A key that no plan was found by, taken apart."""

    key: tuple
    form: tuple
    numbers: tuple[int, ...]

    def plan(self) -> Plan | None:
        """Its plan, if there is one for any size and sizes vary."""
        form = _forms.get(self.form)
        if form is None or form.any is None or not form.is_varied():
            return None
        return form.any.plan(self.key, self.numbers)

    def note_answered(
        self, repeat: tuple[tuple, Sequence[Node]] | None, recipe: Callable[[Sequence[Node]], Recipe]
    ) -> None:
        """Its plan is one for any size: from now on a check finds others like it, if that pays.

        repeat    (purpose, roots) under which it is found;  recipe    recipe(roots)
        """
        form = _forms.get(self.form)
        if repeat is not None and form is not None and form.any is not None:
            purpose, roots = repeat
            checked, what = form.any.checked, (purpose[0], sized_checks.age())
            times = checked[what] = checked.get(what, 0) + 1
            if times in _CHECKED:
                sized_checks.add(purpose, recipe(roots), form.numbers(form.any))

    def learn(
        self,
        order: Sequence[Node],
        answer: Answer,
        again: Callable[[dict[Node, Node]], Answer],
        choices: Any = None,
    ) -> Callable[[], None]:
        """Remember a recording that was answered; if shapes do not repeat and it came in another size, for any.

        order     its nodes, canonically
        again     what answers the recording in which others stand for these nodes
        choices   of dispatch that the answer relies on

        Returns what is to be called when one of the choices changes.
        """
        form = _forms.get(self.form)
        if form is None:
            form = _Form()
            _forms.put(self.form, form, len(order))
        form.news += 1
        samples = form.samples
        if self.numbers in samples or len(samples) > _TRIES:
            return _nothing
        if form.any is not None and form.any.expects(self.numbers):
            form.any.ordinary.put(form.any.unknown(self.numbers), True)
            return _nothing  # it is decided otherwise at this size, or sizes do not vary now
        if not samples or not form.is_varied():
            samples[:] = [self.numbers]
            return _nothing
        samples.append(self.numbers)
        found = _for_any(self, samples, order, answer, again, choices) if _is_plain(order) else None
        if found is None:
            return _nothing
        form.any = found
        where, what = ref(form), ref(found)
        return lambda: _drop(where(), what())


def _nothing() -> None:
    pass


def _drop(form: _Form | None, found: _Any | None) -> None:
    if found is not None:
        found.drop()
    if form is not None and form.any is found:
        form.any = None


def size_of(key: tuple) -> Size | None:
    """A key taken apart: (purpose, parts, ...).  None where plans are not for any size now."""
    purpose, parts, *rest = key
    if not parts or state.now.tracing:
        return None
    numbers: list[int] = []
    left = tuple([_without_numbers(part, numbers) for part in parts])
    return Size(key, (purpose, left, *rest), tuple(numbers)) if numbers else None


def _without_numbers(part: Any, numbers: list[int]) -> tuple:
    """What is left of a part of a key: an Out, or (kind, or Out of a leaf; pending; ...; wiring)."""
    if type(part) is not tuple:
        numbers += part.shape
        return part.cls, part.requires_grad, part.weak
    kind, *others = part
    if type(kind) is Out:
        numbers += kind.shape
        return kind.cls, kind.requires_grad, *others
    out = kind.out
    left = _constant(kind.params, numbers) if kind.op is CONSTANT else _left(kind.params, numbers)
    return kind.op, left, out.requires_grad, out.weak, kind.released, *others


def _left(value: Any, numbers: list[int]) -> Any:
    if type(value) is int:
        numbers.append(value)
        return _INT
    return tuple([_left(v, numbers) for v in value]) if type(value) is tuple else value


def _constant(params: tuple, numbers: list[int]) -> tuple:
    """A float that is a whole number may be the count of a mean."""
    value, dtype = params
    if type(value) is float and value.is_integer() and value != 0:
        numbers.append(int(value))
        return _FLOAT, dtype
    return repr(value), dtype  # -0.0 is another constant than 0.0


# ---------------------------------------------------------------- with symbols


def _is_plain(order: Sequence[Node]) -> bool:
    """Whether all is of this library's operations: their rules look at avals and parameters alone."""
    for node in order:
        op = node.kind.op
        if op.has_regions or (op not in _PLAIN and OPS.get(op.name) is not op):
            return False
        if type(node) is not Node and (node.call or node.hooks or node.body is not None or node.flow or node.slot):
            return False
    return True


def _for_any(
    size: Size, samples: list[tuple[int, ...]], order: Sequence[Node], answer: Answer, again: Callable, choices: Any
) -> _Any | None:
    """Plans for any size; None where no formula says what they are."""
    unknowns = imported("codegen.unknowns").fitted(samples, range(len(size.numbers)), f"n{next(_serial)}_")
    if unknowns is None or any([type(n) is not int for n in answer.drawn.gather]):
        return None
    examples = _examples(unknowns, size.numbers)
    if examples is None:
        samples.pop()  # the next one may do
        return None
    sized = imported("codegen.sized")
    asked = state.now.asked
    drafts = []
    try:
        for example in examples:
            # As where the real ones ran: recording takes no shortcuts, and learns none.
            with watched(closely=True) as conditions, observed():
                new = with_symbols(size.key[1], order, iter(unknowns.example(example)))
                found = again(new)
                graph = sized.SizedGraph(found.drawn.program.graph, unknowns.names)
            if found._replace(drawn=answer.drawn) != answer or found.drawn[1:-1] != answer.drawn[1:-1]:
                return None
            drafts.append((graph, conditions))
    except Exception:  # whatever wants the very number
        return None
    (graph, conditions), (other, others) = drafts
    if graph.text != other.text or conditions != others or state.now.asked != asked:
        return None
    formulas = unknowns.example(examples[0])
    expected, texts = evaluated(formulas, unknowns.names), [formula(n) if type(n) is Symbol else n for n in formulas]
    is_fit, values = checked(conditions, unknowns.names), examples[0]
    if not is_fit(*values) or graph.at(values).key != answer.drawn.program.graph.key:
        return None
    lasting = answer._replace(drawn=answer.drawn._replace(places={}))  # holds no node
    return _Any(
        texts, unknowns.names, unknowns.positions, expected, is_fit, AnySize(graph), lasting, choices,
        {}, {}, LRU(256), {}, {},
    )  # fmt: skip


def _examples(unknowns: Any, numbers: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """What unknowns are in the recording, and numbers far below, where roots and logarithms differ, too.

    None where one of them is the same as a number that is known: the recording may be right for it alone.
    """
    known = {n for n in unknowns.numbers if type(n) is int}
    here = [numbers[p] for p in unknowns.positions]
    below: list[int] = []
    for value in here:  # from the smallest to the largest
        taken = known.union(below)
        found = next((n for n in range(max(LEAST + 1, value // 4), value) if n not in taken), None)
        if found is None or value in known:
            return None
        below.append(found)
    return here, below


def clear_sizes() -> None:
    """Forget all forms."""
    _forms.clear()
    sized_checks.clear_sized_checks()
