"""Asking for values: what is pending and needed is compiled (once per shape) and run.

Along with what is asked for are computed
  * small live results (a loss, a metric): weak references to their handles are kept until an ask;
  * reductions and products that gradients or live handles may need again: what stays pending can
    then be recomputed elementwise from stored values, so nothing heavy is done twice.

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
from .families import answered, described
from .known import EXACT_KEYS, VALUE, Ask, name_plan, plan_of
from .loans import give_back
from .misses import note
from .node import Node, RichNode
from .parts import values_in_parts
from .plan import Plan, build, count, data, draw, located, plans, settle, source
from .record import PENDING_LIMIT, SMALL_LIMIT, Recording, asking, new_number, state
from .sizes import Answer, size_of
from .walk import Said, needed, said, still_true, structure, value_inputs

__all__ = ["end_recording", "evaluate", "exact_key", "live_small", "stored_along", "value_of"]


def value_of(node: Node) -> np.ndarray:
    """The value of a node, computed now if it is pending.  Nobody may write to the array.

    It is counted as an ask even when the value is there: Python has looked at it, so what a rule does
    next may depend on it.
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
    try:
        _evaluate(now, roots, ends_recording, MODE.get().tracks if tracks is None else tracks, why)
    finally:
        if ends_recording and now.lent:
            give_back(now.lent)


def _evaluate(
    now: Recording, roots: list[Node], ends_recording: bool, tracks: bool, why: Callable[[], str] | None
) -> None:  # fmt: skip
    if config.eager:
        _evaluate_by_reference(roots)
        return
    ask = Ask(VALUE, tuple(roots))
    is_over = ends_recording and not now.tracing
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
    with Paused():  # nearly all that is made is still in use; the run is left out, which may be long
        plan, order = _planned(ask, live, tracks, why)
    results = plan.run(order)
    plan.commit(order, results)


def _planned(
    ask: Ask, live: Sequence[Node], tracks: bool, why: Callable[[], str] | None
) -> tuple[Plan, Sequence[Node]]:  # fmt: skip
    """The plan that computes pending nodes, and the recording in canonical order."""
    found, family = described(ask, live, tracks, lambda: exact_key(ask, live, tracks)[0])
    entry = None if found is None else found.entry
    if found is not None and entry is not None:
        known_plan = plan_of(entry)
        count(known_plan)
        return known_plan, found.order
    # A node that is held counts as something that may be asked for.
    name, family = found and found.without_nodes(), family and family.without_nodes()
    del found
    told = None if name is None else said(VALUE, ask.results, (), live, (), tracks, ())
    key, roots, number, order, parts = exact_key(ask, live, tracks) if told is None else _key_of(ask, live, told)
    plan: Plan | None = plans.get(key)
    size = size_of(key, family, order) if plan is None else None
    if size is not None:
        plan = size.plan()
    count(plan)
    if plan is not None:
        name_plan(plan, key, name, order, ask)
    else:
        plan, drawn = build(roots, number)
        if still_true(parts, order):
            name_plan(plan, key, name, order, ask)
            if size is not None:
                size.learn(order, Answer(drawn), lambda new: _answer_again(roots, number, new))
        else:
            size = None
        note(*(("value", key) if why is None else ("backward", why())))
    if size is not None:
        size.note_answered(ask, order)
    return plan, order


def exact_key(
    ask: Ask, live: Sequence[Node], tracks: bool
) -> tuple[tuple, list[Node], dict[Node, int], list[Node], list]:
    """The exact key of values, and what it was made of.

    All that is stored, its numbers, the recording in canonical order, and what the key says of its nodes.
    """
    roots = [*ask.results, *live]
    order = needed(roots)
    along = stored_along(order, roots, tracks)
    return _key_of(ask, live, (*structure(order, roots), [*roots, *along]))


def _key_of(ask: Ask, live: Sequence[Node], told: Said) -> tuple[tuple, list[Node], dict[Node, int], list[Node], list]:
    """The key of a recording that was described."""
    parts, number, order, kept = told
    roots = list(dict.fromkeys([*ask.results, *live, *kept]))
    key = ("value", tuple(parts), tuple(sorted([number[r] for r in roots])))
    return key, roots, number, order, parts


EXACT_KEYS[True] = lambda ask, live, tracks: exact_key(ask, live, tracks)[0]


def _answer_again(roots: Sequence[Node], number: dict[Node, int], new: dict[Node, Node]) -> Answer:
    """The answer to a recording in which others stand for its nodes."""
    return Answer(draw([new[r] for r in roots], {new[n]: i for n, i in number.items()}))


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

    A node is live when something outside of this graph refers to it.  Stored are the heavy nodes that
    are live or in the history of gradients, live elementwise nodes over heavy ones that are not
    stored, and pending leaves (an updated parameter).

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
