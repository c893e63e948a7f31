"""Sorts as plain Python: the same source as the machine's, for each kind of machine, of random rows with ties."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.native import local, u64
from codegen.native.structs import Pointer
from codegen.runtime.order_rows import FEW, elements, numbers
from codegen.runtime.sort_keys import KINDS

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


def in_order(order, row, falls):
    """A row of memory in order, by what `order` calls, in plain Python: `beside` for few elements, else `row`."""
    bits = np.ascontiguousarray(row).view({1: np.int8, 4: np.int32, 8: np.int64}[row.itemsize])
    put = order.scope["row"]
    element, written, key, _, flip = [kind if kind is u64 else getattr(kind, "target", kind) for _, kind in put.params]
    out, n = local(written, len(row)), u64(len(row))
    x = Pointer([element(v) for v in bits.tolist()], 0, element)
    if len(row) <= FEW:
        order.scope["beside"](x, out, n, u64(1), flip(-falls), u64(0), u64(1))
    else:
        put(x, out, local(key, len(row)), n, flip(-falls))
    return [int(out[i]) for i in range(len(row))], bits


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", KINDS)
def test_rows_are_ordered_in_plain_python(dtype, machine, falls):
    rng = np.random.default_rng(0)
    (to_elements, *_), (to_numbers,) = elements(dtype, MACHINES[machine]), numbers(dtype, MACHINES[machine])
    for n in (3, 17, 70):
        for row in rows_of(dtype, n, rng):
            order = np.argsort(row, kind="stable")
            if falls:
                order = np.flip(n - 1 - np.argsort(np.flip(row), kind="stable"))
            found, bits = in_order(to_elements, row, falls)
            assert found == bits[order].tolist()
            assert in_order(to_numbers, row, falls)[0] == order.tolist()
