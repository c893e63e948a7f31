"""Tables of the native recorder: programs by the operands that they are recorded for.

    table.learn(table.age, keys, mode, program)   adds a program, which `recorder_tables` then finds
    table.forget()                                removes all programs

Tables and programs are words in memory that machine code reads under the interpreter's lock.  Python holds the objects
whose addresses are among the words, so that they live as long as machine code can find them.
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
from .cache import LearningFilter

#: The least number of places of a table, of which at most half are filled; and the number of programs from which a full
#: table is emptied instead of enlarged.
FEWEST, MOST = 64, 1024
#: An odd number near 2**64 over the golden ratio (Knuth, TAOCP 3, 6.4).
SPREAD = 0x9E3779B97F4A7C15
#: The most operands with keys, and the most static arguments, by position or by name, of a call.
MOST_OPERANDS, MOST_STATICS = 16, 4
#: The greatest depth of nested tuples and lists in a static argument.
NESTED = 3
#: The largest rank of an array operand that machine code records.
MOST_EXTENTS = 4
#: The most index arrays of a program, and the most elements of an index array whose values are checked.
MOST_BOUNDS, MOST_KNOWN = 4, 256
#: The words of a program: counts of steps, kind and class of a number, counts of operands and of index arrays, the
#: owner, several results; then what it is for: grad mode, counts of keys and of static arguments, True if the latter
#: are words; the keys; (name, value) or two words of each static argument.  Then (operand, extent) of each index array,
#: and the steps.
MODE, FIRST_KEY = 7, 11
FIRST_STATIC = FIRST_KEY + MOST_OPERANDS
FIRST_BOUND = FIRST_STATIC + 2 * MOST_STATICS
PROGRAM_WORDS = FIRST_BOUND + 2 * MOST_BOUNDS
#: The most operands and steps, together, of a program.
MOST_NODES = 64

#: The number of sites of each sort, and the number of the first one: see `recorder_sites`.  All comparisons share one
#: C function, and a sort with a single site has one function; all other sites have a function each.
COUNTS = {
    "binary": 16, "unary": 8, "compare": 6, "power": 1, "subscript": 1, "assign": 1, "called": 1, "method": 64,
    "in_place": 16,
}  # fmt: skip
FIRST = dict(zip(COUNTS, accumulate(COUNTS.values(), initial=0), strict=False))
#: The exported function of the recorder whose name identifies its code.
RECORDER = "recorder_here"
#: The words of a site: table, `slow`, `unknown`, the arguments that are operands.
SITE_WORDS = 4

#: Re-entrant, because the garbage collector may drop an entry while another one is learnt.
_lock = held_over_fork(threading.RLock())


#: The classes of numbers by kinds of dtypes.
_PYTHON_NUMBERS = {"i": int, "f": float, "c": complex}
#: A node of a program: its kind, its value (None: pending), the numbers of its inputs (operands first, then steps).
Step = tuple[Any, Any, tuple[int, ...]]


class RecordedProgram:
    """The steps that are recorded for given operands; the last one is the result.  No steps: Python records.

    results       if there are several: the function that puts their handles together, and the number of each one's node
    number_kind   the kind of the leaf made for an operand that is a number, with its value as the dtype's Python class
    bounds        (operand, extent) of each index array: if its values are known and out of range, Python records
    choices       an object that lives as long as the program
    """

    __slots__ = ("_held", "_words", "choices", "operands")

    def __init__(
        self,
        operands: int,
        steps: Sequence[Step],
        *,
        results: tuple | None = None,
        number_kind: Any = None,
        bounds: Sequence[tuple[int, int]] = (),
        choices: Any = None,
    ) -> None:
        if not fits(operands, steps):
            raise ValueError("a program of too many nodes, or whose steps read what is not there yet")
        number = number_kind and _PYTHON_NUMBERS[number_kind.out.aval.dtype.kind]
        words = [len(steps), id(number_kind), id(number), operands, len(bounds), id(self)]
        words.append(id(results) if results else 0)
        words += [0] * (FIRST_BOUND - len(words))
        words += [word for pair in bounds for word in pair]
        words += [0] * (PROGRAM_WORDS - len(words))
        for kind, value, inputs in steps:
            words += [id(kind), id(value), len(inputs), *inputs]
        self.operands, self.choices = operands, choices
        self._held: tuple = tuple(steps), results, number_kind
        self._words = (ctypes.c_int64 * len(words))(*words)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._words)

    def belongs_to(self, keys: Sequence[Any], mode: bool, statics: Sequence[tuple[Any, Any]], are_words: bool) -> None:
        """Set what the program is for: keys of operands, grad mode, static arguments by name, or pairs of words."""
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

    The addresses of programs are in a hash table with linear probing, which machine code searches
    (`recorder_tables.place_for`); a word before its places holds their number.

    age       how often the table was emptied: a program made for an earlier age must not be learnt
    learning  decides which operands are worth learning
    """

    __slots__ = ("__weakref__", "_cell", "_dependents", "_held", "_place_for", "_rule", "_words", "age", "learning")

    def __init__(self, place_for: Callable[[int, int], int]) -> None:
        """`place_for(words, program)`: the number of the place in a table's words that a program has or would get."""
        self.age, self.learning = 0, LearningFilter()
        self._place_for = place_for
        self._dependents: list[RecordTable] = []
        self._cell = (ctypes.c_int64 * 2)()
        self._rule: Any = None
        self._words: Any = ()
        self._held: dict[int, RecordedProgram] = {}
        _tables.add(self)

    @property
    def address(self) -> int:
        """The address of two words: the addresses of the hash table and of the rule, each 0 if there is none."""
        return ctypes.addressof(self._cell)

    def ask(self, rule: Callable[..., Any]) -> None:
        """Set the rule, which machine code calls as `rule(*keys)` for operands without an entry, if all are tensors and
        no argument is static.  It returns the kind of the one node to record, or None if Python should record.  For
        `x[key]` with slices the rule gets the key of x and `key`."""
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
        """Record this program for these operands from now on; None: always call `slow` for them.

        statics   (name, value) of each static argument, name None for one by position; or pairs of words
        """
        program = program or RecordedProgram(0, ())
        program.belongs_to(keys, mode, statics, are_words)
        with Paused(), _lock:
            if age != self.age:
                return
            dropped = self._words, self._held  # held until after the change: finalisers may run arbitrary code
            if 2 * len(self._held) >= len(self._words) - 1:
                self._make_room()
            replaced = self._put(program)
        del dropped, replaced

    def _make_room(self) -> None:
        """Double the number of places, or empty the table if it has too many programs."""
        held = [*self._held.values()] if len(self._held) < MOST else []
        places = max(FEWEST, 4 * len(held))
        self._cell[0] = 0  # an interrupt may end this method at any line
        self._words, self._held = (ctypes.c_int64 * (1 + places))(places), {}
        for program in held:
            self._put(program)
        self._cell[0] = ctypes.addressof(self._words)

    def _put(self, program: RecordedProgram) -> RecordedProgram | None:
        """Put a program in its place, and return the previous one of that place."""
        place = self._place_for(ctypes.addressof(self._words), program.address)
        replaced = self._held.get(place)
        self._words[1 + place] = 0  # another thread may search, or an interrupt come, between any two of these lines
        self._held[place] = program
        self._words[1 + place] = program.address
        return replaced

    def dependent_table(self) -> RecordTable:
        """A new table that is emptied whenever this one is."""
        made = RecordTable(self._place_for)
        self._dependents.append(made)
        return made

    def forget(self) -> None:
        """Drop every program."""
        for table in self._dependents:
            table.forget()
        with _lock:
            self.age += 1
            self._cell[0] = 0
            dropped, self._words, self._held = self._held, (), {}
        del dropped  # outside of the lock: finalisers may run arbitrary code
