"""Running the rules of a backward under watch, for a plan that serves other numbers.

    watches = Watches(past)
    with watches.open():
        gradients = emit(...)          # rules get watched numbers (`custom.watching`)
    watches.keys()                     # what they looked at counts by value from now on
    plan.formulas = watches.formulas(plan.gather)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.lazily import later

from ..tape.leaves import leaf
from ..tape.node import Node
from ..tape.plan import Formulas, source

if TYPE_CHECKING:
    from ..custom import call as calls
    from ..custom import watching as watches
    from ..custom.watching import Watching
else:  # for who has rules of their own
    calls = later("autodiff.custom.call")
    watches = later("autodiff.custom.watching")

__all__ = ["Watches", "watching_at"]


class _Open(threading.local):
    """The watches of the rules that run in this thread, innermost backward last."""

    def __init__(self) -> None:
        self.now: dict[Node, Watching] = {}


_open = _Open()


def watching_at(node: Node) -> Watching | None:
    """The watch on the rule of this boundary; None: it gets plain numbers."""
    return _open.now.get(node)


@contextmanager
def _opened(watching: dict[Node, Watching]) -> Iterator[None]:
    before, _open.now = _open.now, watching
    try:
        yield
    finally:
        _open.now = before
        for w in watching.values():
            w.watch.is_open = False


#: Stands for an input that is computed anew each time, so that a plan holds nobody's arrays.
_NOTHING = leaf(np.zeros(0)).node


class Watches:
    """The watches of all calls in a history, whose keys were asked for just now."""

    def __init__(self, past: Sequence[Node]) -> None:
        #: Calls that read numbers: the structure of each, and its numbers, as they were before its rule ran.
        reading = [n for n in past if n.call is not None and n.call.numbers]
        self._calls = {n: (n.call.structure, list(n.call.numbers)) for n in reading}
        found = [(n, watches.watched(n.call)) for n in self._calls]
        self._by_node = {n: w for n, w in found if w is not None}

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def open(self) -> Any:
        """A context in which rules get watched numbers."""
        return _opened(self._by_node)

    def see_returned(self, gradients: Sequence[Any]) -> None:
        """A gradient that is nothing but what a rule read is no result of the graph: it counts by value."""
        nodes = [source(g.node) for g in gradients if g is not None]
        for w in self._by_node.values():
            for node in nodes:
                if node in w.watch.leaves:
                    w.watch.see(w.watch.leaves[node][0])

    def see_all(self) -> None:
        """Every number counts by value."""
        for w in self._by_node.values():
            w.watch.looked.update(range(len(w.watch.numbers)))

    def keys(self) -> dict[Node, Any]:
        """The keys of the calls, now that it is known what their rules look at: that counts by value from now on."""
        keys = {}
        for node, (structure, numbers) in self._calls.items():
            watching = self._by_node.get(node)
            rule = node.call.rule()
            if rule is not None:
                calls.note_looks(structure, range(len(numbers)) if watching is None else watching.watch.looked)
        for node, (structure, numbers) in self._calls.items():
            keys[node] = calls.key_of(structure, numbers, calls.LOOKS.get(structure, ()))
        return keys

    def looked_at_array(self) -> bool:
        """True if a rule has looked at the contents of an array."""
        return any(type(w.watch.numbers[i]) is np.ndarray for w in self._by_node.values() for i in w.watch.looked)

    def let_go(self, gathered: Sequence[Any]) -> tuple:
        """A plan's inputs without what the rules read: formulas put the present values in their places."""
        mine = {x for w in self._by_node.values() for x in w.watch.leaves}
        return tuple([_NOTHING if isinstance(x, Node) and x in mine else x for x in gathered])

    def formulas(self, gathered: Sequence[Any], number: dict[Node, int]) -> Formulas | None:
        """Formulas of the inputs of a plan for other numbers; None when they do not depend on any."""
        if not self._by_node:
            return None
        return Formulas(gathered, {number[n]: w.watch for n, w in self._by_node.items()}) or None
