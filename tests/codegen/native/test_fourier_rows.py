"""Fourier transforms as plain Python: every kind, side by side, and of long rows that are matrices."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.native import f64, i64
from codegen.native.structs import Pointer
from codegen.runtime import fourier
from codegen.runtime.fourier_rows import Pass, TransformPlan, pass_of, rows_of

DOUBLE = np.dtype(np.float64)


def placed(array):
    return Pointer([f64(x) for x in np.asarray(array).reshape(-1).tolist()], 0, f64)


class PlainPlan(fourier._WordsOfPlan):
    """A plan whose addresses are numbers of what is kept, for plain Python."""

    def _placed(self, array):
        self._owned.append(placed(array))
        return len(self._owned)

    def _passes(self, n):
        found, s = [], 1
        for radix in fourier.radices(n):
            each = Pass()
            m = n // (s * radix)
            each.run, each.m, each.s = pass_of("f64", radix), m, s
            each.factors = placed(fourier.factors(radix, m, self._sign, DOUBLE))
            found.append(each)
            s *= radix
        self._owned.append(Pointer([*found, Pass()], 0, Pass))
        return len(self._owned)

    def struct(self):
        plan, words = TransformPlan(), iter(self.words.tolist())

        def at(number):
            return self._owned[number - 1] if number else None

        for rows in (plan.first, plan.second):
            for side in (rows.given, rows.taken):
                side.count, side.step, side.near, side.far = (next(words) for _ in range(4))
            rows.n, rows.inner, rows.passes, rows.turns = next(words), next(words), at(next(words)), at(next(words))
        plan.kind, plan.halves, plan.room, plan.count = next(words), at(next(words)), next(words), next(words)
        plan.given_row, plan.taken_row = next(words), next(words)
        return plan


def transformed(kind, x, whole, is_long):
    """The transform of the middle axis of x."""
    name = {"rfft": "half", "irfft": "whole"}.get(kind, "complex")
    n = whole if name == "complex" else whole // 2
    outer, _, inner = x.shape
    sign = -1 if kind in ("ifft", "irfft") else 1
    plan = PlainPlan(n, outer * inner, inner, name, DOUBLE, sign, is_long=is_long).struct()
    taken = n + 1 if kind == "rfft" else whole
    is_real = kind == "irfft"
    y = placed(np.zeros((outer, taken, inner * (1 if is_real else 2))))
    pairs = np.ascontiguousarray(x).view(np.float64)
    pointers = Pointer([placed(pairs), y], 0, None)
    extents = Pointer([plan, i64(0), i64(outer * inner)], 0, i64)
    assert rows_of("f64")(pointers, extents) == 0
    found = np.array([float(v) for v in y.items])
    return found.reshape(outer, taken, inner) if is_real else found.view(complex).reshape(outer, taken, inner)


@pytest.mark.parametrize("kind", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize(
    ("shape", "is_long"),
    [((1, 16, 1), False), ((9, 24, 1), False), ((1, 30, 1), False), ((2, 26, 1), False), ((1, 10, 9), False),
     ((1, 15, 2), False), ((1, 128, 1), True), ((2, 160, 1), True)],
)  # fmt: skip
def test_rows_are_transformed_in_plain_python(kind, shape, is_long):
    outer, n, inner = shape
    if inner > 1 and kind in ("rfft", "irfft"):
        pytest.skip("columns of real numbers are left to NumPy's loops")
    n = n // 2 if is_long and kind in ("fft", "ifft") else n
    rng = np.random.default_rng(n)
    count = n // 2 + 1 if kind == "irfft" else n
    x = rng.normal(size=(outer, count, inner)) + 1j * rng.normal(size=(outer, count, inner))
    given = x.real.copy() if kind == "rfft" else x
    scale = 1 if kind in ("fft", "rfft") else n
    wanted = getattr(np.fft, kind)(given, n, axis=1) * scale
    found = transformed(kind, given, n, is_long)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
