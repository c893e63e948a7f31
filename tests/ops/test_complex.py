"""Complex numbers: values as NumPy's, gradients ∂/∂re + i ∂/∂im, forward mode, second order, compiled.

The reference for gradients is central differences in real and imaginary parts, so these laws know nothing of
conjugates.
"""

import numpy as np
import pytest

import autodiff as ad

from .cases import eager

A = np.array([[1 + 2j, 0.5 - 1j, -0.7 + 0.2j], [0.3 + 0.1j, 2 - 0.4j, 1j]])
B = np.array([[0.6 - 1j, 1.1 + 0.3j], [2.0 + 0j, -1j], [0.4 + 0.9j, 1 - 0.5j]])
S = np.array([[3 + 1j, 0.5 - 1j, 0.2j], [0.3 + 0.1j, 2 - 0.4j, 1j], [0.4, -0.6 + 0.5j, 2.5 - 1j]])
X = np.array([[0.5, -1.5, 2.0], [1.0, 0.25, -0.75]])


def definite(x):
    """A Hermitian positive definite matrix of any."""
    return x @ x.conj().T + np.eye(len(x))


def rebuilt(a, svd):
    """A function of the first pair of vectors, and of the singular values: directions of vectors do not count."""
    u, s, vh = svd(a, full_matrices=False)
    return (u * (s * s)[None, :]) @ vh + u[:, :1] @ vh[:1]


