"""Modes in which recordings track gradients or not: no_grad, enable_grad, is_grad_enabled.

They are part of the mode of a context: threads and asyncio tasks do not see each other's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

from codegen.garbage import set_in_context

from ..mode import MODE

__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "tracking"]


class _GradMode:
    """A context manager, re-entrant, that is also a decorator."""

    _value: bool

    def __init__(self) -> None:
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
