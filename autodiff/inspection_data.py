"""An inspection as data: the output of `autodiff inspect --json`, and the source of pages and pictures.

    GraphText(graph)         a graph's text, with nodes to walk
    tape_text(roots)         a recording as text, node by node: the stage `tape`
    data_of(inspection)      sources, recorded graph, optimised graph, program with its steps, texts with their lines

`docs/reference/inspection-data.md` lists the fields; `VERSION` counts up when one of them changes.
"""

from __future__ import annotations

import linecache
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

from codegen.compiler import facts
from codegen.ir import Graph, Node, Origin, Region, node_names
from codegen.runtime.described import by_origin, graph_data, program_data

from .frames import UserLine, short_name
from .tape.lines import Lines, line_of, place_of
from .tape.node import CONSTANT
from .tape.node import Node as TapeNode
from .tape.record import ALIASES, ARGUMENT
from .tape.walk import history, needed

#: Counts up when a field is changed or removed; a new field does not change it.
VERSION = 1

#: The stages, in the order in which a program goes through them.
STAGES = ("tape", "graph", "optimized", "fused", "mlir", "llvm", "llvm-opt", "asm", "stats")

#: Patterns of the lines with which the text of a function begins and ends.
_FUNCTIONS = {
    "mlir": (re.compile(r"  func\.func @([\w.$]+)\(.*{$"), re.compile(r"  }$")),
    "llvm": (re.compile(r'define .*?@"?([\w.$]+)"?\('), re.compile(r"}$")),
    "llvm-opt": (re.compile(r'define .*?@"?([\w.$]+)"?\('), re.compile(r"}$")),
    "asm": (re.compile(r'"?([\w$][\w.$]*)"?:'), re.compile(r"\.Lfunc_end\d+:")),
}
_CALLED = re.compile(r'(?:@|call(?:q)?\s+|bl\s+|jmp\s+)"?([\w$][\w.$]*)"?')


class GraphNode:
    """A value of an inspected graph.

    name          as in every stage                  op, params      the operation; of an input "input"
    shape, dtype  of the value                       inputs          the values it is computed from
    lines         of the user's program, the innermost first; each has `file`, `line`, `function`
    half          "input", "constant", "forward", "backward" or "seed"
    rule          the rule that recorded it, with `kind`, `function`, `types`, `file`, `line`; None: the user's program
    of            of a value that a rule recorded: the value to which the rule belongs, if the graph has it
    """

    def __init__(self, node: Node, name: str, origins: Sequence[Origin], inputs: Sequence[GraphNode]) -> None:
        first = origins[0] if origins else Origin("forward")
        self.name, self.op, self.params = name, node.op.name, node.keywords
        self.shape, self.dtype = node.aval.shape, node.aval.dtype
        self.inputs = tuple(inputs)
        self.half, self.rule = first.half, first.rule
        self.lines = tuple(dict.fromkeys([line for o in origins for line in o.lines]))
        self.of: GraphNode | None = None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.op}, {self.half}>"


class GraphText(str):
    """The text of a graph, with the graph's values as `nodes`: inputs, then nodes in order.

    >>> import autodiff as ad
    >>> [node.op for node in ad.inspect(lambda x: ad.sin(x) * x, "f64[3]").graph.nodes]
    ['input', 'sin', 'mul']
    """

    nodes: list[GraphNode]

    def __new__(cls, graph: Graph) -> GraphText:
        found = super().__new__(cls, str(graph))
        names = node_names(graph)
        made: dict[Node, GraphNode] = {}
        by_origin: dict[Origin, GraphNode] = {}
        for node in (*graph.inputs, *graph.nodes):
            origins = graph.origins_of(node)
            made[node] = GraphNode(node, names[node], origins, [made[i] for i in node.inputs])
            by_origin.update({o: made[node] for o in origins})
        for node, told in made.items():
            origins = graph.origins_of(node)
            told.of = by_origin.get(origins[0].of) if origins and origins[0].of else None
        found.nodes = [*made.values()]
        return found

    def __reduce__(self) -> tuple:
        return str, (str(self),)


