"""Determinants, and the sign and logarithm of one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Dense
from codegen.records import NamedTuple

from ...custom import function
from ...tape import record
from ...tensor import Tensor
from ..arguments import records
from ..arithmetic import multiply, subtract
from ..batching import along
from ..complexes import conjugated, imaginary_part, real_aval, real_part
from ..contraction import matmul
from ..conversion import cast_to
from ..creation import eye
from ..primitive import primitive, spread_to
from ..reductions import summed
from ..shaping import reshaped
from .matrices import adjoint, flipped_axes, square, square_aval
from .solving import factorised, inv, inverse_by, solved_factored

__all__ = ["SlogdetResult", "det", "log_det_factored", "slogdet"]


def _number_aval(name: str, a: Aval) -> Aval:
    square_aval(name, a)
    return a.with_shape(a.shape[:-2])


def _beside(number: Tensor, matrix: Tensor) -> Tensor:
    """Each matrix times its number."""
    return multiply(reshaped(number, (*number.shape, 1, 1)), matrix)


def _pairing(a: Tensor, b: Tensor) -> Tensor:
    """The sum over each matrix of products of elements."""
    return summed(multiply(a, b), (a.ndim - 2, a.ndim - 1))


# ---------------------------------------------------------------- the adjugate


def _adjugate_reference(a: np.ndarray) -> np.ndarray:
    """By singular values, each left out in turn: right for singular matrices too.  Nan for what has nan or inf."""
    is_sound = np.isfinite(a).all((-1, -2), keepdims=True)
    u, s, vt = np.linalg.svd(np.where(is_sound, a, a.dtype.type(0)))
    n = a.shape[-1]
    others = np.prod(np.where(np.eye(n, dtype=bool), s.dtype.type(1), s[..., None, :]), axis=-1)
    sign = np.linalg.det(u) * np.linalg.det(vt)
    adjugate = sign[..., None, None] * (vt.swapaxes(-1, -2).conj() * others[..., None, :]) @ u.swapaxes(-1, -2).conj()
    return np.where(is_sound, adjugate, a.dtype.type(np.nan))


def _adjugate_vjp(y_bar, y, a):
    inverse, turned = inv(a), adjoint(y)
    first = _beside(_pairing(y_bar, conjugated(inverse)), turned)
    return (subtract(first, matmul(matmul(turned, y_bar), adjoint(inverse))),)


def _adjugate_jvp(dxs, y, a):
    inverse = inv(a)
    return subtract(_beside(_pairing(flipped_axes(y), dxs[0]), inverse), matmul(matmul(y, dxs[0]), inverse))


#: det(a) · a⁻¹, which every matrix has.  Its own derivative is that of the product, which a singular one has not.
_adjugate = primitive(
    "adjugate",
    _adjugate_reference,
    infer=lambda a: square_aval("adjugate", a),
    vjp=_adjugate_vjp,
    jvp=_adjugate_jvp,
    lower=Dense("adjugate"),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)

# ---------------------------------------------------------------- determinants

_det = primitive(
    "det",
    np.linalg.det,
    infer=lambda a: _number_aval("det", a),
    vjp=lambda y_bar, y, a: (_beside(y_bar, adjoint(record(_adjugate, (a,)))),),
    jvp=lambda dxs, y, a: _pairing(flipped_axes(record(_adjugate, (a,))), dxs[0]),
    lower=Dense("determinant"),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


@records(_det)
def det(a):
    """The determinant of each matrix.   T[..., n, n]  →  T[...]     T float or complex; integers and bool give float64

    Singular matrices have gradients too, but no second derivatives: LinAlgError when such a value is computed.
    Raises ShapeError for matrices that are not square.

    >>> import autodiff as ad
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
    infer=lambda a, *_: _number_aval("slogdet", a),
    lower=Dense("sign"),
    batch=along(),
    heavy=True,
    discrete=True,
)


