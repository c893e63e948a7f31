"""`jit` at sizes that do not come again: the function runs as it is recorded, and nobody can tell (`entry`)."""

import contextlib
import functools
import gc
import itertools
import threading
import weakref

import numpy as np
import pytest

import autodiff as ad

rng = np.random.default_rng(0)
X, V = rng.normal(size=(40, 5)), rng.normal(size=5)


@pytest.fixture(autouse=True)
def _as_users_have_it(monkeypatch):
    """Where all is compiled at once, each size is traced."""
    monkeypatch.setattr(ad.config, "patience", 8)


def loss(v, x):
    h = ad.tanh(x @ v)
    return (h * h).mean()


def expected(v, x):
    h = np.tanh(x @ v)
    return (h * h).mean(), x.T @ (2 * h * (1 - h * h) / len(x))


def known(f, call, sizes=range(20, 30)):
    """f with so many sizes behind it that another one runs as it is recorded."""
    for n in sizes:
        call(f, n)
    return f


def at(f, n):
    return f(V, X[:n])


def test_values_and_gradients():
    f = ad.jit(ad.value_and_grad(loss))
    for n in range(1, 40):
        value, g = at(f, n)
        want, want_g = expected(V, X[:n])
        assert type(g) is np.ndarray and type(value) is np.float64
        np.testing.assert_allclose(value, want, rtol=1e-12)
        np.testing.assert_allclose(g, want_g, rtol=1e-10, atol=1e-14)


def test_nothing_is_compiled_for_another_size():
    f = known(ad.jit(ad.value_and_grad(loss)), at, range(3, 30))
    before = ad.cache_info().compiles
    for n in range(30, 40):
        at(f, n)
    assert ad.cache_info().compiles == before


def test_a_size_that_comes_again_is_traced_once():
    seen = []

    @ad.jit
    def f(v, x):
        seen.append(x.shape[0])
        return loss(v, x)

    known(f, at)
    for _ in range(6):
        at(f, 35)
    assert seen.count(35) == 2  # as it is recorded, and traced


def test_sizes_that_come_again_are_traced_from_the_start():
    seen = []

    @ad.jit
    def f(v, x):
        seen.append(x.shape[0])
        return loss(v, x)

    for n in range(1, 20):
        at(f, n), at(f, n)
    assert seen == [*range(1, 20)]


@pytest.mark.parametrize("look", [
    lambda x: float(x.sum()), lambda x: bool(x[0, 0] > 0), lambda x: x.numpy(), lambda x: np.asarray(x),
    lambda x: x.sum().item(), lambda x: int(x[0, 0]), lambda x: [0, 1][x.shape[0] > 0 and ad.astype(x[0, 0], "i64")],
    lambda x: x[x > 0], lambda x: ad.nonzero(x), lambda x: float(ad.grad(lambda y: (y * y).sum())(x)[0, 0]),
    lambda x: float(ad.value_and_grad(lambda y: (y * y).sum())(x)[0]),
])  # fmt: skip
def test_no_value_is_seen(look):
    @ad.jit
    def f(v, x):
        if x.shape[0] > 30:
            look(x)
        return loss(v, x)

    known(f, at)
    with pytest.raises(ad.ConcretizationError):
        at(f, 35)


def test_who_catches_everything_gets_what_a_trace_gives():
    @ad.jit
    def f(v, x):
        try:
            return x.sum() * float(v.sum())
        except BaseException:
            return loss(v, x) + 1

    known(f, at)
    np.testing.assert_allclose(at(f, 35), expected(V, X[:35])[0] + 1)


def test_a_constant_may_be_seen():
    @ad.jit
    def f(v, x):
        return loss(v, x) * float(ad.tensor(2.0) * x.shape[0])

    known(f, at)
    np.testing.assert_allclose(at(f, 35), expected(V, X[:35])[0] * 70)


@pytest.mark.parametrize("change", [
    lambda t: t.__iadd__(1), lambda t: t.__setitem__(0, 1.0), lambda t: t.copy_(2.0),
])  # fmt: skip
@pytest.mark.parametrize("requires_grad", [False, True])
def test_no_captured_tensor_is_changed(change, requires_grad):
    t = ad.tensor([1.0, 2.0], requires_grad=requires_grad)

    @ad.jit
    def f(v, x):
        if x.shape[0] > 30:
            with ad.no_grad():
                change(t)
        return loss(v, x)

    known(f, at)
    with pytest.raises(ad.ConcretizationError):
        at(f, 35)
    assert t.detach().numpy().tolist() == [1.0, 2.0]


