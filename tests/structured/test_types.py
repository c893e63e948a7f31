"""Structured types beyond the laws: what stays structured, `.grad`, jit, a user's own type, errors."""

import copy
import pickle

import numpy as np
import pytest

import autodiff as ad

from .kinds import energy_with_a_dense_rule

la = ad.linalg
N = 3
D = [2.0, 3.0, 4.0]
X = np.arange(6.0).reshape(3, 2)
LINEAR = [
    ad.Diagonal(D),
    ad.UniformScaling(2.0, N),
    ad.Symmetric(np.eye(N)),
    ad.LowerTriangular(np.eye(N)),
    ad.UpperTriangular(np.eye(N)),
]
each_linear = pytest.mark.parametrize("a", LINEAR, ids=lambda a: type(a).__name__)


# ---------------------------------------------------------------- what stays structured


@each_linear
@pytest.mark.parametrize(
    "f",
    [lambda a: 2 * a, lambda a: a / 2, lambda a: -a, lambda a: a + a, lambda a: a - a, lambda a: a * ad.tensor(2.0),
     lambda a: la.inv(a), lambda a: ad.astype(a, ad.float32), lambda a: ad.UniformScaling(2.0, N) @ a,
     lambda a: a @ ad.UniformScaling(2.0, N)],
)  # fmt: skip
def test_multiples_sums_and_inverses_keep_the_type(a, f):
    assert type(f(a)) is type(a)


def test_products_sums_and_transposes_of_diagonals_are_diagonals():
    a = ad.Diagonal(D)
    for b in (a @ a, a + ad.UniformScaling(1.0, N), ad.UniformScaling(1.0, N) - a, a.T, a.mT, a * np.ones((N, N))):
        assert type(b) is ad.Diagonal


def test_a_diagonal_added_to_a_full_type_keeps_that_type():
    for a in LINEAR[2:]:
        assert type(a + ad.Diagonal(D)) is type(ad.UniformScaling(1.0, N) - a) is type(a)


def test_the_transpose_of_a_lower_triangle_is_an_upper_one():
    assert type(ad.LowerTriangular(np.eye(N)).T) is ad.UpperTriangular
    assert type(ad.UpperTriangular(np.eye(N)).mT) is ad.LowerTriangular


def test_elementwise_functions_of_a_fill_are_computed_once():
    a = ad.exp(ad.Fill(1.0, (1000, 1000))) * 2 + ad.Fill(1.0, (1000,))
    assert type(a) is ad.Fill
    assert a.shape == (1000, 1000)
    assert float(a.value) == pytest.approx(2 * np.e + 1)


def test_permutations_compose_and_their_transpose_undoes_them():
    p, q = ad.Permutation([2, 0, 1]), ad.Permutation([1, 0, 2])
    assert type(p @ q) is type(p.T) is ad.Permutation
    np.testing.assert_array_equal((p @ q) @ X, p @ (q @ X))
    np.testing.assert_array_equal(p.T @ (p @ X), X)
    np.testing.assert_array_equal(la.solve(p, p @ X), X)


def test_an_embedding_of_many_axes_has_them_all():
    table = np.arange(8.0).reshape(4, 2)
    assert (ad.OneHot([[3, 0], [1, 1]], 4) @ table).shape == (2, 2, 2)


def test_an_embedding_keeps_float32():
    assert (ad.OneHot([1], 2) @ np.ones((2, 2), np.float32)).dtype == np.float32


# ---------------------------------------------------------------- the shared factor


def test_the_factor_is_a_lower_triangle_whose_square_is_the_matrix():
    c = ad.Cholesky(np.diag(D) + 1)
    assert type(c.factor) is type(la.cholesky(ad.Symmetric(np.diag(D)))) is ad.LowerTriangular
    np.testing.assert_allclose(c.factor @ c.factor.T, np.diag(D) + 1)


def test_a_factor_made_without_gradients_does_not_serve_where_they_are_tracked():
    a = ad.tensor(np.diag(D), requires_grad=True)
    c = ad.Cholesky(a)
    with ad.no_grad():
        assert not c.factor.requires_grad
    assert c.factor.requires_grad


def test_one_value_serves_many_backwards_and_its_factor_is_that_of_the_present_matrix():
    a = ad.tensor(np.diag(D) + 1, requires_grad=True)
    c, b = ad.Cholesky(a), np.ones(len(D))
    assert c.factor.stored.node is c.factor.stored.node
    for f in (la.det, lambda c: ad.sum(la.solve(c, b)), lambda c: ad.sum(la.inv(c)), lambda c: ad.sum(c.factor @ b)):
        for _ in range(2):
            a.grad = None
            f(c).backward()
            np.testing.assert_allclose(a.grad, ad.grad(lambda x, f=f: f(ad.Cholesky(x)))(np.diag(D) + 1), rtol=1e-12)
    with ad.no_grad():
        for _ in range(2):
            np.testing.assert_allclose(la.solve(c, b), np.linalg.solve(c.matrix, b), rtol=1e-12)
            c.stored.mul_(2.0)
    np.testing.assert_allclose(la.det(c).detach(), np.linalg.det(4 * (np.diag(D) + 1)), rtol=1e-12)


