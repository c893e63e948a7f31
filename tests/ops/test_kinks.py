"""Derivatives of first and second order at zeros, ties and equal arguments: the limit where a function is smooth."""

import mpmath as mp
import numpy as np
import pytest
from covering import covering

import autodiff as ad

ZERO, ONES = np.zeros(2), np.ones(4)
EYE = np.eye(2)


def recorded_hessian(f, x):
    t = ad.tensor(x, requires_grad=True)
    g = ad.grad(f(t), t, create_graph=True)
    rows = []
    for e in np.eye(x.size):
        t.grad = None
        ad.sum(g * e).backward(retain_graph=True)
        rows.append(t.grad.numpy())
    return np.array(rows)


def hessian_of_products(f, x):
    return np.array([ad.hvp(f, x, e) for e in np.eye(x.size)])


def forward_over_forward(f, x):
    def tangent(x, e):
        return ad.jvp(f, (x,), (e,))[1]

    return np.array([[ad.jvp(lambda x, e=e: tangent(x, e), (x,), (d,))[1] for d in np.eye(x.size)]
                     for e in np.eye(x.size)])  # fmt: skip


def reverse_over_forward(f, x):
    return np.array([ad.grad(lambda x, e=e: ad.jvp(f, (x,), (e,))[1])(x) for e in np.eye(x.size)])


def eagerly(route):
    def run(f, x):
        ad.config.eager = True
        try:
            return route(f, x)
        finally:
            ad.config.eager = False

    return run


def once(f):
    """f inside of a loop whose number of steps is known when it runs."""
    return lambda x: ad.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(x)), (0, ad.zeros_like(f(x))))[1]


ROUTES = {
    "hessian": lambda f, x: ad.hessian(f)(x),
    "recorded": recorded_hessian,
    "hvp": hessian_of_products,
    "jit outside": lambda f, x: ad.jit(ad.hessian(f))(x),
    "jit inside": lambda f, x: ad.hessian(ad.jit(f))(x),
    "vmap": lambda f, x: ad.vmap(ad.hessian(f))(np.stack([x, x + 0.5]))[0],
    "checkpoint": lambda f, x: ad.hessian(ad.checkpoint(f))(x),
    "forward over forward": forward_over_forward,
    "reverse over forward": reverse_over_forward,
    "forward mode of all": lambda f, x: ad.jacobian(ad.jacobian(f, mode="forward"), mode="forward")(x),
    "while_loop": lambda f, x: forward_over_forward(once(f), x),
    "eager": eagerly(recorded_hessian),
    "eager, forward": eagerly(forward_over_forward),
}


def _complex(x):
    return x[0] + 1j * x[1]


def _spectrum(x):
    return ad.abs(ad.fft.fft(x)) ** 2


def _extremes(f):
    """A function of the larger and the smaller of two elements."""

    def of_elements(x):
        a, b = x[0], x[1]
        return f(ad.maximum(a, b), ad.minimum(a, b))

    return of_elements


CROSS = np.array([[0.0, 1], [1, 0]])