def data_of(inspection: Any) -> dict[str, Any]:
    """Everything that is known about an inspected function, as plain data.

    inspection   an `Inspection` that still has its nodes
    """
    stages = inspection.stages
    recorded: Graph = stages.recorded
    program = stages.program
    sources = _Sources([recorded, *_bodies(recorded)])
    names = by_origin(recorded)
    nodes = graph_data(recorded, sources.told)
    made = program_data(program, sources.told, names, stages.functions)
    texts = {stage: inspection.stage(stage) for stage in STAGES if stage not in _FUNCTIONS}
    kernels: dict[str, list[str]] = defaultdict(list)
    for path, step in steps_of(made):
        kernels[step["function"]].append(path)
    return {
        "version": VERSION,
        "name": inspection.name,
        "machine": {k: v for k, v in facts().items() if k in ("LLVM", "target")},
        "sources": sources.listed,
        "nodes": nodes,
        "optimized": graph_data(program.graph, sources.told, names),
        "program": made,
        "texts": {stage: {"text": text, "lines": _lines(stage, text, made)} for stage, text in texts.items()}
        | {stage: _code(stage, stages.told(stage), kernels) for stage in _FUNCTIONS},
    }


def lines_of_step(data: Mapping[str, Any], stage: str, number: int) -> str:
    """The lines of a stage that belong to a step of the program."""
    program, text = data["program"], data["texts"][stage]
    step = program["steps"][number]
    drawn = {node["id"]: node for node in program["drawn"]}
    named = {name for one in step["nodes"] for name in (one, *drawn[one]["from"])}
    wanted: set[int] = set()
    for first, count, steps, nodes in text["lines"]:
        mine = [s for s in steps if s.partition(".")[0] == str(number)] if steps else named.intersection(nodes)
        if mine:
            wanted.update(range(first, first + count))
    lines = text["text"].splitlines()
    return "".join([f"{lines[k]}\n" for k in sorted(wanted)])


def _bodies(graph: Graph) -> Iterable[Graph]:
    for node in graph.nodes:
        for value in node.params:
            if isinstance(value, Region):
                yield value.graph
                yield from _bodies(value.graph)


# ---------------------------------------------------------------- sources


class _Sources:
    """The functions of the user's program that recorded nodes, each with its text."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        spans: dict[str, list[tuple[int, int]]] = {}
        for graph in graphs:
            for node in (*graph.inputs, *graph.nodes):
                for origin in node.origins:
                    for line in origin.lines:
                        spans.setdefault(line.file, []).append(_span(line.code))
        self.listed: list[dict[str, Any]] = []
        self._place: dict[str, list[tuple[int, int, int]]] = {}
        for file, found in sorted(spans.items()):
            for first, last in _joined(found):
                self._place.setdefault(file, []).append((first, last, len(self.listed)))
                text = "".join(linecache.getlines(file)[first - 1 : last])
                self.listed.append({"file": file, "name": short_name(file), "first_line": first, "text": text})

    def told(self, origin: Origin) -> dict[str, Any]:
        """The fields of a node that come from the user's program."""
        rule = origin.rule
        return {
            "lines": [self._line(line) for line in origin.lines],
            "rule": None if rule is None else {**rule._asdict(), "types": list(rule.types)},
            "label": origin.label or None,
        }

    def _line(self, line: UserLine) -> dict[str, Any]:
        number = line.line
        places = self._place.get(line.file, ())
        source = next((k for first, last, k in places if first <= number <= last), None)
        return {"source": source, "line": number, "function": line.function}


def _span(code: CodeType) -> tuple[int, int]:
    """The first and the last line of a function."""
    lines = [line for _, _, line in code.co_lines() if line]
    inner = [_span(c)[1] for c in code.co_consts if isinstance(c, CodeType)]
    return code.co_firstlineno or 1, max([code.co_firstlineno, *lines, *inner])


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of lines, in which adjacent and overlapping spans are joined."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(set(spans)):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


# ---------------------------------------------------------------- lines of texts


