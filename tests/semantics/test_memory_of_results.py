"""Users write to the arrays that they get: none shares memory with an argument or with another result."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad

X = np.array([0.5, 1.0, 1.5])


@ad.function
def passed_on(x): ...


@passed_on.forward(ad.Tensor)
def _(ctx, x):
    return x


@passed_on.backward(ad.Tensor)
def _(ctx, g):
    return g


def doubled(x):
    y = 2 * x
    return y, y, passed_on(y), y**1, y.reshape(-1), passed_on(x), ad.checkpoint(lambda x: x)(x), x, x.detach()


CALLS_OF_DOUBLED = {
    "jit": ad.jit(doubled),
    "vjp": lambda x: ad.vjp(doubled, x)[0],
    "jvp": lambda x: ad.jvp(doubled, (x,), (x,)),
    "auxiliary": lambda x: ad.value_and_grad(lambda x: (x.sum(), doubled(x)), has_aux=True)(x),
    "vmap": ad.vmap(doubled),
    "jit of vjp": ad.jit(lambda x: ad.vjp(doubled, x)[0]),
    "gradients": lambda x: ad.grad(lambda a, b: ((a + b) ** 2).sum(), (0, 1))(x, x),
    "jit of gradients": ad.jit(lambda x: ad.grad(lambda a, b: ((a + b) ** 2).sum(), (0, 1))(x, x)),
}


@pytest.mark.parametrize("call", CALLS_OF_DOUBLED.values(), ids=CALLS_OF_DOUBLED)
@pytest.mark.parametrize("eager", [False, True], ids=["recorded", "eager"])
def test_results_share_memory_neither_with_arguments_nor_with_each_other(call, eager, monkeypatch):
    monkeypatch.setattr(ad.config, "eager", eager)
    x = X.copy()
    for _ in range(3):
        arrays = [a for a in ad.tree.leaves(call(x)) if isinstance(a, np.ndarray)]
        for i, a in enumerate(arrays):
            assert a.flags.writeable and not any(np.shares_memory(a, b) for b in (x, *arrays[:i]))
