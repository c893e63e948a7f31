"""In-place updates of arguments: they count inside of the function, and are nothing to the caller's values."""

import numpy as np
import pytest

import autodiff as ad

X = np.arange(1.0, 7.0).reshape(3, 2)


def scaled(x):
    x *= 2.0
    return x


def first_set(x):
    x[0] = 5.0
    return x


def slice_set(x):
    x[:1] = x[1:] * 3.0
    return x


def in_dict(x):
    held = {"a": x, "b": x * 1.0}
    held["a"] += held["b"]
    return held


def changed(x):
    y = x * x
    x.fill_(0.5)
    return x + y


def zero_dimensional(x):
    s = x.sum()
    s += 1.0
    s[()] *= 2.0
    return s


UPDATES = [scaled, first_set, slice_set, in_dict, changed, zero_dimensional]


@pytest.mark.smoke
@pytest.mark.parametrize("f", UPDATES)
def test_a_mapped_argument_is_updated_for_every_example(f):
    def stacked(rows):
        return ad.tree.map(lambda *ts: np.stack([t.numpy() for t in ts]), *[f(ad.tensor(row)) for row in rows])

    def check(found, wanted):
        for a, b in zip(ad.tree.leaves(found), ad.tree.leaves(wanted), strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)

    check(ad.vmap(f)(X), stacked(X))
    check(ad.vmap(f, in_axes=1)(X.T), stacked(X))
    check(ad.jit(ad.vmap(f))(X), stacked(X))
    check(ad.vmap(ad.jit(f))(X), stacked(X))
    twice = np.stack([X, X + 1.0])
    check(ad.vmap(ad.vmap(f))(twice), ad.tree.map(lambda *a: np.stack(a), stacked(X), stacked(X + 1.0)))


def test_numbers_and_leaves_of_a_nesting_that_are_mapped_are_updated():
    def f(s, held):
        s *= 2.0
        held["w"] -= s
        held["b"][0] += held["w"].sum()
        return s, held

    given = {"w": X, "b": [np.array([1.0, 2.0, 3.0])]}
    s, held = ad.vmap(f)(np.array([1.0, 2.0, 3.0]), given)
    w = X - np.array([[2.0], [4.0], [6.0]])
    np.testing.assert_array_equal(s, [2.0, 4.0, 6.0])
    np.testing.assert_array_equal(held["w"], w)
    np.testing.assert_array_equal(held["b"][0], np.array([1.0, 2.0, 3.0]) + w.sum(1))


def both(x, y):
    x *= 3.0
    y += 1.0
    y[0] = x[1]
    return (x * y).sum()


ROUTES = {
    "grad": ad.grad(both),
    "value_and_grad": ad.value_and_grad(both),
    "vjp": lambda x, y: ad.vjp(both, x, y)[1](ad.ones(())),
    "jvp": lambda x, y: ad.jvp(both, (x, y), (ad.ones(2), ad.ones(2))),
    "hessian": ad.hessian(both),
    "jit": ad.jit(both),
    "jit of grad": ad.jit(ad.grad(both)),
    "grad of jit": ad.grad(ad.jit(both)),
    "vmap": lambda x, y: ad.vmap(both, (0, None))(ad.stack([x, x]), y),
    "checkpoint": ad.checkpoint(both),
    "scan": lambda x, y: ad.scan(lambda c, _: (c, both(*c)), (x, y), length=2),
    "fori_loop": lambda x, y: ad.fori_loop(0, 2, lambda i, c: (c[0], c[1], both(c[0], c[1])), (x, y, x.sum())),
    "cond": lambda x, y: ad.cond(x.sum() > 0, both, lambda x, y: x.sum(), x, y),
    "cond with a bool": lambda x, y: ad.cond(True, both, lambda x, y: x.sum(), x, y),
    "by keyword": lambda x, y: ad.grad(lambda x, y: both(x, y))(x, y=y),
    "jacobian by keyword": lambda x, y: ad.jacobian(lambda x, y: both(x, y))(x, y=y),
}


