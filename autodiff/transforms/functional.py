"""Gradients as results: `grad`, of a function or between tensors, `value_and_grad`, `vjp`.

A function gets a fresh node for each argument and is differentiated with respect to that node, never the caller's;
therefore nested derivatives cannot be confused.  A call from plain code (no tensor among the arguments) computes at
once and returns NumPy arrays; a call with tensors, or inside another transformation or a trace, records and returns
tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from .. import tree
from ..errors import DispatchError, GradientError, located, with_article
from ..mode import MODE
from ..ops import as_tensor, zeros_like
from ..tape.ask import evaluate, live_small
from ..tape.known import NODES, SOME, TENSORS, Ask
from ..tape.leaves import leaf
from ..tape.node import Node
from ..tape.plan import commit_lock
from ..tape.program import data
from ..tape.record import DETACH, hooked, record, state
from ..tape.walk import history, uncommon
from ..tensor import Tensor, handle
from ..tracebacks import border, shorten
from .arguments import (
    Arguments,
    fitting,
    is_plain,
    name_of,
    plain_results,
    run_recorded,
    scalar_and_aux,
    tracks_outside,
    value_and_aux,
)
from .backward import asked_of, check_not_released, places_above, release, seed_for
from .backward_pass import Group, by_cached_plan, group_of, pulled, recorded
from .gradient import Gradients

# ---------------------------------------------------------------- gradients of functions


def value_and_grad(f: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable:
    """A function that returns (f(*args), gradient of f with respect to the arguments `argnums`).

    f must return a float scalar, or with `has_aux` a pair (scalar, anything).  The gradient has the
    nesting of the argument; a tuple of argnums gives a tuple.  NumPy in, NumPy out: the result fits
    SciPy's `minimize(..., jac=True)`.

    Raises GradientError when f returns no scalar, DTypeError for an integer argument.

    >>> import autodiff as ad, numpy as np
    >>> ad.value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """
    return _derivative(f, argnums, has_aux, "value_and_grad")


def _derivative(f: Callable, argnums: int | Sequence[int], has_aux: bool, taker: str) -> Callable:
    """The function that `value_and_grad` or `grad` returns.   taker: the name of that public function"""
    name = name_of(f, taker, argnums)

    @wraps(f)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        # The body reads only names of functions, so that cloudpickle can write it like a user's function.
        try:
            return _differentiated(f, args, kwargs, argnums, has_aux, name, taker)
        except Exception as error:
            shorten(error)
            raise

    return derivative


def _differentiated(
    f: Callable, args: tuple, kwargs: dict[str, Any], argnums: int | Sequence[int], has_aux: bool, name: str, taker: str
) -> Any:
    """The results of one call.   name: the name of f in messages;  taker: see `_derivative`"""
    a = Arguments(args, kwargs, argnums, name)
    value, aux = scalar_and_aux(run_recorded(f, a.args, a.kwargs, a.leaves), has_aux, name, taker)
    leaves, structure = tree.flatten(aux)
    if a.plain:
        gradients = _computed(value, a.leaves, leaves)
        out: Any
        out, *leaves = plain_results([value, *leaves])
    elif state.now.unseen and not (
        state.now.transforming or tracks_outside(history([value.node]), {t.node for t in a.leaves})
    ):  # nothing outside f can be differentiated through the value of f
        gradients = [leaf(np.asarray(g)) for g in _computed(value, a.leaves, leaves)]
        out = leaf(data(value.node))
    else:
        # The value or the gradients may depend on tensors outside this transformation, and then track them.
        tracks, gradients = _recorded(value, a.leaves, None if MODE.get().tracks else False)
        out = value if tracks or taker == "grad" else record(DETACH, (value,))
    if not a.plain:
        leaves = _without_own_history(leaves, a.leaves)
    gradient = a.unflatten(gradients)
    first = gradient if taker == "grad" else out
    if has_aux:
        first = first, tree.unflatten(structure, leaves)
    return first if taker == "grad" else (first, gradient)


def gradients_with_history(
    f: Callable, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Tensor], name: str, taker: str
) -> list[Tensor]:
    """The gradients of f as functions of its arguments; `leaves` are the tensors to differentiate with respect to."""
    value, _ = scalar_and_aux(run_recorded(f, args, kwargs, leaves), False, name, taker)
    return _recorded(value, leaves, True)[1]


def _computed(value: Tensor, leaves: Sequence[Tensor], aux: Sequence[Any]) -> list[Any]:
    """Gradients as arrays; the value and aux are computed in the same run."""
    also = [x.node for x in aux if isinstance(x, Tensor)]
    if not value.node.kind.out.requires_grad:
        evaluate([value.node, *also])
        return [_or_zeros(None, t, True) for t in leaves]
    found = _arrays([(value.node, None)], [t.node for t in leaves], also, retain=False)
    return [_or_zeros(g, t, True) for g, t in zip(found, leaves, strict=True)]


def _arrays(
    seeds: Sequence[tuple[Node, Node | None]], targets: Sequence[Node], also: Sequence[Node] = (), *, retain: bool
) -> Sequence[np.ndarray | None]:
    """Gradients of results as arrays.

    seeds    (result, cotangent; None: one);  also: nodes to compute in the same run;  retain: keep the history
    """
    results, starts = zip(*seeds, strict=True)
    ask = Ask(NODES, results, starts, tuple(also), tuple(targets))
    found = by_cached_plan(ask, retain)
    if found is not None:
        return found
    live = live_small(state.now, [*results, *[n for n in starts if n is not None], *also, *targets])
    bars = [(r, seed_for(handle(r), None).node if bar is None else bar) for r, bar in seeds]
    groups = [group_of(n) for n in targets]
    return Gradients(bars, groups, retain=retain, also=also, live=live, ask=ask).solve()


def _recorded(value: Tensor, leaves: Sequence[Tensor], tracks: bool | None) -> tuple[bool, list[Tensor]]:
    """True if gradients track, and the gradients as pending tensors.   tracks: see `pulled`"""
    mine = [t.node for t in leaves]
    is_tape = True
    found: list[Tensor | None] = [None] * len(mine)
    if value.node.kind.out.requires_grad:
        is_tape, found = pulled([(value.node, seed_for(value, None).node)], mine, tracks)
    return is_tape, [zeros_like(handle(n)) if g is None else g for g, n in zip(found, mine, strict=True)]


@border
def vjp(f: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """The result of f and its pullback: pullback(cotangents of the result) gives a tuple, one entry per primal.

    The pullback may be called any number of times.  With `has_aux` f returns a pair; its second part is not
    differentiated, and is returned third.

    Raises GradientError if there are not as many cotangents as results, ShapeError or DTypeError if one does not fit.

    >>> import autodiff as ad, numpy as np
    >>> y, pullback = ad.vjp(lambda x: x * x, np.array([1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 2., 40.]),)
    """
    name = name_of(f, "vjp")
    a = Arguments(primals, {}, tuple(range(len(primals))), name)
    result = run_recorded(f, a.args, {}, a.leaves)
    aux = None
    if has_aux:
        result, aux = value_and_aux(result, name)
    extra, nesting = tree.flatten(aux)
    results, structure = tree.flatten(result)
    results = [as_tensor(x, argument=f"a result of {name}") for x in results]
    mine = [t.node for t in a.leaves]
    outside = MODE.get().tracks and not a.plain and tracks_outside(history([t.node for t in results]), set(mine))

    @border
    def pullback(cotangents: Any) -> tuple:
        bars, where = tree.leaves(cotangents), f"vjp of {name}"
        is_array = a.plain and is_plain(bars)
        if len(bars) != len(results):
            raise GradientError(located(f"{where}: {len(results)} results but {len(bars)} cotangents"))
        there = zip(bars, results, strict=True)
        bars = [fitting(bar, t, where, "result", "cotangent") for bar, t in there]
        seeds = [(t.node, b.node) for t, b in zip(results, bars, strict=True) if t.node.kind.out.requires_grad]
        if not seeds:
            found: Sequence[Any] = [None] * len(mine)
        elif is_array:
            found = _arrays(seeds, mine, retain=True)
        else:
            tracks = outside or (MODE.get().tracks and any(b.node.kind.out.requires_grad for b in bars))
            _, found = pulled(seeds, mine, tracks)
        return a.unflatten([_or_zeros(g, t, a.plain) for g, t in zip(found, a.leaves, strict=True)])

    if a.plain:
        evaluate([x.node for x in (*results, *extra) if isinstance(x, Tensor)])
        out = plain_results([*results, *extra])
        for t in a.leaves:  # the pullback reads them later, but the caller's arrays were shared for this call only
            t.node.value = t.node.value.copy()
    else:
        out = [t if outside else record(DETACH, (t,)) for t in results] + _without_own_history(extra, a.leaves)
    value, extra = tree.unflatten(structure, out[: len(results)]), out[len(results) :]
    return (value, pullback, tree.unflatten(nesting, extra)) if has_aux else (value, pullback)


def _without_own_history(aux: Sequence[Any], leaves: Sequence[Tensor]) -> list[Any]:
    """The leaves of an aux value, detached where gradients flow to the arguments of f alone."""
    mine = {t.node for t in leaves}
    tracks = [isinstance(x, Tensor) and x.requires_grad and tracks_outside(history([x.node]), mine) for x in aux]
    return [record(DETACH, (x,)) if isinstance(x, Tensor) and not t else x for x, t in zip(aux, tracks, strict=True)]


def _or_zeros(g: Any, like: Tensor, is_array: bool) -> Any:
    if g is None:
        return np.zeros(like.shape, like.dtype)[()] if is_array else zeros_like(handle(like.node))
    return g[()] if isinstance(g, np.ndarray) and not g.shape else g


# ---------------------------------------------------------------- gradients between tensors


@border
def grad(
    y: Any = None, xs: Any = 0, grad_outputs: Any = None, create_graph: Any = False, allow_unused: Any = False, *,
    retain_graph: bool | None = None, f: Callable | None = None, argnums: Any = None, has_aux: bool = False,
) -> Any:  # fmt: skip
    """The gradient of a function, as a function; or the gradients of tensors.

    grad(f, argnums=0, has_aux=False)
        A function that returns the gradient of f with respect to the arguments `argnums`; f returns a
        float scalar (with has_aux: a pair of it and anything else, which is returned after the gradient).

    grad(y, xs, grad_outputs=None, create_graph=False, allow_unused=False)
        The gradients of the tensor y (or several) with respect to the tensors xs, in the nesting of xs.
        No `.grad` changes.  The history between y and xs is released unless create_graph or retain_graph.

    Raises GradientError for a result that is no scalar, an input that is not used (unless allow_unused).

    >>> import autodiff as ad, numpy as np
    >>> ad.grad(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]))
    array([ 3., 12.])
    >>> x = ad.tensor(2.0, requires_grad=True)
    >>> ad.grad(x * x, x)
    f64[] 4.0
    """
    if y is None and not callable(f):
        raise DispatchError(located(
            "grad: no function and no tensor was given",
            "write ad.grad(y, xs) for tensors, ad.grad(f)(x) for a function",
        ))
    if y is None or callable(y):
        # For a function, the second and third positions are `argnums` and `has_aux`; the other options are refused.
        options = {
            "grad_outputs": None if isinstance(grad_outputs, bool) else grad_outputs, "f": f if callable(y) else None,
            "create_graph": create_graph or None, "allow_unused": allow_unused or None, "retain_graph": retain_graph,
        }  # fmt: skip
        surplus = [name for name, value in options.items() if value is not None]
        if surplus:
            raise DispatchError(located(
                f"grad: {', '.join(surplus)} cannot be given for a function",
                "write ad.grad(f, argnums=0, has_aux=False) for a function, ad.grad(y, xs, ...) for tensors",
            ))
        given: Any = f if y is None else y
        return _derivative(given, xs if argnums is None else argnums, has_aux or bool(grad_outputs), "grad")
    ys, starts = asked_of(y, grad_outputs, "grad")
    retain = bool(create_graph if retain_graph is None else retain_graph)
    targets, structure = tree.flatten(xs)
    live, ask = [], None
    if not create_graph:
        if state.now.unseen:
            state.now.require_trace()  # a trace has no values to compute with
        if all([isinstance(x, Tensor) for x in targets]):
            given = tuple([None if start is None else start.node for start in starts])
            purpose = SOME if allow_unused else TENSORS
            ask = Ask(purpose, tuple([t.node for t in ys]), given, (), tuple([x.node for x in targets]))
            known = by_cached_plan(ask, retain, not retain)
            if known is not None:
                return tree.unflatten(structure, _as_leaves(known))
        live = live_small(state.now, [t.node for t in ys])
    for x in targets:
        if not isinstance(x, Tensor) or not x.node.kind.out.requires_grad:
            got = f"{x.aval} that does not require grad" if isinstance(x, Tensor) else with_article(type(x).__name__)
            raise GradientError(located(
                f"grad: the inputs are tensors that require grad, not {got}",
                "write ad.grad(y, xs) for tensors, ad.grad(f)(x) for a function",
            ))
    seeds = [(t.node, seed_for(t, g, "grad").node) for t, g in zip(ys, starts, strict=True)]
    past = history([t.node for t in ys])
    rare = uncommon(past)
    groups = [_group_of(x.node, rare) for x in targets]
    check_not_released(rare, groups)
    del rare  # a second list of these nodes would count as a holder that may still need their values
    through = [] if create_graph and retain else places_above(past, [n for g in groups for n in g.nodes])
    if create_graph:
        found = recorded(past, seeds, groups)
    else:
        question = Gradients(seeds, groups, retain=retain, past=past, live=live, ask=ask, through=through)
        try:
            found = _as_leaves(question.solve())
        except Exception:
            check_not_released(uncommon(past), groups)  # another thread may have released the history meanwhile
            raise
    with commit_lock:
        check_not_released(uncommon(past), groups)
        unused = [i for i, g in enumerate(found) if g is None and not allow_unused]
        if not unused and not retain:
            release([past[k] for k in through])
    if unused:
        raise GradientError(located(
            f"grad: input {unused[0]} ({targets[unused[0]].aval}) is not used by the result",
            "pass allow_unused=True to get None for it",
        ))
    return tree.unflatten(structure, found)


def _as_leaves(gradients: Sequence[np.ndarray | None]) -> list[Tensor | None]:
    return [None if g is None else leaf(g) for g in gradients]


def _group_of(node: Node, rare: Sequence[Node]) -> Group:
    """The group of a tensor: its node, or all versions of its leaf.   rare: the `uncommon` nodes of a history"""
    leaf = node.leaf
    found = () if leaf is None else tuple([n for n in rare if n.leaf is leaf])
    return Group(found, leaf.hooks or None) if leaf is not None and found else Group((hooked(node),))
