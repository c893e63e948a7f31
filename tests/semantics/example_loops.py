"""The meaning of `vmap`: a Python loop over the examples, the results stacked, evaluated by the references."""

from __future__ import annotations

import numpy as np
from differential.random_programs import eager

import autodiff as ad

__all__ = ["assert_same", "evaluated", "looped"]


def looped(f, in_axes=0):
    """The meaning of `vmap(f, in_axes)`: a call for each example, the results stacked."""

    def run(*args):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        size = next(a.shape[axis] for a, axis in zip(args, axes, strict=True) if axis is not None)
        calls = [
            f(*[a if axis is None else ad.take(a, i, axis=axis) for a, axis in zip(args, axes, strict=True)])
            for i in range(size)
        ]
        return ad.tree.map(lambda *ys: ad.stack(ys), *calls)

    return run


def evaluated(f, *args):
    """The results of f with every operation evaluated by its reference: a loop is long to compile."""
    with eager():
        return f(*args)


def assert_same(found, wanted, digits=10):
    found, wanted = ad.tree.leaves(found), ad.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        a, b = (np.asarray(t.detach() if isinstance(t, ad.Tensor) else t) for t in (a, b))
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=10.0**-digits, atol=10.0**-digits)
