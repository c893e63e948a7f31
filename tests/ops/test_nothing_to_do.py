"""An operation that has nothing to do, by its extents or its arguments, gives a result of its own all the same."""

import numpy as np
import pytest

import autodiff as ad

#: f(x) for a square matrix x: the same values.
SAME = {
    "x[...]": lambda x: x[...], "x[:]": lambda x: x[:], "x[0:2]": lambda x: x[0:2], "part": lambda x: ad.split(x, 1)[0],
    "reshape": lambda x: x.reshape(2, 2), "expand_dims": lambda x: ad.expand_dims(x, ()), "squeeze": ad.squeeze,
    "transpose": lambda x: ad.transpose(x, (0, 1)), "swapaxes": lambda x: ad.swapaxes(x, 0, 0),
    "moveaxis": lambda x: ad.moveaxis(x, 0, 0), "broadcast_to": lambda x: ad.broadcast_to(x, (2, 2)),
    "flip": lambda x: ad.flip(x, ()), "astype": lambda x: x.astype(ad.float64), "positive": lambda x: +x,
    "real": ad.real, "conj": ad.conj, "power": lambda x: x**1, "sum": lambda x: ad.sum(x, axis=()),
    "prod": lambda x: ad.prod(x, axis=()), "max": lambda x: ad.max(x, axis=()),
    "clip": lambda x: ad.clip(x, None, None), "concatenate": lambda x: ad.concatenate([x]),
    "pad": lambda x: ad.pad(x, 0), "diff": lambda x: ad.diff(x, 0),
    "roll": lambda x: ad.roll(x, (), ()), "rot90": lambda x: ad.rot90(x, 4), "atleast_1d": ad.atleast_1d,
    "atleast_2d": ad.atleast_2d, "atleast_3d": lambda x: ad.atleast_3d(x[None])[0], "vstack": lambda x: ad.vstack([x]),
    "fftshift": lambda x: ad.fft.fftshift(x, axes=()), "full": lambda x: ad.full((2, 2), x),
    "matrix_power": lambda x: ad.linalg.matrix_power(x, 1), "unwrap": lambda x: ad.unwrap(x[..., None])[..., 0],
    "unbroadcast": lambda x: ad.unbroadcast(x, x), "einsum": lambda x: ad.einsum("ij->ij", x), "set": lambda x: put(x),
}  # fmt: skip


def put(x):
    y = ad.zeros((2, 2))
    y[0:2] = x
    return y


@pytest.mark.parametrize("is_leaf", [True, False])
def test_what_has_nothing_to_do_gives_a_result_of_its_own(is_leaf):
    for name, f in SAME.items():
        w = ad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        x = w if is_leaf else w * 1.0
        y = f(x)
        assert y.shape == x.shape and y.requires_grad and not y.is_leaf, name
        loss = ad.sum(y * 3.0 + x * 5.0)
        assert ad.grad(loss, y).tolist() == [[3.0, 3.0], [3.0, 3.0]], name  # what flows through y, not through x
        y = f(x)
        y.register_hook(lambda g: g * 2.0)
        ad.sum(y * 3.0 + x * 5.0).backward()
        assert w.grad.tolist() == [[11.0, 11.0], [11.0, 11.0]], name
        y = f(x)
        y += 1.0  # of a leaf this is refused
        assert x.detach().tolist() == [[1.0, 2.0], [3.0, 4.0]], name
        with ad.no_grad():
            y = f(x)
        assert not y.requires_grad, name


def test_integers_without_nan_are_a_result_of_their_own():
    x = ad.tensor([1, 2])
    y = ad.nan_to_num(x)
    y[0] = 5
    assert x.tolist() == [1, 2]


def test_the_extent_of_a_slice_says_nothing_about_its_gradient():
    x = ad.tensor(np.arange(4.0), requires_grad=True)
    for k in range(1, 5):
        y = x[:k]
        assert ad.grad(ad.sum(y * 3.0) + ad.sum(x), y).tolist() == [3.0] * k


def test_what_is_overwritten_has_a_gradient_of_zero_whatever_its_extent():
    for n in (2, 1):
        for key in (0, slice(0, 1)):
            x = ad.tensor(np.ones((n, 3)), requires_grad=True)
            y = x * 2.0
            y[key] = 5.0
            assert y.requires_grad
            ad.sum(y).backward()
            assert x.grad.tolist() == [[0.0] * 3, [2.0] * 3][:n]
            assert y[0].tolist() == [5.0] * 3


#: f(x) for a row x without elements: zeros.
OF_EMPTY = {
    "segment_sum": lambda x: ad.segment_sum(x, ad.zeros(0, dtype=int), 3),
    "add_at": lambda x: ad.add_at(ad.zeros(3), ad.zeros(0, dtype=int), x),
    "bincount": lambda x: ad.bincount(ad.zeros(0, dtype=int), x, length=3), "diag": lambda x: ad.diag(x, 2),
    "histogram": lambda x: ad.histogram(x, 2, (0.0, 1.0), weights=x)[0],
    "trapezoid": ad.trapezoid, "trapezoid at points": lambda x: ad.trapezoid(x, x),
    "polyval": lambda x: ad.polyval(x, 2.0),
    "trapezoid of one": lambda x: ad.trapezoid(ad.pad(x, (0, 1))), "pad": lambda x: ad.pad(x, 1), "sum": ad.sum,
}  # fmt: skip


@pytest.mark.parametrize("name", OF_EMPTY)
def test_a_result_of_no_elements_has_their_history(name):
    x = ad.tensor(np.zeros(0), requires_grad=True)
    y = OF_EMPTY[name](x)
    assert not np.any(y.detach().numpy())
    ad.sum(y).backward()
    assert x.grad.shape == (0,)
    assert ad.grad(lambda x: ad.sum(OF_EMPTY[name](x)))(np.zeros(0)).shape == (0,)
    assert ad.segment_sum(ad.zeros((0, 2), dtype=int), ad.zeros(0, dtype=int), 1).dtype == ad.int64
