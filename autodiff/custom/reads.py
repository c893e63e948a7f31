"""Keys of all that a rule reads besides tensors: equal keys mean that the rule would record the same.

A rule is Python: it may read its closure, its defaults and module globals, and so may the functions
it calls.  What they name is found once per code object; what the names hold is looked at on every
call of a recorded function (a microsecond or two), so nothing that a rule reads can be stale.

    number, str, None, bool, dtype, slice, range       by value (a number's kind counts, and the sign of zero)
    tuple, frozenset; tensors                          by their parts; by node
    functions                                          by code, closure, defaults and globals, recursively
    generic functions                                  by identity; those of the user by their methods besides
    structured types, namedtuples and dataclasses    by identity, and what their methods read
    objects of classes written in Python, members    by identity, their attributes and what their methods read, as long
    of an Enum                                       as these stay (`objects`)
    what the library, NumPy and Python define        by identity
    anything else: lists, arrays, objects that hold such, other classes and modules where they are not merely a way
    to a value (`settings.alpha`), clocks, random numbers, files, attributes of functions
                                                       cannot be told: the rule is run again each time

Where `numbers` is given, Python's numbers and arrays are not part of the key but put there, in order: the key
then says of a number its kind, of an array its dtype and shape.  See `watching`.
"""

from __future__ import annotations

import builtins
import functools
from abc import get_cache_token
from collections import namedtuple
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from codegen.ir import DTYPES

from ..session import namespace
from ..tape.watched import WATCHED, plain
from ..tensor import AbstractTensor, Tensor
from .code_facts import facts_of

__all__ = [
    "Key", "can_be_watched", "class_key", "class_parts", "function_key", "is_fixed",
    "is_library_function", "objects", "reads_of", "static_key",
]  # fmt: skip

_BY_VALUE = frozenset((str, bytes, bool, int, type(None), type(...), type(NotImplemented), range))
_BY_IDENTITY = (np.ufunc, type(np.sum))
_ARRAYS = frozenset(DTYPES.values())
_MAX_DEPTH = 6

#: Packages whose classes and modules are what they are: nothing in them is changed by a program that uses them.
_FIXED = frozenset(("_operator", "autodiff", "builtins", "cmath", "codegen", "collections", "dataclasses", "enum",
                    "functools", "itertools", "math", "numpy", "operator", "scipy", "typing"))
#: Built-in functions that read or change what no key can name.
_LOOSE = frozenset((breakpoint, delattr, dir, eval, exec, getattr, globals, hasattr, id, input, iter, locals, next,
                    open, print, setattr, vars, __import__))

_BY_VALUE_CLASSES = (str, bytes, bool, int, float, complex)

Key = tuple[Any, bool]


class _Objects:
    """The way to the key of an object of a user's class: `objects` says it, which needs the keys of this file."""

    key: Callable[[Any, tuple], Key]


objects = _Objects()


def static_key(value: Any, within: tuple = (), numbers: list | None = None) -> Key:
    """(key, whether the key says everything that can be read from the value, apart from `numbers`).

    within   the functions and tuples that it is a part of
    """
    kind = type(value)
    if kind is FunctionType:
        return function_key(value, within, numbers)
    if getattr(kind, "is_generic_function", False):
        return _generic_key(value, within)
    if numbers is not None and can_be_watched(value):
        numbers.append(value)
        return (kind if kind is not np.ndarray else (kind, value.shape, value.dtype)), True
    if kind in WATCHED:
        value = plain(value)
        kind = type(value)
    if kind is float or kind is complex:
        return (kind, value if value == value and value else repr(value)), True
    if kind in _BY_VALUE or isinstance(value, np.dtype):
        return (kind, value), True
    if isinstance(value, _BY_IDENTITY):
        return value, True
    if kind.__module__ in _MACHINERY or kind is _FIELD:  # marks that they know by identity
        return value, True
    if getattr(kind, "is_interned", False):  # equal ones are one object, which never changes
        return value, True
    if isinstance(value, type):
        return _class_key(value, within)
    if kind is ModuleType:
        return value, is_fixed(value.__name__)
    if kind is BuiltinFunctionType:
        return value, _is_plain(value)
    if isinstance(value, np.generic):
        return (kind, value.tobytes()), True
    if isinstance(value, Tensor):
        return (Tensor, value.node.number), True
    if len(within) > _MAX_DEPTH:
        return None, False
    if kind is tuple or kind is frozenset:
        parts = [static_key(v, (*within, value)) for v in value]
        keys = [k for k, _ in parts]
        return (kind, tuple(keys) if kind is tuple else frozenset(keys)), all(ok for _, ok in parts)
    if kind is slice:
        return static_key(("slice", value.start, value.stop, value.step), within)
    return objects.key(value, within)


def can_be_watched(value: Any) -> bool:
    """True if something is a number, or an array, that a rule can be watched with."""
    kind = type(value)
    if kind is float or kind is int or kind is complex:
        return True
    return kind is np.ndarray and value.dtype in _ARRAYS and value.dtype.isnative


def _generic_key(function: Any, within: tuple) -> Key:
    """A generic function: one of the library is what it is, one of the user is what its methods read."""
    if is_fixed(function.__module__):
        return function, True
    if _is_one_of(function, within):
        return "itself", True
    if len(within) > _MAX_DEPTH:
        return None, False
    parts = [function_key(method.implementation, (*within, function)) for method in function.table]
    chosen = get_cache_token() if function.is_abstract else None  # classes may be registered with a base class of these
    return (function, tuple([key for key, _ in parts]), chosen), all(pure for _, pure in parts)


