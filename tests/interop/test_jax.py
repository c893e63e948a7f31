"""Functions of this library in JAX, in both modes, any order and under its transformations, and JAX's in it."""

import functools

import numpy as np
import pytest

import autodiff as ad

jax = pytest.importorskip("jax")
jnp = jax.numpy
check_grads = pytest.importorskip("jax.test_util").check_grads

#: One program for both, with the shapes of its arguments: `x` is `ad` or `jnp`.
PROGRAMS = {
    "rosenbrock": (lambda x, a: x.sum(100.0 * (a[1:] - a[:-1] ** 2) ** 2 + (1 - a[:-1]) ** 2), [(5,)]),
    "layer": (lambda x, a, w: x.tanh(a @ w), [(3, 2), (2, 4)]),
    "two results": (lambda x, a, b: (x.sin(a) * b, x.sum(x.exp(b) * a)), [(3,), ()]),
    "dict": (lambda x, a: {"y": x.cos(a) ** 2, "z": (a.T, x.sum(a))}, [(2, 3)]),
    "one number": (lambda x, a: x.exp(a) * a, [()]),
    "linear": (lambda x, a, b: 3.0 * a + b, [(3,), (3,)]),
    "solve": (lambda x, a, b: x.linalg.solve(a @ a.T + 2.0 * x.eye(3), b), [(3, 3), (3,)]),
}
CASES = pytest.mark.parametrize("name", PROGRAMS)


jax.config.update("jax_disable_most_optimizations", True)  # of XLA, which compiles its part once for each test


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def both(name):
    """The wrapped function, JAX's, and arguments."""
    rng = np.random.default_rng(0)
    program, shapes = PROGRAMS[name]
    arguments = [jnp.asarray(rng.normal(size=shape)) for shape in shapes]
    return ad.interop.jax.wrap(lambda *a: program(ad, *a)), lambda *a: program(jnp, *a), arguments


