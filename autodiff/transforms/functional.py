"""Derivatives as functions of functions: grad, value_and_grad, vjp; and grad of tensors.

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
from ..custom import function
from ..errors import DTypeError, GradientError, ShapeError, caller
from ..ops import as_tensor, zeros_like
from ..tape.ask import end_recording, evaluate
from ..tape.leaves import constant, leaf
from ..tape.node import Node
from ..tape.record import DETACH, grad_mode, record, state
from ..tape.walk import history
from ..tensor import Tensor, handle
from .again import again, known, note_asked, purpose_of
from .anomaly import is_watching
from .arguments import Arguments, constant_of, is_plain, name_of, plain, plain_results, run_recorded, tracks_outside
from .backward import results_of, seed_for
from .emitted import emitted
from .gradient import (
    Group,
    check_not_released,
    emit,
    emit_with_history,
    group_of,
    live_beside,
    passed,
    release,
    solve,
)
from .stretches import in_parts

__all__ = ["grad", "gradient_of", "value_and_grad", "vjp"]


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
    name = name_of(f, "value_and_grad")

    @wraps(f)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        a = Arguments(args, argnums, name)
        kwargs = {k: tree.map(constant_of, v) for k, v in kwargs.items()}
        result = run_recorded(f, a.args, kwargs)
        value, aux = _scalar_and_aux(result, has_aux, name)
        aux_leaves, aux_structure = tree.flatten(aux)
        seed = constant(1.0, "f64" if value.dtype == np.float64 else "f32")
        if a.plain:
            gradients = _computed(value, seed, a.leaves, aux_leaves)
            out = plain(value)
            aux_leaves = plain_results(aux_leaves)
        else:
            gradients, out = _recorded(value, seed, a.leaves)
        if has_aux:
            out = (out, tree.unflatten(aux_structure, aux_leaves))
        return out, a.unflatten(gradients)

    return value_and_gradient


def _scalar_and_aux(result: Any, has_aux: bool, name: str) -> tuple[Tensor, Any]:
    aux = None
    if has_aux:
        if not (isinstance(result, tuple) and len(result) == 2):
            raise GradientError(
                f"{name} must return (value, aux) under has_aux=True, not a {type(result).__name__}\n"
                f"  called at {caller()}"
            )
        result, aux = result
    if isinstance(result, (int, float, np.generic)) or (isinstance(result, np.ndarray) and not result.shape):
        result = as_tensor(np.asarray(result, np.float64) if isinstance(result, int) else result)
    if not isinstance(result, Tensor) or result.shape or result.dtype.kind != "f":
        got = str(result.aval) if isinstance(result, Tensor) else f"a {type(result).__name__}"
        raise GradientError(
            f"grad: {name} must return a float scalar, not {got}\n"
            f"  called at {caller()}\n"
            f"  {_made_scalar(result)}"
        )
    return result, aux


def _made_scalar(result: Any) -> str:
    """How a result that is no float scalar may become one."""
    if result is None:
        return "it ends without `return`, or with one that has no value"
    if isinstance(result, tuple):
        return "return the number to differentiate first, and has_aux=True lets it return (number, anything else)"
    if isinstance(result, Tensor) and result.dtype.kind != "f" and not result.shape:
        return "ad.abs or ad.real of a complex number is a float" if result.dtype.kind == "c" else "convert it to float"
    return "sum or average the result, or use ad.vjp or ad.jacobian"


def _computed(value: Tensor, seed: Tensor, leaves: Sequence[Tensor], aux: Sequence[Any]) -> list[Any]:
    """Gradients as arrays; value and aux are computed in the same run."""
    also = [x.node for x in aux if isinstance(x, Tensor)]
    if not value.node.kind.out.requires_grad:
        evaluate([value.node, *also])
        return [np.zeros(t.shape, t.dtype)[()] for t in leaves]
    targets = [t.node for t in leaves]
    roots = [value.node, *also, *targets]
    live = live_beside(state.now, roots)
    purpose = ("value and gradient", value.node.kind, len(also), len(targets))
    if (found := known(purpose, roots, live)) is not None:
        end_recording(state.now)
    elif (parts := in_parts(value.node, np.ones((), value.dtype), [*also, *live], frozenset(targets))) is not None:
        found = parts.gradients([[n] for n in targets])
        parts.commit(is_released=False)
    else:
        groups = [group_of(n) for n in targets]
        found = solve(
            [(value.node, seed)], groups, retain=False, also=also, live=live, repeat=(purpose, roots)
        )
    return [np.zeros(t.shape, t.dtype)[()] if g is None else g if g.shape else g[()]
            for g, t in zip(found, leaves, strict=True)]


def _recorded(value: Tensor, seed: Tensor, leaves: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Gradients as pending tensors, and the value; they track what lies outside of this transformation."""
    mine = [t.node for t in leaves]

    def run() -> list[Tensor]:
        past = history([value.node])
        tracks = grad_mode.get() and tracks_outside(past, set(mine))
        groups = [group_of(n) for n in mine]
        found: list = emit(past, [(value.node, seed)], groups, tracks=tracks) if past else [None] * len(mine)
        out = value if tracks or not past else record(DETACH, (value,))
        return [*[zeros_like(handle(n)) if g is None else g for g, n in zip(found, mine, strict=True)], out]

    *gradients, out = emitted(("gradient",), (value.node, *mine), 1, len(mine), run)
    return gradients, out


