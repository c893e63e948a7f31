"""Choosing by conditions, membership, nearness, and the places of what is chosen.

    select isin            by conditions, and by a set      nanargmax nanargmin    places of extremes, nan left out
    nonzero flatnonzero argwhere array_equal                whose number, or truth, is asked for
    isclose allclose       up to rounding
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConcretizationError, ShapeError, located
from ..tape import leaf
from ..tensor import Tensor
from .arguments import axis_of, common, listed
from .arithmetic import abs_, add, multiply, subtract
from .conditions import equal, isfinite, isnan, less_equal, logical_and, logical_not, logical_or, minimum, where
from .conversion import as_tensor, known_value
from .extremes import argmax, argmin
from .gathering import take
from .joining import stack
from .primitive import BOOL, spread_to, zeros_of
from .reductions import all_, any_
from .rows import sort
from .searching import searchsorted
from .shaping import expand_dims, reshaped
from .template import public

__all__ = [
    "allclose", "argwhere", "array_equal", "flatnonzero", "isclose", "isin", "nanargmax", "nanargmin", "nonzero",
    "select",
]  # fmt: skip


@public()
def select(condlist, choicelist, default=0):
    """The choice of the first condition that holds for an element; `default` where none does.

    condlist: [bool[...], ...]  choicelist: [T[...], ...]  →  T[...]     all are broadcast

    What is not chosen gets a gradient of exactly 0, as in `where`.  Raises ShapeError where there are not as many
    choices as conditions, or none.

    >>> x = ad.tensor([-1.0, 0.5, 3.0])
    >>> ad.select([x < 0, x > 1], [0.0, 1.0], x)
    f64[3] [0.  0.5 1. ]
    """
    conditions = listed(condlist, "select", "conditions")
    choices = listed(choicelist, "select", "choices")
    if len(conditions) != len(choices) or not conditions:
        raise ShapeError(located(
            f"select: {len(conditions)} conditions for {len(choices)} choices",
            "there is one choice for each condition, and one at least",
        ))
    found = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = where(condition, choice, found)
    return found


@public()
def isin(element, test_elements, *, invert=False):
    """True for elements that are among the test elements; with `invert`, that are not.   T[...], T[...]  →  bool[...]

    Nan is among nothing.  By sorting: n log m comparisons.

    >>> ad.isin([1, 2, 5], [5, 1])
    bool[3] [ True False  True]
    """
    x, tested = common("isin", (("element", element), ("test_elements", test_elements)), "fibc")
    tested = reshaped(tested, (tested.size,))
    if not tested.size or not x.size:
        found = zeros_of(x.aval.with_dtype(BOOL))
    elif x.dtype.kind in "fi":
        ordered = sort(tested)
        found = equal(take(ordered, minimum(searchsorted(ordered, x), tested.size - 1)), x)
    else:
        found = any_(equal(expand_dims(x, -1), tested), -1)
    return logical_not(found) if invert else found


def _place_without_nan(of: Any, name: str, fill: float, x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = as_tensor(x, name, "x")
    if axis is not None:
        axis = axis_of(name, axis, x.aval)
    return of(where(isnan(x), fill, x) if x.dtype.kind == "f" else x, axis, keepdims=keepdims)


@public()
def nanargmax(x, axis=None, *, keepdims=False):
    """Index of the first largest element along an axis (None: in x flattened), nan taken for -inf.

    x: T[..., n, ...]  →  i64[..., ...]     0 where all are nan, which NumPy refuses: a value would have to be known

    Raises ShapeError when x has no such axis, or nothing along it.

    >>> ad.nanargmax([1.0, ad.nan, 2.0])
    i64[] 2
    """
    return _place_without_nan(argmax, "nanargmax", -np.inf, x, axis, keepdims)


@public()
def nanargmin(x, axis=None, *, keepdims=False):
    """Index of the first smallest element along an axis (None: in x flattened), nan taken for inf.

    x: T[..., n, ...]  →  i64[..., ...]     0 where all are nan, which NumPy refuses: a value would have to be known

    Raises ShapeError when x has no such axis, or nothing along it.

    >>> ad.nanargmin([ad.nan, 1.0, 2.0])
    i64[] 1
    """
    return _place_without_nan(argmin, "nanargmin", np.inf, x, axis, keepdims)


# ---------------------------------------------------------------- what has to be known


def _places(name: str, x: Any) -> Sequence[Tensor]:
    """The places where x is not zero, an array for each axis."""
    x = as_tensor(x, name, "x")
    value = known_value(x)
    if value is None:
        raise ConcretizationError(located(
            f"{name}: how many elements of a {x.aval} are not zero has no value yet inside a traced function",
            "use ad.where(mask, x, other), which keeps the shape, or ad.count_nonzero(x) for their number",
        ))
    return [leaf(np.ascontiguousarray(places)) for places in np.nonzero(value)]


@public()
def nonzero(x) -> tuple[Tensor, ...]:
    """The indices of all elements that are not zero: one array for each axis.   T[...]  →  (i64[k], ...)

    Evaluates x: raises ConcretizationError inside `jit` and `vmap`; ShapeError for a 0-d array.

    >>> ad.nonzero([[0.0, 2.0], [3.0, 0.0]])
    (i64[2] [0 1], i64[2] [1 0])
    """
    x = as_tensor(x, "nonzero", "x")
    if not x.ndim:
        raise ShapeError(located(f"nonzero: a {x.aval} has no axes", "ad.atleast_1d(x) gives it one"))
    return tuple(_places("nonzero", x))


@public()
def flatnonzero(x):
    """The indices of all elements that are not zero, in x flattened.   T[...]  →  i64[k]     evaluates, as `nonzero`

    >>> ad.flatnonzero([[0.0, 2.0], [3.0, 0.0]])
    i64[2] [1 2]
    """
    x = as_tensor(x, "flatnonzero", "x")
    return _places("flatnonzero", reshaped(x, (x.size,)))[0]


@public()
def argwhere(x):
    """The indices of all elements that are not zero, one in each row.

    T[...]  →  i64[k, rank]     evaluates, as `nonzero`

    >>> ad.argwhere([[0.0, 2.0], [3.0, 0.0]])
    i64[2,2]
    [[0 1]
     [1 0]]
    """
    x = as_tensor(x, "argwhere", "x")
    places = _places("argwhere", x if x.ndim else reshaped(x, (1,)))
    found = stack(places, 1)
    return found if x.ndim else found[:, :0]


@public()
def array_equal(a, b, equal_nan=False):
    """True if shapes and all elements are equal; with `equal_nan` nan equals nan.   T[...], T[...]  →  bool[]

    >>> ad.array_equal([1, 2], [1.0, 2.0])
    bool[] True
    """
    a, b = as_tensor(a, "array_equal", "a"), as_tensor(b, "array_equal", "b")
    if a.shape != b.shape:
        return spread_to(as_tensor(False), ())
    found = equal(a, b)
    return all_(logical_or(found, logical_and(isnan(a), isnan(b))) if equal_nan else found)


# ---------------------------------------------------------------- nearness


@public()
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True where |a - b| <= atol + rtol |b|; infinities are close to themselves, with equal_nan nan too.

    T[...], T[...]  →  bool[...]

    Raises ShapeError when a and b do not broadcast.

    >>> ad.isclose([1.0, ad.inf, ad.nan], [1.0 + 1e-9, ad.inf, ad.nan])
    bool[3] [ True  True False]
    """
    a, b = common("isclose", (("a", a), ("b", b)), "fc")
    is_near = less_equal(abs_(subtract(a, b)), add(atol, multiply(rtol, abs_(b))))
    found = where(isfinite(b), is_near, equal(a, b))
    return logical_or(found, logical_and(isnan(a), isnan(b))) if equal_nan else found


@public()
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True if `isclose` is true for all elements.   T[...], T[...]  →  bool[]

    Raises ShapeError when a and b do not broadcast.

    >>> ad.allclose([1.0, 2.0], [1.0, 2.0 + 1e-9])
    bool[] True
    """
    return all_(isclose(a, b, rtol, atol, equal_nan))
