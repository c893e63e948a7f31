"""Methods, and functions of several operands, are recorded natively as Python records them."""

import gc

import numpy as np
import pytest

import autodiff as ad


def matrix():
    return ad.tensor(np.arange(1.0, 13.0).reshape(3, 4), requires_grad=True)


METHODS = {
    "sum": lambda x: x.sum(),
    "sum axis": lambda x: x.sum(axis=1),
    "sum position": lambda x: x.sum(0),
    "sum keepdims": lambda x: x.sum(axis=0, keepdims=True),
    "mean": lambda x: x.mean(axis=(0, 1)),
    "max": lambda x: x.max(1),
    "reshape": lambda x: x.reshape(4, 3),
    "reshape tuple": lambda x: x.reshape((2, 6)),
    "reshape rest": lambda x: x.reshape(-1, 2),
    "reshape one": lambda x: x.reshape(12),
    "transpose": lambda x: x.transpose(),
    "transpose axes": lambda x: x.transpose(1, 0),
    "transpose tuple": lambda x: x.transpose((1, 0)),
    "ravel": lambda x: x.ravel(),
    "astype": lambda x: x.astype(np.float32),
    "trace": lambda x: x.trace(),
    "clip": lambda x: x.clip(2.0, 5.0),
    "repeat": lambda x: x.repeat(2, axis=1),
    "squeeze": lambda x: x.squeeze(),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "std": lambda x: x.std(axis=0),
    "cumsum": lambda x: x.cumsum(axis=1),
    "argmax": lambda x: x.argmax(axis=0),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_numpys(name, way):
    run, x = METHODS[name], matrix()
    expected = run(x.detach().numpy())
    for _ in range(5):
        y = run(x)
        assert y.dtype == np.asarray(expected).dtype or name == "argmax"
        np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-6)


def test_methods_are_bound_inherited_and_documented(way):
    x = matrix()
    bound = x.sum
    for _ in range(4):
        assert bound(axis=0).shape == (4,) and ad.Tensor.sum(x, 1).shape == (3,)
        assert next(map(ad.AbstractTensor.mean, [x, x])).shape == ()
    assert ad.Tensor.sum.__doc__ == ad.sum.__doc__
    assert ad.Diagonal(ad.tensor([1.0, 2.0])).sum().item() == 3.0
    with pytest.raises(TypeError):
        ad.Tensor.sum()
    with pytest.raises(TypeError):
        x.sum(nonsense=1)
    with pytest.raises((TypeError, ValueError, ad.Error)):
        x.reshape(2, 3, 4, 5, 6, 7, 8)
    with pytest.raises((TypeError, ad.Error)):
        ad.reshape(x, 4, 3)


def test_a_function_does_not_take_what_its_method_takes(way):
    x = matrix()
    for _ in range(4):
        x.reshape(4, 3)
    with pytest.raises(TypeError):
        ad.reshape(x, 4, 3)


CHOICES = {
    "where": (lambda m, x, y: ad.where(m, x, y), np.where),
    "where, number right": (lambda m, x, y: ad.where(m, x, 0.5), lambda m, x, y: np.where(m, x, 0.5)),
    "where, number left": (lambda m, x, y: ad.where(m, 2, x), lambda m, x, y: np.where(m, 2.0, x)),
    "where, the same twice": (lambda m, x, y: ad.where(m, x, x), lambda m, x, y: x),
    "clip": (lambda m, x, y: ad.clip(x + 0.25, 2, 6.5), lambda m, x, y: np.clip(x + 0.25, 2, 6.5)),
    "clip by name": (lambda m, x, y: ad.clip(x, min=2.25, max=5.25), lambda m, x, y: np.clip(x, 2.25, 5.25)),
    "clip, names in another order": (
        lambda m, x, y: ad.clip(x, max=5.25, min=2.25),
        lambda m, x, y: np.clip(x, 2.25, 5.25),
    ),
    "clip, one side": (lambda m, x, y: ad.clip(x, max=5.25), lambda m, x, y: np.minimum(x, 5.25)),
    "clip by tensors": (lambda m, x, y: ad.clip(x, y, 5.25), lambda m, x, y: np.clip(x, y, 5.25)),
    "operands by name": (lambda m, x, y: ad.subtract(x2=y, x1=x), lambda m, x, y: x - y),
    "operands by name in order": (lambda m, x, y: ad.subtract(x1=x, x2=y), lambda m, x, y: x - y),
    "concatenate": (lambda m, x, y: ad.concatenate([x, y]), lambda m, x, y: np.concatenate([x, y])),
    "concatenate tuple, axis": (
        lambda m, x, y: ad.concatenate((x, y, x), axis=1),
        lambda m, x, y: np.concatenate((x, y, x), axis=1),
    ),
    "concatenate one": (lambda m, x, y: ad.concatenate([x]), lambda m, x, y: x),
    "concatenate nine": (lambda m, x, y: ad.concatenate([x] * 9), lambda m, x, y: np.concatenate([x] * 9)),
    "concatenate with an array": (
        lambda m, x, y: ad.concatenate([x, np.ones((1, 4))]),
        lambda m, x, y: np.concatenate([x, np.ones((1, 4))]),
    ),
    "stack": (lambda m, x, y: ad.stack([x, y], axis=-1), lambda m, x, y: np.stack([x, y], axis=-1)),
    "stack the same": (lambda m, x, y: ad.stack((x, x)), lambda m, x, y: np.stack((x, x))),
    "einsum": (lambda m, x, y: ad.einsum("ij,kj->ik", x, y), lambda m, x, y: np.einsum("ij,kj->ik", x, y)),
    "einsum the same": (lambda m, x, y: ad.einsum("ij,ij->", x, x), lambda m, x, y: np.einsum("ij,ij->", x, x)),
    "tensordot": (
        lambda m, x, y: ad.tensordot(x, y, axes=((0, 1), (0, 1))),
        lambda m, x, y: np.tensordot(x, y, ((0, 1), (0, 1))),
    ),
    "inner": (lambda m, x, y: ad.inner(x, y), lambda m, x, y: np.inner(x, y)),
    "outer": (lambda m, x, y: ad.outer(x, y), lambda m, x, y: np.outer(x, y)),
    "matmul with itself": (lambda m, x, y: ad.matmul(x.T, x), lambda m, x, y: x.T @ x),
    "norm": (lambda m, x, y: ad.linalg.norm(x, axis=1), lambda m, x, y: np.linalg.norm(x, axis=1)),
    "norm 3": (lambda m, x, y: ad.linalg.norm(x, ord=3, axis=1), lambda m, x, y: np.linalg.norm(x, ord=3, axis=1)),
    "roll": (lambda m, x, y: ad.roll(x, 1, axis=0), lambda m, x, y: np.roll(x, 1, axis=0)),
    "tril": (lambda m, x, y: ad.tril(x, -1), lambda m, x, y: np.tril(x, -1)),
    "pad": (lambda m, x, y: ad.pad(x, ((1, 0), (0, 2))), lambda m, x, y: np.pad(x, ((1, 0), (0, 2)))),
    "square": (lambda m, x, y: ad.square(x), lambda m, x, y: x * x),
    "NumPy scalar": (lambda m, x, y: x * np.float64(1.5), lambda m, x, y: x * 1.5),
    "NumPy scalar left": (lambda m, x, y: np.float64(1.5) - x, lambda m, x, y: 1.5 - x),
    "short NumPy scalar": (lambda m, x, y: x * np.float32(1.5), lambda m, x, y: x * 1.5),
    "power by a NumPy scalar": (lambda m, x, y: x ** np.float64(1.5), lambda m, x, y: x**1.5),
}


