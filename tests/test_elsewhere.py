"""Names of other libraries: the error about a missing name says the word here."""

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
from autodiff import elsewhere


@pytest.mark.parametrize("name", elsewhere.OF_FUNCTIONS)
def test_a_function_of_another_library_is_answered_with_its_name_here(name):
    with pytest.raises(AttributeError, match=f"module 'autodiff' has no attribute '{name}': ") as error:
        getattr(ad, name)
    assert str(error.value).endswith(elsewhere.OF_FUNCTIONS[name])


@pytest.mark.parametrize("home", ["fft", "linalg", "random", "special"])
def test_a_name_that_is_missing_in_a_module_is_answered_with_its_place(home):
    module = import_module(f"autodiff.{home}")
    for name in module.__all__:
        if not hasattr(ad, name):
            with pytest.raises(AttributeError, match=f"attribute '{name}': it is called ad.{home}.{name} here$"):
                getattr(ad, name)
    for name, told in {"arctan2": "it is called ad.arctan2 here", "PRNGKey": "it is called ad.random.key here"}.items():
        with pytest.raises(AttributeError, match=f"module 'autodiff.{home}' has no attribute '{name}': {told}$"):
            getattr(module, name)
    for nothing in ("nothing_such", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"module 'autodiff.{home}' has no attribute '{nothing}'$"):
            getattr(module, nothing)


def test_distributions_are_not_taken_for_functions_of_their_names():
    with pytest.raises(AttributeError, match=r"module 'autodiff\.random' has no attribute 'gamma'$"):
        _ = ad.random.gamma


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


@pytest.mark.parametrize(("name", "extreme"), [("segment_max", np.maximum), ("segment_min", np.minimum)])
@pytest.mark.parametrize("x", [np.array([1, 5, 2, 5, -1, 3], np.float32), np.arange(12.0).reshape(6, 2) % 7])
def test_the_advised_extremes_of_segments_are_right(name, extreme, x):
    lines = elsewhere.OF_FUNCTIONS[name].removeprefix("write ").removesuffix("; columns by ad.vmap")
    ids, n = np.array([0, 2, 2, 2, 0, 4]), 6

    def extremes(x):
        names = {"ad": ad, "x": x, "ids": ad.asarray(ids), "n": n}
        exec(lines, names)
        return names["y"]

    found = ad.jit(extremes if x.ndim == 1 else ad.vmap(extremes, in_axes=1, out_axes=1))(x)
    wanted = np.full((n, *x.shape[1:]), -np.inf if extreme is np.maximum else np.inf, x.dtype)
    extreme.at(wanted, ids, x)
    np.testing.assert_array_equal(found, wanted, strict=True)


def test_another_missing_name_has_no_hint():
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing_such'$"):
        _ = ad.nothing_such
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing_such'$"):
        _ = ad.tensor([1.0]).nothing_such


@pytest.mark.parametrize(("given", "meant"), [({"dim": 0}, "axis"), ({"keepdim": True}, "keepdims")])
def test_a_parameter_of_another_library_is_answered_with_its_name_here(given, meant):
    with pytest.raises(ad.DispatchError, match=rf"did you mean {meant}=\?"):
        ad.sum(np.ones((2, 2)), **given)


@pytest.mark.parametrize(
    ("call", "way"),
    [
        (lambda x: np.lib.stride_tricks.sliding_window_view(x, 2), "docs/howto/windows"),
        (lambda x: np.block([x, x]), "ad.hstack"),
    ],
)
def test_a_function_of_numpys_that_is_not_here_is_answered_alike(call, way):
    with pytest.raises(ad.GradientError, match=f"has no counterpart here(.|\n)*{way}"):
        ad.grad(lambda x: ad.sum(call(x)))(np.ones(3))


def test_pages_that_are_named_are_there():
    told = " ".join([*elsewhere.OF_FUNCTIONS.values(), *elsewhere.OF_TENSORS.values()])
    for page in re.findall(r"docs/(?:howto|explanation)/[\w-]+", told):
        assert (Path(__file__).parent.parent / f"{page}.md").exists(), page
