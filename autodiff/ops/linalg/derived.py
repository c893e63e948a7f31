"""Functions composed of products, norms and singular values: powers, chains of products, ranks, least squares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...errors import ShapeError, located
from ...tensor import Tensor
from ..arithmetic import abs_, multiply
from ..conversion import cast_to
from ..declare import axes_of, composed, elements_of, in_common_dtype, integer
from ..diagonals import diagonal as any_diagonal
from ..extremes import max_
from ..primitive import I64
from ..reductions import sum_, summed, unreduced
from ..shaping import expand_dims, reshaped, rows_along
from ..statistics import norm
from ..template import ITEMS, public
from .matrices import columns_of, given_hermitian, identities, matrices, square
from .singular import pinv, spectral_norm, svdvals, tolerance
from .solving import inv

diagonal = composed("diagonal", lambda x, *, offset=0: any_diagonal(x, offset, -2, -1),
    """A diagonal of each matrix, of the last two axes; `ad.diagonal` takes the first.   T[..., m, n]  →  T[..., k]

    offset   column - row of its elements""", ">>> ad.linalg.diagonal([[1, 2], [3, 4]], offset=1)\ni64[1] [2]")
trace = composed("trace", lambda x, *, offset=0, dtype=None: sum_(diagonal(x, offset=offset), -1, dtype=dtype),
    "The sum of a diagonal of each matrix: of the last two axes.   T[..., m, n]  →  T[...]     offset as of `diagonal`",
    ">>> ad.linalg.trace([[[1.0, 2.0], [3.0, 4.0]]])\nf64[1] [5.]")


@public(1)
def matrix_norm(x, *, ord="fro", keepdims=False):
    """The norm of each matrix, with `ord` as for `norm`.   f[..., m, n]  →  f[...]     ShapeError for others

    >>> ad.linalg.matrix_norm([[[3.0, 4.0]], [[0.0, 1.0]]])
    f64[2] [5. 1.]
    """
    x = matrices("matrix_norm", x)
    return norm(x, ord, (-2, -1), keepdims=keepdims)


@public(1, takes="fc")
def vector_norm(x, *, axis=None, ord=2, keepdims=False):
    """The norm over one axis, several, or (None) of all elements as one vector, with `ord` as for `norm` of vectors.

    f[..., n, ...]  →  f[...]

    >>> ad.linalg.vector_norm([[3.0, -4.0], [1.0, 0.0]], ord=1)
    f64[] 8.0
    """
    axes = axes_of("vector_norm", axis, x.aval)
    return unreduced(norm(rows_along(x, axes), ord, -1), x, axes, keepdims)


@public(1, takes="fic")
def matrix_power(a, n):
    """The n-th power of each square matrix; a negative n: of its inverse.   T[..., m, m]  →  T[..., m, m]

    Takes about log2 n products.  Raises ShapeError unless matrices are square, LinAlgError if there is no inverse.

    >>> ad.linalg.matrix_power([[1, 1], [0, 1]], 5)
    i64[2,2]
    [[1 5]
     [0 1]]
    """
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(located(f"matrix_power: takes square matrices, not {a.aval}"))
    count = integer(n, "matrix_power", "n")
    if count < 0:
        a, count = inv(a), -count
    found = None
    while count:
        if count & 1:
            found = a if found is None else found @ a
        count >>= 1
        if count:
            a = a @ a
    return identities(a) if found is None else found


@public(ITEMS)
def multi_dot(arrays):
    """The product of a chain of matrices, in the order of fewest multiplications.   [T[k, l], T[l, m], ...]  →  T[k, n]

    The first and last array may be vectors: a row, a column.  Raises ShapeError for less than two, or if sizes differ.
    Source: the dynamic program of Cormen, Leiserson, Rivest, Stein, "Introduction to Algorithms", 15.2.

    >>> ad.linalg.multi_dot([ad.ones((2, 3)), ad.ones((3, 4)), ad.ones(4)])
    f64[2] [12. 12.]
    """
    given = elements_of(arrays, "multi_dot", "arrays")
    chain = in_common_dtype("multi_dot", [(f"arrays[{i}]", x) for i, x in enumerate(given)], "fic") if given else []
    if len(chain) < 2:
        raise ShapeError(located(f"multi_dot: {len(chain)} arrays are no chain"))
    ends = [x.ndim == 1 for x in (chain[0], chain[-1])]
    if ends[0]:
        chain[0] = expand_dims(chain[0], 0)
    if ends[1]:
        chain[-1] = expand_dims(chain[-1], 1)
    if any([x.ndim != 2 for x in chain]) or any([a.shape[1] != b.shape[0] for a, b in pairwise(chain)]):
        told = ", ".join([str(x.aval) for x in chain])
        raise ShapeError(located(f"multi_dot: {told} are no chain of matrices"))
    found = _chained(chain, _splits([x.shape[0] for x in chain] + [chain[-1].shape[1]]), 0, len(chain) - 1)
    return reshaped(found, tuple([n for n, drops in zip(found.shape, ends, strict=True) if not drops]))


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """(first, last) of each part of a chain -> the matrix after which to split the part into two factors."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            tried = [
                (cost[i, k] + cost[k + 1, j] + int(sizes[i]) * int(sizes[k + 1]) * int(sizes[j + 1]), k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(tried)
    return split


def _chained(chain: Sequence[Tensor], split: dict[tuple[int, int], int], first: int, last: int) -> Tensor:
    if first == last:
        return chain[first]
    k = split[first, last]
    return _chained(chain, split, first, k) @ _chained(chain, split, k + 1, last)


@public(1)
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    """The number of singular values above a limit, by default the largest times max(m, n) times the dtype's epsilon.

    f[..., m, n]  →  i64[...]     tol: the limit; rtol: the limit divided by the largest singular value

    hermitian   True: the symmetric (Hermitian) part of A is taken

    >>> ad.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]])
    i64[] 1
    """
    a = matrices("matrix_rank", given_hermitian("matrix_rank", A, hermitian))
    s = svdvals(a)
    if tol is None:
        share = float(np.finfo(s.dtype).eps) * max(a.shape[-2:]) if rtol is None else rtol
        limit = multiply(max_(s, -1, keepdims=True), share) if s.shape[-1] else 0.0
    else:
        limit = tol if isinstance(tol, (int, float)) else expand_dims(tol, -1)
    return sum_(cast_to(s > limit, I64), -1)


@public()
def cond(x, p=None):
    """The condition number of each matrix: the most that a relative error of b may grow in a solution of a @ x = b.

    f[..., m, m]  →  f[...]     p: the order of the norm; None, 2, -2: by singular values, also for m != n

    >>> ad.linalg.cond([[2.0, 0.0], [0.0, 0.5]])
    f64[] 4.0
    """
    if p in (None, 2, -2):
        x = matrices("cond", x)
        largest, smallest = spectral_norm(x, 2), spectral_norm(x, -2)
        return smallest / largest if p == -2 else largest / smallest
    x = square("cond", x, "fc")
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)


