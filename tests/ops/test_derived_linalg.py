"""Powers, chains, ranks, condition numbers and norms of matrices: as NumPy's, differentiable, natively."""

import numpy as np
import pytest

import autodiff as ad

la = ad.linalg
R = np.random.default_rng(0)
A, M = R.normal(size=(2, 3, 3)), R.normal(size=(4, 3))


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9)


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 5, 10])
def test_powers_of_matrices(n):
    close(la.matrix_power(A, n), np.linalg.matrix_power(A, n))
    close(ad.jit(lambda a: np.linalg.matrix_power(a, n))(A), np.linalg.matrix_power(A, n))
    whole = np.array([[1, 1], [1, 0]])
    if n >= 0:
        assert la.matrix_power(whole, n).numpy().tolist() == np.linalg.matrix_power(whole, n).tolist()


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_norms_of_matrices(ord):
    for keepdims in (False, True):
        found = la.matrix_norm(A, ord=ord, keepdims=keepdims)
        close(found, np.linalg.norm(A, ord, (1, 2), keepdims=keepdims))


@pytest.mark.parametrize("ord", [0, 1, 2, 3, np.inf, -np.inf, -2.5])
def test_norms_of_vectors_along_any_axes(ord):
    close(la.vector_norm(A, ord=ord), np.linalg.norm(A.ravel(), ord))
    close(la.vector_norm(A, axis=1, ord=ord, keepdims=True), np.linalg.norm(A, ord, 1, keepdims=True))
    rows = np.moveaxis(A, 1, 0).reshape(3, -1)
    close(la.vector_norm(A, axis=(0, -1), ord=ord), np.linalg.norm(rows, ord, 1))


def test_chains_of_products():
    chain = [R.normal(size=s) for s in ((3,), (3, 7), (7, 2), (2, 5), (5,))]
    for part in (chain, chain[1:4], chain[:4], chain[1:]):
        close(la.multi_dot(part), np.linalg.multi_dot(part))
        close(np.linalg.multi_dot([ad.tensor(x) for x in part]), np.linalg.multi_dot(part))


def test_ranks_and_condition_numbers():
    matrices = np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))])
    assert la.matrix_rank(matrices).numpy().tolist() == [3, 1, 0]
    assert la.matrix_rank(M, tol=100.0).item() == 0 and la.matrix_rank(M, rtol=1e-9).item() == 3
    for p in (None, 2, -2, 1, np.inf, "fro"):
        close(la.cond(A, p), np.linalg.cond(A, p))
    close(la.cond(M), np.linalg.cond(M))
    close(ad.vmap(la.cond)(A), np.linalg.cond(A))


def test_diagonals_of_the_last_axes():
    close(la.trace(A, offset=1), np.trace(A, 1, 1, 2))
    close(la.diagonal(A, offset=-1), np.diagonal(A, -1, 1, 2))


def test_their_derivatives():
    def f(a):
        chain = la.multi_dot([a[0], a[1], a[0, 0]])
        return ad.sum(la.matrix_power(a, -2)) + ad.sum(la.cond(a)) + la.vector_norm(a, ord=3) + ad.sum(chain)

    ad.check_gradients(f, A)
    g = ad.grad(f)
    close(ad.jit(g)(A), g(A))


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda: la.multi_dot([M]), ad.ShapeError, "multi_dot: 1 arrays are no chain"),
        (lambda: la.multi_dot([M, M]), ad.ShapeError, "no chain of matrices"),
        (lambda: la.matrix_power(M, 2), ad.ShapeError, "matrix_power: takes square"),
        (lambda: la.matrix_power(A, 1.5), TypeError, "n is an integer"),
        (lambda: la.cond(M, 1), ad.ShapeError, "cond: takes square"),
        (lambda: la.matrix_norm(M[0]), ad.ShapeError, "matrix_norm: takes matrices"),
        (lambda: la.norm(M[:0], 2), ad.ShapeError, "without elements"),
        (lambda: la.cond(M[:, :0]), ad.ShapeError, "without elements"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, error, said):
    with pytest.raises(error, match=f"(?s){said}.*test_derived_linalg.py"):
        wrong()
