"""The way from an ask to its plan: found by hash, by exact key or at any size, else made anew; then it is run.

Along with what is asked for are computed small live results (a loss, a metric), and the reductions and products that
gradients or live handles may need again: so nothing heavy is done twice.

Only a user's ask ends a recording.  Values are committed after the run, of a recording in parts after each part: an
error leaves them as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from codegen.blas import one_thread
from codegen.garbage import Paused, ignoring
from codegen.ir import OutOfRange, refused

from ..mode import MODE
from ..session import plans
from . import machine
from .families import Form, answered, form_of
from .known import VALUE, Ask, Reading, answer_of, is_only_run, read
from .loans import give_back
from .misses import note
from .node import Node
from .parts import values_in_parts
from .plan import COUNTS, Answer, Plan, count, data, draw, located, settle, source
from .program import without_value
from .record import ARGUMENT, PENDING_LIMIT, SMALL_LIMIT, Recording, asking, new_number, state
from .sizes import learn, nothing
from .tier import is_let_pass
from .walk import Said, needed, said

#: Errors of values, whichever it was that they are of; those of a host function are any.
RUN_ERRORS = IndexError, MemoryError, np.linalg.LinAlgError


def value_of(node: Node) -> np.ndarray:
    """The value of a node, computed now if it is pending.  Nobody may write to the array.

    It is an ask even when the value is there: what a rule does next may depend on it.
    """
    now = state.now
    if now.unseen and node.number >= now.unseen:
        now.see()
    now.asked += 1
    if node.kind.out.flows:
        now.looked += 1
        if now.body and node.kind.out.requires_grad and MODE.get().tracks:
            now.seen.append((now.asked, node))
    if node.value is None:
        origin = source(node)
        if origin.value is None:
            evaluate((node,))
            return data(node)
        settle(node, origin.value)  # another name of what is known: nothing is computed, no recording ends
    if now.lent:
        give_back(now.lent)
    value = node.value
    return value if type(value) is np.ndarray else data(node)


def evaluate(
    nodes: Iterable[Node], ends_recording: bool = True, tracks: bool | None = None,
    why: Callable[[], str] | None = None, live: Sequence[Node] = (), what: str = "value",
) -> None:  # fmt: skip
    """Compute the values of pending nodes and keep them.

    live      nodes that are computed along, unless that raises an error
    tracks    whether what gradients of them read is stored along; None: where gradients are on
    why       what says why a backward records them each time;  what: they are, in `ad.explain()`
    """
    roots = [n for n in dict.fromkeys(nodes) if n.value is None]
    if not roots:
        return
    now = state.now
    mode = MODE.get()
    tracks = mode.tracks if tracks is None else tracks
    is_over = ends_recording and not now.tracing
    try:
        if mode.eager:
            _evaluate_by_reference(roots)
            return
        ask = Ask(VALUE, tuple(roots))
        if answered(ask, now if is_over else None, now.small if is_over else None, tracks) is not None:
            now.asked += ends_recording and not is_over
            return
        start = now.start
        now.asked += ends_recording
        if is_over:
            live = live_small(now, roots)
            _begin_another(now)
        while True:
            live = [n for n in [*dict.fromkeys((*roots, *live))][len(roots) :] if n.value is None]
            try:
                if not now.tracing and values_in_parts([*roots, *live], start):
                    return
                question = Question(ask, roots, live, tracks, why, what)
                with Paused():  # nearly all that is made is still in use; the run is left out, which may be long
                    plan = question.known() or question.make()
                results = plan.run(question.order)
                plan.commit(question.order, results)
                return
            except Exception:  # of a host function, too
                if not live:
                    raise
                live = ()  # nobody asked for these
    finally:
        if ends_recording and now.lent:
            give_back(now.lent)


class Question:
    """An ask, and how its plan is found or made: of values here, of gradients in `transforms.gradient`.

    ask       None where machine code is not to find it when it is repeated
    asked     nodes that are asked for;  live: those of small live results, which are as well
    tracks    whether what gradients of the results read is stored
    why, what    what says why a backward records them each time; what the values are, in `ad.explain()`
    past      the history that gradients go through;  given: cotangents
    found     the recording as machine code read it, if it did;  form, numbers: set where it may be of any size
    is_let_pass    True where programs are new one after the other: none is kept
    ranks, places    the groups of gradients in canonical order, the place of the first node of each
    parts, number, order, kept    the recording as `walk.said` says it
    """

    past: Sequence[Node] = ()
    given: Sequence[Node] = ()
    found: Reading | None = None
    form: Form | None = None
    numbers: tuple[int, ...] = ()
    is_let_pass = False
    ranks: Sequence[int] = ()
    places: tuple[int, ...] = ()

    def __init__(
        self, ask: Ask | None, asked: Sequence[Node], live: Sequence[Node], tracks: bool,
        why: Callable[[], str] | None = None, what: str = "value",
    ) -> None:  # fmt: skip
        self.ask, self.asked, self.live, self.tracks, self.why, self.what = ask, asked, live, tracks, why, what

    def known(self) -> Plan | None:
        """The plan that answers; None where it is to be made (`make`), or let pass."""
        ask = self.ask
        self.found = found = None if ask is None or machine.asks is None else read(ask, self.live, self.tracks)
        plan = None if found is None else self.still_right(found.plan)
        if found is not None and plan is not None:
            count(plan)
            self.set_order(found.order)
            return plan
        if found is not None and found.family is not None and ask is not None and ask.purpose != VALUE:
            self.is_let_pass = is_let_pass(found.family, COUNTS.hits)
            if self.is_let_pass:
                count(None)
                return None
        self.describe()
        key = self.key()
        plan = plans.get(key)
        plan = plan and self.still_right(plan)
        if plan is None:
            self.form, self.numbers = form_of(key, found)
            sizes = None if self.form is None else self.form.any
            plan = None if sizes is None else sizes.plan(self.numbers)
        count(plan)
        if plan is not None:
            self.name(plan, key)
        return plan

    @property
    def given_up(self) -> Sequence[Node] | None:
        """The part of the history that is given up with the ask: see `known.answer_of`."""
        return ()

    def describe(self) -> None:
        """Have the recording described."""
        if self.found is not None:
            self.set_description(self.found.said(self.past))
        else:
            self.set_description(said([*self.asked, *self.live], self.tracks, self.past, self.given))

    def set_description(self, said: Said) -> None:
        """Take what was said of the recording."""
        self.parts, self.number, self.order, self.kept = said

    def key(self) -> tuple:
        """The exact key of the recording, once it is described."""
        return "value", tuple(self.parts), tuple(sorted([self.number[r] for r in self.kept]))

    def make(self) -> Plan:
        """A new plan for the recording."""
        key = self.key()
        answer = draw(self.kept, self.number)
        plan = answer.plan()
        if still_true(self.parts, self.order):
            self.name(plan, key, answer)
        note(*((self.what, key) if self.why is None else ("backward", self.why())))
        return plan

    def answer_again(self, new: dict[Node, Node]) -> Answer:
        """The answer to a recording in which others stand for its nodes."""
        return draw([new[r] for r in self.kept], {new[n]: i for n, i in self.number.items()})

    def set_order(self, order: list[Node]) -> None:
        """A plan of the hash was found: these are its nodes."""
        self.order = order

    def name(self, plan: Plan, key: tuple, answer: Answer | None = None, choices: Any = None) -> Callable[[], None]:
        """Find a plan by its exact key from now on, and by the hash of machine code.

        Where it only has to be run, machine code answers such an ask, and at other sizes, too, if they are known.

        answer, choices    of a new one, if it may be learnt for any size.  Returns what `learn` does.
        """
        found, ask, form = self.found, self.ask, self.form
        plan.leaves, plan.parts = self.places, key
        keys = [key] if found is None else [key, found.key]
        for name in keys:
            if plans.get(name) is not plan:
                plans.put(name, plan)
        plan.keys = tuple(dict.fromkeys([*plan.keys[-2:], *keys]))
        if found is not None and ask is not None and is_only_run(plan, ask):
            plans.put(found.key, answer_of(plan, ask, self.order, found.calls, self.given_up, self.ranks))
        drop = nothing
        if form is not None and answer is not None:
            drop = learn(form, self.numbers, key, self.order, answer, self.answer_again, choices)
        if ask is not None and form is not None and form.any is not None:
            form.note_answered(plan, ask, self.order, self.given_up, self.ranks)
        return drop

    def still_right(self, plan: Plan | None) -> Plan | None:
        """The plan, if what was made anew now would be the same."""
        return plan


def still_true(parts: Sequence, order: Sequence[Node]) -> bool:
    """True if no node has got a value, or been released, since `walk.structure` described it."""
    for n, part in zip(order, parts, strict=True):
        if type(part) is tuple:
            kind, pending, *_ = part
            if pending is not (n.value is None) or (kind is not n.kind and kind is not n.kind.out):
                return False
    return True


def _evaluate_by_reference(roots: Sequence[Node]) -> None:
    """One NumPy call per operation, in the order in which they were recorded."""
    for node in needed(roots):
        inputs = node.inputs
        if node.value is not None:
            continue
        origin = source(node)
        if origin is not node:
            settle(node, origin.value)
            continue
        op, aval = node.kind.op, node.kind.out.aval
        if op is ARGUMENT:
            raise without_value()
        assert op.reference is not None, node
        try:
            with ignoring(all="ignore"), one_thread():
                value = op.reference(*map(data, inputs), **op.keywords(node.kind.params))
            value = np.ascontiguousarray(value, aval.dtype).reshape(aval.shape)
        except Exception as error:
            told = refused(error, op, aval)
            if isinstance(told, OutOfRange):
                raise located(told) from None
            if told is not None:
                raise told from None
            raise
        settle(node, value)


def end_recording(now: Recording) -> None:
    """After a gradient: what is recorded from here on is another recording; older pending values wait until used.

    Memory that was lent to this one is given back.  A rule that goes back has looked, or changed a `.grad`.
    """
    now.asked, now.looked = now.asked + 1, now.looked + 1
    if now.tracing:
        return
    _begin_another(now)
    now.began = now.start
    if now.lent:
        give_back(now.lent)


def _begin_another(now: Recording) -> None:
    now.start = number = new_number()
    now.look_at = number + PENDING_LIMIT


def live_small(now: Recording, roots: Sequence[Node] = ()) -> list[Node]:
    """Pending nodes of small results that somebody still holds, beside `roots`; the list of candidates starts anew.

    None in a trace.
    """
    if now.tracing or not now.small:
        return []
    small, now.small = now.small, []
    now.limit = SMALL_LIMIT
    live = dict.fromkeys([node for r in small if (t := r()) is not None and (node := t.node).value is None])
    for root in roots:
        live.pop(root, None)
    return list(live)


asking.evaluate = evaluate