class LstsqResult(NamedTuple):
    """The result of `lstsq`, as in NumPy, but with residuals for every rank."""

    x: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@public(2, takes="fc", operands=2)
def lstsq(a, b, rcond=None) -> LstsqResult:
    """The least-squares solution x, with minimal |b - a @ x|, and with minimal norm if there are several.

    a: T[..., m, n]  b: T[..., m, k] or T[m]  →  (x: T[..., n, k] or T[n], residuals: f[..., k], rank: i64[...],
    singular_values: f[..., min(m, n)])

    residuals   the sums of squares of b - a @ x; a vector b gives no axis k
    rcond       as for `pinv`; below 0: the epsilon of a's dtype

    The gradient assumes that the rank of a does not change.  Raises ShapeError for matrices that do not fit.

    >>> ad.linalg.lstsq([[1.0], [1.0]], [1.0, 3.0]).x
    f64[1] [2.]
    """
    a = matrices("lstsq", a)
    columns, restored = columns_of("lstsq", a, b)
    share = tolerance(a, rcond)
    share = share if share >= 0.0 else float(np.finfo(a.dtype).eps)
    x = pinv(a, share) @ columns
    rest = abs_(columns - a @ x)
    residuals = summed(rest * rest, (rest.ndim - 2,))
    s = svdvals(a)
    bound = max_(s, axis=-1, keepdims=True) * share if s.shape[-1] else s
    rank = summed(cast_to(s > bound, I64), (s.ndim - 1,))
    return LstsqResult(restored(x), restored(residuals), rank, s)
