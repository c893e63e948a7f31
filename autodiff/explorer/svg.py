"""A drawing for documents: what Graphviz's own program makes of a text in its language."""

from __future__ import annotations

import shutil
import subprocess

from ..errors import Error

__all__ = ["svg"]

#: Seconds.  Graphs of some hundred operations take one.
_PATIENCE = 120


def svg(dot: str) -> str:
    """The drawing as SVG.  Raises Error where Graphviz's program `dot` is not installed, or gives up."""
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
