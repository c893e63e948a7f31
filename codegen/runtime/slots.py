"""Slots of Python classes: the offsets of an object's slots, and C functions as methods and attributes of a class.

    offset_of(Node, "value")                      the offset of a slot, which machine code adds to an object's address
    wrapper(cls, example, "__mul__", address)     a descriptor that puts a C function into a type slot of a class
    method(cls, "item", address)                  a C function as a method of a class
    attribute(cls, "grad", get, set)              two C functions as an attribute of a class
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any

#: The oldest and the newest version of CPython that the tests ran on.  Their objects have the layout that is read here.
_VERSIONS = ((3, 11), (3, 15))
#: The offset of the definition in a member descriptor; the offset of the slot's offset in a definition.
_DEFINITION = 40
_OFFSET = 16
#: The offsets in a type object of the sizes of its objects (`tp_basicsize`, `tp_itemsize`) and of `tp_dealloc`.
_SIZES, DEALLOC = 32, 48
#: The offsets in a type object of `tp_traverse` and `tp_clear`; then of the base in a slot wrapper.
_TRAVERSE, _CLEAR = 184, 192
_WRAPPER_BASE = 40


def is_known_python() -> bool:
    """True for a Python whose objects may be read by address.  Check this before any read: a wrong address crashes.

    False for other implementations, whose `id` is no address; for versions that were not tried, whose fields may have
    moved; and for builds whose objects have other heads: debug, reference-tracing and free-threaded builds.
    """
    is_usual = not (
        hasattr(sys, "gettotalrefcount") or hasattr(sys, "getobjects") or sysconfig.get_config_var("Py_GIL_DISABLED")
    )
    is_tried = _VERSIONS[0] <= sys.version_info[:2] <= _VERSIONS[1]
    return sys.implementation.name == "cpython" and is_usual and is_tried and ctypes.sizeof(ctypes.c_void_p) == 8


#: Made once, because ctypes makes a class for each prototype, which takes 15 us.
_new_wrapper = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyDescr_NewWrapper", ctypes.pythonapi)
)
_describing = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
_new_method = _describing(("PyDescr_NewMethod", ctypes.pythonapi))
_new_attribute = _describing(("PyDescr_NewGetSet", ctypes.pythonapi))


def wrapper(cls: type, example: Any, name: str, address: int) -> Any:
    """A descriptor that puts a C function into the type slot of `name`, in a class and its subclasses.

    example   a slot wrapper of that name from a built-in class, which says what kind of slot it is
    """
    base = ctypes.c_void_p.from_address(id(example) + _WRAPPER_BASE).value
    assert base is not None
    assert ctypes.c_char_p.from_address(base).value == name.encode()
    return _new_wrapper(cls, base, address)


def life_of(cls: type) -> tuple[ctypes.c_void_p, ...] | None:
    """The words of a type object that free, traverse and clear objects; None unless they are those of `_Plain`."""
    sizes = (ctypes.c_ssize_t * 2).from_address(id(cls) + _SIZES)
    if sizes[:] != [cls.__basicsize__, cls.__itemsize__]:
        return None
    words, usual = [
        tuple([ctypes.c_void_p.from_address(id(c) + at) for at in (DEALLOC, _TRAVERSE, _CLEAR)]) for c in (cls, _Plain)
    ]
    return words if [w.value for w in words] == [w.value for w in usual] else None


class _Plain:
    """A class with slots and nothing else: its objects are freed in the usual way."""

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


#: CPython's flags of a method without arguments, and of one with any arguments, by position and by name.
_METH_NOARGS, _METH_ANY = 0x4, 0x80 | 0x2

#: Definitions are kept alive to the end of the process, as long as the classes that have them.
_definitions: list[ctypes.Structure] = []


def method(cls: type, name: str, address: int, *, takes_arguments: bool = False, doc: str | None = None) -> Any:
    """A C function as a method of a class: f(self, NULL), or f(self, arguments, count, names) if it takes arguments."""
    signature = "($self, /, *args, **keywords)" if takes_arguments else "($self, /)"
    text = f"{name}{signature}\n--\n\n{doc or ''}".encode()
    definition = MethodDefinition(name.encode(), address, _METH_ANY if takes_arguments else _METH_NOARGS, text)
    return _described(_new_method, cls, definition)


def attribute(cls: type, name: str, get: int, set_: int) -> Any:
    """Two C functions as an attribute of a class: get(self, NULL), set(self, value or NULL, NULL)."""
    return _described(_new_attribute, cls, _Attribute(name.encode(), get, set_, None, None))


def _described(new: Callable[[type, int], Any], cls: type, definition: ctypes.Structure) -> Any:
    _definitions.append(definition)
    return new(cls, ctypes.addressof(definition))


def offset_of(cls: type, name: str) -> int:
    """The offset of a slot in objects of a class, by its member descriptor.

    Raises TypeError if a self-check does not confirm the offset: a silent fallback to Python would only be slow.
    """
    member = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
    if type(member) is MemberDescriptorType:
        definition = ctypes.c_int64.from_address(id(member) + _DEFINITION).value
        offset = ctypes.c_int64.from_address(definition + _OFFSET).value
        if _is_confirmed(cls, name, offset):
            return offset
    raise TypeError(f"{cls.__name__} has no slot {name} that machine code could read")


def _is_confirmed(cls: type, name: str, offset: int) -> bool:
    """True if an object of this class holds at the offset the object that Python assigns to the slot."""
    if not object.__basicsize__ <= offset < cls.__basicsize__:
        return False
    probe: Any = object.__new__(cls)
    token = object()
    field = ctypes.c_void_p.from_address(id(probe) + offset)
    if field.value:
        return False
    getattr(cls, name).__set__(probe, token)
    return field.value == id(token)
