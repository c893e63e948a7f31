"""Arrays that are made by a rule, and arrays brought to one shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError, located
from ..tensor import Tensor
from .arguments import axis_of, common
from .arithmetic import add, divide, multiply
from .conditions import equal, where
from .conversion import as_tensor, cast_to, dtype_of
from .creation import extents_of, eye, iota, linspace, ones, zeros
from .diagonals import diag, tril
from .joining import joined, stack
from .numpy_parameters import along_axis
from .power import power
from .primitive import zeros_of
from .scans import cumprod, cumsum
from .shaping import broadcast_to, reshaped
from .template import public

__all__ = [
    "broadcast_arrays", "cumulative_prod", "cumulative_sum", "diagflat", "geomspace", "identity", "indices", "logspace",
    "tri",
]  # fmt: skip


@public()
def identity(n, dtype=None):
    """The identity matrix.   →  f[n, n]

    >>> ad.identity(2)
    f64[2,2]
    [[1. 0.]
     [0. 1.]]
    """
    return eye(n, dtype=dtype)


@public()
def tri(N, M=None, k=0, dtype=np.float64):
    """Ones on and below the diagonal number k, zeros above.   →  f[N, M]     M None: N

    >>> ad.tri(2, 3)
    f64[2,3]
    [[1. 0. 0.]
     [1. 1. 0.]]
    """
    return tril(ones((N, N if M is None else M), dtype=dtype), k)


@public()
def indices(dimensions, dtype=np.int64, sparse=False):
    """The index of each element along each axis of an array with these extents.   →  i64[rank, *dimensions]

    sparse    a tuple, each with its own axis alone, the others of extent 1

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

    base, endpoint, dtype, axis   numbers or tensors; as of `linspace`; differentiable in start, stop and base

    >>> ad.logspace(0.0, 2.0, 3)
    f64[3] [  1.  10. 100.]
    """
    found = power(base, linspace(start, stop, num, endpoint=endpoint))
    return along_axis("logspace", found if dtype is None else cast_to(found, dtype_of(dtype, "logspace")), axis)


@public()
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """`num` numbers from `start` to `stop`, each the same multiple of the one before; `endpoint` False leaves stop out.

    T[...], T[...]  →  f64[num, ...]     both of one sign; both differentiable; dtype and axis as of `linspace`

    >>> ad.geomspace(1.0, 8.0, 4)
    f64[4] [1. 2. 4. 8.]
    """
    start, stop = common("geomspace", (("start", start), ("stop", stop)), "f")
    shares = linspace(0.0, 1.0, num, endpoint=endpoint, dtype=start.dtype)
    rank = max(start.ndim, stop.ndim)
    shares = reshaped(shares, (shares.size, *(1,) * rank))
    found = multiply(start, power(divide(stop, start), shares))
    if endpoint and shares.size > 1:
        found = where(equal(shares, 1.0), stop, found)  # exactly, whatever rounding made of it
    return along_axis("geomspace", found if dtype is None else cast_to(found, dtype_of(dtype, "geomspace")), axis)


@public()
def diagflat(x, k=0):
    """The matrix that has all elements of x on its diagonal number k, and zeros elsewhere.   T[...]  →  T[n, n]

    >>> ad.diagflat([1, 2], -1)
    i64[3,3]
    [[0 0 0]
     [1 0 0]
     [0 2 0]]
    """
    x = as_tensor(x, "diagflat", "x")
    return diag(reshaped(x, (x.size,)), k)


@public()
def broadcast_arrays(*tensors) -> tuple[Tensor, ...]:
    """The arrays in the one shape that they broadcast to.   T[...], ...  →  (T[...], ...)

    Raises ShapeError where there is none.

    >>> ad.broadcast_arrays([1, 2], 3)
    (i64[2] [1 2], i64[2] [3 3])
    """
    found = [as_tensor(x, "broadcast_arrays", "tensors") for x in tensors]
    try:
        shape = np.broadcast_shapes(*[x.shape for x in found])
    except ValueError:
        told = ", ".join([str(x.aval) for x in found])
        raise ShapeError(located(f"broadcast_arrays: there is no one shape for {told}")) from None
    return tuple([broadcast_to(x, shape) for x in found])


def _with_first(name: str, running: Any, first: int, x: Any, axis: Any, dtype: Any, include_initial: bool) -> Tensor:
    x = as_tensor(x, name, "x")
    if axis is None and x.ndim != 1:
        raise ShapeError(located(
            f"{name}: {x.aval} has {x.ndim} axes: which one?", "say axis=..., as the standard asks"
        ))
    along = axis_of(name, 0 if axis is None else axis, x.aval)
    found = running(x, along, dtype=dtype)
    if not include_initial:
        return found
    ahead = found.aval.with_shape((*found.shape[:along], 1, *found.shape[along + 1 :]))
    return joined((add(zeros_of(ahead), first), found), along)


@public()
def cumulative_sum(x, *, axis=None, dtype=None, include_initial=False):
    """`cumsum` as in the Array API; with `include_initial` a 0 comes first.   T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError where x has several axes and none is named.

    >>> ad.cumulative_sum([1, 2, 3], include_initial=True)
    i64[4] [0 1 3 6]
    """
    return _with_first("cumulative_sum", cumsum, 0, x, axis, dtype, include_initial)


@public()
def cumulative_prod(x, *, axis=None, dtype=None, include_initial=False):
    """`cumprod` as in the Array API; with `include_initial` a 1 comes first.   T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError where x has several axes and none is named.

    >>> ad.cumulative_prod([1, 2, 3], include_initial=True)
    i64[4] [1 1 2 6]
    """
    return _with_first("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)
