"""The key of a rule that reads what it read the last time, without going through it all again.

`reads.function_key` looks at everything that a rule names: some microseconds for each global and each function that
it calls.  Most of it never changes, so what was looked at is kept with the key that came of it:

    namespace, name -> the very object     globals, and attributes of modules
    cell -> the very object
    function -> its very code and defaults;  class -> the very contents of its namespaces
    dispatch's epoch                       where functions of the user's with methods are called
    numbers                                read anew each time: a key says their kind only

While these are the same objects the key is the same.  It is kept only of a rule for which that is all there is to it:
what can change without becoming another object (a tensor that is updated, a list, an object of the user's) is gone
through each time.
"""

from __future__ import annotations

import builtins
from abc import get_cache_token
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..dispatch import epoch
from ..session import namespace
from .reads import (
    Key,
    can_be_watched,
    class_parts,
    function_key,
    held_by,
    is_fixed,
    is_library_function,
    is_unchanging,
    reads_of,
    static_key,
)

__all__ = ["class_key", "rule_key"]

#: A rule that reads something else so often is gone through each time.
_MOST_CHANGES = 8
_MISSING = object()


class _Changing(Exception):
    """Something that may say another thing while it is the same object."""


class Reread:
    """The reads of a rule, and the key that came of them.  It never changes once it was made.

    key       None of a rule that is gone through each time
    changes   how often the rule was gone through before
    """

    __slots__ = (
        "_cells", "_classes", "_epoch", "_functions", "_is_counted", "_names", "_numbers", "_registered", "changes",
        "key",
    )  # fmt: skip

    def __init__(self, changes: int, key: Key | None = None) -> None:
        self.changes = changes
        self.key = key
        self._names: list[tuple[dict[str, Any], str, Any]] = []
        self._cells: list[tuple[Any, Any]] = []
        self._functions: list[tuple[FunctionType, Any, Any]] = []
        self._numbers: list[tuple[Callable[[], Any], type, Any]] = []
        self._classes: list[tuple[type, tuple[type, ...], list[Any]]] = []
        self._epoch: int | None = None
        self._registered: object = None
        self._is_counted = False  # while it is made: whether numbers count by value

    @classmethod
    def of(cls, what: FunctionType | type, key: Key, numbers: list[Any], changes: int) -> Reread:
        """The reads of this function, or class, for its key, and for these numbers, just now."""
        made = cls(changes, key)
        own: list[Any] = []
        try:
            if isinstance(what, type):
                made._class(what, ())
            else:
                made._function(what, ())
            is_true = made.is_true(own)
        except _Changing:
            return cls(_MOST_CHANGES)
        return made if is_true and list(map(id, own)) == list(map(id, numbers)) else cls(changes)

    def is_true(self, numbers: list[Any]) -> bool:
        """True if everything is what it was; then the present numbers are put behind `numbers`."""
        for names, name, value in self._names:
            if names.get(name, _MISSING) is not value:
                return False
        for function, code, defaults in self._functions:
            if function.__code__ is not code or function.__defaults__ is not defaults or function.__kwdefaults__:
                return False
        for cls, order, held in self._classes:
            if cls.__mro__ is not order or list(map(id, held_by(cls))) != list(map(id, held)):
                return False
        if self._epoch is not None and self._epoch != epoch.now:
            return False
        if self._registered is not None and self._registered != get_cache_token():
            return False
        try:
            for cell, value in self._cells:
                if cell.cell_contents is not value:
                    return False
            found = [read() for read, _, _ in self._numbers]
        except (KeyError, ValueError):  # it is gone: a name that was deleted, a cell that was emptied
            return False
        for value, (_, kind, aval) in zip(found, self._numbers, strict=True):
            if type(value) is not kind or (aval is not None and _aval(value) != aval):
                return False
        numbers += found
        return True

    # ------------------------------------------------------------ in the order of `function_key`

    def _function(self, function: Any, within: tuple) -> None:
        if any([function is other for other in within]):
            return
        if type(function) is not FunctionType or function.__kwdefaults__:
            raise _Changing
        self._functions.append((function, function.__code__, function.__defaults__))
        within = (*within, function)
        for (kind, *where), value, _ in reads_of(function):
            if kind == "cell":
                closure = function.__closure__
                assert closure is not None, "a cell is one of a closure"
                self._value(value, within, closure[where[0]])
            elif kind == "default":
                self._value(value, within, None)
            else:
                self._global(function, where, value, within)

    def _global(self, function: FunctionType, path: list[str], value: Any, within: tuple) -> None:
        name, *attributes = path
        namespace = function.__globals__
        if name not in namespace:
            self._names.append((namespace, name, _MISSING))
            namespace = vars(builtins)
        if not attributes:
            self._value(value, within, (namespace, name))
            return
        for attribute in attributes:
            owner = namespace.get(name)
            if type(owner) is not ModuleType or attribute not in vars(owner):
                raise _Changing
            self._names.append((namespace, name, owner))
            namespace, name = vars(owner), attribute
        self._names.append((namespace, name, value))
        self._part(value, within)

    def _value(self, value: Any, within: tuple, where: Any) -> None:
        """Something that is read by one name.

        where   its cell, or (namespace, name); None: of a default, which stays
        """
        if can_be_watched(value) and not self._is_counted:
            aval = _aval(value) if type(value) is np.ndarray else None
            self._numbers.append((_reader(value, where), type(value), aval))
            return
        if type(where) is tuple:
            self._names.append((*where, value))
        elif where is not None:
            self._cells.append((where, value))
        self._part(value, within)

    def _part(self, value: Any, within: tuple) -> None:
        """Note the parts of a value, which is itself the same object."""
        if type(value) is FunctionType:
            if not is_library_function(value):
                self._function(value, within)
        elif getattr(type(value), "is_generic_function", False):
            self._generic(value, within)
        elif isinstance(value, type) and not is_fixed(value.__module__):
            self._class(value, within)
        elif type(value) is tuple:
            for part in value:
                self._part(part, within)
        elif not is_unchanging(value):
            raise _Changing

    def _generic(self, function: Any, within: tuple) -> None:
        if is_fixed(function.__module__) or any([function is other for other in within]):
            return
        self._epoch = epoch.now
        if function.is_abstract:
            self._registered = get_cache_token()
        self._by_value([method.implementation for method in function.table], (*within, function))

    def _class(self, cls: type, within: tuple) -> None:
        if any([cls is other for other in within]):
            return
        self._classes.append((cls, cls.__mro__, held_by(cls)))
        self._by_value(class_parts(cls), (*within, cls))

    def _by_value(self, parts: Iterable[Any], within: tuple) -> None:
        """Parts in which numbers count by value, wherever they are read."""
        before, self._is_counted = self._is_counted, True
        for part in parts:
            self._part(part, within)
        self._is_counted = before


