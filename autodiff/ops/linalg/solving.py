"""Linear systems: solve, solve_triangular, inv, and solving with a known factor.

Each is one operation, computed in native code or, for large matrices, by LAPACK through NumPy.  The rules are classical
(Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation",
2008), with conjugate transposes, and are written in the operations of this file, so they can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import DENSE_ROWS, Dense, factor_row_stride

from ...errors import ShapeError, located
from ...tape import record
from ...tensor import Tensor
from ..batching import to_front, with_examples
from ..diagonals import lower_part, upper_part
from ..primitive import OwnPrimitive, expect, primitive
from ..shaping import reshaped, transposed
from ..template import public
from .matrices import adjoint, identities, matrix_op, refusing, right_side, shaped, square, square_aval, substituted

_MEND = "ad.linalg.lstsq, or a small multiple of the identity added to the matrix, gives an answer all the same"


def _solution(
    name: str,
    reference: Callable[..., np.ndarray],
    solve_again: Callable[..., Tensor],
    lower: str,
    params: tuple[str, ...] = (),
    project: Callable[..., Tensor] = lambda da, **_: da,
) -> OwnPrimitive:
    """Declare an operation whose result is x with a @ x = b, for inputs a, factors of a (if any) and b.

    solve_again   solve_again(a, *factors, b, turns, **params) -> the solution for another b, or (`turns`) for aᴴ
    project       project(a_bar, **params) -> the cotangent of a from that of the matrix that is solved with: a triangle
                  or the adjoint.  Gradients flow to a, not to the factors, which only serve to compute x from a
    """

    def vjp(x_bar, x, a, *rest, **given):
        *factors, _ = rest
        b_bar = solve_again(a, *factors, x_bar, True, **given)
        return (lambda: project(-(b_bar @ adjoint(x)), **given), *[None for _ in factors], b_bar)

    def infer(a: Aval, *rest: Aval, **_: Any) -> Aval:
        square_aval(name, a)
        expect(name, (a, rest[-1]), "fc")
        if rest[-1].ndim != a.ndim or rest[-1].shape[:-1] != a.shape[:-1]:
            raise ShapeError(located(f"{name}: {rest[-1]} is no right-hand side of {a}"))
        return rest[-1]

    return matrix_op(name, reference, infer=infer, vjp=vjp, params=params, lower=Dense(lower), batch=_batch)


def _batch(op, size, xs, mapped, **params):
    """Batching: if examples share the matrices, solve once with the right-hand sides of all examples side by side."""
    *matrices, b = xs
    if any(mapped[:-1]):
        return record(op, with_examples(size, xs, mapped), tuple(params.values()))
    rank = b.ndim
    shape = (*b.shape[1:-1], size, b.shape[-1])
    sides = transposed(b, (*range(1, rank - 1), 0, rank - 1))
    x = record(op, (*matrices, reshaped(sides, (*shape[:-2], size * b.shape[-1]))), tuple(params.values()))
    return to_front(reshaped(x, shape), rank - 2)


_solve_reference = refusing("solve", np.linalg.solve, "singular", _MEND, test=np.linalg.inv)
_solve = _solution("solve", _solve_reference, lambda a, b, turns: solved(adjoint(a) if turns else a, b), "solve")

#: Matrices up to this size are factorised anew each time, in registers, which costs less than to store the factors.
_FEW = 8


def solved(a: Tensor, b: Tensor) -> Tensor:
    """`solve` for tensors with the same leading axes."""
    factors = factorised(a)
    return record(_solve, (a, b)) if factors is None else record(_solve_lu, (a, factors, b), (False, True))


@public(2, _solve)
def solve(a, b):
    """The solution x of a @ x = b.

    a: T[..., n, n]  b: T[..., n, m] or T[n]  →  T[..., n, m] or T[..., n]     float or complex; integers give float64

    Leading axes broadcast.  Raises ShapeError for matrices that do not fit; LinAlgError for a singular matrix,
    when the value is computed.

    >>> ad.linalg.solve([[2.0, 0.0], [1.0, 1.0]], [2.0, 3.0])
    f64[2] [1. 2.]
    """
    a, b, restored = right_side("solve", a, b, "fc")
    return restored(solved(a, b))


def _lu_reference(a: np.ndarray) -> np.ndarray:
    """The LU factorisation with pivoting, panel by panel, as in LAPACK."""
    n = a.shape[-1]
    y = np.zeros((*a.shape[:-2], n + 1, factor_row_stride(n)), a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        factors, order, sign = np.array(a[at]), np.arange(1, n + 1), 1
        for start in range(0, n, _PANEL):
            stop = min(start + _PANEL, n)
            sign *= _factorise_panel(factors, order, start, stop)
            upper = factors[start:stop, stop:]
            for i in range(start + 1, stop):
                upper[i - start] -= factors[i, start:i] @ upper[: i - start]
            factors[stop:, stop:] -= factors[stop:, start:stop] @ upper
        y[at][:n, :n] = factors
        y[at][n, :n] = order * sign
    return y


#: The number of columns in a panel of the reference.
_PANEL = 32


def _factorise_panel(factors: np.ndarray, order: np.ndarray, start: int, stop: int) -> int:
    """Factorise the columns from start to stop in place, exchanging whole rows; return the permutation's sign."""
    sign = 1
    for c in range(start, stop):
        column = factors[c:, c]
        sizes = abs(column.real) + abs(column.imag)
        pivot = c + int(np.argmax(np.where(np.isnan(sizes), -1.0, sizes)))
        if pivot != c:
            sign = -sign
            factors[[c, pivot]], order[[c, pivot]] = factors[[pivot, c]], order[[pivot, c]]
        if factors[c, c]:
            factors[c + 1 :, c] /= factors[c, c]
        factors[c + 1 :, c + 1 : stop] -= np.outer(factors[c + 1 :, c], factors[c, c + 1 : stop])
    return sign


