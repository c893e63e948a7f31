"""Forward mode: from tangents of arguments to tangents of results, over the same tape.

The walk goes over the recorded nodes by rising creation number.  An operation with a JVP rule pushes
its tangents; one without, and a custom function, has its VJP transposed: with u a fresh variable,
`u ↦ vjp(u)` is linear, and its own VJP applied to the tangents is the tangent of the result.

The tangent of a size such as |x| has a kink.  What is a product of it and of c, where c is a multiple of the size, has
none: it is the transpose of the size's VJP at c u, in which the size cancels (see `ops.cancelling`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from .. import tree
from ..custom.boundary import MappedCall
from ..errors import DTypeError, GradientError, ShapeError, caller
from ..ops import add, as_tensor, multiply, zeros_like
from ..ops.cancelling import cancelling, is_move, split
from ..ops.conversion import numpys
from ..tape.ask import evaluate
from ..tape.lines import belonging_to_rules
from ..tape.node import Node
from ..tape.record import DETACH, grad_mode, identity_of, record, state
from ..tape.walk import gradient_inputs, history
from ..tensor import AbstractTensor, Tensor, handle
from ..tracebacks import shorten
from .anomaly import is_watching, watch_pushed
from .arguments import (
    fresh,
    is_differentiable,
    is_plain,
    leaf_name,
    name_of,
    plain_results,
    run_recorded,
    tracks_outside,
)
from .backward_pass import is_looked_at, recording_rules, untracked
from .emitted import emitted
from .pushing import push_rule
from .reverse import pull_back
from .rules import missing_rule

__all__ = ["jvp", "paired", "push_call", "push_forward"]


def push_forward(order: Sequence[Node], tangents: dict[Node, Tensor]) -> dict[Node, Tensor]:
    """Tangents of all nodes of a history that depend on those in `tangents`.

    order   a history by creation
    """
    found: dict[Any, Any] = dict(tangents)  # of a call of several outputs: by the call and the output
    kinks: dict[Node, tuple[_Kink, ...]] = {}
    now = state.now
    for node in belonging_to_rules(now.lines, order, "jvp"):
        if node in found:
            continue
        if node.slot is not None:
            tangent = found.get((node.inputs[0], node.slot))
        elif not any(i in found for i in gradient_inputs(node)):
            continue
        elif node.call is not None:
            found.update(push_call(node, found))
            continue
        else:
            before, now.literal = now.literal, True
            try:
                tangent = _pushed(node, found)
                if tangent is not None and ("cancels" in node.kind.op.traits or kinks):
                    tangent = _smooth(node, tangent, found, kinks)
            finally:
                now.literal = before
        if tangent is not None:
            found[node] = tangent
    return found


def _pushed(node: Node, tangents: dict[Node, Tensor]) -> Tensor | None:
    op = node.kind.op
    xs = tuple([handle(i) for i in node.inputs])
    if op.push is not None:
        return op.push(tuple([tangents.get(i) for i in node.inputs]), handle(node), xs, node.kind.params)
    if op.pull is None:
        if op.discrete:
            return None
        raise missing_rule(node)
    return _transposed(node, node, tangents)


class _Kink(NamedTuple):
    """A tangent that has a kink, and what it is the tangent of: a size, and moves of its elements."""

    tangent: Node
    path: tuple[Node, ...]

    @property
    def ends(self) -> tuple[Node, Node]:
        """The size, and its elements where they were moved to."""
        return self.path[0], self.path[-1]


def _smooth(
    node: Node, tangent: Tensor, tangents: dict[Node, Tensor], kinks: dict[Node, tuple[_Kink, ...]]
) -> Tensor:
    """A tangent without the kinks that cancel in it; notes those that are left."""
    op, left = node.kind.op, []
    for kink in dict.fromkeys([k for i in node.inputs for k in kinks.get(i, ())]):
        if node.inputs[0] is kink.path[-1] and is_move(op):
            left.append(_Kink(tangent.node, (*kink.path, node)))
            continue
        multiple, rest = split(tangent, kink.tangent)
        if multiple is None or multiple.shape != handle(kink.path[-1]).shape:
            continue
        smooth, bent = cancelling(multiple, kink.path)
        if smooth is not None:
            terms = [
                rest, None if bent is None else multiply(bent, handle(kink.tangent)),
                _transposed(*kink.ends, tangents, cotangent=partial(_through, kink.path, smooth)),
            ]  # fmt: skip
            there = [t for t in terms if t is not None]
            tangent = reduce(add, there) if there else zeros_like(tangent)
        if bent is not None:
            left.append(kink)
    if "cancels" in op.traits:
        left.append(_Kink(tangent.node, (node,)))
    if left:
        kinks[node] = tuple(left)
    return tangent


def _through(path: tuple[Node, ...], multiple: Tensor, u: Tensor) -> Tensor:
    """The cotangent of a size, from that of its moved elements, a multiple of u."""
    bar = multiply(multiple, u)
    for node in reversed(path[1:]):
        op, xs = node.kind.op, tuple([handle(i) for i in node.inputs])
        assert op.pull is not None, node
        bar = op.pull(bar, handle(node), xs, node.kind.params, False)[0]
    return bar


def push_call(node: Node, tangents: dict[Node, Tensor]) -> dict[Any, Tensor]:
    """The tangents of the outputs of a custom call, by node (and slot): by its rule, or that of its VJP twice."""
    if isinstance(node.call, MappedCall):
        return MappedCall.push_each(node, tangents)
    rule = node.call.rule("jvp")
    if rule is not None:
        pushed = push_rule(node, rule, tangents)
        return {node if node.body is not None else (node, slot): t for slot, t in pushed.items()}
    if node.body is not None:
        tangent = _transposed(node, node, tangents)
        return {} if tangent is None else {node: tangent}
    found = {}
    for slot in range(len(node.call.avals)):
        tangent = _transposed(node, node, tangents, slot)
        if tangent is not None:
            found[node, slot] = tangent
    return found


def _transposed(
    node: Node, like: Node, tangents: dict[Node, Tensor], slot: int | None = None,
    cotangent: Callable[[Tensor], Tensor] = lambda u: u,
) -> Tensor | None:
    """The tangent of a node from its VJP: d/du of <vjp(cotangent(u)), tangents>; u has the aval of `like`."""
    from .rules import call_rule

    aval = like.kind.out.aval if slot is None else node.call.avals[slot]
    zero = zeros_like(handle(like)) if slot is None else _zeros(aval)
    u = handle(identity_of(zero.node))
    inputs = gradient_inputs(node)
    with recording_rules(True):
        if node.call is not None:
            bars = call_rule(node, {slot or 0: u}, {i for i in inputs if i in tangents})
        else:
            assert node.kind.op.pull is not None, node
            xs = [handle(i) for i in node.inputs]
            bars = list(node.kind.op.pull(cotangent(u), handle(node), xs, node.kind.params, False) or ())
        seeds = [(b.node, tangents[i]) for b, i in zip(bars, inputs, strict=True)
                 if b is not None and i in tangents and b.node.kind.out.requires_grad]
        if not seeds:
            return None
        past = history([b for b, _ in seeds])
        return pull_back(past, seeds, [u.node]).get(u.node)


def _zeros(aval: Any) -> Tensor:
    from ..ops import zeros_of

    return zeros_of(aval)


def paired(name: str, primals: Any, tangents: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Arguments and their directions as equally long sequences; what is no tuple or list is the only one.

    name   of the call, for messages
    """
    if not isinstance(primals, (tuple, list)):
        primals, tangents = (primals,), (tangents,)
    if not isinstance(tangents, (tuple, list)) or len(primals) != len(tangents):
        given = len(tangents) if isinstance(tangents, (tuple, list)) else "no tuple of"
        raise GradientError(f"{name}: {len(primals)} primals but {given} tangents\n  called at {caller()}")
    return primals, tangents


