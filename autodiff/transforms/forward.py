"""Forward mode: from tangents of arguments to tangents of results, over the same tape.

An operation with a JVP rule pushes its tangents; one without, and a custom function, has its VJP transposed:
`u ↦ vjp(u)` is linear, and its VJP at the tangents is theirs.

Where tangents are differentiated again and the history has a kink such as that of |x|, the whole history is transposed:
kinks cancel on the way back alone (see `ops.cancelling`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from .. import tree
from ..errors import GradientError, located
from ..mode import MODE
from ..ops import as_tensor, zeros_like
from ..ops.conversion import numpys
from ..ops.primitive import zeros_of
from ..tape.ask import evaluate
from ..tape.lines import belonging_to_rules
from ..tape.node import Node
from ..tape.record import DETACH, identity_of, noted, record, state
from ..tape.walk import gradient_inputs, history
from ..tensor import AbstractTensor, Tensor, handle
from ..tracebacks import border
from .anomaly import is_watching, watch_pushed
from .arguments import (
    fitting,
    fresh,
    is_differentiable,
    is_plain,
    leaf_name,
    name_of,
    plain_results,
    run_recorded,
    tracks_outside,
)
from .backward_pass import is_looked_at, untracked
from .reverse import Pull, begun, inputs_at, recording_rules, sources_at
from .rule_programs import PUSH, RulePrograms, missing_rule
from .rule_values import push_rule
from .rules import again, call_rule


class Push:
    """One pass forward: `results` are the tangents of the nodes that were asked for (None: zero).

    dots      tangents, by place in the history, as wires
    outputs   tangents of a call of several outputs, by the place of the call and the output
    """

    def __init__(
        self, order: list[Node], tangents: Mapping[Node, Tensor], results: Sequence[Node], tracks: bool
    ) -> None:
        """Push tangents through a history, by creation, as far as `results`.   tracks: what rules record is tape"""
        self.order, self.tracks = order, tracks
        self.programs = programs = None if state.now.body else RulePrograms.now(tracks)
        self.outputs: dict[tuple[int, int], Tensor] = {}
        made = begun(programs, order, (), (*tangents, *results))
        self.wires, self.dots, _, *places = made
        for at, t in zip(places, tangents.values(), strict=False):
            if at >= 0:
                self.dots[at] = t.node
        if programs is not None:
            rules = programs.word | PUSH, programs.used, programs.stamp
            programs.go(programs.native.go_forth, order, made, range(len(order)), rules, self._visit)
        else:
            with recording_rules(tracks):
                for at, _ in enumerate(belonging_to_rules(state.now.lines, order, "jvp")):
                    self._go(at)
        self.results: list[Tensor | None] = []
        for n, at in zip(results, places[len(tangents) :], strict=True):
            dot = None if at < 0 else self.dots[at]
            self.results.append(tangents.get(n) if at < 0 else None if dot is None else noted(dot))

    def pairs(self) -> list[tuple[Node, Node]]:
        """Nodes and their tangents."""
        return [(n, t) for n, t in zip(self.order, self.dots, strict=True) if t is not None]

    def _visit(self, at: int) -> None:
        with recording_rules(self.tracks):
            self._go(at)

    def _go(self, at: int) -> None:
        """Go through one node."""
        if self.dots[at] is not None:
            return
        node, wires = self.order[at], inputs_at(self.wires, at)
        if node.slot is not None:
            tangent = self.outputs.get((wires[0], node.slot))
        else:
            dots = [None if i < 0 else self.dots[i] for i in wires]
            if not any([i >= 0 and self.dots[i] is not None for i in sources_at(self.wires, at, node)]):
                return
            if node.call is not None:
                near = {i: handle(dot) for i, dot in zip(node.inputs, dots, strict=True) if dot is not None}
                self._call(at, node, near)
                return
            tangent = self._pushed(node, dots)
        if tangent is not None:
            self.dots[at] = tangent.node

    def _call(self, at: int, node: Node, near: dict[Node, Tensor]) -> None:
        key = None if self.programs is None else node.call.recorded_key()
        if key is not None:
            key = ("jvp", key, tuple([i in near for i in node.inputs]))
        given = [*[t.node for t in near.values()], node, *node.inputs]
        tangents = again(self.programs, key, given, lambda: push_call(node, near))
        for slot, tangent in enumerate(tangents):
            if tangent is not None and node.body is not None:
                self.dots[at] = tangent.node
            elif tangent is not None:
                self.outputs[at, slot] = tangent

    def _pushed(self, node: Node, dots: Sequence[Node | None]) -> Tensor | None:
        """The tangent of a node of no call."""
        now, n = state.now, len(dots)
        before, now.literal = now.literal, True

        def rule(given: Sequence[Any]) -> list[Tensor | None]:
            xs = [None if i is None else handle(i) for i in given]
            return [_tangent_by_rule(node, xs[:n], xs[n], xs[n + 1 :])]

        try:
            given, programs = (*dots, node, *node.inputs), self.programs
            (tangent,) = rule(given) if programs is None else programs.applied(node.kind, given, n, PUSH, rule)
            return tangent
        finally:
            now.literal = before


def _tangent_by_rule(node: Node, dots: Sequence[Any], y: Any, xs: Sequence[Any]) -> Tensor | None:
    """The tangent of y = op(*xs), the operation of a node: by its JVP rule, else by its VJP rule twice."""
    op, pull, params = node.kind.op, node.kind.op.pull, node.kind.params
    if op.push is not None:
        return op.push(tuple(dots), y, tuple(xs), params)
    if pull is None:
        if op.discrete:
            return None
        raise missing_rule(node)
    return _transposed(lambda us: pull(us[0], y, xs, params, False), [y], dots)[0]


def push_call(node: Node, tangents: dict[Node, Tensor]) -> list[Tensor | None]:
    """The tangents of the outputs of a custom call: by its rule, or that of its VJP twice."""
    slots = range(len(node.call.avals))
    if node.call.each is not None:
        return node.call.each.push(node, tangents)
    rule = node.call.rule("jvp")
    if rule is not None:
        found = push_rule(node, rule, tangents)
        return [found.get(slot) for slot in slots]
    inputs = gradient_inputs(node)
    wanted = {i for i in inputs if i in tangents}
    likes = [handle(node) if node.body is not None else zeros_of(aval) for aval in node.call.avals]
    return _transposed(
        lambda us: call_rule(node, dict(enumerate(us)), wanted), likes, [tangents.get(i) for i in inputs]
    )


def _transposed(
    bars: Callable[[list[Tensor]], Sequence[Tensor | None]], likes: Sequence[Tensor], dots: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Tangents from a VJP: d/du of <bars(us), dots>, where us have the avals of `likes`."""
    us = [handle(identity_of(zeros_like(like).node)) for like in likes]
    with recording_rules(True):
        seeds = [(b.node, dot.node) for b, dot in zip(bars(us), dots, strict=True)
                 if b is not None and dot is not None and b.node.kind.out.requires_grad]
        if not seeds:
            return [None] * len(us)
        past = history([b for b, _ in seeds])
        return Pull(past, seeds, tuple([u.node for u in us]), True, is_users=False).ends()


