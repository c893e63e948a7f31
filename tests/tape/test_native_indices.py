"""`x[key]` with index arrays, and `x[key] = v`, are recorded natively as Python records them: see `ops.learner`."""

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(11)
ROWS, MORE = np.array([2, 0, -1, 2]), np.array([0, 3, 1, -4])
KEYS = {
    "array": (ROWS,), "array of a column": (slice(None), MORE), "two arrays": (ROWS, MORE),
    "apart": (ROWS, slice(1, 3), np.array([0, 1, 1, 0])), "array and slice": (slice(0, 2), MORE),
    "backwards": (slice(None, None, -1), MORE), "array and int": (ROWS, 1), "int and array": (-1, MORE),
    "int, slice, array": (1, slice(1, 3), np.array([1, 0])), "broadcast": (ROWS[:2, None], MORE[None, :3]),
    "array and rest": (ROWS, ...), "rest and array": (..., np.array([1, 0, 0])), "new axis and array": (None, ROWS),
    "array and new axis": (ROWS, None), "i32": (ROWS.astype(np.int32),), "0-d": (np.array(1),), "empty": (ROWS[:0],),
    "NumPy int": (np.int64(-2),), "NumPy int and slice": (np.int64(1), slice(1, 3)), "strided": (ROWS[::2],),
    "same array twice": (ROWS, ROWS), "matrix": (np.array([[0, 1], [2, 2]]),), "int": (1,),
    "slices": (slice(0, 2), slice(1, 4)),
    "int and slice": (2, slice(None, None, 2)), "column": (slice(None), 3), "rest": (..., 1), "all": (slice(None),),
    "long": (RNG.integers(-3, 3, size=400),), "new axis": (None, 1),
}  # fmt: skip


def cube():
    return ad.tensor(RNG.normal(size=(3, 4, 2)), requires_grad=True)


def single(key):
    return key[0] if len(key) == 1 else key


def as_tensors(key):
    return tuple([ad.tensor(e) if isinstance(e, np.ndarray) else e for e in key])


def moved(key):
    """Another key of the same pattern."""
    return tuple([np.flip(e) if isinstance(e, np.ndarray) and e.ndim else e for e in key])


