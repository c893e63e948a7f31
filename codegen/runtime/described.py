"""A graph and its program as plain data, for those who draw: nodes with their origins, steps, buffers.

Everything has a name that is the same in every run: nodes that of the texts (`node_names`), buffers and steps that of
the text of the fused stage.  `docs/reference/inspection-data.md` says which fields there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..ir import Graph, Origin, dtype_name, node_names
from ..ir.graph import Region, value_text
from ..program import Branch, BufferProgram, Gemm, HostCall, Kernel, Loop, bodies
from .stages import buffer_names, kind_of_call
from .told import Holding, bytes_operations, reads_writes

#: An origin as data: its lines, rule, label.
Told = Callable[[Origin], dict[str, Any]]


def graph_data(
    graph: Graph, told: Told, recorded: Mapping[Origin, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """The inputs and nodes of a graph, in order.

    recorded   the names of recorded nodes by their origins: each node then says from which it comes
    """
    names = node_names(graph)
    outputs = {node: k for k, node in reversed([*enumerate(graph.outputs)])}
    found = []
    for node in (*graph.inputs, *graph.nodes):
        origins = graph.origins_of(node)
        first = origins[0] if origins else None
        entry: dict[str, Any] = {
            "id": names[node],
            "op": node.op.name,
            "type": str(node.aval),
            "shape": list(node.aval.shape),
            "dtype": dtype_name(node.aval.dtype),
            "bytes": node.aval.nbytes,
            "inputs": [names.get(i, "?") for i in node.inputs],
            "params": {k: _param(v) for k, v in zip(node.op.params, node.params, strict=False)},
            "output": outputs.get(node),
            "half": first.half if first else "constant" if not node.inputs else "forward",
            "of": first.of.name or None if first and first.of else None,
            **(told(first) if first else told(Origin(""))),
        }
        if recorded is not None:
            entry["from"] = list(dict.fromkeys([name for o in origins for name in recorded.get(o, ())]))
            entry["lines"] = _each([line for o in origins for line in told(o)["lines"]])
        if inside := [v.graph for v in node.params if isinstance(v, Region)]:
            entry["bodies"] = [graph_data(body, told, None if recorded is None else {}) for body in inside]
        found.append(entry)
    return found


def by_origin(graph: Graph) -> dict[Origin, list[str]]:
    """The names of the nodes of each origin."""
    names = node_names(graph)
    found: dict[Origin, list[str]] = {}
    for node in (*graph.inputs, *graph.nodes):
        for origin in node.origins:
            found.setdefault(origin, []).append(names[node])
    return found


def _param(value: Any) -> str:
    return f"<{len(value.graph.nodes)} operations>" if isinstance(value, Region) else value_text(value)


def _each(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for k, entry in enumerate(entries) if entry not in entries[:k]]


# ---------------------------------------------------------------- programs


def program_data(
    program: BufferProgram, told: Told, recorded: Mapping[Origin, Sequence[str]], functions: Mapping[int, str]
) -> dict[str, Any]:
    """The graph that was fused, the steps that compute it, and where values lie.

    functions   of loops and branches, by `id` of their work
    """
    graph = program.drawn or program.graph
    names, buffers = node_names(graph), buffer_names(program.buffers)
    nodes = graph_data(graph, told, recorded)
    halves = {entry["id"]: entry["half"] for entry in nodes}
    holds = Holding(program)
    steps = []
    for k, (step, computed, stored) in enumerate(zip(program.steps, holds.computed, holds.stored, strict=True)):
        work = step.work
        reads, writes = reads_writes(step)
        moved, operations = bytes_operations(program, step)
        inside = [
            {"role": role, "runs": runs, **program_data(body, told, recorded, functions)}
            for role, body, runs in bodies(work)
        ]
        steps.append({
            "id": k,
            "name": name_of_step(work),
            "kind": kind_of_step(work),
            "function": work.function.name if isinstance(work, Kernel) else functions.get(id(work)),
            "nodes": [names[n] for n in computed if n in names],
            "stored": [names[n] for n in stored if n in names],
            "reads": [buffers[b] for b in reads],
            "writes": [buffers[b] for b in writes],
            "half": half_of([halves[names[n]] for n in stored or computed if n in names]),
            "bytes": moved,
            "operations": operations,
            "bodies": inside,
        })  # fmt: skip
    return {
        "name": program.name,
        "drawn": nodes,
        "steps": steps,
        "buffers": [
            {
                "id": name,
                "type": str(buffer.aval),
                "bytes": buffer.aval.nbytes,
                "role": buffer.role,
                "place": buffer.place,
                "nodes": [names[v] for v in values if v in names],
                "live": [min(lives), max(lives)] if lives else None,
            }
            for name, buffer, values, lives in zip(buffers, program.buffers, holds.values, holds.lives, strict=True)
        ],
        "workspace": program.workspace_bytes,
    }


def name_of_step(work: object) -> str:
    """The name of a step's kernel, product, loop, branch or call."""
    match work:
        case Kernel(function=function):
            return function.name
        case Gemm(m=m, n=n, k=k):
            return f"gemm {m}x{n}x{k}"
        case HostCall(node):
            return node.op.name
        case Loop(length=length):
            return f"loop of {length}"
    return "if" if isinstance(work, Branch) else "while"


def kind_of_step(work: object) -> str:
    """The kind of a step, in a word."""
    return kind_of_call(work.node) if isinstance(work, HostCall) else type(work).__name__.lower()


def half_of(halves: Iterable[str]) -> str:
    """The half of a step, by those of its values."""
    found = {"backward" if half == "backward" else "forward" for half in halves}
    return "both" if len(found) > 1 else next(iter(found), "forward")
