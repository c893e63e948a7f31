"""Static arguments, powers, comparisons and slices are recorded natively for exactly what they are."""

import numpy as np
import pytest

import autodiff as ad


def matrix():
    return ad.tensor(np.arange(1.0, 13.0).reshape(3, 4), requires_grad=True)


CALLS = {
    "axis by name": (lambda x, k: ad.sum(x, axis=k), lambda x, k: np.sum(x, axis=k), (0, 1, -1, None)),
    "axis by position": (lambda x, k: ad.sum(x, k), np.sum, (0, 1, -1, None)),
    "method": (lambda x, k: x.mean(axis=k), np.mean, (0, 1, -1, None)),
    "two names": (
        lambda x, k: ad.max(x, axis=k, keepdims=True),
        lambda x, k: np.max(x, axis=k, keepdims=True),
        (0, 1, None),
    ),
    "names in another order": (
        lambda x, k: ad.max(x, keepdims=True, axis=k),
        lambda x, k: np.max(x, axis=k, keepdims=True),
        (0, 1, None),
    ),
    "flag": (lambda x, k: ad.sum(x, axis=1, keepdims=k), lambda x, k: np.sum(x, axis=1, keepdims=k), (True, False)),
    "position and name": (
        lambda x, k: ad.sum(x, 0, keepdims=k),
        lambda x, k: np.sum(x, axis=0, keepdims=k),
        (True, False),
    ),
    "tuple": (lambda x, k: ad.sum(x, axis=k), lambda x, k: np.sum(x, axis=k), ((0, 1), (1,), (0,))),
    "tuple made anew": (lambda x, k: ad.reshape(x, (12 // k, k)), lambda x, k: x.reshape(12 // k, k), (2, 3, 4, 6)),
    "list": (lambda x, k: ad.reshape(x, [12 // k, k]), lambda x, k: x.reshape(12 // k, k), (2, 3, 4, 6)),
    "pairs": (
        lambda x, k: ad.pad(x, ((0, 1), (k, 2))),
        lambda x, k: np.pad(x, ((0, 1), (k, 2))),
        (0, 1, 2),
    ),
    "list of lists": (
        lambda x, k: ad.tensordot(x, x, [[k], [k]]),
        lambda x, k: np.tensordot(x, x, [[k], [k]]),
        (0, 1),
    ),
    "large number": (
        lambda x, k: ad.broadcast_to(x, (k, 3, 4)),
        lambda x, k: np.broadcast_to(x, (k, 3, 4)),
        (300, 301),
    ),
    "softmax": (
        lambda x, k: ad.log_softmax(x, axis=k),
        lambda x, k: x - np.log(np.exp(x).sum(k, keepdims=True)),
        (0, 1),
    ),
    "power": (lambda x, k: x**k, lambda x, k: x**k, (2, 3, 2.0, 0.5, -1, 1, 0, 2.7, -0.5, 17)),
    "power function": (ad.power, np.power, (2, 3, 2.0, 0.5, -1)),
    "power of a number": (lambda x, k: k**x, lambda x, k: k**x, (2, 2.5)),
    "less": (lambda x, k: x < k, lambda x, k: x < k, (3, 3.0, 5.5)),
    "at least, the other way round": (lambda x, k: k <= x, lambda x, k: k <= x, (3, 3.0, 5.5)),
    "equal": (lambda x, k: x == k, lambda x, k: x == k, (3, 3.0, 5.5)),
    "not equal": (lambda x, k: x != k, lambda x, k: x != k, (3, 3.0, 5.5)),
    "row": (lambda x, k: x[k], lambda x, k: x[k], (0, 1, -1)),
    "rows": (lambda x, k: x[k : k + 2], lambda x, k: x[k : k + 2], (0, 1, 2, -2)),
    "entry": (lambda x, k: x[k, 1], lambda x, k: x[k, 1], (0, 1, -1)),
    "columns": (lambda x, k: x[:, k::2], lambda x, k: x[:, k::2], (0, 1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_static_argument_counts(name, way):
    ours, numpy, arguments = CALLS[name]
    x = matrix()
    for _ in range(4):
        for k in arguments:
            y = ours(x, k)
            assert y.requires_grad == (y.dtype.kind == "f")
            np.testing.assert_allclose(y.detach().numpy(), numpy(x.detach().numpy(), k), rtol=1e-12)


@pytest.mark.parametrize("name", ["axis by name", "two names", "softmax", "power", "rows", "entry", "columns"])
def test_their_gradients_are_right(name, way):
    ours, _, arguments = CALLS[name]
    for k in arguments:
        for _ in range(4):
            x = matrix()
            (ad.sum(ours(x, k) * ours(x, k)) + ad.sum(x)).backward()
        expected = ad.grad(lambda x, k=k: ad.sum(ours(x, k) ** 2) + ad.sum(x))(matrix())
        np.testing.assert_allclose(x.grad.numpy(), expected.detach().numpy(), rtol=1e-13)


def test_equal_values_of_other_types_are_other_arguments(way):
    x = matrix()
    for _ in range(4):
        assert ad.sum(x, axis=0, keepdims=True).shape == (1, 4)
        assert ad.sum(x, axis=True, keepdims=False).shape == (3,)
        assert ad.sum(x, axis=False).shape == (4,)
        assert ad.sum(x, axis=None).shape == ()


def test_errors_of_static_arguments(way):
    x = matrix()
    for _ in range(4):
        ad.sum(x, axis=1)
        with pytest.raises(ad.ShapeError, match=r"test_native_statics\.py"):
            ad.sum(x, axis=2)
        with pytest.raises(TypeError, match="axes"):
            ad.sum(x, axes=1)
        with pytest.raises(TypeError):
            ad.sum(x, 0, axis=1)
        with pytest.raises(TypeError):
            pow(x, 2, 5)
        with pytest.raises(IndexError):
            x[7]


def test_comparing_with_anything_else_stays_with_python(way):
    x = matrix()
    for _ in range(3):
        assert (x == "text") is False and (x != "text") is True
        assert x.__eq__(None) is NotImplemented and x.__lt__("text") is NotImplemented
        assert hash(x) == hash(x) and len({x, x}) == 1


def test_a_slice_inside_of_a_custom_forward_is_masked(way):
    seen = []

    @ad.function
    def first(x): ...

    @first.forward(ad.Tensor)
    def _(ctx, x):
        y = x[0:2]
        seen.append((y.requires_grad, ad.sum(y, axis=0).requires_grad, (y**2).requires_grad))
        return y * 1.0

    @first.backward(ad.Tensor)
    def _(ctx, g):
        return ad.concatenate([g, ad.zeros((1, 4))])

    for _ in range(3):
        ad.sum(first(matrix())).backward()
    assert seen == [(False, False, False)] * 3


def test_batches_of_a_loop(way):
    x = ad.tensor(np.arange(2000.0).reshape(500, 4))
    w = ad.tensor(np.ones(4), requires_grad=True)
    for i in range(0, 490, 7):
        w.grad = None
        ad.sum(x[i : i + 7] @ w).backward()
        np.testing.assert_allclose(w.grad.numpy(), x.numpy()[i : i + 7].sum(0))
