"""Laws of moves that the sweep cannot see: refusals, and other ways to call them."""

import numpy as np
import pytest

import autodiff as ad

X = np.arange(24.0).reshape(2, 3, 4)


@pytest.fixture
def x():
    return ad.tensor(X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ad.reshape(x, (5, 5)), r"reshape: f64\[2,3,4\] has 24 elements, the shape \(5, 5\) has 25"),
        (lambda x: ad.reshape(x, (-1, 5)), r"reshape: f64\[2,3,4\] does not fit the shape \(-1, 5\)"),
        (lambda x: ad.reshape(x, (-1, -1)), "does not fit"),
        (lambda x: ad.reshape(x, (-2, -12)), "reshape"),
        (lambda x: ad.transpose(x, (0, 1)), "does not order the 3 axes"),
        (lambda x: ad.transpose(x, (0, 1, 1)), "does not order the 3 axes"),
        (lambda x: ad.broadcast_to(x, (3, 4)), r"f64\[2,3,4\] does not broadcast to f64\[3,4\]"),
        (lambda x: ad.broadcast_to(x, (2, 3, 5)), "does not broadcast"),
        (lambda x: ad.squeeze(x, 1), r"axis 1 of f64\[2,3,4\] has extent 3"),
        (lambda x: ad.expand_dims(x, 5), "no axis 5 in the result"),
        (lambda x: ad.expand_dims(x, (0, 0)), "twice"),
        (lambda x: ad.moveaxis(x, (0, 1), 2), "as many axes"),
        (lambda x: ad.flip(x, 3), "flip: no axis 3"),
        (lambda x: ad.matrix_transpose(x[0, 0]), r"f64\[4\] holds no matrix"),
        (lambda x: ad.concatenate([x, x[0]]), r"f64\[2,3,4\], but f64\[3,4\] at 1"),
        (lambda x: ad.concatenate([]), "at least one"),
        (lambda x: ad.concatenate([x[0, 0, 0]]), "0-d"),
        (lambda x: ad.stack([x, x, x[:1]]), r"stack: shapes differ: f64\[2,3,4\], but f64\[1,3,4\] at 2"),
        (lambda x: ad.split(x, 5, axis=2), r"4 along axis 2 of f64\[2,3,4\] is not divided by 5"),
        (lambda x: ad.pad(x, ((1, 2), (3, 4))), "pad: widths"),
        (lambda x: ad.pad(x, -1), "pad: widths"),
        (lambda x: ad.pad(x, 1, constant_values=[1, 2, 3]), "a pair for each axis"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_users_line(x, call, message):
    with pytest.raises(ad.ShapeError, match=message) as error:
        call(x)
    assert "test_shaping.py" in str(error.value)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("value", [0, 2.5])
def test_a_padded_tensor_without_elements_has_a_gradient_without_elements(dtype, value):
    x = ad.zeros((0, 2), dtype=dtype).requires_grad_()
    y = ad.pad(x, ((1, 2), (0, 1)), constant_values=value)
    np.testing.assert_array_equal(y.detach().numpy(), np.full((3, 3), value, dtype))
    ad.sum(ad.real(y)).backward()
    assert x.grad.shape == (0, 2)
    assert ad.vmap(lambda x: ad.pad(x, 1, constant_values=value))(ad.zeros((4, 0, 2), dtype=dtype)).shape == (4, 2, 4)


def test_unknown_modes_of_pad_are_refused_by_name(x):
    with pytest.raises(ValueError, match="mode 'mirror' is none of 'constant', 'edge'"):
        ad.pad(x, 1, mode="mirror")
    with pytest.raises(ValueError, match="mode 'edge' has no stat_length"):
        ad.pad(x, 1, mode="edge", stat_length=2)
    with pytest.raises(ad.ShapeError, match="has nothing for a border of mode 'edge'"):
        ad.pad(np.ones((0, 2)), 1, mode="edge")
    with pytest.raises(ad.ShapeError, match="widths"):
        ad.pad(x, -1, mode="edge")
    with pytest.raises(TypeError, match="an integer"):
        ad.pad(x, 1.5)


def test_a_refused_call_records_nothing(x):
    y = ad.exp(x)
    with pytest.raises(ad.ShapeError):
        ad.reshape(y, (7,))
    np.testing.assert_allclose(y.numpy(), np.exp(X), rtol=1e-15)


def test_methods_take_shapes_and_axes_spread_out_or_together(x):
    for y, expected in [
        (x.reshape(6, 4), X.reshape(6, 4)),
        (x.reshape((6, -1)), X.reshape(6, 4)),
        (x.reshape(-1), X.reshape(-1)),
        (x[0, 0, 0].reshape(()), X[0, 0, 0]),
        (x.transpose(), X.T),
        (x.transpose(1, 0, 2), X.transpose(1, 0, 2)),
        (x.transpose((1, 0, 2)), X.transpose(1, 0, 2)),
        (x.T, X.T),
        (x.mT, X.swapaxes(1, 2)),
        (x.swapaxes(0, 2), X.swapaxes(0, 2)),
        (x.ravel(), X.ravel()),
        (x.flatten(), X.ravel()),
        (x[:1].squeeze(), X[0]),
        (x[:1].squeeze(0), X[0]),
    ]:
        np.testing.assert_array_equal(y.numpy(), expected)


def test_numpys_functions_record(x):
    for call in (
        lambda m, x: m.reshape(x, (6, 4)),
        lambda m, x: m.transpose(x, (2, 0, 1)),
        lambda m, x: m.moveaxis(x, 0, 1),
        lambda m, x: m.concatenate([x, x], axis=1),
        lambda m, x: m.stack((x, x)),
        lambda m, x: m.flip(x, axis=1),
        lambda m, x: m.expand_dims(x, 0),
        lambda m, x: m.broadcast_to(x, (2, 2, 3, 4)),
        lambda m, x: m.pad(x, 1),
        lambda m, x: m.ravel(x),
    ):
        y = call(np, x)
        assert isinstance(y, ad.Tensor)
        np.testing.assert_array_equal(y.numpy(), call(np, X))
        np.testing.assert_array_equal(call(ad, x).numpy(), call(np, X))


def test_a_move_that_changes_nothing_records_nothing(x):
    for y in (x.reshape(2, 3, 4), ad.transpose(x, (0, 1, 2)), ad.broadcast_to(x, (2, 3, 4)), x[...], ad.pad(x, 0)):
        assert y.node is x.node


def test_parts_and_whole_have_each_others_gradients():
    a, b = ad.grad(lambda a, b: ad.sum(ad.concatenate([a, b]) * np.arange(5.0)), argnums=(0, 1))(np.ones(2), np.ones(3))
    np.testing.assert_array_equal(a, [0, 1])
    np.testing.assert_array_equal(b, [2, 3, 4])


def test_split_gives_parts_as_numpy_does(x):
    for arguments in [(2, 2), ([1, 3], 2), ([3, 1], 2), ([-1], 2), ([0, 9], 2), (1, 0)]:
        ours, theirs = ad.split(x, *arguments), np.split(X, *arguments)
        assert [y.shape for y in ours] == [y.shape for y in theirs]
        for y, z in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(y.numpy(), z)
