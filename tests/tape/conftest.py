"""Recording natively and in Python: what tests of both share."""

import pytest
from spied import Spy

import autodiff as ad
from autodiff.ops import recorder
from autodiff.tape import streak
from codegen.runtime.native import is_native


@pytest.fixture(params=["native", "python"])
def way(request):
    """Both ways of recording; afterwards it is as it was."""
    was_installed = recorder.is_installed()
    _install() if request.param == "native" else recorder.uninstall()
    ad.clear_cache()
    assert recorder.is_installed() == (request.param == "native")
    yield request.param
    recorder.install() if was_installed else recorder.uninstall()


@pytest.fixture
def native():
    """The native recorder is in front."""
    was_installed = recorder.is_installed()
    _install()
    yield
    if not was_installed:
        recorder.uninstall()


def _install():
    """Put the native recorder in front."""
    if not is_native():
        pytest.skip("no native launcher here")
    recorder.install()


@pytest.fixture
def spy(monkeypatch):
    """What is compiled and run."""
    ad.clear_cache()
    found = Spy(streak.compile_graph)
    monkeypatch.setattr(streak, "compile_graph", found)
    yield found
    ad.clear_cache()