#: The result has l below the diagonal and u on and above it, rows in pivot order; then a row with each row's original
#: number, from 1, times the permutation's sign.  Gradients flow to a itself: see `solve_lu`.
_lu = primitive(
    "lu",
    _lu_reference,
    infer=shaped("lu", lambda n, _: (n + 1, factor_row_stride(n)), is_square=True),
    lower=Dense("lu"),
    discrete=True,
)


def factorised(a: Tensor) -> Tensor | None:
    """The LU factorisation, which then serves value and derivatives; None if a's size makes it not worth keeping."""
    return record(_lu, (a,)) if _FEW < a.shape[-1] <= DENSE_ROWS else None


def _or_nan(run: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """The value of `run` for each matrix of the batch; nan for a matrix that `run` refuses."""
    try:
        return run(*arrays)
    except np.linalg.LinAlgError:
        if arrays[0].ndim == 2:
            return np.full_like(arrays[-1], np.nan)
        return np.stack([_or_nan(run, *matrices) for matrices in zip(*arrays, strict=True)])


def _solve_lu_reference(
    a: np.ndarray, factors: np.ndarray, b: np.ndarray, *, turned: bool, refuses: bool
) -> np.ndarray:
    a = a.swapaxes(-1, -2).conj() if turned else a
    return _solve_reference(a, b) if refuses else _or_nan(np.linalg.solve, a, b)


#: x with a @ x = b, or (`turned`) aᴴ @ x = b, by the LU factors of a.  A singular a raises if `refuses`, else x is nan.
#: Inputs: a, the factors, b.
_solve_lu: OwnPrimitive = _solution(
    "solve_lu",
    _solve_lu_reference,
    lambda a, factors, b, turns, *, turned, refuses: record(_solve_lu, (a, factors, b), (turned is not turns, refuses)),
    "solve_lu",
    ("turned", "refuses"),
    project=lambda da, *, turned, refuses: adjoint(da) if turned else da,
)  # fmt: skip


def inverse_or_nan(a: Tensor, factors: Tensor | None = None) -> Tensor:
    """The inverse of each matrix, by its LU factors if given; nan for a singular matrix."""
    if factors is None:
        return record(_inv, (a,), (False,))
    return record(_solve_lu, (a, factors, identities(a)), (False, False))


def _triangular_reference(a: np.ndarray, b: np.ndarray, *, lower: bool, refuses: bool) -> np.ndarray:
    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return substituted(a, b, lower=lower)

    return run(a, b) if refuses else _or_nan(run, a, b)


_solve_triangular = _solution(
    "solve_triangular",
    _triangular_reference,
    lambda a, b, turns, *, lower, refuses: solved_triangular(
        adjoint(a) if turns else a, b, lower is not turns, refuses
    ),
    "triangular",
    ("lower", "refuses"),
    project=lambda da, *, lower, refuses: lower_part(da) if lower else upper_part(da),
)


def solved_triangular(a: Tensor, b: Tensor, lower: bool, refuses: bool = True) -> Tensor:
    """`solve_triangular` for tensors with the same leading axes.  A singular a raises if `refuses`, else gives nan."""
    return record(_solve_triangular, (a, b), (lower, refuses))


@public(2, _solve_triangular)
def solve_triangular(a, b, *, lower=False):
    """The solution x of triangle(a) @ x = b for the upper, or (`lower`) the lower triangle; only this is read.

    a: T[..., n, n]  b: T[..., n, m] or T[n]  →  T[..., n, m] or T[..., n]     float or complex; integers give float64

    Leading axes broadcast.  Raises ShapeError for matrices that do not fit; LinAlgError for a zero on the
    diagonal, when the value is computed.

    >>> ad.linalg.solve_triangular([[2.0, 9.0], [1.0, 1.0]], [2.0, 3.0], lower=True)
    f64[2] [1. 2.]
    """
    a, b, restored = right_side("solve_triangular", a, b, "fc")
    return restored(solved_triangular(a, b, bool(lower)))


def _factored_reference(a: np.ndarray, factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    half = substituted(factor, b, lower=True)
    return substituted(factor.swapaxes(-1, -2).conj(), half, lower=False)


#: x with a @ x = b, where a = factor @ factorᴴ: a backward pass and its derivative solve with the same factor.
_solve_factored = _solution(
    "solve_factored", _factored_reference, lambda a, factor, b, turns: solved_factored(a, factor, b), "factored"
)


def solved_factored(a: Tensor, factor: Tensor, b: Tensor) -> Tensor:
    """x with a @ x = b for a Hermitian a and its Cholesky factor; a, factor and b have the same leading axes."""
    return record(_solve_factored, (a, factor, b))


_refusing_inv = refusing("inv", np.linalg.inv, "singular", "ad.linalg.pinv gives its pseudo-inverse")


#: The inverse.  A singular matrix raises if `refuses`, else gives nan.
_inv = matrix_op(
    "inv",
    lambda a, *, refuses: _refusing_inv(a) if refuses else _or_nan(np.linalg.inv, a),
    infer=lambda a, *, refuses: square_aval("inv", a),
    vjp=lambda y_bar, y, a, *, refuses: (-(adjoint(y) @ y_bar @ adjoint(y)),),
    lower=Dense("solve"),
)


@public(1, _inv)
def inv(a):
    """The inverse of each matrix.   T[..., n, n]  →  T[..., n, n]     float or complex; integers and bool give float64

    To solve a system, `solve` is faster and more precise.  Raises ShapeError for matrices that are not square;
    LinAlgError for a singular matrix, when the value is computed.

    >>> ad.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
    f64[2,2]
    [[0.5  0.  ]
     [0.   0.25]]
    """
    return record(_inv, (square("inv", a, "fc"),), (True,))