def test_an_argument_that_is_changed_stays():
    @ad.jit
    def f(v, x):
        x *= 2
        v[0] = 0.0
        return loss(v, x)

    known(f, at)
    v, x = V.copy(), X[:35].copy()
    at(f, 35)
    assert np.array_equal(v, V) and np.array_equal(x, X[:35])
    t = ad.tensor(v)
    f(t, ad.tensor(X[:36]))
    assert np.array_equal(t.numpy(), V)


def test_no_backward_inside():
    p = ad.tensor(V, requires_grad=True)

    @ad.jit
    def f(v, x):
        if x.shape[0] > 30:
            loss(p, x).backward()
        return loss(v, x)

    known(f, at)
    with pytest.raises(ad.GradientError, match="inside a traced function"):
        at(f, 35)
    assert p.grad is None


def test_no_grad_is_set_inside():
    p = ad.tensor(V, requires_grad=True)

    @ad.jit
    def f(v, x):
        if x.shape[0] > 30:
            p.grad = None
        return loss(v, x)

    p.grad = ad.tensor(V)
    known(f, at)
    with pytest.raises(ad.GradientError, match="inside a traced function"):
        at(f, 35)
    assert p.grad is not None


def test_a_function_inside_that_closes_over_an_argument():
    held = []
    inner = ad.jit(lambda y: y * held[-1].sum())

    @ad.jit
    def f(v, x):
        held.append(x)
        return inner(np.ones(3)), inner(v)

    for n in range(20, 30):
        ones, others = at(f, n)
        np.testing.assert_allclose(ones, np.full(3, X[:n].sum()))
        np.testing.assert_allclose(others, V * X[:n].sum())
    held.append(ad.tensor(7.0))
    np.testing.assert_array_equal(inner(V), 7 * V)


def test_a_known_function_inside_gives_tensors_as_in_a_trace():
    inner = ad.jit(lambda a: a * 2)
    for _ in range(4):
        inner(np.ones(3))
    kinds = set()

    @ad.jit
    def f(v, x):
        y = inner(np.ones(3))
        kinds.add(type(y))
        return loss(v, x) * y.sum()

    for n in range(20, 30):
        np.testing.assert_allclose(at(f, n), 6 * expected(V, X[:n])[0])
    assert len(kinds) == 1 and issubclass(*kinds, ad.Tensor)


def test_branches_on_sizes():
    f = known(ad.jit(lambda v, x: loss(v, x) if x.shape[0] < 30 else (x @ v).sum()), at)
    np.testing.assert_allclose(at(f, 35), (X[:35] @ V).sum())


def test_results_are_nobodys_memory():
    f = known(ad.jit(lambda v, x: (x, x, v, {"n": 3})), at)
    x = X[:35].copy()
    one, other, v, rest = f(V, x)
    assert rest == {"n": 3} and not np.shares_memory(one, x) and not np.shares_memory(one, other)
    assert np.array_equal(one, x) and np.array_equal(v, V)


def test_a_step_with_an_update():
    @ad.jit
    def step(v, x):
        value, g = ad.value_and_grad(loss)(v, x)
        return value, v - 0.1 * g

    known(step, at)
    value, v = at(step, 35)
    want, g = expected(V, X[:35])
    np.testing.assert_allclose(value, want)
    np.testing.assert_allclose(v, V - 0.1 * g)


def test_second_order_inside():
    f = known(ad.jit(lambda v, x: ad.grad(lambda u: (ad.grad(loss)(u, x) ** 2).sum())(v)), at)
    want = ad.grad(lambda u: (ad.grad(loss)(u, X[:35]) ** 2).sum())(V)
    np.testing.assert_allclose(at(f, 35), want, rtol=1e-9)


def test_tensors_that_track():
    f = ad.jit(loss)
    for n in range(20, 40):
        v = ad.tensor(V, requires_grad=True)
        y = f(v, X[:n])
        assert isinstance(y, ad.Tensor)
        y.backward()
        np.testing.assert_allclose(v.grad.numpy(), expected(V, X[:n])[1], rtol=1e-10)


def test_inside_of_a_gradient():
    f = ad.jit(loss)
    for n in range(20, 40):
        np.testing.assert_allclose(ad.grad(f)(V, X[:n]), expected(V, X[:n])[1], rtol=1e-10)


def test_a_tensor_made_inside_that_tracks():
    @ad.jit
    def f(v, x):
        w = ad.tensor(2.0, requires_grad=True)
        value, _ = ad.value_and_grad(lambda u: loss(u, x) * w)(v)
        return ad.grad(value, [w], create_graph=True)[0]

    known(f, at)
    np.testing.assert_allclose(at(f, 35), expected(V, X[:35])[0])


def test_numbers_dispatch_as_in_a_trace():
    kinds = []

    @ad.jit
    def f(a, x):
        kinds.append(isinstance(a, ad.Tensor))
        return (x * a).sum()

    for n in range(20, 30):
        np.testing.assert_allclose(f(2, X[:n]), 2 * X[:n].sum())
    assert all(kinds)


