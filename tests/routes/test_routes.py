"""Results and gradients of every order are the same on every route.

Each program of `route_programs`, and each random one, is run by every way there is to a value or a derivative, and
compared with a pure function in NumPy, whose gradient is taken by complex steps.  Nothing internal is imported.
"""

import numpy as np
import pytest
from covering import covering
from route_programs import PROGRAMS

import autodiff as ad

X = np.array([0.7, -0.4, 1.2, 0.3])
BATCH = np.stack([X, X[::-1] * 0.9, X * X - 0.2])
V = np.array([0.3, -1.0, 0.5, 0.8])


def slope(oracle, x, f):
    """The gradient at x of the oracle, whose cut values are computed from f: by complex steps, exact."""
    return np.array([np.imag(oracle(x + 1e-30j * e, f)) / 1e-30 for e in np.eye(len(x))])


def curvature(oracle, x):
    """The derivatives of that gradient, by central differences."""
    columns = [(slope(oracle, x + 1e-5 * e, x) - slope(oracle, x - 1e-5 * e, x)) / 2e-5 for e in np.eye(len(x))]
    return np.stack(columns, axis=1)


def backward(f, x):
    """By `.backward()` of what is recorded; the argument is updated in place, so it is no leaf."""
    leaf = ad.tensor(x, requires_grad=True)
    f(leaf * 1.0).backward()
    return leaf.grad.numpy()


def kept_graph(f, x):
    """The gradient with create_graph, and its product with V by a second backward."""
    leaf = ad.tensor(x, requires_grad=True)
    g = ad.grad(f(leaf * 1.0), leaf, create_graph=True)
    (g * V).sum().backward()
    return g.detach().numpy(), np.zeros(4) if leaf.grad is None else leaf.grad.numpy()


def eagerly(run):
    """run() in eager mode."""
    ad.config.eager = True
    try:
        return run()
    finally:
        ad.config.eager = False


#: Routes to the value and the gradient of f at X.
FIRST = {
    "grad": lambda f: ad.grad(f)(X),
    "value_and_grad": lambda f: ad.value_and_grad(f)(X)[1],
    "vjp": lambda f: ad.vjp(f, X)[1](1.0)[0],
    "grad of a tensor": lambda f: ad.grad(f)(ad.tensor(X)).numpy(),
    "jvp": lambda f: np.array([ad.jvp(f, (X,), (e,))[1] for e in np.eye(4)]),
    "jacobian": lambda f: ad.jacobian(lambda x: ad.stack([f(x), f(x * 1.0)]))(X)[0],
    "eager grad": lambda f: eagerly(lambda: ad.grad(f)(X)),
    "eager backward": lambda f: eagerly(lambda: backward(f, X)),
}

#: Those that trace f, so that it may ask for no values.
TRACED = {
    "jit of grad": lambda f: ad.jit(ad.grad(f))(X),
    "grad of jit": lambda f: ad.grad(ad.jit(f))(X),
    "jvp of jit": lambda f: np.array([ad.jvp(ad.jit(f), (X,), (e,))[1] for e in np.eye(4)]),
    "backward of jit": lambda f: backward(ad.jit(f), X),
    "checkpoint": lambda f: ad.grad(ad.checkpoint(f))(X),
    "vmap of grad": lambda f: ad.vmap(ad.grad(f))(BATCH)[0],
    "eager grad of jit": lambda f: eagerly(lambda: ad.grad(ad.jit(f))(X)),
}

#: Inside of control flow, where f's argument is that of a body.
INSIDE = {
    "scan": lambda f: lambda x: ad.scan(lambda c, _: (c, f(c)), x, length=1)[1].sum(),
    "fori_loop": lambda f: lambda x: ad.fori_loop(0, 1, lambda i, c: (c[0], f(c[0])), (x, x.sum()))[1],
    "while_loop": lambda f: lambda x: ad.while_loop(lambda c: c[2] < 1, lambda c: (c[0], f(c[0]), c[2] + 1),
                                                    (x, x.sum(), 0))[1],
    "cond": lambda f: lambda x: ad.cond(x[0] > -9, f, lambda x: x.sum(), x),
    "vmap": lambda f: lambda x: ad.vmap(f)(ad.reshape(x, (1, 4))).sum(),
    "jit": ad.jit,
    "checkpoint": ad.checkpoint,
}  # fmt: skip

