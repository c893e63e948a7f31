"""`x[key]` as a value, and x with `x[key]` replaced: NumPy's indexing in full.

A key is read in four steps:

    x[2, ..., None, rows, 1:5]          x: f64[4,6,7,8]
    fill    one entry per axis of x     2, all, None, rows, 1:5            `...` stands for the other axes
    slice   ints and slices             slice(x; starts 2, 1)              run-time starts, static extents
    shape   new axes in, ints out       reshape
    gather  index arrays                take(x; rows)                      ints join them, as in NumPy

So `X[i:i+B]` is one graph for all i.  A bool mask becomes index arrays of the places where it is True: their
length is part of a shape, so the mask must have a value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.records import NamedTuple
from codegen.symbols import Symbol, as_index

from ..errors import ConcretizationError, DTypeError, ShapeError, located
from ..tape import distinct_result, leaf, number_leaf, place_leaf
from ..tape.ask import value_of
from ..tensor import AbstractTensor, Tensor
from .conditions import where
from .conversion import DEFAULT_DTYPES, WEAK, as_tensor, cast_beside, known_value
from .gathering import broadcast_value, gathered, index_tensor, replaced, summed_at
from .primitive import I64, Ints, expect, zeros_of
from .shaping import reshaped
from .slicing import embedded, sliced, symbolic_steps, updated_slice
from .template import public

_ALL = slice(None)

#: The most elements of a short slice, and the extent above which an axis is long: see `_start`.
_FEW, _LONG = 4, 32


class IndexShapeError(ShapeError, IndexError):
    """Indices that do not fit the axes: a ShapeError, and an IndexError as in NumPy."""


class _Mask(NamedTuple):
    """A bool array in a key, which stands for the places where it is True; `given` is the object in the key."""

    value: Tensor
    given: Any

    @property
    def is_literal(self) -> bool:
        """True if the mask is a bool or a list of bools: a constant of the program, as numbers are."""
        items = self.given if type(self.given) is list else [self.given]
        return {*map(type, items)} <= {bool, np.bool_}


class _Fresh(NamedTuple):
    """The meaning of a 0-d mask in a key: a new axis of extent 1, and the places to read along it."""

    places: Tensor


class _Selection(NamedTuple):
    """The steps by which a key selects from an array.

    starts, axes, steps, extents   the slice to take first; `extents` is its whole shape
    shape      the slice's shape without the axes that ints select from, with new axes
    indices    the index arrays, for the axes `index_axes` of `shape`; their axes come at `place` of the result
    """

    starts: tuple[Tensor, ...]
    axes: Ints
    steps: Ints
    extents: Ints
    shape: Ints
    indices: tuple[Tensor, ...]
    index_axes: Ints
    place: int


def _selection(x: Aval, key: Any) -> _Selection:
    """The selection of `key` from an array like x.  Raises IndexError or ShapeError if the key does not fit x."""
    entries = _expanded(x, _filled(x, _entries(key)))
    starts: list[Tensor] = []
    axes: list[int] = []
    steps: list[int] = []
    extents: list[int] = []
    shape: list[int] = []
    indices: list[tuple[int, Tensor]] = []  # (axis of `shape`, index array)
    for entry in entries:
        axis = len(extents)
        if entry is Ellipsis:
            continue
        if entry is None:
            shape.append(1)
        elif isinstance(entry, _Fresh):
            indices.append((len(shape), entry.places))
            shape.append(1)
        elif isinstance(entry, Tensor):
            indices.append((len(shape), index_tensor(entry, "x[...]", x.shape[axis])))
            extents.append(x.shape[axis])
            shape.append(x.shape[axis])
        else:
            start, step, count = _steps(x, axis, entry)
            if count != x.shape[axis] or step != 1:
                starts.append(_start(start, step, count, x.shape[axis]))
                axes.append(axis)
                steps.append(step)
            extents.append(count)
            if type(entry) is slice:
                shape.append(count)
    return _Selection(
        tuple(starts), tuple(axes), tuple(steps), tuple(extents), tuple(shape),
        tuple([index for _, index in indices]), tuple([axis for axis, _ in indices]), _place(entries),
    )  # fmt: skip


def _entries(key: Any) -> list:
    """The elements of a key."""
    return [_entry(e) for e in (key if isinstance(key, tuple) else (key,))]


def _entry(entry: Any) -> Any:
    """One element of a key: None, Ellipsis, a slice, an int, an index array or a mask."""
    if entry is None or entry is Ellipsis or type(entry) is slice or type(entry) is int:
        return entry
    if isinstance(entry, (AbstractTensor, np.ndarray, list, tuple, bool, np.bool_)):
        array = as_tensor(entry, "x[...]", "an index")
        if array.dtype == np.bool_:
            return _Mask(array, entry)
        return index_tensor(entry if isinstance(entry, (list, tuple)) else array, "x[...]")
    try:
        return as_index(entry)
    except TypeError:
        raise IndexError(located(
            f"x[...]: {entry!r} is no index",
            "an index is an integer, a slice, None, '...', or an array of integers or bool",
        )) from None


def _filled(x: Aval, entries: list) -> list:
    """The entries with whole slices in the place of `...`, or at the end, so that each axis has one.

    A `...` that stands for no axis is kept: it separates index arrays on its two sides, as in NumPy.
    """
    taken = sum(_consumes(e) for e in entries)
    if taken > x.ndim:
        raise IndexShapeError(located(f"x[...]: {taken} indices for {x}"))
    gaps = [i for i, e in enumerate(entries) if e is Ellipsis]
    if len(gaps) > 1:
        raise IndexError(located("x[...]: an index has at most one '...'"))
    gap = gaps[0] if gaps else len(entries)
    return [*entries[:gap], *([_ALL] * (x.ndim - taken) or entries[gap : gap + 1]), *entries[gap + 1 :]]


def _consumes(entry: Any) -> int:
    """The number of axes of x that an entry selects from."""
    return entry.value.ndim if isinstance(entry, _Mask) else 0 if entry is None or entry is Ellipsis else 1


def _expanded(x: Aval, entries: list) -> list:
    """The entries with each mask replaced by index arrays, one for each of its axes.

    An int beside an index array becomes one too: all are broadcast together, and their axes stand in one place.
    """
    found: list = []
    axis = 0
    for entry in entries:
        found.extend(_places(x, axis, entry) if isinstance(entry, _Mask) else (entry,))
        axis += _consumes(entry)
    if not any(isinstance(e, (Tensor, _Fresh)) for e in found):
        return found
    return [number_leaf(e, I64) if type(e) is int else e for e in found]


def _places(x: Aval, axis: int, entry: _Mask) -> list:
    """Index arrays of the places where a mask is True.  Raises ConcretizationError for a mask without a value."""
    mask = entry.value
    value = value_of(mask.node) if entry.is_literal else known_value(mask, entry.given)
    if value is None:
        raise ConcretizationError(located(
            f"x[...]: a mask {mask.aval} inside a traced function: how many elements it takes has no value yet",
            "use ad.where(mask, x, other), which keeps the shape",
        ))
    if mask.shape != x.shape[axis : axis + mask.ndim]:
        raise IndexShapeError(located(f"x[...]: the mask {mask.aval} does not fit {x} from axis {axis} on"))
    if not mask.ndim:
        return [_Fresh(leaf(np.zeros(int(value), I64)))]
    return [leaf(np.ascontiguousarray(places)) for places in np.nonzero(value)]


def _steps(x: Aval, axis: int, entry: int | slice) -> tuple[int, int, int]:
    """(start, step, number of elements) of an int or slice along an axis."""
    extent = x.shape[axis]
    if type(entry) is not slice:
        if not -extent <= entry < extent:
            raise IndexError(located(
                f"x[...]: index {entry} is outside of axis {axis} of {x}, whose extent is {extent}"
            ))
        return entry + extent if entry < 0 else entry, 1, 1
    if type(extent) is Symbol or type(entry.start) is Symbol or type(entry.stop) is Symbol:
        return symbolic_steps(entry, extent)
    try:
        start, stop, step = entry.indices(extent)
    except ConcretizationError:
        raise ConcretizationError(located(
            f"x[...]: a slice of {x} whose start or stop has no value yet: how long it is cannot be told",
            f"write ad.take(x, start + ad.arange(size), axis={axis}): any start is then the same graph",
        )) from None
    count = len(range(start, stop, step))
    return (start if count else 0), step, count


def _start(start: int, step: int, count: int, extent: int) -> Tensor:
    """A start as a run-time argument; in a `jit` trace a constant, except for short slices at the end of a long axis.

    Such a slice starts elsewhere for each extent of the axis, while the rest of the graph does not change.
    """
    is_known = type(start) is not Symbol and type(extent) is not Symbol
    is_last = step < 0 or (is_known and extent > _LONG and count <= _FEW and start >= extent - 2 * _FEW)
    return number_leaf(start, I64) if is_last or type(start) is Symbol else place_leaf(start)


def _place(entries: list) -> int:
    """The place of the index arrays' axes in the result: that of the first array, or 0 if they are not adjacent."""
    numbers = [i for i, e in enumerate(entries) if isinstance(e, (Tensor, _Fresh))]
    if not numbers or numbers[-1] - numbers[0] >= len(numbers):
        return 0
    return numbers[0] - entries[: numbers[0]].count(Ellipsis)


