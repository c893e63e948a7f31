"""Slots of Python classes: where objects have them, and C functions in those of a class.

    offset_of(Node, "value")                      what machine code adds to an object's address
    wrapper(cls, example, "__mul__", address)     a descriptor that puts a C function into the slot of a class
    method(cls, "item", address)                  a C function as a method of a class
    attribute(cls, "grad", get, set)              two as an attribute
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any

#: Versions of CPython that the tests ran on: their objects look as they are read here.
_VERSIONS = ((3, 11), (3, 15))
#: The places of a member descriptor's definition, of the offset in that one, and of a slot wrapper's base.
_DEFINITION = 40
_OFFSET = 16
#: The places in a class of its name, of the sizes of its objects, and of the function that frees one.
_SIZES, DEALLOC = 32, 48
#: The places in a class of the functions by which the collector of cycles visits an object, and clears it.
_TRAVERSE, _CLEAR = 184, 192
_WRAPPER_BASE = 40


def is_known_python() -> bool:
    """True for a Python whose objects may be read by address.  Ask before an address is followed: a wrong one crashes.

    Refused are other implementations, whose `id` is no address; versions that were not tried, as their fields may have
    moved; and builds whose objects have other heads: for debugging, with traced references, without the lock.
    """
    is_usual = not (
        hasattr(sys, "gettotalrefcount") or hasattr(sys, "getobjects") or sysconfig.get_config_var("Py_GIL_DISABLED")
    )
    is_tried = _VERSIONS[0] <= sys.version_info[:2] <= _VERSIONS[1]
    return sys.implementation.name == "cpython" and is_usual and is_tried and ctypes.sizeof(ctypes.c_void_p) == 8


#: Made once: ctypes makes a class for each, which takes 15 us.
_new_wrapper = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyDescr_NewWrapper", ctypes.pythonapi)
)
_describing = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
_new_method = _describing(("PyDescr_NewMethod", ctypes.pythonapi))
_new_attribute = _describing(("PyDescr_NewGetSet", ctypes.pythonapi))


def wrapper(cls: type, example: Any, name: str, address: int) -> Any:
    """A descriptor that puts a C function into the slot of `name` of a class and those below it.

    example   a slot wrapper of that name of some class of Python's own: it knows what kind of slot it is
    """
    base = ctypes.c_void_p.from_address(id(example) + _WRAPPER_BASE).value
    assert base is not None
    assert ctypes.c_char_p.from_address(base).value == name.encode()
    return _new_wrapper(cls, base, address)


def life_of(cls: type) -> tuple[ctypes.c_void_p, ...] | None:
    """The words of a class of Python's that free, traverse and clear its objects; None unless it is done as usual."""
    sizes = (ctypes.c_ssize_t * 2).from_address(id(cls) + _SIZES)
    if sizes[:] != [cls.__basicsize__, cls.__itemsize__]:
        return None
    words, usual = [
        tuple([ctypes.c_void_p.from_address(id(c) + at) for at in (DEALLOC, _TRAVERSE, _CLEAR)]) for c in (cls, _Plain)
    ]
    return words if [w.value for w in words] == [w.value for w in usual] else None


class _Plain:
    """A class as others: how its objects are freed is the usual way."""

    __slots__ = ("field",)


class MethodDefinition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Attribute(ctypes.Structure):
    """CPython's PyGetSetDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


#: Flags of a method without arguments, and of one that takes any, by position and by name.
_METH_NOARGS, _METH_ANY = 0x4, 0x80 | 0x2

#: Definitions live as long as the classes that have them, which is to the end of the process.
_definitions: list[ctypes.Structure] = []


def method(cls: type, name: str, address: int, *, takes_arguments: bool = False, doc: str | None = None) -> Any:
    """A method of a class that is a C function: f(self, NULL), or f(self, arguments, count, names)."""
    signature = "($self, /, *args, **keywords)" if takes_arguments else "($self, /)"
    text = f"{name}{signature}\n--\n\n{doc or ''}".encode()
    definition = MethodDefinition(name.encode(), address, _METH_ANY if takes_arguments else _METH_NOARGS, text)
    return _described(_new_method, cls, definition)


def attribute(cls: type, name: str, get: int, set_: int) -> Any:
    """An attribute of a class by two C functions: get(self, NULL), set(self, value or NULL, NULL)."""
    return _described(_new_attribute, cls, _Attribute(name.encode(), get, set_, None, None))


def _described(new: Callable[[type, int], Any], cls: type, definition: ctypes.Structure) -> Any:
    _definitions.append(definition)
    return new(cls, ctypes.addressof(definition))


def offset_of(cls: type, name: str) -> int:
    """The offset of a slot in objects of a class, by its member descriptor.

    Raises TypeError where the self-check refuses it: machine code that goes unused in silence is only slow.
    """
    member = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
    if type(member) is MemberDescriptorType:
        definition = ctypes.c_int64.from_address(id(member) + _DEFINITION).value
        offset = ctypes.c_int64.from_address(definition + _OFFSET).value
        if _is_confirmed(cls, name, offset):
            return offset
    raise TypeError(f"{cls.__name__} has no slot {name} that machine code could read")


def _is_confirmed(cls: type, name: str, offset: int) -> bool:
    """True if an object of this class has there what is given to it in Python."""
    if not object.__basicsize__ <= offset < cls.__basicsize__:
        return False
    probe: Any = object.__new__(cls)
    token = object()
    field = ctypes.c_void_p.from_address(id(probe) + offset)
    if field.value:
        return False
    getattr(cls, name).__set__(probe, token)
    return field.value == id(token)
