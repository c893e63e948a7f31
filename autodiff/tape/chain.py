"""Parts of a recording that follow each other in the same way (`peel`), natively and at once (`chain_ir` of codegen).

Each time round a loop reads what the time before has given, data and leaves.  So once one part has been recognised,
which of the nodes that it reads is which root of the part before it is a *link*; as long as the parts are the same
stretch with the same link, a chain of any length is recognised, run forward, gone back through and settled by one
native call each.  Of a list of values no part reads another: they are *fed* with the roots of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from .natively import native_chain
from .node import Node

if TYPE_CHECKING:
    from .stretch import Code, Stretch

__all__ = ["Chain", "Chained", "link_of"]

#: Of a bar from part to part: as it was, a result, a source, none.
KEPT, FOUND, PASSED, NONE = range(4)
#: Pulls of which is kept how they carry on.
KEPT_PULLS = 8


class Chained:
    """A stretch with a link, as native calls.

    link    per node that it reads outside: which root of the next part it is, -1 for what is the same for all
    is_fed  whether it reads none: of such parts all roots are given to `walk`
    is_fit  whether what is pending outside is given by the part before, or the same for all
    """

    __slots__ = ("_leads", "_made", "_run", "_steady", "is_fed", "is_fit", "link", "settle", "stretch", "walk")

    def __init__(self, stretch: Stretch, link: tuple[int, ...]) -> None:
        self.stretch, self.link = stretch, link
        self.is_fed = all([j < 0 for j in link])
        leads = dict(stretch.leads)
        #: (source, position among the results of the next part, or -1) of what is pending.
        self._leads = [(at, leads.get(link[k], -1) if link[k] >= 0 else -1) for at, k in stretch.waits]
        self.is_fit = all([link[k] < 0 or link[k] in leads for _, k in stretch.waits])
        self._made: dict[Any, Callable] = {}
        self._steady: dict[Any, bool] = {}
        self._run: Callable[[tuple, tuple], tuple] | None = None
        self.walk, self.settle = native_chain().walks(stretch.accepts, stretch.finish, stretch.width, link)

    def run(self, values: tuple, first: tuple, count: int) -> tuple:
        """The results of each part."""
        forward = self.stretch.forward
        if forward is None:
            return ((),) * count
        if self._run is None:
            self._run = native_chain().carries(
                self._words(forward), self.stretch.value_count, self._leads, 0, (), is_back=False
            )
        return self._run(values, first)

    def pull(self, pull: Any) -> Callable[[tuple, tuple, tuple, tuple], tuple]:
        """What carries cotangents through all parts by this pull, whose code is compiled."""
        found = self._made.get(pull)
        if found is None:
            stretch = self.stretch
            found = native_chain().carries(
                self._words(pull.code), stretch.value_count, self._leads, stretch.count - stretch.value_count,
                self._carried(pull), is_back=True,
            )  # fmt: skip
            if len(self._made) >= KEPT_PULLS:
                self._made.clear()
            self._made[pull] = found
        return found

    def _words(self, code: Code) -> tuple[Any, Sequence[int], Sequence[Any]]:
        return code.run.compiled, code.numbers, code.constants

    def _carried(self, pull: Any) -> list[tuple[int, int]]:
        """Per bar, of roots and of what is tracked, where it comes from for the next part."""
        stretch = self.stretch
        given = {k: (FOUND, position) for k, position, _ in pull.computed}
        given |= {k: (PASSED, source) for k, source, _ in pull.passed}
        places = {j: k for k, j in enumerate(self.link) if j >= 0}
        roots = [given.get(places[j], (NONE, 0)) for j in range(stretch.width)]
        return roots + [given.get(k, (KEPT, 0)) if self.is_end(k) else (KEPT, 0) for k in stretch.tracked]

    def is_end(self, k: int) -> bool:
        """Whether what is read in this place is the same for all parts."""
        return self.link[k] < 0

    def is_steady(self, pull: Any, pattern: tuple[int, ...]) -> bool:
        """Whether the next part is pulled through by the same bars as this one, and so all behind it."""
        if self.is_fed:
            return False
        known = self._steady.get(pull)
        if known is None:
            if len(self._steady) >= KEPT_PULLS:
                self._steady.clear()
            known = self._steady[pull] = self._next_pattern(pull, pattern) == pattern
        return known

    def _next_pattern(self, pull: Any, pattern: tuple[int, ...]) -> tuple[int, ...]:
        stretch = self.stretch
        flags = {k: flag for k, _, flag in (*pull.computed, *pull.passed)}
        places = {j: k for k, j in enumerate(self.link) if j >= 0}
        roots = [flags.get(places[j], 0) for j in range(stretch.width)]
        known = zip(stretch.tracked, pattern[stretch.width :], strict=True)
        return (*roots, *[flags.get(k, flag) if self.is_end(k) else 0 for k, flag in known])


class Chain:
    """Parts of one stretch, the latest first, as many as there were: everything of all of them in a row.

    values, stored, outer, past   as the check of one part gives them;   roots: and those of the part behind the last
    parts   how many there are
    """

    __slots__ = ("chained", "freed", "outer", "parts", "past", "roots", "stored", "stretch", "values")

    def __init__(self, chained: Chained, found: tuple) -> None:
        self.chained, self.stretch, self.freed = chained, chained.stretch, chained.stretch.freed
        self.values, self.stored, self.outer, self.past, self.roots = found
        self.parts = len(self.roots) // self.stretch.width - 1

    def part(self, k: int) -> tuple[Stretch, tuple[Node, ...], tuple]:
        """One of the parts: its roots, and what the check gives."""
        values, stored, outer, past = [
            tuple_[k * (n := len(tuple_) // self.parts) : (k + 1) * n]
            for tuple_ in (self.values, self.stored, self.outer, self.past)
        ]
        return self.stretch, self.roots_of(k), (values, stored, (), outer, past, self.freed)

    def roots_of(self, k: int) -> tuple[Node, ...]:
        """The roots of a part; of the one behind the last, what that reads."""
        width = self.stretch.width
        return self.roots[k * width : (k + 1) * width]

    def outer_of(self, k: int) -> tuple[Node, ...]:
        """What a part reads."""
        n = len(self.outer) // self.parts
        return self.outer[k * n : (k + 1) * n]

    def values_of(self, k: int, first: tuple, results: tuple) -> list[Any]:
        """The values that a part reads, with what was pending of them."""
        n = self.stretch.value_count
        values = list(self.values[k * n : (k + 1) * n])
        for (at, position), value in zip(self.chained._leads, first, strict=True):
            values[at] = value if position < 0 or k + 1 == self.parts else results[k + 1][position]
        return values


def link_of(
    stretch: Stretch, outer: Sequence[Node], roots: Sequence[Node], ends: AbstractSet[Node]
) -> tuple[int, ...] | None:
    """How a part reads what the one behind it gives, whose roots these would be; None where it does otherwise."""
    place = {node: j for j, node in enumerate(roots)}
    link = [place.get(node, -1) for node in outer[: stretch.size]]
    if sorted([j for j in link if j >= 0]) != list(range(stretch.width)):
        return None
    return tuple(link) if all([j >= 0 or node in ends for j, node in zip(link, outer, strict=False)]) else None
