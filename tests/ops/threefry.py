"""Threefry-2x32 in plain Python integers, and what stands on it: an oracle for `ad.random`."""

import math

import mpmath
import numpy as np

__all__ = ["erfinv", "uniforms", "words"]

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_ALL = 0xFFFFFFFF


def words(key, counter):
    """(word, word) of a counter (high word, low word) under a key of two words."""
    k = [int(key[0]) & _ALL, int(key[1]) & _ALL]
    k.append(k[0] ^ k[1] ^ 0x1BD11BDA)
    x, y = (counter[0] + k[0]) & _ALL, (counter[1] + k[1]) & _ALL
    for i in range(20):
        x = (x + y) & _ALL
        r = _ROTATIONS[i % 8]
        y = ((y << r | y >> (32 - r)) & _ALL) ^ x
        if i % 4 == 3:
            n = i // 4 + 1
            x, y = (x + k[n % 3]) & _ALL, (y + k[(n + 1) % 3] + n) & _ALL
    return x, y


def uniforms(key, shape, dtype):
    """Uniform numbers in [0, 1)."""
    found = []
    for i in range(math.prod(shape)):
        x, y = words(key, (i >> 32, i & _ALL))
        found.append((x ^ y) >> 9 if dtype == np.float32 else ((x << 32) | y) >> 12)
    return (np.array(found, np.float64) * (2.0**-23 if dtype == np.float32 else 2.0**-52)).reshape(shape).astype(dtype)


def erfinv(x):
    """The inverse of the error function, by mpmath, rounded to the dtype of x."""
    with mpmath.workdps(40):
        found = [float(mpmath.erfinv(mpmath.mpf(float(v)))) for v in np.ravel(x)]
    return np.reshape(np.array(found, x.dtype), np.shape(x))
