"""NumPy's functions on tensors record, or raise where a gradient would be lost."""

import numpy as np
import pytest

import autodiff as ad

from .cases import eager

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])


def tracking(x=X):
    return ad.tensor(x, requires_grad=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda t: np.exp(t),
        lambda t: X + t,
        lambda t: X @ t.T,
        lambda t: np.float64(2) * t,
        lambda t: np.sum(t),
        lambda t: np.sum(t, axis=0),
        lambda t: np.mean(t, axis=1, keepdims=True),
        lambda t: np.add.reduce(t),
        lambda t: np.maximum.reduce(t, axis=1),
        lambda t: np.where(X > 2, t, 0.0),
        lambda t: np.clip(t, 1.5, 4.0),
        lambda t: np.concatenate([t, X]),
        lambda t: np.stack([t, t]),
        lambda t: np.reshape(t, (3, 2)),
        lambda t: np.transpose(t),
        lambda t: np.matmul(X.T, t),
        lambda t: np.einsum("ij,kj->ik", t, X),
        lambda t: np.dot(t, X.T),
        lambda t: np.cumsum(t, axis=0),
        lambda t: np.abs(t),
        lambda t: np.zeros_like(t) + t,
        lambda t: np.round(t) * t,
        lambda t: np.around(t) * t,
        pytest.param(lambda t: np.fix(t) * t, marks=pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")),
        lambda t: np.degrees(t),
        lambda t: np.gradient(t, 2.0, axis=1, edge_order=2),
        lambda t: np.isin(t, [1.0, 5.0], assume_unique=True) * t,
        lambda t: np.select([t > 2, t < 1], [t, -t], default=9.0),
    ],
)
def test_numpys_functions_record_and_keep_the_gradient(f):
    t = tracking()
    with eager():
        found = f(t)
        assert isinstance(found, ad.Tensor)
        assert found.requires_grad
        np.testing.assert_allclose(np.asarray(found.detach()), f(X), rtol=1e-14)


@pytest.mark.smoke
def test_a_function_without_counterpart_raises_where_a_gradient_would_be_lost():
    with pytest.raises(ad.GradientError, match=r"np.partition has no counterpart here") as refusal:
        np.partition(tracking(), 1)
    assert "called at test_protocols.py:" in str(refusal.value)
    assert "t.detach().numpy()" in str(refusal.value)


@pytest.mark.parametrize(
    "f",
    [
        lambda t: np.partition(t, 1, axis=0),
        lambda t: np.frexp(t),
        lambda t: np.multiply.outer(t, t),
        lambda t: np.allclose(t, X),
        lambda t: np.subtract.accumulate(t),
        lambda t: np.unique(t),
        lambda t: np.nonzero(t > 2),
        lambda t: np.where(t > 2),
    ],
)
def test_a_function_without_counterpart_gets_the_array_where_no_gradient_is_lost(f):
    found = f(ad.tensor(X))
    with ad.no_grad():
        same = f(tracking())
    for result in (found, same):
        assert not isinstance(result, ad.Tensor)
        np.testing.assert_array_equal(result, f(X))


@pytest.mark.parametrize(
    "f",
    [
        lambda t: np.sum(t, 0, np.float64, None, True),
        lambda t: np.std(t, 0, None, None, 1),
        lambda t: np.clip(t, a_min=1.5, a_max=4.0),
        lambda t: np.clip(t, 1.5, None),
        lambda t: np.nan_to_num(t, False, 7.0),
        lambda t: np.cross(t, X[::-1] * [[1.0, 2.0, 2.5]], axis=1),
        lambda t: np.histogram(t[0], 2, None, True, t[1])[0],
        lambda t: np.median(t, 0, None, False, True),
        lambda t: np.quantile(t, 0.3, 0, None, False, "lower"),
        lambda t: np.sort(t, 0, "stable"),
        lambda t: np.reshape(t, (3, 2), "C"),
        lambda t: np.full_like(t, fill_value=2.0, order="C") * t,
        lambda t: np.linspace(t[0, 0], t[1, 1], 5, False),
        lambda t: np.tile(t, reps=(2, 1)),
        lambda t: np.take(t, [0, 9], 0, None, "clip"),
        lambda t: np.take(t, [[-7, 4]], mode="wrap"),
        lambda t: np.diff(t, 1, -1, 0.5, X),
        lambda t: np.roll(t, (1, 1)),
        lambda t: np.linalg.norm(t, "nuc"),
        lambda t: np.linalg.norm(t, 1, (1, 0), True),
    ],
)
def test_numpys_functions_take_what_numpys_take_in_its_order(f):
    found = f(tracking())
    assert found.requires_grad
    np.testing.assert_allclose(found.detach().numpy(), f(X), rtol=1e-14)


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda t: np.sin(t, signature="d->d"), "np.sin with signature="),
        (lambda t: np.add(t, X, signature="dd->d"), "np.add with signature="),
        (lambda t: np.multiply(t, X, order="C", signature="dd->d"), "np.multiply with signature="),
    ],
)
def test_what_numpy_takes_and_we_do_not_is_numpys_where_no_gradient_is_lost(f, name):
    found = f(ad.tensor(X))
    assert not isinstance(found, ad.Tensor)
    np.testing.assert_array_equal(found, f(X))
    with pytest.raises(ad.GradientError, match=name):
        f(tracking())


def test_an_array_that_is_written_to_gets_no_gradient_silently():
    array = np.ones((2, 3))
    with pytest.raises(ad.GradientError, match=r"np.add with out= writes an array"):
        array += tracking()
    array += ad.tensor(X)
    np.testing.assert_array_equal(array, X + 1)
    np.exp(ad.tensor(X), out=array)
    np.testing.assert_array_equal(array, np.exp(X))


def test_a_tensor_cannot_be_written_to():
    with pytest.raises(ad.DispatchError, match="a tensor is a value"):
        np.exp(X, out=ad.tensor(X))


def test_shapes_and_dtypes_are_told_without_computing():
    t = tracking() * 2
    assert np.shape(t) == (2, 3)
    assert np.ndim(t) == 2
    assert np.size(t) == 6
    assert np.result_type(t, np.float32) == np.float64
    assert t.node.value is None


def test_dlpack_gives_a_copy_of_the_value():
    t = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    given = np.from_dlpack(t)
    np.testing.assert_array_equal(given, [[1.0, 2.0], [3.0, 4.0]])
    assert not np.shares_memory(given, t.numpy())
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        t.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="memory of the CPU"):
        t.__dlpack__(dl_device=(2, 0))


def test_dlpack_refuses_to_lose_a_gradient():
    with pytest.raises(ad.GradientError, match="would lose its gradient"):
        np.from_dlpack(ad.tensor(1.0, requires_grad=True))


def test_a_function_without_counterpart_gets_a_structured_value_written_out():
    np.testing.assert_array_equal(np.linalg.svd(ad.Diagonal([3.0, 2.0]))[1], [3.0, 2.0])
    np.testing.assert_array_equal(np.block([[ad.Diagonal([1.0]), np.zeros((1, 1))]]), [[1.0, 0.0]])
