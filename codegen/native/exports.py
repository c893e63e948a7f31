"""Native functions as Python calls them: builtins and types, and the module's whole text.

    translation = Translation(checks=True)
    text = translation.text([run_blocks], builtins=[count], types=[NODE])

`run_blocks` is exported by its name; for `count` the function `count.builtin` is, as CPython's METH_FASTCALL has it:
it takes its arguments apart, looks at their number, types and ranges, and makes an object of the result.  These are
native Python themselves, so the compiler sees to their references, too.  All else is internal.

checks    asserts, bounds of arrays, null pointers, divisions and shifts are looked at; a fault ends the process with
          the file, the line and the expression
faults    for tests: calls of other libraries that may fail count down from `set_faults(k)`; the k-th fails, unmade

CPython is called through functions of its limited API only.

Builtins and types of a module of native Python that is machine code.

    library = BuiltinLibrary(code, builtins=[count], types=[NODE])
    library.count(3)            library.types["Node"]

A builtin holds the code that it is in.  Code that frees the objects of a type stays to the end of the process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from ..records import record
from . import numbers, structs
from .numbers import Float, f64, i32, i64, u64
from .routines import Routine, extern, external, from_source, static, status, void
from .statements import RoutineWriter
from .structs import Reference, array, borrowed, is_object, is_pointer, obj
from .translation import ModuleText, NotNative

__all__ = ["BuiltinLibrary", "PythonType", "Translation", "python_type"]

_PYTHON = {
    "as_i64": extern("PyLong_AsLongLong", i64, borrowed, fails="occurred"),
    "as_u64": extern("PyLong_AsUnsignedLongLong", u64, borrowed, fails="occurred"),
    "as_f64": extern("PyFloat_AsDouble", f64, borrowed, fails="occurred"),
    "as_bool": extern("PyObject_IsTrue", i32, borrowed, fails=True),
    "of_i64": extern("PyLong_FromLongLong", obj, i64, fails=True, runs_python=False),
    "of_u64": extern("PyLong_FromUnsignedLongLong", obj, u64, fails=True, runs_python=False),
    "of_f64": extern("PyFloat_FromDouble", obj, f64, fails=True, runs_python=False),
    "of_bool": extern("PyBool_FromLong", obj, i64, fails=True, runs_python=False),
    "is_instance": extern("PyObject_IsInstance", i32, borrowed, borrowed, fails=True),
    "none": external("_Py_NoneStruct"),
}


@record(eq=False)
class PythonType:
    """A type of Python's whose objects are a struct, which begins with the head of an object.

    free      the function that frees an object: its `tp_dealloc`
    known     static memory that holds the type as soon as it is made
    remember  the builtin that puts it there
    """

    struct: Any
    name: str
    free: Routine
    known: Any
    remember: Routine


def python_type(struct: Any, name: str, free: Routine) -> PythonType:
    """A type of Python's for a struct; the native functions that take a pointer to one then take its objects."""
    known = static(array[obj, 1])
    scope = {**_PYTHON, **vars(structs), **vars(numbers), "known": known}
    remember = from_source(
        f"def remember_{struct.__name__}(self: borrowed, arguments: ptr[borrowed], count: i64) -> obj:\n"
        "    known[0] = arguments[0]\n    return none", scope, free,
    )  # fmt: skip
    struct._python = PythonType(struct, name, free, known, remember)
    return struct._python


class Translation(ModuleText):
    """The LLVM text of native functions and of all that they call, as one module."""

    def text(
        self, exports: Iterable[Routine], builtins: Sequence[Routine] = (), types: Sequence[PythonType] = ()
    ) -> str:
        """The whole module.  Raises NotNative for source that is not in the language."""
        wrappers = [builtin(routine) for routine in builtins]
        return self.whole([*exports, *wrappers, *(r for t in types for r in (t.free, t.remember))])

    def written(self, routine: Routine) -> str:
        return RoutineWriter(self, routine).text()


def builtin(routine: Routine) -> Routine:
    """`routine.builtin(self, arguments, count)`, as CPython calls a builtin function."""
    count = len(routine.params)
    lines = [
        "def builtin(self: borrowed, arguments: ptr[borrowed], count: i64) -> obj:",
        f"if count != {count}:",
        f"    raise TypeError({f'{routine.name}() takes {count} arguments'!r})",
    ]
    scope = {**_PYTHON, **vars(structs), **vars(numbers), "call": routine}
    given = [_taken(routine, place, name, kind, lines, scope) for place, (name, kind) in enumerate(routine.params)]
    lines += _result(routine, f"call({', '.join(given)})")
    found = from_source("\n    ".join(lines), scope, routine)
    found.name = f"{routine.name}.builtin"
    return found


def _taken(routine: Routine, place: int, name: str, kind: Any, lines: list[str], scope: dict[str, Any]) -> str:
    """The expression of an argument; lines that look at it come before."""
    scope[f"T{place}"] = kind
    here, own = f"arguments[{place}]", f"a{place}"
    if is_object(kind):
        return here
    if isinstance(kind, Reference) and (python := getattr(kind.target, "_python", None)):
        scope[f"P{place}"] = python.known
        said = f"{routine.name}(): {name} must be a {python.name}"
        lines += [f"if is_instance({here}, P{place}[0]) == 0:", f"    raise TypeError({said!r})"]
        return f"T{place}({here})"
    if kind is bool:
        return f"as_bool({here}) != 0"
    if isinstance(kind, type) and issubclass(kind, Float):
        return f"T{place}(as_f64({here}))"
    if not is_pointer(kind) and (isinstance(kind, structs.Array) or kind.bits > 64):
        raise NotNative(f"{routine.file}: in {routine.name}: {name}: {kind.__name__} is no argument of a builtin")
    is_signed = not is_pointer(kind) and kind.signed
    lines.append(f"{own} = {'as_i64' if is_signed else 'as_u64'}({here})")
    if not is_pointer(kind) and kind.bits < 64:
        least, most = (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if is_signed else (0, (1 << kind.bits) - 1)
        said = f"{routine.name}(): {name} does not fit into {kind.__name__}"
        lines += [f"if {own} < {least} or {own} > {most}:", f"    raise OverflowError({said!r})"]
    return f"T{place}({own})"


def _result(routine: Routine, call: str) -> list[str]:
    """The lines that give the result."""
    kind = routine.result
    if kind in (void, status):
        return [call, "return none"]
    if kind == obj:
        return [f"return {call}"]
    if is_pointer(kind):
        return [f"return of_u64(u64({call}))"]
    if kind is bool:
        return [f"return of_bool(i64({call}))"]
    if issubclass(kind, Float):
        return [f"return of_f64({call})"]
    return [f"return of_{'i' if kind.signed else 'u'}64({call})"]


# ---------------------------------------------------------------- libraries


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
