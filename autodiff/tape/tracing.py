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
    inside, now.inside = now.inside, since
    captures, now.captures = now.captures, {} if now.captures is None else now.captures
    start, now.start = now.start, 0
    small, now.small = now.small, []
    now.tracing += 1
    config.count_trace(1)
    try:
        yield
    finally:
        config.count_trace(-1)
        now.tracing -= 1
        now.small = small
        now.start = start
        now.captures = captures
        now.inside = inside
