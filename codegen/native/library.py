"""Builtins and types of a module of native Python that is machine code.

    library = BuiltinLibrary(code, builtins=[count], types=[NODE])
    library.count(3)            library.types["Node"]

A builtin holds the code that it is in.  Code that frees the objects of a type stays to the end of the process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .exports import PythonType
from .routines import Routine

__all__ = ["BuiltinLibrary"]

_METH_FASTCALL = 0x80
_TP_DEALLOC = 52
#: Py_TPFLAGS_DEFAULT is 1 << 18 in the limited API of 3.11; instances are made by native code alone.
_DEFAULT, _NOT_BY_CALL = 1 << 18, 1 << 7


class _Definition(ctypes.Structure):
    """PyMethodDef, which the limited API has."""

    _fields_ = (("name", ctypes.c_char_p), ("f", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class _Slot(ctypes.Structure):
    """PyType_Slot."""

    _fields_ = (("number", ctypes.c_int), ("function", ctypes.c_void_p))


class _TypeSpec(ctypes.Structure):
    """PyType_Spec."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    )


_new_builtin = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_new_type = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(("PyType_FromSpec", ctypes.pythonapi))


_kept: list[Any] = []


class BuiltinLibrary:
    """The builtins of a module as attributes, and its types by their structs' names in `types`.

    code    has `address(name)`
    """

    def __init__(self, code: Any, builtins: Sequence[Routine] = (), types: Sequence[PythonType] = ()) -> None:
        self._code = code
        self.types: dict[str, Any] = {}
        for python in types:
            made = self._type(python, code.address(python.free.name))
            self._builtin(python.remember.name, code.address(python.remember.name))(made)
            self.types[python.struct.__name__] = made
        for routine in builtins:
            setattr(self, routine.name, self._builtin(routine.name, code.address(f"{routine.name}.builtin")))

    def __getattr__(self, name: str) -> Any:  # the builtins, to type checkers
        raise AttributeError(name)

    def _builtin(self, name: str, address: int) -> Any:
        definition = _Definition(name.encode(), address, _METH_FASTCALL, None)
        return _new_builtin(ctypes.addressof(definition), (self._code, definition), None)

    def _type(self, python: PythonType, free: int) -> Any:
        slots = (_Slot * 2)(_Slot(_TP_DEALLOC, free), _Slot(0, None))
        name = python.name.encode()
        spec = _TypeSpec(name, python.struct.size(), 0, _DEFAULT | _NOT_BY_CALL, ctypes.addressof(slots))
        _kept.extend((self._code, slots, name, spec))  # before 3.12 a type's name stays where it was given
        return _new_type(ctypes.addressof(spec))
