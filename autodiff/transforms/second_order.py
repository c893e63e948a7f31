"""Whole matrices of derivatives, and products with them: jacobian, hessian, hvp.

A Jacobian is made of rows by reverse mode, or of columns by forward mode, whichever are fewer.  The function is
recorded once, and so is a pass; many passes are done at once, as `vmap` does it: what are products of a matrix and
a vector in one are products of matrices in all of them.  A few passes are done one after the other, and so are those
of a rule that needs values or is not known for many examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from .. import tree
from ..errors import GradientError, caller, with_article
from ..mode import MODE
from ..ops import as_tensor, stack, zeros_like
from ..ops.shaping import reshaped, transposed
from ..tape.ask import evaluate
from ..tape.leaves import leaf
from ..tape.node import Node
from ..tape.plan import data
from ..tape.walk import history
from ..tensor import AbstractTensor, Tensor, handle
from ..tracebacks import shorten
from .arguments import Arguments, is_differentiable, name_of, plain_results, run_recorded, tracks_outside
from .at_once import RECORDED, pull_back_at_once
from .backward_pass import emit, group_of, is_looked_at, recording_rules, untracked
from .batch.passes import Run, at_once, together
from .forward import Push, jvp, paired
from .functional import gradient_of
from .gradient import solve
from .reverse import LooksAtCotangents, Many

__all__ = ["hessian", "hvp", "jacobian"]


def jacobian(f: Callable, argnums: int | Sequence[int] = 0, mode: str = "auto") -> Callable:
    """A function that returns the derivatives of all results of f by all entries of the arguments `argnums`.

    f: ... -> s...  by  x: a...   →   s...a...     result axes first; nested results hold nested arguments

    mode   "reverse" (one pass per result entry), "forward" (one per argument entry), or "auto": the fewer.  Many passes
           are done at once, as `vmap` does it

    Raises GradientError for another mode, or a result that is complex or no array; DTypeError for an argument
    that is not float.

    >>> import autodiff as ad, numpy as np
    >>> ad.jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    if not isinstance(mode, str) or mode not in ("auto", "forward", "reverse"):
        raise GradientError(
            f'jacobian: mode={mode!r}\n  called at {caller()}\n  it is "auto", "forward" or "reverse"'
        )
    name = name_of(f, "jacobian", argnums)

    @wraps(f)
    def matrices(*args: Any, **kwargs: Any) -> Any:
        try:
            a = Arguments(args, argnums, name)
            results, structure = tree.flatten(run_recorded(f, a.args, kwargs, a.leaves, lends=a.plain))
            results = [_float_result(r, name) for r in results]
            rows, columns = sum([r.size for r in results]), sum([x.size for x in a.leaves])
            by_row = mode == "reverse" or (mode == "auto" and rows <= columns)
            blocks = _all_at_once(results, a, by_row) or (_by_row if by_row else _by_column)(results, a)
            return tree.unflatten(structure, [a.unflatten(row) for row in blocks])
        except Exception as error:
            shorten(error)
            raise

    return matrices


def _float_result(x: Any, name: str) -> Tensor:
    if isinstance(x, AbstractTensor) or is_differentiable(x):
        t = as_tensor(x)
        if t.dtype.kind == "f":
            return t
        got = str(t.aval)
    else:
        got = with_article(type(x).__name__)
    raise GradientError(f"jacobian: {name} returned {got}; its results must be real arrays\n  called at {caller()}")


def _basis(t: Tensor) -> Iterator[Tensor]:
    """The unit tensors of an aval, in C order."""
    for i in range(t.size):
        e = np.zeros(t.shape, t.dtype)
        e.reshape(-1)[i] = 1
        yield leaf(e)


def _all_at_once(results: Sequence[Tensor], a: Arguments, by_row: bool) -> list[list[Any]] | None:
    """By passes that are all computed in one run; None where some are to be done one by one."""
    over = results if by_row else a.leaves
    if not (results and a.leaves and all([t.size for t in over])):
        return None
    passes: list[Any] = []
    for t in over:
        past = history([t.node]) if by_row else history([r.node for r in results])
        nothing = [None] * len(a.leaves if by_row else results)
        found = at_once(_passes(t, past, results, a, by_row), t, past) if past else nothing
        if found is None:
            return None
        passes += found
    if a.plain:
        evaluate([t.node for t in passes if t is not None])
        passes = plain_results(passes)
    # Which of the passes belongs to a result and an argument: those of one result, or of one argument, are neighbours.
    down, across, axis = (len(a.leaves), 1, 0) if by_row else (1, len(results), -1)
    return [
        [_block(passes[i * down + j * across], r, x, axis, a.plain) for j, x in enumerate(a.leaves)]
        for i, r in enumerate(results)
    ]


def _back(r: Tensor, past: list[Node], a: Arguments) -> Run:
    """Passes back from one result."""
    mine, tracks = [x.node for x in a.leaves], not a.plain and _tracks(past, a)

    def back(units: Tensor, many: Many) -> Sequence[Tensor | None]:
        found = pull_back_at_once([r.node], [units.node], mine, RECORDED if tracks else 0, many)
        if found is not None:
            return found[2]
        groups = [group_of(n) for n in mine]
        try:
            return emit(past, [(r.node, units)], groups, tracks=tracks, many=many)
        except LooksAtCotangents:
            return many.each(lambda one: emit(past, [(r.node, one[0])], groups, tracks=tracks), [units])

    return back


