"""Applying the rule of a custom function: its backward, in terms of tensors; host rules go to `host_rules`.

A plan that serves other numbers has the rules of its backward run under watch:

    watches = Watches(past)
    with watches.open():
        gradients = emit(...)          # rules get watched numbers (`custom.watching`)
    watches.keys()                     # what they looked at counts by value from now on
    plan.formulas = watches.formulas(plan.gather)

The rule of an operation is decided by its kind (`rule_programs`).  A user's rule may read anything: a key says what it
reads, the numbers of the call and values that it has by name (`Call.recorded_key`).  The rule of |x| looks at its
cotangent: a key says what it sees (`ops.cancelling.seen_by`).  Where there is a key, the rule runs twice, and then what
it recorded is put down again, until a method is registered that it relies on:

    tensors = again(programs, key, given, run)        # run() runs the rule, given these nodes

A rule that asks for a value, or reads what no key says, always runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from codegen.lazily import later

from ..custom.keys import users_methods
from ..dispatch import note, observed
from ..errors import ConcretizationError, GradientError
from ..mode import MODE
from ..session import namespace
from ..tape.leaves import leaf
from ..tape.misses import note as explained
from ..tape.node import CONSTANT, Node, new_number
from ..tape.plan import Formulas, source
from ..tape.record import state
from ..tensor import Tensor, handle
from .hooks import call_nested
from .rule_programs import RuleProgram, RulePrograms

if TYPE_CHECKING:
    from ..custom import boundary, host, reads
    from ..custom import call as calls
    from ..custom import watching as watches
    from ..custom.call import CustomCall
    from ..custom.watching import Watching
    from . import host_rules, rule_values
else:  # for who has rules of their own
    boundary = later("autodiff.custom.boundary")
    host = later("autodiff.custom.host")
    reads = later("autodiff.custom.reads")
    host_rules = later("autodiff.transforms.host_rules")
    rule_values = later("autodiff.transforms.rule_values")
    calls = later("autodiff.custom.call")
    watches = later("autodiff.custom.watching")

__all__ = ["Watches", "again", "call_rule", "found_out", "rules_that_ask", "watching_at"]


#: Rules that were found to ask for values: they run each time, and each was reported once.
found_out: dict[ref[Any], str] = {}


class _AskedRules(threading.local):
    """The rules that asked for a value in this thread, while somebody listens."""

    rules: list[Any] | None = None


_asking = _AskedRules()


@contextmanager
def rules_that_ask() -> Iterator[list[Any]]:
    """Collects the rules that ask for a value inside, not those of a backward inside a rule."""
    before, _asking.rules = _asking.rules, []
    try:
        yield _asking.rules
    finally:
        _asking.rules = before


def call_rule(node: Node, cotangents: dict[int, Tensor], wanted: set[Node]) -> list[Tensor | None]:
    """The cotangents of a call's inputs, in the order of the boundary's `flow`."""
    call: CustomCall = node.call
    flow = rule_values.flow_of(node)
    if call.transparent:
        return [cotangents.get(slot) for slot in range(len(flow))]
    rule = call.rule()
    note(call.function, "rules", call.method, call.types)
    if isinstance(call, boundary.MappedCall):
        return boundary.MappedCall.pull_each(node, cotangents, wanted)
    for place, name in call.closed():
        if node.inputs[place] in wanted:
            reads.refuse_closed(name, "backward", call.function.__name__, call.method.place, call.line)
    if rule is None:
        raise GradientError(call.function.explain_missing_rule(call.method, call.types, call.line))
    places = frozenset([p for p in flow if node.inputs[p] in wanted])
    if rule.host:
        bars = host_rules.host_backward(node, rule, cotangents, places)
    else:
        asked = state.now.asked
        try:
            bars = _on_tensors(node, rule, cotangents, places)
        except host.Unlearnt:
            raise
        except ConcretizationError:
            if not state.now.tracing or state.now.asked == asked:
                raise
            _report(rule)
            bars = host_rules.host_backward(node, rule, cotangents, places)
    return [bars.get(p) for p in flow]


def _on_tensors(node: Node, rule: Any, cotangents: dict[int, Tensor], places: frozenset[int]) -> dict[int, Tensor]:
    """Run a rule: what it computes is recorded."""
    call: CustomCall = node.call
    needs = rule_values.needs_of(call, places.__contains__)
    where = f"{call.function.__name__} (backward at {rule.place}, called at {call.line})"
    watching = watching_at(node)
    own, run = (call, rule.implementation) if watching is None else (watching.call, watching.rule)
    tensor_at, none = rule_values.tensors_of(node), rule_values.zeros_or_none
    ctx = rule_values.context_of(own, tensor_at, needs, places.__contains__, node)
    given = rule_values.by_output(
        call,
        lambda slot: handle(cotangents[slot].node) if slot in cotangents else none(call, call.avals[slot]),
        lambda place: none(call, node.inputs[place].kind.out.aval),
    )
    now = state.now
    asked, looked = now.asked, now.looked - now.bounded
    given_back = rule_values.call_user(partial(call_nested, run), rule, call, tensor_at, (ctx, *given), where)
    nodes = {p: node.inputs[p] for p in rule_values.flow_of(node)}
    bars = rule_values.gradients_by_place(call, given_back, needs, nodes, places, where)
    if now.asked != asked:
        _report(rule)
    if now.looked - now.bounded == looked:
        return bars
    sources = [*[g.node for g in cotangents.values()], *nodes.values()]
    which = f"a gradient that the backward of {call.function.__name__} ({rule.place}) made of asked values"
    return rule_values.without_known_history(bars, rule, node, sources, which)


def _report(rule: Any) -> None:
    """Say once that a rule asks for values."""
    if _asking.rules is not None and rule not in _asking.rules:
        _asking.rules.append(rule)
    if ref(rule) not in found_out:
        found_out[ref(rule, found_out.pop)] = (
            f"the {rule.kind} of {rule.function.__name__} ({rule.place}) asks for values, or goes back itself: it runs"
            " each time; with host=True it gets arrays, written in ad.* operations it is compiled"
        )
        if state.now.tracing:  # a backward that is recorded says it itself
            explained("rule", found_out[ref(rule)])
        import logging  # most rules do not

        logging.getLogger("autodiff").info(found_out[ref(rule)])


class _Open(threading.local):
    """The watches of the rules that run in this thread, innermost backward last."""

    def __init__(self) -> None:
        self.now: dict[Node, Watching] = {}


_open = _Open()


def watching_at(node: Node) -> Watching | None:
    """The watch on the rule of this boundary; None: it gets plain numbers."""
    return _open.now.get(node)


@contextmanager
def _opened(watching: dict[Node, Watching]) -> Iterator[None]:
    before, _open.now = _open.now, watching
    try:
        yield
    finally:
        _open.now = before
        for w in watching.values():
            w.watch.is_open = False


#: Stands for an input that is computed anew each time, so that a plan holds nobody's arrays.
_NOTHING = leaf(np.zeros(0)).node


class Watches:
    """The watches of all calls in a history, whose keys were asked for just now.

    calls      those that read numbers: the structure of each, and its numbers, as they were before its rule ran
    by_node    the watches
    """

    def __init__(self, past: Sequence[Node]) -> None:
        reading = [n for n in past if n.call is not None and n.call.numbers]
        self.calls = {n: (n.call.structure, list(n.call.numbers)) for n in reading}
        found = [(n, watches.watched(n.call)) for n in self.calls]
        self.by_node = {n: w for n, w in found if w is not None}

    def open(self) -> Any:
        """A context in which rules get watched numbers."""
        return _opened(self.by_node)

    def see_returned(self, gradients: Sequence[Any]) -> None:
        """A gradient that is nothing but what a rule read is no result of the graph: it counts by value."""
        nodes = [source(g.node) for g in gradients if g is not None]
        for w in self.by_node.values():
            for node in nodes:
                if node in w.watch.leaves:
                    w.watch.see(w.watch.leaves[node][0])

    def see_all(self) -> None:
        """Every number counts by value."""
        for w in self.by_node.values():
            w.watch.looked.update(range(len(w.watch.numbers)))

    def keys(self) -> dict[Node, Any]:
        """The keys of the calls, now that it is known what their rules look at: that counts by value from now on."""
        keys = {}
        for node, (structure, numbers) in self.calls.items():
            watching = self.by_node.get(node)
            rule = node.call.rule()
            if rule is not None:
                calls.note_looks(structure, range(len(numbers)) if watching is None else watching.watch.looked)
        for node, (structure, numbers) in self.calls.items():
            keys[node] = calls.key_of(structure, numbers, calls.LOOKS.get(structure, ()))
        return keys

    def looked_at_array(self) -> bool:
        """True if a rule has looked at the contents of an array."""
        return any(type(w.watch.numbers[i]) is np.ndarray for w in self.by_node.values() for i in w.watch.looked)

    def let_go(self, gathered: Sequence[Any]) -> tuple:
        """A plan's inputs without what the rules read: formulas put the present values in their places."""
        mine = {x for w in self.by_node.values() for x in w.watch.leaves}
        return tuple([_NOTHING if isinstance(x, Node) and x in mine else x for x in gathered])

    def formulas(self, gathered: Sequence[Any], number: dict[Node, int]) -> Formulas | None:
        """Formulas of the inputs of a plan for other numbers; None when they do not depend on any."""
        if not self.by_node:
            return None
        return Formulas(gathered, {number[n]: w.watch for n, w in self.by_node.items()}) or None


