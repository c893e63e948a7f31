"""Random numbers out of keys (public as `ad.random`): the same key gives the same numbers, always and everywhere.

    key = ad.random.key(0)
    key, now = ad.random.split(key)
    noise = ad.random.normal(now, (32, 10))

    keys        key, split, fold_in             of any kind   bits, uniform, randint, bernoulli
    shaped      normal, truncated_normal, exponential, gumbel, laplace, logistic
    choosing    categorical, choice, permutation

A key is an i32[2], an argument like any other: another key is no other graph, `ad.vmap` over keys works, and numbers
are made where they are read, inside the kernels that use them.  Element i of an array is Threefry-2x32 with 20 rounds
(Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, 2011) of i under the key, so it depends on
neither threads nor neighbours.  Keys, bits and uniform numbers are those of `jax.random`, bit for bit.

No gradient flows to a key.  One flows to bounds, means and scales that the numbers are shifted and stretched by.
"""

from .drawing import (
    bernoulli,
    categorical,
    choice,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    permutation,
    randint,
    truncated_normal,
    uniform,
)
from .keys import bits, fold_in, key, split

__all__ = [
    "bernoulli", "bits", "categorical", "choice", "exponential", "fold_in", "gumbel", "key", "laplace", "logistic",
    "normal", "permutation", "randint", "split", "truncated_normal", "uniform",
]
