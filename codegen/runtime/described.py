"""A graph and its program as plain data, for programs that draw them: nodes with their origins, steps, buffers.

All names are the same in every run: nodes are named as in the printed graph (`node_names`), buffers and steps as in
the text of the fused stage.  `docs/reference/inspection-data.md` lists the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir import Graph, Origin, dtype_name, node_names
from ..ir.graph import Region, value_text
from ..program import BufferProgram, Kernel, bodies
from .told import ProgramDescription, half_of, kind_of_step

#: A function that returns an origin as data: its source lines, rule and label.
Told = Callable[[Origin], dict[str, Any]]


def graph_data(
    graph: Graph, told: Told, recorded: Mapping[Origin, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """The inputs and nodes of a graph, in order.

    recorded   the names of recorded nodes, by their origins; if it is given, each node lists those it comes from
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
            "params": {
                k: f"<{len(v.graph.nodes)} operations>" if isinstance(v, Region) else value_text(v)
                for k, v in zip(node.op.params, node.params, strict=False)
            },
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


def _each(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for k, entry in enumerate(entries) if entry not in entries[:k]]


# ---------------------------------------------------------------- programs


def program_data(
    program: BufferProgram, told: Told, recorded: Mapping[Origin, Sequence[str]], functions: Mapping[int, str]
) -> dict[str, Any]:
    """The fused graph, the steps that compute it, and the buffers of its values.

    functions   the names of the functions of loops and branches, by the `id` of their work
    """
    found = ProgramDescription(program)
    nodes = graph_data(found.graph, told, recorded)
    halves = {entry["id"]: entry["half"] for entry in nodes}
    steps = []
    for k, step in enumerate(found.steps):
        work = step.step.work
        moved, operations = found.bytes_operations(step)
        inside = [
            {"role": role, "runs": runs, **program_data(body, told, recorded, functions)}
            for role, body, runs in bodies(work)
        ]
        steps.append({
            "id": k,
            "name": step.name,
            "kind": kind_of_step(work),
            "function": work.function.name if isinstance(work, Kernel) else functions.get(id(work)),
            "nodes": found.named(step.computed),
            "stored": found.named(step.stored),
            "reads": [found.buffers[b] for b in step.reads],
            "writes": [found.buffers[b] for b in step.writes],
            "half": half_of([halves[name] for name in found.named(step.stored or step.computed)]),
            "bytes": moved,
            "operations": operations,
            "bodies": inside,
        })  # fmt: skip
    held = zip(found.buffers, program.buffers, found.values, found.lives, strict=True)
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
                "nodes": found.named(values),
                "live": [min(lives), max(lives)] if lives else None,
            }
            for name, buffer, values, lives in held
        ],
        "workspace": program.workspace_bytes,
    }
