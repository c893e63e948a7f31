"""Determinants, and their signs and logarithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Dense
from codegen.records import NamedTuple

from ...tape import DETACH, record
from ...tensor import Tensor
from ..arithmetic import conjugated, imaginary_part, real_aval
from ..batching import with_examples
from ..conversion import cast_to
from ..diagonals import diagonal
from ..elementwise import log
from ..joining import joined
from ..primitive import OwnPrimitive, spread_to, sum_to, zeros_of
from ..reductions import summed
from ..shaping import expand_dims, flipped_axes, reshaped
from ..slicing import part
from ..template import public
from .matrices import (
    adjoint,
    identities,
    identity,
    matrix_op,
    matrix_rule,
    of_finite,
    scaled_matrices,
    shaped,
    square,
    square_aval,
)
from .solving import factorised, inverse_or_nan, solved_factored


def _number(name: str) -> Callable[..., Aval]:
    return shaped(name, lambda m, n: (), is_square=True)


def _decomposed(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(uᴴ, the singular values, v, det(u vᴴ)) of a = u diag(s) vᴴ."""
    u, s, vt = np.linalg.svd(a)
    sign = np.linalg.det(u) * np.linalg.det(vt)
    return u.swapaxes(-1, -2).conj(), s, vt.swapaxes(-1, -2).conj(), sign[..., None, None]


def _adjugate_reference(a: np.ndarray) -> np.ndarray:
    """The adjugate by products of all singular values but one, which is right for singular matrices, too."""
    uh, s, v, sign = _decomposed(a)
    others = np.prod(np.where(np.eye(a.shape[-1], dtype=bool), s.dtype.type(1), s[..., None, :]), axis=-1)
    return sign * (v * others[..., None, :]) @ uh


def _change_reference(a: np.ndarray, e: np.ndarray) -> np.ndarray:
    """The change of the adjugate: with e' = uᴴ e v and p[i, j] the product of singular values without i and j,

    v (diag(p diag(e')) - p * e') uᴴ,     where p[i, i] = 0
    """
    uh, s, v, sign = _decomposed(a)
    turned, others = uh @ e @ v, _products_without_two(s)
    inside = -others * turned
    index = np.arange(a.shape[-1])
    inside[..., index, index] = (others @ turned[..., index, index][..., None])[..., 0]
    return sign * (v @ inside @ uh)


def _products_without_two(s: np.ndarray) -> np.ndarray:
    """At [i, j] the product of all numbers but the i-th and the j-th; 0 for i = j."""
    eye = np.eye(s.shape[-1], dtype=bool)
    products = np.zeros((*s.shape, s.shape[-1]), s.dtype)
    for i, is_it in enumerate(eye):
        left = np.where(eye | is_it, s.dtype.type(1), s[..., None, :])
        products[..., i, :] = np.where(is_it, s.dtype.type(0), np.prod(left, axis=-1))
    return products


def _change_of_change(a: Tensor, e: Tensor, moved: Tensor) -> Tensor:
    """The change of `adjugate_change(a, e)` if a changes by `moved`; e and `moved` may be exchanged.

    For e = x yᵀ the change of the adjugate is the adjugate of [[a, x], [-yᵀ, 0]], without the last row and column; any
    e is a sum of products x yᵀ, one for each column x of e, where y is a column of the identity.
    """
    n, axis = a.shape[-1], a.ndim - 2
    shape = (*a.shape[:-2], n, n, n)
    columns = reshaped(flipped_axes(e), (*shape[:-1], 1))
    below = spread_to(reshaped(-identity(a), (n, 1, n)), (*shape[:-2], 1, n))
    bordered = _bordered(spread_to(expand_dims(a, axis), shape), columns, below)
    nothing = zeros_of(columns.aval)
    change = _bordered(spread_to(expand_dims(moved, axis), shape), nothing, flipped_axes(nothing))
    found = record(_adjugate_change, (bordered, change))
    return summed(part(part(found, axis + 1, 0, n), axis + 2, 0, n), (axis,))


def _bordered(x: Tensor, column: Tensor, row: Tensor) -> Tensor:
    """Each matrix x extended to [[x, column], [row, 0]]."""
    axis = x.ndim - 2
    corner = zeros_of(x.aval.with_shape((*x.shape[:-2], 1, 1)))
    return joined((joined((x, column), axis + 1), joined((row, corner), axis + 1)), axis)


def _change_vjp(y_bar, y, a, e):
    def of_a():
        return sum_to(_change_of_change(spread_to(adjoint(a), e.shape), adjoint(e), y_bar), a.shape)

    return of_a, lambda: record(_adjugate_change, (adjoint(a), y_bar))


def _change_batch(op, size, xs, mapped):
    """Batching: a matrix that all examples, or several changes, share is decomposed only once."""
    if not mapped[0]:
        return record(op, tuple(xs))
    a, e = with_examples(size, xs, mapped)
    return record(op, (reshaped(a, (size, *(1,) * (e.ndim - a.ndim), *a.shape[1:])), e))


