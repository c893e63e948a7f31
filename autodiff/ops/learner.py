"""Learning from a call that Python recorded, so that machine code records the next like it (`ops.recorder`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.runtime.record_table import MOST_OPERANDS, MOST_STATICS, RecordTable
from codegen.symbols import Symbol

from ..config import config
from ..custom.function import Function
from ..mode import MODE
from ..tape.leaves import known_kind, number_leaf
from ..tape.node import Kind
from ..tensor import Tensor
from ..tracebacks import border, shorten
from .template import EXPECTED, ITEMS

__all__ = ["ALL", "Learner", "Room", "key_of"]

#: The arguments of a site that are operands, the others being static: so many in front, all, or the items of the first.
ALL = 0
#: Static arguments of these classes are compared by value, others by identity.
_BY_VALUE = frozenset((int, float, tuple))
#: The numbers of static arguments that are remembered after they were met once, and of sorts of operands.
_RECENT, _MET = 16, 64
#: The number of sorts of operands that a site learns at once; a later sort is learnt when it is met again.
_AT_ONCE = 64


class Room:
    """Room for what is met first; where many things were met, for those that come again.

    Of arrays that grow at each step to learn an operation takes as long as to record it.  Known are the last 64 things
    met, at least: of two that come by turns neither drives out the other.
    """

    def __init__(self) -> None:
        self._met: set[Any] = set()
        self._before: set[Any] = set()
        self._new = 0

    def is_left(self, what: Any) -> bool:
        """True if this is to be learnt."""
        if what in self._met or what in self._before:
            return True
        if len(self._met) >= _MET:
            self._before, self._met = self._met, set()
        self._met.add(what)
        self._new += 1
        return self._new <= _AT_ONCE


class Learner:
    """The `slow` and `unknown` of a site, with its function, its table and the Python that they call.

    attach      records natively where this thread records
    wanted      which arguments are operands; None: of a power, whose exponent is static if it is a number
    canonical   what a method's arguments mean to the function
    """

    def __init__(
        self,
        attach: Callable[[], None],
        function: Function,
        table: RecordTable,
        run: Callable[..., Any],
        wanted: int | None = ALL,
        canonical: Callable[[tuple], tuple] | None = None,
    ) -> None:
        self.attach, self.function, self.table, self.run = attach, function, table, run
        self.wanted, self.canonical = wanted, canonical
        self.recent: deque[Any] = deque(maxlen=_RECENT)
        self.room = Room()

    def slow(self, *args: Any, **keywords: Any) -> Any:
        """A call in circumstances where nothing is recorded natively, if only at the moment."""
        try:
            if not MODE.get().watching:
                self.attach()
            return self.run(*args, **keywords)
        except Exception as error:
            shorten(error)
            raise

    @border
    def unknown(self, *args: Any, **keywords: Any) -> Any:
        """A call with arguments for which nothing is known."""
        ordered = self.canonical(args) if self.canonical else args
        if MODE.get().watching or not self.function.binds(ordered, keywords):
            return self.run(*args, **keywords)
        age = self.table.age
        given, _ = self.parted(args, keywords)
        keys = [key_of(x) for x in given]
        if np.ndarray in map(type, given) or (self.wanted == ITEMS and not _PYTHON.isdisjoint(map(type, given))):
            args, keywords = self.adopted(args, keywords)
            given, _ = self.parted(args, keywords)
        EXPECTED.again = is_again = _is_real(given) and self.is_expected_again(keys)
        try:
            y = self.run(*args, **keywords)
        finally:
            EXPECTED.again = False
        if is_again and isinstance(y, Tensor):
            self.learn(age, keys, args, keywords, y)
        return y

    def is_expected_again(self, keys: list) -> bool:
        """True if operands with these keys are worth learning."""
        return not config.patience or self.room.is_left(tuple(keys))

    def adopted(self, args: tuple, keywords: dict) -> tuple[tuple, dict]:
        """The arguments with constant tensors for operands that are arrays, as dispatch would have it."""
        function, wanted = self.function, self.wanted
        if wanted == ITEMS:
            items = [_adopted(function, x) for x in args[0]]
            return (type(args[0])(_with_leaves(items)), *args[1:]), keywords
        if any([function.names_class(place, np.ndarray) for place in range(len(function.declaration.names))]):
            return args, keywords
        count = wanted if wanted else len(args)
        fresh = (*[_adopted(function, x) for x in args[:count]], *args[count:])
        return fresh, keywords if wanted != ALL else {name: _adopted(function, x) for name, x in keywords.items()}

    def learn(self, age: int, keys: Sequence[Any], args: tuple, keywords: dict, y: Tensor) -> None:
        """Remember what was recorded for these arguments, whose operands have these keys."""
        xs, statics = self.parted(args, keywords)
        if not 0 < len(keys) <= MOST_OPERANDS or None in keys or type(y) is not y.node.kind.out.cls:
            return
        if len(statics) > MOST_STATICS or not all([self.stays(value) for _, value in statics]):
            return
        if self.canonical is not None:
            args = self.canonical(args)
        bound, named = self.function.declaration.bind(args, keywords) if keywords else (args, {})
        serving, full = self.function.served_by(bound)
        natively = getattr(serving, "natively", None)
        operands = xs if self.wanted != ITEMS else args[:1]
        is_in_order = all([x is given for x, given in zip(operands, full, strict=False)])
        number_kind = _kind_of_numbers(xs, keys)
        if number_kind is not None:
            named = {**named, "number_kind": number_kind}
        found = natively(full, y, named) if natively is not None and is_in_order else None
        if found is None and hasattr(serving, "templates"):
            return  # a template is made when it is met again
        program, tell = found or (None, None)
        if program is not None and program.operands != len(keys):
            program = None
        if tell is not None:
            tell(self.table.forget)
        self.table.learn(age, keys, MODE.get().tracks, program, statics)

    def parted(self, args: tuple, keywords: dict) -> tuple[Sequence[Any], list[tuple[str | None, Any]]]:
        """The operands of a call, and what is static, as machine code parts them."""
        wanted = self.wanted
        if wanted is None:
            wanted = 1 if type(args[1]) in (int, float) else 2
        if wanted == ALL:
            return (*args, *keywords.values()), [(name, None) for name in keywords]
        operands, rest = args[:wanted], args[wanted:]
        if wanted == ITEMS:
            operands, rest = args[0] if type(args[0]) in (list, tuple) else (), args[1:]
        return operands, [*[(None, a) for a in rest], *keywords.items()]

    def stays(self, value: Any) -> bool:
        """True if a static argument is likely to be met again."""
        if value is None or type(value) is bool or (type(value) is int and value in _SMALL_INTS):
            return True
        if isinstance(value, (type, np.dtype)):
            return True
        by_value = type(value) in _BY_VALUE
        for x in list(self.recent):
            if x is value or (by_value and type(x) is type(value) and x == value):
                return True
        if by_value or type(value) is str:
            self.recent.append(value)
        return False


#: Axes and the like: worth remembering at once.
_SMALL_INTS = range(-5, 257)


def _with_leaves(items: list) -> list:
    """Items with leaves for the numbers among them, where all the others are tensors of one float dtype."""
    dtypes = {x.dtype if isinstance(x, Tensor) and not x.node.kind.out.weak else None
              for x in items if type(x) not in _PYTHON}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype is None or dtype.kind != "f":
        return items
    return [number_leaf(x, dtype) if type(x) in _PYTHON else x for x in items]


def _kind_of_numbers(xs: Sequence[Any], keys: Sequence[Any]) -> Kind | None:
    """Of numbers among items, for which leaves were made: their kind, which is one."""
    pairs = zip(xs, keys, strict=True)
    return next((x.node.kind for x, key in pairs if key in _PYTHON and isinstance(x, Tensor)), None)


def _adopted(function: Function, x: Any) -> Any:
    return function.adopt(x) if type(x) is np.ndarray else x


def key_of(x: Any) -> Any:
    """The key of an operand in a table; None for one that is not recorded natively."""
    if isinstance(x, Tensor):
        out = x.node.kind.out
        return out if type(x) is out.cls else None
    if type(x) is np.ndarray:
        return known_kind(x)
    return type(x) if type(x) in _NUMBERS else None


#: Python's own numbers that can be leaves of a float dtype.
_PYTHON = frozenset((float, int))
#: Classes of numbers that machine code takes.
_NUMBERS = frozenset((float, int, np.float64, np.float32))


def _is_real(xs: Sequence[Any]) -> bool:
    """True if no operand has a symbol for an extent."""
    return not any([Symbol in map(type, x.node.kind.out.shape) for x in xs if isinstance(x, Tensor)])
