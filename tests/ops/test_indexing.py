"""Laws of indexing that the sweep cannot see: run-time bounds, shared graphs, masks, refusals."""

import numpy as np
import pytest

import autodiff as ad

X = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def x():
    return ad.tensor(X)


# ---------------------------------------------------------------- one graph for many starts


def test_another_start_of_a_slice_compiles_nothing():
    data = ad.tensor(np.arange(40.0))
    float(ad.sum(data[0:8]))
    before = ad.cache_info().compiles
    sums = [float(ad.sum(data[i : i + 8])) for i in range(20)]
    assert sums == [np.arange(i, i + 8).sum() for i in range(20)]
    assert ad.cache_info().compiles == before
    elements = [float(data[i]) for i in range(20)]
    assert elements == list(range(20))
    assert ad.cache_info().compiles <= before + 1


def test_another_start_runs_no_rule():
    data, w = ad.tensor(np.arange(40.0)), ad.tensor(np.ones(8), requires_grad=True)
    for i in range(6):
        if i == 3:
            before = ad.cache_info()
        ad.sum(data[i : i + 8] * w).backward()
    assert ad.cache_info().misses == before.misses
    np.testing.assert_array_equal(w.grad.numpy(), sum(np.arange(i, i + 8) for i in range(6)))


def test_a_start_that_jit_has_met_is_not_kept_for_what_is_recorded_later():
    data = ad.tensor(np.arange(60.0))
    f = ad.jit(lambda x: x[2:10])
    for i in range(5):
        np.testing.assert_array_equal(f(np.arange(60.0)), np.arange(2.0, 10))
        np.testing.assert_array_equal(data[i : i + 8].numpy(), np.arange(i, i + 8.0))


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize("bad", [3, -4, 10**12, -(2**63)])
def test_an_index_outside_that_only_the_run_knows_raises_when_it_runs(x, bad):
    i = ad.tensor(np.array([0, 1])) * 0 + np.array([0, bad])
    for y in (x[i], ad.take(x, i, axis=0), ad.sum(x[i] * 2, 0)):
        with pytest.raises(IndexError):
            y.numpy()
    with pytest.raises(IndexError):
        ad.take_along_axis(x, ad.broadcast_to(i[:, None], (2, 4)), 0).numpy()


def test_an_index_outside_fails_in_the_gradient_of_a_gather_too():
    i = ad.tensor(np.array([0, 7])) * 1
    t = ad.tensor(np.ones(3), requires_grad=True)
    with pytest.raises(IndexError):
        ad.sum(t[i]).backward()
    assert t.grad is None


def test_nothing_can_be_taken_from_an_empty_axis():
    with pytest.raises(IndexError):
        ad.tensor(np.zeros((0, 3)))[ad.tensor([0]) * 1]
    assert ad.tensor(np.zeros((0, 3)))[ad.tensor(np.zeros(0, int)) * 1].shape == (0, 3)


# ---------------------------------------------------------------- gradients


def test_an_element_taken_twice_gets_both_gradients():
    g = ad.grad(lambda x: ad.sum(x[np.array([2, 0, 2, -1])] * np.array([1.0, 2.0, 3.0, 4.0])))(np.zeros(4))
    np.testing.assert_array_equal(g, [2, 0, 4, 4])


# ---------------------------------------------------------------- masks


def test_a_mask_that_is_pending_is_evaluated(x):
    np.testing.assert_array_equal(x[x > 4].numpy(), X[X > 4])
    np.testing.assert_array_equal(x[(x > 4).any(axis=1)].numpy(), X[(X > 4).any(axis=1)])


def test_a_mask_inside_jit_is_refused_naming_where(x):
    with pytest.raises(ad.ConcretizationError, match=r"ad\.where\(mask, x, other\)"):
        ad.jit(lambda x: ad.sum(x[x > 0]))(X)


