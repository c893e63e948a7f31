"""Forward mode: from tangents of arguments to tangents of results, over the same tape.

The JVP rule of an operation gives the tangent of its result.  Where there is none, as for most custom functions, the
VJP is transposed: `u ↦ vjp(u)` is linear, and the VJP of that map at the tangents is the tangent of the result.

The tangent of a size such as |x| has a kink.  Its product with the size itself has none: this product is the transpose
of the size's VJP at |x| u, in which the size cancels (see `ops.cancelling`).  The same holds for a multiple.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from .. import tree
from ..mode import MODE
from ..ops import as_tensor, multiply, zeros_like
from ..ops.cancelling import cancelling, is_move, split
from ..ops.conversion import cast_to
from ..ops.primitive import added, spread_to, zeros_of
from ..ops.shaping import reshaped
from ..tape.ask import evaluate
from ..tape.lines import visit_rules
from ..tape.modes import within
from ..tape.node import Node, Primitive
from ..tape.record import DETACH, identity_of, record, result_handle, state
from ..tape.walk import gradient_inputs, history
from ..tensor import AbstractTensor, Tensor, handle
from ..tracebacks import border
from .anomaly import is_watching, watch_pushed
from .arguments import (
    is_differentiable,
    name_of,
    paired,
    plain_results,
    run_recorded,
    tracks_outside,
    with_directions,
)
from .backward_pass import looking, untracked
from .reverse import ReversePass, initial_state, inputs_at, mark_looking, recording_rules, sources_at
from .rule_programs import PUSH, RulePrograms, missing_rule
from .rule_values import push_rule
from .rules import call_rule, pass_or_replay, run_or_replay

#: Flag of a node, by its place in the history: Python, not machine code, visits its readers.  Machine code has the
#: same flag (`recording_rules`).
_LOOK = 1
#: The most operations between a size and another in which its kink may cancel.
_OLDEST = 8


#: The value that a pass finds for a node: a tensor, a sequence of them for a call with several outputs, or None.
Found = Tensor | Sequence[Any] | None


class ForwardPass:
    """One pass forward: rules run over a history by rising creation number, from the values given for some nodes.

    found     by place in the history, as flags and wires: the value that a node's rule made; None if no input had one
    results   the values found for the nodes that the caller asked for
    """

    #: True if masked values (inside a custom forward) stay masked: `found` then has the handle, not the node.
    keeps_masks = False

    def __init__(
        self, order: Sequence[Node], given: Mapping[Node, Tensor], results: Sequence[Node], sort: int, tracks: bool,
        looks: Collection[Primitive] = (),
    ) -> None:  # fmt: skip
        """Visit the nodes.

        sort    the bits of the rules' word for the sort of rule;  tracks: the nodes of rules track gradients
        looks   the operations whose rules look at how their tangents were recorded
        """
        self.order, self.tracks = order, tracks
        self.programs = programs = None if state.now.forward_depth else RulePrograms.for_pass(tracks)
        made = initial_state(programs, order, (), (*given, *results))
        self.wires, self.found, self.flags, *places = made
        if looks:
            mark_looking(self.flags, order, looks)
        for at, t in zip(places, given.values(), strict=False):
            self._put(at, t)
        if programs is not None:
            rules = programs.word | sort, programs.used, programs.stamp
            run = programs.native.run_forward_pass
            programs.walk_natively(run, order, made, range(len(order)), rules, self.visit_node)
        elif sort == PUSH and state.now.lines is not None:
            visit_rules(state.now.lines, order, range(len(order)), self.visit_node, "jvp")
        else:
            for at in range(len(order)):
                self.visit_node(at)
        asked = zip(results, places[len(given) :], strict=True)
        self.results = [given.get(n) if at < 0 else self._at(at, result_handle) for n, at in asked]

    def _put(self, at: int, found: Any) -> None:
        if at < 0 or found is None:
            return
        if not isinstance(found, Tensor):
            self.flags[at] |= _LOOK
        elif not (found.masked and self.keeps_masks and self.programs is None):
            found = found.node
        self.found[at] = found

    def _at(self, at: int, handle_of: Callable[..., Tensor] = handle) -> Any:
        """The value found at a place, as a new handle."""
        found = None if at < 0 else self.found[at]
        return (
            handle_of(found) if isinstance(found, Node)
            else handle_of(found.node, found.masked) if isinstance(found, Tensor)
            else found
        )  # fmt: skip

    def visit_node(self, at: int) -> None:
        """Visit one node."""
        if self.found[at] is None:
            there = [self._at(i) for i in inputs_at(self.wires, at)]
            if any([t is not None for t in there]):
                self._put(at, self.value_for(at, self.order[at], there))

    def value_for(self, at: int, node: Node, there: Sequence[Any]) -> Found:
        """The value of a node, from those of its inputs."""
        raise NotImplementedError


class TangentPass(ForwardPass):
    """One pass forward whose values are tangents: `results` are those of the nodes asked for (None: zero).

    kinks     the tangents with a kink, by the place of their node
    """

    def __init__(
        self, order: list[Node], tangents: Mapping[Node, Tensor], results: Sequence[Node], tracks: bool
    ) -> None:
        """Push tangents through a history.   tracks: the nodes of rules track gradients"""
        self.kinks: dict[int, tuple[_Kink, ...]] = {}
        self.looks = looking(order, [t.node for t in tangents.values()], tracks)
        super().__init__(order, tangents, results, PUSH, tracks, self.looks)

    def pairs(self) -> list[tuple[Node, Node]]:
        """Each node that has a tangent, and the tangent."""
        found = zip(self.order, map(self._at, range(len(self.order))), strict=True)
        return [(n, t.node) for n, t in found if isinstance(t, Tensor)]

    def value_for(self, at: int, node: Node, there: Sequence[Any]) -> Found:
        if node.slot is not None:
            return there[0] and there[0][node.slot]
        if all([self._at(i) is None for i in sources_at(self.wires, at, node)]):
            return None
        near = {i: dot for i, dot in zip(node.inputs, there, strict=True) if dot is not None}
        with recording_rules(self.tracks):
            return self._pushed(at, node, there, near) if node.call is None else self._called(node, near)

    def _called(self, node: Node, near: dict[Node, Tensor]) -> Found:
        key = None if self.programs is None else node.call.recorded_key()
        if key is not None:
            key = ("jvp", key, tuple([i in near for i in node.inputs]))
        given = [*[t.node for t in near.values()], node, *node.inputs]
        tangents = run_or_replay(self.programs, key, given, lambda: push_call(node, near))
        return tangents if node.body is None else tangents[0]

    def _pushed(self, at: int, node: Node, dots: Sequence[Any], near: dict[Node, Tensor]) -> Tensor | None:
        """The tangent of an operation's node, without the kinks that cancel in it."""
        n = len(dots)
        with within(MODE.get(), literal=True):
            kinks = [kink for i in inputs_at(self.wires, at) for kink in self.kinks.get(i, ())]

            def rule(given: Sequence[Any]) -> list[Tensor | None]:
                xs = [None if i is None else handle(i) for i in given]
                return [_tangent_by_rule(node, xs[:n], xs[n], xs[n + 1 :])]

            given, programs = (*[None if t is None else t.node for t in dots], node, *node.inputs), self.programs
            (tangent,) = rule(given) if programs is None else programs.applied(node.kind, given, n, PUSH, rule)
            is_kink = node.kind.op in self.looks
            if tangent is not None and (kinks or is_kink):
                tangent, left = _smooth(node, tangent, near, kinks, is_kink)
                if left:
                    self.kinks[at] = left
                    self.flags[at] |= _LOOK
            return tangent


