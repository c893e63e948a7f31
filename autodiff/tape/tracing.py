"""Recording a function on arguments that have no values: in `jit`, in the bodies of loops, in `vmap`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..config import config
from .record import state

__all__ = ["tracing"]


@contextmanager
def tracing(since: float) -> Iterator[None]:
    """Values of arguments cannot be asked for, nothing is evaluated, and what is met is captured.

    since    a number: nodes that were made after it belong to the function
    """
    now = state.now
    inside, captures, start, small, depth = now.inside, now.captures, now.start, now.small, now.tracing
    traces = config.traces
    try:  # an interrupt may come at any call from here on
        now.inside, now.start, now.small, now.tracing = since, 0, [], depth + 1
        if captures is None:
            now.captures = {}
        config.traces = traces + 1
        yield
    finally:
        now.inside, now.captures, now.start, now.small, now.tracing = inside, captures, start, small, depth
        config.traces = traces
