"""Reliance of kept things on the choices that dispatch made while they were made.

A compiled trace, or a plan, has dispatch behind it.  It stays right until a method is registered or
deleted that changes one of the choices it was made with; then it is dropped, and nothing else is.

    with observed() as choices:
        graph = trace(f)                     # every call of a generic function in here is noted
    choices.on_change(lambda: entries.drop(key))

Where somebody observes (`OBSERVERS`), no call is answered from the warm path, so every choice passes by.
"""

from __future__ import annotations

from abc import get_cache_token
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any
from weakref import ref

from codegen.garbage import Paused, set_in_context

from ..mode import MODE

_functions: set[ref[Any]] = set()
#: The choices that are being collected in this context, innermost last, or were when a task copied it.
OBSERVERS: ContextVar[tuple[Choices, ...]] = ContextVar("autodiff_observers", default=())
#: Those that are, in any context.  Calls ask this first: a context variable that has no value is slow to look up.
COLLECTING: set[Choices] = set()


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


def _observers() -> tuple[Choices, ...]:
    """The choices that are being collected here."""
    return tuple([choices for choices in OBSERVERS.get() if choices in COLLECTING])


def note(function: Any, *question: Any) -> None:
    """Note a choice with everyone who observes here."""
    observers = _observers()
    for choices in observers:
        known = choices.answers.setdefault(function, {})
        if question not in known:
            set_in_context(OBSERVERS, ())  # answering makes choices of its own
            try:
                known[question] = function.answer(question)
            finally:
                set_in_context(OBSERVERS, observers)


def is_observed() -> bool:
    """True if somebody collects the choices that are made here."""
    return bool(OBSERVERS.get() and _observers())


def include(choices: Choices) -> None:
    """Note what something relies on that is used while somebody observes."""
    for outer in _observers():
        for function, answers in choices.answers.items():
            outer.answers.setdefault(function, {}).update(answers)


@contextmanager
def observed(tracks: bool = True) -> Iterator[Choices]:
    """Collect every choice that dispatch makes in this context inside; unless it `tracks`, gradients are off there."""
    choices, before, mode = Choices(), OBSERVERS.get(), MODE.get()
    try:  # an interrupt may come at any call from here on
        closely = mode.others["closely", True]  # recording leaves its shortcuts
        set_in_context(MODE, closely if tracks else closely.off)
        COLLECTING.add(choices)
        set_in_context(OBSERVERS, (*before, choices))
        yield choices
    finally:
        try:
            COLLECTING.discard(choices)
            set_in_context(OBSERVERS, before)
            set_in_context(MODE, mode)
        finally:  # an interrupt may come at each of these
            OBSERVERS.set(before)
            MODE.set(mode)
