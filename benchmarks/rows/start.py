"""The time of a new process up to its first gradient: import, record, differentiate, compile, run.

In the cases `run before` an earlier process has cached code on disk; JAX then uses its compilation cache."""

import importlib.util
import os
import subprocess
import sys
import tempfile

from absence import Absent
from targets import faster

TITLE = "process start to first gradient"
CASES = [
    "chain, nothing kept", "chain, run before", "MLP, nothing kept", "MLP, run before",
    "mixture of 100 operations, nothing kept", "mixture of 100 operations, run before",
]  # fmt: skip
TARGETS = {"nothing kept": [faster(3, "jax")]}
IS_COLD, LOADED = True, False

PROGRAMS = {
    "chain": """
def f(x):
    return lib.sum(lib.exp(-x * x) * lib.sin(x) + lib.log1p(x * x) * lib.tanh(x))
given = [np.linspace(-2.0, 3.0, 1000)]
""",
    "MLP": """
def f(w, b, v, c, x, y):
    return lib.mean((lib.tanh(x @ w + b) @ v + c - y) ** 2)
rng = np.random.default_rng(0)
given = [rng.normal(size=s) for s in ((20, 64), (64,), (64, 1), (1,), (128, 20), (128, 1))]
""",
    "mixture of 100 operations": """
def f(m, s, w, x):
    total = 0.0
    for k in range(9):
        z = (x - m[k]) / s[k]
        total = total + lib.exp(w[k] - 0.5 * z * z) / s[k]
    return lib.sum(lib.log(total)) / lib.sum(lib.exp(w))
given = [np.linspace(-1.0, 1.0, 9), np.linspace(0.5, 1.5, 9), np.linspace(-1.0, 0.0, 9), np.linspace(-2.0, 3.0, 1000)]
""",
}

NUMPY = """
import numpy as np
x = np.linspace(-2.0, 3.0, 1000)
q, s, t, p = np.exp(-x * x), np.sin(x), np.tanh(x), np.log1p(x * x)
np.sum(q * s + p * t), q * np.cos(x) - 2 * x * q * s + p * (1 - t * t) + 2 * x / (1 + x * x) * t
"""


def inputs(case):
    return case.split(", ")


def _started(text, **environment):
    def run():
        # Installed peers have bytecode files; a checkout may write its own at the first run, even if forbidden outside.
        kept = {"PYTHONDONTWRITEBYTECODE": ""}
        subprocess.run([sys.executable, "-c", text], check=True, env={**os.environ, **kept, **environment})
        return 0.0

    return run


def _find(name):
    """Raise ImportError if a library is not installed."""
    if importlib.util.find_spec(name) is None:
        raise ImportError(name=name)


def ours(program, kept):
    text = f"import numpy as np, autodiff as lib\n{PROGRAMS[program]}\nlib.value_and_grad(f)(*given)"
    if kept == "nothing kept":
        return _started(text, AUTODIFF_CACHE="0")
    return _started(text, AUTODIFF_CACHE="1", AUTODIFF_CACHE_DIR=tempfile.mkdtemp())


def numpy(program, kept):
    if program != "chain":
        raise Absent("by hand: the chain only")
    return _started(NUMPY)


def jax(program, kept):
    _find("jax")
    text = f"""
import jax, numpy as np, jax.numpy as lib
jax.config.update("jax_enable_x64", True)
{PROGRAMS[program]}
np.asarray(jax.jit(jax.value_and_grad(f))(*given)[1])
"""
    if kept == "nothing kept":
        return _started(text)
    return _started(
        text, JAX_COMPILATION_CACHE_DIR=tempfile.mkdtemp(), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    )  # fmt: skip


def torch(program, kept):
    _find("torch")
    if kept != "nothing kept":
        raise Absent("keeps nothing")
    return _started(f"""
import numpy as np, torch as lib
{PROGRAMS[program]}
given = [lib.tensor(a) for a in given]
f(given[0].requires_grad_(), *given[1:]).backward()
""")