@pytest.mark.parametrize("name", CHOICES)
def test_values_and_gradients_of_several_operands(name, way):
    run, expected = CHOICES[name]
    x, y = matrix(), ad.tensor(np.linspace(1.5, 9.5, 12).reshape(3, 4), requires_grad=True)
    m = x.detach() > 4.0
    values = [t.detach().numpy() for t in (m, x, y)]
    for _ in range(5):
        z = run(m, x, y)
        np.testing.assert_allclose(z.detach().numpy(), expected(*values), rtol=1e-12)
        x.grad = y.grad = None
        (z * z).sum().backward()
    step, direction = 1e-6, np.cos(np.arange(12.0)).reshape(3, 4)
    above, below = [(expected(values[0], values[1] + s * direction, values[2]) ** 2).sum() for s in (step, -step)]
    np.testing.assert_allclose((x.grad.numpy() * direction).sum(), (above - below) / (2 * step), rtol=1e-6, atol=1e-6)


def test_numpy_scalars_are_strong(way):
    x = ad.tensor(np.ones(3, np.float32))
    for _ in range(4):
        assert (x * np.float32(2)).dtype == np.float32 and (x * np.float64(2)).dtype == np.float64
        assert (x * 2.0).dtype == np.float32 and (x * np.int64(2)).dtype == np.float64


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numpy_scalars_promote_as_numpys_arrays_do(dtype, way):
    v = np.linspace(0.1, 1.0, 5).astype(dtype)
    x = ad.tensor(v)
    scalars = [np.float64(0.3), np.float32(0.3), np.int64(3), np.int32(3), np.bool_(True), np.int64(2**60 + 1)]
    scalars += [np.float64(1e308), np.float32(np.inf)]
    for scalar in scalars:
        runs = [lambda a, s: a * s, lambda a, s: s - a, lambda a, s: a / s, lambda a, s: a < s]
        runs += [lambda a, s: a**s] if abs(scalar) < 5 else []
        for run in runs:
            expected = run(v, scalar)
            for _ in range(4):
                y = run(x, scalar)
            assert y.dtype == expected.dtype
            np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6 if dtype == "float32" else 1e-14)


def test_a_list_may_be_changed_by_the_collector(native):
    """Operands in a list are held while they are recorded."""
    x = matrix()
    parts = [x * 1.0, x * 2.0]
    for _ in range(4):
        ad.concatenate(parts)

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            parts[:] = [x * 3.0, x * 4.0]

    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(200):
            parts[:] = [x * 1.0, x * 2.0]
            Cycle()
            y = ad.concatenate(parts)
            assert y.shape == (6, 4) and len(y.node.inputs) == 2
    finally:
        gc.set_threshold(*threshold)


def test_a_method_on_a_function_drops_what_its_tensor_methods_learnt(way):
    x = matrix()

    class Marked(ad.AbstractTensor):
        pass

    for _ in range(4):
        x.sum(axis=0), x.reshape(4, 3), x[1:2], ad.concatenate([x, x])
    added = [
        ad.sum.method(ad.Matrix)(lambda x, axis=None, *, dtype=None, keepdims=False: ad.tensor(7.0)),
        ad.reshape.method(ad.Matrix)(lambda x, shape: ad.tensor(8.0)),
    ]
    try:
        assert x.sum(axis=0).item() == 7.0 and x.reshape(4, 3).item() == 8.0
    finally:
        for method in added:
            method.delete()
    assert x.sum(axis=0).shape == (4,) and x.reshape(4, 3).shape == (4, 3)
