"""The modes that a thread records in, as contexts: with gradients or without, and without values.

    no_grad, enable_grad, tracking    results track gradients, or do not
    tracing, looking                  a function is recorded on arguments without values: loops, `vmap`, `inspect`
    told                              the lines of all that is recorded are kept

They are part of the mode of a context: threads and asyncio tasks do not see each other's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any, Never

from codegen.garbage import set_in_context

from ..errors import check_nothing
from ..mode import MODE
from .lines import Lines
from .record import state


class _GradMode:
    """A context manager, re-entrant, that is also a decorator."""

    _value: bool

    def __init__(self, *given: Never, **named: Never) -> None:
        if given or named:
            name = type(self).__name__
            check_nothing(name, f"write `with ad.{name}():`, or `@ad.{name}()` above a function", *given, **named)
        self._before: list[bool] = []

    def __enter__(self) -> None:
        mode = MODE.get()
        self._before.append(mode.tracks)
        set_in_context(MODE, mode.on if self._value else mode.off)

    def __exit__(self, *_: object) -> None:
        mode = MODE.get()
        set_in_context(MODE, mode.on if self._before.pop() else mode.off)

    def __call__(self, f: Callable) -> Callable:
        """Decorate a function: it runs in this mode."""
        mode = type(self)

        @wraps(f)
        def run(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return f(*args, **kwargs)

        return run


class no_grad(_GradMode):
    """Record operations without gradients inside the block; leaves may be updated in place.

    Gradients flow on through values that were computed before the block.  Of `x[i] = v` inside it, the elements that
    are set become constants; gradients flow through the others.
    It means the same inside functions of `grad`, `jit`, `vmap` and loops.

    >>> import autodiff as ad
    >>> w = ad.tensor(1.0, requires_grad=True)
    >>> with ad.no_grad():
    ...     w -= 0.5
    >>> w
    f64[], requires grad 0.5
    """

    _value = False


class enable_grad(_GradMode):
    """Record operations with gradients inside the block, also under `no_grad`.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0, requires_grad=True)
    >>> with ad.no_grad(), ad.enable_grad():
    ...     y = w * w
    >>> y.requires_grad
    True
    """

    _value = True


_UNCHANGED: AbstractContextManager[None] = nullcontext()


def tracking() -> AbstractContextManager[None]:
    """`enable_grad()`, which costs nothing where gradients are on."""
    return _UNCHANGED if MODE.get().tracks else enable_grad()


def is_grad_enabled() -> bool:
    """True if operations are recorded with gradients now.

    >>> import autodiff as ad
    >>> with ad.no_grad():
    ...     ad.is_grad_enabled()
    False
    """
    return MODE.get().tracks


# ---------------------------------------------------------------- without values


@contextmanager
def told() -> Iterator[None]:
    """Keep the lines of all that this thread records inside, by the rules too: for looking, not for speed."""
    now, mode = state.now, MODE.get()
    before = now.lines
    try:  # an interrupt may come at any call from here on
        set_in_context(MODE, mode.others["closely", True])
        now.lines = Lines(sys._getframe(2), is_whole=True)
        yield
    finally:
        kept, now.lines = now.lines, before
        try:
            set_in_context(MODE, mode)
            if kept is not before and kept is not None:
                kept.end()
        finally:  # an interrupt may come before that
            MODE.set(mode)


@contextmanager
def looking(since: float) -> Iterator[Lines]:
    """Trace as inside `jit`, where evaluating an argument raises; gives the lines, which every node keeps.

    since    a number: nodes that were made after it belong to the function
    """
    now = state.now
    outside = now.outside
    with told(), tracing(since):
        assert now.lines is not None
        now.lines.stop = sys._getframe(2)
        try:
            now.outside = outside or since
            yield now.lines
        finally:
            now.outside = outside


@contextmanager
def tracing(since: float) -> Iterator[None]:
    """Values of arguments cannot be asked for, and nothing is evaluated.

    Unlike in `jit` nobody has to be told what is met: operations are recorded as outside of it, natively if possible.
    Numbers are no constants, also where a rule of the library traces.

    since    a number: nodes that were made after it belong to the function
    """
    now = state.now
    inside, start, small, depth, literal = now.inside, now.start, now.small, now.tracing, now.literal
    mode = MODE.get()
    try:  # an interrupt may come at any call from here on
        set_in_context(MODE, mode.others["lightly", True])
        now.inside, now.start, now.small, now.tracing, now.literal = since, 0, [], depth + 1, False
        yield
    finally:
        now.inside, now.start, now.small, now.tracing, now.literal = inside, start, small, depth, literal
        try:
            set_in_context(MODE, mode)
        finally:  # an interrupt may come before that
            MODE.set(mode)
