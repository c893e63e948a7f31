"""`autodiff demo`, `cache`, `bench`, `doctor`: a demonstration, the cache on disk, benchmarks, a self-check."""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import typer

from codegen import compiler
from codegen.runtime import disk

from ..errors import Error
from .app import AsJson, say
from .targets import load

#: The benchmarks of a checkout: an installed package has none.
BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "run.py"

_ROWS = typer.Argument(None, metavar="ROW", help="The rows to measure; all by default, which takes minutes.")


def example_file(name: str) -> Path:
    """The file of an example: beside the package in a checkout, inside of it when installed.

    Raises Error when it is in neither place.

    >>> example_file("digits.py").name
    'digits.py'
    """
    package = Path(__file__).resolve().parents[1]
    places = [package.parent / "examples", package / "examples"]
    for place in places:
        if (place / name).is_file():
            return place / name
    raise Error(f"the example {name} is not there: looked in {' and '.join(map(str, places))}")


def run_demo(quiet: bool = False) -> dict[str, Any]:
    """Train the classifier of examples/digits.py, and return its report.

    quiet   True: print nothing

    Raises Error when scikit-learn, which ships the data, is not installed.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise Error(
            "the demo reads scikit-learn's handwritten digits, and scikit-learn is not installed\n"
            "  pip install scikit-learn, or all that the examples need: pip install 'autodiff-native[examples]'"
        )
    return load(str(example_file("digits.py"))).main(quiet=quiet)


def demo(as_json: bool = AsJson) -> None:
    """Train a classifier of handwritten digits with a custom loss, and report compiles and times."""
    report = run_demo(quiet=as_json)
    if as_json:
        say(report, "", as_json)


def cache(
    clear: bool = typer.Option(False, "--clear", help="Remove all machine code that is kept."),
    as_json: bool = AsJson,
) -> None:
    """Report where machine code is kept on disk, and how much.  AUTODIFF_CACHE=0 turns this cache off."""
    kept = disk.default()
    if kept is None:
        say({"folder": None, "objects": 0, "bytes": 0}, "off", as_json)
        return
    if clear:
        disk.DiskCache(kept.folder, limit_bytes=0).prune()
    count, size = kept.held()
    text = f"folder   {kept.folder}\nobjects  {count}\nbytes    {size} of at most {kept.limit_bytes}"
    say({"folder": kept.folder, "objects": count, "bytes": size, "limit_bytes": kept.limit_bytes}, text, as_json)


def bench(
    rows: list[str] = _ROWS,
    threads: int = typer.Option(None, min=1, help="The number of threads; by default that of the cores."),
    rounds: int = typer.Option(7, min=1, help="The number of rounds, whose median is reported."),
    full: bool = typer.Option(False, "--full", help="Measure the largest cases too: minutes more."),
    quiet: bool = typer.Option(False, "--quiet", help="Skip the measurements under CPU load."),
    as_json: bool = AsJson,
) -> None:
    """Time programs beside NumPy, C, JAX, PyTorch and others in one run; a peer that is not installed is left out."""
    if not BENCHMARKS.exists():
        raise Error(
            "the benchmarks are in benchmarks/ of a checkout, and this is an installed package\n"
            "  clone the repository and install it with pip install -e ."
        )
    options = ["--rounds", str(rounds)]
    options += ["--threads", str(threads)] if threads else []
    options += [f"--{name}" for name, is_on in {"full": full, "quiet": quiet, "json": as_json}.items() if is_on]
    sys.stdout.flush()
    raise typer.Exit(subprocess.run([sys.executable, str(BENCHMARKS), *(rows or ()), *options]).returncode)


def doctor(as_json: bool = AsJson) -> None:
    """Report versions, processor, native call path and settings, and check gradients.

    The machine code that all programs share is then on disk; else the second step of a first program waits for it.
    """
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
        except Exception as error:  # any error is a finding, which `doctor` reports
            facts[name] = f"FAILS: {type(error).__name__}: {error}"
    return facts


def _gradient() -> dict[str, str]:
    """A check of a recorded loop by all parts of the library; the machine code that records is made for it."""
    import autodiff as ad

    from ..ops.recorder import is_installed

    w = ad.tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    for _ in range(4):
        w.grad = None
        (w * w).sum().backward()
    told = "right" if w.grad is not None and w.grad.tolist() == [2.0, 4.0, 6.0] else f"FAILS: {w.grad}"
    return {"a gradient": told, "recording": "by machine code" if is_installed() else "in Python"}


def _native() -> dict[str, str]:
    """A check of one compiled gradient against NumPy."""
    import autodiff as ad

    def f(x):
        return ad.sum(ad.exp(-x * x) * ad.sin(x))

    x = np.linspace(-2.0, 2.0, 1001)
    q = np.exp(-x * x)
    error = np.max(np.abs(ad.jit(ad.grad(f))(x) - (q * np.cos(x) - 2 * x * q * np.sin(x))))
    return {"native code": "agrees with NumPy" if error < 1e-12 else f"FAILS: differs from NumPy by {error}"}