@pytest.mark.parametrize("how", ["arrays", "tensors"])
@pytest.mark.parametrize("name", KEYS)
def test_every_key_reads_what_numpy_reads(way, name, how):
    for _ in range(4):
        for key in (KEYS[name], moved(KEYS[name])):
            x = cube()
            expected = x.detach().numpy()[single(key)]
            y = x[single(as_tensors(key) if how == "tensors" else key)]
            assert y.requires_grad and y.shape == expected.shape
            np.testing.assert_array_equal(y.detach().numpy(), expected)
            seed = RNG.normal(size=expected.shape)
            right = np.zeros(x.shape)
            np.add.at(right, single(key), seed)
            y.backward(seed)
            np.testing.assert_allclose(x.grad.numpy(), right, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("value", ["number", "tensor", "column"])
def test_every_key_writes_what_numpy_writes(way, name, value):
    for _ in range(3):
        for key in (KEYS[name], moved(KEYS[name])):
            x = cube()
            expected = x.detach().numpy().copy()
            shape = expected[single(key)].shape
            v = {"number": 2.5, "tensor": RNG.normal(size=shape), "column": RNG.normal(size=shape[-1:])}[value]
            given = ad.tensor(v, requires_grad=True) if value == "tensor" else v
            expected[single(key)] = v
            y = x * 1.0
            before, old = y, y.detach()
            y[single(key)] = given
            assert before is y
            np.testing.assert_array_equal(y.detach().numpy(), expected)
            np.testing.assert_array_equal(old.numpy(), x.detach().numpy())
            left = np.ones(x.shape)
            left[single(key)] = 0.0
            assert y.requires_grad or not left.any()
            if not y.requires_grad:
                continue
            y.sum().backward()
            np.testing.assert_array_equal(0.0 if x.grad is None else x.grad.numpy(), left * (x.grad is not None))
            once = v is given or np.size(v) == np.count_nonzero(left == 0.0)
            if value == "tensor" and once and given.grad is not None:
                np.testing.assert_array_equal(given.grad.numpy(), np.ones(shape))


@pytest.mark.parametrize("as_tensor", [False, True])
def test_an_index_outside_is_refused_when_recorded(way, as_tensor):
    x = cube()

    def given(rows):
        rows = np.array(rows)
        return ad.tensor(rows) if as_tensor else rows

    for _ in range(4):
        for rows in ([0, 3], [-4, 0]):
            x[given([0, 1])], ad.take(x, given([0, 1]), axis=0), x[:, given([3, 1])]
            y = x * 1.0
            y[given([0, 1])] = 0.0
            for misuse in (lambda i: x[i], lambda i: ad.take(x, i, axis=0), lambda i, y=y: y.__setitem__(i, 0.0)):
                with pytest.raises(IndexError, match=f"index {rows[0] or rows[1]} is outside of an axis of extent 3"):
                    misuse(given(rows))
            with pytest.raises(IndexError, match="index 4 is outside of an axis of extent 4"):
                x[:, given([4, 0])]
            assert ad.take(x, given([5, 0]), axis=None).shape == (2,)


def test_an_index_outside_that_is_known_later_is_refused_at_the_ask(way):
    x = cube()
    for _ in range(4):
        rows = ad.tensor([0, 2]) + 1
        y = x[rows]
        with pytest.raises(IndexError):
            y.detach().numpy()
        long = np.zeros(300, int)
        long[-1] = 3
        y = x[long]
        with pytest.raises(IndexError):
            y.detach().numpy()


def test_an_index_array_keeps_what_it_had(way):
    x = cube()
    for _ in range(4):
        rows = np.array([0, 2])
        y, view = x[rows], np.array([1, 1, 0])
        z = x[view[1:]]
        rows[0] = 1
        view[:] = 2
        np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy()[[0, 2]])
        np.testing.assert_array_equal(z.detach().numpy(), x.detach().numpy()[[1, 0]])


def test_a_leaf_is_not_written_to_while_gradients_are_tracked(way):
    for _ in range(4):
        x = cube()
        with pytest.raises(ad.GradientError, match="in-place update of a leaf"):
            x[0] = 0.0
        identity = x.node.leaf
        with ad.no_grad():
            x[np.array([0, 1])] = 0.0
        assert x.node.leaf is identity and x.requires_grad
        (x * x).sum().backward()
        assert not x.grad.numpy()[:2].any() and x.grad.numpy()[2].all()
        with pytest.raises(AttributeError, match="__delitem__"):
            del x[0]


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8"])
def test_numbers_take_the_dtype_of_what_they_are_written_into(way, dtype):
    for _ in range(4):
        y = ad.tensor(np.zeros(4, dtype))
        y[1] = 1
        y[2:] = dtype != "f4" or 1.0
        assert y.dtype == np.dtype(dtype) and y.tolist() == np.array([0, 1, 1, 1], dtype).tolist()
        if dtype == "i4":
            with pytest.raises(OverflowError):
                y[0] = 2**40
        if dtype != "f4":
            with pytest.raises(ad.DTypeError):
                y[0] = 2.5
        with pytest.raises(ad.ShapeError):
            y[1:3] = np.zeros(3, dtype)


def test_what_is_written_into_a_small_result_is_computed_with_what_is_asked_for(way):
    for _ in range(4):
        x = cube()
        y = ad.zeros(3)
        y[1] = x.sum()
        loss = (x * x).sum()
        loss.item()
        assert y.node.value is not None