@function
def grad(y, xs=0, grad_outputs=None, *, argnums=None, has_aux=False, create_graph=False, allow_unused=False,
         retain_graph=None):
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
    live = None
    if isinstance(y, Tensor) and not create_graph and not retain_graph:
        if grad_outputs is not None:
            grad_outputs = seed_for(y, grad_outputs)
        live = live_beside(state.now, (y.node,))
        found = again(y.node, xs, grad_outputs, live)
        if found is not None:
            return found
    ys = results_of(y, "grad")
    given = [grad_outputs] if isinstance(y, Tensor) else list(grad_outputs or [None] * len(ys))
    if len(given) != len(ys):
        raise GradientError(f"grad: {len(ys)} tensors but {len(given)} grad_outputs\n  called at {caller()}")
    targets, structure = tree.flatten(xs)
    for x in targets:
        if not isinstance(x, Tensor) or not x.node.kind.out.requires_grad:
            got = f"{x.aval} that does not require grad" if isinstance(x, Tensor) else f"a {type(x).__name__}"
            raise GradientError(
                f"grad: the inputs are tensors that require grad, not {got}\n"
                f"  called at {caller()}\n"
                "  write ad.grad(y, xs) for tensors, ad.grad(f)(x) for a function"
            )
    retain = create_graph if retain_graph is None else retain_graph
    if create_graph and retain:
        bars = [None if g is None else seed_for(t, g) for t, g in zip(ys, given, strict=True)]
        return tree.unflatten(structure, _all_used(_with_history(ys, bars, targets), targets, allow_unused))
    seeds = [(t.node, seed_for(t, g)) for t, g in zip(ys, given, strict=True)]
    if given == [None] and not create_graph:
        live = live_beside(state.now, (ys[0].node,)) if live is None else live
        arrays = _in_parts(ys[0].node, [x.node for x in targets], live, retain)
        if arrays is not None:
            return tree.unflatten(structure, [leaf(g) for g in arrays])
    past = history([t.node for t in ys])
    nodes = [_versions(x.node, past) for x in targets]
    through = passed(past, [n for found in nodes for n in found])
    # What is older than every target is below them; a released node has lost its inputs, so age must tell.
    oldest = min([n.number for x, found in zip(targets, nodes, strict=True) for n in found or (x.node,)], default=0)
    check_not_released([n for n in past if n.number > oldest])
    groups = [Group(found, x.node.leaf and (x.node.leaf.hooks or None)) for x, found in zip(targets, nodes, strict=True)
              if found]
    if create_graph:
        reached = iter(emit_with_history(past, seeds, groups))
    else:
        repeat = None
        is_one_each = all([found == (x.node,) for x, found in zip(targets, nodes, strict=True)])
        # A check takes all of a history for released, and knows one node of each target.
        if len(ys) == 1 and not retain and is_one_each and len(through) == len([n for n in past if n.leaf is None]):
            repeat = purpose_of(ys[0].node, targets, None if given == [None] else seeds[0][1])
        values = solve(seeds, groups, retain=retain, past=past, live=live, repeat=repeat)
        reached = iter([None if v is None else leaf(v) for v in values])
    found = _all_used([next(reached) if n else None for n in nodes], targets, allow_unused)
    if not retain:
        release([past[k] for k in through])
    return tree.unflatten(structure, found)


def _all_used(
    found: Sequence[Tensor | None], targets: Sequence[Tensor], allow_unused: bool
) -> Sequence[Tensor | None]:
    if not allow_unused and any(g is None for g in found):
        unused = next(i for i, g in enumerate(found) if g is None)
        raise GradientError(
            f"grad: input {unused} ({targets[unused].aval}) is not used by the result\n"
            f"  called at {caller()}\n"
            "  pass allow_unused=True to get None for it"
        )
    return found


