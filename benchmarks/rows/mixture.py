"""A mixture of 8 normal distributions in 4 dimensions: the mean log-likelihood of 2,000 points, and its gradients in
weights, means and widths."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "mixture of 8, 2,000 points of 4"
CASES = ["f64", "f32"]
ARGNUMS = (1, 2, 3)
TARGETS = [faster(2, "jax"), faster(2, "torch"), faster(1, "numpy")]


def inputs(case):
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(2000, 4)), rng.normal(size=8), rng.normal(size=(8, 4)), rng.normal(size=(8, 4)) / 5
    return tuple(a.astype({"f32": np.float32, "f64": np.float64}[case]) for a in arrays)


def program(lib, x, weights, means, widths):
    top_of = lib.amax if hasattr(lib, "amax") else lib.max
    z = (x[:, None, :] - means) / lib.exp(widths)
    each = weights - lib.log(lib.sum(lib.exp(weights))) - lib.sum(widths, 1) - 0.5 * lib.sum(z * z, 2)
    top = top_of(each, 1)
    return lib.mean(lib.log(lib.sum(lib.exp(each - top[:, None]), 1)) + top)


def numpy(x, weights, means, widths):
    def run():
        scale = np.exp(-widths)
        z = (x[:, None, :] - means) * scale
        shares = np.exp(weights)
        shares /= shares.sum()
        each = np.log(shares) - widths.sum(1) - z.dtype.type(0.5) * (z * z).sum(2)
        top = each.max(1)
        e = np.exp(each - top[:, None])
        total = e.sum(1)
        r = e / (total[:, None] * len(x))
        of_each = r.sum(0)
        means_bar = np.einsum("nk,nkd->kd", r, z) * scale
        widths_bar = np.einsum("nk,nkd->kd", r, z * z) - of_each[:, None]
        return np.mean(np.log(total) + top), [of_each - shares, means_bar, widths_bar]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays))
