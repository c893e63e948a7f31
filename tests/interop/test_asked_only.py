"""Other libraries are imported when they are asked for, and said to be missing by the way to get them."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import autodiff as ad
assert not any(name in sys.modules for name in ("torch", "jax", "autodiff.interop"))
space = getattr(ad.interop, {name!r})
assert {name!r} not in sys.modules
sys.modules[{name!r}] = None  # as where it is not installed
try:
    getattr(space, {function!r})(abs)
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["torch", "jax"])
@pytest.mark.parametrize("function", ["wrap", "from_{name}"])
def test_a_library_that_is_not_there_is_named_with_the_way_to_get_it(name, function):
    program = PROGRAM.format(name=name, function=function.format(name=name))
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=100)
    assert f"pip install 'autodiff-native[{name}]'" in done.stdout, done.stderr
