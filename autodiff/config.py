"""Settings that a program may change while it runs (public as `ad.config`)."""

from __future__ import annotations

import os

__all__ = ["Config", "config"]


class Config:
    """What can be switched, each with the environment variable that sets it at the start.

    eager       evaluate every operation at once by its NumPy reference, to step through with a
                debugger (AUTODIFF_EAGER=1)
    """

    __slots__ = ("_eager", "_traces", "careful")

    def __init__(self) -> None:
        self._traces = 0
        self.careful = False  # what recording looks at: whether anything below is on
        self.eager = os.environ.get("AUTODIFF_EAGER", "0") not in ("", "0")

    @property
    def eager(self) -> bool:
        """Whether every operation is evaluated at once."""
        return self._eager

    @eager.setter
    def eager(self, flag: bool) -> None:
        self._eager = bool(flag)
        self._update()

    def count_trace(self, change: int) -> None:
        """A trace, or keeping lines, begins (1) or ends (-1), in any thread: recording then looks closer."""
        self._traces += change
        self._update()

    def _update(self) -> None:
        self.careful = self._eager or self._traces > 0

    def __repr__(self) -> str:
        return f"config(eager={self.eager})"


config = Config()
