"""Slots of Python classes: where objects have them, and C functions in those of a class.

    offset_of(Node, "value")                      what machine code adds to an object's address
    wrapper(cls, example, "__mul__", address)     a descriptor that puts a C function into the slot of a class
"""

from __future__ import annotations

import ctypes
import sys
from types import MemberDescriptorType
from typing import Any

__all__ = ["is_known_python", "offset_of", "wrapper"]

#: Versions of CPython whose descriptors look as they are read here (3.14 was not tried).
_VERSIONS = ((3, 10), (3, 13))
#: Where a member descriptor has its definition and that one the offset; where a slot wrapper has its base.
_DEFINITION = 40
_OFFSET = 16
_WRAPPER_BASE = 40


def is_known_python() -> bool:
    """Whether this is a version of CPython of which this file is right."""
    return _VERSIONS[0] <= sys.version_info[:2] <= _VERSIONS[1]


def wrapper(cls: type, example: Any, name: str, address: int) -> Any:
    """A descriptor that puts a C function into the slot of `name` of a class and those below it.

    example   a slot wrapper of that name of some class of Python's own: it knows what kind of slot it is
    """
    base = ctypes.c_void_p.from_address(id(example) + _WRAPPER_BASE).value
    assert base is not None
    assert ctypes.c_char_p.from_address(base).value == name.encode()
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyDescr_NewWrapper", ctypes.pythonapi)
    )
    return new(cls, base, address)


def offset_of(cls: type, name: str) -> int | None:
    """Where objects of a class have a slot, by its member descriptor; None when the self-check does not confirm it."""
    member = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
    if type(member) is not MemberDescriptorType:
        return None
    definition = ctypes.c_void_p.from_address(id(member) + _DEFINITION).value
    if definition is None:
        return None
    offset = ctypes.c_int64.from_address(definition + _OFFSET).value
    return offset if _is_confirmed(cls, name, offset) else None


def _is_confirmed(cls: type, name: str, offset: int) -> bool:
    """Whether an object of this class has there what is given to it in Python."""
    if not object.__basicsize__ <= offset < cls.__basicsize__:
        return False
    probe: Any = object.__new__(cls)
    token = object()
    field = ctypes.c_void_p.from_address(id(probe) + offset)
    if field.value:
        return False
    getattr(cls, name).__set__(probe, token)
    return field.value == id(token)
