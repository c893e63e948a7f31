"""The law of linear algebra at special matrices: derivatives of both orders are those of many digits, or nan.

A function is followed along a line a + t v with 60 digits.  Where the line has a slope, so has the gradient; where it
has a corner, the gradient lies between its sides and a second derivative is nan.  Never is there an error or another
number, whichever way it is computed.
"""

import functools

import mpmath as mp
import numpy as np
import pytest
from covering import covering

import autodiff as ad

la = ad.linalg
DIGITS, STEP = 60, mp.mpf(10) ** -9
W = np.random.default_rng(7).normal(size=(3, 3))
Q = np.linalg.qr(np.random.default_rng(8).normal(size=(3, 3)))[0]

MATRICES = {
    "regular": W + 3 * np.diag([1.0, 2.0, 3.0]),
    "singular": np.diag([2.0, 3.0, 0.0]),
    "turned singular": Q @ np.diag([2.0, 3.0, 0.0]) @ Q.T,
    "zero": np.zeros((3, 3)),
    "identity": np.eye(3),
    "repeated": np.diag([2.0, 2.0, 5.0]),
    "turned repeated": Q @ np.diag([2.0, 2.0, 5.0]) @ Q.T,
    "repeated largest": np.diag([5.0, 1.0, 5.0]),
    "rank one": np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 1.0]),
    "reflection": np.diag([1.0, -1.0, 1.0]),
}


def _w(a):
    return W.astype(a.dtype)


def _sum(x):
    return (x * _w(x)).sum()


def _singular_values(a):
    return mp.svd_r(a, compute_uv=False)


def _eigenvalues(a):
    return mp.eigsy((a + a.T) / 2, eigvals_only=True)


def _weighted(x):
    return mp.fsum(x[i, j] * mp.mpf(W[i, j]) for i in range(3) for j in range(3))


def _log_abs(a):
    d = mp.det(a)
    return mp.log(abs(d)) if d else -mp.inf


def _cond(a):
    s = list(_singular_values(a))
    return max(s) / min(s) if min(s) > max(s) * mp.mpf(10) ** -40 else mp.inf


def _first_pair(a):
    u, s, v = mp.svd_r(a)
    i = max(range(3), key=lambda i: s[i])
    return _weighted(u[:, i] * v[i, :])


def _last_vector(a):
    _, v = mp.eigsy((a + a.T) / 2)
    return _weighted(v[:, 2] * v[:, 2].T)


def _cholesky(a):
    scale = max(abs(x) for x in a)  # many digits are not enough for 1e-150 in it
    return _weighted(mp.cholesky((a + a.T) / (2 * scale))) * mp.sqrt(scale)


def _squares(x):
    return x.apply(lambda e: e * e)


def _inverse(a):
    return a**-1 if mp.det(a) else None


#: name: (the function, the same in many digits, whether equal values leave second derivatives unknown)
FUNCTIONS = {
    "det": (la.det, mp.det, False),
    "slogdet": (lambda a: la.slogdet(a).logabsdet, _log_abs, False),
    "inv": (lambda a: _sum(la.inv(a)), lambda a: _weighted(_inverse(a)), False),
    "solve": (lambda a: _sum(la.solve(a, _w(a))), lambda a: _weighted(_inverse(a) * mp.matrix(W.tolist())), False),
    "pinv": (lambda a: _sum(la.pinv(a)), lambda a: _weighted(_inverse(a)), False),
    "lstsq": (lambda a: _sum(la.lstsq(a, _w(a)).x), lambda a: _weighted(_inverse(a) * mp.matrix(W.tolist())), False),
    "matrix_power": (lambda a: _sum(la.matrix_power(a, 5)), lambda a: _weighted(a**5), False),
    "norm-nuc": (lambda a: la.norm(a, "nuc"), lambda a: mp.fsum(_singular_values(a)), False),
    "norm-nuc-square": (lambda a: la.norm(a, "nuc") ** 2, lambda a: mp.fsum(_singular_values(a)) ** 2, True),
    "norm-2": (lambda a: la.norm(a, 2), lambda a: max(_singular_values(a)), False),
    "norm--2": (lambda a: la.matrix_norm(a, ord=-2), lambda a: min(_singular_values(a)), False),
    "cond": (la.cond, _cond, False),
    "svdvals-sum": (lambda a: la.svdvals(a).sum(), lambda a: mp.fsum(_singular_values(a)), False),
    "svdvals-squares": (
        lambda a: (la.svdvals(a) ** 2).sum(), lambda a: mp.fsum(s * s for s in _singular_values(a)), True),
    "svdvals-largest": (lambda a: la.svd(a).S[0], lambda a: max(_singular_values(a)), False),
    "eigvalsh-sum": (lambda a: la.eigvalsh(a).sum(), lambda a: mp.fsum(_eigenvalues(a)), False),
    "eigvalsh-squares": (
        lambda a: (la.eigvalsh(a) ** 2).sum(), lambda a: mp.fsum(w * w for w in _eigenvalues(a)), True),
    "eigh-largest": (lambda a: la.eigh(a).eigenvalues[2], lambda a: max(_eigenvalues(a)), False),
    "svd-vectors": (lambda a: (lambda u, s, v: _sum(u[:, :1] @ v[:1]))(*la.svd(a)), _first_pair, True),
    "eigh-vectors": (lambda a: (lambda w, v: _sum(v[:, 2:] @ v[:, 2:].mT))(*la.eigh(a)), _last_vector, True),
    "qr-r": (lambda a: _sum(la.qr(a).R ** 2), lambda a: _weighted(_squares(mp.qr(a)[1])), True),
    "cholesky": (lambda a: _sum(la.cholesky(a)), _cholesky, False),
}  # fmt: skip