def jvp(f: Callable, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The result of f, and its derivative in the direction `tangents`.

    primals, tangents   equally long tuples or lists of equal nestings, shapes and dtypes.  Or one
                        argument of f and its direction by themselves

    Raises ShapeError or DTypeError for a tangent that does not fit, GradientError where a rule is missing.

    >>> import autodiff as ad, numpy as np
    >>> ad.jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    (array([1., 4.]), array([ 2., 40.]))
    """
    try:
        name = name_of(f, "jvp")
        primals, tangents = paired(f"jvp of {name}", primals, tangents)
        leaves, structure = tree.flatten(tuple(primals))
        leaves = [numpys(x) for x in leaves]
        directions = [numpys(d) for d in tree.flatten_up_to(structure, tuple(tangents))]
        made_plain = is_plain([*leaves, *directions])
        called = partial(leaf_name, structure, "primal", f"jvp of {name}")
        made = [
            fresh(x, partial(called, k), shares=made_plain) if is_differentiable(x) else x for k, x in enumerate(leaves)
        ]
        given = {
            x.node: _direction(d, x, name)
            for x, d in zip(made, directions, strict=True)
            if isinstance(x, Tensor) and d is not None
        }
        result = run_recorded(f, tree.unflatten(structure, made), {}, made, lends=made_plain)
        outs, out_structure = tree.flatten(result)
        outs = [as_tensor(o) if isinstance(o, AbstractTensor) or is_differentiable(o) else o for o in outs]
        places = [k for k, o in enumerate(outs) if isinstance(o, Tensor)]
        found = _pushed_to([outs[k] for k in places], given, made_plain)
        dots: list[Any] = [None] * len(outs)
        for k, out, dot in zip(places, found, found[len(places) :], strict=False):
            outs[k], dots[k] = out, dot
        if made_plain:
            evaluate([t.node for t in found])
            results = plain_results([*outs, *dots])
            outs, dots = results[: len(outs)], results[len(outs) :]
        return tree.unflatten(out_structure, outs), tree.unflatten(out_structure, dots)
    except Exception as error:
        shorten(error)
        raise


def _pushed_to(outs: Sequence[Tensor], given: dict[Node, Tensor], is_array: bool) -> list[Tensor]:
    """The results as the caller gets them, and behind them their tangents."""

    def run() -> list[Tensor]:
        past = history([o.node for o in outs])
        tracks = grad_mode.get() and not is_array and (
            tracks_outside(past, set(given)) or any(d.node.kind.out.requires_grad for d in given.values())
        )
        is_kept = is_looked_at(past)
        with recording_rules(tracks or is_kept):
            found = push_forward(past, given)
            dots: list[Any] = [_tangent_of(o, found) for o in outs]
        if is_watching():
            watch_pushed(past, found, dots)
        if is_kept and not tracks:
            dots = untracked(dots)
        shown = outs if tracks or is_array else [record(DETACH, (o,)) for o in outs]
        return [*shown, *dots]

    if not outs or not given:
        return run()
    roots = [*[o.node for o in outs], *given, *[d.node for d in given.values()]]
    purpose = ("tangents", len(outs), len(given), is_array)
    return [t for t in emitted(purpose, roots, len(outs), len(given), run) if t is not None]


def _tangent_of(out: Tensor, found: dict[Node, Tensor]) -> Tensor:
    tangent = found.get(out.node)
    return zeros_like(handle(out.node)) if tangent is None else tangent


def _direction(d: Any, primal: Tensor, name: str) -> Tensor:
    if isinstance(d, (int, float)) and not primal.shape:
        d = primal.dtype.type(d)
    t = as_tensor(d, f"jvp of {name}", "a tangent")
    if t.aval != primal.aval:
        error = ShapeError if t.shape != primal.shape else DTypeError
        raise error(f"jvp of {name}: the primal is {primal.aval}, its tangent {t.aval}\n  called at {caller()}")
    return t
