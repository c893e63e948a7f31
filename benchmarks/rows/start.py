"""A new process up to its first gradient: import, record, differentiate, compile, run."""

import importlib.util
import os
import subprocess
import sys
import tempfile

TITLE = "process start to first gradient"
CASES = ["chain, nothing kept", "chain, run before"]

OURS = """
import numpy as np, autodiff as ad
f = lambda x: ad.sum(ad.exp(-x * x) * ad.sin(x) + ad.log1p(x * x) * ad.tanh(x))
ad.value_and_grad(f)(np.linspace(-2.0, 3.0, 1000))
"""
NUMPY = """
import numpy as np
x = np.linspace(-2.0, 3.0, 1000)
q, s, t, p = np.exp(-x * x), np.sin(x), np.tanh(x), np.log1p(x * x)
np.sum(q * s + p * t), q * np.cos(x) - 2 * x * q * s + p * (1 - t * t) + 2 * x / (1 + x * x) * t
"""
JAX = """
import jax, numpy as np, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
f = lambda x: jnp.sum(jnp.exp(-x * x) * jnp.sin(x) + jnp.log1p(x * x) * jnp.tanh(x))
np.asarray(jax.jit(jax.value_and_grad(f))(np.linspace(-2.0, 3.0, 1000))[1])
"""
TORCH = """
import torch
x = torch.linspace(-2.0, 3.0, 1000, dtype=torch.float64, requires_grad=True)
(torch.exp(-x * x) * torch.sin(x) + torch.log1p(x * x) * torch.tanh(x)).sum().backward()
"""


def inputs(case):
    return (case,)


def started(text, **environment):
    def run():
        subprocess.run([sys.executable, "-c", text], check=True, env={**os.environ, **environment})
        return 0.0

    return run


def ours(case):
    if case.endswith("kept"):
        return started(OURS, AUTODIFF_CACHE="0")
    return started(OURS, AUTODIFF_CACHE="1", AUTODIFF_CACHE_DIR=tempfile.mkdtemp())


def _find(name):
    """Raise ImportError where a library is not installed."""
    if importlib.util.find_spec(name) is None:
        raise ImportError(name=name)


def numpy(case):
    return started(NUMPY)


def jax(case):
    _find("jax")
    return started(JAX)


def torch(case):
    _find("torch")
    return started(TORCH)
