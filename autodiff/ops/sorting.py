"""Order: argsort, and sort, which reads what it says."""

from __future__ import annotations

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Order

from ..errors import ShapeError, located
from ..tape import record
from ..tensor import Tensor
from .arguments import axis_of
from .arithmetic import add, multiply
from .batching import along
from .complexes import imaginary_part, real_part
from .conversion import as_tensor, cast_to
from .logic import isnan
from .primitive import expect, primitive
from .rows import take_along_axis
from .shaping import reshaped
from .template import public

__all__ = ["argsort", "sort"]

_I64 = np.dtype(np.int64)


def _aval(x: Aval, *, axis: int, descending: bool) -> Aval:
    expect("argsort", (x,), "fib")
    if not 0 <= axis < x.ndim:
        raise ShapeError(located(f"argsort: {axis} is not an axis of {x}"))
    return x.with_dtype(_I64)


def _reference(x: np.ndarray, *, axis: int, descending: bool) -> np.ndarray:
    """NumPy's stable order; the descending one of reversed rows, so that equal elements keep their order."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    rows = np.flip(x, axis)
    return np.flip(x.shape[axis] - 1 - np.argsort(rows, axis, kind="stable"), axis)


_argsort = primitive(
    "argsort",
    _reference,
    infer=_aval,
    lower=Order(),
    heavy=True,
    discrete=True,
    batch=along("axis"),
)


@public(1, _argsort)
def argsort(x, axis=-1, *, descending=False, stable=True):
    """Indices that sort x along an axis in rising (`descending`: falling) order; axis None: of x flattened.

    x: T[..., n, ...]  →  i64[..., n, ...]     equal elements keep their order; nan is above all

    Complex numbers are ordered by real parts, equal ones by imaginary parts.  The order is stable whatever `stable` is.
    Raises ShapeError when x has no such axis.

    >>> ad.argsort([3.0, 1.0, 2.0, 1.0])
    i64[4] [1 3 2 0]
    >>> ad.argsort([3.0, 1.0, 2.0, 1.0], descending=True)
    i64[4] [0 2 1 3]
    """
    x = as_tensor(x, "argsort", "x")
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    return _ordered(x, axis_of("argsort", axis, x.aval), bool(descending))


@public(1)
def sort(x, axis=-1, *, descending=False, stable=True):
    """The elements along an axis in rising (`descending`: falling) order; axis None: of x flattened.

    x: T[..., n, ...]  →  T[..., n, ...]     gradients go where the elements came from; nan is above all

    Complex numbers are ordered by real parts, equal ones by imaginary parts.  The order is stable whatever `stable` is.
    Raises ShapeError when x has no such axis.

    >>> ad.sort([3.0, ad.nan, 1.0])
    f64[3] [ 1.  3. nan]
    >>> ad.grad(lambda x: ad.sort(x)[0])(ad.tensor([3.0, 1.0, 2.0]))
    f64[3] [0. 1. 0.]
    """
    x = as_tensor(x, "sort", "x")
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    along = axis_of("sort", axis, x.aval)
    return _taken(x, _ordered(x, along, bool(descending)), along)


def _ordered(x: Tensor, axis: int, descending: bool) -> Tensor:
    """The order along an axis.  Complex numbers are put into it by each key in turn, the last of which decides.

    As NumPy has it: real parts, then imaginary parts; behind all numbers those with a nan in the imaginary part, behind
    these those with one in the real part, and in both.
    """
    if x.dtype.kind != "c":
        return record(_argsort, (x,), (axis, descending))
    re, im = real_part(x), imaginary_part(x)
    lacks = [cast_to(isnan(p), np.dtype(np.int32)) for p in (im, re)]
    order = record(_argsort, (im,), (axis, descending))
    for key in (re, add(lacks[0], multiply(lacks[1], 2))):
        by_key = record(_argsort, (_taken(key, order, axis),), (axis, descending))
        order = _taken(order, by_key, axis)
    return order


def _taken(x: Tensor, order: Tensor, axis: int) -> Tensor:
    return take_along_axis(x, order, axis) if x.size else x
