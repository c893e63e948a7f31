"""Call the backward rule of a custom function: on tensors, or on arrays if the rule runs on the host.

To make a plan that serves other numbers too, rules run under watch (`Watches.open`): they get watched numbers
(`custom.watching`).  A number that a rule looks at counts by value in the key from then on (`Watches.keys`).

A user's rule may read anything: a key says what it reads (`Call.recorded_key`).  A rule with a key runs twice; after
that, its recorded nodes are replayed (`run_or_replay`).  A rule that evaluates a tensor, or reads what no key can say,
always runs.  The rule of |x| looks at how its cotangent was recorded, so that a whole pass is replayed
(`pass_or_replay`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from codegen.lazily import later

from ..dispatch import note
from ..errors import ConcretizationError, GradientError
from ..mode import MODE
from ..ops.primitive import zeros_of
from ..ops.template import run_and_template
from ..session import namespace
from ..tape.ask import evaluate, value_of
from ..tape.leaves import leaf
from ..tape.misses import note as explained
from ..tape.node import CONSTANT, Node, data_node
from ..tape.plan import Formulas, source
from ..tape.record import state
from ..tape.walk import by_number, gradient_inputs, reached
from ..tensor import Tensor, handle
from .hooks import call_nested
from .rule_programs import RuleProgram, RulePrograms

if TYPE_CHECKING:
    from ..custom import boundary, host, reads
    from ..custom import call as calls
    from ..custom import watching as watches
    from ..custom.call import CustomCall
    from ..custom.watching import Watching
    from . import rule_values
else:  # imported on first use: only programs with custom rules need them
    boundary = later("autodiff.custom.boundary")
    host = later("autodiff.custom.host")
    reads = later("autodiff.custom.reads")
    rule_values = later("autodiff.transforms.rule_values")
    calls = later("autodiff.custom.call")
    watches = later("autodiff.custom.watching")

#: Rules that evaluated a tensor: they run each time, and each was reported once.
evaluating_rules: dict[ref[Any], str] = {}


def call_rule(node: Node, cotangents: dict[int, Tensor], wanted: set[Node]) -> list[Tensor | None]:
    """The cotangents of a call's inputs, in the order of the boundary's `flow`.   wanted: inputs that need one"""
    call: CustomCall = node.call
    flow = rule_values.flow_of(node)
    if call.transparent:
        return [cotangents.get(slot) for slot in range(len(flow))]
    rule = call.rule()
    note(call.function, "rules", call.method, call.types)
    if call.each is not None:
        return call.each.pull(node, cotangents, wanted)
    reads.refuse_closed(call, "backward", lambda place: node.inputs[place] in wanted)
    if rule is None:
        raise GradientError(call.function.explain_missing_rule(call.method, call.types, call.line))
    places = frozenset([p for p in flow if node.inputs[p] in wanted])
    if rule.host:
        bars = _on_arrays(node, rule, cotangents, places)
    else:
        asked = state.now.asked
        try:
            bars = _on_tensors(node, rule, cotangents, places)
        except ConcretizationError as error:
            if not state.now.tracing or state.now.asked == asked or isinstance(error, host.Unlearnt):
                raise
            _report(rule)
            bars = _on_arrays(node, rule, cotangents, places)
    return [bars.get(p) for p in flow]


def _on_tensors(node: Node, rule: Any, cotangents: dict[int, Tensor], places: frozenset[int]) -> dict[int, Tensor]:
    """Run a rule on tensors: its computation is recorded."""
    call: CustomCall = node.call
    watching = watching_at(node)
    own, run = (call, rule.implementation) if watching is None else (watching.call, watching.rule)
    flow = {p: node.inputs[p] for p in rule_values.flow_of(node)}
    now = state.now
    asked, looked = now.asked, now.float_asks - now.covered_asks
    bars = rule_values.gradients_of(
        call, rule, partial(call_nested, run), own, partial(rule_values.tensor_at, node),
        {slot: handle(bar.node) for slot, bar in cotangents.items()},
        lambda place: zeros_of(call.avals[-1 - place] if place < 0 else node.inputs[place].kind.out.aval),
        flow, places, node,
    )  # fmt: skip
    if now.asked != asked:
        _report(rule)
    if now.float_asks - now.covered_asks == looked:
        return bars
    sources = [*[g.node for g in cotangents.values()], *flow.values()]
    which = f"a gradient that the backward of {call.function.__name__} ({rule.place}) made of asked values"
    return rule_values.without_known_history(bars, rule, node, sources, which)


# ---------------------------------------------------------------- rules on arrays


class _HostRun:
    """The work of a host backward when the graph runs.  Equal objects do equal work, up to the call of the token.

    slots    the outputs that have cotangents, in order
    places   the inputs that need gradients;  flow: by place, nodes with the avals of the inputs that gradients flow to
    """

    def __init__(
        self, rule: Any, call: CustomCall, by_token: bool, slots: tuple[int, ...], places: tuple[int, ...],
        flow: dict[int, Node],
    ) -> None:  # fmt: skip
        self.rule = rule
        self.call = None if by_token else call
        self.slots = slots
        self.places = places
        self.flow = flow
        self.key = (rule, slots, places, call.shape, None if by_token else call)
        self.__qualname__ = f"{call.function.__name__} backward"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HostRun) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Token (if any), cotangents, the boundary's inputs  ->  the gradients of `places`."""
        call, rule = self.call, self.rule
        if call is None:
            call, arrays = boundary.call_of(int(arrays[0])), arrays[1:]
        with host.in_own_recording():
            held: Sequence[Any] = arrays if rule.host else [leaf(np.array(a, order="C")) for a in arrays]
            values = held[len(self.slots) :]
            tracked = values[len(values) - len(call.avals) :]

            def value_at(place: int) -> Any:
                return tracked[-1 - place] if place < 0 else values[place]

            def zeros_at(place: int) -> Any:
                like = call.avals[-1 - place] if place < 0 else values[place]
                zeros = np.zeros(like.shape, like.dtype)
                return zeros if rule.host else leaf(zeros)

            bars = dict(zip(self.slots, held, strict=False))
            found = rule_values.gradients_of(
                call, rule, rule.implementation, call, value_at, bars, zeros_at, self.flow, self.places
            )
            evaluate([g.node for g in found.values()])
            avals = [self.flow[p].kind.out.aval for p in self.places]
            return [
                value_of(found[p].node) if p in found else np.zeros(aval.shape, aval.dtype)
                for p, aval in zip(self.places, avals, strict=True)
            ]


