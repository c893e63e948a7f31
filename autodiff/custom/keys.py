"""Keys of all that a rule reads besides tensors: equal keys mean that the rule would record the same.

The names that a rule, and the functions that it calls, read are found once per code object (`reads`); the values
that they hold are looked at whenever a backward asks for a key, so nothing that a rule reads can be stale.

    number, str, None, bool, dtype, slice, range       by value (a number's kind counts, and the sign of zero)
    tuple, frozenset; tensors                          by their parts; by node
    functions                                          by code, closure, defaults and globals, recursively
    generic functions                                  by identity; those of the user by their methods besides
    structured types, namedtuples and dataclasses      by identity, and what their methods read
    objects of classes written in Python,              by identity, their attributes and what their methods read, from
    members of an Enum                                 the second time on that they are met unchanged
    what the library, NumPy and Python define        by identity
    anything else                                      by nothing: the rule is run again each time

Of the last sort are lists, arrays, objects that hold such, other classes and modules where they are not merely a way to
a value (`settings.alpha`), clocks, random numbers, files, attributes of functions.

Where `numbers` is given, Python's numbers and arrays are not part of the key but put there, in order: the key
then says of a number its kind, of an array its dtype and shape.  See `watching`.

A rule names the functions that it calls, and their methods are part of its key.  It names no operator, and nothing that
the library's own functions call: `g * Half(g)` runs the user's method of `multiply`, and `ad.softmax(g)` the one of
`exp`.  Which methods ran is known afterwards, from the choices that dispatch made (`users_methods`).
"""

from __future__ import annotations

import functools
from abc import get_cache_token
from collections import namedtuple
from collections.abc import Iterable, Sequence
from enum import Enum
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any
from weakref import KeyedRef, ref

import numpy as np

from codegen.ir import KNOWN_DTYPES

from ..dispatch import Choices, Method
from ..session import namespace
from ..tape.watched import WATCHED, plain
from ..tensor import AbstractTensor, Tensor
from .reads import Read, is_fixed, is_library_function, reads_of

_BY_VALUE = frozenset((str, bytes, bool, int, type(None), type(...), type(NotImplemented), range))
_BY_IDENTITY = (np.ufunc, type(np.sum))
#: Attributes of an object beyond which no key is made.
_MOST_ATTRIBUTES = 32
#: Parts of a value that are looked at in each call of a forward that is given it.
_MOST_PARTS = 1000
#: In the flags of a class: it was made by a program, as a `class` statement makes it.
_HEAP_TYPE = 1 << 9

#: Built-in functions that read or change what no key can name.
_LOOSE = frozenset((breakpoint, delattr, dir, eval, exec, getattr, globals, hasattr, id, input, iter, locals, next,
                    open, print, setattr, vars, __import__))

_BY_VALUE_CLASSES = (str, bytes, bool, int, float, complex)
#: The keys that objects had the last time, by where they are.
_last = namespace("object")


def static_key(value: Any) -> tuple[Any, bool]:
    """(key, whether the key says everything that can be read from the value)."""
    walk = ReadsWalk()
    return walk.key(value), walk.is_whole


def likeness(value: Any) -> Any:
    """A key that is the same for values that hold the same: of objects their attributes, of arrays shape and dtype."""
    return _Contents().key(value)


class Same:
    """The key of a static argument that is compared by identity.  It does not keep the argument alive."""

    __slots__ = ("gone", "hash", "held")

    gone: KeyedRef

    def __init__(self, value: Any) -> None:
        self.hash = id(value)
        try:
            self.held = ref(value)  # one and the same for all keys of an object
        except TypeError:  # its class takes no weak references
            self.held = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.held is other.held

    def __hash__(self) -> int:
        return self.hash

    def __repr__(self) -> str:
        return f"{self.held() if isinstance(self.held, ref) else self.held!r}"


