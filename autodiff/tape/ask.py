"""Asking for values: what is pending and needed is compiled (once per shape) and run.

Along with what is asked for are computed small live results (a loss, a metric), and the reductions and products that
gradients or live handles may need again: so nothing heavy is done twice.

Only a user's ask ends a recording.  Values are committed after the run: an error leaves the tape as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from codegen.blas import one_thread
from codegen.garbage import Paused, ignoring
from codegen.ir import OutOfRange, refused

from ..config import config
from ..mode import MODE
from ..session import plans
from .families import answered
from .known import VALUE, Ask, Reading, name_plan, read
from .loans import give_back
from .misses import note
from .node import Node, RichNode
from .parts import values_in_parts
from .plan import Plan, build, count, data, draw, located, settle, source
from .record import PENDING_LIMIT, SMALL_LIMIT, Recording, asking, new_number, state
from .sizes import Answer, Size, size_of
from .walk import Said, needed, still_true, structure, value_inputs


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
    why: Callable[[], str] | None = None,
) -> None:  # fmt: skip
    """Compute the values of pending nodes and keep them.

    tracks    whether what gradients of them read is stored along; None: where gradients are on
    why       what says why a backward records them each time
    """
    roots = [n for n in dict.fromkeys(nodes) if n.value is None]
    if not roots:
        return
    now = state.now
    tracks = MODE.get().tracks if tracks is None else tracks
    is_over = ends_recording and not now.tracing
    try:
        if config.eager:
            _evaluate_by_reference(roots)
            return
        ask = Ask(VALUE, tuple(roots))
        if answered(ask, now if is_over else None, now.small if is_over else None, tracks) is not None:
            now.asked += ends_recording and not is_over
            return
        live: list[Node] = []
        start = now.start
        now.asked += ends_recording
        if is_over:
            live = live_small(now, roots)
            _begin_another(now)
        if not now.tracing and values_in_parts([*roots, *live], start):
            return
        question = _Values(ask, live, tracks, why)
        with Paused():  # nearly all that is made is still in use; the run is left out, which may be long
            plan = question.known() or question.make()
        results = plan.run(question.order)
        plan.commit(question.order, results)
    finally:
        if ends_recording and now.lent:
            give_back(now.lent)


class Question:
    """An ask, and how its plan is found or made: of values here, of gradients in `transforms.gradient`.

    ask       None where machine code is not to find it when it is repeated
    live      nodes of small live results, which are asked for as well
    tracks    whether what gradients of the results read is stored
    past      the history that gradients go through
    found     the recording as machine code read it, if it did;  size: set where it is one of many
    ranks, places    the groups of gradients in canonical order, the place of the first node of each
    said()    the recording as Python describes it;  take(said): take what was said of it, by whomever
    key()     its exact key, then;  make(): a new plan, where the plan is_kept
    """

    ask: Ask | None
    live: Sequence[Node]
    tracks: bool
    said: Callable[[], Said]
    take: Callable[[Said], None]
    key: Callable[[], tuple]
    make: Callable[[], Plan]

    past: Sequence[Node] = ()
    found: Reading | None = None
    size: Size | None = None
    is_kept = True
    ranks: Sequence[int] = ()
    places: tuple[int, ...] = ()

    def known(self) -> Plan | None:
        """The plan that answers; None where it is to be made, or none can be kept."""
        found = None if self.ask is None else read(self.ask, self.live, self.tracks)
        self.found = found
        plan = None if found is None else self.still_right(found.plan)
        if found is not None and plan is not None:
            count(plan)
            self.recognise(found.order)
            return plan
        passed = None if found is None else self.let_pass(found)
        if passed is not None:
            return passed
        self.describe()
        key = self.key()
        plan = plans.get(key)
        plan = plan and self.still_right(plan)
        if plan is None:
            if self.why_unkept() is not None:
                self.is_kept = False
                return None
            self.size = size_of(key, found)
            plan = None if self.size is None else self.size.plan()
        count(plan)
        if plan is not None:
            self.name(plan, key, found)
            self.note_size(plan)
        return plan

    def note_size(self, plan: Plan) -> None:
        """Have machine code answer such an ask at other sizes, too."""
        if self.ask is not None and self.size is not None:
            self.size.note_answered(plan, self.ask, self.order, self.given_up, self.ranks)

    @property
    def given_up(self) -> Sequence[Node] | None:
        """The part of the history that is given up with the ask: see `known.answer_of`."""
        return ()

    def describe(self) -> None:
        """Have the recording described."""
        self.take(self.said() if self.found is None else self.found.said(self.past))

    def recognise(self, order: list[Node]) -> None:
        """A plan of the hash was found: these are its nodes."""
        self.order = order

    def name(self, plan: Plan, key: tuple, found: Reading | None) -> None:
        """Find a plan from now on."""
        plan.leaves = self.places
        name_plan(plan, key, found, self.order, self.ask, self.given_up, self.ranks)

    def still_right(self, plan: Plan | None) -> Plan | None:
        """The plan, if what was made anew now would be the same."""
        return plan

    def let_pass(self, found: Reading) -> Plan | None:
        """A plan that nobody keeps, where programs are new one after the other."""
        return None

    def why_unkept(self) -> Callable[[], str] | None:
        """The reason why no plan can be kept; None where one can."""
        return None


class _Values(Question):
    """An ask for values.   why: what says why a backward records them each time"""

    ask: Ask

    def __init__(
        self, ask: Ask, live: Sequence[Node], tracks: bool, why: Callable[[], str] | None = None
    ) -> None:
        self.ask, self.live, self.tracks, self.why = ask, live, tracks, why

    def said(self) -> Said:
        roots = [*self.ask.results, *self.live]
        order = needed(roots)
        along = stored_along(order, roots, self.tracks)  # a node that is held counts as one that may be asked for
        return *structure(order, roots), along

    def take(self, said: Said) -> None:
        self.parts, self.number, self.order, self.kept = said
        self.kept = list(dict.fromkeys([*self.ask.results, *self.live, *self.kept]))

    def key(self) -> tuple:
        return "value", tuple(self.parts), tuple(sorted([self.number[r] for r in self.kept]))

    def make(self) -> Plan:
        key = self.key()
        plan, drawn = build(self.kept, self.number)
        if still_true(self.parts, self.order):
            self.name(plan, key, self.found)
            if self.size is not None:
                self.size.learn(self.order, Answer(drawn), self._answer_again)
        else:
            self.size = None
        note(*(("value", key) if self.why is None else ("backward", self.why())))
        self.note_size(plan)
        return plan

    def _answer_again(self, new: dict[Node, Node]) -> Answer:
        """The answer to a recording in which others stand for its nodes."""
        return Answer(draw([new[r] for r in self.kept], {new[n]: i for n, i in self.number.items()}))


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


def _own_references() -> int:
    """References to a node while `stored_along` looks at it: the list, the loop variable, the argument of the count.

    Since Python 3.14 an argument borrows what a variable holds, and is none.
    """
    return max([sys.getrefcount(thing) for thing in [object()]])


_OWN_REFERENCES = _own_references()


def stored_along(
    order: Sequence[Node], roots: Sequence[Node], tracks: bool, past: AbstractSet[Node] = frozenset()
) -> list[Node]:
    """Pending nodes that must be stored with `roots` so that no reduction or product is ever redone.

    Stored are the heavy nodes that are live (something outside of this graph refers to them) or in the history of
    gradients, live elementwise nodes over heavy ones that are not stored, and pending leaves (an updated parameter).

    tracks   whether gradients may be asked for later
    past     the history that gradients are asked of; the caller holds it in a list and in this set
    """
    links = _links(order)
    asked = set(roots)
    cheap: set[Node] = set()  # can be recomputed elementwise from stored values
    keep: list[Node] = []
    for node in order:
        if node.value is not None or node in asked:
            cheap.add(node)
        elif type(node) is RichNode and node.call is not None and node.body is None:
            continue  # a call of several results, which have the values
        else:
            kind = node.kind
            inputs = node.inputs if type(node) is Node else value_inputs(node)
            flows = all([i in cheap for i in inputs]) and not kind.op.heavy
            if node.leaf is not None or (kind.op.heavy and tracks and kind.out.requires_grad):
                stored = True
            elif flows:
                stored = False
            else:
                extra = sys.getrefcount(node) - links.get(node, 0) - (node in links) - 2 * (node in past)
                stored = extra > _OWN_REFERENCES
            if stored:
                keep.append(node)
            if stored or flows:
                cheap.add(node)
    return keep


def _links(order: Sequence[Node]) -> dict[Node, int]:
    """The number of times that each node is an input of a pending one.

    A function of its own: a loop variable left behind in `stored_along` would count as a holder.
    """
    links: dict[Node, int] = {}
    for node in order:
        for i in node.inputs if node.value is None else ():
            links[i] = links.get(i, 0) + 1
    return links


asking.evaluate = evaluate