#: The change of the adjugate of a if a changes by e: cofactors of cofactors, so also for singular a; linear in e.
#: a: [..., n, n], e: [..., n, n], perhaps with more axes in front: several changes of a matrix
_adjugate_change: OwnPrimitive = matrix_op(
    "adjugate_change",
    lambda a, e: of_finite(_change_reference, a, e),
    infer=lambda a, e: square_aval("adjugate_change", e),
    vjp=_change_vjp,
    batch=_change_batch,
)

#: det(a) · a⁻¹, which is defined for singular matrices, too.
_adjugate = matrix_op(
    "adjugate",
    lambda a: of_finite(_adjugate_reference, a),
    vjp=lambda y_bar, y, a: (record(_adjugate_change, (adjoint(a), y_bar)),),
    lower=Dense("adjugate"),
)


_det = matrix_op(
    "det",
    np.linalg.det,
    infer=_number("det"),
    vjp=lambda y_bar, y, a: (scaled_matrices(y_bar, adjoint(record(_adjugate, (a,)))),),
    lower=Dense("determinant"),
)


@public(1, _det)
def det(a):
    """The determinant of each matrix.   T[..., n, n]  →  T[...]     T float or complex; integers and bool give float64

    Derivatives of every order are right for singular matrices, too: a determinant is a polynomial.
    Raises ShapeError for matrices that are not square.

    >>> ad.grad(ad.linalg.det)(ad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    f64[2,2]
    [[ 4. -3.]
     [-2.  1.]]
    """
    return record(_det, (square("det", a, "fc"),))


class SlogdetResult(NamedTuple):
    """Signs and logarithms of determinants: sign · exp(logabsdet) is the determinant."""

    sign: Tensor
    logabsdet: Tensor


def _against_inverse(number: Tensor, a: Tensor, factors: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """The cotangents of a and its factors, for a function whose change is number · trace(a⁻¹ da)."""
    return (scaled_matrices(cast_to(number, a.dtype), adjoint(inverse_or_nan(a, *factors))), *[None for _ in factors])


def _direction_vjp(y_bar, y, a, *factors):
    """The direction y changes by i y Im trace(a⁻¹ da): the number for `_against_inverse` is i Re(conj(y_bar) i y)."""
    along_turn = imaginary_part(y_bar * conjugated(y))
    return _against_inverse(cast_to(along_turn, y.dtype) * 1j, a, factors)


#: det(a) / |det(a)|: piecewise constant for real a; for complex a its angle changes by Im trace(a⁻¹ da).
_direction = matrix_op(
    "det_direction",
    lambda a, *_: np.linalg.slogdet(a)[0],
    infer=_number("slogdet"),
    vjp=_direction_vjp,
    lower=Dense("sign"),
)


#: log |det(a)|, given a, or a and its LU factors, from which the value is computed (as for `_direction`).
_log_abs_det = matrix_op(
    "log_abs_det",
    lambda a, *_: np.linalg.slogdet(a)[1],
    infer=lambda a, *_: real_aval(_number("slogdet")(a)),
    vjp=lambda y_bar, y, a, *factors: _against_inverse(y_bar, a, factors),
    lower=Dense("log_abs"),
)


#: log(det(a)) of a symmetric a = factor @ factorᵀ; inputs: its value, a, the factor.  Gradients flow to a.
_log_det_factored = matrix_rule(
    "log_det_factored",
    lambda y_bar, y, _, a, factor: (None, scaled_matrices(y_bar, solved_factored(a, factor, identities(a))), None),
)


def log_det_factored(a: Tensor, factor: Tensor) -> Tensor:
    """log(det(a)) of symmetric positive definite matrices and their Cholesky factors."""
    logarithms = log(diagonal(record(DETACH, (factor,)), 0, -2, -1))
    return record(_log_det_factored, (summed(logarithms, (a.ndim - 2,)) * 2.0, a, factor))


@public(1)
def slogdet(a) -> SlogdetResult:
    """The sign of each determinant, and the logarithm of its absolute value, which does not overflow.

    a: T[..., n, n]  →  (sign: T[...], logabsdet: f[...])     T float or complex; integers and bool give float64

    The sign of a complex determinant is the determinant divided by its absolute value, and has a gradient.
    A singular matrix gives sign 0 and logarithm -inf; the gradient of its logarithm, and of its sign if it is complex,
    is nan.
    Raises ShapeError for matrices that are not square.

    >>> ad.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
    SlogdetResult(sign=f64[] -1.0, logabsdet=f64[] 0.0)
    >>> ad.linalg.slogdet(1e-200 * ad.eye(2)).logabsdet > -ad.inf
    bool[] True
    >>> ad.linalg.det(1e-200 * ad.eye(2))
    f64[] 0.0
    """
    a = square("slogdet", a, "fc")
    factors = factorised(a)
    known = () if factors is None else (factors,)
    still = a if a.dtype.kind == "c" else record(DETACH, (a,))
    return SlogdetResult(record(_direction, (still, *known)), record(_log_abs_det, (a, *known)))
