"""SEMANTICS 4, outputs: arrays, containers, identities, twins, what carries no gradient, what is unused."""

from __future__ import annotations

import dataclasses
from collections import namedtuple

import numpy as np
import pytest
from custom_functions import X, leaf, pair
from three_ways import done, gradients, refused

import autodiff as ad

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Both:
    a: object
    b: object


MAKE = {
    "tuple": lambda a, b: (a, b),
    "list": lambda a, b: [a, b],
    "namedtuple": Pair,
    "dict": lambda a, b: {"a": a, "b": b},
    "nested": lambda a, b: {"l": [a, (b,)]},
    "dataclass": Both,
}


@pytest.mark.parametrize("kind", MAKE)
def test_outputs_come_back_in_their_container_and_so_do_cotangents(kind):
    make = MAKE[kind]

    def forward(ctx, x):
        return make(x * 2.0, x * 3.0)

    def of_elements(ctx, *g):
        return {"x": g[0] * 2.0 + g[1] * 3.0}

    def of_container(ctx, g):
        a, b = ad.tree.leaves(g)
        return {"x": a * 2.0 + b * 3.0}

    is_sequence = kind in ("tuple", "list", "namedtuple")
    f = pair(forward, of_elements if is_sequence else of_container)
    result = f(leaf())
    assert type(result) is type(make(1, 2))
    assert all(t.requires_grad for t in ad.tree.leaves(result))

    def loss(x):
        a, b = ad.tree.leaves(f(x))
        return (a * 10.0 + b).sum()

    (g,) = gradients(loss, X, kept=is_sequence)
    np.testing.assert_array_equal(g, np.full(3, 23.0))


def test_nested_elements_of_a_tuple_come_in_their_container():
    seen = []

    def backward(ctx, a, d):
        seen.append((type(d), sorted(d)))
        return {"x": a + d["p"] * 2.0 + d["q"][0] * 3.0}

    f = pair(lambda ctx, x: (x * 1.0, {"p": x * 2.0, "q": [x * 3.0]}), backward)
    (g,) = gradients(lambda x: f(x)[0].sum() + f(x)[1]["q"][0].sum(), X, kept=False)
    np.testing.assert_array_equal(g, np.full(3, 4.0))
    assert set(map(str, seen)) == {"(<class 'dict'>, ['p', 'q'])"}


def test_arrays_and_numpy_scalars_become_tracked_tensors():
    def forward(ctx, x):
        v = x.numpy()
        return np.sin(v), np.float64(v.sum())

    f = pair(forward, lambda ctx, a, b: {"x": a * ad.cos(ctx.inputs.x) + b})
    a, b = f(leaf())
    assert a.requires_grad and b.requires_grad and b.shape == ()
    (g,) = gradients(lambda x: f(x)[0].sum() + f(x)[1], X)
    np.testing.assert_allclose(g, np.cos(X) + 1)


def test_an_array_that_is_saved_and_returned_reads_back_as_the_output():
    def forward(ctx, x):
        y = np.exp(x.numpy())
        ctx.save_for_backward(y=y)
        return y

    f = pair(forward, lambda ctx, g: g * ctx.saved_variables.y)
    (g,) = gradients(lambda x: f(x).sum(), X)
    np.testing.assert_allclose(g, np.exp(X))
    second = ad.grad(lambda x: ad.grad(lambda x: f(x).sum())(x).sum())
    np.testing.assert_allclose(second(X), np.exp(X))


def test_other_outputs_pass_through_and_their_slot_is_none():
    seen = []
    marker = object()

    def backward(ctx, *g):
        seen.append(g[1:])
        assert ctx.outputs[1:] == (3, 2.5, "text", None, marker)
        return g[0]

    f = pair(lambda ctx, x: (x * 1.0, 3, 2.5, "text", None, marker), backward)
    out = f(leaf())
    assert out[1:] == (3, 2.5, "text", None, marker)
    out[0].sum().backward()
    assert seen == [(None,) * 5]


