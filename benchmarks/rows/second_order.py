"""Products of a Hessian and a vector: the gradient of a gradient, recorded each time, or compiled once by `jit`."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "Hessian times a vector"
CASES = ["recorded, n = 100 f64", "recorded, n = 10,000 f64", "jit, n = 100 f64", "jit, n = 10,000 f64"]
TARGETS = {"recorded": [faster(3, "torch")], "jit": [faster(4, "jax")]}
COPIES = True


def inputs(case):
    n = int(case.split()[-2].replace(",", ""))
    rng = np.random.default_rng(0)
    return case.startswith("recorded"), rng.uniform(0.5, 1.5, n), rng.normal(size=n)


def _energy(lib, x):
    """A function that couples neighbouring elements, so that its Hessian is not diagonal."""
    apart = x[1:] - x[:-1] * x[:-1]
    return (100.0 * apart * apart + lib.log(x[1:]) * lib.tanh(x[:-1])).sum()


def ours(is_recorded, x, v):
    import autodiff as ad

    if not is_recorded:
        product = ad.jit(lambda x, v: ad.hvp(lambda x: _energy(ad, x), x, v))
        return lambda: product(x, v)
    leaf, along = ad.tensor(x, requires_grad=True), ad.tensor(v)

    def run():
        (gradient,) = ad.grad(_energy(ad, leaf), [leaf], create_graph=True)
        (product,) = ad.grad((gradient * along).sum(), [leaf])
        return product.numpy()

    return run


def jax(is_recorded, x, v):
    import jax as j

    j.config.update("jax_enable_x64", True)
    product = j.jit(lambda x, v: j.jvp(j.grad(lambda x: _energy(j.numpy, x)), (x,), (v,))[1])
    return lambda: np.asarray(product(x, v))


def torch(is_recorded, x, v):
    import torch as t

    leaf, along = t.tensor(x, requires_grad=True), t.from_numpy(v)

    def run():
        (gradient,) = t.autograd.grad(_energy(t, leaf), [leaf], create_graph=True)
        (product,) = t.autograd.grad((gradient * along).sum(), [leaf])
        return product.numpy()

    return run


def numpy(is_recorded, x, v):
    def run():
        before, after, u, w = x[:-1], x[1:], v[:-1], v[1:]
        apart, slope = after - before * before, w - 2 * before * u
        tanh, logs = np.tanh(before), np.log(after)
        bend = 1 - tanh * tanh
        found = np.zeros_like(x)
        found[1:] = 200 * slope + bend * u / after - tanh * w / (after * after)
        found[:-1] += -400 * (u * apart + before * slope) + bend * (w / after - 2 * tanh * u * logs)
        return found

    return run


def reference(is_recorded, *arrays):
    return numpy(is_recorded, *map(wider, arrays))
