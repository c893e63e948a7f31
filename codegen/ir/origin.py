"""Origins of the nodes of a graph: the user's lines and the rules that recorded them.

    loss = ad.sum(ad.sin(x))                 # train.py:4
    b: f64[3] = sin(x)                       Origin(half="forward", lines=(train.py:4,))
    e: f64[3] = cos(x)                       Origin(half="backward", rule=sin, of=the origin of b)

Each recorded node has one origin.  A node that a pass makes gets the origins of the nodes that it replaces, so that a
value of a later stage can be traced to the recorded nodes.  Origins are printed, never compiled: they are part of no
key, and two graphs that differ only in origins are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .op import CONSTANT

if TYPE_CHECKING:
    from .graph import Graph, Node

#: The most origins that the comment on a node names.
_MOST_SHOWN = 4

#: The most nodes behind a replaced node that are searched for origins which would be lost with it.
_MOST_SEARCHED = 64


class Origin:
    """The description of one recorded node for the user.  Compared by identity.

    half    the part of the program: "input", "constant", "forward", "backward" or "seed"
    lines   the lines of the user's program that recorded the node, innermost first: `file`, `line`, `function`
    rule    the rule that recorded the node, or None; its `kind` is a word, and it prints as a name and a place
    of      the origin of the node to which the rule belongs, or None
    label   the user's name: of the argument, or of the variable that holds the tensor
    name    the name in printed graphs, set by `graph.name_origins`
    """

    __slots__ = ("half", "label", "lines", "name", "of", "rule")

    def __init__(
        self, half: str, lines: Sequence[Any] = (), rule: Any = None, of: Origin | None = None, label: str = ""
    ) -> None:
        self.half = half
        self.lines = tuple(lines)
        self.rule = rule
        self.of = of
        self.label = label
        self.name = ""

    def __repr__(self) -> str:
        return f"<{self.half} {self.name or self.label}: {self}>"

    def __str__(self) -> str:
        told = []
        if self.rule is not None:
            of = f" of {self.of.name}" if self.of is not None and self.of.name else ""
            told.append(f"{self.rule.kind}{of}: {self.rule}")
        told += [str(line) for line in self.lines[:1]]
        return ", ".join(told)


def origins_text(origins: Iterable[Origin]) -> str:
    """The comment on a node in printed graphs: its rules and lines, each once."""
    told = [text for text in dict.fromkeys([str(o) for o in origins]) if text]
    return "; ".join([*told[:_MOST_SHOWN], *([f"{len(told) - _MOST_SHOWN} more"] if len(told) > _MOST_SHOWN else [])])


def lines_of(graph: Graph) -> tuple:
    """The file and line of each node, as debug info has them.  They are part of the key of code with debug info."""
    found: list[Any] = []
    for node in graph.nodes:
        lines = [line for origin in graph.origins_of(node) for line in origin.lines[:1]]
        found.append((lines[0].file, lines[0].line) if lines else None)
        if node.op.has_regions:
            found += [lines_of(value.graph) for value in node.params if hasattr(value, "graph")]
    return tuple(found)


def inherit(before: Graph, after: Graph, new: Mapping[Node, Node]) -> Graph:
    """Give the nodes that a pass made the origins of the nodes that they replace.  Returns `after`.

    new   for each replaced node of `before` the node of `after` in its place
    """
    if after is before or not before.nodes or not before.nodes[-1].origins:  # no caller has asked for origins
        return after
    merged = dict(before.merged)
    for old, node in new.items():
        found = before.origins_of(old)
        if not found:
            continue
        if not node.origins:
            node.origins = _with_lost(before, new, old, node, found)
            continue
        if node not in new:  # the replacement is an older node, as x for x * 1 and for -(-x): keep the dropped ones
            found = (*found, *_between(before, new, old, node))
        if missing := set(found).difference(merged.get(node, node.origins)):
            merged[node] = (*merged.get(node, node.origins), *[o for o in found if o in missing])
    for node in reversed(after.nodes):  # an input without origins is a helper node of the same pass
        for i in node.inputs:
            if not i.origins:
                i.origins = merged.get(node, node.origins)
    for node in after.nodes:  # the copy of an output, which no node reads
        node.origins = node.origins or next((i.origins for i in node.inputs if i.origins), ())
    after.merged = {**after.merged, **merged}
    return after


def _between(graph: Graph, new: Mapping[Node, Node], old: Node, node: Node) -> list[Origin]:
    """The origins of the nodes dropped between `old` and `node`, its replacement, and of constants they read."""
    found: list[Origin] = []
    for operand in old.inputs:
        waiting, seen = [operand], {operand: None}
        while waiting and len(seen) < _MOST_SEARCHED:
            i = waiting.pop()
            if new.get(i, i) is not node:
                ahead = [j for j in i.inputs if j not in seen]
                seen.update(dict.fromkeys(ahead))
                waiting += ahead
        lost = [i for i in seen if new.get(i, i) is not node]
        if not waiting and all([i.inputs or i.op is CONSTANT for i in lost]):
            found += [o for i in lost for o in graph.origins_of(i)]
    return found


def _with_lost(
    graph: Graph, new: Mapping[Node, Node], old: Node, node: Node, found: tuple[Origin, ...]
) -> tuple[Origin, ...]:
    """The origins of a new node, with those of nodes that the old one read and the new one does not."""
    inputs = [new.get(i, i) for i in old.inputs]
    if len(inputs) == len(node.inputs) and all([a is b for a, b in zip(inputs, node.inputs, strict=True)]):
        return found
    reads, waiting = set(node.inputs), list(node.inputs)
    while waiting:  # nodes without origins are new
        i = waiting.pop()
        if not i.origins:
            waiting += [j for j in i.inputs if j not in reads]
            reads.update(i.inputs)
    lost: dict[Node, None] = {}
    behind = [*old.inputs]
    while behind and len(lost) < _MOST_SEARCHED:
        i = behind.pop()
        if i not in lost and new.get(i, i) not in reads:
            lost[i] = None
            behind += i.inputs
    known = set(found)
    theirs = [o for i in lost for o in (*graph.origins_of(i), *new.get(i, i).origins)]
    return (*found, *dict.fromkeys([o for o in theirs if o not in known]))
