"""Cases of linear algebra: systems, factors, inverses, determinants, triangles."""

import numpy as np

import autodiff as ad
from autodiff.ops.linalg.determinant import _adjugate, log_det_factored
from autodiff.ops.linalg.solving import solved_factored

from .cases import between, case, cases

la = ad.linalg
SYSTEMS = (("[3,3]", "[3]"), ("[3,3]", "[3,2]"), ("[2,3,3]", "[3,2]"), ("[1,1]", "[1,4]"), ("[2,2]", "[3,2,1]"),
           ("[0,0]", "[0,2]"), ("[3,3]", "[3,0]"))  # fmt: skip
SQUARES = ("[3,3]", "[1,1]", "[2,3,3]", "[0,0]")


def _regular(rng, shape):
    """Matrices far from singular ones."""
    return rng.uniform(-1, 1, shape) + 3 * np.eye(shape[-1])


def _heavy(rng, shape):
    """Matrices whose diagonal outweighs the rest, however many rows they have."""
    return rng.uniform(-1, 1, shape) + 2 * shape[-1] * np.eye(shape[-1])


def _numpy_solve(a, b):
    return np.linalg.solve(a, b[:, None])[..., 0] if b.ndim == 1 else np.linalg.solve(a, b)


def _turned(a):
    """A complex matrix of a real one, whose determinant has a direction that changes."""
    return a + 1j * (a * a)


def _numpy_direction(a):
    return np.linalg.slogdet(a + 1j * (a * a))[0].real.astype(a.dtype)


def _definite(x):
    """A symmetric positive definite matrix of any."""
    return x @ x.mT + ad.eye(x.shape[-1], dtype=x.dtype)


def _numpy_definite(x):
    return x @ x.swapaxes(-1, -2) + np.eye(x.shape[-1], dtype=x.dtype)


def _factored_solve(x, b):
    a = _definite(x)
    return solved_factored(a, la.cholesky(a), b)


def _factored_log_det(x):
    a = _definite(x)
    return log_det_factored(a, la.cholesky(a))


def _apart(rng, shape):
    """Matrices whose symmetric part has eigenvalues far from each other."""
    return rng.uniform(-1, 1, shape) + np.diag(4.0 * np.arange(shape[-1]))


def _function_of(x, eigh, exp):
    """exp(x / 8) of a symmetric matrix, by its eigenvectors."""
    w, v = eigh((x + x.mT) / 2)
    return (v * exp(w / 8)[..., None, :]) @ v.mT


def _tall(rng, shape):
    """Matrices with independent columns, or rows, whose singular values are far from each other."""
    return rng.uniform(-1, 1, shape) + np.eye(*shape[-2:]) * (3.0 * np.arange(1, shape[-1] + 1))


def _rebuilt(x, svd, exp):
    """Another function of the singular values, with the same vectors: their signs do not count."""
    u, s, vh = svd(x, full_matrices=False)
    return (u * exp(s / 8)[..., None, :]) @ vh


def _projected(x, svd):
    u, _, vh = svd(x, full_matrices=False)
    return u[..., :, :1] @ vh[..., :1, :]


def _numpy_lstsq(a, b):
    return np.linalg.pinv(a) @ b


MATRICES = ("[3,3]", "[4,2]", "[2,4]", "[1,1]", "[2,3,2]", "[2,2,3]")
EMPTY = ("[0,0]", "[3,0]", "[0,3]")

