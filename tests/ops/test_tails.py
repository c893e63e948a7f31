"""Values and derivatives of elementwise functions keep their digits in the tails and at any scale.

Every row of the table in `tails` is compared with many digits: both float types, the first and the second order, by
reverse and forward mode, natively and by the references.
"""


import mpmath
import numpy as np
import pytest

import autodiff as ad

from .cases import eager
from .tails import TABLE, exact

#: Subnormal numbers on the way to a result lose digits: so many of the smallest number are forgiven.
_FORGIVEN = 1024


def derivatives(row):
    """A program of the arguments: the value, then each derivative by (mode, the numbers of the arguments)."""

    def program(*xs):
        numbers = tuple(range(row.arity))

        def pulled(g):
            return ad.grad(lambda *xs: ad.sum(g(*xs)), argnums=numbers)

        def pushed(g, i):
            return ad.jvp(lambda x: g(*xs[:i], x, *xs[i + 1 :]), (xs[i],), (ad.ones_like(xs[i]),))[1]

        first = pulled(row.f)
        found = {("value", ()): row.f(*xs)}
        for i, g in enumerate(first(*xs)):
            def partial(*xs, i=i):
                return first(*xs)[i]

            found["reverse", (i,)], found["forward", (i,)] = g, pushed(row.f, i)
            for j, h in enumerate(pulled(partial)(*xs)):
                found["reverse", (i, j)], found["forward", (i, j)] = h, pushed(partial, j)
        return {key: y.detach() if isinstance(y, ad.Tensor) else y for key, y in found.items()}

    return program


def ulps(found, true, dtype):
    """The error in units in the last place of the exact number; 0 for a number that the dtype does not have."""
    info, found = np.finfo(dtype), float(found)
    if abs(true) >= float(info.max):
        return np.inf if np.isfinite(found) else 0.0
    if not np.isfinite(found):
        return np.inf
    with mpmath.workprec(100):
        slack = mpmath.ldexp(_FORGIVEN, int(info.minexp) - info.nmant)
        unit = mpmath.ldexp(1, int(mpmath.frexp(true)[1]) - info.nmant - 1) if true else slack
        beyond = abs(mpmath.mpf(found) - true) - (slack if abs(true) < 64 * float(info.tiny) else 0)
        return max(0.0, float(beyond / unit))


def points_of(row, dtype, points):
    """The points that are numbers of the dtype, as tuples and as arrays of the arguments."""
    with np.errstate(all="ignore"):
        table = np.array([p if isinstance(p, tuple) else (p,) for p in points]).astype(dtype)
    table = table[np.isfinite(table).all(1) & (table != 0).all(1)]
    return tuple([tuple(p) for p in table.tolist()]), [np.ascontiguousarray(c) for c in table.T]


def check(row, dtype, points, *, dense=False):
    """dense: also what a rounding of the arguments does is forgiven, as near a derivative's zero."""
    at, xs = points_of(row, dtype, points)
    true, program = exact(row.name, at), derivatives(row)
    with eager():
        routes = {"interpreted": program(*xs)}
    keys = list(routes["interpreted"])
    routes["native"] = dict(zip(keys, ad.jit(lambda *xs: list(program(*xs).values()))(*xs), strict=True))
    wrong = []
    for route, results in routes.items():
        for (mode, by), y in results.items():
            y = np.asarray(y)
            assert y.dtype == dtype
            for j, (point, one, wide) in enumerate(zip(at, y, true[tuple(sorted(by))], strict=True)):
                error, allowed = ulps(one, wide, dtype), row.ulps[len(by)]
                if dense and error > allowed:
                    allowed += moved(true, by, j, point, wide)
                if error > allowed:
                    place = f"{route}, {mode} by {by} at {point}"
                    wrong.append(f"{place}: {one}, not {mpmath.nstr(wide, 17)}: {error:.3g} ulps")
    assert not wrong, "\n".join(wrong)


def moved(true, by, j, point, wide):
    """By how many units in the last place a result moves when the arguments move by two; of second derivatives 64."""
    if len(by) == 2:
        return 64
    slopes = [true[tuple(sorted((*by, i)))][j] for i in range(len(point))]
    return float(2 * sum(abs(x * slope) for x, slope in zip(point, slopes, strict=True)) / abs(wide)) if wide else 0