def _tangent_by_rule(node: Node, dots: Sequence[Any], y: Any, xs: Sequence[Any]) -> Tensor | None:
    """The tangent of y = op(*xs), the operation of a node: by its JVP rule, else by transposing its VJP rule."""
    op = node.kind.op
    if op.push is not None:
        return op.push(tuple(dots), y, tuple(xs), node.kind.params)
    if op.pull is None:
        raise missing_rule(node)
    return _transposed(_op_bars(node, y, xs), y, [x.node for x in xs], dots)


def _op_bars(node: Node, y: Tensor, xs: Sequence[Tensor]) -> Callable[[Tensor], Sequence[Tensor | None]]:
    """The VJP rule of a node's operation: a function from the cotangent of y to those of xs."""
    pull, params = node.kind.op.pull, node.kind.params
    assert pull is not None, node
    return lambda u: pull(u, y, xs, params, False) or ()


class _Kink(NamedTuple):
    """A tangent with a kink, and the nodes that it is the tangent of.

    path    a size such as |x|, then moves of its elements
    dots    tangents of the size's inputs, and `below` the kinks in them
    age     the number of operations since the size
    known   the splits of later tangents and of factors that were found: see `cancelling.split`
    """

    tangent: Node
    path: tuple[Node, ...]
    dots: tuple[Tensor | None, ...]
    below: Sequence[_Kink]
    age: int
    known: tuple[dict, dict, dict]


