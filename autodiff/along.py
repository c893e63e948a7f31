"""Registrations of a class that travel with it where cloudpickle sends it by value: of `__main__`, or without a name.

Its pickle is made of its attributes, so one of them stands for all that was registered for it: its methods
(`dispatch`), and how it is taken apart (`tree`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codegen.lazily import imported

__all__ = ["PARTS", "take_along"]

_NAME = "__autodiff_registered__"

#: The kinds of registrations: name -> (a function that gives those of a class, one that makes them for a class).
PARTS: dict[str, tuple[Callable[[type], Any], Callable[[type, Any], None]]] = {}


class Registered:
    """All that is registered for a class, at the time when it is pickled."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __reduce__(self) -> tuple:
        return _arrived, (self.cls, {name: told(self.cls) for name, (told, _) in PARTS.items()})


def _arrived(cls: type, parts: dict[str, Any]) -> Registered:
    for name, told in parts.items():
        PARTS[name][1](cls, told)
    return Registered(cls)


def take_along(cls: type) -> None:
    """Let a class take along what is registered for it, where cloudpickle would send it by value."""
    module = cls.__module__
    is_sent = module == "__main__" or "<locals>" in cls.__qualname__ or not imported("autodiff.sending").is_found(cls)
    if is_sent and module != "builtins" and not module.startswith("autodiff.") and _NAME not in cls.__dict__:
        try:
            setattr(cls, _NAME, Registered(cls))
        except (AttributeError, TypeError):  # a class that takes no attributes
            return