def _on_arrays(node: Node, rule: Any, cotangents: dict[int, Tensor], places: frozenset[int]) -> dict[int, Tensor]:
    """The gradients of a rule that runs in Python on values, each time, as one operation of the graph.

    The operation finds its call by a token among the boundary's inputs, so that graphs are equal; in a trace the call
    is part of the graph.  A rule that was registered after the call runs at once.
    """
    call: CustomCall = node.call
    slots, wanted = tuple(sorted(cotangents)), tuple(sorted(places))
    flow = {p: node.inputs[p] for p in rule_values.flow_of(node)}
    by_token = rule.host and call.token is not None
    alike = {p: data_node(i.kind, None) for p, i in flow.items()}  # nodes without history: they keep no graph alive
    run = _HostRun(rule, call, by_token, slots, wanted, alike)
    bars = [cotangents[slot] for slot in slots]
    inputs = [*bars, *map(handle, node.inputs)]
    if by_token or state.now.tracing:
        token = [handle(node.inputs[call.token])] if by_token and call.token is not None else []
        found = boundary.host_call(run, [*token, *inputs], [flow[p].kind.out.aval for p in wanted])
    else:
        found = [leaf(np.array(g, order="C")) for g in run(*host.arrays_of(inputs))]
    sources = [*[b.node for b in bars], *flow.values()]
    which = f"a gradient that the host backward of {call.function.__name__} ({rule.place}) made"
    return rule_values.without_known_history(dict(zip(wanted, found, strict=True)), rule, node, sources, which)


# ---------------------------------------------------------------- rules that evaluate


def _report(rule: Any) -> None:
    """Report, once for each rule, that it evaluates a tensor."""
    if _current.asking is not None and rule not in _current.asking:
        _current.asking.append(rule)
    if ref(rule) not in evaluating_rules:
        evaluating_rules[ref(rule, evaluating_rules.pop)] = (
            f"the {rule.kind} of {rule.function.__name__} ({rule.place}) asks for values, or goes back itself: it runs"
            " each time; with host=True it gets arrays, written in ad.* operations it is compiled"
        )
        if state.now.tracing:  # outside of a trace, the backward being recorded notes the reason
            explained("rule", evaluating_rules[ref(rule)])
        import logging  # only here: most programs have no such rule

        logging.getLogger("autodiff").info(evaluating_rules[ref(rule)])


class _CurrentBackward(threading.local):
    """The innermost backward in this thread: its watches by boundary, and the rules that evaluated a tensor."""

    by_node: Mapping[Node, Watching] = {}
    asking: list[Any] | None = None


_current = _CurrentBackward()


def watching_at(node: Node) -> Watching | None:
    """The watch on the rule of this boundary; None: the rule gets plain numbers."""
    return _current.by_node.get(node)


#: A placeholder for a plan input that formulas compute anew each time, so that the plan holds no user's arrays.
_NOTHING = leaf(np.zeros(0)).node