def test_a_trace_and_a_derivative_see_what_is_written(way):
    rows = np.array([2, 0])

    def f(x):
        y = x * 2.0
        y[rows] = x[0] * x[1]
        y[1, 1:3] = 5.0
        return (y * y).sum()

    x = RNG.normal(size=(3, 4))
    right = np.zeros((3, 4))
    right[0], right[1] = 4 * x[0] * x[1] ** 2, 4 * x[1] * x[0] ** 2
    right[1, [0, 3]] += 8 * x[1, [0, 3]]
    for _ in range(4):
        for gradient in (ad.grad(f), ad.jit(ad.grad(f))):
            np.testing.assert_allclose(gradient(x), right, rtol=1e-12)
        ad.check_gradients(f, x, order=2)
        np.testing.assert_allclose(ad.vmap(f)(np.stack([x, x])), [f(x)] * 2, rtol=1e-14)


def nan_at(x):
    x = np.array(x)
    x[0, 1] = np.nan
    return x


IDS = np.array([0, 2, 0])
FUNCTIONS = {
    "sort": (lambda x: ad.sort(x, axis=0), lambda x: np.sort(x, axis=0)),
    "sort, falling": (lambda x: ad.sort(x, descending=True), lambda x: -np.sort(-x)),
    "sort, flat": (lambda x: ad.sort(x, axis=None), lambda x: np.sort(x, axis=None)),
    "argsort": (lambda x: ad.argsort(x, 1), lambda x: np.argsort(x, 1, kind="stable")),
    "one_hot": (lambda x: ad.one_hot(ad.argsort(x), 4), lambda x: np.eye(4)[np.argsort(x)]),
    "one_hot f32": (lambda x: ad.one_hot(IDS, 3, dtype=ad.float32) * x[0, 0], lambda x: np.eye(3)[IDS] * x[0, 0]),
    "segment_sum": (lambda x: ad.segment_sum(x, IDS, 3), lambda x: np.stack([x[0] + x[2], 0 * x[0], x[1]])),
    "cummax": (lambda x: ad.cummax(x, axis=1), lambda x: np.maximum.accumulate(x, 1)),
    "cummin": (lambda x: ad.cummin(x), lambda x: np.minimum.accumulate(x.ravel())),
    "nansum": (lambda x: ad.nansum(ad.tensor(nan_at(x)), axis=0), lambda x: np.nansum(nan_at(x), axis=0)),
    "nanmean": (lambda x: ad.nanmean(ad.tensor(nan_at(x)), keepdims=True),
                lambda x: np.nanmean(nan_at(x), keepdims=True)),
    "nanmax": (lambda x: ad.nanmax(ad.tensor(nan_at(x)), axis=-1), lambda x: np.nanmax(nan_at(x), axis=-1)),
    "nanmin": (lambda x: ad.nanmin(ad.tensor(nan_at(x)), axis=0), lambda x: np.nanmin(nan_at(x), axis=0)),
    "take_along_axis": (lambda x: ad.take_along_axis(x, IDS[:, None], 1),
                        lambda x: np.take_along_axis(x, IDS[:, None], 1)),
    "rows": (lambda x: ad.stack([r * 2.0 for r in x]), lambda x: x * 2.0),
    "numbers among rows": (lambda x: ad.stack([x[0, 0], 0.5, x[1, 1], 3]),
                           lambda x: np.array([x[0, 0], 0.5, x[1, 1], 3.0])),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_for_other_data_what_numpy_gives(way, name):
    ours, theirs = FUNCTIONS[name]
    for _ in range(6):
        x = RNG.normal(size=(3, 4))
        np.testing.assert_allclose(ours(ad.tensor(x)).numpy(), theirs(x), rtol=1e-13)


def test_places_outside_are_refused_by_functions_of_index_arrays(way):
    x = cube()
    for _ in range(5):
        ad.segment_sum(x, np.array([0, 1, 2]), 3)
        with pytest.raises(IndexError, match="segment_sum: index 3 is outside of an axis of extent 3"):
            ad.segment_sum(x, np.array([0, 3, 2]), 3)
        ad.take_along_axis(x, np.array([[[0]], [[1]], [[3]]]), axis=1)
        with pytest.raises(IndexError, match="take_along_axis: index 4 is outside of an axis of extent 4"):
            ad.take_along_axis(x, np.array([[[0]], [[4]], [[3]]]), axis=1)
