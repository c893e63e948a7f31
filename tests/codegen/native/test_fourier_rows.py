"""Fourier transforms as plain Python: every kind, side by side and one by one, by passes and by a convolution."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.native import f64, i64, u64
from codegen.native.structs import Pointer
from codegen.runtime import fourier_numbers
from codegen.runtime.fourier import _KINDS, _Shape
from codegen.runtime.fourier_blocks import Pass, TransformPlan
from codegen.runtime.fourier_passes import pass_of
from codegen.runtime.fourier_rows import rows_of

DOUBLE = np.dtype(np.float64)


def placed(array):
    return Pointer([f64(x) for x in np.asarray(array).reshape(-1).tolist()], 0, f64)


def passes(n):
    found, s = [], 1
    for radix in fourier_numbers.radices(n):
        each = Pass()
        m = n // (s * radix)
        each.run, each.m, each.s = pass_of("f64", radix), m, s
        each.factors = placed(fourier_numbers.factors(radix, m, DOUBLE))
        found.append(each)
        s *= radix
    return Pointer([*found, Pass()], 0, Pass)


def plan_of(shape, is_inverse):
    plan = TransformPlan()
    for side, numbers in zip((plan.given, plan.taken), shape.sides(), strict=True):
        side.count, side.step, side.part, side.size, side.row = numbers
    plan.n, plan.inner, plan.kind, plan.is_inverse = shape.n, shape.inner, _KINDS.index(shape.kind), int(is_inverse)
    plan.halves = placed(fourier_numbers.halves(shape.n, DOUBLE))
    plan.room = 32 * (shape.n + 1)
    if not shape.length:
        plan.passes = passes(shape.n)
        return plan
    columns, rows = shape.extents
    plan.length, plan.columns, plan.rows, plan.room = shape.length, columns, rows, 32 * columns + 4 * shape.length + 2
    plan.passes_of_rows, plan.passes_of_columns = passes(rows), passes(columns)
    plan.turns = placed(fourier_numbers.turns(rows, columns, DOUBLE))
    if shape.length > shape.n:
        plan.chirp, plan.kernel = map(placed, fourier_numbers.chirp(shape.n, shape.length, DOUBLE))
    return plan


def transformed(kind, x, whole, length):
    """The transform of the middle axis of x."""
    is_complex = kind in ("fft", "ifft")
    name = "complex" if is_complex else {"rfft": "half", "irfft": "whole"}[kind]
    name = name if is_complex or whole % 2 == 0 else f"odd {name}"
    n = whole if is_complex or whole % 2 else whole // 2
    outer, _, inner = x.shape
    plan = plan_of(_Shape(n, inner, outer * inner, DOUBLE, name, length), kind in ("ifft", "irfft"))
    taken = whole // 2 + 1 if kind == "rfft" else whole
    is_real = kind == "irfft"
    y = placed(np.zeros((outer, taken, inner * (1 if is_real else 2))))
    pairs = np.ascontiguousarray(x).view(np.float64)
    pointers = Pointer([placed(pairs), y], 0, None)
    extents = Pointer([plan, u64(0), u64(outer * inner)], 0, i64)
    assert rows_of("f64", 1 if length else 8)(pointers, extents) == 0
    found = np.array([float(v) for v in y.items])
    return found.reshape(outer, taken, inner) if is_real else found.view(complex).reshape(outer, taken, inner)


@pytest.mark.parametrize("kind", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize(
    ("shape", "length"),
    [((1, 8, 1), 0), ((9, 12, 1), 0), ((1, 15, 2), 0), ((1, 10, 9), 0), ((2, 17, 1), 0), ((1, 128, 1), 64),
     ((1, 81, 1), 81), ((2, 19, 1), 64), ((1, 26, 2), 64)],
)  # fmt: skip
def test_rows_are_transformed_in_plain_python(kind, shape, length):
    outer, n, inner = shape
    if n == 128 and kind in ("fft", "ifft"):
        n = 64
    rng = np.random.default_rng(n)
    count = n // 2 + 1 if kind == "irfft" else n
    x = rng.normal(size=(outer, count, inner)) + 1j * rng.normal(size=(outer, count, inner))
    given = x.real.copy() if kind == "rfft" else x
    scale = 1 if kind in ("fft", "rfft") else n
    wanted = getattr(np.fft, kind)(given, n, axis=1) * scale
    found = transformed(kind, given, n, length)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
