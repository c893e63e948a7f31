"""Objects of Python are read by address only in a Python whose objects are known."""

import sys
import types

import pytest

from codegen.runtime import native, slots

HERE = {"version_info": sys.version_info, "implementation": sys.implementation}
OTHERS = {
    "another implementation": {"implementation": types.SimpleNamespace(name="pypy")},
    "an older version": {"version_info": (3, 10, 14)},
    "a version that was not tried": {"version_info": (3, slots._VERSIONS[1][1] + 1, 0)},
    "a debug build": {"gettotalrefcount": lambda: 0},
    "a build that traces references": {"getobjects": lambda limit: []},
}


def test_this_python_is_known():
    assert slots.is_known_python() and native.is_native()


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_in_a_python_that_is_not_known_no_address_is_followed(other, monkeypatch):
    def followed(*_):
        raise AssertionError("an address was followed")

    monkeypatch.setattr(slots, "sys", types.SimpleNamespace(**HERE | other))
    monkeypatch.setattr(native, "_matches_live_objects", followed)
    monkeypatch.setattr(native, "_unsaid", ["not tried: {}"])
    monkeypatch.setattr(native.ctypes, "string_at", followed)
    assert not slots.is_known_python()
    with pytest.warns(RuntimeWarning, match="not tried: cpython 3"):
        assert not native._is_usable()
    assert not native._is_usable()  # said once


def test_a_build_without_the_interpreters_lock_is_refused(monkeypatch):
    monkeypatch.setattr(slots.sysconfig, "get_config_var", lambda name: 1 if name == "Py_GIL_DISABLED" else None)
    assert not slots.is_known_python()
