"""Watching a rule: it runs with watched numbers, which note whether it looks at them or only computes with them.

The numbers found by `CustomCall.key` are replaced by watched ones wherever the rule reads them: in saved values,
arguments and attributes, and in a copy of the rule's function (its cells, defaults and globals, and those of functions
that it calls).  The same walk finds and replaces them, so both meet the numbers in one order.

Only code that cannot tell a watched number from a plain one is run with them.  Other code gets plain numbers, which
then count by value: code that calls `type(x)`, writes to cells or globals, uses names with two underscores, defines
classes, or calls functions that are not known to work with watched numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from codegen.records import NamedTuple

from ..tape.watched import Watch
from .call import CustomCall
from .keys import ReadsWalk, can_be_watched, class_parts, is_object, parts_of
from .reads import facts_of, is_library_function, reads_of


class Watching(NamedTuple):
    """One run of a rule under watch.

    watch   the numbers;  call: the call with watched numbers;  rule: the rule's function with watched numbers
    """

    watch: Watch
    call: CustomCall
    rule: Callable


def watched(call: CustomCall) -> Watching | None:
    """The rule of a call, and the call, with watched numbers; None if the rule has to get plain ones.

    `call.numbers` must be the numbers that `call.key` has just found.
    """
    rule = call.rule()
    if not call.numbers or rule is None or rule.host or not call.is_pure:
        return None
    if type(rule.implementation) is not FunctionType:
        return None
    substitution = _Substitution(Watch(call.numbers))
    try:
        function, own = substitution.key(rule.implementation), copy.copy(call)
        own.statics = tuple([substitution.key(x) for x in call.statics])
    except _Unwatchable:
        return None
    return Watching(substitution.watch, own, function) if substitution.is_done() else None


class _Unwatchable(Exception):
    """A value that must not get a watched number."""


class _Substitution(ReadsWalk):
    """The walk that makes keys, but `key` returns the value for the rule to read; `numbers`: those found so far."""

    __slots__ = ("watch",)

    def __init__(self, watch: Watch) -> None:
        super().__init__([])
        self.watch = watch

    def is_done(self) -> bool:
        """True if the walk has found every number."""
        return self.numbers is not None and len(self.numbers) == len(self.watch.numbers)

    def key(self, value: Any) -> Any:
        """The value that the rule will read: a watched number, a function that reads some, or the value itself."""
        kind = type(value)
        if kind is FunctionType:
            return self._function(value)
        if self.numbers is not None and can_be_watched(value):
            i = len(self.numbers)
            if i == len(self.watch.numbers) or self.watch.numbers[i] is not value:
                raise _Unwatchable  # the number was replaced meanwhile
            self.numbers.append(value)
            return self.watch.number(i)
        if kind is tuple or kind is frozenset:
            self.key_of_parts(value, kind, parts_of(value))
        elif not _accepts_watched(value):
            raise _Unwatchable
        return value

    def _function(self, function: FunctionType) -> Any:
        """A copy of a function that reads watched numbers; the function itself if it reads none."""
        if is_library_function(function):
            if function.__module__.partition(".")[0] != "autodiff":
                raise _Unwatchable
            return function
        is_inside = any([function is other for other in self._within])
        if is_inside and self.numbers is None:
            return function
        if is_inside and function is self._within[-1]:
            return _ITSELF
        reads = reads_of(function)
        if is_inside or not facts_of(function.__code__).is_watchable:
            raise _Unwatchable
        found = self.key_of_parts(function, None, reads)
        if found is None:  # too deep
            raise _Unwatchable
        pairs = zip(reads, found[1:], strict=True)
        return _changed(function, {where: new for (where, old, _), new in pairs if new is not old})


_ITSELF = object()


def _changed(function: FunctionType, changed: dict[tuple, Any]) -> FunctionType:
    """A copy of a function with other values in its cells, defaults and globals."""
    if all(value is _ITSELF for value in changed.values()):
        return function
    names = function.__globals__
    if any(where[0] == "global" for where in changed):
        names = dict(names)
    cells = [CellType() if ("cell", i) in changed else c for i, c in enumerate(function.__closure__ or ())]
    defaults = function.__defaults__
    if defaults is not None:
        defaults = tuple([changed.get(("default", i), value) for i, value in enumerate(defaults)])
    own = FunctionType(function.__code__, names, function.__name__, defaults, tuple(cells) or None)
    own.__kwdefaults__ = function.__kwdefaults__ and {
        name: changed.get(("keyword", name), value) for name, value in function.__kwdefaults__.items()
    }
    for (kind, where), value in [(w, v) for w, v in changed.items() if len(w) == 2]:
        value = own if value is _ITSELF else value
        if kind == "cell":
            cells[where].cell_contents = value
        elif kind == "global":
            names[where] = value
    return own


# ---------------------------------------------------------------- values that may get a watched number

#: Built-in functions and classes that use only a number's protocol, or isinstance.
_BUILTINS = frozenset((
    abs, all, any, ascii, bin, bool, callable, chr, complex, dict, divmod, enumerate, filter, float, format, frozenset,
    hash, hex, int, isinstance, issubclass, len, list, map, max, min, oct, ord, pow, range, repr, reversed, round, set,
    slice, sorted, str, tuple, zip,
))  # fmt: skip
_MODULES = frozenset(("math", "cmath", "_operator", "numpy"))
#: Functions with a special way of computing with exact floats.
_PARTICULAR = frozenset(("prod", "sumprod", "fsum"))


def _accepts_watched(value: Any) -> bool:
    """True if a value that a rule reads treats a watched number as the number that it stands for."""
    kind = type(value)
    if isinstance(value, (np.ufunc, type(np.sum))) or getattr(kind, "is_generic_function", False):
        return True
    package = (getattr(value, "__module__", None) or "").partition(".")[0] if callable(value) else ""
    if isinstance(value, type):
        return value in _BUILTINS or issubclass(value, BaseException) or package in ("autodiff", "numpy")
    if kind is BuiltinFunctionType:
        return value in _BUILTINS or (package in _MODULES and value.__name__ not in _PARTICULAR)
    return not (kind is ModuleType or callable(value) or (is_object(value) and class_parts(kind)))
