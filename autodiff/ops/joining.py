"""Joining arrays and taking them apart: concatenate, stack, split."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import accumulate
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Move

from ..config import config
from ..errors import DispatchError, DTypeError, ShapeError, located
from ..mode import MODE
from ..tape import as_new_result, distinct_result, leaf, number_leaf, record, state
from ..tape.plan import data, source
from ..tensor import Tensor
from .conversion import NESTED_JOINER, WEAK, as_tensor, cast_beside, numbers_of
from .declare import axis_of, check_parts, common_dtype, elements_of, integer
from .primitive import linear
from .shaping import reshaped
from .slicing import part
from .template import ITEMS, public


def _concatenate_aval(*xs: Aval, axis: int) -> Aval:
    first = xs[0]
    for place, x in enumerate(xs):
        if x.dtype != first.dtype:
            raise DTypeError(located(f"concatenate: dtypes differ: {first}, but {x} at {place}"))
        if x.ndim != first.ndim or any(
            n != m for i, (n, m) in enumerate(zip(x.shape, first.shape, strict=True)) if i != axis
        ):
            raise ShapeError(located(
                f"concatenate: shapes must agree but for axis {axis}: {first}, but {x} at {place}"
            ))
    extents = list(first.shape)
    extents[axis] = sum(x.shape[axis] for x in xs)
    return first.with_shape(tuple(extents))


def _concatenate_element(k, index, *xs, axis):
    parts = [(x, x.shape[axis]) for x in xs if x.shape[axis]]
    offsets = [0, *accumulate(n for _, n in parts)]
    chosen = None
    for (x, n), offset in reversed(list(zip(parts, offsets, strict=False))):
        here = list(index)
        inside = k.maximum(k.sub(index[axis], k.index(offset)), k.index(0))
        here[axis] = k.minimum(inside, k.index(n - 1))
        value = x(*here)
        chosen = value if chosen is None else k.select(k.lt(index[axis], k.index(offset + n)), value, chosen)
    return chosen


def _concatenate_transpose(y_bar, y, *xs, axis):
    ends = list(accumulate(x.shape[axis] for x in xs))
    return tuple([
        lambda start=end - x.shape[axis], stop=end: part(y_bar, axis, start, stop)
        for x, end in zip(xs, ends, strict=True)
    ])  # fmt: skip


_concatenate = linear(
    "concatenate",
    lambda *xs, axis: np.concatenate(xs, axis),
    infer=_concatenate_aval,
    transpose=_concatenate_transpose,
    lower=Move(_concatenate_element, free=False),
    in_args=None,
    jointly=True,
)


def joined(xs: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one dtype, joined along an axis; a single tensor gets another handle, and no node."""
    return as_new_result(xs[0]) if len(xs) == 1 else record(_concatenate, tuple(xs), (axis,))


def _tensors(function: str, arrays: Any) -> list[Tensor]:
    """The elements of a sequence, or of a tensor's leading axis, as tensors of one dtype."""
    if isinstance(arrays, Tensor):
        if not arrays.ndim:
            raise ShapeError(located(f"{function}: takes a sequence of arrays, not {arrays.aval}"))
        arrays = [reshaped(part(arrays, 0, i, i + 1), arrays.shape[1:]) for i in range(arrays.shape[0])]
    xs = [x if type(x) in WEAK else as_tensor(x, function, "arrays") for x in elements_of(arrays, function, "arrays")]
    if not xs:
        raise ShapeError(located(f"{function}: needs at least one array"))
    dtype = common_dtype(xs)
    return [cast_beside(x, dtype) if isinstance(x, Tensor) else number_leaf(x, dtype) for x in xs]



#: A sequence of fewer items is always recorded: its graph is small.
_FEWEST_ITEMS = 8

#: The lengths of the last sequences of many items; with so many different ones among them, lengths do not repeat.
_lengths: deque[int] = deque(maxlen=16)
_DISTINCT_LENGTHS = 4


