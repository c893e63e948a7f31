"""A call that machine code records gives the values and gradients that Python's recording of it gives."""

import numpy as np
import pytest

import autodiff as ad

from .cases import all_cases, eager, law, rng_of


def outcome(c, arrays):
    """The values of a case at these arrays, and the gradients of the sum of their squares."""
    xs = [ad.tensor(a, requires_grad=a.dtype.kind in "fc") for a in arrays]
    found = c.f(*xs)
    parts = [ad.asarray(p) for p in (found if isinstance(found, (tuple, list)) else [found])]
    tracked = [ad.sum(ad.real(p * ad.conj(p))) for p in parts if p.requires_grad]
    if tracked:
        sum(tracked[1:], tracked[0]).backward()
    return [p.detach().numpy() for p in parts] + [x.grad.numpy() for x in xs if x.grad is not None]


@pytest.mark.slow
@law(all_cases())
def test_machine_code_records_what_python_records(case):
    rng = rng_of(case)
    points = [case.point(rng) for _ in range(3)]
    with eager():
        expected = [outcome(case, arrays) for arrays in points]
    for _ in range(3):
        for arrays, wanted in zip(points, expected, strict=True):
            for ours, theirs in zip(outcome(case, arrays), wanted, strict=True):
                assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
                is_short = ours.dtype in (np.float32, np.complex64)
                rtol, atol = (2e-3, 1e-3) if is_short else (1e-7, 1e-8)
                np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
