"""The Cholesky factor of a positive definite matrix, the QR factorisation a = q r, and determinants.

QR is one operation for matrices with as many rows as columns, or more: its result has r below q, so a matrix is
decomposed once.  Of a wider matrix the first columns are decomposed, and the rest of r is qᴴ times the others.

    da r⁻¹ = q c + ...     c = qᴴ da r⁻¹     w = low(c) - low(c)ᴴ     dr = (c - w) r     dq = (da r⁻¹ - q c) + q w

low(c) is c below its diagonal; of complex numbers w has the imaginary part of the diagonal too, since LAPACK's r has a
real one.  Source: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2010).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Call, Decompose, Dense
from codegen.records import NamedTuple

from ...errors import DispatchError, GradientError, located
from ...tape import DETACH, record
from ...tensor import Tensor
from ..arithmetic import abs_, conjugated, imaginary_part, real_aval, real_part
from ..batching import along
from ..conditions import where
from ..conversion import cast_to
from ..diagonals import halved_lower, upper_part
from ..extremes import max_
from ..forms import further
from ..joining import joined
from ..primitive import number_of, primitive, spread_to, zero_of, zeros_of
from ..reductions import summed
from ..shaping import expand_dims, flipped_axes, reshaped
from ..slicing import part
from ..template import public
from .matrices import (
    adjoint,
    hermitian_part,
    identities,
    identity,
    matrices,
    of_finite,
    of_matrices,
    refusing,
    shaped,
    square,
    square_aval,
)
from .solving import factorised, inverse_or_nan, solved_factored, solved_triangular


def _divided(x: Tensor, y: Tensor) -> Tensor:
    """y⁻ᴴ x y⁻¹ for a lower triangle y."""
    turned = adjoint(y)
    left = solved_triangular(turned, x, False)
    return adjoint(solved_triangular(turned, adjoint(left), False))


def _cholesky_jvp(dxs, y, a):
    left = solved_triangular(y, dxs[0], True)
    both = adjoint(solved_triangular(y, adjoint(left), True))
    return y @ halved_lower(both)


#: Both rules: Murray, "Differentiation of the Cholesky decomposition" (2016), equations 8 and 10.
_cholesky = of_matrices(
    "cholesky",
    refusing(
        "cholesky", np.linalg.cholesky, "not positive definite",
        "a small multiple of the identity, added, makes a matrix that is nearly so definite",
    ),
    infer=lambda a: square_aval("cholesky", a),
    vjp=lambda y_bar, y, a: (_divided(halved_lower(adjoint(y) @ y_bar), y),),
    jvp=_cholesky_jvp,
    lower=Dense("cholesky"),
)


def factored(a: Tensor) -> Tensor:
    """The Cholesky factor of matrices that are symmetric, or Hermitian."""
    return record(_cholesky, (a,))


@public(records=_cholesky)
def cholesky(a):
    """The lower triangular y with y @ yᴴ = a, for positive definite matrices: symmetric, or Hermitian.

    a: T[..., n, n]  →  T[..., n, n]     T float or complex; integers and bool give float64

    The symmetric part of a is taken (of complex numbers the Hermitian one), and its gradient is such too.
    Raises ShapeError for matrices that are not square; LinAlgError for one that is not positive definite,
    when the value is computed.

    upper   whether the other factor is given, the conjugate transpose

    >>> ad.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    f64[2,2]
    [[2. 0.]
     [1. 2.]]
    """
    return factored(hermitian_part(square("cholesky", a, "fc")))


@further(cholesky)
def _cholesky_of_numpy(a, *, upper=False):
    return adjoint(cholesky(a)) if upper else cholesky(a)


def _refused(*_: object) -> NoReturn:
    raise GradientError(located(
        "the vectors that complete an orthonormal basis are any, and have no derivative",
        "svd(a, full_matrices=False) and qr(a) give those that have one",
    ))


_complement = of_matrices(
    "complement",
    lambda q: of_finite(lambda q: np.linalg.qr(q, mode="complete")[0][..., q.shape[-1] :], q),
    infer=shaped("complement", lambda m, k: (m, m - k)),
    vjp=_refused,
    jvp=_refused,
    lower=Call(),
)


def completed(q: Tensor) -> Tensor:
    """Orthonormal columns with others beside them, as many as there are rows."""
    m, k = q.shape[-2:]
    return q if k == m else joined((q, record(_complement, (q,))), q.ndim - 1)


def _apart(y: Tensor) -> tuple[Tensor, Tensor]:
    """q, and r below it."""
    rows, n = y.shape[-2:]
    return part(y, y.ndim - 2, 0, rows - n), part(y, y.ndim - 2, rows - n, rows)


def _qr_vjp(y_bar, y, a):
    (q_bar, r_bar), (q, r) = _apart(y_bar), _apart(y)
    inside = r_bar @ adjoint(r) - adjoint(q) @ q_bar
    above = upper_part(inside, 1)
    diagonal = cast_to(real_part(inside), a.dtype) * identity(inside)
    symmetric = above + adjoint(above) + diagonal
    moved = q_bar + q @ symmetric
    return (adjoint(solved_triangular(r, adjoint(moved), False, refuses=False)),)


_qr = of_matrices(
    "qr",
    lambda a: np.concatenate(np.linalg.qr(a), axis=-2),
    infer=shaped("qr", lambda m, n: (m + n, n)),
    vjp=_qr_vjp,
    lower=Decompose("qr"),
)


class QRResult(NamedTuple):
    """Q @ R = a."""

    Q: Tensor
    R: Tensor


@public()
def qr(a, mode="reduced"):
    """Orthonormal columns Q and an upper triangle R with Q @ R = a.

    a: T[..., m, n]  →  (Q: T[..., m, k], R: T[..., k, n])     k = min(m, n); integers and bool give float64

    mode   "reduced"; "r" gives R alone; of "complete" k = m, the further columns of Q are any, the rows of R zeros, and
           a gradient through such a Q is an error

    The gradient is that of matrices whose first k columns are independent: nan where R has a zero on its diagonal.
    Raises ShapeError for less than two axes, DispatchError for another mode.

    >>> abs(ad.linalg.qr([[3.0], [4.0]]).R)
    f64[1,1] [[5.]]
    """
    if mode not in ("reduced", "r", "complete"):
        raise DispatchError(located(
            f"qr: mode is 'reduced', 'complete' or 'r', not {mode!r}",
            "np.linalg.qr(t.detach().numpy(), mode) gives the others, without a gradient",
        ))
    a = matrices("qr", a)
    m, n = a.shape[-2:]
    if m >= n:
        q, r = _apart(record(_qr, (a,)))
    else:
        q, first = _apart(record(_qr, (part(a, a.ndim - 1, 0, m),)))
        r = joined((first, adjoint(q) @ part(a, a.ndim - 1, m, n)), a.ndim - 1)
    if mode == "complete" and m > n:
        q, r = completed(q), joined((r, zeros_of(r.aval.with_shape((*r.shape[:-2], m - n, n)))), a.ndim - 2)
    return r if mode == "r" else QRResult(q, r)


# ---------------------------------------------------------------- determinants


def _number(name: str) -> Callable[..., Aval]:
    return shaped(name, lambda m, n: (), is_square=True)


def _beside(number: Tensor, matrix: Tensor) -> Tensor:
    """Each matrix times its number."""
    return reshaped(number, (*number.shape, 1, 1)) * matrix


def _pairing(a: Tensor, b: Tensor) -> Tensor:
    """The sum over each matrix of products of elements."""
    return summed(a * b, (a.ndim - 2, a.ndim - 1))


# ---------------------------------------------------------------- the adjugate


def _adjugate_reference(a: np.ndarray) -> np.ndarray:
    """By singular values, each left out in turn: right for singular matrices too."""
    u, s, vt = np.linalg.svd(a)
    sign = (np.linalg.det(u) * np.linalg.det(vt))[..., None, None]
    others = np.prod(np.where(np.eye(a.shape[-1], dtype=bool), s.dtype.type(1), s[..., None, :]), axis=-1)
    return sign * (vt.swapaxes(-1, -2).conj() * others[..., None, :]) @ u.swapaxes(-1, -2).conj()


def _change(a: Tensor, e: Tensor) -> Tensor:
    """The change of the adjugate of a with a change e: cofactors of cofactors, which every matrix has.

    For e = x yᵀ it is the adjugate of [[a, x], [-yᵀ, 0]], without the last row and column; e is a sum of such products,
    one for each of its columns x, with y a column of the identity.  The borders get the size of a: the digits of a
    would be lost beside much larger ones, and those of small x beside a.
    """
    n, axis = a.shape[-1], a.ndim - 2
    if not n:
        return e
    shape = (*a.shape[:-2], n, n, n)
    size, change = _largest(a), _largest(e)
    columns = reshaped(flipped_axes(e / change * size), (*shape[:-1], 1))
    rows = reshaped(-identity(a) * size, (*shape[:-2], 1, n))
    corner = zeros_of(a.aval.with_shape((*shape[:-2], 1, 1)))
    above = joined((spread_to(expand_dims(a, axis), shape), columns), axis + 2)
    found = record(_adjugate, (joined((above, joined((rows, corner), axis + 2)), axis + 1),))
    return summed(part(part(found, axis + 1, 0, n), axis + 2, 0, n), (axis,)) / size * (change / size)


def _largest(x: Tensor) -> Tensor:
    """The size of the largest element of each matrix, and 1 of zeros, as a matrix of one: without a gradient."""
    top = max_(abs_(record(DETACH, (x,))), (x.ndim - 2, x.ndim - 1), keepdims=True)
    return cast_to(where(top == zero_of(top.dtype), number_of(1.0, top.dtype), top), x.dtype)


#: det(a) · a⁻¹, which every matrix has.
_adjugate = of_matrices(
    "adjugate",
    lambda a: of_finite(_adjugate_reference, a),
    infer=lambda a: square_aval("adjugate", a),
    vjp=lambda y_bar, y, a: (_change(adjoint(a), y_bar),),
    jvp=lambda dxs, y, a: _change(a, dxs[0]),
    lower=Dense("adjugate"),
)


_det = of_matrices(
    "det",
    np.linalg.det,
    infer=_number("det"),
    vjp=lambda y_bar, y, a: (_beside(y_bar, adjoint(record(_adjugate, (a,)))),),
    jvp=lambda dxs, y, a: _pairing(flipped_axes(record(_adjugate, (a,))), dxs[0]),
    lower=Dense("determinant"),
)


@public(records=_det)
def det(a):
    """The determinant of each matrix.   T[..., n, n]  →  T[...]     T float or complex; integers and bool give float64

    Singular matrices have derivatives of every order too: a determinant is a polynomial.
    Raises ShapeError for matrices that are not square.

    >>> ad.grad(ad.linalg.det)(ad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    f64[2,2]
    [[ 4. -3.]
     [-2.  1.]]
    """
    return record(_det, (square("det", a, "fc"),))


class SlogdetResult(NamedTuple):
    """sign · exp(logabsdet) is the determinant."""

    sign: Tensor
    logabsdet: Tensor


_sign = primitive(
    "det_sign",
    lambda a, *_: np.linalg.slogdet(a)[0],
    infer=_number("slogdet"),
    lower=Dense("sign"),
    batch=along(),
    heavy=True,
    discrete=True,
)


def _against_inverse(number: Tensor, a: Tensor, factors: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """The cotangents of a, and of its factors, where it counts by so many times the trace of a⁻¹ da."""
    return (_beside(cast_to(number, a.dtype), adjoint(inverse_or_nan(a, *factors))), *[None for _ in factors])


def _trace_of_change(da: Tensor, a: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """The trace of a⁻¹ da."""
    return _pairing(flipped_axes(inverse_or_nan(a, *factors)), da)


def _direction_vjp(y_bar, y, a, *factors):
    """Only what turns the direction counts: Re(conj(y_bar) i y), and i times it against the inverse."""
    along_turn = imaginary_part(y_bar * conjugated(y))
    return _against_inverse(cast_to(along_turn, y.dtype) * 1j, a, factors)


def _direction_jvp(dxs, y, a, *factors):
    if dxs[0] is None:
        return None
    turn = imaginary_part(_trace_of_change(dxs[0], a, factors))
    return cast_to(turn, y.dtype) * y * 1j


#: det(a) / |det(a)| of complex matrices: it turns by the imaginary part of the trace of a⁻¹ da.
_direction = of_matrices(
    "det_direction",
    lambda a, *_: np.linalg.slogdet(a)[0],
    infer=_number("slogdet"),
    vjp=_direction_vjp,
    jvp=_direction_jvp,
    lower=Dense("sign"),
)


#: Of a matrix; or of a matrix and its LU factors, by which it is computed.  So are the two above.
_log_abs_det = of_matrices(
    "log_abs_det",
    lambda a, *_: np.linalg.slogdet(a)[1],
    infer=lambda a, *_: real_aval(_number("slogdet")(a)),
    vjp=lambda y_bar, y, a, *factors: _against_inverse(y_bar, a, factors),
    jvp=lambda dxs, y, a, *factors: None if dxs[0] is None else real_part(_trace_of_change(dxs[0], a, factors)),
    lower=Dense("log_abs"),
)


def _factored_reference(a: np.ndarray, factor: np.ndarray) -> np.ndarray:
    return 2 * np.sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


def _factored_inverse(a: Tensor, factor: Tensor) -> Tensor:
    return solved_factored(a, factor, identities(a))


#: log(det(a)) of a symmetric a = factor @ factorᵀ.  As in `solve_factored`, gradients flow to a.
_log_det_factored = of_matrices(
    "log_det_factored",
    _factored_reference,
    infer=_number("log_det_factored"),
    vjp=lambda y_bar, y, a, factor: (_beside(y_bar, _factored_inverse(a, factor)), None),
    jvp=lambda dxs, y, a, factor: None if dxs[0] is None else _pairing(_factored_inverse(a, factor), dxs[0]),
    lower=Dense("log_of_factor"),
)


def log_det_factored(a: Tensor, factor: Tensor) -> Tensor:
    """log(det(a)) of symmetric positive definite matrices and their Cholesky factors."""
    return record(_log_det_factored, (a, factor))


@public()
def slogdet(a) -> SlogdetResult:
    """The sign of each determinant, and the logarithm of its size: no overflow.

    a: T[..., n, n]  →  (sign: T[...], logabsdet: f[...])     T float or complex; integers and bool give float64

    Of complex matrices the sign is the direction of the determinant, of size 1, and has a gradient.
    A singular matrix gives sign 0 and logarithm -inf; its logarithm, and of complex numbers its sign, have no gradient:
    nan.
    Raises ShapeError for matrices that are not square.

    >>> ad.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
    SlogdetResult(sign=f64[] -1.0, logabsdet=f64[] 0.0)
    >>> ad.linalg.slogdet(1e-200 * ad.eye(2)).logabsdet > -ad.inf
    bool[] True
    >>> ad.linalg.det(1e-200 * ad.eye(2))
    f64[] 0.0
    """
    a = square("slogdet", a, "fc")
    sign = _direction if a.dtype.kind == "c" else _sign
    factors = factorised(a)
    known = (a,) if factors is None else (a, factors)
    return SlogdetResult(record(sign, known), record(_log_abs_det, known))