#: Functions that are smooth where a size in them is 0, a point, and the Hessian there.
SMOOTH = {
    "abs(x)**2": (lambda x: ad.sum(ad.abs(x) ** 2), ZERO, 2 * EYE),
    "abs(x)*abs(x)": (lambda x: ad.sum(ad.abs(x) * ad.abs(x)), ZERO, 2 * EYE),
    "square(abs(x))": (lambda x: ad.sum(ad.square(ad.abs(x))), ZERO, 2 * EYE),
    "abs(x)**3": (lambda x: ad.sum(ad.abs(x) ** 3), ZERO, 0 * EYE),
    "abs(x)**4 + abs(x)**2": (lambda x: ad.sum(ad.abs(x) ** 4 + ad.abs(x) ** 2), ZERO, 2 * EYE),
    "abs(x)**2 / 2 - w abs(x)**2": (lambda x: ad.sum(ad.abs(x) ** 2 / 2 - 3.0 * ad.abs(x) ** 2), ZERO, -5 * EYE),
    "exp(-abs(x)**2)": (lambda x: ad.sum(ad.exp(-(ad.abs(x) ** 2))), ZERO, -2 * EYE),
    "huber": (lambda x: ad.sum(ad.where(ad.abs(x) < 1, ad.abs(x) ** 2 / 2, ad.abs(x) - 0.5)), ZERO, EYE),
    "masked": (lambda x: ad.sum(ad.where(x < 1, ad.abs(x), 0.0) ** 2), ZERO, 2 * EYE),
    "reshaped": (lambda x: ad.sum(ad.abs(x.reshape(2, 1)).reshape(1, 2).T ** 2), ZERO, 2 * EYE),
    "sliced": (lambda x: ad.sum(ad.abs(x)[1:] ** 2), ZERO, np.diag([0.0, 2.0])),
    "float32": (lambda x: ad.sum(ad.astype(ad.abs(x), ad.float32) ** 2), ZERO, 2 * EYE),
    "hypot**2": (lambda x: ad.hypot(x[0], x[1]) ** 2, ZERO, 2 * EYE),
    "norm**2": (lambda x: ad.norm(x) ** 2, ZERO, 2 * EYE),
    "norm**4": (lambda x: ad.norm(x) ** 4, ZERO, 0 * EYE),
    "norm**2, axis kept": (lambda x: ad.sum(ad.norm(x[:, None], axis=0, keepdims=True) ** 2), ZERO, 2 * EYE),
    "linalg.norm**2": (lambda x: ad.linalg.norm(x) ** 2, ZERO, 2 * EYE),
    "vector_norm**2": (lambda x: ad.linalg.vector_norm(x) ** 2, ZERO, 2 * EYE),
    "norm(x, 3)**3": (lambda x: ad.norm(x, 3) ** 3, ZERO, 0 * EYE),
    "distances": (lambda x: ad.sum(ad.norm(x[:, None] - x[None, :], axis=0) ** 2), ZERO, 4 * (2 * EYE - 1)),
    "std**2": (lambda x: ad.std(x) ** 2, ZERO, EYE - 0.5),
    "std**2 of equals": (lambda x: ad.std(x, ddof=1) ** 2, np.full(2, 0.1), 2 * (EYE - 0.5)),
    "nanstd**2": (lambda x: ad.nanstd(x) ** 2, ZERO, EYE - 0.5),
    "abs of complex": (lambda x: ad.abs(_complex(x)) ** 2, ZERO, 2 * EYE),
    "real part of a product": (lambda x: ad.sum(ad.real((ad.abs(x) * (1 + 2j)) ** 2)), ZERO, -6 * EYE),
    "imaginary part": (lambda x: ad.sum(ad.imag(ad.abs(x) * ad.abs(x) * (1 + 2j))), ZERO, 4 * EYE),
    "phase": (lambda x: ad.sum(ad.real((ad.abs(x) * np.exp(0.5j)) ** 2)), ZERO, 2 * np.cos(1.0) * EYE),
    "norm of complex": (lambda x: ad.norm(x * (1 + 1j)) ** 2, ZERO, 4 * EYE),
    "var of complex": (lambda x: ad.var(x * (1 + 1j)), ZERO, 2 * (EYE - 0.5)),
    "nanvar of complex": (lambda x: ad.nanvar(x * (1 + 1j)), ZERO, 2 * (EYE - 0.5)),
    "std of complex": (lambda x: ad.std(x * (1 + 1j)) ** 2, ZERO, 2 * (EYE - 0.5)),
    "power spectrum": (lambda x: ad.sum(_spectrum(x)), ONES, 8 * np.eye(4)),
    "power spectrum of zeros": (lambda x: ad.sum(_spectrum(x)), 0 * ONES, 8 * np.eye(4)),
    "part of a spectrum": (
        lambda x: ad.sum(ad.abs(ad.fft.rfft(x))[1:] ** 2), ONES,
        np.array([[4.0, -2, 0, -2], [-2, 4, -2, 0], [0, -2, 4, -2], [-2, 0, -2, 4]]),
    ),
    "betaln": (
        lambda x: ad.special.betaln(x[0], x[1]), np.full(2, 2.0),
        np.array([[0.3611111111111111, -0.2838229557371153], [-0.2838229557371153, 0.3611111111111111]]),
    ),
    "betaln, large": (
        lambda x: ad.special.betaln(x[0], x[1]), np.full(2, 20.0),
        np.array([[0.0259557190939121, -0.0253151038412910], [-0.0253151038412910, 0.0259557190939121]]),
    ),
    "beta": (
        lambda x: ad.special.beta(x[0], x[1]), np.full(2, 2.0),
        np.array([[0.17592592592592593, 0.06843691478455484], [0.06843691478455484, 0.17592592592592593]]),
    ),
    # Even functions of |x|: both sides of 0 agree.
    "cos(abs(x))": (lambda x: ad.sum(ad.cos(ad.abs(x))), ZERO, -EYE),
    "cosh(abs(x)) abs(x)**2": (lambda x: ad.sum(ad.cosh(ad.abs(x)) * ad.abs(x) ** 2), ZERO, 2 * EYE),
    "sinc(abs(x))": (lambda x: ad.sum(ad.sinc(ad.abs(x))), ZERO, -np.pi**2 / 3 * EYE),
    "i0(abs(x))": (lambda x: ad.sum(ad.special.i0(ad.abs(x))), ZERO, EYE / 2),
    "i0e": (lambda x: ad.sum(ad.special.i0e(x)), ZERO, 1.5 * EYE),
    "abs(x) tanh(abs(x))": (lambda x: ad.sum(ad.abs(x) * ad.tanh(ad.abs(x))), ZERO, 2 * EYE),
    "cos(3 abs(x - 1))": (lambda x: ad.sum(ad.cos(3 * ad.abs(x - 1))), np.ones(2), -9 * EYE),
    "log1p(abs(x)**2)": (lambda x: ad.sum(ad.log1p(ad.abs(x) ** 2)), ZERO, 2 * EYE),
    "sign(x) abs(x) x": (lambda x: ad.sum(ad.sign(x) * ad.abs(x) * x), ZERO, 2 * EYE),
    # Even functions of a length, and of sizes that were moved.
    "cos(norm)": (lambda x: ad.cos(ad.norm(x)), ZERO, -EYE),
    "cos(3 norm)": (lambda x: ad.cos(3 * ad.norm(x)), ZERO, -9 * EYE),
    "cos(hypot)": (lambda x: ad.cos(ad.hypot(x[0], x[1])), ZERO, -EYE),
    "cos(std)": (lambda x: ad.cos(ad.std(x)), ZERO, (0.5 - EYE) / 2),
    "cos(abs of complex)": (lambda x: ad.cos(ad.abs(_complex(x))), ZERO, -EYE),
    "cosh(norm) exp(-norm**2)": (lambda x: ad.cosh(ad.norm(x)) * ad.exp(-(ad.norm(x) ** 2)), ZERO, -EYE),
    "log(cosh(norm))": (lambda x: ad.log(ad.cosh(ad.norm(x))), ZERO, EYE),
    "norm tanh(norm)": (lambda x: ad.norm(x) * ad.tanh(ad.norm(x)), ZERO, 2 * EYE),
    "norm arctan(norm)": (lambda x: ad.norm(x) * ad.arctan(ad.norm(x)), ZERO, 2 * EYE),
    "norm erf(norm)": (lambda x: ad.norm(x) * ad.erf(ad.norm(x)), ZERO, 4 / np.sqrt(np.pi) * EYE),
    "sinc(norm)": (lambda x: ad.sinc(ad.norm(x)), ZERO, -np.pi**2 / 3 * EYE),
    "norm sin(norm), norm made twice": (lambda x: ad.norm(x) * ad.sin(ad.norm(x)), ZERO, 2 * EYE),
    "matern 3/2": (lambda x: (1 + ad.norm(x)) * ad.exp(-ad.norm(x)), ZERO, -EYE),
    "matern 5/2": (lambda x: (1 + ad.norm(x) + ad.norm(x) ** 2 / 3) * ad.exp(-ad.norm(x)), ZERO, -EYE / 3),
    "i0(norm)": (lambda x: ad.special.i0(ad.norm(x)), ZERO, EYE / 2),
    "sin(norm)**2": (lambda x: ad.sin(ad.norm(x)) ** 2, ZERO, 2 * EYE),
    "1 / cos(norm)": (lambda x: 1 / ad.cos(ad.norm(x)), ZERO, EYE),
    "cos(abs(x)) moved": (lambda x: ad.sum(ad.cos(ad.abs(x)[::-1])), ZERO, -EYE),
    "cos(norm of rows)": (
        lambda x: ad.sum(ad.cos(ad.norm(x[None, :] * np.array([[1.0], [2.0]]), axis=1))), ZERO, -5 * EYE),
    # Symmetric functions of the larger and the smaller of two that tie.
    "max * min": (_extremes(lambda p, q: p * q), 3 * np.ones(2), CROSS),
    "exp(max) exp(min)": (_extremes(lambda p, q: ad.exp(p) * ad.exp(q)), np.ones(2), np.exp(2) * np.ones((2, 2))),
    "(max + min)**2": (_extremes(lambda p, q: (p + q) ** 2), 3 * np.ones(2), 2 * np.ones((2, 2))),
    "(max - min)**2": (_extremes(lambda p, q: (p - q) ** 2), 3 * np.ones(2), 2 * (2 * EYE - 1)),
    "max**2 + min**2": (_extremes(lambda p, q: p**2 + q**2), 3 * np.ones(2), 2 * EYE),
    "max**3 + min**3": (_extremes(lambda p, q: p**3 + q**3), 3 * np.ones(2), 18 * EYE),
    "max * min of x[i] anew": (
        lambda x: ad.maximum(x[0], x[1]) * ad.minimum(x[0], x[1]), 3 * np.ones(2), CROSS),
    "max * min, the other way": (lambda x: ad.sum(ad.maximum(x, x[::-1]) * ad.minimum(x, x[::-1])), ZERO, 2 * CROSS),
    "max with a number": (lambda x: ad.sum(ad.maximum(x, 1.0) ** 2 + ad.minimum(x, 1.0) ** 2), np.ones(2), 2 * EYE),
    "abs(a - b)**2": (lambda x: ad.abs(x[0] - x[1]) ** 2, 3 * np.ones(2), 2 * (2 * EYE - 1)),
    "cos(abs(a - b))": (lambda x: ad.cos(ad.abs(x[0] - x[1])), 3 * np.ones(2), 1 - 2 * EYE),
    # Kinks stay kinks: of |x| itself the second derivative is 0, and adds nothing to that of a smooth part.
    "abs": (lambda x: ad.sum(ad.abs(x)), ZERO, 0 * EYE),
    "abs(x)**2 + abs(x)": (lambda x: ad.sum(ad.abs(x) ** 2 + ad.abs(x)), ZERO, 2 * EYE),
    "stop(abs(x)) abs(x)": (lambda x: ad.sum(ad.stop_gradient(ad.abs(x)) * ad.abs(x)), ZERO, 0 * EYE),
    "norm": (lambda x: ad.norm(x), ZERO, 0 * EYE),
    "std": (lambda x: ad.std(x), ZERO, 0 * EYE),
    "size": (lambda x: ad.abs(_complex(x)), ZERO, 0 * EYE),
    "hypot": (lambda x: ad.hypot(x[0], x[1]), ZERO, 0 * EYE),
}  # fmt: skip


