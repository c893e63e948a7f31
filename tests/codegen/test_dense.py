"""Linear algebra as kernels of its own: what they compute, what they refuse, and where they run."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops import linalg  # noqa: F401  its operations are in `OPS` once it is imported


def definite(rng, *shape, dtype=np.float64):
    """Well conditioned, and its upper triangle another one than the lower."""
    n = shape[-1]
    x = rng.normal(size=(*shape, n)) / np.sqrt(n)
    y = x @ x.swapaxes(-1, -2) + np.eye(n)
    return ((y + y.swapaxes(-1, -2)) / 2).astype(dtype)


def test_what_rounding_takes_from_a_solution_is_no_more_than_lapack_loses(rng):
    a, b = (rng.normal(size=(20, 60, n)).astype(np.float32) for n in (60, 1))
    a += 16 * np.eye(60, dtype=np.float32)
    pull = ad.jit(ad.value_and_grad(lambda b: (lambda x: (ad.sum(x * x), x))(ad.linalg.solve(a, b)), has_aux=True))
    (_, x), b_bar = pull(b)
    wide = a.astype(np.float64)
    solution = np.linalg.solve(wide, b)
    for found, exact in ((x, solution), (b_bar, np.linalg.solve(wide.swapaxes(1, 2), 2 * solution))):
        error = np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)) / np.finfo(np.float32).eps
        assert error < (1.25 if exact is solution else 2.3)


def test_factors_and_solutions_lose_no_more_than_lapacks_in_blocks():
    n, lost = 121, []
    solve, factor = ad.jit(ad.linalg.solve), ad.jit(ad.linalg.cholesky)
    pull = ad.jit(ad.grad(lambda b, a, c: ad.sum(ad.linalg.solve(a, b) * c)))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        a = (rng.normal(size=(n, n)) + 2 * np.sqrt(n) * np.eye(n)).astype(np.float32)
        b, c = rng.normal(size=(2, n, 1)).astype(np.float32)
        s = a @ a.T + np.float32(n) * np.eye(n, dtype=np.float32)
        wide = a.astype(np.float64)
        pairs = [
            (solve(a, b), np.linalg.solve(wide, b)), (pull(b, a, c), np.linalg.solve(wide.T, c)),
            (factor(s), np.linalg.cholesky(s.astype(np.float64))),
        ]  # fmt: skip
        lost.append([np.max(abs(x - y)) / np.max(abs(y)) / np.finfo(np.float32).eps for x, y in pairs])
    # Rounded at each four, they lost 2.0, 2.7 and 1.35; now 1.0, 1.0 and .7.
    assert (np.mean(lost, 0) < [1.5, 1.7, 1.0]).all()


@pytest.mark.parametrize("n", [3, 4, 9, 30])
def test_pivots_are_exchanged_where_a_diagonal_is_zero(n, rng):
    permutation = np.eye(n)[rng.permutation(n)]
    x = rng.normal(size=(n, 2))
    np.testing.assert_array_equal(ad.linalg.solve(permutation, permutation @ x).numpy(), x)
    np.testing.assert_array_equal(ad.linalg.inv(permutation).numpy(), permutation.T)
    # Without pivots the first rows' sum would swallow all others.
    a = np.eye(n) + np.ones((n, n))
    a[0, 0] = 1e-20
    np.testing.assert_allclose(ad.linalg.solve(a, a @ x).numpy(), x, rtol=1e-12)


@pytest.mark.parametrize("n", [3, 11])
def test_numbers_near_the_smallest_are_pivots_like_others(n):
    a = np.eye(n) * 5e-324 * 8
    np.testing.assert_array_equal(ad.linalg.solve(a, a * 3).numpy(), np.eye(n) * 3)


@pytest.mark.parametrize("n", [3, 11])
def test_nan_is_no_reason_to_refuse_a_matrix(n):
    a = np.eye(n)
    a[1, 1] = np.nan
    assert np.isnan(ad.linalg.solve(a, np.ones(n)).numpy()).any()
    assert np.isnan(ad.linalg.solve_triangular(a, np.ones(n)).numpy()).any()
    assert np.isnan(ad.linalg.cholesky(a).numpy()).any() and np.isnan(ad.linalg.inv(a).numpy()).any()


@pytest.mark.parametrize("n", [2, 12])
@pytest.mark.parametrize("batch", [1, 5, 4000])
def test_the_one_that_is_refused_is_named_at_every_call(n, batch, rng):
    a = definite(rng, batch, n)
    run = ad.jit(lambda a: (ad.linalg.inv(a), ad.linalg.cholesky(a)))
    for _ in range(3):
        run(a)
        bad = a.copy()
        bad[-1] = 0
        with pytest.raises(ad.LinAlgError, match=rf"inv: matrix \[{batch - 1}\] of {n} rows is singular\n.*test_dense"):
            run(bad)
        bad[-1] = -a[-1]
        with pytest.raises(ad.LinAlgError, match=rf"cholesky: matrix \[{batch - 1}\] of {n} rows is not positive"):
            run(bad)


def test_a_matrix_that_is_refused_in_a_loop_ends_it():
    @ad.jit
    def run(xs):
        return ad.scan(lambda c, x: (ad.linalg.solve(ad.eye(2) * x, c), None), np.ones(2), xs)[0]

    np.testing.assert_allclose(run(np.array([2.0, 4.0])), [0.125, 0.125])
    for _ in range(2):
        with pytest.raises(ad.LinAlgError, match="solve: matrix of 2 rows is singular"):
            run(np.array([2.0, 0.0]))


@pytest.mark.parametrize("n", [3, 12])
def test_singular_matrices_have_determinants_and_their_gradients(n, rng):
    for rank in range(n - 2, n):
        a = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))
        a[:, 0] = 0 if rank < n - 1 else a[:, 1]  # exactly
        assert abs(ad.linalg.det(a).numpy()) < 1e-10 * np.linalg.norm(a) ** n
        u, s, vt = np.linalg.svd(a)
        others = [np.prod(np.delete(s, i)) for i in range(n)]
        expected = np.linalg.det(u) * np.linalg.det(vt) * u @ np.diag(others) @ vt
        np.testing.assert_allclose(ad.grad(ad.linalg.det)(a), expected, atol=1e-9 * np.linalg.norm(a) ** (n - 1))


@pytest.mark.parametrize("n", [3, 12])
def test_a_determinant_may_leave_the_range_on_the_way(n):
    a = np.diag([1e200, 1e200, 1e-300] + [1.0] * (n - 3))
    np.testing.assert_allclose(ad.linalg.det(a).numpy(), 1e100, rtol=1e-12)
    np.testing.assert_allclose(ad.linalg.det(-a[::-1]).numpy(), np.linalg.det(-a[::-1]), rtol=1e-12)
    np.testing.assert_allclose(ad.linalg.det(1 / np.where(a, a, np.inf)).numpy(), 1e-100, rtol=1e-12)