def test_objects_with_tensors_of_the_trace_are_refused():
    f = ad.jit(lambda v, x: (lambda: x) if x.shape[0] > 30 else loss(v, x))
    known(f, at)
    with pytest.raises(ad.DispatchError):
        at(f, 35)


def test_errors_of_the_function():
    f = known(ad.jit(lambda v, x: loss(v, x) if x.shape[0] < 30 else x @ x), at)
    with pytest.raises(ad.ShapeError):
        at(f, 35)
    np.testing.assert_allclose(at(f, 19), expected(V, X[:19])[0])
    assert float(ad.tensor(1.0) + 1) == 2.0  # values are seen again


def test_a_recording_around_it_goes_on():
    f = known(ad.jit(loss), at)
    w = ad.tensor(3.0, requires_grad=True)
    y = w * w
    at(f, 35)
    (y * 2).backward()
    assert w.grad.item() == 12.0


def test_an_inner_function_returns_what_a_trace_lets_it_return():
    inner = ad.jit(lambda x: {x})

    @ad.jit
    def f(v, x):
        return len(inner(x)) * loss(v, x) if x.shape[0] > 30 else loss(v, x)

    known(f, at)
    with pytest.raises(ad.DispatchError, match="a set that holds a tensor of the trace"):
        at(f, 35)


def test_no_gradient_of_tensors_is_computed_inside():
    p = ad.tensor(V, requires_grad=True)
    f = known(ad.jit(lambda v, x: ad.grad((x @ p).sum(), p) if x.shape[0] > 30 else loss(v, x)), at)
    with pytest.raises(ad.ConcretizationError):
        at(f, 35)


def test_a_function_that_was_left_is_traced_from_then_on():
    sizes = []

    @ad.jit
    def f(v, x):
        sizes.append(x.shape[0])
        try:
            return x.sum() * float(v.sum())
        except ad.ConcretizationError:
            return loss(v, x)

    for n in range(10, 30):
        np.testing.assert_allclose(at(f, n), expected(V, X[:n])[0])
    assert sizes == [10, 11, 12, 13, 13, *range(14, 30)]


def test_bits_do_not_change_when_a_size_has_machine_code():
    first, second = [ad.jit(ad.value_and_grad(loss)) for _ in range(2)]
    known(first, at, range(2, 5))
    early = [at(first, n) for n in range(20, 30)]
    known(second, at, range(2, 5))
    for n, (value, g) in zip(range(20, 30), early, strict=True):
        value_2, g_2 = at(second, n)
        assert value == value_2 and np.array_equal(g, g_2)


def test_a_deterministic_size_is_traced(monkeypatch):
    monkeypatch.setattr(ad.config, "deterministic", True)
    sizes = []

    @ad.jit
    def f(v, x):
        sizes.append(x.shape[0])
        return loss(v, x)

    for n in (20, 21, 22, 23, 24, 23, 24):
        at(f, n)
    assert sizes == [20, 21, 22, 23, 24]


def test_threads_with_sizes_of_their_own():
    f, wrong = ad.jit(ad.value_and_grad(loss)), []

    def work(seed):
        for n in np.random.default_rng(seed).integers(2, 40, size=60):
            found, want = at(f, n), expected(V, X[:n])
            if not all([np.allclose(a, b, rtol=1e-10, atol=1e-14) for a, b in zip(found, want, strict=True)]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_call_holds_no_argument_also_where_it_fails():
    f = known(ad.jit(lambda v, x: loss(v, x) if x.shape[0] < 30 else x @ x), at)
    gc.disable()
    try:
        for n in (*range(2, 8), *range(31, 36)):
            x = X[:n].copy()
            given = weakref.ref(x)
            with contextlib.suppress(ad.ShapeError):
                f(V, x)
            assert x.flags.writeable
            del x
            assert given() is None
    finally:
        gc.enable()


def test_inside_of_a_custom_forward_a_closure_is_noticed():
    w = ad.tensor(V, requires_grad=True)
    inner = ad.jit(lambda x: x * w)

    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: inner(x))
    f.backward(ad.Tensor)(lambda ctx, g: g)
    for n in range(20, 30):
        with pytest.raises(ad.GradientError, match="f: a gradient is wanted through"):
            f(ad.tensor(X[:n], requires_grad=True)).sum().backward()


def test_a_size_whose_static_object_is_gone_is_forgotten():
    class Scale:
        by = 2.0

    f = ad.jit(lambda x, s: x * s.by, static_argnames="s")
    scale = Scale()
    for n in range(20, 30):
        f(X[:n], s=scale)
    del scale
    gc.collect()
    f(X[:3], s=Scale())
    f(X[:4], s=Scale())
    assert len(f.traced.entries) <= 2


