"""Comments in texts of programs and machine code: which value each step or instruction computes, and the user's line.

    %t.2 = fadd contract double %t.1, %x  ; c, train.py:3            LLVM
    # c, train.py:3                                                  assembly, before the instructions
    %2 = arith.addf %1, %0 : f64 loc("c"("train.py":3:5))            MLIR, where it is no comment

LLVM carries numbers of nodes through its passes, as lines of a file that there is not; the code is the same with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from ..emit.debug import Place
from ..ir import Node, node_names
from ..lowering import Contract
from ..program import BufferProgram, Gemm, HostCall, Kernel, Step
from .cost import operations_of

#: As many values as a comment names.
_SHOWN = 12


class Holding:
    """The values that each buffer of a program holds, and the steps of its life; and, for each step, its own values.

    computed   nodes, in their order        stored   those of them that the step writes to memory
    """

    def __init__(self, program: BufferProgram) -> None:
        graph = program.drawn or program.graph
        place = {node: k for k, node in enumerate((*graph.inputs, *graph.nodes))}
        self.values: list[list[Any]] = [
            [graph.inputs[buffer.place]] if buffer.role == "input" else [] for buffer in program.buffers
        ]
        self.lives: list[list[int]] = [[] for _ in program.buffers]
        self._shared: dict[Any, list[Any]] = {}
        for value in program.shares:
            last: Any = value
            while last in program.shares:
                last = program.shares[last]
            self._shared.setdefault(last, []).append(value)
        self._claimed: set[Any] = set()
        self.computed: list[list[Node]] = []
        self.stored: list[list[Node]] = []
        for step in program.steps:
            self.computed.append(sorted(self._computed(step), key=lambda n: place.get(n, -1)))
            self.stored.append(self._stored(step))

    def _may_be(self, value: Any) -> list[Any]:
        """The values that a step may mean by the name of this one."""
        return [v for v in (*self._shared.get(value, ()), value) if v not in self._claimed]

    def _computed(self, step: Step) -> list[Node]:
        if isinstance(step.work, Kernel):
            return list(step.work.members)
        if isinstance(step.work, HostCall):
            return [v for v in self._may_be(step.values[-1])[-1:] if isinstance(v, Node)]
        if isinstance(step.work, Gemm):
            return [v for v in self._may_be(step.values[-1]) if isinstance(v.op.lower, Contract)][:1]
        return [v for v in step.values[step.work.reads :] if isinstance(v, Node) and v.op.name != "workspace"]

    def _stored(self, step: Step) -> list[Node]:
        """The values that the latest step stores, noted of the buffers."""
        _, writes = reads_writes(step)
        number, computed, stored = len(self.stored), self.computed[-1], []
        for b, value in zip(step.buffers, step.values, strict=False):
            self.lives[b].append(number)
            if b in writes:
                found = [v for v in self._may_be(value) if v in computed] or [v for v in [value] if isinstance(v, Node)]
                stored += found[-1:]
                self._claimed.update(found[-1:])
                self.values[b] += [v for v in found[-1:] if v not in self.values[b]]
        return stored


def reads_writes(step: Step) -> tuple[list[int], list[int]]:
    """The numbers of the buffers that a step reads, and of those that it writes."""
    work, numbers = step.work, step.buffers
    if isinstance(work, Kernel):
        written = work.function.writes
        reads = [b for j, b in enumerate(numbers) if j not in written or j in work.updates]
        return reads, [b for j, b in enumerate(numbers) if j in written]
    if isinstance(work, Gemm):
        split = len(numbers) - 1
    else:
        split = len(work.node.inputs) if isinstance(work, HostCall) else work.reads
    return list(numbers[:split]), list(numbers[split:])


def bytes_operations(program: BufferProgram, step: Step) -> tuple[int, int]:
    """The bytes of the arrays that a step reads and writes, each once; and its scalar operations."""
    reads, writes = reads_writes(step)
    alone = BufferProgram(program.name, program.buffers, (step,), (), (), 0, program.graph)
    return sum([program.buffers[b].aval.nbytes for b in (*reads, *writes)]), operations_of(alone)


class Comments:
    """Comments on the steps and buffers of a program whose nodes have origins, by number."""

    def __init__(self, program: BufferProgram) -> None:
        graph = program.drawn or program.graph
        is_told = any([n.origins for n in (*graph.inputs, *graph.nodes)])
        self._names = node_names(graph)
        self._holds = Holding(program) if is_told else None

    def of_buffer(self, number: int) -> str:
        """The values that it holds, in turn."""
        return self._named(self._holds.values[number]) if self._holds else ""

    def of_step(self, number: int) -> str:
        """The values that it computes, and where they were recorded."""
        nodes = self._holds.computed[number] if self._holds else []
        lines = [f"{os.path.basename(line.file)}:{line.line}" for n in nodes for o in n.origins for line in o.lines[:1]]
        told = self._named(nodes)
        return told and ", ".join([told, *list(dict.fromkeys(lines))[:_SHOWN]])

    def _named(self, nodes: Sequence[Node]) -> str:
        names = [self._names[n] for n in nodes if n in self._names]
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        return f"  # {' '.join([*names[:_SHOWN], *more])}" if names else ""


#: A text's lines, and for each the value that it belongs to, or "".
Shown = tuple[list[str], list[str]]


def place_of_node(node: Any) -> Place | None:
    """The user's line of a node, for debug info."""
    for origin in node.origins:
        for line in origin.lines[:1]:
            return Place(line.file, line.line, line.column)
    return None


