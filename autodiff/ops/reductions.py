"""Reductions: sum, product, any, all; and running sums and products.

A reduction's parameter `axis` is a sorted tuple of non-negative ints; the result lacks these axes, and
`keepdims` is a reshape afterwards.  The file `extremes` has the maximum and the minimum.

The derivative of a running product comes from the linear recurrence y[k] = x[k] * y[k-1].  The rule divides by no
element, so the derivative is right at zeros.  The derivative of a recurrence is a recurrence in the other direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.garbage import ignoring
from codegen.ir import Aval
from codegen.lowering import Reduce, Scan

from ..errors import ShapeError, located
from ..tape import as_new_result, constant, record
from ..tensor import Tensor
from .conditions import truth
from .conversion import cast_to, dtype_of
from .declare import axes_of, documented
from .joining import joined
from .primitive import (
    I64,
    Ints,
    OwnPrimitive,
    elementwise_aval,
    expect,
    linear,
    primitive,
    reduced_shape,
    spread_to,
    times,
    with_extent,
    zeros_of,
)
from .shaping import keepdims_shape, on_axis, reshaped, spread, transposed
from .slicing import part
from .template import public


def reduced_aval(name: str, accepts: str, *, result: np.dtype | None = None, empty: bool = True) -> Callable[..., Aval]:
    """The shape rule of a reduction.  `empty`: True if the reduction of no elements has a value."""

    def infer(x: Aval, *, axis: Ints) -> Aval:
        expect(name, (x,), accepts)
        assert list(axis) == sorted({*axis}.intersection(range(x.ndim))), f"{name}: {axis} are not axes of {x}"
        shape = reduced_shape(x.shape, axis)
        if not empty and 0 in [x.shape[a] for a in axis]:
            raise ShapeError(located(f"{name}: nothing to choose from: {x} along axis {', '.join(map(str, axis))}"))
        return Aval(shape, result or x.dtype)

    return infer


def reduction(
    name: str, reference: Callable[..., Any], accepts: str, monoid: str = "", *, result: np.dtype | None = None,
    empty: bool = True, **rules: Any,
) -> OwnPrimitive:
    """Declare an operation that reduces by a monoid over the parameter `axis`; rules as for `primitive`."""
    return primitive(
        name, reference, infer=reduced_aval(name, accepts, result=result, empty=empty), lower=Reduce(monoid or name),
        params=("axis",), **rules,
    )  # fmt: skip


def widened(x: Tensor, dtype: Any = None, function: str = "") -> Tensor:
    """x converted to `dtype` if given; else bool and int32 to int64, as NumPy sums them."""
    if dtype is not None:
        return cast_to(x, dtype_of(dtype, function))
    return cast_to(x, I64) if x.node.kind.out.aval.dtype.kind in "ib" else x


def unreduced(y: Tensor, x: Tensor, axes: Ints, keepdims: bool) -> Tensor:
    """The result y of reducing x; with `keepdims` the reduced axes are put back with extent 1."""
    return reshaped(y, keepdims_shape(x.shape, axes)) if keepdims else y


_sum = linear(
    "sum",
    lambda x, *, axis: np.add.reduce(x, axis, x.dtype),  # np.sum's wrapper takes as long again as this call
    infer=reduced_aval("sum", "fic"),
    transpose=lambda y_bar, y, x, *, axis: (spread(y_bar, axis, x.node.kind.out.shape),),
    lower=Reduce("add"), traits=("adds",),
)  # fmt: skip


def summed(x: Tensor, axes: Ints) -> Tensor:
    """The sum over these axes, which the result lacks; no node is recorded if there are none."""
    return record(_sum, (x,), (axes,)) if axes else as_new_result(x)


@public(1, _sum, takes="T")
def sum_(x, axis=None, *, dtype=None, keepdims=False):
    """The sum over an axis, several, or (None) all of them.

    x: T[..., n, ...]  →  T[..., ...]     bool and int32 are summed as int64

    The sum of no elements is 0.  x is converted to `dtype` first.  Raises ShapeError when x has no such axis.

    initial   a number added to the sum
    where     a mask of the elements to sum; the other elements get a gradient of 0

    >>> ad.sum([[1, 2], [3, 4]], axis=0)
    i64[2] [4 6]
    >>> ad.sum([True, True])
    i64[] 2
    >>> ad.sum(ad.ones((2, 3)), keepdims=True).shape
    (1, 1)
    """
    axes = axes_of("sum", axis, x.node.kind.out.aval)
    x = widened(x, dtype, "sum")
    return unreduced(record(_sum, (x,), (axes,)) if axes else x, x, axes, keepdims)


def _quantifier(name: str, reference: Callable[..., Any], word: str, of_nothing: bool, example: str) -> Any:
    operation = reduction(name, lambda x, *, axis: reference(x, axis), "b", discrete=True)
    doc = f"""True if {word} over an axis, several, or (None) all of them {"are" if of_nothing else "is"} True.

    x: T[..., n, ...]  →  bool[..., ...]     numbers count as True unless they are zero

    Without elements the result is {of_nothing}.  Raises ShapeError when x has no such axis.

    where     a mask of the elements that count; all others are left out, with a gradient of 0"""

    def body(x, axis=None, *, keepdims=False):
        axes = axes_of(name, axis, x.aval)
        x = truth(x, name, "x")
        return unreduced(record(operation, (x,), (axes,)) if axes else x, x, axes, keepdims)

    return public(1, operation, name=name, doc=documented(example, doc), takes="T")(body)


any_ = _quantifier("any", np.any, "any element", False, ">>> ad.any([[0, 0], [0, 3]], axis=0)\nbool[2] [False  True]")
all_ = _quantifier("all", np.all, "all elements", True, ">>> ad.all([[1, 0], [2, 3]], axis=1)\nbool[2] [False  True]")


def scan(
    name: str, reference: Callable[..., Any], accepts: str, monoid: str,
    declare: Callable[..., OwnPrimitive] = primitive, params: tuple[str, ...] = ("axis",), **rules: Any,
) -> OwnPrimitive:
    """Declare a running reduction by a monoid along the parameter `axis`; rules as for `declare`."""
    return declare(
        name, reference, infer=elementwise_aval(name, accepts), lower=Scan(monoid), params=params,
        **rules,
    )  # fmt: skip


def _added_up(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    y = np.cumsum(np.flip(x, axis) if reverse else x, axis, dtype=x.dtype)
    return np.flip(y, axis) if reverse else y


#: The transpose is the running sum from the other end: an element counts in all sums from its position on.
_cumsum: OwnPrimitive = scan(
    "cumsum", _added_up, "fic", "add", linear, params=("axis", "reverse"),
    transpose=lambda y_bar, y, x, *, axis, reverse: (record(_cumsum, (y_bar,), (axis, not reverse)),),
)  # fmt: skip


def _step_by_step(b: np.ndarray, a: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    c = np.empty_like(b)
    bs, as_, cs = (np.moveaxis(x, axis, 0) for x in (b, a, c))
    so_far: Any = np.zeros(bs.shape[1:])
    with ignoring(all="ignore"):
        for i in range(len(bs))[:: -1 if reverse else 1]:
            so_far = bs[i] + np.where(so_far == 0, 0.0, as_[i].astype(np.float64) * so_far)
            cs[i] = so_far
    return c


def _recurrence_vjp(y_bar, y, b, a, *, axis, reverse, masked):
    if not b.size:
        return (y_bar, y_bar)
    # c[i] is multiplied by the a of the next step, so the recurrence of b_bar uses a shifted by one.
    b_bar = recurrence(y_bar, _shifted(a, axis, not reverse), axis, reverse=not reverse)
    return (b_bar, times(b_bar, _shifted(y, axis, reverse), masked))


_recurrence = scan("recurrence", _step_by_step, "f", "affine", params=("axis", "reverse"), vjp=_recurrence_vjp)


def recurrence(b: Tensor, a: Tensor, axis: int, *, reverse: bool = True) -> Tensor:
    """c with c[i] = b[i] + a[i] * c[i+1] along an axis; with reverse=False, c[i] = b[i] + a[i] * c[i-1].

    b, a: T[..., n, ...]  →  T[..., n, ...]     T float

    The first step has no previous c: its a is unused.  A previous c of 0 makes the product 0, even if a is inf or nan.
    """
    return record(_recurrence, (b, a), (axis, reverse))


def _shifted(x: Tensor, axis: int, later: bool, end: float = 0.0) -> Tensor:
    """x shifted by one: y[i] = x[i+1] and `end` last (`later`), or y[i] = x[i-1] and `end` first."""
    n = x.shape[axis]
    number = spread_to(constant(end, x.dtype), with_extent(x.shape, axis, 1))
    return joined((part(x, axis, 1, n), number) if later else (number, part(x, axis, 0, n - 1)), axis)


def _cumprod_vjp(y_bar, y, x, *, axis, masked):
    if not x.size:
        return (y_bar,)
    product_before = _shifted(y, axis, False, 1.0)
    return (times(recurrence(y_bar, _shifted(x, axis, True), axis), product_before, masked),)


_cumprod = scan("cumprod", lambda x, *, axis: np.cumprod(x, axis, dtype=x.dtype), "fi", "mul", vjp=_cumprod_vjp)


def _running(operation: OwnPrimitive, x: Tensor, axis: int | None, dtype: Any, *others: Any) -> Tensor:
    x = widened(x, dtype, operation.name)
    x, axis = on_axis(operation.name, x if x.ndim else reshaped(x, (1,)), axis)  # 0-d gives shape (1,), as in NumPy
    return record(operation, (x,), (axis, *others))


@public(1, _cumsum, takes="T")
def cumsum(x, axis=None, *, dtype=None):
    """The sums of all elements up to each along an axis (None: of x flattened).

    x: T[..., n, ...]  →  T[..., n, ...]     bool and int32 are summed as int64

    x is converted to `dtype` first.  Raises ShapeError when x has no such axis.

    >>> ad.cumsum([[1, 2], [3, 4]], axis=0)
    i64[2,2]
    [[1 2]
     [4 6]]
    """
    return _running(_cumsum, x, axis, dtype, False)


@public(1, _cumprod, takes="T")
def cumprod(x, axis=None, *, dtype=None):
    """The products of all elements up to each along an axis (None: of x flattened).

    x: T[..., n, ...]  →  T[..., n, ...]     bool and int32 are multiplied as int64

    Derivatives of every order are right at elements that are zero.  x is converted to `dtype` first.
    Raises ShapeError when x has no such axis.

    >>> ad.grad(lambda x: ad.sum(ad.cumprod(x)))(ad.tensor([2.0, 0.0, 3.0]))
    f64[3] [1. 8. 0.]
    """
    return _running(_cumprod, x, axis, dtype)


def _product_of_others(x: Tensor, axes: Ints) -> Tensor:
    """The product of all other elements along `axes`, for each element; right also if some elements are zero.

    Dividing the whole product by the element fails at zeros.  The product is therefore built as a tree of halves,
    and the tree is walked from the root: the product beside a node is that beside its parent times its sibling.
    Only products are recorded, so derivatives of every order are right.
    """
    if not x.size:
        return zeros_of(x.aval)
    order = axes + tuple([i for i in range(x.ndim) if i not in axes])
    pairs, top = _tree(x, axes)
    others = spread_to(constant(1.0, x.dtype), top.shape)
    for left, right in reversed(pairs):
        half = left.shape[0]
        above = part(others, 0, 0, half)
        others = _with_odd(joined((above * right, above * left), 0), others, half)
    back = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return transposed(reshaped(others, tuple([x.shape[i] for i in order])), back)


def _tree(x: Tensor, axes: Ints) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """(pairs of halves, from the leaves to the root; the root): each level is the product of a pair's two halves."""
    rest = tuple([i for i in range(x.ndim) if i not in axes])
    count, shape = math.prod([x.shape[i] for i in axes]), [x.shape[i] for i in rest]
    level = reshaped(transposed(x, axes + rest), (count, *shape))
    pairs = []
    while (extent := level.shape[0]) > 1:
        half = extent // 2
        left, right = part(level, 0, 0, half), part(level, 0, half, 2 * half)
        pairs.append((left, right))
        level = _with_odd(left * right, level, 2 * half)
    return pairs, level