def test_a_matrix_without_a_factor_is_refused_when_it_is_needed():
    c = ad.Cholesky(-np.eye(2))
    with pytest.raises(ad.LinAlgError, match="not positive definite"):
        la.solve(c, np.ones(2)).numpy()


# ---------------------------------------------------------------- gradients


@each_linear
def test_grad_is_in_the_structure_of_the_value_and_accumulates(a):
    a = copy.deepcopy(a).requires_grad_()
    assert a.grad is None
    for times in (1, 2):
        (a @ X).sum().backward()
        assert type(a.grad) is type(a)
        expected = ad.project(times * np.ones((N, 2)) @ X.T, a)
        np.testing.assert_allclose(a.grad, expected)
    a.grad = None
    assert a.grad is None


def test_grad_of_tensors_takes_structured_ones_among_them():
    a, w = ad.Diagonal(D).requires_grad_(), ad.tensor(X, requires_grad=True)
    for_a, for_w = ad.grad((a @ w).sum(), (a, w))
    assert type(for_a) is ad.Diagonal
    np.testing.assert_array_equal(for_a.diagonal, X.sum(1))
    np.testing.assert_array_equal(for_w, np.transpose([D, D]))


def test_a_gradient_among_other_arguments_keeps_each_structure():
    def f(parameters, x):
        return ((parameters["d"] @ x) @ parameters["w"]).sum()

    g = ad.grad(f)({"d": ad.Diagonal(D), "w": np.ones((2, 2))}, X)
    assert type(g["d"]) is ad.Diagonal
    assert g["w"].shape == (2, 2)


def test_a_step_of_descent_is_structured():
    a = ad.Diagonal(D)
    g = ad.grad(lambda a: ((a @ X - X) ** 2).sum())(a)
    assert type(a - 0.01 * g) is ad.Diagonal


def test_vjp_and_jvp_take_and_give_structured_values():
    y, pullback = ad.vjp(lambda a: 2 * a, ad.Diagonal(D))
    assert type(y) is ad.Diagonal
    (g,) = pullback(ad.Diagonal(np.ones(3)))
    np.testing.assert_array_equal(g.diagonal, [2, 2, 2])
    y, dy = ad.jvp(lambda a: a @ a, (ad.Diagonal(D),), (ad.Diagonal(np.ones(3)),))
    np.testing.assert_array_equal(dy.diagonal, 2 * np.array(D))


def test_projection_refuses_a_gradient_of_another_shape():
    with pytest.raises(ad.ShapeError, match=r"project: a f64\[2,2\] is no gradient of a Diagonal f64\[3,3\]"):
        ad.project(np.ones((2, 2)), ad.Diagonal(D))


def test_a_custom_function_takes_structured_arguments_by_their_type():
    @ad.function
    def energy(a, x): ...

    @energy.forward(ad.Diagonal, ad.Vector)
    def _(ctx, a, x):
        ctx.save_for_backward(a=a, x=x)
        return (a @ x * x).sum()

    @energy.backward(ad.Diagonal, ad.Vector)
    def _(ctx, g):
        s = ctx.saved_variables
        return {"a": ad.Diagonal(g * s.x * s.x), "x": 2 * g * (s.a @ s.x)}

    a, x = ad.Diagonal(D).requires_grad_(), ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    energy(a, x).backward()
    np.testing.assert_array_equal(a.grad.diagonal, [1, 4, 9])
    np.testing.assert_array_equal(x.grad, [4, 12, 24])


@each_linear
def test_a_dense_gradient_from_a_rule_is_projected_to_the_structure_of_its_argument(a):
    energy, a, x = energy_with_a_dense_rule(), copy.deepcopy(a).requires_grad_(), ad.tensor(D, requires_grad=True)
    for _ in range(2):  # the second time by the plan of the first
        a.grad = x.grad = None
        energy(a, x).backward()
        assert type(a.grad) is type(a)
        np.testing.assert_allclose(a.grad, ad.project(np.outer(D, D), a))


# ---------------------------------------------------------------- jit, NumPy, being an object