def same(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@CASES
def test_check_grads_passes_in_both_modes_to_second_order(name):
    f, _, arguments = both(name)
    check_grads(f, tuple(arguments), order=2, modes=["fwd", "rev"])


def scalar(f):
    return lambda *a: sum([jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(f(*a))])


def doubled(a):
    return [jnp.stack([x, 2 * x]) for x in a]


ROUTES = {
    "call": lambda f, a: f(*a),
    "jit": lambda f, a: jax.jit(f)(*a),
    "jacrev": lambda f, a: jax.jacrev(f)(*a),
    "jacfwd": lambda f, a: jax.jacfwd(f)(*a),
    "vmap": lambda f, a: jax.vmap(f)(*doubled(a)),
    "vmap of another axis": lambda f, a: jax.vmap(f, in_axes=(-1, *[None] * (len(a) - 1)), out_axes=-1)(
        jnp.stack([a[0], 2 * a[0]], -1), *a[1:]
    ),
    "vmap of vmap": lambda f, a: jax.vmap(jax.vmap(f))(*doubled(doubled(a))),
    "grad": lambda f, a: jax.grad(scalar(f))(*a),
    "vmap of grad": lambda f, a: jax.jit(jax.vmap(jax.grad(scalar(f))))(*doubled(a)),
    "grad of vmap": lambda f, a: jax.grad(scalar(jax.vmap(f)))(*doubled(a)),
    "grad of vmap of one": lambda f, a: jax.grad(scalar(jax.vmap(f, in_axes=(0, *[None] * (len(a) - 1)))), -1)(
        doubled(a)[0], *a[1:]
    ),
    "hessian": lambda f, a: jax.jit(jax.hessian(scalar(f)))(*a),
    "reverse over reverse": lambda f, a: jax.jacrev(jax.jacrev(f))(*a),
    "reverse over forward": lambda f, a: jax.jacrev(jax.jacfwd(f))(*a),
    "forward over forward": lambda f, a: jax.jacfwd(jax.jacfwd(f))(*a),
    "jvp": lambda f, a: jax.jvp(f, tuple(a), tuple([x + 1 for x in a])),
    "linearize": lambda f, a: jax.linearize(f, *a)[1](*a),
    "linear_transpose": lambda f, a: jax.linear_transpose(jax.linearize(f, *a)[1], *a)(f(*a)),
    "third order": lambda f, a: jax.grad(lambda *b: jnp.sum(jax.hessian(scalar(f))(*b)))(*a),
    "in a loop": lambda f, a: jax.grad(
        lambda b: jax.lax.scan(lambda c, _: (c - 1e-4 * jax.grad(scalar(f))(c, *a[1:]), None), b, None, 3)[0].sum()
    )(a[0]),
    "checkpoint": lambda f, a: jax.grad(scalar(jax.checkpoint(f)))(*a),
}


@CASES
@pytest.mark.parametrize("route", ROUTES)
def test_transformations_of_jax_are_those_of_its_own_functions(name, route):
    f, wanted, arguments = both(name)
    same(ROUTES[route](f, arguments), ROUTES[route](wanted, arguments))


def test_pytrees_numbers_and_results_without_derivative():
    f = ad.interop.jax.wrap(lambda p, k, n=2: {"y": p["w"] * p["b"] * k, "i": ad.argmax(p["w"]), "n": n, "none": None})
    p = {"w": jnp.array([1.0, 5.0]), "b": jnp.array(2.0)}
    r = jax.jit(f)(p, 3.0, n=4)
    assert r["i"] == 1 and r["n"] == 4 and r["none"] is None
    g = jax.jit(jax.grad(lambda p: jnp.sum(f(p, 3.0)["y"])))(p)
    same(g, {"w": jnp.array([6.0, 6.0]), "b": jnp.array(18.0)})


def test_complex_numbers_have_the_derivatives_of_jax():
    z, w = jnp.array([1.0 + 2.0j, -0.5j]), jnp.array([0.3j, 1.0 + 1.0j])
    for program in (lambda x, z: z * x.conj(z) * z, lambda x, z: x.real(z * z) * 3.0, lambda x, z: x.exp(z)):
        f, wanted = ad.interop.jax.wrap(functools.partial(program, ad)), functools.partial(program, jnp)
        same(jax.jvp(f, (z,), (w,)), jax.jvp(wanted, (z,), (w,)))
        bar = wanted(w)
        same(jax.vjp(f, z)[1](bar), jax.vjp(wanted, z)[1](bar))


def test_without_x64_all_is_of_32_bits():
    f = ad.interop.jax.wrap(lambda x: {"y": x * np.arange(3.0), "i": ad.argmax(x)})
    with jax.enable_x64(False):
        same(ad.interop.jax.wrap(lambda x: 2 * x + 0.5)(jnp.ones(3)), jnp.full(3, 2.5))
        r = f(jnp.ones(3))
        np.testing.assert_array_equal(r["y"], [0.0, 1.0, 2.0])
        assert (r["y"].dtype, r["i"].dtype) == (jnp.float32, jnp.int32)
        assert jax.grad(lambda x: f(x)["y"].sum())(jnp.ones(3)).dtype == jnp.float32
    assert f(jnp.ones(3))["y"].dtype == jnp.float64


def test_floats_of_two_widths_go_together():
    def f(x, w):
        return (x * w).sum() ** 2

    arguments = jnp.arange(3.0, dtype=jnp.float32), jnp.ones(3)
    for route in (jax.grad, jax.hessian, jax.jacfwd):
        same(*[route(g, (0, 1))(*arguments) for g in (ad.interop.jax.wrap(f), f)])


def test_a_new_shape_is_compiled_once():
    calls = []

    def f(x):
        calls.append(x)
        return ad.sum(x * x)

    wrapped = ad.interop.jax.wrap(f)
    for n in (2, 3, 2, 3):
        assert wrapped(jnp.ones(n)) == n and jax.jit(wrapped)(jnp.ones(n)) == n
    assert len(calls) == 2


@pytest.mark.parametrize("n", [8, 1000])
def test_a_value_and_gradient_under_jit_is_one_call_and_nothing_else(n):
    x = jnp.linspace(0.0, 1.0, n)
    f = ad.interop.jax.wrap(lambda x: PROGRAMS["rosenbrock"][0](ad, x))
    text = jax.jit(jax.value_and_grad(f)).lower(x).compile().as_text()
    lines = [line.strip() for line in text.partition("ENTRY")[2].splitlines()]
    made = [line for line in lines if " = " in line and "parameter(" not in line]
    assert len(made) == 1 and made[0].startswith("ROOT ") and "autodiff_program" in made[0]


def test_host_functions_and_errors_of_a_run_reach_jax():
    @ad.function
    def twice(x): ...

    @twice.forward(ad.Tensor, host=True, out=lambda x: x)
    def _(ctx, x):
        return 2.0 * x

    @twice.backward(ad.Tensor)
    def _(ctx, g):
        return {"x": twice(g)}

    f = ad.interop.jax.wrap(lambda x: ad.sum(twice(x) ** 2))
    same(jax.jit(jax.hessian(f))(jnp.ones(2)), 8.0 * jnp.eye(2))
    inverse = ad.interop.jax.wrap(ad.linalg.inv)
    same(inverse(2.0 * jnp.eye(2)), 0.5 * jnp.eye(2))
    with pytest.raises(Exception, match="singular"):
        jax.block_until_ready(inverse(jnp.zeros((2, 2))))


def test_misuse_is_refused_with_a_way_out():
    f = ad.interop.jax.wrap(lambda x: x * x)
    with pytest.raises(ad.DTypeError, match=r"(?s)bfloat16.*test_jax\.py.*astype"):
        f(jnp.ones(2, jnp.bfloat16))
    with pytest.raises(ad.DispatchError, match=r"(?s)got 'text' \(str\).*test_jax\.py.*read from outside"):
        f("text")
    with pytest.raises(ad.DispatchError, match=r"got 'b' \(str\)"):
        f("b")  # the name of a dtype, as JAX reads it
    with pytest.raises(ad.DispatchError, match=r"takes a function, got 3"):
        ad.interop.jax.wrap(3)
    with pytest.raises(ad.ConcretizationError, match=r"ad\.where"):
        ad.interop.jax.wrap(lambda x: x if x > 0 else -x)(1.0)


# ---------------------------------------------------------------- JAX's functions here


def test_functions_of_jax_have_derivatives_of_any_reverse_order():
    sine = ad.interop.jax.from_jax(jnp.sin)
    for order, wanted in enumerate([np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]):
        f = sine
        for _ in range(order):
            f = ad.grad(f)
        for g in (f, ad.jit(f), lambda x, f=f: ad.vmap(f)(np.full(2, x))[1]):
            np.testing.assert_allclose(g(0.5), wanted(0.5), rtol=1e-12)


def test_nestings_and_dtypes_of_jax_are_kept_whatever_its_mode_is():
    u = ad.interop.jax.from_jax(lambda p, axis: {"y": jnp.sin(p["a"]) * jnp.exp(p["b"]), "n": p["a"].argmax(axis)})
    p = {"a": np.array([0.1, 0.2]), "b": np.array(0.3)}
    with jax.enable_x64(False):
        assert u(p, 0)["n"] == 1 and u(p, 0)["y"].dtype == np.float64
        ad.check_gradients(lambda p: u(p, 0)["y"], p)
        half = {"a": p["a"].astype(np.float32), "b": np.float32(0.3)}
        assert u(half, 0)["y"].dtype == ad.grad(lambda p: ad.sum(u(p, 0)["y"]))(half)["a"].dtype == np.float32
        x = ad.tensor(p["a"], requires_grad=True)
        ad.sum(u({"a": x, "b": p["b"]}, 0)["y"]).backward()
    np.testing.assert_allclose(x.grad, np.cos(p["a"]) * np.exp(0.3))


def test_complex_functions_of_jax_have_gradients_of_this_library():
    z = np.array([1.0 + 2.0j, -0.5j])
    f = ad.interop.jax.from_jax(lambda z: z * jnp.conj(z) * z)
    for order in (1, 2):
        ad.check_gradients(f, z, order=order)


def test_there_and_back():
    f = ad.interop.jax.from_jax(ad.interop.jax.wrap(lambda x: ad.sum(ad.sin(x) ** 2)))
    x = np.array([0.3, 0.4])
    np.testing.assert_allclose(ad.hessian(f)(x), np.diag(2 * np.cos(2 * x)), rtol=1e-12)


# ---------------------------------------------------------------- arrays


def test_arrays_go_both_ways_by_dlpack():
    x = jnp.array([1.0, 2.0])
    for take in (ad.from_dlpack, ad.asarray, ad.tensor):
        np.testing.assert_array_equal(take(x).numpy(), [1.0, 2.0])
    same(jnp.from_dlpack(ad.ones(2) * 3.0), jnp.full((2,), 3.0))
    a = np.arange(6.0).reshape(2, 3)
    same(jnp.from_dlpack(ad.asarray(a)), jnp.asarray(a))
