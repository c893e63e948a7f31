"""A recording as text, node by node: the stage `tape` of an inspection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from codegen.ir import Origin

from .tape.lines import Lines, line_of, place_of
from .tape.node import CONSTANT, Node
from .tape.record import ALIASES, ARGUMENT
from .tape.walk import history, needed

__all__ = ["tape_text"]


def tape_text(
    roots: Sequence[Node], arguments: Sequence[Node] = (), seeds: Sequence[Node] = (), lines: Lines | None = None
) -> str:
    """The nodes that `roots` are made of and their histories, by creation.

    Values have the names that they have in the graph, others are numbered from zero.
    Of a function with arguments it says what it meets besides: arrays and tensors are hidden inputs, whose
    present contents count at every call under `jit`; numbers are frozen.
    """
    if lines is not None:
        lines.named()
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


def _names_on_tape(order: Sequence[Node], origins: Mapping[float, Origin]) -> dict[Node, str]:
    names: dict[Node, str] = {}
    for node in order:
        is_value = node.kind.op not in ALIASES and node.body is None and node.number in origins
        names[node] = origins[node.number].name if is_value else f"%{len(names)}"
    return names


def _described(node: Node, names: dict[Node, str]) -> str:
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