@lru_cache(maxsize=1024)
def is_fixed(module: str | None) -> bool:
    """True if nothing in a module, of a package that is what it is, is changed by a program that uses it."""
    return (module or "").partition(".")[0] in _FIXED


def is_library_function(function: FunctionType) -> bool:
    """True if a function is the library's, or another's whose functions do not change, and reads nothing of a program.

    One that closes over something may have it from a program; over what it remembers of its own results, not.
    """
    is_closed = function.__closure__ is None or getattr(function, "is_remembered", False)
    return is_closed and is_fixed(function.__module__)


def _class_key(cls: type, within: tuple) -> Key:
    """A class: one of a library is what it is, one that puts values together is what its methods read besides."""
    if is_fixed(cls.__module__):
        return cls, True
    if not _is_one_of(cls, within) and (not _is_container(cls) or len(within) > _MAX_DEPTH):
        return cls, False
    return class_key(cls, within)


def class_key(cls: type, within: tuple = ()) -> Key:
    """The key of what the methods of a class may run or read."""
    if _is_one_of(cls, within):
        return "itself", True
    keys = [static_key(part, (*within, cls)) for part in class_parts(cls)]
    return (cls, *[k for k, _ in keys]), all([ok for _, ok in keys])


#: Class -> (its order of resolution, what its namespaces held, the parts of that).
_parts_of_classes = namespace("parts of a class")


def class_parts(cls: type) -> list[Any]:
    """The parts that methods of a class, and of those it derives from that are not fixed, may run or read."""
    names = [vars(owner) for owner in cls.__mro__ if not is_fixed(owner.__module__)]
    held = [value for namespace in names for value in namespace.values()]
    known = _parts_of_classes.get(cls)
    if known is None or known[0] is not cls.__mro__ or list(map(id, known[1])) != list(map(id, held)):
        items = [item for namespace in names for item in namespace.items()]
        if issubclass(cls, Enum):  # it holds its members, too
            items = [item for item in items if type(item[1]) in _RUN]
        parts = [part for item in items for part in _parts_of(*item)]
        known = (cls.__mro__, held, parts)
        _parts_of_classes.put(cls, known)
    return known[2]


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
        # What `dataclass` writes for `repr` keeps a set against cycles around what it runs.
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


#: What reads a field of a namedtuple: its module is another one since Python 3.13.
_FIELD = type(vars(namedtuple("_Point", "x"))["x"])
#: What a class holds that may run.
_RUN = (FunctionType, property, classmethod, staticmethod)
_DESCRIPTORS = (MemberDescriptorType, GetSetDescriptorType, _FIELD)
#: Where the classes are defined of what abstract classes and dataclasses put into themselves.
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


def function_key(function: Any, within: tuple = (), numbers: list | None = None) -> Key:
    """The key of a function: its code and everything that it can read by name."""
    if type(function) is MethodType:
        return None, False
    if type(function) is not FunctionType:
        return static_key(function, within)
    if is_library_function(function):
        return function, True
    if _is_one_of(function, within):
        return "itself", True
    if len(within) > _MAX_DEPTH:
        return None, False
    within = (*within, function)
    parts: list[Any] = [function.__code__]
    pure = True
    for where, value, is_certain in reads_of(function):
        # What a module's attribute is cannot be another thing for this function alone.
        key, ok = static_key(value, within, numbers if len(where) == 2 else None)
        parts.append(key)
        pure &= ok and is_certain
    if function.__kwdefaults__:
        parts.append(tuple(function.__kwdefaults__))
    return tuple(parts), pure


def _is_one_of(x: Any, within: tuple) -> bool:
    return bool(within) and any([x is other for other in within])


def reads_of(function: FunctionType) -> list[tuple[tuple, Any, bool]]:
    """The reads of a function by name: (where, the value, True if that is all there is to it).

    where   ("cell", number), ("default", number), ("keyword", name), ("global", name, attribute, ...),
            ("import", a module), of which there is more to say if it may change
    """
    found: list[tuple[tuple, Any, bool]] = []
    for i, cell in enumerate(function.__closure__ or ()):
        found.append((("cell", i), _contents(cell), True))
    for i, value in enumerate(function.__defaults__ or ()):
        found.append((("default", i), value, True))
    for name, value in (function.__kwdefaults__ or {}).items():
        found.append((("keyword", name), value, True))
    for where in facts_of(function.__code__).reads:
        found.append((where, *_read(function.__globals__, where)))
    return found


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


_MISSING = object()


def _read(names: dict[str, Any], where: tuple[str, ...]) -> tuple[Any, bool]:
    """The present value of `name.attribute.attribute` among globals, and True if that is all there is to it."""
    if where[0] == "import":
        return None, is_fixed(where[1])
    value = names.get(where[1], _MISSING)
    if value is _MISSING:
        value = getattr(builtins, where[1], None)
    used = 2
    for attribute in where[2:]:
        if not isinstance(value, (ModuleType, type)):
            break  # an attribute of something that the rest of this file judges as a whole
        value = getattr(value, attribute, None)
        used += 1
    # An attribute of a function may be set by anybody.
    return value, used == len(where) or type(value) is not FunctionType
