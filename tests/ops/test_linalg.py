"""Linear algebra beyond the laws of the sweep: errors, singular matrices, what is stored, symmetry."""

import numpy as np
import pytest

import autodiff as ad

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


@pytest.mark.parametrize("f", [la.inv, la.det, la.cholesky, la.slogdet, la.eigh, la.eigvalsh, lambda a: la.solve(a, a)])
def test_a_matrix_that_is_not_square_is_refused_when_recorded(f):
    with pytest.raises(ad.ShapeError, match=r"takes square matrices, not f64\[2,3\]"):
        f(np.ones((2, 3)))


def test_a_right_side_that_does_not_fit_is_refused_with_both_avals():
    with pytest.raises(ad.ShapeError, match=r"solve: f64\[3,3\] and f64\[2,3\] have no common size"):
        la.solve(np.eye(3), np.ones((2, 3)))


def test_the_gradient_of_the_determinant_of_a_singular_matrix_is_right():
    g = ad.grad(la.det)(np.diag([2.0, 3.0, 0.0]))
    np.testing.assert_allclose(g, np.diag([0.0, 0.0, 6.0]), atol=1e-14)


def _minor(a, rows, columns):
    return np.linalg.det(np.delete(np.delete(a, rows, 0), columns, 1))


def _cofactors_of_cofactors(a):
    """The second derivatives of a determinant, by minors without two rows and two columns."""
    n = len(a)
    found = np.zeros((n, n, n, n))
    for i, j, k, m in np.ndindex(n, n, n, n):
        if i != k and j != m:
            sign = (-1.0) ** (i + j + k + m) * (1 if (i < k) == (j < m) else -1)
            found[i, j, k, m] = sign * _minor(a, [i, k], [j, m])
    return found


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_second_derivatives_of_a_determinant_are_cofactors_of_cofactors_whatever_the_rank(n, rank, rng):
    a = rng.normal(size=(n, min(rank, n))) @ rng.normal(size=(min(rank, n), n))
    expected = _cofactors_of_cofactors(a)
    np.testing.assert_allclose(ad.hessian(la.det)(a), expected, atol=1e-12 * 10**n)
    v = rng.normal(size=(n, n))
    pushed = np.einsum("ijkl,kl->ij", expected, v)
    np.testing.assert_allclose(ad.hvp(la.det, (a,), (v,)), pushed, atol=1e-11 * 10**n)
    np.testing.assert_allclose(ad.jit(lambda a: ad.hvp(la.det, (a,), (v,)))(a), pushed, atol=1e-11 * 10**n)
    t = ad.tensor(a, requires_grad=True)
    (g,) = ad.grad(la.det(t), [t], create_graph=True)
    (g * v).sum().backward()
    np.testing.assert_allclose(t.grad, pushed, atol=1e-11 * 10**n)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_third_derivatives_of_a_determinant_are_those_of_the_second_ones(dtype, rng):
    a, v, w = rng.normal(size=(3, 4, 1)) @ rng.normal(size=(3, 1, 4)) + 1j * rng.normal(size=(3, 4, 4))
    a, v, w = (x if dtype is np.complex128 else x.real for x in (a, v, w))

    def f(a):
        return ad.real(la.det(a) * (2 + 1j))

    def second(a):
        return ad.hvp(f, (a,), (v,))

    found = ad.jvp(second, (a,), (w,))[1]
    np.testing.assert_allclose(found, (second(a + 1e-5 * w) - second(a - 1e-5 * w)) / 2e-5, atol=1e-8)
    pulled = ad.vjp(second, a)[1](w)[0]
    np.testing.assert_allclose(pulled, found, atol=1e-12)


@pytest.mark.parametrize("size", [1e-20, 1e-10, 1.0, 1e10])
@pytest.mark.parametrize("change", [1e-25, 1.0, 1e15])
@pytest.mark.parametrize("n", [2, 3, 4, 6, 9])
def test_second_derivatives_of_a_determinant_keep_their_digits_at_any_size(n, size, change, rng):
    a, v = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    inverse = np.linalg.inv(a)
    turned = np.linalg.det(a) * (np.trace(inverse @ v) * inverse - inverse @ v @ inverse).T
    expected = size ** (n - 2) * change * turned
    atol = 1e-10 * np.abs(expected).max()
    np.testing.assert_allclose(ad.hvp(la.det, (a * size,), (v * change,)), expected, atol=atol)
    t = ad.tensor(a * size, requires_grad=True)
    (g,) = ad.grad(la.det(t), [t], create_graph=True)
    (pulled,) = ad.grad(ad.sum(g * (v * change)), [t])
    np.testing.assert_allclose(pulled, expected, atol=atol)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("n", [1, 3, 9, 12])
