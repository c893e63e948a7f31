"""The order of elements as plain Python: keys, counting, insertion and sorting by bytes, of random rows with ties."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.native import local, u64
from codegen.native.structs import Pointer
from codegen.runtime.order_rows import KINDS, alone, keys_of, sorters


def row_of(dtype, n, rng):
    if dtype == "bool":
        return rng.random(n) < 0.5
    if dtype.startswith("f"):
        row = np.round(rng.standard_normal(n), 1).astype(dtype.replace("f32", "f4").replace("f64", "f8"))
        row[rng.random(n) < 0.1] = np.nan
        row[rng.random(n) < 0.1] = -0.0
        return row
    return rng.integers(-5, 5, n).astype("i4" if dtype == "i32" else "i8")


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("dtype", KINDS)
def test_rows_are_ordered_in_plain_python(dtype, falls):
    rng = np.random.default_rng(0)
    element, _, word, pair = KINDS[dtype]
    key = keys_of(dtype)
    count, sort = sorters(dtype, key)
    rank, insert = alone(dtype, key)
    flip = word(-1 if falls else 0)
    for n, inner in ((1, 1), (2, 1), (9, 1), (20, 2)):
        x = row_of(dtype, n, rng)
        row = Pointer([element(v) for v in np.repeat(x, inner).tolist()], 0, element)
        order = np.argsort(x, kind="stable")
        if falls:  # the largest first, nan before all, equal ones as they stand
            shifted = np.unique(np.where(np.isnan(x), 9, x) if x.dtype.kind == "f" else x, return_inverse=True)[1]
            order = np.argsort(-shifted, kind="stable")
        out, keys = local(u64, n * inner), local(word, n + 64)
        rank(row, out, keys, n, inner, flip)
        assert [int(out[i * inner]) for i in range(n)] == order.tolist()
        out = local(u64, n * inner)
        insert(row, out, n, inner, flip)
        assert [int(out[i * inner]) for i in range(n)] == order.tolist()
        pairs, others, counts = local(pair, n), local(pair, n), local(u64, word.bits // 8 * 256)
        count(row, pairs, counts, n, inner, flip)
        found = sort(pairs, others, counts, n)
        assert [int(found[i] >> word.bits) for i in range(n)] == order.tolist()