def _turn(number: Tensor, y: Tensor) -> Tensor:
    """i times a real number times a direction."""
    return multiply(multiply(cast_to(number, y.dtype), y), 1j)


def _against_inverse(number: Tensor, a: Tensor, factors: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """The cotangents of a, and of its factors, where it counts by so many times the trace of a⁻¹ da."""
    return (_beside(cast_to(number, a.dtype), adjoint(inverse_by(a, *factors))), *[None for _ in factors])


def _trace_of_change(dxs: Sequence[Tensor | None], a: Tensor, factors: Sequence[Tensor]) -> Tensor | None:
    """The trace of a⁻¹ da."""
    return None if dxs[0] is None else _pairing(flipped_axes(inverse_by(a, *factors)), dxs[0])


def _direction_vjp(y_bar, y, a, *factors):
    """Only what turns the direction counts: Re(conj(y_bar) i y), and i times it against the inverse."""
    along_turn = imaginary_part(multiply(y_bar, conjugated(y)))
    return _against_inverse(multiply(cast_to(along_turn, y.dtype), 1j), a, factors)


def _direction_jvp(dxs, y, a, *factors):
    change = _trace_of_change(dxs, a, factors)
    return None if change is None else _turn(imaginary_part(change), y)


#: det(a) / |det(a)| of complex matrices: it turns by the imaginary part of the trace of a⁻¹ da.
_direction = primitive(
    "det_direction",
    lambda a, *_: np.linalg.slogdet(a)[0],
    infer=lambda a, *_: _number_aval("slogdet", a),
    vjp=_direction_vjp,
    jvp=_direction_jvp,
    lower=Dense("sign"),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


def _log_abs_jvp(dxs, y, a, *factors):
    change = _trace_of_change(dxs, a, factors)
    return None if change is None else real_part(change)


#: Of a matrix; or of a matrix and its LU factors, by which it is computed.  So are the two above.
_log_abs_det = primitive(
    "log_abs_det",
    lambda a, *_: np.linalg.slogdet(a)[1],
    infer=lambda a, *_: real_aval(_number_aval("slogdet", a)),
    vjp=lambda y_bar, y, a, *factors: _against_inverse(y_bar, a, factors),
    jvp=_log_abs_jvp,
    lower=Dense("log_abs"),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


def _factored_reference(a: np.ndarray, factor: np.ndarray) -> np.ndarray:
    return 2 * np.sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


def _factored_inverse(a: Tensor, factor: Tensor) -> Tensor:
    return solved_factored(a, factor, spread_to(eye(a.shape[-1], dtype=a.dtype), a.shape))


#: log(det(a)) of a symmetric a = factor @ factorᵀ.  As in `solve_factored`, gradients flow to a.
_log_det_factored = primitive(
    "log_det_factored",
    _factored_reference,
    infer=lambda a, factor: _number_aval("log_det_factored", a),
    vjp=lambda y_bar, y, a, factor: (_beside(y_bar, _factored_inverse(a, factor)), None),
    jvp=lambda dxs, y, a, factor: None if dxs[0] is None else _pairing(_factored_inverse(a, factor), dxs[0]),
    lower=Dense("log_of_factor"),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


def log_det_factored(a: Tensor, factor: Tensor) -> Tensor:
    """log(det(a)) of symmetric positive definite matrices and their Cholesky factors."""
    return record(_log_det_factored, (a, factor))


@function
def slogdet(a):
    """The sign of each determinant, and the logarithm of its size: no overflow.

    a: T[..., n, n]  →  (sign: T[...], logabsdet: f[...])     T float or complex; integers and bool give float64

    Of complex matrices the sign is the direction of the determinant, of size 1, and has a gradient.
    A singular matrix gives sign 0 and logarithm -inf, and has no gradient: LinAlgError when it is computed.
    Raises ShapeError for matrices that are not square.

    >>> import autodiff as ad
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
