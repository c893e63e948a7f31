"""The description of a program, for all code that prints or counts its steps and buffers; and the comments in texts of
programs and machine code, which name the value that a step or an instruction computes, and the user's line.

    %t.2 = fadd contract double %t.1, %x  ; c, train.py:3            LLVM
    # c, train.py:3                                                  assembly, before the instructions
    %2 = arith.addf %1, %0 : f64 loc("c"("train.py":3:5))            MLIR, which has locations instead of comments

LLVM carries numbers of nodes through its passes, as lines of a file that does not exist.  They do not change the code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from ..emit.debug import Place
from ..ir import Node, node_names
from ..lowering import Contract
from ..program import Branch, Buffer, BufferProgram, Gemm, HostCall, Kernel, Loop, Step
from ..records import NamedTuple
from .cost import operations_of
from .fourier import is_native as is_transformed
from .orders import is_native as is_ordered

#: The most values that a comment names.
_SHOWN = 12


class StepDescription(NamedTuple):
    """The description of a program's step.

    reads, writes   the numbers of its buffers        computed   the nodes that it computes, in the order of the graph
    stored          the computed nodes that it writes to memory
    """

    step: Step
    reads: list[int]
    writes: list[int]
    computed: list[Node]
    stored: list[Node]

    @property
    def name(self) -> str:
        """The name of the step's kernel, product, loop, branch or call."""
        match self.step.work:
            case Kernel(function=function):
                return function.name
            case Gemm(m=m, n=n, k=k):
                return f"gemm {m}x{n}x{k}"
            case HostCall(node):
                return node.op.name
            case Loop(length=length):
                return f"loop of {length}"
        return "if" if isinstance(self.step.work, Branch) else "while"


class ProgramDescription:
    """The description of a program.  For each buffer: its `values`, in turn, and the steps that use it (`lives`).

    names, buffers    the names of nodes, and of buffers: the same in every run
    """

    def __init__(self, program: BufferProgram) -> None:
        self.program = program
        graph = self.graph = program.drawn or program.graph
        self.names = node_names(graph)
        self.buffers = buffer_names(program.buffers)
        self._place = {node: k for k, node in enumerate((*graph.inputs, *graph.nodes))}
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
        self.steps = [self._describe(number, step) for number, step in enumerate(program.steps)]
        self._has_origins = any([n.origins for n in self._place])

    def _may_be(self, value: Any) -> list[Any]:
        """The values that a step may store where it names this value, because they share its memory."""
        return [v for v in (*self._shared.get(value, ()), value) if v not in self._claimed]

    def _computed(self, step: Step) -> list[Node]:
        if isinstance(step.work, Kernel):
            return list(step.work.members)
        if isinstance(step.work, HostCall):
            return [v for v in self._may_be(step.values[-1])[-1:] if isinstance(v, Node)]
        if isinstance(step.work, Gemm):
            return [v for v in self._may_be(step.values[-1]) if isinstance(v.op.lower, Contract)][:1]
        return [v for v in step.values[step.work.reads :] if isinstance(v, Node) and v.op.name != "workspace"]

    def _describe(self, number: int, step: Step) -> StepDescription:
        """Describe a step, and note the values that it stores in `values`."""
        reads, writes = _reads_writes(step)
        computed = sorted(self._computed(step), key=lambda n: self._place.get(n, -1))
        stored: list[Node] = []
        for b, value in zip(step.buffers, step.values, strict=False):
            self.lives[b].append(number)
            if b in writes:
                found = [v for v in self._may_be(value) if v in computed] or [v for v in [value] if isinstance(v, Node)]
                stored += found[-1:]
                self._claimed.update(found[-1:])
                self.values[b] += [v for v in found[-1:] if v not in self.values[b]]
        return StepDescription(step, reads, writes, computed, stored)

    def bytes_operations(self, description: StepDescription) -> tuple[int, int]:
        """The bytes of the arrays that a step reads and writes, each counted once; and its scalar operations."""
        program, used = self.program, (*description.reads, *description.writes)
        alone = BufferProgram(program.name, program.buffers, (description.step,), (), (), 0, program.graph)
        return sum([program.buffers[b].aval.nbytes for b in used]), operations_of(alone)

    def named(self, values: Iterable[Any]) -> list[str]:
        """The names of those values that have one."""
        return [self.names[v] for v in values if v in self.names]

    def of_buffer(self, number: int) -> str:
        """A comment with the values that a buffer holds, in turn; "" if nodes have no origins."""
        return self._comment(self.values[number])

    def of_step(self, description: StepDescription) -> str:
        """A comment with the values that a step computes, and the lines where they were recorded."""
        origins = [origin for node in description.computed for origin in node.origins]
        lines = [f"{os.path.basename(line.file)}:{line.line}" for origin in origins for line in origin.lines[:1]]
        found = self._comment(description.computed)
        return found and ", ".join([found, *list(dict.fromkeys(lines))[:_SHOWN]])

    def _comment(self, values: Sequence[Any]) -> str:
        names = self.named(values) if self._has_origins else []
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        return f"  # {' '.join([*names[:_SHOWN], *more])}" if names else ""


