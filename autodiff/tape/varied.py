"""The question if the shapes of recorded programs repeat, of late: where they do not, sizes are taken for unknown.

They do not where of the last `config.patience` new shapes fewer than half were used again soon after.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ..config import config
from ..session import owned

__all__ = ["is_varied", "note_compiled", "note_used"]


class _Streak:
    """The plans whose graphs were new last, and which of them were used again soon.

    Time is counted in plans that were made or looked up; what checks answer is not seen here.
    """

    def __init__(self) -> None:
        self.time = 0
        self.made: deque[tuple[Any, int]] = deque(maxlen=64)
        self.soon: set[Any] = set()
        #: The last answer, with the time and the patience that it is for.
        self._found: tuple[int, int, bool] | None = None

    def is_varied(self, patience: int) -> bool:
        """True if of the last new shapes fewer than half were used again soon."""
        found, time = self._found, self.time
        if found is not None and found[0] == time and found[1] == patience:
            return found[2]
        varied = self._is_varied(patience)
        self._found = time, patience, varied
        return varied

    def _is_varied(self, patience: int) -> bool:
        if not patience or len(self.made) < patience:
            return False
        latest = list(self.made)[-patience:]  # at once: other threads add to it
        return 2 * sum([plan in self.soon for plan, _ in latest]) < patience

    def made_new(self, plan: Any) -> None:
        """The graph of a plan was new."""
        self.made.append((plan, self.time + 1))
        self.time += 1  # last: what was found before is found again

    def found(self, plan: Any) -> None:
        """A plan was found by its key."""
        time = self.time + 1
        made = list(self.made)
        if plan not in self.soon and any([p is plan and time - then <= config.patience for p, then in made]):
            self.soon = {*[p for p, _ in made if p in self.soon], plan}
        self.time = time

    def forget(self) -> None:
        """As if none had been made."""
        self.made.clear()
        self.soon.clear()
        self.time += 1


_streak: _Streak = owned(_Streak, _Streak.forget)


def is_varied() -> bool:
    """True if shapes do not repeat, of late."""
    return _streak.is_varied(config.patience)


def note_compiled(plan: Any) -> None:
    """Remember a plan whose graph was new: whether it is used again soon tells if shapes repeat."""
    _streak.made_new(plan)


def note_used(plan: Any) -> None:
    """A plan was found by its key."""
    _streak.found(plan)