#: name: (program, the same by NumPy, arguments).  Real arguments among complex ones get real gradients.
PROGRAMS = {
    "add": (lambda a, b: a + b, np.add, (A, A[:1])),
    "add real": (lambda a, x: a + x, np.add, (A, X)),
    "subtract": (lambda x, a: x - a, np.subtract, (X, A)),
    "multiply": (lambda a, b: a * b, np.multiply, (A, A[:, :1])),
    "multiply real": (lambda a, x: a * x, np.multiply, (A, X)),
    "by a number": (lambda x: (2 + 3j) * x, lambda x: (2 + 3j) * x, (X,)),
    "divide": (lambda a, b: a / b, np.divide, (A, B.T)),
    "divide real": (lambda x, a: x / a, np.divide, (X, A)),
    "negative": (lambda a: -a, np.negative, (A,)),
    "reciprocal": (ad.reciprocal, np.reciprocal, (A,)),
    "abs": (ad.abs, np.abs, (A,)),
    "real": (ad.real, np.real, (A,)),
    "imag": (ad.imag, np.imag, (A,)),
    "conj": (ad.conj, np.conj, (A,)),
    "real of real": (ad.real, np.real, (X,)),
    "imag of real": (lambda x: ad.imag(x) + x, lambda x: np.imag(x) + x, (X,)),
    "conj times": (lambda a: ad.conj(a) * a, lambda a: np.conj(a) * a, (A,)),
    "square": (ad.square, np.square, (A,)),
    "a ** 3": (lambda a: a**3, lambda a: a**3, (A,)),
    "a ** -2": (lambda a: a**-2, lambda a: a**-2.0, (A,)),
    "a ** b": (lambda a, b: a**b, np.power, (A, B.T)),
    "exp": (ad.exp, np.exp, (A,)),
    "prod": (ad.prod, np.prod, (A,)),
    "prod of columns": (lambda a: ad.prod(a, axis=0), lambda a: np.prod(a, axis=0), (S,)),
    "max": (ad.max, np.max, (A,)),
    "min of rows": (lambda a: ad.min(a, axis=1), lambda a: np.min(a, axis=1), (S,)),
    "sort": (lambda a: ad.sort(a, axis=1), lambda a: np.sort(a, axis=1), (A,)),
    "log": (ad.log, np.log, (A,)),
    "sin": (ad.sin, np.sin, (A,)),
    "cos": (ad.cos, np.cos, (A,)),
    "tan": (ad.tan, np.tan, (A,)),
    "sinh": (ad.sinh, np.sinh, (A,)),
    "cosh": (ad.cosh, np.cosh, (A,)),
    "tanh": (ad.tanh, np.tanh, (A,)),
    "sqrt": (ad.sqrt, np.sqrt, (A,)),
    "qr, q": (lambda a: ad.linalg.qr(a).Q, lambda a: np.linalg.qr(a)[0], (B,)),
    "qr, r": (lambda a: ad.linalg.qr(a, "r"), lambda a: np.linalg.qr(a, "r"), (S,)),
    "qr, wide": (lambda a: ad.linalg.qr(a).R, lambda a: np.linalg.qr(a)[1], (A,)),
    "svd, tall": (lambda a: rebuilt(a, ad.linalg.svd), lambda a: rebuilt(a, np.linalg.svd), (B,)),
    "svd, wide": (lambda a: rebuilt(a, ad.linalg.svd), lambda a: rebuilt(a, np.linalg.svd), (A,)),
    "svd": (lambda a: rebuilt(a, ad.linalg.svd), lambda a: rebuilt(a, np.linalg.svd), (S,)),
    "svdvals": (ad.linalg.svdvals, lambda a: np.linalg.svd(a, compute_uv=False), (A,)),
    "pinv": (ad.linalg.pinv, np.linalg.pinv, (A,)),
    "pinv, tall": (ad.linalg.pinv, np.linalg.pinv, (B,)),
    "lstsq": (lambda a, b: ad.linalg.lstsq(a, b).x, lambda a, b: np.linalg.lstsq(a, b)[0], (B, S)),
    "lstsq, residuals": (lambda a, b: ad.linalg.lstsq(a, b).residuals, lambda a, b: np.linalg.lstsq(a, b)[1], (B, S)),
    "sum": (lambda a: a.sum(axis=0), lambda a: a.sum(0), (A,)),
    "mean": (lambda a: a.mean(axis=1), lambda a: a.mean(1), (A,)),
    "cumsum": (lambda a: ad.cumsum(a, 1), lambda a: np.cumsum(a, 1), (A,)),
    "var": (lambda a: ad.var(a, axis=1), lambda a: np.var(a, axis=1), (A,)),
    "std": (lambda a: ad.std(a, axis=0), lambda a: np.std(a, axis=0), (A,)),
    "norm": (lambda a: ad.norm(a, axis=1), lambda a: np.linalg.norm(a, axis=1), (A,)),
    "matmul": (lambda a, b: a @ b, np.matmul, (A, B)),
    "matmul vector": (lambda a, b: a @ b, np.matmul, (A, B[:, 0])),
    "matmul real": (lambda x, b: x @ b, np.matmul, (X, B)),
    "matmul batch": (lambda a, b: a @ b, np.matmul, (A[None] * np.ones((2, 1, 1)), B)),
    "einsum": (lambda a, b: ad.einsum("ij,jk->ki", a, b), lambda a, b: np.einsum("ij,jk->ki", a, b), (A, B)),
    "outer": (lambda a, b: ad.outer(a, b), np.outer, (A[0], B[:, 1])),
    "dot": (lambda a, b: ad.dot(a, b), np.dot, (A, B)),
    "transpose": (lambda a: ad.conj(a.T), lambda a: a.conj().T, (A,)),
    "reshape": (lambda a: a.reshape(3, 2), lambda a: a.reshape(3, 2), (A,)),
    "slice": (lambda a: a[1:, ::-1], lambda a: a[1:, ::-1], (A,)),
    "gather": (lambda a: a[[1, 0, 1]], lambda a: a[[1, 0, 1]], (A,)),
    "concatenate": (lambda a, b: ad.concatenate([a, b.T]), lambda a, b: np.concatenate([a, b.T]), (A, B)),
    "where": (lambda a, b: ad.where(X > 0, a, b), lambda a, b: np.where(X > 0, a, b), (A, B.T)),
    "solve": (ad.linalg.solve, np.linalg.solve, (S, B)),
    "solve real": (ad.linalg.solve, np.linalg.solve, (S.real, B)),
    "solve lower": (lambda a, b: ad.linalg.solve_triangular(a, b, lower=True),
                    lambda a, b: np.linalg.solve(np.tril(a), b), (S, B)),
    "solve upper": (ad.linalg.solve_triangular, lambda a, b: np.linalg.solve(np.triu(a), b), (S, B)),
    "inv": (ad.linalg.inv, np.linalg.inv, (S,)),
    "cholesky": (lambda a: ad.linalg.cholesky(definite(a)), lambda a: np.linalg.cholesky(definite(a)), (S,)),
    "det": (ad.linalg.det, np.linalg.det, (S,)),
    "slogdet sign": (lambda a: ad.linalg.slogdet(a).sign, lambda a: np.linalg.slogdet(a)[0], (S,)),
    "slogdet size": (lambda a: ad.linalg.slogdet(a).logabsdet, lambda a: np.linalg.slogdet(a)[1], (S,)),
    "to complex": (lambda x: ad.astype(x, ad.complex128) * 1j, lambda x: x.astype(complex) * 1j, (X,)),
}
each = pytest.mark.parametrize("name", PROGRAMS)


def weight(shape):
    """Other numbers for each element of a result: what makes a real number of it."""
    n = np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
    return np.cos(n) + 1j * np.sin(2 * n)