#: Routes to the second derivatives: H, or H @ V.
SECOND = {
    "hessian": lambda f: ad.hessian(f)(X),
    "hvp": lambda f: ad.hvp(f, X, V),
    "grad of grad": lambda f: ad.grad(lambda x: (ad.grad(f)(x) * V).sum())(X),
    "jvp of grad": lambda f: ad.jvp(ad.grad(f), (X,), (V,))[1],
}
SECOND_TRACED = {
    "jit of hessian": lambda f: ad.jit(ad.hessian(f))(X),
    "hessian of jit": lambda f: ad.hessian(ad.jit(f))(X),
    "grad of jit of grad": lambda f: ad.grad(lambda x: (ad.jit(ad.grad(f))(x) * V).sum())(X),
    "grad of jvp": lambda f: ad.grad(lambda x: ad.jvp(ad.jit(f), (x,), (V,))[1])(X),
}


def close(found, wanted, what, rtol=1e-9):
    """The same up to rounding, relative to the largest."""
    size = max(1.0, np.max(np.abs(wanted)))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=rtol * size, err_msg=what)


def check_first(run, oracle, name):
    """First derivatives by one route."""
    close((FIRST | TRACED)[name](run), slope(oracle, X, X), name)


def check_repeated(run, oracle, reads):
    """Values, and first derivatives by routes that learn: several times, and of batches."""
    value, wanted = np.real(oracle(X, X)), slope(oracle, X, X)
    close(run(ad.tensor(X)).detach(), value, "value")
    close(ad.value_and_grad(run)(X)[0], value, "value with a gradient")
    for i in range(5):
        close(backward(run, X), wanted, f"backward, {i + 1} times")
    if reads:
        return
    for i, name in enumerate(["grad of jit", "vmap of grad"] * 2):
        close(TRACED[name](run), wanted, f"{name}, {i // 2 + 1} times")
    values = [np.real(oracle(x, x)) for x in BATCH]
    close(ad.jit(run)(X), value, "value of jit")
    close(ad.vmap(run)(BATCH), values, "vmap")
    slopes = np.stack([slope(oracle, x, x) for x in BATCH])
    close(ad.grad(lambda x: ad.vmap(run)(x).sum())(BATCH), slopes, "grad of vmap")
    close(ad.vmap(ad.grad(run), 1, 1)(BATCH.T).T, slopes, "vmap of grad along axis 1")


def check_inside(run, oracle, name):
    """First and second derivatives where f runs inside of control flow."""
    wanted, second = slope(oracle, X, X), curvature(oracle, X)
    f = INSIDE[name](run)
    close(ad.grad(f)(X), wanted, f"grad inside {name}")
    close(ad.jvp(f, (X,), (V,))[1], wanted @ V, f"jvp inside {name}")
    close(ad.hvp(f, X, V), second @ V, f"hvp inside {name}", 1e-6)


def check_second(run, oracle, name):
    """Second derivatives by one route."""
    wanted = curvature(oracle, X)
    found = np.asarray((SECOND | SECOND_TRACED)[name](run))
    close(found, wanted if found.ndim == 2 else wanted @ V, name, 1e-6)


def check_kept(run, oracle):
    """Second derivatives by a gradient that is recorded, several times."""
    wanted = curvature(oracle, X) @ V
    for i in range(3):
        first, second = kept_graph(run, X)
        close(first, slope(oracle, X, X), f"create_graph, {i + 1} times")
        close(second, wanted, f"backward of a gradient, {i + 1} times", 1e-6)


@pytest.fixture(autouse=True)
def patient():
    """A program met a few times is interpreted, one met more often is compiled, as users have it."""
    before, ad.config.patience = ad.config.patience, 2
    yield
    ad.config.patience = before


TRACEABLE = [name for name, p in PROGRAMS.items() if not p.reads]
READING = [name for name, p in PROGRAMS.items() if p.reads]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_the_same_each_time(name):
    check_repeated(*PROGRAMS[name])


@covering(times=4, name=TRACEABLE, route=FIRST | TRACED)
def test_first_derivatives_are_the_same_on_every_route(name, route):
    check_first(PROGRAMS[name].run, PROGRAMS[name].oracle, route)


@covering(name=READING, route=FIRST)
def test_first_derivatives_of_programs_that_read_values_are_the_same(name, route):
    check_first(PROGRAMS[name].run, PROGRAMS[name].oracle, route)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_are_the_same_each_time(name):
    check_kept(PROGRAMS[name].run, PROGRAMS[name].oracle)


@covering(times=2, name=TRACEABLE, route=SECOND | SECOND_TRACED)
def test_second_derivatives_are_the_same_on_every_route(name, route):
    check_second(PROGRAMS[name].run, PROGRAMS[name].oracle, route)


@covering(name=READING, route=SECOND)
def test_second_derivatives_of_programs_that_read_values_are_the_same(name, route):
    check_second(PROGRAMS[name].run, PROGRAMS[name].oracle, route)


@covering(name=TRACEABLE, container=INSIDE)
def test_derivatives_are_the_same_inside_of_control_flow(name, container):
    check_inside(PROGRAMS[name].run, PROGRAMS[name].oracle, container)
