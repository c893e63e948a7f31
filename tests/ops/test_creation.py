"""Creation: the arrays are NumPy's, extents are static, fill values are not."""

import numpy as np
import pytest

import autodiff as ad

from .cases import eager


def same(t, array):
    """Equal in native code and by reference, dtype included."""
    assert t.aval.dtype == array.dtype
    np.testing.assert_array_equal(t.numpy(), array)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(), (0,), 3, (2, 3), [2, 0, 4]], ids=str)
@pytest.mark.parametrize("name", ["zeros", "ones"])
def test_constants_are_numpys(name, shape, dtype):
    same(getattr(ad, name)(shape, dtype), getattr(np, name)(shape, dtype))


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
def test_constants_like_another_take_its_shape_and_dtype(name):
    x = np.ones((2, 3), np.float32)
    assert getattr(ad, name)(x).aval == ad.tensor(x).aval
    assert getattr(ad, name)(x, dtype=ad.int64).dtype == np.int64


@pytest.mark.parametrize(
    ("shape", "value"), [((2, 3), 5), ((), 2.5), ((2,), True), ((2, 3), np.arange(3.0)), ((2,), np.float32(1))]
)
def test_full_is_numpys(shape, value):
    same(ad.full(shape, value), np.full(shape, value))
    same(ad.full(shape, value, dtype=np.float32), np.full(shape, value, dtype=np.float32))


def test_full_keeps_the_gradient_of_its_value():
    with eager():
        assert ad.grad(lambda v: ad.sum(ad.full((2, 3), v)))(1.5) == 6.0


def test_another_fill_value_is_no_other_kind_of_node():
    inputs = [ad.full((3,), c).node.inputs[0] for c in (1.5, 2.5)]
    assert inputs[0].kind is inputs[1].kind


@pytest.mark.parametrize(
    "arguments",
    [(5,), (0,), (2, 7), (7, 2), (7, 2, -2), (1, 10, 3), (0.5,), (0.0, 1.0, 0.1), (1.0, 0.0, -0.25), (2.5, 7), (-3, 3)],
    ids=str,
)
def test_ranges_are_numpys(arguments):
    t, wanted = ad.arange(*arguments), np.arange(*arguments)
    assert t.aval.dtype == wanted.dtype
    np.testing.assert_allclose(t.numpy(), wanted, rtol=1e-15, atol=1e-16)
    assert ad.arange(*arguments, dtype=ad.float32).dtype == np.float32


def test_where_a_range_starts_is_no_part_of_its_kind():
    assert ad.arange(2, 7).node.kind is ad.arange(5, 10).node.kind


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize(
    ("start", "stop", "num"), [(0, 1, 5), (0.1, 0.7, 7), (3, -3, 4), (1, 2, 1), (1, 2, 0), (0, 1, 2)]
)
def test_lines_are_numpys(start, stop, num, endpoint):
    t = ad.linspace(start, stop, num, endpoint=endpoint)
    wanted = np.linspace(start, stop, num, endpoint=endpoint)
    np.testing.assert_allclose(t.numpy(), wanted, rtol=1e-15, atol=1e-16)
    if endpoint and num > 1:
        assert t.numpy()[-1] == stop


@pytest.mark.parametrize("arguments", [(3,), (2, 4), (4, 2, 1), (3, 3, -2), (3, 3, 9), (0,)], ids=str)
def test_identities_are_numpys(arguments):
    same(ad.eye(*arguments), np.eye(*arguments))
    same(ad.eye(*arguments, dtype=ad.bool_), np.eye(*arguments, dtype=np.bool_))


@pytest.mark.parametrize("function", [ad.zeros, ad.ones(3).reshape, lambda shape: ad.Fill(1.0, shape)])
def test_a_long_shape_that_is_none_is_not_told_whole(function):
    with pytest.raises(TypeError, match="a shape is made of integers, not") as error:
        function(np.arange(10_000.0))
    assert len(str(error.value)) < 300


def test_impossible_arrays_are_refused_by_name():
    with pytest.raises(ad.ShapeError, match=r"zeros: extents are not negative: \(2, -1\)"):
        ad.zeros((2, -1))
    with pytest.raises(TypeError, match="ones: a shape is made of integers"):
        ad.ones(2.5)
    with pytest.raises(TypeError, match=r"zeros: [\s\S]* mark the argument static"):
        ad.jit(lambda n: ad.zeros((2, n)))(3)
    with pytest.raises(ad.ShapeError, match=r"full: f64\[3\] does not broadcast to \(2,\)"):
        ad.full(2, np.ones(3))
    with pytest.raises(ValueError, match="arange: the step is 0"):
        ad.arange(0, 5, 0)
    with pytest.raises(ad.DTypeError, match=r"zeros: <class 'numpy\.uint8'> is not a dtype of this library"):
        ad.zeros(3, np.uint8)
    with pytest.raises(TypeError, match="arange: an end, or the step, is a number"):
        ad.arange("5")


def test_lists_of_tensors_and_numbers_are_one_tensor_through_which_gradients_go():
    def turned(angle):
        c, s = ad.cos(angle), ad.sin(angle)
        return ad.asarray([[c, -s, 0], [s, c, 0.0], [0, 0, 1]])

    c, s = np.cos(0.3), np.sin(0.3)
    for jacobian in (ad.jacobian(turned), ad.jit(ad.jacobian(turned))):
        np.testing.assert_allclose(jacobian(0.3), [[-s, -c, 0], [c, -s, 0], [0, 0, 0]])
    np.testing.assert_allclose(ad.vmap(turned)(np.array([0.3, 0.0]))[1], np.eye(3))
    assert ad.jit(turned)(np.float32(0.3)).dtype == np.float32
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    rows = ad.asarray((x, 2 * x, np.ones(2)), dtype=ad.float32)
    ad.sum(rows * rows).backward()
    assert rows.dtype == ad.float32
    np.testing.assert_allclose(x.grad, [10.0, 20.0])


def test_lists_of_tensors_that_make_no_array_are_refused():
    x = ad.tensor([1.0, 2.0])
    for data in ([x[0], [x[1]]], [[x[0]], [x[0], x[1]]]):
        with pytest.raises(ad.DispatchError, match="differ in length or depth"):
            ad.asarray(data)
    with pytest.raises(ad.ShapeError, match=r"f64\[2\], but f64\[\] at 1"):
        ad.asarray([x, x[0]])


@pytest.mark.parametrize("f", [ad.mean, ad.exp, ad.max, lambda x: ad.sum(x, axis=0) * 2, lambda x: ad.add(x, [1, 2])])
def test_a_list_of_tensors_is_an_array_to_every_function(f):
    def listed(x):
        return f([x, [x[0] * 2, 3.0]])

    x = np.array([1.0, 2.0])
    wanted = f(ad.asarray([[1.0, 2.0], [2.0, 3.0]]))
    np.testing.assert_allclose(listed(ad.tensor(x)), wanted, rtol=1e-15)
    np.testing.assert_allclose(ad.jit(listed)(x), wanted, rtol=1e-15)
    ad.check_gradients(listed, x, order=2)
