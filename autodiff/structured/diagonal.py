"""Diagonal matrices and multiples of the identity: their products, inverses and sums cost n operations, not n²."""

from __future__ import annotations

import operator
from typing import Any

from codegen.ir import Aval

from .. import ops, tree
from ..errors import ShapeError, located
from ..named_types import Matrix
from ..ops import linalg
from ..ops.declare import axes_of, axis_of
from ..ops.shaping import reshaped
from ..tensor import Tensor
from .base import StructuredMatrix, check_inner, cotangent_of, of_rank


class Diagonal(StructuredMatrix):
    """A diagonal matrix, given by its diagonal.   f[n] stands for f[n,n]

    A product with it scales rows or columns; sums, products and inverses of diagonal matrices are diagonal, and so is
    the gradient.  With a zero on the diagonal `solve` and `inv` give inf; for a dense matrix they raise LinAlgError.
    Raises ShapeError for a diagonal that is no vector.

    >>> import autodiff as ad
    >>> D = ad.Diagonal([2.0, 3.0])
    >>> D @ ad.ones((2, 2))
    f64[2,2]
    [[2. 2.]
     [3. 3.]]
    >>> ad.grad(lambda D: (D @ ad.ones((2, 5))).sum())(D).diagonal
    f64[2] [5. 5.]
    """

    __slots__ = ("diagonal",)
    tensor_fields = ("diagonal",)
    rank = 1

    def __init__(self, diagonal: Any) -> None:
        self.diagonal = of_rank("Diagonal", diagonal, 1)

    def _stands_for(self, held: Aval) -> Aval:
        return held.with_shape(held.shape * 2)


class UniformScaling(StructuredMatrix):
    """A multiple of the n×n identity matrix.   f[], n stands for f[n,n]

    The gradient of the scale is the sum over the diagonal.
    Raises ShapeError for a `scale` that is not 0-d, or a negative n.

    >>> import autodiff as ad
    >>> ad.UniformScaling(2.0, 2) @ [3.0, 4.0]
    f64[2] [6. 8.]
    >>> ad.grad(lambda s: ad.sum(ad.UniformScaling(s, 2) @ [3.0, 4.0]))(ad.tensor(2.0))
    f64[] 7.0
    """

    __slots__ = ("n", "scale")
    tensor_fields = ("scale",)
    rank = 0
    static_fields = ("n",)

    def __init__(self, scale: Any, n: int) -> None:
        self.scale = of_rank("UniformScaling", scale, 0)
        self.n = operator.index(n)
        if self.n < 0:
            raise ShapeError(located(f"UniformScaling: an identity of {n} rows"))

    def _stands_for(self, held: Aval) -> Aval:
        return held.with_shape((self.n, self.n))


# ---------------------------------------------------------------- dense matrices and projections


def _entries(x: Any) -> Tensor:
    """The diagonal of a Diagonal or UniformScaling."""
    return x.diagonal if isinstance(x, Diagonal) else ops.broadcast_to(x.scale, (x.n,))


ops.dense.method(Diagonal | UniformScaling)(lambda x: ops.diag(_entries(x)))
ops.project.method(object, Diagonal)(lambda g, like: Diagonal(ops.diagonal(cotangent_of(g, like))))
ops.project.method(object, UniformScaling)(lambda g, like: UniformScaling(ops.trace(cotangent_of(g, like)), like.n))


# ---------------------------------------------------------------- products


def _of_rows(x: Any, of: Tensor) -> Tensor:
    """The factors by which x multiplies the rows of a matrix, or the elements of a vector, `of`."""
    if isinstance(x, UniformScaling):
        return x.scale
    d = x.diagonal
    return d if of.ndim == 1 else reshaped(d, (*d.shape, 1))


@ops.matmul.method(Diagonal | UniformScaling, Tensor)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    return _of_rows(x1, x2) * x2


@ops.matmul.method(Tensor, Diagonal)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    return x1 * x2.diagonal


@ops.matmul.method(Diagonal, Diagonal)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    return Diagonal(x1.diagonal * x2.diagonal)


@ops.multiply.method(Diagonal, Matrix | Diagonal)
def _(x1, x2):
    if x1.shape != x2.shape:
        return ops.dense(x1) * ops.dense(x2)
    return Diagonal(x1.diagonal * ops.diagonal(x2))


ops.multiply.method(Matrix, Diagonal)(lambda x1, x2: x2 * x1)


# ---------------------------------------------------------------- diagonals and sums


@ops.diagonal.method(Diagonal | UniformScaling)
def _(x, offset=0, axis1=0, axis2=1):
    if offset or {axis_of("diagonal", axis, x.aval) for axis in (axis1, axis2)} != {0, 1}:
        return ops.diagonal(ops.dense(x), offset, axis1, axis2)
    return _entries(x)


@ops.sum.method(Diagonal | UniformScaling)
def _(x, axis=None, *, dtype=None, keepdims=False):
    axes = axes_of("sum", axis, x.aval)
    if keepdims or not axes:
        return ops.sum(ops.dense(x), axis, dtype=dtype, keepdims=keepdims)
    if len(axes) == 2:
        return ops.sum(_entries(x), dtype=dtype)
    return ops.sum(ops.expand_dims(_entries(x), 0), 0, dtype=dtype)  # each row, and each column, has one element


# ---------------------------------------------------------------- linear algebra


@linalg.solve.method(Diagonal | UniformScaling, Tensor)
def _(a, b):
    check_inner("solve", a, b)
    return b / _of_rows(a, b)


linalg.inv.method(Diagonal | UniformScaling)(lambda a: tree.map(lambda held: 1 / held, a))
