"""Checks and reference functions that the operations of linear algebra share.

Triangular systems are solved by substitution in blocks, with NumPy alone: each diagonal block is solved by itself,
then one product subtracts its part from the remaining rows, so nearly all the work is matrix products.  LAPACK's LU
factorisation of an *upper* triangular block is the block itself, without pivoting, so `np.linalg.solve` on the block
is back substitution; a lower triangle is first reversed along both axes.
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
from ..declare import in_common_dtype
from ..primitive import OwnPrimitive, broadcast_avals, expect, primitive, spread_to, with_rule
from ..shaping import flipped_axes, reshaped


def matrix_op(
    name: str, reference: Callable[..., Any], shape: Callable[..., tuple] | None = None, **declared: Any
) -> OwnPrimitive:
    """Declare an operation on matrices, as by `primitive`: leading axes are a batch; cotangents do not stay masked.

    shape   shape(rows, columns) -> the shape of a result; None: matrices and results are square, of one shape
    """
    infer = shaped(name, shape or (lambda n, _: (n, n)), is_square=shape is None)
    defaults: dict[str, Any] = {"infer": infer, "heavy": True, "keeps_mask": False}
    return primitive(name, reference, **defaults | declared)


def matrix_rule(name: str, vjp: Callable[..., tuple], **declared: Any) -> OwnPrimitive:
    """Declare an operation on matrices that returns its first input, as by `with_rule`."""
    return with_rule(name, vjp, keeps_mask=False, **declared)


def square_aval(name: str, a: Aval) -> Aval:
    """The shape rule of operations on square matrices, float or complex.  Raises ShapeError or DTypeError."""
    expect(name, (a,), "fc")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(located(f"{name}: takes square matrices, not {a}"))
    return a


def shaped(name: str, shape: Callable[..., tuple], is_square: bool = False) -> Callable[..., Aval]:
    """The shape rule of an operation on matrices, results of `shape(rows, columns)`; other inputs are not checked."""

    def infer(a: Aval, *_: Aval, **__: Any) -> Aval:
        if is_square:
            square_aval(name, a)
        expect(name, (a,), "fc")
        *batch, m, n = a.shape
        return a.with_shape((*batch, *shape(m, n)))

    return infer


def matrices(name: str, a: Any) -> Tensor:
    """An argument as float or complex matrices; integers and bool become float64.  Raises ShapeError for a vector."""
    (a,) = in_common_dtype(name, (("a", a),), "fc")
    if a.ndim < 2:
        raise ShapeError(located(f"{name}: takes matrices, not {a.aval}"))
    return a


def square(name: str, a: Any, accepts: str = "f") -> Tensor:
    """An argument as square matrices of the kinds `accepts`; integers and bool become float64.  Raises ShapeError."""
    (a,) = in_common_dtype(name, (("a", a),), accepts)
    square_aval(name, a.aval)
    return a


def identity(x: Tensor) -> Tensor:
    """The identity matrix with as many columns as x."""
    return eye(x.shape[-1], dtype=x.dtype)


def identities(a: Tensor) -> Tensor:
    """An identity matrix for each square matrix of a."""
    return spread_to(identity(a), a.shape)


def scaled_matrices(number: Tensor, matrix: Tensor) -> Tensor:
    """Each matrix times its number.   number: T[...], matrix: T[..., m, n]"""
    return reshaped(number, (*number.shape, 1, 1)) * matrix


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of each matrix."""
    return conjugated(flipped_axes(x))


def symmetric_part(x: Tensor) -> Tensor:
    """(x + xᵀ) / 2 of each matrix; a symmetric x is returned to the last bit."""
    return (x + flipped_axes(x)) * 0.5


def hermitian_part(x: Tensor) -> Tensor:
    """(x + xᴴ) / 2 of each matrix; the symmetric part of a real x."""
    return (x + adjoint(x)) * 0.5


def given_hermitian(name: str, a: Any, is_hermitian: bool) -> Any:
    """The Hermitian part of a if the user says that a is Hermitian, so that the gradient is, too; else a."""
    return hermitian_part(square(name, a, "fc")) if is_hermitian else a


def right_side(name: str, a: Any, b: Any, accepts: str = "f") -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """(a [..., n, n], b [..., n, m] with the same leading axes, a function that gives a result the form of b).

    A b of one axis is a vector, a single right-hand side for all matrices.  Raises ShapeError if a and b do not fit.
    """
    a, b = in_common_dtype(name, (("a", a), ("b", b)), accepts)
    square_aval(name, a.aval)
    columns, restored = columns_of(name, a, b)
    batch = broadcast_avals(name, (a.aval.with_shape(a.shape[:-2]), columns.aval.with_shape(columns.shape[:-2])))
    a = spread_to(a, (*batch, *a.shape[-2:]))
    columns = spread_to(columns, (*batch, *columns.shape[-2:]))
    return a, columns, restored


def columns_of(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """(b as columns, with a vector as one column; a function that makes a result a vector again if b was one)."""
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
    """`run` with NumPy's LinAlgError replaced by ours, which names the first matrix that `test` (or `run`) refuses."""

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
    """The value of `run` for finite matrices; nan for the others, for which LAPACK would fail."""
    if all([np.isfinite(x).all() for x in arrays]):
        return run(*arrays)
    is_finite = np.logical_and.reduce([np.isfinite(x).all((-1, -2), keepdims=True) for x in arrays])
    found = run(*[np.where(is_finite, x, x.dtype.type(0)) for x in arrays])
    return np.where(is_finite, found, found.dtype.type(np.nan))


#: The number of rows in a block.  Of 16, 32, 64, 128 and 256 the fastest or nearly so for n = 200 to 2,000 with
#: one to n columns: it takes a half to a tenth of the time of an LU solution (NumPy 2.4, OpenBLAS, Zen 4).
BLOCK = 64


def substituted(a: np.ndarray, b: np.ndarray, *, lower: bool) -> np.ndarray:
    """x with triangle(a) @ x = b.   f[..., n, n], f[..., n, m]  →  f[..., n, m]

    The other triangle of a is not read.  Raises LinAlgError for a zero on the diagonal.
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
    """The upper triangle with zeros below.  `np.triu` would take as long as solving with a small triangle."""
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
