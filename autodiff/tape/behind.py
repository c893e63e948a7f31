"""The nodes between results and what they are differentiated by: all that rules go through, made comparable.

A rule of this library looks at what an operation is, its parameters and what its operands are, never at values; what
that of a custom function looks at beside tensors, its call has a key of.  So what rules record behind a recording is
decided by

    past       the history of the results: kinds and wiring.  With `is_cut` it ends at the targets: what is older than
               all of them does not depend on any
    the rest   inputs of these nodes, and other nodes that are given: by Out alone, whatever they were computed by

`Behind` is the key of that, with canonical numbers as in `walk`.  Machine code says the same as a hash
(`codegen.runtime.recording_behind`): `look` asks it, where it is there.

`emissions` has by these keys what rules recorded (`transforms.emitted`), and what it reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from codegen.records import NamedTuple
from codegen.runtime.cache import LRU

from ..session import owned
from .machine import asks
from .node import CONSTANT, LEAF, Kind, Leaf, Node, Out
from .walk import by_number, gradient_inputs, history

__all__ = ["NOTHING", "Behind", "FoundBehind", "Hooked", "Recorded", "Since", "clear_emissions", "emissions",
           "is_hooked", "look", "remember"]  # fmt: skip

#: The nodes that rules recorded, by the purpose and the history that they went through: as many as there are plans.
emissions: LRU = owned(lambda: LRU(256), lambda table: clear_emissions(table))
#: In the place of what is not in `emissions`.
NOTHING = object()
#: For machine code, purposes by number; so many at most.
_purposes: dict[tuple, int] = {}
_PURPOSES = 1024
_serial = itertools.count(1)


def clear_emissions(table: LRU | None = None) -> None:
    """Forget what rules recorded."""
    (emissions if table is None else table).clear()
    _purposes.clear()


class Recorded:
    """The nodes that rules recorded behind a recording.

    reads    canonical numbers of the nodes that are read
    """

    __slots__ = ("reads",)

    reads: Sequence[int]


class FoundBehind(NamedTuple):
    """The entry of a recording in `emissions`.

    key      what `emissions` has the entry under, where that is not what rules recorded
    entry    what `emissions` has;  NOTHING where it has nothing
    nodes    the nodes that are read by what rules recorded
    """

    key: Any
    entry: Any
    nodes: Sequence[Node] = ()


def look(
    sees: type[Behind], purpose: tuple, roots: Sequence[Node], results: int, targets: int, is_cut: bool
) -> FoundBehind | None:
    """Look up what is known of what lies behind the first `results` roots: see `Behind.of`.

    None where no key says what rules do, and for `Hooked` where there are no hooks.
    """
    native = asks()
    if native is None:
        if sees is Hooked and not any(map(is_hooked, history(roots))):
            return None
        behind = sees.of(roots, results, targets, is_cut)
        return None if behind is None else _found((purpose, behind.key), behind.order)
    number = _purposes.get(purpose)
    if number is None:
        if len(_purposes) >= _PURPOSES:
            _purposes.clear()
        number = _purposes[purpose] = next(_serial)
    found = native.behind_of(tuple(roots), results, targets, is_cut, sees.word, number)
    if found is None:
        return None
    if len(found) == 2:
        return FoundBehind(None, found[0].entry, found[1])
    key, order, calls, _ = found
    if calls:
        keys = tuple([n.call.recorded_key() for n in calls])
        if None in keys:
            return None
        key = (key, keys)
    return _found(key, order)


def _found(key: Any, order: Sequence[Node]) -> FoundBehind:
    entry = emissions.get(key, NOTHING)
    nodes = [order[place] for place in entry.reads] if isinstance(entry, Recorded) else ()
    return FoundBehind(key, entry, nodes)


def remember(key: Any, entry: Any) -> None:
    """Have `emissions` say this of a key of `look`."""
    native = asks()
    if native is not None and type(key) is bytes and isinstance(entry, Recorded):
        entry = native.reads(entry.reads, entry)  # machine code finds it
    emissions.put(key, entry)


class Behind:
    """Nodes that rules go through, and those that are given to them.

    roots      results first, then targets, then others that rules get
    targets    which roots are the targets;  stops: those at which the history ends
    past       the history;  order: all nodes, canonically numbered by `number`
    key        what decides what rules record
    word       what machine code calls it
    """

    __slots__ = ("key", "number", "order", "past", "roots", "stops", "targets")

    word = 0

    def __init__(
        self, roots: Sequence[Node], targets: slice, past: frozenset[Node], stops: frozenset[Node]
    ) -> None:
        self.roots, self.targets, self.past, self.stops = roots, targets, past, stops
        self.number: dict[Node, int] = {}
        number = self.number
        for node in sorted(past, key=by_number):
            for i in self.inputs(node):
                if i not in past and i not in number:
                    number[i] = len(number)
            number[node] = len(number)
        for node in roots:
            number.setdefault(node, len(number))
        self.order = list(number)
        self.key = (tuple([number[r] for r in roots]), *self._parts())

    @classmethod
    def of(cls, roots: Sequence[Node], results: int, targets: int, is_cut: bool) -> Behind | None:
        """The nodes behind the first `results` roots, as far as the next `targets`.

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
        """True if a node with room for more has no more than a leaf, or is of a call whose rules a key says all of."""
        return not is_hooked(node) and _has_key(node)

    def told(self, node: Node) -> Kind | Out:
        """The key of a node that is given."""
        return node.kind if node.kind.op is CONSTANT else node.kind.out

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """The inputs of a node that rules may read."""
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
    """All that was recorded since some examples were made, whether gradients flow through it or not.

    What is given is older than the examples, or a leaf or constant: so it does not depend on them.
    """

    __slots__ = ()

    word = 2

    @classmethod
    def of(cls, roots: Sequence[Node], results: int, targets: int, is_cut: bool) -> Behind | None:
        """The nodes that lead to the first `results` roots from the next `targets`, which are the oldest of it."""
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

    def told(self, node: Node) -> Kind | Out:
        """Of a leaf that it is one."""
        return node.kind if node.kind.op in (CONSTANT, LEAF) else node.kind.out


