"""What linear algebra does beyond the laws of the sweep: errors, singular matrices, what is stored, symmetry."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops.linalg.substitution import substituted

la = ad.linalg


def test_a_singular_matrix_is_refused_when_the_value_is_computed():
    x = la.solve(np.ones((2, 2)), np.ones(2))
    with pytest.raises(ad.LinAlgError, match=r"solve: matrix of 2 rows is singular\n  asked at test_linalg.py:\d+, in"):
        x.numpy()


def test_the_first_singular_matrix_of_a_stack_is_named():
    a = np.stack([np.eye(2), np.zeros((2, 2))])
    with pytest.raises(ad.LinAlgError, match=r"inv: matrix \[1\] of 2 rows is singular"):
        la.inv(a).numpy()


def test_a_matrix_that_is_not_positive_definite_is_refused():
    with pytest.raises(ad.LinAlgError, match="cholesky: matrix of 2 rows is not positive definite"):
        la.cholesky(np.diag([1.0, -1.0])).numpy()


def test_a_zero_on_the_diagonal_of_a_triangle_is_named():
    a = np.triu(np.ones((2, 3, 3)))
    a[1, 2, 2] = 0
    with pytest.raises(ad.LinAlgError, match=r"element 2 of the diagonal of matrix \[1\] is 0"):
        la.solve_triangular(a, np.ones(3)).numpy()


def test_a_failed_solution_leaves_the_tape_usable():
    a = ad.tensor(np.ones((2, 2)), requires_grad=True)
    with pytest.raises(ad.LinAlgError):
        la.solve(a, np.ones(2)).sum().backward()
    assert a.grad is None
    (a * a).sum().backward()
    np.testing.assert_array_equal(a.grad, 2 * np.ones((2, 2)))


def test_numpys_own_error_catches_ours():
    with pytest.raises(np.linalg.LinAlgError):
        la.inv(np.zeros((2, 2))).numpy()


@pytest.mark.parametrize("f", [la.inv, la.det, la.cholesky, la.slogdet, lambda a: la.solve(a, a)])
def test_a_matrix_that_is_not_square_is_refused_when_recorded(f):
    with pytest.raises(ad.ShapeError, match=r"takes square matrices, not f64\[2,3\]"):
        f(np.ones((2, 3)))


def test_a_right_side_that_does_not_fit_is_refused_with_both_avals():
    with pytest.raises(ad.ShapeError, match=r"solve: f64\[3,3\] and f64\[2,3\] have no common size"):
        la.solve(np.eye(3), np.ones((2, 3)))


def test_the_gradient_of_the_determinant_of_a_singular_matrix_is_right():
    g = ad.grad(la.det)(np.diag([2.0, 3.0, 0.0]))
    np.testing.assert_allclose(g, np.diag([0.0, 0.0, 6.0]), atol=1e-14)


def test_the_gradient_of_cholesky_is_symmetric():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    g = ad.grad(lambda a: (la.cholesky(a) * np.array([[1.0, 0.0], [2.0, 3.0]])).sum())(a)
    np.testing.assert_allclose(g, g.T)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_substitution_by_blocks_solves_and_reads_one_triangle(n, lower):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, n)) + 2 * np.sqrt(n) * np.eye(n), rng.normal(size=(n, 3))
    triangle = np.tril(a) if lower else np.triu(a)
    np.testing.assert_allclose(triangle @ substituted(a, b, lower=lower), b, atol=1e-12)


def test_substitution_is_exact_where_elimination_with_pivots_would_not_be():
    # Rows of very different size: a pivot found below the diagonal would mix them.
    a = np.array([[1e-10, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(substituted(a, np.array([[1e-10], [2.0]]), lower=True), [[1.0], [1.0]])


def test_numpys_linear_algebra_records():
    a = ad.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
    for f in (np.linalg.inv, np.linalg.det, np.linalg.cholesky, lambda a: np.linalg.solve(a, np.ones(2))):
        assert f(a).requires_grad
        np.testing.assert_allclose(f(a).detach(), f(np.array([[2.0, 1.0], [1.0, 3.0]])))
    assert np.linalg.slogdet(a).logabsdet.requires_grad


def test_a_jitted_gradient_of_a_factorisation_equals_the_recorded_one():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    f = ad.grad(lambda a: la.slogdet(a).logabsdet + (la.cholesky(a) ** 2).sum() + la.inv(a).sum())
    np.testing.assert_allclose(ad.jit(f)(a), f(a), rtol=1e-15)
    np.testing.assert_allclose(f(a), np.linalg.inv(a) + np.eye(2) - np.outer(*[np.linalg.inv(a).sum(0)] * 2))
