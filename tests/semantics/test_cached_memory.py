"""SEMANTICS 7: returned arrays are never overwritten, memory stays flat, budgets of compiles hold."""

from __future__ import annotations

import numpy as np
import pytest
from custom_functions import parameter
from regression import RNG

import autodiff as ad

pytestmark = pytest.mark.usefixtures("cold")


# ---------------------------------------------------------------- values and memory


def test_a_returned_array_is_never_overwritten_by_a_later_call():
    f = ad.jit(lambda x: x * 2.0)
    kept = [f(np.full(100, float(i))) for i in range(20)]
    for i, array in enumerate(kept):
        np.testing.assert_array_equal(array, 2.0 * i)


def test_a_gradient_that_is_kept_is_never_overwritten():
    x = parameter(np.ones(50))
    kept = []
    for i in range(20):
        x.grad = None
        (x * float(i)).sum().backward()
        kept.append(x.grad)
    for i, g in enumerate(kept):
        np.testing.assert_array_equal(g, float(i))


def test_an_output_fed_back_as_the_next_input_is_right():
    f = ad.jit(lambda x, y: (x + y, x - y))
    x, y = np.ones(10), np.full(10, 2.0)
    a, b = x, y
    for _ in range(6):
        a, b = f(a, b)
        x, y = x + y, x - y
        np.testing.assert_array_equal(a, x)
        np.testing.assert_array_equal(b, y)


@pytest.mark.parametrize("run", [lambda f: f, ad.jit], ids=["recorded", "jit"])
def test_layouts_and_duplicates_are_right(run):
    f = run(ad.grad(lambda x, y: (ad.sin(x) * y).sum(), argnums=(0, 1)))
    base = RNG.normal(size=(6, 8))
    inputs = [
        base, base[::2, ::2], base[::-1, ::-1], base.T, np.asfortranarray(base), base[1:, 3:], base[:0], base[2, 3],
        np.broadcast_to(base[0], (6, 8)), base.astype(np.float32), base.astype(">f8"),
    ]
    for x in inputs:
        x = np.asarray(x)
        for _ in range(2):
            gx, gy = f(x, x)
            np.testing.assert_allclose(gx, np.cos(x) * x, rtol=1e-5)
            np.testing.assert_allclose(gy, np.sin(x), rtol=1e-5)


def test_arrays_that_jit_closes_over_count_with_their_present_contents():
    scale = np.array([1.0, 2.0])
    w = ad.tensor([1.0, 1.0])
    f = ad.jit(lambda x: x * scale * w)
    np.testing.assert_array_equal(f(np.ones(2)), [1.0, 2.0])
    w += 1.0
    np.testing.assert_array_equal(f(np.ones(2)), [2.0, 4.0])


def test_numbers_that_jit_closes_over_are_frozen():
    k = 2.0
    f = ad.jit(lambda x: x * k)
    assert f(np.ones(1)) == 2.0
    k = 3.0
    assert f(np.ones(1)) == 2.0


def test_a_new_method_takes_effect_at_the_next_call():
    @ad.function
    def f(t): ...

    @f.method(ad.Tensor)
    def _(t):
        return t * 2.0

    def loss(x):
        return f(x).sum()

    x = parameter([1.0, 2.0])
    for _ in range(4):
        x.grad = None
        loss(x).backward()
    assert x.grad.tolist() == [2.0, 2.0]

    @f.method(ad.Vector)
    def _(t):
        return t * 5.0

    x.grad = None
    loss(x).backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_replaced_backward_takes_effect_at_the_next_call():
    @ad.function
    def f(t): ...

    f.forward(ad.Tensor)(lambda ctx, t: t * 2.0)
    f.backward(ad.Tensor)(lambda ctx, g: g * 2.0)
    x = parameter([1.0])
    for _ in range(4):
        x.grad = None
        f(x).sum().backward()
    f.backward(ad.Tensor)(lambda ctx, g: g * 7.0)
    x.grad = None
    f(x).sum().backward()
    assert x.grad.item() == 7.0


# ---------------------------------------------------------------- budgets


def test_max_compiles_fails_loudly():
    with pytest.raises(ad.Error, match=r"max_compiles\(0\): 1 graph"), ad.max_compiles(0):
        (ad.tensor(np.ones(17)) * 3.0).numpy()
    with ad.max_compiles(1):
        for i in range(5):
            (ad.tensor(np.ones(19)) * float(i)).numpy()


def test_cache_info_counts_hits_misses_and_compiles():
    before = ad.cache_info()
    for _ in range(5):
        (ad.tensor(np.ones(23)) * 2.0).numpy()
    after = ad.cache_info()
    assert after.compiles - before.compiles == 1
    assert after.misses - before.misses == 1
    assert after.hits - before.hits == 4
    assert after.records - before.records == 5
    assert after.entries >= 1 and after.bytes > 0


@pytest.mark.parametrize("n", [-1, "1", 1.5, None])
def test_max_compiles_takes_a_number_of_graphs(n):
    message = r"number of graphs, from 0 on, not (.|\n)*test_cached_memory"
    with pytest.raises(ValueError, match=message), ad.max_compiles(n):
        pass
