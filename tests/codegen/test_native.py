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


class Busy:
    """Code that is being made all the time."""

    def is_done(self):
        return False


@pytest.mark.parametrize(("is_kept", "patience"), [(False, native.PATIENT), (True, native.PATIENT_KEPT)])
@pytest.mark.parametrize("arrays", [1, 6, 44])
def test_the_launcher_is_waited_for_when_so_many_arrays_have_gone_without(monkeypatch, is_kept, patience, arrays):
    asked = []
    monkeypatch.setattr(native, "_begun", [Busy()])
    monkeypatch.setattr(native, "_gone_without", [0])
    monkeypatch.setattr(native, "_is_kept", lambda: asked.append(1) or is_kept)
    gone = 0
    while not native.begin(arrays):
        gone += arrays
        assert gone < native.PATIENT_KEPT or asked  # before that nobody looks at the disk
    assert patience - arrays <= gone < patience
    monkeypatch.setattr(Busy, "is_done", lambda self: True)
    monkeypatch.setattr(native, "_gone_without", [0])
    assert native.begin(arrays)


def test_whether_the_launcher_is_kept_is_what_the_disk_says(tmp_path):
    script = (
        "from codegen.runtime import native\n"
        "before = native._is_kept()\n"
        "native.native()\n"
        "native._is_kept.cache_clear()\n"
        "print(before, native._is_kept())\n"
    )
    environment = os.environ | {"AUTODIFF_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["AUTODIFF_CACHE"] = "1"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n" or not native.is_native()


_SMALL = """
import resource
import numpy as np
import autodiff as ad
x = np.arange(10.0)
w = ad.tensor(x, requires_grad=True)
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + {room}, in_use + {room}))
f = ad.jit(lambda x: ad.sum(ad.exp(x) * x))
for _ in range(30):
    assert np.isclose(f(x), (np.exp(x) * x).sum())
    ad.sum(w * w * 1.5).backward()
    assert w.grad.tolist() == (3.0 * x).tolist()
    w.grad = None
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the room is set as on Linux")
@pytest.mark.parametrize("megabytes", [20, 80])
@pytest.mark.parametrize("patience", [0, 2])
def test_where_there_is_no_memory_for_machine_code_numpy_evaluates(megabytes, patience):
    program = _SMALL.format(room=megabytes << 20)
    environment = os.environ | {"AUTODIFF_PATIENCE": str(patience), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr[-2000:]
