"""Kernels as text, run by MLIR's own tools."""

import numpy as np
from mlir_tools import run_emitted, run_function
from nest_verify import verify_function

CONTRACT = frozenset({"contract"})


def run(function, arrays, indices=()):
    """The status of a kernel run by the real MLIR, which leaves in `arrays` what our own code leaves."""
    verify_function(function)
    own = [a.copy() for a in arrays]
    status = run_emitted(function, own, indices)
    assert run_function(function, arrays, indices) == status
    for ours, theirs in zip(own, arrays, strict=True):
        ulp = np.finfo(ours.dtype).eps if ours.dtype.kind == "f" else 0
        np.testing.assert_allclose(ours, theirs, rtol=8 * ulp)
    return status


SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.0, 2.5, -2.5, 1e-9, 30.0, np.inf, -np.inf, np.nan]