class Names:
    """The values of a program, as comments name them; numbers stand for them while LLVM works."""

    def __init__(self, names: Mapping[Node, str]) -> None:
        self._names = names
        self._numbers: dict[Node, int] = {}
        self._nodes: list[Node] = []
        self._comments: dict[int, str] = {}

    def _is_told(self, node: Any) -> bool:
        return node in self._names and node.origins != ()

    def number(self, node: Any) -> Place | None:
        """The place by which LLVM knows a node."""
        if not self._is_told(node):
            return None
        if node not in self._numbers:
            self._numbers[node] = len(self._nodes)
            self._nodes.append(node)
        return Place("nodes", self._numbers[node] + 1)

    def name(self, line: int) -> str:
        """The name of the node that such a line stands for; "" for none."""
        return self._names[self._nodes[line - 1]] if 0 < line <= len(self._nodes) else ""

    def comment(self, line: int) -> str:
        """The comment on such a line."""
        if line not in self._comments:
            place = place_of_node(self._nodes[line - 1])
            told = "" if place is None else f", {os.path.basename(place.file)}:{place.line}"
            self._comments[line] = f"{self.name(line)}{told}"
        return self._comments[line]

    def location(self, node: Any) -> str:
        """The location of a node in MLIR; "" where there is none."""
        if not self._is_told(node):
            return ""
        place = place_of_node(node)
        name = self._names[node].replace("\\", "\\\\").replace('"', '\\"')
        if place is None:
            return f' loc("{name}")'
        return f' loc("{name}"("{os.path.basename(place.file)}":{place.line}:{place.column}))'


_LOCATION = re.compile(r"(![0-9]+) = (?:distinct )?!DILocation\(line: (\d+)")
_MARK = re.compile(r",? !dbg (![0-9]+)")


def shown_llvm(text: str, names: Names) -> Shown:
    """LLVM's text with comments in place of debug info."""
    lines = text.splitlines()
    number = {m[1]: int(m[2]) for line in lines if (m := _LOCATION.match(line))}
    found: list[str] = []
    nodes: list[str] = []
    for line in lines:
        if re.match(r"!(\d+ = .*(!DI|Debug Info Version)|llvm\.dbg|llvm\.module\.flags)", line):
            continue
        mark = _MARK.search(line)
        plain = _MARK.sub("", line)
        at = number.get(mark[1], 0) if mark else 0
        name = names.name(at)
        found.append(f"{plain}  ; {names.comment(at)}" if name else plain)
        nodes.append(name)
    while found and not found[-1]:
        del found[-1], nodes[-1]
    return found, nodes


def shown_assembly(text: str, names: Names) -> Shown:
    """Assembly with comments in place of debug info."""
    found: list[str] = []
    nodes: list[str] = []
    name, told, is_debug = "", "", False
    for line in text.splitlines():
        words = line.split()
        if words[:1] == [".section"]:
            is_debug = words[1].startswith((".debug", '".debug'))
        if is_debug or words[:2] == [".cfi_sections", ".debug_frame"]:
            continue
        if words[:1] == [".loc"]:
            at = int(words[2])
            name = names.name(at)
            comment = f"\t# {names.comment(at)}" if name else ""
            if comment and comment != told:
                found.append(comment)
                nodes.append(name)
                told = comment
            continue
        if re.match(r"\.L(tmp|func_begin)\d+:|\t\.file\t\d", line):
            continue
        if line and not line[0].isspace() and not line.startswith(".L"):
            name = told = ""  # another function
        found.append(line)
        nodes.append(name if words and not words[0].startswith(".") and not words[0].endswith(":") else "")
    return found, nodes


def located(lines: Iterable[str], known: Container[str]) -> list[str]:
    """For each line of MLIR the value that its location names."""
    found = [re.search(r' loc\("((?:[^"\\]|\\.)*)"', line) for line in lines]
    names = ["" if m is None else m[1].replace('\\"', '"').replace("\\\\", "\\") for m in found]
    return [name if name in known else "" for name in names]