def _line(f, a, v):
    """The slopes before and after a, the curvature there, and whether there is a corner; None where f is infinite."""
    size = mp.mpf(float(np.abs(a).max())) or mp.mpf(1)
    a, v, h = mp.matrix(a.tolist()), mp.matrix(v.tolist()), STEP * size
    lowest, low, here, high, highest = (f(a + t * v) for t in (-h, -h / 2, mp.mpf(0), h / 2, h))
    if not mp.isfinite(here):
        return None
    turns = highest - 2 * here + lowest, high - 2 * here + low  # a quarter, and half at a corner
    is_corner = abs(turns[1]) > abs(turns[0]) / 3
    return 2 * (here - low) / h, 2 * (high - here) / h, turns[0] / h**2, is_corner


def _recorded(f, a, v):
    t = ad.tensor(a, requires_grad=True)
    (g,) = ad.grad(f(t), [t], create_graph=True)
    (twice,) = ad.grad((g * v).sum(), [t], allow_unused=True)
    return g.detach().numpy(), np.zeros_like(a) if twice is None else twice.numpy()


#: The gradient and the product of the Hessian with v, each way they are computed.
WAYS = {
    "grad": lambda f, a, v: (ad.grad(f)(a), ad.hvp(f, (a,), (v,))),
    "jit": lambda f, a, v: (ad.jit(ad.grad(f))(a), ad.jit(lambda a: ad.hvp(f, (a,), (v,)))(a)),
    "backward": _recorded,
}


@functools.cache
def _line_at(name, matrix, dtype, exponent):
    """A matrix, a direction, and the function along it in many digits; an error where there is no inverse or factor."""
    a = (MATRICES[matrix] * 10.0**exponent).astype(dtype)
    v = np.random.default_rng(9).normal(size=(3, 3)).astype(dtype)
    try:
        with mp.workdps(DIGITS):
            return a, v, _line(FUNCTIONS[name][1], a, v)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        return a, v, error


def _check(name, matrix, way, dtype=np.float64, exponent=0):
    f, _, is_unknown = FUNCTIONS[name]
    a, v, found = _line_at(name, matrix, dtype, exponent)
    if isinstance(found, Exception):
        with pytest.raises(ad.LinAlgError):
            np.asarray(f(a))
        return
    if found is None or not _is_representable(found[:3], a.dtype):
        found = found and (mp.nan,) * 4
    with np.errstate(all="ignore"):
        g, hv = WAYS[way](f, a, v)
    rtol = 1e-9 if dtype is np.float64 else 1e-4
    _compare(way, g.astype(np.float64), hv.astype(np.float64), a, v, found, rtol, is_unknown)


def _is_representable(numbers, dtype):
    limits = np.finfo(dtype)
    return all(not x or float(limits.tiny) < abs(x) < float(limits.max) for x in numbers)


def _compare(way, g, hv, a, v, found, rtol, is_unknown):
    slope, curvature = float(np.vdot(g, v)), float(np.vdot(hv, v))
    if found is None:
        assert np.isnan(slope) and np.isnan(curvature), way
        return
    low, high, bend = (float(x) for x in found[:3])
    size = max(abs(low), abs(high), float(np.abs(np.where(np.isfinite(g), g, 0)).max()))
    if found[3] and abs(high - low) > 1e-9 * size:
        lies_between = min(low, high) - rtol * size <= slope <= max(low, high) + rtol * size
        assert np.isnan(slope) or lies_between, (way, slope, low, high)
        assert np.isnan(curvature), (way, curvature)
    elif not np.isnan(low):
        error = abs(slope - (low + high) / 2)
        bound = rtol * size + (0 if a.any() else 1e-15)
        assert error <= bound or (is_unknown and np.isnan(slope)), (way, slope, low, high)
        error, scale = abs(curvature - bend), float(np.abs(a).max()) or 1.0
        bound = 30 * rtol * (size / scale + float(np.abs(np.where(np.isfinite(hv), hv, 0)).max()))
        assert error <= bound or (is_unknown and np.isnan(curvature)), (way, curvature, bend)


