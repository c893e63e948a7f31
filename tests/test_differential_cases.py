"""Faults that random programs have found, reduced: each of these once was an error or a wrong number."""

import numpy as np
import pytest
from differential.helpers import ladder, polar, stats
from differential.random_programs import eager

import autodiff as ad


def test_a_jit_function_in_eager_mode_is_the_function_itself():
    seen = []

    @ad.jit
    def f(x):
        seen.append(x.numpy())  # there are values
        return ad.sin(x) * x + 0.25

    with eager():
        y = f(np.ones(3))
        gradient = ad.jit(ad.grad(lambda x: ad.sum(x * x)))(np.ones(2))
        through = ad.grad(ad.jit(lambda x: ad.sum(x * x)))(np.ones(2))
    assert type(y) is np.ndarray and len(seen) == 1
    np.testing.assert_array_equal(gradient, [2.0, 2.0])
    np.testing.assert_array_equal(through, [2.0, 2.0])


def test_inspection_in_eager_mode_has_no_values_to_look_at():
    def f(x):
        return ad.sin(x) * x

    with eager():
        text = ad.inspect(f, "f64[3]").graph
    assert text == ad.inspect(f, "f64[3]").graph


@pytest.mark.parametrize("trace", [lambda f: ad.jit(f)(np.ones(3)), lambda f: ad.inspect(f, "f64[3]")])
def test_a_tensor_that_a_trace_has_let_out_harms_nobody(trace):
    kept = []
    trace(lambda x: (kept.append(ad.sum(x)), x * 2)[1])
    assert (ad.tensor(1.0) + 1).item() == 2.0
    with pytest.raises(ad.ConcretizationError):
        kept[0].item()


def test_tangents_pass_through_a_custom_function_of_several_results():
    x = np.array([0.3, -0.7, 1.1])
    y, dy = ad.jvp(lambda x: polar(x, 2 * x), (x,), (np.ones(3),))
    np.testing.assert_allclose(y, [5 * x * x, 2 * x * x])
    np.testing.assert_allclose(dy, [10 * x, 4 * x])
    _, dy = ad.jvp(lambda x: polar(x, x)[1], (x,), (np.ones(3),))
    np.testing.assert_allclose(dy, 2 * x)


def test_a_value_that_two_kernels_share_is_not_stored_before_what_it_is_made_of():
    def f(x):
        row = ad.arctan(x[1:])
        total = ad.logsumexp(row, axis=-2, keepdims=True)
        root = ad.sqrt(ad.sum(total * total, axis=-1) + 0.1)
        return ad.sum(ad.max(row, axis=(1, 0), keepdims=True) * ladder(1, 1)) + ad.sum(root * ladder(1))

    x = np.array([[-1.85, -1.84, 1.14], [0.9, -0.96, -0.79]])
    with eager():
        value, gradient = ad.value_and_grad(f)(x)
    for _ in range(3):
        y, g = ad.value_and_grad(f)(x)
        np.testing.assert_allclose(y, value)
        np.testing.assert_allclose(g, gradient)


def test_a_trace_that_is_replayed_is_the_same_graph_each_time():
    slope = ad.grad(lambda z: ad.sum(ad.tanh(z) * z * 0.5))
    gradient = ad.value_and_grad(ad.jit(lambda x: ad.sum(slope(x * x))))
    x = np.array([0.3, 0.7])
    first, wanted = gradient(x)
    with ad.max_compiles(0):
        for _ in range(3):
            again, g = gradient(x)
            assert again == first and g.tobytes() == wanted.tobytes()


def test_a_call_of_several_results_is_no_value_to_be_stored():
    def f(x):
        row = ad.prod(x, axis=-2)
        part = stats(row)["parts"][1]
        chosen = ad.where(x > row, x, row * 2)
        return ad.sum(ad.where(ad.logical_and(chosen > 0, part < 0.5), chosen * part, part) * ladder(3, 3))

    x = np.array([[1.2, -0.2, -0.87], [-0.8, 0.01, 1.03], [1.42, -1.3, -0.19]])
    again = ad.grad(lambda x: ad.sum(ad.grad(f)(x) * ladder(3, 3)))
    with eager():
        wanted = again(x)
    np.testing.assert_allclose(again(x), wanted, rtol=1e-9)


def test_a_gradient_of_an_intermediate_releases_nothing_below_it():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    v = x * x
    w = v * x
    np.testing.assert_array_equal(ad.grad(ad.sum(v * v), v), [2.0, 8.0])
    w.sum().backward()
    np.testing.assert_array_equal(x.grad, [3.0, 12.0])


def test_a_gradient_through_what_an_earlier_one_released_is_refused():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    v = ad.exp(x)
    y = ad.sum(v * v) + ad.sum(x)
    ad.grad(y, x)
    with pytest.raises(ad.GradientError, match="retain_graph=True"):
        ad.grad(y, x)
    with pytest.raises(ad.GradientError, match="retain_graph=True"):
        ad.grad(ad.sum(v) + ad.sum(x), x)
    np.testing.assert_array_equal(ad.grad(ad.sum(3 * v), v), [3.0, 3.0])


def test_a_backward_into_some_leaves_releases_nothing_of_the_others():
    x, w = (ad.tensor(a, requires_grad=True) for a in ([1.0, 2.0], [3.0, 4.0]))
    s = ad.sin(x)
    (s.detach() * w).sum().backward(inputs=[w])
    (s * w.detach()).sum().backward(inputs=[x])
    both = ad.sum(ad.tanh(x)) + ad.sum(ad.tanh(w))
    both.backward(inputs=[w])
    np.testing.assert_allclose(x.grad, np.cos([1.0, 2.0]) * [3.0, 4.0])


def test_a_pullback_of_tensors_that_do_not_track_gives_such_tensors():
    x = ad.tensor([0.5, 1.5])
    y, pullback = ad.vjp(lambda x: ad.sin(x) * x, x)
    (x_bar,) = pullback(ad.tensor([1.0, 1.0]))
    assert not y.requires_grad and not x_bar.requires_grad
    np.testing.assert_allclose(x_bar.numpy(), np.cos(x.numpy()) * x.numpy() + np.sin(x.numpy()))


def test_a_pullback_tracks_what_its_cotangent_tracks():
    bar = ad.tensor([1.0, 2.0], requires_grad=True)
    _, pullback = ad.vjp(lambda x: x * x, ad.tensor([0.5, 1.5]))
    ad.sum(pullback(bar)[0]).backward()
    np.testing.assert_array_equal(bar.grad, [1.0, 3.0])


@pytest.mark.parametrize(
    "same",
    [
        lambda x: +x, lambda x: x[:], lambda x: x[...], lambda x: x[0:2], lambda x: x.reshape(2), lambda x: x.T,
        lambda x: ad.squeeze(x), lambda x: ad.broadcast_to(x, (2,)), lambda x: ad.astype(x, ad.float64),
        lambda x: ad.concatenate([x]), lambda x: ad.pad(x, 0), lambda x: x**1, lambda x: ad.clip(x), ad.stop_gradient,
        lambda x: ad.sum(x, axis=()), lambda x: ad.max(x, axis=()), lambda x: ad.split(x, 1)[0], ad.real,
        lambda x: ad.einsum("i->i", x),
    ],
)  # fmt: skip
def test_a_result_equal_to_its_argument_is_a_value_of_its_own(same):
    x = ad.tensor([1.0, 2.0])
    for _ in range(3):
        y = same(x)
        y += 1
        np.testing.assert_array_equal(y, [2.0, 3.0])
        np.testing.assert_array_equal(x, [1.0, 2.0])
