"""Programs of the native recorder, by the operands that they are recorded for.

    table.learn(table.age, keys, mode, program)   `recorder_tables` finds it from now on
    table.forget()                                and no more

Tables and programs are words in memory that machine code reads under the interpreter's lock; beside them the
objects whose addresses the words are, so that nothing goes while it can be found.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import weakref
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ..forks import held_over_fork
from ..garbage import Paused

#: An entry: first key, the others with what is static, mode, owner, program.
ENTRY_WORDS = 5
#: A table has this many sets, and an entry is in any of the WAYS places of its own.
SETS, WAYS = 64, 4
#: An odd number near 2**64 over the golden ratio (Knuth, TAOCP 3, 6.4).
SPREAD = 0x9E3779B97F4A7C15
#: Operands that have keys, and static arguments that a call can have: beyond the operands, by position or by name.
MOST_OPERANDS, MOST_STATICS = 16, 4
#: Extents of an array that are looked at.
MOST_EXTENTS = 4
#: Index arrays of a program; elements that those have whose values are looked at.
MOST_BOUNDS, MOST_KNOWN = 4, 256
#: A program: steps, kind of a number, operands, how many of these have keys, how many arguments are static, how many
#: index arrays; all keys but the first; name and value of each static argument (or two words); of each index array
#: which operand it is, for which extent; then the steps.
KEYED, N_STATICS, FIRST_KEY = 3, 4, 6
FIRST_STATIC = FIRST_KEY + MOST_OPERANDS - 1
FIRST_BOUND = FIRST_STATIC + 2 * MOST_STATICS
PROGRAM_WORDS = FIRST_BOUND + 2 * MOST_BOUNDS
#: Operands and steps of a program.
MOST_NODES = 64

#: The number of sites of each sort, and the first one: see `recorder_sites`.  Comparisons and those that are alone have
#: one function.
COUNTS = {
    "binary": 16, "unary": 8, "compare": 6, "power": 1, "subscript": 1, "assign": 1, "called": 1, "method": 64,
    "in_place": 16,
}  # fmt: skip
FIRST = dict(zip(COUNTS, accumulate(COUNTS.values(), initial=0), strict=False))
#: A function of the recorder, by which its code is known.
RECORDER = "recorder_here"
#: A site: table, `slow`, `unknown`, which arguments are operands.
SITE_WORDS = 4

#: Re-entrant: an entry may be dropped, by the garbage collector, while another is learnt.
_lock = held_over_fork(threading.RLock())


#: A node of a program: its kind, its value (None: pending), its inputs by number: operands, then steps.
Step = tuple[Any, Any, tuple[int, ...]]


class RecordedProgram:
    """A recording for given operands: steps, the last of which is the result.

    number_kind   of the leaf that is made of an operand that is a number: of its value as a float
    bounds        operands that are index arrays, with the extents they are for: if their values are known and
                  outside, nothing is recorded
    choices       an object that lives as long as the program
    """

    __slots__ = ("_held", "_keys", "_words", "choices", "operands")

    def __init__(
        self,
        operands: int,
        steps: Sequence[Step],
        *,
        number_kind: Any = None,
        bounds: Sequence[tuple[int, int]] = (),
        choices: Any = None,
    ) -> None:
        if not fits(operands, steps):
            raise ValueError("a program of too many nodes, or whose steps read what is not there yet")
        words = [len(steps), id(number_kind), operands, 0, 0, len(bounds)]
        words += [0] * (FIRST_BOUND - FIRST_KEY)
        words += [word for pair in bounds for word in pair]
        words += [0] * (PROGRAM_WORDS - len(words))
        for kind, value, inputs in steps:
            words += [id(kind), id(value), len(inputs), *inputs]
        self.operands, self.choices = operands, choices
        self._keys: tuple = ()
        self._held = (tuple(steps), number_kind)
        self._words = (ctypes.c_int64 * len(words))(*words)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._words)

    def belongs_to(self, keys: Sequence[Any], statics: Sequence[tuple[Any, Any]], are_words: bool) -> None:
        """Say exactly what it is for: keys of operands, and static arguments by name, or pairs of words."""
        words = self._words
        self._keys = tuple(keys)
        for place, key in enumerate(keys[1:], FIRST_KEY):
            words[place] = id(key)
        words[KEYED], words[N_STATICS] = len(keys), len(statics)
        for place, pair in enumerate(statics):
            at = FIRST_STATIC + 2 * place
            words[at : at + 2] = list(pair) if are_words else [_name(pair[0]), id(pair[1])]


def _name(name: str | None) -> int:
    return 0 if name is None else id(name)


def fits(operands: int, steps: Sequence[Step]) -> bool:
    """True if a program can have these steps."""
    count = operands + len(steps)
    are_behind = all(0 <= i < place for place, step in enumerate(steps, operands) for i in step[2])
    return len(steps) > 0 and count <= MOST_NODES and are_behind


class _Entries:
    """The entries of a table: words, and by their places what they are the addresses of.

    turns   of each set that is full: which of its places is written next
    """

    __slots__ = ("held", "turns", "words")

    def __init__(self) -> None:
        self.words: Any = None
        self.held: dict[int, tuple] = {}
        self.turns: dict[int, int] = {}

    @property
    def address(self) -> int:
        return ctypes.addressof(self.words)

    def put(self, keys: tuple[int, int, int], program: RecordedProgram | None, held: tuple) -> None:
        """Write an entry; where its set is full, the oldest there goes."""
        if self.words is None:
            self.words = (ctypes.c_int64 * (SETS * WAYS * ENTRY_WORDS))()
        words = self.words
        first = _set(*keys[:2]) * WAYS
        places = range(first, first + WAYS)
        same = [p for p in places if p in self.held and tuple(words[p * ENTRY_WORDS : p * ENTRY_WORDS + 3]) == keys]
        free = [p for p in places if p not in self.held]
        turn = self.turns.get(first, 0)
        if not same and not free:
            self.turns[first] = (turn + 1) % WAYS
        place = [*same, *free, first + turn][0]
        at = place * ENTRY_WORDS
        old = self.held.get(place)
        # Another thread may look between any two of these lines: the entry is empty meanwhile.
        words[at] = 0
        for i, word in enumerate((*keys[1:], id(program), 0 if program is None else program.address), 1):
            words[at + i] = word
        self.held[place] = held
        words[at] = keys[0]
        del old


_tables: weakref.WeakSet[RecordTable] = weakref.WeakSet()


def forget_all() -> None:
    """Drop the entries of every table."""
    for table in list(_tables):
        table.forget()


class RecordTable:
    """The programs of one function, by operands and grad mode.

    age   how often it was emptied: what was found out before that must not be learnt any more
    """

    __slots__ = ("__weakref__", "_beside", "_cell", "_entries", "age")

    def __init__(self) -> None:
        self.age = 0
        self._beside: list[RecordTable] = []
        self._cell = ctypes.c_int64(0)
        self._entries = _Entries()
        _tables.add(self)

    @property
    def address(self) -> int:
        """Of the word that has the address of the entries, or 0."""
        return ctypes.addressof(self._cell)

    def __len__(self) -> int:
        return len(self._entries.held)

    def learn(
        self,
        age: int,
        keys: Sequence[Any],
        mode: bool,
        program: RecordedProgram | None,
        statics: Sequence[tuple[Any, Any]] = (),
        *,
        are_words: bool = False,
    ) -> None:
        """Record this program from now on; None: it is no use asking again, `slow` is called.

        statics   name (None: by position) and value of arguments that are the same each time, or pairs of words
        """
        if program is not None:
            program.belongs_to(keys, statics, are_words)
        with Paused(), _lock:
            if age != self.age:
                return
            entries = self._entries
            others = _mixed(keys, statics, are_words)
            entries.put((id(keys[0] if keys else None), others, id(mode)), program, (keys, statics, program))
            self._cell.value = entries.address
            # The garbage collector may have run code meanwhile that made this table forget.
            if entries is not self._entries:
                self._cell.value = 0

    def another(self) -> RecordTable:
        """A table of its own that forgets when this one does."""
        made = RecordTable()
        self._beside.append(made)
        return made

    def forget(self) -> None:
        """Drop every entry."""
        for table in self._beside:
            table.forget()
        with _lock:
            self.age += 1
            self._cell.value = 0
            entries, self._entries = self._entries, _Entries()
        del entries  # what they hold may run code of its own when it goes


def _mixed(keys: Sequence[Any], statics: Sequence[tuple[Any, Any]], are_words: bool) -> int:
    """All keys but the first, with what is static, as a signed word: as machine code mixes them."""
    word = 0
    for key in keys[1:]:
        word = word * 31 + id(key)
    for name, value in statics:
        word = word * 31 + (name + value if are_words else _name(name) + _bits(value))
    return (word + (1 << 63)) % (1 << 64) - (1 << 63)


def _bits(value: Any) -> int:
    """The bits of a static argument in a key: see `recorder_tables`."""
    if type(value) is tuple:
        word = len(value)
        for item in value:
            word = word * 31 + _atom(item)
        return word
    return _atom(value)


def _atom(value: Any) -> int:
    if type(value) is int:
        return value if -(1 << 63) <= value < 1 << 63 else id(value)
    return struct.unpack("q", struct.pack("d", value))[0] if type(value) is float else id(value)


def _set(key1: int, key2: int) -> int:
    """The place of an entry: the highest bits of a product, which addresses and small numbers alike spread over.

    Keys that change sides, as those of `x * a` and `a * x`, are not the same.
    """
    return ((key1 * 31 + key2) * SPREAD & (1 << 64) - 1) >> 64 - (SETS - 1).bit_length()
