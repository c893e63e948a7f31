"""Whole matrices of derivatives, and products with them: jacobian, hessian, hvp.

A Jacobian is computed by rows in reverse mode, or by columns in forward mode, whichever are fewer.  The function is
recorded once, and so is a pass.  Many passes run at once, as under `vmap`; they run in blocks, or one by one, if their
values together are too large, and one by one if a rule needs values or has no batching rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from math import prod
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.symbols import NotSymbolic, Symbol

from .. import tree
from ..errors import ConcretizationError, GradientError, located, with_article
from ..mode import MODE
from ..ops import as_tensor, concatenate, stack, zeros_like
from ..ops.shaping import reshaped, transposed
from ..tape.ask import evaluate
from ..tape.leaves import leaf
from ..tape.node import Node
from ..tape.plan import data
from ..tape.walk import history, largest
from ..tensor import AbstractTensor, Tensor, handle
from ..tracebacks import border
from .arguments import (
    Arguments,
    check_differentiable,
    is_differentiable,
    name_of,
    paired,
    plain_results,
    run_recorded,
    tracks_outside,
    with_directions,
)
from .backward_pass import emit, group_of, looking, untracked
from .batch.walk import NoBatchRule, each
from .forward import pushed_to, tangents_of
from .functional import gradients_with_history
from .reverse import Many

#: If memory suffices for fewer passes than this at once, they run one by one.
FEWEST = 8

#: The most elements of one intermediate result, in all passes that run at once: 32 MB of float64.
LIMIT = 1 << 22

#: A function from unit tensors along axis 0, and how many they are (None: one, without that axis), to passes' results.
_Run = Callable[[Tensor, Many | None], Sequence[Any]]


def jacobian(f: Callable, argnums: int | Sequence[int] = 0, mode: str = "auto") -> Callable:
    """A function that returns the derivatives of all results of f by all entries of the arguments `argnums`.

    f: ... -> s...  by  x: a...   →   s...a...     result axes first; nested results hold nested arguments

    mode   "reverse" (one pass per result entry), "forward" (one per argument entry), or "auto": whichever needs fewer.
           Many passes run at once, as under `vmap`

    Raises GradientError for another mode, or a result that is complex or no array; DTypeError for an argument
    that is not float.

    >>> import autodiff as ad, numpy as np
    >>> ad.jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    if not isinstance(mode, str) or mode not in ("auto", "forward", "reverse"):
        raise GradientError(located(f"jacobian: mode={mode!r}", 'it is "auto", "forward" or "reverse"'))
    name = name_of(f, "jacobian", argnums)

    def matrices(*args: Any, **kwargs: Any) -> Any:
        a = Arguments(args, kwargs, argnums, name)
        results, structure = tree.flatten(run_recorded(f, a.args, a.kwargs, a.leaves))
        return tree.unflatten(structure, _matrices(results, a, mode, name))

    return border(matrices, f)


def _float_result(x: Any, name: str) -> Tensor:
    if isinstance(x, AbstractTensor) or is_differentiable(x):
        t = as_tensor(x)
        if t.dtype.kind == "f":
            return t
        got = str(t.aval)
    else:
        got = with_article(type(x).__name__)
    raise GradientError(located(f"jacobian: {name} returned {got}; its results must be real arrays"))


def _matrices(found: Sequence[Any], a: Arguments, mode: str, name: str) -> list[Any]:
    """The derivatives of each result by all arguments, in their nesting."""
    results = [_float_result(r, name) for r in found]
    by_row = mode == "reverse" or (mode == "auto" and sum([r.size for r in results]) <= sum([x.size for x in a.leaves]))
    over = results if by_row else a.leaves
    passes = [x for t in over for x in _passes(t, results, a, by_row)]
    if a.plain:
        evaluate([x.node for x in passes if isinstance(x, Tensor)])
        passes = plain_results(passes)
    axis, down, along = (0, len(a.leaves), 1) if by_row else (-1, 1, len(results))
    return [
        a.unflatten([_block(passes[k * down + j * along], r, x, axis, a.plain) for j, x in enumerate(a.leaves)])
        for k, r in enumerate(results)
    ]


