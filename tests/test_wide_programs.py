"""Random programs over pairs and triples of axes, wide enough for blocks, and for rows side by side.

The programs of `test_differential` are small, so that failing ones can be read; what loops do with many rows
and columns shows here.  Values of several shapes, (n, 1, d) and (1, m, d) say, meet, are added up over some
axes, meet again: the gradients of one kernel then go to rows, columns and elements.
"""

import numpy as np
import pytest

import autodiff as ad

EXTENTS = (2, 3, 4, 5, 6, 8, 12, 16, 20, 33, 40, 65, 100, 130, 200, 300)
ONE = (
    ad.exp, ad.tanh, ad.sin, ad.sigmoid, lambda x: x * x, lambda x: -x, lambda x: 1 / (1 + x * x),
    lambda x: ad.sqrt(1 + x * x), lambda x: ad.where(x > 0.1, x, 0.3 * x),
)  # fmt: skip
TWO = (lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y)
OVER_AXES = (ad.sum, ad.sum, ad.mean, ad.max)


class Program:
    """Leaves of random shapes, and steps: each a function of values so far that keeps all axes."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        extents = self._some(EXTENTS, rng.integers(2, 5))
        while np.prod(extents) > 150_000:
            extents = self._some(EXTENTS, len(extents))
        shapes = [tuple(np.where(rng.random(len(extents)) < 0.6, extents, 1)) for _ in range(rng.integers(2, 5))]
        self.leaves = [rng.normal(size=s) * 0.5 for s in shapes]
        self.steps = [self._step(len(shapes) + k, len(extents)) for k in range(rng.integers(4, 12))]
        self.other = int(rng.integers(len(shapes), len(shapes) + len(self.steps)))

    def __call__(self, *leaves):
        values = list(leaves)
        for function, *numbers in self.steps:
            values.append(function(*[values[n] for n in numbers]))
        return ad.sum(ad.sin(values[-1])) + ad.mean(values[self.other] ** 2)

    def _some(self, things, count=1):
        return [things[i] for i in self.rng.integers(0, len(things), count)]

    def _step(self, known, axes):
        latest = known - 1 if self.rng.random() < 0.5 else int(self.rng.integers(known))
        other = int(self.rng.integers(known))
        chosen = tuple(sorted(int(a) for a in self.rng.permutation(axes)[: self.rng.integers(1, axes)]))
        kind = self.rng.random()
        if kind < 0.25:
            return self._some(ONE)[0], latest
        if kind < 0.6:
            return self._some(TWO)[0], latest, other
        if kind < 0.85:
            (reduced,) = self._some(OVER_AXES)
            return (lambda x: ad.tanh(0.2 * reduced(x, axis=chosen, keepdims=True))), latest
        return (lambda x, y: _contracted(x, y, chosen[0])), latest, other


def _contracted(x, y, axis):
    """The products of two arrays added up along an axis, as a matrix product may do it."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    labels = "abcd"[: len(shape)]
    kept = labels.replace(labels[axis], "")
    total = ad.einsum(f"{labels},{labels}->{kept}", *[ad.broadcast_to(v, shape) for v in (x, y)])
    return ad.tanh(0.2 * ad.expand_dims(total, axis))


@pytest.mark.parametrize("seed", [*range(60), 323, 414, 565])
def test_compiled_and_evaluated_gradients_agree(seed, monkeypatch):
    program = Program(seed)
    both = ad.value_and_grad(program, argnums=tuple(range(len(program.leaves))))
    with monkeypatch.context() as patched:
        patched.setattr(ad.config, "eager", True)
        value, gradients = both(*program.leaves)
    found, by_jit = ad.jit(both)(*program.leaves)
    assert abs(found - value) <= 1e-9 * max(1, abs(value))
    for got, expected in zip(by_jit, gradients, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9 * max(1e-3, np.abs(expected).max()))
