"""Keys of all values that a rule reads besides tensors: with equal keys, the rule would record equal nodes.

The names that a rule, and the functions that it calls, read are found once per code object (`reads`).  The values
of these names are read whenever a backward needs a key, so no key is out of date.

    number, str, None, bool, dtype, slice, range       by value (a number's type counts, and the sign of zero)
    tuple, frozenset; tensors                          by their parts; by node
    functions                                          by code, closure, defaults and globals, recursively
    generic functions                                  by identity; those of the user also by their methods
    structured types, namedtuples and dataclasses      by identity, and by the values that their methods read
    objects of classes written in Python,              by identity, by their attributes, and by the values that their
    members of an Enum                                 methods read; only if unchanged since they were last seen
    definitions of the library, NumPy and Python       by identity
    anything else                                      has no key: the rule runs each time

Examples of values without a key: lists, arrays, objects that hold these, other classes, modules unless only the path to
a value (`settings.alpha`), clocks, random numbers, files, attributes of functions.

With `numbers`, numbers and arrays are appended to that list, in order, instead of counting by value: the key then
has the type of a number, and the dtype and shape of an array.  See `watching`.

A rule names the functions that it calls, so their methods are in its key.  It does not name operators, nor functions
that the library's own functions call: `g * Half(g)` runs the user's method of `multiply`, and `ad.softmax(g)` that of
`exp`.  These methods are known only afterwards, from the choices that dispatch made (`users_methods`).
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
#: An object with more attributes than this has no key.
_MOST_ATTRIBUTES = 32
#: The most parts of a value that are read at each call of a forward with that argument.
_MOST_PARTS = 1000
#: The flag of a class that was made at run time, as a `class` statement makes it.
_HEAP_TYPE = 1 << 9

#: Built-in functions that read or change values which no key can name.
_LOOSE = frozenset((breakpoint, delattr, dir, eval, exec, getattr, globals, hasattr, id, input, iter, locals, next,
                    open, print, setattr, vars, __import__))

_BY_VALUE_CLASSES = (str, bytes, bool, int, float, complex)
#: The key of each object when it was last seen, by its id.
_last = namespace("object")


def static_key(value: Any) -> tuple[Any, bool]:
    """(key, True if the key covers everything that can be read from the value)."""
    walk = ReadsWalk()
    return walk.key(value), walk.is_whole


def content_key(value: Any) -> Any:
    """A key that is equal for values with equal contents: attributes of objects, shape and dtype of arrays."""
    return _Contents().key(value)


class IdentityKey:
    """The key of a static argument that is compared by identity.  It does not keep the argument alive."""

    __slots__ = ("gone", "hash", "held")

    gone: KeyedRef

    def __init__(self, value: Any) -> None:
        self.hash = id(value)
        try:
            self.held = ref(value)  # all keys of an object share this one reference
        except TypeError:  # its class takes no weak references
            self.held = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.held is other.held

    def __hash__(self) -> int:
        return self.hash

    def __repr__(self) -> str:
        return f"{self.held() if isinstance(self.held, ref) else self.held!r}"


class ReadsWalk:
    """One walk that makes keys: over the parts of a value, and the values that functions in it read.

    numbers    a list to append numbers and arrays to, instead of having them in the key; None: they count by value
    is_whole   True if the keys so far cover everything that can be read, apart from `numbers`
    deepest    the depth of nested containers below which no key is made
    """

    __slots__ = ("_within", "is_whole", "numbers")

    deepest = 6

    def __init__(self, numbers: list[Any] | None = None) -> None:
        self.numbers = numbers
        self.is_whole = True
        self._within: list[Any] = []  # functions, classes, containers and objects that enclose the current value

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
            return self.key_of_parts(value, kind, parts_of(value))
        if kind is frozenset:
            keys = self.key_of_parts(value, kind, parts_of(value))
            return keys and (kind, frozenset(keys[1:]))
        if kind is slice:
            return self.key(("slice", value.start, value.stop, value.step))
        return self._object(value)

    def _if_whole(self, key: Any, is_whole: bool) -> Any:
        self.is_whole &= is_whole
        return key

    def key_of_parts(self, value: Any, head: Any, reads: Sequence[Read], cls: type | None = None) -> Any:
        """The key of a value with parts; with `cls`, also of the values that the methods of that class read."""
        for depth, other in enumerate(self._within):
            if value is other:
                return "itself", depth
        if len(self._within) > self.deepest:
            return self._if_whole(None, False)
        numbers = self.numbers
        self._within.append(value)
        keys = [head]
        for where, part, is_certain in reads:
            # An attribute of a module cannot be replaced for this function alone, so a number there counts by value.
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
        """The key of a function: its code, and all values that it can read by name."""
        head = (function.__code__, *function.__kwdefaults__) if function.__kwdefaults__ else function.__code__
        return self.key_of_parts(function, head, reads_of(function))

    def _generic(self, function: Any) -> Any:
        """The key of a user's generic function: the values that its methods read."""
        chosen = get_cache_token() if function.is_abstract else None  # registering a class with an ABC may change it
        return self.key_of_parts(function, (function, chosen), parts_of([m.implementation for m in function.table]))

    def _class(self, cls: type) -> Any:
        """The key of a class: its identity; for a user's class that only holds values, also what its methods read."""
        if is_fixed(cls.__module__):
            return cls
        is_known = _is_container(cls) or any([cls is other for other in self._within])
        return self.of_class(cls) if is_known else self._if_whole(cls, False)

    def of_class(self, cls: type) -> Any:
        """The key of all parts that the methods of a class may run or read."""
        parts = class_parts(cls)
        return self.key_of_parts(cls, cls, parts_of(parts)) if parts else cls

    def _object(self, value: Any) -> Any:
        """The key of an object of a class written in Python: its identity, attributes and class.

        An object that holds tensors has no key, nor has one that is seen for the first time or has changed since: a
        recording kept under the key of a constantly changing object would never be found again.
        """
        if not is_object(value):
            return self._if_whole(None, False)
        held = {} if isinstance(value, Enum) else _attributes(value)
        if len(held) > _MOST_ATTRIBUTES or any([isinstance(x, AbstractTensor) for x in held.values()]):
            return self._if_whole(None, False)
        key = self.key_of_parts(value, (id(value), type(value), tuple(held)), parts_of(held.values()), type(value))
        if not self.is_whole:
            return None
        if key[0] != "itself" and _last.get(id(value)) != key:
            _last.put(id(value), key)
            return self._if_whole(None, False)
        return key


