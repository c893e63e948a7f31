"""What a rule reads besides tensors, as a key: equal keys mean that the rule would record the same.

A rule is Python: it may read its closure, its defaults and module globals, and so may the functions
it calls.  What they name is found once per code object; what the names hold is looked at on every
call of a recorded function (a microsecond or two), so nothing that a rule reads can be stale.

    number, str, None, bool, dtype, slice, range       by value (a number's kind counts, and the sign of zero)
    tuple, frozenset; tensors                          by their parts; by node
    functions                                          by code, closure, defaults and globals, recursively
    generic functions; namedtuples and dataclasses; what the library, NumPy and Python define    by identity
    anything else: lists, arrays, instances, other classes and modules where they are not merely a way to
    a value (`settings.alpha`), clocks, random numbers, files, attributes of functions
                                                       cannot be told: the rule is run again each time
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..tensor import AbstractTensor, Tensor

__all__ = ["function_key", "static_key"]

_BY_VALUE = (str, bytes, bool, int, type(None), type(...), np.dtype, range)
_BY_IDENTITY = (np.ufunc, type(np.sum))
_MAX_DEPTH = 6

#: Packages whose classes and modules are what they are: nothing in them is changed by a program that uses them.
_FIXED = frozenset(("_operator", "autodiff", "builtins", "cmath", "codegen", "collections", "dataclasses", "functools",
                    "itertools", "math", "numpy", "operator", "scipy", "typing"))
#: Built-in functions that read or change what no key can name.
_LOOSE = frozenset((breakpoint, delattr, dir, eval, exec, getattr, globals, hasattr, id, input, iter, locals, next,
                    open, print, setattr, vars, __import__))

_BY_VALUE_CLASSES = (str, bytes, bool, int, float, complex)

Key = tuple[Any, bool]


def static_key(value: Any, depth: int = 0) -> Key:
    """(key, whether the key says everything that can be read from the value)."""
    kind = type(value)
    if kind is float or kind is complex:
        return (kind, value if value == value and value else repr(value)), True
    if kind in _BY_VALUE:
        return (kind, value), True
    if isinstance(value, _BY_IDENTITY) or getattr(value, "is_generic_function", False):
        return value, True
    if getattr(kind, "is_interned", False):  # equal ones are one object, which never changes
        return value, True
    if isinstance(value, type):
        return value, _is_fixed(value.__module__) or _is_container(value)
    if kind is ModuleType:
        return value, _is_fixed(value.__name__)
    if kind is BuiltinFunctionType:
        return value, _is_fixed(value.__module__) and value not in _LOOSE and _is_plain(value.__self__)
    if isinstance(value, np.generic):
        return (kind, value.tobytes()), True
    if isinstance(value, Tensor):
        return (Tensor, value.node.number), True
    if depth > _MAX_DEPTH:
        return None, False
    if kind is tuple or kind is frozenset:
        parts = [static_key(v, depth + 1) for v in value]
        keys = [k for k, _ in parts]
        return (kind, tuple(keys) if kind is tuple else frozenset(keys)), all(ok for _, ok in parts)
    if kind is slice:
        return static_key(("slice", value.start, value.stop, value.step), depth)
    if kind is FunctionType:
        return function_key(value, depth + 1)
    return None, False


def _is_fixed(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _FIXED


def _is_container(cls: type) -> bool:
    """Whether making one only puts values together: a structured type, a namedtuple, a dataclass without own code."""
    if issubclass(cls, AbstractTensor):
        return all(type(make) is not FunctionType or function_key(make)[1] for make in (cls.__init__, cls.__new__))
    if dataclasses.is_dataclass(cls):
        return not hasattr(cls, "__post_init__")
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def _is_plain(owner: Any) -> bool:
    """Whether a built-in belongs to a module or nobody, not to an object that it may read."""
    return owner is None or isinstance(owner, (ModuleType, *_BY_VALUE_CLASSES))


def function_key(function: Any, depth: int = 0) -> Key:
    """The key of a function: its code and everything that it can read by name."""
    if type(function) is MethodType:
        return None, False
    if type(function) is not FunctionType:
        return static_key(function, depth)
    if function.__closure__ is None and _is_fixed(function.__module__):
        return function, True
    if depth > _MAX_DEPTH:
        return None, False
    code = function.__code__
    parts: list[Any] = [code]
    pure = True
    cells = function.__closure__ or ()
    for value in (*[_contents(c, function) for c in cells], *(function.__defaults__ or ())):
        key, ok = static_key(value, depth + 1) if value is not function else ("itself", True)
        parts.append(key)
        pure &= ok
    for name, value in (function.__kwdefaults__ or {}).items():
        key, ok = static_key(value, depth + 1)
        parts.append((name, key))
        pure &= ok
    for path in _global_paths(code):
        key, ok = _read(function, path, depth)
        parts.append(key)
        pure &= ok
    return tuple(parts), pure


def _contents(cell: Any, function: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


_MISSING = object()


def _read(function: FunctionType, path: tuple[str, ...], depth: int) -> Key:
    """The key of `name.attribute.attribute` as the function would read it now."""
    value = function.__globals__.get(path[0], _MISSING)
    if value is _MISSING:
        value = getattr(builtins, path[0], None)
    used = 1
    for attribute in path[1:]:
        if not isinstance(value, (ModuleType, type)):
            break  # an attribute of something that the rest of this file judges as a whole
        value = getattr(value, attribute, None)
        used += 1
    if value is function:
        return "itself", used == len(path)
    key, pure = static_key(value, depth + 1)
    # An attribute of a function may be set by anybody.
    return key, pure and not (used < len(path) and type(value) is FunctionType)


@lru_cache(maxsize=1024)
def _global_paths(code: CodeType) -> tuple[tuple[str, ...], ...]:
    """What a code object, and the functions it defines, read from globals: `np.pi` is ("np", "pi")."""
    found: dict[tuple[str, ...], None] = {}
    path: list[str] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if path:
                found[tuple(path)] = None
            path = [str(instruction.argval)]
        elif path and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            path.append(str(instruction.argval))
        elif path and instruction.opname not in ("CACHE", "PUSH_NULL"):
            found[tuple(path)] = None
            path = []
    if path:
        found[tuple(path)] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(dict.fromkeys(_global_paths(constant)))
    return tuple(found)
