"""Laws of products that the sweep cannot see: refusals, specials, other ways to call them."""

import numpy as np
import pytest

import autodiff as ad


def zeros(*shape):
    return ad.tensor(np.zeros(shape))


# ---------------------------------------------------------------- refusals


def test_matmul_says_which_sizes_differ():
    with pytest.raises(ad.ShapeError) as error:
        ad.matmul(zeros(3, 4), zeros(5, 4))
    lines = str(error.value).splitlines()
    assert lines[0] == "matmul: inner sizes differ: f64[3,4] @ f64[5,4]"
    assert lines[1] == "  a has 4 columns, b has 5 rows"
    assert "test_contraction.py" in lines[2]
    assert lines[3] == "  if b is stored by rows, pass mT(b)"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: zeros(4) @ zeros(3), "a has 4 elements, b has 3 elements"),
        (lambda: zeros(3, 4) @ zeros(3, 2), r"pass mT\(a\)"),
        (lambda: zeros() @ zeros(3), r"takes vectors and matrices, got f64\[\] @ f64\[3\]"),
        (lambda: zeros(2, 3, 4) @ zeros(3, 4, 5), r"leading axes do not broadcast: f64\[2,3,4\] @ f64\[3,4,5\]"),
        (lambda: ad.dot(zeros(3), zeros(4)), "inner sizes differ"),
        (lambda: ad.inner(zeros(2, 3), zeros(2, 4)), "a has 3, b has 4"),
        (lambda: ad.tensordot(zeros(2, 3), zeros(2, 4), 1), "summed axes differ"),
        (lambda: ad.tensordot(zeros(2), zeros(2), 2), "have no 2 axes"),
        (lambda: ad.tensordot(zeros(2, 2), zeros(2, 2), ((0, 1), (0,))), "pair"),
        (lambda: ad.trace(zeros(3)), "no axis 1"),
        (lambda: ad.diagonal(zeros(3, 3), 0, 1, 1), "not two axes"),
        (lambda: ad.diag(zeros(2, 2, 2)), "takes a vector or a matrix"),
        (lambda: ad.norm(zeros(3), axis=1), "no axis 1"),
        (lambda: ad.einsum("ij,jk->ik", zeros(2, 3), zeros(4, 5)), r"label 'j' has the extents 3 and 4 in f64\[2,3\]"),
        (lambda: ad.einsum("ii->i", zeros(1, 3)), r"label 'i' has the extents 3 and 1 in f64\[1,3\]"),
        (lambda: ad.einsum("iij,i->j", zeros(3, 1, 2), zeros(3)), r"label 'i' has the extents 1 and 3 in f64\[3,1,2\]"),
        (lambda: ad.einsum("ij->i", zeros(2)), "2 labels for 1 axes"),
        (lambda: ad.einsum("i,i->i", zeros(2)), "2 operands are named, 1 given"),
        (lambda: ad.einsum("i->j", zeros(2)), "the result has the label 'j'"),
        (lambda: ad.einsum("ij->ii", zeros(2, 2)), "twice"),
        (lambda: ad.einsum("...i->i", zeros(2, 2)), "must have it too"),
        (lambda: ad.einsum("i1->i", zeros(2, 2)), "no label"),
        (lambda: ad.einsum("...ij->...", zeros(2)), "has 2 labels for 1 axes"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_users_line(call, message):
    with pytest.raises(ad.ShapeError, match=message) as error:
        call()
    assert "test_contraction.py" in str(error.value)


@pytest.mark.parametrize("ord", [2, -2])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_spectral_norms_of_nothing_are_refused_at_the_users_line(shape, ord):
    with pytest.raises(ad.ShapeError, match="no singular values") as error:
        ad.norm(zeros(*shape), ord)
    assert "test_contraction.py" in str(error.value)


def test_other_norms_are_refused_by_name():
    with pytest.raises(ValueError, match="'nuc'"):
        ad.norm(zeros(2), "nuc")
    with pytest.raises(ValueError, match="ord=2"):
        ad.norm(zeros(2, 2, 2), 2)
    with pytest.raises(ValueError, match="ord=3"):
        ad.norm(zeros(2, 2), 3)


@pytest.mark.parametrize("ord", [1, -1, np.inf, -np.inf, 2, -2, "nuc"])
def test_norms_of_complex_matrices_are_numpys_and_have_their_slopes(ord, rng):
    a = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    assert ad.norm(a, ord).item() == pytest.approx(np.linalg.norm(a, ord), rel=1e-13)
    assert isinstance(np.linalg.norm(ad.tensor(a), ord), ad.Tensor)
    ad.check_gradients(lambda a: ad.norm(a, ord), a)


# ---------------------------------------------------------------- kinks and specials


def test_the_norm_has_derivative_zero_at_zero():
    for ord in (None, 2, 3):
        g = ad.grad(lambda x, ord=ord: ad.norm(x, ord))(np.zeros(3))
        np.testing.assert_array_equal(g, np.zeros(3))
    np.testing.assert_allclose(ad.grad(lambda x: ad.norm(x))(np.array([3.0, 4.0])), [0.6, 0.8])


def test_products_keep_nan_and_inf():
    a = np.array([[np.nan, 1.0], [np.inf, 0.0], [1.0, 2.0]])
    y = (ad.tensor(a) @ ad.tensor([[1.0, 0.0], [0.0, 1.0]])).numpy()
    np.testing.assert_array_equal(y, [[np.nan, np.nan], [np.inf, np.nan], [1, 2]])


def test_a_product_over_nothing_is_zero():
    np.testing.assert_array_equal((zeros(2, 0) @ zeros(0, 3)).numpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(ad.einsum("ij,jk->ik", zeros(2, 0), zeros(0, 3)).numpy(), np.zeros((2, 3)))


def test_bools_multiply_to_whether_any_pair_is_true():
    a = np.array([[True, True], [False, False]])
    y = ad.tensor(a) @ ad.tensor(a)
    assert y.dtype == np.bool_
    np.testing.assert_array_equal(y.numpy(), a @ a)


# ---------------------------------------------------------------- other ways to call


def test_arrays_on_either_side_record():
    w = ad.tensor(np.eye(3), requires_grad=True)
    x = np.arange(6.0).reshape(2, 3)
    for y in (x @ w, np.matmul(x, w), w @ x.T):
        assert isinstance(y, ad.Tensor)
        assert y.requires_grad
    assert (w.T @ w).shape == (3, 3)


def test_numpys_functions_record():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    s, t = ad.tensor(a), ad.tensor(b)
    for call in (
        lambda m, a, b: m.dot(a, b),
        lambda m, a, b: m.tensordot(a, b, 1),
        lambda m, a, b: m.einsum("ij,jk", a, b),
        lambda m, a, b: m.outer(a, b),
        lambda m, a, b: m.inner(a, b.T),
        lambda m, a, b: m.trace(b),
        lambda m, a, b: m.diag(b),
        lambda m, a, b: m.diagonal(b, 1),
    ):
        y = call(np, s, t)
        assert isinstance(y, ad.Tensor)
        np.testing.assert_allclose(y.numpy(), call(np, a, b))
    np.testing.assert_allclose(np.linalg.norm(s, axis=0).numpy(), np.linalg.norm(a, axis=0))


VECTOR_PRODUCTS = [((4, 3), (3,)), ((3,), (3, 5)), ((3,), (3,)), ((4, 1), (1,)), ((1,), (1,)), ((4, 0), (0,)),
                   ((2, 4, 3), (3,)), ((3,), (2, 3, 5))]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), VECTOR_PRODUCTS[:3])
