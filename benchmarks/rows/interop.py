"""Value and gradient of Rosenbrock's function inside PyTorch and JAX: our function, wrapped, compared with theirs.

`limit` is the time in which PyTorch or JAX calls a function of these arguments and results that computes nothing.
"""

import numpy as np
from absence import Absent
from targets import faster, within

TITLE = "a wrapped function inside PyTorch and JAX"
SIZES = ("8", "1,000", "1,000,000")
CASES = [f"{where}, n = {n} f64" for where in ("PyTorch", "JAX") for n in SIZES]
COPIES = True
TARGETS = {"PyTorch": [faster(1, "torch")], "JAX": [faster(1, "jax")], "JAX, n = 8 ": [within(1.1, "limit")]}


def inputs(case):
    n = int(case.split()[-2].replace(",", ""))
    return case.partition(",")[0], np.random.default_rng(0).uniform(-1.0, 1.0, n)


def _rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def _by_torch(f, x):
    import torch as t

    leaf = t.tensor(x, requires_grad=True)

    def run():
        leaf.grad = None
        value = f(leaf)
        value.backward()
        return value.item(), [leaf.grad.numpy()]

    return run


def _by_jax(both, x):
    import jax as j

    given, both = j.numpy.asarray(x), j.jit(both)

    def run():
        value, gradient = both(given)
        return value, [gradient.block_until_ready()]

    return run


def _nothing(t):
    """A differentiable function in PyTorch that computes nothing."""

    class Nothing(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.new_empty(())

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0]

    return Nothing.apply


def ours(where, x):
    import autodiff as ad

    if where == "PyTorch":
        return _by_torch(ad.interop.torch.wrap(_rosenbrock), x)
    import jax as j

    j.config.update("jax_enable_x64", True)
    return _by_jax(j.value_and_grad(ad.interop.jax.wrap(_rosenbrock)), x)


def torch(where, x):
    if where != "PyTorch":
        raise Absent("another case's peer")
    return _by_torch(_rosenbrock, x)


def jax(where, x):
    import jax as j

    if where != "JAX":
        raise Absent("another case's peer")
    j.config.update("jax_enable_x64", True)
    return _by_jax(j.value_and_grad(_rosenbrock), x)


def limit(where, x):
    if where == "PyTorch":
        import torch as t

        return _by_torch(_nothing(t), x)
    import jax as j

    j.config.update("jax_enable_x64", True)
    return _by_jax(lambda x: (x[0] + 1.0, x + 1.0), x)


def numpy(where, x):
    def run():
        apart, rest = x[1:] - x[:-1] ** 2, 1.0 - x[:-1]
        g = np.zeros_like(x)
        g[1:] = 200.0 * apart
        g[:-1] += -400.0 * x[:-1] * apart - 2.0 * rest
        return (100.0 * apart**2 + rest**2).sum(), [g]

    return run
