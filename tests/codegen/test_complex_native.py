"""Complex numbers in native code: by parts, fused, in loops of vectors, and what NumPy has to say about the values."""

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def chain(z, w):
    y = ad.exp(z * 0.1) * w + z / (w * w + 2)
    return ad.sum(ad.abs(y) ** 2)


def works(f, *arguments):
    """The figures of a compiled program, by name."""
    text = str(ad.inspect(f, *arguments).stats)
    return {line[:20].strip(): line[20:].strip() for line in text.splitlines() if line}


# ---------------------------------------------------------------- what is compiled


def test_a_chain_and_its_gradient_are_one_kernel_each_without_numpy():
    for f in (chain, ad.value_and_grad(chain, argnums=(0, 1))):
        found = works(f, "c128[1000]", "c128[1000]")
        assert (found["kernels"], found["host calls"]) == ("1", "0")


def test_a_loop_that_also_adds_up_keeps_its_lanes():
    text = str(ad.inspect(ad.value_and_grad(lambda z: ad.sum(ad.real(z * z * z))), "c128[5000]").llvm)
    assert "gather" not in text and "scatter" not in text and "x double>" in text


# ---------------------------------------------------------------- arguments and results


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2,), (5,), (8,), (17,), (3, 5), (257,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_any_shape_comes_out_as_it_is(shape, dtype):
    z = np.asarray(random(*shape)).astype(dtype)
    product, root, size, same = ad.jit(lambda z: (z * z, ad.sqrt(z), ad.abs(z), z))(z)
    close = dict(rtol=1e-5 if dtype == np.complex64 else 1e-14)
    for found, expected in ((product, z * z), (root, np.sqrt(z)), (size, np.abs(z)), (same, z)):
        assert np.asarray(found).dtype == expected.dtype and np.shape(found) == shape
        np.testing.assert_allclose(found, expected, **close)


def test_arrays_of_any_layout_are_taken():
    z = random(6, 8)
    f = ad.jit(lambda z: z * z)
    for view in (z, z.T, z[::2, ::-1], np.asfortranarray(z), z[1:4]):
        np.testing.assert_allclose(f(view), view * view, rtol=1e-15)


@pytest.mark.parametrize("number", [1 - 2j, 3j, 2.5, 2, np.complex128(1j), np.array(2 - 1j)], ids=repr)
def test_numbers_are_arguments_like_any_other(number):
    z = random(4)
    f = ad.jit(lambda z, c: z * c)
    for _ in range(2):
        np.testing.assert_allclose(f(z, number), z * number, rtol=1e-15)
    narrow = f(z.astype(np.complex64), 1 - 2j)
    assert narrow.dtype == np.complex64
    np.testing.assert_allclose(narrow, z.astype(np.complex64) * np.complex64(1 - 2j), rtol=1e-6)


def test_a_value_may_be_a_result_and_go_on():
    def f(z):
        y = ad.exp(z)
        rows = ad.sum(y, axis=1, keepdims=True)
        return y, rows, y / rows, ad.matmul(y, ad.conj(y.T))

    z = random(5, 6)
    y = np.exp(z)
    rows = y.sum(1, keepdims=True)
    for found, expected in zip(ad.jit(f)(z), (y, rows, y / rows, y @ y.conj().T), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_two_arrays_may_share_a_part():
    z, x = random(9), RNG.normal(size=9)
    up, down, again = ad.jit(lambda z, x: (z + x * 1j, z - x * 1j, ad.conj(z)))(z, x)
    np.testing.assert_allclose(up, z + 1j * x, rtol=1e-15)
    np.testing.assert_allclose(down, z - 1j * x, rtol=1e-15)
    np.testing.assert_array_equal(again, z.conj())


# ---------------------------------------------------------------- products


@pytest.mark.parametrize("shapes", [
    ((1, 5), (5, 6)), ((3, 5), (5, 6)), ((4, 1), (1, 3)), ((7, 2), (2, 1)), ((40, 30), (30, 20)), ((5, 0), (0, 4)),
    ((2, 6, 5), (5, 3)), ((6, 5), (2, 5, 3)), ((2, 1, 6, 5), (3, 5, 4)), ((5,), (5, 3)), ((6, 5), (5,)),
])  # fmt: skip
def test_products_of_any_shape_are_numpys(shapes):
    a, b = (random(*shape) for shape in shapes)
    np.testing.assert_allclose(ad.jit(lambda a, b: a @ b)(a, b), a @ b, rtol=1e-13, atol=1e-13)
    turned = ad.jit(lambda a, b: ad.conj(a) @ (b * 1j))(a, b)
    np.testing.assert_allclose(turned, a.conj() @ (b * 1j), rtol=1e-13, atol=1e-13)


def test_a_product_is_four_products_of_real_matrices_and_by_a_real_one_two():
    for shapes, count in ((("c128[64,48]", "c128[48,32]"), 4), (("c128[64,48]", "f64[48,32]"), 2)):
        assert str(ad.inspect(lambda a, b: a @ b, *shapes).fused).count("gemm") == count


# ---------------------------------------------------------------- values

FUNCTIONS = {
    "exp": (ad.exp, np.exp), "log": (ad.log, np.log), "sqrt": (ad.sqrt, np.sqrt), "sin": (ad.sin, np.sin),
    "cos": (ad.cos, np.cos), "tan": (ad.tan, np.tan), "sinh": (ad.sinh, np.sinh), "cosh": (ad.cosh, np.cosh),
    "tanh": (ad.tanh, np.tanh), "abs": (ad.abs, np.abs), "reciprocal": (ad.reciprocal, np.reciprocal),
    "cube": (lambda z: z**3, lambda z: z**3), "quotient": (lambda z: (z + 1) / (z - 3j), lambda z: (z + 1) / (z - 3j)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_right_within_four_ulps(name):
    ours, numpys = FUNCTIONS[name]
    n = 4000
    wide = random(n) * 10.0 ** RNG.uniform(-3, 1, n)
    near_one = np.exp(1j * RNG.uniform(-3.2, 3.2, n)) * (1 + RNG.normal(size=n) * 10.0 ** RNG.uniform(-12, 0, n))
    for z in (wide, near_one):
        exact = numpys(z.astype(np.clongdouble))
        error = np.abs(ad.jit(ours)(z) - exact) / np.abs(exact)
        assert error.max() < 4 * np.finfo(float).eps


@pytest.mark.parametrize("name", ["sqrt", "abs", "reciprocal", "log"])
def test_nothing_overflows_on_the_way(name):
    ours, numpys = FUNCTIONS[name]
    z = random(500) * 10.0 ** RNG.uniform(-300, 300, 500)
    np.testing.assert_allclose(ad.jit(ours)(z), numpys(z), rtol=1e-14)


PARTS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -800.0, 1e308]


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "abs"])
def test_infinities_and_zeros_give_what_numpy_gives(name):
    ours, numpys = FUNCTIONS[name]
    z = np.array([complex(a, b) for a in PARTS for b in PARTS])
    with np.errstate(all="ignore"):
        expected = numpys(z)
    found = ad.jit(ours)(z)
    for part in (np.real, np.imag):
        np.testing.assert_allclose(part(found), part(expected), rtol=1e-14)
    zeros = (expected == 0) & (name != "exp")  # of e^-inf in no direction, standards leave it open
    np.testing.assert_array_equal(np.signbit(found.imag[zeros]), np.signbit(expected.imag[zeros]))


def test_a_large_growth_is_brought_back_by_a_small_direction():
    z = np.array([709.9 + 0.7j, 710 + 0.78j])
    np.testing.assert_allclose(ad.jit(ad.exp)(z), np.exp(z), rtol=1e-12)


# ---------------------------------------------------------------- random programs

UNARY = (
    ad.exp, ad.log, ad.sqrt, ad.sin, ad.tanh, ad.cosh, ad.conj, lambda z: -z, lambda z: z**-2, lambda z: 1 / z,
    lambda z: ad.abs(z) * z, lambda z: ad.real(z) * 1j + z, lambda z: ad.imag(z) + z, lambda z: (1 - 2j) * z,
    lambda z: ad.concatenate([z[1:], z[:1]]), lambda z: z[::-1], lambda z: z.T.reshape(z.shape), lambda z: z[[2, 0, 1]],
    lambda z: ad.cumsum(z, 0), lambda z: z - z.mean(axis=0), lambda z: z / ad.sum(z, axis=1, keepdims=True),
    lambda z: ad.where(ad.real(z) > 0, z, z * 1j), lambda z: z @ ad.conj(z.T) @ z,
)  # fmt: skip
BINARY = (
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / (b + 3),
    lambda a, b: ad.where(ad.abs(a) < ad.abs(b), a, b),
)  # fmt: skip


def program_of(seed):
    """A random program of two arguments: all its values, none of them large."""
    choices = np.random.default_rng(seed).integers(0, 10**6, size=10)

    def program(z, w):
        values = [z, w]
        for c in map(int, choices):
            if c % 3 == 0:
                y = BINARY[c // 3 % len(BINARY)](values[c // 50 % len(values)], values[c // 7 % len(values)])
            else:
                y = UNARY[c // 3 % len(UNARY)](values[-1])
            values.append(y / (1 + ad.abs(y)))
        return [values[-1], *values[2::3]]

    return program


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_and_their_gradients_are_what_their_references_give(seed):
    program, width = program_of(seed), (1, 2, 5, 17)[seed % 4]
    z, w = random(3, width), random(3, width)

    def loss(z, w):
        return sum(ad.sum((k + 1) * ad.real(y) + ad.imag(y) * ad.real(y)) for k, y in enumerate(program(z, w)))

    gradient = ad.grad(loss, argnums=(0, 1))
    found = [*ad.jit(program)(z, w), *ad.jit(gradient)(z, w)]
    ad.config.eager = True
    try:
        expected = [*program(ad.tensor(z), ad.tensor(w)), *gradient(z, w)]
    finally:
        ad.config.eager = False
    for a, b in zip(found, expected, strict=True):
        b = np.asarray(b)
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * (1 + np.max(np.abs(b[np.isfinite(b)]), initial=0)))


# ---------------------------------------------------------------- loops, branches, examples, the host


def recurrence(c, xs):
    def step(c, x):
        c = c * (0.9 + 0.1j) + x
        return c, c * c

    return ad.scan(step, c, xs)


def test_a_loop_with_complex_states_is_native_and_right():
    c, xs = random(5), random(7, 5)
    states = []
    state = c
    for x in xs:
        state = state * (0.9 + 0.1j) + x
        states.append(state)
    for f in (recurrence, ad.jit(recurrence)):
        last, squares = f(c, xs)
        np.testing.assert_allclose(last, states[-1], rtol=1e-13)
        np.testing.assert_allclose(squares, np.square(states), rtol=1e-13)
    assert works(recurrence, "c128[5]", "c128[7,5]")["host calls"] == "0"


def test_the_passes_verify_what_is_made_of_complex_numbers(monkeypatch):
    monkeypatch.setenv("AUTODIFF_VERIFY", "1")
    c, xs = random(4), random(3, 4)

    def step(c, x):
        return ad.where(ad.abs(c) > 1, ad.exp(1j * c), c / (x + 3)) @ ad.eye(4), c**2

    def loss(c, xs):
        last, squares = ad.scan(step, c, xs)
        return ad.sum(ad.abs(last + squares) ** 2) + ad.real(ad.prod(ad.abs(c)))

    value, g = ad.jit(ad.value_and_grad(loss))(c, xs)
    ad.config.eager = True
    try:
        expected = ad.value_and_grad(loss)(c, xs)
    finally:
        ad.config.eager = False
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(g, expected[1], rtol=1e-11)


def test_loops_with_complex_states_are_differentiated_twice():
    def loss(c, xs):
        last, squares = recurrence(c, xs)
        return ad.sum(ad.abs(last) ** 2) + ad.sum(ad.real(squares) * ad.imag(squares))

    ad.check_gradients(loss, random(3), random(4, 3))


def test_repetitions_and_choices_take_complex_states():
    z, turns = random(4), 0
    f = ad.jit(lambda z: ad.while_loop(lambda s: ad.sum(ad.abs(s[0])) < 100, lambda s: (s[0] * (1.5 + 0.5j), s[1] + 1),
                                       (z, 0)))  # fmt: skip
    found, count = f(z)
    while np.abs(z).sum() < 100:
        z, turns = z * (1.5 + 0.5j), turns + 1
    assert count == turns
    np.testing.assert_allclose(found, z, rtol=1e-12)
    many = random(40)
    choose = ad.jit(lambda z: ad.cond(ad.real(z[0]) > 0, lambda z: z * 1j, lambda z: ad.exp(z), z))
    for z in (many, -many):
        np.testing.assert_allclose(choose(z), z * 1j if z[0].real > 0 else np.exp(z), rtol=1e-13)


def test_examples_side_by_side_are_each_by_itself():
    z = random(6, 5)
    f = ad.vmap(lambda z: ad.sum(z * ad.conj(z)) * ad.exp(z))
    for g in (f, ad.jit(f)):
        np.testing.assert_allclose(g(z), (np.abs(z) ** 2).sum(1)[:, None] * np.exp(z), rtol=1e-13)


@ad.function
def spectrum(x):
    """The Fourier transform, by NumPy."""


@spectrum.forward(ad.Vector, host=True)
def _(ctx, x):
    assert (x.dtype, x.ndim, x.flags.writeable) == (np.complex128, 1, False)
    return np.fft.fft(x)


@spectrum.backward(ad.Vector, host=True)
def _(ctx, y_bar):
    return np.fft.ifft(y_bar) * len(y_bar)


def test_the_host_is_given_complex_arrays_between_native_steps_and_inside_loops():
    z, zs = random(8), random(3, 8)
    np.testing.assert_allclose(ad.jit(spectrum)(z), np.fft.fft(z), rtol=1e-12)
    np.testing.assert_allclose(ad.jit(lambda z: spectrum(z * 1j) * 2)(z), 2j * np.fft.fft(z), rtol=1e-12)
    total, _ = ad.jit(lambda c, zs: ad.scan(lambda c, z: (c + spectrum(z), 0.0), c, zs))(z, zs)
    np.testing.assert_allclose(total, z + np.fft.fft(zs, axis=1).sum(0), rtol=1e-12)
    g = ad.grad(lambda z: ad.sum(ad.abs(spectrum(z * z)) ** 2))(z)
    np.testing.assert_allclose(g, 2 * 8 * np.abs(z) ** 2 * 2 * z, rtol=1e-12)
