"""Python's operators are calls of the generic functions."""

import operator

import numpy as np
import pytest

import autodiff as ad

from .cases import eager

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, divmod,
]
OF_INTEGERS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
OTHERS = [np.array([2.0, 3.0, 0.5]), np.float64(2.5), np.int64(2), 2, 2.5, True, [1.0, 2.0, 3.0]]


def check(found, wanted):
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            check(one, other)
        return
    assert isinstance(found, ad.Tensor)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-14)


@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("f", BINARY)
def test_operators_record_on_either_side(f, other):
    with eager():
        check(f(ad.tensor(X), other), f(X, other))
        check(f(other, ad.tensor(X)), f(other, X))


@pytest.mark.parametrize("other", [np.array([1, 2, 3]), np.int64(2), 2, True], ids=repr)
@pytest.mark.parametrize("f", OF_INTEGERS)
def test_operators_of_bits_record_on_either_side(f, other):
    x = np.array([[1, 5, -3], [0, 2, 7]])
    with eager():
        check(f(ad.tensor(x), other), f(x, other))
        check(f(other, ad.tensor(np.abs(x))), f(other, np.abs(x)))


@pytest.mark.parametrize("f", [operator.neg, operator.pos, abs])
def test_operators_of_one_tensor_record(f):
    x = np.array([1.26, -2.5, 3.49])
    with eager():
        check(f(ad.tensor(x)), f(x))
        check(round(ad.tensor(x)), np.round(x))
        check(round(ad.tensor(x), 1), np.round(x, 1))
    assert (~ad.tensor([True, False])).tolist() == [False, True]


def test_a_power_with_a_modulus_is_refused():
    with pytest.raises(TypeError):
        pow(ad.tensor([2]), 2, 3)


class Meter:
    """A class of its own that knows how to meet tensors."""

    def __radd__(self, other):
        return "radd"

    def __rmatmul__(self, other):
        return "rmatmul"


def test_other_classes_answer_for_themselves():
    t = ad.tensor([1.0])
    assert t + Meter() == "radd"
    assert t @ Meter() == "rmatmul"
    with pytest.raises(ad.DispatchError):
        ad.add(t, Meter())
    assert t + Meter() == "radd"


def test_what_nobody_can_add_is_a_type_error():
    t = ad.tensor([1.0])
    for other in (None, "a", {}, object()):
        with pytest.raises(TypeError):
            t + other
        with pytest.raises(TypeError):
            other - t


def test_a_tensor_equals_no_other_thing_and_can_be_a_key():
    t = ad.tensor([1.0])
    assert operator.eq(t, None) is False
    assert (t != "a") is True
    assert {t: 1}[t] == 1


class Meters(ad.AbstractTensor):
    """A user's tensor: a length in metres."""

    def __init__(self, value):
        self.value = value


def test_a_users_tensor_has_all_operators_by_methods_and_by_dense():
    @ad.add.method(Meters, Meters)
    def _(x1, x2):
        return Meters(x1.value + x2.value)

    @ad.dense.method(Meters)
    def _(x):
        return x.value

    total = Meters(ad.tensor([1.0])) + Meters(ad.tensor([2.0]))
    assert isinstance(total, Meters)
    with eager():
        assert total.value.tolist() == [3.0]
        assert (2 * total).tolist() == [6.0]
        assert (ad.tensor([1.0]) - total).tolist() == [-2.0]
        assert np.exp(total).tolist() == [np.exp(3.0)]
        assert (-total).tolist() == [-3.0]
        assert (np.ones(1) + total).tolist() == [4.0]


class Opaque(ad.AbstractTensor):
    """A user's tensor without `dense`."""


def test_a_users_tensor_without_dense_is_refused_with_the_line_to_write():
    with pytest.raises(ad.DispatchError, match=r"@ad\.dense\.method\(Opaque\)"):
        Opaque() * 2


def test_a_method_for_a_foreign_class_serves_its_operator():
    class Label:
        pass

    method = ad.multiply.method(ad.Tensor, Label)(lambda x1, x2: "labelled")
    try:
        assert ad.tensor([1.0]) * Label() == "labelled"
    finally:
        method.delete()
    with pytest.raises(TypeError):
        ad.tensor([1.0]) * Label()


def test_a_value_is_found_in_a_tensor():
    t = ad.tensor([1.0, 2.0])
    assert 2.0 in t
    assert 3.0 not in t
    assert 1 in ad.tensor([[0, 1]])


def test_tensors_have_numpys_and_the_usual_methods():
    x = np.array([[0.25, 1.5], [2.5, 0.5]])
    t = ad.tensor(x)
    np.testing.assert_array_equal(t.clip(0.5, 2), x.clip(0.5, 2))
    np.testing.assert_array_equal(t.astype(np.float32), x.astype(np.float32))
    np.testing.assert_array_equal(t.round(), x.round())
    np.testing.assert_allclose(t.exp().log(), x)
    np.testing.assert_allclose(t.softmax(axis=1).sum(axis=1), np.ones(2))
    assert t.reshape(4).shape == t.reshape((4,)).shape == (4,)
    assert t.expand_dims(0).shape == (1, 2, 2)
    assert (len(t), [row.shape for row in t]) == (2, [(2,), (2,)])
    assert round(t, 1).shape == (2, 2)
