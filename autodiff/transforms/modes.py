"""Modes in which recordings track gradients or not: no_grad, enable_grad, is_grad_enabled.

Grad mode is an immutable value per context: threads and asyncio tasks do not see each other's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

from codegen.garbage import reset_in_context, set_in_context

from ..tape.record import grad_mode

__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "tracking"]


class _Mode:
    """A context manager, re-entrant, that is also a decorator."""

    _value: bool

    def __init__(self) -> None:
        self._tokens: list = []

    def __enter__(self) -> None:
        self._tokens.append(set_in_context(grad_mode, self._value))

    def __exit__(self, *_: object) -> None:
        reset_in_context(grad_mode, self._tokens.pop())

    def __call__(self, f: Callable) -> Callable:
        """Decorate a function: it runs in this mode."""
        mode = type(self)

        @wraps(f)
        def run(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return f(*args, **kwargs)

        return run


class no_grad(_Mode):
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


class enable_grad(_Mode):
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
    return _UNCHANGED if grad_mode.get() else enable_grad()


def is_grad_enabled() -> bool:
    """True if operations are recorded with gradients now.

    >>> import autodiff as ad
    >>> with ad.no_grad():
    ...     ad.is_grad_enabled()
    False
    """
    return grad_mode.get()
