"""Whether there is a native launcher: what it knows of Python is checked, and the environment decides."""

import os
import subprocess
import sys

import pytest

from codegen.runtime import native


def test_the_self_check_refuses_wrong_offsets():
    offsets = native._offsets()
    if not offsets:
        pytest.skip("no native launcher here")
    assert native._is_confirmed(offsets)
    for field in offsets:
        if field != "DIMS":  # which is followed, not compared: the fields around it confirm it
            assert not native._is_confirmed(offsets | {field: offsets[field] + 4}), field


def test_the_environment_chooses_the_ctypes_path():
    script = "from codegen.runtime import launcher; print(launcher.is_native())"
    environment = os.environ | {"AUTODIFF_LAUNCHER": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
