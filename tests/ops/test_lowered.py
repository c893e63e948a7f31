"""Programs that operations become: factorisations, substitution by blocks, orders, rolled arrays."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops.linalg.matrices import substituted
from codegen import compiler
from codegen.ir import parse
from codegen.passes.pipeline import optimize
from codegen.runtime.order_rows import merged_pairs, sorted_pairs

la = ad.linalg


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


def test_one_factorisation_serves_a_system_its_gradients_and_its_determinant(rng):
    """The value, both gradients and a Hessian times a vector: one LU of the matrix, whatever is asked of it."""
    a, b = rng.normal(size=(20, 20)) + 5 * np.eye(20), rng.normal(size=(20, 2))

    def f(a, b):
        return ad.sum(ad.sin(la.solve(a, b))) + la.slogdet(a).logabsdet

    for run, args in (
        (ad.value_and_grad(f, argnums=(0, 1)), (a, b)),
        (lambda a, b: ad.hvp(f, (a, b), (b @ b.T, b)), (a, b)),
    ):
        with compiler.recorded() as graphs:
            ad.jit(run)(*args)
        assert [n.op.name for n in optimize(graphs[-1]).nodes].count("lu") == 1


def test_what_is_rolled_in_jit_is_read_in_two_pieces_that_choose_nothing(rng):
    x, w = rng.normal(size=(3, 50)), rng.normal(size=(3, 50))
    f = ad.jit(ad.value_and_grad(lambda x, w: ad.sum(ad.roll(x, -3, 1) * w)))
    with compiler.recorded() as graphs:
        value, gradient = f(x, w)
    np.testing.assert_allclose(value, np.sum(np.roll(x, -3, 1) * w))
    np.testing.assert_array_equal(gradient, np.roll(w, 3, 1))
    assert "select" not in compiler.stages(graphs[-1]).mlir


def test_a_network_orders_all_rows_of_zeros_and_ones():
    """Then it orders all rows: the zero-one principle."""
    n = 16
    bits = np.arange(1 << n)[:, None] >> np.arange(n) & 1
    for a, b in sorted_pairs(n):
        bits[:, [a, b]] = np.sort(bits[:, [a, b]], axis=1)
    assert (np.diff(bits, axis=1) >= 0).all()


def test_a_network_of_a_turned_half_orders_what_falls_then_rises():
    n = 16
    for begin in range(n + 1):
        for end in range(begin, n + 1):
            for inside in (0, 1):
                x = np.full(n, 1 - inside)
                x[begin:end] = inside
                for a, b in merged_pairs(n):
                    x[[a, b]] = np.sort(x[[a, b]])
                assert (np.diff(x) >= 0).all()


def test_an_order_takes_no_python():
    graph = parse("f(x: f64[300]) { y = argsort(x, axis=0, descending=False) return y }")
    assert compiler.compile_graph(graph).plan