@public()
def getitem(x, key):
    """x[key] by NumPy's rules; a new value, never a view.

    key   ints and slices (of any step), None, `...`, arrays of integers, bool masks, or a tuple of these

    Ints and the starts of slices are run-time arguments, so one graph serves all of them (in a `jit` trace
    they are constants).  Negative indices count from the end.  Raises IndexError for an index outside of its
    axis (when the value is computed, if the index is known only then), ShapeError for too many indices,
    ConcretizationError for a mask that depends on traced arguments: a constant mask is part of the trace.
    Elements that a mask leaves out get a gradient of exactly zero, as in `ad.where`.
    """
    x = as_tensor(x, "x[...]", "x")
    chosen = _selection(x.aval, key)
    if chosen.indices and x.node.kind.out.requires_grad:
        x = _behind_masks(x, key)
    y = sliced(x, chosen.starts, chosen.axes, chosen.steps, chosen.extents)
    y = reshaped(y, chosen.shape)
    if chosen.indices:
        return gathered(y, chosen.indices, chosen.index_axes, chosen.place)
    return distinct_result(y, x)


def _behind_masks(x: Tensor, key: Any) -> Tensor:
    """x with 0 where a mask of the key is False, so that these elements get a gradient of exactly zero."""
    axis = 0
    for entry in _filled(x.aval, _entries(key)):
        if isinstance(entry, _Mask) and entry.value.ndim:
            x = behind_mask(x, entry.value, axis)
        axis += _consumes(entry)
    return x


