"""The explorer: one HTML file with all stages of a function side by side, from the user's source to assembly.

The page is `page.html` with the style, the scripts and the data inserted; it loads nothing else.  Each pane or task has
a script, read in the order of `SCRIPTS`; `vendored/` has third-party libraries, with their licences.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from codegen import compiler
from codegen.ir import Aval, OutOfRange
from codegen.program import BufferProgram, observers

from ..errors import Error, located

__all__ = ["SCRIPTS", "frame", "page", "svg", "timed"]

_HERE = Path(__file__).parent

#: The scripts, in the order in which the page runs them.
SCRIPTS = (
    "data", "selection", "rows", "texts", "kernels", "scene", "layout", "drawing", "box_list", "graph", "search",
    "columns", "details", "main",
)  # fmt: skip


def page(data: Mapping[str, Any]) -> str:
    """The explorer for an inspection's data, as one HTML file without references to other files."""
    # Without a time stamp, so that equal data gives an equal page; 9 is the strongest compression of gzip.
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)
    scripts = "\n".join([_read(f"{name}.js") for name in SCRIPTS])
    parts = {
        "@STYLE@": _read("style.css"),
        "@SCRIPT@": f'"use strict";\n{scripts}',
        "@WORKER@": _read("layout_worker.js"),
        "@GRAPHVIZ@": _read("vendored/graphviz.js"),
        "@D3@": _read("vendored/d3.js"),
        "@TITLE@": html.escape(str(data["name"])),
        "@DATA@": base64.b64encode(packed).decode(),
    }
    return re.sub("|".join(parts), lambda found: parts[found[0]], _read("page.html"))


def frame(text: str) -> str:
    """A page as an iframe of another page, so that its scripts and style do not affect the other, nor the reverse."""
    inside = html.escape(text, quote=True)
    style = "width: 100%; height: 720px; border: 1px solid #8888; resize: vertical"
    return f'<iframe title="autodiff explorer" sandbox="allow-scripts" style="{style}" srcdoc="{inside}"></iframe>'


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


#: Seconds for which a program is run to measure it.
_MEASURED_S = 0.5

#: The most seconds that `dot` may take.  Graphs of some hundred operations take one second.
_PATIENCE = 120


def svg(dot: str) -> str:
    """The drawing as SVG.  Raises Error if Graphviz's program `dot` is not installed, fails, or takes too long."""
    program = shutil.which("dot")
    if program is None:
        raise Error(
            "an SVG is drawn by Graphviz's program `dot`, which is not installed (Debian, Ubuntu, Homebrew: graphviz)\n"
            "  the text for it can be had without (--dot), and the explorer draws by itself (--html)"
        )
    try:
        done = subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise Error(
            f"`dot` did not draw this graph in {_PATIENCE} s; the explorer draws larger ones (--html)"
        ) from None
    if done.returncode:
        raise Error(f"`dot` failed: {done.stderr.strip()}")
    return done.stdout


def _random(aval: Aval, rng: np.random.Generator) -> np.ndarray:
    if aval.dtype.kind in "biu":
        return np.zeros(aval.shape, aval.dtype)
    return (rng.random(aval.shape) + 0.5).astype(aval.dtype)


def _least_times(program: BufferProgram, arguments: Sequence[Any]) -> list[float]:
    """The seconds of each step: the least of as many runs as half a second allows, but three at least."""
    from ..profiling.steps import Clock, Steps  # imported late: only measurements need it

    steps = Steps(Clock())
    observers.append(steps)
    try:
        run = compiler.executable(program).call
    finally:
        observers.remove(steps)
    runs: list[list[float]] = []
    end = perf_counter() + _MEASURED_S
    while len(runs) < 3 or (perf_counter() < end and len(runs) < 1000):
        before = [step.seconds for step in steps.found]
        run(*arguments)
        runs.append([step.seconds - s for step, s in zip(steps.found, before, strict=True)])
    return [min(times) for times in zip(*runs, strict=True)]


def timed(data: Mapping[str, Any], stages: Any, values: Sequence[Any]) -> dict[str, Any]:
    """Run the program of an inspection, and return its data with the `time` of each step, in seconds.

    values   the values of the graph's inputs; for None a random array, of numbers from 0.5 to 1.5 (integers: zeros)
    """
    rng = np.random.default_rng(0)
    avals = [i.aval for i in stages.recorded.inputs]
    arguments = [_random(a, rng) if v is None else np.asarray(v, a.dtype) for a, v in zip(avals, values, strict=True)]
    try:
        times = _least_times(stages.program, arguments)
    except (ArithmeticError, OutOfRange, np.linalg.LinAlgError) as error:
        raise Error(located(
            f"{data['name']} cannot be timed on these arguments: {error}",
            "give arrays in place of types: random numbers stand for an argument that is given as a type",
        )) from None
    steps = [{**step, "time": time} for step, time in zip(data["program"]["steps"], times, strict=True)]
    return {**data, "program": {**data["program"], "steps": steps}}
