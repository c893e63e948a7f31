"""Recording a function on arguments without values where nodes are all that is wanted: loops, `vmap`, `inspect`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from ..config import config
from .lines import Lines
from .record import state

__all__ = ["is_sealed", "looking", "sealed", "told", "tracing"]


@contextmanager
def told() -> Iterator[None]:
    """Keep the lines of all that this thread records inside, by the rules too: for looking, not for speed."""
    now, mark = state.now, object()
    before = now.lines
    config.open[mark] = get_ident()
    config.careful = config.watching = True
    try:  # an interrupt may come at any call from here on
        now.lines = Lines(sys._getframe(2), is_whole=True)
        yield
    finally:
        now.lines.end()
        now.lines = before
        del config.open[mark]
        config.careful, config.watching = config.open != {}, config.open != config.light


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
    mark, thread = object(), get_ident()
    config.open[mark] = config.light[mark] = thread
    config.careful = True
    try:  # an interrupt may come at any call from here on
        now.inside, now.start, now.small, now.tracing = since, 0, [], depth + 1
        yield
    finally:
        now.inside, now.start, now.small, now.tracing = inside, start, small, depth
        del config.open[mark], config.light[mark]
        config.careful, config.watching = config.open != {}, config.open != config.light


class _Sealed(threading.local):
    """Whether this thread runs a function on values that it may not see."""

    is_on = False


_sealed = _Sealed()


@contextmanager
def sealed() -> Iterator[None]:
    """Values are there, for what is recorded to be computed, but the function that runs may not ask for one."""
    before, mark, thread = _sealed.is_on, object(), get_ident()
    config.open[mark] = config.light[mark] = thread
    config.careful = True
    try:  # an interrupt may come at any call from here on
        _sealed.is_on = True
        yield
    finally:
        _sealed.is_on = before
        del config.open[mark], config.light[mark]
        config.careful, config.watching = config.open != {}, config.open != config.light


def is_sealed() -> bool:
    """True inside of `sealed`."""
    return config.careful and _sealed.is_on
