"""What other libraries call otherwise: the error about a missing name says the word here; operators take arrays."""

import re

import numpy as np
import pytest

import autodiff as ad
from autodiff import elsewhere


@pytest.mark.parametrize("name", elsewhere.OF_FUNCTIONS)
def test_a_function_of_another_library_is_answered_with_its_name_here(name):
    with pytest.raises(AttributeError, match=f"module 'autodiff' has no attribute '{name}': ") as error:
        getattr(ad, name)
    assert str(error.value).endswith(elsewhere.OF_FUNCTIONS[name])


@pytest.mark.parametrize("name", elsewhere.OF_TENSORS)
def test_a_method_of_another_library_is_answered_with_its_name_here(name):
    with pytest.raises(AttributeError, match=rf"'Tensor\[float64, 1\]' object has no attribute '{name}': "):
        getattr(ad.tensor([1.0]), name)
    assert not hasattr(ad.tensor([1.0]), name)


def test_what_is_advised_is_there():
    told = " ".join([*elsewhere.OF_FUNCTIONS.values(), *elsewhere.OF_TENSORS.values()])
    for path in re.findall(r"\bad\.([\w.]*\w)", told):
        found = ad
        for part in path.split("."):
            found = getattr(found, part)
    for method in re.findall(r"called (\w+) here", " ".join(elsewhere.OF_TENSORS.values())):
        assert hasattr(ad.Tensor, method)


def test_another_missing_name_has_no_hint():
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing_such'$"):
        _ = ad.nothing_such
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing_such'$"):
        _ = ad.tensor([1.0]).nothing_such


@pytest.mark.parametrize(("given", "meant"), [({"dim": 0}, "axis"), ({"keepdim": True}, "keepdims")])
def test_a_parameter_of_another_library_is_answered_with_its_name_here(given, meant):
    with pytest.raises(ad.DispatchError, match=rf"did you mean {meant}=\?"):
        ad.sum(np.ones((2, 2)), **given)


class Column:
    """As a column of pandas: it leaves operators to what has a higher priority, and is an array to NumPy."""

    __pandas_priority__ = 3000

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __mul__(self, other):
        if getattr(other, "__pandas_priority__", 0) > self.__pandas_priority__:
            return NotImplemented
        return Column(self.values * np.asarray(other))

    __rmul__ = __mul__


class Lent:
    """As an array of PyTorch: it speaks DLPack, and does not know tensors."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __mul__(self, other):
        return NotImplemented


@pytest.mark.parametrize("kind", [Column, Lent])
@pytest.mark.parametrize("product", [lambda w, c: w * c, lambda w, c: c * w], ids=["left", "right"])
def test_in_an_operator_with_an_array_of_another_library_the_tensor_wins(kind, product):
    c = kind([1.0, 2.0])
    np.testing.assert_array_equal(ad.grad(lambda w: ad.sum(product(w, c)))(np.ones(2)), [1.0, 2.0])
    w = ad.tensor([1.0, 1.0], requires_grad=True)
    ad.sum(product(w, c)).backward()
    np.testing.assert_array_equal(w.grad, [1.0, 2.0])


def test_an_object_that_is_merely_readable_keeps_its_own_operator():
    class Quantity:
        def __array__(self, dtype=None, copy=None):
            return np.ones(2)

        def __rmul__(self, other):
            return "its own"

    assert ad.tensor([1.0, 2.0]) * Quantity() == "its own"
