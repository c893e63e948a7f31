"""`autodiff doctor`: what this installation can do."""

from __future__ import annotations

import platform
from importlib.metadata import version

import numpy as np
import typer

from codegen import compiler

from .app import AsJson, reported, say

__all__ = ["doctor"]


@reported
def doctor(as_json: bool = AsJson) -> None:
    """Report versions, processor, native call path and settings, and check a gradient."""
    facts = _facts()
    failed = [name for name, value in facts.items() if value.startswith("FAILS")]
    width = max(map(len, facts))
    text = "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())
    say({**facts, "ok": not failed}, text, as_json)
    if failed:
        raise typer.Exit(1)


def _facts() -> dict[str, str]:
    import autodiff

    facts = {
        "autodiff": autodiff.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": version("llvmlite"),
    }
    for name, look in (("compiler", compiler.facts), ("a gradient", _gradient), ("native code", _native)):
        try:
            facts.update(look())
        except Exception as error:  # whatever it is: a doctor reports it
            facts[name] = f"FAILS: {type(error).__name__}: {error}"
    return facts


def _gradient() -> dict[str, str]:
    """A gradient through the whole road."""
    from .. import value_and_grad

    value, gradient = value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0, 3.0]))
    right = value == 14.0 and list(gradient) == [2.0, 4.0, 6.0]
    return {"a gradient": "right" if right else f"FAILS: {value}, {gradient}"}


def _native() -> dict[str, str]:
    """One graph through the evaluator and through LLVM."""
    import autodiff as ad

    def f(x):
        return ad.sum(ad.exp(-x * x) * ad.sin(x))

    x = np.linspace(-2.0, 2.0, 1001)
    q = np.exp(-x * x)
    error = np.max(np.abs(ad.jit(ad.grad(f))(x) - (q * np.cos(x) - 2 * x * q * np.sin(x))))
    return {"native code": "agrees with NumPy" if error < 1e-12 else f"FAILS: differs from NumPy by {error}"}
