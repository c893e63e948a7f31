"""Arrays whose elements are all one number: an elementwise operation is computed once."""

from __future__ import annotations

import math
from typing import Any

from codegen.ir import Aval

from .. import ops
from ..custom import Function
from ..errors import ShapeError, located
from ..named_types import Number
from ..ops.declare import axes_of, common_dtype, shape_of
from ..ops.primitive import broadcast_avals, reduced_shape
from ..ops.shaping import keepdims_shape
from ..tensor import Tensor
from .base import Structured, check_inner, cotangent_of, of_rank


class Fill(Structured):
    """An array whose elements are all one number.   f[], shape stands for f[shape]

    An elementwise function of one Fill, or of several, is computed once.  The gradient of the number is the
    sum over all elements.
    Raises ShapeError for a value that is not 0-d, or a negative extent.

    >>> import autodiff as ad
    >>> ad.exp(ad.Fill(0.0, (1000, 1000)))
    Fill(value=f64[] 1.0, extents=(1000, 1000))
    """

    __slots__ = ("extents", "value")
    tensor_fields = ("value",)
    rank = 0
    static_fields = ("extents",)

    def __init__(self, value: Any, shape: Any) -> None:
        self.value = of_rank("Fill", value, 0)
        self.extents = shape_of("Fill", shape)
        if any(n < 0 for n in self.extents):
            raise ShapeError(located(f"Fill: extents are not negative: {self.extents}"))

    def _stands_for(self, held: Aval) -> Aval:
        return held.with_shape(self.extents)


ops.dense.method(Fill)(lambda x: ops.broadcast_to(x.value, x.extents))
ops.project.method(object, Fill)(lambda g, like: Fill(ops.sum(cotangent_of(g, like)), like.extents))


# ---------------------------------------------------------------- elementwise operations


def _elementwise_one(function: Function) -> None:
    function.method(Fill)(lambda x: Fill(function(x.value), x.extents))


def _elementwise_two(function: Function) -> None:
    def once(x1, x2):
        return function(*[x.value if isinstance(x, Fill) else x for x in (x1, x2)])

    def shape(x1, x2):
        return broadcast_avals(function.__name__, [x.aval for x in (x1, x2) if not isinstance(x, Number)])

    for types in ((Fill, Fill), (Fill, Number), (Number, Fill)):
        function.method(*types)(lambda x1, x2: Fill(once(x1, x2), shape(x1, x2)))
    for those in ((Fill, Tensor), (Tensor, Fill)):
        function.method(*those)(lambda x1, x2: ops.broadcast_to(once(x1, x2), shape(x1, x2)))


for _function in (
    ops.negative, ops.positive, ops.abs, ops.sign, ops.exp, ops.expm1, ops.log, ops.log1p, ops.sqrt, ops.square,
    ops.reciprocal, ops.sin, ops.cos, ops.tanh, ops.sigmoid, ops.softplus, ops.relu, ops.erf,
):  # fmt: skip
    _elementwise_one(_function)
for _function in (
    ops.add, ops.subtract, ops.multiply, ops.divide, ops.power, ops.maximum, ops.minimum, ops.equal, ops.not_equal,
    ops.less, ops.less_equal, ops.greater, ops.greater_equal,
):  # fmt: skip
    _elementwise_two(_function)


# ---------------------------------------------------------------- shapes and sums


@ops.transpose.method(Fill)
def _(x, axes=None):
    if axes is not None:
        return ops.transpose(ops.dense(x), axes)
    return Fill(x.value, x.extents[::-1])


@ops.matrix_transpose.method(Fill)
def _(x):
    if len(x.extents) < 2:
        return ops.matrix_transpose(ops.dense(x))  # raises the error for fewer than two axes
    return Fill(x.value, (*x.extents[:-2], x.extents[-1], x.extents[-2]))


@ops.sum.method(Fill)
def _(x, axis=None, *, dtype=None, keepdims=False):
    axes = axes_of("sum", axis, x.aval)
    count = math.prod([x.extents[i] for i in axes])
    shape = (keepdims_shape if keepdims else reduced_shape)(x.extents, axes)
    total = ops.sum(x.value, dtype=dtype) * count
    return Fill(total, shape) if shape else total


@ops.matmul.method(Fill, Tensor)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    dtype = common_dtype([x1.value, x2])
    if len(x1.extents) != 2 or x2.ndim > 2 or dtype.kind == "b":
        return ops.dense(x1) @ x2
    row = x1.value * ops.sum(x2, 0, dtype=dtype)
    return ops.broadcast_to(row, (x1.extents[0], *row.shape))


@ops.matmul.method(Tensor, Fill)
def _(x1, x2):
    check_inner("matmul", x1, x2)
    dtype = common_dtype([x1, x2.value])
    if len(x2.extents) != 2 or not 0 < x1.ndim <= 2 or dtype.kind == "b":
        return x1 @ ops.dense(x2)
    column = ops.sum(x1, -1, keepdims=True, dtype=dtype) * x2.value
    return ops.broadcast_to(column, (*x1.shape[:-1], x2.extents[1]))