#: Of these a matrix that rounding keeps from being singular is no matter of this law, and pinv jumps at singular ones.
_INVERSES = ("slogdet", "inv", "solve", "pinv", "lstsq", "cond", "cholesky", "qr-r")
_JUMPS = ("pinv", "lstsq")
#: Singular matrices whose smallest value is not 0 as LAPACK rounds on this processor: their condition is a number.
_ROUNDED = {n for n, a in MATRICES.items() if 0 < np.linalg.svd(a)[1][-1] < 1e-15 * np.linalg.norm(a)}
CASES = [
    (name, matrix)
    for name in FUNCTIONS
    for matrix, a in MATRICES.items()
    if not (name in _INVERSES and matrix == "turned singular")
    and not (name == "cond" and matrix in _ROUNDED)
    and (name not in _JUMPS or np.linalg.matrix_rank(a) == 3)
]


@covering(case=CASES, way=WAYS)
def test_derivatives_at_special_matrices_are_those_of_many_digits_or_nan(case, way):
    _check(*case, way)


SCALES = [(np.float64, 150), (np.float64, -150), (np.float32, 20), (np.float32, -20)]
SCALED = [c for c in CASES if c[1] in ("regular", "singular", "repeated")]


@covering(times=2, case=SCALED, scale=SCALES, way=WAYS)
def test_derivatives_of_very_large_and_very_small_matrices_are_those_of_many_digits(case, scale, way):
    _check(*case, way, *scale)


def _products(x):
    """The derivatives of a product, each made of the other factors."""
    n = range(len(x))
    others = [[np.prod([x[k] for k in n if k not in (i, j)]) if i != j else 0.0 for j in n] for i in n]
    return [np.prod(np.delete(x, i)) for i in n], others


@pytest.mark.parametrize("f", [ad.prod, lambda x: ad.cumprod(x)[-1]], ids=["prod", "cumprod"])
@pytest.mark.parametrize(
    "x", [[2, 3, 0], [0, 0, 3], [0, 0, 0, 5], [1, 0, 2, 0], [0], [1e-200, 1e200, 3], [1e-200, 1e-200, 1e300], [2, -3]]
)
def test_derivatives_of_products_with_zeros_are_products_of_the_others(f, x):
    x = np.array(x, float)
    gradient, hessian = _products(x)
    np.testing.assert_allclose(ad.grad(f)(x), gradient, rtol=1e-12)
    np.testing.assert_allclose(ad.hessian(f)(x), hessian, rtol=1e-12)


@pytest.mark.parametrize("f", [ad.sqrt, lambda x: x**0.5, np.sqrt], ids=["sqrt", "power", "numpy"])
def test_the_slope_of_a_root_at_either_zero_is_infinite_and_falls(f):
    for zero in (0.0, -0.0):
        x = np.array([zero])
        total = ad.jit(ad.grad(lambda x: ad.sum(f(x))))
        assert ad.grad(lambda x: ad.sum(f(x)))(x) == total(x) == np.inf
        assert ad.hessian(lambda x: ad.sum(f(x)))(x) == -np.inf


@pytest.mark.parametrize("n", [3, 6])
@pytest.mark.parametrize("rank", [0, 1])
def test_changes_of_one_matrix_are_those_of_each_by_itself(n, rank, rng):
    """Directions of a Hessian product share the matrix's factorisation, to the third order, regular or singular."""
    a = rng.normal(size=(n, n))
    a[:, :rank] = 0
    directions = rng.normal(size=(3, 2, n, n))

    def product(a, v):
        return ad.hvp(la.det, (a,), (v,))

    def both(a, v):
        third = ad.grad(lambda a: ad.sum(product(a, v) ** 2))(a)
        return product(a, v), third, ad.jvp(lambda a: product(a, v), (a,), (v,))[1]

    together = ad.vmap(ad.vmap(both, in_axes=(None, 0)), in_axes=(None, 0))
    by_itself = zip(*[both(a, v) for row in directions for v in row], strict=True)
    expected = [np.reshape(each, directions.shape) for each in by_itself]
    for found in (together(a, directions), ad.jit(together)(a, directions)):
        for one, true in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, true, rtol=1e-9, atol=1e-9)
    many = ad.vmap(ad.hessian(la.det))(np.stack([a, a + np.eye(n)]))
    np.testing.assert_allclose(many[1], ad.hessian(la.det)(a + np.eye(n)), rtol=1e-9, atol=1e-9)
    flat = np.stack([[ad.hvp(la.det, (a,), (e.reshape(n, n),)) for e in np.eye(n * n)]]).reshape(n, n, n, n)
    np.testing.assert_allclose(ad.hessian(la.det)(a), flat.transpose(2, 3, 0, 1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ord", [2, "nuc"])
def test_the_second_derivative_of_the_square_of_a_norm_is_unknown_where_all_values_are_0(ord):
    assert np.isnan(ad.hessian(lambda a: la.norm(a, ord) ** 2)(np.zeros((2, 2)))).all()