def is_hooked(node: Node) -> bool:
    """True if it has hooks, or those of its leaf, or its gradient is retained."""
    return bool(node.hooks or node.retained is not None or (node.leaf is not None and node.leaf.hooks))


def _told_of_hooks(node: Node) -> tuple[bool, bool, bool]:
    """Of a node with room for more, where hooks are and whether its gradient is retained."""
    return bool(node.hooks), node.retained is not None, node.leaf is not None and bool(node.leaf.hooks)


def _has_key(node: Node) -> bool:
    if node.call is not None:
        return node.call.recorded_key() is not None
    return node.slot is not None or (node.body is None and node.flow is None)


def _told_of_call(node: Node) -> tuple[Any, ...]:
    """The key of what rules record of a node that may be of a call, its inputs aside."""
    call, flow = node.call, node.flow
    flows = None if flow is None else (flow.start, flow.stop)
    return ("rich", None if call is None else call.recorded_key(), node.body, flows, node.slot)


class Hooked(Behind):
    """Such nodes with hooks and retained gradients, of which the key says where they are."""

    __slots__ = ("hooked",)

    word = 1

    def __init__(
        self, roots: Sequence[Node], targets: slice, past: frozenset[Node], stops: frozenset[Node]
    ) -> None:
        super().__init__(roots, targets, past, stops)
        self.hooked = [n for n in self.order if n in past and is_hooked(n)]
        self.key = (self.key, tuple([(self.number[n], *_told_of_hooks(n)) for n in self.hooked]))

    @staticmethod
    def is_known(node: Node) -> bool:
        """True if a key says what the rules of a node with room for more do."""
        return _has_key(node)
