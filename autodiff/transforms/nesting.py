"""Rules and hooks that go back themselves, to any depth.

A backward inside a rule, inside a backward, ... takes about a dozen frames a level, and Python allows a
thousand in all.  Every few levels the work is therefore handed to a new thread, which begins with an
empty stack; the one that handed it over waits.  It records into the same recording and in the same grad
mode, so nothing but the stack is new.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from ..tape.record import state, use

__all__ = ["call_nested"]

#: Levels on one stack: at about 12 frames each they take a third of Python's thousand.
LEVELS = 25


class _Depth(threading.local):
    """The number of rules and hooks that are running on this stack."""

    value = 0


_depth = _Depth()


def call_nested(f: Callable, *args: Any) -> Any:
    """f(*args), for a rule or hook that may ask for gradients itself."""
    _depth.value += 1
    try:
        return f(*args) if _depth.value < LEVELS else _on_a_new_stack(f, args)
    finally:
        _depth.value -= 1


def _on_a_new_stack(f: Callable, args: tuple) -> Any:
    """f(*args) in a new thread that takes this one's place; what it raises is raised here."""
    now = state.now
    result: Any = None
    error: BaseException | None = None

    def run() -> None:
        nonlocal result, error
        use(now)
        try:
            result = f(*args)
        except BaseException as raised:
            error = raised

    thread = threading.Thread(target=copy_context().run, args=(run,), name="autodiff nested backward")
    thread.start()
    thread.join()
    use(now)
    if error is not None:
        raise error
    return result
