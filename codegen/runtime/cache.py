"""Tables that forget: bounded, least recently used first out, with counters."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from typing import Any

__all__ = ["LRU"]


class LRU:
    """A dictionary of at most `maxsize` entries; the one not used for longest goes first.

    hits, misses    of `get`, since the table was made (`clear` keeps them)
    evictions       entries that went because the table was full

    Threads may share one: an entry lost in a race is a miss, never an error.
    """

    __slots__ = ("_entries", "_lock", "evictions", "hits", "maxsize", "misses")

    def __init__(self, maxsize: int) -> None:
        if maxsize < 1:
            raise ValueError(f"LRU: maxsize should be at least 1, got {maxsize}")
        self.maxsize = maxsize
        self.hits = self.misses = self.evictions = 0
        self._entries: dict[Hashable, Any] = {}
        # Entries are dropped while it is held, and a dropped one may come back here from its finaliser.
        self._lock = threading.RLock()

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The entry, which is now the most recently used; `default` when there is none."""
        with self._lock:
            entries = self._entries
            try:
                # A dictionary keeps the order of insertion: taking out and putting back makes it the youngest.
                value = entries.pop(key)
            except KeyError:
                self.misses += 1
                return default
            entries[key] = value
            self.hits += 1
            return value

    def put(self, key: Hashable, value: Any) -> None:
        """Keep `value`; the oldest entry makes room if it must."""
        with self._lock:
            entries = self._entries
            entries.pop(key, None)
            entries[key] = value
            if len(entries) > self.maxsize:
                del entries[next(iter(entries))]
                self.evictions += 1

    def pop(self, key: Hashable, default: Any = None) -> Any:
        """Take an entry out."""
        with self._lock:
            return self._entries.pop(key, default)

    def clear(self) -> None:
        """Forget every entry."""
        with self._lock:
            # The entries die after the table is consistent again.
            self._entries, dropped = {}, self._entries
        del dropped

    def values(self) -> list[Any]:
        """All entries, the oldest first, without using them."""
        with self._lock:
            return list(self._entries.values())

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Hashable]:
        with self._lock:
            return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)