def test_integer_and_bool_outputs_are_non_differentiable_by_themselves():
    def backward(ctx, g, i, b):
        assert (i.shape, i.dtype, b.shape) == ((), np.int64, (3,))
        return g * 2.0

    f = pair(lambda ctx, x: (x * 2.0, ad.argmax(x), x > 0.0), backward)
    y, i, b = f(leaf())
    assert y.requires_grad and not i.requires_grad and not b.requires_grad
    assert (i.item(), b.numpy().tolist()) == (2, [True, False, True])
    (g,) = gradients(lambda x: (f(x)[0] * ad.astype(f(x)[2], ad.float64)).sum(), X, kept=False)
    np.testing.assert_array_equal(g, [2.0, 0.0, 2.0])
    only = pair(lambda ctx, x: ad.argmax(x), lambda ctx, g: None)
    assert only(leaf()).item() == 2, "an integer loses no gradient: there is none"


@pytest.mark.parametrize("value", [3.0, "text", None, ()])
def test_a_tracking_call_without_a_tracked_output_is_an_error_not_a_constant(value):
    f = pair(lambda ctx, x: value, lambda ctx, g: None)
    with pytest.raises(ad.GradientError, match=r"f: an argument requires a gradient, but no output can carry one\n"):
        f(leaf())
    f(ad.tensor(X))
    marked = pair(lambda ctx, x: (ctx.mark_non_differentiable(y := x * 1.0), y)[1], lambda ctx, g: None)
    assert not marked(leaf()).requires_grad


def test_a_forward_that_returns_its_input_gives_a_new_tensor_with_the_custom_rule():
    f = pair(lambda ctx, x: x, lambda ctx, g: g * 7.0)
    (g,) = gradients(lambda x: f(x).sum() + x.sum(), X)
    np.testing.assert_array_equal(g, np.full(3, 8.0))
    x = leaf()
    y = x * 2.0
    z = f(y)
    assert z is not y
    np.testing.assert_array_equal(ad.grad(y.sum(), x, retain_graph=True).numpy(), np.full(3, 2.0))
    np.testing.assert_array_equal(ad.grad(z.sum(), x).numpy(), np.full(3, 14.0))


def test_the_same_tensor_returned_twice_gives_two_independent_slots():
    seen = []

    def forward(ctx, x):
        y = x * 1.0
        return y, y, [y]

    f = pair(forward, lambda ctx, a, b, c: (seen.append((a, b, c)), {"x": a + 10.0 * b + 100.0 * c[0]})[1])
    (g,) = gradients(lambda x: (f(x)[0] * 1.0 + f(x)[1] * 2.0).sum(), X, kept=False)
    np.testing.assert_array_equal(g, np.full(3, 21.0))

    def both(x):
        a, b, c = f(x)
        return (a * 1.0 + b * 2.0 + c[0] * 3.0).sum()

    np.testing.assert_array_equal(gradients(both, X, kept=False)[0], np.full(3, 321.0))


def test_a_marked_output_receives_zeros_and_adds_no_gradient():
    seen = []

    def forward(ctx, x):
        y, n = x * 2.0, x * x
        ctx.mark_non_differentiable(n)
        return y, n

    def backward(ctx, g, n):
        seen.append((n.shape, float(n.sum())))
        return g * 2.0

    f = pair(forward, backward)
    y, n = f(leaf())
    assert y.requires_grad and not n.requires_grad
    (g,) = gradients(lambda x: (f(x)[0] + 5.0 * f(x)[1]).sum(), X, kept=False)
    np.testing.assert_array_equal(g, np.full(3, 2.0))
    assert set(seen) == {((3,), 0.0)}


def test_an_array_may_be_marked():
    def forward(ctx, x):
        n = x.numpy() * 1.0
        ctx.mark_non_differentiable(n)
        return x * 2.0, n

    f = pair(forward, lambda ctx, g, n: g * 2.0)
    assert [t.requires_grad for t in f(leaf())] == [True, False]


