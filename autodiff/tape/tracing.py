"""Recording a function on arguments without values where nodes are all that is wanted: loops, `vmap`, `inspect`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from codegen.garbage import set_in_context

from ..mode import MODE
from .lines import Lines
from .record import state

__all__ = ["looking", "told", "tracing"]


@contextmanager
def told() -> Iterator[None]:
    """Keep the lines of all that this thread records inside, by the rules too: for looking, not for speed."""
    now, mode = state.now, MODE.get()
    before = now.lines
    try:  # an interrupt may come at any call from here on
        set_in_context(MODE, mode.but("closely"))
        now.lines = Lines(sys._getframe(2), is_whole=True)
        yield
    finally:
        if now.lines is not before and now.lines is not None:
            now.lines.end()
        now.lines = before
        set_in_context(MODE, mode)


@contextmanager
def looking(since: float) -> Iterator[Lines]:
    """Trace as inside `jit`, where evaluating an argument raises; gives the lines, which every node keeps.

    since    a number: nodes that were made after it belong to the function
    """
    now = state.now
    before = now.inside, now.outside, now.start, now.small, now.tracing
    with told():
        assert now.lines is not None
        now.lines.stop = sys._getframe(2)
        try:
            now.inside, now.outside, now.tracing = since, now.outside or since, now.tracing + 1
            now.start, now.small = 0, []
            yield now.lines
        finally:
            now.inside, now.outside, now.start, now.small, now.tracing = before


@contextmanager
def tracing(since: float) -> Iterator[None]:
    """Values of arguments cannot be asked for, and nothing is evaluated.

    Unlike in `jit` nobody has to be told what is met: operations are recorded as outside of it, natively if possible.

    since    a number: nodes that were made after it belong to the function
    """
    now = state.now
    inside, start, small, depth = now.inside, now.start, now.small, now.tracing
    mode = MODE.get()
    try:  # an interrupt may come at any call from here on
        set_in_context(MODE, mode.but("lightly"))
        now.inside, now.start, now.small, now.tracing = since, 0, [], depth + 1
        yield
    finally:
        now.inside, now.start, now.small, now.tracing = inside, start, small, depth
        set_in_context(MODE, mode)
