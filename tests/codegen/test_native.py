"""The presence of a native launcher: what it knows of Python is checked, and the environment decides."""

import os
import subprocess
import sys

import pytest

from codegen.runtime import native
from codegen.runtime.recording_objects import HEAD, RawAddress, RawArray, RawDescr, RawObject, RawTuple


def test_the_self_check_refuses_wrong_offsets(monkeypatch):
    if not native.is_native():
        pytest.skip("no native launcher here")
    assert native._matches_live_objects()
    for field, offset in native.OFFSETS.items():
        if field != "DIMS":  # which is followed, not compared: the fields around it confirm it
            with monkeypatch.context() as patch:
                patch.setitem(native.OFFSETS, field, offset + 4)
                assert not native._matches_live_objects(), field


def test_structs_have_their_fields_at_these_offsets():
    at = native.OFFSETS
    raw = RawArray.fields()
    names = ("data", "nd", "dims", "base", "descr", "flags", "allocator")
    assert [raw[name].offset for name in names] == [at[name.upper()] for name in names]
    assert RawDescr.fields()["type"].offset == at["DTYPE"] and at["SCALAR"] == HEAD
    assert RawTuple.fields()["size"].offset == at["SIZE"] and RawAddress.fields()["payload"].offset == at["PAYLOAD"]
    assert RawObject.fields()["type"].offset == at["TYPE"]


def test_the_environment_chooses_the_ctypes_path():
    script = "from codegen.runtime import launcher; print(launcher.is_native())"
    environment = os.environ | {"AUTODIFF_LAUNCHER": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


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