def test_jit_takes_and_gives_structured_values_and_traces_once():
    seen = []

    @ad.jit
    def f(a):
        seen.append(a)
        return 2 * a

    for _ in range(3):
        y = f(ad.Diagonal(D))
    assert len(seen) == 1
    assert type(y) is ad.Diagonal
    np.testing.assert_array_equal(y.diagonal, [4, 6, 8])


@pytest.mark.smoke
def test_a_jitted_gradient_of_a_structured_argument_is_structured():
    g = ad.jit(ad.grad(lambda a, x: ((a @ x) ** 2).sum()))(ad.Diagonal(D), X)
    assert type(g) is ad.Diagonal
    np.testing.assert_allclose(g.diagonal, 2 * np.array(D) * (X**2).sum(1))


def test_numpy_arrays_and_functions_meet_structured_values():
    a = ad.Diagonal(D)
    np.testing.assert_array_equal(np.asarray(a), np.diag(D))
    np.testing.assert_array_equal(X.T @ a, X.T @ np.diag(D))
    np.testing.assert_array_equal(np.trace(a), 9.0)
    assert type(np.float64(2) * a) is type(np.multiply(2.0, a)) is ad.Diagonal
    np.testing.assert_array_equal(a.numpy(), np.diag(D))


def test_a_structured_value_says_what_it_is():
    a = ad.Diagonal(D)
    assert (a.shape, a.ndim, a.size, a.dtype) == ((3, 3), 2, 9, np.float64)
    assert len(ad.Fill(1.0, (5, 2))) == 5
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d Fill"):
        len(ad.Fill(1.0, ()))
    assert repr(a) == "Diagonal(diagonal=f64[3] [2. 3. 4.])"
    assert repr(ad.UniformScaling(2.0, 3)) == "UniformScaling(scale=f64[] 2.0, n=3)"
    assert not a.requires_grad
    assert ad.Diagonal(ad.tensor(D, requires_grad=True)).requires_grad
    assert not ad.Diagonal(ad.tensor(D, requires_grad=True)).detach().requires_grad


@each_linear
def test_structured_values_are_copied_and_pickled(a):
    for b in (copy.deepcopy(a), copy.copy(a), pickle.loads(pickle.dumps(a))):
        assert type(b) is type(a)
        np.testing.assert_array_equal(b, a)


def test_a_copy_has_what_is_held_and_not_what_was_made_of_it():
    c = ad.Cholesky(ad.tensor(np.diag(D), requires_grad=True))
    la.solve(c, X).sum().backward()
    again = pickle.loads(pickle.dumps(c))
    assert again.requires_grad
    np.testing.assert_array_equal(la.solve(again, X).detach(), la.solve(c, X).detach())
    assert repr(copy.copy(ad.Fill(1.0, (2, 3)))) == "Fill(value=f64[] 1.0, extents=(2, 3))"


def test_dispatch_says_which_method_serves_a_diagonal():
    assert "Diagonal" in repr(ad.which(ad.matmul, ad.Diagonal, ad.Matrix))


def test_other_rows_of_an_embedding_compile_nothing():
    f = ad.jit(ad.grad(lambda table, i: (ad.OneHot(i, 4) @ table).sum()))
    f(np.ones((4, 2)), np.array([0, 1]))
    with ad.max_compiles(0):
        np.testing.assert_array_equal(f(np.ones((4, 2)), np.array([3, 3])), [[0, 0]] * 3 + [[2, 2]])


def test_derivatives_of_higher_order_keep_the_structure():
    h = ad.hvp(lambda a: ((a @ X) ** 3).sum(), (ad.Diagonal(D),), (ad.Diagonal([1.0, 0.0, 0.0]),))
    assert type(h) is ad.Diagonal
    np.testing.assert_allclose(h.diagonal, [6 * 2 * (X[0] ** 3).sum(), 0, 0])


# ---------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ad.Diagonal(np.eye(2)), r"Diagonal holds a vector, not f64\[2,2\]"),
        (lambda: ad.UniformScaling([1.0], 2), r"UniformScaling holds a number, not f64\[1\]"),
        (lambda: ad.UniformScaling(1.0, -1), "an identity of -1 rows"),
        (lambda: ad.Symmetric(np.ones((2, 3))), r"Symmetric holds a square matrix, not f64\[2,3\]"),
        (lambda: ad.LowerTriangular(np.ones(3)), r"LowerTriangular holds a matrix, not f64\[3\]"),
        (lambda: ad.Permutation([0, 0]), "does not name each of 0, ..., n - 1 once"),
        (lambda: ad.Fill(1.0, (-1,)), "extents are not negative"),
        (lambda: ad.Cholesky(np.ones((2, 3))), "square matrices"),
        (lambda: ad.Diagonal(D) @ np.ones((2, 2)), r"matmul: inner sizes differ: Diagonal f64\[3,3\] and f64\[2,2\]"),
        (lambda: ad.Diagonal(D) + ad.Diagonal([1.0]), r"add: shapes differ: Diagonal f64\[3,3\] and Diagonal f64\[1,1"),
        (lambda: np.ones((2, 2)) @ ad.Permutation([0]), r"f64\[2,2\] and Permutation bool\[1,1\]"),
        (lambda: ad.transpose(ad.Diagonal(D), (0, 2)), r"transpose: no axis 2 in f64\[3,3\]"),
        (lambda: ad.sum(ad.Diagonal(D), 2), "no axis 2"),
    ],
)  # fmt: skip
def test_misuse_is_refused_with_the_types_and_the_users_line(make, message):
    with pytest.raises(ad.ShapeError, match=f"(?s){message}.*called at test_types.py:"):
        make()


