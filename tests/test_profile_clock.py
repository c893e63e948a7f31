"""Functions of the library that a profile exchanges: they are there again afterwards."""

import importlib
from operator import attrgetter

import pytest
from work_done import is_watched

import autodiff as ad
from autodiff.profiling import steps


def test_nothing_is_left_behind_and_nothing_costs_when_off():
    functions = _points()
    with ad.profile():
        assert all(f is not g for f, g in zip(functions, _points(), strict=True))
    assert _points() == functions and not is_watched()
    with pytest.raises(ZeroDivisionError), ad.profile() as p:
        1 / 0  # noqa: B018  the error is wanted
    assert _points() == functions and not is_watched() and p.seconds > 0


def _points():
    """The functions that profiles exchange, as they are now."""
    return [attrgetter(name)(importlib.import_module(module)) for module, name, _ in steps.POINTS]
