"""Modules that are imported when they are used: each can be the first one, and none is left half done."""

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from codegen.lazily import imported, later

PACKAGES = ["autodiff", "autodiff.cli", "autodiff.control", "autodiff.custom", "autodiff.dispatch", "autodiff.ops",
            "autodiff.structured", "autodiff.tape", "autodiff.transforms", "codegen", "codegen.emit", "codegen.ir",
            "codegen.kernel", "codegen.passes", "codegen.runtime"]  # fmt: skip


@pytest.mark.parametrize("name", PACKAGES)
def test_any_package_may_be_imported_first(name):
    script = f"import {name}, autodiff as ad; print(ad.scan, ad.Diagonal, ad.vmap)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


INTERRUPTED = """
import os, signal
os.kill(os.getpid(), signal.{signal})
whole = sum(range(1000))
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that is interrupted while it is imported: its name."""

    def made(number):
        (tmp_path / "interrupted.py").write_text(INTERRUPTED.format(signal=signal.Signals(number).name))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "interrupted", raising=False)
        return "interrupted"

    yield made
    sys.modules.pop("interrupted", None)


def test_an_interrupt_waits_until_the_module_is_there(module):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            imported(module(signal.SIGINT))
        assert sys.modules["interrupted"].whole == 499500
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_signal_is_handled_after_the_import(module):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append((number, "interrupted" in sys.modules)))
    try:
        assert imported(module(signal.SIGUSR1)).whole == 499500
        assert seen == [(signal.SIGUSR1, True)]
        os.kill(os.getpid(), signal.SIGUSR1)
        assert len(seen) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_module_that_raises_leaves_the_handlers_as_they_were(tmp_path, monkeypatch):
    (tmp_path / "raising.py").write_text("raise ValueError('on purpose')")
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="on purpose"):
        imported("raising")
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_import_as_ever(module, monkeypatch):
    name = module(signal.SIGUSR1)
    monkeypatch.setattr(signal, "signal", None)  # which only the main thread may call
    monkeypatch.setattr(os, "kill", lambda *what: None)
    found = []
    thread = threading.Thread(target=lambda: found.append(imported(name).whole))
    thread.start()
    thread.join()
    assert found == [499500]


@pytest.mark.parametrize("is_main", [True, False])
def test_nothing_is_collected_while_a_module_is_imported(is_main, tmp_path, monkeypatch):
    """A finaliser that runs amid it may ask for the half of the module that is not there yet."""
    names = [f"collected_{is_main}_{way}" for way in ("imported", "later")]
    monkeypatch.syspath_prepend(tmp_path)
    seen = []

    def look():
        seen.append(imported(names[0]).is_on)
        seen.append(later(names[1]).is_on)

    for name in names:
        (tmp_path / f"{name}.py").write_text("import gc\nis_on = gc.isenabled() and gc.get_threshold()[0] < 2**30\n")
    before = gc.get_threshold()
    assert gc.isenabled()
    try:
        if is_main:
            look()
        else:
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
    finally:
        for name in names:
            sys.modules.pop(name, None)
    assert seen == [False, False]
    assert gc.isenabled() and gc.get_threshold() == before