@pytest.mark.parametrize(
    "shapes", [[(2, 3), (3, 3), (4, 3)], [(3, 2), (3, 3), (3, 4)], [(2, 2, 4), (3, 3, 4), (4, 4, 4)]]
)
@pytest.mark.parametrize("is_compiled", [True, False])
def test_an_axis_does_not_follow_from_an_extent(shapes, is_compiled, rng):
    """Axis 0 of 2 rows, then axis 1 of 3 rows: an extent less two, for who compares numbers alone."""
    ad.clear_cache()
    for function in ("flip", "cumsum", "sort", "roll"):
        for place, shape in enumerate(shapes):
            axis, x = place % len(shape), rng.normal(size=shape)
            given = (1, axis) if function == "roll" else (axis,)
            f = functools.partial(lambda f, given, x: f(x, *given), getattr(ad, function), given)
            found = (ad.jit(f) if is_compiled else f)(x)
            np.testing.assert_allclose(found, getattr(np, function)(x, *given), rtol=1e-13)


#: Calls with an integer that an extent may seem to give.
CALLS = {
    "roll": ad.roll, "roll of rows": lambda x, k: ad.roll(x, (k, 1), (0, 1)), "tril": ad.tril, "triu": ad.triu,
    "diagonal": ad.diagonal, "trace": ad.trace, "diag": lambda x, k: ad.diag(x[0], k), "slice": lambda x, k: x[k:],
    "slice of rows": lambda x, k: x[:, :k], "turned slice": lambda x, k: x[k::-1], "take": lambda x, k: x[k % len(x)],
    "wrapped": lambda x, k: ad.take(x, [k, 0], axis=0, mode="wrap"), "update": lambda x, k: _updated(x, k),
    "repeat": lambda x, k: ad.repeat(x, abs(k), axis=0), "tile": lambda x, k: ad.tile(x, (abs(k), 2)),
    "pad": lambda x, k: ad.pad(x, ((abs(k), 1), (0, 2))), "reflected": lambda x, k: ad.pad(x, abs(k), "reflect"),
    "linspace": lambda x, k: ad.linspace(x[0], x[1], abs(k)), "arange": lambda x, k: ad.arange(k, 60, 3) * x[0, 0],
    "eye": lambda x, k: ad.eye(len(x), k=k) @ x, "split": lambda x, k: ad.array_split(x, abs(k))[0],
    "split at": lambda x, k: ad.split(x, [k])[1], "rot90": ad.rot90, "diff": lambda x, k: ad.diff(x, abs(k) % 4),
    "power": lambda x, k: x ** (k % 5), "broadcast": lambda x, k: ad.broadcast_to(x[0], (abs(k), x.shape[1])),
    "transform": lambda x, k: ad.fft.irfft(x, abs(k), axis=0), "spread": lambda x, k: ad.var(x, axis=0, ddof=k % 3),
    "vander": lambda x, k: ad.vander(x[0], abs(k) % 6), "classes": lambda x, k: ad.one_hot([1, 0], abs(k)) * x[0, 0],
    "axis": lambda x, k: ad.flip(x, axis=(k + 1) % 2), "joined": lambda x, k: ad.stack([x, x], k % 3),
    "segments": lambda x, k: ad.segment_sum(x, np.arange(len(x)) % 2, 1 + abs(k)),
}  # fmt: skip


def _updated(x, k):
    y = x * 1.0
    y[k % len(x)] = 2.0 * x[0]
    return y


@pytest.mark.parametrize("call", CALLS)
def test_an_integer_does_not_follow_from_an_extent(call, rng):
    """A parameter that is the extent less one, or its negative, at some sizes, and then at another one no more."""
    f = CALLS[call]
    for rule, extents in itertools.product((lambda n: n - 1, lambda n: -n), ((2, 3, 4), (17, 18))):
        ad.clear_cache()
        for n, k in [*((n, rule(n)) for n in extents), (19, 7)]:
            x = rng.normal(size=(n, 6))
            ad.config.eager = True
            try:
                weights = rng.normal(size=f(ad.tensor(x), k).shape)

                def loss(x, k=k, weights=weights):
                    return ad.sum(f(x, k) * weights)

                expected = ad.value_and_grad(loss)(x)
            finally:
                ad.config.eager = False
            for found in (ad.jit(ad.value_and_grad(loss))(x), ad.value_and_grad(loss)(x)):
                np.testing.assert_allclose(found[0], expected[0], rtol=1e-10, atol=1e-10)
                np.testing.assert_allclose(found[1], expected[1], rtol=1e-10, atol=1e-10)