def _aval(array: Any) -> tuple[tuple[int, ...], np.dtype]:
    return array.shape, array.dtype


def _reader(value: Any, where: Any) -> Callable[[], Any]:
    """A function that reads this value again."""
    if where is None:
        return lambda: value
    if type(where) is tuple:
        namespace, name = where
        return lambda: namespace[name]
    return lambda: where.cell_contents


def rule_key(rule: Any, numbers: list[Any]) -> Key:
    """The key of a rule's function, as `function_key`, the numbers that it reads put behind `numbers`."""
    function = rule.implementation
    reread: Reread | None = rule.reread
    if reread is not None and reread.key is not None and reread.is_true(numbers):
        return reread.key
    before = len(numbers)
    key = function_key(function, (), numbers)
    if reread is None:  # asked for once: a rule that is written anew in a loop is asked for no more
        rule.reread = Reread(0)
    elif reread.changes < _MOST_CHANGES:
        is_whole = key[1] and type(function) is FunctionType
        changes = reread.changes + 1
        rule.reread = Reread.of(function, key, numbers[before:], changes) if is_whole else Reread(changes)
    return key


#: What classes were seen to read, and those that are gone through just now.
_of_classes = namespace("reads of a class")
_busy: set[type] = set()


def class_key(cls: type) -> Key:
    """The key of what the methods of a class may run or read.  One that holds objects of its own class has none."""
    reread: Reread | None = _of_classes.get(cls)
    if reread is not None and reread.key is not None and reread.is_true([]):
        return reread.key
    if cls in _busy:
        return None, False
    _busy.add(cls)
    try:
        parts = [static_key(part, (cls,)) for part in class_parts(cls)]
    finally:
        _busy.discard(cls)
    key: Key = tuple([k for k, _ in parts]), all([ok for _, ok in parts])
    if reread is None or reread.changes < _MOST_CHANGES:
        changes = 0 if reread is None else reread.changes + 1
        _of_classes.put(cls, Reread.of(cls, key, [], changes) if key[1] else Reread(changes))
    return key
