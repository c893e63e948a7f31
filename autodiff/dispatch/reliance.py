"""Reliance of kept things on the choices that dispatch made while they were made.

A compiled trace, or a plan, has dispatch behind it.  It stays right until a method is registered or
deleted that changes one of the choices it was made with; then it is dropped, and nothing else is.

    with observed() as choices:
        graph = trace(f)                     # every call of a generic function in here is noted
    choices.on_change(lambda: entries.drop(key))

While somebody observes, no thread answers a call from the warm path (`OBSERVING`), so every choice passes by.
"""

from __future__ import annotations

import threading
from abc import get_cache_token
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import ref

from codegen.forks import in_child
from codegen.garbage import Paused, set_in_context

from ..mode import MODE

_functions: set[ref[Any]] = set()
#: Choices that are being collected, in all threads.  What an interrupt kept from being taken out goes with its object.
OBSERVING: set[ref[Any]] = set()


class _Collecting(threading.local):
    """The choices that this thread is collecting, innermost last."""

    def __init__(self) -> None:
        self.open: list[Choices] = []


_collecting = _Collecting()


@in_child
def _forget_other_threads() -> None:
    OBSERVING.clear()
    OBSERVING.update([ref(choices, OBSERVING.discard) for choices in _collecting.open])


class Choices:
    """Choices of dispatch, by function and question; and what to do when one of them changes.

    answers   function -> {question: answer}, as `GenericFunction.answer` gives them
    """

    __slots__ = ("__weakref__", "_drop", "_registered", "answers")

    def __init__(self) -> None:
        self.answers: dict[Any, dict[tuple, Any]] = {}
        self._drop: Callable[[], Any] | None = None
        self._registered = get_cache_token()

    def hold(self) -> bool:
        """True if these are the choices still, after classes were registered with abstract base classes."""
        registered = get_cache_token()
        if self._registered != registered:
            for function in list(self.answers):
                function.see_registered()
            if self._drop is None:
                return False
            self._registered = registered
        return True

    def on_change(self, drop: Callable[[], Any]) -> None:
        """Call `drop` once, when a registration changes one of these choices.

        The functions hold this object weakly: whoever relies on it keeps it.
        """
        self._drop = drop
        for function in self.answers:
            function.watchers[id(self)] = ref(self, partial(function.watchers.pop, id(self)))

    def look_again(self, function: Any) -> None:
        """After a change of `function`: drop what relies on an answer that is another now."""
        drop = self._drop
        if drop is None or all(function.answer(q) == a for q, a in self.answers.get(function, {}).items()):
            return
        self._drop = None
        drop()


def enter(function: Any) -> None:
    """Count a new generic function among those that are alive."""
    _functions.add(ref(function, _functions.discard))


def functions() -> list[Any]:
    """Every generic function that is alive."""
    with Paused():  # a finaliser may drop one meanwhile
        return [function for r in list(_functions) if (function := r()) is not None]


def note(function: Any, *question: Any) -> None:
    """Note a choice with everyone who observes in this thread."""
    if not _collecting.open:
        return
    waiting, _collecting.open = _collecting.open, []  # answering makes choices of its own
    try:
        for choices in waiting:
            if question not in choices.answers.get(function, ()):
                answer = function.answer(question)
                choices.answers.setdefault(function, {})[question] = answer
    finally:
        _collecting.open = waiting


def is_observed() -> bool:
    """True if somebody collects the choices of this thread."""
    return bool(_collecting.open)


def include(choices: Choices) -> None:
    """Note what something relies on that is used while somebody observes."""
    for outer in _collecting.open:
        for function, answers in choices.answers.items():
            outer.answers.setdefault(function, {}).update(answers)


@contextmanager
def observed(tracks: bool = True) -> Iterator[Choices]:
    """Collect every choice that dispatch makes for this thread inside; unless it `tracks`, gradients are off there."""
    choices, opened, mode = Choices(), _collecting.open, MODE.get()
    try:  # an interrupt may come at any call from here on
        closely = mode.others["closely", True]  # recording leaves its shortcuts
        set_in_context(MODE, closely if tracks else closely.off)
        OBSERVING.add(ref(choices, OBSERVING.discard))
        _collecting.open = [*opened, choices]
        yield choices
    finally:
        _collecting.open = opened
        set_in_context(MODE, mode)
        OBSERVING.discard(ref(choices))
