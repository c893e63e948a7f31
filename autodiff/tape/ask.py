"""The evaluation of pending nodes: a plan is found by hash, by exact key or at any size, or it is made; then it runs.

The same run computes small live results (a loss, a metric), and the reductions and products that gradients or live
handles may need again, so no heavy operation is computed twice.

Only an ask by the user's program ends a recording.  Nodes get their values after the run (of a recording in parts,
after each part), so an error leaves the nodes as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from codegen.blas import one_thread
from codegen.garbage import Paused, ignoring
from codegen.ir import OutOfRange, evaluate_op
from codegen.ir.evaluate import clearer_error

from ..mode import MODE
from ..session import plans
from . import machine
from .families import Form, answered, form_of
from .known import VALUE, Ask, Reading, is_run_natively, native_answer, read
from .misses import note
from .node import Node
from .parts import values_in_parts
from .plan import COUNTS, Answer, Plan, answer_computing, count, data, located, set_value, source
from .program import packed, without_value
from .record import ARGUMENT, PENDING_LIMIT, SMALL_LIMIT, Recording, asking, new_number, state
from .sizes import learn, nothing
from .tier import is_let_pass
from .walk import Description, describe, needed

#: Errors that a run raises because of values.  A host function may raise any error.
RUN_ERRORS = IndexError, MemoryError, np.linalg.LinAlgError


def value_of(node: Node) -> np.ndarray:
    """The value of a node, computed now if it is pending.  The array must not be written to.

    The call counts as an ask even if the node has its value, since the next steps of a rule may depend on the value.
    """
    now = state.now
    if now.unseen and node.number >= now.unseen:
        now.require_trace()
    now.asked += 1
    if node.kind.out.flows:
        now.float_asks += 1
        if now.forward_depth and node.kind.out.requires_grad and MODE.get().tracks:
            now.asked_in_forward.append((now.asked, node))
    if node.value is None:
        origin = source(node)
        if origin.value is None:
            evaluate((node,))
        else:
            set_value(node, origin.value)  # the value of a computed node: nothing runs, and no recording ends
    return data(node)


def evaluate(
    nodes: Iterable[Node], ends_recording: bool = True, tracks: bool | None = None,
    why: Callable[[], str] | None = None, live: Sequence[Node] = (), what: str = "value",
) -> None:  # fmt: skip
    """Compute the values of pending nodes and store them in the nodes.

    live      further nodes that are computed in the same run, unless this raises an error
    tracks    True: values that gradients may read are stored too; None: as the mode says
    why       a function that returns why each backward records these nodes anew;  what: their name in `ad.explain()`
    """
    roots = [n for n in dict.fromkeys(nodes) if n.value is None]
    if not roots:
        return
    now = state.now
    mode = MODE.get()
    tracks = mode.tracks if tracks is None else tracks
    is_over = ends_recording and not now.tracing
    if mode.eager:
        _evaluate_by_reference(roots)
        return
    ask = Ask(VALUE, tuple(roots))
    if answered(ask, now if is_over else None, tracks) is not None:
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
            with Paused():  # nearly all new objects are still in use; the run, which may be long, is outside
                plan = question.known() or question.make()
            results = plan.run(question.order)
            plan.commit(question.order, results)
            return
        except Exception:  # a host function may raise any error
            if not live:
                raise
            live = ()  # try again without the values that nobody asked for


class Question:
    """An ask that looks for its plan, or makes it: for values here, for gradients in `transforms.gradient`.

    ask       the description of the ask for machine code; None: machine code does not look for the plan
    asked     the nodes that are asked for;  live: nodes of small live results, which are computed too
    tracks    True: values that gradients may read are stored
    why, what    a function that returns why each backward records anew, and a name for `ad.explain()`: see `evaluate`
    past      the history that gradients go through;  given: cotangents
    found     the recording as machine code read it, or None;  form, numbers: set if a plan may serve any size
    is_let_pass    True while most programs are new: the plan is not cached
    ranks, places    the numbers of the gradients' groups in canonical order, the place of the first node of each group
    parts, number, order, stored    the description of the recording by `walk.describe`
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
        """The cached plan; None if it has to be made (`make`), or the program is let pass."""
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
            if found is not None:  # without machine code there are no plans for any size
                self.form, self.numbers = form_of(found, key)
            sizes = None if self.form is None else self.form.any
            plan = None if sizes is None else sizes.plan(self.numbers)
        count(plan)
        if plan is not None:
            self.cache(plan, key)
        return plan

    @property
    def released_nodes(self) -> Sequence[Node] | None:
        """The nodes whose history the ask releases: see `known.native_answer`."""
        return ()

    def describe(self) -> None:
        """Describe the recording: set `parts`, `number`, `order` and `stored`."""
        if self.found is not None:
            self.set_description(self.found.description(self.past))
        else:
            self.set_description(describe([*self.asked, *self.live], self.tracks, self.past, self.given))

    def set_description(self, description: Description) -> None:
        """Set the fields that describe the recording."""
        self.parts, self.number, self.order, self.stored = description

    def key(self) -> tuple:
        """The exact key of the recording; `describe` has to be called before."""
        return "value", tuple(self.parts), tuple(sorted([self.number[r] for r in self.stored]))

    def make(self) -> Plan:
        """A new plan for the recording, which is cached if its key still describes the nodes."""
        key = self.key()
        answer = answer_computing(self.stored, self.number)
        plan = answer.plan()
        if still_true(self.parts, self.order):
            self.cache(plan, key, answer)
        note(*((self.what, key) if self.why is None else ("backward", self.why())))
        return plan

    def answer_again(self, new: dict[Node, Node]) -> Answer:
        """The answer to the same recording of other nodes.   new: the other node for each node"""
        return answer_computing([new[r] for r in self.stored], {new[n]: i for n, i in self.number.items()})

    def set_order(self, order: list[Node]) -> None:
        """Set the nodes of the recording in canonical order, after a plan was found by the hash."""
        self.order = order

    def cache(self, plan: Plan, key: tuple, answer: Answer | None = None, choices: Any = None) -> Callable[[], None]:
        """Cache a plan under its exact key, and under the hash of machine code.

        If the plan only has to be run, machine code answers the next such ask, and at any size if plans for that exist.

        answer, choices    of a new plan from which plans for any size may be learnt.  Returns the result of `learn`.
        """
        found, ask, form = self.found, self.ask, self.form
        plan.leaves, plan.parts = self.places, key
        keys = [key] if found is None else [key, found.key]
        for name in keys:
            if plans.get(name) is not plan:
                plans.put(name, plan)
        plan.keys = tuple(dict.fromkeys([*plan.keys[-2:], *keys]))
        if found is not None and ask is not None and is_run_natively(plan, ask):
            plans.put(found.key, native_answer(plan, ask, self.order, found.calls, self.released_nodes, self.ranks))
        drop = nothing
        if form is not None and answer is not None:
            drop = learn(form, self.numbers, key, self.order, answer, self.answer_again, choices)
        if ask is not None and form is not None and form.any is not None:
            form.note_answered(plan, ask, self.order, self.released_nodes, self.ranks)
        return drop

    def still_right(self, plan: Plan | None) -> Plan | None:
        """The plan, if a plan that is made now would be the same; else None."""
        return plan


