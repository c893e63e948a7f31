"""Matrices of zeros and ones that select: a product with one reads rows or columns; its gradient writes them back.

They hold integers, so no gradient flows to them.  Their dtype is bool, so that a product has the dtype of the other
factor.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from codegen.ir import Aval

from .. import ops
from ..errors import ShapeError, located
from ..named_types import Matrix, Vector
from ..ops import linalg
from ..ops.declare import in_common_dtype
from ..ops.gathering import index_tensor, scattered
from ..tensor import Tensor
from .base import Structured, StructuredMatrix, check_inner, made, order_of

_BOOL = np.dtype(np.bool_)


class OneHot(Structured):
    """A row of zeros with a single one for each index.   i64[...], classes stands for bool[..., classes]

    `OneHot(indices, n) @ W` reads rows of W, as an embedding does.  The gradient of W is written row by row.
    Raises DTypeError for indices that are no integers, IndexError for an index with a value outside range(classes).

    >>> import autodiff as ad
    >>> ad.OneHot([2, 0], 3) @ ad.tensor([[1.0], [2.0], [3.0]])
    f64[2,1]
    [[3.]
     [1.]]
    """

    __slots__ = ("classes", "indices")
    tensor_fields = ("indices",)
    static_fields = ("classes",)

    def __init__(self, indices: Any, classes: int) -> None:
        self.classes = operator.index(classes)
        self.indices = index_tensor(indices, "OneHot", self.classes)

    def _stands_for(self, held: Aval) -> Aval:
        return Aval((*held.shape, self.classes), _BOOL)


class Permutation(StructuredMatrix):
    """The matrix whose product with x is x[indices].   i64[n] stands for bool[n,n]

    Its transpose and its inverse are the inverse permutation.
    Raises ShapeError if the indices have values and are no permutation.

    >>> import autodiff as ad
    >>> ad.Permutation([2, 0, 1]) @ ad.tensor([10.0, 20.0, 30.0])
    f64[3] [30. 10. 20.]
    """

    __slots__ = ("indices",)
    tensor_fields = ("indices",)
    rank = 1

    def __init__(self, indices: Any) -> None:
        self.indices = index_tensor(indices, "Permutation")
        known = self.indices.node.value
        if self.indices.ndim != 1 or (known is not None and not np.array_equal(np.sort(known), np.arange(len(known)))):
            raise ShapeError(located(f"Permutation: {self.indices!r} does not name each of 0, ..., n - 1 once"))

    def _stands_for(self, held: Aval) -> Aval:
        return Aval(held.shape * 2, _BOOL)

    @property
    def inverse(self) -> Permutation:
        """The inverse permutation."""
        n = self.indices.shape[0]
        found: Permutation = made(Permutation, (scattered([self.indices], ops.arange(n), (n,), (0,), 0),))
        return found


# ---------------------------------------------------------------- one-hot rows


ops.dense.method(OneHot | Permutation)(lambda x: ops.one_hot(x.indices, x.shape[-1], dtype=_BOOL))


@ops.matmul.method(OneHot, Vector | Matrix)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    return ops.take(x2, x1.indices, axis=0)


@ops.matmul.method(Vector | Matrix, OneHot)
def _(x1, x2):
    if x2.indices.ndim != 1:
        return x1 @ ops.dense(x2)
    check_inner("matmul", x1, x2)
    columns = x1.ndim - 1
    return scattered([x2.indices], x1, (*x1.shape[:-1], x2.classes), (columns,), columns)


# ---------------------------------------------------------------- permutations


@ops.matmul.method(Permutation, Tensor)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    return ops.take(x2, x1.indices, axis=0 if x2.ndim == 1 else -2)


@ops.matmul.method(Tensor, Permutation)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    return ops.take(x1, x2.inverse.indices, axis=-1)


@ops.matmul.method(Permutation, Permutation)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    return made(Permutation, (ops.take(x2.indices, x1.indices),))


ops.transpose.method(Permutation)(lambda x, axes=None: x.inverse if order_of(x, axes) else x)
linalg.solve.method(Permutation, Tensor)(lambda a, b: a.inverse @ in_common_dtype("solve", (("b", b),), "fc")[0])
