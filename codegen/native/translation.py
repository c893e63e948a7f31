"""The LLVM text of native functions and of all functions that they call: names, constants, metadata of one module.

Debug info gives each function its file and each instruction its line.  Metadata is numbered from 1000 on, so that the
text can be appended to a text with metadata of its own.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable
from typing import Any

from ..records import record
from .numbers import Float, Vector
from .routines import Constants, Routine, void
from .structs import Array, is_pointer, is_struct, size_of


class NotNative(TypeError):
    """An error in source that the compiler refuses: file, line, function, reason and expression."""


@record(frozen=True)
class Computed:
    """A value in LLVM's text.

    length    the length of the array that a pointer points to; 0 if it is not known
    """

    text: str
    kind: Any
    length: int = 0


def spelled(kind: Any) -> str:
    """LLVM's name of a type."""
    if is_pointer(kind) or isinstance(kind, Array) or is_struct(kind):
        return "ptr"
    if kind is void:
        return "void"
    if issubclass(kind, Vector):
        return f"<{kind.lanes} x {spelled(kind.item)}>"
    if issubclass(kind, Float):
        return "double" if kind.bits == 64 else "float"
    return "i1" if kind is bool else f"i{kind.bits}"


def in_memory(kind: Any) -> str:
    """LLVM's name of a type in memory, where bool takes a byte."""
    return "i8" if kind is bool else spelled(kind)


def constant(value: Any, kind: Any) -> str:
    """A number as LLVM writes it."""
    if issubclass(kind, Float):
        (bits,) = struct.unpack("<Q", struct.pack("<d", kind(value)))
        return f"0x{bits:016X}"
    return str(int(value))


#: Functions that release the reference to one object, or to each of `count`; null and numbers below 256 are no objects.
_GIVE_BACK = """define internal void @give_back(ptr %object) alwaysinline {
  %is_there = icmp ugt ptr %object, inttoptr (i64 255 to ptr)
  br i1 %is_there, label %some, label %done
some:
  call void @Py_DecRef(ptr %object)
  br label %done
done:
  ret void
}

define internal void @give_back_all(ptr %at, i64 %count) alwaysinline {
entry:
  %end = getelementptr ptr, ptr %at, i64 %count
  br label %head
head:
  %place = phi ptr [ %at, %entry ], [ %following, %next ]
  %is_end = icmp eq ptr %place, %end
  br i1 %is_end, label %done, label %next
next:
  %object = load ptr, ptr %place
  call void @give_back(ptr %object)
  %following = getelementptr ptr, ptr %place, i64 1
  br label %head
done:
  ret void
}"""
#: The first number of metadata.
_FIRST_METADATA = 1000