def loss_of(name):
    f = PROGRAMS[name][0]

    def loss(*arguments):
        y = f(*arguments)
        return ad.sum(ad.real(weight(y.shape) * y)) + ad.sum(ad.real(ad.conj(y) * y))

    return loss


def slope_by_differences(f, arguments, i, h=1e-6):
    """∂f/∂re + i ∂f/∂im of each element of argument i."""
    x = arguments[i]
    found = np.zeros(x.shape, x.dtype)
    for place in np.ndindex(x.shape):
        for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
            step = np.zeros_like(x)
            step[place] = h * unit
            above, below = (f(*arguments[:i], x + s, *arguments[i + 1 :]) for s in (step, -step))
            found[place] += unit * float(above - below) / (2 * h)
    return found


def numbers(name):
    return range(len(PROGRAMS[name][2]))


@each
def test_the_value_equals_numpys_and_native_code_the_reference(name):
    f, numpys, arguments = PROGRAMS[name]
    expected = np.asarray(numpys(*arguments))
    y = f(*map(ad.tensor, arguments))
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, rtol=1e-14, atol=1e-14)
    with eager():
        np.testing.assert_allclose(f(*map(ad.tensor, arguments)), y, rtol=1e-15, atol=1e-15)


@each
def test_the_gradient_is_that_of_the_real_and_the_imaginary_part(name):
    arguments = PROGRAMS[name][2]
    loss = loss_of(name)
    gradients = ad.grad(loss, argnums=tuple(numbers(name)))(*arguments)
    for i, g in enumerate(gradients):
        assert (g.shape, g.dtype) == (arguments[i].shape, arguments[i].dtype)
        np.testing.assert_allclose(g, slope_by_differences(loss, arguments, i), rtol=1e-6, atol=1e-7)


@each
def test_forward_mode_agrees_with_the_gradient(name):
    rng = np.random.default_rng(0)
    arguments = PROGRAMS[name][2]
    directions = [(rng.normal(size=x.shape) + 1j * rng.normal(size=x.shape)).astype(x.dtype) if x.dtype.kind == "c"
                  else rng.normal(size=x.shape) for x in arguments]  # fmt: skip
    loss = loss_of(name)
    _, slope = ad.jvp(loss, arguments, directions)
    gradients = ad.grad(loss, argnums=tuple(numbers(name)))(*arguments)
    pairing = sum(np.sum(np.real(np.conj(g) * d)) for g, d in zip(gradients, directions, strict=True))
    np.testing.assert_allclose(slope, pairing, rtol=1e-11)


@each
def test_second_derivatives_are_the_limit_of_differences(name):
    arguments = PROGRAMS[name][2]
    gradient = ad.grad(loss_of(name), argnums=tuple(numbers(name)))

    def size(*arguments):
        return sum(ad.sum(ad.real(weight(g.shape) * g)) for g in gradient(*arguments))

    for i in numbers(name):
        second = ad.grad(size, argnums=i)(*arguments)
        np.testing.assert_allclose(second, slope_by_differences(size, arguments, i), rtol=2e-6, atol=2e-6)


@each
def test_single_precision_stays_single_and_is_close(name):
    arguments = PROGRAMS[name][2]
    narrow = [x.astype(np.complex64 if x.dtype.kind == "c" else np.float32) for x in arguments]
    if name == "to complex":
        narrow = list(arguments)
    f = PROGRAMS[name][0]

    def loss(*arguments):
        return ad.sum(ad.abs(f(*arguments)) ** 2)

    exact = ad.grad(loss)(*arguments)
    found = ad.grad(loss)(*narrow)
    assert found.dtype == narrow[0].dtype
    np.testing.assert_allclose(found, exact, rtol=2e-4, atol=2e-4)


# ---------------------------------------------------------------- single facts


def test_the_gradient_of_a_factor_is_hermitian_like_its_matrix():
    a = definite(S)
    g = ad.grad(lambda a: ad.sum(ad.abs(ad.linalg.cholesky(a)) ** 2))(a)
    np.testing.assert_allclose(g, np.eye(3), atol=1e-14)  # |L|² is the trace


def test_many_systems_at_once_are_each_by_itself():
    many = np.stack([S, S.T, definite(S)])
    for f in (ad.linalg.inv, ad.linalg.det, lambda a: ad.linalg.solve(a, B), lambda a: ad.linalg.slogdet(a).sign):
        expected = np.stack([f(a) for a in many])
        np.testing.assert_allclose(ad.vmap(f)(many), expected, rtol=1e-12)
        np.testing.assert_allclose(ad.jit(f)(many), expected, rtol=1e-12)


