"""Derivatives as functions of functions: value_and_grad, vjp, and what `ad.grad` does with a function.

Every transformation gives each argument a fresh node and differentiates with respect to that node,
never the caller's; so nesting cannot confuse one derivative with another.

Called from plain code (no tensor among the arguments) they compute at once and return NumPy arrays;
called with tensors, or inside another transformation or a trace, they record and return tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from .. import tree
from ..errors import GradientError, located, with_article
from ..mode import MODE
from ..ops import as_tensor, zeros_like
from ..tape.ask import evaluate
from ..tape.known import NODES, Ask
from ..tape.leaves import constant, leaf
from ..tape.node import Node
from ..tape.program import data
from ..tape.record import DETACH, record, state
from ..tape.walk import history
from ..tensor import Tensor, handle
from ..tracebacks import shorten
from .arguments import Arguments, fitting, is_plain, name_of, plain, plain_results, run_recorded, tracks_outside
from .backward_pass import OUTSIDE, RECORDED, group_of, pulled
from .gradient import solve
from .gradient_asks import again, live_beside

__all__ = ["gradient_of", "gradients_with_history", "value_and_grad", "vjp"]


def value_and_grad(f: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable:
    """A function that returns (f(*args), gradient of f with respect to the arguments `argnums`).

    f must return a float scalar, or with `has_aux` a pair (scalar, anything).  The gradient has the
    nesting of the argument; a tuple of argnums gives a tuple.  NumPy in, NumPy out: what SciPy's
    `minimize(..., jac=True)` takes.

    Raises GradientError when f returns no scalar, DTypeError for an integer argument.

    >>> import autodiff as ad, numpy as np
    >>> ad.value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """
    return _derivative(f, argnums, has_aux, "value_and_grad")


def _is_of_its_own(value: Tensor, leaves: Sequence[Tensor]) -> bool:
    """True if nothing outside of the function that made a value can be differentiated through it."""
    return not state.now.transforming and not tracks_outside(history([value.node]), {t.node for t in leaves})


def gradient_of(f: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable:
    """The function `ad.grad(f)`: `value_and_grad` without the value."""
    return _derivative(f, argnums, has_aux, "grad")


def _derivative(f: Callable, argnums: int | Sequence[int], has_aux: bool, taker: str) -> Callable:
    """The function that `value_and_grad` returns, or `grad`: the taker."""
    name = name_of(f, taker, argnums)

    @wraps(f)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        # It reads names of functions only: cloudpickle writes it like a function of the user's.
        try:
            return _differentiated(f, args, kwargs, argnums, has_aux, name, taker)
        except Exception as error:
            shorten(error)
            raise

    return derivative


def _differentiated(
    f: Callable, args: tuple, kwargs: dict[str, Any], argnums: int | Sequence[int], has_aux: bool, name: str, taker: str
) -> Any:
    """The results of one call.   name: of f in messages;  taker: see `_derivative`"""
    a = Arguments(args, argnums, name)
    value, aux = _scalar_and_aux(run_recorded(f, a.args, kwargs, a.leaves, lends=a.plain), has_aux, name, taker)
    leaves, structure = tree.flatten(aux)
    if a.plain:
        gradients = _computed(value, a.leaves, leaves)
        out: Any = plain(value)
        leaves = plain_results(leaves)
    elif state.now.unseen and _is_of_its_own(value, a.leaves):
        gradients = [leaf(np.asarray(g)) for g in _computed(value, a.leaves, leaves)]
        out = leaf(data(value.node))
    else:
        # They track what lies outside of this transformation.
        tracks, gradients = _recorded(value, a.leaves, OUTSIDE if MODE.get().tracks else 0)
        out = value if tracks else record(DETACH, (value,))
    gradient = a.unflatten(gradients)
    first = gradient if taker == "grad" else out
    if has_aux:
        first = first, tree.unflatten(structure, leaves)
    return first if taker == "grad" else (first, gradient)


def gradients_with_history(
    f: Callable, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Tensor], name: str, taker: str, *,
    lends: bool,
) -> list[Tensor]:  # fmt: skip
    """The gradients of f as functions of its arguments, of which `leaves` are the tensors to differentiate by."""
    value, _ = _scalar_and_aux(run_recorded(f, args, kwargs, leaves, lends=lends), False, name, taker)
    return _recorded(value, leaves, RECORDED)[1]


def _scalar_and_aux(result: Any, has_aux: bool, name: str, transformation: str) -> tuple[Tensor, Any]:
    aux = None
    if has_aux:
        if not (isinstance(result, tuple) and len(result) == 2):
            got = with_article(type(result).__name__)
            raise GradientError(located(f"{name} must return (value, aux) under has_aux=True, not {got}"))
        result, aux = result
    if isinstance(result, (int, float, np.generic)) or (isinstance(result, np.ndarray) and not result.shape):
        result = as_tensor(np.asarray(result, np.float64) if isinstance(result, int) else result)
    if not isinstance(result, Tensor) or result.shape or result.dtype.kind != "f":
        got = str(result.aval) if isinstance(result, Tensor) else with_article(type(result).__name__)
        raise GradientError(located(
            f"{transformation}: {name} must return a float scalar, not {got}",
            _made_scalar(result),
        ))
    return result, aux


def _made_scalar(result: Any) -> str:
    """Advice on how a result that is no float scalar may become one."""
    if result is None:
        return "it ends without `return`, or with one that has no value"
    if isinstance(result, tuple):
        return "return the number to differentiate first, and has_aux=True lets it return (number, anything else)"
    if isinstance(result, Tensor) and result.dtype.kind != "f" and not result.shape:
        return "ad.abs or ad.real of a complex number is a float" if result.dtype.kind == "c" else "convert it to float"
    return "sum or average the result, or use ad.vjp or ad.jacobian"


def _computed(value: Tensor, leaves: Sequence[Tensor], aux: Sequence[Any]) -> list[Any]:
    """Gradients as arrays; value and aux are computed in the same run."""
    also = [x.node for x in aux if isinstance(x, Tensor)]
    if not value.node.kind.out.requires_grad:
        evaluate([value.node, *also])
        return [_or_zeros(None, t, True) for t in leaves]
    found = _arrays([(value.node, None)], [t.node for t in leaves], also, retain=False)
    return [_or_zeros(g, t, True) for g, t in zip(found, leaves, strict=True)]


def _arrays(
    seeds: Sequence[tuple[Node, Tensor | None]], targets: Sequence[Node], also: Sequence[Node] = (), *, retain: bool
) -> Sequence[np.ndarray | None]:
    """Gradients of results as arrays.

    seeds    (result, cotangent; None: one);  also: nodes that are computed in the same run;  retain: the history stays
    """
    results, starts = tuple([r for r, _ in seeds]), tuple([None if bar is None else bar.node for _, bar in seeds])
    ask = Ask(NODES, results, starts, tuple(also), tuple(targets))
    found = again(ask, retain)
    if found is not None:
        return found
    live = live_beside(state.now, [*results, *[n for n in starts if n is not None], *also, *targets])
    bars = [(r, _seed(r) if bar is None else bar) for r, bar in seeds]
    return solve(bars, [group_of(n) for n in targets], retain=retain, also=also, live=live, ask=ask)


def _seed(value: Node) -> Tensor:
    return constant(1.0, "f64" if value.kind.out.aval.dtype == np.float64 else "f32")


def _recorded(value: Tensor, leaves: Sequence[Tensor], asked: int) -> tuple[bool, list[Tensor]]:
    """True if gradients track, and the gradients as pending tensors.   asked: as `pulled` takes it"""
    mine = [t.node for t in leaves]
    tracks = True
    found: list[Tensor | None] = [None] * len(mine)
    if value.node.kind.out.requires_grad:
        tracks, found = pulled([(value.node, _seed(value.node))], mine, asked)
    return tracks, [zeros_like(handle(n)) if g is None else g for g, n in zip(found, mine, strict=True)]


def vjp(f: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """The result of f and its pullback: pullback(cotangents of the result) gives a tuple, one entry per primal.

    The pullback may be called any number of times.  With `has_aux` f returns a pair, and its second part, of which
    there is no gradient, comes third.

    Raises GradientError when a cotangent does not have the shape and dtype of its result.

    >>> import autodiff as ad, numpy as np
    >>> y, pullback = ad.vjp(lambda x: x * x, np.array([1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 2., 40.]),)
    """
    try:
        name = name_of(f, "vjp")
        a = Arguments(primals, tuple(range(len(primals))), name)
        result = run_recorded(f, a.args, {}, a.leaves, lends=a.plain)
        aux = None
        if has_aux:
            result, aux = result
        results, structure = tree.flatten(result)
        results = [x if isinstance(x, Tensor) else as_tensor(x) for x in results]
        mine = [t.node for t in a.leaves]
        outside = MODE.get().tracks and not a.plain and tracks_outside(history([t.node for t in results]), set(mine))
        def pullback(cotangents: Any) -> tuple:
            try:
                bars = tree.leaves(cotangents)
                where = f"vjp of {name}"
                if len(bars) != len(results):
                    raise GradientError(located(f"{where}: {len(results)} results but {len(bars)} cotangents"))
                there = zip(bars, results, strict=True)
                bars = [fitting(bar, t, where, "result", "cotangent") for bar, t in there]
                seeds = [(t.node, b) for t, b in zip(results, bars, strict=True) if t.node.kind.out.requires_grad]
                if not seeds:
                    found: list = [None] * len(mine)
                elif a.plain and is_plain(tree.leaves(cotangents)):
                    found = list(_arrays(seeds, mine, retain=True))
                else:
                    tracks = outside or (MODE.get().tracks and any(b.node.kind.out.requires_grad for b in bars))
                    _, found = pulled(seeds, mine, RECORDED if tracks else 0)
                return a.unflatten([_or_zeros(g, t, a.plain) for g, t in zip(found, a.leaves, strict=True)])
            except Exception as error:
                shorten(error)
                raise

        if a.plain:
            evaluate([t.node for t in results])
            out = plain_results(results)
            for t in a.leaves:  # the pullback reads them later: the caller's arrays were shared for this call only
                t.node.value = t.node.value.copy()
        else:
            out = [t if outside else record(DETACH, (t,)) for t in results]
        out = tree.unflatten(structure, out)
        return (out, pullback, aux) if has_aux else (out, pullback)
    except Exception as error:
        shorten(error)
        raise


def _or_zeros(g: Any, like: Tensor, is_array: bool) -> Any:
    if g is None:
        return np.zeros(like.shape, like.dtype)[()] if is_array else zeros_like(handle(like.node))
    return g[()] if isinstance(g, np.ndarray) and not g.shape else g