CASES = [
    *[c for i, part in enumerate("QR") for c in cases(
        f"qr-{part}", lambda x, i=i: la.qr(x)[i], lambda x, i=i: np.linalg.qr(x)[i], _tall, shapes=MATRICES + EMPTY,
        ulps=256)],
    *cases("svd", lambda x: _rebuilt(x, la.svd, ad.exp), lambda x: _rebuilt(x, np.linalg.svd, np.exp), _tall,
           shapes=MATRICES + EMPTY, ulps=256),
    *cases("svd-first", lambda x: _projected(x, la.svd), lambda x: _projected(x, np.linalg.svd), _tall,
           shapes=("[3,3]", "[4,2]", "[2,4]"), ulps=256),
    *cases("svd-full", lambda x: la.svd(x).U @ la.svd(x).U.mT, lambda x: np.eye(x.shape[-2], dtype=x.dtype), _tall,
           shapes=("[4,2]", "[2,4]"), smooth=False, ulps=256),
    *cases("svdvals", la.svdvals, lambda x: np.linalg.svd(x, compute_uv=False), _tall, shapes=MATRICES + EMPTY,
           ulps=256),
    *cases("pinv", la.pinv, np.linalg.pinv, _tall, shapes=MATRICES + EMPTY, ulps=256),
    *cases("lstsq", lambda a, b: la.lstsq(a, b).x, _numpy_lstsq, (_tall, None),
           shapes=(("[4,2]", "[4,3]"), ("[4,2]", "[4]"), ("[2,3]", "[2,1]"), ("[2,4,2]", "[2,4,1]")), ulps=256),
    *cases("lstsq-residuals", lambda a, b: la.lstsq(a, b).residuals,
           lambda a, b: ((a @ _numpy_lstsq(a, b) - b) ** 2).sum(0), (_tall, None),
           shapes=(("[4,2]", "[4,3]"),), ulps=1024),
    *cases("lstsq-rank", lambda a, b: la.lstsq(a, b).rank, lambda a, b: np.linalg.matrix_rank(a), (_tall, None),
           shapes=(("[4,2]", "[4,3]"), ("[2,4,2]", "[2,4,1]")), smooth=False),
    *cases("solve", la.solve, _numpy_solve, (_regular, None), shapes=SYSTEMS, ulps=64),
    case("solve-of-integers", la.solve, np.linalg.solve, ["i64[2,2]", "i32[2,1]"],
         [lambda rng, shape: np.array([[2, 1], [1, 3]]), None], ulps=64),
    *[c for lower, cut in ((True, np.tril), (False, np.triu))
      for c in cases(f"solve_triangular-{'lower' if lower else 'upper'}",
                     lambda a, b, lower=lower: la.solve_triangular(a, b, lower=lower),
                     lambda a, b, cut=cut: _numpy_solve(cut(a), b), (_regular, None), shapes=SYSTEMS, ulps=64)],
    *cases("inv", la.inv, np.linalg.inv, _regular, shapes=SQUARES, ulps=64),
    *cases("cholesky", lambda x: la.cholesky(_definite(x)), lambda x: np.linalg.cholesky(_numpy_definite(x)),
           between(-1, 1), shapes=SQUARES, ulps=256),
    *cases("solve_factored", _factored_solve, lambda x, b: np.linalg.solve(_numpy_definite(x), b),
           (between(-1, 1), None), shapes=(("[3,3]", "[3,2]"), ("[2,3,3]", "[2,3,1]")), ulps=256),
    *cases("solve-kept", la.solve, _numpy_solve, (_heavy, None), shapes=(("[9,9]", "[9]"), ("[2,10,10]", "[10,2]")),
           ulps=64),
    *cases("slogdet-kept", lambda a: la.slogdet(a).logabsdet, lambda a: np.linalg.slogdet(a)[1], _heavy,
           shapes=("[9,9]", "[2,10,10]"), ulps=64),
    *cases("det", la.det, np.linalg.det, _regular, shapes=SQUARES, ulps=64),
    *cases("slogdet", lambda a: la.slogdet(a).logabsdet, lambda a: np.linalg.slogdet(a)[1], _regular, shapes=SQUARES,
           ulps=64),
    *cases("slogdet-sign", lambda a: la.slogdet(a).sign, lambda a: np.linalg.slogdet(a)[0], _regular, shapes=SQUARES,
           smooth=False),
    *cases("slogdet-direction", lambda a: ad.real(la.slogdet(_turned(a)).sign), lambda a: _numpy_direction(a), _regular,
           shapes=SQUARES, ulps=256),
    *cases("log_det_factored", _factored_log_det, lambda x: np.linalg.slogdet(_numpy_definite(x))[1], between(-1, 1),
           shapes=SQUARES, ulps=256),
    *cases("eigvalsh", la.eigvalsh, lambda x: np.linalg.eigvalsh((x + x.mT) / 2), _apart, shapes=SQUARES, ulps=64),
    *cases("eigh", lambda x: _function_of(x, la.eigh, ad.exp), lambda x: _function_of(x, np.linalg.eigh, np.exp),
           _apart, shapes=SQUARES, ulps=256),
    *cases("adjugate", _adjugate, lambda a: np.linalg.det(a)[..., None, None] * np.linalg.inv(a), _regular,
           shapes=("[3,3]", "[2,2,2]", "[1,1]"), ulps=256),
    *[c for n in (1, 5, -2) for c in cases(
        f"matrix_power{n}", lambda a, n=n: la.matrix_power(a, n), lambda a, n=n: np.linalg.matrix_power(a, n), _regular,
        shapes=("[3,3]", "[2,2,2]"), ulps=256)],
    *cases("multi_dot", lambda a, b, c: la.multi_dot([a, b, c]), lambda a, b, c: np.linalg.multi_dot([a, b, c]),
           shapes=(("[2,3]", "[3,4]", "[4]"), ("[3]", "[3,2]", "[2,4]")), ulps=64),
    *cases("matrix_rank", la.matrix_rank, np.linalg.matrix_rank, _regular, shapes=("[3,3]", "[2,3,3]"), smooth=False),
    *[c for order in ("fro", 2, 1) for c in cases(
        f"matrix_norm-{order}", lambda x, order=order: la.matrix_norm(x, ord=order),
        lambda x, order=order: np.linalg.norm(x, order, (-2, -1)), _apart, shapes=("[3,3]", "[2,3,3]"), ulps=64)],
    *[c for order in (2, 3) for c in cases(
        f"vector_norm-{order}", lambda x, order=order: la.vector_norm(x, axis=-1, ord=order),
        lambda x, order=order: np.linalg.norm(x, order, -1), between(0.5, 2.0), shapes=("[3]", "[2,3]"), ulps=64)],
    *[c for k in (-1, 0, 2) for name in ("tril", "triu")
      for c in cases(f"{name}{k}", lambda x, name=name, k=k: getattr(ad, name)(x, k),
                     lambda x, name=name, k=k: getattr(np, name)(x, k), dtypes=("f64", "f32", "i32", "bool"),
                     shapes=("[3,4]", "[2,3,2]", "[0,2]"))],
]  # fmt: skip
