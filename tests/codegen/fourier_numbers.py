"""Complex numbers to transform, and the error that a transform of them may have."""

import numpy as np

COMPLEX = {np.float32: np.complex64, np.float64: np.complex128}


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(COMPLEX[dtype])


def is_near(found, wanted, dtype, n):
    """Of sums of n numbers, each rounded a few times for each factor of n."""
    assert found.dtype in (dtype, COMPLEX[dtype])
    size = np.linalg.norm(wanted) / max(1, wanted.size) ** 0.5
    np.testing.assert_allclose(found, wanted, rtol=0, atol=8 * (1 + np.log2(n)) * np.finfo(dtype).eps * (size + 1e-30))
