"""What a rule reads besides tensors, as a key: equal keys mean that the rule would record the same.

A rule is Python: it may read its closure, its defaults and module globals, and so may the functions
it calls.  What they name is found once per code object; what the names hold is looked at on every
call of a recorded function (a microsecond or two), so nothing that a rule reads can be stale.

    number, str, None, bool, dtype, slice, range       by value (a number's kind counts, and the sign of zero)
    tuple, frozenset; tensors                          by their parts; by node
    functions                                          by code, closure, defaults and globals, recursively
    modules, classes, generic functions, built-ins     by identity
    anything else: lists, arrays, instances            cannot be told: the rule is run again each time
"""

from __future__ import annotations

import builtins
import dis
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..tensor import Tensor

__all__ = ["function_key", "static_key"]

_BY_VALUE = (str, bytes, bool, int, type(None), type(...), np.dtype, range)
_BY_IDENTITY = (type, ModuleType, BuiltinFunctionType, np.ufunc)
_MAX_DEPTH = 6

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


def function_key(function: Any, depth: int = 0) -> Key:
    """The key of a function: its code and everything that it can read by name."""
    if type(function) is MethodType:
        return None, False
    if type(function) is not FunctionType:
        return static_key(function, depth)
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
    for attribute in path[1:]:
        if not isinstance(value, ModuleType):
            break  # an attribute of something that the rest of this file judges as a whole
        value = getattr(value, attribute, None)
    if value is function:
        return "itself", True
    return static_key(value, depth + 1)


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