class _Contents(ReadsWalk):
    """The walk for a value that is read anew at each call: the key of a mutable value is that of its current contents.

    An object or list with too many parts to read at each call counts by identity.
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
            return IdentityKey(value)
        keys = self.key_of_parts(value, kind, parts_of(parts))
        return (kind, frozenset(keys[1:])) if isinstance(value, (set, frozenset)) else keys


def parts_of(values: Iterable[Any]) -> list[Read]:
    """The parts of a container, as reads; numbers in them count by value."""
    return [((), value, True) for value in values]


def is_object(value: Any) -> bool:
    """True if something is a member of an Enum, or an instance of a class written in Python."""
    if isinstance(value, Enum):
        return True
    cls = type(value)
    owners = [owner for owner in cls.__mro__ if owner is not object and owner.__module__ not in ("abc", "typing")]
    return (  # the instances then have attributes only, and no state of a class written in another language
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
                except AttributeError:  # the slot is not set
                    continue
    return held


def can_be_watched(value: Any) -> bool:
    """True for a number or array that a watched stand-in can replace."""
    kind = type(value)
    if kind is float or kind is int or kind is complex:
        return True
    return kind is np.ndarray and value.dtype in KNOWN_DTYPES and value.dtype.isnative


def class_parts(cls: type) -> list[Any]:
    """The parts of a class, and of its bases that are not fixed, that their methods may run or read."""
    items = [item for owner in cls.__mro__ if not is_fixed(owner.__module__) for item in vars(owner).items()]
    if issubclass(cls, Enum):  # vars() of an Enum also has its members, which do not count
        items = [item for item in items if type(item[1]) in _RUN]
    return [part for item in items for part in _parts_of(*item)]


def _is_container(cls: type) -> bool:
    """True if making an instance only stores values, by functions that `_parts_of` finds."""
    if type(cls).__module__ not in ("abc", "builtins", AbstractTensor.__module__):
        return False  # a metaclass may make instances in any way
    is_namedtuple = issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
    return is_namedtuple or issubclass(cls, AbstractTensor) or hasattr(cls, "__dataclass_fields__")


def _parts_of(name: str, value: Any) -> list[Any]:
    """The parts of a class attribute that may run or be read, without those that Python itself adds."""
    kind = type(value)
    if kind is FunctionType:
        # The `repr` of a dataclass wraps the generated function in one that keeps a set, to stop at cycles.
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


#: The class of the descriptor for a field of a namedtuple, whose module changed in Python 3.13.
_FIELD = type(vars(namedtuple("_Point", "x"))["x"])
#: The types of class attributes that may run.
_RUN = (FunctionType, property, classmethod, staticmethod)
_DESCRIPTORS = (MemberDescriptorType, GetSetDescriptorType, _FIELD)
#: The modules of helper objects that abstract classes and dataclasses store in themselves.
_MACHINERY = frozenset(("_abc", "dataclasses"))
_OF_NAMEDTUPLES = frozenset(("_fields", "_field_defaults"))


def _is_plain(built_in: Any) -> bool:
    """True if a built-in belongs to a fixed module or class, and to no object whose state it may read."""
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
    """The users' methods, of library functions, that ran."""
    found: dict[Method, None] = {}
    for function, answers in choices.answers.items():
        if not is_fixed(function.__module__):
            continue
        for question, answer in answers.items():
            if question[0] in ("method", "run") and type(answer) is tuple and answer[0] is not None:
                found[answer[0]] = None
    return tuple([m for m in found if not is_fixed(m.implementation.__module__)])


def reading(methods: tuple[Method, ...]) -> tuple[tuple[Any, ...], str]:
    """The key of the values that methods read now, and the reason why it does not cover all of them ("" if it does)."""
    keys, why = [], ""
    for method in methods:
        key, is_whole = static_key(method.implementation)
        keys.append(key)
        if not is_whole and not why:
            name = method.function.__name__
            why = f"the method of {name} ({method.place}) reads what no key can name: it runs each time"
    return tuple(keys), why
