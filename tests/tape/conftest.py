"""Recording natively and in Python: what tests of both share."""

import itertools

import pytest
from spied import Spy, try_at_the_first_time

import autodiff as ad
from autodiff.ops import recorder
from autodiff.tape import parts, tier
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
    """The programs that are compiled and run."""
    ad.clear_cache()
    found = Spy(tier.compile_graph)
    monkeypatch.setattr(tier, "compile_graph", found)
    yield found
    ad.clear_cache()


@pytest.fixture
def patience(monkeypatch):
    """The setting that users have; other tests have none, and compile at once.

    The price of compiling stays that of a start.  Else it is what compiling took, in the tests before and in this one:
    thirty times as much on a busy machine, a tenth where the machine code of another test is found.
    """
    ad.clear_cache()
    ad.config.patience, each = 8, tier.prices.seconds_per_operation
    fresh = tier._Prices()
    monkeypatch.setattr(tier.prices, "seconds", fresh.seconds, raising=False)
    yield 8
    ad.config.patience, tier.prices.seconds_per_operation = 0, each
    ad.clear_cache()


@pytest.fixture
def steady_clock(monkeypatch, patience):
    """Each evaluation takes 20 microseconds, by a clock of its own: being busy makes nothing worth compiling."""
    monkeypatch.setattr(tier.prices, "now", itertools.count(0.0, 2e-5).__next__)


@pytest.fixture
def taken_apart(monkeypatch, native):
    """The number of parts of the recordings that were run in parts."""
    found = []
    note_run = parts._note_run

    def noted(cut, *what):
        found.append(len(cut.parts))
        note_run(cut, *what)

    monkeypatch.setattr(parts, "_note_run", noted)
    return found


@pytest.fixture
def at_the_first_time(monkeypatch, patience, native):
    """Recordings are taken apart at the first time already (see `test_lengths`)."""
    try_at_the_first_time(monkeypatch)


@pytest.fixture
def x():
    return ad.tensor([1.0, 10.0, 100.0], requires_grad=True)
