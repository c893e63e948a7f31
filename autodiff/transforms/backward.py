"""`.backward()`: add gradients to the `.grad` of leaves, to all or to none.

All gradients are computed (tensor hooks run here), one commit writes every `.grad`, then post-accumulate hooks run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from codegen.runtime import objects
from codegen.runtime.record_table import RECORDER

from ..errors import GradientDTypeError, GradientError, GradientShapeError, located, with_article
from ..mode import MODE
from ..ops import add, as_tensor, spread_to
from ..ops.arithmetic import accumulated
from ..tape import machine
from ..tape.ask import live_small
from ..tape.families import answered
from ..tape.known import BACKWARD, Ask
from ..tape.leaves import constant, leaf
from ..tape.node import Leaf, Node, released
from ..tape.plan import commit_lock
from ..tape.record import hooked, state
from ..tape.walk import gradient_inputs, history, uncommon
from ..tensor import Tensor, handle
from ..tracebacks import shorten
from .backward_pass import Group, recorded
from .gradient import Gradients


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they were computed from.

    tensors       results; a non-scalar one needs its cotangent in `grad_tensors`
    retain_graph  keep the history, so that another backward can go through it
    create_graph  record the gradients with their own history (implies retain_graph)
    inputs        only these leaves (or this one) get gradients

    Raises GradientError for a result that does not require grad, a missing or wrong cotangent, a released
    history, a missing rule; and any error that a rule or a tensor's hook raises.  Then no `.grad` has changed.

    >>> import autodiff as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> ad.backward((x * x).sum())
    >>> x.grad
    f64[2] [2. 4.]
    """
    try:
        now = state.now
        if now.unseen:
            now.require_trace()
        if now.tracing:
            raise GradientError(located(
                "backward() inside a traced function: .grad belongs to no trace",
                "use ad.grad or ad.value_and_grad inside jit",
            ))
        if isinstance(tensors, Tensor) and grad_tensors is None:
            results: list[Tensor] = [tensors]
            given: list[Tensor | None] = [None]
            starts: tuple[Node | None, ...] = (None,)
        else:
            results, given = asked_of(tensors, grad_tensors, "backward")
            starts = tuple([None if g is None else g.node for g in given])
        nodes = [t.node for t in results]
        ask: Ask | None = None
        if inputs is None and not create_graph and not MODE.get().anomalies:
            ask = Ask(BACKWARD, tuple(nodes), starts)
            known = answered(ask, now, retain_graph, not retain_graph)
            if known is not None:
                if type(known) is list:
                    _run_after(_due_after(known[::2]))
                return
        live = [] if create_graph else live_small(now, nodes)
        seeds = [(t.node, seed_for(t, g).node) for t, g in zip(results, given, strict=True)]
        past = history(nodes)
        rare = uncommon(past)
        check_not_released(rare)
        leaves = _leaves(rare, inputs)
        del rare  # a second list of these nodes would count as a holder that may still need their values
        due = _due_after(leaves)
        if any([nodes[0].leaf is None for nodes in leaves.values()]):
            ask = None  # a cached plan writes the .grad of leaves only
        groups = [Group(tuple(nodes), identity.hooks or None) for identity, nodes in leaves.items()]
        if create_graph:
            gradients = recorded(past, seeds, groups)
            with commit_lock:
                for identity, g in zip(leaves, gradients, strict=True):
                    if g is not None:
                        # A new handle, so that an in-place update of one .grad does not change another.
                        identity.grad = handle(g.node) if identity.grad is None else add(identity.grad, g)
        else:
            through = () if inputs is None else places_above(past, [n for nodes in leaves.values() for n in nodes])
            try:
                values = Gradients(seeds, groups, retain=retain_graph, past=past, live=live, ask=ask).solve()
            except Exception:
                check_not_released(uncommon(past))  # another thread may have released the history meanwhile
                raise
            with commit_lock:
                check_not_released(uncommon(past))
                write(leaves, values)
                if not retain_graph:
                    release(past if inputs is None else [past[k] for k in through])
        if machine.WHEN_REPEATED and objects.default() and not MODE.get().careful and objects.is_kept(RECORDER):
            machine.note_repeated()  # more training steps are expected: install the machine code for recordings
        if due:
            _run_after(due)
    except Exception as error:
        shorten(error)
        raise


