"""A recorded loop: 50 elementwise operations, sum, backward, gradients reset; n = 100.  Our program and PyTorch's are
recorded each time; JAX's is `jit(value_and_grad)`."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "50 recorded operations and backward"
CASES = ["n = 100 f64"]
ARGNUMS = (0, 1, 2)
TARGETS = [faster(1.5, "jax"), faster(8, "torch")]
WITHOUT = ("autograd", "torch_compile")  # PyTorch stands for the recorders, JAX for the compilers
COPIES = True


def inputs(case):
    return tuple(np.linspace(0.1, 1.0, 100) * k for k in (1, 2, 3))


def program(lib, x, w, v):
    y = x
    for i in range(10):
        y = y * w + v
        y = y - x * 0.5
        y = y * (0.1 * (i + 1))
    return lib.sum(y)


def ours(*arrays):
    import autodiff as ad

    leaves = [ad.tensor(a, requires_grad=True) for a in arrays]

    def run():
        value = program(ad, *leaves)
        value.backward()
        gradients = [t.grad.numpy() for t in leaves]
        for t in leaves:
            t.grad = None
        return value.detach().numpy(), gradients

    return run


def numpy(x, w, v):
    def run():
        y, before = x, []
        for i in range(10):
            before.append(y)
            y = (y * w + v - x * 0.5) * (0.1 * (i + 1))
        g, gx, gw, gv = np.ones_like(x), 0.0, 0.0, 0.0
        for i in reversed(range(10)):
            g = g * (0.1 * (i + 1))
            gx, gw, gv = gx - 0.5 * g, gw + g * before[i], gv + g
            g = g * w
        return np.sum(y), [gx + g, gw, gv]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays))
