"""Recordings of rules inside of other transformations are put down again where a recording repeats, and only there."""

import threading

import numpy as np
import pytest
from known_derivatives import VS, WAYS, A, B, program

import autodiff as ad


@pytest.mark.parametrize("way", WAYS)
def test_it_is_right_the_first_time_and_when_it_is_known(way):
    run, expected = WAYS[way]
    for k in range(5):
        x = A * (1 + 0.1 * k)
        np.testing.assert_allclose(run(x), expected(x), rtol=2e-4, atol=2e-4)


def test_one_operand_in_place_of_two_alike_is_another_recording():
    def both(w, x):
        a, b = w * x, w * ad.sin(x)
        return (a * b).sum()

    def one(w, x):
        a, _ = w * x, w * ad.sin(x)
        return (a * a).sum()

    w, x = ad.tensor(A), ad.tensor(B)
    for _ in range(4):
        np.testing.assert_allclose(ad.grad(both, 1)(w, x).numpy(), A * A * (np.sin(B) + B * np.cos(B)), rtol=1e-12)
    for _ in range(2):
        np.testing.assert_allclose(ad.grad(one, 1)(w, x).numpy(), 2 * A * A * B, rtol=1e-12)


def test_what_took_the_place_of_a_captured_tensor_is_not_taken_for_it():
    captured = ad.tensor(B, requires_grad=True)

    def outside(x):
        return (x * captured).sum()

    def inside(x):
        return (x * (x * 1.0)).sum()

    for f, expected in ((outside, B), (inside, 2 * A), (outside, B), (inside, 2 * A)):
        for _ in range(3):
            np.testing.assert_allclose(ad.grad(f)(ad.tensor(A)).detach().numpy(), expected, rtol=1e-14)


def test_with_create_graph_targets_are_told_from_what_looks_like_them():
    leaf = ad.tensor(A, requires_grad=True)

    def gradient(is_one):
        a, b = leaf * B, leaf * (B + 1)
        y = (a * a if is_one else a * b).sum()
        return ad.grad(y, a, create_graph=True).detach().numpy()

    for _ in range(4):
        np.testing.assert_allclose(gradient(False), A * (B + 1), rtol=1e-14)
    for _ in range(3):
        np.testing.assert_allclose(gradient(True), 2 * A * B, rtol=1e-14)


def test_an_unused_leaf_has_no_gradient_after_one_whose_older_value_was_used():
    def older(x):
        y = (x * x).sum()
        with ad.no_grad():
            x -= 0.5
        return y

    def another(x):
        z = ad.tensor(A, requires_grad=True)
        y = (z * z).sum()
        with ad.no_grad():
            x -= 0.5
        return y

    for _ in range(4):
        x = ad.tensor(A, requires_grad=True)
        np.testing.assert_allclose(ad.grad(older(x), x, create_graph=True).detach().numpy(), 2 * A)
    for _ in range(3):
        x = ad.tensor(A, requires_grad=True)
        assert ad.grad(another(x), x, create_graph=True, allow_unused=True) is None


def test_a_hook_and_a_mode_between_two_runs_are_honoured():
    def f(x, hook=None):
        y = x * x
        if hook is not None:
            y.register_hook(hook)
        return (y * x).sum()

    x = ad.tensor(A)
    for _ in range(4):
        np.testing.assert_allclose(ad.grad(f)(x).numpy(), 3 * A * A, rtol=1e-13)
    np.testing.assert_allclose(ad.grad(lambda x: f(x, lambda g: g * 0.0))(x).numpy(), A * A, rtol=1e-13)
    np.testing.assert_allclose(ad.grad(f)(x).numpy(), 3 * A * A, rtol=1e-13)
    w = ad.tensor(A, requires_grad=True)
    for _ in range(3):
        assert ad.grad(f)(w).requires_grad
        with ad.no_grad():
            assert not ad.grad(f)(w).requires_grad
    with ad.detect_anomaly():
        np.testing.assert_allclose(ad.grad(f)(x).numpy(), 3 * A * A, rtol=1e-13)
    ad.config.eager, before = True, ad.config.eager
    try:
        np.testing.assert_allclose(ad.grad(f)(x).numpy(), 3 * A * A, rtol=1e-13)
    finally:
        ad.config.eager = before


def test_a_rule_that_is_registered_later_takes_effect():
    def f(x):
        return (ad.tanh(x) * x).sum()

    for _ in range(4):
        known = ad.grad(f)(ad.tensor(A)).numpy()
    method = ad.tanh.backward(ad.Tensor)(lambda ctx, g: (g * 0.0,))
    try:
        np.testing.assert_allclose(ad.grad(f)(ad.tensor(A)).numpy(), np.tanh(A), rtol=1e-13)
    finally:
        method.delete()
    np.testing.assert_array_equal(ad.grad(f)(ad.tensor(A)).numpy(), known)


