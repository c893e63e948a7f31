"""Transformations of gradients without `jit`: `vmap(grad(f))` for a batch of examples, and `hessian(f)`."""

import numpy as np
from targets import faster

TITLE = "not under jit"
CASES = ["vmap of grad, 100 examples of 20 f64", "hessian, n = 20 f64"]
TARGETS = [faster(1, "torch")]
COPIES = True


def inputs(case):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(20, 20)) / 5
    return case.startswith("vmap"), a, rng.uniform(0.5, 1.5, (100, 20) if case.startswith("vmap") else 20)


def _loss(lib, a, x):
    return (lib.tanh(a @ x) * lib.exp(-x * x)).sum()


def ours(is_batch, a, x):
    import autodiff as ad

    f = ad.vmap(ad.grad(lambda x: _loss(ad, a, x))) if is_batch else ad.hessian(lambda x: _loss(ad, a, x))
    return lambda: f(x)


def torch(is_batch, a, x):
    import torch as t

    a, x = t.from_numpy(a), t.from_numpy(x)
    f = t.func.vmap(t.func.grad(lambda x: _loss(t, a, x))) if is_batch else t.func.hessian(lambda x: _loss(t, a, x))
    return lambda: f(x).numpy()


def jax(is_batch, a, x):
    import jax as j

    j.config.update("jax_enable_x64", True)
    f = j.vmap(j.grad(lambda x: _loss(j.numpy, a, x))) if is_batch else j.hessian(lambda x: _loss(j.numpy, a, x))
    return lambda: np.asarray(f(x))


def numpy(is_batch, a, x):
    def gradient(x):
        t, e = np.tanh(x @ a.T), np.exp(-x * x)
        return (e * (1 - t * t)) @ a - 2 * x * t * e

    def run():
        if is_batch:
            return gradient(x)
        t, e = np.tanh(a @ x), np.exp(-x * x)
        bend = 1 - t * t
        cross = (bend * -2 * x * e)[:, None] * a
        return a.T @ ((-2 * t * bend * e)[:, None] * a) + cross + cross.T + np.diag(t * e * (4 * x * x - 2))

    return run
