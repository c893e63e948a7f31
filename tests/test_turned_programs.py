"""Random programs that read values of theirs in place, turned round and shifted: compiled, they give NumPy's values."""

import random

import numpy as np
import pytest

import autodiff as ad

#: What a step makes of two values.
STEPS = (
    lambda lib, a, b: lib.cumsum(a),
    lambda lib, a, b: lib.cumsum(a * b),
    lambda lib, a, b: a[::-1],
    lambda lib, a, b: a[::-1] * b,
    lambda lib, a, b: lib.concatenate([a[1:], a[:1]]),
    lambda lib, a, b: lib.sin(a),
    lambda lib, a, b: lib.cos(a * 2.0),
    lambda lib, a, b: a * b,
    lambda lib, a, b: a + b,
    lambda lib, a, b: lib.where(b > 0.3, a[::-1], b),
)
#: A step reads one of so many latest values.
LATEST = 6


def program(seed, count=16):
    """A function (x, y, library) -> three values."""
    draw = random.Random(seed)
    steps = [(draw.choice(STEPS), draw.randint(1, LATEST), draw.randint(1, LATEST)) for _ in range(count)]
    kept = draw.sample(range(1, 6), 2)

    def f(x, y, lib):
        values = [x, y]
        for step, a, b in steps:
            values.append(step(lib, values[-min(a, len(values))], values[-min(b, len(values))]))
        return values[-1], *[values[-k] for k in kept]

    return f


@pytest.mark.parametrize(
    "seeds", [range(20), *[pytest.param(range(k, k + 200), marks=pytest.mark.slow) for k in range(20, 1000, 200)]]
)
@pytest.mark.parametrize("size", [4, 100])
def test_compiled_programs_give_numpys_values(seeds, size):
    x, y = np.random.default_rng(0).normal(size=(2, size)) / size**0.5
    for seed in seeds:
        f = program(seed)
        expected = f(x, y, np)
        if all(np.abs(e).max() < 1e6 for e in expected):  # beyond that the rounding of sums decides
            for found, e in zip(ad.jit(lambda x, y, f=f: f(x, y, ad))(x, y), expected, strict=True):
                close = 1e-8 * (1 + np.abs(e).max())
                np.testing.assert_allclose(found, e, rtol=1e-8, atol=close, err_msg=f"seed {seed}")