def test_an_index_outside_of_the_classes_is_refused():
    with pytest.raises(IndexError, match="OneHot: index 3 is outside of an axis of extent 3"):
        ad.OneHot([0, 3], 3)


def test_what_holds_integers_is_not_differentiated():
    with pytest.raises(ad.DTypeError, match="only float arrays have gradients"):
        ad.grad(lambda p: (p @ X).sum())(ad.Permutation([2, 0, 1]))


def test_the_dense_form_of_a_tensor_is_that_tensor_and_of_a_structure_a_new_one():
    t, d = ad.tensor([1.0, 2.0]), ad.Diagonal(ad.tensor([1.0, 2.0]))
    assert ad.dense(t) is t and ad.asarray(t) is t
    written_out = ad.dense(d)
    written_out += 1.0
    np.testing.assert_array_equal(np.asarray(d.diagonal), [1.0, 2.0])


@pytest.mark.parametrize("a", [ad.Diagonal([2.0, 3.0, 4.0]), ad.UniformScaling(2.0, 3)], ids=lambda a: type(a).__name__)
def test_the_axes_of_a_diagonal_matrix_are_those_of_a_matrix(a):
    for axis in (0, (0,), [-1], (1, 0)):
        np.testing.assert_array_equal(np.asarray(ad.sum(a, axis)), np.sum(np.asarray(a), tuple(np.ravel(axis))))
    for refused in (
        lambda x: ad.sum(x, (0, 0)), lambda x: ad.sum(x, (5, 6)), lambda x: ad.trace(x, 0, 0, 5),
        lambda x: ad.diagonal(x, 0, 0, 3), lambda x: ad.diagonal(x, 0, -4, 1),
    ):  # fmt: skip
        with pytest.raises(ad.ShapeError) as dense:
            refused(ad.dense(a))
        with pytest.raises(ad.ShapeError) as ours:
            refused(a)
        assert str(ours.value) == str(dense.value)
    with pytest.raises(TypeError, match="an axis is an integer, not float"):
        ad.transpose(a, (1.0, 0.0))


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.complex128])
@pytest.mark.parametrize("make", [ad.Symmetric, ad.LowerTriangular, lambda x: ad.Diagonal(x[0])])
def test_of_integers_bool_and_complex_numbers_they_give_what_the_dense_array_gives(make, dtype):
    a = make(np.array([[1, 1], [0, 1]]).astype(dtype) * dtype(1 + 1j if dtype is np.complex128 else 1))
    d = ad.Diagonal([0.5, 3.0])
    for f in (
        lambda a: a, lambda a: a * 2.0, lambda a: a + a, lambda a: a + d, lambda a: d - a, lambda a: ad.linalg.det(a),
        lambda a: ad.linalg.slogdet(a + 0 * d).sign, lambda a: ad.linalg.slogdet(a).logabsdet,
        *[lambda a, to=to: ad.astype(a, to) for to in (np.int32, np.bool_, np.float32, np.complex64)],
    ):  # fmt: skip
        ours, dense = ad.dense(f(a)), f(ad.tensor(np.asarray(a)))
        assert ours.aval == dense.aval
        np.testing.assert_allclose(np.asarray(ours), np.asarray(dense), rtol=1e-12)


def test_products_with_a_fill_are_summed_in_the_dtype_of_the_result():
    x = np.full((7, 7), 0.1, np.float32)
    fill, threes = ad.Fill(3, (7, 7)), np.full((7, 7), 3)
    for ours, dense in ((fill @ x, threes @ x), (x @ fill, x @ threes)):
        assert ours.dtype == dense.dtype
        np.testing.assert_allclose(np.asarray(ours), dense, rtol=1e-14)


def test_solving_with_a_permutation_gives_floats_as_with_any_matrix():
    assert ad.linalg.solve(ad.Permutation([1, 0]), [3, 4]).dtype == np.float64