class ReadsWalk:
    """One walk over what a value holds, and what functions in it read, which makes keys.

    numbers    where numbers and arrays are put, instead of into the key; None: they count by value
    is_whole   whether the keys so far say everything, apart from these
    deepest    containers within containers beyond which no key is made
    """

    __slots__ = ("_within", "is_whole", "numbers")

    deepest = 6

    def __init__(self, numbers: list[Any] | None = None) -> None:
        self.numbers = numbers
        self.is_whole = True
        self._within: list[Any] = []  # functions, classes, containers and objects that the walk is in

    def key(self, value: Any) -> Any:
        """The key of a value."""
        kind = type(value)
        if kind is FunctionType:
            return value if is_library_function(value) else self._function(value)
        if getattr(kind, "is_generic_function", False):
            return value if is_fixed(value.__module__) else self._generic(value)
        if self.numbers is not None and can_be_watched(value):
            self.numbers.append(value)
            return kind if kind is not np.ndarray else (kind, value.shape, value.dtype)
        if kind in WATCHED:
            value = plain(value)
            kind = type(value)
        if kind is float or kind is complex:
            return kind, value if value == value and value else repr(value)
        if kind in _BY_VALUE or isinstance(value, np.dtype):
            return kind, value
        if isinstance(value, _BY_IDENTITY) or kind.__module__ in _MACHINERY or kind is _FIELD:
            return value
        if getattr(kind, "is_interned", False):  # equal ones are one object, which never changes
            return value
        if isinstance(value, type):
            return self._class(value)
        if kind is ModuleType:
            return self._if_whole(value, is_fixed(value.__name__))
        if kind is BuiltinFunctionType:
            return self._if_whole(value, _is_plain(value))
        if isinstance(value, np.generic):
            return kind, value.tobytes()
        if isinstance(value, Tensor):
            return Tensor, value.node.number
        if kind is tuple:
            return self._inside(value, kind, parts_of(value))
        if kind is frozenset:
            keys = self._inside(value, kind, parts_of(value))
            return keys and (kind, frozenset(keys[1:]))
        if kind is slice:
            return self.key(("slice", value.start, value.stop, value.step))
        return self._object(value)

    def _if_whole(self, key: Any, is_whole: bool) -> Any:
        self.is_whole &= is_whole
        return key

    def _inside(self, value: Any, head: Any, reads: Sequence[Read], cls: type | None = None) -> Any:
        """The key of something that has parts, and perhaps of what the methods of its class read."""
        for depth, other in enumerate(self._within):
            if value is other:
                return "itself", depth
        if len(self._within) > self.deepest:
            return self._if_whole(None, False)
        numbers = self.numbers
        self._within.append(value)
        keys = [head]
        for where, part, is_certain in reads:
            # An attribute of a module cannot be another object for this function alone.
            self.numbers = numbers if len(where) == 2 else None
            keys.append(self.key(part))
            if not is_certain:
                self.is_whole = False
        self.numbers = None
        if cls is not None:
            keys.append(self.of_class(cls))
        self.numbers = numbers
        self._within.pop()
        return tuple(keys)

    def _function(self, function: FunctionType) -> Any:
        """A function: its code and everything that it can read by name."""
        head = (function.__code__, *function.__kwdefaults__) if function.__kwdefaults__ else function.__code__
        return self._inside(function, head, reads_of(function))

    def _generic(self, function: Any) -> Any:
        """A generic function of the user: what its methods read."""
        chosen = get_cache_token() if function.is_abstract else None  # classes may be registered with a base of these
        return self._inside(function, (function, chosen), parts_of([m.implementation for m in function.table]))

    def _class(self, cls: type) -> Any:
        """A class: one of a library is what it is, one that puts values together is what its methods read besides."""
        if is_fixed(cls.__module__):
            return cls
        is_known = _is_container(cls) or any([cls is other for other in self._within])
        return self.of_class(cls) if is_known else self._if_whole(cls, False)

    def of_class(self, cls: type) -> Any:
        """The key of all that the methods of a class may run or read."""
        parts = class_parts(cls)
        return self._inside(cls, cls, parts_of(parts)) if parts else cls

    def _object(self, value: Any) -> Any:
        """An object of a class written in Python, by identity, its attributes and its class.

        No key tells of tensors in it, nor of one that is met for the first time or has changed since: an object that is
        another each time is nothing to remember a recording by.
        """
        if not is_object(value):
            return self._if_whole(None, False)
        held = {} if isinstance(value, Enum) else _attributes(value)
        if len(held) > _MOST_ATTRIBUTES or any([isinstance(x, AbstractTensor) for x in held.values()]):
            return self._if_whole(None, False)
        key = self._inside(value, (id(value), type(value), tuple(held)), parts_of(held.values()), type(value))
        if not self.is_whole:
            return None
        if key[0] != "itself" and _last.get(id(value)) != key:
            _last.put(id(value), key)
            return self._if_whole(None, False)
        return key


class _Contents(ReadsWalk):
    """The walk for a value that is looked at anew in each call: of what may change its key has the present contents.

    An object or list that holds more than can be looked at in each call counts by identity.
    """

    __slots__ = ("_left",)

    deepest = 64

    def __init__(self) -> None:
        super().__init__()
        self._left = _MOST_PARTS

    def _object(self, value: Any) -> Any:
        kind, parts = type(value), list[Any]()
        if kind is np.ndarray:
            return kind, value.shape, value.dtype
        if isinstance(value, Enum):
            return kind, value.name
        if isinstance(value, (list, tuple, set, frozenset, dict)):
            parts = [*(value.items() if isinstance(value, dict) else value)]
        elif is_object(value):
            parts = [*_attributes(value).items()]
        self._left -= len(parts)
        if self._left < 0 or len(self._within) > self.deepest:
            return Same(value)
        keys = self._inside(value, kind, parts_of(parts))
        return (kind, frozenset(keys[1:])) if isinstance(value, (set, frozenset)) else keys


def parts_of(values: Iterable[Any]) -> list[Read]:
    """Reads of all of a container: numbers in it count by value."""
    return [((), value, True) for value in values]


