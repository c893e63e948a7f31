"""The nodes that a recording needs: what is computed once, and what is never made."""

from __future__ import annotations

import numpy as np
import pytest
from spied import W0, X0, operations, parameter, step

import autodiff as ad

la = ad.linalg
D = [2.0, 3.0, 4.0]
X = np.arange(6.0).reshape(3, 2)


@pytest.mark.smoke
def test_a_program_with_a_diagonal_makes_no_matrix():
    d = ad.tensor(D, requires_grad=True)
    loss = ((ad.Diagonal(d) @ X - X) ** 2).sum()
    assert not {"matmul", "unslant"} & set(operations(loss))
    g = ad.grad(loss, d, create_graph=True)
    assert not {"matmul", "slant", "unslant"} & set(operations(g))


def test_an_embedding_reads_rows_and_its_gradient_writes_them():
    table = ad.tensor(np.arange(8.0).reshape(4, 2), requires_grad=True)
    rows = ad.OneHot([3, 0, 3], 4) @ table
    np.testing.assert_array_equal(rows.detach(), [[6, 7], [0, 1], [6, 7]])
    assert "matmul" not in operations(rows)
    rows.sum().backward()
    np.testing.assert_array_equal(table.grad, [[1, 1], [0, 0], [0, 0], [2, 2]])


def test_a_matrix_is_factorised_once_for_all_that_is_asked_of_it_and_its_gradients():
    a = ad.tensor(np.diag(D) + 1, requires_grad=True)
    c = ad.Cholesky(a)
    value = (la.solve(c, X) ** 2).sum() + la.slogdet(c).logabsdet + ad.sum(la.inv(c) @ X)
    g = ad.grad(value, a, create_graph=True)
    assert operations(value, g).count("cholesky") == 1
    assert not {"solve", "inv"} & set(operations(value, g))

    def plainly(a):
        return (la.solve(a, X) ** 2).sum() + la.slogdet(a).logabsdet + ad.sum(la.inv(a) @ X)

    expected = ad.grad(plainly)(np.diag(D) + 1)
    np.testing.assert_allclose(g.detach(), (expected + expected.T) / 2)


def test_a_moving_average_stays_shallow(spy):
    w, x, average = parameter(), ad.tensor(X0), ad.tensor(W0)
    for _ in range(50):
        w.grad = None
        step(w, x).backward()
        with ad.no_grad():
            w -= w.grad * 0.01
            average = average * 0.9 + w * 0.1
    assert len(operations(average)) < 30
