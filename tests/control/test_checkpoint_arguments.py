"""Arguments and results of a checkpointed function: keywords, and leaves that are no tensors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import autodiff as ad

X, W = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 3.0])


@dataclass
class Layer:
    w: Any
    name: str


def test_a_checkpointed_function_takes_keywords_and_differentiates_by_them():
    again = ad.checkpoint(lambda x, *, w, power=1: (x * w) ** power)
    np.testing.assert_array_equal(again(ad.tensor(X), w=W, power=2).numpy(), (X * W) ** 2)
    tracked = ad.tensor(W, requires_grad=True)
    again(X, w=tracked).sum().backward()
    np.testing.assert_array_equal(tracked.grad.numpy(), X)
    with pytest.raises(TypeError, match="scale"):
        again(X, w=W, scale=2)


@pytest.mark.parametrize("way", [lambda f: f, ad.jit], ids=["plain", "jit"])
def test_leaves_of_a_checkpointed_result_that_are_no_tensors_come_back_as_they_are(way):
    def doubled(layer, x):
        return Layer(2 * layer.w * x, layer.name + "!"), {"nothing": None, "text": "kept", "number": 3.0}

    def loss(w):
        layer, rest = ad.checkpoint(doubled)(Layer(w, "first"), X)
        assert layer.name == "first!"
        assert rest["text"] == "kept" and rest["nothing"] is None
        return ad.sum(layer.w) * rest["number"]

    np.testing.assert_allclose(way(ad.grad(loss))(W), 6 * X)


def test_the_gradient_of_a_dataclass_may_be_checkpointed():
    def loss(layer, x):
        return ad.sum(layer.w * layer.w * x)

    found = ad.checkpoint(ad.grad(loss))(Layer(W, "name"), X)
    np.testing.assert_allclose(found.w.numpy(), 2 * W * X)
    assert found.name == "name"
