"""Reductions: sum, any, all; and functions for rules of custom functions: unbroadcast, project, stop_gradient.

A reduction's parameter `axis` is a sorted tuple of non-negative ints, and those axes are dropped;
`keepdims` is a reshape afterwards.  Of extremes see `extremes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Reduce

from .. import tree
from ..errors import ShapeError, located
from ..tape import DETACH, another, record
from ..tensor import Tensor
from .batching import along
from .conditions import truth
from .conversion import as_tensor, cast_to, dtype_of
from .declare import Example, axes_of, documented, kept, reduced_shape
from .primitive import I64, OwnPrimitive, expect, linear, primitive, sum_to
from .shaping import reshaped, spread
from .template import public

__all__ = ["all_", "any_", "project", "stop_gradient", "sum_", "unbroadcast"]


def reduced_aval(
    name: str, accepts: str, *, result: np.dtype | None = None, empty: bool = True
) -> Callable[..., Aval]:
    """The shape rule of a reduction.  `empty`: whether it has a value over no elements at all."""

    def infer(x: Aval, *, axis: tuple[int, ...]) -> Aval:
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
    """An operation that is a monoid over the parameter `axis`; rules as for `primitive`."""
    return primitive(
        name, reference, infer=reduced_aval(name, accepts, result=result, empty=empty), lower=Reduce(monoid or name),
        params=("axis",), heavy=True, batch=along("axis"), **rules,
    )  # fmt: skip


def widened(x: Tensor) -> Tensor:
    """bool and int32 as int64, as NumPy sums them."""
    return cast_to(x, I64) if x.dtype.kind in "ib" else x


def unreduced(y: Tensor, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The result y of reducing x, with the axes back as extents of 1 if they are to be kept."""
    return reshaped(y, kept(x.shape, axes)) if keepdims else y


_sum = linear(
    "sum",
    lambda x, *, axis: np.add.reduce(x, axis, x.dtype),  # np.sum, which takes as long again to come to it
    infer=reduced_aval("sum", "fic"),
    transpose=lambda y_bar, y, x, *, axis: (spread(y_bar, axis, x.shape),),
    lower=Reduce("add"),
    heavy=True,
    batch=along("axis"),
)


def summed(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The sum over these axes, which are dropped; no node when there are none."""
    return record(_sum, (x,), (axes,)) if axes else another(x)


@public(1, _sum)
def sum_(x, axis=None, *, dtype=None, keepdims=False):
    """The sum over an axis, several, or (None) all of them.

    x: T[..., n, ...]  →  T[..., ...]     bool and int32 are summed as int64

    The sum of nothing is 0.  x is converted to `dtype` first.  Raises ShapeError when x has no such axis.

    initial   a number to begin with
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> ad.sum([[1, 2], [3, 4]], axis=0)
    i64[2] [4 6]
    >>> ad.sum([True, True])
    i64[] 2
    >>> ad.sum(ad.ones((2, 3)), keepdims=True).shape
    (1, 1)
    """
    x = as_tensor(x, "sum", "x")
    axes = axes_of("sum", axis, x.aval)
    x = widened(x) if dtype is None else cast_to(x, dtype_of(dtype, "sum"))
    return unreduced(summed(x, axes), x, axes, keepdims)


def _quantifier(name: str, reference: Callable[..., Any], word: str, of_nothing: bool, example: Example) -> Any:
    operation = reduction(name, lambda x, *, axis: reference(x, axis), "b", discrete=True)
    doc = f"""True if {word} over an axis, several, or (None) all of them {"are" if of_nothing else "is"} True.

    x: T[..., n, ...]  →  bool[..., ...]     numbers count as True unless they are zero

    Of nothing it is {of_nothing}.  Raises ShapeError when x has no such axis.

    where     a mask of the elements that count; all others are left out, with a gradient of 0"""

    def body(x, axis=None, *, keepdims=False):
        x = as_tensor(x, name, "x")
        axes = axes_of(name, axis, x.aval)
        x = truth(x, name, "x")
        return unreduced(record(operation, (x,), (axes,)) if axes else another(x), x, axes, keepdims)

    return public(1, operation, name=name, doc=documented(example, doc))(body)


any_ = _quantifier("any", np.any, "any element", False, {"ad.any([[0, 0], [0, 3]], axis=0)": "bool[2] [False  True]"})
all_ = _quantifier("all", np.all, "all elements", True, {"ad.all([[1, 0], [2, 3]], axis=1)": "bool[2] [False  True]"})


@public()
def unbroadcast(g, like):
    """The gradient of a value that was broadcast: g summed over the axes that broadcasting repeated.

    g: T[...]  like: U[k...]  →  T[k...]

    Raises ShapeError when the shape of `like` does not broadcast to that of g.

    >>> ad.unbroadcast(ad.ones((2, 3)), ad.zeros(3))
    f64[3] [2. 2. 2.]
    """
    g, like = as_tensor(g, "unbroadcast", "g"), as_tensor(like, "unbroadcast", "like")
    have, want = g.shape, like.shape
    if len(want) > len(have) or any(n not in (1, m) for n, m in zip(reversed(want), reversed(have), strict=False)):
        raise ShapeError(located(f"unbroadcast: a {like.aval} is not broadcast to {g.aval}"))
    return another(g) if have == want else sum_to(g, want)


@public()
def project(g, like) -> Any:
    """A gradient in the structure of the value that it belongs to.

    For a tensor: in its shape (summed where that was broadcast) and its float dtype.  For a structured
    value, of its type: the cotangent of `dense(like)` pulled back to what `like` holds.  A `Diagonal`
    keeps the diagonal, a `Symmetric` the symmetric part; a number that stands in several places, as in
    `Fill`, gets the sum over them.  Types add methods `project.method(object, MyType)`; without one it is
    found by differentiating `dense`.
    Raises ShapeError for a gradient that does not fit.

    >>> ad.project(ad.ones((2, 2)), ad.Diagonal([3.0, 4.0])).diagonal
    f64[2] [1. 1.]
    """


@project.method(object, Tensor)
def _(g, like):
    found = unbroadcast(g, like)
    return cast_to(found, like.dtype) if like.dtype.kind in "fc" else found


@public(1)
def stop_gradient(t):
    """Let no gradient flow through these values; of containers and structured values, through all their tensors.

    t: T[...]  →  T[...]

    >>> ad.grad(lambda x: x * ad.stop_gradient(x))(ad.tensor(3.0))
    f64[] 3.0
    """

    def stopped(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return record(DETACH, (x,)) if x.node.kind.out.requires_grad else another(x)

    return tree.map(stopped, t)
