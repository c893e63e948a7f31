"""Bounded tables with counters, which evict the least recently used entries."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from ..forks import renewed_in_child
from ..garbage import Paused

#: The one lock of all tables, reentrant: entries are dropped while it is held, and the finaliser of a dropped entry may
#: use a table again.  So each change under the lock leaves the table consistent at every moment.
_lock = renewed_in_child(globals(), "_lock")


def all_locked() -> AbstractContextManager:
    """The lock that all tables share."""
    return _lock


class LRU:
    """A dictionary of at most `maxsize` entries and `most` total weight, which evicts the least recently used ones.

    hits, misses    counts of `get`, since the table was made (`clear` keeps them)
    evictions       the number of entries that were dropped because the table was full

    Threads may share a table: an entry lost in a race is a miss, never an error.
    """

    __slots__ = ("_clock", "_entries", "_weight", "evictions", "hits", "maxsize", "misses", "most")

    def __init__(self, maxsize: int, most: float = math.inf) -> None:
        if maxsize < 1:
            raise ValueError(f"LRU: maxsize should be at least 1, got {maxsize}")
        self.maxsize, self.most = maxsize, most
        self._weight: float = 0
        self.hits = self.misses = self.evictions = 0
        self._clock = 0
        #: key -> [value, time of last use, weight].  Reordering the dictionary at each use would hash a long key again.
        self._entries: dict[Hashable, list[Any]] = {}

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The entry, which is now the most recently used; `default` when there is none."""
        with _lock:
            entry = self._entries.get(key)
            if entry is None:
                self.misses += 1
                return default
            self.hits += 1
            self._clock = entry[1] = self._clock + 1
            return entry[0]

    def put(self, key: Hashable, value: Any, weight: int = 0) -> None:
        """Store `value`, and evict old entries if the table is full."""
        entry = [value, 0, weight]  # made outside the lock: the collector may run, and a finaliser take another lock
        with _lock:
            entry[1] = self._clock = self._clock + 1
            self._forget(key)
            self._entries[key] = entry
            self._weight += weight
            if len(self._entries) > self.maxsize or self._weight > self.most:
                with Paused():
                    self._evict()

    def _evict(self) -> None:
        """Drop the least recently used sixteenth at once, since finding the oldest entries walks over all of them.

        If the weight is too large, drop entries until it is a sixteenth below the limit; never the last entry.
        """
        # Sorted as pairs: looking up each entry would hash its key, which may be long, again.
        oldest = [key for key, _ in sorted(self._entries.items(), key=lambda pair: pair[1][1])]
        number = max(1, self.maxsize // 16) if len(self._entries) > self.maxsize else 0
        for place, key in enumerate(oldest[:-1] if number < len(oldest) else oldest):
            if place >= number and self._weight <= self.most * 15 / 16:
                break
            self._forget(key)
            self.evictions += 1

    def _forget(self, key: Hashable) -> list[Any] | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[2]
        return entry

    def pop(self, key: Hashable, default: Any = None) -> Any:
        """Remove and return an entry; `default` if there is none."""
        with _lock:
            entry = self._forget(key)
            return default if entry is None else entry[0]

    def clear(self) -> None:
        """Forget every entry."""
        with _lock:
            # The entries are freed after the table is consistent again.
            self._entries, dropped = {}, self._entries
            self._weight = 0
        del dropped

    def values(self) -> list[Any]:
        """All values, without marking them as used."""
        with _lock:
            return [entry[0] for entry in self._entries.values()]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Hashable]:
        with _lock:
            return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)


#: The number of keys in a generation of `LearningFilter`: at least this many latest keys are remembered.
MET = 256
#: The number of new keys that are learnt at their first occurrence; later ones are learnt when they occur again.
AT_ONCE = 64


class LearningFilter:
    """Decides which keys are worth learning: the first ones at once, later ones when they occur again.

    For arrays that grow at each step, learning an operation takes as long as recording it.  At least the last 256 keys
    are remembered, so that two keys that occur by turns do not evict each other.

    at_once    False: no key is learnt at its first occurrence
    """

    def __init__(self, at_once: bool = True) -> None:
        self._at_once = at_once
        self._met: set[Any] = set()
        self._before: set[Any] = set()
        self._new = 0

    def admits(self, what: Any) -> bool:
        """True if the key should be learnt now; the occurrence is noted."""
        if what in self._met or what in self._before:
            return True
        if len(self._met) >= MET:
            self._before, self._met = self._met, set()
        self._met.add(what)
        self._new += 1
        return self._at_once and self._new <= AT_ONCE


class Namespace:
    """The entries of one word in a table that several words share.  The bound is that of the whole table."""

    __slots__ = ("_table", "_word")

    def __init__(self, table: LRU, word: str) -> None:
        self._table, self._word = table, word

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The entry, which is now the most recently used; `default` when there is none."""
        return self._table.get((self._word, key), default)

    def put(self, key: Hashable, value: Any, weight: int = 0) -> None:
        """Store `value`, and evict old entries of the whole table if it is full."""
        self._table.put((self._word, key), value, weight)

    def pop(self, key: Hashable, default: Any = None) -> Any:
        """Remove and return an entry; `default` if there is none."""
        return self._table.pop((self._word, key), default)

    def clear(self) -> None:
        """Forget the entries of this word."""
        for key in self:
            self.pop(key)

    def __iter__(self) -> Iterator[Hashable]:
        entries: Any = self._table
        return iter([key for word, key in entries if word == self._word])

    def __contains__(self, key: Hashable) -> bool:
        return (self._word, key) in self._table

    def __len__(self) -> int:
        return len(list(iter(self)))
