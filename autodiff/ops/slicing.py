"""Operations on slices: read a slice, put a tensor into zeros at a slice, replace a slice.

    slice         y[i] = x[start + step·i]                        along some axes
    embed         zeros, with x at the elements of a slice        the transpose of slice
    slice_update  x, with v at the elements of a slice

Steps and extents are static, starts are inputs: `X[i:i+B]` is one graph for all i.  The code that records
a slice checks that the slice lies inside the tensor, so compiled loops do not check again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Move
from codegen.symbols import Symbol, as_index

from ..tape import as_new_result, constant, is_tracking, number_leaf, record
from ..tape.node import Kind, Out, kind_of, leaf_kind, out_of
from ..tape.record import state
from ..tensor import Tensor
from .batching import up, with_examples
from .conversion import cast_to
from .creation import iota
from .gathering import gathered, replaced, summed_at
from .primitive import I64, Ints, linear, with_extent, zeros_of
from .shaping import reshaped, transposed, zeros_after


def _check_slice(name: str, starts: Sequence[Aval], axes: tuple, steps: tuple, whole: Aval, shape: tuple) -> Aval:
    """`whole`; asserts that a slice of `shape` can lie in it, and that the starts are 0-d integers."""
    assert len(starts) == len(axes) == len(steps) and len(shape) == whole.ndim, f"{name}: {axes}, {steps} of {whole}"
    assert not any([start.shape or start.dtype.kind != "i" for start in starts]), f"{name}: starts {starts}"
    step_of = dict(zip(axes, steps, strict=True))
    for axis, (n, have) in enumerate(zip(shape, whole.shape, strict=True)):
        step = step_of.get(axis)
        fits = n == have if step is None else step != 0 and (n == 0 or (n - 1) * abs(step) < have)
        assert fits, f"{name}: {n} elements by steps of {step} do not fit axis {axis} of {whole}"
    return whole


def _places(starts: Sequence, axes: tuple, steps: tuple, shape: tuple) -> tuple[slice, ...]:
    """The slice as a tuple of Python slices, for a NumPy array."""
    found = [slice(None)] * len(shape)
    for start, axis, step in zip(starts, axes, steps, strict=True):
        stop = int(start) + step * shape[axis]
        # A stop before the first element cannot be written as a number: -1 would be the last one.
        found[axis] = slice(int(start), None if stop < 0 else stop, step) if shape[axis] else slice(0, 0)
    return tuple(found)


def _embed_reference(x: np.ndarray, *starts, axes: tuple, steps: tuple, shape: tuple) -> np.ndarray:
    y = np.zeros(shape, x.dtype)
    y[_places(starts, axes, steps, x.shape)] = x
    return y


def _update_aval(x: Aval, v: Aval, *starts: Aval, axes: tuple, steps: tuple) -> Aval:
    assert x.dtype == v.dtype, f"slice_update: {x}, {v}"
    return _check_slice("slice_update", starts, axes, steps, x, v.shape)


def _update_reference(x: np.ndarray, v: np.ndarray, *starts, axes: tuple, steps: tuple) -> np.ndarray:
    y = x.copy()
    y[_places(starts, axes, steps, v.shape)] = v
    return y


def _start(k, start, extent: int, whole: int, step: int):
    """A start as an index of compiled code, with the bounds that were checked when the slice was recorded."""
    reach = max(extent - 1, 0) * abs(step)
    last = max(whole - 1, 0)
    return k.to_index(start(), 0, last - reach) if step > 0 else k.to_index(start(), reach, last)


def _slice_element(k, index, x, *starts, axes, steps, shape):
    found = list(index)
    for start, axis, step in zip(starts, axes, steps, strict=True):
        first = _start(k, start, shape[axis], x.shape[axis], step)
        found[axis] = k.add(first, k.mul(index[axis], k.index(step)))
    return x(*found)


def _in_slice(k, index, starts, axes, steps, shape, whole):
    """(True if an index of the whole lies in the slice, its index within the slice, clamped if it lies outside)."""
    inside = k.constant(True, "bool")
    found = list(index)
    for start, axis, step in zip(starts, axes, steps, strict=True):
        first = _start(k, start, shape[axis], whole[axis], step)
        size = abs(step)
        ahead = k.sub(index[axis], first) if step > 0 else k.sub(first, index[axis])
        place = k.floordiv(ahead, k.index(size))
        for condition in (
            k.ge(ahead, k.index(0)),
            k.lt(place, k.index(shape[axis])),
            k.eq(k.mul(place, k.index(size)), ahead),
        ):
            inside = k.logical_and(inside, condition)
        found[axis] = k.minimum(k.maximum(place, k.index(0)), k.index(max(shape[axis] - 1, 0)))
    return inside, found


def _embed_element(k, index, x, *starts, axes, steps, shape):
    inside, place = _in_slice(k, index, starts, axes, steps, x.shape, shape)
    value = x(*place)
    return k.select(inside, value, k.constant(0, like=value))


def _update_element(k, index, x, v, *starts, axes, steps):
    inside, place = _in_slice(k, index, starts, axes, steps, v.shape, x.shape)
    return k.select(inside, v(*place), x(*index))


def _places_of_each(
    size: int, starts: Sequence[Tensor], mapped: Sequence[bool], steps: tuple, counts: Sequence[int]
) -> list[Tensor]:
    """Index arrays that broadcast to [size, counts...]: the number of the example, then the places in its slice."""
    rank = len(counts)
    found = [iota((size, *(1,) * rank), 0)]
    for k, (start, differs, step, count) in enumerate(zip(starts, mapped, steps, counts, strict=True)):
        first = cast_to(start, I64)
        first = reshaped(first, (size, *(1,) * rank)) if differs else first
        found.append(first + iota((*(1,) * (k + 1), count, *(1,) * (rank - 1 - k)), k + 1) * step)
    return found


def _sliced_first(axes: Ints, rank: int) -> Ints:
    """An order of the axes of all examples: the axis of examples, the sliced axes, the other axes."""
    return (0, *up(axes), *[a for a in range(1, rank) if a - 1 not in axes])


def _slice_batch(op, size, xs, mapped, *, axes, steps, shape):
    x, *starts = xs
    if not any(mapped[1:]):
        return record(op, xs, (up(axes), steps, (size, *shape)))
    (x,) = with_examples(size, (x,), mapped[:1])
    places = _places_of_each(size, starts, mapped[1:], steps, [shape[a] for a in axes])
    order = _sliced_first(axes, x.ndim)
    y = gathered(x, places, (0, *up(axes)), 0)
    return transposed(y, tuple(sorted(range(y.ndim), key=order.__getitem__)))


def _embed_batch(op, size, xs, mapped, *, axes, steps, shape):
    x, *starts = xs
    (x,) = with_examples(size, (x,), mapped[:1])
    if not any(mapped[1:]):
        return embedded(x, starts, up(axes), steps, (size, *shape))
    places = _places_of_each(size, starts, mapped[1:], steps, [x.shape[a + 1] for a in axes])
    return summed_at((size, *shape), places, transposed(x, _sliced_first(axes, x.ndim)), (0, *up(axes)), 0)


def _update_batch(op, size, xs, mapped, *, axes, steps):
    x, v, *starts = xs
    x, v = with_examples(size, (x, v), mapped[:2])
    if not any(mapped[2:]):
        return updated_slice(x, v, starts, up(axes), steps)
    places = _places_of_each(size, starts, mapped[2:], steps, [v.shape[a + 1] for a in axes])
    return replaced(x, places, transposed(v, _sliced_first(axes, v.ndim)), (0, *up(axes)), 0)


_slice = linear(
    "slice",
    lambda x, *starts, axes, steps, shape: x[_places(starts, axes, steps, shape)],
    infer=lambda x, *starts, axes, steps, shape: (
        _check_slice("slice", starts, axes, steps, x, shape).with_shape(shape)
    ),
    transpose=lambda y_bar, y, x, *starts, axes, steps, shape: (
        lambda: embedded(y_bar, starts, axes, steps, x.shape), *[None] * len(starts),
    ),
    lower=Move(_slice_element),
    batch=_slice_batch,
)

#: Zeros of `shape` with x at the elements of a slice.
embed = linear(
    "embed",
    _embed_reference,
    infer=lambda x, *starts, axes, steps, shape: (
        _check_slice("embed", starts, axes, steps, x.with_shape(shape), x.shape)
    ),
    transpose=lambda y_bar, y, x, *starts, axes, steps, shape: (
        lambda: sliced(y_bar, starts, axes, steps, x.shape), *[None] * len(starts),
    ),
    lower=Move(_embed_element, free=False),
    batch=_embed_batch,
)

#: x with v at the elements of a slice.  Replaced elements of x get a gradient of exactly zero, as with `where`.
slice_update = linear(
    "slice_update",
    _update_reference,
    infer=_update_aval,
    transpose=lambda y_bar, y, x, v, *starts, axes, steps: (
        lambda: updated_slice(y_bar, zeros_of(v.aval), starts, axes, steps),
        lambda: sliced(y_bar, starts, axes, steps, v.shape),
        *[None] * len(starts),
    ),
    lower=Move(_update_element, free=False),
    in_args=(0, 1),
    jointly=True,
    masks=True,
    batch=_update_batch,
)


#: The kind of a leaf that holds the start of a slice, or an integer index.
START = leaf_kind(out_of(Aval((), I64)))


def kind_of_slice(x: Out, entries: Sequence[slice], tracks: bool) -> Kind:
    """The kind of the node for x[entries], slices of the first axes, at least one of which leaves elements out."""
    axes, steps, shape = [], [], list(x.shape)
    for axis, entry in enumerate(entries):
        places = range(*entry.indices(shape[axis]))
        if len(places) != shape[axis] or places.step != 1:
            axes.append(axis)
            steps.append(places.step)
            shape[axis] = len(places)
    params = tuple(axes), tuple(steps), tuple(shape)
    return kind_of(_slice, params, (x, *[START.out] * len(axes)), tracks, x.aval.with_shape(params[2]))


def sliced(x: Tensor, starts: Sequence[Tensor], axes: Ints, steps: Ints, shape: Ints) -> Tensor:
    """The slice of x that has this shape; no node is recorded if there are no axes to slice."""
    return record(_slice, (x, *starts), (axes, steps, shape)) if axes else x


def embedded(x: Tensor, starts: Sequence[Tensor], axes: Ints, steps: Ints, shape: Ints) -> Tensor:
    """Zeros of `shape` with x at the elements of a slice."""
    if not axes:
        return x
    return record(embed, (x, *starts), (axes, steps, shape)) if x.size else zeros_after(x, shape)


def updated_slice(x: Tensor, v: Tensor, starts: Sequence[Tensor], axes: Ints, steps: Ints) -> Tensor:
    """x with v, which has the slice's shape, at the elements of a slice."""
    if not axes:
        if is_tracking(v) or not is_tracking(x) or not x.ndim or not v.size:
            return as_new_result(v)
        # A slice that is all of x merely by its extent must give the result the same history as a smaller slice.
        starts, axes, steps = (constant(0, "i64"),), (0,), (1,)
    return record(slice_update, (x, v, *starts), (axes, steps)) if v.size else x


def part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """x[..., start:stop, ...] along one axis, with known bounds, which become constants of the graph."""
    n = x.shape[axis]
    if (start, stop) == (0, n):
        return x
    shape = with_extent(x.shape, axis, stop - start)
    # In a trace with symbolic sizes (`ad.export`) a start that depends on a size is known only when the program runs.
    is_known = type(start) is not Symbol or not state.now.tracing
    at = constant(start, "i64") if is_known else number_leaf(start, I64)
    return sliced(x, (at,), (axis,), (1,), shape)


def symbolic_steps(entry: slice, extent: int) -> tuple[int, int, int]:
    """(start, step, number of elements) of a slice, as from `slice.indices`; extents and ends may be symbols."""
    step = 1 if entry.step is None else as_index(entry.step)
    low, high = (0, extent) if step > 0 else (-1, extent - 1)

    def end(given: Any, default: int) -> int:
        if given is None:
            return default
        at = as_index(given)
        at = at + extent if at < 0 else at
        return low if at < low else high if at > high else at

    start, stop = end(entry.start, low if step > 0 else high), end(entry.stop, high if step > 0 else low)
    length = stop - start if step > 0 else start - stop
    return (start, step, -(-length // abs(step))) if length > 0 else (0, step, 0)