def still_true(parts: Sequence, order: Sequence[Node]) -> bool:
    """True if no node has been evaluated or released since `walk.structure` described it."""
    for n, part in zip(order, parts, strict=True):
        if type(part) is tuple:
            kind, pending, *_ = part
            if pending is not (n.value is None) or (kind is not n.kind and kind is not n.kind.out):
                return False
    return True


def _evaluate_by_reference(roots: Sequence[Node]) -> None:
    """Evaluate nodes by one NumPy call per operation, in the order of creation."""
    for node in needed(roots):
        inputs = node.inputs
        if node.value is not None:
            continue
        origin = source(node)
        if origin is not node:
            set_value(node, origin.value)
            continue
        op, aval = node.kind.op, node.kind.out.aval
        if op is ARGUMENT:
            raise without_value()
        try:
            with ignoring(all="ignore"), one_thread():
                value = packed(evaluate_op(op, node.kind.params, aval, [*map(data, inputs)]), aval.dtype)
        except OutOfRange as error:
            raise located(error) from None
        except MemoryError as error:
            raise clearer_error(error, op, aval) or error from None
        set_value(node, value)


def end_recording(now: Recording) -> None:
    """End the recording after a gradient: further operations begin a new one, and older pending values stay pending.

    The call counts as an ask, as a rule that takes a gradient reads or changes values.
    """
    now.asked, now.float_asks = now.asked + 1, now.float_asks + 1
    if now.tracing:
        return
    _begin_another(now)
    now.began = now.start


def _begin_another(now: Recording) -> None:
    now.start = number = new_number()
    now.look_at = number + PENDING_LIMIT


def live_small(now: Recording, roots: Sequence[Node]) -> list[Node]:
    """The pending nodes of small live results other than `roots`; the list of candidates is emptied.

    In a trace there are no such results.
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