def test_a_mask_of_another_shape_is_refused(x):
    with pytest.raises(ad.ShapeError, match=r"bool\[4\] does not fit f64\[3,4\]"):
        x[np.ones(4, bool)]
    with pytest.raises(IndexError):
        x[np.ones(4, bool)]


def test_a_number_of_jit_indexes():
    f = ad.jit(lambda x, i: x[i])
    for i in (0, 2, -1):
        np.testing.assert_array_equal(f(X, i), X[i])
    with pytest.raises(IndexError):
        f(X, 3)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        ((0, 0, 0), ad.ShapeError, r"3 indices for f64\[3,4\]"),
        ((0, 0, 0), IndexError, r"3 indices for f64\[3,4\]"),
        ((..., ...), IndexError, "at most one"),
        ("a", IndexError, "'a' is no index"),
        (1.0, IndexError, r"1\.0 is no index"),
        (np.array([1.0]), ad.DTypeError, r"indices are integers, not f64\[1\]"),
        (([0, 1], [0, 1, 2]), ad.ShapeError, "broadcast"),
        (slice(0, 2, 0), ValueError, "zero"),
        (slice(0.5, 2), TypeError, "indices"),
    ],
)
def test_what_is_no_index_is_refused(x, key, error, message):
    with pytest.raises(error, match=message):
        x[key]


def test_axes_that_cannot_be_taken_along_are_refused(x):
    with pytest.raises(ad.ShapeError, match="as many axes"):
        ad.take_along_axis(x, [0], 0)
    with pytest.raises(ad.ShapeError, match="broadcast"):
        ad.take_along_axis(x, np.zeros((2, 2), int), 1)


# ---------------------------------------------------------------- the rest


def test_iteration_is_over_the_leading_axis(x):
    assert [row.shape for row in x] == [(4,)] * 3
    np.testing.assert_array_equal(np.stack([row.numpy() for row in x]), X)
    first, *_ = x
    assert first.sum().item() == 6
    with pytest.raises(TypeError, match="0-d"):
        iter(x[0, 0])


def test_arrays_and_lists_are_indexed_by_tensors():
    i = ad.tensor([2, 0])
    np.testing.assert_array_equal(ad.take(X, i, axis=0).numpy(), X[[2, 0]])
    np.testing.assert_array_equal(np.take(ad.tensor(X), [2, 0], axis=0).numpy(), X[[2, 0]])


def test_one_hot_of_a_class_that_is_not_there_is_zero():
    np.testing.assert_array_equal(ad.one_hot([0, 5, -1], 2).numpy(), [[1, 0], [0, 0], [0, 0]])
    with pytest.raises(ad.DTypeError):
        ad.one_hot([0.5], 2)
    with pytest.raises(ad.ShapeError):
        ad.one_hot([0], -1)


def test_a_mask_written_as_a_list_is_part_of_the_program():
    x = np.arange(6.0).reshape(3, 2)
    assert ad.jit(lambda x: x[[True, False, True]])(x).tolist() == x[[0, 2]].tolist()
    assert ad.jit(lambda x: x[:, [True, False]])(x).tolist() == x[:, :1].tolist()
    assert ad.jit(lambda x: x[True, 0])(x).tolist() == x[True, 0].tolist()
    last = np.array(True)
    f = ad.jit(lambda x: x[[np.True_, False, last]])
    for last[...] in (True, True, False):  # an array among them: its contents count at each call
        assert f(x).tolist() == x[[True, False, bool(last)]].tolist()


