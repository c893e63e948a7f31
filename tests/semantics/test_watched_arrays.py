"""SEMANTICS 7: an array that a rule only combines with tensors is an argument of the graph; a look at it counts."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from watched_rules import pair, runs_of, slope

import autodiff as ad

# ---------------------------------------------------------------- arrays


def test_an_array_that_meets_tensors_only_is_an_input():
    table = np.ones(3)

    def rule(ctx, g):
        s = ctx.saved_variables
        return {"x": g * s.a + s.a * (g * ctx.c) + table @ g + s.a.shape[0]}

    def forward(ctx, x, c):
        ctx.save_for_backward(a=np.arange(3.0) * c)
        ctx.c = c
        return x * 1.0

    f = pair(rule, forward)

    def work():
        for i in range(10):
            table[:] = i
            a = np.arange(3.0) * (i + 0.5)
            np.testing.assert_allclose(slope(f, i + 0.5), a + a * (i + 0.5) + 3.0 * i + 3, rtol=1e-14)

    assert runs_of(rule, work) == 1, ad.explain()
    table[:] = 1.0
    assert table.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3)[:, ::-1],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(2.5),
        np.arange(3, dtype=np.int64),
        np.arange(3, dtype=np.float32),
        np.array([True, False, True]),
        np.arange(3.0).astype(">f8"),
        np.arange(3.0)[None][:, :0].sum(axis=0).reshape(0)[:0].sum(),
    ],
)
def test_an_array_of_any_layout_is_read_right(array):
    held = array.copy() if isinstance(array, np.ndarray) else array

    def forward(ctx, x, c):
        ctx.save_for_backward(a=array)
        return x * 1.0

    f = pair(lambda ctx, g: {"x": g * ctx.saved_variables.a}, forward)
    x = np.ones(np.broadcast_shapes(np.shape(array), (3,)))
    for i in range(4):
        if isinstance(array, np.ndarray):
            array[...] = held if i % 2 else np.flip(held)
        np.testing.assert_allclose(slope(f, x=x), np.ones_like(x) * np.asarray(array, x.dtype))


def test_a_rule_that_looks_into_an_array_runs_each_time():
    def rule(ctx, g):
        return {"x": g * ctx.saved_variables.c.max()}

    f = pair(rule)
    runs = runs_of(rule, lambda: [slope(f, np.array([c])) for c in (1.0, 2.0, 3.0)])
    assert runs == 1, "an argument that is an array arrives as a tensor"
    f = pair(lambda ctx, g: {"x": g * float(ctx.a.max())}, lambda ctx, x, c: (setattr(ctx, "a", c[0]), x * 1.0)[1])
    for c in (1.0, 2.0, 3.0, 2.0):
        np.testing.assert_array_equal(slope(f, [np.array([c, 0.0])]), np.full(3, c))


def test_a_gradient_that_is_what_was_saved_is_its_own():
    def forward(ctx, x, c):
        ctx.save_for_backward(a=np.full(3, c))
        return x * 1.0

    f = pair(lambda ctx, g: {"x": ctx.saved_variables.a}, forward)
    for c in (1.0, 2.0, 3.0, 2.0):
        np.testing.assert_array_equal(slope(f, c), np.full(3, c))
    f = pair(lambda ctx, g: {"x": ctx.saved_variables.c})
    for c in (1.0, 2.0, 3.0, 2.0):
        x = ad.tensor(5.0, requires_grad=True)
        f(x, c).backward()
        assert x.grad.item() == c


def test_a_plan_keeps_no_array_that_a_rule_has_read():
    held = [np.arange(3.0)]

    def forward(ctx, x, c):
        ctx.save_for_backward(a=held[0])
        return x * 1.0

    f = pair(lambda ctx, g: {"x": g * ctx.saved_variables.a}, forward)
    for _ in range(3):
        slope(f)
    gone = weakref.ref(held.pop())
    assert gone() is None


