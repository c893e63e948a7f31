"""Reliance of kept things on the choices that dispatch made while they were made.

A compiled trace, or a plan, has dispatch behind it.  It stays right until a method is registered or
deleted that changes one of the choices it was made with; then it is dropped, and nothing else is.

    with observed() as choices:
        graph = trace(f)                     # every call of a generic function in here is noted
    choices.on_change(lambda: entries.drop(key))

While somebody observes, no call is answered from the warm path (`GenericFunction._cache` keeps
nothing), so every choice passes by.  A function gets its cache back when it is called next; so to observe
costs as much as there were functions called since the last time, and otherwise costs a call nothing.
"""

from __future__ import annotations

import threading
from abc import get_cache_token
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import ref

from codegen.forks import in_child, renewed_in_child
from codegen.garbage import Paused, set_in_context

from ..mode import MODE

__all__ = ["NOTHING", "Choices", "cache_now", "enter", "functions", "include", "is_observed", "note", "observed"]


class _KeepsNothing(dict):
    """Stands for a cache while choices are observed."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


_functions: set[ref[Any]] = set()

#: The functions that answer from their caches.
_answering: set[ref[Any]] = set()

#: The cache of a function that was not called since somebody observed.
NOTHING = _KeepsNothing()
_lock = renewed_in_child(globals(), "_lock")
#: Choices that are being collected, in all threads.  What an interrupt kept from being taken out goes with its object.
_observing: set[ref[Any]] = set()


class _Collecting(threading.local):
    """The choices that this thread is collecting, innermost last."""

    def __init__(self) -> None:
        self.open: list[Choices] = []


_collecting = _Collecting()


@in_child
def _forget_other_threads() -> None:
    _observing.clear()
    _observing.update([ref(choices, _observing.discard) for choices in _collecting.open])
    if _observing:  # the parent's other thread may have begun to
        _close_caches()


class Choices:
    """Choices of dispatch, by function and question; and what to do when one of them changes.

    answers   function -> {question: answer}, as `GenericFunction.answer` gives them
    """

    __slots__ = ("__weakref__", "_drop", "_registered", "answers")

    def __init__(self) -> None:
        self.answers: dict[Any, dict[tuple, Any]] = {}
        self._drop: Callable[[], Any] | None = None
        self._registered = get_cache_token()

    @property
    def are_abstract(self) -> bool:
        """True if a class may come to be another choice by being registered with an abstract base class."""
        return any([function.is_abstract for function in self.answers])

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

    def note(self, function: Any, question: tuple, answer: Any) -> None:
        """Remember how a function answered."""
        self.answers.setdefault(function, {})[question] = answer

    def on_change(self, drop: Callable[[], Any]) -> None:
        """Call `drop` once, when a registration changes one of these choices.

        The functions hold this object weakly: whoever relies on it keeps it.
        """
        self._drop = drop
        for function in self.answers:
            with Paused(), _lock:
                if function.watchers is None:
                    function.watchers = {}
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
    with Paused(), _lock:
        _functions.add(ref(function, _functions.discard))


def functions() -> list[Any]:
    """Every generic function that is alive."""
    with Paused(), _lock:
        return [function for r in list(_functions) if (function := r()) is not None]


def note(function: Any, *question: Any) -> None:
    """Note a choice with everyone who observes in this thread."""
    if not _collecting.open:
        return
    waiting, _collecting.open = _collecting.open, []  # answering makes choices of its own
    try:
        for choices in waiting:
            if question not in choices.answers.get(function, ()):
                choices.note(function, question, function.answer(question))
    finally:
        _collecting.open = waiting


def cache_now(function: Any, cache: dict) -> dict:
    """The present cache of a function: one that keeps nothing while somebody observes."""
    with Paused(), _lock:
        if _observing:
            return NOTHING
        _answering.add(ref(function, _answering.discard))
        return cache


def is_observed() -> bool:
    """True if somebody collects the choices of this thread."""
    return bool(_collecting.open)


def include(choices: Choices) -> None:
    """Note what something relies on that is used while somebody observes."""
    for outer in _collecting.open:
        for function, answers in choices.answers.items():
            for question, answer in answers.items():
                outer.note(function, question, answer)


@contextmanager
def observed() -> Iterator[Choices]:
    """Collect every choice that dispatch makes for this thread inside."""
    choices, opened, mode = Choices(), _collecting.open, MODE.get()
    try:  # an interrupt may come at any call from here on
        set_in_context(MODE, mode.but("closely"))  # recording leaves its shortcuts
        with Paused(), _lock:
            _observing.add(ref(choices, _observing.discard))
            _close_caches()
        _collecting.open = [*opened, choices]
        yield choices
    finally:
        _collecting.open = opened
        set_in_context(MODE, mode)
        _observing.discard(ref(choices))


def _close_caches() -> None:
    for reference in list(_answering):
        if (function := reference()) is not None:
            function.close_cache()
    _answering.clear()
