"""Reads of users' methods that a recording went through without naming them.

A rule names the functions that it calls, and their methods are part of its key (`reads`).  It names no operator, and
nothing that the library's own functions call: `g * Half(g)` runs the user's method of `multiply`, and `ad.softmax(g)`
the one of `exp`.  Which methods ran is known afterwards, from the choices that dispatch made.

    relied = users_methods(choices)
    reading(relied)                     # what they read now: equal as long as they would record the same
"""

from __future__ import annotations

from typing import Any

from ..dispatch import Choices, Method
from .reads import is_fixed, static_key

__all__ = ["reading", "unnamed", "users_methods"]


def users_methods(choices: Choices) -> tuple[Method, ...]:
    """The methods of users, for functions of the library, that were run."""
    found: dict[Method, None] = {}
    for function, answers in choices.answers.items():
        if not is_fixed(function.__module__):
            continue
        for question, answer in answers.items():
            if question[0] in ("method", "run") and type(answer) is tuple and answer[0] is not None:
                found[answer[0]] = None
    return tuple([m for m in found if not is_fixed(m.implementation.__module__)])


def reading(methods: tuple[Method, ...]) -> tuple[Any, ...]:
    """The key of what these methods read now."""
    return tuple([static_key(m.implementation)[0] for m in methods])


def unnamed(methods: tuple[Method, ...]) -> str:
    """Why no key says what these methods read; empty where one does."""
    for method in methods:
        if not static_key(method.implementation)[1]:
            name = method.function.__name__
            return f"the method of {name} ({method.place}) reads what no key can name: it runs each time"
    return ""
