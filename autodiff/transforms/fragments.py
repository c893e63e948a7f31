"""Fragments: what the rule of an operation recorded is put down again for the next operation of its kind.

The history of a recurrence has a few kinds of nodes, each a hundred times.  A rule of this library looks at
avals, parameters and which gradients are wanted, never at values; so what it records for one `exp` it records
for every `exp` of that kind.  Running it costs twenty microseconds a node and more, since all choices of
dispatch are observed meanwhile; putting the nodes down again, one.

    key         kind of the operation, Outs of its operands, masked or not, which of them are one and the same
    fragment    (kind, value, which earlier nodes are its inputs) for each node, by creation; which are the results

A fragment relies on the choices that dispatch made in the rule (`dispatch.observed`): a new method that
changes one of them drops it, and who observes gets them as if the rule had run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codegen.ir import OPS

from ..config import config
from ..custom.relied import users_methods
from ..dispatch import Choices, include, observed
from ..tape.node import LEAF, Kind, Node, Primitive, new_number, put_down
from ..tape.record import CONSTANT, grad_mode, keeps_lines, state
from ..tensor import Tensor, handle

__all__ = ["Fragments", "is_repeatable"]

#: Fragments kept: all of them go when there are more.
LIMIT = 4096

_Results = Sequence[Tensor | None]


class _Fragment:
    """What a rule recorded; its operands come first in the numbering."""

    __slots__ = ("__weakref__", "choices", "results", "steps")

    def __init__(
        self, steps: list[tuple[Kind, Any, tuple[int, ...]]], results: list[int | None], choices: Choices
    ) -> None:
        self.steps = steps
        self.results = results
        self.choices = choices

    def put(self, nodes: list[Node]) -> list[Tensor | None]:
        """Put the nodes down behind these operands.  The list is used up."""
        given = len(nodes)
        put_down(self.steps, nodes)
        results = [None if i is None else handle(nodes[i]) for i in self.results]
        for i, t in zip(self.results, results, strict=True):
            if t is not None and i is not None and i >= given and t.node.kind.out.small:
                state.now.note_small(t)  # as `record` does: a rule may ask for a value meanwhile
        return results


class Fragments:
    """The fragments of one backward: those that are kept, and whose choices were told already to who observes."""

    def __init__(self) -> None:
        now = state.now
        elsewhere = now.tracing or now.body or now.captures is not None
        # In eager mode what a rule records has values already, and they are of these numbers.
        self._is_on = not (config.eager or grad_mode.get() or keeps_lines.get() or elsewhere)
        self._told: set[_Fragment] = set()

    def repeat(self, what: tuple, operands: list[Node], rule: Callable[[], _Results]) -> _Results:
        """What the rule records on these operands, put down or recorded.

        what    decides together with the Outs of the operands what the rule records
        """
        if not self._is_on:
            return rule()
        kinds = [n.kind for n in operands]
        key = (*what, *[k if k.op is CONSTANT else k.out for k in kinds])
        if len(set(operands)) < len(operands):
            key = (*key, *[operands.index(n) for n in operands])
        fragment = _kept.get(key, _unknown)
        if fragment is None:
            return rule()
        if fragment is _unknown:
            return _recorded(key, operands, rule)
        if fragment not in self._told:
            self._told.add(fragment)
            include(fragment.choices)
        return fragment.put(operands)


#: By key; None for a rule that does what no fragment can do.
_kept: dict[tuple, Any] = {}
_unknown = object()


def _recorded(key: tuple, operands: list[Node], rule: Callable[[], _Results]) -> _Results:
    """Run a rule, and keep what it recorded."""
    since, asked = new_number(), state.now.asked
    with observed() as choices:
        results = rule()
    is_ours = state.now.asked == asked and not users_methods(choices)  # those of users may read anything
    fragment = _fragment(operands, results, since, choices) if is_ours else None
    if len(_kept) >= LIMIT:
        _kept.clear()
    _kept[key] = fragment
    if fragment is not None:
        choices.on_change(lambda: _kept.pop(key, None))
    return results


def _fragment(operands: list[Node], results: _Results, since: float, choices: Choices) -> _Fragment | None:
    """What leads from operands to results; None where it holds what cannot be put down again."""
    wanted = [r.node for r in results if r is not None]
    number: dict[Node, int] = {}
    for i, node in enumerate(operands):
        number.setdefault(node, i)
    made: set[Node] = set()
    stack = [n for n in wanted if n not in number]
    while stack:
        node = stack.pop()
        if node in made:
            continue
        if type(node) is not Node or node.number < since or (node.value is not None and node.kind.op is not LEAF):
            return None  # a boundary, something that was there before, or that was computed meanwhile
        made.add(node)
        stack.extend([i for i in node.inputs if i not in number and i not in made])
    steps = []
    for place, node in enumerate(sorted(made, key=lambda n: n.number), len(operands)):
        steps.append((node.kind, node.value, tuple([number[i] for i in node.inputs])))
        number[node] = place
    return _Fragment(steps, [None if r is None else number[r.node] for r in results], choices)


def is_repeatable(op: Primitive) -> bool:
    """Whether the rule of an operation is one of this library, of avals and parameters alone.

    One that cancels looks at how its cotangent was recorded.
    """
    return not op.has_regions and OPS.get(op.name) is op and "cancels" not in op.traits
