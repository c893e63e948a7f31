"""NumPy's conventions for axes and shapes, checked once: what users write in, canonical tuples out.

Static parameters of operations are hashable and unique: an axis is a non-negative int, several axes
are a sorted tuple, a shape is a tuple of ints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lazily import imported
from codegen.runtime.record_table import MOST_KNOWN
from codegen.symbols import as_index

from ..errors import ShapeError, caller, in_short, located, with_article
from ..tensor import Tensor
from .conversion import numbers_of

__all__ = [
    "axes_of", "axis_of", "built", "check_known", "check_parts", "integer", "kept", "listed", "number",
    "reduced_shape", "shape_of",
]  # fmt: skip


#: Ways out for a second argument that is no axis, by the name of the function.
_MEANT = {
    **dict.fromkeys(("max", "amax"), "ad.maximum(a, b) compares elements of two arrays"),
    **dict.fromkeys(("min", "amin"), "ad.minimum(a, b) compares elements of two arrays"),
}


def integer(value: Any, name: str, what: str) -> int:
    """An int out of anything that is one.  Raises TypeError naming the function and what it got."""
    try:
        return as_index(value)
    except TypeError:
        way_out = told = ""
        if isinstance(value, Tensor):
            told = str(value.aval) if value.node.value is not None else f"a traced {value.aval}"
            if value.node.value is None and value.dtype.kind == "i":
                way_out = "\n  inside a traced function it has to be known: mark the argument static (static_argnums)"
        if what == "an axis":
            meant = f"\n  {_MEANT[name]}" if name in _MEANT else imported("autodiff.dispatch.called").brackets()
            way_out = meant or way_out
        raise TypeError(
            f"{name}: {what} is an integer, not {told or f'{type(value).__name__} ({value!r})'}\n"
            f"  called at {caller()}{way_out}"
        ) from None


def number(value: Any, name: str, what: str) -> float:
    """A float out of any number.  Raises TypeError naming the function and what it got."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(located(f"{name}: {what} is a number, not {in_short(value)}")) from None


def listed(values: Any, name: str, what: str) -> list[Any]:
    """The elements of a list, tuple or array.  Raises TypeError, naming the function, for what has none."""
    try:
        return [*values]
    except TypeError:
        told = with_article(type(values).__name__)
        raise TypeError(
            f"{name}: takes {what} in a list or tuple, not {told}\n  called at {caller()}"
            + imported("autodiff.dispatch.called").brackets()
        ) from None


def axis_of(function: str, axis: Any, aval: Aval, ndim: int | None = None) -> int:
    """One axis, counted from the front.  Raises ShapeError when there is none of that number.

    `ndim`: the rank to count in, where it is not the aval's (that of a result with new axes).
    """
    rank = aval.ndim if ndim is None else ndim
    number = integer(axis, function, "an axis")
    if not -rank <= number < rank:
        place = str(aval) if ndim is None else f"the result for {aval}"
        having = f"axes 0 to {rank - 1}" if rank > 1 else "one axis" if rank else "no axes"
        raise ShapeError(located(f"{function}: no axis {number} in {place}", f"it has {having}"))
    return number % rank


def axes_of(function: str, axis: Any, aval: Aval, ndim: int | None = None) -> tuple[int, ...]:
    """The axes that an `axis` argument names, sorted; None names all of them.  Raises ShapeError for a repeated one."""
    if axis is None:
        return tuple(range(aval.ndim if ndim is None else ndim))
    if not isinstance(axis, (tuple, list)):
        return (axis_of(function, axis, aval, ndim),)
    axes = tuple(sorted(axis_of(function, a, aval, ndim) for a in axis))
    if len(set(axes)) < len(axes):
        raise ShapeError(located(f"{function}: an axis is named twice in {tuple(axis)} for {aval}"))
    return axes


def built(function: str, count: int, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The numbers that `make()` gives.  Raises MemoryError with the number of bytes that there is no room for."""
    try:
        return make()
    except MemoryError:
        raise MemoryError(located(f"{function}: no memory for {8 * count} bytes of numbers")) from None


def check_parts(function: str, count: int) -> None:
    """Raise MemoryError where there is no room for a list of so many results."""
    try:
        [None] * count
    except (MemoryError, OverflowError):
        raise MemoryError(located(f"{function}: no room for {count} results")) from None


def shape_of(function: str, shape: Any) -> tuple[int, ...]:
    """A shape out of an int or a sequence or array of them; -1 is left for `reshape` to read."""
    shape = numbers_of(shape)
    extents: Sequence = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple([integer(n, function, "an extent") for n in extents])


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without some of its axes."""
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with some of its axes of extent 1: that of a reduction with `keepdims`."""
    return tuple([1 if i in axes else n for i, n in enumerate(shape)])


def check_known(index: Tensor, *, name: str, extent: int) -> None:
    """Raise IndexError for indices outside of an axis of this extent, if they are known and few."""
    known = index.node.value
    # Others are looked at where they are used: kernels check them all.
    if known is None or not 0 < index.size <= MOST_KNOWN:
        return
    known = np.asarray(known)
    low, high = int(known.min()), int(known.max())
    if low < -extent or high >= extent:
        raise IndexError(located(
            f"{name}: index {low if low < -extent else high} is outside of an axis of extent {extent}"
        ))
