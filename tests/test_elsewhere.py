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


@pytest.mark.parametrize(
    ("module", "name", "told"), [(m, *item) for m, names in elsewhere.OF_MODULES.items() for item in names.items()]
)
def test_a_function_of_a_module_of_another_library_is_answered_alike(module, name, told):
    with pytest.raises(AttributeError) as error:
        getattr(import_module(module), name)
    assert str(error.value) == f"module {module!r} has no attribute {name!r}: {told}"


@pytest.mark.parametrize("home", elsewhere.OF_MODULES)
def test_a_function_that_is_in_another_of_our_modules_is_found_there(home):
    module = import_module(home)
    for name in module.__all__:
        if not hasattr(ad, name):
            with pytest.raises(AttributeError, match=rf"attribute '{name}': it is called ad\.\w+\.{name} here$"):
                getattr(ad, name)
    with pytest.raises(AttributeError, match=r"no attribute 'arctan2': it is called ad\.arctan2 here$"):
        _ = module.arctan2
    for nothing in ("nothing_such", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"module '{home}' has no attribute '{nothing}'$"):
            getattr(module, nothing)


@pytest.mark.parametrize("name", elsewhere.OF_TENSORS)
def test_a_method_of_another_library_is_answered_with_its_name_here(name):
    with pytest.raises(AttributeError, match=rf"'Tensor\[float64, 1\]' object has no attribute '{name}': "):
        getattr(ad.tensor([1.0]), name)
    assert not hasattr(ad.tensor([1.0]), name)


def test_what_is_advised_is_there():
    tables = elsewhere.OF_FUNCTIONS, elsewhere.OF_TENSORS, *elsewhere.OF_MODULES.values()
    told = " ".join([words for table in tables for words in table.values()])
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
