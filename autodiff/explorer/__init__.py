"""The explorer: one HTML file with all stages of a function side by side, from the user's source to assembly.

    page(data)     the page, from the data of an inspection (docs/reference/inspection-data.md)
    frame(page)    the page inside of another one, for notebooks
    timed, svg     measured times of steps; a drawing by Graphviz's own program

The page is `page.html` with the style, the scripts and the data put in; it fetches nothing.  A script is a file per
pane or idea, read in the order of `SCRIPTS`; `vendored/` has the libraries of others, with their licences.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .svg import svg
from .timing import timed

__all__ = ["SCRIPTS", "frame", "page", "svg", "timed"]

_HERE = Path(__file__).parent

#: In the order in which the page runs them.
SCRIPTS = (
    "data", "selection", "rows", "texts", "kernels", "scene", "layout", "drawing", "box_list", "graph", "search",
    "columns", "details", "main",
)  # fmt: skip


def page(data: Mapping[str, Any]) -> str:
    """The explorer of an inspection's data, as one HTML file without references to others."""
    # Without a time in it, so that equal data is an equal page; 9 is the most that gzip can do.
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)
    parts = {
        **_fixed(),
        "@TITLE@": html.escape(str(data["name"])),
        "@DATA@": base64.b64encode(packed).decode(),
    }
    return re.sub("|".join(parts), lambda found: parts[found[0]], _read("page.html"))


def frame(text: str, height: int = 720) -> str:
    """A page inside of another one: its scripts and style meet nothing of what is around it."""
    inside = html.escape(text, quote=True)
    style = f"width: 100%; height: {height}px; border: 1px solid #8888; resize: vertical"
    return f'<iframe title="autodiff explorer" sandbox="allow-scripts" style="{style}" srcdoc="{inside}"></iframe>'


def _fixed() -> dict[str, str]:
    """The parts that are the same in every page."""
    scripts = "\n".join([_read(f"{name}.js") for name in SCRIPTS])
    return {
        "@STYLE@": _read("style.css"),
        "@SCRIPT@": f'"use strict";\n{scripts}',
        "@WORKER@": _read("layout_worker.js"),
        "@GRAPHVIZ@": _read("vendored/graphviz.js"),
        "@D3@": _read("vendored/d3.js"),
    }


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
