"""Random programs mapped over examples: the same as one call for each, values and gradients."""

import numpy as np
import pytest
from differential.random_programs import eager, programs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autodiff as ad

QUICK = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}


def assert_close(found, wanted, what, digits):
    found, wanted = [np.asarray(x) for x in found], [np.asarray(x) for x in wanted]
    size = max([1.0, *(np.max(np.abs(w), initial=0) for w in wanted)])
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, (what, a.shape, b.shape, a.dtype, b.dtype)
        np.testing.assert_allclose(a, b, rtol=0, atol=10.0**-digits * size, err_msg=what)


def examples(program, mapped):
    """Three points near that of the program, where each argument that is mapped differs; and their columns."""
    scales = [1.0, 1.0 - 2.0**-12, 1.0 + 2.0**-13]  # no nearer to a kink than half the margin of the program
    points = [
        [(x * x.dtype.type(s) if x.dtype.kind == "f" else x) if m else x
         for x, m in zip(program.arguments, mapped, strict=True)]
        for s in scales
    ]  # fmt: skip
    columns = [np.stack(c) if m else c[0] for c, m in zip(zip(*points, strict=True), mapped, strict=True)]
    return points, columns, tuple(0 if m else None for m in mapped)


def check(program, chosen, compiled):
    f, digits = program.function(), program.digits - 1
    count = len(program.arguments)
    mapped = [i == 0 or bool(chosen >> i & 1) for i in range(count)]
    points, columns, in_axes = examples(program, mapped)
    wrt = tuple(range(program.count))
    with eager():
        each = [ad.value_and_grad(f, wrt)(*p) for p in points]
        values = [y for y, _ in each]
        gradients = [np.stack(g) for g in zip(*[g for _, g in each], strict=True)]
        assert_close([ad.vmap(f, in_axes)(*columns)], [np.stack(values)], "vmap", digits)
        found = ad.vmap(ad.grad(f, wrt), in_axes)(*columns)
        assert_close(found, gradients, "vmap of grad", digits)
    summed = [g if m else g.sum(0) for g, m in zip(gradients, mapped, strict=False)]
    total = ad.grad(lambda *xs: ad.vmap(f, in_axes)(*xs).sum(), wrt)
    assert_close(total(*columns), summed, "grad of vmap", digits)
    if compiled:
        assert_close(ad.jit(ad.vmap(ad.grad(f, wrt), in_axes))(*columns), gradients, "jit of vmap of grad", digits)


@settings(max_examples=25, **QUICK)
@given(programs((np.float64,)), st.integers(0, 63))
def test_vmap_of_a_program_is_one_call_for_each_example(program, chosen):
    check(program, chosen, compiled=chosen % 3 == 0)


@settings(max_examples=8, **QUICK)
@given(programs((np.float32,)), st.integers(0, 63))
def test_vmap_of_a_program_in_f32_is_one_call_for_each_example(program, chosen):
    check(program, chosen, compiled=False)


@pytest.mark.slow
@settings(max_examples=300, **{**QUICK, "derandomize": False})
@given(programs((np.float64,), size=14), st.integers(0, 63))
def test_vmap_of_a_long_program_is_one_call_for_each_example(program, chosen):
    check(program, chosen, compiled=True)