def behind_mask(x: Tensor, mask: Any, axis: int) -> Tensor:
    """x, if it tracks gradients, with 0 where a mask from this axis on is False."""
    if not x.node.kind.out.requires_grad:
        return x
    return where(mask.reshape((1,) * axis + mask.shape + (1,) * (x.ndim - axis - mask.ndim)), x, 0)


@public()
def index_update(x, key, value):
    """x with x[key] replaced by `value`, which is broadcast; x itself stays as it was.

    x: T[...]  →  T[...]     `t[key] = value` gives the handle t this result

    If index arrays name an element twice, the last value wins.  A replaced element gets a gradient of
    exactly zero.  Raises ShapeError when the value does not broadcast to x[key], DTypeError when its dtype
    cannot be cast to that of x (`same_kind`), and the errors of `x[key]`.
    """
    x = as_tensor(x, "x[...] = value", "x")
    value = _assigned(x, value)
    return _masked_update(x, key, value) if _is_mask(x, key, value) else _updated(x, key, value)


def _is_mask(x: Tensor, key: Any, value: Tensor) -> bool:
    """True for a key that is a single mask whose places all get the same value."""
    is_array = isinstance(key, (AbstractTensor, np.ndarray))
    return is_array and key.dtype == np.bool_ and value.ndim <= x.ndim - key.ndim


def _updated(x: Tensor, key: Any, value: Tensor) -> Tensor:
    """x with x[key] replaced, for any key but a mask with one value."""
    chosen = _selection(x.aval, key)
    if not chosen.indices:
        value = reshaped(broadcast_value(value, chosen.shape), chosen.extents)
        return updated_slice(x, value, chosen.starts, chosen.axes, chosen.steps)
    y = reshaped(sliced(x, chosen.starts, chosen.axes, chosen.steps, chosen.extents), chosen.shape)
    y = replaced(y, chosen.indices, value, chosen.index_axes, chosen.place)
    return updated_slice(x, reshaped(y, chosen.extents), chosen.starts, chosen.axes, chosen.steps)


@public(takes="T")
def add_at(x, key, value):
    """x with `value`, broadcast, added to x[key]; an element that is named twice gets both.  x itself stays as it was.

    x: T[...]  →  T[...]     T a number; any key that `x[key]` takes

    `x[key] += value` has this result if index arrays name no element twice (otherwise, as in NumPy, the last value
    wins there); `np.add.at(t, key, value)` gives it to a tensor t.  Raises the errors of `t[key] = value`.

    >>> ad.add_at(ad.zeros(3), [0, 2, 0], [1.0, 2.0, 3.0])
    f64[3] [4. 0. 2.]
    """
    expect("add_at", (x.aval,), "fic")
    value = _assigned(x, value)
    if _is_mask(x, key, value):
        return x + _masked_update(zeros_of(x.aval), key, value)
    chosen = _selection(x.aval, key)
    if chosen.indices:
        moved = summed_at(chosen.shape, chosen.indices, value, chosen.index_axes, chosen.place)
    else:
        moved = broadcast_value(value, chosen.shape)
    return x + embedded(reshaped(moved, chosen.extents), chosen.starts, chosen.axes, chosen.steps, x.shape)


def _assigned(x: Tensor, value: Any) -> Tensor:
    """The value as a tensor of x's dtype.  Raises DTypeError if it cannot be cast to that dtype."""
    if type(value) in WEAK and "bifc".index(DEFAULT_DTYPES[type(value)].kind) <= "bifc".index(x.dtype.kind):
        return number_leaf(value, x.dtype)
    value = as_tensor(value, "x[...] = value", "value")
    if not np.can_cast(value.dtype, x.dtype, "same_kind"):
        raise DTypeError(located(
            f"x[...] = value: {x.aval} cannot take {value.aval}", "convert one of them: ad.astype(value, x.dtype)"
        ))
    return cast_beside(value, x.dtype)


def _masked_update(x: Tensor, key: Any, value: Tensor) -> Tensor:
    """x with one value at all places of a mask, by `where`: it works for a mask without a value too."""
    mask = as_tensor(key)
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexShapeError(located(f"x[...]: the mask {mask.aval} does not fit {x.aval}"))
    value = broadcast_value(value, x.shape[mask.ndim :])
    return where(reshaped(mask, mask.shape + (1,) * (x.ndim - mask.ndim)), value, x)
