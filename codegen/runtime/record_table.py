"""Programs of the native recorder, by the operands that they are recorded for.

    table.learn(table.age, keys, mode, program)   `recorder_tables` finds it from now on
    table.forget()                                and no more

Tables and programs are words in memory that machine code reads under the interpreter's lock; beside them the
objects whose addresses the words are, so that nothing goes while it can be found.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from ..forks import held_over_fork
from ..garbage import Paused
from .cache import Room

#: The least number of places that a table has, of which half are filled at most; a table that is to have more programs
#: than the other number forgets those it has.
FEWEST, MOST = 64, 1024
#: An odd number near 2**64 over the golden ratio (Knuth, TAOCP 3, 6.4).
SPREAD = 0x9E3779B97F4A7C15
#: Operands that have keys, and static arguments that a call can have: beyond the operands, by position or by name.
MOST_OPERANDS, MOST_STATICS = 16, 4
#: Extents of an array that are looked at.
MOST_EXTENTS = 4
#: Index arrays of a program; elements that those have whose values are looked at.
MOST_BOUNDS, MOST_KNOWN = 4, 256
#: A program: steps, kind of a number, operands, index arrays; the object that has it; then exactly what it is for: grad
#: mode, how many operands have keys, how many arguments are static, True if these are words; all keys; name and value
#: of each static argument (or two words).  Of each index array which operand it is, for which extent; then the steps.
MODE, FIRST_KEY = 5, 9
FIRST_STATIC = FIRST_KEY + MOST_OPERANDS
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
    """A recording for given operands: steps, the last of which is the result; none: nothing is recorded natively.

    number_kind   of the leaf that is made of an operand that is a number: of its value as a float
    bounds        operands that are index arrays, with the extents they are for: if their values are known and
                  outside, nothing is recorded
    choices       an object that lives as long as the program
    """

    __slots__ = ("_held", "_words", "choices", "operands")

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
        words = [len(steps), id(number_kind), operands, len(bounds), id(self)]
        words += [0] * (FIRST_BOUND - len(words))
        words += [word for pair in bounds for word in pair]
        words += [0] * (PROGRAM_WORDS - len(words))
        for kind, value, inputs in steps:
            words += [id(kind), id(value), len(inputs), *inputs]
        self.operands, self.choices = operands, choices
        self._held: tuple = tuple(steps), number_kind
        self._words = (ctypes.c_int64 * len(words))(*words)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._words)

    def belongs_to(self, keys: Sequence[Any], mode: bool, statics: Sequence[tuple[Any, Any]], are_words: bool) -> None:
        """Say exactly what it is for: keys of operands, grad mode, static arguments by name, or pairs of words."""
        words = self._words
        self._held += tuple(keys), statics
        words[MODE:FIRST_KEY] = [id(mode), len(keys), len(statics), are_words]
        words[FIRST_KEY : FIRST_KEY + len(keys)] = [*map(id, keys)]
        for place, (name, value) in enumerate(statics):
            at = FIRST_STATIC + 2 * place
            words[at : at + 2] = [name, value] if are_words else [0 if name is None else id(name), id(value)]


def fits(operands: int, steps: Sequence[Step]) -> bool:
    """True if a program can have these steps."""
    are_behind = all(0 <= i < place for place, step in enumerate(steps, operands) for i in step[2])
    return operands + len(steps) <= MOST_NODES and are_behind


_tables: weakref.WeakSet[RecordTable] = weakref.WeakSet()


def forget_all() -> None:
    """Drop the programs of every table."""
    for table in list(_tables):
        table.forget()


class RecordTable:
    """The programs of one function, by operands and grad mode.

    Their addresses stand in places of memory that machine code searches, each in the first one that was free from that
    which its hash names (`recorder_tables.place_for`); before them a word says how many places there are.

    age   how often it was emptied: what was found out before that must not be learnt any more
    room  for operands that are worth learning
    """

    __slots__ = ("__weakref__", "_beside", "_cell", "_held", "_place_for", "_rule", "_words", "age", "room")

    def __init__(self, place_for: Callable[[int, int], int]) -> None:
        """`place_for(words, program)`: the number of the place that a program has, or gets, among a table's words."""
        self.age, self.room = 0, Room()
        self._place_for = place_for
        self._beside: list[RecordTable] = []
        self._cell = (ctypes.c_int64 * 2)()
        self._rule: Any = None
        self._words: Any = ()
        self._held: dict[int, RecordedProgram] = {}
        _tables.add(self)

    @property
    def address(self) -> int:
        """Of two words, which have the address of the places, and of the rule; or 0."""
        return ctypes.addressof(self._cell)

    def ask(self, rule: Callable[..., Any]) -> None:
        """Ask `rule(*keys)`, where all operands are tensors and nothing is static, for the kind of the one node that is
        recorded for operands of unknown kinds; None: it is not one, or Python is to record it.  Of `x[key]` with
        slices the rule gets the key of x, and the other."""
        self._rule = rule
        self._cell[1] = id(rule)

    def __len__(self) -> int:
        return len(self._held)

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
        program = program or RecordedProgram(0, ())
        program.belongs_to(keys, mode, statics, are_words)
        with Paused(), _lock:
            if age != self.age:
                return
            dropped = self._words, self._held  # until the end: what goes with them may run code of its own
            if 2 * len(self._held) >= len(self._words) - 1:
                self._make_room()
            replaced = self._put(program)
        del dropped, replaced

    def _make_room(self) -> None:
        """Twice as many places, or empty ones where there are too many programs."""
        held = [*self._held.values()] if len(self._held) < MOST else []
        places = max(FEWEST, 4 * len(held))
        self._cell[0] = 0  # an interrupt may end this anywhere
        self._words, self._held = (ctypes.c_int64 * (1 + places))(places), {}
        for program in held:
            self._put(program)
        self._cell[0] = ctypes.addressof(self._words)

    def _put(self, program: RecordedProgram) -> RecordedProgram | None:
        """Put a program in its place, and give the one that was there."""
        place = self._place_for(ctypes.addressof(self._words), program.address)
        replaced = self._held.get(place)
        self._words[1 + place] = 0  # another thread may look, or an interrupt come, between any two of these lines
        self._held[place] = program
        self._words[1 + place] = program.address
        return replaced

    def another(self) -> RecordTable:
        """A table of its own that forgets when this one does."""
        made = RecordTable(self._place_for)
        self._beside.append(made)
        return made

    def forget(self) -> None:
        """Drop every program."""
        for table in self._beside:
            table.forget()
        with _lock:
            self.age += 1
            self._cell[0] = 0
            dropped, self._words, self._held = self._held, (), {}
        del dropped  # what it holds may run code of its own when it goes
