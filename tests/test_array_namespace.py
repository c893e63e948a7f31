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


def test_dtypes_and_their_kinds():
    t = ad.tensor([1], dtype=ad.int32)
    assert ad.result_type(t, ad.float32) == np.float64
    assert ad.result_type(ad.float32, 2.0) == np.float32
    assert ad.result_type(t, np.ones(2, np.float32)) == np.result_type(np.int32, np.float32)
    assert ad.can_cast(ad.float32, ad.float64) and not ad.can_cast(ad.tensor([1.0]), ad.int64)
    assert ad.can_cast(ad.float64, ad.float32, "same_kind")
    assert ad.isdtype(ad.float32, "real floating") and ad.isdtype(t.dtype, ("bool", "integral"))
    assert not ad.isdtype(ad.bool_, "numeric") and ad.isdtype(ad.complex64, ad.complex64)
    assert ad.finfo(ad.tensor([1.0], dtype=ad.float32)).eps == np.finfo(np.float32).eps
    assert ad.iinfo(t).max == 2**31 - 1
    with pytest.raises(ValueError, match=r"(?s)'float' is not the name of a kind.*test_array_namespace\.py.*'numeric'"):
        ad.isdtype(ad.float32, "float")
    with pytest.raises(ad.DTypeError, match="float64 is no integer dtype"):
        ad.iinfo(ad.float64)
    with pytest.raises(ad.DTypeError, match="int64 has no floating point"):
        ad.finfo(ad.int64)
    with pytest.raises(ad.DTypeError, match="not a dtype of this library"):
        ad.result_type(np.uint8)
    assert ad.isdtype(np.uint8, "unsigned integer")  # one that this library does not have has a kind


@pytest.mark.parametrize("asked", [
    lambda x: ad.isdtype(x, "bool"), lambda x: ad.isdtype(ad.float32, x), ad.finfo, ad.iinfo, ad.result_type,
    lambda x: ad.can_cast(x, ad.float64), lambda x: ad.can_cast(ad.float32, x),
])  # fmt: skip
@pytest.mark.parametrize("given", [None, 5, object()])
def test_what_is_no_dtype_is_refused_at_the_users_line(asked, given):
    if asked is ad.result_type and given == 5:
        assert asked(given) == np.int64  # a number has a dtype among others
        return
    with pytest.raises(ad.DTypeError, match=r"(?s)dtype.*test_array_namespace\.py"):
        asked(given)


def test_misuse_is_named():
    with pytest.raises(ad.DispatchError, match=r"(?s)one array or dtype at least.*test_array_namespace\.py"):
        ad.result_type()
    with pytest.raises(ValueError, match=r"(?s)no rule 'nonsense'.*test_array_namespace\.py.*same_kind"):
        ad.can_cast(ad.float32, ad.float64, "nonsense")
    with pytest.raises(TypeError, match="copy"):
        ad.ones(2).copy(deep=True)
    with pytest.raises(ValueError, match=r"(?s)no device 'cuda'.*test_array_namespace\.py"):
        ad.ones(2).to_device("cuda")


def test_the_namespace_describes_itself():
    info = ad.__array_namespace_info__()
    assert info.devices() == ["cpu"] and info.default_device() == "cpu"
    assert set(info.dtypes()) == {"bool", "int32", "int64", "float32", "float64", "complex64", "complex128"}
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    assert info.default_dtypes()["real floating"] == np.float64
    assert info.capabilities()["max dimensions"] == 64
    assert ad.bool is np.bool_ and ad.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="no device 'cuda'"):
        info.dtypes(device="cuda")


#: Functions of the standard that are not there: results whose size depends on values.
MISSING = {"unique_all", "unique_counts", "unique_inverse", "unique_values"}


def test_the_names_of_the_standard_are_there():
    names = """e inf nan newaxis pi bool int32 int64 float32 float64 complex64 complex128
        astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type
        arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros
        zeros_like abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert
        bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor
        floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10
        logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal
        positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc
        take take_along_axis matmul matrix_transpose tensordot vecdot concat expand_dims flip moveaxis permute_dims
        repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where
        unique_all unique_counts unique_inverse unique_values isin argsort sort cumulative_prod cumulative_sum max mean
        min prod std sum var all any diff linalg fft"""
    assert {name for name in names.split() if not hasattr(ad, name)} == MISSING
    transforms = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift"
    assert not [name for name in transforms.split() if not hasattr(ad.fft, name)]
