"""Progress of a long compile, on a terminal.

    autodiff: compiling loss, 5,300 operations ... 3 s
    autodiff: train.py:14, in loss recorded 5,000 operations: a Python loop was unrolled; ad.scan keeps it a loop

After a second a line appears on stderr if that is a terminal, counts, and is wiped at the end.  The line about a loop
stays.  Nothing is started where stderr is something else.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Any

from codegen.ir import Graph

__all__ = ["AFTER_S", "compiled_in_sight", "unrolled"]

#: Seconds after which a compile is shown, and between two words about it.
AFTER_S = 1.0

#: Operations that one line records at least, and of all at least one in so many, to count as an unrolled loop.
MANY, PART = 100, 4


def compiled_in_sight(graph: Graph, compile_graph: Callable[[Graph], Any]) -> Any:
    """The executable of a graph; a terminal is told where it takes long."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return compile_graph(graph)
    told = unrolled(graph) if len(graph.nodes) >= MANY else ""
    shown = _TerminalLine(stream, f"autodiff: compiling {graph.name}, {len(graph.nodes):,} operations", told)
    try:
        return compile_graph(graph)
    finally:
        shown.end()


def unrolled(graph: Graph) -> str:
    """Words about the line that recorded many of the operations of a graph, whose trace noted lines; else nothing."""
    graph.tell()
    counts = Counter([str(o.lines[0]) for n in graph.nodes for o in n.origins if o.lines and o.half == "forward"])
    for line, count in counts.most_common(1):
        if count >= MANY and count * PART >= len(graph.nodes) / 2:
            return (
                f"autodiff: {line} recorded {count:,} operations: a Python loop was unrolled; ad.scan keeps it a loop, "
                "which is compiled once"
            )
    return ""


class _TerminalLine:
    """A line on a terminal, written again every second from the first on."""

    def __init__(self, stream: Any, text: str, told: str) -> None:
        self._stream, self._text, self._told = stream, text, told
        self._began = monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="autodiff progress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        width = 0
        while not self._ended.wait(AFTER_S):
            if self._told and not width:
                self._stream.write(f"{self._told}\n")
            line = f"{self._text} ... {monotonic() - self._began:.0f} s"
            width = max(width, len(line))
            self._stream.write(f"\r{line}")
            self._stream.flush()
        if width:
            self._stream.write(f"\r{' ' * width}\r")
            self._stream.flush()

    def end(self) -> None:
        """Wipe the line."""
        self._ended.set()
        self._thread.join()