def test_a_custom_rule_with_another_number_is_run_with_it():
    @ad.function
    def scaled(x, c): ...

    @scaled.forward
    def _(ctx, x: ad.Tensor, c: ad.Number):
        ctx.save_for_backward(c=c)
        return x * c

    @scaled.backward
    def _(ctx, g):
        return {"x": g * ctx.saved_variables.c * 10.0}

    for k in range(6):
        found = ad.grad(lambda x, k=k: (scaled(x, float(k)) * x).sum())(ad.tensor(A)).numpy()
        np.testing.assert_allclose(found, 11.0 * k * A, rtol=1e-13)


def test_a_released_history_is_an_error_also_where_it_is_known():
    x = ad.tensor(A, requires_grad=True)
    for _ in range(4):
        y = program(x)
        ad.grad(y, x, create_graph=True)
        y.backward()
        with pytest.raises(ad.GradientError, match="second backward"):
            ad.grad(y, x, create_graph=True)
        with pytest.raises(ad.GradientError, match="second backward"):
            y.backward(create_graph=True)
        x.grad = None


def test_gradients_with_a_history_accumulate_when_they_are_known():
    x, w = ad.tensor(A, requires_grad=True), ad.tensor(B, requires_grad=True)
    seen = []
    w.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.detach().numpy().copy()))
    for k in range(1, 6):
        (x * w * w).sum().backward(create_graph=True)
        np.testing.assert_allclose(x.grad.detach().numpy(), k * B * B, rtol=1e-13)
        np.testing.assert_allclose(seen[-1], k * 2 * A * B, rtol=1e-13)
    assert len(seen) == 5
    x.grad = w.grad = None