each_row = pytest.mark.parametrize("row", TABLE, ids=[r.name for r in TABLE])


@each_row
def test_values_and_derivatives_keep_their_digits(row):
    """Half of the points in either dtype."""
    check(row, np.dtype(np.float64), row.points[::2])
    check(row, np.dtype(np.float32), row.points[1::2])


@pytest.mark.slow
@each_row
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
def test_values_and_derivatives_keep_their_digits_everywhere(row, dtype, rng):
    """All points, and more beside them, towards 0."""
    beside = np.array(row.points, float).repeat(3, axis=0)
    beside = beside * rng.uniform(0.99, 1, beside.shape)
    more = [tuple(p) for p in beside.tolist()] if row.arity == 2 else beside.tolist()
    check(row, np.dtype(dtype), [*row.points, *more], dense=True)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_the_slope_of_a_complex_size_is_a_direction_at_any_scale_and_at_infinity(dtype):
    inf, r, large, small = np.inf, 0.5**0.5, float(np.finfo(dtype).max) / 4, float(np.finfo(dtype).tiny)
    z = [complex(inf), complex(-inf, 3), complex(2, -inf), complex(inf, inf), large + 1j * large, small - 1j * small]
    z = np.array([*z, complex(0, float(np.finfo(dtype).smallest_subnormal)), 0, 3 + 4j], dtype)
    expected = np.array([1, -1, -1j, r + 1j * r, r + 1j * r, r - 1j * r, 1j, 0, 0.6 + 0.8j])

    def size(z):
        return ad.sum(ad.abs(z))

    leaf = ad.tensor(z, requires_grad=True)
    size(leaf).backward()
    rtol = 4 * np.finfo(dtype).eps
    for found in (ad.grad(size)(z), ad.jit(ad.grad(size))(z), leaf.grad.numpy()):
        np.testing.assert_allclose(found, expected, rtol=rtol)
    np.testing.assert_allclose(ad.jvp(ad.abs, (z,), (np.ones_like(z),))[1], expected.real, rtol=rtol)


def test_a_logarithm_of_a_quotient_has_a_gradient_where_the_square_of_the_divisor_is_no_number():
    x, y = np.float32(0.3), np.float32(1e-20)
    for f in (lambda x, y: x * ad.log(x / y), ad.special.rel_entr, ad.special.kl_div):
        for g in (ad.grad(f, 1), ad.jit(ad.grad(f, 1))):
            np.testing.assert_allclose(g(x, y), -3e19, rtol=1e-5)


@pytest.mark.parametrize("divisor", [1e-25, -1e-20, 1e-19, 3.0, 1e20, -1e25])
@pytest.mark.parametrize("shape", [(), (4,), (3, 1), (3, 4)])
def test_a_divisor_of_many_is_not_squared(shape, divisor):
    """d/db of sum(w x / b): each factor is a number of floats, and 1 / b**2 is none."""
    rng = np.random.default_rng(3)
    x, w = (rng.uniform(0.5, 2, (3, 4)) * scale for scale in (1e-3, 1e-3 * divisor**2 if abs(divisor) < 1 else 1e30))
    w = np.maximum(w, 1e-36)
    b = np.full(shape, divisor) * rng.uniform(1, 2, shape)
    args = [a.astype(np.float32) for a in (x, b, w)]
    wide = -(args[2].astype(float) * args[0] / np.square(args[1], dtype=float))
    while wide.ndim > len(shape):
        wide = wide.sum(0)
    for axis, n in enumerate(shape):
        wide = wide.sum(axis, keepdims=True) if n == 1 else wide

    def f(x, b, w):
        return ad.sum(w * (x / b))

    leaf = ad.tensor(args[1], requires_grad=True)
    f(args[0], leaf, args[2]).backward()
    for found in (ad.grad(f, 1)(*args), ad.jit(ad.grad(f, 1))(*args), ad.grad(ad.jit(f), 1)(*args), leaf.grad.numpy()):
        np.testing.assert_allclose(found, wide, rtol=4e-6)
