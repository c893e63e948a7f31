"""Methods of types that are linear in the tensor they hold: scaling, sums of two values; and projection for all types.

Some methods take two different types: a diagonal plus a symmetric or triangular matrix has the type of the latter, and
a product with a multiple of the identity has the type of the other factor.
"""

from __future__ import annotations

import numpy as np

from .. import ops, tree
from ..custom import Function
from ..ops import dense, linalg, project, stop_gradient
from ..ops.declare import in_common_dtype
from ..ops.linalg.determinant import SlogdetResult
from ..tensor import AbstractTensor, Tensor
from ..transforms import vjp
from .base import NUMBER, PartOfSquare, StructuredMatrix, check_inner, check_same, cotangent_of, order_of
from .diagonal import Diagonal, UniformScaling
from .matrices import LowerTriangular, SelfAdjoint, Symmetric, UpperTriangular

#: Types that hold one tensor, and are linear in it.
_LINEAR = (Diagonal, UniformScaling, Symmetric, LowerTriangular, UpperTriangular)
_DIAGONAL = Diagonal | UniformScaling
_FULL = Symmetric | LowerTriangular | UpperTriangular


ops.multiply.method(_LINEAR, NUMBER)(lambda x1, x2: tree.map(lambda held: held * x2, x1))
ops.multiply.method(NUMBER, _LINEAR)(lambda x1, x2: tree.map(lambda held: x1 * held, x2))
ops.divide.method(_LINEAR, NUMBER)(lambda x1, x2: tree.map(lambda held: held / x2, x1))
ops.negative.method(_LINEAR)(lambda x: tree.map(ops.negative, x))
ops.positive.method(_LINEAR)(lambda x: x)


@ops.astype.method(_LINEAR)
def _(x, dtype):
    if isinstance(x, Symmetric) and np.dtype(dtype).kind not in "fc":
        return ops.astype(x.matrix, dtype)  # a symmetric part has halves, which integers cannot represent
    return tree.map(lambda held: ops.astype(held, dtype), x)


@ops.transpose.method(_DIAGONAL | SelfAdjoint)
def _(x, axes=None):
    order_of(x, axes)
    return x


def _sums(function: Function) -> None:
    def of_two(x1, x2):
        check_same(function.__name__, x1, x2)
        if type(x1) is type(x2):
            return tree.map(function, x1, x2)
        if isinstance(x1, PartOfSquare) or isinstance(x2, PartOfSquare):
            kind = type(x1 if isinstance(x1, PartOfSquare) else x2)
            return kind(function(ops.dense(x1), ops.dense(x2)))
        return Diagonal(function(*[getattr(x, x.tensor_fields[0]) for x in (x1, x2)]))

    pairs = ((Diagonal, UniformScaling), (UniformScaling, Diagonal), (_DIAGONAL, _FULL), (_FULL, _DIAGONAL))
    for types in (*[(cls, cls) for cls in _LINEAR], *pairs):
        function.method(*types)(of_two)


def _product(cls: type) -> None:
    @ops.matmul.method(cls, cls)
    def _(x1, x2):
        check_inner("matmul", x1, x2)
        return cls(x1.matrix @ x2.matrix)


_product(LowerTriangular)
_product(UpperTriangular)
_sums(ops.add)
_sums(ops.subtract)


#: Types that hold their diagonal, whose product is the determinant.
_TRIANGULAR = _DIAGONAL | LowerTriangular | UpperTriangular


def _floats(name: str, a: StructuredMatrix) -> Tensor:
    """The diagonal, as floats or complex numbers."""
    return in_common_dtype(name, (("a", ops.diagonal(a)),), "fc")[0]


ops.trace.method(_TRIANGULAR)(lambda x, offset=0, axis1=0, axis2=1: ops.sum(ops.diagonal(x, offset, axis1, axis2)))
linalg.det.method(_TRIANGULAR)(lambda a: ops.prod(_floats("det", a)))


@linalg.slogdet.method(_TRIANGULAR)
def _(a):
    if a.dtype.kind == "c":
        return linalg.slogdet(ops.dense(a))
    d = _floats("slogdet", a)
    return SlogdetResult(ops.prod(ops.sign(d)), ops.sum(ops.log(ops.abs(d))))


@ops.matmul.method(UniformScaling, Diagonal | _FULL)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    return x1.scale * x2


@ops.matmul.method((*_LINEAR, Tensor), UniformScaling)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    return x1 * x2.scale


# ---------------------------------------------------------------- projection: the pullback of `dense`


@project.method(object, AbstractTensor)
def _(g, like):
    g = cotangent_of(g, like)
    _, pullback = vjp(dense, like)
    found = pullback(g)[0]
    # The result of a pullback may track nodes that `vjp` made.  Keep its history only if an argument tracks.
    return found if g.requires_grad or like.requires_grad else stop_gradient(found)