def _smooth(
    node: Node, tangent: Tensor, near: dict[Node, Tensor], kinks: Sequence[_Kink], is_kink: bool
) -> tuple[Tensor, tuple[_Kink, ...]]:
    """A tangent without the kinks that cancel in it, and the kinks that are left.

    near    the tangents of inputs;  is_kink: the tangent of this node has a kink of its own
    """
    op, left = node.kind.op, []
    below: dict[Node, _Kink] = {}
    for kink in {kink.tangent: kink for kink in kinks}.values():
        if node.inputs[0] is kink.path[-1] and is_move(op):
            left.append(_Kink(tangent.node, (*kink.path, node), kink.dots, kink.below, kink.age, ({}, {}, {})))
            continue
        straight, bent = _straightened(tangent, kink)
        if straight is not tangent:
            below |= {kink.tangent: kink for kink in kink.below}
        tangent = straight
        if bent is not None and kink.age < _OLDEST:
            left.append(kink._replace(age=kink.age + 1))
    for kink in below.values():
        tangent, _ = _straightened(tangent, kink)
    if is_kink:
        dots = tuple([near.get(i) for i in node.inputs])
        left.append(_Kink(tangent.node, (node,), dots, kinks, 0, ({}, {}, {})))
    return tangent, tuple(left)


def _straightened(tangent: Tensor, kink: _Kink) -> tuple[Tensor, Tensor | None]:
    """A tangent without a kink where that cancels, itself if nowhere; and the factor of the kink that is left."""
    earlier, *known = kink.known
    multiple, rest = split(tangent, kink.tangent, known=earlier)
    if multiple is None:
        return tangent, None
    parts, bent = cancelling(multiple, kink.path, known)
    smooth = [(c, _unbent(kink, factor)) for c, factor in parts if c is not None]
    if not smooth:
        return tangent, bent
    total = rest
    for c, dot in [(bent, handle(kink.tangent)), *smooth]:
        if c is not None and dot is not None:
            dot = reshaped(dot, dot.shape[max(dot.ndim - tangent.ndim, 0) :])  # without leading extents of 1
            total = added(total, multiply(c, cast_to(dot, c.dtype)))
    return zeros_like(tangent) if total is None else spread_to(total, tangent.shape), bent


def _unbent(kink: _Kink, factor: Tensor) -> Tensor | None:
    """The product of a tangent with a kink and a factor, such as the size, in which the kink cancels."""
    size, moved = kink.path[0], handle(kink.path[-1])
    bars = _op_bars(size, handle(size), [handle(i) for i in size.inputs])

    def of_size(u: Tensor) -> Sequence[Tensor | None]:
        bar = multiply(reshaped(factor, u.shape), u)
        for node in reversed(kink.path[1:]):  # the cotangent of moved elements is moved back
            assert node.kind.op.pull is not None, node
            bar = node.kind.op.pull(bar, handle(node), list(map(handle, node.inputs)), node.kind.params, False)[0]
        return bars(bar)

    return _transposed(of_size, moved, size.inputs, kink.dots)


def push_call(node: Node, tangents: dict[Node, Tensor]) -> list[Tensor | None]:
    """The tangents of the outputs of a custom call: by its jvp, else by transposing its backward."""
    slots = range(len(node.call.avals))
    if node.call.each is not None:
        return node.call.each.push(node, tangents)
    rule = node.call.rule("jvp")
    if rule is not None:
        found = push_rule(node, rule, tangents)
        return [found.get(slot) for slot in slots]
    inputs = gradient_inputs(node)
    dots = [tangents.get(i) for i in inputs]
    wanted = {i for i in inputs if i in tangents}
    likes = [handle(node) if node.body is not None else zeros_of(aval) for aval in node.call.avals]
    return [
        _transposed(partial(lambda slot, u: call_rule(node, {slot: u}, wanted), slot), like, inputs, dots)
        for slot, like in zip(slots, likes, strict=True)
    ]


