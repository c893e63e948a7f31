"""Roll, tile, repeat, diff, meshgrid and sort beyond the sweep: ties, errors, compiles, NumPy's names."""

import numpy as np
import pytest

import autodiff as ad


@pytest.mark.parametrize("stable", [True, False, None])
def test_an_order_is_stable_also_where_that_is_said(stable):
    x = ad.tensor([2, 1, 2, 1])
    assert ad.argsort(x, stable=stable).tolist() == np.argsort(x.numpy(), stable=True).tolist() == [1, 3, 0, 2]
    assert ad.sort(x, stable=stable).tolist() == np.sort(x, stable=stable).tolist() == [1, 1, 2, 2]
    assert x.argsort(stable=stable, descending=True).tolist() == [0, 2, 1, 3]


def test_equal_elements_keep_their_order_in_both_directions():
    x = [1.0, 0.0, 1.0, 0.0]
    assert ad.argsort(x).tolist() == [1, 3, 0, 2]
    assert ad.argsort(x, descending=True).tolist() == [0, 2, 1, 3]


def test_nan_is_above_all():
    x = [np.nan, 2.0, 1.0]
    np.testing.assert_array_equal(ad.sort(x), [1, 2, np.nan])
    np.testing.assert_array_equal(ad.sort(x, descending=True), [np.nan, 2, 1])


def test_the_gradient_of_a_sorted_element_goes_where_it_came_from():
    np.testing.assert_array_equal(ad.grad(lambda x: ad.sort(x)[0] * 5)(np.array([3.0, 1.0, 2.0])), [0, 5, 0])


def test_another_shift_compiles_nothing():
    f = ad.jit(lambda x, by: ad.roll(x, 1) * by)
    x = ad.tensor(np.arange(6.0))
    assert ad.roll(x, 1).tolist() == [5, 0, 1, 2, 3, 4]
    with ad.max_compiles(0):
        assert ad.roll(x, 2).tolist() == [4, 5, 0, 1, 2, 3]
    assert f(np.arange(2.0), 2.0).tolist() == [2, 0]


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_any_shift_of_any_length_is_right(n, rng):
    x, w = rng.normal(size=n), rng.normal(size=n)
    for by in range(-2 * n - 1, 2 * n + 2):
        f = ad.value_and_grad(lambda x, by=by: ad.sum(ad.roll(x, by) * w))
        for g in (f, ad.jit(f)):
            value, gradient = g(x)
            np.testing.assert_allclose(value, np.sum(np.roll(x, by) * w))
            np.testing.assert_array_equal(gradient, np.roll(w, -by))


def test_numpys_functions_record():
    x = ad.tensor([3.0, 1.0, 2.0], requires_grad=True)
    for f in (lambda x: np.roll(x, 1), lambda x: np.tile(x, 2), lambda x: np.repeat(x, 2), np.diff, np.sort):
        assert f(x).requires_grad
        np.testing.assert_array_equal(f(x).detach(), f(np.array([3.0, 1.0, 2.0])))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ad.roll(np.ones((2, 2)), (1, 2, 3), (0, 1)), r"roll: 3 shifts for 2 axes of f64\[2,2\]"),
        (lambda: ad.tile(np.ones(2), -1), "tile: -1 copies"),
        (lambda: ad.repeat(np.ones(2), 2, axis=1), "repeat: no axis 1 in"),
        (lambda: ad.diff(np.ones(2), axis=3), "diff: no axis 3 in"),
        (lambda: ad.unstack(np.float64(1)), "unstack: no axis 0 in"),
        (lambda: ad.meshgrid(np.ones((2, 2))), r"meshgrid: takes vectors, not f64\[2,2\]"),
        (lambda: ad.sort(np.float64(1)), "sort: no axis -1 in"),
    ],
)
def test_misuse_is_refused_at_the_users_line(call, message):
    with pytest.raises(ad.ShapeError, match=f"(?s){message}.*called at test_rearranging.py"):
        call()


def test_what_stands_beside_what_is_subtracted_has_to_fit():
    with pytest.raises(ad.ShapeError, match=r"diff: append of f64\[2\] does not fit f64\[2,3\] along axis 1"):
        ad.diff(ad.ones((2, 3)), append=ad.ones(2))
    with pytest.raises(ad.ShapeError, match=r"diff: prepend of f64\[3,3\]"):
        ad.diff(ad.ones((2, 3)), prepend=np.ones((3, 3)))


def test_a_number_beside_what_is_subtracted_is_weak_and_compiles_nothing():
    x = ad.tensor([1.0, 4.0], dtype=ad.float32)
    assert ad.diff(x, prepend=0.5).dtype == np.float32
    assert ad.diff(ad.tensor([1, 4]), append=0.5).tolist() == [3.0, -3.5]
    assert ad.diff(x, prepend=np.float64(0.5)).dtype == np.float64
    before = ad.cache_info().compiles
    for k in range(20):
        assert ad.diff(x, prepend=float(k)).tolist() == [1.0 - k, 3.0]
    assert ad.cache_info().compiles <= before + 2


def test_elements_out_of_nothing_are_an_error_in_each_mode():
    for mode in ("raise", "wrap", "clip"):
        with pytest.raises(IndexError, match="take"):
            ad.take(np.zeros(0), [1], mode=mode)
    with pytest.raises(ValueError, match="'nearest'"):
        ad.take(np.zeros(3), [1], mode="nearest")