def test_the_logarithm_of_a_determinant_has_derivatives_that_are_nan_where_it_is_infinite(n, dtype, rng):
    a = np.stack([(np.eye(n) + rng.normal(size=(n, n)) / 8).astype(dtype), np.zeros((n, n), dtype)])
    v = rng.normal(size=a.shape).astype(dtype)

    def f(a):
        return la.slogdet(a).logabsdet.sum()

    for found, expected in (
        (ad.grad(f)(a), np.linalg.inv(a[0]).conj().T),
        (ad.hvp(f, (a,), (v,)), -(np.linalg.inv(a[0]) @ v[0] @ np.linalg.inv(a[0])).conj().T),
        (ad.jvp(lambda a: la.slogdet(a).logabsdet, (a,), (v,))[1], np.trace(np.linalg.inv(a[0]) @ v[0]).real),
    ):
        np.testing.assert_allclose(found[0], expected, atol=1e-12)
        assert np.isnan(found[1]).all()


def test_the_gradient_of_cholesky_is_symmetric():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    g = ad.grad(lambda a: (la.cholesky(a) * np.array([[1.0, 0.0], [2.0, 3.0]])).sum())(a)
    np.testing.assert_allclose(g, g.T)


def test_eigenvectors_are_orthonormal_and_make_the_symmetric_part_again(rng):
    x = rng.normal(size=(2, 4, 4))
    a = (x + x.mT) / 2
    for matrix, expected in ((x, a), (x + 1j * rng.normal(size=x.shape), None)):
        expected = (matrix + matrix.conj().mT) / 2 if expected is None else expected
        w, v = (np.asarray(t) for t in la.eigh(matrix))
        assert w.dtype == np.float64 and (np.diff(w) > 0).all()
        np.testing.assert_allclose(v.conj().mT @ v, np.broadcast_to(np.eye(4), v.shape), atol=1e-14)
        np.testing.assert_allclose(v * w[..., None, :] @ v.conj().mT, expected, atol=1e-13)


def test_gradients_of_a_function_of_a_hermitian_matrix_are_those_of_differences(rng):
    a, b, *directions = [rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)) for _ in range(6)]

    def f(a):
        w, v = la.eigh(a)
        return ad.real((v * ad.exp(w / 4) @ ad.conj(v.mT) * b).sum())

    g = ad.grad(f)(a)
    np.testing.assert_allclose(g, g.conj().T, atol=1e-14)
    for d in directions:
        difference = (f(a + 1e-6 * d) - f(a - 1e-6 * d)).item() / 2e-6
        np.testing.assert_allclose(np.sum(g.conj() * d).real, difference, rtol=1e-7)


def test_second_derivatives_at_equal_eigenvalues_are_nan_and_never_wrong_numbers():
    for f in (lambda a: la.eigvalsh(a)[0], lambda a: (la.eigvalsh(a) ** 2).sum()):
        assert np.isnan(ad.hessian(f)(np.eye(2))).any()
        found, h = ad.hessian(f)(np.diag([1.0, 2.0])), 1e-5
        for i, j in np.ndindex(2, 2):
            moved = h * np.eye(2)[:, [i]] @ np.eye(2)[[j]]
            slope = (ad.grad(f)(np.diag([1.0, 2.0]) + moved) - ad.grad(f)(np.diag([1.0, 2.0]) - moved)) / (2 * h)
            np.testing.assert_allclose(found[..., i, j], slope, atol=1e-8)


def test_equal_eigenvalues_have_gradients_and_their_vectors_have_not():
    np.testing.assert_array_equal(ad.grad(lambda a: la.eigvalsh(a).sum())(np.eye(3)), np.eye(3))
    a, q = np.diag([1.0, 1.0, 5.0]), np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 0.5)[0]
    turned, top = q @ a @ q.T, np.outer(q[:, 2], q[:, 2])
    np.testing.assert_allclose(ad.grad(lambda a: la.eigvalsh(a)[2])(turned), top, atol=1e-14)
    assert np.isfinite(ad.grad(lambda a: (la.eigh(a).eigenvectors[:, 2] ** 2)[0])(turned)).all()
    assert np.isnan(ad.grad(lambda a: (la.eigh(a).eigenvectors * np.arange(9.0).reshape(3, 3)).sum())(a)).any()