def _transposed(
    bars: Callable[[Tensor], Sequence[Tensor | None]], like: Tensor, inputs: Sequence[Node],
    dots: Sequence[Tensor | None],
) -> Tensor | None:  # fmt: skip
    """The tangent of a node from its VJP: d/du of <bars(u), dots>, where u has the aval of `like`."""
    u = handle(identity_of(zeros_like(like).node))
    with recording_rules(True):
        seeds = [(b.node, dot.node) for b, _, dot in zip(bars(u), inputs, dots, strict=True)
                 if b is not None and dot is not None and b.node.kind.out.requires_grad]
        if not seeds:
            return None
        past = history([b for b, _ in seeds])
        looks = looking(past, [bar for _, bar in seeds], True)
        return ReversePass(past, seeds, (u.node,), True, looks, is_users=False).cotangents()[0]


@border
def jvp(f: Callable, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The result of f, and its derivative in the direction `tangents`.

    primals, tangents   equally long tuples or lists, with equal nestings, shapes and dtypes; or, for one
                        argument, the argument and its direction alone; None: the direction of a constant

    Raises ShapeError or DTypeError for a tangent that does not fit, GradientError where a rule is missing.

    >>> import autodiff as ad, numpy as np
    >>> ad.jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    (array([1., 4.]), array([ 2., 40.]))
    """
    where = f"jvp of {name_of(f, 'jvp')}"
    structure, made, given, made_plain = with_directions(where, *paired(where, primals, tangents))
    result = run_recorded(f, tree.unflatten(structure, made), {}, made)
    outs, out_structure = tree.flatten(result)
    outs = [as_tensor(o) if isinstance(o, AbstractTensor) or is_differentiable(o) else o for o in outs]
    places = [k for k, o in enumerate(outs) if isinstance(o, Tensor)]
    found = pushed_to([outs[k] for k in places], made, given, made_plain)
    if made_plain:
        evaluate([t.node for t in found])
        found = plain_results(found)
    dots: list[Any] = [None] * len(outs)
    for k, out, dot in zip(places, found, found[len(places) :], strict=False):
        outs[k], dots[k] = out, dot
    return tree.unflatten(out_structure, outs), tree.unflatten(out_structure, dots)


def pushed(past: list[Node], given: Mapping[Node, Tensor], results: Sequence[Node], tracks: bool) -> TangentPass:
    """A pass of tangents through a history.   tracks: the nodes of its rules track gradients"""
    is_kept = MODE.get().eager and bool(looking(past, [t.node for t in given.values()], tracks))
    return TangentPass(past, given, results, tracks or is_kept)


def tangents_of(
    results: Sequence[Node], past: list[Node], given: Mapping[Node, Tensor], tracks: bool
) -> list[Tensor | None]:
    """The tangents of results, by `pushed`.  A known pass in which kinks may cancel is replayed."""

    def push() -> Sequence[Tensor | None]:
        return pushed(past, given, results, tracks).results

    dots = [t.node for t in given.values()]
    if not looking(past, dots, tracks):
        return [*push()]
    return [*pass_or_replay("tangents", past, [*results, *dots], [*given], tracks, push)]


def pushed_to(outs: Sequence[Tensor], made: list[Any], given: dict[Node, Tensor], is_array: bool) -> list[Tensor]:
    """The results in the form that the caller gets, followed by their tangents.   made: the fresh arguments"""
    ends, mine = [o.node for o in outs], {x.node for x in made if isinstance(x, Tensor)}
    past = history(ends)
    tracks = (MODE.get().tracks and not is_array) and (
        any([d.node.kind.out.requires_grad for d in given.values()]) or tracks_outside(past, mine)
    )
    if is_watching():
        push = pushed(past, given, ends, tracks)
        found = push.results
        watch_pushed(push.pairs(), [t for t in found if t is not None])
    else:
        found = tangents_of(ends, past, given, tracks)
    # A tangent that was made by transposing a VJP rule tracks the auxiliary cotangent u: detach it.
    dots = found if tracks else untracked(found)
    shown = outs if tracks or is_array else [record(DETACH, (o,)) for o in outs]
    return [*shown, *[zeros_like(handle(n)) if t is None else t for n, t in zip(ends, dots, strict=True)]]
