"""Further parameters of functions that every program imports: those of NumPy's that their methods need not know.

Imported with the first call that does not bind to a declaration (`forms`).  Each body takes all parameters of its
function, in NumPy's order where it has one; of reductions see `masked_reductions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.lazily import imported

from ..errors import ShapeError, caller, located
from ..tensor import Tensor
from .arguments import axis_of
from .arithmetic import divide, subtract
from .contraction import matmul
from .conversion import as_tensor, astype
from .creation import empty_like, full, full_like, linspace, ones_like, zeros_like
from .diagonals import trace
from .einsum import einsum
from .forms import cast_by, computed_in, further
from .joining import concatenate, stack
from .rearranging import meshgrid
from .selection import clip
from .selection import where as choose
from .shaping import moveaxis, ravel, reshape, reshaped, transpose

__all__ = ["along_axes", "along_axis", "joined_in"]

# ---------------------------------------------------------------- layouts


def _order(name: str, order: str, others: str) -> bool:
    """True for Fortran's order.  "A" and "K" are C's: the last axis of a tensor is contiguous."""
    if not isinstance(order, str):
        raise TypeError(
            f"{name}: order must be str, not {type(order).__name__}\n  called at {caller()}"
            + imported("autodiff.dispatch.called").brackets()
        )
    if order not in ("C", "F", *others):
        known = ", ".join(("C", "F", *others))
        raise ValueError(located(f"{name}: order is one of {known}, not {order!r}"))
    return order == "F"


@further(reshape)
def _reshape(x, shape, order="C", *, copy=None):
    if not _order("reshape", order, "A"):
        return reshape(x, shape)
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return transpose(reshape(transpose(x), extents[::-1]))


@further(ravel)
def _ravel(x, order="C"):
    return ravel(transpose(x) if _order("ravel", order, "AK") else x)


# ---------------------------------------------------------------- dtypes


@further(astype)
def _astype(x, dtype, order="K", casting="unsafe", subok=True, copy=True, *, device=None):
    (y,) = cast_by(casting, "astype", (x,), dtype)
    return y


@further(concatenate)
def _concatenate(arrays, axis=0, *, dtype=None, casting="same_kind"):
    return concatenate(joined_in(casting, "concatenate", arrays, dtype), axis)


@further(stack)
def _stack(arrays, axis=0, *, dtype=None, casting="same_kind"):
    return stack(joined_in(casting, "stack", arrays, dtype), axis)


def joined_in(casting: str, name: str, arrays: Any, dtype: Any) -> Any:
    """Arrays that are to be joined in a dtype."""
    is_sequence = isinstance(arrays, (list, tuple))
    return cast_by(casting, name, arrays if is_sequence else [*arrays], dtype)


@further(trace)
def _trace(x, offset=0, axis1=0, axis2=1, dtype=None):
    return trace(x if dtype is None else astype(x, dtype), offset, axis1, axis2)


@further(clip)
def _clip(x, min=None, max=None, *, dtype=None, casting="same_kind"):
    x, *bounds = cast_by(casting, "clip", [one for one in (x, min, max) if one is not None], dtype)
    return clip(x, None if min is None else bounds[0], None if max is None else bounds[-1])


@further(einsum)
def _einsum(*operands, dtype=None, casting="safe"):
    if operands and isinstance(operands[0], str):
        return computed_in(dtype, casting, lambda *xs: einsum(operands[0], *xs), operands[1:], {}, "einsum")
    labels = operands[1::2]
    return computed_in(dtype, casting, lambda *xs: einsum(*woven(xs, labels, operands)), operands[0:-1:2], {}, "einsum")


def woven(xs: Sequence[Any], labels: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Operands, each with its list of labels behind it, and the labels of the result where they are given."""
    found = [part for pair in zip(xs, labels, strict=False) for part in pair]
    return [*found, operands[-1]] if len(operands) % 2 else found


# ---------------------------------------------------------------- shapes


@further(zeros_like)
def _zeros_like(x, *, dtype=None, shape=None):
    return _like(x, 0, dtype, shape)


@further(ones_like)
def _ones_like(x, *, dtype=None, shape=None):
    return _like(x, 1, dtype, shape)


@further(empty_like)
def _empty_like(x, *, dtype=None, shape=None):
    return _like(x, 0, dtype, shape)


@further(full_like)
def _full_like(x, fill_value, *, dtype=None, shape=None):
    return _like(x, fill_value, dtype, shape)


def _like(x: Any, value: Any, dtype: Any, shape: Any) -> Tensor:
    x = as_tensor(x)
    return full(x.shape if shape is None else shape, value, x.dtype if dtype is None else dtype)


@further(linspace)
def _linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    line = along_axis("linspace", linspace(start, stop, num, endpoint=endpoint, dtype=dtype), axis)
    if not retstep:
        return line
    parts = num - 1 if endpoint else num
    return line, divide(subtract(stop, start), float(parts) if parts > 0 else np.nan)


def along_axis(name: str, line: Tensor, axis: Any) -> Tensor:
    """Numbers that stand along the first axis, along another one."""
    return moveaxis(line, 0, axis_of(name, axis, line.aval))


@further(meshgrid)
def _meshgrid(*arrays, copy=True, sparse=False, indexing="xy"):
    grid = meshgrid(*arrays, indexing=indexing)
    if not sparse:
        return grid
    places = [1, 0, *range(2, len(grid))] if indexing == "xy" and len(grid) > 1 else range(len(grid))
    rows = [as_tensor(x) for x in arrays]
    return tuple([
        reshaped(x, tuple([x.size if p == place else 1 for p in range(len(grid))]))
        for x, place in zip(rows, places, strict=True)
    ])


@further(choose)
def _where(condition, x1=None, x2=None):
    if (x1 is None) != (x2 is None):
        raise ValueError(located("where: takes both of x and y, or neither"))
    return imported("autodiff.ops.choosing").nonzero(condition) if x1 is None else choose(condition, x1, x2)


# ---------------------------------------------------------------- products along axes


@further(matmul)
def _matmul(x1, x2, *, axes=None, dtype=None, casting="same_kind"):
    return along_axes(matmul, (2, 2), (x1, x2), axes, dtype, casting)


def along_axes(
    function: Callable, cores: tuple[int, int], xs: tuple[Any, Any], axes: Any, dtype: Any, casting: str
) -> Tensor:
    """A product of the last axes of two operands, as many as `cores` says, or of those that `axes` names for each.

    axes   [of x1, of x2, of the result]: numbers, or tuples of them; () where there is none
    """
    if axes is None:
        return computed_in(dtype, casting, function, xs, {})
    name = function.__name__
    given = [as_tensor(x, name) for x in xs]
    counts = [min(core, x.ndim) for core, x in zip(cores, given, strict=True)]
    rest = sum(counts) - 2  # of the result, without the axes that are summed
    named = [tuple(one) if isinstance(one, (tuple, list)) else (one,) for one in axes]
    named += [()] * (3 - len(named)) if not rest else []
    if [*map(len, named)] != [*counts, rest]:
        told = ", ".join(map(str, [*counts, rest]))
        raise ShapeError(located(f"{name}: axes names {told} axes of x1, x2 and the result, not {axes}"))
    moved = [moveaxis(x, one, tuple(range(-len(one), 0))) for x, one in zip(given, named, strict=False)]
    y = computed_in(dtype, casting, function, moved, {})
    return moveaxis(y, tuple(range(-rest, 0)), named[2]) if rest else y
