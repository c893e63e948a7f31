"""Numbers that rules look at: those count by value in the rule key, all others are arguments of the graph.

A rule is seen to look while it runs (`watching`).  What was seen is kept by the code of the rule and by the
structure of the call, that is everything about it but numbers; from then on it holds for every such call.  It
only grows: a plan that was made before is not found again under the longer key, and never answers for a value that
its own run has looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..session import namespace

__all__ = ["looked_at", "note_looks"]

#: Structures remembered for one rule before it starts again.
_LIMIT = 256
#: By the identity of a rule's code, which is kept alive here: (code, structure of a call -> numbers looked at).
_looks = namespace("looks")


def _code_of(rule: Any) -> Any:
    return getattr(rule.implementation, "__code__", rule.implementation)


def looked_at(rule: Any, structure: Any) -> tuple[int, ...]:
    """The numbers that count by value in a call of this structure."""
    found = None if rule is None else _looks.get(id(_code_of(rule)))
    return () if found is None else found[1].get(structure, ())


def note_looks(rule: Any, structure: Any, numbers: Collection[int]) -> None:
    """Remember that a rule looked at these numbers of a call."""
    if rule is None or not numbers:
        return
    code = _code_of(rule)
    found = _looks.get(id(code))
    if found is None:
        found = (code, {})
        _looks.put(id(code), found)
    if len(found[1]) >= _LIMIT:
        found[1].clear()
    found[1][structure] = tuple(sorted({*found[1].get(structure, ()), *numbers}))
