"""Reliance of cached results on the choices that dispatch made while they were computed.

A compiled trace, or a plan, depends on choices of methods.  It stays valid until a method is registered or deleted
that changes one of these choices; then it is dropped, and no other cached result is.

    with observed() as choices:
        graph = trace(f)                     # each call of a generic function in this block is noted
    choices.on_change(lambda: entries.drop(key))

In a context with observers (`OBSERVERS`), no call takes the warm path, so that every choice is noted.
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
#: The choices that this context collects, innermost last; a copy in a new task may hold some that are finished.
OBSERVERS: ContextVar[tuple[Choices, ...]] = ContextVar("autodiff_observers", default=())
#: Choices collected in any context.  Calls test this set first: reading a context variable without a value is slow.
COLLECTING: set[Choices] = set()


class Choices:
    """Choices of dispatch, by function and question; and a function to call when one of them changes.

    answers   function -> {question: answer}, with the answers of `GenericFunction.answer`
    """

    __slots__ = ("__weakref__", "_drop", "_registered", "answers")

    def __init__(self) -> None:
        self.answers: dict[Any, dict[tuple, Any]] = {}
        self._drop: Callable[[], Any] | None = None
        self._registered = get_cache_token()

    def are_unchanged(self) -> bool:
        """True if the choices are unchanged, even if classes were registered with abstract base classes since."""
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

        The functions hold this object weakly: the code that relies on the choices must keep it.
        """
        self._drop = drop
        for function in self.answers:
            function.watchers[id(self)] = ref(self, partial(function.watchers.pop, id(self)))

    def recheck(self, function: Any) -> None:
        """Call `drop` if a change of `function` gave one of the questions another answer."""
        drop = self._drop
        if drop is None or all(function.answer(q) == a for q, a in self.answers.get(function, {}).items()):
            return
        self._drop = None
        drop()


def add_function(function: Any) -> None:
    """Add a new generic function to those that are alive."""
    _functions.add(ref(function, _functions.discard))


def functions() -> list[Any]:
    """All generic functions that are alive."""
    with Paused():  # no garbage collection, in which a finaliser could remove one from the set
        return [function for r in list(_functions) if (function := r()) is not None]


def _observers() -> tuple[Choices, ...]:
    """The choices that are being collected in this context."""
    return tuple([choices for choices in OBSERVERS.get() if choices in COLLECTING])


def note(function: Any, *question: Any) -> None:
    """Note the answer to a question with all observers of this context."""
    observers = _observers()
    for choices in observers:
        known = choices.answers.setdefault(function, {})
        if question not in known:
            set_in_context(OBSERVERS, ())  # finding the answer makes choices too, which are not noted
            try:
                known[question] = function.answer(question)
            finally:
                set_in_context(OBSERVERS, observers)


def is_observed() -> bool:
    """True if an observer collects the choices made in this context."""
    return bool(OBSERVERS.get() and _observers())


def include(choices: Choices) -> None:
    """Note the choices behind a cached result that is being used: observers then rely on these choices too."""
    for outer in _observers():
        for function, answers in choices.answers.items():
            outer.answers.setdefault(function, {}).update(answers)


@contextmanager
def observed(tracks: bool = True) -> Iterator[Choices]:
    """Collect every choice that dispatch makes in this context in the block.   tracks: False turns gradients off"""
    choices, before, mode = Choices(), OBSERVERS.get(), MODE.get()
    try:  # an interrupt may come at any call from here on
        closely = mode.others["closely", True]  # recording then takes no shortcuts past dispatch
        set_in_context(MODE, closely if tracks else closely.off)
        COLLECTING.add(choices)
        set_in_context(OBSERVERS, (*before, choices))
        yield choices
    finally:
        try:
            COLLECTING.discard(choices)
            set_in_context(OBSERVERS, before)
            set_in_context(MODE, mode)
        finally:  # an interrupt may come at each of these calls
            OBSERVERS.set(before)
            MODE.set(mode)
