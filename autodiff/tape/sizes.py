"""Plans for any extents: a recording that is a known one at another size needs no rule and no graph of its own.

A batch that grows by one at each step, sequences of every length: the same program, whose keys differ in numbers alone.
What is left of a key without its numbers is its *form* (`families`).  When shapes do not repeat and a form has come
with other numbers, what has changed is unknown from then on (`codegen.unknowns`): the recording is put down once more
with symbols for extents, the rules run on that, and what they emit is a graph with formulas for numbers.

    forms of keys  ->  _Form          numbers seen so far
                         -> AnyPlans  plans for any numbers that fit: gathering and storing are the same for all

Machine code finds a form by the hash of its families (`families.SIZED`), so that no key is made.

It is sound because rules of this library alone are run like this, whose every comparison of a symbol is kept as a
condition that a size must fulfil (`codegen.symbols`); because what took the number itself differs between two
examples, which must agree; and because the size at hand must come out as it did without symbols.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

from codegen.garbage import Paused
from codegen.ir import OPS
from codegen.lazily import imported
from codegen.records import record
from codegen.runtime.cache import LRU
from codegen.symbols import LEAST, checked, evaluated, watched

from ..config import config
from ..dispatch import observed
from ..session import namespace
from .any_plans import Answer, AnyPlans, held, lock
from .any_size import AnySize
from .families import SIZED, Described, SizedAnswer, without_numbers
from .known import Ask, answer_of
from .machine import note_repeated
from .misses import ANOTHER_SIZE, note
from .node import CONSTANT, LEAF, Node
from .plan import COUNTS, Plan
from .record import ALIASES, state
from .symbolic import with_symbols
from .tier import is_waiting, note_found, note_spent, prices
from .varied import is_varied

__all__ = ["Answer", "Size", "size_of"]

#: How often rules are run with symbols for one form.
_TRIES = 3

#: A size that was met so often is left to its key, and comes to be compiled by itself: machine code for any takes some
#: 50 us more each time, planning for one 3 to 4 ms.
_OFTEN = 64

#: Forms, by themselves; a recording of so many nodes in all.
_forms = namespace("form")

#: By the hash of families, the numbers of a recording that was met once: its form is made when another comes.
_first = namespace("first numbers")

#: The number of asks that one form answers: gradients of leaves, of tensors, again where the latter were forgotten.
_OUTLINES = 64

#: Operations of the tape's own.
_PLAIN = frozenset((CONSTANT, LEAF, *ALIASES))

_serial = itertools.count()


class _Form:
    """Numbers that came with a form, the latest or those that were tried; plans for any; how often a size was new."""

    __slots__ = ("__weakref__", "any", "news", "samples")

    def __init__(self) -> None:
        self.samples: list[tuple[int, ...]] = []
        self.any: AnyPlans | None = None
        self.news = 0

    def is_varied(self) -> bool:
        """Whether a new size is expected to be one of many."""
        # Where a plan serves twice in each step, every one is used again soon.
        return is_varied() or 0 < 2 * config.patience <= self.news

    def at(self, found: AnyPlans, what: str, numbers: tuple[int, ...]) -> tuple[Any, Callable[[], None] | None] | None:
        """The executable at these numbers, and the function that is called after it: see `SizedAnswer`."""
        values = found.fitting(numbers) if self.any is found else None
        if values is None:
            return None
        if found.sized.is_compiled and found.note_met(values) <= _OFTEN:
            return _Run(found.sized, values), None
        if not self.is_varied() or values in found.ordinary:
            return None
        since = prices.now()
        with Paused(), lock:
            plan = held(found.latest.pop(values, None))
        if plan is not None:  # what a step does twice
            note_found(plan)
        elif is_waiting(found.sized, values):
            return None  # it gets a key: it may come to be compiled
        else:
            plan = found.new(values)
            with Paused(), lock:
                found.latest[values] = ref(plan, partial(found.latest.pop, values))
        return plan.executable, partial(_note_once, plan, what, since)


class _Run:
    """A plan for any size at one size: it is called as an executable is."""

    __slots__ = ("_sized", "_values")

    def __init__(self, sized: AnySize, values: tuple[int, ...]) -> None:
        self._sized, self._values = sized, values

    def call(self, *arrays: Any) -> tuple:
        """The results."""
        return self._sized.run(self._values, arrays)


def _note_once(plan: Plan, what: str, since: float) -> None:
    """A recording was answered by a plan for a size of which nothing was known."""
    COUNTS.hits -= 1
    COUNTS.misses += 1
    note(what, ANOTHER_SIZE)
    note_spent(plan, since)


@record(frozen=True)
class Size:
    """A key that no plan was found by, taken apart.

    named    the hash of its families, if machine code gave it
    first    the numbers that came with the hash at first
    """

    key: tuple
    form: tuple
    numbers: tuple[int, ...]
    named: bytes | None
    first: tuple[int, ...]

    def plan(self) -> Plan | None:
        """Its plan, if there is one for any size and sizes vary."""
        form = _forms.get(self.form)
        if form is None or form.any is None or not form.is_varied():
            return None
        return form.any.plan(self.key, self.numbers)

    def note_answered(
        self, ask: Ask, order: Sequence[Node], given_up: Sequence[Node] | None = (), leaves: tuple[int, ...] = (),
        ranks: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Its plan is one for any size: from now on machine code finds others like it.

        order      the recording in canonical order;  given_up, leaves, ranks   as `known.answer_of` and plans have them
        """
        note_repeated()  # that sizes differ does not matter to who records it
        form = _forms.get(self.form)
        found = None if form is None else form.any
        if form is None or found is None or self.named is None or len(found.outlines) >= _OUTLINES:
            return
        outline = found.outline(found.sized)
        outline.leaves = leaves
        answer = answer_of(outline, ask, order, (), given_up, ranks)
        if answer is not None:
            found.outlines.append(outline)
            sized = SizedAnswer(answer, leaves, partial(form.at, found, ask.name), self.form)
            SIZED.put(self.named, sized, len(order))

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
            if self.first != self.numbers:
                form.news, form.samples = 1, [self.first]
        form.news += 1
        samples = form.samples
        if self.numbers in samples or len(samples) > _TRIES:
            return _nothing
        values = None if form.any is None else form.any.unknown(self.numbers)
        if form.any is not None and values is not None and form.any.expected(*values) == self.numbers:
            form.any.ordinary.put(values, True)
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


