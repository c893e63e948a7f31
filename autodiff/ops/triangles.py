"""The halves of matrices on either side of a diagonal."""

from __future__ import annotations

from typing import Any

from ..custom import function
from ..errors import ShapeError, caller
from ..tensor import Tensor
from .arguments import integer
from .arithmetic import add, multiply
from .comparison import equal, greater_equal, less_equal
from .conversion import as_tensor
from .creation import iota
from .primitive import zero_of
from .selection import where
from .template import remembered

__all__ = ["tril", "triu"]


def _matrices(x: Any, name: str) -> Tensor:
    x = as_tensor(x, name, "x")
    if x.ndim < 2:
        raise ShapeError(f"{name}: takes matrices, not {x.aval}\n  called at {caller()}")
    return x


def _places(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """For each element of a matrix its row moved by k, and its column."""
    shape = x.shape[-2:]
    row = iota(shape, 0)
    return (add(row, k) if k else row), iota(shape, 1)


def lower_part(x: Tensor, k: int = 0) -> Tensor:
    """`tril` of a tensor."""
    row, column = _places(x, k)
    return where(greater_equal(row, column), x, zero_of(x.dtype))


def upper_part(x: Tensor, k: int = 0) -> Tensor:
    """`triu` of a tensor."""
    row, column = _places(x, k)
    return where(less_equal(row, column), x, zero_of(x.dtype))


def halved_lower(x: Tensor) -> Tensor:
    """The lower triangles, their diagonals halved: what, added to its transpose, gives a symmetric x."""
    row, column = _places(x, 0)
    return lower_part(where(equal(row, column), multiply(x, 0.5), x))


@function
@remembered(1)
def tril(x, k=0):
    """Each matrix below and on its k-th diagonal, zeros above.

    x: T[..., n, m]  →  T[..., n, m]     what is cut off gets a gradient of exactly 0

    Raises ShapeError for less than two axes.

    >>> import autodiff as ad
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


@function
@remembered(1)
def triu(x, k=0):
    """Each matrix above and on its k-th diagonal, zeros below.

    x: T[..., n, m]  →  T[..., n, m]     what is cut off gets a gradient of exactly 0

    Raises ShapeError for less than two axes.

    >>> import autodiff as ad
    >>> ad.triu([[1, 2], [3, 4]])
    i64[2,2]
    [[1 2]
     [0 4]]
    """
    return upper_part(_matrices(x, "triu"), integer(k, "triu", "k"))
