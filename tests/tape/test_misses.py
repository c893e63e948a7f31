"""Notes of what was recorded or compiled anew, what is told while a program is compiled, and of the disk."""

from __future__ import annotations

import io
import sys
import warnings

import numpy as np
import pytest
from closing_over import parameter, product, summed

import autodiff as ad
from autodiff.tape import misses
from codegen.runtime import disk


@pytest.fixture(autouse=True)
def fresh(nothing_to_explain):
    """Every test begins with empty caches, and with nothing noted."""
    ad.clear_cache()


def last():
    return ad.explain()[-1]


def test_only_the_latest_misses_are_remembered():
    for i in range(2 * misses.LIMIT):
        misses.note("value", f"reason {i}")
    assert len(ad.explain()) == misses.LIMIT
    assert last().reason == f"reason {2 * misses.LIMIT - 1}"


def test_machine_code_on_disk_is_logged(caplog, tmp_path):
    kept = disk.DiskCache(tmp_path / "code")
    with caplog.at_level("DEBUG", logger="autodiff.cache"):
        assert kept.load("key") is None
        kept.store(["key"], b"code", ["f"])
        assert kept.load("key")
    said = [r.getMessage() for r in caplog.records if r.levelname == "DEBUG"]
    assert [text.partition(":")[0] for text in said] == ["not on disk", "kept on disk", "found on disk"]
    assert "4 bytes of machine code" in said[2]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def unrolled(x):
    for _ in range(300):
        x = ad.sin(x) * 0.5
    return x


def test_a_long_compile_is_shown_on_a_terminal_and_names_an_unrolled_loop(monkeypatch):
    monkeypatch.setattr(misses, "AFTER_S", 0.001)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    ad.jit(unrolled)(np.ones(3))
    told, _, shown = terminal.getvalue().partition("\n")
    line = unrolled.__code__.co_firstlineno + 2
    assert told.startswith(f"autodiff: test_misses.py:{line}, in unrolled recorded 600 operations: a Python loop was")
    assert "ad.scan" in told
    assert shown.startswith("\rautodiff: compiling unrolled, ") and shown.endswith(" \r")


def test_a_short_compile_and_one_without_a_terminal_show_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    ad.jit(lambda x: x * 5.25)(np.ones(3))
    assert terminal.getvalue() == ""
    monkeypatch.setattr(misses, "AFTER_S", 0.001)
    monkeypatch.setattr(sys, "stderr", piped := io.StringIO())
    ad.jit(unrolled)(np.ones(5))
    monkeypatch.setattr(sys, "stderr", None)  # pythonw has none
    ad.jit(unrolled)(np.ones(6))
    assert piped.getvalue() == ""


X = np.array([1.0, 2.0, 3.0])


def test_the_line_is_warned_of_once_and_arrays_are_not_kept():
    from autodiff.tape.leaks import LOST as noted

    w = parameter()
    f = product(w)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(5):
            f(X) + w
    assert len(told) == 1
    before = len(noted)
    g = product(w)
    y = g(X)
    assert len(noted) == before + 1
    del y
    assert len(noted) == before
    for _ in range(100):
        summed(w)(X)
    assert len(noted) <= 64
