"""Under AUTODIFF_NATIVE_CHECKS=1 the tests compare each hash of a recording with its exact key (`exact_keys`)."""

import os
import subprocess
import sys
from pathlib import Path

import autodiff as ad

COMPARED = """
import numpy as np
import exact_keys
exact_keys.compare()
import autodiff as ad
x = ad.tensor(np.arange(100.0), requires_grad=True)
for n in (*[40] * 4, *range(3, 90)):
    (ad.sin(x[:n]) * x[:n]).sum().backward()
print(len(exact_keys._exact))
"""


def test_asks_can_be_compared_with_their_exact_keys(sharing):
    """So that the whole suite can run with AUTODIFF_NATIVE_CHECKS=1."""
    folders = [str(Path(ad.__file__).parents[1]), str(Path(__file__).parent)]
    environment = sharing | {"PYTHONPATH": os.pathsep.join(folders), "AUTODIFF_PATIENCE": "0"}
    done = subprocess.run([sys.executable, "-c", COMPARED], env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    assert int(done.stdout) > 2
