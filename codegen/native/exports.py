"""Native functions as Python calls them: builtins, and the module's whole text.

    translation = Translation(checks=True)
    text = translation.text([run_blocks], builtins=[count])

`run_blocks` is exported by its name.  For `count`, a METH_FASTCALL function `count.builtin` is exported, which checks
the number, types and ranges of its arguments and converts them, calls `count`, and makes an object of the result.  An
argument of type `ptr` is the object itself, borrowed from the caller; a result of type `own` is a new reference, or
null with an exception.  All other functions are internal.

checks    asserts, bounds of arrays, null pointers, divisions and shifts are checked; a failed check ends the process
          with the file, the line and the expression

faults    an exported function `faults` returns the address of a number n: the n-th call that may fail (`extern`) is
          not made and fails as if memory ran out; the word after n is then the address of a text that names the call

Native code calls only functions of CPython's limited API.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import numbers, structs
from .numbers import Float, f64, i32, i64, u64
from .routines import Routine, extern, external, from_source, held, void
from .statements import RoutineWriter
from .structs import is_pointer, own, ptr
from .translation import ModuleText, NotNative

_PYTHON = {
    "as_i64": extern("PyLong_AsLongLong", i64, ptr),
    "as_u64": extern("PyLong_AsUnsignedLongLong", u64, ptr),
    "as_f64": extern("PyFloat_AsDouble", f64, ptr),
    "as_bool": extern("PyObject_IsTrue", i32, ptr),
    "of_i64": extern("PyLong_FromLongLong", own, i64),
    "of_u64": extern("PyLong_FromUnsignedLongLong", own, u64),
    "of_f64": extern("PyFloat_FromDouble", own, f64),
    "of_bool": extern("PyBool_FromLong", own, i64),
    "occurred": extern("PyErr_Occurred", ptr),
    "set_error": extern("PyErr_SetString", void, ptr, ptr),
    "held": held,
    "none": external("_Py_NoneStruct"),
}
#: By type, the result that CPython's conversion returns for an error, but also for an object that is this number.
_FAILED = {"i64": "i64(-1)", "u64": "~u64(0)", "f64": "f64(-1.0)", "bool": "i32(-1)"}


class Translation(ModuleText):
    """The LLVM text of native functions and of all that they call, as one module."""

    def text(self, exports: Iterable[Routine], builtins: Sequence[Routine] = ()) -> str:
        """The whole module.  Raises NotNative for source that is not in the language."""
        return self.whole([*exports, *map(builtin, builtins)])

    def written(self, routine: Routine) -> str:
        return RoutineWriter(self, routine).text()


def builtin(routine: Routine) -> Routine:
    """`routine.builtin(self, arguments, count)`, a function with CPython's calling convention for builtins."""
    count = len(routine.params)
    lines = ["def builtin(self: ptr, arguments: ptr[ptr], count: i64) -> own:"]
    lines += _refused(f"count != {count}", "TypeError", f"{routine.name}() takes {count} arguments")
    scope = {**_PYTHON, **vars(structs), **vars(numbers), "call": routine}
    given = [_taken(routine, place, name, kind, lines, scope) for place, (name, kind) in enumerate(routine.params)]
    lines += _result(routine, f"call({', '.join(given)})")
    found = from_source("\n    ".join(lines), scope, routine)
    found.name = f"{routine.name}.builtin"
    return found


def _refused(condition: str, error: str, said: str) -> list[str]:
    """The source lines that return with an exception if a condition holds."""
    return [f"if {condition}:", f"    set_error({error}, {said!r})", "    return None"]


def _taken(routine: Routine, place: int, name: str, kind: Any, lines: list[str], scope: dict[str, Any]) -> str:
    """The source expression of a converted argument; appends the lines that convert and check it."""
    scope[f"T{place}"] = kind
    here, mine = f"arguments[{place}]", f"a{place}"
    if kind == ptr:
        return here
    if isinstance(kind, structs.Array) or getattr(kind, "bits", 64) > 64 or structs.is_owned(kind):
        raise NotNative(f"{routine.file}: in {routine.name}: {name}: {kind.__name__} is no argument of a builtin")
    word = _word(kind)
    lines += [f"{mine} = as_{word}({here})", f"if {mine} == {_FAILED[word]} and occurred() is not None:"]
    lines.append("    return None")
    if word in ("i64", "u64") and getattr(kind, "bits", 64) < 64:
        least, most = (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.signed else (0, (1 << kind.bits) - 1)
        said = f"{routine.name}(): {name} does not fit into {kind.__name__}"
        lines += _refused(f"{mine} < {least} or {mine} > {most}", "OverflowError", said)
    return f"T{place}({mine})"


def _result(routine: Routine, call: str) -> list[str]:
    """The source lines that return the result of a call as an object."""
    kind = routine.result
    if kind is void:
        return [call, "return held(none)"]
    word = _word(kind)
    number = f"of_{word}({'i64' if word == 'bool' else word}({call}))"
    return [f"return {call if structs.is_owned(kind) else number}"]


def _word(kind: Any) -> str:
    """The name of the conversion between a type and Python's numbers."""
    if is_pointer(kind):
        return "u64"
    if kind is bool:
        return "bool"
    return "f64" if issubclass(kind, Float) else "i64" if kind.signed else "u64"