class Watches:
    """The watches of all calls in a history, `by_node`, and in `asking` the rules that evaluated a tensor.

    calls      for each call that reads numbers: its structure, and the numbers as they were before its rule ran
    """

    def __init__(self, past: Sequence[Node]) -> None:
        reading = [n for n in past if n.call is not None and n.call.numbers]
        self.calls = {n: (n.call.structure, list(n.call.numbers)) for n in reading}
        found = [(n, watches.watched(n.call)) for n in self.calls]
        self.by_node = {n: w for n, w in found if w is not None}
        self.asking: list[Any] = []

    @contextmanager
    def open(self, is_watched: bool = True) -> Iterator[None]:
        """Give watched numbers to rules inside, and collect in `asking` the rules that evaluate a tensor."""
        before = _current.by_node, _current.asking
        _current.by_node, _current.asking = self.by_node if is_watched else {}, self.asking
        try:
            yield
        finally:
            _current.by_node, _current.asking = before
            for w in self.by_node.values():
                w.watch.is_open = False

    def see_returned(self, gradients: Sequence[Any]) -> None:
        """Mark a number as looked at if a gradient is that number itself: it then counts by value in the key."""
        nodes = [source(g.node) for g in gradients if g is not None] if self.by_node else ()
        for w in self.by_node.values():
            for node in nodes:
                if node in w.watch.leaves:
                    w.watch.see(w.watch.leaves[node][0])

    def see_all(self) -> None:
        """Count every number by value, and watch none from now on."""
        for w in self.by_node.values():
            w.watch.is_open = False
            w.watch.looked.update(range(len(w.watch.numbers)))

    def keys(self) -> dict[Node, Any]:
        """The keys of the calls, in which the numbers that rules looked at count by value, now and later."""
        keys = {}
        for node, (structure, numbers) in self.calls.items():
            watching, known = self.by_node.get(node), calls.LOOKS.get(structure, ())
            looked = range(len(numbers)) if watching is None else watching.watch.looked
            if looked and node.call.rule() is not None:
                calls.LOOKS.put(structure, tuple(sorted({*known, *looked})))
        for node, (structure, numbers) in self.calls.items():
            keys[node] = calls.key_of(structure, numbers, calls.LOOKS.get(structure, ()))
        return keys

    def looked_at_array(self) -> bool:
        """True if a rule has looked at the contents of an array."""
        return any(type(w.watch.numbers[i]) is np.ndarray for w in self.by_node.values() for i in w.watch.looked)

    def without_read_values(self, gathered: Sequence[Any]) -> tuple:
        """A plan's inputs without the values that rules read: formulas put the current values in their places."""
        mine = {x for w in self.by_node.values() for x in w.watch.leaves}
        return tuple([_NOTHING if isinstance(x, Node) and x in mine else x for x in gathered])

    def formulas(self, gathered: Sequence[Any], number: dict[Node, int]) -> Formulas | None:
        """Formulas for the inputs of a plan from other numbers; None if no input depends on a number."""
        return Formulas(gathered, {number[n]: w.watch for n, w in self.by_node.items()}) or None


#: Rule programs by key.  A program without a template: its rule has run once so far, or runs each time.
_rules = namespace("rule")


def run_or_replay(
    programs: RulePrograms | None, key: Any, given: Sequence[Node], run: Callable[[], Sequence[Tensor | None]]
) -> Sequence[Tensor | None]:
    """The results of run(): by calling it, or by replaying the nodes that it recorded last time, on the nodes `given`.

    key      all that decides what run() records, beside the given nodes and the mode; None: no key can say it
    """
    now = state.now
    if programs is None or key is None:
        return run()
    places: dict[Node, int] = {}
    wires = tuple([places.setdefault(n, len(places)) for n in given])
    nodes = list(places)
    told = tuple([n.kind if n.kind.op is CONSTANT else n.kind.out for n in nodes])
    key = (key, wires, told, MODE.get().tracks, now.tracing > 0)
    program = _rules.get(key)
    if program is None:
        _rules.put(key, RuleProgram(0, ()), len(nodes))
    elif program.template is not None:
        return programs.replay(program.template, nodes)
    elif not program.is_never:
        found, made = run_and_template(run, nodes, is_users=True)
        program.template, program.is_never = made, made is None
        if made is not None:
            made.choices.on_change(lambda: _rules.pop(key))
        return found
    return run()


def pass_or_replay(
    sort: str, past: Sequence[Node], ends: Sequence[Node], targets: Sequence[Node], tracks: bool,
    run: Callable[[], Sequence[Tensor | None]],
) -> Sequence[Tensor | None]:  # fmt: skip
    """The results of run(), a pass whose rules may look at how tensors were recorded, as by `run_or_replay`.

    The kinds and the wiring of all nodes below the ends decide what the pass records, beside the calls of custom
    functions in the history.

    past    the history that the pass goes through;  ends: its results, and the tangents or cotangents that it is given
    """
    programs = RulePrograms.for_pass(tracks)
    calls = {n: n.call.recorded_key() if watching_at(n) is None else None for n in past if n.call is not None}
    if programs is None or None in calls.values() or any([n.hooks for n in past]):
        return run()
    below = sorted(reached(ends, lambda n: n.inputs), key=by_number)
    wired = [(n, *n.inputs, *gradient_inputs(n)) for n in below]
    kinds = [(n.kind, type(n), n.slot, n.body, calls.get(n), len(ns)) for n, ns in zip(below, wired, strict=True)]
    key = (sort, tuple(kinds), len(past), tracks)
    return run_or_replay(programs, key, [*past, *itertools.chain(*wired), *ends, *targets], run)
