"""NumPy's further functions that stack, split, flip and rotate arrays; and arrays made by a rule, such as `indices`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..custom.function import Function
from ..errors import ShapeError, located
from ..tensor import Tensor
from .conditions import where
from .conversion import as_tensor, cast_to, dtype_of, numbers_of
from .creation import extents_of, eye, iota, linspace, ones, zeros
from .declare import as_count, axes_in_order, axis_of, check_parts, composed, documented, elements_of, integer
from .diagonals import diag, tril
from .forms import cast_by, further
from .joining import concatenate, joined, split, stack
from .numpy_parameters import along_axis
from .power import power
from .primitive import broadcast_avals, with_extent, zeros_of
from .reductions import cumprod, cumsum
from .shaping import broadcast_to, flipped, reshaped, swapaxes
from .template import ITEMS, public


def _each(name: str, tensors: Any, dtype: Any = None, casting: str = "same_kind") -> list[Any]:
    """The arrays to join, as a list, cast to `dtype` if given.  Raises ShapeError for an empty list."""
    found = cast_by(casting, name, tensors, dtype)
    if not found:
        raise ShapeError(located(f"{name}: there is nothing to put together"))
    return found


def _at_least(rank: int, summary: str, example: str) -> Function:
    """Declare a function that gives an array at least `rank` axes; called with several arrays, it returns a tuple."""
    name = f"atleast_{rank}d"

    def body(x):
        shape = (*x.shape, 1) if x.ndim == 2 else ((x.size,), (1, x.size), (1, x.size, 1))[rank - 1]
        return x if x.ndim >= rank else reshaped(x, shape)

    made: Function = public(1, name=name, doc=documented(example, summary), takes="T")(body)

    @further(made)
    def several(*tensors):
        return tuple(map(made, tensors))

    return made


atleast_1d = _at_least(1, "x, or a number as a row of one.   T[...]  →  T[n, ...]",
    ">>> ad.atleast_1d(3.0)\nf64[1] [3.]")
atleast_2d = _at_least(
    2, "x, or a row as a matrix of one row.   T[...]  →  T[m, n, ...]",
    ">>> ad.atleast_2d([1.0, 2.0])\nf64[1,2] [[1. 2.]]",
)
atleast_3d = _at_least(
    3, "x with three axes at least: a row becomes T[1, n, 1], a matrix T[m, n, 1].   T[...]  →  T[l, m, n, ...]",
    ">>> ad.atleast_3d([1.0, 2.0]).shape\n(1, 2, 1)",
)


@public(ITEMS)
def vstack(tensors, *, dtype=None, casting="same_kind"):
    """Rows, or blocks of rows, on top of each other.   [T[n] or T[m, n, ...], ...]  →  T[m1 + m2 + ..., n, ...]

    Raises ShapeError when the other extents differ, and for an empty list.

    dtype, casting   as for `concatenate`

    >>> ad.vstack([[1, 2], [[3, 4], [5, 6]]])
    i64[3,2]
    [[1 2]
     [3 4]
     [5 6]]
    """
    return concatenate([atleast_2d(x) for x in _each("vstack", tensors, dtype, casting)], 0)


@public(ITEMS)
def hstack(tensors, *, dtype=None, casting="same_kind"):
    """Matrices side by side, rows one behind the other.   [T[m, n, ...], ...]  →  T[m, n1 + n2 + ..., ...]

    Raises ShapeError when the other extents differ, and for an empty list.

    dtype, casting   as for `concatenate`

    >>> ad.hstack([[1, 2], [3]])
    i64[3] [1 2 3]
    >>> ad.hstack([[[1], [2]], [[3], [4]]]).shape
    (2, 2)
    """
    rows = [atleast_1d(x) for x in _each("hstack", tensors, dtype, casting)]
    return concatenate(rows, 0 if all([x.ndim == 1 for x in rows]) else 1)


dstack = composed("dstack", lambda tensors: concatenate([atleast_3d(x) for x in _each("dstack", tensors)], 2),
    """Arrays behind each other, along the third axis.   [T[m, n, ...], ...]  →  T[m, n, k1 + k2 + ..., ...]

    Raises ShapeError when the other extents differ, and for an empty list.""",
    ">>> ad.dstack([[1, 2], [3, 4]]).shape\n(1, 2, 2)", tensors=ITEMS)


@public(ITEMS)
def column_stack(tensors):
    """A matrix whose columns are the given rows and matrices.   [T[m] or T[m, n], ...]  →  T[m, n1 + n2 + ...]

    Raises ShapeError when the other extents differ, and for an empty list.

    >>> ad.column_stack([[1, 2], [3, 4]])
    i64[2,2]
    [[1 3]
     [2 4]]
    """
    columns = [as_tensor(x, "column_stack", "tensors") for x in _each("column_stack", tensors)]
    return concatenate([x if x.ndim > 1 else reshaped(x, (x.size, 1)) for x in columns], 1)


@public(1, takes="T")
def array_split(x, indices_or_sections, axis=0) -> list[Tensor]:
    """`split` into parts that need not be equal: the first parts may be longer by one.

    x: T[..., n, ...]  →  [T[..., n1, ...], ...]

    Raises ShapeError when x has no such axis, and for less than one part.

    >>> ad.array_split([1, 2, 3, 4, 5], 2)
    [i64[3] [1 2 3], i64[2] [4 5]]
    """
    indices_or_sections = numbers_of(indices_or_sections)
    if isinstance(indices_or_sections, (tuple, list)):
        return split(x, indices_or_sections, axis)
    parts = as_count(indices_or_sections, "array_split", "the number of parts", 1)
    check_parts("array_split", parts)
    size, longer = divmod(x.shape[axis_of("array_split", axis, x.aval)], parts)
    return split(x, [size * k + min(k, longer) for k in range(1, parts)], axis)


def _split_along(name: str, summary: str, axis: int, least: int, raises: str, example: str) -> Any:
    """Declare `split` along one axis, for arrays with at least `least` axes."""

    def body(x, indices_or_sections) -> list[Tensor]:
        if x.ndim < least:
            raise ShapeError(located(f"{name}: {x.aval} has fewer than {least} axes"))
        found: list[Tensor] = split(x, indices_or_sections, min(axis, x.ndim - 1))
        return found

    raises = f"Raises ShapeError for {raises}, and when the extent is no multiple of the number of parts."
    return public(1, name=name, doc=documented(example, summary, raises), takes="T")(body)


hsplit = _split_along(
    "hsplit", "`split` along the second axis; of a row along its only one.   T[m, n, ...]  →  [T[m, n1, ...], ...]",
    1, 1, "a 0-d x", ">>> [part.tolist() for part in ad.hsplit([[1, 2], [3, 4]], 2)]\n[[[1], [3]], [[2], [4]]]",
)
vsplit = _split_along(
    "vsplit", "`split` along the first axis of a matrix, or more.   T[m, n, ...]  →  [T[m1, n, ...], ...]",
    0, 2, "less than two axes", ">>> ad.vsplit([[1, 2], [3, 4]], 2)\n[i64[1,2] [[1 2]], i64[1,2] [[3 4]]]",
)
dsplit = _split_along(
    "dsplit", "`split` along the third axis.   T[l, m, n, ...]  →  [T[l, m, n1, ...], ...]", 2, 3,
    "less than three axes",
    ">>> [part.shape for part in ad.dsplit(ad.ones((2, 2, 6)), 3)]\n[(2, 2, 2), (2, 2, 2), (2, 2, 2)]",
)


@public(2, takes="T", operands=2)
def append(x, values, axis=None):
    """x joined with `values` behind it along an axis; axis None: both are flattened first.

    T[..., m, ...], T[..., n, ...]  →  T[..., m + n, ...]

    >>> ad.append([[1, 2]], 3)
    i64[3] [1 2 3]
    """
    if axis is None:
        x, values, axis = reshaped(x, (x.size,)), reshaped(values, (values.size,)), 0
    return concatenate((x, values), axis_of("append", axis, x.aval))


@public(1, takes="T")
def rot90(x, k=1, axes=(0, 1)):
    """x turned by k right angles in the plane of two axes, first towards second.   T[m, n, ...]  →  T[n, m, ...]

    Raises ShapeError when x does not have the two axes.

    >>> ad.rot90([[1, 2], [3, 4]])
    i64[2,2]
    [[2 4]
     [1 3]]
    """
    plane = axes_in_order("rot90", elements_of(axes, "rot90", "two axes"), x.aval)
    if len({*plane}) != 2 or len(plane) != 2:
        raise ShapeError(located(f"rot90: turns in the plane of two axes, not {axes!r:.40}"))
    first, second = plane
    turns = integer(k, "rot90", "k") % 4
    if turns == 2:
        return flipped(x, tuple(sorted((first, second))))
    if turns == 1:
        return swapaxes(flipped(x, (second,)), first, second)
    return flipped(swapaxes(x, first, second), (second,)) if turns else x


def _turned_round(name: str, axis: int, summary: str, raises: str, example: str) -> Any:
    def body(x):
        return flipped(x, (axis_of(name, axis, x.aval),))

    return public(1, name=name, doc=documented(example, summary, f"Raises ShapeError for {raises}."), takes="T")(body)


flipud = _turned_round(
    "flipud", 0, "x with its rows in reverse order.   T[m, ...]  →  T[m, ...]", "a 0-d x",
    ">>> ad.flipud([[1, 2], [3, 4]]).tolist()\n[[3, 4], [1, 2]]",
)
fliplr = _turned_round(
    "fliplr", 1, "x with its columns in reverse order.   T[m, n, ...]  →  T[m, n, ...]", "less than two axes",
    ">>> ad.fliplr([[1, 2], [3, 4]]).tolist()\n[[2, 1], [4, 3]]",
)


identity = composed("identity", lambda n, dtype=None: eye(n, dtype=dtype),
    "The identity matrix.   →  f[n, n]", ">>> ad.identity(2)\nf64[2,2]\n[[1. 0.]\n [0. 1.]]", tensors=0)
tri = composed("tri", lambda N, M=None, k=0, dtype=np.float64: tril(ones((N, N if M is None else M), dtype=dtype), k),
    "Ones on and below the diagonal number k, zeros above.   →  f[N, M]     M None: N",
    ">>> ad.tri(2, 3)\nf64[2,3]\n[[1. 0. 0.]\n [1. 1. 0.]]", tensors=0)


@public()
def indices(dimensions, dtype=np.int64, sparse=False):
    """The index of each element along each axis of an array with these extents.   →  i64[rank, *dimensions]

    sparse    True: a tuple of tensors, each with its own axis; all its other axes have extent 1

    >>> ad.indices((2, 2))[1]
    i64[2,2]
    [[0 1]
     [0 1]]
    """
    extents, wanted = extents_of("indices", dimensions), dtype_of(dtype, "indices")
    if sparse:
        shapes = [tuple([n if p == axis else 1 for p in range(len(extents))]) for axis, n in enumerate(extents)]
        return tuple([iota(shape, axis, wanted) for axis, shape in enumerate(shapes)])
    if not extents:
        return zeros((0,), wanted)
    return stack([iota(extents, axis, wanted) for axis in range(len(extents))])


@public()
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """`base` to the powers `linspace(start, stop, num)`.   T[...], T[...]  →  f64[num, ...]

    base       a number or tensor; differentiable in start, stop and base;  endpoint, dtype, axis   as for `linspace`

    >>> ad.logspace(0.0, 2.0, 3)
    f64[3] [  1.  10. 100.]
    """
    found = power(base, linspace(start, stop, num, endpoint=endpoint))
    return along_axis("logspace", cast_to(found, dtype_of(dtype, "logspace", found.dtype)), axis)


@public(takes="f", operands=2)
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """`num` numbers from `start` to `stop` in a constant ratio; `endpoint` False leaves out `stop`.

    T[...], T[...]  →  f64[num, ...]     both of one sign; both differentiable; `dtype` and `axis` as for `linspace`

    >>> ad.geomspace(1.0, 8.0, 4)
    f64[4] [1. 2. 4. 8.]
    """
    shares = linspace(0.0, 1.0, num, endpoint=endpoint, dtype=start.dtype)
    rank = max(start.ndim, stop.ndim)
    shares = reshaped(shares, (shares.size, *(1,) * rank))
    found = start * (stop / start) ** shares
    if endpoint and shares.size > 1:
        found = where(shares == 1.0, stop, found)  # the end is exact, without rounding
    return along_axis("geomspace", cast_to(found, dtype_of(dtype, "geomspace", found.dtype)), axis)


@public(1, takes="T")
def diagflat(x, k=0):
    """The matrix with all elements of x on its k-th diagonal, and zeros elsewhere.   T[...]  →  T[n, n]

    >>> ad.diagflat([1, 2], -1)
    i64[3,3]
    [[0 0 0]
     [1 0 0]
     [0 2 0]]
    """
    return diag(reshaped(x, (x.size,)), k)


@public()
def broadcast_arrays(*tensors) -> tuple[Tensor, ...]:
    """The arrays broadcast to one shape.   T[...], ...  →  (T[...], ...)

    Raises ShapeError when the arrays do not broadcast.

    >>> ad.broadcast_arrays([1, 2], 3)
    (i64[2] [1 2], i64[2] [3 3])
    """
    found = [as_tensor(x, "broadcast_arrays", "tensors") for x in tensors]
    shape = broadcast_avals("broadcast_arrays", [x.aval for x in found]) if found else ()
    return tuple([broadcast_to(x, shape) for x in found])


def _cumulative(running: Function, first: int, example: str) -> Any:
    name = running.__name__.replace("cum", "cumulative_")
    doc = documented(
        example, f"`{running.__name__}` as in the Array API; with `include_initial` a {first} comes first.",
        "T[..., n, ...]  →  T[..., n, ...]", "Raises ShapeError where x has several axes and none is named.",
    )

    def body(x, *, axis=None, dtype=None, include_initial=False):
        if axis is None and x.ndim != 1:
            raise ShapeError(located(
                f"{name}: {x.aval} has {x.ndim} axes: which one?", "say axis=..., as the standard asks"
            ))
        along = axis_of(name, 0 if axis is None else axis, x.aval)
        found = running(x, along, dtype=dtype)
        if not include_initial:
            return found
        ahead = found.aval.with_shape(with_extent(found.shape, along, 1))
        return joined((zeros_of(ahead) + first, found), along)

    return public(1, name=name, doc=doc, takes="T")(body)


cumulative_sum = _cumulative(cumsum, 0, ">>> ad.cumulative_sum([1, 2, 3], include_initial=True)\ni64[4] [0 1 3 6]")
cumulative_prod = _cumulative(cumprod, 1, ">>> ad.cumulative_prod([1, 2, 3], include_initial=True)\ni64[4] [1 1 2 6]")