#: By key: True for a rule that ran once, False for one that runs each time, or its program.
_rules = namespace("rule")


def again(
    programs: RulePrograms | None, key: Any, given: Sequence[Node], run: Callable[[], Sequence[Tensor | None]]
) -> Sequence[Tensor | None]:
    """run(), or what it recorded the last time behind such nodes.

    key      all that decides what it records, beside the given nodes and grad mode; None: no key says it
    given    the nodes that the rule gets
    """
    now = state.now
    if programs is None or key is None or now.lines is not None or now.captures is not None:
        return run()
    places: dict[Node, int] = {}
    wires = tuple([places.setdefault(n, len(places)) for n in given])
    nodes = list(places)
    told = tuple([n.kind if n.kind.op is CONSTANT else n.kind.out for n in nodes])
    key = (key, wires, told, MODE.get().tracks, now.tracing > 0)
    known = _rules.get(key)
    if type(known) is RuleProgram:
        return [None if n is None else handle(n) for n in programs.put(known, nodes)]
    if known is None:
        _rules.put(key, True)
    return _learnt(key, places, run) if known else run()


def _learnt(
    key: Any, places: dict[Node, int], run: Callable[[], Sequence[Tensor | None]]
) -> Sequence[Tensor | None]:
    """Run a rule, and keep what it records, if that can be put down again."""
    asked, start = state.now.asked, new_number()
    program = RuleProgram(0, ())
    with observed() as choices:
        found = run()
    is_decided = state.now.asked == asked and not users_methods(choices)
    if is_decided and program.learn(found, places, len(places), start, choices, is_users=True):
        choices.on_change(lambda: _rules.pop(key))
        _rules.put(key, program, len(places))
    else:
        _rules.put(key, False)
    return found
