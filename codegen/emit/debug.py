"""Debug info of kernels: each instruction has the line of the user's program that it computes for.

    %t.3 = fadd contract double %t.1, %t.2, !dbg !7          !7 = !DILocation(line: 4, column: 9, scope: !2)

It is written where a module is `placed`: code is the same with it, but text and keys are not.  A function numbers its
metadata by itself, `!{7}` in its text; `joined` gives them the numbers of the module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..records import NamedTuple


class Place(NamedTuple):
    """A line of a program, and the function it stands in."""

    file: str
    line: int
    column: int = 0


#: The place of a node of a graph; None where nobody knows it.
PlaceOf = Callable[[Any], "Place | None"]

#: Metadata of modules begins at this number: those of the emitter's own are smaller.
_FIRST = 100


class NodeLine(str):
    """A line of text that belongs to a node."""

    __slots__ = ("node",)
    node: Any


class ToldLines(list[str]):
    """Lines of a function, each of the node that is being written."""

    node: Any = None

    def append(self, line: str) -> None:
        """Add a line of the present node."""
        told = NodeLine(line)
        told.node = self.node
        super().append(told)


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
        """The lines with marks: every instruction has one, or else LLVM drops those of its neighbours."""
        places = [
            self._place_of(line.node) if isinstance(line, NodeLine) and line.node is not None else None
            for line in lines
        ]
        mark = next((self._mark(place) for place in places if place is not None), "")  # of what is before it, too
        return self._marked(lines, places, mark)

    def around(self, lines: Sequence[str], nodes: Iterable[Any]) -> list[str]:
        """Lines of a function that calls kernels, of which none belongs to a node: line 0 of the first one's file."""
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
        """The lines, and behind them the mark of the function itself, as they stand in a text with such metadata.

        That of this function joins it.  The mark is "" where nothing has a place.
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
    """Lines of a function that stands behind others in one text."""
    return [_NAME.sub(lambda found: f"!{{{int(found[1]) + by}}}", line) for line in lines]


def joined(texts: Sequence[tuple[str, Sequence[str]]]) -> str:
    """The texts of functions, each with its metadata, under numbers that only one of them has."""
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