def _push(
    x: Tensor, past: list[Node], results: Sequence[Tensor], a: Arguments
) -> Callable[[list[Tensor]], list[Any]]:  # fmt: skip
    """A pass forward from one argument."""
    tracks = not a.plain and _tracks(past, a)

    def push(given: list[Tensor]) -> list[Any]:
        is_kept = is_looked_at(past)
        with recording_rules(tracks or is_kept):
            dots = Push(past, {x.node: given[0]}, [r.node for r in results]).results
        return untracked(dots) if is_kept and not tracks else dots

    return push


def _passes(t: Tensor, past: list[Node], results: Sequence[Tensor], a: Arguments, by_row: bool) -> Run:
    """Passes back from one result, or forward from one argument."""
    if by_row:
        return _back(t, past, a)
    push = _push(t, past, results, a)
    return lambda units, many: many.each(push, [units])


def _by_row(results: Sequence[Tensor], a: Arguments) -> list[list[Any]]:
    """By reverse mode: one pass for each entry of each result."""
    blocks = []
    for r in results:
        past = history([r.node])
        run = _passes(r, past, results, a, True)
        rows = together(run, r, past, a.plain) if past else [None] * len(a.leaves)
        if rows is None:
            if a.plain:
                evaluate([t.node for t in results])
            each = [_row(r.node, past, e, a) for e in _basis(r)]
            rows = [_stacked([row[j] for row in each], x, a.plain) for j, x in enumerate(a.leaves)]
        blocks.append([_block(row, r, x, 0, a.plain) for row, x in zip(rows, a.leaves, strict=True)])
    return blocks


def _row(result: Node, past: list[Node], e: Tensor, a: Arguments) -> list[Any]:
    groups = [group_of(x.node) for x in a.leaves]
    if a.plain:
        return list(solve([(result, e)], groups, retain=True, past=past))
    return list(emit(past, [(result, e)], groups, tracks=_tracks(past, a)))


def _tracks(past: list[Node], a: Arguments) -> bool:
    return MODE.get().tracks and tracks_outside(past, {x.node for x in a.leaves})


def _by_column(results: Sequence[Tensor], a: Arguments) -> list[list[Any]]:
    """By forward mode: one push for each entry of each argument."""
    past = history([r.node for r in results])
    columns: list[list[Any]] = []  # argument, result
    for x in a.leaves:
        found = together(_passes(x, past, results, a, False), x, past, a.plain)
        if found is None:
            push = _push(x, past, results, a)
            each = [push([e]) for e in _basis(x)]
            if a.plain:
                evaluate([d.node for dots in each for d in dots if d is not None])
                each = [[None if d is None else data(d.node) for d in dots] for dots in each]
            found = [_stacked([dots[k] for dots in each], r, a.plain) for k, r in enumerate(results)]
        columns.append(found)
    return [
        [_block(columns[j][k], r, x, -1, a.plain) for j, x in enumerate(a.leaves)] for k, r in enumerate(results)
    ]


def _stacked(slices: Sequence[Any], like: Tensor, is_plain: bool) -> Any:
    """The results of passes along a new axis 0; None where none of them reached anything."""
    if all(s is None for s in slices):
        return None
    if is_plain:
        zero = np.zeros(like.shape, like.dtype)
        return np.stack([zero if s is None else s for s in slices])
    return stack([zeros_like(handle(like.node)) if s is None else s for s in slices])


def _block(passes: Any, result: Tensor, x: Tensor, axis: int, is_plain: bool) -> Any:
    """Rows (axis 0), or columns (axis -1), as one array of the result's and then the argument's axes.

    passes    what they gave, along axis 0
    """
    shape = result.shape + x.shape
    if not prod(shape) or passes is None:
        zeros = np.zeros(shape, np.promote_types(result.dtype, x.dtype))
        return zeros[()] if is_plain else leaf(zeros)
    if is_plain:
        turned = passes if axis == 0 else np.ascontiguousarray(np.moveaxis(passes, 0, axis))
        return turned.reshape(shape)[()]
    turned = passes if axis == 0 else transposed(passes, (*range(1, passes.ndim), 0))
    return reshaped(turned, shape)


def hessian(f: Callable, argnums: int | Sequence[int] = 0) -> Callable:
    """A function that returns the second derivatives of f by the arguments `argnums`; f returns a float scalar.

    x: a...   →   a...a...     nested arguments hold nested arguments

    Raises GradientError when f returns no scalar, DTypeError for an argument that is not float.

    >>> import autodiff as ad, numpy as np
    >>> ad.hessian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    return jacobian(gradient_of(f, argnums, transformation="hessian"), argnums, mode="reverse")


def hvp(f: Callable, primals: Any, tangents: Any) -> Any:
    """The product of the Hessian of f with a direction, without the Hessian: forward mode over reverse.

    primals, tangents   one argument of f and its direction by themselves; or equally long tuples or lists of them,
                        of equal nestings, shapes and dtypes

    Returns H·v: for one primal in its nesting, for several a tuple.
    Raises GradientError when f returns no scalar, ShapeError or DTypeError for a direction that does not fit.

    >>> import autodiff as ad, numpy as np
    >>> ad.hvp(lambda x: (x ** 3).sum(), np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    try:
        primals, tangents = paired(f"hvp of {name_of(f, 'hvp')}", primals, tangents)
        _, product = jvp(gradient_of(f, tuple(range(len(primals))), transformation="hvp"), primals, tangents)
        return product[0] if len(primals) == 1 else product
    except Exception as error:
        shorten(error)
        raise