def _with_odd(x: Tensor, before: Tensor, taken: int) -> Tensor:
    """x, followed by the row of `before` that was left without a partner, if there is one."""
    n = before.shape[0]
    return joined((x, part(before, 0, taken, n)), 0) if n > taken else x


def _product_of_complex(x: Tensor, axes: Ints) -> Tensor:
    """The product of complex numbers over axes, by a tree of halves: compiled reductions treat each part separately."""
    _, top = _tree(x, axes)
    return reshaped(top, top.shape[1:]) if top.shape[0] else spread_to(constant(1.0, x.dtype), top.shape[1:])


_prod = reduction(
    "prod", lambda x, *, axis: np.prod(x, axis, dtype=x.dtype), "fi", "mul",
    vjp=lambda y_bar, y, x, *, axis, masked: (
        times(spread(y_bar, axis, x.shape), _product_of_others(x, axis), masked),
    ),
)  # fmt: skip


@public(1, _prod, takes="T")
def prod(x, axis=None, *, dtype=None, keepdims=False):
    """The product over an axis, several, or (None) all of them.

    x: T[..., n, ...]  →  T[..., ...]     bool and int32 are multiplied as int64

    The product of no elements is 1.  Derivatives of every order are right at elements that are zero.
    x is converted to `dtype` first.  Raises ShapeError when x has no such axis.

    initial   a number that multiplies the product
    where     a mask of the elements to multiply; the other elements get a gradient of 0

    >>> ad.grad(ad.prod)(ad.tensor([2.0, 0.0, 3.0]))
    f64[3] [0. 6. 0.]
    """
    axes = axes_of("prod", axis, x.aval)
    x = widened(x, dtype, "prod")
    found = x
    if axes:
        found = _product_of_complex(x, axes) if x.dtype.kind == "c" else record(_prod, (x,), (axes,))
    return unreduced(found, x, axes, keepdims)