def paired(name: str, primals: Any, tangents: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Arguments and their directions as equally long sequences; what is no tuple or list is the only one."""
    if not isinstance(primals, (tuple, list)):
        primals, tangents = (primals,), (tangents,)
    if not isinstance(tangents, (tuple, list)) or len(primals) != len(tangents):
        given = len(tangents) if isinstance(tangents, (tuple, list)) else "no tuple of"
        raise GradientError(located(f"{name}: {len(primals)} primals but {given} tangents"))
    return primals, tangents


@border
def jvp(f: Callable, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The result of f, and its derivative in the direction `tangents`.

    primals, tangents   equally long tuples or lists of equal nestings, shapes and dtypes.  Or one
                        argument of f and its direction by themselves

    Raises ShapeError or DTypeError for a tangent that does not fit, GradientError where a rule is missing.

    >>> import autodiff as ad, numpy as np
    >>> ad.jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    (array([1., 4.]), array([ 2., 40.]))
    """
    name = name_of(f, "jvp")
    structure, made, given, made_plain = moving(name, *paired(f"jvp of {name}", primals, tangents))
    result = run_recorded(f, tree.unflatten(structure, made), {}, made, lends=made_plain)
    outs, out_structure = tree.flatten(result)
    outs = [as_tensor(o) if isinstance(o, AbstractTensor) or is_differentiable(o) else o for o in outs]
    places = [k for k, o in enumerate(outs) if isinstance(o, Tensor)]
    found = pushed_to([outs[k] for k in places], given, made_plain)
    if made_plain:
        evaluate([t.node for t in found])
        found = plain_results(found)
    dots: list[Any] = [None] * len(outs)
    for k, out, dot in zip(places, found, found[len(places) :], strict=False):
        outs[k], dots[k] = out, dot
    return tree.unflatten(out_structure, outs), tree.unflatten(out_structure, dots)


def moving(
    name: str, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[tree.Structure, list[Any], dict[Node, Tensor], bool]:
    """The structure of primals, their leaves as fresh tensors, the direction of each, and True in plain code."""
    leaves, structure = tree.flatten(tuple(primals))
    leaves = [numpys(x) for x in leaves]
    directions = [numpys(d) for d in tree.flatten_up_to(structure, tuple(tangents))]
    made_plain = is_plain([*leaves, *directions])
    called = partial(leaf_name, structure, "primal", f"jvp of {name}")
    made = [
        fresh(x, partial(called, k), shares=made_plain) if is_differentiable(x) else x for k, x in enumerate(leaves)
    ]
    where = f"jvp of {name}"
    given = {
        x.node: fitting(d, x, where, "primal", "tangent")
        for x, d in zip(made, directions, strict=True) if isinstance(x, Tensor) and d is not None
    }  # fmt: skip
    return structure, made, given, made_plain


def pushed(
    past: list[Node], given: Mapping[Node, Tensor], results: Sequence[Node], tracks: bool
) -> list[Tensor | None]:
    """The tangents of results of a history (None: zero).   tracks: what rules record is tape"""
    if not _has_kinks(past):
        return Push(past, given, results, tracks).results
    ends = [n for n in results if n.kind.out.requires_grad]

    def bars(us: list[Tensor]) -> list[Tensor | None]:
        seeds = [(n, u.node) for n, u in zip(ends, us, strict=True)]
        return Pull(past, seeds, tuple(given), True, is_users=False).ends()

    found = dict(zip(ends, _transposed(bars, [handle(n) for n in ends], list(given.values())), strict=True))
    return [found.get(n) for n in results]


def _has_kinks(past: Sequence[Node]) -> bool:
    """True if a history has kinks that may cancel, and neither hooks nor rules that are of one direction alone."""
    return is_looked_at(past) and not any([
        n.hooks or (n.call is not None and n.call.rule("jvp") is not None) for n in past
    ])


def pushed_to(outs: Sequence[Tensor], given: dict[Node, Tensor], is_array: bool) -> list[Tensor]:
    """The results as the caller gets them, and behind them their tangents."""
    ends = [o.node for o in outs]
    past = history(ends)
    tracks = (MODE.get().tracks and not is_array) and (
        any([d.node.kind.out.requires_grad for d in given.values()]) or tracks_outside(past, set(given))
    )
    dots = pushed(past, given, ends, tracks)
    if is_watching():
        watch_pushed(Push(past, given, ends, tracks).pairs(), [t for t in dots if t is not None])
    # A tangent by a VJP rule twice tracks the cotangent that it was found by.
    dots = dots if tracks else untracked(dots)
    shown = outs if tracks or is_array else [record(DETACH, (o,)) for o in outs]
    return [*shown, *[zeros_like(handle(n)) if t is None else t for n, t in zip(ends, dots, strict=True)]]