def test_a_singular_complex_matrix_has_a_determinant_with_a_gradient():
    a = np.array([[1j, 2], [2j, 4]])
    g = ad.grad(lambda a: ad.real(ad.linalg.det(a)))(a)
    np.testing.assert_allclose(g, np.conj([[4, -2j], [-2, 1j]]), atol=1e-14)


def test_structured_matrices_are_real():
    with pytest.raises(ad.DTypeError, match=r"Cholesky: takes float .*got complex128"):
        ad.Cholesky(definite(S))


def test_the_size_of_zero_has_gradient_zero():
    np.testing.assert_array_equal(ad.grad(lambda z: ad.sum(ad.abs(z)))(np.zeros(2, complex)), [0, 0])


def test_a_step_along_the_negative_gradient_descends():
    z = np.array([1 + 2j, -0.5j])

    def loss(z):
        return ad.sum(ad.abs(z * z - 1) ** 2)

    value, g = ad.value_and_grad(loss)(z)
    assert loss(z - 1e-3 * g) < value


def test_a_complex_result_has_no_gradient_of_its_own():
    z = ad.tensor(1 + 2j, requires_grad=True)
    with pytest.raises(ad.GradientError, match="complex number has no direction to descend in"):
        (z * z).backward()
    (z * z).backward(np.complex128(1))
    assert z.grad.item() == 2 * (1 - 2j)


@pytest.mark.parametrize("f", [ad.floor, ad.maximum, ad.arctan2, ad.less, ad.erf])
def test_what_has_no_meaning_for_complex_numbers_refuses_them(f):
    with pytest.raises(ad.DTypeError, match=r"takes .*got complex128"):
        f(A, A) if f in (ad.maximum, ad.arctan2, ad.less) else f(A)


def test_parts_are_attributes_and_numpys_functions_record():
    z = ad.tensor(A, requires_grad=True)
    for ours, numpys in ((z.real, A.real), (z.imag, A.imag), (z.conj(), A.conj()), (np.conj(z), A.conj()),
                         (np.real(z), A.real), (np.imag(z), A.imag), (np.abs(z), np.abs(A))):  # fmt: skip
        assert ours.requires_grad
        np.testing.assert_array_equal(ours.detach(), numpys)
    np.testing.assert_array_equal(ad.tensor(X).conj(), X)


