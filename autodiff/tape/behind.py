"""What lies between results and what they are differentiated by: all that rules go through, made comparable.

A rule of this library looks at what an operation is, its parameters and what its operands are, never at values; what
that of a custom function looks at beside tensors, its call has a key of.  So what rules record behind a recording is
decided by

    past       the history of the results: kinds and wiring.  With `is_cut` it ends at the targets: what is older than
               all of them does not depend on any
    the rest   inputs of these nodes, and other nodes that are given: by Out alone, whatever they were computed by

`Behind` is the key of that, with canonical numbers as in `walk`; `ExpectedBehind` its check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .check import Recipe
from .expected import Expected
from .node import CONSTANT, LEAF, Kind, Leaf, Node, Out
from .walk import by_number, gradient_inputs

__all__ = ["Behind", "ExpectedBehind", "Hooked", "Since", "is_hooked"]


class Behind:
    """Nodes that rules go through, and those that are given to them.

    roots      results first, then targets, then others that rules get
    targets    which roots are the targets;  stops: those at which the history ends
    past       the history;  order: all nodes, canonically numbered by `number`
    outside    nodes that require grad and are older than the targets: gradients go to them, but not here
    key        what decides what rules record
    """

    __slots__ = ("key", "number", "order", "outside", "past", "roots", "stops", "targets")

    def __init__(
        self, roots: Sequence[Node], targets: slice, past: frozenset[Node], stops: frozenset[Node]
    ) -> None:
        self.roots, self.targets, self.past, self.stops = roots, targets, past, stops
        self.number: dict[Node, int] = {}
        number = self.number
        self.outside: list[Node] = []
        for node in sorted(past, key=by_number):
            for i in self.inputs(node):
                if i not in past and i not in number:
                    number[i] = len(number)
                    if node not in stops and self.is_outside(i) and (node.flow is None or i in gradient_inputs(node)):
                        self.outside.append(i)
            number[node] = len(number)
        for node in roots:
            number.setdefault(node, len(number))
        self.order = list(number)
        self.key = (tuple([number[r] for r in roots]), *self._parts())

    @classmethod
    def of(cls, roots: Sequence[Node], results: int, targets: int, is_cut: bool) -> Behind | None:
        """What lies behind the first `results` roots, as far as the next `targets`.

        None where no key says what rules do: with hooks, rules that read what no key can name, a graph that was
        released, targets that are not reached.
        """
        which = slice(results, results + targets)
        ends = roots[which]
        stops = frozenset(ends) if is_cut else frozenset()
        oldest = min([n.number for n in ends]) if is_cut else 0
        past = {n for n in roots[:results] if n.kind.out.requires_grad and n.number >= oldest}
        stack = list(past)
        while stack:
            node = stack.pop()
            if node.kind.released or (type(node) is not Node and not cls.is_known(node)):
                return None
            for i in gradient_inputs(node) if node not in stops else ():
                if i not in past and i.kind.out.requires_grad and i.number >= oldest:
                    past.add(i)
                    stack.append(i)
        if not is_cut and not past.issuperset(ends):
            return None  # of a leaf another version may be meant
        return cls(roots, which, frozenset(past), stops)

    @staticmethod
    def is_known(node: Node) -> bool:
        """Whether a node with room for more has no more than a leaf, or is of a call whose rules a key says all of."""
        return not is_hooked(node) and _has_key(node)

    def is_outside(self, node: Node) -> bool:
        """Whether that an input depends on no target has to be told by its age."""
        return node.kind.out.requires_grad

    def told(self, node: Node) -> Kind | Out:
        """What decides of a node that is given."""
        return node.kind if node.kind.op is CONSTANT else node.kind.out

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """What of a node's inputs rules may read."""
        return () if node.leaf is not None or node not in self.past else node.inputs

    def _parts(self) -> list:
        number, past = self.number, self.past
        leaves: dict[Leaf, int] = {}
        parts: list[Any] = []
        for node in self.order:
            kind = node.kind
            if node not in past:
                parts.append(self.told(node))
            elif type(node) is Node:
                parts.append((kind, *[number[i] for i in node.inputs]))
            elif node.leaf is not None:
                parts.append((kind.out, "leaf", leaves.setdefault(node.leaf, len(leaves))))
            else:
                parts.append((kind, *_told_of_call(node), *[number[i] for i in node.inputs]))
        return parts


