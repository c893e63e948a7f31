"""Rows by number: which segment a row is added to, which class a row of zeros has its one for."""

from __future__ import annotations

import functools

import numpy as np

from ..custom import function
from ..errors import ShapeError, caller
from ..tensor import Tensor
from .arguments import check_known, integer
from .comparison import equal
from .conversion import as_tensor, cast_to, dtype_of
from .creation import iota
from .gathering import index_tensor, scattered
from .primitive import expect
from .shaping import reshaped
from .template import Bounds, remembered

__all__ = ["one_hot", "segment_sum"]


def _bounds_of_segments(data: Tensor, segment_ids: Tensor, num_segments: int) -> Bounds:
    return Bounds(functools.partial(check_known, name="segment_sum"), ((1, num_segments),))


@function
@remembered(2, _bounds_of_segments)
def segment_sum(data, segment_ids, num_segments):
    """The sum of the rows of each segment: y[s] = sum of data[i] where segment_ids[i] is s.

    data: T[k..., ...]  segment_ids: i64[k...]  →  T[num_segments, ...]     a segment without rows is zero

    The ids may be in any order.  Rows are added in their order, so results are the same for any number of threads.
    Raises ShapeError where the ids are not for the leading axes of the data; IndexError for an id outside, as `take`.

    >>> import autodiff as ad
    >>> ad.segment_sum([1.0, 2.0, 3.0], [0, 2, 0], 3)
    f64[3] [4. 0. 2.]
    """
    data = as_tensor(data, "segment_sum", "data")
    expect("segment_sum", (data.aval,), "fic")
    n = integer(num_segments, "segment_sum", "the number of segments")
    if n < 0:
        raise ShapeError(f"segment_sum: {n} segments\n  called at {caller()}")
    ids = index_tensor(segment_ids, "segment_sum", n)
    if data.shape[: ids.ndim] != ids.shape:
        raise ShapeError(
            f"segment_sum: {ids.aval} names no segments of the leading axes of {data.aval}\n  called at {caller()}"
        )
    return scattered([ids], data, (n, *data.shape[ids.ndim :]), (0,), 0)


@function
@remembered(1)
def one_hot(indices, classes, *, dtype=np.float64):
    """A row of zeros with a single one for each index.

    indices: i64[...]  →  dtype[..., classes]

    An index outside of range(classes) gives zeros.
    Raises DTypeError for indices that are no integers, ShapeError for a negative number of classes.

    >>> import autodiff as ad
    >>> ad.one_hot([2, 0, 5], 3)
    f64[3,3]
    [[0. 0. 1.]
     [1. 0. 0.]
     [0. 0. 0.]]
    """
    index = index_tensor(indices, "one_hot")
    n = integer(classes, "one_hot", "the number of classes")
    if n < 0:
        raise ShapeError(f"one_hot: {n} classes\n  called at {caller()}")
    places = iota((n,), 0)
    return cast_to(equal(reshaped(index, (*index.shape, 1)), places), dtype_of(dtype, "one_hot"))