@pytest.mark.parametrize("eager", [False, True], ids=["recorded", "eager"])
@pytest.mark.parametrize("tracks", [False, True], ids=["data", "parameter"])
@pytest.mark.parametrize("route", ROUTES)
def test_an_update_of_an_argument_leaves_the_callers_value(route, tracks, eager, monkeypatch):
    monkeypatch.setattr(ad.config, "eager", eager)
    x, y = [ad.tensor(np.array(a), requires_grad=tracks) for a in ([1.0, 2.0], [3.0, 4.0])]
    found = ROUTES[route](x, y)
    assert x.tolist() == [1.0, 2.0] and y.tolist() == [3.0, 4.0]
    assert x.is_leaf and y.is_leaf and x.requires_grad is tracks
    again = ROUTES[route](x, y)
    for a, b in zip(ad.tree.leaves(found), ad.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(ad.stop_gradient(a), ad.stop_gradient(b))


def test_an_update_of_an_argument_is_differentiated():
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    wanted = np.array([9.0 * 2.0, 9.0 * 1.0 + 3.0 * 5.0])  # of 3 x[0] 3 x[1] + 3 x[1] (y[1] + 1)
    np.testing.assert_allclose(ad.grad(both)(x, y), wanted)
    np.testing.assert_allclose(ad.jvp(lambda x: both(x, ad.tensor(y)), (x,), (np.array([1.0, 10.0]),))[1],
                               wanted @ [1.0, 10.0])
    np.testing.assert_allclose(ad.vjp(both, x, y)[1](1.0)[1], [0.0, 6.0])


def test_steps_that_update_what_they_gave_before_change_no_earlier_result(monkeypatch):
    def step(c, _):
        c += 1.0
        return c, c

    for eager in (False, True):
        monkeypatch.setattr(ad.config, "eager", eager)
        last, ys = ad.scan(step, ad.tensor(0.0), length=3)
        assert last.item() == 3.0 and ys.tolist() == [1.0, 2.0, 3.0]


def test_a_trace_is_made_again_where_a_captured_tensor_comes_to_track():
    w = ad.tensor(np.array([1.0, 2.0]))

    @ad.jit
    def f(x):
        with ad.no_grad():
            c = w * w
        return (x * c * w).sum()

    x = ad.tensor(np.ones(2))
    assert not f(x).requires_grad and f(np.ones(2)) == 9.0
    w.requires_grad_()
    for _ in range(3):
        w.grad = None
        f(x).backward()
        assert w.grad.tolist() == [1.0, 4.0]  # not [3, 12]: c is a constant


@ad.no_grad()
def enabled_inside(x):
    c = x * x
    with ad.enable_grad():
        return c * x


@pytest.mark.parametrize("wrap", [
    ad.jit, ad.checkpoint, lambda f: lambda x: ad.cond(x[0] > 0, f, lambda x: x, x),
    lambda f: lambda x: ad.scan(lambda c, _: (f(c), None), x, length=1)[0],
    lambda f: lambda x: ad.fori_loop(0, 1, lambda i, c: f(c), x),
    lambda f: lambda x: ad.while_loop(lambda c: c[1] < 1, lambda c: (f(c[0]), c[1] + 1), (x, 0))[0],
    lambda f: ad.vmap(lambda x: f(x), 0, 0),
], ids=["jit", "checkpoint", "cond", "scan", "fori_loop", "while_loop", "vmap"])  # fmt: skip
def test_under_no_grad_what_is_recorded_under_enable_grad_tracks(wrap):
    x = ad.tensor(np.array([2.0, 3.0]), requires_grad=True)
    f = wrap(enabled_inside)
    for _ in range(3):
        x.grad = None
        with ad.no_grad():
            y = f(x)
            assert not wrap(lambda x: x * x)(x).requires_grad
        assert y.requires_grad
        y.sum().backward()
        assert x.grad.tolist() == [4.0, 9.0]


def test_a_handle_that_takes_a_parameters_value_is_no_parameter():
    w = ad.tensor(np.array([1.0, 2.0]), requires_grad=True)
    t, u = ad.zeros(2), ad.zeros(2)
    t.copy_(w)
    t += 1.0
    with ad.no_grad():
        u.copy_(w)
    u += 1.0
    assert not u.requires_grad and not t.is_leaf
    (t * u).sum().backward()
    assert w.grad.tolist() == [2.0, 3.0] and w.tolist() == [1.0, 2.0]
