"""New tensors: constants, ranges, the identity.

These tensors are recorded as operations, not stored: zeros are the number 0 broadcast, a range is computed from the
positions of its elements.  Extents are static.  The fill value of `full` and the start and step of `arange` are
run-time arguments, so the graph is the same for all of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from codegen.ir import DTYPES, Aval, dtype_name
from codegen.lowering import Move
from codegen.symbols import as_index

from ..errors import ShapeError, located
from ..tape import constant, distinct_result, number_leaf, record
from ..tensor import Tensor
from .conditions import where
from .conversion import DEFAULT_DTYPES, WEAK, as_tensor, cast_beside, cast_to, dtype_of
from .declare import documented, number, shape_of
from .elementwise import floor
from .forms import check_without_effect
from .primitive import F64, I64, Ints, broadcasts_to, primitive, spread_to
from .template import public


def _iota_reference(*, shape: Ints, axis: int, dtype: str) -> np.ndarray:
    along = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(along, shape).astype(DTYPES[dtype])


_iota = primitive(
    "iota",
    _iota_reference,
    infer=lambda *, shape, axis, dtype: Aval(shape, DTYPES[dtype]),
    lower=Move(lambda k, index, *, shape, axis, dtype: k.from_index(index[axis], dtype)),
    discrete=True,
)


def iota(shape: Ints, axis: int, dtype: np.dtype = I64) -> Tensor:
    """The position along `axis` of each element, from which ranges, the identity and masks are computed."""
    return record(_iota, (), (shape, axis, dtype_name(dtype)))


def extents_of(name: str, shape: Any) -> Ints:
    """The shape of a new array, read by `shape_of`.  Raises ShapeError for a negative extent."""
    found = shape_of(name, shape)
    if any(n < 0 for n in found):
        raise ShapeError(located(f"{name}: extents are not negative: {found}"))
    return found


def extent_of(name: str, number: Any) -> int:
    """A number of elements.  Raises TypeError and ShapeError naming the function."""
    found = extents_of(name, number)
    if len(found) != 1:
        raise TypeError(located(f"{name}: takes one number of elements, not {number!r:.40}"))
    return found[0]


@public(0)
def _filled(shape: Ints, number: int, dtype: np.dtype) -> Tensor:
    """A tensor filled with one number, which is a constant of the graph."""
    return spread_to(constant(dtype.type(number).item(), dtype), shape)


def _constant(name: str, number: int, summary: str, example: str) -> Any:
    """Declare a function that returns a tensor of a given shape filled with `number`."""

    def body(shape, dtype=None, order="C", *, device=None, like=None):
        if order != "C" or device is not None or like is not None:
            check_without_effect(name, order=order, device=device, like=like)
        return _filled(extents_of(name, shape), number, dtype_of(dtype, name, F64))

    return public(0, name=name, doc=documented(
        example, f"{summary}   →  dtype[shape]",
        "Raises ShapeError for a negative extent, DTypeError for a dtype that this library does not have.",
        "order, device, like   NumPy's: a tensor has no layout, and is in the CPU's memory",
    ))(body)


zeros = _constant("zeros", 0, "Zeros.", ">>> ad.zeros(2, dtype=ad.int64)\ni64[2] [0 0]")
ones = _constant("ones", 1, "Ones.", ">>> ad.ones(2, dtype=ad.float32)\nf32[2] [1. 1.]")
empty = _constant("empty", 0, "Zeros: tensors are values, so none can be filled in later.",
    ">>> ad.empty(2)\nf64[2] [0. 0.]")


def full(shape, fill_value, dtype=None, order="C", *, device=None, like=None):
    """An array filled with one value, which broadcasts.   T[...]  →  dtype[shape]     by default the dtype of the value

    Raises ShapeError when the value does not broadcast to the shape.

    order, device, like   NumPy's: a tensor has no layout, and is in the CPU's memory

    >>> import autodiff as ad
    >>> ad.full((1, 2), [1.0, 2.0])
    f64[1,2] [[1. 2.]]
    """
    check_without_effect("full", order=order, device=device, like=like)
    extents = extents_of("full", shape)
    wanted = None if dtype is None else dtype_of(dtype, "full")
    if type(fill_value) in WEAK:
        value = number_leaf(fill_value, wanted or DEFAULT_DTYPES[type(fill_value)])
    else:
        value = as_tensor(fill_value, "full", "fill_value")
        value = value if wanted is None else cast_beside(value, wanted)
    if not broadcasts_to(value.shape, extents):
        raise ShapeError(located(f"full: {value.aval} does not broadcast to {extents}"))
    return distinct_result(spread_to(value, extents), value)


def _constant_like(name: str, number: int, word: str, example: str) -> Any:
    """Declare a function that returns a tensor of the shape of another one filled with `number`."""

    def body(x, *, dtype=None):
        return _filled(x.shape, number, dtype_of(dtype, name, x.dtype))

    doc = f"{word} in the shape, and by default the dtype, of x.   T[...]  →  dtype[...]"
    raises = "Raises DTypeError for a dtype that this library does not have."
    return public(1, name=name, doc=documented(example, doc, raises), takes="T")(body)


zeros_like = _constant_like("zeros_like", 0, "Zeros", ">>> ad.zeros_like([1, 2])\ni64[2] [0 0]")
ones_like = _constant_like("ones_like", 1, "Ones", ">>> ad.ones_like([[True, False]])\nbool[1,2] [[ True  True]]")
empty_like = _constant_like("empty_like", 0, "Zeros", ">>> ad.empty_like([1.0, 2.0], dtype=ad.float32)\nf32[2] [0. 0.]")


@public(1, takes="T")
def full_like(x, fill_value, *, dtype=None):
    """An array filled with one value, in the shape and by default the dtype of x.   T[...], T[...]  →  dtype[...]

    Raises ShapeError when the value does not broadcast to the shape of x.

    >>> ad.full_like([1, 2], 7)
    i64[2] [7 7]
    >>> ad.full_like([1, 2], 0.5, dtype=ad.float64)
    f64[2] [0.5 0.5]
    """
    return full(x.shape, fill_value, x.dtype if dtype is None else dtype)


@public()
def arange(start, stop=None, step=1, dtype=None, *, device=None, like=None):
    """Numbers from `start` in steps of `step` below `stop`; `arange(n)` counts from 0.   →  dtype[n]

    Integers give int64, floats float64.  The number of elements is part of the graph, the start is an input of it.
    As in NumPy, rounding may add or lose the last element of a range of floats: prefer `linspace`.
    Raises ValueError for a step of 0, and for nan and infinite numbers.

    device, like   NumPy's: a tensor is in the CPU's memory

    >>> ad.arange(3)
    i64[3] [0 1 2]
    >>> ad.arange(1.0, 2.0, 0.25)
    f64[4] [1.   1.25 1.5  1.75]
    """
    check_without_effect("arange", device=device, like=like)
    if stop is None:
        start, stop = 0, start
    numbers = [_number("arange", n) for n in (start, stop, step)]
    start, stop, step = numbers
    if step == 0:
        raise ValueError(located("arange: the step is 0"))
    whole = all(isinstance(n, int) for n in numbers)
    wanted = dtype_of(dtype, "arange", I64 if whole else F64)
    if not whole and not math.isfinite((stop - start) / step):
        raise ValueError(located(f"arange: from {start} to {stop} there is no number of steps of {step}"))
    count = max(0, -((start - stop) // step) if whole else math.ceil((stop - start) / step))
    if not whole:
        step = (start + step) - start  # as in NumPy: the difference of the first two elements, which are rounded
    return _counted(count, start, step, (I64 if whole else F64, wanted))


@public(0)
def _counted(count, start, step, dtypes):
    """`count` numbers from `start` in steps of `step`, computed in the first dtype, converted to the second one."""
    return cast_to(iota((count,), 0, dtypes[0]) * step + start, dtypes[1])


_counted.takes_watched = True


def _number(name: str, value: Any) -> int | float:
    """A Python int or float out of a number, a NumPy scalar or a 0-d array or tensor."""
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return value
    try:
        return as_index(value)
    except TypeError:
        return number(value, name, "an end, or the step,")


@public(takes="f", operands=2)
def linspace(start, stop, num=50, *, endpoint=True, dtype=None):
    """`num` evenly spaced numbers from `start` to `stop`; `endpoint=False` leaves `stop` out.

    T[...], T[...]  →  f64[num, ...]     differentiable in both ends

    Raises ShapeError for a negative number of elements.

    retstep   True: return the step too, as (numbers, step)
    axis      the axis of the result that the numbers lie along

    >>> ad.linspace(0.0, 1.0, 5)
    f64[5] [0.   0.25 0.5  0.75 1.  ]
    >>> ad.linspace(0.0, 1.0, 4, endpoint=False)
    f64[4] [0.   0.25 0.5  0.75]
    """
    count = extent_of("linspace", num)
    if start.dtype != F64 and dtype is None:
        dtype = start.dtype
    parts = count - 1 if endpoint else count
    places = iota((count, *[1] * max(start.ndim, stop.ndim)), 0, start.dtype) if count else None
    if places is None:
        return zeros((0, *np.broadcast_shapes(start.shape, stop.shape)), dtype or F64)
    line = places * ((stop - start) / max(parts, 1)) + start
    if endpoint and count > 1:
        line = where(places == count - 1, stop, line)  # the computed last number may differ from `stop` by rounding
    wanted = dtype_of(dtype, "linspace", line.dtype)
    return cast_to(floor(line) if wanted.kind == "i" else line, wanted)


@public(0)
def eye(n_rows, n_cols=None, k=0, dtype=None):
    """Ones on the k-th diagonal, zeros elsewhere.   →  dtype[n_rows, n_cols]

    Raises ShapeError for a negative extent, DTypeError for a dtype that this library does not have.

    >>> ad.eye(2, 3, k=1)
    f64[2,3]
    [[0. 1. 0.]
     [0. 0. 1.]]
    """
    shape = extents_of("eye", (n_rows, n_rows if n_cols is None else n_cols))
    on_diagonal = iota(shape, 0) + as_index(k) == iota(shape, 1)
    return cast_to(on_diagonal, dtype_of(dtype, "eye", F64))