class ModuleText:
    """The text of a module while it is written; `written` returns the text of a function."""

    def __init__(self, *, checks: bool = False, faults: bool = False) -> None:
        self.checks, self.faults = checks, faults
        self.texts: list[str] = []
        self._metadata: list[str] = []
        self._version = self.metadata('!{i32 2, !"Debug Info Version", i32 3}')
        self._files: dict[str, tuple[str, str, str]] = {}
        self.exported: list[Routine] = []
        self._known: dict[Any, str] = {}
        self._taken: set[str] = set()
        self._waiting: list[Routine] = []
        self._written: set[int] = set()

    def whole(self, exports: Iterable[Routine]) -> str:
        """The text of these functions and of all functions that they call."""
        self.exported = list(exports)
        if self.faults:
            self.beside("define ptr @faults() {\n  ret ptr @faults.left\n}")
            self.texts.append("@faults.left = internal global [2 x i64] zeroinitializer")
        for routine in self.exported:
            self.use(routine)
        while self._waiting:
            self._write(self._waiting.pop(0))
        units = ", ".join(unit for _, unit, _ in self._files.values())
        named = [f"!llvm.dbg.cu = !{{{units}}}", f"!llvm.module.flags = !{{{self._version}}}"]
        return "\n\n".join(self.texts) + "\n" + "\n".join([*named, *self._metadata]) + "\n"

    def beside(self, text: str) -> None:
        """Add hand-written LLVM text to the module.  Native functions call its functions as `extern`."""
        self.texts.append(text)
        self._taken.update(re.findall(r"^(?:declare|define)[^@\n]*@([\w.]+)\(", text, re.MULTILINE))

    # ------------------------------------------------------------ names

    def use(self, routine: Routine) -> str:
        """The name of a function, which is added to the module."""
        if routine not in self._known:
            if not routine.is_native:
                self._known[routine] = f"@{routine.name}"
            else:
                self._named(routine, routine.name, exactly=routine in self.exported)
            self._waiting.append(routine)
        return self._known[routine]

    def static(self, stand_in: Any, kind: Any, name: str) -> str:
        """The name of static memory, which is added to the module."""
        if id(stand_in) not in self._known:
            found = self._named(id(stand_in), name)
            memory = f"global [{size_of(kind)} x i8] zeroinitializer"
            if isinstance(stand_in, Constants):
                item = spelled(kind.item)
                values = ", ".join([f"{item} {constant(value, kind.item)}" for value in stand_in.items])
                memory = f"constant [{kind.length} x {item}] [{values}]"
            self.texts.append(f"{found} = internal {memory}, align 64")
        return self._known[id(stand_in)]

    def _named(self, key: Any, wanted: str, *, exactly: bool = False) -> str:
        """A unique name in the module, recorded under `key`; with `exactly`, the wanted name itself."""
        name, count = wanted, 1
        while name in self._taken and not exactly:
            count += 1
            name = f"{wanted}.{count}"
        self._taken.add(name)
        self._known[key] = f"@{name}"
        return self._known[key]

    def declared(self, name: str, result: str, *params: str) -> str:
        """Declare a function of another library that generated code calls; return its name."""
        return self._once(name, f"declare {result} @{name}({', '.join(params)})")

    def variable(self, name: str) -> str:
        """Declare a variable of another library; return its name."""
        return self._once(name, f"@{name} = external global ptr")

    def giving_back(self, name: str) -> str:
        """The name of `give_back` or `give_back_all`, which are added to the module."""
        self.declared("Py_DecRef", "void", "ptr")
        self._once("give_back", _GIVE_BACK)
        return f"@{name}"

    def _once(self, name: str, text: str) -> str:
        if name not in self._taken:
            self._taken.add(name)
            self.texts.append(text)
        return f"@{name}"

    def string(self, text: str) -> str:
        """The name of a constant text with a zero byte at its end."""
        if text not in self._known:
            data = text.encode() + b"\0"
            quoted = "".join([chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data])
            self._known[text] = f"@text.{len(self._known)}"
            self.texts.append(f'{self._known[text]} = private constant [{len(data)} x i8] c"{quoted}"')
        return self._known[text]

    # ------------------------------------------------------------ functions

    def written(self, routine: Routine) -> str:
        raise NotImplementedError

    def _write(self, routine: Routine) -> None:
        if id(routine) in self._written:
            return
        self._written.add(id(routine))
        if routine.is_native:
            self.texts.append(self.written(routine))
        else:
            self.declared(routine.name, spelled(routine.result), *[spelled(kind) for _, kind in routine.params])

    # ------------------------------------------------------------ debug info

    def metadata(self, text: str) -> str:
        """The number of a new piece of metadata."""
        name = f"!{_FIRST_METADATA + len(self._metadata)}"
        self._metadata.append(f"{name} = {text}")
        return name

    def subprogram(self, routine: Routine, line: int) -> str:
        """The debug info of a function."""
        if routine.file not in self._files:
            folder, base = os.path.split(routine.file)
            file = self.metadata(f'!DIFile(filename: "{base}", directory: "{folder}")')
            unit = self.metadata(
                f'distinct !DICompileUnit(language: DW_LANG_Python, file: {file}, producer: "native Python", '
                "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)"
            )
            self._files[routine.file] = (file, unit, self.metadata("!DISubroutineType(types: !{})"))
        file, unit, kind = self._files[routine.file]
        return self.metadata(
            f'distinct !DISubprogram(name: "{routine.name}", scope: {file}, file: {file}, line: {line}, type: {kind}, '
            f"scopeLine: {line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {unit})"
        )