def test_equal_singular_values_have_gradients_and_their_vectors_have_not():
    np.testing.assert_allclose(ad.grad(lambda a: la.svdvals(a).sum())(np.eye(3)), np.eye(3), atol=1e-14)
    a = np.diag([2.0, 2.0, 5.0])
    assert np.isfinite(ad.grad(lambda a: (la.svd(a).U[:, 0] ** 2)[0])(a)).all()
    assert np.isnan(ad.grad(lambda a: (la.svd(a).U * np.arange(9.0).reshape(3, 3)).sum())(a)).any()
    tall = np.eye(3)[:, :2] * [1.0, 0.0]  # of rank 1
    np.testing.assert_allclose(ad.grad(lambda a: la.svdvals(a)[0])(tall), tall, atol=1e-14)


def test_dependent_columns_have_a_qr_factorisation_without_a_gradient(rng):
    a = rng.normal(size=(2, 4, 3))
    a[1, :, 2] = 0
    g = ad.grad(lambda a: (la.qr(a).R * np.arange(9.0).reshape(3, 3)).sum())(a)
    assert np.isfinite(g[0]).all() and np.isnan(g[1]).all()


def test_a_pseudo_inverse_and_least_squares_of_a_lower_rank_are_numpys(rng):
    a, b = rng.normal(size=(5, 2)) @ rng.normal(size=(2, 4)), rng.normal(size=5)
    np.testing.assert_allclose(la.pinv(a), np.linalg.pinv(a, 1e-12), atol=1e-12)
    x, residuals, rank, s = la.lstsq(a, b)
    wanted = np.linalg.lstsq(a, b, 1e-12)
    np.testing.assert_allclose(x, wanted[0], atol=1e-12)
    np.testing.assert_allclose(residuals, ((b - a @ wanted[0]) ** 2).sum())
    np.testing.assert_allclose(s, wanted[3], atol=1e-12)
    assert rank.item() == wanted[2] == 2
    np.testing.assert_allclose(la.lstsq(a, b, -1).x, np.linalg.lstsq(a, b, -1)[0], atol=1e-12)  # the rounding
    # Of a matrix of lower rank the gradient is that along matrices of the same rank.
    left, right = rng.normal(size=(5, 2)), rng.normal(size=(2, 4))
    ad.check_gradients(lambda x, y: la.pinv(x @ y).sum(), left, right, order=1)


def test_numpys_names_of_decompositions_record(rng):
    a, b = ad.tensor(rng.normal(size=(4, 3)), requires_grad=True), rng.normal(size=4)
    for f in (
        lambda a: np.linalg.qr(a)[1], lambda a: np.linalg.qr(a, "r"), lambda a: np.linalg.svd(a, full_matrices=False).S,
        lambda a: np.linalg.svd(a, compute_uv=False), np.linalg.pinv, lambda a: np.linalg.lstsq(a, b)[0],
    ):  # fmt: skip
        y = f(a)
        assert y.requires_grad
        np.testing.assert_allclose(y.detach(), f(a.detach().numpy()), atol=1e-12)


def test_decompositions_say_what_they_do_not_give():
    a = np.ones((3, 2))
    for call, error, match in (
        (lambda: ad.grad(lambda a: la.svd(a).U.sum())(a), ad.GradientError, "full_matrices=False"),
        (lambda: ad.grad(lambda a: la.qr(a, "complete").Q.sum())(a), ad.GradientError, "complete an orthonormal basis"),
        (lambda: la.qr(a, "raw"), ad.DispatchError, "mode is 'reduced', 'complete' or 'r', not 'raw'"),
        (lambda: la.qr(np.ones(3)), ad.ShapeError, "qr: takes matrices, not"),
        (lambda: la.lstsq(a, np.ones(2)), ad.ShapeError, "have no common size"),
    ):
        with pytest.raises(error, match=match):
            call()


@pytest.mark.parametrize("f", [la.svdvals, la.pinv], ids=["svdvals", "pinv"])
def test_of_several_matrices_the_one_with_nan_gives_nan(f):
    a = np.stack([np.eye(2), np.full((2, 2), np.nan), [[np.inf, 0.0], [0.0, 1.0]], 2 * np.eye(2)])
    np.testing.assert_array_equal(np.isnan(f(a)).all(tuple(range(1, f(a).ndim))), [False, True, True, False])