def test_threads_put_down_what_is_theirs():
    def f(x):
        return (ad.sin(x) * ad.exp(x)).sum()

    failures = []

    def work(scale):
        x = A * scale
        for _ in range(40):
            found = ad.hvp(f, x, B)
            if not np.allclose(found, 2 * np.cos(x) * np.exp(x) * B, rtol=1e-11):
                failures.append(scale)

    threads = [threading.Thread(target=work, args=(1 + 0.1 * k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.mark.parametrize("run", [
    lambda f, x: ad.grad(f)(x), lambda f, x: ad.vjp(f, x)[1](ad.tensor(1.0))[0],
    lambda f, x: ad.jacobian(f)(x), lambda f, x: ad.vmap(ad.grad(f))(x.reshape(1, 2))[0],
    lambda f, x: ad.value_and_grad(lambda x: ad.grad(f)(x).sum())(x)[1] * ad.tensor([1.0, 2.0]),
])  # fmt: skip
def test_a_function_that_changes_its_argument_in_place_is_differentiated_by_what_it_was_given(run):
    def f(x):
        x *= 2.0
        return (x * x).sum()

    for _ in range(4):
        np.testing.assert_allclose(run(f, ad.tensor([1.0, 2.0])).numpy(), [8.0, 16.0])


def curve(x):
    return ad.stack([ad.sin(x).sum() * x[0], (x * x).prod(), x[1] ** 3])


def curve_slopes(x):
    down = np.stack([np.cos(x) * x[0], 2 * (x * x).prod() / x, np.array([0, 3 * x[1] ** 2, 0, 0])])
    down[0, 0] += np.sin(x).sum()
    return down


@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
@pytest.mark.parametrize("given", [np.array, ad.tensor])
def test_a_jacobian_is_right_the_first_time_and_when_it_is_known(mode, given):
    for k in range(5):
        x = np.array([0.4, -1.2, 0.7, 2.0]) + 0.1 * k
        np.testing.assert_allclose(np.asarray(ad.jacobian(curve, mode=mode)(given(x))), curve_slopes(x), rtol=1e-12)


@pytest.mark.parametrize("f", [lambda x: x, lambda x: (x, x), lambda x: (x * 2.0, x + 1.0, 3.0)])
def test_matrices_of_derivatives_are_the_callers_own(f):
    for _ in range(5):
        found = ad.tree.leaves(ad.jacobian(f)(np.arange(3.0)))
        if len(found) == 3:
            np.testing.assert_array_equal(found[2], np.zeros(3))
            np.testing.assert_array_equal(found[0], 2 * np.eye(3))
            found = found[1:2]
        for i, matrix in enumerate(found):
            np.testing.assert_array_equal(matrix, np.eye(3))
            matrix[...] = 7.0 + i
        assert len({float(matrix[0, 0]) for matrix in found}) == len(found)


def test_several_arguments_and_results_have_their_own_blocks():
    def f(x, y):
        return {"a": ad.sin(x) * y[0], "b": (x.sum() * y * y)}

    for k in range(5):
        x, y = np.array([0.1, 0.2, 0.3]) + k, np.array([1.0, -2.0])
        for mode in ("forward", "reverse"):
            found = ad.jacobian(f, (0, 1), mode=mode)(x, y)
            np.testing.assert_allclose(found["a"][0], np.diag(np.cos(x)) * y[0], rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(found["a"][1], np.stack([np.sin(x), 0 * x], 1), rtol=1e-12)
            np.testing.assert_allclose(found["b"][0], np.outer(y * y, np.ones(3)), rtol=1e-12)
            np.testing.assert_allclose(found["b"][1], np.diag(2 * y * x.sum()), rtol=1e-12)


def test_a_rule_that_asks_for_values_is_found_out_in_a_jacobian_each_time():
    @ad.function
    def looked(x): ...

    @looked.forward
    def _(ctx, x: ad.Tensor):
        ctx.save_for_backward(x=x)
        return x * x

    @looked.backward
    def _(ctx, g):
        x = ctx.saved_variables.x
        return {"x": g * (2.0 * x if float(x.sum()) > 0 else -1.0 * x)}

    for _ in range(4):
        np.testing.assert_allclose(ad.jacobian(looked)(np.array([1.0, 2.0])), np.diag([2.0, 4.0]))
        np.testing.assert_allclose(ad.jacobian(looked)(np.array([-1.0, -2.0])), np.diag([1.0, 2.0]))


def test_many_examples_are_right_the_first_time_and_when_they_are_known():
    w = np.array([0.5, -1.0, 2.0, 0.1])

    def f(x, c):
        y = ad.sin(x) * w + c
        return (ad.where(y > 0, y * x, 2.0) ** 2).sum(), y

    for k in range(5):
        x, c = VS + 0.1 * k, 0.3 * k
        y = np.sin(x) * w + c
        total, found = ad.vmap(f, (0, None))(x, np.array(c))
        np.testing.assert_allclose(found, y, rtol=1e-14)
        np.testing.assert_allclose(total, (np.where(y > 0, y * x, 2.0) ** 2).sum(1), rtol=1e-13)


def test_what_is_captured_is_told_from_what_is_made_of_an_example():
    captured = ad.tensor(VS[0]) * 1.0

    def outside(x):
        return (x * captured).sum()

    def inside(x):
        return (x * (x * 1.0)).sum()

    for f, expected in ((outside, VS @ VS[0]), (inside, (VS * VS).sum(1)), (outside, VS @ VS[0])):
        for _ in range(4):
            np.testing.assert_allclose(ad.vmap(f)(VS), expected, rtol=1e-14)


def test_hooks_on_examples_are_honoured_where_the_rest_is_known():
    def f(x, scale=None):
        y = x * x
        if scale is not None:
            x.register_hook(lambda g: g * scale)
        return (y * y).sum()

    for _ in range(4):
        np.testing.assert_allclose(ad.vmap(ad.grad(f))(VS), 4 * VS**3, rtol=1e-13, atol=1e-14)

    def examples(scale):
        xs = ad.tensor(VS, requires_grad=True)
        ad.vmap(lambda x: f(x, scale))(xs).sum().backward()
        return xs.grad.numpy()

    for _ in range(4):
        np.testing.assert_allclose(examples(None), 4 * VS**3, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(examples(3.0), 12 * VS**3, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(examples(2.0), 8 * VS**3, rtol=1e-13, atol=1e-14)


def test_a_loop_that_differentiates_in_its_body_meets_what_it_captures():
    def step(w):
        def body(x, _):
            return x - 0.1 * ad.grad(lambda x: (ad.sin(x) * w).sum())(x), None

        return ad.scan(body, ad.tensor([0.3, 0.5]), None, length=3)[0]

    def expected(w):
        x = np.array([0.3, 0.5])
        for _ in range(3):
            x = x - 0.1 * np.cos(x) * w
        return x

    for k in range(5):
        w = np.array([1.0, 2.0]) + k
        np.testing.assert_allclose(step(ad.tensor(w)).numpy(), expected(w), rtol=1e-13)
        np.testing.assert_allclose(ad.jit(lambda w: step(w))(w), expected(w), rtol=1e-13)


def test_a_loop_meets_what_only_the_rules_in_its_body_read():
    for k in range(6):
        c = np.array([1.0, 2.0]) + k
        w = ad.tensor([0.3, 0.5], requires_grad=True)
        factor = ad.tensor(c, requires_grad=True)
        y = (ad.sin(w) * factor).sum()

        def body(x, _, y=y, w=w):
            return x - 0.1 * ad.grad(y, w, create_graph=True), None

        found = ad.scan(body, ad.tensor([0.0, 0.0]), None, length=3)[0]
        np.testing.assert_allclose(found.detach().numpy(), -0.3 * np.cos([0.3, 0.5]) * c, rtol=1e-13)
        np.testing.assert_allclose(ad.grad(found.sum(), factor).numpy(), -0.3 * np.cos([0.3, 0.5]), rtol=1e-13)