def buffer_names(buffers: Sequence[Buffer]) -> list[str]:
    """x0, x1, ... for inputs, y0, ... for outputs, t0, ... for temporaries."""
    temporaries = count()
    letters = {"input": "x", "output": "y"}
    return [f"t{next(temporaries)}" if b.role == "temporary" else f"{letters[b.role]}{b.place}" for b in buffers]


def _reads_writes(step: Step) -> tuple[list[int], list[int]]:
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


def kind_of_step(work: object) -> str:
    """The kind of a step: kernel, gemm, loop, branch, while; for a call order, fourier, or host (a Python function)."""
    if not isinstance(work, HostCall):
        return type(work).__name__.lower()
    for is_native, kind in ((is_ordered, "order"), (is_transformed, "fourier")):
        if is_native(work.node):
            return kind
    return "host"


def half_of(halves: Iterable[str]) -> str:
    """The half that a step belongs to (forward, backward, both), by the halves of its values."""
    found = {"backward" if half == "backward" else "forward" for half in halves}
    return "both" if len(found) > 1 else next(iter(found), "forward")


#: The lines of a text, and for each line the name of the value that it belongs to, or "".
Shown = tuple[list[str], list[str]]


def place_of_node(node: Any) -> Place | None:
    """The user's line of a node, for debug info."""
    for origin in node.origins:
        for line in origin.lines[:1]:
            return Place(line.file, line.line, line.column)
    return None


class Names:
    """The names of a program's values in comments, and the numbers that stand for the values while LLVM works."""

    def __init__(self, names: Mapping[Node, str]) -> None:
        self._names = names
        self._numbers: dict[Node, int] = {}
        self._nodes: list[Node] = []
        self._comments: dict[int, str] = {}

    def _has_comment(self, node: Any) -> bool:
        return node in self._names and node.origins != ()

    def number(self, node: Any) -> Place | None:
        """The place in a made-up file that stands for a node in LLVM's debug info."""
        if not self._has_comment(node):
            return None
        if node not in self._numbers:
            self._numbers[node] = len(self._nodes)
            self._nodes.append(node)
        return Place("nodes", self._numbers[node] + 1)

    def name(self, line: int) -> str:
        """The name of the node that a line of this file stands for; "" for none."""
        return self._names[self._nodes[line - 1]] if 0 < line <= len(self._nodes) else ""

    def comment(self, line: int) -> str:
        """The comment for the node that a line of this file stands for."""
        if line not in self._comments:
            place = place_of_node(self._nodes[line - 1])
            where = "" if place is None else f", {os.path.basename(place.file)}:{place.line}"
            self._comments[line] = f"{self.name(line)}{where}"
        return self._comments[line]

    def location(self, node: Any) -> str:
        """The location of a node in MLIR; "" for a node without a name or origin."""
        if not self._has_comment(node):
            return ""
        place = place_of_node(node)
        name = self._names[node].replace("\\", "\\\\").replace('"', '\\"')
        if place is None:
            return f' loc("{name}")'
        return f' loc("{name}"("{os.path.basename(place.file)}":{place.line}:{place.column}))'


_LOCATION = re.compile(r"(![0-9]+) = (?:distinct )?!DILocation\(line: (\d+)")
_MARK = re.compile(r",? !dbg (![0-9]+)")


def shown_llvm(text: str, names: Names) -> Shown:
    """LLVM's text with comments instead of debug info."""
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
    """Assembly with comments instead of debug info."""
    found: list[str] = []
    nodes: list[str] = []
    name, last, is_debug = "", "", False
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
            if comment and comment != last:
                found.append(comment)
                nodes.append(name)
                last = comment
            continue
        if re.match(r"\.L(tmp|func_begin)\d+:|\t\.file\t\d", line):
            continue
        if line and not line[0].isspace() and not line.startswith(".L"):
            name = last = ""  # another function begins
        found.append(line)
        nodes.append(name if words and not words[0].startswith(".") and not words[0].endswith(":") else "")
    return found, nodes


def located(lines: Iterable[str], known: Container[str]) -> list[str]:
    """For each line of MLIR, the name of the value in its location; "" if there is none, or if it is not in `known`."""
    found = [re.search(r' loc\("((?:[^"\\]|\\.)*)"', line) for line in lines]
    names = ["" if m is None else m[1].replace('\\"', '"').replace("\\\\", "\\") for m in found]
    return [name if name in known else "" for name in names]