def test_a_matrix_with_nan_has_eigenvalues_that_are_nan():
    assert np.isnan(np.asarray(la.eigvalsh(np.full((2, 2), np.nan)))).all()


def test_numpys_linear_algebra_records():
    a = ad.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
    for f in (np.linalg.inv, np.linalg.det, np.linalg.cholesky, lambda a: np.linalg.solve(a, np.ones(2))):
        assert f(a).requires_grad
        np.testing.assert_allclose(f(a).detach(), f(np.array([[2.0, 1.0], [1.0, 3.0]])))
    assert np.linalg.slogdet(a).logabsdet.requires_grad
    assert np.linalg.eigh(a).eigenvalues.requires_grad and np.linalg.eigvalsh(a).requires_grad


def test_a_jitted_gradient_of_a_factorisation_equals_the_recorded_one():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    f = ad.grad(lambda a: la.slogdet(a).logabsdet + (la.cholesky(a) ** 2).sum() + la.inv(a).sum())
    np.testing.assert_allclose(ad.jit(f)(a), f(a), rtol=1e-15)
    np.testing.assert_allclose(f(a), np.linalg.inv(a) + np.eye(2) - np.outer(*[np.linalg.inv(a).sum(0)] * 2))


@pytest.mark.parametrize("n", [9, 33, 70])
def test_systems_whose_factorisation_is_kept_have_the_gradients_of_the_inverse(n, rng):
    for unit in (1.0, 1j):
        a = rng.normal(size=(2, n, n)) + unit * rng.normal(size=(2, n, n)) + n * np.eye(n)
        b, seed = a[..., :1] + 1, a[..., 1:2] * 2
        x, pullback = ad.vjp(la.solve, a, b)
        a_bar, b_bar = pullback(seed)
        inverse = np.linalg.inv(a)
        turned = inverse.swapaxes(-1, -2).conj()
        np.testing.assert_allclose(x, inverse @ b, rtol=0, atol=1e-12)
        np.testing.assert_allclose(b_bar, turned @ seed, rtol=0, atol=1e-12)
        np.testing.assert_allclose(a_bar, -turned @ seed @ np.asarray(x).swapaxes(-1, -2).conj(), rtol=0, atol=1e-11)
        for again in (lambda a: la.slogdet(a).logabsdet.sum(), lambda a: ad.sum(ad.log(ad.abs(la.det(a))))):
            np.testing.assert_allclose(ad.grad(again)(a), turned, rtol=0, atol=1e-10)


def test_a_singular_matrix_whose_factorisation_is_kept_is_refused_by_the_system_alone():
    a = np.ones((12, 12))
    assert la.slogdet(a).sign == 0 and la.slogdet(a).logabsdet == -np.inf
    with pytest.raises(ad.LinAlgError, match="solve: matrix of 12 rows is singular"):
        la.solve(a, np.ones(12)).numpy()


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 5, 3), (4, 4), (3, 0), (0, 3)])
def test_bases_are_completed_where_all_vectors_are_asked_for(shape, rng):
    for unit in (0.0, 1j):
        a = rng.normal(size=shape) + unit * rng.normal(size=shape)
        m, n = shape[-2:]
        u, s, vh = map(np.asarray, la.svd(a))
        q, r = map(np.asarray, la.qr(a, "complete"))
        assert q.shape == u.shape == (*shape[:-2], m, m) and vh.shape == (*shape[:-2], n, n) and r.shape == shape
        k = min(m, n)
        np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, atol=1e-13)
        np.testing.assert_allclose(q @ r, a, atol=1e-13)
        for x in (u, q, vh):
            np.testing.assert_allclose(x @ x.swapaxes(-1, -2).conj() - np.eye(x.shape[-1]), 0, atol=1e-13)


def test_what_does_not_read_the_completed_vectors_has_its_gradient(rng):
    a = rng.normal(size=(5, 3))
    np.testing.assert_allclose(ad.grad(lambda a: ad.sum(la.svd(a).S ** 2))(a), 2 * a, rtol=1e-12)
    np.testing.assert_allclose(ad.grad(lambda a: ad.sum(la.qr(a, "complete").R ** 2))(a), 2 * a, rtol=1e-12)