def steps_of(program: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """All steps, also those inside loops and branches, each with its path: `2`, `3.0.1`."""
    for step in program["steps"]:
        path = f"{before}{step['id']}"
        yield path, step
        for k, body in enumerate(step["bodies"]):
            yield from steps_of(body, f"{path}.{k}.")


def _lines(stage: str, text: str, program: Mapping[str, Any]) -> list[list[Any]]:
    """Runs of lines, with the steps and nodes that they belong to: [first line from 0, count, steps, nodes]."""
    lines = text.splitlines()
    if stage in ("graph", "optimized"):
        defined = [re.match(r"  ([^\s:]+): ", line) for line in lines]
        return [[k, 1, [], [found[1]]] for k, found in enumerate(defined) if found]
    if stage == "fused":
        return _of_steps(lines, program)
    return []


def _code(stage: str, told: tuple[list[str], list[str]], kernels: Mapping[str, list[str]]) -> dict[str, Any]:
    """A text of code: runs of lines that belong to one value, in functions that belong to steps."""
    lines, nodes = told
    found: list[list[Any]] = []
    for first, count, steps in _of_functions(lines, *_FUNCTIONS[stage], kernels):
        for k in range(first, first + count):
            own = [nodes[k]] if nodes[k] else []
            if found and found[-1][0] + found[-1][1] == k and found[-1][2:] == [steps, own]:
                found[-1][1] += 1
            else:
                found.append([k, 1, steps, own])
    return {"text": "".join([f"{line}\n" for line in lines]), "lines": found}


def _of_steps(lines: Sequence[str], program: Mapping[str, Any]) -> list[list[Any]]:
    """The lines of the program's own steps, in order; the lines of a body belong to the step that contains the body."""
    start = next((k for k, line in enumerate(lines) if "(" in line and k and line.startswith("  ")), len(lines))
    found: list[list[Any]] = []
    steps = iter(program["steps"])
    for k in range(start, len(lines)):
        if lines[k].startswith("  ") and not lines[k].startswith("   "):
            step = next(steps, None)
            if step is None:
                break
            found.append([k, 1, [str(step["id"])], step["nodes"]])
        elif found and lines[k].startswith("    "):
            found[-1][1] += 1
    return found


def _of_functions(
    lines: Sequence[str], begins: re.Pattern[str], ends: re.Pattern[str], kernels: Mapping[str, list[str]]
) -> list[list[Any]]:
    spans: dict[str, tuple[int, int]] = {}
    calls: dict[str, set[str]] = {}
    name, first = "", 0
    for k, line in enumerate(lines):
        if name:
            if ends.match(line):
                spans[name] = first, k + 1 - first
                name = ""
            else:
                calls[name].update(_CALLED.findall(line))
        elif found := begins.match(line):
            name, first = found[1], k
            calls[name] = set()
    users = {name: set(kernels.get(name, ())) for name in spans}
    left = [*spans]
    for name in left:  # a called function belongs to its callers; the list grows by functions to visit again
        for called in calls[name] & users.keys():
            if not users[name] <= users[called]:
                users[called] |= users[name]
                left.append(called)
    return [[first, count, sorted(users[name])] for name, (first, count) in spans.items()]


def tape_text(
    roots: Sequence[TapeNode],
    arguments: Sequence[TapeNode] = (),
    seeds: Sequence[TapeNode] = (),
    lines: Lines | None = None,
) -> str:
    """The nodes that `roots` depend on and their histories, as text, in the order of creation.

    Values have the names that they have in the graph; other nodes are numbered from zero.
    For a function with arguments, further inputs are marked: arrays and tensors as hidden inputs, whose
    present contents each call under `jit` uses; numbers as frozen.
    """
    past = set(history(roots))
    order = needed([*arguments, *roots], past)
    origins = {} if lines is None else lines.origins
    names = _names_on_tape(order, origins)
    found = []
    for node in order:
        line = f"{names[node]} = {_described(node, names)}: {node.kind.out.aval}"
        notes = []
        if node in seeds:
            notes.append("seed")
        elif arguments and not node.inputs and node.kind.op not in (ARGUMENT, CONSTANT):
            notes.append("hidden input" if isinstance(node.value, np.ndarray) else "frozen")
        if node.kind.out.requires_grad:
            notes.append("grad")
        told = str(origins[node.number]) if names[node][0] != "%" else ""
        notes += [told] if told else [str(line) for line in line_of(place_of(lines, node))[:1]]
        found.append(line + (f"  # {', '.join(notes)}" if notes else ""))
    found.append(f"ask {', '.join([names[r] for r in roots])}")
    return "\n".join(found)


def _names_on_tape(order: Sequence[TapeNode], origins: Mapping[float, Origin]) -> dict[TapeNode, str]:
    names: dict[TapeNode, str] = {}
    for node in order:
        is_value = node.kind.op not in ALIASES and node.body is None and node.number in origins
        names[node] = origins[node.number].name if is_value else f"%{len(names)}"
    return names


def _described(node: TapeNode, names: dict[TapeNode, str]) -> str:
    if node.kind.op is ARGUMENT:
        return "argument"
    if node.kind.op is CONSTANT:
        return f"constant {node.kind.params[0]!r}"
    if not node.inputs:
        return "leaf" if isinstance(node.value, np.ndarray) else f"number {node.value!r}"
    operands = ", ".join([names[i] for i in node.inputs if i in names])
    params = "".join(f", {k}={v!r}" for k, v in node.kind.op.keywords(node.kind.params).items())
    name = node.kind.op.name if node.call is None else f"call {node.call.function.__name__}"
    state = "" if node.value is None else " (computed)"
    return f"{name}({operands}{params}){state}"
