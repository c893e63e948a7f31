"""Diagonals, triangles and traces."""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Move

from ..errors import ShapeError, located
from ..tape import record
from ..tensor import Tensor
from .arguments import axis_of, integer
from .arithmetic import add, multiply
from .batching import along
from .conditions import equal, greater_equal, less_equal, where
from .conversion import as_tensor
from .creation import iota
from .primitive import linear, zero_of, zeros_of
from .reductions import summed, widened
from .template import public

__all__ = ["diag", "diagonal", "trace", "tril", "triu"]


# ---------------------------------------------------------------- triangles


def _matrices(x: Any, name: str) -> Tensor:
    x = as_tensor(x, name, "x")
    if x.ndim < 2:
        raise ShapeError(located(f"{name}: takes matrices, not {x.aval}"))
    return x


def _places(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """For each element of a matrix its row moved by k, and its column."""
    shape = x.shape[-2:]
    row = iota(shape, 0)
    return (add(row, k) if k else row), iota(shape, 1)


def lower_part(x: Tensor, k: int = 0) -> Tensor:
    """`tril` of a tensor."""
    return where(greater_equal(*_places(x, k)), x, zero_of(x.dtype))


def upper_part(x: Tensor, k: int = 0) -> Tensor:
    """`triu` of a tensor."""
    return where(less_equal(*_places(x, k)), x, zero_of(x.dtype))


def halved_lower(x: Tensor) -> Tensor:
    """The lower triangles, their diagonals halved: what, added to its transpose, gives a symmetric x."""
    return lower_part(where(equal(*_places(x, 0)), multiply(x, 0.5), x))


@public(1)
def tril(x, k=0):
    """Each matrix below and on its k-th diagonal, zeros above.

    x: T[..., n, m]  →  T[..., n, m]     what is cut off gets a gradient of exactly 0

    Raises ShapeError for less than two axes.

    >>> ad.tril([[1, 2], [3, 4]])
    i64[2,2]
    [[1 0]
     [3 4]]
    >>> ad.tril([[1, 2], [3, 4]], k=-1)
    i64[2,2]
    [[0 0]
     [3 0]]
    """
    return lower_part(_matrices(x, "tril"), integer(k, "tril", "k"))


@public(1)
def triu(x, k=0):
    """Each matrix above and on its k-th diagonal, zeros below.

    x: T[..., n, m]  →  T[..., n, m]     what is cut off gets a gradient of exactly 0

    Raises ShapeError for less than two axes.

    >>> ad.triu([[1, 2], [3, 4]])
    i64[2,2]
    [[1 2]
     [0 4]]
    """
    return upper_part(_matrices(x, "triu"), integer(k, "triu", "k"))

# ---------------------------------------------------------------- diagonals


def _diagonal_aval(x: Aval, *, offset: int, axis1: int, axis2: int) -> Aval:
    if axis1 == axis2 or not (0 <= axis1 < x.ndim and 0 <= axis2 < x.ndim):
        raise ShapeError(located(f"diagonal: {axis1} and {axis2} are not two axes of {x}"))
    rest = [n for i, n in enumerate(x.shape) if i not in (axis1, axis2)]
    length = max(min(x.shape[axis1] + min(offset, 0), x.shape[axis2] - max(offset, 0)), 0)
    return x.with_shape((*rest, length))


def _diagonal_element(k, index, x, *, offset, axis1, axis2):
    rest = iter(index[:-1])
    row = k.add(index[-1], k.index(max(-offset, 0)))
    column = k.add(index[-1], k.index(max(offset, 0)))
    return x(*[row if i == axis1 else column if i == axis2 else next(rest) for i in range(len(x.shape))])


def _embed_reference(x: np.ndarray, *, shape: tuple[int, ...], offset: int, axis1: int, axis2: int) -> np.ndarray:
    y = np.zeros(shape, x.dtype)
    row, column = max(-offset, 0), max(offset, 0)
    steps = np.arange(x.shape[-1])
    np.moveaxis(y, (axis1, axis2), (0, 1))[steps + row, steps + column] = np.moveaxis(x, -1, 0)
    return y


def _embed_element(k, index, x, *, shape, offset, axis1, axis2):
    row, column = index[axis1], index[axis2]
    on_it = k.eq(k.add(row, k.index(offset)), column)
    along = k.sub(row, k.index(max(-offset, 0)))
    along = k.minimum(k.maximum(along, k.index(0)), k.index(x.shape[-1] - 1))
    value = x(*[i for axis, i in enumerate(index) if axis not in (axis1, axis2)], along)
    return k.select(on_it, value, k.constant(0, like=value))


_diagonal = linear(
    "diagonal",
    lambda x, *, offset, axis1, axis2: np.diagonal(x, offset, axis1, axis2),
    infer=_diagonal_aval,
    transpose=lambda y_bar, y, x, *, offset, axis1, axis2: (_embedded(y_bar, x.shape, offset, axis1, axis2),),
    lower=Move(_diagonal_element),
    traits=("move",),
    batch=along("axis1", "axis2"),
)
#: Zeros of `shape` with x on a diagonal.
_diagonal_embed = linear(
    "diagonal_embed",
    _embed_reference,
    infer=lambda x, *, shape, offset, axis1, axis2: x.with_shape(shape),
    transpose=lambda y_bar, y, x, *, shape, offset, axis1, axis2: (
        record(_diagonal, (y_bar,), (offset, axis1, axis2)),
    ),
    lower=Move(_embed_element, free=False),
    batch=along("axis1", "axis2", shapes=("shape",)),
)


def _embedded(x: Tensor, shape: tuple[int, ...], offset: int, axis1: int, axis2: int) -> Tensor:
    if not x.size:
        return zeros_of(Aval(shape, x.dtype))
    return record(_diagonal_embed, (x,), (shape, offset, axis1, axis2))


@public(1, _diagonal)
def diagonal(x, offset=0, axis1=0, axis2=1):
    """A diagonal of each matrix in x: the elements with column - row = offset.

    x: T[n, m, ...]  →  T[..., k]     rows along axis1, columns along axis2, the diagonal last

    Raises ShapeError when x has no such two axes.

    >>> ad.diagonal([[1.0, 2.0], [3.0, 4.0]])
    f64[2] [1. 4.]
    >>> ad.diagonal([[1.0, 2.0], [3.0, 4.0]], offset=1)
    f64[1] [2.]
    """
    x = as_tensor(x, "diagonal", "x")
    shift = integer(offset, "diagonal", "the offset")
    return record(_diagonal, (x,), (shift, axis_of("diagonal", axis1, x.aval), axis_of("diagonal", axis2, x.aval)))


@public(1)
def diag(x, k=0):
    """The k-th diagonal of a matrix; or the matrix with a vector there and zeros elsewhere.

    x: T[n, m]  →  T[...]          x: T[n]  →  T[n + |k|, n + |k|]

    Raises ShapeError for other ranks.

    >>> ad.diag([1.0, 2.0], k=1)
    f64[3,3]
    [[0. 1. 0.]
     [0. 0. 2.]
     [0. 0. 0.]]
    """
    x = as_tensor(x, "diag", "x")
    shift = integer(k, "diag", "k")
    if x.ndim == 2:
        return record(_diagonal, (x,), (shift, 0, 1))
    if x.ndim == 1:
        n = x.shape[0] + abs(shift)
        return _embedded(x, (n, n), shift, 0, 1)
    raise ShapeError(located(f"diag: takes a vector or a matrix, not {x.aval}", "ad.diagonal takes more axes"))


@public(1)
def trace(x, offset=0, axis1=0, axis2=1):
    """The sum of a diagonal, as of `diagonal`, of each matrix in x.

    x: T[n, m, ...]  →  T[...]     bool and int32 are summed as int64

    Raises ShapeError when x has no such two axes.

    >>> ad.grad(ad.trace)(ad.ones((2, 2)))
    f64[2,2]
    [[1. 0.]
     [0. 1.]]
    """
    d = diagonal(x, offset, axis1, axis2)
    return summed(widened(d), (d.ndim - 1,))