def _with_history(
    ys: Sequence[Tensor], bars: Sequence[Tensor | None], targets: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """Gradients of tensors that have a history of their own (None: not reached); that of the results is kept."""

    def run() -> list[Tensor | None]:
        past = history([t.node for t in ys])
        nodes = [_versions(x.node, past) for x in targets]
        oldest = min([n.number for x, found in zip(targets, nodes, strict=True) for n in found or (x.node,)], default=0)
        check_not_released([n for n in past if n.number > oldest])
        seeds = [(t.node, seed_for(t, None) if g is None else g) for t, g in zip(ys, bars, strict=True)]
        groups = [Group(found, x.node.leaf and (x.node.leaf.hooks or None))
                  for x, found in zip(targets, nodes, strict=True) if found]
        reached = iter(emit_with_history(past, seeds, groups))
        return [next(reached) if n else None for n in nodes]

    purpose = ("gradients with a history", len(ys), tuple([g is None for g in bars]))
    roots = [*[t.node for t in ys], *[x.node for x in targets], *[g.node for g in bars if g is not None]]
    return emitted(purpose, roots, len(ys), len(targets), run, is_cut=False)


def _in_parts(
    y: Node, leaves: Sequence[Node], live: Sequence[Node], retain: bool
) -> list[np.ndarray] | None:
    """The gradients for leaves, all that y depends on, if its recording falls into stretches; None: it does not."""
    wanted = {n.leaf: place for place, n in enumerate(leaves)}
    if state.now.tracing or is_watching() or None in wanted or len(wanted) < len(leaves):
        return None
    out = y.kind.out
    parts = in_parts(y, np.ones(out.shape, out.aval.dtype), live)
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


def _versions(node: Node, past: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes of a history that are this one, or hold an older value of the same leaf."""
    return tuple([n for n in past if n is node or (n.leaf is not None and n.leaf is node.leaf)])


@grad.method(Callable, object, object)
def _(y, xs=0, grad_outputs=None, *, argnums=None, has_aux=False, create_graph=False, allow_unused=False,
      retain_graph=None):
    return gradient_of(y, xs if argnums is None else argnums, has_aux)


def gradient_of(f: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable:
    """What `ad.grad(f)` is: `value_and_grad` without the value."""
    both = value_and_grad(f, argnums, has_aux)

    @wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return gradient


def vjp(f: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """(f(*primals), pullback): pullback(cotangents of the result) gives a tuple, one entry per primal.

    The pullback may be called any number of times.

    Raises GradientError when a cotangent does not have the aval of its result.

    >>> import autodiff as ad, numpy as np
    >>> y, pullback = ad.vjp(lambda x: x * x, np.array([1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 2., 40.]),)
    """
    name = name_of(f, "vjp")
    a = Arguments(primals, tuple(range(len(primals))), name)
    result = run_recorded(f, a.args, {})
    aux = None
    if has_aux:
        result, aux = result
    results, structure = tree.flatten(result)
    results = [x if isinstance(x, Tensor) else as_tensor(x) for x in results]
    mine = [t.node for t in a.leaves]
    outside = grad_mode.get() and not a.plain and tracks_outside(history([t.node for t in results]), set(mine))
    groups = [group_of(n) for n in mine]

    def pullback(cotangents: Any) -> tuple:
        bars = tree.leaves(cotangents)
        if len(bars) != len(results):
            given = f"{len(results)} results but {len(bars)} cotangents"
            raise GradientError(f"vjp of {name}: {given}\n  called at {caller()}")
        bars = [_checked_bar(bar, t, name) for bar, t in zip(bars, results, strict=True)]
        seeds = [(t.node, b) for t, b in zip(results, bars, strict=True) if t.node.kind.out.requires_grad]
        if not seeds:
            found: list = [None] * len(groups)
        elif a.plain and is_plain(tree.leaves(cotangents)):
            found = _pulled_back(seeds, groups)
        else:

            def run() -> list[Tensor | None]:
                tracks = outside or (grad_mode.get() and any(b.node.kind.out.requires_grad for b in bars))
                return emit(history([r for r, _ in seeds]), seeds, groups, tracks=tracks)

            roots = [*[t.node for t in results], *mine, *[b.node for b in bars]]
            found = list(emitted(("pullback", len(results), len(mine), outside), roots, len(results), len(mine), run))
        return a.unflatten([_or_zeros(g, t, a.plain) for g, t in zip(found, a.leaves, strict=True)])

    if a.plain:
        evaluate([t.node for t in results])
        out = plain_results(results)
        for t in a.leaves:  # the pullback reads them later: the caller's arrays were shared for this call only
            t.node.value = t.node.value.copy()
    else:
        out = [t if outside else record(DETACH, (t,)) for t in results]
    out = tree.unflatten(structure, out)
    return (out, pullback, aux) if has_aux else (out, pullback)


def _pulled_back(
    seeds: Sequence[tuple[Node, Tensor]], groups: Sequence[Group]
) -> list[np.ndarray | None]:
    """Gradients as arrays; the history stays."""
    now = state.now
    roots = [*[r for r, _ in seeds], *[bar.node for _, bar in seeds], *[n for g in groups for n in g.nodes]]
    live = live_beside(now, roots)
    purpose = ("pullback", roots[0].kind, len(seeds), len(groups))
    found = None if now.tracing else known(purpose, roots, live)
    if found is None:
        return solve(seeds, groups, retain=True, live=live, repeat=(purpose, roots))
    note_asked(now)
    return found


def _or_zeros(g: Any, like: Tensor, is_array: bool) -> Any:
    if g is None:
        return np.zeros(like.shape, like.dtype)[()] if is_array else zeros_like(handle(like.node))
    return g[()] if isinstance(g, np.ndarray) and not g.shape else g


def _checked_bar(bar: Any, result: Tensor, name: str) -> Tensor:
    if isinstance(bar, (int, float)) and not result.shape:
        bar = np.asarray(bar, result.dtype)
    t = as_tensor(bar)
    if t.aval != result.aval:
        error = ShapeError if t.shape != result.shape else DTypeError
        raise error(f"vjp of {name}: the result is {result.aval}, its cotangent {t.aval}\n  called at {caller()}")
    return t


