"""Diagonals, triangles and traces.  All functions of diagonals record two operations:

    slant      y[..., i, k] = x[..., i, i + k]
    unslant    x[..., i, i + k] = y[..., i, k], zero elsewhere      the transpose of slant
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Move

from ..errors import ShapeError, located
from ..tape import constant, record
from ..tensor import Tensor
from .conditions import equal, greater_equal, less_equal, where
from .conversion import as_tensor
from .creation import iota
from .declare import axis_of, composed, integer
from .primitive import OwnPrimitive, linear, zero_of
from .reductions import summed, widened
from .shaping import reshaped, transposed
from .slicing import embedded, part
from .template import public


def _matrices(x: Any, name: str) -> Tensor:
    x = as_tensor(x, name, "x")
    if x.ndim < 2:
        raise ShapeError(located(f"{name}: takes matrices, not {x.aval}"))
    return x


def _places(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(row + k, column) for each element of a matrix."""
    shape = x.shape[-2:]
    row = iota(shape, 0)
    return (row + k if k else row), iota(shape, 1)


def lower_part(x: Tensor, k: int = 0) -> Tensor:
    """`tril` of a tensor."""
    return where(greater_equal(*_places(x, k)), x, zero_of(x.dtype))


def upper_part(x: Tensor, k: int = 0) -> Tensor:
    """`triu` of a tensor."""
    return where(less_equal(*_places(x, k)), x, zero_of(x.dtype))


def halved_lower(x: Tensor) -> Tensor:
    """The lower triangles with halved diagonals: added to their transposes they give x, if x is symmetric."""
    return lower_part(where(equal(*_places(x, 0)), x * 0.5, x))


def _triangle(name: str, where_it_is: str, rest: str, of: Callable[[Tensor, int], Tensor], example: str) -> Any:
    return composed(
        name, lambda x, k=0: of(_matrices(x, name), integer(k, name, "k")),
        f"""Each matrix {where_it_is} its k-th diagonal, zeros {rest}.

    x: T[..., n, m]  →  T[..., n, m]     elements cut off get a gradient of exactly 0

    Raises ShapeError for less than two axes.""", example, 1,
    )


tril = _triangle("tril", "below and on", "above", lower_part,
    ">>> ad.tril([[1, 2], [3, 4]])\ni64[2,2]\n[[1 0]\n [3 4]]\n"
    ">>> ad.tril([[1, 2], [3, 4]], k=-1)\ni64[2,2]\n[[0 0]\n [3 0]]")
triu = _triangle("triu", "above and on", "below", upper_part,
    ">>> ad.triu([[1, 2], [3, 4]])\ni64[2,2]\n[[1 2]\n [0 4]]")


def _slant_aval(x: Aval, *, count: int) -> Aval:
    assert x.ndim > 1 and x.shape[-2] + count - 1 <= x.shape[-1], f"slant: no {count} from each diagonal on in {x}"
    return x.with_shape((*x.shape[:-1], count))


def _slant_reference(x: np.ndarray, *, count: int) -> np.ndarray:
    rows, places = np.ogrid[: x.shape[-2], :count]
    return x[..., rows, rows + places]


def _unslant_aval(y: Aval, *, extent: int) -> Aval:
    assert y.ndim > 1 and y.shape[-2] + y.shape[-1] - 1 <= extent, f"unslant: {y} is not within {extent}"
    return y.with_shape((*y.shape[:-1], extent))


def _unslant_reference(y: np.ndarray, *, extent: int) -> np.ndarray:
    x = np.zeros((*y.shape[:-1], extent), y.dtype)
    rows, places = np.ogrid[: y.shape[-2], : y.shape[-1]]
    x[..., rows, rows + places] = y
    return x


def _unslant_element(k, index, y, *, extent):
    *others, i, place = index
    ahead, count = k.sub(place, i), y.shape[-1]
    inside = k.logical_and(k.ge(ahead, k.index(0)), k.lt(ahead, k.index(count)))
    value = y(*others, i, k.minimum(k.maximum(ahead, k.index(0)), k.index(max(count - 1, 0))))
    return k.select(inside, value, k.constant(0, like=value))


slant: OwnPrimitive = linear(
    "slant",
    _slant_reference,
    infer=_slant_aval,
    transpose=lambda y_bar, y, x, *, count: (record(unslant, (y_bar,), (x.shape[-1],)),),
    lower=Move(lambda k, index, x, *, count: x(*index[:-1], k.add(*index[-2:]))),
)

#: Zeros, in which each row of y starts at the diagonal.
unslant: OwnPrimitive = linear(
    "unslant",
    _unslant_reference,
    infer=_unslant_aval,
    transpose=lambda x_bar, x, y, *, extent: (record(slant, (x_bar,), (y.shape[-1],)),),
    lower=Move(_unslant_element, free=False),
)


@public(1, takes="T")
def diagonal(x, offset=0, axis1=0, axis2=1):
    """A diagonal of each matrix in x: the elements with column - row = offset.

    x: T[n, m, ...]  →  T[..., k]     rows along axis1, columns along axis2, the diagonal last

    Raises ShapeError when x has no such two axes.

    >>> ad.diagonal([[1.0, 2.0], [3.0, 4.0]])
    f64[2] [1. 4.]
    >>> ad.diagonal([[1.0, 2.0], [3.0, 4.0]], offset=1)
    f64[1] [2.]
    """
    shift = integer(offset, "diagonal", "the offset")
    return _diagonal(x, shift, axis_of("diagonal", axis1, x.aval), axis_of("diagonal", axis2, x.aval))


def _diagonal(x: Tensor, offset: int, axis1: int, axis2: int) -> Tensor:
    if axis1 == axis2:
        raise ShapeError(located(f"diagonal: {axis1} and {axis2} are not two axes of {x.aval}"))
    x = transposed(x, (*[i for i in range(x.ndim) if i not in (axis1, axis2)], axis1, axis2))
    *batch, rows, columns = x.shape
    row, column = min(max(-offset, 0), rows), min(max(offset, 0), columns)
    length = min(rows - row, columns - column)
    x = part(part(x, x.ndim - 2, row, row + length), x.ndim - 1, column, columns)
    return reshaped(record(slant, (x,), (1,)), (*batch, length))


@public(1, takes="T")
def diag(x, k=0):
    """The k-th diagonal of a matrix; of a vector, the matrix with it on that diagonal and zeros elsewhere.

    x: T[n, m]  →  T[...]          x: T[n]  →  T[n + |k|, n + |k|]

    Raises ShapeError for other ranks.

    >>> ad.diag([1.0, 2.0], k=1)
    f64[3,3]
    [[0. 1. 0.]
     [0. 0. 2.]
     [0. 0. 0.]]
    """
    shift = integer(k, "diag", "k")
    if x.ndim == 2:
        return _diagonal(x, shift, 0, 1)
    if x.ndim == 1:
        (n,), m = x.shape, x.shape[0] + abs(shift)
        starts = [constant(max(place, 0), "i64") for place in (-shift, shift)]
        square = record(unslant, (reshaped(x, (n, 1)),), (n,))
        return embedded(square, starts, (0, 1), (1, 1), (m, m)) if shift else square
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
