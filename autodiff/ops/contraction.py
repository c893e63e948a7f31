"""Products summed over shared axes: matmul, tensordot, dot, inner, outer.

There is one operation, a batched matrix product.  The functions put transposes, reshapes and sums around it, so they
share its compiled loops and library calls.  `einsum` is in its own file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen import ir
from codegen.ir import Aval
from codegen.lowering import Contract

from ..errors import ShapeError, amount, located
from ..tape import record
from ..tensor import Tensor
from .conversion import cast_to, numbers_of
from .declare import axes_in_order, in_common_dtype, integer
from .primitive import BOOL, I64, Ints, adjoint_of, broadcast_avals, expect, linear, sum_to, zero_of
from .reductions import summed
from .shaping import flipped_axes, reshaped, transposed
from .template import public


def _matmul_aval(a: Aval, b: Aval) -> Aval:
    expect("matmul", (a, b), "fic")
    _check_inner(a, b)
    return a.with_shape((*_batch(a, b), *a.shape[-2:-1], *b.shape[1:][-1:]))


def _check_inner(a: Aval, b: Aval) -> None:
    """Raise ShapeError unless the inner sizes of a @ b are equal."""
    if not a.ndim or not b.ndim:
        raise ShapeError(located(f"matmul: takes vectors and matrices, got {a} @ {b}", "to scale an array, use *"))
    k = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] == k:
        return
    advice = ""
    if b.ndim > 1 and a.shape[-1] == b.shape[-1]:
        advice = "if b is stored by rows, pass mT(b)"
    elif a.ndim > 1 and a.shape[-2] == k:
        advice = "if a is stored by columns, pass mT(a)"
    raise ShapeError(located(
        f"matmul: inner sizes differ: {a} @ {b}\n"
        f"  a has {amount(a.shape[-1], 'column' if a.ndim > 1 else 'element')}, "
        f"b has {amount(k, 'row' if b.ndim > 1 else 'element')}",
        advice,
    ))


def _batch(a: Aval, b: Aval) -> Ints:
    """The shape of the leading axes of a product.  Raises ShapeError if they do not broadcast."""
    if a.shape[:-2] == b.shape[:-2]:
        return a.shape[:-2]
    try:
        return broadcast_avals("matmul", (a.with_shape(a.shape[:-2]), b.with_shape(b.shape[:-2])))
    except ShapeError:
        raise ShapeError(located(
            f"matmul: the leading axes do not broadcast: {a} @ {b}",
            "the last two axes are the matrices, those before them must be equal or 1",
        )) from None


def _matmul_transpose(y_bar, y, a, b):
    left, right = _row(a), _column(b)
    if y_bar.ndim < left.ndim or y_bar.ndim < right.ndim:
        y_bar = reshaped(y_bar, (left.shape[-2], right.shape[-1]))
    return (
        lambda: reshaped(sum_to(_matrices(y_bar, adjoint_of(flipped_axes(right))), left.shape), a.shape),
        lambda: reshaped(sum_to(_matrices(adjoint_of(flipped_axes(left)), y_bar), right.shape), b.shape),
    )


def _row(x: Tensor, start: int = 0) -> Tensor:
    """A vector as a matrix of one row, behind `start` leading axes; any other tensor as it is."""
    return reshaped(x, (*x.shape[:start], 1, *x.shape[start:])) if x.ndim == start + 1 else x


def _column(x: Tensor, start: int = 0) -> Tensor:
    """A vector as a matrix of one column, behind `start` leading axes; any other tensor as it is."""
    return reshaped(x, (*x.shape, 1)) if x.ndim == start + 1 else x


def _matrices(a: Tensor, b: Tensor) -> Tensor:
    """a @ b.  A column times a row, as in the gradient of `a @ x` by a, is an elementwise product, which fuses."""
    return a * b if a.shape[-1] == 1 else record(_matmul, (a, b))


def _matmul_batch(op, size, xs, mapped):
    """One plain product if only one factor differs between examples and the other is a matrix; else a product each.

    A column times a row (one example's gradient by a matrix of weights) becomes an elementwise product, a row times a
    column (the gradient's squared length) a sum of elementwise products: both fuse.
    """
    a, b = xs
    ranks = [x.ndim - m for x, m in zip(xs, mapped, strict=True)]
    if 1 in ranks:
        y = _matmul_batch(op, size, (_row(a, mapped[0]), _column(b, mapped[1])), mapped)
        return reshaped(y, (size, *(y.shape[1:2] if ranks[0] > 1 else ()), *(y.shape[2:] if ranks[1] > 1 else ())))
    if not mapped[1] and b.ndim == 2:
        return _product(a, b)
    if not mapped[0] and a.ndim == 2 and b.shape[-1] == 1:  # a @ x is x @ aᵀ for every vector x
        return reshaped(_product(reshaped(b, b.shape[:-1]), flipped_axes(a)), (*b.shape[:-2], a.shape[0], 1))
    rank = max(ranks) + 1
    aligned = [
        reshaped(x, (size, *(1,) * (rank - x.ndim), *x.shape[1:])) if m else x
        for x, m in zip(xs, mapped, strict=True)
    ]
    left, right = aligned
    if left.shape[-2] == right.shape[-1] == 1:
        y = summed(left * flipped_axes(right), (rank - 1,))
        return reshaped(y, (*y.shape, 1))
    return _matrices(left, right)


def _matmul_written(operands: Sequence[ir.Node], params: tuple, aval: Aval) -> ir.Node:
    """A product for the compiler: vectors, which the tape has, become matrices by reshapes that cost nothing."""
    a, b = operands
    if a.aval.ndim > 1 and b.aval.ndim > 1:
        return ir.Node(_matmul, operands, params, aval)
    left = _ir_reshaped(a, (1, *a.aval.shape)) if a.aval.ndim == 1 else a
    right = _ir_reshaped(b, (*b.aval.shape, 1)) if b.aval.ndim == 1 else b
    shape = (left.aval.shape[0], right.aval.shape[1])
    return _ir_reshaped(ir.Node(_matmul, (left, right), params, aval.with_shape(shape)), aval.shape)


def _ir_reshaped(x: ir.Node, shape: Ints) -> ir.Node:
    return ir.Node(ir.OPS["reshape"], (x,), (shape,), x.aval.with_shape(shape))


_matmul = linear(
    "matmul",
    np.matmul,
    infer=_matmul_aval,
    transpose=_matmul_transpose,
    lower=Contract(),
    in_args=(0, 1),
    keeps_mask=False,
    batch=_matmul_batch,
    written=_matmul_written,
)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b for tensors of one dtype and at least one axis each."""
    if min(a.ndim, b.ndim) == 1:
        if max(a.ndim, b.ndim) < 3 and a.shape[-1] != 1:
            return record(_matmul, (a, b))
        y = _product(_row(a), _column(b))
        kept = y.shape[-2:-1] if a.ndim > 1 else y.shape[-1:] if b.ndim > 1 else ()
        return reshaped(y, (*y.shape[:-2], *kept))
    if b.ndim == 2 and a.ndim > 2:
        # One large product instead of many small ones; its pull is then one large product as well.
        rows = reshaped(a, (math.prod(a.shape[:-1]), a.shape[-1]))
        return reshaped(record(_matmul, (rows, b)), (*a.shape[:-1], b.shape[-1]))
    return _matrices(a, b)


def operands(name: str, x1: Any, x2: Any) -> tuple[Tensor, Tensor, bool]:
    """Two factors in one dtype, and True if both were bool, which become i64 for the product."""
    a, b = in_common_dtype(name, (("x1", x1), ("x2", x2)), "fibc")
    if a.dtype == BOOL:
        return cast_to(a, I64), cast_to(b, I64), True
    return a, b, False


def as_bool_if(y: Tensor, was_bool: bool) -> Tensor:
    """A product of bools as bools: True where the sum is not zero.  Any other product as it is."""
    return y != zero_of(y.dtype) if was_bool else y


def _product_aval(a: Aval, b: Aval) -> Aval | None:
    """The aval of a product of two matrices that is recorded as one node; None for any other product or an error."""
    is_one = a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0] != 1 and a.dtype != BOOL
    return a.with_shape((a.shape[0], b.shape[1])) if is_one else None


@public(2, _matmul, result_aval=_product_aval)
def matmul(x1, x2):
    """The matrix product, x1 @ x2.

    x1: T[..., n, k]  x2: T[..., k, m]  →  T[..., n, m]     leading axes broadcast

    A vector stands for a row on the left and a column on the right, and has no axis in the result.
    Raises ShapeError when the inner sizes differ, the leading axes do not broadcast, or an operand is 0-d.

    axes   a list of the matrix axes of each operand and of the result; by default the last ones

    >>> ad.matmul(ad.ones((5, 2, 3)), ad.ones(3)).shape
    (5, 2)
    """
    a, b, was_bool = operands("matmul", x1, x2)
    _check_inner(a.aval, b.aval)
    _batch(a.aval, b.aval)  # before `_product` reshapes: errors show the types as they were
    return as_bool_if(_product(a, b), was_bool)


def contracted(a: Tensor, b: Tensor, batch: tuple[Ints, Ints], over: tuple[Ints, Ints]) -> Tensor:
    """Products of elements of a and b, summed over pairs of axes.

    batch   (axes of a, axes of b): pairs of axes that the result keeps, one axis for each pair
    over    (axes of a, axes of b): pairs of axes that are summed

    The result's axes: those of `batch`, then the other axes of a, then the other axes of b.
    """
    if len(batch[0]) + len(over[0]) == a.ndim == b.ndim and batch[0] and over[0]:
        return _summed_products(a, b, batch, over)
    a_rest = tuple([i for i in range(a.ndim) if i not in batch[0] and i not in over[0]])
    b_rest = tuple([i for i in range(b.ndim) if i not in batch[1] and i not in over[1]])
    together = tuple([a.shape[i] for i in batch[0]])
    n, m = (tuple([t.shape[i] for i in rest]) for t, rest in ((a, a_rest), (b, b_rest)))
    shape = (*together, *n, *m)
    a = transposed(a, batch[0] + a_rest + over[0])
    b = transposed(b, batch[1] + over[1] + b_rest)
    if not over[0]:
        return reshaped(a, (*together, *n, *(1,) * len(m))) * reshaped(b, (*together, *(1,) * len(n), *m))
    k = math.prod(a.shape[a.ndim - len(over[0]) :])
    a = reshaped(a, (*together, math.prod(n), k))
    b = reshaped(b, (*together, k, math.prod(m)))
    return reshaped(_product(a, b), shape)


def _summed_products(a: Tensor, b: Tensor, batch: tuple[Ints, Ints], over: tuple[Ints, Ints]) -> Tensor:
    """A contraction of which all axes are shared: a sum in the order of a's axes, which fuses with its neighbours.

    As a matrix product it would be one tiny product, a row times a column, for each element of the result.
    """
    places = dict(zip((*batch[0], *over[0]), (*batch[1], *over[1]), strict=True))
    total = summed(a * transposed(b, tuple([places[i] for i in range(a.ndim)])), tuple(sorted(over[0])))
    kept = sorted(batch[0])
    return transposed(total, tuple([kept.index(i) for i in batch[0]]))


@public(2)
def tensordot(x1, x2, axes=2):
    """Products of elements, summed over axes of both.

    x1: T[n..., k...]  x2: T[k..., m...]  →  T[n..., m...]

    axes   the number of last axes of x1 and first axes of x2 to sum; or a pair: the axes of x1, the axes of x2

    Raises ShapeError when these axes differ in number or extent.

    >>> ad.tensordot(ad.ones((2, 3, 4)), ad.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    a, b, was_bool = operands("tensordot", x1, x2)
    over = _pairs(a, b, axes)
    if any(a.shape[i] != b.shape[j] for i, j in zip(*over, strict=True)):
        sizes = [tuple(t.shape[i] for i in axes) for t, axes in zip((a, b), over, strict=True)]
        raise ShapeError(located(
            f"tensordot: summed axes differ: {a.aval}, {b.aval}\n  axes {over[0]} of a have extents {sizes[0]}, axes "
            f"{over[1]} of b {sizes[1]}"
        ))
    return as_bool_if(contracted(a, b, ((), ()), over), was_bool)


def _pairs(a: Tensor, b: Tensor, axes: Any) -> tuple[Ints, Ints]:
    """The summed axes of a and of b."""
    axes = numbers_of(axes)
    if not isinstance(axes, (tuple, list)):
        count = integer(axes, "tensordot", "the number of axes")
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ShapeError(located(f"tensordot: {a.aval}, {b.aval} have no {count} axes to sum"))
        return tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if len(axes) != 2:
        raise ShapeError(located(f"tensordot: axes are a number or a pair, not {axes!r}"))
    first, second = (tuple(axes_in_order("tensordot", named, t.aval)) for named, t in zip(axes, (a, b), strict=True))
    if len(first) != len(second) or len(set(first)) < len(first) or len(set(second)) < len(second):
        raise ShapeError(located(f"tensordot: {axes!r} does not pair axes, each once"))
    return first, second


@public(2)
def dot(x1, x2):
    """NumPy's dot: x1 times x2 for 0-d arrays, else sums over x1's last axis and x2's last but one.

    x1: T[n..., k]  x2: T[..., k, m]  →  T[n..., ..., m]

    The same as `matmul` for matrices.  Raises ShapeError when the summed extents differ.

    >>> ad.dot([1.0, 2.0], [3.0, 4.0])
    f64[] 11.0
    >>> ad.dot(ad.ones((2, 3)), ad.ones((4, 3, 5))).shape
    (2, 4, 5)
    """
    a, b, was_bool = operands("dot", x1, x2)
    if not a.ndim or not b.ndim:
        return as_bool_if(a * b, was_bool)
    _check_inner(a.aval, b.aval)
    return as_bool_if(contracted(a, b, ((), ()), ((a.ndim - 1,), (max(b.ndim - 2, 0),))), was_bool)


@public(2)
def inner(x1, x2):
    """Products summed over the last axis of both; 0-d arrays scale.

    x1: T[n..., k]  x2: T[m..., k]  →  T[n..., m...]

    Raises ShapeError when the last extents differ.

    >>> ad.inner([[1.0, 2.0], [3.0, 4.0]], [10.0, 1.0])
    f64[2] [12. 34.]
    """
    a, b, was_bool = operands("inner", x1, x2)
    if not a.ndim or not b.ndim:
        return as_bool_if(a * b, was_bool)
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(located(
            f"inner: last extents differ: {a.aval}, {b.aval}\n  a has {a.shape[-1]}, b has {b.shape[-1]}"
        ))
    return as_bool_if(contracted(a, b, ((), ()), ((a.ndim - 1,), (b.ndim - 1,))), was_bool)


@public(2)
def outer(x1, x2):
    """All products of an element of x1 and one of x2, each flattened.   T[n], T[m]  →  T[n, m]

    >>> ad.outer([1.0, 2.0], [3.0, 4.0])
    f64[2,2]
    [[3. 4.]
     [6. 8.]]
    """
    a, b, was_bool = operands("outer", x1, x2)
    return as_bool_if(reshaped(a, (a.size, 1)) * reshaped(b, (1, b.size)), was_bool)