@covering(name=SMOOTH, route=ROUTES)
def test_the_second_derivative_is_the_limit(name, route):
    f, x, expected = SMOOTH[name]
    np.testing.assert_allclose(ROUTES[route](f, x), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in SMOOTH if name.startswith("max")])
@pytest.mark.parametrize("inner", ["forward", "reverse"])
@pytest.mark.parametrize("outer", ["forward", "reverse"])
def test_a_jacobian_of_a_jacobian_is_the_limit_in_a_tie(name, inner, outer):
    f, x, expected = SMOOTH[name]
    found = ad.jacobian(ad.jacobian(f, mode=inner), mode=outer)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


WEIGHTS = np.array([1.0, 2.0, 3.0])
#: As SMOOTH, of sizes that are broadcast: the other factor in which they cancel has more axes, or was summed over some.
BROADCAST = {
    "abs": (lambda x: ad.sum(ad.abs(x[0]) * (ad.abs(x[0]) * WEIGHTS)) + x[1] ** 2, ZERO, np.diag([12.0, 2.0])),
    "(abs w)**2": (lambda x: ad.sum((ad.abs(x)[:, None] * WEIGHTS) ** 2), ZERO, 28 * EYE),
    "abs of columns": (lambda x: ad.sum(ad.abs(x)[:, None] * (ad.abs(x)[:, None] * WEIGHTS)), ZERO, 12 * EYE),
    "sum of rows": (lambda x: ad.sum(ad.sum(ad.abs(x) * WEIGHTS[:, None], 0) * ad.abs(x)), ZERO, 12 * EYE),
    "vmap": (lambda x: ad.sum(ad.vmap(lambda e: ad.abs(e) * (ad.abs(e) * WEIGHTS))(x)), ZERO, 12 * EYE),
    "norm": (lambda x: ad.sum((ad.norm(x) * WEIGHTS) ** 2), ZERO, 28 * EYE),
    "norm, axis kept and summed": (lambda x: ad.sum(ad.norm(x, keepdims=True)) ** 2, ZERO, 2 * EYE),
    "norm, axis kept": (
        lambda x: ad.sum(ad.norm(x, keepdims=True) * (ad.norm(x, keepdims=True) * WEIGHTS)), ZERO, 12 * EYE),
    "max * min": (_extremes(lambda p, q: ad.sum(p * (q * WEIGHTS))), 3 * np.ones(2), 6 * CROSS),
    "max * min, both": (_extremes(lambda p, q: ad.sum((p * WEIGHTS) * (q * WEIGHTS))), ONES[:2], 14 * CROSS),
}  # fmt: skip