def backward_of(
    t: Tensor,
    gradient: Any = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of this result to the `.grad` of its leaves: see `ad.backward`.

    >>> import autodiff as ad
    >>> w = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> ad.sum(w * w).backward()
    >>> w.grad
    f64[2] [2. 4.]
    """
    try:
        backward(t, gradient, retain_graph, create_graph, inputs)
    except Exception as error:
        shorten(error)
        raise


def asked_of(tensors: Any, given: Any, taker: str) -> tuple[list[Tensor], list[Tensor | None]]:
    """The results to differentiate (one tensor or several), and the cotangent of each (None: the cotangent is one).

    Raises GradientError for results that are no tensors, and when results and cotangents differ in number.
    """
    if isinstance(tensors, Tensor) and given is None:
        return [tensors], [None]
    found = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    if not found:
        raise GradientError(located(f"{taker}: the list of results is empty"))
    for t in found:
        if not isinstance(t, Tensor):
            raise GradientError(located(
                f"{taker}: the results are tensors, not {with_article(type(t).__name__)}",
                "NumPy arrays and numbers have no history: compute with ad.tensor(..., requires_grad=True)"
                + ("\n  of a function: ad.grad(f)(x)" if taker == "grad" else ""),
            ))
    if given is None:
        return found, [None] * len(found)
    bars = list(given) if isinstance(given, (list, tuple)) and tensors is not found[0] else [given]
    if len(bars) != len(found):
        several = "grad_outputs" if taker == "grad" else "grad_tensors"
        raise GradientError(located(f"{taker}: {len(found)} tensors but {len(bars)} {several}"))
    return found, [None if g is None else seed_for(t, g, taker) for t, g in zip(found, bars, strict=True)]


def seed_for(result: Tensor, given: Any, taker: str = "backward") -> Tensor:
    """The cotangent that a backward, or the function named `taker`, starts from.  Raises if it is missing or wrong."""
    out = result.node.kind.out
    if not out.requires_grad:
        raise GradientError(located(
            f"{taker}: this {result.aval} does not require grad",
            "nothing it was computed from was made with requires_grad=True, or it was under no_grad, was detached,\n"
            "  was compared or made an integer, through which no gradient flows, or was an array, as functions of\n"
            "  ad.grad, ad.vmap and ad.jit return them if no argument is a tensor (pass ad.asarray(x))",
        ))
    if given is None:
        if out.aval.size != 1:
            raise GradientError(located(
                f"{taker}: the result is {out.aval}, not a scalar, and no gradient was given",
                f"sum it, or pass {_GIVEN[taker]}= with its shape",
            ))
        if out.aval.dtype.kind == "c":
            raise GradientError(located(
                f"{taker}: the result is {out.aval}: a complex number has no direction to descend in",
                f"take ad.real or ad.abs of it, or pass {_GIVEN[taker]}= with its aval",
            ))
        one = constant(1.0, out.aval.dtype)
        return one if not out.shape else spread_to(one, out.shape)
    if isinstance(given, (bool, int, float) + (complex,) * (out.aval.dtype.kind == "c")):
        given = np.full(out.shape, given, out.aval.dtype) if not out.shape else np.asarray(given, out.aval.dtype)
    seed = as_tensor(given, taker, _GIVEN[taker])
    if seed.aval != out.aval:
        error = GradientShapeError if seed.shape != out.shape else GradientDTypeError
        raise error(located(f"{taker}: the result is {result.aval}, its gradient {seed.aval}"))
    return seed


#: The name of the parameter that takes the cotangent, by the public function.
_GIVEN = {"backward": "gradient", "grad": "grad_outputs"}


def _leaves(rare: Sequence[Node], inputs: Tensor | Sequence[Tensor] | None) -> dict[Leaf, list[Node]]:
    """The leaves to give gradients to, in the order they were made; for each the nodes whose cotangents are summed.

    rare    the `uncommon` nodes of the history: all versions of each leaf, and nodes of `retain_grad`
    """
    wanted = None
    if inputs is not None:
        inputs = list(inputs) if isinstance(inputs, Iterable) and not isinstance(inputs, Tensor) else [inputs]
        for t in inputs:
            if not isinstance(t, Tensor) or t.node.leaf is None:
                got = f"this {t.aval}" if isinstance(t, Tensor) else with_article(type(t).__name__)
                raise GradientError(located(
                    f"backward: inputs= takes leaves that require grad, not {got}",
                    "ad.grad(y, xs) gives the gradients of any tensors",
                ))
        wanted = {t.node.leaf for t in inputs}
        if not wanted:
            raise GradientError(located(
                "backward: inputs= is empty: no leaf would get a gradient",
                "leave it out for all leaves",
            ))
    leaves: dict[Leaf, list[Node]] = {}
    for node in rare:
        if node.leaf is not None and (wanted is None or node.leaf in wanted):
            leaves.setdefault(node.leaf, []).append(node)
        elif node.retained is not None and wanted is None:
            leaves[node.retained] = [node]
    return leaves


# ---------------------------------------------------------------- the commit


def write(leaves: Iterable[Leaf], values: Sequence[np.ndarray | None]) -> None:
    """Add each gradient to the `.grad` of its leaf, all or none."""
    with commit_lock:
        pairs = [(x, value) for x, value in zip(leaves, values, strict=True) if value is not None]
        made = [leaf(value) if x.grad is None else accumulated(x.grad.node, value) for x, value in pairs]
        for (identity, _), grad in zip(pairs, made, strict=True):
            identity.grad = grad


def places_above(past: list[Node], targets: Iterable[Node]) -> list[int]:
    """The places in a history of the nodes whose rules gradients of `targets` need: not the nodes below the targets.

    Places, not nodes: a second list of the nodes would count as a holder that may still need their values.
    """
    own = set(targets)
    reached, ends = set(own), {n for n in uncommon(past) if not gradient_inputs(n)}
    if reached.issuperset(ends):  # every end of the history is a target
        return [k for k, node in enumerate(past) if node not in ends]
    places = []
    for k, node in enumerate(past):
        if not reached.isdisjoint(node.inputs if type(node) is Node else gradient_inputs(node)):
            reached.add(node)
            if hooked(node) is node or hooked(node) not in own:  # what a target was before its hooks is the target
                places.append(k)
    return places


def check_not_released(rare: Sequence[Node], groups: Sequence[Group] = ()) -> None:
    """Raise GradientError if an earlier backward released one of these nodes.

    rare      the `uncommon` nodes of a history
    groups    the targets, if they are not only leaves.  A released node has lost its inputs, so its age decides: a
              node older than every target is below the targets, and is not needed
    """
    numbers = [n.number for n in rare if n.kind.released]
    if numbers and max(numbers) > min([n.number for g in groups for n in g.nodes], default=0):
        raise GradientError(located(
            "second backward through the same graph",
            "pass retain_graph=True to the first one, or compute the result again",
        ))


def release(past: list[Node]) -> None:
    """Mark the nodes of a history as released, and drop what they kept for gradients."""
    for node in past:
        if node.leaf is None:
            kind = node.kind
            node.kind = kind.released_kind or released(kind)
            if node.value is not None:
                node.inputs = ()


def _due_after(leaves: Iterable[Leaf]) -> list[tuple[list[Callable], Tensor]]:
    """The post-accumulate hooks of leaves, each with the handle to call it with.  Call this before a release."""
    due = []
    for identity in leaves:
        if identity.after:
            known, node = [r() for r in identity.owner]
            if known is not None or node is not None:
                due.append((list(identity.after.values()), handle(node) if known is None else known))
    return due


def _run_after(due: Sequence[tuple[Sequence[Callable], Tensor]]) -> None:
    """Run post-accumulate hooks, in order; the gradients stay written even if a hook raises."""
    for hooks, owner in due:
        if owner.node.leaf.grad is not None:
            for hook in hooks:
                hook(owner)