def test_a_product_with_a_vector_is_one_node_of_the_tape(left, right):
    a, b = zeros(*left), zeros(*right)
    assert (a @ b).node.inputs == (a.node, b.node)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(("left", "right"), VECTOR_PRODUCTS)
def test_the_gradient_of_a_product_with_a_vector_is_its_adjoint(left, right, dtype):
    rng = np.random.default_rng(0)

    def some(shape):
        return rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype is np.complex128 else 0.0)

    a, b, da, db = some(left), some(right), some(left), some(right)
    y_bar = some((a @ b).shape)
    x1, x2 = ad.tensor(a, requires_grad=True), ad.tensor(b, requires_grad=True)
    y = x1 @ x2
    y.backward(ad.tensor(y_bar))
    np.testing.assert_allclose(y.detach().numpy(), a @ b, rtol=1e-13, atol=1e-13)
    change = np.vdot(y_bar, da @ b + a @ db).real
    found = np.vdot(x1.grad.numpy(), da).real + np.vdot(x2.grad.numpy(), db).real
    np.testing.assert_allclose(found, change, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("in_axes", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize(("left", "right"), VECTOR_PRODUCTS)
def test_products_with_vectors_go_over_examples(left, right, in_axes):
    rng = np.random.default_rng(0)
    pairs = zip((left, right), in_axes, strict=True)
    xs = [rng.normal(size=shape if axis is None else (6, *shape)) for shape, axis in pairs]
    each = [x if axis == 0 else [x] * 6 for x, axis in zip(xs, in_axes, strict=True)]

    def product(a, b):
        return ad.vmap(lambda a, b: a @ b, in_axes=in_axes)(a, b)

    np.testing.assert_allclose(product(*xs), [a @ b for a, b in zip(*each, strict=True)], rtol=1e-13, atol=1e-13)
    ad.check_gradients(lambda a, b: (product(a, b) ** 2).sum(), *xs, order=1)


def test_a_long_einsum_is_multiplied_in_a_good_order():
    xs = [np.random.default_rng(i).standard_normal((6, 6)) for i in range(5)]
    y = ad.einsum("ab,bc,cd,de,ef->af", *xs)
    np.testing.assert_allclose(y.numpy(), np.linalg.multi_dot(xs), rtol=1e-12)


def test_a_user_adds_a_method_to_matmul():
    class Scaling(ad.AbstractTensor):
        def __init__(self, factor):
            self.factor = factor

    @ad.matmul.method(Scaling, ad.Tensor)
    def _(x1, x2):
        return x2 * x1.factor

    y = Scaling(3.0) @ ad.tensor([1.0, 2.0])
    np.testing.assert_array_equal(y.numpy(), [3, 6])


@pytest.mark.parametrize("subscripts,shapes", [
    ("ij,ij->i", [(60, 90), (60, 90)]), ("ij,ij->j", [(60, 90), (60, 90)]), ("bij,bij->bj", [(9, 20, 30), (9, 20, 30)]),
    ("jib,bij->j", [(30, 20, 9), (9, 20, 30)]), ("jib,bij->ji", [(30, 20, 9), (9, 20, 30)]),
    ("bik,bkj->bij", [(70, 1, 80), (70, 80, 1)]), ("bik,bkj->bij", [(1, 1, 80), (70, 80, 1)]),
])  # fmt: skip
def test_products_that_leave_no_axis_of_their_own_are_sums(subscripts, shapes, rng):
    a, b = [rng.standard_normal(shape) for shape in shapes]
    expected = np.einsum(subscripts, a, b)
    if "k" in subscripts:
        f = ad.matmul
    else:
        def f(a, b):
            return ad.einsum(subscripts, a, b)
    np.testing.assert_allclose(ad.jit(f)(a, b), expected, rtol=1e-12, atol=1e-12)
    assert "gemm" not in ad.inspect(f, a, b).fused
    y_bar = rng.standard_normal(expected.shape)
    _, pullback = ad.vjp(f, a, b)
    da, db = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    tangent = np.einsum(subscripts, da, b) + np.einsum(subscripts, a, db)
    a_bar, b_bar = pullback(y_bar)
    np.testing.assert_allclose(np.sum(a_bar * da) + np.sum(b_bar * db), np.sum(y_bar * tangent), rtol=1e-11)