def _known_at_once(body: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a function of a sequence of arrays join known values at once if the lengths of sequences do not repeat.

        seen.append(ad.tensor(x))
        ad.stack(seen)                recorded, this is another graph at each length, of as many inputs

    If lengths do not repeat, the leading items that have values and get no gradient become one constant.  Then the
    recording has the same nodes at each length: it is a known program at another size (`tape.sizes`).
    """
    reference: Callable[..., np.ndarray] = getattr(np, body.__name__)

    @wraps(body)
    def run(arrays: Any, *rest: Any, **keywords: Any) -> Tensor:
        axis = rest[0] if rest else keywords.get("axis", 0)
        if (
            type(arrays) in (list, tuple) and len(arrays) >= _FEWEST_ITEMS and type(axis) is int
            and len(rest) + len(keywords) < 2 and _are_of_any_length(len(arrays))
        ):  # fmt: skip
            values = _values_in_front(arrays)
            if len(values) >= _FEWEST_ITEMS:
                try:
                    known = leaf(np.ascontiguousarray(reference(values, axis)))
                except ValueError:  # the shapes differ: the body raises the error that says how
                    return body(arrays, *rest, **keywords)
                if len(values) == len(arrays):
                    return known
                behind = arrays[len(values) :]
                others = [body(behind, axis)] if reference is np.stack else behind
                return joined([known, *others], axis % known.ndim)
        return body(arrays, *rest, **keywords)

    return run


def _are_of_any_length(length: int) -> bool:
    """True if lengths do not repeat; False in a trace, a rule, or any other recording that is made once and reused."""
    now = state.now
    is_made_once = now.literal or now.tracing or now.transforming or now.forward_depth or MODE.get().careful
    if not now.start or is_made_once or not config.patience:
        return False
    _lengths.append(length)
    return len(set(_lengths.copy())) >= _DISTINCT_LENGTHS


def _values_in_front(arrays: Sequence[Any]) -> list[np.ndarray]:
    """The values of the leading items that have one and require no grad; none if the items differ in dtype or rank."""
    values: list[np.ndarray] = []
    first = None
    is_in_front = True
    for x in arrays:
        if not isinstance(x, Tensor):
            return []
        out = x.node.kind.out
        first = first or out
        if out.cls is not first.cls or out.weak:
            return []
        if is_in_front and not out.requires_grad and (node := source(x.node)).value is not None:
            values.append(data(node))
        else:
            is_in_front = False
    return values


@public(ITEMS, _concatenate)
@_known_at_once
def concatenate(arrays, axis=0):
    """Arrays joined along an axis; axis None joins them flattened.

    arrays: T[..., n1, ...], T[..., n2, ...], ...  →  T[..., n1 + n2 + ..., ...]

    Raises ShapeError when the other extents differ, for 0-d arrays, and for an empty list.

    dtype, casting   the dtype to convert to first, and NumPy's rule for what may be converted

    >>> ad.concatenate([[[1.0, 2.0]], [[3.0, 4.0]]], axis=1)
    f64[1,4] [[1. 2. 3. 4.]]
    """
    xs = _tensors("concatenate", arrays)
    if axis is None:
        return joined([reshaped(x, (x.size,)) for x in xs], 0)
    if not xs[0].ndim:
        mend = "arrays stand in a list: [a, b]" if isinstance(arrays, Tensor) else "ad.stack makes one"
        raise ShapeError(located("concatenate: 0-d arrays have no axis to join along", mend))
    return joined(xs, axis_of("concatenate", axis, xs[0].aval))


@public(ITEMS)
@_known_at_once
def stack(arrays, axis=0):
    """Arrays of one shape along a new axis.

    arrays: T[n, ...], T[n, ...], ...  →  T[k, n, ...]     for k arrays and axis 0

    Raises ShapeError when the shapes differ, and for an empty list.

    dtype, casting   the dtype to convert to first, and NumPy's rule for what may be converted

    >>> ad.stack([[1, 2], [3, 4]], axis=1)
    i64[2,2]
    [[1 3]
     [2 4]]
    """
    xs = _tensors("stack", arrays)
    shape = xs[0].shape
    for place, x in enumerate(xs):
        if x.shape != shape:
            raise ShapeError(located(f"stack: shapes differ: {xs[0].aval}, but {x.aval} at {place}"))
    place = axis_of("stack", axis, xs[0].aval, len(shape) + 1)
    return joined([reshaped(x, (*shape[:place], 1, *shape[place:])) for x in xs], place)


def nested(data: list | tuple, what: str) -> Tensor:
    """Nested lists, whose elements may be tensors, as one tensor; `what` names them in errors."""
    lengths: list[int] = []
    elements: list = [data]
    while any([isinstance(x, (list, tuple)) for x in elements]):
        arrays = [x for x in elements if not isinstance(x, (list, tuple))]
        if arrays and all([isinstance(x, (Tensor, np.ndarray)) and x.ndim for x in arrays]):
            elements = [nested(x, what) if isinstance(x, (list, tuple)) else x for x in elements]
            break
        if arrays or len({*map(len, elements)}) > 1:
            raise DispatchError(located(f"{what} is no array: the lists differ in length or depth"))
        lengths.append(len(elements[0]))
        elements = [e for x in elements for e in x]
    flat = stack(elements)
    return reshaped(flat, (*lengths, *flat.shape[1:]))


@public(1, takes="T")
def split(x, indices_or_sections, axis=0) -> list[Tensor]:
    """The parts of x along an axis, in a list: a number of equal parts, or the parts between given indices.

    x: T[..., n, ...]  →  [T[..., n1, ...], ...]

    Raises ShapeError when n is no multiple of the number of parts.

    >>> ad.split([1, 2, 3, 4], 2)
    [i64[2] [1 2], i64[2] [3 4]]
    >>> ad.split([1, 2, 3, 4], [1])
    [i64[1] [1], i64[3] [2 3 4]]
    """
    indices_or_sections = numbers_of(indices_or_sections)
    along = axis_of("split", axis, x.aval)
    n = x.shape[along]
    if isinstance(indices_or_sections, (tuple, list)):
        places = [integer(i, "split", "a place") for i in indices_or_sections]
        cuts = [max(0, place + n) if place < 0 else min(place, n) for place in places]
        bounds = list(zip([0, *cuts], [*cuts, n], strict=True))
    else:
        count = integer(indices_or_sections, "split", "the number of parts")
        if count <= 0 or n % count:
            raise ShapeError(located(
                f"split: {n} along axis {along} of {x.aval} is not divided by {count}",
                "a list names the places to cut at",
            ))
        size = n // count
        check_parts("split", count)
        bounds = [(i * size, (i + 1) * size) for i in range(count)]
    return [distinct_result(part(x, along, start, max(start, stop)), x) for start, stop in bounds]


NESTED_JOINER.append(nested)
