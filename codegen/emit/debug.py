"""Debug info of kernels: each instruction has the line of the user's program that it belongs to.

    %t.3 = fadd contract double %t.1, %t.2, !dbg !7          !7 = !DILocation(line: 4, column: 9, scope: !2)

It is written under `modes.debug_info`, and for inspection: machine code is the same with it, but text and keys are not.
The metadata of each function are numbered from 0, `!{7}` in its text; `joined` gives them numbers of the module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..records import NamedTuple


class Place(NamedTuple):
    """A line, and perhaps a column, of a source file."""

    file: str
    line: int
    column: int = 0


#: The place of a node of a graph; None if it is not known.
PlaceOf = Callable[[Any], "Place | None"]

#: The first number of the metadata of debug info in a module: the emitter's other metadata have smaller numbers.
_FIRST = 100


class NodeLine(str):
    """A line of text that belongs to a node."""

    __slots__ = ("node",)
    node: Any


class NodeLines(list[str]):
    """Lines of a function, each marked with the node that is being written."""

    node: Any = None

    def append(self, line: str) -> None:
        """Add a line of the current node."""
        marked = NodeLine(line)
        marked.node = self.node
        super().append(marked)


class Places:
    """The debug info of one function: marks for its lines, and the metadata that they name."""

    def __init__(self, name: str, place_of: PlaceOf) -> None:
        self._name, self._place_of = name, place_of
        self.metadata: list[str] = []
        self._files: dict[str, str] = {}
        self._scopes: dict[str, str] = {}
        self._marks: dict[Place, str] = {}
        self._first: Place | None = None

    def lines(self, lines: Sequence[str]) -> list[str]:
        """The lines with marks: every instruction must have one, or LLVM drops those of its neighbours."""
        places = [
            self._place_of(line.node) if isinstance(line, NodeLine) and line.node is not None else None
            for line in lines
        ]
        mark = next((self._mark(place) for place in places if place is not None), "")  # also of the lines before it
        return self._marked(lines, places, mark)

    def around(self, lines: Sequence[str], nodes: Iterable[Any]) -> list[str]:
        """Mark lines of a function that calls kernels, which belong to no node: by line 0 of the first node's file."""
        places = (self._place_of(node) for node in nodes if node is not None)
        place = next((place for place in places if place is not None), None)
        if place is None:
            return [*lines]
        self._scope(place)
        return self._marked(lines, [None] * len(lines), self._mark(place._replace(line=0, column=0)))

    def _marked(self, lines: Sequence[str], places: Sequence[Place | None], mark: str) -> list[str]:
        found = []
        for line, place in zip(lines, places, strict=True):
            mark = self._mark(place) if place is not None else mark
            is_plain = not mark or not line.startswith("  ") or " phi " in line
            found.append(line if is_plain else f"{line}, !dbg {mark}")
        return found

    def among(self, metadata: list[str], lines: Sequence[str]) -> list[str]:
        """The lines, then the mark of the function itself, numbered behind the metadata that a text already has.

        The metadata of this function are appended to it.  The mark is "" if no line has a place.
        """
        mark = "" if self._first is None else f" !dbg {self._scopes[self._first.file]}"
        found = _shifted([*lines, mark], len(metadata))
        metadata += _shifted(self.metadata, len(metadata))
        return found

    def _mark(self, place: Place) -> str:
        if place not in self._marks:
            scope = self._scope(place)
            self._marks[place] = self._new(f"!DILocation(line: {place.line}, column: {place.column}, scope: {scope})")
        return self._marks[place]

    def _scope(self, place: Place) -> str:
        file = place.file
        if file in self._scopes:
            return self._scopes[file]
        folder, base = os.path.split(file)
        number = self._new(f'!DIFile(filename: "{_quoted(base)}", directory: "{_quoted(folder)}")')
        if self._first is not None:
            scope = f"!DILexicalBlockFile(scope: {self._scopes[self._first.file]}, file: {number}, discriminator: 0)"
        else:
            self._first = place
            unit = self._new(
                f'distinct !DICompileUnit(language: DW_LANG_Python, file: {number}, producer: "autodiff", '
                "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)"
            )
            kind = self._new("!DISubroutineType(types: !{})")
            scope = (
                f'distinct !DISubprogram(name: "{self._name}", scope: {number}, file: {number}, line: {place.line}, '
                f"type: {kind}, scopeLine: {place.line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {unit})"
            )
        self._scopes[file] = self._new(scope)
        return self._scopes[file]

    def _new(self, text: str) -> str:
        name = f"!{{{len(self.metadata)}}}"
        self.metadata.append(f"{name} = {text}")
        return name


def _quoted(text: str) -> str:
    return text.replace("\\", "\\5C").replace('"', "\\22")


_NAME = re.compile(r"!\{(\d+)\}")


def _shifted(lines: Iterable[str], by: int) -> list[str]:
    """The lines with all metadata numbers increased, for a function behind others in one text."""
    return [_NAME.sub(lambda found: f"!{{{int(found[1]) + by}}}", line) for line in lines]


def joined(texts: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Join the texts of functions and their metadata, under numbers that are unique in the module."""
    found, metadata, units = [], [], []
    start = _FIRST
    for text, own in texts:
        def numbered(match: re.Match[str], start: int = start) -> str:
            return f"!{start + int(match[1])}"

        found.append(_NAME.sub(numbered, text))
        metadata += [_NAME.sub(numbered, line) for line in own]
        units += [f"!{start + k}" for k, line in enumerate(own) if "!DICompileUnit(" in line]
        start += len(own)
    if units:
        metadata += [
            f"!{start} = !{{i32 2, !\"Debug Info Version\", i32 3}}",
            f"!llvm.module.flags = !{{!{start}}}",
            f"!llvm.dbg.cu = !{{{', '.join(units)}}}",
        ]
    return "\n".join([*found, *metadata, ""]) if metadata else "\n".join(found)
