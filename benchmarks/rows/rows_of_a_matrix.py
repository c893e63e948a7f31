"""Row-local work on 4096 x 1024: logsumexp, and softmax against a target; value and gradient."""

import math

import c_kernel
import numpy as np
from targets import faster, within

TITLE = "4096 x 1024 f32, value and gradient"
CASES = ["row logsumexp", "row softmax"]
ARGNUMS = (0,)
TARGETS = {
    "logsumexp": [faster(3, "jax"), within(1.3, "c")],
    "softmax": [faster(5, "jax"), within(1.3, "c")],
}


def inputs(case):
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(2, 4096, 1024)).astype(np.float32)
    return (x, t) if case == "row softmax" else (x,)


def program(lib, x, t=None):
    e = lib.exp(x - (lib.amax if hasattr(lib, "amax") else lib.max)(x, axis=1)[:, None])
    total = lib.sum(e, axis=1)
    if t is not None:
        return lib.sum(e / total[:, None] * t)
    return lib.sum(lib.log(total) + (lib.amax if hasattr(lib, "amax") else lib.max)(x, axis=1))


def ours(x, t=None):
    """Our program, by the library's functions logsumexp and softmax, as a user would write it."""
    import autodiff as ad

    if t is None:
        f = ad.jit(ad.value_and_grad(lambda x: ad.sum(ad.logsumexp(x, axis=1)), argnums=(0,)))
        return lambda: f(x)
    f = ad.jit(ad.value_and_grad(lambda x, t: ad.sum(ad.softmax(x, axis=1) * t), argnums=(0,)))
    return lambda: f(x, t)


def torch(x, t=None):
    import peers
    import torch as lib

    if t is None:
        return peers.torch(lambda _, x: lib.logsumexp(x, 1).sum(), ARGNUMS, (x,))
    return peers.torch(lambda _, x, t: (lib.softmax(x, 1) * t).sum(), ARGNUMS, (x, t))


def numpy(x, t=None):
    def run():
        top = x.max(axis=1, keepdims=True)
        e = np.exp(x - top)
        total = e.sum(axis=1, keepdims=True)
        if t is None:
            return np.sum(np.log(total) + top), [e / total]
        p = e / total
        return np.sum(p * t), [p * (t - np.sum(p * t, axis=1, keepdims=True))]

    return run


def reference(*arrays):
    return numpy(*[a.astype(np.float64) for a in arrays])


def torch_compile(x, t=None):
    import peers
    import torch as lib

    if t is None:
        return peers.torch_compile(lambda _, x: lib.logsumexp(x, 1).sum(), ARGNUMS, (x,))
    return peers.torch_compile(lambda _, x, t: (lib.softmax(x, 1) * t).sum(), ARGNUMS, (x, t))


def numba(x, t=None):
    import numba as nb

    target = x if t is None else t
    is_softmax = t is not None

    @nb.njit(fastmath=True, parallel=True)
    def run(x, target):
        gradient, value = np.empty_like(x), 0.0
        for i in nb.prange(x.shape[0]):
            top = x[i, 0]
            for j in range(x.shape[1]):
                top = max(top, x[i, j])
            total = dot = np.float32(0)
            for j in range(x.shape[1]):
                e = math.exp(x[i, j] - top)
                gradient[i, j] = e
                total += e
                dot += e * target[i, j]
            if is_softmax:
                dot /= total
                value += dot
                for j in range(x.shape[1]):
                    gradient[i, j] *= (target[i, j] - dot) / total
            else:
                value += math.log(total) + top
                for j in range(x.shape[1]):
                    gradient[i, j] /= total
        return value, gradient

    return lambda: run(x, target)


def c(x, t=None):
    return c_kernel.limit("row logsumexp", (x,)) if t is None else c_kernel.limit("row softmax", (x, t))