def test_marking_what_is_not_returned_is_an_error():
    f = pair(lambda ctx, x: (ctx.mark_non_differentiable(x * 5.0), x * 1.0)[1], lambda ctx, g: g)
    for call in (lambda: f(leaf()), lambda: ad.jit(f)(X)):
        with pytest.raises(ad.GradientError, match="f: mark_non_differentiable of something that forward does not"):
            call()


def test_unused_outputs_get_zeros_of_their_shape():
    seen = []

    def backward(ctx, a, b):
        seen.append((a.aval, b.aval, b.numpy().any()) if not isinstance(b, type(None)) else None)
        return a * 2.0 + b.sum()

    f = pair(lambda ctx, x: (x * 2.0, ad.stack([x, x])), backward)
    x = leaf()
    f(x)[0].sum().backward()
    ((a, b, any_),) = seen
    assert (str(a), str(b), bool(any_)) == ("f64[3]", "f64[2,3]", False)


def test_without_materialized_grads_an_unused_output_gets_none():
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2.0, x * 3.0

    def backward(ctx, a, b):  # 100 and 1000 say which came as None
        return (a * 2.0 if a is not None else 100.0) + (b * 3.0 if b is not None else 1000.0)

    f = pair(forward, backward)
    for which, slope in ((0, 1002.0), (1, 103.0)):
        (g,) = gradients(lambda x, which=which: f(x)[which].sum(), X)
        np.testing.assert_array_equal(g, np.full(3, slope))


def test_a_backward_is_called_once_per_use_with_the_summed_cotangent():
    calls = []
    f = pair(lambda ctx, x: x * 2.0, lambda ctx, g: (calls.append(1), g * 2.0)[1])
    x = leaf()
    y = f(x)
    (y * 3.0 + ad.sin(y) + y).sum().backward()
    assert len(calls) == 1
    np.testing.assert_allclose(x.grad.numpy(), 2 * (4 + np.cos(2 * X)))


def test_a_backward_is_not_called_when_nothing_below_was_asked_for():
    calls = []
    f = pair(lambda ctx, x: x * 2.0, lambda ctx, g: (calls.append(1), g * 2.0)[1])
    x, w = leaf(), leaf()
    ad.grad((f(x) * w).sum(), [w])
    (f(x) * w).sum().backward(inputs=[w])
    ad.grad(lambda w: (f(ad.tensor(X)) * w).sum())(X)
    assert not calls and x.grad is None


def test_a_missing_rule_is_an_error_when_the_gradient_is_asked_for():
    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: x * 1.0)
    f.backward(ad.Matrix)(lambda ctx, g: g)
    f(leaf()).sum().item()
    error = refused(lambda x: f(x).sum(), X)
    for part in ("f(Tensor[float64, 1]) has no backward", "test_outputs.py:", "f(x: Tensor[..., 2])", "@f.backward("):
        assert part in str(error)


def test_outputs_of_a_known_call_run_no_rule():
    f = pair(lambda ctx, x: (x * 2.0, x * 3.0), lambda ctx, a, b: a * 2.0 + b * 3.0)
    x = leaf()

    def step():
        a, b = f(x)
        (a * b).sum().backward()

    step(), step(), step()
    before = done()
    for _ in range(5):
        step()
    assert done() == before


def test_a_saved_output_of_several_is_one_value_with_the_output_itself():
    @ad.function
    def powers(x): ...

    @powers.forward(ad.Tensor)
    def _(ctx, x):
        e = ad.exp(x)
        ctx.save_for_backward(e=e)
        return e, x * 2.0

    @powers.backward(ad.Tensor)
    def _(ctx, e_bar, twice_bar):
        return {"x": e_bar * ctx.saved_variables.e + 2.0 * twice_bar}

    x = ad.tensor(X, requires_grad=True)
    e, _ = powers(x)
    (slope,) = ad.grad(e.sum(), [x], create_graph=True)  # e, read back by the rule
    np.testing.assert_allclose(ad.grad((slope * e).sum(), [x])[0].numpy(), 2.0 * np.exp(2.0 * X))
