"""A host function for loops and branches, and how often it was called."""

from __future__ import annotations

import autodiff as ad

__all__ = ["noted_function"]


def noted_function():
    """(x -> 2x computed by Python, the list of its calls); the aval of its result is learnt already."""
    calls = []

    @ad.function
    def noted(x): ...

    @noted.forward(ad.Tensor, host=True)
    def _(ctx, x):
        calls.append(1)
        return x * 2.0

    @noted.backward(ad.Tensor, host=True)
    def _(ctx, g):
        return {"x": g * 2.0}

    noted(ad.tensor(1.0)).item()
    return noted, calls
