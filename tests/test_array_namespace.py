"""`t.__array_namespace__()`: code for any array library finds the functions that take a tensor."""

import numpy as np
import pytest

import autodiff as ad


def standardised(x):
    """A function as libraries write it: by the namespace of its argument."""
    xp = x.__array_namespace__()
    return (x - xp.mean(x, axis=0)) / xp.sqrt(xp.mean(xp.square(x - xp.mean(x, axis=0)), axis=0))


def test_a_function_of_any_array_library_takes_tensors():
    x = np.random.default_rng(0).normal(size=(20, 3))
    y = standardised(ad.tensor(x))
    assert isinstance(y, ad.Tensor)
    np.testing.assert_allclose(y.numpy(), standardised(x), rtol=1e-12)


def test_its_gradient_is_found():
    ad.check_gradients(lambda x: ad.sum(standardised(x) ** 3), np.array([[1.0], [2.0], [4.0]]), order=1)


def test_structured_types_have_the_same_namespace():
    assert ad.Diagonal(ad.tensor([1.0, 2.0])).__array_namespace__() is ad


def test_versions_of_the_standard():
    t = ad.tensor([1.0])
    assert t.__array_namespace__(api_version="2023.12") is ad
    with pytest.raises(ValueError, match=r"(?s)no version '1999\.12'.*test_array_namespace\.py"):
        t.__array_namespace__(api_version="1999.12")