def _passes(t: Tensor, results: Sequence[Tensor], a: Arguments, by_row: bool) -> list[Any]:
    """The passes back from one result, or forward from one argument, one for each of its unit tensors, along axis 0."""
    past = history([t.node] if by_row else [r.node for r in results])
    across, aval = a.leaves if by_row else results, t.node.kind.out.aval
    if not past or not aval.size:
        return [None] * len(across)
    if type(aval.size) is Symbol:
        raise NotSymbolic(f"a jacobian runs one pass for each of {aval.size!r} elements")
    tracks = not a.plain and MODE.get().tracks and tracks_outside(past, {x.node for x in a.leaves})
    run = partial(_back, t, past, a, tracks) if by_row else partial(_push, t, past, results, tracks)
    count = min(aval.size, LIMIT // max(largest(past), aval.size))
    if count >= min(aval.size, FEWEST):
        try:
            return _in_turn(run, aval, count, across, a.plain)
        except (ConcretizationError, GradientError, NoBatchRule):
            pass  # one by one, each pass can evaluate tensors, or raises the error that names the fault
    if by_row and a.plain:
        evaluate([r.node for r in results])
    return _in_turn(run, aval, 0, across, a.plain)


def _in_turn(run: _Run, aval: Aval, count: int, across: Sequence[Tensor], is_plain: bool) -> list[Any]:
    """The results of a pass for each unit tensor of an aval, in blocks of `count` passes at once (0: one by one)."""
    blocks: list[list[Any]] = []
    for start in range(0, aval.size, count or 1):
        units = _units(aval, start, min(start + (count or 1), aval.size))
        found = list(run(leaf(units), many(len(units))) if count else run(leaf(units[0, ...]), None))
        if count >= aval.size:
            return found
        if is_plain:
            evaluate([t.node for t in found if t is not None], tracks=True)  # the next passes read the same values
            found = [None if t is None else data(t.node) for t in found]
        blocks.append(found)
    return [_joined(parts, x, count, is_plain) for parts, x in zip(zip(*blocks, strict=True), across, strict=True)]


def _joined(parts: Sequence[Any], like: Tensor, count: int, is_plain: bool) -> Any:
    """The results of passes, joined along axis 0; None if no pass reached anything."""
    if all([x is None for x in parts]):
        return None
    if not count:
        zero = np.zeros(like.shape, like.dtype) if is_plain else zeros_like(handle(like.node))
        return (np.stack if is_plain else stack)([zero if x is None else x for x in parts])
    return (np.concatenate if is_plain else concatenate)(parts)


def _units(aval: Aval, start: int, stop: int) -> np.ndarray:
    """The unit tensors number `start` to `stop`, in C order, along axis 0."""
    return np.eye(stop - start, aval.size, start, aval.dtype).reshape(-1, *aval.shape)


def many(size: int) -> Many:
    """The description of `size` cotangents or tangents at once."""
    return Many(size, lambda f, given: each(f, given, [True] * len(given), size))


def _back(
    r: Tensor, past: list[Node], a: Arguments, tracks: bool, units: Tensor, many: Many | None
) -> Sequence[Tensor | None]:
    """The passes back from one result.   tracks: their results are recorded with a history"""
    groups = [group_of(x.node) for x in a.leaves]
    if many is not None and looking(past, [units.node], tracks):
        return many.each(lambda one: emit(past, [(r.node, one[0].node)], groups, tracks=tracks), [units])
    return emit(past, [(r.node, units.node)], groups, tracks=tracks, many=many)


def _push(
    x: Tensor, past: list[Node], results: Sequence[Tensor], tracks: bool, units: Tensor, many: Many | None
) -> Sequence[Tensor | None]:
    """The passes forward from one argument.   tracks: their results are recorded with a history"""

    def push(given: list[Tensor]) -> list[Tensor | None]:
        dots = tangents_of([r.node for r in results], past, {x.node: given[0]}, tracks)
        return dots if tracks else untracked(dots)

    return push([units]) if many is None else many.each(push, [units])


def _block(passes: Any, result: Tensor, x: Tensor, axis: int, is_plain: bool) -> Any:
    """Rows (axis 0), or columns (axis -1), as one array whose axes are the result's, then the argument's."""
    shape = result.shape + x.shape
    if not prod(shape) or passes is None:
        zeros = np.zeros(shape, np.promote_types(result.dtype, x.dtype))
        return zeros[()] if is_plain else leaf(zeros)
    if is_plain:
        return np.asarray(np.moveaxis(passes, 0, axis).reshape(shape), order="C")[()]
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
    name = name_of(f, "hessian", argnums)

    def matrix(*args: Any, **kwargs: Any) -> Any:
        a = Arguments(args, kwargs, argnums, name)
        found = gradients_with_history(f, a.args, a.kwargs, a.leaves, name, "hessian")
        for x in a.others():
            raise GradientError(located(
                f"hessian: an argument of {name} holds {with_article(type(x).__name__)}",
                "second derivatives are of arrays by arrays: pass what is no array in an argument of its own",
            ))
        return a.unflatten(_matrices(found, a, "reverse", name))

    return border(matrix, f)


@border
def hvp(f: Callable, primals: Any, tangents: Any) -> Any:
    """The product of the Hessian of f with a direction, without the Hessian: forward mode over reverse.

    primals, tangents   one argument of f and its direction alone; or equally long tuples or lists of arguments and
                        directions, with equal nestings, shapes and dtypes

    Returns H·v: for one primal in its nesting, for several a tuple.
    Raises GradientError when f returns no scalar, ShapeError or DTypeError for a direction that does not fit.

    >>> import autodiff as ad, numpy as np
    >>> ad.hvp(lambda x: (x ** 3).sum(), np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    name = name_of(f, "hvp")
    where = f"hvp of {name}"
    primals, tangents = paired(where, primals, tangents)
    structure, made, given, made_plain = with_directions(where, primals, tangents)
    for i, x in enumerate(primals):
        check_differentiable(i, x, name)
    is_moving = [isinstance(x, Tensor) and x.node.kind.out.requires_grad for x in made]
    args, leaves = tree.unflatten(structure, made), [handle(x.node) for x in compress(made, is_moving)]
    gradients = gradients_with_history(f, args, {}, leaves, name, "hvp")
    dots: list[Any] = pushed_to(gradients, made, given, made_plain)[len(gradients) :]
    if made_plain:
        evaluate([t.node for t in dots])
        dots = plain_results(dots)
    there = iter(dots)
    product = tree.unflatten(structure, [next(there) if moves else None for moves in is_moving])
    return product[0] if len(primals) == 1 else product