@pytest.mark.parametrize("name", BROADCAST)
def test_the_second_derivative_is_the_limit_where_a_size_is_broadcast(name):
    f, x, expected = BROADCAST[name]
    for route in ("hessian", "recorded", "hvp", "jit outside", "vmap", "forward over forward", "reverse over forward",
                  "forward mode of all", "eager", "eager, forward"):  # fmt: skip
        np.testing.assert_allclose(ROUTES[route](f, x), expected, rtol=1e-12, atol=1e-12, err_msg=route)


@pytest.mark.parametrize("product", [lambda y: y @ y, lambda y: ad.einsum("i,i->", y, y), lambda y: ad.vdot(y, y)])
def test_a_size_cancels_in_a_product_with_itself_in_reverse_mode(product):
    for route in ("hessian", "recorded", "hvp", "jit outside", "vmap", "eager"):
        np.testing.assert_allclose(ROUTES[route](lambda x: product(ad.abs(x)), ZERO), 2 * EYE, err_msg=route)


@pytest.mark.parametrize("name", [n for n, (_, x, _) in SMOOTH.items() if not x.any() and n[:3] not in ("flo", "sto")])
def test_the_derivative_is_what_it_was(name):
    f, x, _ = SMOOTH[name]
    assert np.all(ad.grad(f)(x) == 0)
    x = np.array([1.5, -2.5, 0.75, 0.5][: len(x)])
    near = [(ad.vmap(f)(x + h * np.eye(len(x))), h) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(ad.grad(f)(x), (near[0][0] - near[1][0]) / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-160, 1e-120, 1e120, 1e150])