class Since(Behind):
    """The same for all that was recorded since some examples were made, whether gradients flow through it or not.

    What is given is older than the examples, or a leaf or constant: so it does not depend on them.
    """

    __slots__ = ()

    @classmethod
    def of(cls, roots: Sequence[Node], results: int, targets: int, is_cut: bool) -> Behind | None:
        """What leads to the first `results` roots from the next `targets`, which are the oldest of it."""
        which = slice(results, results + targets)
        oldest = min([n.number for n in roots[which]])
        past: set[Node] = set()
        stack = list(roots[:results])
        while stack:
            node = stack.pop()
            if node in past or not node.inputs or node.number < oldest:
                continue
            if node.kind.released or node.leaf is not None or (type(node) is not Node and not cls.is_known(node)):
                return None
            past.add(node)
            stack += node.inputs
        return cls(roots, which, frozenset(past), frozenset())

    def is_outside(self, node: Node) -> bool:
        """All but leaves and constants, which depend on nothing, and the examples themselves."""
        return node.kind.op is not LEAF and node.kind.op is not CONSTANT and node not in self.roots

    def told(self, node: Node) -> Kind | Out:
        """Of a leaf that it is one."""
        return node.kind if node.kind.op in (CONSTANT, LEAF) else node.kind.out


def is_hooked(node: Node) -> bool:
    """Whether it has hooks, or those of its leaf, or its gradient is retained."""
    return bool(node.hooks or node.retained is not None or (node.leaf is not None and node.leaf.hooks))


def _told_of_hooks(node: Node) -> tuple[bool, bool, bool]:
    """Of a node with room for more, where hooks are and whether its gradient is retained."""
    return bool(node.hooks), node.retained is not None, node.leaf is not None and bool(node.leaf.hooks)


def _has_key(node: Node) -> bool:
    if node.call is not None:
        return node.call.emission_key() is not None
    return node.slot is not None or (node.body is None and node.flow is None)


def _told_of_call(node: Node) -> tuple[Any, ...]:
    """What decides, beside its inputs, what rules record of a node that may be of a call."""
    call, flow = node.call, node.flow
    flows = None if flow is None else (flow.start, flow.stop)
    return ("rich", None if call is None else call.emission_key(), node.body, flows, node.slot)


class Hooked(Behind):
    """The same with hooks and retained gradients, of which the key says where they are."""

    __slots__ = ("hooked",)

    def __init__(
        self, roots: Sequence[Node], targets: slice, past: frozenset[Node], stops: frozenset[Node]
    ) -> None:
        super().__init__(roots, targets, past, stops)
        self.hooked = [n for n in self.order if n in past and is_hooked(n)]
        self.key = (self.key, tuple([(self.number[n], *_told_of_hooks(n)) for n in self.hooked]))

    @staticmethod
    def is_known(node: Node) -> bool:
        """Whether a key says what the rules of a node with room for more do."""
        return _has_key(node)


#: What is told of a node with room for more that is of no call.
_OF_NO_CALL = ("rich", None, None, None, None)


class ExpectedBehind(Expected):
    """The instructions of a check that accepts what has the key of `behind`.

    stands_for    as a plan has it: what is stored are the nodes that are wanted
    """

    def __init__(self, behind: Behind, stands_for: Any) -> None:
        self.behind = behind
        super().__init__(Recipe(stands_for, behind.order, (), behind.past, behind.roots, (), {}))

    def _write(self) -> None:
        behind = self.behind
        reached = behind.past.union(*[behind.inputs(n) for n in behind.past])
        late = []
        for k, root in enumerate(behind.roots):
            if root in reached:
                self._reach("root", k, root)
            else:
                late.append((k, root))
        self._follow()
        for k, root in late:  # it was not reached, so it must not be now
            if root not in self.bound:
                self.instructions += [("not", k, self.number[n]) for n in behind.order if n in self.bound]
            self._reach("root", k, root)
            self._follow()
        self._tell_targets_apart()
        self._compare_groups()

    def _tell_targets_apart(self) -> None:
        """What looks like a target and was none is none now: else what flows through it is left out."""
        behind = self.behind
        targets = behind.roots[behind.targets]
        for k, target in enumerate(targets, behind.targets.start):
            alike = [n for n in behind.past if n.kind is target.kind and n.leaf is None and n not in targets]
            self.instructions += [("not", k, self.number[n]) for n in alike]

    def _compare(self, node: Node) -> None:
        i, kind = self.number[node], node.kind
        if node not in self.behind.past:
            told = self.behind.told(node)
            self.instructions.append(("is_kind" if type(told) is Kind else "is_out", i, told))
            return
        self.instructions.append(("is_kind", i, kind) if node.leaf is None else ("is_out", i, kind.out))
        if type(node) is not Node:
            self._compare_rich(node, i)
        inputs = self.behind.inputs(node)
        if inputs:
            self._wire(node, inputs)

    def _compare_rich_leaf(self, node: Node, i: int) -> None:
        if not is_hooked(node):
            super()._compare_rich_leaf(node, i)
            return
        self.instructions += [("any_rich", i), ("told", i, (_told_of_hooks, _told_of_hooks(node)))]
        self._compare_leaf(node, i, "owner")

    def _compare_rich(self, node: Node, i: int) -> None:
        if node.leaf is not None or _told_of_call(node) == _OF_NO_CALL:
            super()._compare_rich(node, i)
        else:
            self._compare_rich_leaf(node, i)
            self.instructions.append(("told", i, (_told_of_call, _told_of_call(node))))
