"""SEMANTICS 6, what is left: strong zero wherever a branch is not taken, and where the law ends."""

from __future__ import annotations

import numpy as np
import pytest
from three_ways import gradients

import autodiff as ad

Z = np.array([0.0, 1.0, -1.0])
PAIRS = np.array([[0.0, 0.0], [2.0, 3.0]])

#: What is undefined at zero, behind a choice that leaves zero out: (function, argument, gradient).
CHOICES = {
    "where": (lambda x: ad.where(x > 0, ad.log(x), 0.0).sum(), Z, [0, 1, 0]),
    "quotient": (lambda x: ad.where(x > 0, 1.0 / x, 0.0).sum(), Z, [0, -1, 0]),
    "power": (lambda x: ad.where(x > 0, x**-1.5, 0.0).sum(), Z, [0, -1.5, 0]),
    "clip": (lambda x: ad.clip(ad.log(x), -1.0, 1.0).sum(), np.array([0.0, 1.0]), [0, 1]),
    "maximum": (lambda x: ad.maximum(ad.log(x), -1.0).sum(), np.array([0.0, 1.0]), [0, 1]),
    "relu": (lambda x: ad.relu(ad.log(x)).sum(), np.array([0.0, np.e]), [0, 1 / np.e]),
    "max": (lambda x: ad.max(ad.log(x)), np.array([0.0, 1.0]), [0, 1]),
    "moves": (lambda x: ad.where(x > 0, ad.sqrt(x)[::-1][::-1] / x, 0.0).sum(), Z, [0, -0.5, 0]),
    "reduction": (lambda x: ad.where(x > 0, ad.log(x).reshape(-1, 1).sum(axis=1), 0.0).sum(), Z, [0, 1, 0]),
    "norm": (
        lambda x: ad.where(x[:, 0] > 0, (x * x).sum(axis=1) ** 0.5, 0.0).sum(),
        PAIRS,
        [[0, 0], [2 / 13**0.5, 3 / 13**0.5]],
    ),
    "logsumexp": (
        lambda x: ad.where(x[:, 0] > 0, ad.logsumexp(ad.log(x), axis=1), 0.0).sum(),
        PAIRS,
        [[0, 0], [0.2, 0.2]],
    ),
    "product": (
        lambda x: ad.where(x[:, 0] > 0, ad.prod(ad.log(x), axis=1), 0.0).sum(),
        PAIRS,
        [[0, 0], [np.log(3) / 2, np.log(2) / 3]],
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_branch_that_is_not_taken_gives_exactly_zero(name):
    f, x, expected = CHOICES[name]
    (g,) = gradients(f, x)
    np.testing.assert_allclose(g, expected, rtol=1e-12)
    assert (g[np.asarray(expected) == 0] == 0).all()


#: Masks in a key need their values, so there is no trace of them.
MASKS = {
    "mask": lambda x: ad.log(x)[x > 0].sum(),
    "mask of an array": lambda x: ad.log(x)[np.array([False, True, False])].sum(),
    "mask of rows": lambda x: ad.log(ad.stack([x, x], axis=1))[np.array([False, True, False])].sum() / 2,
    "mask behind a slice": lambda x: ad.log(ad.stack([x, x]))[:, np.array([False, True, False])].sum() / 2,
    "mask of all axes": lambda x: ad.log(ad.stack([x, x]))[ad.stack([x, x]) > 0].sum() / 2,
}


@pytest.mark.parametrize("name", MASKS)
def test_what_a_mask_leaves_out_gives_exactly_zero(name):
    f = MASKS[name]
    x = ad.tensor(Z, requires_grad=True)
    for _ in range(2):
        x.grad = None
        f(x).backward()
        np.testing.assert_array_equal(x.grad.numpy(), [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(ad.grad(f)(Z), [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(ad.hessian(f)(Z), np.diag([0.0, -1.0, 0.0]))


def test_strong_zero_holds_to_second_order():
    def f(x):
        return ad.where(x > 0, x * ad.log(x), 0.0).sum()

    for of in (ad.hessian(f), ad.jit(ad.hessian(f))):
        np.testing.assert_array_equal(of(Z), np.diag([0.0, 1.0, 0.0]))


def test_a_zero_that_no_choice_made_is_not_strong():
    g = ad.grad(lambda x: (ad.log(x) * 0.0).sum())(np.array([0.0, 1.0]))
    assert np.isnan(g[0]) and g[1] == 0.0


def test_a_gradient_made_with_create_graph_can_be_differentiated_even_where_it_is_constant():
    x, w = ad.tensor(Z, requires_grad=True), ad.tensor(2.0, requires_grad=True)
    for _ in range(2):
        gx, gw = ad.grad((3.0 * x).sum() + 2.0 * w, [x, w], create_graph=True)
        (gx * gx).sum().backward()
        assert gw.item() == 2.0 and w.grad is None
        np.testing.assert_array_equal(x.grad.numpy(), np.zeros(3))
        x.grad = None
