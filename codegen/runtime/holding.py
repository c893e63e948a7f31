"""Values in memory: which of them each step of a program computes and stores, and which each buffer holds in turn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..ir import Node, node_names
from ..kernel.nest import NestFunction
from ..lowering import Contract
from ..program import Buffer, BufferProgram, Gemm, HostCall, Kernel, Step

__all__ = ["Comments", "Holding", "reads_writes"]

#: As many values as a comment names.
_SHOWN = 12


class Holding:
    """The values that each buffer holds, and the steps of their lives."""

    def __init__(self, program: BufferProgram) -> None:
        self.values: list[list[Any]] = [[] for _ in program.buffers]
        self.lives: list[list[int]] = [[] for _ in program.buffers]
        self._shared: dict[Any, list[Any]] = {}
        for value in program.shares:
            last: Any = value
            while last in program.shares:
                last = program.shares[last]
            self._shared.setdefault(last, []).append(value)
        graph = program.drawn or program.graph
        for k, buffer in enumerate(program.buffers):
            if buffer.role == "input":
                self.values[k].append(graph.inputs[buffer.place])
        self._claimed: set[Any] = set()

    def _may_be(self, value: Any) -> list[Any]:
        """The values that a step may mean by the name of this one."""
        return [v for v in (*self._shared.get(value, ()), value) if v not in self._claimed]

    def computed(self, step: Step) -> list[Node]:
        """The nodes that a step computes."""
        if isinstance(step.work, Kernel):
            return list(step.work.members)
        if isinstance(step.work, HostCall):
            return [v for v in self._may_be(step.values[-1])[-1:] if isinstance(v, Node)]
        if isinstance(step.work, Gemm):
            found = [v for v in self._may_be(step.values[-1]) if isinstance(v.op.lower, Contract)]
            return found[:1]
        return [v for v in step.values[step.work.reads :] if isinstance(v, Node) and v.op.name != "workspace"]

    def write(self, number: int, step: Step, computed: Sequence[Node]) -> list[Node]:
        """Note a step; the values that it stores."""
        _, writes = reads_writes(step)
        stored = []
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
        function: NestFunction = work.function
        written = function.writes
        reads = [b for j, b in enumerate(numbers) if j not in written or j in work.updates]
        return reads, [b for j, b in enumerate(numbers) if j in written]
    if isinstance(work, Gemm):
        split = len(numbers) - 1
    else:
        split = len(work.node.inputs) if isinstance(work, HostCall) else work.reads
    return list(numbers[:split]), list(numbers[split:])


class Comments:
    """Comments on the steps and buffers of a program whose nodes have origins."""

    def __init__(self, program: BufferProgram) -> None:
        graph = program.drawn or program.graph
        self._is_told = any([n.origins for n in (*graph.inputs, *graph.nodes)])
        self._names = node_names(graph)
        self._place = {node: k for k, node in enumerate((*graph.inputs, *graph.nodes))}
        self._computed: dict[int, list[Node]] = {}
        self._held: dict[int, list[Node]] = {}
        if not self._is_told:
            return
        holds = Holding(program)
        for k, step in enumerate(program.steps):
            computed = sorted(holds.computed(step), key=lambda n: self._place.get(n, -1))
            holds.write(k, step, computed)
            self._computed[id(step)] = computed
        self._held = {id(b): values for b, values in zip(program.buffers, holds.values, strict=True)}

    def of_buffer(self, buffer: Buffer) -> str:
        """The values that it holds, in turn."""
        return self._named(self._held.get(id(buffer), ()))

    def of_step(self, step: Step) -> str:
        """The values that it computes, and where they were recorded."""
        nodes = self._computed.get(id(step), ())
        lines = [f"{os.path.basename(line.file)}:{line.line}" for n in nodes for o in n.origins for line in o.lines[:1]]
        told = self._named(nodes)
        return told and ", ".join([told, *list(dict.fromkeys(lines))[:_SHOWN]])

    def _named(self, nodes: Sequence[Node]) -> str:
        names = [self._names[n] for n in nodes if n in self._names]
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        return f"  # {' '.join([*names[:_SHOWN], *more])}" if names else ""
