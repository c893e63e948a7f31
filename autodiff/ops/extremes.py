"""Extremes: max, min, argmax, argmin, and running extremes.

A stored extreme, and elements that other machine code computes again, may differ in the last bit; compared with each
other, no element would equal the extreme.  So one operation, which reads the elements alone, decides which of them
attain the extreme: both sides of its comparison come from one program.  This operation is `heavy`: later programs read
its stored result and do not repeat the decision.

    max_winners    of x [1, 3, 3]     [F, T, T]          cummax_runs    of x [1, 3, 2, 3, 4]     [1, 3, 2, 1, 1]

A running maximum has plateaus.  As for `max`, elements that attain it together share its derivative evenly: at each
place these are the elements of the plateau up to that place.

    x      1  3  2  3  4        attained  1  1  0  1  1
    y      1  3  3  3  4        count     1  1  1  2  1        of a plateau so far
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import CONSTANT, OPS, Aval, Node, apply, dtype_name

from ..tape import DETACH, constant, record
from ..tensor import Tensor
from .arithmetic import imaginary, imaginary_part, mul0, real_part
from .conditions import isfinite, maximum, where
from .conversion import cast_to
from .declare import axes_of, documented, integer
from .joining import joined
from .primitive import BOOL, I64, Ints, OwnPrimitive, elementwise_aval, primitive, times, with_extent, zero_of
from .reductions import all_, any_, recurrence, reduced_aval, reduction, scan, summed, unreduced
from .shaping import keepdims_shape, on_axis, spread
from .slicing import part
from .template import public


def _op(name: str, *inputs: Node, **params: Any) -> Node:
    return apply(OPS[name], *inputs, **params)


def _number(value: float, like: Aval) -> Node:
    return Node(CONSTANT, (), (value, dtype_name(like.dtype)), Aval((), like.dtype))


def _is_extreme(name: str, x: Node, axes: Ints) -> Node:
    y = _op("reshape", _op(name, x, axis=axes), shape=keepdims_shape(x.aval.shape, axes))
    return _op("equal", x, _op("broadcast_to", y, shape=x.aval.shape))


def _decision(
    name: str, reference: Callable[..., Any], infer: Callable[..., Aval], written: Callable[..., Node]
) -> OwnPrimitive:
    """An operation on one tensor with the parameter `axis`; `written` makes the nodes that the compiler gets for it."""
    return primitive(
        name, reference, infer=infer, params=("axis",), heavy=True, discrete=True,
        written=lambda operands, params, aval: written(operands[0], *params, aval),
    )  # fmt: skip


def winners(name: str, reference: Callable[..., Any]) -> OwnPrimitive:
    """The operation that finds the elements that attain an extreme; if that is nan, the elements that are nan.

    x: T[..., n, ...]  →  bool[..., n, ...]

    name    the operation of the extreme; complex numbers are ordered by real parts, equal ones by imaginary parts
    """

    def values(x: np.ndarray, *, axis: Ints) -> np.ndarray:
        return (x == reference(x, axis, keepdims=True)) | (x != x)

    def written(x: Node, axes: Ints, aval: Aval) -> Node:
        if x.aval.dtype.kind != "c":
            wins = _is_extreme(name, x, axes)
            return _op("bitwise_or", wins, _op("not_equal", x, x)) if x.aval.dtype.kind == "f" else wins
        re, im = _op("real", x), _op("imag", x)
        is_nan = _op("bitwise_or", _op("isnan", re), _op("isnan", im))
        re = _op("where", is_nan, _number(math.nan, re.aval), re)
        is_first = _is_extreme(name, re, axes)
        im = _op("where", is_first, im, _number(-math.inf if name == "max" else math.inf, im.aval))
        return _op("bitwise_or", _op("bitwise_and", is_first, _is_extreme(name, im, axes)), is_nan)

    return _decision(f"{name}_winners", values, elementwise_aval(name, "fic", "bool"), written)


def plateau_marks(name: str, reference: np.ufunc) -> OwnPrimitive:
    """The operation that finds the plateaus of a running extreme: a sum of two marks for each element.

    x: f[..., n, ...]  →  f[..., n, ...]     1 if the element attains the extreme, plus 2 if the next has the same one

    name    the operation of the running extreme
    """

    def values(x: np.ndarray, *, axis: int) -> np.ndarray:
        y = np.moveaxis(reference.accumulate(x, axis), axis, -1)
        found = (y == np.moveaxis(x, axis, -1)).astype(x.dtype)
        found[..., :-1] += 2 * (y[..., 1:] == y[..., :-1])
        return np.moveaxis(found, -1, axis)

    def written(x: Node, axis: int, aval: Aval) -> Node:
        def cut(y: Node, start: int, n: int) -> Node:
            shape = with_extent(aval.shape, axis, n)
            place = Node(CONSTANT, (), (start, "i64"), Aval((), I64))
            return _op("slice", y, place, axes=(axis,), steps=(1,), shape=shape)

        y, n, dtype = _op(name, x, axis=axis), aval.shape[axis], dtype_name(aval.dtype)
        attained = _op("cast", _op("equal", x, y), dtype=dtype)
        same = _op("cast", _op("equal", cut(y, 1, n - 1), cut(y, 0, n - 1)), dtype=dtype)
        last = _op("broadcast_to", _number(0.0, aval), shape=with_extent(aval.shape, axis, 1))
        goes_on = _op("concatenate", same, last, axis=axis)
        return _op("add", attained, _op("mul", goes_on, _number(2.0, aval)))

    return _decision(f"{name}_runs", values, elementwise_aval(name, "f"), written)


def _extreme(name: str, reference: Callable[..., Any]) -> OwnPrimitive:
    def vjp(y_bar, y, x, *, axis):
        wins = record(_winners[name], (x,), (axis,))
        count = summed(cast_to(wins, y.dtype), axis)
        return (where(wins, spread(y_bar / count, axis, x.shape), zero_of(y.dtype)),)

    return reduction(name, lambda x, *, axis: reference(x, axis), "fi", empty=False, vjp=vjp, masks=True)


_max, _min = _extreme("max", np.max), _extreme("min", np.min)
_winners = {"max": winners("max", np.max), "min": winners("min", np.min)}


def _extreme_of_complex(operation: OwnPrimitive, x: Tensor, axes: Ints) -> Tensor:
    """The extreme complex number, without a gradient, plus terms of value 0 that give its gradient to the winners."""
    still = record(DETACH, (x,))
    wins = record(_winners[operation.name], (still,), (axes,))
    beyond = -math.inf if operation is _max else math.inf
    best, second = (record(operation, (where(wins, p(still), beyond),), (axes,)) for p in (real_part, imaginary_part))
    value = cast_to(best, x.dtype) + record(imaginary, (second,))
    moved = where(wins & isfinite(still), x - still, zero_of(x.dtype))  # 0, with the derivative of x
    return value + summed(moved, axes) / summed(cast_to(wins, x.dtype), axes)


def _public_extreme(operation: OwnPrimitive, word: str, of_bool: OwnPrimitive, example: str) -> Any:
    """Declare max or min; `of_bool`: the operation in its place for bool, that of `any` or `all`."""
    check = reduced_aval(operation.name, "bc", empty=False)  # an empty axis has no extreme

    def extreme(x, axis=None, *, keepdims=False):
        axes = axes_of(operation.name, axis, x.aval)
        if x.dtype.kind in "bc":
            check(x.aval, axis=axes)
        if x.dtype.kind == "c" and axes:
            return unreduced(_extreme_of_complex(operation, x, axes), x, axes, keepdims)
        found = of_bool if x.dtype == BOOL else operation
        return unreduced(record(found, (x,), (axes,)) if axes else x, x, axes, keepdims)

    doc = f"""The {word} element over an axis, several, or (None) all of them; nan if there is one.

    x: T[..., n, ...]  →  T[..., ...]     complex numbers are ordered by real parts, equal ones by imaginary parts

    Equal largest or smallest elements share the gradient evenly; the others get exactly 0.
    Raises ShapeError when x has no such axis, or nothing along it.

    initial   a number that is one more element; needed for `where`
    where     a mask of the elements that count; all others are left out, with a gradient of 0"""
    return public(1, operation, name=operation.name, doc=documented(example, doc), takes="T")(extreme)


max_ = _public_extreme(_max, "largest", any_.primitive,
    ">>> ad.grad(ad.max)(ad.tensor([1.0, 3.0, 3.0]))\nf64[3] [0.  0.5 0.5]")
min_ = _public_extreme(_min, "smallest", all_.primitive,
    ">>> ad.min([[4, 2], [1, 3]], axis=1, keepdims=True)\ni64[2,1]\n[[2]\n [1]]")


def safe_scaling(top: Tensor) -> tuple[Tensor, Tensor]:
    """A factor and its inverse, powers of two: numbers up to the size `top` times the factor have safe squares.

    The squares, and the quotients by a norm in its derivatives, stay in the range: 2 step - far is less than its end.
    """
    far, step = (48, 80) if top.dtype == np.float32 else (400, 600)
    one, large, small, most, least = (constant(2.0**n, top.dtype) for n in (0, step, -step, far, -far))
    # Zero is not scaled: second derivatives have the square of the factor, which would overflow.
    is_large, is_small = top > most, (top < least) & (top != zero_of(top.dtype))
    scale, back = (where(is_large, a, where(is_small, b, one)) for a, b in ((small, large), (large, small)))
    return scale, back


def _place(name: str, word: str, reference: Callable[..., Any], extreme: str, example: str) -> Any:
    """Declare argmax or argmin; `extreme`: the name of the operation whose winners are found."""

    def over_axes(x: np.ndarray, *, axis: Ints) -> np.ndarray:
        rest = [i for i in range(x.ndim) if i not in axis]
        rows = x.transpose(*rest, *axis).reshape(*[x.shape[i] for i in rest], math.prod([x.shape[a] for a in axis]))
        return reference(rows, -1)

    operation = reduction(name, over_axes, "fib", result=I64, empty=False, discrete=True)
    check = reduced_aval(name, "c", empty=False)

    def place(x, axis=None, *, keepdims=False):
        axes = axes_of(name, axis if axis is None else integer(axis, name, "an axis"), x.aval)
        if x.dtype.kind != "c":
            found = record(operation, (x,), (axes,))
        else:
            check(x.aval, axis=axes)
            found = record(argmax.primitive, (record(_winners[extreme], (x,), (axes,)),), (axes,))
        return unreduced(found, x, axes, keepdims)

    doc = f"""Index of the first {word} element along an axis (None: in x flattened).

    x: T[..., n, ...]  →  i64[..., ...]     the first nan, where there is one

    Raises ShapeError when x has no such axis, or nothing along it."""
    return public(1, operation, name=name, doc=documented(example, doc), takes="T")(place)


argmax = _place("argmax", "largest", np.argmax, "max",
    ">>> ad.argmax([[1.0, 5.0, 5.0], [3.0, 2.0, 1.0]], axis=1)\ni64[2] [1 0]")
argmin = _place("argmin", "smallest", np.argmin, "min",
    ">>> ad.argmin([[1.0, 5.0, 5.0], [3.0, 2.0, 1.0]], axis=1)\ni64[2] [0 2]")


def _running(name: str, word: str, numpy: np.ufunc, monoid: str, example: str) -> Any:
    """Declare cummax or cummin."""
    plateaus = plateau_marks(name, numpy)

    def vjp(y_bar, y, x, *, axis, masked):
        if not x.size:
            return (y_bar,)
        found = record(plateaus, (x,), (axis,))
        goes_on = cast_to(found >= 2.0, x.dtype)
        attained = found - goes_on * 2.0
        n = x.shape[axis]
        follows = joined((part(goes_on, axis, n - 1, n), part(goes_on, axis, 0, n - 1)), axis)  # the first is 0
        so_far = recurrence(attained, follows, axis, reverse=False)  # the number of winners of the plateau so far
        share = 1.0 / maximum(so_far, 1.0)
        return (mul0(attained, recurrence(times(y_bar, share, masked), goes_on, axis)),)

    operation = scan(name, lambda x, *, axis: numpy.accumulate(x, axis), "fi", monoid, vjp=vjp)

    def running(x, axis=None):
        x, along = on_axis(name, x, axis)
        return record(operation, (x,), (along,))

    doc = f"""The {word} of all elements up to each along an axis (None: of x flattened); \
nan from the first nan on.

    x: T[..., n, ...]  →  T[..., n, ...]     elements that attain it together share the gradient evenly

    Raises ShapeError when x has no such axis."""
    return public(1, operation, name=name, doc=documented(example, doc), takes="T")(running)


cummax = _running("cummax", "largest", np.maximum, "max",
    ">>> ad.cummax([1.0, 3.0, 2.0, ad.nan, 5.0])\nf64[5] [ 1.  3.  3. nan nan]")
cummin = _running("cummin", "smallest", np.minimum, "min",
    ">>> ad.cummin([[3.0, 1.0], [2.0, 4.0]], axis=0)\nf64[2,2]\n[[3. 1.]\n [2. 1.]]")
