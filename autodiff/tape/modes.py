"""Contexts in which a thread records in another mode: with gradients or without, and without values.

    no_grad, enable_grad, tracking    results track gradients, or do not
    tracing, tracing_with_lines       a function is recorded on arguments without values: loops, `vmap`, `inspect`
    keeping_lines                     the lines of all recorded nodes are kept

The mode is a context variable: threads and asyncio tasks do not see each other's modes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any, Never

from codegen.garbage import set_in_context

from ..errors import check_nothing
from ..mode import MODE, Mode
from .lines import Lines
from .record import state


class ModeBlock:
    """A re-entrant context manager of a block that records in another mode."""

    def __init__(self) -> None:
        self._before: list[Mode] = []

    def inside(self) -> Mode:
        """The mode of the block."""
        raise NotImplementedError

    def __enter__(self) -> None:
        self._before.append(MODE.get())
        try:  # an interrupt may come at any call from here on
            set_in_context(MODE, self.inside())
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        # An interrupt at the very start leaves the mode on: only C functions begin without a check for interrupts.
        try:
            set_in_context(MODE, self._before[-1])
        except BaseException:
            MODE.set(self._before[-1])
            raise
        finally:
            self._before.pop()


class _GradMode(ModeBlock):
    """A block that records with gradients or without; it is also a decorator."""

    _value: bool

    def __init__(self, *given: Never, **named: Never) -> None:
        if given or named:
            name = type(self).__name__
            check_nothing(name, f"write `with ad.{name}():`, or `@ad.{name}()` above a function", *given, **named)
        super().__init__()

    def inside(self) -> Mode:
        return MODE.get().on if self._value else MODE.get().off

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

    Gradients still flow through values that were computed before the block.  After `x[i] = v` in the block, elements
    that were set are constants, and gradients flow through the other elements.
    The block has the same meaning in functions under `grad`, `jit`, `vmap` and in loops.

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
    """`enable_grad()`, which costs nothing if gradients are on already."""
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


class within:
    """Record in a mode, with other values of some fields of this thread's recording."""

    __slots__ = ("_before", "_fields", "_held", "_mode", "_now")

    def __init__(self, mode: Mode, **fields: Any) -> None:
        self._mode, self._fields = mode, fields

    def __enter__(self) -> None:
        self._now, self._before = now, before = state.now, MODE.get()
        self._held: dict[str, Any] = {}
        try:  # an interrupt may come at any call from here on
            if self._mode is not before:
                set_in_context(MODE, self._mode)
            for name, value in self._fields.items():
                self._held[name] = getattr(now, name)
                setattr(now, name, value)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            for name, value in self._held.items():
                setattr(self._now, name, value)
            if MODE.get() is not self._before:
                set_in_context(MODE, self._before)
        except BaseException:  # an interrupt may have come in between: once more
            self.__exit__()
            raise


@contextmanager
def keeping_lines() -> Iterator[None]:
    """Keep the lines of all nodes that this thread records in the block, by rules too; slow, so for inspection only."""
    lines = Lines(sys._getframe(2), is_whole=True)
    try:
        with within(MODE.get().others["closely", True], lines=lines):
            yield
    finally:
        lines.end()


@contextmanager
def tracing_with_lines(since: float) -> Iterator[Lines]:
    """Trace as `jit` does, where evaluating an argument raises an error; gives the `Lines` of all recorded nodes.

    since    a number: nodes that were made after it belong to the function
    """
    now = state.now
    with keeping_lines(), tracing(since, outside=now.outside or since):
        lines: Lines = now.lines
        lines.stop = sys._getframe(2)
        yield lines


def tracing(since: float, flag: str = "lightly", **fields: Any) -> AbstractContextManager[None]:
    """Record a function whose arguments have no values: asking for one raises an error, and nothing is evaluated.

    Unlike in `jit`, hidden inputs are not noted: operations are recorded as outside of a trace, natively if possible.
    Numbers are not constants, even if a rule of the library traces.

    since    a number: nodes that were made after it belong to the function
    flag, fields    the flag to set in the mode, "closely" in `jit`; further fields of the recording
    """
    depth, mode = state.now.tracing + 1, MODE.get().others[flag, True]
    # `small` is set too: a later ask could not compute the value of a tensor that a trace has left behind.
    return within(mode, inside=since, start=0, small=[], tracing=depth, literal=False, **fields)