def test_the_square_of_a_norm_has_its_derivative_at_any_scale(scale):
    x = scale * np.array([3.0, 4.0])
    np.testing.assert_allclose(ad.grad(lambda x: ad.norm(x) ** 2)(x), 2 * x, rtol=1e-12)


def test_gradients_of_the_size_itself_and_hooks_on_it_see_all():
    x = ad.tensor([0.0, 2.0], requires_grad=True)
    size = ad.abs(x)
    seen = []
    size.register_hook(lambda g: seen.append(g.detach().numpy().copy()))
    size.retain_grad()
    ad.sum(size**2).backward()
    np.testing.assert_array_equal(size.grad.numpy(), [0.0, 4.0])
    np.testing.assert_array_equal(seen[0], [0.0, 4.0])
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 4.0])


# ---------------------------------------------------------------- derivatives that are zero everywhere

STEPS = {
    **{name: getattr(ad, name) for name in ("floor", "ceil", "trunc", "rint", "round", "sign")},
    "round to decimals": lambda t: ad.round(t, 1),
    "floor_divide": lambda t: t // 2.0,
    "floor_divide by": lambda t: 2.0 // t,
    "heaviside": lambda t: ad.heaviside(t, 0.5),
    "power to 0": lambda t: t**0,
    "copysign": lambda t: ad.copysign(1.0, t),
    "sign of exp": lambda t: ad.sign(ad.exp(t)),
    "modf": lambda t: ad.modf(t)[1],
    "clip": lambda t: ad.clip(t, 10.0, 11.0),
    "polyval": lambda t: ad.polyval([2.0], t),
    "polyval of none": lambda t: ad.polyval([], t),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_derivative_that_is_zero_everywhere_is_zeros(name):
    f = STEPS[name]
    x = np.array([1.5, -0.5])
    total = ad.sum(f(ad.tensor(x, requires_grad=True)))
    assert total.requires_grad
    for _ in range(3):
        t = ad.tensor(x, requires_grad=True)
        ad.sum(f(t)).backward()
        np.testing.assert_array_equal(t.grad.numpy(), [0, 0])
        np.testing.assert_array_equal(ad.grad(ad.sum(f(t)), t).numpy(), [0, 0])
        g = ad.grad(ad.sum(f(t)), t, create_graph=True)
        np.testing.assert_array_equal(ad.grad(ad.sum(g), t).numpy(), [0, 0])
        ad.sum(f(t) + t).backward()
        np.testing.assert_array_equal(t.grad.numpy(), [1, 1])
    np.testing.assert_array_equal(ad.grad(lambda t: ad.sum(f(t)))(x), [0, 0])
    np.testing.assert_array_equal(ad.jvp(lambda t: ad.sum(f(t)), x, x)[1], 0)


def test_a_leaf_that_is_not_in_the_history_has_no_gradient():
    t, u = ad.tensor([1.5], requires_grad=True), ad.tensor([1.5], requires_grad=True)
    ad.sum(ad.floor(t)).backward()
    assert u.grad is None
    with pytest.raises(ad.GradientError, match="not used"):
        ad.grad(ad.sum(ad.floor(t)), u)
    assert ad.grad(ad.sum(ad.floor(t)), u, allow_unused=True) is None


def test_a_step_in_a_long_recording_has_zeros():
    for _ in range(4):
        t, u = ad.tensor([1.5], requires_grad=True), ad.tensor([0.5], requires_grad=True)
        y = u
        for _ in range(60):
            y = ad.tanh(y) * 1.5 + ad.floor(t)
        ad.sum(y).backward()
        np.testing.assert_array_equal(t.grad.numpy(), [0.0])


# ---------------------------------------------------------------- roots


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_over_the_root_is_numpys_power_everywhere(dtype):
    x = np.array([-0.0, 0.0, -np.inf, np.inf, -1.0, np.nan, 4.0, 0.25], dtype)
    exponent = np.full(8, -0.5, dtype)
    with np.errstate(all="ignore"):
        expected = x**exponent
        slope = dtype(-0.5) * x ** dtype(-1.5)
    for f in (lambda x: x**-0.5, ad.jit(lambda x: x**-0.5), lambda x: ad.power(x, exponent)):
        np.testing.assert_array_equal(np.asarray(f(ad.tensor(x))), expected)
        np.testing.assert_allclose(ad.grad(lambda x, f=f: ad.sum(f(x)))(x), slope, rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "p", "expected"),
    [
        (2.0, 0.0, [[0.0, 0.5], [0.5, np.log(2.0) ** 2]]),
        (1.0, 0.0, [[0.0, 1.0], [1.0, 0.0]]),
        (0.0, 2.0, [[2.0, 0.0], [0.0, 0.0]]),
        (0.0, 0.0, [[0.0, np.inf], [np.inf, 0.0]]),
        (0.0, 3.0, [[0.0, 0.0], [0.0, 0.0]]),
        (1.0, 1.0, [[0.0, 1.0], [1.0, 0.0]]),
    ],
)
def test_a_power_has_its_mixed_derivatives_where_an_exponent_or_a_base_is_zero(x, p, expected):
    found = ad.hessian(lambda v: ad.power(v[0], v[1]))(np.array([x, p]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_power_to_1_has_no_finite_derivative_by_its_exponent_and_base_at_0():
    assert ad.grad(lambda x: ad.grad(lambda p: ad.power(x, p))(1.0))(0.0) == -np.inf
    assert ad.grad(lambda p: ad.grad(lambda x: ad.power(x, p))(0.0))(1.0) == -np.inf
    assert ad.jvp(lambda p: ad.jvp(lambda x: ad.power(x, p), 0.0, 1.0)[1], 1.0, 1.0)[1] == -np.inf


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("f", [ad.special.rel_entr, ad.special.kl_div], ids=["rel_entr", "kl_div"])
def test_a_relative_entropy_has_the_limits_of_its_second_derivatives_at_the_edges_of_its_domain(f, order):
    def second(i, j, x, y):
        one = ad.grad(lambda *xs: ad.grad(f, i)(*xs), j)
        return one(x, y), ad.jit(one)(x, y)

    for at, expected in (((0.0, 1.0), [np.inf, -1.0, 0.0]), ((0.0, 4.0), [np.inf, -0.25, 0.0]),
                         ((1.0, 0.0), [1.0, -np.inf, np.inf]), ((2.0, 4.0), [0.5, -0.25, 0.125])):  # fmt: skip
        by_x, by_both, by_y = second(0, 0, *at), second(*order, *at), second(1, 1, *at)
        np.testing.assert_array_equal([by_x[0], by_both[0], by_y[0]], expected)
        np.testing.assert_array_equal([by_x[1], by_both[1], by_y[1]], expected)


SIDES = [(1.0, 1e-9), (1e-12, 1.0), (3.0, 4.0), (-1e150, 1e130), (1e-150, 1e-170), (0.0, 2.0)]


@pytest.mark.parametrize("sides", SIDES)
def test_the_second_derivatives_of_a_length_have_their_digits_however_far_its_sides_differ(sides):
    a, b = (mp.mpf(s) for s in sides)
    length = mp.hypot(a, b)
    expected = np.array([[float(b * b / length**3), float(-a * b / length**3)],
                         [float(-a * b / length**3), float(a * a / length**3)]])  # fmt: skip
    for f in (lambda x: ad.hypot(x[0], x[1]), lambda x: ad.abs(_complex(x))):
        for route in ("hessian", "recorded", "hvp", "forward over forward", "reverse over forward"):
            np.testing.assert_allclose(ROUTES[route](f, np.array(sides)), expected, rtol=1e-14, atol=0)


# ---------------------------------------------------------------- forward mode is transposed where there are kinks


def test_forward_mode_calls_no_hook_beside_a_kink():
    def f(x):
        size = ad.abs(x)
        size.register_hook(lambda g: pytest.fail("a hook is called on the way back"))
        return ad.sum(size**2)

    for _ in range(3):
        assert ad.jvp(f, np.array([1.0, -2.0]), np.ones(2))[1] == -2.0


def test_forward_mode_runs_the_rule_of_a_function_beside_a_kink():
    @ad.function
    def tripled(x): ...

    @tripled.forward(ad.Tensor)
    def _(ctx, x):
        return 3 * x

    @tripled.backward(ad.Tensor)
    def _(ctx, g):
        pytest.fail("it is a rule of reverse mode")

    @tripled.jvp(ad.Tensor)
    def _(ctx, dx):
        return 3 * dx

    for _ in range(3):
        assert ad.jvp(lambda x: ad.sum(tripled(ad.maximum(x, 0.0))), np.array([1.0, -2.0]), np.ones(2))[1] == 3.0


def test_a_result_that_does_not_depend_on_what_moves_has_a_tangent_of_zero_beside_a_kink():
    def f(x, y):
        return ad.abs(x) * 2, x, y, ad.argmax(x), ad.sum(ad.abs(y))

    tangents = ad.jvp(f, (np.array([-1.0, 2.0]), np.ones(2)), (np.array([1.0, 10.0]), None))[1]
    for found, expected in zip(tangents, ([-2.0, 20.0], [1.0, 10.0], [0.0, 0.0], 0, 0.0), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_kinks_cancel_in_forward_mode_of_forward_mode_beside_a_loop():
    """The limit of 2 |x|'^2 + 2 for each of two elements, also at 0."""

    def f(x):
        total, _ = ad.scan(lambda c, e: (c + e * e, c), ad.tensor(0.0), x)
        return (abs(x) ** 2).sum() + total

    x, v = ad.tensor([0.0, 1.0]), ad.tensor([1.0, 1.0])
    _, dot = ad.jvp(lambda y: ad.jvp(f, (y,), (v,))[1], (x,), (v,))
    assert dot.item() == 8.0


@pytest.mark.parametrize("size", [
    lambda z: ad.abs(z),
    lambda z: ad.abs(z)[::-1],
    lambda z: ad.norm(z),
    lambda z: ad.std(z),
    lambda z: ad.hypot(ad.real(z), ad.imag(z)),
    lambda z: ad.maximum(ad.real(z), ad.imag(z)),
    lambda z: ad.abs(ad.imag(z)),
], ids=["abs", "flipped", "norm", "std", "hypot", "maximum", "abs of real"])  # fmt: skip
@pytest.mark.parametrize("outer", [lambda t: ad.imag(t * t), lambda t: ad.real(ad.sin(t) * t), lambda t: ad.imag(t**3)])
def test_both_modes_agree_where_a_kink_cancels_in_a_complex_product(size, outer):
    z, v = np.array([0.5 + 0.3j, -0.2 + 0.7j]), ad.tensor([1.0 + 0.4j, 0.3 - 0.8j])

    def f(z):
        return ad.sum(outer(size(z) * z))

    def along(g):
        return ad.sum(ad.real(ad.conj(g) * v))

    x = ad.tensor(z)
    np.testing.assert_allclose(ad.jvp(f, (x,), (v,))[1], along(ad.grad(f)(x)), rtol=1e-12)
    twice = ad.grad(lambda z: along(ad.grad(f)(z)))(x)
    for second in (ad.hvp(f, (x,), (v,)), ad.grad(lambda z: ad.jvp(f, (z,), (v,))[1])(x)):
        np.testing.assert_allclose(second.detach(), twice, rtol=1e-11)


@pytest.mark.parametrize("of", [np.asarray, ad.tensor])
@pytest.mark.parametrize("size", [abs, lambda x: ad.hypot(x, 2.0)])
def test_an_argument_beside_a_size_keeps_its_second_derivative(size, of):
    x, v, h = np.array([0.5, -1.5]), np.array([1.0, 10.0]), np.hypot([0.5, -1.5], 2.0)
    by_hand = np.array([8.0, 0.0]) if size is abs else 2 * (x / h + 1) ** 2 + 2 * (h + x) * 4 / h**3

    def f(x):
        return ad.sum((size(x) + x) ** 2)

    def along(x):
        return ad.sum(ad.grad(f)(x) * of(v))

    for second in (ad.hvp(f, (of(x),), (of(v),)), ad.grad(along)(of(x)), ad.jvp(ad.grad(f), (of(x),), (of(v),))[1]):
        np.testing.assert_allclose(second, v * by_hand, rtol=1e-14)


def _tied(x):
    a, b = x, x / 2
    return ad.sum(ad.abs(ad.minimum(a, b) + 1j * ad.maximum(a, b)) ** 2)


def _conjugates(x):
    z = ad.abs(x) * (0.6 + 0.8j)
    return ad.sum(ad.real(z * ad.conj(z)))


@pytest.mark.parametrize("f, expected", [
    (_conjugates, 2 * EYE),
    (_tied, 2.5 * EYE),
    (lambda x: ad.abs(ad.abs(x[0]) + 1j * ad.abs(x[1])) ** 2, 2 * EYE),
    (lambda x: ad.sum(ad.real(ad.abs(x) * ad.sin(ad.abs(x) * (1 + 0j)))), 2 * EYE),
    (lambda x: ad.sum(ad.astype(ad.abs(x), ad.complex64) * ad.abs(x)).real, 2 * EYE),
], ids=["conjugates", "tied", "size of sizes", "sin", "complex64"])  # fmt: skip
def test_sizes_cancel_in_complex_numbers_that_are_made_of_them(f, expected):
    for route in ("hessian", "recorded", "hvp", "jit outside", "vmap", "checkpoint", "forward over forward",
                  "reverse over forward", "forward mode of all", "while_loop", "eager", "eager, forward"):  # fmt: skip
        np.testing.assert_allclose(ROUTES[route](f, ZERO), expected, rtol=1e-6, err_msg=route)


def test_a_cast_to_integers_is_no_multiple_of_what_was_cast():
    def f(x):
        return ad.sum(ad.abs(x) * ad.astype(ad.astype(ad.abs(x), ad.int64), ad.float64) ** 2)

    for route in ("hessian", "hvp", "forward over forward", "reverse over forward"):
        np.testing.assert_array_equal(ROUTES[route](f, np.array([0.0, 2.5])), 0 * EYE)