def is_object(value: Any) -> bool:
    """True if something is a member of an Enum, or an instance of a class written in Python."""
    if isinstance(value, Enum):
        return True
    cls = type(value)
    owners = [owner for owner in cls.__mro__ if owner is not object and owner.__module__ not in ("abc", "typing")]
    return (  # then instances hold attributes and nothing else: they derive from no class of another language
        not issubclass(cls, AbstractTensor)
        and type(cls).__module__ in ("abc", "builtins")
        and all([owner.__flags__ & _HEAP_TYPE and not is_fixed(owner.__module__) for owner in owners])
    )


def _attributes(value: Any) -> dict[str, Any]:
    """The contents of an object's dictionary and its slots."""
    held = dict(getattr(value, "__dict__", ()))
    for owner in type(value).__mro__:
        for name, slot in vars(owner).items():
            if type(slot) is MemberDescriptorType:
                try:
                    held[f"{owner.__qualname__}.{name}"] = slot.__get__(value)
                except AttributeError:  # it is not set
                    continue
    return held


def can_be_watched(value: Any) -> bool:
    """True if something is a number, or an array, that a rule can be watched with."""
    kind = type(value)
    if kind is float or kind is int or kind is complex:
        return True
    return kind is np.ndarray and value.dtype in KNOWN_DTYPES and value.dtype.isnative


def class_parts(cls: type) -> list[Any]:
    """The parts that methods of a class, and of those it derives from that are not fixed, may run or read."""
    items = [item for owner in cls.__mro__ if not is_fixed(owner.__module__) for item in vars(owner).items()]
    if issubclass(cls, Enum):  # it holds its members, too
        items = [item for item in items if type(item[1]) in _RUN]
    return [part for item in items for part in _parts_of(*item)]


def _is_container(cls: type) -> bool:
    """True if making an instance puts values together, by functions that `_parts_of` finds."""
    if type(cls).__module__ not in ("abc", "builtins", AbstractTensor.__module__):
        return False  # a class of classes makes instances as it likes
    is_namedtuple = issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
    return is_namedtuple or issubclass(cls, AbstractTensor) or hasattr(cls, "__dataclass_fields__")


def _parts_of(name: str, value: Any) -> list[Any]:
    """The parts of something in a class that may run or be read, beyond what Python itself puts there."""
    kind = type(value)
    if kind is FunctionType:
        # The `repr` of a dataclass keeps a set against cycles around the function that it runs.
        value = getattr(value, "__wrapped__", value) if name == "__repr__" else value
        return [] if is_fixed(value.__module__) else [value]
    if kind is property:
        return [f for f in (value.fget, value.fset, value.fdel) if f is not None]
    if kind is classmethod or kind is staticmethod:
        return _parts_of(name, value.__func__)
    if kind is functools.cached_property:
        return [value.func]
    is_pythons = kind in _DESCRIPTORS or kind.__module__ in _MACHINERY or name in _OF_NAMEDTUPLES
    return [] if is_pythons or (name.startswith("__") and name.endswith("__")) else [value]


#: The class that reads a field of a namedtuple: its module is another one since Python 3.13.
_FIELD = type(vars(namedtuple("_Point", "x"))["x"])
#: The members of a class that may run.
_RUN = (FunctionType, property, classmethod, staticmethod)
_DESCRIPTORS = (MemberDescriptorType, GetSetDescriptorType, _FIELD)
#: Modules of the classes whose instances abstract classes and dataclasses put into themselves.
_MACHINERY = frozenset(("_abc", "dataclasses"))
_OF_NAMEDTUPLES = frozenset(("_fields", "_field_defaults"))


def _is_plain(built_in: Any) -> bool:
    """True if a built-in is of a fixed module, or makes instances of a fixed class: not of an object it may read."""
    owner = built_in.__self__
    if isinstance(owner, type):
        return is_fixed(owner.__module__)
    return (
        is_fixed(built_in.__module__)
        and built_in not in _LOOSE
        and (owner is None or isinstance(owner, (ModuleType, *_BY_VALUE_CLASSES)))
    )


# ---------------------------------------------------------------- methods that ran without being named


def users_methods(choices: Choices) -> tuple[Method, ...]:
    """The methods of users, for functions of the library, that were run."""
    found: dict[Method, None] = {}
    for function, answers in choices.answers.items():
        if not is_fixed(function.__module__):
            continue
        for question, answer in answers.items():
            if question[0] in ("method", "run") and type(answer) is tuple and answer[0] is not None:
                found[answer[0]] = None
    return tuple([m for m in found if not is_fixed(m.implementation.__module__)])


def reading(methods: tuple[Method, ...]) -> tuple[tuple[Any, ...], str]:
    """The key of what these methods read now, and why no key says all of it; that is empty where one does."""
    keys, why = [], ""
    for method in methods:
        key, is_whole = static_key(method.implementation)
        keys.append(key)
        if not is_whole and not why:
            name = method.function.__name__
            why = f"the method of {name} ({method.place}) reads what no key can name: it runs each time"
    return tuple(keys), why
