"""Borrowed objects are not used after Python code has run: their owner may be gone by then.

The blocks of a function and the ways between them are followed until nothing changes: in front of each block stands
which borrowed locals are stale there, on some way that leads to it, and the line that made them so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["refuse_stale"]


def refuse_stale(
    happenings: Mapping[str, Sequence[tuple[str, Any]]],
    ways: Mapping[str, Sequence[str]],
    refuse: Callable[[ast.AST, str], Exception],
) -> None:
    """Raise what `refuse` makes for the first use of a borrowed local after Python code may have run."""
    before: dict[str, dict[str, int]] = {"entry": {}}
    changed = ["entry"]
    while changed:
        block = changed.pop()
        state = dict(before[block])
        for what, about in happenings[block]:
            if what == "set":
                state[about] = 0
            elif what == "python":
                state = {name: line or about for name, line in state.items()}
            elif line := state.get(about.id, 0):
                raise refuse(about, f"{about.id} is borrowed, and line {line} may run Python code: hold it in a local")
        for following in ways[block]:
            old = before.get(following)
            new = {name: (old or {}).get(name, 0) or state.get(name, 0) for name in {*state, *(old or {})}}
            if new != old:
                before[following] = new
                changed.append(following)
