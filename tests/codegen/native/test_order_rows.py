"""Sorts as plain Python: the same source as the machine's, for each kind of machine, of random rows with ties."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.native import i64, local, u64
from codegen.native.structs import Pointer
from codegen.runtime.order_rows import FEW, KINDS, order_of

MACHINES = {"avx512": "+avx2,+fma,+avx512f,+avx512dq,+avx512vl,+avx512bw", "avx2": "+avx2,+fma", "plain": ""}
TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_}


def rows_of(dtype, n, rng):
    """Different elements, equal ones, all the same, and of floats zeros of both signs, nan, and some that only their
    last bits tell apart."""
    if dtype == "bool":
        yield rng.random(n) < 0.5
        return
    yield (rng.standard_normal(n) * 1000).astype(TYPES[dtype])
    yield rng.integers(-3, 3, n).astype(TYPES[dtype])
    yield np.full(n, 7, TYPES[dtype])
    if dtype.startswith("f"):
        row = np.round(rng.standard_normal(n), 1).astype(TYPES[dtype])
        row[rng.random(n) < 0.1] = np.nan
        row[rng.random(n) < 0.1] = -np.nan
        row[rng.random(n) < 0.1] = -0.0
        yield row
        close = (1 + np.finfo(TYPES[dtype]).eps * rng.integers(0, 9, n)).astype(TYPES[dtype])
        close[:2] = 1e30, -1e30
        yield close


def in_order(order, rows, falls):
    """Rows of memory in order, by what `order` calls, in plain Python."""
    bits = np.ascontiguousarray(rows).view({1: np.int8, 4: np.int32, 8: np.int64}[rows.itemsize])
    order_rows, (count, n) = order.scope["order_rows"], rows.shape
    element = dict(order_rows.params)["x"].target
    out, x = local(i64, rows.size), Pointer([element(v) for v in bits.reshape(-1).tolist()], 0, element)
    order_rows(x, out, local(i64, n), u64(n), element(-falls), u64(count))
    return np.array([int(out[i]) for i in range(rows.size)]).reshape(rows.shape)


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", KINDS)
def test_rows_are_ordered_in_plain_python(dtype, machine, falls):
    rng = np.random.default_rng(0)
    order = order_of(dtype, MACHINES[machine])
    for n in (3, 17, FEW + 6):
        for row in rows_of(dtype, n, rng):
            rows = np.stack([row, row[::-1]])[: 2 if n < FEW else 1]
            expected = np.argsort(rows, kind="stable")
            if falls:
                expected = np.flip(n - 1 - np.argsort(np.flip(rows, 1), kind="stable"), 1)
            np.testing.assert_array_equal(in_order(order, rows, falls), expected)
