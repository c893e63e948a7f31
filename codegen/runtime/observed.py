"""Observers of steps: a profile puts itself between a program and the steps that it runs.

    observers.append(observer)      observer(program) -> a function of (step, piece) that gives the piece to run instead

They see programs that become executable while they are there; those are not looked for on disk, nor kept there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Observer", "observers"]

#: observer(program) -> exchange(step, piece) -> piece
Observer = Callable[[Any], Callable[[Any, Any], Any]]

observers: list[Observer] = []
