"""Checks and references that the operations of linear algebra share.

Triangular systems are solved by substitution, with NumPy alone, by blocks: each diagonal block is solved for itself,
then its part is taken from the rows that follow by one product, so nearly all the work is matrix products.  LAPACK's LU
factorisation of an *upper* triangular block is the block itself, without pivoting; so `np.linalg.solve` on it is back
substitution, and lower triangles are turned round first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import Aval

from ...errors import LinAlgError, ShapeError, caller, located
from ...tensor import Tensor
from ..arithmetic import conjugated
from ..creation import eye
from ..declare import common
from ..primitive import OwnPrimitive, broadcast_avals, expect, primitive, spread_to, with_rule
from ..shaping import flipped_axes, reshaped


def of_matrices(
    name: str, reference: Callable[..., Any], shape: Callable[..., tuple] | None = None, **declared: Any
) -> OwnPrimitive:
    """An operation on matrices, as `primitive` declares it: leading axes are a batch, and zeros do not stay zeros.

    shape   shape(rows, columns) of a result; None: matrices are square, and so are the results
    """
    infer = shaped(name, shape or (lambda n, _: (n, n)), is_square=shape is None)
    of_all: dict[str, Any] = {"infer": infer, "heavy": True, "keeps_mask": False}
    return primitive(name, reference, **of_all | declared)


def of_known(name: str, vjp: Callable[..., tuple], **declared: Any) -> OwnPrimitive:
    """An operation on matrices whose value is its first input, as `with_rule` declares it."""
    return with_rule(name, vjp, keeps_mask=False, **declared)


def square_aval(name: str, a: Aval) -> Aval:
    """The shape rule of square matrices, float or complex.  Raises ShapeError or DTypeError for others."""
    expect(name, (a,), "fc")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(located(f"{name}: takes square matrices, not {a}"))
    return a


def shaped(name: str, shape: Callable[..., tuple], is_square: bool = False) -> Callable[..., Aval]:
    """The shape rule of an operation on matrices, of `shape(rows, columns)` for each; what else it reads fits them."""

    def infer(a: Aval, *_: Aval, **__: Any) -> Aval:
        if is_square:
            square_aval(name, a)
        expect(name, (a,), "fc")
        *batch, m, n = a.shape
        return a.with_shape((*batch, *shape(m, n)))

    return infer


def matrices(name: str, a: Any) -> Tensor:
    """An argument as matrices of floats or complex numbers; integers and bool become float64.  Raises ShapeError."""
    (a,) = common(name, (("a", a),), "fc")
    if a.ndim < 2:
        raise ShapeError(located(f"{name}: takes matrices, not {a.aval}"))
    return a


def square(name: str, a: Any, accepts: str = "f") -> Tensor:
    """An argument as square matrices of floats (or of other kinds too); integers and bool become float64."""
    (a,) = common(name, (("a", a),), accepts)
    square_aval(name, a.aval)
    return a


def identity(x: Tensor) -> Tensor:
    """The identity of as many columns."""
    return eye(x.shape[-1], dtype=x.dtype)


def identities(a: Tensor) -> Tensor:
    """The identity for each of some square matrices."""
    return spread_to(identity(a), a.shape)


def beside(number: Tensor, matrix: Tensor) -> Tensor:
    """Each matrix times its number."""
    return reshaped(number, (*number.shape, 1, 1)) * matrix


def adjoint(x: Tensor) -> Tensor:
    """Each matrix transposed, and conjugated where it is complex."""
    return conjugated(flipped_axes(x))


def symmetric_part(x: Tensor) -> Tensor:
    """(x + xᵀ) / 2 of each matrix: x itself, to the last bit, where it is symmetric."""
    return (x + flipped_axes(x)) * 0.5


def hermitian_part(x: Tensor) -> Tensor:
    """(x + xᴴ) / 2 of each matrix, which is its symmetric part where it is real."""
    return (x + adjoint(x)) * 0.5


def given_hermitian(name: str, a: Any, is_hermitian: bool) -> Any:
    """Matrices that are Hermitian, as somebody says: then so is the gradient."""
    return hermitian_part(square(name, a, "fc")) if is_hermitian else a


def right_side(name: str, a: Any, b: Any, accepts: str = "f") -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Matrices a [..., n, n] and b [..., n, m] with the same leading axes, and what undoes a change of b's shape.

    One axis in b is a vector, a single right-hand side for all.  Raises ShapeError where they do not fit.
    """
    a, b = common(name, (("a", a), ("b", b)), accepts)
    square_aval(name, a.aval)
    columns, restored = columns_of(name, a, b)
    batch = broadcast_avals(name, (a.aval.with_shape(a.shape[:-2]), columns.aval.with_shape(columns.shape[:-2])))
    a = spread_to(a, (*batch, *a.shape[-2:]))
    columns = spread_to(columns, (*batch, *columns.shape[-2:]))
    return a, columns, restored