def test_a_mask_that_is_an_array_is_read_anew_at_each_loop_and_vmap():
    x, mask = np.arange(6.0).reshape(2, 3), np.array([True, False, True])
    of_all = ad.vmap(lambda row: row[mask] ** 2)
    slope = ad.vmap(ad.grad(lambda row: ad.sum(row[mask] ** 2)))
    for middle in (False, True, False):
        mask[1] = middle
        assert of_all(x).tolist() == (x[:, mask] ** 2).tolist()
        assert slope(x).tolist() == (2 * x * mask).tolist()
        last, rows = ad.scan(lambda c, row: (c + ad.sum(row[mask]), row[mask]), 0.0, x)
        assert last.item() == x[:, mask].sum() and rows.tolist() == x[:, mask].tolist()
    with pytest.raises(ad.ConcretizationError, match=r"keeps the shape$"):
        ad.jit(lambda x: x[x > 0])(np.arange(3.0))


# ---------------------------------------------------------------- adding


def test_numpys_add_at_changes_a_tensor_and_its_gradient_flows():
    v = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    t = ad.zeros(3)
    before = t.detach()
    np.add.at(t, [0, 2, 0], v)
    assert t.detach().tolist() == [4.0, 0.0, 2.0] and before.tolist() == [0.0, 0.0, 0.0]
    (t * ad.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert v.grad.tolist() == [1.0, 100.0, 1.0]


def test_numpys_add_at_of_an_array_takes_values_and_loses_no_gradient():
    a = np.zeros(3)
    np.add.at(a, ad.tensor([0, 2, 0]), ad.tensor([1.0, 2.0, 3.0]))
    assert a.tolist() == [4.0, 0.0, 2.0]
    with pytest.raises(ad.GradientError, match="would lose its gradient"):
        np.add.at(a, [0], ad.tensor([1.0], requires_grad=True))


def test_segments_of_any_ids_are_one_compile_and_ids_are_checked():
    rng = np.random.default_rng(0)
    f = ad.jit(ad.value_and_grad(lambda x, ids: (ad.segment_sum(x, ids, 4) ** 2).sum()))
    for _ in range(3):
        x, ids = rng.normal(size=(10, 2)), rng.integers(0, 4, 10)
        sums = np.zeros((4, 2))
        np.add.at(sums, ids, x)
        value, g = f(x, ids)
        np.testing.assert_allclose(value, (sums**2).sum())
        np.testing.assert_allclose(g, 2 * sums[ids])
    with pytest.raises(IndexError):
        f(x, np.full(10, 4))
    with pytest.raises(IndexError, match="segment_sum: index 4 is outside of an axis of extent 4"):
        ad.segment_sum(x, np.full(10, 4), 4)
    with pytest.raises(ad.ShapeError, match="names no segments of the leading axes"):
        ad.segment_sum(x, np.zeros(9, int), 4)
    with pytest.raises(ad.DTypeError, match="segment_sum: takes float or integer or complex arrays"):
        ad.segment_sum(np.ones(2, bool), [0, 1], 2)


def test_what_replaces_fits_what_it_replaces():
    x = np.arange(6.0).reshape(2, 3)
    for key in (0, [0, 1], (slice(None), [1, 2]), x > 1):
        with pytest.raises(ad.ShapeError, match=r"(?s)x\[\.\.\.\] = value: f64\[7\] does not .*test_indexing.py"):
            ad.tensor(x)[key] = np.ones(7)
    for key, value in (([1, 0], np.ones((1, 2, 3))), (0, np.ones((1, 1, 3))), (slice(1), 2 * np.ones((1, 1, 3)))):
        t, expected = ad.tensor(x), x.copy()
        t[key] = value
        expected[key] = value
        np.testing.assert_array_equal(t, expected)


def test_what_is_added_fits_what_it_is_added_to():
    x = np.zeros((2, 3))
    for wrong, error in (
        (lambda: ad.add_at(x, 5, 1.0), IndexError),
        (lambda: ad.add_at(x, [0, 1], np.ones(4)), ad.ShapeError),
        (lambda: ad.add_at(x, 0, 1j), ad.DTypeError),
        (lambda: ad.add_at(np.zeros(2, bool), 0, True), ad.DTypeError),
    ):
        with pytest.raises(error):
            wrong()
