"""Row-local work on 4096 x 1024: logsumexp, and softmax against a target; value and gradient."""

import numpy as np

TITLE = "4096 x 1024 f32, value and gradient"
CASES = ["row logsumexp", "row softmax"]
ARGNUMS = (0,)


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
    """As one would write it with us: the library has both."""
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
