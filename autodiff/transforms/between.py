"""`ad.grad`: of a function, as a function (`functional`); or of tensors with respect to tensors, what is here.

Of tensors nothing is accumulated in a `.grad`; the history between the two is walked once, from a known plan if it
can be, and released unless it is to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType

import numpy as np

from .. import tree
from ..custom import function
from ..errors import DispatchError, GradientError, located, with_article
from ..tape.leaves import leaf
from ..tape.node import Node
from ..tape.record import state
from ..tape.walk import history, uncommon
from ..tensor import Tensor
from .backward import cotangents_for, results_of, seed_for
from .backward_pass import RECORDED, VERSIONS, Group, emit, pull_back_at_once, with_history
from .commits import check_not_released, passed, release
from .functional import gradient_of
from .gradient import solve
from .gradient_asks import again, ask_for, live_beside
from .modes import is_watching
from .parts import in_parts

__all__ = ["grad"]


@function
def grad(y=None, xs=0, grad_outputs=None, create_graph=False, allow_unused=False, *, retain_graph=None, f=None,
         argnums=None, has_aux=False):
    """The gradient of a function, as a function; or the gradients of tensors.

    grad(f, argnums=0, has_aux=False)
        The function that returns the gradient of f with respect to the arguments `argnums`; f returns a
        float scalar (with has_aux: and anything else, which is returned behind the gradient).

    grad(y, xs, grad_outputs=None, create_graph=False, allow_unused=False)
        The gradients of the tensor y (or several) with respect to the tensors xs, in the nesting of xs.
        Nothing is accumulated.  The history between y and xs is released unless create_graph or retain_graph.

    Raises GradientError for a result that is no scalar, an input that is not used (unless allow_unused).

    >>> import autodiff as ad, numpy as np
    >>> ad.grad(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]))
    array([ 3., 12.])
    >>> x = ad.tensor(2.0, requires_grad=True)
    >>> ad.grad(x * x, x)
    f64[] 4.0
    """
    ys, given = ([y], [grad_outputs]) if isinstance(y, Tensor) else _several(y, grad_outputs)
    retain = bool(create_graph if retain_graph is None else retain_graph)
    targets, structure = tree.flatten(xs)
    live = []
    if not create_graph:
        if state.now.unseen:
            state.now.see()  # a trace has no values to compute with
        if grad_outputs is not None:
            given = [None if g is None else seed_for(t, g) for t, g in zip(ys, given, strict=True)]
        if all([isinstance(x, Tensor) for x in targets]):
            known = again(ask_for(ys, targets, given, allow_unused), retain, not retain)
            if known is not None:
                return tree.unflatten(structure, _as_leaves(known))
        live = live_beside(state.now, [t.node for t in ys])
    for x in targets:
        if not isinstance(x, Tensor) or not x.node.kind.out.requires_grad:
            got = f"{x.aval} that does not require grad" if isinstance(x, Tensor) else with_article(type(x).__name__)
            raise GradientError(located(
                f"grad: the inputs are tensors that require grad, not {got}",
                "write ad.grad(y, xs) for tensors, ad.grad(f)(x) for a function",
            ))
    if create_graph and retain:
        found = _at_once(ys, given, targets)
        if found is not None:
            return tree.unflatten(structure, _all_used(found, targets, allow_unused))
    if grad_outputs is None and len(ys) == 1 and not create_graph:
        arrays = _in_parts(ys[0].node, [x.node for x in targets], live, retain)
        if arrays is not None:
            return tree.unflatten(structure, _as_leaves(arrays))
    found = _walked(ys, given, targets, live, create_graph, retain, allow_unused)
    return tree.unflatten(structure, found)


def _several(y: object, grad_outputs: object) -> tuple[list[Tensor], list]:
    """Several results, and what is given for each."""
    ys = results_of(y, "grad")
    return ys, cotangents_for(ys, grad_outputs, "grad", "grad_outputs")


def _as_leaves(gradients: Sequence[np.ndarray | None]) -> list[Tensor | None]:
    return [None if g is None else leaf(g) for g in gradients]


def _walked(
    ys: Sequence[Tensor], given: Sequence[Tensor | None], targets: Sequence[Tensor], live: Sequence[Node],
    create_graph: bool, retain: bool, allow_unused: bool,
) -> Sequence[Tensor | None]:  # fmt: skip
    """The gradients of tensors by a walk through their history, which is given up then unless it is retained."""
    seeds = [(t.node, seed_for(t, g)) for t, g in zip(ys, given, strict=True)]
    past = history([t.node for t in ys])
    rare = uncommon(past)
    nodes = _versions(targets, rare)
    through = [] if create_graph and retain else passed(past, [n for found in nodes for n in found])
    # A node that is older than every target is below them; a released node has lost its inputs, so age must tell.
    oldest = min([n.number for x, found in zip(targets, nodes, strict=True) for n in found or (x.node,)], default=0)
    check_not_released(rare, oldest)
    del rare  # a list beside the history counts as somebody who may need the values of its nodes
    groups = [Group(found or (x.node,), ((x.node.leaf and x.node.leaf.hooks) or None) if found else None)
              for x, found in zip(targets, nodes, strict=True)]
    if create_graph:
        found = emit(past, seeds, groups, tracks=True)
        gradients: Sequence[Tensor | None] = with_history(found, [g.nodes[-1] for g in groups])
    else:
        ask = ask_for(ys, targets, given, allow_unused)
        values = solve(seeds, groups, retain=retain, past=past, live=live, ask=ask, through=through)
        gradients = _as_leaves(values)
    gradients = _all_used(gradients, targets, allow_unused)
    if not retain:
        release([past[k] for k in through])
    return gradients


def _all_used(
    found: Sequence[Tensor | None], targets: Sequence[Tensor], allow_unused: bool
) -> Sequence[Tensor | None]:
    if not allow_unused and any(g is None for g in found):
        unused = next(i for i, g in enumerate(found) if g is None)
        raise GradientError(located(
            f"grad: input {unused} ({targets[unused].aval}) is not used by the result",
            "pass allow_unused=True to get None for it",
        ))
    return found


def _at_once(
    ys: Sequence[Tensor], given: Sequence[Tensor | None], targets: Sequence[Tensor]
) -> Sequence[Tensor | None] | None:
    """Gradients that have a history of their own, by one call of machine code; None where Python has to look."""
    bars = [seed_for(t, g).node for t, g in zip(ys, given, strict=True)]
    found = pull_back_at_once([t.node for t in ys], bars, [x.node for x in targets], RECORDED | VERSIONS)
    return None if found is None else with_history(found[2], found[1])


def _in_parts(
    y: Node, leaves: Sequence[Node], live: Sequence[Node], retain: bool
) -> list[np.ndarray] | None:
    """The gradients for leaves, all that y depends on, if its recording falls into segments; None: it does not."""
    wanted = {n.leaf: place for place, n in enumerate(leaves)}
    if state.now.tracing or is_watching() or None in wanted or len(wanted) < len(leaves):
        return None
    parts = in_parts(y, live)
    if parts is None:
        return None
    groups: list[list[Node]] = [[] for _ in leaves]
    for node in parts.bars:
        if node.leaf not in wanted:
            return None
        groups[wanted[node.leaf]].append(node)
    found = parts.gradients(groups)
    arrays = [g for g in found if g is not None]
    if len(arrays) < len(found):
        return None
    parts.commit(is_released=not retain)
    return arrays


def _versions(targets: Sequence[Tensor], rare: Sequence[Node]) -> list[tuple[Node, ...]]:
    """Of each target the nodes that are meant: itself, or those of a history that hold a value of its leaf.

    rare    the `uncommon` nodes of the history
    """
    leaves = [n for n in rare if n.leaf is not None]
    nodes = [x.node for x in targets]
    return [(x,) if x.leaf is None else tuple([n for n in leaves if n.leaf is x.leaf]) for x in nodes]


@grad.method(Callable)
def _(y=None, xs=0, grad_outputs=None, create_graph=False, allow_unused=False, *, retain_graph=None, f=None,
      argnums=None, has_aux=False):
    # The second and third places are here `argnums` and `has_aux`; what tensors take belongs to no function.
    options = {"grad_outputs": None if isinstance(grad_outputs, bool) else grad_outputs, "f": f,
               "create_graph": create_graph or None, "allow_unused": allow_unused or None, "retain_graph": retain_graph}
    surplus = [name for name, value in options.items() if value is not None]
    if surplus:
        raise DispatchError(located(
            f"grad: {', '.join(surplus)} cannot be given for a function",
            "write ad.grad(f, argnums=0, has_aux=False) for a function, ad.grad(y, xs, ...) for tensors",
        ))
    return gradient_of(y, xs if argnums is None else argnums, has_aux or bool(grad_outputs))


@grad.method(NoneType)
def _(y=None, xs=0, grad_outputs=None, create_graph=False, allow_unused=False, *, retain_graph=None, f=None,
      argnums=None, has_aux=False):
    if not callable(f):
        raise DispatchError(located(
            "grad: no function and no tensor was given",
            "write ad.grad(y, xs) for tensors, ad.grad(f)(x) for a function",
        ))
    return grad(f, xs, grad_outputs, create_graph, allow_unused,
                retain_graph=retain_graph, argnums=argnums, has_aux=has_aux)