def columns_of(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """A right-hand side of matrices a as columns, and what undoes the change of its shape: a vector is one column."""
    is_vector = b.ndim == 1
    if not b.ndim or b.shape[0 if is_vector else -2] != a.shape[-2]:
        raise ShapeError(located(
            f"{name}: {a.aval} and {b.aval} have no common size",
            f"the right-hand side has as many rows as the matrix: {a.shape[-2]}",
        ))
    columns = reshaped(b, (*b.shape, 1)) if is_vector else b
    return columns, lambda y: reshaped(y, y.shape[:-1]) if is_vector else y


def refusing(
    name: str, run: Callable[..., Any], what: str, mend: str, test: Callable[[np.ndarray], Any] | None = None
) -> Callable[..., Any]:
    """`run`, with an error of ours for the first of the matrices that it, or `test` of a matrix alone, refuses."""

    def checked(a: np.ndarray, *others: np.ndarray) -> Any:
        try:
            return run(a, *others)
        except np.linalg.LinAlgError:
            which = ""
            for index in np.ndindex(a.shape[:-2]) if a.ndim > 2 else ():
                try:
                    (test or run)(a[index])
                except np.linalg.LinAlgError:
                    which = f" {list(index)}"
                    break
            told = f"{name}: matrix{which} of {a.shape[-1]} rows is {what}"
            raise LinAlgError(f"{told}\n  asked at {caller()}\n  {mend}") from None

    return checked


def of_finite(run: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """The value of `run` for finite matrices, nan for the others, of which LAPACK would find nothing."""
    if all([np.isfinite(x).all() for x in arrays]):
        return run(*arrays)
    is_finite = np.logical_and.reduce([np.isfinite(x).all((-1, -2), keepdims=True) for x in arrays])
    found = run(*[np.where(is_finite, x, x.dtype.type(0)) for x in arrays])
    return np.where(is_finite, found, found.dtype.type(np.nan))


#: Rows that are solved at once.  Of 16, 32, 64, 128, 256 the fastest or close to it for n = 200 to 2,000 with
#: one to n columns, where it takes a half to a tenth of the time of an LU solution (NumPy 2.4, OpenBLAS, Zen 4).
BLOCK = 64


def substituted(a: np.ndarray, b: np.ndarray, *, lower: bool) -> np.ndarray:
    """x with triangle(a) @ x = b.   f[..., n, n], f[..., n, m]  →  f[..., n, m]

    What a has on the other side of its diagonal is not read.  Raises LinAlgError for a zero on the diagonal.
    """
    try:
        if lower:
            return _back(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]
        return _back(a, b)
    except np.linalg.LinAlgError:
        raise _refused(a) from None


def _back(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Back substitution in an upper triangle, the last block of rows first."""
    n = a.shape[-1]
    if n <= BLOCK:
        return np.linalg.solve(_upper(a), b)
    x = np.array(b)
    for stop in range(n, 0, -BLOCK):
        start = max(stop - BLOCK, 0)
        rows = slice(start, stop)
        x[..., rows, :] = np.linalg.solve(_upper(a[..., rows, rows]), x[..., rows, :])
        if start:
            x[..., :start, :] -= a[..., :start, rows] @ x[..., rows, :]
    return x


def _upper(a: np.ndarray) -> np.ndarray:
    """The upper triangle, zeros below: `np.triu` takes as long as solving by a small one does."""
    n = a.shape[-1]
    return np.where(_IS_UPPER[:n, :n], a, a.dtype.type(0))


#: The mask of the upper triangle of a block.
_IS_UPPER = np.triu(np.ones((BLOCK, BLOCK), bool))


def _refused(a: np.ndarray) -> LinAlgError:
    """The error for a triangle that LAPACK found singular."""
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    where = [int(i) for i in np.argwhere(diagonal == 0)[0]]
    return LinAlgError(
        f"solve_triangular: the matrix is singular: element {where[-1]} of "
        f"the diagonal{f' of matrix {where[:-1]}' if where[:-1] else ''} is 0\n"
        f"  asked at {caller()}"
    )
