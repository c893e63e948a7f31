"""Batching rules of operations that have no public name, and operations that have none."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4))


def test_slices_and_pads_whose_numbers_differ():
    from autodiff.ops.slicing import embedded, sliced, updated_slice

    starts, fill = np.array([2, 0, 1]), np.array([1.0, 2.0, 3.0])
    y = ad.vmap(lambda x, i: sliced(x, [i], (0,), (1,), (2,)))(X, starts)
    np.testing.assert_array_equal(y, [x[i : i + 2] for x, i in zip(X, starts, strict=True)])
    z = ad.vmap(lambda x, i: embedded(x, [i], (0,), (1,), (7,)))(X, starts)
    np.testing.assert_array_equal(z[:, 2:4], [np.pad(x, (i, 3 - i))[2:4] for x, i in zip(X, starts, strict=True)])
    u = ad.vmap(lambda x, v, i: updated_slice(x, v, [i], (0,), (1,)), (0, None, 0))(X, np.ones(2), starts)
    assert [list(np.flatnonzero(row == 1.0)) for row in u] == [[2, 3], [0, 1], [1, 2]]
    table, corner = np.arange(20.0).reshape(4, 5), np.array([1, 0])
    two = ad.vmap(lambda x, i: sliced(x, [i, i], (1, 0), (1, 2), (2, 3)), (None, 0))(table, corner)
    np.testing.assert_array_equal(two, [table[i : i + 3 : 2, i : i + 3] for i in corner])
    p = ad.vmap(lambda x, c: ad.pad(x, (1, 2), constant_values=c))(X, fill)
    np.testing.assert_array_equal(p, [np.pad(x, (1, 2), constant_values=c) for x, c in zip(X, fill, strict=True)])


def test_an_operation_without_a_batch_rule_is_named(monkeypatch):
    from codegen.ir import OPS

    monkeypatch.setattr(OPS["cumsum"], "batch", None)
    with pytest.raises(ad.Error, match=r"(?s)cumsum has no batch rule.*test_batching\.py.*batch="):
        ad.vmap(lambda x: ad.cumsum(x))(X)