def _drop(form: _Form | None, found: AnyPlans | None) -> None:
    if found is not None:
        found.drop()
    if form is not None and form.any is found:
        form.any = None


def size_of(key: tuple, found: Described | None = None, order: Sequence[Node] = ()) -> Size | None:
    """A key taken apart: (purpose, parts, ...).  None where plans are not for any size now, or nothing like it was met.

    found    what machine code says of the recording;   order: the nodes that the key was made of
    """
    if not key[1] or state.now.tracing:
        return None
    first = None if found is None else _first.get(found.key)
    if found is not None and first is None:
        _first.put(found.key, found.numbers, len(found.numbers))
        return None
    form, numbers = without_numbers(key)
    is_said = found is not None and found.numbers == numbers and found.known.describes(key, order)
    named = found.key if found is not None and is_said else None
    return Size(key, form, numbers, named, first if named and first else numbers) if numbers else None


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
) -> AnyPlans | None:
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
    expected = evaluated(formulas, unknowns.names)
    is_fit, values = checked(conditions, unknowns.names), examples[0]
    if not is_fit(*values) or graph.at(values).key != answer.drawn.program.graph.key:
        return None
    lasting = answer._replace(drawn=answer.drawn._replace(places={}))  # holds no node
    return AnyPlans(
        unknowns.positions, expected, is_fit, AnySize(graph), lasting, choices, {}, {}, LRU(256), {}, [],
    )


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