def test_a_compiled_program_mixes_real_and_complex_numbers():
    def f(x):
        z = ad.exp(1j * ad.sin(x))
        return ad.sum(ad.real(z) * x)

    x = np.linspace(0, 1, 100)
    compiled = ad.jit(ad.value_and_grad(f))
    for found, expected in zip(compiled(x), ad.value_and_grad(f)(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    np.testing.assert_allclose(compiled(x)[1], np.cos(np.sin(x)) - x * np.sin(np.sin(x)) * np.cos(x), rtol=1e-12)


def test_complex_inputs_and_constants_may_be_results():
    z = np.array([1 + 2j, 3 - 1j])
    same, twice, moved = ad.jit(lambda z: (z, z, z + 1j))(z)
    np.testing.assert_array_equal(same, z)
    np.testing.assert_array_equal(twice, z)
    np.testing.assert_array_equal(moved, z + 1j)
    np.testing.assert_array_equal(ad.zeros(3, dtype=ad.complex128).numpy(), np.zeros(3, complex))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_a_complex_number_is_nan_or_infinite_where_a_part_is(name, dtype):
    parts = [0.0, -1.5, np.nan, np.inf, -np.inf]
    z = np.array([complex(a, b) for a in parts for b in parts], dtype)
    wanted = getattr(np, name)(z)
    ours, t = getattr(ad, name), ad.tensor(z)
    for _ in range(20):  # recorded natively from some time on
        np.testing.assert_array_equal(ours(t), wanted)
    np.testing.assert_array_equal(getattr(np, name)(t), wanted)
    np.testing.assert_array_equal(ad.jit(ours)(z), wanted)
    np.testing.assert_array_equal(ad.vmap(ours)(z), wanted)
    with eager():
        np.testing.assert_array_equal(ours(t), wanted)
    g = ad.grad(lambda z: ad.where(ours(z), 0.0, ad.real(z)).sum())(z)
    np.testing.assert_array_equal(g, np.where(wanted, 0, 1).astype(dtype))


SPECIALS = [0.0, -0.0, 1.0, -2.0, np.nan, np.inf, -np.inf]
ARITHMETIC = {
    "z * r": lambda z, r: z * r, "r * z": lambda z, r: r * z, "z / r": lambda z, r: z / r, "r / z": lambda z, r: r / z,
    "z + r": lambda z, r: z + r, "z - r": lambda z, r: z - r, "r - z": lambda z, r: r - z,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("f", ARITHMETIC.values(), ids=ARITHMETIC)
def test_nan_and_infinities_beside_real_operands_are_numpys_however_it_is_run(f, dtype):
    z = np.array([complex(a, b) for a in SPECIALS for b in SPECIALS], dtype)
    r = np.array(SPECIALS, z.real.dtype)[:, None]
    with np.errstate(all="ignore"):
        expected = f(z, r)
        for found in (f(ad.tensor(z), ad.tensor(r)).numpy(), ad.jit(f)(z, r), ad.vmap(f, (None, 0))(z, r)):
            np.testing.assert_array_equal(found, expected)
        for number in SPECIALS:
            expected = f(z, number)
            for found in (
                f(ad.tensor(z), number).numpy(),
                ad.jit(f)(z, number),  # the number is an argument
                ad.jit(lambda z, number=number: f(z, number))(z),
            ):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_complex_numbers_are_ordered_as_numpy_orders_them(dtype):
    rng = np.random.default_rng(0)
    for shape in ((5,), (1,), (7, 3)):
        whole = rng.integers(-2, 3, shape) + 1j * rng.integers(-2, 3, shape)  # with ties
        holed = whole.copy()
        holed.flat[::3], holed.flat[1::4] = np.nan, complex(1, np.nan)
        far = whole.copy()
        far.flat[::2] = complex(-np.inf, 1)
        for x in (a.astype(dtype) for a in (whole, holed, far)):
            for axis in (None, 0, -1):
                for name in ("max", "min", "argmax", "argmin"):
                    found = ad.jit(lambda x, name=name, axis=axis: getattr(ad, name)(x, axis=axis))(x)
                    np.testing.assert_array_equal(found, getattr(np, name)(x, axis=axis), err_msg=name)
            for axis in (0, -1):
                order = np.lexsort((x.imag, x.real, np.isnan(x.imag) + 2 * np.isnan(x.real)), axis=axis)
                np.testing.assert_array_equal(ad.jit(lambda x, axis=axis: ad.argsort(x, axis=axis))(x), order)
                np.testing.assert_array_equal(np.sort(ad.tensor(x), axis=axis), np.sort(x, axis=axis))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ad.ShapeError, match=rf"{name}: nothing to choose from: c"):
            getattr(ad, name)(np.ones(0, dtype))
        with eager(), pytest.raises(ad.ShapeError, match=rf"{name}: nothing to choose from: c"):
            getattr(ad, name)(np.ones(0, dtype))


def test_complex_products_are_right_at_zeros_and_of_nothing():
    z = np.array([0.0, 1j, 2.0])
    np.testing.assert_allclose(ad.grad(lambda z: ad.real(ad.prod(z)))(z), [-2j, 0.0, 0.0])
    np.testing.assert_array_equal(ad.prod(np.ones((0, 2), complex), axis=0), np.ones(2))
    np.testing.assert_allclose(ad.jit(ad.prod)(np.full(37, 1 + 0.1j)), np.prod(np.full(37, 1 + 0.1j)))


def test_equal_complex_extremes_share_the_gradient():
    z = np.array([1 + 2j, 1 + 2j, 1 + 1j, 0.0])
    np.testing.assert_array_equal(ad.grad(lambda z: ad.real(ad.max(z)))(z), [0.5, 0.5, 0.0, 0.0])


@pytest.mark.parametrize("values", [[complex(1, np.inf)], [complex(-np.inf, 2), complex(-np.inf, np.inf)],
                                    [complex(0, -np.inf), -1j], [complex(1, np.nan), 2], [complex(np.inf, np.inf)]])
def test_complex_extremes_keep_infinite_parts_apart(values):
    z = np.array(values)
    for name in ("max", "min"):
        for found in (ad.jit(getattr(ad, name))(z), getattr(ad, name)(ad.tensor(z)).item()):
            np.testing.assert_array_equal(np.array([found]).view(float), np.array([getattr(np, name)(z)]).view(float))
    kept = np.asarray(ad.nan_to_num(z, nan=7.0, posinf=np.inf, neginf=-np.inf))
    np.testing.assert_array_equal(kept.view(float), np.where(np.isnan(z.view(float)), 7.0, z.view(float)))


def test_an_infinite_gradient_of_an_imaginary_part_leaves_the_real_one():
    slopes = ad.grad(lambda z: ad.sum(ad.sqrt(ad.imag(z))))
    for f in (slopes, ad.jit(slopes), ad.vmap(slopes)):
        np.testing.assert_array_equal(f(np.array([1 + 0j])).view(float), [0.0, np.inf])
