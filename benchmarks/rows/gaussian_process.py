"""The log marginal likelihood of a Gaussian process at 100 points of 3 coordinates, by a Cholesky factor, and its
gradient in three lengths and the noise."""

import numpy as np
from precision import solved, wider
from targets import faster

TITLE = "Gaussian process, 100 points"
CASES = ["f64"]
TARGETS = [faster(1, "jax"), faster(2, "torch"), faster(0.8, "numpy")]
ARGNUMS = (2, 3)


def inputs(case):
    rng = np.random.default_rng(0)
    return rng.normal(size=(100, 3)), rng.normal(size=100), np.array([0.3, -0.2, 0.1]), np.array(-1.0)


def _program(exp, eye, cholesky, solved, diagonal):
    def program(lib, x, y, lengths, noise):
        z = x / exp(lengths)
        apart = z[:, None, :] - z[None, :, :]
        kernel = exp(-0.5 * (apart * apart).sum(2)) + exp(noise) * eye(len(y))
        factor = cholesky(kernel)
        a = solved(factor, y)
        return 0.5 * (a * a).sum() + lib.log(diagonal(factor)).sum()

    return program


def ours(*arrays):
    import peers

    import autodiff as ad

    def solved(factor, y):
        return ad.linalg.solve_triangular(factor, y, lower=True)

    return peers.ours(_program(ad.exp, ad.eye, ad.linalg.cholesky, solved, ad.diagonal), ARGNUMS, arrays)


def jax(*arrays):
    import jax.numpy as jnp
    import peers
    from jax.scipy.linalg import solve_triangular

    def solved(factor, y):
        return solve_triangular(factor, y, lower=True)

    return peers.jax(_program(jnp.exp, jnp.eye, jnp.linalg.cholesky, solved, jnp.diagonal), ARGNUMS, arrays)


def torch(*arrays):
    import peers
    import torch as lib

    def solved(factor, y):
        return lib.linalg.solve_triangular(factor, y[:, None], upper=False)[:, 0]

    def eye(n):
        return lib.eye(n, dtype=lib.float64)

    return peers.torch(_program(lib.exp, eye, lib.linalg.cholesky, solved, lib.diagonal), ARGNUMS, arrays)


def _by_hand(inverted, x, y, lengths, noise):
    """Value and gradient; `inverted(kernel)` gives the kernel's inverse and the logarithm of its determinant."""

    def run():
        z = x * np.exp(-lengths)
        apart = z[:, None, :] - z[None, :, :]
        smooth = np.exp(-0.5 * (apart * apart).sum(2))
        inverse, log_det = inverted(smooth + np.exp(noise) * np.eye(len(y)))
        a = inverse @ y
        bar = (inverse - np.outer(a, a)) / 2
        of_lengths = np.einsum("ij,ijd->d", bar * smooth, apart * apart)
        return 0.5 * (y @ a + log_det), [of_lengths, np.trace(bar) * np.exp(noise)]

    return run


def numpy(*arrays):
    return _by_hand(lambda kernel: (np.linalg.inv(kernel), np.linalg.slogdet(kernel)[1]), *arrays)


def reference(*arrays):
    def inverted(kernel):
        rest, log_det = kernel.copy(), 0
        for i in range(len(rest)):
            pivot = rest[i, i]
            log_det += np.log(pivot)
            rest[i + 1 :] -= rest[i + 1 :, i, None] / pivot * rest[i]
        return solved(kernel, np.eye(len(kernel), dtype=kernel.dtype)), log_det

    return _by_hand(inverted, *map(wider, arrays))
