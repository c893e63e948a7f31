"""Wherever memory cannot be had, MemoryError says so, and what is run afterwards is right.

References are right on every way out: what a failure leaves alive is what CPython itself loses (3.11 keeps what a
function was called with where the cell of a variable cannot be made).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("_testcapi", reason="this Python has no way to let memory fail")

PROGRAM = Path(__file__).parent / "failing_memory.py"
#: Allocations, at least.
PROGRAMS = {
    "chain": 30, "in_place": 20, "arrays": 20, "value": 4, "value_of_many": 60, "second_order": 200, "examples": 200,
    "compiled": 1,
}  # fmt: skip


@pytest.mark.skipif(os.environ.get("AUTODIFF_LAUNCHER") == "0", reason="nothing is native")
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_allocation_may_fail(name, sharing):
    command = [sys.executable, "-X", "faulthandler", PROGRAM, name]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, env=sharing)
    assert run.returncode == 0, run.stderr
    failed, left = map(int, run.stdout.split())
    assert failed >= PROGRAMS[name]
    assert left < failed
